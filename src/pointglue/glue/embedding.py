"""A detailed mesh carried by a coarse cage: barycentric inside, glue outside, never a negative weight."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import bsr_array

from ..checks import Array, as_integers
from ..errors import InputError
from ..geometry.simplices import check_cells, locate, tet_surface
from ..geometry.trees import TriangleTree
from ..procrustes import Groups
from ..procrustes.matrices import OnDegenerate
from .binding import Binding, BoundPose, bound_rows, merged_groups
from .glue import Glue, bind_glue
from .linear import linear_from_rows

__all__ = ["Embedding", "EmbeddingPose", "embed"]


@dataclass(frozen=True, eq=False)
class Embedding(Binding):
    """Points bound part by part, each part in its own way. Made by :func:`embed`."""

    point_count: int
    targets: Array
    parts: tuple[tuple[NDArray[np.int64], Binding], ...]
    """The targets that each part binds, by their numbers, and how."""
    inside: Array
    """(T,) bool: the point is inside a cell of the cage and moves with its weights."""

    @cached_property
    def parents(self) -> Groups:
        """The parents of each target, rows of x."""
        return merged_groups([(rows, part.parents) for rows, part in self.parts])

    @cached_property
    def _entries(self) -> list[NDArray[np.int64]]:
        """Where the entries of each part stand among those of `parents`."""
        return [self.parents.take(rows)[1] for rows, _ in self.parts]

    def at(self, x: ArrayLike, *, previous: ArrayLike | None = None) -> "EmbeddingPose":
        """The embedding with its cage at x; `previous` rotations (T, d, d) settle free spin."""
        given = bound_rows("x", x, self.point_count, self.dimension, "parent")
        before = None if previous is None else np.asarray(previous)
        poses = tuple(
            part.at(given, previous=None if before is None else before[..., rows, :, :])
            for rows, part in self.parts
        )
        return EmbeddingPose(self, poses)

    def take(self, rows: ArrayLike) -> "Embedding":
        """The embedding of some of the targets alone, by their numbers."""
        chosen = as_integers("rows", rows)
        where = np.full(len(self), -1)
        parts = []
        for numbers, part in self.parts:
            where[:] = -1
            where[numbers] = np.arange(len(numbers))
            mine = np.flatnonzero(where[chosen] >= 0)
            if len(mine):
                parts.append((mine, part.take(where[chosen[mine]])))
        return Embedding(self.point_count, self.targets[chosen], tuple(parts), self.inside[chosen])


@dataclass(frozen=True, eq=False)
class EmbeddingPose(BoundPose):
    """An embedding with its cage at given positions; see :class:`Binding` for what each name means."""

    binding: Embedding
    poses: tuple[BoundPose, ...]

    @cached_property
    def positions(self) -> Array:
        """(T, d)."""
        return self._merged([pose.positions for pose in self.poses], 1)

    @cached_property
    def rotations(self) -> Array:
        """How the frame of each bound point is turned from rest (T, d, d)."""
        return self._merged([pose.rotations for pose in self.poses], 2)

    @cached_property
    def degenerate(self) -> Array:
        """(T,) bool: frames that the parents do not determine."""
        return self._merged([pose.degenerate for pose in self.poses], 0)

    @cached_property
    def blocks(self) -> Array:
        """d position / d parent (E, d, d), in the order of the entries of `binding.parents`."""
        d = self.binding.dimension
        return self._by_entry([pose.blocks for pose in self.poses], (d, d))

    @cached_property
    def reach(self) -> Array:
        """Largest singular value of each of the blocks (E,)."""
        return self._by_entry([pose.reach for pose in self.poses], ())

    def velocities(self, v: ArrayLike) -> Array:
        """J v (T, d)."""
        return self._merged([pose.velocities(v) for pose in self.poses], 1)

    def accelerations(self, v: ArrayLike, a: ArrayLike) -> Array:
        """J a + D2[v, v] (T, d)."""
        return self._merged([pose.accelerations(v, a) for pose in self.poses], 1)

    def transfer_forces(self, f: ArrayLike) -> Array:
        """J^T f (N, d)."""
        shares = [pose.transfer_forces(part) for pose, part in zip(self.poses, self._split(f), strict=True)]
        return np.asarray(sum(shares[1:], start=shares[0]))

    def hessian(self, f: ArrayLike) -> bsr_array:
        """(d N, d N)."""
        shares = [pose.hessian(part) for pose, part in zip(self.poses, self._split(f), strict=True)]
        return sum(shares[1:], start=shares[0])

    def _split(self, f: ArrayLike) -> list[Array]:
        given = bound_rows("f", f, len(self.binding), self.binding.dimension, "target")
        return [given[..., rows, :] for rows, _ in self.binding.parts]

    def _merged(self, values: list[Array], rank: int) -> Array:
        """Results of the parts, one item of `rank` axes per target, in the order of the targets."""
        leading, tail = values[0].shape[: values[0].ndim - rank - 1], values[0].shape[values[0].ndim - rank :]
        merged = np.empty((*leading, len(self.binding), *tail), dtype=np.result_type(*values))
        for (rows, _), value in zip(self.binding.parts, values, strict=True):
            np.moveaxis(merged, -rank - 1, 0)[rows] = np.moveaxis(value, -rank - 1, 0)
        return merged

    def _by_entry(self, values: list[Array], tail: tuple[int, ...]) -> Array:
        merged = np.empty((len(self.binding.parents.indices), *tail))
        for entries, value in zip(self.binding._entries, values, strict=True):
            merged[entries] = value
        return merged


def embed(
    cage: tuple[ArrayLike, ArrayLike],
    points: ArrayLike,
    *,
    parents: int = 24,
    tolerance: float = 1e-9,
    on_degenerate: OnDegenerate = "raise",
    min_gap: float | None = None,
) -> Embedding:
    """Let points (T, d) follow a cage, its vertices (N, d) and cells: tetrahedra (m, 4) or triangles (m, 3).

    A point inside a cell moves with its barycentric weights, none of them negative; a point outside
    (for triangles in space: off the surface) is glued to the `parents` nearest vertices, whose weights
    fall off smoothly, and close to the cage it hangs on the nearest point of it: so a mesh that goes
    through the surface of its cage has no gap there.
    `tolerance` is how far outside, in sizes of the cell, still counts as inside: for rounding.
    """
    try:
        vertices, cells = cage
    except (TypeError, ValueError):
        raise InputError("cage must be a pair (vertices, cells)") from None
    rest, simplices = check_cells(vertices, cells)
    found, weights = locate(rest, simplices, points, tolerance=tolerance)
    targets = np.array(points, dtype=np.float64)
    if not len(targets):
        raise InputError("points must hold at least one point")
    inside = found >= 0
    parts: list[tuple[NDArray[np.int64], Binding]] = []
    rows = np.flatnonzero(inside)
    if len(rows):
        parts.append((rows, linear_from_rows(rest, targets[rows], simplices[found[rows]], weights[rows])))
    rows = np.flatnonzero(~inside)
    if len(rows):
        glue = _hung(rest, simplices, targets[rows], parents)
        parts.append((rows, replace(glue, on_degenerate=on_degenerate, min_gap=min_gap)))
    return Embedding(len(rest), targets, tuple(parts), inside)


def _hung(rest: Array, simplices: NDArray[np.int64], targets: Array, parents: int) -> Glue:
    """Glue that hangs targets near the cage on its nearest point, so that they join on to what is inside.

    Farther away, by up to the size of the cells, that fades into ordinary glue: nearest points jump from
    one side of a notch to the other, and the mesh must not tear there.
    """
    faces = tet_surface(simplices) if simplices.shape[1] == 4 else simplices
    face, share, distance = TriangleTree(rest, faces).closest(targets)
    corners = rest[faces[face]]
    size = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(1)
    fade = np.maximum(1 - (distance / size) ** 2, 0.0) ** 2
    near = bind_glue(rest, targets, parents=parents, among=np.unique(simplices), falloff="smooth")
    # The corners of the nearest face are parents too, if only to hang on.
    row, column = near.parents.group_of, near.parents.indices
    corner_row, corner = np.repeat(np.arange(len(targets)), 3), faces[face].ravel()
    count = len(rest)
    place, where = np.unique(
        np.concatenate([row * count + column, corner_row * count + corner]), return_inverse=True
    )
    weights, anchor = np.zeros(len(place)), np.zeros(len(place))
    weights[where[: len(row)]] = near.weights
    anchor[where[len(row) :]] = share.ravel()
    anchor = weights + fade[place // count] * (anchor - weights)
    sizes = np.bincount(place // count, minlength=len(targets))
    groups = Groups(np.concatenate([[0], np.cumsum(sizes)]), place % count)
    return replace(bind_glue(rest, targets, indices=groups, weights=weights), anchor=anchor)
