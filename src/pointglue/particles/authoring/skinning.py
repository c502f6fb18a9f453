"""The visual mesh of a body: each vertex follows at most four particles."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...checks import (
    Array,
    as_array,
    as_integers,
    as_reals,
    check_choice,
    check_rotations,
    check_rows,
    require_finite,
)
from ...compute import run
from ...errors import InputError
from ...geometry.inside import Inside
from ...geometry.quaternions import quaternions_of
from . import kernels

__all__ = [
    "Blend",
    "Skin",
    "join_skins",
    "links_of",
    "links_to",
    "rebound",
    "within_groups",
    "without_particles",
]

Blend = Literal["linear", "dual"]

# Particles that a vertex follows at most.
LINKS = 4
# Vertices worth a thread of their own.
GRAIN = 8192


@dataclass(frozen=True, eq=False, init=False)
class Skin:
    """A triangle mesh in the bind pose and the particles that each of its vertices follows.

    Parameters
    ----------
    vertices : (V, 3)
        The vertices in the bind pose [m].
    faces : (m, 3) or (m, 4)
        Triangles, or quads, which are split.
    links : (V, 4)
        The particles that each vertex follows; those of weight 0 have no influence.
    weights : (V, 4)
        Their weights, not negative; each row adds up to 1.

    Raises
    ------
    InputError
        If a shape does not fit, a number is not finite, a face names no vertex, or weights do not add up to
        1.
    """

    vertices: Array
    faces: NDArray[np.int64]
    links: NDArray[np.int32]
    weights: Array

    def __init__(self, vertices: ArrayLike, faces: ArrayLike, links: ArrayLike, weights: ArrayLike) -> None:
        x = np.ascontiguousarray(check_rows("vertices", vertices))
        if not len(x):
            raise InputError("vertices must be at least one, got none")
        count = len(x)
        triangles = _triangles(faces, count)
        given, w = as_array("links", links), as_reals("weights", weights).astype(np.float64)
        for name, array in (("links", given), ("weights", w)):
            if array.shape != (count, LINKS):
                raise InputError(f"{name} must have shape ({count}, {LINKS}), got shape {array.shape}")
        particles = as_integers("links", given.ravel()).reshape(given.shape)
        if particles.min() < 0 or particles.max() > np.iinfo(np.int32).max:
            wrong = particles.min() if particles.min() < 0 else particles.max()
            raise InputError(f"links must be numbers of particles, got {wrong}")
        require_finite("weights", w)
        total = w.sum(1, keepdims=True)
        off = ((w < 0).any(1, keepdims=True) | (np.abs(total - 1) > 1e-6))[:, 0]
        if off.any():
            bad = int(off.argmax())
            raise InputError(f"weights[{bad}] must add up to 1 and not be negative, got {w[bad].tolist()}")
        # Rows that are right but for rounding stay as they are, to the last bit.
        w = np.where(np.abs(total - 1) > 1e-15, w / total, w)
        self._set(vertices=x, faces=triangles, links=particles.astype(np.int32), weights=w)

    def _set(self, **arrays: Array) -> None:
        for name, array in arrays.items():
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @classmethod
    def of(cls, vertices: ArrayLike, faces: ArrayLike, particles: ArrayLike) -> "Skin":
        """Return a mesh linked to the particles nearest to each vertex.

        Distances are measured inside the shape, so that a limb does not follow its neighbour.

        Parameters
        ----------
        vertices : (V, 3)
            The vertices in the bind pose [m].
        faces : (m, 3) or (m, 4)
            Triangles, or quads, which are split.
        particles : (n, 3)
            The particles in the bind pose [m].

        Returns
        -------
        Skin

        Raises
        ------
        InputError
            If a shape does not fit, a number is not finite, or a face names no vertex.
        """
        x = check_rows("vertices", vertices)
        triangles = _triangles(faces, len(x))
        centres = check_rows("particles", particles)
        if not len(centres):
            raise InputError("particles must be at least one, got none")
        inside = Inside(x, triangles)
        skin = cls(x, triangles, *links_to(inside, centres))
        skin.__dict__["inside"] = inside
        return skin

    def relinked(self, links: ArrayLike, weights: ArrayLike) -> "Skin":
        """Return the same mesh with other links (V, 4) and weights (V, 4)."""
        skin = Skin(self.vertices, self.faces, links, weights)
        if "inside" in self.__dict__:  # it knows nothing of links, and takes a while to make
            skin.__dict__["inside"] = self.inside
        return skin

    def moved(self, turn: Array, shift: Array) -> "Skin":
        """Return the mesh with its bind pose multiplied by `turn` (3, 3), then shifted by (3,) [m]."""
        return Skin(self.vertices @ turn.T + shift, self.faces, self.links, self.weights)

    def __len__(self) -> int:
        return len(self.vertices)

    @cached_property
    def inside(self) -> Inside:
        """The shape, for distances within it."""
        return Inside(self.vertices, self.faces)

    @cached_property
    def particles(self) -> int:
        """The least number of particles that a body with this skin has."""
        return int(self.links.max()) + 1

    @cached_property
    def centre(self) -> Array:
        """The centre (3,) of the bounding box, about which vertices are blended to lose no digits [m]."""
        return np.asarray(0.5 * (self.vertices.min(0) + self.vertices.max(0)))

    @cached_property
    def rest_normals(self) -> Array:
        """Unit normals (V, 3) in the bind pose, weighted by area; zero for vertices of no face."""
        corners = self.vertices[self.faces]
        area = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        at = self.faces.ravel()
        total = np.stack([np.bincount(at, np.repeat(a, 3), len(self)) for a in area.T], axis=1)
        length = np.linalg.norm(total, axis=1, keepdims=True)
        return np.asarray(np.divide(total, length, out=np.zeros_like(total), where=length > 0))

    def pose(
        self,
        rotations: ArrayLike,
        translations: ArrayLike,
        *,
        about: ArrayLike | None = None,
        blend: Blend = "linear",
        out: Array | None = None,
    ) -> Array:
        """Return the vertices, blended from the particles' motions x -> R (x - a) + a + t.

        Parameters
        ----------
        rotations : (n, 3, 3)
            R of each particle.
        translations : (n, 3)
            t of each particle [m].
        about : (n, 3), optional
            a of each particle [m], by default the origin: given the particles' bind positions, no digits are
            lost far from the origin.
        blend : {"linear", "dual"}
            Whether matrices are blended, or dual quaternions, which only rotations have: twisted limbs keep
            their girth.
        out : (V, 3), optional
            Takes the result.

        Returns
        -------
        (V, 3)
            The vertices [m].

        Raises
        ------
        InputError
            If a shape does not fit, a number is not finite, or a matrix is no rotation but should be.
        """
        R, t = self._motions(rotations, translations)
        a = np.zeros_like(t) if about is None else check_rows("about", about, count=len(t))
        # From the centre, not the origin: (a - c) + R (c - a) is 0 without rounding if R is the identity.
        arm = a - self.centre
        shift = t + (arm - np.einsum("nij,nj->ni", R, arm))
        result = self._result(out)
        linked = (self.links, self.weights, self.centre, self.vertices, result)
        if check_choice("blend", blend, get_args(Blend)) == "linear":
            run(kernels.linear_points, len(self), GRAIN, _columns(R, shift), *linked)
        else:
            q, half = _quaternions(R), 0.5 * shift
            w, r = q[:, :1], q[:, 1:]
            turned = np.concatenate([-(half * r).sum(1, keepdims=True), w * half + np.cross(half, r)], 1)
            run(kernels.dual_points, len(self), GRAIN, np.concatenate([q, turned], axis=1), *linked)
        return result

    def normals(self, rotations: ArrayLike, *, blend: Blend = "linear", out: Array | None = None) -> Array:
        """Return the unit normals: those of the bind pose, turned as the vertices are.

        Parameters
        ----------
        rotations : (n, 3, 3)
            The rotation of each particle.
        blend : {"linear", "dual"}
            See :meth:`pose`.
        out : (V, 3), optional
            Takes the result.

        Returns
        -------
        (V, 3)
            The normals; zero for vertices of no face.

        Raises
        ------
        InputError
            If a shape does not fit, a number is not finite, or a matrix is no rotation but should be.
        """
        R, _ = self._motions(rotations, None)
        result = self._result(out)
        linked = (self.links, self.weights, self.rest_normals, result)
        if check_choice("blend", blend, get_args(Blend)) == "linear":
            run(kernels.linear_normals, len(self), GRAIN, _columns(R, np.zeros((len(R), 3))), *linked)
        else:
            frames = np.concatenate([_quaternions(R), np.zeros((len(R), 4))], axis=1)
            run(kernels.dual_normals, len(self), GRAIN, frames, *linked)
        return result

    def _motions(self, rotations: ArrayLike, translations: ArrayLike | None) -> tuple[Array, Array]:
        """Return rotations (n, 3, 3) and translations (n, 3) of enough particles, or raise."""
        R = as_reals("rotations", rotations).astype(np.float64)
        if R.ndim != 3 or R.shape[1:] != (3, 3):
            raise InputError(f"rotations must have shape (n, 3, 3), got shape {R.shape}")
        require_finite("rotations", R)
        t = np.zeros((len(R), 3))
        if translations is not None:
            t = check_rows("translations", translations, count=len(R))
        if len(R) < self.particles:
            raise InputError(
                f"rotations are of {len(R)} particles, but the skin is linked to number {self.particles - 1}"
            )
        return R, t

    def _result(self, out: Array | None) -> Array:
        """Return room for a result (V, 3), that given by the caller if it fits, or raise."""
        if out is None:
            return np.empty((len(self), 3))
        if not isinstance(out, np.ndarray) or out.shape != (len(self), 3) or out.dtype != np.float64:
            got = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
            raise InputError(f"out must be an array of float64 and shape ({len(self)}, 3), got {got}")
        if not out.flags.c_contiguous or not out.flags.writeable:
            raise InputError("out must be contiguous and writeable")
        return out


def join_skins(skins: Sequence[Skin | None], particles: Sequence[int]) -> Skin | None:
    """Return all skins as one; their bodies have so many `particles` each, and None adds nothing."""
    first, shift = 0, 0
    parts: list[tuple[Array, Array, Array, Array]] = []
    for skin, count in zip(skins, particles, strict=True):
        if skin is not None:
            parts.append((skin.vertices, skin.faces + first, skin.links + shift, skin.weights))
            first += len(skin)
        shift += count
    return Skin(*(np.concatenate(column) for column in zip(*parts, strict=True))) if parts else None


def links_to(
    inside: Inside, particles: Array, among: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int32], Array]:
    """Return links and weights (V, 4) of the vertices `among` (V,), or of all, to particles (n, 3)."""
    return links_of(*inside.nearest(particles, LINKS + 1, among=among))


def links_of(nearest: NDArray[np.int32], distances: Array) -> tuple[NDArray[np.int32], Array]:
    """Return links (V, 4) and weights (V, 4), (1 - d / r)^2 made to sum to 1, from `Inside.nearest`.

    That must be for a count of five or more. The reach r is the distance of the fifth: a link has faded to
    nothing where another takes its place, so that weights are continuous over the surface. Where there are
    fewer, the reach is as far beyond the last as the first is away.
    """
    nearest, distances = nearest[:, : LINKS + 1], distances[:, : LINKS + 1]
    there = nearest >= 0
    last = np.take_along_axis(distances, there.sum(1, keepdims=True) - 1, axis=1)
    reach = last + np.where(there[:, LINKS:], 0.0, distances[:, :1])
    near, d = there[:, :LINKS], np.where(there, distances, 0.0)[:, :LINKS]
    ratio = np.divide(d, reach, out=np.ones_like(d), where=near & (reach > 0))
    weights = (1 - ratio) ** 2
    # All at one distance: none is nearer.
    tied = weights.sum(1) == 0
    weights[tied] = near[tied]
    links = np.where(near, nearest[:, :LINKS], nearest[:, :1])
    return links, weights / weights.sum(1, keepdims=True)


def rebound(skin: Skin, vertices: NDArray[np.int64], numbers: NDArray[np.int64], positions: Array) -> Skin:
    """Return the skin with `vertices` linked to the particles `numbers` (k,) at `positions` (k, 3)."""
    found, share = links_to(skin.inside, positions, vertices)
    links, weights = skin.links.copy(), skin.weights.copy()
    links[vertices], weights[vertices] = numbers[found], share
    return skin.relinked(links, weights)


def without_particles(
    skin: Skin, gone: NDArray[np.bool_], number: NDArray[np.int64], positions: Array
) -> Skin:
    """Return the skin without the particles `gone` (n,), where the others, at `positions`, are renumbered."""
    left = np.where(gone[skin.links], 0.0, skin.weights)
    total = left.sum(1, keepdims=True)
    lost = np.flatnonzero(total[:, 0] == 0)
    total[lost], left[lost, 0] = 1.0, 1.0
    # Rows that keep all their links keep their weights, to the last bit.
    weights = np.where(gone[skin.links].any(1, keepdims=True), left / total, skin.weights)
    # A link that is gone has no weight, and so may be any.
    heaviest = np.take_along_axis(skin.links, weights.argmax(1)[:, None], axis=1)
    links = number[np.where(gone[skin.links], heaviest, skin.links)]
    links[lost] = 0
    kept = skin.relinked(links, weights)
    return rebound(kept, lost, np.arange(len(positions)), positions) if len(lost) else kept


def within_groups(skin: Skin, groups: Sequence[NDArray[np.int64]], count: int) -> Skin:
    """Return the skin as rigid groups of its `count` particles move it.

    A particle that several groups share, as those of a hinge, turns with one of them, or with none. A vertex
    whose particles are all of one group, some of them of no other, follows these alone: it moves as rigidly
    as they do, and the hinge has no lip.
    """
    uses = np.zeros(count, np.int64)
    for group in groups:
        uses[group] += 1
    shared = uses > 1
    if not shared.any():
        return skin
    followed, weights = skin.weights > 0, skin.weights.copy()
    for group in groups:
        if not shared[group].any():
            continue
        members = np.zeros(count, np.bool_)
        members[group] = True
        own = (members & ~shared)[skin.links] & followed
        rows = np.flatnonzero((members[skin.links] | ~followed).all(1) & own.any(1))
        kept = np.where(own[rows], skin.weights[rows], 0.0)
        weights[rows] = kept / kept.sum(1, keepdims=True)
    return skin.relinked(skin.links, weights)


def _columns(R: Array, t: Array) -> Array:
    """Return the frames (n, 16) of linear blending: see `kernels`."""
    frames = np.zeros((len(R), 4, 4))
    frames[:, :3, :3], frames[:, 3, :3] = np.swapaxes(R, 1, 2), t
    return frames.reshape(-1, 16)


def _quaternions(R: Array) -> Array:
    """Return the quaternions (n, 4) of matrices (n, 3, 3), or raise if one of these is no rotation."""
    with np.errstate(over="ignore", invalid="ignore"):
        check_rotations("rotations", R)
        return quaternions_of(R)


def _triangles(faces: ArrayLike, count: int) -> NDArray[np.int64]:
    """Return faces (m, 3), quads (m, 4) split, or raise."""
    given = as_array("faces", faces)
    if given.ndim != 2 or given.shape[1] not in (3, 4) or not len(given):
        raise InputError(f"faces must have shape (m, 3) or (m, 4) with m at least 1, got shape {given.shape}")
    corners = as_integers("faces", given.ravel()).reshape(given.shape)
    if corners.min() < 0 or corners.max() >= count:
        wrong = corners.min() if corners.min() < 0 else corners.max()
        raise InputError(f"faces must index the {count} vertices, got {wrong}")
    return corners if given.shape[1] == 3 else corners[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)
