"""Points spread evenly over a surface, through a volume or along the centre lines of its limbs."""

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ..checks import Array
from .inside import Cover, Inside, Viewpoints
from .normals import area_normals, unit_normals

__all__ = [
    "along_skeleton",
    "in_volume",
    "inscribed_balls",
    "nearest_visible",
    "on_surface",
    "refined",
    "surface_samples",
    "volume_samples",
]

Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]

# Number of samples of a surface along one spacing.
SAMPLES_PER_SPACING = 3
# Number of relaxation steps, in each of which points move to the centroid of their samples.
RELAXATIONS = 8
# Ratios to the spacing: random points are at least this far apart, which makes them one spacing apart in the
# mean; and every vertex of a solid has a point this near before relaxation.
LEAST_GAP, COVER_RADIUS = 0.8, 0.9
# Number of places around an uncovered vertex from which the largest ball is sought, at most about.
MOST_STARTS = 64
# Number of steps in which a ball shrinks, at most, and the ratio of its distance from the surface to its
# radius at which it stops.
MOST_SHRINKS, OVERLAP = 12, 0.99
# Number of nearest points among which the nearest visible one is sought.
TRIED = 8
# Ratio to the depth asked for: points do not move to the centres of smaller balls.
LEAST_BALL = 0.1


def refined(vertices: Array, faces: Indices, longest: float, most: int) -> tuple[Array, Indices]:
    """Refine a surface until no edge is longer than a length.

    A triangle with an edge that is too long has its longest edge halved, and so have all triangles that share
    that edge, until no edge is too long.

    Parameters
    ----------
    vertices : (n, 3)
        The vertices [m].
    faces : (m, 3)
        The triangles.
    longest : float
        The length [m].
    most : int
        The number of triangles at which the refinement ends early.

    Returns
    -------
    vertices : (k, 3)
        The given vertices and after them the new ones [m].
    faces : (l, 3)
        The triangles.
    """
    while True:
        ends = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
        key, which = np.unique(ends[:, 0] * len(vertices) + ends[:, 1], return_inverse=True)
        pairs = np.stack(np.divmod(key, len(vertices)), axis=1)
        length = np.linalg.norm(vertices[pairs[:, 0]] - vertices[pairs[:, 1]], axis=1)
        sides = which.reshape(-1, 3)
        longest_of = np.take_along_axis(sides, length[sides].argmax(1)[:, None], axis=1)[:, 0]
        long = np.zeros(len(pairs), np.bool_)
        long[longest_of[length[longest_of] > longest]] = True
        if not long.any() or len(faces) >= most:
            return vertices, faces
        halfway = np.full(len(pairs), -1)
        halfway[long] = len(vertices) + np.arange(long.sum())
        vertices = np.concatenate([vertices, vertices[pairs[long]].mean(1)])
        at = halfway[sides]
        cut = at >= 0
        parts = [faces[~cut.any(1)]]
        for turn in range(3):
            # Corner a and the edge ab first: one cut through ab, or two through ab and bc.
            a, b, c = np.roll(faces, -turn, axis=1).T
            ab, bc, ca = np.roll(at, -turn, axis=1).T
            one, two = (ab >= 0) & (bc < 0) & (ca < 0), (ab >= 0) & (bc >= 0) & (ca < 0)
            parts += [np.stack(t, axis=1)[one] for t in ((a, ab, c), (ab, b, c))]
            parts += [np.stack(t, axis=1)[two] for t in ((ab, b, bc), (a, ab, bc), (a, bc, c))]
        (a, b, c), (ab, bc, ca) = faces.T, at.T
        three = cut.all(1)
        parts += [np.stack(t, axis=1)[three] for t in ((a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca))]
        faces = np.concatenate(parts)


def on_surface(inside: Inside, spacing: float, rng: np.random.Generator, within: Mask) -> Array:
    """Choose random vertices, about `spacing` apart, so that every vertex has one nearer than that.

    Distances are measured inside, so that a limb thinner than the spacing has points on one side only, and
    neighbours across a gap have their own.

    Parameters
    ----------
    inside : Inside
        The shape.
    spacing : float
        The distance [m].
    rng : numpy.random.Generator
        The source of randomness.
    within : (components,)
        Which components are asked for.

    Returns
    -------
    (k, 3)
        The points [m].
    """
    limit = LEAST_GAP * spacing
    cover, chosen = Cover(inside, limit), []
    for vertex in rng.permutation(np.flatnonzero(_vertices_of(inside, within))):
        if cover.distance(vertex) > limit:
            chosen.append(inside.vertices[vertex])
            cover.add(chosen[-1][None])
    return np.array(chosen).reshape(-1, 3)


def in_volume(
    inside: Inside, spacing: float, rng: np.random.Generator, samples: tuple[Viewpoints, Array]
) -> Array:
    """Spread points inside the solid components, about `spacing` apart.

    The points start as a random choice of the samples. Lloyd's relaxation then moves each one to the
    centroid of the samples that it sees and that are nearer to it than to other points.

    Parameters
    ----------
    inside : Inside
        The shape.
    spacing : float
        The distance between neighbours [m].
    rng : numpy.random.Generator
        The source of randomness.
    samples : (Viewpoints, (n,))
        The samples and their volumes [m^3], from :func:`volume_samples`.

    Returns
    -------
    (k, 3)
        The points [m].
    """
    views, weights = samples
    points = views.points[_poisson_disk(inside, views, LEAST_GAP * spacing, rng)]
    points = _with_cover(inside, points, spacing, COVER_RADIUS * spacing)
    for _ in range(RELAXATIONS):
        points = _lloyd_step(inside, views, weights, nearest_visible(inside, views, points), points)
    return _with_cover(inside, _thinned(inside, points, spacing, rng), spacing, spacing)


def along_skeleton(inside: Inside, spacing: float, rng: np.random.Generator) -> Array:
    """Spread points along the centre lines of the limbs of solid components.

    The points start on the surface, and each moves repeatedly to the centroid of the part of the surface
    that it sees within `spacing`. Of points that come closer than half the spacing to each other, one is
    kept. In parts thicker than the spacing, points stay near the surface.

    Parameters
    ----------
    inside : Inside
        The shape.
    spacing : float
        The distance between neighbours [m].
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    (k, 3)
        The points [m].
    """
    places, area = surface_samples(inside, spacing / SAMPLES_PER_SPACING, rng)
    views = inside.viewpoints(places)
    tree = cKDTree(places)
    points = on_surface(inside, spacing, rng, inside.solid)
    for _ in range(RELAXATIONS):
        own = inside.viewpoints(points)
        near = tree.query_ball_point(points, spacing, return_sorted=True)
        i = np.repeat(np.arange(len(points)), [len(part) for part in near])
        j = np.concatenate(near).astype(np.int64) if len(i) else np.empty(0, np.int64)
        seen = inside.line_of_sight(own, i, views, j)
        i, j = i[seen], j[seen]
        total = np.bincount(i, area[j], minlength=len(points))
        moments = area[j, None] * places[j]
        move = np.stack([np.bincount(i, column, minlength=len(points)) for column in moments.T], axis=1)
        centre = np.divide(move, total[:, None], out=points.copy(), where=total[:, None] > 0)
        there = inside.contains(centre) & own.sighted
        points = np.where(there[:, None], centre, points)
    return _with_cover(inside, _thinned(inside, points, spacing, rng), spacing, spacing)


def volume_samples(inside: Inside, cell: float, rng: np.random.Generator) -> tuple[Viewpoints, Array]:
    """Sample the inside of the solid components with a random point in each cube of a grid.

    Parts that are thinner than a cube are sampled half way between their two walls.

    Parameters
    ----------
    inside : Inside
        The shape.
    cell : float
        The size of a cube [m].
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    views : Viewpoints
        The k points.
    volumes : (k,)
        The volume that each point represents [m^3].
    """
    corners = inside.tree.vertices[inside.tree.faces]
    low, high = corners.min((0, 1)), corners.max((0, 1))
    levels = max(0, int(np.ceil(np.log2((high - low).max() / cell))))
    cubes = np.zeros((1, 3), np.int64)
    octants = np.array(list(np.ndindex(2, 2, 2)))
    origin = (low + high) / 2 - cell * 2**levels / 2
    for level in range(levels):
        # Cubes that the surface does not cross are inside or outside as a whole.
        cubes = (2 * cubes[:, None] + octants).reshape(-1, 3)
        size = cell * 2 ** (levels - level - 1)
        centre = origin + (cubes + 0.5) * size
        far = inside.tree.closest(centre)[2] > np.sqrt(0.75) * size
        kept = ~far
        kept[far] = inside.contains(centre[far])
        cubes = cubes[kept]
    places = origin + (cubes + rng.random(cubes.shape)) * cell
    places = places[inside.contains(places)]
    foot, area = surface_samples(inside, cell, rng)
    views = inside.viewpoints(foot)
    centres, depth = inscribed_balls(inside, views[views.sighted], cell)
    thin = depth < 0.99 * cell
    if thin.any():  # they replace the samples of the grid there
        places = places[cKDTree(centres[thin]).query(places)[0] > cell]
    weights = np.concatenate([np.full(len(places), cell**3), (area[views.sighted] * depth)[thin]])
    views = inside.viewpoints(np.concatenate([places, centres[thin]]))
    return views[views.sighted], weights[views.sighted]


def inscribed_balls(inside: Inside, views: Viewpoints, depth: float) -> tuple[Array, Array]:
    """Find the largest balls inside that touch the surface at the feet of viewpoints.

    Each ball starts with the radius `depth` and shrinks until it no longer crosses the surface.

    Parameters
    ----------
    inside : Inside
        The shape.
    views : Viewpoints
        The k viewpoints.
    depth : float
        The largest radius [m].

    Returns
    -------
    centres : (k, 3)
        The centres of the balls [m].
    radii : (k,)
        Their radii, at most `depth` [m].
    """
    inward = unit_normals(inside.tree.vertices[inside.tree.faces[views.face]])
    inward[np.einsum("kd,kd->k", views.origins - views.foot, inward) < 0] *= -1
    radius = np.full(len(inward), depth)
    active = np.arange(len(inward))
    for _ in range(MOST_SHRINKS):
        foot, way = views.foot[active], inward[active]
        face, weights, distance = inside.tree.closest(foot + radius[active, None] * way)
        away = np.einsum("kc,kcd->kd", weights, inside.tree.vertices[inside.tree.faces[face]]) - foot
        # The ball with its centre on the normal that passes through the foot and through the obstacle.
        across = 2 * np.einsum("kd,kd->k", way, away)
        met = (distance < OVERLAP * radius[active]) & (across > 0)
        active = active[met]
        radius[active] = np.minimum(radius[active], (away[met] ** 2).sum(1) / across[met])
    return views.foot + radius[:, None] * inward, radius


def nearest_visible(inside: Inside, views: Viewpoints, points: Array) -> Indices:
    """Return the nearest point that each viewpoint sees.

    Parameters
    ----------
    inside : Inside
        The shape.
    views : Viewpoints
        The n viewpoints.
    points : (k, 3)
        The points [m].

    Returns
    -------
    (n,)
        Rows of `points`; -1 for a viewpoint that sees none of the TRIED nearest ones.
    """
    count = min(TRIED, len(points))
    _, near = cKDTree(points).query(views.points, k=count)
    near = near.reshape(len(views.points), count)
    own, result = inside.viewpoints(points), np.full(len(views.points), -1)
    for column in near.T:
        rest = np.flatnonzero(result < 0)
        seen = inside.line_of_sight(views, rest, own, column[rest])
        result[rest[seen]] = column[rest[seen]]
    return result


def _poisson_disk(inside: Inside, views: Viewpoints, spacing: float, rng: np.random.Generator) -> Indices:
    """Choose points in random order, none closer than the spacing to an earlier one that it sees."""
    tree = cKDTree(views.points)
    free, chosen = np.ones(len(views.points), np.bool_), []
    for k in rng.permutation(len(views.points)):
        if free[k]:
            chosen.append(k)
            near = np.array(tree.query_ball_point(views.points[k], spacing), np.int64)
            near = near[free[near]]
            free[near[inside.line_of_sight(views, np.full(len(near), k), views, near)]] = False
            free[k] = False
    return np.array(chosen, np.int64)


def _thinned(inside: Inside, points: Array, spacing: float, rng: np.random.Generator) -> Array:
    """Keep one of any points that are closer than half the spacing and see each other."""
    return points[np.sort(_poisson_disk(inside, inside.viewpoints(points), spacing / 2, rng))]


def _with_cover(inside: Inside, points: Array, spacing: float, limit: float) -> Array:
    """Return the points, and more until every vertex of a solid component has one within the limit."""
    cover = Cover(inside, limit)
    cover.add(points)
    bare = np.flatnonzero(_vertices_of(inside, inside.solid) & (cover.distances > limit))
    # Start at the ends of limbs, which are farthest from the centroid of the whole surface.
    centroids = inside.tree.vertices[inside.tree.faces].mean(1)
    remote = np.linalg.norm(inside.vertices[bare] - centroids.mean(0), axis=1)
    near, component = cKDTree(centroids), inside.face_components
    for vertex in bare[np.argsort(-remote, kind="stable")]:
        if cover.distance(vertex) > limit:
            place = inside.vertices[vertex][None]
            around = np.array(near.query_ball_point(place[0], spacing / 2, return_sorted=True), np.int64)
            around = around[component[around] == inside.components[vertex]]
            around = around[:: 1 + len(around) // MOST_STARTS]
            place = _largest_ball(inside, place, centroids[around], spacing / 2, points)
            cover.add(place)
            points = np.concatenate([points.reshape(-1, 3), place])
    return points


def _largest_ball(inside: Inside, place: Array, around: Array, depth: float, points: Array) -> Array:
    """Return the centre (1, 3) of the largest ball below places `around` (k, 3) that sees the place (1, 3).

    The radius of a ball counts as at most half the distance of its centre from the points (n, 3). If there is
    no such ball, the place itself is returned. Several places are tried because there is no ball below one on
    a sharp edge.
    """
    if not len(around):
        return place
    centres, radii = inscribed_balls(inside, inside.viewpoints(around), depth)
    views, own = inside.viewpoints(centres), inside.viewpoints(place)
    seen = inside.line_of_sight(views, np.arange(len(centres)), own, np.zeros(len(centres), np.int64))
    seen &= np.linalg.norm(centres - place, axis=1) < depth
    if len(points):
        radii = np.minimum(radii, 0.5 * cKDTree(points).query(centres)[0])
    room = np.where(seen, radii, 0.0)
    if not room.max(initial=0.0) > LEAST_BALL * depth:
        return place
    return np.asarray(centres[room.argmax()][None])


def _lloyd_step(inside: Inside, views: Viewpoints, weights: Array, owner: Indices, points: Array) -> Array:
    """Move each point to the centroid of the samples it owns: a step of Lloyd's relaxation.

    If the centroid is outside, the point moves to the sample nearest to it.
    """
    count = len(points)
    had = owner >= 0
    total = np.bincount(owner[had], weights[had], minlength=count)
    sums = [
        np.bincount(owner[had], (weights * views.points[:, axis])[had], minlength=count) for axis in range(3)
    ]
    centroid = np.divide(np.stack(sums, 1), total[:, None], out=points.copy(), where=total[:, None] > 0)
    # The sample nearest to the centroid, of those owned.
    order = np.flatnonzero(had)
    away = np.linalg.norm(views.points[order] - centroid[owner[order]], axis=1)
    order = order[np.lexsort((away, owner[order]))]
    some, first = np.unique(owner[order], return_index=True)
    nearest = order[first]
    good = inside.contains(centroid[some]) & inside.line_of_sight(
        inside.viewpoints(centroid), some, views, nearest
    )
    result = points.copy()
    result[some] = np.where(good[:, None], centroid[some], views.points[nearest])
    return result


def surface_samples(inside: Inside, spacing: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Sample the surface at random, with one point per area of `spacing` squared.

    Parameters
    ----------
    inside : Inside
        The shape.
    spacing : float
        The approximate distance between neighbours [m].
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    points : (k, 3)
        The samples [m].
    areas : (k,)
        The area that each point represents [m^2].
    """
    corners = inside.tree.vertices[inside.tree.faces]
    area = 0.5 * np.linalg.norm(area_normals(corners), axis=1)
    filled = np.cumsum(area)
    count = int(np.ceil(filled[-1] / spacing**2))
    face = np.searchsorted(filled, (np.arange(count) + rng.random(count)) / count * filled[-1])
    u, v = np.sqrt(rng.random(count)), rng.random(count)
    weights = np.stack([1 - u, u * (1 - v), u * v], axis=1)
    chosen = corners[np.minimum(face, len(area) - 1)]
    return np.einsum("kc,kcd->kd", weights, chosen), np.full(count, filled[-1] / max(count, 1))


def _vertices_of(inside: Inside, within: Mask) -> Mask:
    """Return which vertices (n,) belong to one of the components `within`.

    Vertices on the surface of another component are left out: a point there may be assigned to that
    component, and would not cover its own.
    """
    used = np.flatnonzero((inside.components >= 0) & within[inside.components])
    if len(inside.solid) > 1:
        used = used[inside.components_of(inside.vertices[used]) == inside.components[used]]
    result = np.zeros(len(inside.components), np.bool_)
    result[used] = True
    return result
