"""From any mesh to oriented particles: where they are, what they hold on to and how large they are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ...checks import Array, as_array, generator
from ...errors import InputError
from ...geometry.inside import Inside, Viewpoints
from ...geometry.sampling import (
    along_skeleton,
    in_volume,
    nearest_visible,
    on_surface,
    refined,
    surface_samples,
    volume_samples,
)
from ...geometry.simplices import check_cells
from ...geometry.welding import bounding_diagonal, unique_faces
from ..body import WATER, OrientedBody
from ..quaternions import quaternions_of

__all__ = ["Authored", "Placement", "body_from_mesh", "fitted_ellipsoids"]

Placement = Literal["surface", "volume", "skeleton"]
Indices = NDArray[np.int64]

MOST, USUAL = 50_000, 300  # particles
# Particles that fit into a square or a cube of the spacing, about, found by trying.
PER_SQUARE, PER_CUBE = 1.0, 1.7
# And for each cube of the spacing that a surface goes through.
PER_CELL = 0.65
# Samples on a side of the surface, were it a square, to count cubes by.
PROBES = 150
# Edges of the mesh on which distances are measured, in spacings.
EDGE = 1 / 3
# Triangles at which refining it ends, unless it has as many to begin with.
REFINED = 100_000
# Samples of the volume, in spacings from each other.
SAMPLE = 1 / 3
# The radius of particles, in spacings: neighbours overlap a little.
RADIUS = 0.55
LINKS = 6
# A particle has at least this share of the mean mass, or light ones would be thrown about by heavy ones.
LIGHTEST = 0.1


@dataclass(frozen=True)
class Authored:
    """A body made from a mesh, and what its skin is made from."""

    body: OrientedBody
    vertices: Array
    """(V, 3), those of the mesh."""
    faces: Indices
    """(m, 3), quads in two halves."""
    links: NDArray[np.int32]
    """(V, 6), the particles nearest to each vertex measured inside the shape, -1 for none."""
    distances: Array
    """(V, 6), m, ascending, inf for none."""


def body_from_mesh(
    mesh: Any,
    *,
    spacing: float | None = None,
    placement: Placement | None = None,
    reach: float = 1.4,
    aspect: float = 2.0,
    density: float = WATER,
    seed: int | np.random.Generator = 0,
    **options: Any,
) -> Authored:
    """Particles about `spacing` (m) apart that fill the mesh, are joined as it is, and have its shape.

    `mesh` has `vertices` and `faces`, or is a tuple of them; any triangles and quads do. Without a
    `spacing` there will be about 300 particles. `placement` puts them on the surface, into the volume or
    along the skeleton of limbs; by itself into the volume of components that have one, and else on the
    surface. Particles closer than `reach` spacings, measured inside the shape, are joined. Ellipsoids are at
    most `aspect` times as long as thick. `density` is in kg/m^3. `options` are fields of OrientedBody, and go
    before what is found from the mesh: `mass` is that of each particle.
    """
    vertices, faces = _triangles(mesh)
    extent = bounding_diagonal(vertices[np.unique(faces)])
    if not extent > 0:
        raise InputError("mesh must have a size: all its vertices are at one place")
    if not 1e-90 < extent < 1e90:  # volumes and moments must be numbers
        raise InputError(f"mesh must be between 1e-90 and 1e90 m across, got {extent:.3g} m")
    for name, value, least in (("reach", reach, 1.0), ("aspect", aspect, 1.0), ("density", density, 0.0)):
        _positive(name, value, least)
    if placement is not None and placement not in get_args(Placement):
        known = ", ".join(get_args(Placement))
        raise InputError(f"placement must be one of {known}, or None, got {placement!r}")
    taken = {"positions", "visual"}
    unknown = sorted(set(options) - set(OrientedBody.__dataclass_fields__) | taken & set(options))
    if unknown:
        raise InputError(f"{unknown[0]!r} is not an option of a body made from a mesh; see OrientedBody")
    rng = generator(seed)
    # About the origin, and as large as 1: the same particles wherever the mesh is and whatever its size.
    middle = vertices[np.unique(faces)].mean(0)
    local = (vertices - middle) / extent
    inside = Inside(local, faces)
    if placement == "volume" and not inside.solid.any():
        raise InputError("placement 'volume' needs a closed mesh, but this one has no inside: use 'surface'")
    step = _spacing(spacing, extent, inside, placement) / extent
    single = unique_faces(faces)
    finer = refined(local, single, EDGE * step, max(REFINED, len(single)))
    if len(finer[0]) > len(local):
        inside = Inside(*finer)
    samples = volume_samples(inside, SAMPLE * step, rng)
    points = _placed(inside, step, placement, samples, rng)
    links = inside.nearest(points, LINKS)
    edges = _edges(inside, points, links, reach * step)
    axes, radii = fitted_ellipsoids(inside, points, links, step, aspect)
    fields = {
        "radii": radii * extent,
        "orientations": quaternions_of(axes),
        "mass": density * extent**3 * _volumes(inside, points, radii, samples),
        "edges": edges,
        "loose": len(np.unique(edges)) < len(points),  # a component may have a single one
    }
    body = OrientedBody(middle + extent * points, **{**fields, **options})
    numbers, distances = links
    return Authored(body, vertices, faces, numbers[: len(vertices)], extent * distances[: len(vertices)])


def _triangles(mesh: Any) -> tuple[Array, Indices]:
    """Vertices and triangles of what was given, quads cut along a diagonal."""
    pair = isinstance(mesh, Sequence) and not isinstance(mesh, str) and len(mesh) == 2
    if not pair and not (hasattr(mesh, "vertices") and hasattr(mesh, "faces")):
        raise InputError(
            f"mesh must have vertices and faces, or be a tuple of them, got {type(mesh).__name__}"
        )
    vertices, faces = mesh if pair else (mesh.vertices, mesh.faces)
    cells = as_array("faces", faces)
    if not cells.size:
        raise InputError("mesh must have faces, got none")
    if cells.ndim == 2 and cells.shape[1] == 4:
        cells = cells[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)
    points, triangles = check_cells(vertices, cells, "faces")
    if points.shape[1] != 3 or triangles.shape[1] != 3:
        raise InputError(f"mesh must have vertices (n, 3), got shape {points.shape}")
    return points, triangles


def _spacing(given: float | None, extent: float, inside: Inside, placement: Placement | None) -> float:
    """The spacing asked for, m, if it makes a sensible number of particles, or one that does."""
    count = _estimate(inside, placement)
    if given is None:
        low, high = 1e-6, 1.0
        for _ in range(40):
            step = (low * high) ** 0.5
            low, high = (step, high) if count(step) > USUAL else (low, step)
        return extent * high
    _positive("spacing", given)
    if given > extent:
        raise InputError(
            f"spacing must be smaller than the mesh, which is {extent:.4g} across, got {given!r}"
        )
    if count(given / extent) > MOST:
        raise InputError(
            f"spacing {given!r} would make about {count(given / extent):.3g} particles of a mesh "
            f"{extent:.4g} across; at most {MOST} are allowed"
        )
    return float(given)


def _estimate(inside: Inside, placement: Placement | None) -> Callable[[float], float]:
    """About how many particles a spacing makes.

    What is thick is filled or covered; what is thinner than the spacing, plates and wires, takes as many as
    there are cubes of the spacing that the surface goes through, about.
    """
    rng = np.random.default_rng(0)
    corners = inside.tree.vertices[inside.tree.faces]
    area = 0.5 * np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    )
    total, volume = float(area.sum()), _volume(inside)
    filled = inside.solid[inside.face_components] & (placement in (None, "volume"))
    fine = max(total, 1e-12) ** 0.5 / PROBES
    places = surface_samples(inside, fine, rng)[0] if total > 0 else corners.reshape(-1, 3)
    solid = filled[inside.tree.closest(places)[0]]

    def count(step: float) -> float:
        step = max(step, 1e-100)  # of which the cube is a number
        crossed = [len(np.unique(np.floor(part / step), axis=0)) for part in (places[solid], places[~solid])]
        # Beyond the samples' own spacing they are too few to count cubes by.
        wide = step > 2 * fine
        thin = PER_CELL * crossed[0] if wide else PER_SQUARE * float(area[filled].sum()) / 2 / step**2
        inner = max(PER_CUBE * volume / step**3, thin) if filled.any() else 0.0
        outer = PER_CELL * crossed[1] if wide else PER_SQUARE * float(area[~filled].sum()) / step**2
        return inner + outer

    return count


def _placed(
    inside: Inside,
    step: float,
    placement: Placement | None,
    samples: tuple[Viewpoints, Array],
    rng: np.random.Generator,
) -> Array:
    """Where particles are. Components without an inside have theirs on the surface."""
    if placement == "surface" or not inside.solid.any():
        return on_surface(inside, step, rng, np.ones_like(inside.solid))
    points = [on_surface(inside, step, rng, ~inside.solid)]
    if placement == "skeleton":
        points.append(along_skeleton(inside, step, rng))
    else:
        points.append(in_volume(inside, step, rng, samples))
    return np.concatenate(points)


def _edges(inside: Inside, points: Array, links: tuple[NDArray[np.int32], Array], reach: float) -> Indices:
    """Pairs (m, 2) of particles within reach of each other, and what it takes to join each component."""
    owners = inside.components_of(points)
    pairs, length = inside.between(points, reach, links)
    # Of regions that touch but are farther apart, the nearest are joined if nothing else joins them.
    edges = _joined(pairs[length <= reach], pairs[np.argsort(length, kind="stable")], len(points))
    # What owns no surface holds on to the nearest of its component.
    pieces = _pieces(edges, len(points))
    for component in np.unique(owners):
        while True:
            mine = np.flatnonzero(owners == component)
            sizes = np.bincount(pieces[mine])
            if np.count_nonzero(sizes) == 1:
                break
            least = np.flatnonzero(sizes)[sizes[sizes > 0].argmin()]
            one, rest = mine[pieces[mine] == least], mine[pieces[mine] != least]
            distance, index = cKDTree(points[rest]).query(points[one])
            k = int(distance.argmin())
            edges = np.concatenate([edges, np.sort([[one[k], rest[index[k]]]], axis=1)])
            pieces = _pieces(edges, len(points))
    return edges


def _joined(edges: Indices, more: Indices, count: int) -> Indices:
    """The edges, and of the others, in their order, those that join pieces which are apart."""
    pieces = _pieces(edges, count)
    added = []
    for i, j in more[pieces[more[:, 0]] != pieces[more[:, 1]]]:
        if pieces[i] != pieces[j]:
            added.append([i, j])
            pieces[pieces == pieces[j]] = pieces[i]
    return np.concatenate([edges, np.array(added, np.int64).reshape(-1, 2)])


def _pieces(edges: Indices, count: int) -> Indices:
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1], np.int64)


def fitted_ellipsoids(
    inside: Inside, points: Array, links: tuple[NDArray[np.int32], Array], step: float, aspect: float
) -> tuple[Array, Array]:
    """Axes (n, 3, 3), as columns, and radii (n, 3) that reach the surface around each particle.

    The eigenvectors of the covariance, about the particle, of the vertices it owns, and how far these
    extend along them, clamped.
    """
    count, radius = len(points), RADIUS * step
    used = (inside.components >= 0) & (links[1][:, 0] <= step)
    owner = links[0][used, 0].astype(np.int64)
    away = inside.vertices[used] - points[owner]
    covariance = np.zeros((count, 3, 3))
    for i, j in np.ndindex(3, 3):
        covariance[:, i, j] = np.bincount(owner, away[:, i] * away[:, j], minlength=count)
    axes = np.linalg.eigh(covariance)[1][:, :, ::-1]
    # Of the two directions of an axis, the one whose largest entry is positive; the third follows.
    largest = np.take_along_axis(axes, np.abs(axes).argmax(1)[:, None], axis=1)
    axes = axes * np.where(largest < 0, -1.0, 1.0)
    axes[:, :, 2] = np.cross(axes[:, :, 0], axes[:, :, 1])
    reach = np.zeros((count, 3))
    np.maximum.at(reach, owner, np.abs(np.einsum("kd,kdi->ki", away, axes[owner])))
    radii = np.clip(reach, radius / aspect, radius)
    few = np.bincount(owner, minlength=count) < 4  # too few to tell a shape: a ball
    axes[few], radii[few] = np.eye(3), radius
    return axes, radii


def _volumes(inside: Inside, points: Array, radii: Array, samples: tuple[Viewpoints, Array]) -> Array:
    """(n,): shares of the volume of the solid components, and the volumes of the others' ellipsoids."""
    own, (views, weights) = inside.viewpoints(points), samples
    result = 4 / 3 * np.pi * radii.prod(1)
    if own.sighted.any() and len(weights):
        owner = nearest_visible(inside, views, points)
        share = np.bincount(owner[owner >= 0], weights[owner >= 0], minlength=len(points))[own.sighted]
        share = np.maximum(share, LIGHTEST * share.mean())
        result[own.sighted] = share / share.sum() * _volume(inside)
    return np.asarray(result)


def _volume(inside: Inside) -> float:
    """Of the solid components, each counted as positive."""
    corners = inside.tree.vertices[inside.tree.faces]
    component = inside.face_components
    parts = np.bincount(component, np.linalg.det(corners) / 6, minlength=len(inside.solid))
    return float(np.abs(parts)[inside.solid].sum())


def _positive(name: str, value: float, least: float = 0.0) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, Real)
        or not 0 < float(value) < np.inf
        or value < least
    ):
        bound = f"of at least {least:g}" if least else "above 0"
        raise InputError(f"{name} must be a number {bound}, got {value!r}")
