"""Editing of bodies, as a design tool does it: each function takes a body and returns another one.

`where` says what an edit is about: a :class:`Brush`, or the numbers of the things themselves. Particles that
an edit leaves without any neighbour make the body loose, until they are connected.
"""

from dataclasses import dataclass
from math import inf, pi
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from ..checks import Array, as_array, as_integers, as_reals
from ..errors import InputError
from .body import OrientedBody
from .skinning import Skin, links_to

__all__ = ["Brush", "add", "bind", "connect", "cut", "erase", "group", "paint", "spray", "ungroup"]

Field = Literal["stiffness", "stretch", "torsion", "yield_strain", "creep", "mass"]
EDGE_FIELDS = ("stretch", "torsion")
# A stroke that would make more particles than this is a slip of the hand.
MOST = 50_000
# Points tried for each particle that finds room: enough that no gap of twice the spacing is left.
TRIES = 30


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

    `radii` are half the spacing unless given. The same seed makes the same particles.
    """
    _brush(where)
    _positive("spacing", spacing)
    try:
        rng = np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise InputError(f"seed must be a whole number or a numpy Generator, got {seed!r}") from error
    points = _scattered(_visual(body), where, spacing, rng)
    room = cKDTree(body.positions).query(points)[0] >= spacing if len(points) else np.empty(0, np.bool_)
    tree, chosen = cKDTree(points) if len(points) else None, []
    for k in range(len(points)):
        if room[k] and tree is not None:
            chosen.append(k)
            room[tree.query_ball_point(points[k], spacing)] = False
    return add(body, points[chosen], radii=0.5 * spacing if radii is None else radii) if chosen else body


def erase(body: OrientedBody, where: Brush | ArrayLike) -> OrientedBody:
    """Without the particles within the brush, or of these numbers, and all that hangs on them.

    Vertices are carried by the particles left to them; those that have lost all are bound anew.
    """
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

    Pairs that have an edge keep it. `stretch` and `torsion` are those of the new ones.
    """
    if isinstance(where, Brush):
        if longest is None:
            raise InputError("longest must say how long an edge may be: a brush covers pairs of all lengths")
        _positive("longest", longest)
        inside = np.flatnonzero(where.covers(body.positions))
        pairs = inside[cKDTree(body.positions[inside]).query_pairs(longest, output_type="ndarray")]
        pairs = pairs[np.lexsort(pairs.T[::-1])].reshape(-1, 2)
    else:
        if longest is not None:
            raise InputError("longest goes with a brush, but where is pairs")
        pairs = _pairs(where, len(body))
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
    if field not in get_args(Field):
        raise InputError(f"field must be one of {', '.join(get_args(Field))}, got {field!r}")
    if isinstance(value, bool) or not isinstance(value, Real) or np.isnan(value):
        raise InputError(f"value must be a number, got {value!r}")
    if isinstance(strength, bool) or not isinstance(strength, Real) or not 0 <= strength <= 1:
        raise InputError(f"strength must be between 0 and 1, got {strength!r}")
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


def group(body: OrientedBody, where: Brush | ArrayLike, *, yield_speed: float = inf) -> OrientedBody:
    """With one more rigid group, of the particles within the brush or of these numbers."""
    members = _chosen("where", where, body.positions, "particles")
    if not len(members):
        raise InputError("where covers no particle: a group has at least one")
    return _edited(
        body, groups=[*body.groups, members], yield_speed=np.concatenate([body.yield_speed, [yield_speed]])
    )


def ungroup(body: OrientedBody, where: Brush | ArrayLike) -> OrientedBody:
    """Without the rigid groups that have a particle within the brush, or of these numbers."""
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
    corners = skin.vertices[skin.faces]
    centre = np.asarray(brush.centre)
    near = (corners.min(1) <= centre + brush.radius) & (corners.max(1) >= centre - brush.radius)
    a, b, c = np.moveaxis(corners[near.all(1)], 1, 0)
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


def _edited(body: OrientedBody, **changes: Any) -> OrientedBody:
    """The body with fields changed, loose if, and only if, some particle has no neighbour now."""
    edges, groups = changes.get("edges", body.edges), changes.get("groups", body.groups)
    held = np.zeros(len(changes.get("positions", body.positions)), np.bool_)
    held[np.concatenate([edges.ravel(), *groups])] = True
    return body.replace(**changes, loose=bool(len(held) > 1 and not held.all()))


def _visual(body: OrientedBody) -> Skin:
    if body.visual is None:
        raise InputError("body has no visual mesh: give it one, visual=Skin.of(vertices, faces, ...)")
    return body.visual


def _all(count: int) -> NDArray[np.int64]:
    return np.arange(count)


def _chosen(name: str, where: Brush | ArrayLike, places: Array, what: str) -> NDArray[np.int64]:
    """Numbers of what is within the brush, or the numbers themselves."""
    if isinstance(where, Brush):
        return np.flatnonzero(where.covers(places))
    return _numbers(name, where, len(places), what)


def _numbers(name: str, where: ArrayLike, count: int, what: str) -> NDArray[np.int64]:
    numbers = as_integers(name, where)
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


def _positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value < inf:
        raise InputError(f"{name} must be positive and finite, got {value!r}")
