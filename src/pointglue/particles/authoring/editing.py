"""Editing of bodies, as a design tool does it: each function takes a body and returns another one.

`where` says what an edit is about: a :class:`Brush`, the numbers of the things themselves, or a mask of them
all. Particles that an edit leaves without any neighbour make the body loose, until they are connected.
"""

from dataclasses import dataclass, replace
from math import inf, pi
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from ...checks import Array, as_array, as_integers, as_reals, generator
from ...errors import InputError
from ...geometry.inside import Inside, Viewpoints
from ...geometry.sampling import inscribed_balls, refined
from ..body import OrientedBody
from .skinning import Skin, links_to

__all__ = ["Brush", "add", "bind", "connect", "cut", "erase", "group", "paint", "pin", "spray", "ungroup"]

Field = Literal["stiffness", "stretch", "torsion", "yield_strain", "creep", "mass"]
EDGE_FIELDS = ("stretch", "torsion")
# A stroke that would make more particles than this is a slip of the hand.
MOST = 50_000
# Points tried for each particle that finds room: enough that no gap of twice the spacing is left.
TRIES = 30
# In spacings: how deep below the surface sprayed particles look for each other, so that they see along the
# floor of a bowl, but not across a gap.
DEPTH = 0.25
# Ways over the surface lead through vertices, which makes them too long by a few per cent where so many of
# those go to the length of an edge; triangles are not made finer than that, nor more than so many.
FINENESS, REFINED = 6, 100_000


@dataclass(frozen=True, eq=False)
class Brush:
    """A ball; a smooth one works less towards its rim, as (1 - (d / radius)^2)^2."""

    centre: ArrayLike
    """(3,), m."""
    radius: float
    """m."""
    smooth: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        centre = as_reals("centre", self.centre).astype(np.float64)
        if centre.shape != (3,) or not np.isfinite(centre).all():
            raise InputError(f"centre must be three finite numbers, got {self.centre!r}")
        object.__setattr__(self, "centre", centre)
        _positive("radius", self.radius)
        if not isinstance(self.smooth, bool | np.bool_):
            raise InputError(f"smooth must be True or False, got {self.smooth!r}")

    def strength(self, points: Array) -> Array:
        """(k,), how much the brush does at points (k, 3): 1 within it and 0 without, unless it is smooth."""
        near = np.linalg.norm(points - self.centre, axis=1) / self.radius
        return np.where(near <= 1, (1 - near**2) ** 2 if self.smooth else 1.0, 0.0)

    def covers(self, points: Array) -> NDArray[np.bool_]:
        """(k,), which of points (k, 3) are within."""
        return np.asarray(np.linalg.norm(points - self.centre, axis=1) <= self.radius)


def add(body: OrientedBody, positions: ArrayLike, *, radii: ArrayLike) -> OrientedBody:
    """With particles at `positions` (k, 3), of the substance of the nearest one each.

    `radii` are one number, (k,) or (k, 3). They have no edges and carry no vertices yet: see
    :func:`connect` and :func:`bind`.
    """
    _check(body)
    new = OrientedBody(positions, radii=radii, loose=True)
    like = cKDTree(body.positions).query(new.positions)[1]
    density = body.mass / body.radii.prod(1)
    values = {
        "positions": new.positions,
        "orientations": new.orientations,
        "radii": new.radii,
        "mass": density[like] * new.radii.prod(1),
        "stiffness": body.stiffness[like],
        "yield_strain": body.yield_strain[like],
        "creep": body.creep[like],
        "pinned": new.pinned,
    }
    return _edited(body, **{name: np.concatenate([getattr(body, name), v]) for name, v in values.items()})


def spray(
    body: OrientedBody,
    where: Brush,
    *,
    spacing: float,
    radii: float | None = None,
    seed: int | np.random.Generator = 0,
) -> OrientedBody:
    """With particles on the visual mesh within the brush, at random, none closer than `spacing` to another.

    Particles across a gap in the mesh do not count: those of another component, and those that are not seen
    from just below the surface; where that has no inside, all of the component do. `radii` are half the
    spacing unless given. The same seed makes the same particles.
    """
    _check(body)
    _brush(where)
    _positive("spacing", spacing)
    rng, skin = generator(seed), _visual(body)
    points = _scattered(skin, where, spacing, rng)
    if not len(points):
        return body
    old = body.positions[Brush(where.centre, where.radius + spacing).covers(body.positions)]
    first, places = len(old), np.concatenate([old, points])
    views, tree = _lookouts(skin.inside, places, DEPTH * spacing), cKDTree(points)
    room, chosen = np.ones(len(places), np.bool_), []
    for k in range(len(places)):
        if room[k]:
            near = first + np.array(tree.query_ball_point(places[k], spacing), np.int64)
            near = near[room[near]]
            room[near[_aware(skin.inside, views, np.full(len(near), k), near)]] = False
            if k >= first:
                chosen.append(k)
    return add(body, places[chosen], radii=0.5 * spacing if radii is None else radii) if chosen else body


def erase(body: OrientedBody, where: Brush | ArrayLike) -> OrientedBody:
    """Without the particles within the brush, or of these numbers, and all that hangs on them.

    Vertices are carried by the particles left to them; those that have lost all are bound anew.
    """
    _check(body)
    gone = np.zeros(len(body), np.bool_)
    gone[_chosen("where", where, body.positions, "particles")] = True
    if gone.all():
        raise InputError("where covers every particle: a body has at least one")
    if not gone.any():
        return body
    number = np.cumsum(~gone) - 1
    kept = ~gone[body.edges].any(1)
    groups = [number[members[~gone[members]]] for members in body.groups]
    alive = np.array([len(members) > 0 for members in groups], np.bool_)
    per_particle = (
        "positions",
        "orientations",
        "radii",
        "mass",
        "stiffness",
        "yield_strain",
        "creep",
        "pinned",
    )
    return _edited(
        body,
        **{name: getattr(body, name)[~gone] for name in per_particle},
        edges=number[body.edges[kept]],
        **{name: getattr(body, name)[kept] for name in EDGE_FIELDS},
        groups=[members for members in groups if len(members)],
        yield_speed=body.yield_speed[alive],
        visual=None if body.visual is None else _without(body.visual, gone, number, body.positions[~gone]),
    )


def connect(
    body: OrientedBody,
    where: Brush | ArrayLike,
    *,
    longest: float | None = None,
    stretch: float = 0.0,
    torsion: float = 0.0,
) -> OrientedBody:
    """With edges between all particles within the brush closer than `longest` (m), or between pairs (k, 2).

    In a body with a visual mesh, the brush measures inside its shape: straight between particles that see
    each other, else over the surface, and never from one component to another, so that no edge leaps a gap.
    Without one it measures straight. Pairs that have an edge keep it. `stretch` and `torsion` are those of
    the new ones.
    """
    _check(body)
    _within("stretch", stretch, 1.0)
    _within("torsion", torsion, 1.0)
    if isinstance(where, Brush):
        if longest is None:
            raise InputError("longest must say how long an edge may be: a brush covers pairs of all lengths")
        _positive("longest", longest)
        inside = np.flatnonzero(where.covers(body.positions))
        points = body.positions[inside]
        pairs = cKDTree(points).query_pairs(longest, output_type="ndarray").astype(np.int64)
        if body.visual is not None and len(pairs):
            pairs = _inside(body.visual, points, pairs, longest)
        pairs = inside[pairs[np.lexsort(pairs.T[::-1])].reshape(-1, 2)]
    else:
        if longest is not None:
            raise InputError("longest goes with a brush, but where is pairs")
        pairs = _pairs(where, len(body))
        if (pairs[:, 0] == pairs[:, 1]).any():
            bad = int((pairs[:, 0] == pairs[:, 1]).argmax())
            raise InputError(f"where[{bad}] joins particle {pairs[bad, 0]} to itself")
    known = set(map(tuple, np.sort(body.edges, axis=1).tolist()))
    fresh = []
    for i, j in pairs.tolist():
        if (min(i, j), max(i, j)) not in known:
            known.add((min(i, j), max(i, j)))
            fresh.append((i, j))
    if not fresh:
        return body
    return _edited(
        body,
        edges=np.concatenate([body.edges, fresh]),
        stretch=np.concatenate([body.stretch, np.full(len(fresh), stretch)]),
        torsion=np.concatenate([body.torsion, np.full(len(fresh), torsion)]),
    )


def cut(body: OrientedBody, where: Brush | ArrayLike) -> OrientedBody:
    """Without the edges that pass through the brush, or that join pairs (k, 2)."""
    _check(body)
    if isinstance(where, Brush):
        a, b = body.positions[body.edges[:, 0]], body.positions[body.edges[:, 1]]
        along = np.einsum("ni,ni->n", where.centre - a, b - a) / ((b - a) ** 2).sum(1)
        gone = where.covers(a + np.clip(along, 0, 1)[:, None] * (b - a))
    else:
        pairs = _pairs(where, len(body))
        number = {tuple(edge): k for k, edge in enumerate(np.sort(body.edges, axis=1).tolist())}
        gone = np.zeros(len(body.edges), np.bool_)
        for i, j in pairs.tolist():
            if (min(i, j), max(i, j)) not in number:
                raise InputError(f"where holds [{i}, {j}], but these particles have no edge")
            gone[number[min(i, j), max(i, j)]] = True
    names = ("edges", *EDGE_FIELDS)
    return _edited(body, **{name: getattr(body, name)[~gone] for name in names}) if gone.any() else body


def paint(
    body: OrientedBody, where: Brush | ArrayLike, field: Field, value: float, *, strength: float = 1.0
) -> OrientedBody:
    """With `field` moved towards `value`, all the way at strength 1, for particles or edges.

    A brush takes the particles within it, or the edges whose middle is; numbers are those of particles or,
    for "stretch" and "torsion", of edges. Nothing lies between a number and infinity: there any strength
    goes all the way.
    """
    _check(body)
    if field not in get_args(Field):
        raise InputError(f"field must be one of {', '.join(get_args(Field))}, got {field!r}")
    if isinstance(value, bool) or not isinstance(value, Real) or np.isnan(value):
        raise InputError(f"value must be a number, got {value!r}")
    _within("strength", strength, 1.0)
    edges = field in EDGE_FIELDS
    places = body.positions[body.edges].mean(1) if edges else body.positions
    if isinstance(where, Brush):
        share = strength * where.strength(places)
    else:
        share = np.zeros(len(places))
        share[_chosen("where", where, places, "edges" if edges else "particles")] = strength
    old = getattr(body, field)
    touched = share > 0
    new = old.copy()
    if np.isinf(value):
        new[touched] = value
    else:
        whole = touched & (np.isinf(old) | (share == 1))
        part = touched & ~whole
        new[whole] = value
        new[part] += share[part] * (value - old[part])
    return _edited(body, **{field: new})


def pin(body: OrientedBody, where: Brush | ArrayLike, *, pinned: bool = True) -> OrientedBody:
    """With particles held where they are, or let go."""
    _check(body)
    if not isinstance(pinned, bool | np.bool_):
        raise InputError(f"pinned must be True or False, got {pinned!r}")
    held = body.pinned.copy()
    held[_chosen("where", where, body.positions, "particles")] = pinned
    return body.replace(pinned=held)


def group(body: OrientedBody, where: Brush | ArrayLike, *, yield_speed: float = inf) -> OrientedBody:
    """With one more rigid group, of the particles within the brush or of these numbers."""
    _check(body)
    _within("yield_speed", yield_speed, inf)
    members = _chosen("where", where, body.positions, "particles")
    if not len(members):
        raise InputError("where covers no particle: a group has at least one")
    return _edited(
        body, groups=[*body.groups, members], yield_speed=np.concatenate([body.yield_speed, [yield_speed]])
    )


def ungroup(body: OrientedBody, where: Brush | ArrayLike) -> OrientedBody:
    """Without the rigid groups that have a particle within the brush, or of these numbers."""
    _check(body)
    if isinstance(where, Brush):
        gone = np.array([where.covers(body.positions[members]).any() for members in body.groups], np.bool_)
    else:
        gone = np.zeros(len(body.groups), np.bool_)
        gone[_numbers("where", where, len(body.groups), "groups")] = True
    kept = [members for members, leaves in zip(body.groups, gone, strict=True) if not leaves]
    return _edited(body, groups=kept, yield_speed=body.yield_speed[~gone])


def bind(
    body: OrientedBody,
    vertices: Brush | ArrayLike | None = None,
    particles: Brush | ArrayLike | None = None,
) -> OrientedBody:
    """With the chosen vertices of the visual mesh carried by the chosen particles only; None for all of them.

    Everything else stays linked as it is. Distances are measured inside the shape.
    """
    _check(body)
    skin = _visual(body)
    at = _all(len(skin)) if vertices is None else _chosen("vertices", vertices, skin.vertices, "vertices")
    to = (
        _all(len(body)) if particles is None else _chosen("particles", particles, body.positions, "particles")
    )
    if not len(to):
        raise InputError("particles covers none: vertices have to be carried by something")
    return body.replace(visual=_bound(skin, at, to, body.positions[to])) if len(at) else body


def _bound(skin: Skin, vertices: NDArray[np.int64], numbers: NDArray[np.int64], positions: Array) -> Skin:
    """The skin with `vertices` linked to the particles `numbers` (k,) at `positions` (k, 3)."""
    found, share = links_to(skin.inside, positions, vertices)
    links, weights = skin.links.copy(), skin.weights.copy()
    links[vertices], weights[vertices] = numbers[found], share
    return skin.relinked(links, weights)


def _without(skin: Skin, gone: NDArray[np.bool_], number: NDArray[np.int64], positions: Array) -> Skin:
    """The skin after the particles `gone` (n,) have left and the others, at `positions`, been renumbered."""
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
    return _bound(kept, lost, _all(len(positions)), positions) if len(lost) else kept


def _scattered(skin: Skin, brush: Brush, spacing: float, rng: np.random.Generator) -> Array:
    """Points (k, 3) on the mesh within the brush, as dense everywhere and in random order.

    A triangle's plane meets the ball in a disc: points are drawn in the smaller of the two, and those kept
    that lie in both.
    """
    centre = np.asarray(brush.centre)
    near = skin.inside.faces_in_box(centre - brush.radius, centre + brush.radius)
    a, b, c = np.moveaxis(skin.vertices[skin.faces[near]], 1, 0)
    normal = np.cross(b - a, c - a)
    double = np.linalg.norm(normal, axis=1)
    solid = double > 0
    a, b, c, normal, double = a[solid], b[solid], c[solid], normal[solid] / double[solid, None], double[solid]
    height = np.einsum("ni,ni->n", centre - a, normal)
    middle = centre - height[:, None] * normal
    rim = np.sqrt(np.maximum(brush.radius**2 - height**2, 0.0))
    in_disc = pi * rim**2 < 0.5 * double
    expected = TRIES * np.where(in_disc, pi * rim**2, 0.5 * double) / spacing**2
    if expected.sum() > TRIES * MOST:
        raise InputError(
            f"spacing of {spacing:g} would make about {expected.sum() / TRIES:.0f} particles, "
            f"more than {MOST}: take a larger one"
        )
    times = (expected + rng.random(len(expected))).astype(np.int64)
    k = np.repeat(np.arange(len(times)), times)
    u, v = rng.random((2, len(k)))
    fold = u + v > 1
    s, t = np.where(fold, 1 - u, u), np.where(fold, 1 - v, v)
    points = a[k] + s[:, None] * (b - a)[k] + t[:, None] * (c - a)[k]
    side = (b - a) / np.linalg.norm(b - a, axis=1, keepdims=True)
    r, angle = rim[k] * np.sqrt(u), 2 * pi * v
    round_about = np.cos(angle)[:, None] * side[k] + np.sin(angle)[:, None] * np.cross(normal, side)[k]
    points = np.where(in_disc[k, None], middle[k] + r[:, None] * round_about, points)
    within = brush.covers(points)
    for p, q in ((a, b), (b, c), (c, a)):
        left = np.einsum("ni,ni->n", np.cross((q - p)[k], points - p[k]), normal[k])
        within &= ~in_disc[k] | (left >= 0)
    return np.asarray(points[within][rng.permutation(int(within.sum()))])


def _lookouts(inside: Inside, points: Array, depth: float) -> Viewpoints:
    """Return viewpoints of points (k, 3): on the surface from `depth` below, or half way through a wall."""
    views = inside.viewpoints(points)
    shallow = views.sighted & (np.linalg.norm(points - views.foot, axis=1) < depth)
    below, _ = inscribed_balls(inside, views, depth)
    return replace(views, origins=np.where(shallow[:, None], below, views.origins))


def _aware(
    inside: Inside, views: Viewpoints, i: NDArray[np.int64], j: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether points i (m,) and j (m,) see each other, or are of one component that has no inside."""
    blind = ~views.sighted[i] & (views.component[i] == views.component[j])
    return np.asarray(blind | inside.line_of_sight(views, i, views, j))


def _inside(skin: Skin, points: Array, pairs: NDArray[np.int64], longest: float) -> NDArray[np.int64]:
    """Of pairs (m, 2) of points that close in a straight line, those that are as close inside the shape."""
    views = skin.inside.viewpoints(points)
    seen = skin.inside.line_of_sight(views, pairs[:, 0], views, pairs[:, 1])
    rest = np.unique(pairs[~seen])
    if not len(rest):
        return pairs
    # No way that short leaves the box around the points by more than half of it.
    some = points[rest]
    near = skin.inside.faces_in_box(some.min(0) - longest / 2, some.max(0) + longest / 2)
    if not len(near):
        return pairs[seen]
    used, faces = np.unique(skin.faces[near], return_inverse=True)
    faces = faces.reshape(-1, 3)
    patch = Inside(*refined(skin.vertices[used], faces, longest / FINENESS, REFINED))
    # All that a vertex can know on a way that short.
    count = 1 + int(np.bincount(pairs.ravel()).max())
    among = np.flatnonzero(np.isin(patch.components, patch.components_of(some)))
    way, length = patch.between(some, 0.0, patch.nearest(some, count, among=among))
    way = rest[way[length <= longest]]
    alike = views.component[pairs[:, 0]] == views.component[pairs[:, 1]]
    met = np.isin(pairs @ [len(points), 1], way @ [len(points), 1])
    return np.asarray(pairs[seen | alike & met])


def _edited(body: OrientedBody, **changes: Any) -> OrientedBody:
    """The body with fields changed, loose if, and only if, some particle has no neighbour now."""
    edges, groups = changes.get("edges", body.edges), changes.get("groups", body.groups)
    held = np.zeros(len(changes.get("positions", body.positions)), np.bool_)
    held[np.concatenate([edges.ravel(), *groups])] = True
    return body.replace(**changes, loose=bool(len(held) > 1 and not held.all()))


def _check(body: OrientedBody) -> None:
    if not isinstance(body, OrientedBody):
        raise InputError(f"body must be an OrientedBody, got {type(body).__name__}")


def _visual(body: OrientedBody) -> Skin:
    if body.visual is None:
        raise InputError("body has no visual mesh: give it one, visual=Skin.of(vertices, faces, ...)")
    return body.visual


def _all(count: int) -> NDArray[np.int64]:
    return np.arange(count)


def _chosen(name: str, where: Brush | ArrayLike, places: Array, what: str) -> NDArray[np.int64]:
    """Numbers of what is within the brush, of what a mask says, or the numbers themselves."""
    if isinstance(where, Brush):
        return np.flatnonzero(where.covers(places))
    return _numbers(name, where, len(places), what)


def _numbers(name: str, where: ArrayLike, count: int, what: str) -> NDArray[np.int64]:
    given = as_array(name, where)
    if given.dtype == np.bool_:
        if given.shape != (count,):
            raise InputError(f"{name} is a mask of shape {given.shape}, but there are {count} {what}")
        return np.flatnonzero(given)
    numbers = as_integers(name, given)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= count):
        wrong = numbers.min() if numbers.min() < 0 else numbers.max()
        raise InputError(f"{name} holds {wrong}, but there are {count} {what}")
    return np.unique(numbers)


def _pairs(where: ArrayLike, count: int) -> NDArray[np.int64]:
    given = as_array("where", where)
    if given.ndim != 2 or given.shape[1] != 2:
        raise InputError(f"where must be a Brush or pairs of shape (k, 2), got shape {given.shape}")
    pairs = as_integers("where", given.ravel()).reshape(-1, 2)
    _numbers("where", pairs.ravel(), count, "particles")
    return pairs


def _brush(where: Brush) -> None:
    if not isinstance(where, Brush):
        raise InputError(f"where must be a Brush, got {type(where).__name__}")


def _within(name: str, value: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value <= high:
        wanted = "not negative" if high == inf else f"between 0 and {high:g}"
        raise InputError(f"{name} must be {wanted}, got {value!r}")


def _positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value < inf:
        raise InputError(f"{name} must be positive and finite, got {value!r}")
