"""Contacts with planes, balls and capsules: distances, derivatives and impacts, against independent ones."""

import numpy as np
import pytest
from peers import ipctk

from pointglue.elastic.contact.collision_mesh import CollisionMesh, Solids
from pointglue.elastic.contact.contacts import ContactSet, FrictionSet, summed_blocks
from pointglue.elastic.contact.impacts import ImpactSet
from pointglue.elastic.contact.kernels import ccd
from pointglue.elastic.contact.kernels.barrier import BarrierShape
from pointglue.elastic.contact.kernels.ccd import ImpactLimits, impact, plane_impact, thicker

DISTANCE, RADIUS = 0.02, 0.3
KINDS = ["plane", "ball", "capsule"]


def rows(x):
    return tuple(tuple(map(float, row)) for row in x)


def assert_slope(function, derivative, x, step=1e-6):
    """Central differences along 20 directions: of second order in a step which is 1e-4 of the distance."""
    slope = derivative(x)
    for d in np.random.default_rng(0).normal(size=(20, len(x))) / np.sqrt(len(x)):
        found = (function(x + step * d) - function(x - step * d)) / (2 * step)
        assert np.abs(found - slope @ d).max() < 1e-6 * np.abs(slope).max()


def solids_of(kind, first):
    """One collider, whose vertices begin with `first`."""
    none = np.empty((0, 2), np.int64), np.empty(0), np.empty((0, 3), np.int64)
    if kind == "plane":
        return Solids(*none[:2], np.array([[first, first + 1, first + 2]]))
    ends = np.array([[first, first + (kind == "capsule")]])
    return Solids(ends, np.array([RADIUS]), none[2])


def distance_of(kind, collider, corners):
    """How far a triangle is from a collider, by the toolkit's distances or by plain algebra."""
    if kind == "plane":
        normal = np.cross(collider[1] - collider[0], collider[2] - collider[0])
        return float(((corners - collider[0]) @ normal).min() / np.linalg.norm(normal))
    squared = [ipctk.point_triangle_distance(end, *corners) for end in collider]
    if kind == "capsule":
        squared += [ipctk.edge_edge_distance(*collider, corners[k], corners[(k + 1) % 3]) for k in range(3)]
    return float(np.sqrt(min(squared))) - RADIUS


class Scene:
    """Triangles around one collider, most of them nearer than contact reaches."""

    def __init__(self, kind, seed=0, count=40, thickness=0.0):
        rng = np.random.default_rng(seed)
        self.kind, self.thickness = kind, thickness
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        turn *= np.sign(np.linalg.det(turn))
        count_of = {"plane": 3, "ball": 1, "capsule": 2}[kind]
        collider = 0.4 * np.array([[0, 0, 0], [0, 0, 1], [1, 0, 0]]) if kind == "plane" else None
        if kind != "plane":
            collider = np.array([[0, 0.0, 0], [0, 0.5, 0]])[:count_of]
        triangles = []
        while len(triangles) < count:
            corners = rng.uniform(-0.7, 0.7, 3) + 0.2 * rng.normal(size=(3, 3))
            away = distance_of(kind, collider, corners)
            # Drawn along the way out until it is as near as wanted.
            middle = corners.mean(0)
            out = np.array([0, 1.0, 0]) if kind == "plane" else middle - [0, np.clip(middle[1], 0, 0.5), 0]
            out = out / np.linalg.norm(out)
            for _ in range(60):
                wanted = thickness + DISTANCE * 0.6
                corners = corners + (wanted - away) * out
                away = distance_of(kind, collider, corners)
            if thickness + 0.1 * DISTANCE < away < thickness + 0.9 * DISTANCE:
                triangles.append(corners)
        shift = rng.normal(size=3)
        self.x = np.concatenate([*triangles, collider]) @ turn.T + shift
        faces = np.arange(3 * count).reshape(-1, 3)
        parts = np.concatenate([np.zeros(3 * count, np.int64), np.ones(count_of, np.int64)])
        free = np.full(len(self.x), -1)
        ignored = [(0, 0)]
        self.faces, self.collider = faces, np.arange(3 * count, len(self.x))
        self.mesh = CollisionMesh(self.x, faces, parts, free, ignored, solids_of(kind, 3 * count))
        self.shape = BarrierShape(DISTANCE, thickness, 1e3)

    def met(self, x=None):
        x = self.x if x is None else np.ascontiguousarray(x.reshape(-1, 3))
        reach = DISTANCE + self.thickness
        return ContactSet(self.mesh, x, self.mesh.candidates(x, x, reach), reach)

    def gradient(self, x):
        met = self.met(x)
        out = np.zeros_like(met.x)
        met.add_gradient(self.shape, out)
        return out.ravel()

    def hessian(self, *, project=False):
        met = self.met()
        each = np.empty((len(met), 12, 12))
        met.hessians(self.shape, each, project=project)
        out = np.zeros((len(self.x), 3, len(self.x), 3))
        for i, j, block in zip(*summed_blocks(met.contacts.points, each, len(self.x)), strict=True):
            out[i, :, j] += block
        return out.reshape(self.x.size, self.x.size)


@pytest.mark.parametrize("thickness", [0.0, 3e-3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_nearest_contact_of_each_triangle_is_as_far_as_the_triangle(kind, thickness):
    scene = Scene(kind, thickness=thickness)
    met = scene.met()
    face_of = np.where(met.contacts.points < scene.collider[0], met.contacts.points, -1).max(1) // 3
    for f, face in enumerate(scene.faces):
        expected = distance_of(kind, scene.x[scene.collider], scene.x[face])
        # Triangles of 1 m that are some mm away leave 13 of 16 digits.
        assert met.distances[face_of == f].min() == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("thickness", [0.0, 3e-3])
@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_are_those_of_finite_differences(kind, thickness):
    scene = Scene(kind, 1, count=12, thickness=thickness)
    assert_slope(lambda x: scene.met(x).value(scene.shape), scene.gradient, scene.x.ravel())
    assert_slope(scene.gradient, lambda _: scene.hessian(), scene.x.ravel())


@pytest.mark.parametrize("kind", KINDS)
def test_projected_hessians_are_semidefinite_and_touch_positive_parts_only(kind):
    scene = Scene(kind, 2)
    projected, exact = scene.hessian(project=True), scene.hessian()
    values = np.linalg.eigvalsh(projected)
    assert values[0] >= -1e-12 * values[-1]
    assert np.linalg.eigvalsh(projected - exact)[0] >= -1e-12 * values[-1]


def test_a_plane_is_a_triangle_without_end():
    """The barrier of a plane is that of one large triangle of a mesh, which the toolkit has tested."""
    scene = Scene("plane", 3)
    o, a, b = scene.x[scene.collider]
    # The same plane and the same normal, but 200 m wide: its corners are no part of any closest point.
    wide = np.array([o - 50 * (a - o) - 50 * (b - o), o + 150 * (a - o), o + 150 * (b - o)])
    x = np.concatenate([scene.x[: scene.collider[0]], wide])
    faces = np.concatenate([scene.faces, scene.collider[None]])
    parts = np.repeat([0, 1], [len(x) - 3, 3])
    mesh = CollisionMesh(x, faces, parts, np.full(len(x), -1), [(0, 0)])
    met = ContactSet(mesh, x, mesh.candidates(x, x, DISTANCE), DISTANCE)
    assert met.value(scene.shape) == pytest.approx(scene.met().value(scene.shape), rel=1e-9)
    out = np.zeros_like(x)
    met.add_gradient(scene.shape, out)
    own = scene.gradient(scene.x).reshape(-1, 3)
    assert np.abs(out[:-3] - own[:-3]).max() < 1e-9 * np.abs(own).max()
    assert np.abs(out[-3:].sum(0) - own[-3:].sum(0)).max() < 1e-9 * np.abs(own).max()


@pytest.mark.parametrize("kind", KINDS)
def test_friction_has_the_derivatives_of_finite_differences(kind):
    scene = Scene(kind, 4, count=10)
    rng = np.random.default_rng(5)
    met = scene.met()
    drift, mu = 1e-3 * rng.normal(size=(len(met), 3)), rng.uniform(0.1, 0.9, len(met))
    rubbing = FrictionSet(met, scene.shape, mu, 1e-2, 60.0, drift)
    reference = scene.x + 1e-3 * rng.normal(size=scene.x.shape)

    def gradient(x):
        out = np.zeros_like(scene.x)
        rubbing.add_gradient(x.reshape(-1, 3), reference, out)
        return out.ravel()

    assert_slope(lambda x: rubbing.value(x.reshape(-1, 3), reference), gradient, scene.x.ravel())


LIMITS = ImpactLimits(0.01, 0.9, 1000)


def turned(rng, angle):
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    K = np.cross(np.eye(3), axis)
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K


@pytest.mark.parametrize("angle", [0.0, 0.02, 0.4, 1.2])
def test_a_vertex_never_gets_nearer_to_a_plane_that_turns(angle):
    """2,000 ways: no sample until the impact is at the thickness; there 10 to 16 % of the gap are left."""
    rng, hits = np.random.default_rng(int(100 * angle)), 0
    frame = np.array([[0, 0, 0], [0, 0, 1.0], [1.0, 0, 0]])
    shares = np.linspace(0, 1, 101)[:, None, None]
    for _ in range(2000):
        point = np.array([*rng.uniform(-3, 3, 2), 0])[[0, 2, 1]] + [0, 10 ** rng.uniform(-1.9, 0.3), 0]
        end = frame @ turned(rng, angle).T + 0.3 * rng.normal(size=3)
        x = np.concatenate([point[None], frame])
        y = np.concatenate([point[None] + rng.normal(size=3) * [1, 2, 1], end])
        share = plane_impact(rows(x), rows(y - x), LIMITS, 1.0)
        along = x + share * shares * (y - x)
        normal = np.cross(along[:, 2] - along[:, 1], along[:, 3] - along[:, 1])
        height = ((along[:, 0] - along[:, 1]) * normal).sum(1) / np.linalg.norm(normal, axis=1)
        gap = height[0] - LIMITS.thickness
        assert height.min() > LIMITS.thickness
        hits += share < 1
        if share < 1 and angle < 0.1:  # a larger rotation ends its search early
            left = (height[-1] - LIMITS.thickness) / gap
            assert 0.0999 < left < 0.1 + 0.9 / 16 + 1e-4
    assert hits > 500


@pytest.mark.parametrize("first", [1, 2])
def test_a_radius_adds_to_the_thickness_of_impacts(first):
    rng, hits = np.random.default_rng(first), 0
    for _ in range(500):
        x, y = rng.uniform(-1, 1, (2, 4, 3))
        with_radius = impact(rows(x), rows(y - x), first, thicker(LIMITS, 0.2), 1.0)
        thick = impact(rows(x), rows(y - x), first, ImpactLimits(0.2 + LIMITS.thickness, 0.9, 1000), 1.0)
        assert with_radius == thick
        hits += 0 < thick < 1
    assert hits > 50


@pytest.mark.parametrize("kind", KINDS)
def test_impacts_on_a_way_know_every_kind(kind):
    scene = Scene(kind, 6)
    end = scene.x.copy()
    core = scene.x[scene.collider].mean(0)
    end[: scene.collider[0]] += 0.5 * (core - scene.x[: scene.collider[0]])
    if kind == "plane":
        o, a, b = scene.x[scene.collider]
        end[: scene.collider[0]] = scene.x[: scene.collider[0]] - np.cross(a - o, b - o)
    way = (scene.x, np.ascontiguousarray(end))
    found = scene.mesh.candidates(*way, DISTANCE)
    impacts = ImpactSet(scene.mesh, way, found, scene.shape, ImpactLimits(0.0, 0.9, 1000))
    assert len(impacts) >= len(scene.faces)
    assert np.isfinite(impacts.gradient()).all()
    assert all(np.isfinite(each).all() for each in impacts.blocks())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", KINDS)
def test_no_triangle_enters_on_a_collision_free_way(kind, seed):
    """Triangles fly into the collider, and past it, in ways that are sampled by the independent distance."""
    scene, rng = Scene(kind, seed, count=15), np.random.default_rng(seed)
    core = scene.x[scene.collider].mean(0)
    speeds = 3 * (core - scene.x) + 0.5 * rng.normal(size=scene.x.shape)
    if kind == "plane":
        o, a, b = scene.x[scene.collider]
        speeds = -3 * np.cross(a - o, b - o) + 0.2 * rng.normal(size=scene.x.shape)
    speeds[scene.collider] = 0.1 * rng.normal(size=3)
    mesh, found = scene.mesh, []
    for face in scene.faces:
        end = scene.x.copy()
        end[face] += speeds[face]
        end[scene.collider] += speeds[scene.collider]
        way = (scene.x, end)
        faces, edges = mesh.candidates(*way, DISTANCE)
        shares = [np.ones(len(each)) for each in (faces, edges, mesh.above)]
        limits = ImpactLimits(0.0, 0.9, 1000)
        ccd.face_impacts(0, len(faces), way, mesh.arrays, faces, limits, shares[0])
        ccd.edge_impacts(0, len(edges), way, mesh.arrays, edges, limits, shares[1])
        ccd.plane_impacts(0, len(mesh.above), way, mesh.planes, mesh.above, limits, shares[2])
        share = min(each.min(initial=1.0) for each in shares)
        for t in np.linspace(0, share, 30):
            at = scene.x + t * (end - scene.x)
            assert distance_of(kind, at[scene.collider], at[face]) > 0
        found.append(share)
    # All others stay where they are, and are met by the collider as it moves.
    assert min(found) > 0
    assert np.median(found) < 0.5
