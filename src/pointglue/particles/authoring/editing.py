"""Editing of bodies, as a design tool does it: each function takes a body and returns another one.

`where` says what an edit is about: a :class:`Brush`, the numbers of the things themselves, a mask of them
all, or None for all of them. Particles that an edit leaves without any neighbour make the body loose, until
they are connected.
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from ...checks import check_choice, check_flag, check_real, check_vector, generator
from ...errors import InputError
from ...geometry.inside import Inside
from ...geometry.quaternions import quaternions_of
from ...geometry.sampling import refined
from ..body import OrientedBody
from ..particle_checks import COINCIDENT
from .brushes import LOOKOUT_DEPTH, MOST_TRIANGLES, Brush, close_inside, lookouts, scattered, see_each_other
from .choices import check_body, check_brush, chosen, edited, pairs_of, visual_of
from .ellipsoid_fitting import LINKS, fitted_ellipsoids
from .holding import group, hull, pin, ungroup
from .skinning import rebound, without_particles

__all__ = [
    "Brush", "add", "bind", "connect", "cut", "erase", "fit_ellipsoids", "group", "hull", "paint", "pin",
    "pivot", "spray", "ungroup",
]  # fmt: skip

Field = Literal["young", "stiffness", "stretch", "torsion", "yield_strain", "creep", "mass"]
EDGE_FIELDS = ("stretch", "torsion")
# Particles that a pivot is connected to, at most: four hold it in space.
PIVOT_EDGES = 4
# Of the mesh that ellipsoids are fitted to, along the distance of two particles.
VERTICES_PER_SPACING = 3


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
    check_body(body)
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
        "pivots": new.pivots,
    }
    return edited(body, **{name: np.concatenate([getattr(body, name), v]) for name, v in values.items()})


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
    check_body(body)
    check_brush(where)
    check_real("spacing", spacing, above=0)
    rng, skin = generator(seed), visual_of(body)
    points = scattered(skin, where, spacing, rng)
    if not len(points):
        return body
    old = body.positions[Brush(where.centre, where.radius + spacing).covers(body.positions)]
    first, places = len(old), np.concatenate([old, points])
    views, tree = lookouts(skin.inside, places, LOOKOUT_DEPTH * spacing), cKDTree(points)
    room, taken = np.ones(len(places), np.bool_), []
    for k in range(len(places)):
        if room[k]:
            near = first + np.array(tree.query_ball_point(places[k], spacing), np.int64)
            near = near[room[near]]
            room[near[see_each_other(skin.inside, views, np.full(len(near), k), near)]] = False
            if k >= first:
                taken.append(k)
    return add(body, places[taken], radii=0.5 * spacing if radii is None else radii) if taken else body


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
    check_body(body)
    gone = np.zeros(len(body), np.bool_)
    gone[chosen("where", where, body.positions, "particles")] = True
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
        "pivots",
    )
    return edited(
        body,
        **{name: getattr(body, name)[~gone] for name in per_particle},
        edges=number[body.edges[kept]],
        **{name: getattr(body, name)[kept] for name in EDGE_FIELDS},
        groups=[members for members in groups if len(members)],
        # A group without some of its particles is no longer what its hull was made for.
        hulls=[
            points if len(members) == len(before) else None
            for points, members, before in zip(body.hulls, groups, body.groups, strict=True)
            if len(members)
        ],
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
    across: bool = False,
    stretch: float = 0.0,
    torsion: float = 0.0,
) -> OrientedBody:
    """Add edges between all near particles within a brush, or between pairs.

    In a body with a visual mesh, the brush measures inside its shape: straight between particles that see
    each other, else over the surface, and not from one component to another, so that no edge leaps a gap.
    Without one it measures straight. Pairs that have an edge keep it.

    Parameters
    ----------
    body : OrientedBody
        The body.
    where : Brush or (k, 2)
        Where the particles are, or the pairs.
    longest : float
        The longest edge that a brush makes [m]; only with a brush.
    across : bool
        Whether a brush also joins particles of different components of the visual mesh, straight.
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
    check_body(body)
    check_real("stretch", stretch, at_least=0, at_most=1)
    check_real("torsion", torsion, at_least=0, at_most=1)
    check_flag("across", across)
    if isinstance(where, Brush):
        if longest is None:
            raise InputError("longest must say how long an edge may be: a brush covers pairs of all lengths")
        check_real("longest", longest, above=0)
        inside = np.flatnonzero(where.covers(body.positions))
        points = body.positions[inside]
        pairs = cKDTree(points).query_pairs(longest, output_type="ndarray").astype(np.int64)
        if body.visual is not None and len(pairs):
            owner = body.visual.inside.components_of(points)
            joining = pairs[owner[pairs[:, 0]] != owner[pairs[:, 1]]] if across else pairs[:0]
            pairs = np.concatenate([close_inside(body.visual, points, pairs, longest), joining])
        pairs = inside[pairs[np.lexsort(pairs.T[::-1])].reshape(-1, 2)]
    else:
        if longest is not None:
            raise InputError("longest goes with a brush, but where is pairs")
        pairs = pairs_of(where, len(body))
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
    return edited(
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
    check_body(body)
    if isinstance(where, Brush):
        a, b = body.positions[body.edges[:, 0]], body.positions[body.edges[:, 1]]
        along = np.einsum("ni,ni->n", where.centre - a, b - a) / ((b - a) ** 2).sum(1)
        gone = where.covers(a + np.clip(along, 0, 1)[:, None] * (b - a))
    else:
        pairs = pairs_of(where, len(body))
        number = {tuple(edge): k for k, edge in enumerate(np.sort(body.edges, axis=1).tolist())}
        gone = np.zeros(len(body.edges), np.bool_)
        for i, j in pairs.tolist():
            if (min(i, j), max(i, j)) not in number:
                raise InputError(f"where holds [{i}, {j}], but these particles have no edge")
            gone[number[min(i, j), max(i, j)]] = True
    names = ("edges", *EDGE_FIELDS)
    return edited(body, **{name: getattr(body, name)[~gone] for name in names}) if gone.any() else body


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
    check_body(body)
    check_choice("field", field, get_args(Field))
    check_real("value", value, infinite=True)
    check_real("strength", strength, at_least=0, at_most=1)
    edges = field in EDGE_FIELDS
    places = body.positions[body.edges].mean(1) if edges else body.positions
    if isinstance(where, Brush):
        share = strength * where.strength(places)
    else:
        share = np.zeros(len(places))
        share[chosen("where", where, places, "edges" if edges else "particles")] = strength
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
        return edited(body, stiffness=new, young=np.where(touched, 0.0, body.young))
    return edited(body, **{field: new})


def pivot(body: OrientedBody, point: ArrayLike) -> OrientedBody:
    """Hang a body on a point of the world, about which it turns freely.

    A particle is put there, held in place. It joins the rigid groups of the particle nearest to it, or is
    connected to the particles nearest to it. Two pivots make a hinge to the world.

    Parameters
    ----------
    body : OrientedBody
        The body.
    point : (3,)
        Where the pivot is [m].

    Returns
    -------
    OrientedBody
        A copy of the body with the new particle after the old ones; one that is at the point already becomes
        the pivot itself.

    Raises
    ------
    InputError
        If the point has another shape, or is not finite.
    """
    check_body(body)
    place = check_vector("point", point)
    distance, nearest = cKDTree(body.positions).query(place, k=min(PIVOT_EDGES, len(body)))
    distance, nearest = np.atleast_1d(distance), np.atleast_1d(nearest)
    first, number = int(nearest[0]), len(body)
    if distance[0] <= COINCIDENT * np.ptp(body.positions, axis=0).max():
        return pin(body, [first], pinned="position")
    held = pin(add(body, place[None], radii=float(body.radii[first].min())), [number], pinned="position")
    if any(first in members for members in body.groups):
        groups = [np.append(members, number) if first in members else members for members in body.groups]
        return edited(held, groups=groups)
    return connect(held, np.stack([nearest, np.full(len(nearest), number)], axis=1))


def fit_ellipsoids(
    body: OrientedBody,
    where: Brush | ArrayLike | None = None,
    *,
    spacing: float | None = None,
    aspect: float = 2.0,
) -> OrientedBody:
    """Give particles the sizes and orientations that fit the visual mesh around them.

    Their axes are those of the part of the surface that each is nearest to, measured inside the shape, and
    their radii are how far it extends along them. Masses stay.

    Parameters
    ----------
    body : OrientedBody
        The body, with a visual mesh.
    where : Brush, (k,) or (n,), optional
        Which particles: within a brush, by number or by a mask; None for all.
    spacing : float, optional
        The distance of the particles, about, above 0 [m]: radii are 0.55 of it at most. By default it is the
        median length of the edges.
    aspect : float
        How many times as long as thick ellipsoids may be, at least 1.

    Returns
    -------
    OrientedBody
        A copy of the body with the fitted ellipsoids.

    Raises
    ------
    InputError
        If the body has no visual mesh, there is no such particle, a number is out of its bounds, or there is
        neither a spacing nor an edge to measure.
    """
    check_body(body)
    skin, at = visual_of(body), chosen("where", where, body.positions, "particles")
    check_real("aspect", aspect, at_least=1)
    if spacing is None:
        if not len(body.edges):
            raise InputError("spacing must say how far apart particles are: body has no edges to measure")
        ends = body.positions[body.edges]
        spacing = float(np.median(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)))
    step = check_real("spacing", spacing, above=0)
    shape = Inside(*refined(skin.vertices, skin.faces, step / VERTICES_PER_SPACING, MOST_TRIANGLES))
    links = shape.nearest(body.positions, LINKS)
    axes, fitted = fitted_ellipsoids(shape, body.positions, links, step, aspect)
    radii, orientations = body.radii.copy(), body.orientations.copy()
    radii[at], orientations[at] = fitted[at], quaternions_of(axes[at])
    return body.replace(radii=radii, orientations=orientations)


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
    check_body(body)
    skin = visual_of(body)
    at = chosen("vertices", vertices, skin.vertices, "vertices")
    to = chosen("particles", particles, body.positions, "particles")
    if not len(to):
        raise InputError("particles covers none: vertices have to follow something")
    return body.replace(visual=rebound(skin, at, to, body.positions[to])) if len(at) else body
