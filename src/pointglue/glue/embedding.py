"""A detailed mesh carried by a coarse cage: barycentric inside, glue outside, never a negative weight."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import bsr_array

from ..checks import Array, as_reals
from ..errors import InputError
from ..geometry.bvh import TriangleTree
from ..geometry.simplices import check_cells, locate, tet_surface
from ..procrustes import Groups
from ..procrustes.matrices import OnDegenerate, checked_policy
from .binding import Binding, BoundPose, bound_rows, checked_rows, merged_groups
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
        shape = (len(self), self.dimension, self.dimension)
        before = None if previous is None else as_reals("previous", previous)
        if before is not None and before.shape[-3:] != shape:
            raise InputError(
                f"previous must be rotations of shape {shape}, one per target, got {before.shape}"
            )
        poses = tuple(
            part.at(given, previous=None if before is None else before[..., rows, :, :])
            for rows, part in self.parts
        )
        return EmbeddingPose(self, poses)

    def take(self, rows: ArrayLike) -> "Embedding":
        """The embedding of some of the targets alone, by their numbers."""
        chosen = checked_rows(rows, len(self))
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

    @property
    def leading(self) -> tuple[int, ...]:
        """Shape of the poses, () for a single one."""
        return self.poses[0].leading

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the results."""
        return np.result_type(*(pose.dtype for pose in self.poses))

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

    def _pull(self, f: Array, out: Array) -> None:
        for pose, part in zip(self.poses, self._split(f), strict=True):
            pose._pull(part, out)

    def hessian(self, f: ArrayLike) -> bsr_array:
        """(d N, d N)."""
        parts = self._split(self._per_target("f", f))
        shares = [pose.hessian(part) for pose, part in zip(self.poses, parts, strict=True)]
        return sum(shares[1:], start=shares[0])

    def _split(self, f: Array) -> list[Array]:
        return [f[..., rows, :] for rows, _ in self.binding.parts]

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
    fall off smoothly, and close to the cage it hangs on the surface: so a mesh that goes through the
    surface of its cage has no gap there.
    `tolerance` is how far outside, in sizes of the cell, still counts as inside: for rounding.
    """
    try:
        vertices, cells = cage
    except (TypeError, ValueError):
        raise InputError("cage must be a pair (vertices, cells)") from None
    rest, simplices = check_cells(vertices, cells)
    checked_policy(on_degenerate, min_gap)
    if isinstance(parents, bool) or not isinstance(parents, (int, np.integer)) or parents < rest.shape[1]:
        raise InputError(f"parents must be a whole number of at least {rest.shape[1]}, got {parents!r}")
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
        glue = _hung(rest, simplices, targets[rows], parents, on_degenerate, min_gap)
        parts.append((rows, glue))
    return Embedding(len(rest), targets, tuple(parts), inside)


def _hung(
    rest: Array,
    simplices: NDArray[np.int64],
    targets: Array,
    parents: int,
    on_degenerate: OnDegenerate,
    min_gap: float | None,
) -> Glue:
    """Glue that hangs targets close to the cage on places of its surface, to join on to what is inside.

    Each face within reach draws the place towards its own nearest point, the stronger the nearer it is,
    with no bound on the surface itself and fading out at the size of a cell, where ordinary glue is left.
    Faces come and go smoothly: the mesh tears neither at the surface nor in its notches.
    """
    faces = tet_surface(simplices) if simplices.shape[1] == 4 else simplices
    corners = rest[faces]
    edges = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)
    reach = float(edges.max(1).mean())
    near = bind_glue(rest, targets, parents=parents, among=np.unique(simplices), falloff="smooth")
    row, column = near.parents.group_of, near.parents.indices
    target, face, share, distance = TriangleTree(rest, faces).within(targets, reach)
    ratio = np.maximum(distance / reach, 1e-12) ** 2
    pull = ((1 - np.minimum(ratio, 1.0)) / ratio) ** 2
    # Parents are those of the frame and the corners of the faces, if only to hang on.
    count = len(rest)
    corner_place = (np.repeat(target, 3) * count + faces[face].ravel()).astype(np.int64)
    place, where = np.unique(np.concatenate([row * count + column, corner_place]), return_inverse=True)
    weights = np.zeros(len(place))
    weights[where[: len(row)]] = near.weights
    drawn = np.bincount(where[len(row) :], (pull[:, None] * share).ravel(), minlength=len(place))
    total = 1 + np.bincount(target, pull, minlength=len(targets))
    anchor = (weights + drawn) / total[place // count]
    sizes = np.bincount(place // count, minlength=len(targets))
    groups = Groups(np.concatenate([[0], np.cumsum(sizes)]), place % count)
    glue = bind_glue(
        rest, targets, indices=groups, weights=weights, on_degenerate=on_degenerate, min_gap=min_gap
    )
    return replace(glue, anchor=anchor)
