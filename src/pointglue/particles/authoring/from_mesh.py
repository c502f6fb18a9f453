"""Authoring of particles from any mesh: where they are, which ones are joined and how large they are."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ...checks import Array, as_array, check_choice, check_flag, check_integer, check_real, generator
from ...errors import InputError, PointglueWarning
from ...geometry.inside import Inside, Viewpoints
from ...geometry.meshes.mesh_inputs import mesh_arrays
from ...geometry.quaternions import quaternions_of
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
from .ellipsoid_fitting import LINKS, fitted_ellipsoids
from .ties import Ties

__all__ = [
    "MEASURING_EDGE", "MOST_PARTICLES", "MOST_TRIANGLES", "PER_CUBE", "PER_SQUARE", "SAMPLE_SPACING",
    "USUAL_PARTICLES", "Authored", "Placement", "author",
]  # fmt: skip

Placement = Literal["surface", "volume", "skeleton"]
Indices = NDArray[np.int64]

# Particles of a body at most, and how many there are about if no spacing is given.
MOST_PARTICLES, USUAL_PARTICLES = 50_000, 300
# Particles that fit into a square or a cube of the spacing, about, found by trying.
PER_SQUARE, PER_CUBE = 1.0, 1.7
# The same for each cube of the spacing that a surface goes through.
PER_CELL = 0.65
# Samples on a side of the surface, were it a square, to count cubes by.
PROBES = 150
# In spacings: the longest edges of the mesh on which distances are measured.
MEASURING_EDGE = 1 / 3
# Triangles at which refining it ends, unless it has as many to begin with.
MOST_TRIANGLES = 100_000
# In spacings: the distance between samples of the volume.
SAMPLE_SPACING = 1 / 3
# How far, as a share, the number of particles may be from that asked for, and how many spacings are tried.
COUNT_TOLERANCE, MOST_TRIES = 0.03, 5
# Least share of a particle in the mean mass: lighter ones would be thrown about by heavy ones.
LEAST_MASS = 0.1


@dataclass(frozen=True)
class Authored:
    """What is found from a mesh: the particles of a body, and what its skin is made from."""

    positions: Array
    """(n, 3), m."""
    radii: Array
    """(n, 3), m."""
    orientations: Array
    """(n, 4), unit quaternions wxyz."""
    mass: Array
    """(n,), kg."""
    edges: Indices
    """(m, 2), numbers of particles."""
    loose: bool
    """Whether some particle has no edge: a component may have a single one."""
    vertices: Array
    """(V, 3), those of the mesh, m."""
    faces: Indices
    """(f, 3), quads in two halves."""
    links: NDArray[np.int32]
    """(V, 6), the particles nearest to each vertex measured inside the shape, -1 for none."""
    distances: Array
    """(V, 6), ascending, inf for none, m."""

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a body other than its positions."""
        names = ("radii", "orientations", "mass", "edges", "loose")
        return {name: getattr(self, name) for name in names}


def author(
    mesh: Any,
    *,
    spacing: float | None,
    particles: int | None = None,
    placement: Placement | None,
    tie: bool | None = None,
    reach: float,
    aspect: float,
    density: float,
    seed: int | np.random.Generator,
) -> Authored:
    """Place particles that fill a mesh, are joined as it is, and have its shape.

    Parameters
    ----------
    mesh : path, mesh or scene of trimesh, object with vertices and faces, or a tuple of them
        The mesh; any triangles and quads do [m].
    spacing : float or None
        The distance of the particles, about [m]; for None there are about `USUAL_PARTICLES`.
    particles : int or None
        How many particles there are, about, instead of their spacing.
    placement : {"surface", "volume", "skeleton"} or None
        Where particles are; for None in the volume of components that have one, and else on the surface.
    tie : bool or None
        Whether shells that sit on others are tied to them, see `_tied`; None does so and warns.
    reach : float
        Particles closer than this, measured inside the shape, are joined [spacings], at least 1.
    aspect : float
        How many times as long as thick ellipsoids may be, at least 1.
    density : float
        The density, above 0 [kg/m^3].
    seed : int or Generator
        The same mesh and seed make the same particles.

    Returns
    -------
    Authored

    Raises
    ------
    InputError
        If the mesh has no faces or no size, a number is out of its bounds, or there would be more than
        `MOST_PARTICLES`.
    """
    vertices, faces = _triangles(*mesh_arrays(mesh))
    extent = bounding_diagonal(vertices[np.unique(faces)])
    if not extent > 0:
        raise InputError("mesh must have a size: all its vertices are at one place")
    if not 1e-90 < extent < 1e90:  # volumes and moments must be numbers
        raise InputError(f"mesh must be between 1e-90 and 1e90 m across, got {extent:.3g} m")
    check_real("reach", reach, at_least=1)
    check_real("aspect", aspect, at_least=1)
    check_real("density", density, above=0)
    if placement is not None:
        check_choice("placement", placement, get_args(Placement))
    if tie is not None:
        check_flag("tie", tie)
    if particles is not None and spacing is not None:
        raise InputError(f"particles and spacing exclude each other, got {particles!r} and {spacing!r}")
    # About the origin, and as large as 1: the same particles wherever the mesh is and whatever its size.
    centroid = vertices[np.unique(faces)].mean(0)
    local = (vertices - centroid) / extent
    inside = Inside(local, faces)
    if placement == "volume" and not inside.solid.any():
        raise InputError("placement 'volume' needs a closed mesh, but this one has no inside: use 'surface'")
    options = _Options(placement, tie is not False, reach, aspect)
    if particles is None:
        found = _made(inside, _spacing(spacing, extent, inside, placement) / extent, options, generator(seed))
    else:
        found = _counted(inside, particles, options, generator(seed))
    if tie is None and found.tied:
        warnings.warn(
            f"mesh has {len(inside.solid)} shells, and {found.tied} of them "
            f"{'was' if found.tied == 1 else 'were'} tied to what they touch, sit on or are in: tie=True "
            f"says that this is meant, tie=False leaves every shell on its own",
            PointglueWarning,
            stacklevel=3,
        )
    return Authored(
        positions=centroid + extent * found.points,
        radii=found.radii * extent,
        orientations=quaternions_of(found.axes),
        mass=density * extent**3 * found.volumes,
        edges=found.edges,
        loose=len(np.unique(found.edges)) < len(found.points),
        vertices=vertices,
        faces=faces,
        links=found.links[: len(vertices)],
        distances=extent * found.distances[: len(vertices)],
    )


class _Options(NamedTuple):
    """How particles are made."""

    placement: Placement | None
    tie: bool
    """Whether shells are tied."""
    reach: float
    """[spacings]."""
    aspect: float


class _Particles(NamedTuple):
    """Particles in a mesh as large as 1; see `Authored`."""

    points: Array
    axes: Array
    radii: Array
    volumes: Array
    edges: Indices
    links: NDArray[np.int32]
    distances: Array
    tied: int
    """How many shells are tied to others."""


def _made(raw: Inside, step: float, options: _Options, rng: np.random.Generator) -> _Particles:
    """Return the particles of a mesh of size 1 at a spacing."""
    single = unique_faces(raw.faces)
    finer = refined(raw.vertices, single, MEASURING_EDGE * step, max(MOST_TRIANGLES, len(single)))
    whole = Inside(*finer) if len(finer[0]) > len(raw.vertices) else raw
    ties = Ties.of(whole, step) if options.tie and len(whole.solid) > 1 else None
    inside = whole if ties is None else ties.without_riders(whole)
    samples = volume_samples(inside, SAMPLE_SPACING * step, rng)
    points = _placed(inside, step, options.placement, samples, rng)
    links = inside.nearest(points, LINKS)
    edges = _edges(inside, points, links, options.reach * step)
    if ties is not None:
        edges = ties.joined(inside, links, edges, options.reach * step)
        ties.carry_riders(whole, links)
    axes, radii = fitted_ellipsoids(inside, points, links, step, options.aspect)
    volumes = _volumes(inside, points, radii, samples)
    return _Particles(points, axes, radii, volumes, edges, *links, 0 if ties is None else ties.count)


def _counted(raw: Inside, wanted: int, options: _Options, rng: np.random.Generator) -> _Particles:
    """Return the particles of a mesh of size 1, about as many as wanted."""
    check_integer("particles", wanted, at_least=1)
    if wanted > MOST_PARTICLES:
        raise InputError(f"particles must be at most {MOST_PARTICLES}, got {wanted}")
    count = _estimate(raw, options.placement)
    start, step = rng.bit_generator.state, _step_for(wanted, count)
    tries: list[_Particles] = []
    for _ in range(MOST_TRIES):
        rng.bit_generator.state = start  # the same random numbers at every spacing
        tries.append(_made(raw, step, options, rng))
        ratio = len(tries[-1].points) / wanted
        if abs(ratio - 1) <= COUNT_TOLERANCE:
            break
        # The estimate errs by about the same ratio at the next spacing.
        step = _step_for(count(step) / ratio, count)
    return min(tries, key=lambda found: abs(len(found.points) - wanted))


def _triangles(vertices: ArrayLike, faces: ArrayLike) -> tuple[Array, Indices]:
    """Return vertices and triangles as arrays, quads cut along a diagonal, or raise."""
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
    """Return the spacing asked for [m], if it makes a sensible number of particles, or one that does."""
    count = _estimate(inside, placement)
    if given is None:
        return extent * _step_for(USUAL_PARTICLES, count)
    check_real("spacing", given, above=0)
    if given > extent:
        raise InputError(
            f"spacing must be smaller than the mesh, which is {extent:.4g} across, got {given!r}"
        )
    if count(given / extent) > MOST_PARTICLES:
        raise InputError(
            f"spacing {given!r} would make about {count(given / extent):.3g} particles of a mesh "
            f"{extent:.4g} across; at most {MOST_PARTICLES} are allowed"
        )
    return float(given)


def _step_for(wanted: float, count: Callable[[float], float]) -> float:
    """Return the spacing at which the estimate says that there are so many particles."""
    low, high = 1e-6, 1.0
    for _ in range(40):
        step = (low * high) ** 0.5
        low, high = (step, high) if count(step) > wanted else (low, step)
    return high


def _estimate(inside: Inside, placement: Placement | None) -> Callable[[float], float]:
    """Return a function that says about how many particles a spacing makes.

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
        if step > 2 * fine:
            thin, outer = (PER_CELL * _cubes(part, step) for part in (places[solid], places[~solid]))
        else:  # beyond the samples' own spacing they are too few to count cubes by
            thin = PER_SQUARE * float(area[filled].sum()) / 2 / step**2
            outer = PER_SQUARE * float(area[~filled].sum()) / step**2
        inner = max(PER_CUBE * volume / step**3, thin) if filled.any() else 0.0
        return inner + outer

    return count


def _cubes(points: Array, step: float) -> int:
    """Return in how many cubes of a grid the points (n, 3) of a mesh of size 1 lie."""
    cells = np.floor(points / step).astype(np.int64)
    if not len(cells):
        return 0
    # One number a cube is sorted in a tenth of the time that rows of three take.
    cells -= cells.min(0)
    return len(np.unique(np.ravel_multi_index(tuple(cells.T), tuple(cells.max(0) + 1))))


def _placed(
    inside: Inside,
    step: float,
    placement: Placement | None,
    samples: tuple[Viewpoints, Array],
    rng: np.random.Generator,
) -> Array:
    """Return where particles are (n, 3). Components without an inside have theirs on the surface."""
    if placement == "surface" or not inside.solid.any():
        return on_surface(inside, step, rng, np.ones_like(inside.solid))
    points = [on_surface(inside, step, rng, ~inside.solid)]
    if placement == "skeleton":
        points.append(along_skeleton(inside, step, rng))
    else:
        points.append(in_volume(inside, step, rng, samples))
    return np.concatenate(points)


def _edges(inside: Inside, points: Array, links: tuple[NDArray[np.int32], Array], reach: float) -> Indices:
    """Return pairs (m, 2) of particles within reach of each other, and what joins each component."""
    owners = inside.components_of(points)
    pairs, length = inside.between(points, reach, links)
    # Of regions that touch but are farther apart, the nearest are joined if nothing else joins them.
    edges = _joined(pairs[length <= reach], pairs[np.argsort(length, kind="stable")], len(points))
    # What owns no surface is joined to the nearest of its component.
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
    """Return the edges and those of the others, in their order, that join pieces which are apart."""
    pieces = _pieces(edges, count)
    added = []
    for i, j in more[pieces[more[:, 0]] != pieces[more[:, 1]]]:
        if pieces[i] != pieces[j]:
            added.append([i, j])
            pieces[pieces == pieces[j]] = pieces[i]
    return np.concatenate([edges, np.array(added, np.int64).reshape(-1, 2)])


def _pieces(edges: Indices, count: int) -> Indices:
    """Return the number of the connected piece of each particle, (count,)."""
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1], np.int64)


def _volumes(inside: Inside, points: Array, radii: Array, samples: tuple[Viewpoints, Array]) -> Array:
    """Return shares (n,) of the volume of the solid components, and the volumes of the others' ellipsoids."""
    own, (views, weights) = inside.viewpoints(points), samples
    result = 4 / 3 * np.pi * radii.prod(1)
    if own.sighted.any() and len(weights):
        owner = nearest_visible(inside, views, points)
        share = np.bincount(owner[owner >= 0], weights[owner >= 0], minlength=len(points))[own.sighted]
        share = np.maximum(share, LEAST_MASS * share.mean())
        result[own.sighted] = share / share.sum() * _volume(inside)
    return np.asarray(result)


def _volume(inside: Inside) -> float:
    """Return the volume of the solid components, each counted as positive."""
    corners = inside.tree.vertices[inside.tree.faces]
    component = inside.face_components
    parts = np.bincount(component, np.linalg.det(corners) / 6, minlength=len(inside.solid))
    return float(np.abs(parts)[inside.solid].sum())
