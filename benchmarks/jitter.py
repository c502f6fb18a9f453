"""Run scenes of implicit solids again and again, each time from a start that is off by a micrometre.

Every run has to converge. Examples have to hold all that they assert besides, and of demos the first frames
are run, in which most of what happens begins.

pointglue bench jitter [--quick], or only some: python benchmarks/jitter.py EXAMPLE ... DEMO ...
"""

import contextlib
import io
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from _racing import Results, example

from pointglue.elastic import ImplicitSolver
from pointglue.errors import PointglueWarning
from pointglue.glue import BodyFrames
from pointglue.scene import build_scene, demo_path, load_scene

EXAMPLES = ("tree", "implicit_jelly", "soft_chain", "glue_in_solver", "cloth_with_buttons")
# Examples that take minutes, of which contact is the larger part.
LONG_EXAMPLES = ("shirt", "pile", "embedded_on_stairs", "car_through_tree")
# The frames of each demo with implicit solids: all, or as many as ten runs take some minutes for.
DEMOS = {
    "cloth_with_buttons": 40,
    "crank_and_slider": 119,
    "donkey_on_stairs": 16,
    "glue_against_linear": 35,
    "goo": 10,
    "jelly": 59,
    "napkin": 36,
    "pile": 12,
    "shirt": 8,
    "soft_chain": 143,
    "tree": 60,
    "truck_through_tree": 20,
    "young_tree": 95,
}
NOISE = 1e-6  # m and m/s


class Shaken:
    """Starts of all solvers with noise on all that is free to move."""

    def __init__(self, seed):
        self.rng, self.exact, self.solvers = np.random.default_rng(seed), ImplicitSolver.start, 0

    def __call__(self, solver):
        state, scene = self.exact(solver), solver.model
        self.solvers += 1

        def noisy(values, free):
            return values + NOISE * free[:, None] * self.rng.standard_normal(values.shape)

        points, bodies = ~scene.pinned, ~scene.fixed
        origins, linear = (noisy(each, bodies) for each in (state.origins, state.origin_velocities))
        # What is glued goes with what it is glued to; joints are open, and close in the first step.
        pose = scene.assembly(state.pending, scene.rest).at(
            noisy(state.particles, points), BodyFrames(origins, state.rotations)
        )
        return replace(
            state,
            particles=pose.positions,
            particle_velocities=pose.velocities(
                noisy(state.particle_velocities, points), np.hstack([linear, state.spins])
            ),
            origins=origins,
            origin_velocities=linear,
        )


def run_example(name):
    """Run an example."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        example(name)["main"](Path(folder) / "picture.png", None)


def run_demo(name):
    """Run the first frames of a demo."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PointglueWarning)
        simulation = build_scene(load_scene(demo_path(name)))
    state = simulation.start()
    for _ in range(DEMOS[name]):
        state = simulation.advance(state)


def shaken_run(run, name, seed):
    """Run an example or a demo from a start with noise."""
    shaken = Shaken(seed)

    def start(solver):  # a function, which becomes a method, as an object that can be called does not
        return shaken(solver)

    ImplicitSolver.start = start
    try:
        run(name)
    finally:
        ImplicitSolver.start = shaken.exact
    assert shaken.solvers, f"{name} starts no implicit solver"


def chosen(names):
    """Return what runs each of the scenes, and its name; a name may be that of an example and of a demo."""
    known = [(run_example, name) for name in EXAMPLES + LONG_EXAMPLES] + [(run_demo, name) for name in DEMOS]
    unknown = set(names) - {name for _, name in known}
    if unknown:
        raise SystemExit(f"no example or demo with implicit solids: {', '.join(sorted(unknown))}")
    return [pair for pair in known if pair[1] in names]


def measure(quick=False, scenes=(*EXAMPLES, *DEMOS)):
    """Run the scenes; `quick` is twice each, otherwise ten times."""
    runs, failed, cells = 2 if quick else 10, 0, []
    for run, name in chosen(scenes):
        kind = "example" if run is run_example else "demo"
        begin, bad = time.process_time(), 0
        for seed in range(runs):
            try:
                shaken_run(run, name, seed)
            except Exception as error:
                bad += 1
                line = traceback.extract_tb(error.__traceback__)[-1].line
                print(f"{name}, seed {seed}: {type(error).__name__}: {error} ({line})", flush=True)
        failed += bad
        what = kind if kind == "example" else f"demo, {DEMOS[name]} frames"
        cells.append([name, what, f"{runs - bad} of {runs}", f"{time.process_time() - begin:.0f} s"])
        print(*cells[-1], flush=True)
    if failed:
        raise SystemExit(f"{failed} runs failed")
    headings = ("scene", "kind", "converged", "processor time")
    return Results("jitter", [], headings=headings, cells=cells)


if __name__ == "__main__":
    named = [word for word in sys.argv[1:] if not word.startswith("--")]
    measure(quick="--quick" in sys.argv, **({"scenes": named} if named else {}))
