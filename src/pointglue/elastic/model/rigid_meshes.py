"""Any triangle mesh as a rigid body: what its mass is taken from, and what others bump into."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import ConvexHull, QhullError

from ...checks import Array
from ...errors import InputError
from ...geometry.moments import is_watertight, solid_moments, surface_moments
from ...geometry.welding import bounding_diagonal, unique_faces, weld

__all__ = ["Collision", "MassShape", "MassSource", "collision_faces", "convex_parts", "mass_shape"]

Collision = Literal["mesh", "hull", "decomposition"]
MassSource = Literal["given", "solid", "closed parts", "hull", "surface", "plate"]

# Ratio of the hull of the closed parts to that of all parts: with less, such as the eyes of an open figure,
# they are not what the mesh is made of.
LEAST_CLOSED_SHARE = 0.5
# Ratio of the volume of a hull to the cube of its extent: what has less is flat but for rounding.
FLAT_VOLUME = 1e-9
# Ratio of the thickness that a flat mesh without a mass is taken to have to its extent.
PLATE_THICKNESS = 0.01
# Convex parts that a mesh is divided into at most, beyond its connected ones, and the ratio of the depth of
# hollows to the extent of the mesh that are left as they are.
MOST_PARTS, SHALLOW = 32, 0.04
# Triangles of a part from which the depth of its hollows is measured.
PROBES = 500
# Where a part is cut along each of its principal axes: quantiles of the centroids of its triangles.
CUTS = (0.25, 0.5, 0.75)


@dataclass(frozen=True, eq=False)
class MassShape:
    """How mass of unit density is distributed."""

    volume: float
    """The volume of the mass [m^3]."""
    center: Array
    """The centre of mass (3,) [m]."""
    moment: Array
    """The integral of r r^T over the volume (3, 3), r from the centre of mass [m^5]."""
    source: MassSource
    """What it is taken from."""


def mass_shape(vertices: Array, faces: NDArray[np.int64], *, stated: bool) -> MassShape:
    """Return the distribution of mass of any triangle mesh.

    A closed mesh is solid. If it is open and its mass is stated, the mass is spread over the surface; if
    not, the solid is that of the closed parts, if they are the larger part of the mesh, or of the convex
    hull. A flat mesh is a plate, a hundredth of its extent thick.

    Parameters
    ----------
    vertices : (n, 3)
        The vertices [m].
    faces : (m, 3)
        The triangles.
    stated : bool
        Whether the mass is known, so that only its distribution matters.

    Raises
    ------
    InputError
        If all triangles lie on one line.
    """
    # Far from the origin, moments about it would drown those about the centre of mass.
    mean, size = vertices[faces].mean((0, 1)), bounding_diagonal(vertices[np.unique(faces)])
    points, place = weld(vertices - mean, size)
    triangles = place[faces]
    triangles = unique_faces(triangles[(triangles != np.roll(triangles, 1, axis=1)).all(1)])
    hull_volume, hull = _hull(points, np.unique(triangles)) if len(triangles) else (0.0, None)
    if hull is None or hull_volume <= FLAT_VOLUME * size**3:
        area, center, moment = surface_moments(points[triangles])
        if not area > 1e-12 * size**2:
            raise InputError("faces must not all lie on one line, about which a body would spin freely")
        depth = PLATE_THICKNESS * size
        return MassShape(depth * area, mean + center, depth * moment, "plate")
    whole = _solid(points, triangles, "solid")
    if whole is None and stated:
        area, center, moment = surface_moments(points[triangles])
        return MassShape(area, mean + center, moment, "surface")
    if whole is None:
        whole = _closed_parts(points, triangles, hull_volume)
    if whole is None:
        whole = MassShape(*solid_moments(points[hull]), "hull")
    return MassShape(whole.volume, mean + whole.center, whole.moment, whole.source)


def _solid(points: Array, triangles: NDArray[np.int64], source: MassSource) -> MassShape | None:
    """Return the solid inside closed triangles, or None if they are open or look both ways."""
    if not is_watertight(triangles) or not _is_oriented(triangles):
        return None
    volume, center, moment = solid_moments(points[triangles])
    size = bounding_diagonal(points[np.unique(triangles)])
    if not abs(volume) > FLAT_VOLUME * size**3:
        return None
    moment = np.sign(volume) * moment
    # Shells that cross or enclose each other may leave moments that no mass has.
    if not np.linalg.eigvalsh(moment)[0] > 0:
        return None
    return MassShape(abs(volume), center, moment, source)


def _is_oriented(triangles: NDArray[np.int64]) -> bool:
    """Return whether neighbours agree on their orientation: no edge is passed twice in one direction."""
    edges = triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    return len(np.unique(edges, axis=0)) == len(edges)


def _closed_parts(points: Array, triangles: NDArray[np.int64], hull_volume: float) -> MassShape | None:
    """Return the solid of all closed parts, or None if they are the smaller part of the mesh."""
    solids, used = [], []
    for own in _connected_parts(triangles):
        solid = _solid(points, own, "closed parts")
        if solid is not None:
            solids.append(solid)
            used.append(own)
    if not solids or _hull(points, np.unique(np.concatenate(used)))[0] < LEAST_CLOSED_SHARE * hull_volume:
        return None
    volumes = np.array([solid.volume for solid in solids])
    total, centers = float(volumes.sum()), np.array([solid.center for solid in solids])
    center = volumes @ centers / total
    arms = centers - center
    moment = sum(solid.moment for solid in solids) + np.einsum("k,ki,kj->ij", volumes, arms, arms)
    return MassShape(total, center, moment, "closed parts")


def collision_faces(vertices: Array, faces: NDArray[np.int64], collision: Collision) -> NDArray[np.int64]:
    """Return the triangles (k, 3) of the same vertices that others bump into.

    Parameters
    ----------
    vertices : (n, 3)
        The vertices [m].
    faces : (m, 3)
        The triangles of the mesh.
    collision : {"mesh", "hull", "decomposition"}
        The mesh itself, its convex hull, or the hulls of parts that together cover it.
    """
    if collision == "mesh":
        return faces
    if collision == "hull":
        hull = _hull(vertices, np.unique(faces))[1]
        return faces if hull is None else hull
    hulls = [(part, _hull(vertices, np.unique(part))[1]) for part in convex_parts(vertices, faces)]
    return np.concatenate([part if hull is None else hull for part, hull in hulls])


def convex_parts(vertices: Array, faces: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the triangles of a mesh in parts whose convex hulls are not much larger than they are.

    Connected parts are cut, that of the deepest hollow first, until hollows are shallow or the parts many;
    the cut is that of a few which leaves the hulls on both sides the least volume. Every triangle is in one
    part, so the hulls cover the mesh.

    Parameters
    ----------
    vertices : (n, 3)
        The vertices [m].
    faces : (m, 3)
        The triangles.

    Returns
    -------
    list of (k, 3)
        The triangles of each part.
    """
    parts = _connected_parts(faces)
    size, most = bounding_diagonal(vertices[np.unique(faces)]), MOST_PARTS + len(parts) - 1
    depths = [_hollow(vertices, part) for part in parts]
    while len(parts) < most and max(depths) > SHALLOW * size:
        k = int(np.argmax(depths))
        sides = _best_cut(vertices, parts[k])
        if sides is None:
            depths[k] = 0.0
            continue
        parts[k : k + 1] = sides
        depths[k : k + 1] = [_hollow(vertices, side) for side in sides]
    return parts


def _hollow(vertices: Array, faces: NDArray[np.int64]) -> float:
    """Return how deep the hollows of a part are, from its triangles along their normals to its hull [m]."""
    hull = _hull(vertices, np.unique(faces))[1]
    if hull is None:
        return 0.0
    corners, sides = vertices[faces[:: max(1, len(faces) // PROBES)]], vertices[hull]
    normals, outwards = (np.cross(c[:, 1] - c[:, 0], c[:, 2] - c[:, 0]) for c in (corners, sides))
    # Faces that look inwards, as in a mesh that is turned inside out, are turned about.
    flip = np.sign(np.linalg.det(vertices[faces] - vertices[faces].mean((0, 1))).sum()) or 1.0
    lengths = np.linalg.norm(normals, axis=1)
    normals = flip * normals[lengths > 0] / lengths[lengths > 0, None]
    centroids = corners[lengths > 0].mean(1)
    inside = np.einsum("mi,pmi->pm", outwards, sides[None, :, 0] - centroids[:, None])
    rising = normals @ outwards.T
    with np.errstate(divide="ignore", invalid="ignore"):
        ways = np.where(rising > 0, np.maximum(inside, 0.0) / rising, np.inf).min(1, initial=np.inf)
    return float(ways[np.isfinite(ways)].max(initial=0.0))


def _connected_parts(faces: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the triangles of each part that is connected by edges."""
    edges = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    _, edge = np.unique(edges, axis=0, return_inverse=True)
    row, count = np.repeat(np.arange(len(faces)), 3), len(faces)
    graph = csr_array(
        (np.ones(len(row)), (row, edge.reshape(-1) + count)), shape=(count + edge.max() + 1,) * 2
    )
    part = np.unique(connected_components(graph, directed=False)[1][:count], return_inverse=True)[1].reshape(
        -1
    )
    return np.split(faces[np.argsort(part, kind="stable")], np.cumsum(np.bincount(part))[:-1])


def _best_cut(
    vertices: Array, faces: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return the triangles on both sides of the cut that leaves the hulls the least volume."""
    centroids = vertices[faces].mean(1)
    offsets = centroids - centroids.mean(0)
    least, best = np.inf, None
    for axis in np.linalg.eigh(offsets.T @ offsets)[1].T:
        along = offsets @ axis
        for height in np.quantile(along, CUTS):
            below = along <= height
            if below.all():
                continue
            sides = faces[below], faces[~below]
            volume = sum(_hull(vertices, np.unique(side))[0] for side in sides)
            if volume < least:
                least, best = volume, sides
    return best


def _hull(vertices: Array, rows: NDArray[np.int64]) -> tuple[float, NDArray[np.int64] | None]:
    """Return the volume and the triangles, outwards, of the hull of some vertices; 0 and None if flat."""
    points = vertices[rows] - vertices[rows[0]]
    if len(rows) < 4:
        return 0.0, None
    try:
        hull = ConvexHull(points)
    except QhullError:
        return 0.0, None
    corners = points[hull.simplices]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inwards = np.einsum("mi,mi->m", normals, hull.equations[:, :3]) < 0
    triangles = np.where(inwards[:, None], hull.simplices[:, ::-1], hull.simplices)
    return float(hull.volume), np.asarray(rows[triangles], np.int64)
