"""Contact of ours beside that of other programs: what a second of motion costs, and how wrong its end is.

Programs have models of their own, so the error of each is against the end of its own model, with time steps
that are a quarter of its shortest here: the root of the mean square over points, by the side of the cloth.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from _contact_scenes import SECONDS, SIDE, Scene, drape, fold, our_run
from _racing import Results, Row

HEADINGS = ["scene", "program", "settings", "CPU seconds a second", "error", "least gap", "ratio"]
CELLS, QUICK_CELLS = 30, 12  # of a side
REFINEMENT = 4  # ratio of the steps of the reference to the most of others


@dataclass(frozen=True)
class Program:
    """A program, what its settings are besides steps, and what steps and settings are raced."""

    name: str
    run: Callable[..., tuple[float, np.ndarray]]
    settings: str
    raced: tuple[tuple[Any, ...], ...]
    """The number of steps, and what else it is given: the default first, more accurate ones later."""


@dataclass(frozen=True)
class Outcome:
    """What a program took for a scene, and how near it came."""

    settings: str
    seconds: float
    error: float
    gap: str

    @property
    def accuracy(self) -> str:
        """Settings and error in words."""
        return f"{self.settings}: error {self.error:.2g}"


OURS = Program("pointglue", our_run, ", {}", ((30, "euler"), (30, "bdf2"), (120, "bdf2")))
# Packages with the least major versions that have such contact, and the programs in them.
PEERS = (
    ("mujoco", 4, "MuJoCo", "_contact_mujoco", ", tolerance {:.0e}", ((125, 1e-6), (500, 1e-6))),
    ("newton", 1, "newton's VBD", "_contact_vbd", ", {} iterations", ((125, 10), (500, 10))),
)


def programs() -> tuple[list[Program], list[str], list[str]]:
    """Return ours, then those that are installed, what these are, and notes of those that are not."""
    found, versions, notes = [OURS], [], []
    for package, least, name, module, settings, raced in PEERS:
        if find_spec(package) is None or int(version(package).split(".")[0]) < least:
            notes.append(f"{name} has no rows: {package} {least} or newer is not installed")
            continue
        found.append(Program(name, import_module(module).run, settings, raced))
        versions.append(f"{package} {version(package)}")
    return found, versions, notes


def outcomes(scene: Scene, program: Program, count: int | None) -> list[Outcome]:
    """Race the first settings of a program, the last of these with shorter steps as what is right."""
    raced = program.raced[:count]
    most, *others = raced[-1]
    _, exact = program.run(scene, round(REFINEMENT * most), *others)
    found = []
    for steps, *given in raced:
        seconds, end = program.run(scene, steps, *given)
        error = float(np.sqrt(np.mean(np.sum((end - exact) ** 2, axis=1)))) / SIDE
        words = f"steps of {1e3 * SECONDS / steps:.3g} ms" + program.settings.format(*given)
        found.append(Outcome(words, seconds / SECONDS, error, scene.gap(end)))
    return found


def fair(found: list[Outcome], ours: Outcome) -> Outcome:
    """Return the quickest whose error is at most ours, or the one that comes nearest to its own end."""
    good = [each for each in found if each.error <= ours.error]
    return min(good, key=lambda each: each.seconds) if good else min(found, key=lambda each: each.error)


def measure(quick: bool = False) -> Results:
    """Race all programs over both scenes; ratios are to ours with its first settings."""
    cells = QUICK_CELLS if quick else CELLS
    raced, versions, notes = programs()
    rows, lines = [], []
    for scene in (drape(cells), fold(cells)):
        found = {program.name: outcomes(scene, program, 1 if quick else None) for program in raced}
        ours = found["pointglue"][0]
        for name, several in found.items():
            chosen = fair(several, ours) if name != "pointglue" else None
            if chosen:
                work = f"a second of a cloth of {len(scene.rest)} points that {scene.name}, {ours.accuracy}"
                rows.append(Row(work, ours.seconds, f"{name}, {chosen.accuracy}", chosen.seconds))
            for each in several:
                ratio = f"{each.seconds / ours.seconds:.2g}x" if each is chosen else ""
                numbers = [f"{each.seconds:.2f}", f"{each.error:.2%}", each.gap, ratio]
                lines.append([scene.name, name, each.settings, *numbers])
    notes += [
        f"Cloth of {len(scene.rest)} points, 1 m, {SECONDS} s of motion, without friction",
        "An error is to the end of the same program with steps a quarter as long as its shortest here, the "
        "root of the mean square over points, by the side of the cloth",
        "Ratios are of settings whose error is at most that of our first, or else of the least error, to it",
    ]
    return Results("contact", rows, notes, ", ".join(versions), HEADINGS, lines)
