"""The deformer of a mesh with handles, and the motion of its handles, built from its table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...checks import Array
from ...deform import HandleDeformer
from ...errors import InputError
from ..schema import scene as schema
from ..tracks import Track
from .meshing import Surface

__all__ = ["KeyedHandles", "handle_deformer"]


@dataclass(frozen=True, eq=False)
class KeyedHandles:
    """Handles that move from key to key."""

    rest: Array
    """(H, 3), the handles at rest [m]."""
    tracks: Mapping[int, Track]
    """The tracks of those that move, by the number of the handle."""
    oriented: bool
    """Whether any handle has a radius, and so an orientation."""

    @classmethod
    def from_table(cls, table: schema.HandlesObject, frames: schema.Frames) -> "KeyedHandles":
        """Read the handles of a table; raise InputError for keys that are no motion."""
        rest = np.array([handle.at for handle in table.handles.values()]).reshape(-1, 3)
        tracks = {}
        for k, (name, handle) in enumerate(table.handles.items()):
            if handle.keys:
                try:
                    tracks[k] = Track(handle.keys, frames, table.ease, rest[k])
                except InputError as error:
                    raise InputError(f"keys of the handle {name!r}: {error}") from None
        return cls(rest, tracks, any(handle.radius for handle in table.handles.values()))

    def at(self, time: float) -> tuple[Array, Array | None]:
        """Return the handles (H, 3) [m] at a time [s] and their rotations (H, 3, 3), None if not oriented."""
        handles = self.rest.copy()
        turns = np.tile(np.eye(3), (len(handles), 1, 1))
        for k, track in self.tracks.items():
            turn, shift = track.at(time)
            handles[k], turns[k] = turn @ handles[k] + shift, turn
        return handles, turns if self.oriented else None


def handle_deformer(
    table: schema.HandlesObject, surface: Surface, rest: Array, distance: Any = None
) -> HandleDeformer:
    """Return the deformer of a table, with its surface and handles (H, 3) at rest [m].

    `distance` (H, V) are distances of the vertices from the handles that are known already [m].
    """
    radii = [handle.radius for handle in table.handles.values()]
    return HandleDeformer(
        (surface.vertices, surface.faces),
        rest,
        falloff=table.falloff,
        stretch=table.stretch,
        damping=table.damping,
        distance=table.distance if distance is None else distance,
        radii=radii if any(radii) else None,
    )
