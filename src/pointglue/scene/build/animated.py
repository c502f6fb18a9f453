"""Meshes that come with a motion of their own."""

import re
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path

from ...checks import Array
from ...errors import InputError
from ..schema import fields as tables
from ..schema import scene as schema
from .surfaces import placed, torso_of

__all__ = ["motion_of", "sequence"]

NAMED = 3  # missing files that an error names
STILL = 'what does not move is a collider, or of kind "rigid" with fixed = true'


def motion_of(
    table: schema.AnimatedObject, start: Array, folder: Path, frames: schema.Frames
) -> Callable[[float], Array]:
    """Where the vertices (n, 3) are at a time (s), those that are at `start` in the first frame."""
    mesh, transform = table.mesh, table.transform
    if isinstance(mesh, tables.TorsoShape):
        torso = torso_of(mesh.detail)
        return lambda time: placed(torso.pose(time), transform)
    if not isinstance(mesh, tables.FromFile):
        raise InputError(f"mesh must be a torso or a numbered sequence of files, got a {mesh.shape}")
    from ...io.meshes import read_mesh  # not before it is needed: it takes a while to load

    poses = [start]
    for path in sequence(folder / mesh.file)[1:]:
        vertices = read_mesh(path).vertices
        if len(vertices) != len(start):
            raise InputError(
                f"{path} must have {len(start)} vertices, as many as the first of its sequence, "
                f"got {len(vertices)}"
            )
        poses.append(placed(vertices, transform))
    last = len(poses) - 1

    def motion(time: float) -> Array:
        at = min(max(time * frames.rate, 0.0), float(last))
        k = int(at)
        return poses[k] + (at - k) * (poses[min(k + 1, last)] - poses[k])

    return motion


def sequence(first: Path) -> list[Path]:
    """Return a numbered file and those that follow it: walk_0001.obj, walk_0002.obj...

    Raises
    ------
    InputError
        The file has no number, is the only one, or some of those between it and the last are missing.
    """
    found = re.fullmatch(r"(.*?)(\d+)", first.stem)
    if found is None:
        raise InputError(
            'mesh.file must be the first of a numbered sequence, walk_0001.obj say, for kind = "animated", '
            f"got {first.name!r}, which has no number: {STILL}"
        )
    start, width = int(found[2]), len(found[2])

    def numbered(number: int) -> str:
        return f"{found[1]}{number:0{width}}{first.suffix}"

    pattern = re.compile(rf"{re.escape(found[1])}(\d+){re.escape(first.suffix)}")
    numbers = sorted(
        number
        for path in first.parent.iterdir()
        if (match := pattern.fullmatch(path.name))
        and (number := int(match[1])) >= start
        and numbered(number) == path.name
    )
    if len(numbers) < 2:
        raise InputError(
            f"mesh.file must be the first of several files, but none follows {first.name!r}: {STILL}"
        )
    missing = numbers[-1] - start + 1 - len(numbers)
    if missing:
        there = set(numbers)
        lost = islice((number for number in count(start) if number not in there), min(missing, NAMED))
        names = ", ".join(map(numbered, lost)) + (f" and {missing - NAMED:,} more" * (missing > NAMED))
        raise InputError(
            f"mesh.file must be the first of a sequence without gaps, but {names} "
            f"{'is' if missing == 1 else 'are'} missing between {first.name} and {numbered(numbers[-1])}: "
            "export the sequence again, or remove what comes after the gap"
        )
    return [first.with_name(numbered(number)) for number in numbers]
