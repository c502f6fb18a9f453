"""Meshes that come with a motion of their own."""

import re
from collections.abc import Callable
from pathlib import Path

from ..checks import Array
from ..errors import InputError
from ..geometry import models
from ..io import read_mesh
from . import schema, tables
from .geometry import placed

__all__ = ["motion_of", "sequence"]


def motion_of(
    table: schema.AnimatedObject, start: Array, folder: Path, frames: schema.Frames
) -> Callable[[float], Array]:
    """Where the vertices (n, 3) are at a time (s), those that are at `start` in the first frame."""
    mesh, transform = table.mesh, table.transform
    if isinstance(mesh, tables.TorsoShape):
        torso = models.torso(mesh.detail)
        return lambda time: placed(torso.pose(time), transform)
    if not isinstance(mesh, tables.FromFile):
        raise InputError(f"mesh must be a torso or a numbered sequence of files, got a {mesh.shape}")
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
    """A numbered file, and those that follow it: walk_0001.obj, walk_0002.obj..."""
    found = re.fullmatch(r"(.*?)(\d+)", first.stem)
    paths = [first]
    while found is not None:
        number = int(found[2]) + len(paths)
        path = first.with_name(f"{found[1]}{number:0{len(found[2])}}{first.suffix}")
        if not path.is_file():
            break
        paths.append(path)
    return paths
