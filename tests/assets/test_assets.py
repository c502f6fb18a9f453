import dataclasses

import numpy as np
import pytest
import trimesh
from scipy.spatial import cKDTree

from pointglue import assets
from pointglue.assets.subdivision import Cage, ring
from pointglue.errors import InputError


@pytest.fixture(scope="module")
def truck():
    return assets.car()


def parts_of(truck):
    for name in ("body", "glass", "lamps", "trim"):
        yield name, getattr(truck, name)
    for name in ("axles", "rims", "tyres"):
        for k, part in enumerate(getattr(truck, name)):
            yield f"{name}[{k}]", part


def slenderness(vertices, faces):
    """The longest edge of each triangle by the height on it (m,)."""
    corners = vertices[faces]
    longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(1)
    double = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    return longest**2 / double


def assert_sound(vertices, faces, *, components=1, slender=15.0):
    assert vertices.dtype == np.float64
    assert faces.dtype == np.int64
    assert np.isfinite(vertices).all()
    assert np.array_equal(np.unique(faces), np.arange(len(vertices)))  # no vertex is left over
    mesh = trimesh.Trimesh(vertices, faces, process=False)
    assert mesh.is_watertight
    assert mesh.is_winding_consistent
    pieces = mesh.split(only_watertight=True)
    assert len(pieces) == components
    assert all(piece.volume > 0 for piece in pieces)  # the faces look outwards
    assert slenderness(vertices, faces).max() < slender


@pytest.mark.parametrize(
    ("make", "count", "low", "high", "slender"),
    [
        (assets.octopus, 5000, (-0.55, 0, -0.55), (0.55, 0.6, 0.55), 10),
        # The rays of its fins are ten times as long as thick, and get few rings.
        (assets.fish, 9000, (-0.35, -0.2, -0.3), (0.2, 0.25, 0.3), 30),
        (assets.plant, 3000, (-0.45, 0, -0.45), (0.45, 1.1, 0.45), 12),
        (assets.gear, 4096, (-0.25, -0.25, -0.06), (0.25, 0.25, 0.06), 10),
    ],
)
def test_a_model_is_one_sound_solid(make, count, low, high, slender):
    vertices, faces = make()
    assert_sound(vertices, faces, slender=slender)
    assert abs(len(vertices) / count - 1) < 0.2
    assert (vertices >= np.array(low) - 1e-12).all()
    assert (vertices <= np.array(high) + 1e-12).all()
    size = np.ptp(vertices, axis=0)
    assert size.max() > 0.8 * (np.array(high) - low).max()
    again = make()
    assert vertices.tobytes() == again[0].tobytes()
    assert faces.tobytes() == again[1].tobytes()


def test_the_octopus_stands_on_eight_arms_that_are_apart():
    vertices, faces = assets.octopus()
    assert vertices[:, 1].min() == 0
    # Past 0.25 m from the middle, below the mantle, there is nothing but arms.
    off = (np.hypot(vertices[:, 0], vertices[:, 2]) > 0.25) & (vertices[:, 1] < 0.3)
    edges = faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    labels = trimesh.graph.connected_component_labels(edges[off[edges].all(1)], node_count=len(vertices))
    arms = [vertices[off & (labels == label)] for label in np.unique(labels[off])]
    assert len(arms) == 8
    for k, arm in enumerate(arms):
        others = cKDTree(np.concatenate(arms[:k] + arms[k + 1 :]))
        # More than the 6.4 cm between 300 particles spread evenly over its skin of 1.06 square metres.
        assert others.query(arm)[0].min() > 0.08


def test_the_fish_is_the_same_on_both_sides():
    vertices, _ = assets.fish()
    away, _ = cKDTree(vertices).query(vertices * [1, 1, -1])
    assert away.max() < 1e-12


def test_plants_differ_by_seed():
    plants = [assets.plant(seed=seed) for seed in range(6)]
    for vertices, faces in plants:
        assert_sound(vertices, faces)
        assert vertices[:, 1].min() == 0
        assert 0.85 < vertices[:, 1].max() < 1.1
        root = vertices[vertices[:, 1] < 0.02]
        assert np.hypot(root[:, 0], root[:, 2]).max() < 0.1
    assert all(np.abs(plants[0][0] - other).max() > 0.02 for other, _ in plants[1:])
    assert np.array_equal(plants[0][0], assets.plant()[0])


def test_every_part_of_the_car_is_sound(truck):
    pieces = {"lamps": 8, "trim": 9}
    total = 0
    for name, (vertices, faces) in parts_of(truck):
        try:
            assert_sound(vertices, faces, components=pieces.get(name, 1))
        except AssertionError as error:
            raise AssertionError(name) from error
        total += len(vertices)
    assert abs(total / 60_000 - 1) < 0.2
    assert len(truck.body[0]) > 25_000  # dents are to be seen
    everything = np.concatenate([vertices for _, (vertices, _) in parts_of(truck)])
    assert np.ptp(everything[:, 0]) == pytest.approx(4.2, abs=0.2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        truck.body = None


def test_the_car_is_made_alike_every_time(truck):
    again = assets.car()
    for (_, one), (_, other) in zip(parts_of(truck), parts_of(again), strict=True):
        assert one[0].tobytes() == other[0].tobytes()
        assert one[1].tobytes() == other[1].tobytes()


def test_the_wheels_are_where_the_car_says(truck):
    assert truck.axle_ends.shape == (2, 2, 3)
    assert (truck.axle_ends[0, :, 0] > truck.axle_ends[1, :, 0]).all()  # the front first
    assert (truck.axle_ends[:, 0, 2] < truck.axle_ends[:, 1, 2]).all()  # the left first
    for centre, (tyre, _), (rim, _) in zip(
        truck.axle_ends.reshape(-1, 3), truck.tyres, truck.rims, strict=True
    ):
        r, z = np.hypot(*(tyre - centre)[:, :2].T), (tyre - centre)[:, 2]
        assert r.max() == pytest.approx(truck.tyre_radius, abs=1e-12)
        assert np.ptp(z) == pytest.approx(truck.tyre_width, abs=1e-12)
        # Between two lugs the circle is above the ground, by no more than a lug's height.
        assert 0 <= tyre[:, 1].min() < 0.04
        assert r.min() < np.hypot(*(rim - centre)[:, :2].T).max() < r.max()
        # Nothing is nearer to the axis than the hub, which looks outwards.
        hub = np.hypot(*(rim - centre)[:, :2].T) < 0.05
        assert (rim - centre)[hub, 2].mean() * np.sign(centre[2]) > 0.05
    for ends, (axle, _) in zip(truck.axle_ends, truck.axles, strict=True):
        assert axle[:, 2].min() < ends[0, 2]
        assert axle[:, 2].max() > ends[1, 2]
        np.testing.assert_allclose(axle.mean(0), ends.mean(0), atol=1e-6)


def test_wheels_turn_free_of_the_body(truck):
    body = trimesh.Trimesh(*truck.body, process=False).vertices
    for centre in truck.axle_ends.reshape(-1, 3):
        off = body - centre
        beside = np.abs(off[:, 2]) < truck.tyre_width / 2
        assert np.hypot(off[beside, 0], off[beside, 1]).min() > truck.tyre_radius + 0.02


@pytest.mark.parametrize("steps", [1, 2, 8])
def test_stairs(steps):
    vertices, faces = assets.stairs(steps, rise=0.2, run=0.3, width=2.0)
    assert_sound(vertices, faces, slender=20)
    mesh = trimesh.Trimesh(vertices, faces, process=False)
    assert mesh.volume == pytest.approx(0.2 * 0.3 * 2.0 * steps * (steps + 1) / 2)
    np.testing.assert_allclose(mesh.bounds, [[0, 0, -1], [0.3 * steps, 0.2 * steps, 1]], atol=1e-12)
    # The tread below the middle of each step is level and at its height.
    for k in range(steps):
        x, y = 0.3 * (k + 0.5), 0.2 * (steps - k)
        treads = np.isclose(mesh.triangles[..., 1], y).all(1) & np.isclose(mesh.face_normals[:, 1], 1)
        span = mesh.triangles[treads][..., 0]
        assert span.min() < x < span.max()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: assets.stairs(0), "steps must be a whole number of at least 1, got 0"),
        (lambda: assets.stairs(3, rise=0.0), "rise must be a finite number above 0, got 0.0"),
        (lambda: assets.stairs(3, run=np.nan), "run must be a finite number above 0, got nan"),
        (lambda: assets.stairs(3, width=np.inf), "width must be a finite number above 0, got inf"),
        (lambda: assets.gear(teeth=2), "teeth must be a whole number of at least 3, got 2"),
    ],
)
def test_refuses(call, match):
    with pytest.raises(InputError, match=match):
        call()


def cube():
    return Cage([ring((0, 0, z), (np.sqrt(2), 0, 0), (0, np.sqrt(2), 0), 4) for z in (-1.0, 1.0)])


def test_subdivision_of_a_cube():
    # Catmull and Clark's own rules by hand: a corner goes to (F + 2 R) / 3 with F = (1, 1, 1) / 3 the mean of
    # its three faces and R = (2, 2, 2) / 3 that of its edges, to 5 / 9; edges to 3 / 4; faces stay.
    vertices, faces = cube().smooth(1)
    assert_sound(vertices, faces)
    signs = np.array(np.meshgrid(*[[-1, 0, 1]] * 3)).reshape(3, -1).T
    kinds = np.abs(signs).sum(1)
    expected = signs[kinds > 0] * np.array([0, 1, 3 / 4, 5 / 9])[kinds[kinds > 0]][:, None]
    away, _ = cKDTree(vertices).query(expected)
    assert len(vertices) == 26
    assert away.max() < 1e-12


def test_an_arm_keeps_the_cage_closed_and_takes_the_face_to_its_tip():
    cage = cube()
    face = cage.end[0]
    grown = cage.grow(face, [(0, 0, 2), (0, 0, 4)], [0.5, 0.25], [0.4, 0.2])
    assert grown.shape == (2, 4)
    centre, normal = cage.pose(face)
    np.testing.assert_allclose(centre, [0, 0, 4], atol=1e-12)
    np.testing.assert_allclose(normal, [0, 0, 1], atol=1e-12)
    tip = np.array([cage.points[i] for i in cage.quads[face]])
    np.testing.assert_allclose(np.sort(np.ptp(tip, axis=0)), [0, 0.4, 0.5], atol=1e-12)
    vertices, faces = cage.smooth(0)
    mesh = trimesh.Trimesh(vertices, faces, process=False)
    assert mesh.is_watertight
    # A cube and two pieces whose sections go over linearly: by Simpson's rule, which is exact for them.
    first, second = (4 + 4 * 1.5 * 1.4 + 0.8) / 6, 2 * (0.8 + 4 * 0.75 * 0.6 + 0.2) / 6
    assert mesh.volume == pytest.approx(8 + first + second)
