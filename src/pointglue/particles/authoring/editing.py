"""Editing of bodies, as a design tool does it: each function takes a body and returns another one.

`where` says what an edit is about: a :class:`Brush`, the numbers of the things themselves, a mask of them
all, or None for all of them. Particles that an edit leaves without any neighbour make the body loose, until
they are connected.
"""

from math import inf
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from ...checks import Array, as_array, as_integers, check_choice, check_flag, check_real, generator
from ...errors import InputError
from ..body import OrientedBody
from .brushes import LOOKOUT_DEPTH, Brush, close_inside, lookouts, scattered, see_each_other
from .skinning import Skin, rebound, without_particles

__all__ = ["Brush", "add", "bind", "connect", "cut", "erase", "group", "paint", "pin", "spray", "ungroup"]

Field = Literal["young", "stiffness", "stretch", "torsion", "yield_strain", "creep", "mass"]
EDGE_FIELDS = ("stretch", "torsion")


def add(body: OrientedBody, positions: ArrayLike, *, radii: ArrayLike) -> OrientedBody:
    """Add particles, each of the material of the nearest one.

    They have no edges and move no vertices yet: see :func:`connect` and :func:`bind`.

    Parameters
    ----------
    body : OrientedBody
        The body.
    positions : (k, 3)
        The new particles [m].
    radii : float, (k,) or (k, 3)
        Half the lengths of their axes, above 0 [m].

    Returns
    -------
    OrientedBody
        A copy of the body with the new particles after the old ones.

    Raises
    ------
    InputError
        If a shape does not fit, a number is out of its bounds, or two particles coincide.
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
        "density": body.density[like],
        "young": body.young[like],
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
    """Add particles on the visual mesh within a brush, at random, none closer than `spacing` to another.

    Particles across a gap in the mesh do not count: those of another component, and those that are not seen
    from just below the surface; where that has no inside, all of the component do.

    Parameters
    ----------
    body : OrientedBody
        The body.
    where : Brush
        Where they are.
    spacing : float
        Their least distance, above 0 [m].
    radii : float, optional
        Their radius [m]; by default half the spacing.
    seed : int or Generator
        The same seed makes the same particles.

    Returns
    -------
    OrientedBody
        A copy of the body with the new particles after the old ones.

    Raises
    ------
    InputError
        If the body has no visual mesh, a number is out of its bounds, or there would be too many.
    """
    _check(body)
    _brush(where)
    check_real("spacing", spacing, above=0)
    rng, skin = generator(seed), _visual(body)
    points = scattered(skin, where, spacing, rng)
    if not len(points):
        return body
    old = body.positions[Brush(where.centre, where.radius + spacing).covers(body.positions)]
    first, places = len(old), np.concatenate([old, points])
    views, tree = lookouts(skin.inside, places, LOOKOUT_DEPTH * spacing), cKDTree(points)
    room, chosen = np.ones(len(places), np.bool_), []
    for k in range(len(places)):
        if room[k]:
            near = first + np.array(tree.query_ball_point(places[k], spacing), np.int64)
            near = near[room[near]]
            room[near[see_each_other(skin.inside, views, np.full(len(near), k), near)]] = False
            if k >= first:
                chosen.append(k)
    return add(body, places[chosen], radii=0.5 * spacing if radii is None else radii) if chosen else body


def erase(body: OrientedBody, where: Brush | ArrayLike) -> OrientedBody:
    """Remove particles, with their edges and their places in groups.

    Vertices follow the particles that are left to them; those that have lost all are bound anew.

    Parameters
    ----------
    body : OrientedBody
        The body.
    where : Brush, (k,) or (n,)
        Which particles: within a brush, by number or by a mask.

    Returns
    -------
    OrientedBody
        A copy of the body without those particles; the others keep their order.

    Raises
    ------
    InputError
        If that is every particle, or there is no such particle.
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
        "density",
        "young",
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
        visual=None
        if body.visual is None
        else without_particles(body.visual, gone, number, body.positions[~gone]),
    )


def connect(
    body: OrientedBody,
    where: Brush | ArrayLike,
    *,
    longest: float | None = None,
    stretch: float = 0.0,
    torsion: float = 0.0,
) -> OrientedBody:
    """Add edges between all near particles within a brush, or between pairs.

    In a body with a visual mesh, the brush measures inside its shape: straight between particles that see
    each other, else over the surface, and never from one component to another, so that no edge leaps a gap.
    Without one it measures straight. Pairs that have an edge keep it.

    Parameters
    ----------
    body : OrientedBody
        The body.
    where : Brush or (k, 2)
        Where the particles are, or the pairs.
    longest : float
        The longest edge that a brush makes [m]; only with a brush.
    stretch, torsion : float
        Those of the new edges, 0 to 1: see :class:`OrientedBody`.

    Returns
    -------
    OrientedBody
        A copy of the body with the new edges after the old ones.

    Raises
    ------
    InputError
        If there is no such particle, a pair is one particle twice, or a number is out of its bounds.
    """
    _check(body)
    check_real("stretch", stretch, at_least=0, at_most=1)
    check_real("torsion", torsion, at_least=0, at_most=1)
    if isinstance(where, Brush):
        if longest is None:
            raise InputError("longest must say how long an edge may be: a brush covers pairs of all lengths")
        check_real("longest", longest, above=0)
        inside = np.flatnonzero(where.covers(body.positions))
        points = body.positions[inside]
        pairs = cKDTree(points).query_pairs(longest, output_type="ndarray").astype(np.int64)
        if body.visual is not None and len(pairs):
            pairs = close_inside(body.visual, points, pairs, longest)
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
    """Remove the edges that pass through a brush, or that join pairs.

    Parameters
    ----------
    body : OrientedBody
        The body.
    where : Brush or (k, 2)
        Where the edges pass, or the pairs.

    Returns
    -------
    OrientedBody
        A copy of the body without those edges.

    Raises
    ------
    InputError
        If a pair has no edge, or there is no such particle.
    """
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
    body: OrientedBody, where: Brush | ArrayLike | None, field: Field, value: float, *, strength: float = 1.0
) -> OrientedBody:
    """Move a field of particles or edges towards a value.

    Parameters
    ----------
    body : OrientedBody
        The body.
    where : Brush, (k,) or (n,), optional
        Which particles or, for "stretch" and "torsion", which edges: within a brush (edges by their
        midpoints), by number or by a mask; None for all.
    field : {"young", "stiffness", "stretch", "torsion", "yield_strain", "creep", "mass"}
        What is changed. Where stiffness is painted, it holds instead of a Young's modulus.
    value : float
        The value; its bounds and unit are those of the field.
    strength : float
        How far it is moved, from 0 to 1 for all the way. Nothing lies between a number and infinity: there
        any strength goes all the way.

    Returns
    -------
    OrientedBody
        A copy of the body with the new values.

    Raises
    ------
    InputError
        If there is no such field, particle or edge, or a number is out of its bounds.
    """
    _check(body)
    check_choice("field", field, get_args(Field))
    check_real("value", value, infinite=True)
    check_real("strength", strength, at_least=0, at_most=1)
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
    if field == "stiffness":
        return _edited(body, stiffness=new, young=np.where(touched, 0.0, body.young))
    return _edited(body, **{field: new})


def pin(body: OrientedBody, where: Brush | ArrayLike | None, *, pinned: bool = True) -> OrientedBody:
    """Pin particles, so that they stay where they are, or release them.

    Parameters
    ----------
    body : OrientedBody
        The body.
    where : Brush, (k,) or (n,), optional
        Which particles: within a brush, by number or by a mask; None for all.
    pinned : bool
        Whether they are pinned.

    Returns
    -------
    OrientedBody
        A copy of the body with those particles pinned or released.

    Raises
    ------
    InputError
        If there is no such particle.
    """
    _check(body)
    held = check_flag("pinned", pinned)
    mask = body.pinned.copy()
    mask[_chosen("where", where, body.positions, "particles")] = held
    return body.replace(pinned=mask)


def group(body: OrientedBody, where: Brush | ArrayLike | None, *, yield_speed: float = inf) -> OrientedBody:
    """Make particles one more rigid group.

    Parameters
    ----------
    body : OrientedBody
        The body.
    where : Brush, (k,) or (n,), optional
        Which particles: within a brush, by number or by a mask; None for all.
    yield_speed : float
        The group deforms permanently if it is hit faster than this [m/s]; inf for never.

    Returns
    -------
    OrientedBody
        A copy of the body with the new group after the old ones.

    Raises
    ------
    InputError
        If there is no such particle, or none at all.
    """
    _check(body)
    check_real("yield_speed", yield_speed, at_least=0, infinite=True)
    members = _chosen("where", where, body.positions, "particles")
    if not len(members):
        raise InputError("where covers no particle: a group has at least one")
    return _edited(
        body, groups=[*body.groups, members], yield_speed=np.concatenate([body.yield_speed, [yield_speed]])
    )


def ungroup(body: OrientedBody, where: Brush | ArrayLike | None) -> OrientedBody:
    """Dissolve rigid groups.

    Parameters
    ----------
    body : OrientedBody
        The body.
    where : Brush, (k,) or (groups,), optional
        Which groups: those with a particle within a brush, by number or by a mask; None for all.

    Returns
    -------
    OrientedBody
        A copy of the body without those groups.

    Raises
    ------
    InputError
        If there is no such group.
    """
    _check(body)
    if isinstance(where, Brush):
        gone = np.array([where.covers(body.positions[members]).any() for members in body.groups], np.bool_)
    else:
        gone = np.zeros(len(body.groups), np.bool_)
        gone[_numbers("where", where, len(body.groups), "groups") if where is not None else slice(None)] = (
            True
        )
    kept = [members for members, leaves in zip(body.groups, gone, strict=True) if not leaves]
    return _edited(body, groups=kept, yield_speed=body.yield_speed[~gone])


def bind(
    body: OrientedBody,
    vertices: Brush | ArrayLike | None = None,
    particles: Brush | ArrayLike | None = None,
) -> OrientedBody:
    """Make vertices of the visual mesh follow certain particles only.

    Everything else stays linked as it is. Distances are measured inside the shape.

    Parameters
    ----------
    body : OrientedBody
        The body.
    vertices : Brush, (k,) or (V,), optional
        Which vertices: within a brush, by number or by a mask; None for all.
    particles : Brush, (k,) or (n,), optional
        Which particles they follow, given alike.

    Returns
    -------
    OrientedBody
        A copy of the body with the new links of its vertices.

    Raises
    ------
    InputError
        If the body has no visual mesh, or there is no such vertex or particle, or no particle at all.
    """
    _check(body)
    skin = _visual(body)
    at = _chosen("vertices", vertices, skin.vertices, "vertices")
    to = _chosen("particles", particles, body.positions, "particles")
    if not len(to):
        raise InputError("particles covers none: vertices have to follow something")
    return body.replace(visual=rebound(skin, at, to, body.positions[to])) if len(at) else body


def _edited(body: OrientedBody, **changes: Any) -> OrientedBody:
    """Return the body with fields changed, loose if, and only if, some particle has no neighbour now."""
    edges, groups = changes.get("edges", body.edges), changes.get("groups", body.groups)
    joined = np.zeros(len(changes.get("positions", body.positions)), np.bool_)
    joined[np.concatenate([edges.ravel(), *groups])] = True
    return body.replace(**changes, loose=bool(len(joined) > 1 and not joined.all()))


def _check(body: OrientedBody) -> None:
    """Raise unless it is a body."""
    if not isinstance(body, OrientedBody):
        raise InputError(f"body must be an OrientedBody, got {type(body).__name__}")


def _visual(body: OrientedBody) -> Skin:
    """Return the visual mesh of a body, or raise if it has none."""
    if body.visual is None:
        raise InputError("body has no visual mesh: give it one, visual=Skin.of(vertices, faces, ...)")
    return body.visual


def _chosen(name: str, where: Brush | ArrayLike | None, places: Array, what: str) -> NDArray[np.int64]:
    """Return the numbers of what is within a brush or in a mask, the numbers given, or all for None."""
    if isinstance(where, Brush):
        return np.flatnonzero(where.covers(places))
    return np.arange(len(places)) if where is None else _numbers(name, where, len(places), what)


def _numbers(name: str, where: ArrayLike, count: int, what: str) -> NDArray[np.int64]:
    """Return different numbers below `count`, given as such or by a mask, or raise."""
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
    """Return pairs (k, 2) of numbers below `count`, or raise."""
    given = as_array("where", where)
    if given.ndim != 2 or given.shape[1] != 2:
        raise InputError(f"where must be a Brush or pairs of shape (k, 2), got shape {given.shape}")
    pairs = as_integers("where", given.ravel()).reshape(-1, 2)
    _numbers("where", pairs.ravel(), count, "particles")
    return pairs


def _brush(where: Brush) -> None:
    """Raise unless it is a brush."""
    if not isinstance(where, Brush):
        raise InputError(f"where must be a Brush, got {type(where).__name__}")
