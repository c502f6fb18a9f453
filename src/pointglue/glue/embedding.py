"""Detailed meshes that follow a coarse cage: barycentric inside, glue outside, never a negative weight."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import bsr_array

from ..checks import Array, as_reals, check_integer
from ..errors import InputError
from ..geometry.bvh import TriangleTree
from ..geometry.simplices import check_cells, locate, tet_surface, tets_of_hexahedra
from ..procrustes import Groups
from ..procrustes.matrices import OnDegenerate, checked_policy
from .binding import Binding, BoundPose, bound_rows, check_targets, merged_groups
from .glue import Glue
from .gluing import bind_glue
from .linear import linear_from_rows

__all__ = ["Embedding", "EmbeddingPose", "embed"]


@dataclass(frozen=True, eq=False)
class Embedding(Binding):
    """An embedding of points in a cage, bound part by part, made by :func:`embed`.

    Attributes
    ----------
    point_count : int
        N, the number of vertices of the cage.
    targets : (T, d)
        Rest positions of the bound points [m].
    parts : tuple of pairs
        The targets that each part binds, by their numbers, and the binding.
    inside : (T,)
        Whether the point is inside a cell of the cage and moves with its weights (bool).
    """

    point_count: int
    targets: Array
    parts: tuple[tuple[NDArray[np.int64], Binding], ...]
    inside: Array

    @cached_property
    def parents(self) -> Groups:
        """The parents of each target, rows of x."""
        return merged_groups([(rows, part.parents) for rows, part in self.parts])

    @cached_property
    def entries_of_parts(self) -> list[NDArray[np.int64]]:
        """Where the entries of each part stand among those of `parents`."""
        return [self.parents.take(rows)[1] for rows, _ in self.parts]

    def at(self, x: ArrayLike, *, previous: ArrayLike | None = None) -> "EmbeddingPose":
        """Return the embedding with its cage at x; see :meth:`Binding.at`."""
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
        """Return the embedding of some of the targets alone, by their numbers."""
        chosen = check_targets(rows, len(self))
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
        """The shape of the poses, () for a single one."""
        return self.poses[0].leading

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the results."""
        return np.result_type(*(pose.dtype for pose in self.poses))

    @cached_property
    def positions(self) -> Array:
        """Where the bound points are (T, d)."""
        return self._merged([pose.positions for pose in self.poses], 1)

    @cached_property
    def rotations(self) -> Array:
        """The rotation of the frame of each bound point from rest (T, d, d)."""
        return self._merged([pose.rotations for pose in self.poses], 2)

    @cached_property
    def degenerate(self) -> Array:
        """Whether the parents leave a frame undetermined (T,), bool."""
        return self._merged([pose.degenerate for pose in self.poses], 0)

    @cached_property
    def blocks(self) -> Array:
        """The blocks d position / d parent (E, d, d), in the order of the entries of `binding.parents`."""
        d = self.binding.dimension
        return self._by_entry([pose.blocks for pose in self.poses], (d, d))

    @cached_property
    def reach(self) -> Array:
        """The largest singular value of each of the blocks (E,)."""
        return self._by_entry([pose.reach for pose in self.poses], ())

    def velocities(self, v: ArrayLike) -> Array:
        """Return the velocities J v of the bound points (T, d)."""
        return self._merged([pose.velocities(v) for pose in self.poses], 1)

    def accelerations(self, v: ArrayLike, a: ArrayLike) -> Array:
        """Return the accelerations J a + D2[v, v] of the bound points (T, d)."""
        return self._merged([pose.accelerations(v, a) for pose in self.poses], 1)

    def add_transferred_forces(self, f: Array, out: Array) -> None:
        """Add J^T f to `out` (N, d), of forces that have been checked."""
        for pose, part in zip(self.poses, self._split(f), strict=True):
            pose.add_transferred_forces(part, out)

    def hessian(self, f: ArrayLike) -> bsr_array:
        """Return the second derivative of sum f . positions (d N, d N)."""
        parts = self._split(self._per_target("f", f))
        shares = [pose.hessian(part) for pose, part in zip(self.poses, parts, strict=True)]
        return sum(shares[1:], start=shares[0])

    def _split(self, f: Array) -> list[Array]:
        return [f[..., rows, :] for rows, _ in self.binding.parts]

    def _merged(self, values: list[Array], rank: int) -> Array:
        """Return the results of the parts, an item of `rank` axes per target, in the order of targets."""
        leading, tail = values[0].shape[: values[0].ndim - rank - 1], values[0].shape[values[0].ndim - rank :]
        merged = np.empty((*leading, len(self.binding), *tail), dtype=np.result_type(*values))
        for (rows, _), value in zip(self.binding.parts, values, strict=True):
            np.moveaxis(merged, -rank - 1, 0)[rows] = np.moveaxis(value, -rank - 1, 0)
        return merged

    def _by_entry(self, values: list[Array], tail: tuple[int, ...]) -> Array:
        merged = np.empty((len(self.binding.parents.indices), *tail))
        for entries, value in zip(self.binding.entries_of_parts, values, strict=True):
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
    """Let points follow a cage of tetrahedra, hexahedra or triangles.

    A point inside a cell moves with its barycentric weights (in hexahedra, trilinear ones), none of them
    negative; a point outside
    (for triangles in space: off the surface) is glued to the nearest vertices, whose weights fall off
    smoothly, and close to the cage it is attached to the surface: so a mesh that goes through the
    surface of its cage has no gap there.

    Parameters
    ----------
    cage : tuple
        Vertices (N, d) [m] and cells: tetrahedra (m, 4), hexahedra (m, 8) or triangles (m, 3).
    points : (T, d)
        Rest positions of the points to bind [m].
    parents : int
        How many vertices a point outside is glued to.
    tolerance : float
        How far outside still counts as inside, in sizes of the cell: for rounding.
    on_degenerate : {"raise", "clamp"}
    min_gap : float, optional
        What happens when parents collapse later on, as in :func:`~pointglue.fit_rigid`.

    Returns
    -------
    Embedding
        The binding of the T points to the N vertices of the cage.

    Raises
    ------
    InputError
        If the arguments do not go together.
    """
    try:
        vertices, cells = cage
    except (TypeError, ValueError):
        raise InputError("cage must be a pair (vertices, cells)") from None
    rest, simplices = check_cells(vertices, cells, solids=(8, 4))
    checked_policy(on_degenerate, min_gap)
    parents = check_integer("parents", parents, at_least=rest.shape[1])
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
        glue = _surface_glue(rest, simplices, targets[rows], parents, on_degenerate, min_gap)
        parts.append((rows, glue))
    return Embedding(len(rest), targets, tuple(parts), inside)


def _surface_glue(
    rest: Array,
    simplices: NDArray[np.int64],
    targets: Array,
    parents: int,
    on_degenerate: OnDegenerate,
    min_gap: float | None,
) -> Glue:
    """Return glue that attaches targets close to the cage to points of its surface, to join on to the inside.

    Each face within reach pulls the anchor towards its own nearest point, the stronger the nearer it is,
    with no bound on the surface itself and fading out at the size of a cell, where ordinary glue is left.
    Faces come and go smoothly: the mesh tears neither at the surface nor in its notches.
    """
    if simplices.shape[1] == 8:
        faces = tet_surface(tets_of_hexahedra(simplices))
    else:
        faces = tet_surface(simplices) if simplices.shape[1] == 4 else simplices
    corners = rest[faces]
    edges = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)
    reach = float(edges.max(1).mean())
    near = bind_glue(rest, targets, parents=parents, among=np.unique(simplices), falloff="smooth")
    row, column = near.parents.group_of, near.parents.indices
    target, face, share, distance = TriangleTree(rest, faces).within(targets, reach)
    ratio = np.maximum(distance / reach, 1e-12) ** 2
    pull = ((1 - np.minimum(ratio, 1.0)) / ratio) ** 2
    # Parents are those of the frame and the corners of the faces, if only for the anchor.
    count = len(rest)
    corner_place = (np.repeat(target, 3) * count + faces[face].ravel()).astype(np.int64)
    place, where = np.unique(np.concatenate([row * count + column, corner_place]), return_inverse=True)
    weights = np.zeros(len(place))
    weights[where[: len(row)]] = near.weights
    pulled = np.bincount(where[len(row) :], (pull[:, None] * share).ravel(), minlength=len(place))
    total = 1 + np.bincount(target, pull, minlength=len(targets))
    anchor = (weights + pulled) / total[place // count]
    sizes = np.bincount(place // count, minlength=len(targets))
    groups = Groups(np.concatenate([[0], np.cumsum(sizes)]), place % count)
    glue = bind_glue(
        rest, targets, indices=groups, weights=weights, on_degenerate=on_degenerate, min_gap=min_gap
    )
    return replace(glue, anchor=anchor)
