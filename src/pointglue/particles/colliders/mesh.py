"""Triangle meshes that particles cannot enter or pass."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...checks import Array, as_array, as_integers, check_rows, frozen
from ...errors import InputError
from ...geometry.bvh import TriangleTree
from ...geometry.meshes.mesh_inputs import mesh_arrays
from ...geometry.solids import Collider, Cylinder, solid_mesh
from .._solve.kernels.contact.mesh_colliders import find_near_mesh, resolve_mesh
from .._solve.kernels.contact.records import ContactArrays, MeshArrays, MeshNeighbours
from .._solve.kernels.records import Ellipsoids
from .primitives import ReadyCollider, ReadySolid

__all__ = ["MeshCollider", "ready_collider"]

# Particles worth a thread of their own: to search among, to correct.
_SEARCH_GRAIN, _RESOLVE_GRAIN = 512, 128


@dataclass(frozen=True, eq=False)
class MeshCollider(Collider):
    """A triangle mesh, solid if it is closed.

    It is closed if every edge lies between two triangles that run along it in opposite ways. Otherwise it is
    a sheet that keeps particles on the side that they are on. Vertices at the same place are taken for one.

    Parameters
    ----------
    vertices : (n, 3), or a mesh
        The vertices [m]; or, without `faces`, a whole mesh: a file, a mesh or scene of trimesh, or any object
        with vertices and faces.
    faces : (m, 3), optional
        Their triangles; of a closed mesh, counter-clockwise seen from outside.
    motion, friction, spin_friction, name
        See :class:`Collider`.

    Attributes
    ----------
    closed : bool
        Whether it is a solid.
    arrays : MeshArrays
        The triangles as kernels read them.

    Raises
    ------
    InputError
        If a shape does not fit, a number is not finite, a face names no vertex, all triangles are flat, or a
        closed mesh is inside out.
    """

    vertices: Any
    faces: ArrayLike | None = None
    closed: bool = field(init=False)
    arrays: MeshArrays = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the mesh and sort its triangles."""
        super().__post_init__()
        given, cells = mesh_arrays(self.vertices) if self.faces is None else (self.vertices, self.faces)
        vertices = check_rows("vertices", given)
        faces = as_array("faces", cells)
        if faces.ndim != 2 or faces.shape[1] != 3 or not len(faces):
            raise InputError(f"faces must have shape (m, 3) with at least one row, got shape {faces.shape}")
        faces = as_integers("faces", faces.ravel()).reshape(-1, 3)
        if faces.min() < 0 or faces.max() >= len(vertices):
            wrong = faces.min() if faces.min() < 0 else faces.max()
            raise InputError(f"faces must index the {len(vertices)} vertices, got {wrong}")
        arrays = _sorted_mesh(vertices, faces)
        object.__setattr__(self, "vertices", frozen(vertices))
        object.__setattr__(self, "faces", frozen(faces))
        object.__setattr__(self, "closed", arrays.closed)
        object.__setattr__(self, "arrays", arrays)


class ReadyMesh(ReadyCollider):
    """A mesh that remembers how far each particle was from it, and where that was."""

    def __init__(self, collider: Collider, count: int, mesh: MeshArrays) -> None:
        super().__init__(collider, count)
        self._mesh = mesh
        self._neighbours = MeshNeighbours(
            origins=np.empty((count, 3)),
            near=self._near,
            inside=np.zeros(count, np.bool_),
            asked=np.zeros((count, 3)),
            gaps=np.zeros(count),
        )

    def _find_near(self, X: Array, P: Array, bounds: Array) -> None:
        self._launcher.run(
            find_near_mesh, len(P), _SEARCH_GRAIN, self._mesh, self.poses, X, P, bounds, self._neighbours
        )

    def _resolve(self, ellipsoids: Ellipsoids, contacts: ContactArrays) -> None:
        where = (self.poses.now, self._chosen, self._neighbours)
        self._launcher.run(
            resolve_mesh, len(self._chosen), _RESOLVE_GRAIN, self._mesh, *where, ellipsoids, contacts
        )


def ready_collider(collider: Collider, count: int) -> ReadyCollider:
    """Return what a solver of `count` particles works with."""
    if isinstance(collider, Cylinder):
        vertices, faces = solid_mesh(collider)
        shared = {name: getattr(collider, name) for name in ("motion", "friction", "spin_friction", "name")}
        collider = MeshCollider(vertices, faces, **shared)
    if isinstance(collider, MeshCollider):
        return ReadyMesh(collider, count, collider.arrays)
    return ReadySolid(collider, count)


def _sorted_mesh(vertices: Array, faces: NDArray[np.int64]) -> MeshArrays:
    """Return the triangles of a mesh as kernels read them, or raise if there is none or it is inside out."""
    place = np.unique(vertices, axis=0, return_inverse=True)[1].reshape(-1)[faces]
    corners = vertices[faces]
    edges = np.roll(corners, -1, axis=1) - corners  # ab, bc, ca
    lengths = np.linalg.norm(edges, axis=2)
    across = np.cross(edges[:, 0], -edges[:, 2])
    area = np.linalg.norm(across, axis=1)
    # Thinner than this is flat but for rounding, and has no normal.
    good = area > 1e-14 * lengths.max(1) ** 2
    if not good.any():
        raise InputError("faces must hold a triangle of some area, got none")
    normals = np.where(good[:, None], across / np.where(good, area, 1.0)[:, None], 0.0)
    features = np.zeros((len(faces), 6, 3))
    kept = (place != np.roll(place, -1, axis=1)).all(1)  # the others are segments: no edges to share
    way = np.stack([place, np.roll(place, -1, axis=1)], axis=2)[kept].reshape(-1, 2)
    count = place.max() + 1
    there, back = way @ [count, 1], way @ [1, count]
    order = np.argsort(there)
    match = order[np.minimum(np.searchsorted(there[order], back), len(order) - 1)]
    closed = len(np.unique(there)) == len(there) and bool((there[match] == back).all())
    if closed:
        owner = np.repeat(np.flatnonzero(kept), 3)
        features[kept, :3] = (normals[owner] + normals[owner[match]]).reshape(-1, 3, 3)
        cosine = -(edges * np.roll(edges, 1, axis=1)).sum(2)
        angle = np.arctan2(area[:, None], cosine)
        sums = np.zeros((count, 3))
        np.add.at(sums, place, angle[:, :, None] * normals[:, None])
        features[:, 3:] = sums[place]
        from_centroid = corners[:, 0] - vertices.mean(0)
        if (from_centroid * across).sum() < 0:
            raise InputError(
                "faces must be counter-clockwise from outside, got a mesh inside out: use faces[:, ::-1]"
            )
    tree = TriangleTree(vertices, faces[good])
    order, flat, low, high = tree.boxes
    return MeshArrays(
        flat, normals[good][order], features[good][order].reshape(-1, 18), low, high, closed=closed
    )
