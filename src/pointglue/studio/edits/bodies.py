"""Edits of bodies of particles, by a stroke of the brush or of what is selected."""

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ...checks import Array
from ...errors import InputError, PointglueWarning
from ...geometry.quaternions import quaternions_of
from ...glue.parents import rest_gap
from ...particles import OrientedBody, Skin
from ...particles.authoring import editing
from ...particles.authoring.editing import Brush
from ...particles.authoring.ellipsoid_fitting import LINKS, RADIUS, fitted_ellipsoids
from ...procrustes import Groups
from ..document.document import Document
from ..protocol import commands as messages

__all__ = [
    "connect", "connect_pair", "cut", "erase", "first_groups", "fit", "group", "group_members", "make",
    "neighbour_gaps", "paint", "pin", "place", "skin", "spray",
]  # fmt: skip

MOST_EDGES = 100_000  # edges of one edit: more would take seconds, and are hardly meant
STIFFNESS = 0.9  # of new particles, from 0 to 1: a creature on its legs stands, and still yields


def make(document: Document, command: messages.Make) -> Document:
    """Return the document with a whole body made from the mesh."""
    surface = document.mesh(command.object)
    body = OrientedBody.from_mesh(
        (surface.vertices, surface.faces),
        spacing=command.spacing,
        placement=command.placement,
        stiffness=STIFFNESS,
    )
    return _with_new_body(document, command.object, body)


def spray(document: Document, command: messages.Spray) -> Document:
    """Return the document with particles on the mesh under the brush; the first makes the body."""
    if not command.centres:
        raise InputError("spray needs a place: drag over the mesh")
    for k, centre in enumerate(command.centres):
        if document.particles(command.object) is None:
            document = _with_particle(document, command.object, centre, 0.5 * command.spacing)
        body = document.body(command.object)
        if body.visual is None:
            raise InputError(f"{command.object!r} has no mesh to spray on")
        # Each place of a stroke has its own seed, and the same stroke again the same ones.
        seed = np.random.default_rng([len(body), k])
        body = editing.spray(body, Brush(centre, command.radius), spacing=command.spacing, seed=seed)
        document = document.with_body(command.object, body)
    return document


def place(document: Document, command: messages.Place) -> Document:
    """Return the document with one more particle."""
    return _with_particle(document, command.object, command.position, command.radius)


def _with_particle(document: Document, name: str, position: messages.Vector, radius: float) -> Document:
    """Return the document with a particle in the body of an object, which it makes if there is none."""
    if (body := document.particles(name)) is not None:
        return document.with_body(name, editing.add(body, [position], radii=radius))
    surface = document.mesh(name)
    visual = Skin.of(surface.vertices, surface.faces, [position])
    body = OrientedBody([position], radii=radius, stiffness=STIFFNESS, visual=visual)
    return _with_new_body(document, name, body)


def erase(document: Document, command: messages.Erase) -> Document:
    """Return the document without particles; an object that loses its last one has no body."""
    body = document.body(command.object)
    gone = _chosen(document, command, body.positions)
    if len(gone) == len(body):
        table = document.table(command.object)
        mesh = table.get("mesh")
        if mesh is None:
            raise InputError("a body that was read from a file must keep at least one particle")
        return document.with_object(command.object, {**table, "kind": "handles", "handles": {}})
    if not len(gone):
        return document
    return document.with_body(command.object, editing.erase(body, gone), keep=False)


def connect(document: Document, command: messages.Connect) -> Document:
    """Return the document with edges between particles under the brush, or between selected ones."""
    body = document.body(command.object)
    longest = command.longest
    if not command.centres:
        chosen = _selected(document, command.object)
        reach = np.inf if longest is None else longest
        near = cKDTree(body.positions[chosen]).query_pairs(reach, output_type="ndarray")
        if len(near) > MOST_EDGES:
            raise InputError(
                f"{len(near):,} pairs of the selected particles are that near: take a smaller longest edge"
            )
        pairs = chosen[near[np.lexsort(near.T[::-1])]]
        return document.with_body(command.object, editing.connect(body, pairs))
    for centre in command.centres:
        body = editing.connect(body, Brush(centre, command.radius), longest=longest)
    return document.with_body(command.object, body)


def connect_pair(document: Document, command: messages.ConnectPair) -> Document:
    """Return the document with one more edge, or without one."""
    body = document.body(command.object)
    edit = editing.cut if command.cut else editing.connect
    return document.with_body(command.object, edit(body, [command.pair]))


def cut(document: Document, command: messages.Cut) -> Document:
    """Return the document without the edges under the brush, or between selected particles."""
    body = document.body(command.object)
    if not command.centres:
        chosen = _selected(document, command.object)
        body = editing.cut(body, body.edges[np.isin(body.edges, chosen).all(1)])
    for centre in command.centres:
        body = editing.cut(body, Brush(centre, command.radius))
    return document.with_body(command.object, body)


def paint(document: Document, command: messages.Paint) -> Document:
    """Return the document with a property moved towards a value."""
    body = document.body(command.object)
    what = (command.field, command.value)
    if command.whole or not command.centres:
        where = np.arange(len(body)) if command.whole else _selected(document, command.object)
        if command.field in editing.EDGE_FIELDS:
            where = np.flatnonzero(np.isin(body.edges, where).all(1))
        body = editing.paint(body, where, *what, strength=command.strength)
        return document.with_body(command.object, body)
    for centre in command.centres:
        brush = Brush(centre, command.radius, smooth=command.strength < 1)
        body = editing.paint(body, brush, *what, strength=command.strength)
    return document.with_body(command.object, body)


def pin(document: Document, command: messages.Pin) -> Document:
    """Return the document with particles pinned or free."""
    body = document.body(command.object)
    chosen = _chosen(document, command, body.positions)
    return document.with_body(command.object, editing.pin(body, chosen, pinned=command.pinned))


def group(document: Document, command: messages.Group) -> Document:
    """Return the document with the selected particles as one rigid group, or without their groups."""
    body, chosen = document.body(command.object), _selected(document, command.object)
    if command.loosen:
        met = [k for k, members in enumerate(body.groups) if np.isin(members, chosen).any()]
        if not met:
            raise InputError("none of the selected particles is in a group")
        body = editing.ungroup(body, met)
    else:
        body = editing.group(body, chosen)
    return document.with_body(command.object, body)


def fit(document: Document, command: messages.Fit) -> Document:
    """Return the document with ellipsoids that reach the surface; the density of particles is kept."""
    body = document.body(command.object)
    if body.visual is None:
        raise InputError(f"{command.object!r} has no mesh to fit ellipsoids to")
    inside = body.visual.inside
    # The spacing is about that of the particles now.
    step = float(np.median(body.radii.max(1))) / RADIUS
    axes, radii = fitted_ellipsoids(
        inside, body.positions, inside.nearest(body.positions, LINKS), step, command.aspect
    )
    mass = body.mass * radii.prod(1) / body.radii.prod(1)
    fitted = body.replace(orientations=quaternions_of(axes), radii=radii, mass=mass)
    return document.with_body(command.object, fitted)


def skin(document: Document, command: messages.Skin) -> Document:
    """Return the document with the mesh bound to the particles again."""
    body = document.body(command.object)
    if not command.selected:
        return document.with_body(command.object, editing.bind(body))
    chosen = document.selection
    vertices = np.empty(0, np.int64) if chosen is None else chosen.of(command.object, "vertices")
    particles = np.empty(0, np.int64) if chosen is None else chosen.of(command.object, "particles")
    if not len(vertices) or not len(particles):
        raise InputError(
            f"select vertices and particles first: {len(vertices)} and {len(particles)} of them are selected"
        )
    return document.with_body(command.object, editing.bind(body, vertices, particles))


def neighbour_gaps(body: OrientedBody) -> Array:
    """Return how well the neighbours of each particle determine its frame (n,): 2 at best, 0 for a line."""
    n = len(body)
    ends = np.concatenate([body.edges, body.edges[:, ::-1], np.stack([np.arange(n)] * 2, axis=1)])
    ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]
    sizes = np.bincount(ends[:, 0], minlength=n)
    groups = Groups(np.concatenate([[0], np.cumsum(sizes)]), ends[:, 1])
    found = np.zeros(n)
    if (many := sizes > 1).any():
        some = (
            groups
            if many.all()
            else Groups.from_lists([ends[ends[:, 0] == k, 1] for k in np.flatnonzero(many)])
        )
        found[many] = rest_gap(body.positions, some, np.ones(len(some.indices)))
    return found


def group_members(body: OrientedBody) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the particles of all rigid groups, one group after the other, and where each group ends."""
    ends = np.cumsum([len(group) for group in body.groups])
    every = np.concatenate([*body.groups, np.empty(0, np.int64)])
    return every.astype(np.uint32), ends.astype(np.uint32)


def first_groups(body: OrientedBody) -> NDArray[np.int64]:
    """Return the first rigid group of each particle (n,), -1 for none."""
    found = np.full(len(body), -1)
    for k in reversed(range(len(body.groups))):
        found[body.groups[k]] = k
    return found


def _with_new_body(document: Document, name: str, body: OrientedBody) -> Document:
    """Return the document with an object that is a body of particles; its look is kept."""
    if document.table(name).get("handles"):
        warnings.warn(
            f"{name!r} is made of particles now: its handles and their keys are gone. Undo brings them back",
            PointglueWarning,
            stacklevel=2,
        )
    kept = ("color", "visible", "mesh", "transform")
    table = {key: value for key, value in document.table(name).items() if key in kept}
    return document.with_object(name, {**table, "kind": "particles"}, body)


def _selected(document: Document, name: str) -> NDArray[np.int64]:
    """Return the numbers of the selected particles of an object."""
    chosen = document.selection
    found = np.empty(0, np.int64) if chosen is None else chosen.of(name, "particles")
    if not len(found):
        raise InputError("select particles first: drag a rectangle or a lasso around them")
    return found


def _chosen(document: Document, command: messages.Brushed, positions: Array) -> NDArray[np.int64]:
    """Return the numbers of the particles (n, 3) under the brush, or of the selected ones."""
    if not command.centres:
        return _selected(document, command.object)
    met = [Brush(centre, command.radius).covers(positions) for centre in command.centres]
    return np.flatnonzero(np.any(met, axis=0))
