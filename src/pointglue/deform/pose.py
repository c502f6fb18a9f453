"""The pose of a deformation for given handles: where the vertices are, how they turn, and derivatives."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Array, as_reals, require_finite
from ..errors import InputError
from ..procrustes import matrices
from ..procrustes.space import axial_vectors, cross_matrices, vectors_to_space
from .inputs import check_magnitude
from .kernels import HandlePlaces
from .vertex_fits import MIN_GAP, PlaneFrames, VertexFits

__all__ = ["HandlePose", "check_handle_rows", "check_vertex_rows"]


@dataclass(frozen=True, eq=False)
class HandlePose:
    """A deformation for handles at given places: positions, rotations and derivatives of the vertices.

    It comes from :meth:`HandleDeformer.at`. Derivatives are exact where the handles determine the rotation;
    a spin that they leave open is held. Rows are those of space also for a deformation of the plane, with
    z = 0, where an attribute says so.

    Attributes
    ----------
    fits : VertexFits
        What depends on the rest shape alone.
    handles_now : (H, 3)
        Where the handles are, in space [m].
    moments : (V, 9)
        The weighted moment A of the handles about each vertex, in space, row by row [m^2].
    shift : (V, 3)
        The weighted centroid of the handles from the heaviest one, in space [m].
    previous : (V, 9) or (1, 9)
        The rotations of the previous frame, in space, row by row.
    R : (V, 9)
        The rotations of the vertices, in space, row by row.
    scales : (V,)
        The factor by which each vertex is stretched; 1 for a rigid deformation.
    degenerate : (V,)
        Whether the handles leave the rotation of a vertex open.
    rest : (V, d)
        The vertices at rest [m].
    faces : (m, 3) or None
        The triangles.
    plane : tuple of (3, 3) and (3, 3), or None
        Frames of the plane at rest and now of a flat shape in space that stays flat: axes and normal, as
        columns.
    """

    fits: VertexFits
    handles_now: Array
    moments: Array
    shift: Array
    previous: Array
    R: Array
    scales: Array
    degenerate: Array
    rest: Array
    faces: NDArray[np.int64] | None = None
    plane: PlaneFrames | None = None

    @property
    def _dimension(self) -> int:
        return self.fits.dimension

    @cached_property
    def positions(self) -> Array:
        """Where the vertices are (V, d) [m]."""
        placed = self.fits.positions(self.R, self.scales, self.handles_now, self.shift)
        result = np.ascontiguousarray(placed[:, : self._dimension])
        result.flags.writeable = False
        return result

    @cached_property
    def flipped(self) -> NDArray[np.int64]:
        """The triangles (k,) that are turned over: they face away from where their corners' rotations point.

        A mesh without such triangles has no folds that its handles did not ask for.
        """
        if self.faces is None:
            return np.empty(0, np.int64)
        rest, now = (
            np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
            for corners in (vectors_to_space(x)[self.faces] for x in (self.rest, self.positions))
        )
        turned = np.einsum("mcij,mj->mi", self.R.reshape(-1, 3, 3)[self.faces], rest)
        return np.flatnonzero(np.einsum("mi,mi->m", turned, now) < 0)

    @property
    def rotations(self) -> Array:
        """The rotations of the vertices (V, d, d), to be the `previous` of the next frame."""
        return self.R.reshape(-1, 3, 3)[:, : self._dimension, : self._dimension]

    def normals(self, rest_normals: ArrayLike) -> Array:
        """Turn normals of the vertices along.

        Parameters
        ----------
        rest_normals : (V, d)
            Normals at rest.

        Returns
        -------
        (V, d)

        Raises
        ------
        InputError
            If there is not one finite row per vertex.
        """
        given = as_reals("rest_normals", rest_normals)
        check_vertex_rows("rest_normals", given, self.fits)
        return np.asarray(np.einsum("nij,nj->ni", self.rotations, given))

    def jvp(self, d_handles: ArrayLike) -> Array:
        """Return the rates of the vertices when the handles move.

        Parameters
        ----------
        d_handles : (H, d)
            Rates of the handles [m/s].

        Returns
        -------
        (V, d)
            Rates of the vertices [m/s].

        Raises
        ------
        InputError
            If there is not one finite row per handle.
        """
        fits = self.fits
        rates = check_handle_rows("d_handles", d_handles, fits)
        held = np.zeros((0 if fits.second_moments is None else len(rates), 9))
        dA, d_shift = fits.moments(HandlePlaces(rates, held))
        M = _in_body_frame(self.R, dA)
        spin, growth = self._respond(self.scales[:, None] * axial_vectors(M), np.einsum("nii->n", M))
        R, arm = self.R.reshape(-1, 3, 3), fits.weights.arms
        change = growth[:, None] * arm + self.scales[:, None] * np.cross(spin, arm)
        moved = np.einsum("nij,nj->ni", R, change) + rates[fits.weights.heads] + d_shift
        return np.asarray(moved[:, : self._dimension])

    def vjp(self, g: ArrayLike) -> Array:
        """Return the gradient by the handles, given that by the vertices: the transpose of `jvp`.

        Parameters
        ----------
        g : (V, d)
            Gradient of some number by the positions of the vertices.

        Returns
        -------
        (H, d)
            Its gradient by the positions of the handles.

        Raises
        ------
        InputError
            If there is not one finite row per vertex.
        """
        fits = self.fits
        given = as_reals("g", g).astype(np.float64)
        check_vertex_rows("g", given, fits)
        by_vertex = np.ascontiguousarray(vectors_to_space(given))
        R, arm = self.R.reshape(-1, 3, 3), fits.weights.arms
        pulled = np.einsum("nji,nj->ni", R, by_vertex)
        spin, growth = self._respond(
            self.scales[:, None] * np.cross(arm, pulled), np.einsum("ni,ni->n", arm, pulled)
        )
        # The covector of A: scale R [spin]x + growth R.
        B = growth[:, None, None] * np.eye(3) + self.scales[:, None, None] * cross_matrices(spin)
        return np.asarray(fits.pull_back((R @ B).reshape(-1, 9), by_vertex)[:, : self._dimension])

    @cached_property
    def _scales_free(self) -> Array:
        """Which vertices have a scale between the limits (V,)."""
        limits, trace = self.fits.limits, self.fits.weights.trace
        return np.asarray((self.scales > limits.low) & (self.scales < limits.high) & (trace > 0))

    @cached_property
    def _compliance(self) -> Array:
        """G (V, 3, 3) of the matrix that the rotation is nearest to."""
        B = self.scales[:, None] * self.moments + self.fits.damp[:, None] * self.previous
        flat = self.fits.in_plane(B, self.plane)
        if self.plane is not None:
            # Out of their plane the vertices follow as they do in space, unless the handles mirror it.
            rest, now = self.plane
            local = now.T @ B.reshape(-1, 3, 3) @ rest
            free = local[:, 0, 0] * local[:, 1, 1] > local[:, 0, 1] * local[:, 1, 0]
            flat = np.where(free[:, None], B, flat)
        return matrices.spin_compliances(self.R, flat, MIN_GAP).reshape(-1, 3, 3)

    @cached_property
    def _coupling(self) -> tuple[Array, Array]:
        """The coupling a (V, 3) of scale and spin of a damped vertex, and trace - a . G a (V,)."""
        damped = self.fits.damping > 0
        a = axial_vectors(_in_body_frame(self.R, self.moments)) if damped else np.zeros((len(self.R), 3))
        own = self.fits.weights.trace - np.einsum("ni,nij,nj->n", a, self._compliance, a)
        return a, own

    def _respond(self, torque: Array, push: Array) -> tuple[Array, Array]:
        """Return the spin (V, 3) and the growth of the scale (V,) that balance a torque and a push.

        The map is symmetric, so that it serves `jvp` and `vjp`.
        """
        a, own = self._coupling
        G = self._compliance
        growth = np.zeros(len(push))
        free = self._scales_free
        if free.any():
            pulled = push + np.einsum("ni,nij,nj->n", a, G, torque)
            np.divide(pulled, own, out=growth, where=free)
        return np.einsum("nij,nj->ni", G, torque + growth[:, None] * a), growth


def check_handle_rows(name: str, value: ArrayLike, fits: VertexFits) -> Array:
    """Return one row per handle, in space (H, 3), or raise."""
    given = as_reals(name, value).astype(np.float64)
    expected = (len(fits.weights.p), fits.dimension)
    if given.shape != expected:
        raise InputError(f"{name} must have shape {expected}, one row per handle, got {given.shape}")
    check_magnitude(name, given)
    return np.ascontiguousarray(vectors_to_space(given))


def check_vertex_rows(name: str, given: Array, fits: VertexFits) -> None:
    """Raise unless there is one finite row per vertex."""
    expected = (len(fits.weights.heads), fits.dimension)
    if given.shape != expected:
        raise InputError(f"{name} must have shape {expected}, one row per vertex, got {given.shape}")
    require_finite(name, given)


def _in_body_frame(R: Array, M: Array) -> Array:
    """Return R^T M (n, 3, 3) of rows of nine."""
    return np.asarray(np.swapaxes(R.reshape(-1, 3, 3), 1, 2) @ M.reshape(-1, 3, 3))
