"""Drag point handles and the mesh follows, as rigidly as it can: moving least squares."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Array, as_array, as_integers, as_reals, require_finite
from ..compute import run
from ..errors import InputError
from ..procrustes import matrices
from ..procrustes.rotation import BLOCK, DEGENERATE
from ..procrustes.space import (
    axial_vectors,
    cross_matrices,
    matrices_to_space,
    moments_to_space,
    vectors_to_space,
)
from . import kernels
from .distances import CacheFolder, inside_distances

__all__ = ["Distance", "HandleDeformer", "HandlePose"]

Distance = Literal["euclidean", "inside"]

# Vertices worth a thread of their own, and those whose gradients are added up in one go.
GRAIN_BLOCKS = 16
PART_BLOCKS = 64
MOST_SWEEPS = 200
# Handles are on a line if they are within about a millionth of its length: moments keep 16 digits here,
# so that a rotation is still known to 2e-4 there.
MIN_GAP = 1e-12
# Beyond this, squares of lengths overflow.
LARGEST = 1e100
# A handle farther away than this many sizes of the shape is a mistake of units.
FAR = 100.0


class HandleDeformer:
    """A shape that follows point handles, each vertex by the best rigid motion of the handles near it.

    The shape is an array of points (V, d), a pair (vertices, faces) or a trimesh; `handles` (H, d) are
    places on, in or about it. A handle's weight on a vertex is ``weights / distance^(2 falloff)``:
    a larger fall-off makes its influence more local. A vertex on a handle goes exactly where that goes.

    `distance` is "inside", measured through the inside of a mesh and along its surface, so that a
    handle on one leg leaves the other alone; "euclidean"; or your own array (H, V). By default, "inside"
    where there are faces. `cache` is a folder that keeps distances from one run to the next.

    `stretch` lets vertices scale, by factors within [1 - stretch, 1 / (1 - stretch)]: 0 is rigid, 1 any
    similarity. `damping` holds rotations back towards those of the previous frame.

    Handles with `radii` carry an orientation, as solid balls of that radius would: pass `rotations` with
    their positions. One or two such handles are enough for a well-defined deformation; without, the
    rotation that one or two points (or points on a line) leave open is the smallest, or that nearest to
    the previous frame's.
    """

    def __init__(
        self,
        shape: Any,
        handles: ArrayLike,
        *,
        falloff: float = 1.0,
        distance: Distance | ArrayLike | None = None,
        stretch: float = 0.0,
        damping: float = 0.0,
        weights: ArrayLike | None = None,
        radii: ArrayLike | None = None,
        cache: CacheFolder = None,
        progress: bool = False,
    ) -> None:
        self.points, self.faces = _shape(shape)
        self.handles = _handles(handles, self.points)
        for given in (self.points, self.handles):
            given.flags.writeable = False  # what follows from them is worked out once
        self.falloff = _number("falloff", falloff, 0.0, np.inf)
        self.stretch = _number("stretch", stretch, -1e-300, 1.0 + 1e-12)
        self.damping = _number("damping", damping, -1e-300, np.inf)
        importance = _per_handle("weights", 1.0 if weights is None else weights, len(self.handles))
        if not (importance > 0).all():
            raise InputError(f"weights must be positive, got {importance.min()}")
        radius = _per_handle("radii", 0.0 if radii is None else radii, len(self.handles))
        if (radius < 0).any():
            raise InputError(f"radii must not be negative, got {radius.min()}")
        self.distances = self._distances(distance, cache, progress)
        """Distance of each vertex from each handle (H, V), or None if Euclidean."""
        self._weigh(importance, radius**2 / (self.dimension + 2))

    def _distances(self, distance: Any, cache: CacheFolder, progress: bool) -> Array | None:
        if distance is None:
            distance = "inside" if self.faces is not None and self.dimension == 3 else "euclidean"
        if isinstance(distance, str):
            if distance == "euclidean":
                return None
            if distance != "inside":
                raise InputError(f"distance must be 'inside', 'euclidean' or an array, got {distance!r}")
            if self.faces is None or self.dimension != 3:
                raise InputError(
                    "distance='inside' needs a mesh in space: pass (vertices, faces) or a trimesh, or "
                    "choose distance='euclidean'"
                )
            return inside_distances(self.points, self.faces, self.handles, cache=cache, progress=progress)
        given = as_reals("distance", distance).astype(np.float64)
        expected = (len(self.handles), len(self.points))
        if given.shape != expected:
            raise InputError(f"distance must have shape {expected}, handles by vertices, got {given.shape}")
        require_finite("distance", given)
        if (given < 0).any() or (given > LARGEST).any():
            raise InputError(
                f"distance must not be negative or too large, got {given.min()} to {given.max()}"
            )
        if ((given**2 == 0).sum(0) > 1).any():
            raise InputError("distance must not be 0 from one vertex to two handles")
        return given

    def _weigh(self, importance: Array, orientation: Array) -> None:
        """Everything that depends on the rest shape alone; see `kernels` for the symbols."""
        count, handles = len(self.points), len(self.handles)
        self._blocks = -(-count // BLOCK)
        self._W = np.zeros((self._blocks, handles, BLOCK))
        self._heads = np.empty(count, np.int64)
        self._light, self._e = np.empty(count), np.empty((count, 3))
        spread, self._inverse_others = np.empty(count), np.empty(count)
        points, self._p = vectors_to_space(self.points), vectors_to_space(self.handles)
        distance = np.empty((0, 0)) if self.distances is None else self.distances
        run(
            kernels.weigh,
            self._blocks,
            GRAIN_BLOCKS,
            points,
            self._p,
            self.falloff,
            importance,
            distance,
            self._W,
            self._heads,
            self._light,
            self._e,
            spread,
            self._inverse_others,
        )
        self._arms = points - (self._p[self._heads] + self._light[:, None] * self._e)
        self._orientation = orientation if orientation.any() else None
        # Where the head carries an orientation, moments are over the sum of all weights, else without it.
        carried = orientation[self._heads] > 0
        self._factor = np.where(carried, self._light, 1.0)
        self._own = np.where(carried, 1.0 - self._light, 0.0)
        self._trace = self._factor * spread
        if self._orientation is not None:
            others = np.zeros((self._blocks, BLOCK))
            for i in range(handles):  # not a product of matrices, which sums a row by where it stands
                others += self._W[:, i] * orientation[i]
            others = others.reshape(-1)[:count]
            own = self._own * orientation[self._heads]
            self._trace += self.dimension * (self._factor * others + own)
        # Bounded, since far handles of high fall-off have weights beyond any number.
        self._damp = self.damping * self._factor * np.minimum(self._inverse_others, 1e150)

    @property
    def dimension(self) -> int:
        """2 or 3."""
        return int(self.points.shape[1])

    @property
    def scale_limits(self) -> tuple[float, float]:
        """The factors that `stretch` allows."""
        s = min(self.stretch, 1.0)
        return 1.0 - s, 1.0 / (1.0 - s) if s < 1.0 else np.inf

    def at(
        self, handles_now: ArrayLike, *, rotations: ArrayLike | None = None, previous: ArrayLike | None = None
    ) -> "HandlePose":
        """The deformation for handles at `handles_now` (H, d), turned by `rotations` (H, d, d) from rest.

        `previous` are the rotations of the vertices in the frame before (V, d, d), its ``pose.rotations``.
        """
        q, Z = self._targets("handles_now", handles_now), self._orientations(rotations)
        before = self._previous(previous)
        A, shift = self._moments(q, Z)
        R, scale, degenerate = self._solve(A, before, np.arange(len(A)))
        for result in (R, scale):
            result.flags.writeable = False  # the derivatives are of these
        return HandlePose(self, q, A, shift, before, R, scale, degenerate)

    def deform(
        self,
        handles_now: ArrayLike,
        *,
        rotations: ArrayLike | None = None,
        previous: ArrayLike | None = None,
        out: Array | None = None,
    ) -> Array:
        """Where the vertices are (V, d). `out`, contiguous float64, takes the result."""
        shape = (len(self.points), self.dimension)
        matrices.check_out(out, shape, np.dtype(np.float64))
        if self.damping > 0:
            posed = self.at(handles_now, rotations=rotations, previous=previous).positions
            if out is None:
                return posed
            out[...] = posed
            return out
        q, Z = self._targets("handles_now", handles_now), self._orientations(rotations)
        before = self._previous(previous)
        in_place = out is not None and self.dimension == 3
        posed = out if in_place and out is not None else np.empty((len(self.points), 3))
        status = np.empty(len(posed), np.uint8)
        low, high = self.scale_limits
        run(
            kernels.deform,
            self._blocks,
            GRAIN_BLOCKS,
            *self._layout,
            q,
            Z,
            self._factor,
            self._own,
            self._arms,
            self._trace,
            low,
            high,
            self.dimension == 2,
            matrices.least_d(MIN_GAP),
            posed,
            status,
        )
        self._settle(np.flatnonzero(status), q, Z, before, posed)
        if in_place and out is not None:
            return out
        result = np.ascontiguousarray(posed[:, : self.dimension])
        if out is None:
            return result
        out[...] = result
        return out

    def _settle(self, rows: NDArray[np.int64], q: Array, Z: Array, before: Array, posed: Array) -> None:
        """Positions of the vertices whose rotation the fast kernel left open."""
        if not len(rows):
            return
        which = np.unique(rows // BLOCK)
        A, shift = self._moments(q, Z, which)
        places = np.searchsorted(which, rows // BLOCK) * BLOCK + rows % BLOCK
        R, scale, _ = self._solve(A[places], before if len(before) == 1 else before[rows], rows)
        posed[rows] = self._placed(R, scale, q, shift[places], rows)

    def jvp(
        self,
        handles_now: ArrayLike,
        d_handles: ArrayLike,
        *,
        rotations: ArrayLike | None = None,
        previous: ArrayLike | None = None,
    ) -> Array:
        """Rates of the vertices (V, d) when the handles move at rates `d_handles` (H, d).

        Exact where the handles determine the rotation; a spin that they leave open is held.
        """
        return self.at(handles_now, rotations=rotations, previous=previous).jvp(d_handles)

    def vjp(
        self,
        handles_now: ArrayLike,
        g: ArrayLike,
        *,
        rotations: ArrayLike | None = None,
        previous: ArrayLike | None = None,
    ) -> Array:
        """Gradient by the handles (H, d), given that by the vertices g (V, d): the transpose of `jvp`."""
        return self.at(handles_now, rotations=rotations, previous=previous).vjp(g)

    @property
    def _layout(self) -> tuple[Array, ...]:
        return self._W, self._heads, self._light, self._e, self._p

    def _moments(self, q: Array, Z: Array, which: NDArray[np.int64] | None = None) -> tuple[Array, Array]:
        """A (n, 9) and q* - q_h (n, 3) of all vertices, or of the (padded) blocks `which`."""
        blocks = np.arange(self._blocks) if which is None else which
        A, shift = np.zeros((BLOCK * len(blocks), 9)), np.zeros((BLOCK * len(blocks), 3))
        run(
            kernels.moments, len(blocks), GRAIN_BLOCKS, blocks, *self._layout, q, Z,
            self._factor, self._own, A, shift,
        )  # fmt: skip
        return (A[: len(self.points)], shift[: len(self.points)]) if which is None else (A, shift)

    def _solve(self, A: Array, before: Array, rows: NDArray[np.int64]) -> tuple[Array, Array, Array]:
        """Rotations (n, 9), scales (n,) and which are degenerate, for the moments of the vertices `rows`."""
        low, high = self.scale_limits
        damp, trace = self._damp[rows, None], self._trace[rows]
        previous = np.broadcast_to(before, A.shape)
        R, status = self._nearest(A + damp * previous, previous)
        scale = np.ones(len(A))
        if low == high:
            return R, scale, status == DEGENERATE

        def best_scale(R: Array, some: Any) -> Array:
            turned = np.einsum("nj,nj->n", R, A[some])
            ratio = np.divide(turned, trace[some], out=np.ones_like(turned), where=trace[some] > 0)
            return np.asarray(np.clip(ratio, low, high))

        scale = best_scale(R, slice(None))
        # With damping, rotation and scale depend on each other: one after the other until both stay.
        open_rows = np.flatnonzero(self._damp[rows] > 0) if self.damping > 0 else np.empty(0, np.int64)
        for _ in range(MOST_SWEEPS):
            if not len(open_rows):
                break
            old = scale[open_rows]
            some = previous[open_rows]
            R[open_rows], status[open_rows] = self._nearest(
                old[:, None] * A[open_rows] + damp[open_rows] * some, some
            )
            scale[open_rows] = best_scale(R[open_rows], open_rows)
            open_rows = open_rows[np.abs(scale[open_rows] - old) > 1e-15]
        return R, scale, status == DEGENERATE

    def _nearest(self, B: Array, previous: Array) -> tuple[Array, Array]:
        return matrices.nearest_rotations(self.in_plane(B), np.ascontiguousarray(previous), MIN_GAP)

    def in_plane(self, B: Array) -> Array:
        """Moments whose rotation stays in the plane, if this is a deformation of the plane."""
        if self.dimension == 2:
            B = moments_to_space(B.reshape(-1, 3, 3)[:, :2, :2]).reshape(-1, 9)
        return np.ascontiguousarray(B)

    def _placed(self, R: Array, scale: Array, q: Array, shift: Array, rows: Any) -> Array:
        """q* + scale R arm (n, 3)."""
        turned = np.einsum("nij,nj->ni", R.reshape(-1, 3, 3), self._arms[rows])
        return np.asarray(scale[:, None] * turned + q[self._heads[rows]] + shift)

    def _targets(self, name: str, value: ArrayLike) -> Array:
        given = as_reals(name, value).astype(np.float64)
        if given.shape != self.handles.shape:
            raise InputError(
                f"{name} must have shape {self.handles.shape}, one row per handle, got {given.shape}"
            )
        _check_size(name, given)
        return np.ascontiguousarray(vectors_to_space(given))

    def _orientations(self, rotations: ArrayLike | None) -> Array:
        """Z (H, 9): the rotations that handles carry, weighted; none if no handle has a radius."""
        if self._orientation is None:
            if rotations is not None:
                raise InputError("rotations are for handles with radii, and none has one")
            return np.empty((0, 9))
        count, d = len(self.handles), self.dimension
        full = np.zeros((count, 3, 3))
        full[:, :d, :d] = np.eye(d)
        if rotations is not None:
            given = as_reals("rotations", rotations)
            if given.shape != (count, d, d):
                raise InputError(f"rotations must have shape {(count, d, d)}, got shape {given.shape}")
            check_rotations("rotations", given)
            full[:, :d, :d] = given
        return np.ascontiguousarray((self._orientation[:, None, None] * full).reshape(count, 9))

    def _previous(self, previous: ArrayLike | None) -> Array:
        """Rotations of the frame before, (V, 9), or the identity (1, 9)."""
        if previous is None:
            return np.eye(3).reshape(1, 9)
        count, d = len(self.points), self.dimension
        given = as_reals("previous", previous)
        if given.shape != (count, d, d):
            raise InputError(
                f"previous must have shape {(count, d, d)}, a rotation per vertex, got {given.shape}"
            )
        check_rotations("previous", given)
        return matrices_to_space(given.astype(np.float64), zz=1.0).reshape(count, 9)


@dataclass(frozen=True, eq=False)
class HandlePose:
    """A deformation for handles at given places: positions, rotations and derivatives of the vertices."""

    deformer: HandleDeformer
    _q: Array
    _A: Array
    _shift: Array
    _before: Array
    _R: Array
    _scale: Array
    degenerate: Array
    """(V,) bool: the handles leave the rotation of this vertex open."""

    @cached_property
    def positions(self) -> Array:
        """(V, d)."""
        placed = self.deformer._placed(self._R, self._scale, self._q, self._shift, slice(None))
        result = np.ascontiguousarray(placed[:, : self.deformer.dimension])
        result.flags.writeable = False
        return result

    @property
    def rotations(self) -> Array:
        """(V, d, d), to be the `previous` of the next frame."""
        d = self.deformer.dimension
        return self._R.reshape(-1, 3, 3)[:, :d, :d]

    @property
    def scales(self) -> Array:
        """(V,)."""
        return self._scale

    def normals(self, rest_normals: ArrayLike) -> Array:
        """Normals of the vertices (V, d), turned along."""
        given = as_reals("rest_normals", rest_normals)
        if given.shape != self.deformer.points.shape:
            raise InputError(f"rest_normals must have shape {self.deformer.points.shape}, got {given.shape}")
        require_finite("rest_normals", given)
        return np.asarray(np.einsum("nij,nj->ni", self.rotations, given))

    @cached_property
    def _free(self) -> Array:
        """Vertices whose scale is not held at a limit (V,)."""
        low, high = self.deformer.scale_limits
        return (self._scale > low) & (self._scale < high) & (self.deformer._trace > 0)

    @cached_property
    def _compliance(self) -> Array:
        """G (V, 3, 3) of the matrix that the rotation is nearest to."""
        B = self._scale[:, None] * self._A + self.deformer._damp[:, None] * self._before
        G = matrices.spin_compliances(self._R, self.deformer.in_plane(B), MIN_GAP)
        return G.reshape(-1, 3, 3)

    @cached_property
    def _coupling(self) -> tuple[Array, Array]:
        """How scale and spin of a damped vertex pull at each other: a (V, 3), and trace - a . G a (V,)."""
        a = (
            axial_vectors(_body(self._R, self._A))
            if self.deformer.damping > 0
            else np.zeros((len(self._R), 3))
        )
        own = self.deformer._trace - np.einsum("ni,nij,nj->n", a, self._compliance, a)
        return a, own

    def jvp(self, d_handles: ArrayLike) -> Array:
        """Rates of the vertices (V, d) when the handles move at rates `d_handles` (H, d)."""
        deformer = self.deformer
        rates = deformer._targets("d_handles", d_handles)
        still = np.zeros((0 if deformer._orientation is None else len(rates), 9))
        dA, d_shift = deformer._moments(rates, still)
        M = _body(self._R, dA)
        spin, growth = self._respond(self._scale[:, None] * axial_vectors(M), np.einsum("nii->n", M))
        R, arm = self._R.reshape(-1, 3, 3), deformer._arms
        change = growth[:, None] * arm + self._scale[:, None] * np.cross(spin, arm)
        moved = np.einsum("nij,nj->ni", R, change) + rates[deformer._heads] + d_shift
        return np.asarray(moved[:, : deformer.dimension])

    def vjp(self, g: ArrayLike) -> Array:
        """Gradient by the handles (H, d), given that by the vertices g (V, d): the transpose of `jvp`."""
        deformer = self.deformer
        given = as_reals("g", g).astype(np.float64)
        if given.shape != deformer.points.shape:
            raise InputError(
                f"g must have shape {deformer.points.shape}, one row per vertex, got {given.shape}"
            )
        require_finite("g", given)
        by_vertex = np.ascontiguousarray(vectors_to_space(given))
        R, arm = self._R.reshape(-1, 3, 3), deformer._arms
        pulled = np.einsum("nji,nj->ni", R, by_vertex)
        spin, growth = self._respond(
            self._scale[:, None] * np.cross(arm, pulled), np.einsum("ni,ni->n", arm, pulled)
        )
        # The covector of A: scale R [spin]x + growth R, in the measure of the moments.
        B = growth[:, None, None] * np.eye(3) + self._scale[:, None, None] * cross_matrices(spin)
        gA = (deformer._factor[:, None, None] * (R @ B)).reshape(-1, 9)
        parts = -(-deformer._blocks // PART_BLOCKS)
        sums = np.empty((parts, len(self._q), 3))
        run(kernels.gather, parts, 1, PART_BLOCKS, *deformer._layout, gA, by_vertex, sums)
        return np.asarray(sums.sum(0)[:, : deformer.dimension])

    def _respond(self, torque: Array, push: Array) -> tuple[Array, Array]:
        """Spin (V, 3) and growth of the scale (V,) that balance a torque and a push; symmetric."""
        a, own = self._coupling
        G = self._compliance
        growth = np.zeros(len(push))
        free = self._free
        if free.any():
            pulled = push + np.einsum("ni,nij,nj->n", a, G, torque)
            np.divide(pulled, own, out=growth, where=free)
        return np.einsum("nij,nj->ni", G, torque + growth[:, None] * a), growth


def _body(R: Array, M: Array) -> Array:
    """R^T M (n, 3, 3) of rows of nine."""
    return np.asarray(np.swapaxes(R.reshape(-1, 3, 3), 1, 2) @ M.reshape(-1, 3, 3))


def check_rotations(name: str, given: Array) -> None:
    """Raise unless every one of (n, d, d) is a rotation."""
    require_finite(name, given)
    off = np.abs(np.swapaxes(given, 1, 2) @ given - np.eye(given.shape[-1])).max((1, 2))
    bad = (off > 1e-6) | (np.linalg.det(given) < 0)
    if bad.any():
        k = int(bad.argmax())
        raise InputError(f"{name}[{k}] is no rotation: {given[k].tolist()}")


def _shape(shape: Any) -> tuple[Array, NDArray[np.int64] | None]:
    """Vertices and, if there are any, triangles."""
    faces: Any = None
    if hasattr(shape, "vertices"):
        points, faces = shape.vertices, getattr(shape, "faces", None)
    elif isinstance(shape, tuple) and len(shape) == 2 and (shape[1] is None or np.ndim(shape[0]) == 2):
        points, faces = shape
    else:
        points = shape
    try:
        vertices = np.array(as_reals("shape", points), dtype=np.float64)
    except InputError:
        raise InputError(
            f"shape must be points (n, 3), a tuple (vertices, faces) or a trimesh.Trimesh, "
            f"got {type(shape).__name__}"
        ) from None
    if vertices.ndim != 2 or vertices.shape[1] not in (2, 3) or not len(vertices):
        raise InputError(f"shape must hold points (n, 3) or (n, 2), at least one, got shape {vertices.shape}")
    _check_size("shape", vertices)
    if faces is None:
        return vertices, None
    cells = as_array("faces", faces)
    if not cells.size:
        return vertices, None
    if cells.ndim != 2 or cells.shape[1] != 3:
        raise InputError(f"faces must be triangles (m, 3), got shape {cells.shape}")
    flat = as_integers("faces", cells.ravel())
    if flat.min() < 0 or flat.max() >= len(vertices):
        raise InputError(f"faces must index the {len(vertices)} vertices, got {flat.min()} to {flat.max()}")
    return vertices, flat.reshape(-1, 3)


def _check_size(name: str, given: Array) -> None:
    require_finite(name, given)
    if np.abs(given).max(initial=0.0) > LARGEST:
        raise InputError(f"{name} must be numbers that can be squared, got {np.abs(given).max():.1e}")


def _handles(handles: ArrayLike, points: Array) -> Array:
    given = np.array(as_reals("handles", handles), dtype=np.float64)
    if given.ndim != 2 or given.shape[1] != points.shape[1] or not len(given):
        raise InputError(
            f"handles must have shape (H, {points.shape[1]}), at least one, got shape {given.shape}"
        )
    _check_size("handles", given)
    low, high = points.min(0), points.max(0)
    size = float(np.linalg.norm(high - low)) or 1.0
    away = np.linalg.norm(given - np.clip(given, low, high), axis=1)
    if away.max() > FAR * size:
        k = int(away.argmax())
        raise InputError(
            f"handle {k} at {given[k].tolist()} is {away[k] / size:.0f} times the shape's size away from it"
        )
    order = np.lexsort(given.T)
    same = (np.diff(given[order], axis=0) == 0).all(1)
    if same.any():
        k = int(np.flatnonzero(same)[0])
        a, b = sorted((int(order[k]), int(order[k + 1])))
        raise InputError(f"handles {a} and {b} coincide at {given[a].tolist()}: leave one of them out")
    return given


def _number(name: str, value: float, low: float, high: float) -> float:
    number = as_array(name, value)
    if number.ndim != 0 or number.dtype.kind not in "iuf" or not low < number < high:
        limits = f"above {max(low, 0):g}" if low >= 0 else "at least 0"
        raise InputError(
            f"{name} must be a number {limits}{' and at most 1' if high < 2 else ''}, got {value!r}"
        )
    return float(number)


def _per_handle(name: str, value: ArrayLike, count: int) -> Array:
    given = as_reals(name, value).astype(np.float64)
    if given.shape not in ((), (count,)):
        raise InputError(
            f"{name} must be one number, or one for each of {count} handles, got shape {given.shape}"
        )
    _check_size(name, given)
    return np.ascontiguousarray(np.broadcast_to(given, (count,)))
