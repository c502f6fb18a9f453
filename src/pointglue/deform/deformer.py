"""Drag point handles and the mesh follows, as rigidly as it can: moving least squares."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, as_reals, check_real, check_rotations, require_finite
from ..errors import InputError
from ..procrustes import fit_rigid, matrices
from ..procrustes.space import matrices_to_space, vectors_to_space
from .distances import CacheFolder, inside_distances
from .flatness import FLAT, flat_frame, turned_frame
from .inputs import LARGEST, check_handles, check_per_handle, split_shape
from .kernels import HandlePlaces
from .pose import HandlePose, check_handle_rows
from .vertex_fits import PlaneFrames, VertexFits

__all__ = ["Distance", "HandleDeformer"]

Distance = Literal["euclidean", "inside"]


class HandleDeformer:
    """A shape that follows point handles, each vertex by the best rigid motion of the handles near it.

    A handle's weight on a vertex is ``weights / distance^(2 falloff)``, and a vertex on a handle goes exactly
    where that goes. Handles with `radii` are oriented, as solid balls of that radius would be: pass
    `rotations` with their positions. One or two such handles are enough for a well-defined deformation;
    without, the rotation that one or two points (or points on a line) leave open is the smallest, or that
    nearest to the previous frame's.

    A flat shape whose handles lie and stay in a plane is deformed in that plane: no part of it turns over.

    Parameters
    ----------
    shape : (V, d), tuple of vertices and faces, or trimesh.Trimesh
        Points in space or in the plane, with or without triangles (m, 3) [m].
    handles : (H, d)
        Places on, in or about the shape at rest [m].
    falloff : float
        How fast the influence of a handle falls with distance; larger is more local.
    distance : "inside", "euclidean" or (H, V), optional
        How far vertices are from handles [m]. "inside" is measured through the inside of a mesh and along
        its surface, so that a handle on one leg leaves the other alone. It is the default where there are
        faces.
    stretch : float
        Vertices scale by factors within [1 - stretch, 1 / (1 - stretch)]: 0 is rigid, 1 any similarity.
    damping : float
        How much rotations are held back towards those of the previous frame, as a weight [m^2].
    weights : float or (H,), optional
        Importance of the handles; 1 by default.
    radii : float or (H,), optional
        Radii of the handles that are oriented [m]; 0, for points, by default.
    cache : path, optional
        A folder that keeps inside distances from one run to the next.
    progress : bool
        Whether a terminal shows a progress bar while distances are measured.

    Attributes
    ----------
    points : (V, d)
        The vertices at rest, read-only [m].
    faces : (m, 3) or None
        The triangles.
    distances : (H, V) or None
        Distance of each vertex from each handle, None if Euclidean [m].
    fits : VertexFits
        The weighted fits of the vertices, which the kernels solve.
    plane : (3, 3) or None
        Two axes and the normal, as columns, of the plane of a flat shape in space with its handles.

    Raises
    ------
    InputError
        If an argument is not of that kind, handles coincide, or one is far away from the shape.
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
        self.points, self.faces = split_shape(shape)
        self.handles = check_handles(handles, self.points)
        for given in (self.points, self.handles):
            given.flags.writeable = False  # what follows from them is worked out once
        self.falloff = check_real("falloff", falloff, above=0)
        self.stretch = check_real("stretch", stretch, at_least=0, at_most=1)
        self.damping = check_real("damping", damping, at_least=0)
        importance = check_per_handle("weights", 1.0 if weights is None else weights, len(self.handles))
        if not (importance > 0).all():
            raise InputError(f"weights must be positive, got {importance.min()}")
        radius = check_per_handle("radii", 0.0 if radii is None else radii, len(self.handles))
        if (radius < 0).any():
            raise InputError(f"radii must not be negative, got {radius.min()}")
        self.distances = self._distances(distance, cache, progress)
        self.plane = flat_frame(np.concatenate([self.points, self.handles])) if self.dimension == 3 else None
        self.fits = VertexFits(
            self.points,
            self.handles,
            distances=self.distances,
            falloff=self.falloff,
            importance=importance,
            second_moments=radius**2 / (self.dimension + 2),
            stretch=self.stretch,
            damping=self.damping,
        )

    @property
    def dimension(self) -> int:
        """The number of coordinates of a point, 2 or 3."""
        return int(self.points.shape[1])

    @property
    def remembers(self) -> bool:
        """Whether poses depend on the previous frame even where the handles determine all rotations."""
        return self.damping > 0 or self.plane is not None

    @property
    def scale_limits(self) -> tuple[float, float]:
        """The least and the largest factor that `stretch` allows."""
        return self.fits.limits.low, self.fits.limits.high

    def at(
        self, handles_now: ArrayLike, *, rotations: ArrayLike | None = None, previous: ArrayLike | None = None
    ) -> HandlePose:
        """Return the pose for handles at given places.

        Parameters
        ----------
        handles_now : (H, d)
            Where the handles are [m].
        rotations : (H, d, d), optional
            How handles with radii are turned from rest.
        previous : (V, d, d), optional
            The rotations of the vertices in the frame before, its ``pose.rotations``.

        Returns
        -------
        HandlePose

        Raises
        ------
        InputError
            If a shape does not fit, a number is not finite, or a matrix is no rotation.
        """
        now = HandlePlaces(
            check_handle_rows("handles_now", handles_now, self.fits), self._orientations(rotations)
        )
        before, plane = self._previous(previous), self._plane_now(now, previous)
        A, shift = self.fits.moments(now)
        R, scale, degenerate = self.fits.solve(A, before, np.arange(len(A)), plane)
        for result in (R, scale):
            result.flags.writeable = False  # the derivatives are of these
        shape = (self.points, self.faces, plane)
        return HandlePose(self.fits, now.q, A, shift, before, R, scale, degenerate, *shape)

    def deform(
        self,
        handles_now: ArrayLike,
        *,
        rotations: ArrayLike | None = None,
        previous: ArrayLike | None = None,
        out: Array | None = None,
    ) -> Array:
        """Return where the vertices are for handles at given places: the positions of :meth:`at`, faster.

        Parameters
        ----------
        handles_now : (H, d)
            Where the handles are [m].
        rotations : (H, d, d), optional
            How handles with radii are turned from rest.
        previous : (V, d, d), optional
            The rotations of the vertices in the frame before.
        out : (V, d), optional
            A contiguous array of float64 that takes the result.

        Returns
        -------
        (V, d)
            The vertices [m], or `out`.

        Raises
        ------
        InputError
            If a shape does not fit, a number is not finite, or a matrix is no rotation.
        """
        matrices.check_out(out, (len(self.points), self.dimension), np.dtype(np.float64))
        if self.remembers:
            posed = self.at(handles_now, rotations=rotations, previous=previous).positions
            if out is None:
                return posed
            out[...] = posed
            return out
        now = HandlePlaces(
            check_handle_rows("handles_now", handles_now, self.fits), self._orientations(rotations)
        )
        in_place = out is not None and self.dimension == 3
        posed = out if in_place and out is not None else np.empty((len(self.points), 3))
        self.fits.deform(now, self._previous(previous), posed)
        if in_place and out is not None:
            return out
        result = np.ascontiguousarray(posed[:, : self.dimension])
        if out is None:
            return result
        out[...] = result
        return out

    def jvp(
        self,
        handles_now: ArrayLike,
        d_handles: ArrayLike,
        *,
        rotations: ArrayLike | None = None,
        previous: ArrayLike | None = None,
    ) -> Array:
        """Return the rates of the vertices (V, d) when the handles move at rates `d_handles` (H, d).

        See :meth:`at` for the other parameters and :meth:`HandlePose.jvp`.
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
        """Return the gradient by the handles (H, d), given that by the vertices g (V, d).

        See :meth:`at` for the other parameters and :meth:`HandlePose.vjp`.
        """
        return self.at(handles_now, rotations=rotations, previous=previous).vjp(g)

    def _distances(self, distance: Any, cache: CacheFolder, progress: bool) -> Array | None:
        """Return the distances (H, V) that are asked for, None if Euclidean."""
        if distance is None:
            distance = "euclidean" if self.faces is None else "inside"
        if isinstance(distance, str):
            if distance == "euclidean":
                return None
            if distance != "inside":
                raise InputError(f"distance must be 'inside', 'euclidean' or an array, got {distance!r}")
            if self.faces is None:
                raise InputError(
                    "distance='inside' needs a mesh: pass (vertices, faces) or a trimesh, or choose "
                    "distance='euclidean'"
                )
            points, handles = vectors_to_space(self.points), vectors_to_space(self.handles)
            return inside_distances(points, self.faces, handles, cache=cache, progress=progress)
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

    def _orientations(self, rotations: ArrayLike | None) -> Array:
        """Return Z (H, 9), the weighted rotations of the handles; (0, 9) if no handle has a radius."""
        if self.fits.second_moments is None:
            if rotations is not None:
                raise InputError("rotations are for handles with radii, and none has one")
            return np.empty((0, 9))
        count, d = len(self.handles), self.dimension
        given = np.eye(d) if rotations is None else check_rotations("rotations", rotations, (count, d, d))
        full = matrices_to_space(np.broadcast_to(given, (count, d, d)))
        return np.ascontiguousarray((self.fits.second_moments[:, None, None] * full).reshape(count, 9))

    def _plane_now(self, now: HandlePlaces, previous: ArrayLike | None) -> PlaneFrames | None:
        """Return the frames at rest and now of the plane of a flat shape; None if its handles leave it."""
        if self.plane is None:
            return None
        normal = self.plane[:, 2]
        away = now.q - now.q.mean(0)
        size = max(np.linalg.norm(np.ptp(self.handles, axis=0)), np.linalg.norm(np.ptp(now.q, axis=0)))
        if np.abs(away @ normal).max() > FLAT * size:
            frame = flat_frame(now.q)
            if frame is None:
                return None
            # Of the two sides of the new plane, the one where the handles go with the least change.
            fit = fit_rigid(self.handles, now.q, on_degenerate="clamp")
            normal = frame[:, 2] * np.sign(frame[:, 2] @ fit.rotation @ normal)
        if previous is not None:
            side = np.asarray(previous).mean(0) @ self.plane[:, 2] @ normal
            normal = -normal if side < 0 else normal
        if len(now.Z):
            turned = now.Z.reshape(-1, 3, 3) @ self.plane[:, 2]
            if np.abs(np.cross(turned, normal)).max() > FLAT * np.abs(now.Z).max():
                return None
        return self.plane, turned_frame(self.plane, normal)

    def _previous(self, previous: ArrayLike | None) -> Array:
        """Return the rotations of the frame before (V, 9), or the identity (1, 9)."""
        if previous is None:
            return np.eye(3).reshape(1, 9)
        count, d = len(self.points), self.dimension
        given = check_rotations("previous", previous, (count, d, d))
        return matrices_to_space(given, zz=1.0).reshape(count, 9)
