"""The motions of animated meshes: models that move by themselves, and numbered sequences of files."""

import re
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path

from ...assets.registry import ASSETS
from ...checks import Array
from ...errors import InputError
from ..schema import scene as schema
from ..schema.shapes import FromFile, ModelShape
from ..tracks import placed

__all__ = ["motion_of", "sequence"]

MOST_NAMED = 3  # missing files that an error names
REMEDY = 'what does not move is a collider, or of kind "rigid" with fixed = true'


def motion_of(
    table: schema.AnimatedObject, start: Array, folder: Path, frames: schema.Frames
) -> Callable[[float], Array]:
    """Return the motion of an animated mesh.

    Parameters
    ----------
    table : AnimatedObject
        The table of the object.
    start : (n, 3)
        Where the vertices are in the first frame [m].
    folder : Path
        The folder that file names are relative to.
    frames : Frames
        The frames of the scene: a sequence has a file for each.

    Returns
    -------
    callable
        A function from the time [s] to the positions of the vertices (n, 3) [m].

    Raises
    ------
    InputError
        If the mesh does not move, or the files of a sequence do not go together.
    """
    mesh, transform = table.mesh, table.transform
    if isinstance(mesh, ModelShape) and mesh.asset.motion is not None:
        pose = mesh.asset.motion(**mesh.parameters)
        return lambda time: placed(pose(time), transform)
    if not isinstance(mesh, FromFile):
        moving = " or a ".join(name for name, asset in ASSETS.items() if asset.motion is not None)
        raise InputError(f"mesh must be a {moving} or a numbered sequence of files, got a {mesh.shape}")
    from ...geometry.meshes.mesh_files import read_mesh  # not before it is needed: it takes a while to load

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
        If the file has no number, is the only one, or some of those between it and the last are missing.
    """
    found = re.fullmatch(r"(.*?)(\d+)", first.stem)
    if found is None:
        raise InputError(
            'mesh.file must be the first of a numbered sequence, walk_0001.obj say, for kind = "animated", '
            f"got {first.name!r}, which has no number: {REMEDY}"
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
            f"mesh.file must be the first of several files, but none follows {first.name!r}: {REMEDY}"
        )
    missing = numbers[-1] - start + 1 - len(numbers)
    if missing:
        there = set(numbers)
        lost = islice((number for number in count(start) if number not in there), min(missing, MOST_NAMED))
        names = ", ".join(map(numbered, lost)) + (
            f" and {missing - MOST_NAMED:,} more" * (missing > MOST_NAMED)
        )
        raise InputError(
            f"mesh.file must be the first of a sequence without gaps, but {names} "
            f"{'is' if missing == 1 else 'are'} missing between {first.name} and {numbered(numbers[-1])}: "
            "export the sequence again, or remove what comes after the gap"
        )
    return [first.with_name(numbered(number)) for number in numbers]
