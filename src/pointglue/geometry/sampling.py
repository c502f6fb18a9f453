"""Points spread evenly over a surface, through a volume or along the middle of its limbs."""

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ..checks import Array
from .inside import Cover, Eyes, Inside

__all__ = [
    "along_skeleton",
    "in_volume",
    "on_surface",
    "owned_by",
    "refined",
    "surface_samples",
    "volume_samples",
]

Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]

# Samples of a surface lie this many to the spacing, on a side.
FINENESS = 3
# How often points move to the middle of what is theirs.
ROUNDS = 8
# In spacings: random points are at least this far apart, which makes them one spacing apart in the mean;
# and every vertex of a solid has one that near before they move.
APART, COVERED = 0.8, 0.9
# Places around a bare vertex from which room is looked for, at most about.
AROUND = 64


def refined(vertices: Array, faces: Indices, longest: float, most: int) -> tuple[Array, Indices]:
    """The same surface with no edge longer than that: new vertices come after the given ones.

    Of triangles with a long edge the longest one is halved, on all its triangles alike, until none is left:
    a needle is cut along its length and not across. It ends early once there are `most` triangles.
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
        middle = np.full(len(pairs), -1)
        middle[long] = len(vertices) + np.arange(long.sum())
        vertices = np.concatenate([vertices, vertices[pairs[long]].mean(1)])
        at = middle[sides]
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
    """Random vertices (k, 3), about `spacing` apart, so that every vertex has one nearer than that.

    `within` says which components are asked for. Distances are measured inside, so that a limb thinner than
    the spacing has points on one side only, and neighbours across a gap have their own.
    """
    limit = APART * spacing
    cover, chosen = Cover(inside, limit), []
    for vertex in rng.permutation(np.flatnonzero(_belongs(inside, within))):
        if cover.distance(vertex) > limit:
            chosen.append(inside.vertices[vertex])
            cover.add(chosen[-1][None])
    return np.array(chosen).reshape(-1, 3)


def in_volume(inside: Inside, spacing: float, rng: np.random.Generator, samples: tuple[Eyes, Array]) -> Array:
    """Points (k, 3) inside the solid components, about `spacing` apart.

    Random ones of the `samples` first, which are from :func:`volume_samples`; then they move to the middle
    of those that they see and are nearest to.
    """
    eyes, weights = samples
    points = eyes.points[_scattered(inside, eyes, APART * spacing, rng)]
    points = _covering(inside, points, spacing, COVERED * spacing)
    for _ in range(ROUNDS):
        points = _centred(inside, eyes, weights, owned_by(inside, eyes, points), points)
    return _covering(inside, _thinned(inside, points, spacing, rng), spacing, spacing)


def along_skeleton(inside: Inside, spacing: float, rng: np.random.Generator) -> Array:
    """Points (k, 3) of solid components that have drifted from the surface to the middle of limbs.

    Each moves to the centre of the surface within `spacing` that it sees, again and again; of points that
    come closer than half the spacing one is left. Where nothing is that thin they stay near the surface.
    """
    places, area = surface_samples(inside, spacing / FINENESS, rng)
    eyes = inside.look(places)
    tree = cKDTree(places)
    points = on_surface(inside, spacing, rng, inside.solid)
    for _ in range(ROUNDS):
        own = inside.look(points)
        near = tree.query_ball_point(points, spacing, return_sorted=True)
        i = np.repeat(np.arange(len(points)), [len(part) for part in near])
        j = np.concatenate(near).astype(np.int64) if len(i) else np.empty(0, np.int64)
        seen = inside.clear(own, i, eyes, j)
        i, j = i[seen], j[seen]
        total = np.bincount(i, area[j], minlength=len(points))
        moments = area[j, None] * places[j]
        move = np.stack([np.bincount(i, column, minlength=len(points)) for column in moments.T], axis=1)
        centre = np.divide(move, total[:, None], out=points.copy(), where=total[:, None] > 0)
        there = inside.contains(centre) & own.able
        points = np.where(there[:, None], centre, points)
    return _covering(inside, _thinned(inside, points, spacing, rng), spacing, spacing)


def volume_samples(inside: Inside, cell: float, rng: np.random.Generator) -> tuple[Eyes, Array]:
    """Points inside the solid components, at random in each cube of a grid, and the volumes they stand for.

    Parts thinner than the cubes have theirs in the middle between two walls.
    """
    corners = inside.tree.vertices[inside.tree.faces]
    low, high = corners.min((0, 1)), corners.max((0, 1))
    levels = max(0, int(np.ceil(np.log2((high - low).max() / cell))))
    cubes = np.zeros((1, 3), np.int64)
    octants = np.array(list(np.ndindex(2, 2, 2)))
    origin = (low + high) / 2 - cell * 2**levels / 2
    for level in range(levels):
        # Cubes that the surface does not come into are inside or outside as a whole.
        cubes = (2 * cubes[:, None] + octants).reshape(-1, 3)
        size = cell * 2 ** (levels - level - 1)
        middle = origin + (cubes + 0.5) * size
        far = inside.tree.closest(middle)[2] > np.sqrt(0.75) * size
        kept = ~far
        kept[far] = inside.contains(middle[far])
        cubes = cubes[kept]
    places = origin + (cubes + rng.random(cubes.shape)) * cell
    places = places[inside.contains(places)]
    foot, area = surface_samples(inside, cell, rng)
    eyes = inside.look(foot)
    middle, depth = inset(inside, _some(eyes, eyes.able), cell)
    thin = depth < 0.99 * cell
    if thin.any():  # they stand for what the grid has there
        places = places[cKDTree(middle[thin]).query(places)[0] > cell]
    weights = np.concatenate([np.full(len(places), cell**3), (area[eyes.able] * depth)[thin]])
    eyes = inside.look(np.concatenate([places, middle[thin]]))
    return _some(eyes, eyes.able), weights[eyes.able]


def inset(inside: Inside, eyes: Eyes, depth: float) -> tuple[Array, Array]:
    """From places on the surface, the centres (k, 3) and radii (k,) of the largest balls that touch it there.

    The ball has the radius `depth` at most. It begins with that and shrinks to what it runs into.
    """
    inward = _normals(inside, eyes.face)
    inward[np.einsum("kd,kd->k", eyes.places - eyes.foot, inward) < 0] *= -1
    radius = np.full(len(inward), depth)
    active = np.arange(len(inward))
    for _ in range(12):
        foot, way = eyes.foot[active], inward[active]
        face, weights, distance = inside.tree.closest(foot + radius[active, None] * way)
        away = np.einsum("kc,kcd->kd", weights, inside.tree.vertices[inside.tree.faces[face]]) - foot
        # The ball along the normal through the foot and through what is in the way.
        across = 2 * np.einsum("kd,kd->k", way, away)
        met = (distance < 0.99 * radius[active]) & (across > 0)
        active = active[met]
        radius[active] = np.minimum(radius[active], (away[met] ** 2).sum(1) / across[met])
    return eyes.foot + radius[:, None] * inward, radius


def owned_by(inside: Inside, eyes: Eyes, points: Array) -> Indices:
    """The nearest of the points (k, 3) that each of the eyes (n,) sees, -1 if none of the nearest eight."""
    count = min(8, len(points))
    _, near = cKDTree(points).query(eyes.points, k=count)
    near = near.reshape(len(eyes.points), count)
    own, result = inside.look(points), np.full(len(eyes.points), -1)
    for column in near.T:
        rest = np.flatnonzero(result < 0)
        seen = inside.clear(eyes, rest, own, column[rest])
        result[rest[seen]] = column[rest[seen]]
    return result


def _scattered(inside: Inside, eyes: Eyes, spacing: float, rng: np.random.Generator) -> Indices:
    """Numbers of points in random order, none closer than the spacing to one before that it sees."""
    tree = cKDTree(eyes.points)
    free, chosen = np.ones(len(eyes.points), np.bool_), []
    for k in rng.permutation(len(eyes.points)):
        if free[k]:
            chosen.append(k)
            near = np.array(tree.query_ball_point(eyes.points[k], spacing), np.int64)
            near = near[free[near]]
            free[near[inside.clear(eyes, np.full(len(near), k), eyes, near)]] = False
            free[k] = False
    return np.array(chosen, np.int64)


def _thinned(inside: Inside, points: Array, spacing: float, rng: np.random.Generator) -> Array:
    """Of points that have come closer than half the spacing and see each other, one."""
    return points[np.sort(_scattered(inside, inside.look(points), spacing / 2, rng))]


def _covering(inside: Inside, points: Array, spacing: float, limit: float) -> Array:
    """The points, and more until every vertex of a solid component has one within the limit, inside."""
    cover = Cover(inside, limit)
    cover.add(points)
    bare = np.flatnonzero(_belongs(inside, inside.solid) & (cover.distances > limit))
    # From the ends of limbs, which are farthest from the middle of everything, back to what is covered.
    middles = inside.tree.vertices[inside.tree.faces].mean(1)
    remote = np.linalg.norm(inside.vertices[bare] - middles.mean(0), axis=1)
    near, component = cKDTree(middles), inside.face_components
    for vertex in bare[np.argsort(-remote, kind="stable")]:
        if cover.distance(vertex) > limit:
            place = inside.vertices[vertex][None]
            around = np.array(near.query_ball_point(place[0], spacing / 2, return_sorted=True), np.int64)
            around = around[component[around] == inside.components[vertex]]
            around = around[:: 1 + len(around) // AROUND]
            place = _roomiest(inside, place, middles[around], spacing / 2, points)
            cover.add(place)
            points = np.concatenate([points.reshape(-1, 3), place])
    return points


def _roomiest(inside: Inside, place: Array, around: Array, depth: float, points: Array) -> Array:
    """Of the balls below places `around` (k, 3) that see the place (1, 3), the centre (1, 3) of the largest.

    It counts as no larger than half its distance from the points (n, 3). If there is none it is the place:
    from one on a sharp edge alone there would be no ball at all.
    """
    if not len(around):
        return place
    centres, radii = inset(inside, inside.look(around), depth)
    eyes, own = inside.look(centres), inside.look(place)
    seen = inside.clear(eyes, np.arange(len(centres)), own, np.zeros(len(centres), np.int64))
    seen &= np.linalg.norm(centres - place, axis=1) < depth
    if len(points):
        radii = np.minimum(radii, 0.5 * cKDTree(points).query(centres)[0])
    room = np.where(seen, radii, 0.0)
    if not room.max(initial=0.0) > 0.1 * depth:
        return place
    return np.asarray(centres[room.argmax()][None])


def _centred(inside: Inside, eyes: Eyes, weights: Array, owner: Indices, points: Array) -> Array:
    """Each point in the middle of the samples it owns, or at the sample nearest to it if that is outside."""
    count = len(points)
    had = owner >= 0
    total = np.bincount(owner[had], weights[had], minlength=count)
    sums = [
        np.bincount(owner[had], (weights * eyes.points[:, axis])[had], minlength=count) for axis in range(3)
    ]
    middle = np.divide(np.stack(sums, 1), total[:, None], out=points.copy(), where=total[:, None] > 0)
    # The sample nearest to the middle, of those owned.
    order = np.flatnonzero(had)
    away = np.linalg.norm(eyes.points[order] - middle[owner[order]], axis=1)
    order = order[np.lexsort((away, owner[order]))]
    some, first = np.unique(owner[order], return_index=True)
    nearest = order[first]
    good = inside.contains(middle[some]) & inside.clear(inside.look(middle), some, eyes, nearest)
    result = points.copy()
    result[some] = np.where(good[:, None], middle[some], eyes.points[nearest])
    return result


def surface_samples(inside: Inside, spacing: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Points (k, 3) at random on the surface, one to a square of the spacing, and their areas (k,)."""
    corners = inside.tree.vertices[inside.tree.faces]
    area = 0.5 * np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    )
    filled = np.cumsum(area)
    count = int(np.ceil(filled[-1] / spacing**2))
    face = np.searchsorted(filled, (np.arange(count) + rng.random(count)) / count * filled[-1])
    u, v = np.sqrt(rng.random(count)), rng.random(count)
    weights = np.stack([1 - u, u * (1 - v), u * v], axis=1)
    chosen = corners[np.minimum(face, len(area) - 1)]
    return np.einsum("kc,kcd->kd", weights, chosen), np.full(count, filled[-1] / max(count, 1))


def _normals(inside: Inside, face: Indices) -> Array:
    corners = inside.tree.vertices[inside.tree.faces[face]]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    return np.asarray(np.divide(normal, length, out=np.zeros_like(normal), where=length > 0))


def _belongs(inside: Inside, within: Mask) -> Mask:
    """Which vertices belong to one of those components.

    A vertex that lies on the surface of another component may be taken for a point of that one, which
    would leave its own as bare as before.
    """
    used = np.flatnonzero((inside.components >= 0) & within[inside.components])
    if len(inside.solid) > 1:
        used = used[inside.owners(inside.vertices[used]) == inside.components[used]]
    result = np.zeros(len(inside.components), np.bool_)
    result[used] = True
    return result


def _some(eyes: Eyes, mask: Mask) -> Eyes:
    return Eyes(*(array[mask] for array in vars(eyes).values()))
