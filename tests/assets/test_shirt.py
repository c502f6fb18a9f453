import numpy as np
import pytest
import trimesh
from numpy.testing import assert_allclose
from peers import ipctk
from scipy.interpolate import CubicSpline
from scipy.spatial import cKDTree

from pointglue import assets
from pointglue.assets.torso import KEYS, clamped_spline
from pointglue.errors import InputError

CLEAR = 2.5e-3  # m: as far apart as everything is to be at the start


def toolkit(vertices, faces, groups=None):
    """A collision mesh; of vertices with the same number in `groups` (n,) none meet."""
    mesh = ipctk.CollisionMesh(np.asfortranarray(vertices), ipctk.edges(faces), faces.astype(np.int32))
    if groups is not None:
        mesh.can_collide = ipctk.make_vertex_patches_filter(groups.astype(np.int32))
    return mesh


def least_distance(vertices, faces, groups=None, reach=0.02):
    mesh, places = toolkit(vertices, faces, groups), np.asfortranarray(vertices)
    candidates, near = ipctk.Candidates(), ipctk.NormalCollisions()
    candidates.build(mesh, places, reach / 2)
    near.build(candidates, mesh, places, reach)
    return np.sqrt(near.compute_minimum_distance(mesh, places)) if len(near) else np.inf


@pytest.fixture(scope="module")
def figure():
    return assets.torso(2)


@pytest.fixture(scope="module", params=[2, 3, 5])
def dressed(request):
    return request.param, assets.shirt(request.param)


def test_the_figure_is_one_smooth_solid(figure):
    mesh = trimesh.Trimesh(figure.vertices, figure.faces, process=False)
    assert mesh.is_watertight
    assert mesh.is_winding_consistent
    assert mesh.volume > 0
    assert mesh.body_count == 1
    assert 2000 < len(figure.vertices) < 4000
    assert np.abs(cKDTree(figure.vertices).query(figure.vertices * [1, 1, -1])[0]).max() < 1e-9
    # No edge is sharp but for those around the flat end of its thighs.
    upper = mesh.triangles_center[mesh.face_adjacency][:, :, 1].min(1) > 0.7
    assert np.degrees(mesh.face_adjacency_angles[upper].max()) < 50


def test_the_figure_moves_smoothly_and_stays_clear_of_itself(figure):
    times = np.linspace(0, 4.4, 45)
    places = np.stack([figure.pose(t) for t in times])
    mesh = toolkit(figure.vertices, figure.faces)
    assert not any(ipctk.has_intersections(mesh, np.asfortranarray(x)) for x in places)
    np.testing.assert_allclose(places[0], figure.vertices, atol=1e-15)
    speed = np.linalg.norm(np.diff(places, axis=0), axis=2).max(1) / np.diff(times)
    assert 0.5 < speed.max() < 2.0  # m/s
    assert speed[-1] == 0  # at the end it stands still
    # It begins from rest: as the square of the time.
    early = [np.abs(figure.pose(t) - figure.vertices).max() for t in (1e-3, 2e-3)]
    assert early[1] / early[0] == pytest.approx(4, rel=0.05)
    # Parts that go as one keep their shape: hands, and thighs, which stay where they are.
    for k, side in enumerate((-1, 1)):
        hand = (figure.elbows[:, k] > 0.9999) & (side * figure.vertices[:, 2] > 0.5)
        assert hand.sum() > 20
        before, after = (x[hand] - x[hand].mean(0) for x in (figure.vertices, figure.pose(1.3)))
        np.testing.assert_allclose(after @ after.T, before @ before.T, atol=1e-4 * 0.2**2)
    thighs = figure.vertices[:, 1] < 0.8
    assert np.abs(places[:, thighs] - figure.vertices[thighs]).max() < 1e-15


def test_a_shirt_is_one_cloth_with_five_edges(dressed):
    detail, shirt = dressed
    assert abs(len(shirt.vertices) / {2: 1700, 3: 3700, 5: 9900}[detail] - 1) < 0.1
    assert np.array_equal(np.unique(shirt.faces), np.arange(len(shirt.vertices)))
    mesh = trimesh.Trimesh(shirt.vertices, shirt.faces, process=False)
    assert mesh.body_count == 1
    assert mesh.is_winding_consistent
    _, uses = np.unique(mesh.edges_sorted, axis=0, return_counts=True)
    assert uses.max() == 2
    # A disc with two holes, the sleeves: hem, fronts and collar are one edge, the cuffs the other two.
    assert mesh.euler_number == -1
    assert mesh.triangles_center[:, 0] @ mesh.face_normals[:, 0] > 0  # the faces look outwards
    assert set(shirt.parts) == set(range(len(assets.SHIRT_PARTS)))


def test_a_shirt_is_clear_of_itself_and_of_the_figure(figure, dressed):
    _, shirt = dressed
    assert not ipctk.has_intersections(
        toolkit(shirt.vertices, shirt.faces), np.asfortranarray(shirt.vertices)
    )
    assert least_distance(shirt.vertices, shirt.faces) > CLEAR
    for (one, its), (other, theirs), least in (
        ((figure.vertices, figure.faces), (shirt.vertices, shirt.faces), 2 * CLEAR),
        (shirt.pocket, (shirt.vertices, shirt.faces), CLEAR),
    ):
        both, faces = np.concatenate([one, other]), np.concatenate([its, len(one) + theirs])
        assert not ipctk.has_intersections(toolkit(both, faces), np.asfortranarray(both))
        assert least_distance(both, faces, np.arange(len(both)) < len(one)) > least
    trunk = figure.vertices[
        (np.abs(figure.vertices[:, 2]) < 0.14) & (np.abs(figure.vertices[:, 1] - 1.05) < 0.15)
    ]
    around = shirt.vertices[cKDTree(shirt.vertices).query(trunk)[1]]
    assert (np.hypot(*around[:, [0, 2]].T) > np.hypot(*trunk[:, [0, 2]].T)).all()  # the figure is in it


def test_the_left_front_lies_over_the_right_one(dressed):
    _, shirt = dressed
    left, right = shirt.vertices[shirt.left], shirt.vertices[shirt.right]
    assert not np.intersect1d(shirt.left, shirt.right).size
    away, near = cKDTree(right).query(left)
    middle = np.abs(left[:, 2]) < 0.015
    assert away[middle].max() < 0.0075
    assert (left - right[near])[middle, 0].min() > 0.0025  # before it
    away, near = cKDTree(left).query(shirt.buttons)
    assert away.max() < 0.025
    assert (np.diff(shirt.buttons[:, 1]) < 0).all()
    np.testing.assert_allclose(np.linalg.norm(shirt.normals, axis=1), 1)
    assert shirt.normals[:, 0].min() > 0.8
    assert np.abs(shirt.buttons[:, 2]).max() < 1e-3


def test_cuffs_and_pocket_are_where_they_belong(figure, dressed):
    detail, shirt = dressed
    skin = cKDTree(figure.vertices)
    for cuff, side in zip(shirt.cuffs, (-1, 1), strict=True):
        assert len(cuff) == 2 * 8 * detail
        assert (side * shirt.vertices[cuff, 2]).min() > 0.45
        assert skin.query(shirt.vertices[cuff])[0].max() < 0.03
    pocket, faces = shirt.pocket
    assert pocket[:, 2].max() < -0.02  # on the left
    size = np.linalg.norm(pocket.max(0) - pocket.min(0))
    assert 0.13 < size < 0.25
    edge = trimesh.Trimesh(pocket, faces, process=False).outline().referenced_vertices
    assert set(shirt.seam) < set(edge)
    rest = np.setdiff1d(edge, shirt.seam)
    assert pocket[rest, 1].min() > np.quantile(pocket[:, 1], 0.85)  # the opening is at the top


def test_they_are_made_alike_every_time(figure):
    again = assets.torso(2)
    assert again.vertices.tobytes() == figure.vertices.tobytes()
    assert again.faces.tobytes() == figure.faces.tobytes()
    one, other = assets.shirt(2), assets.shirt(2)
    assert one.vertices.tobytes() == other.vertices.tobytes()
    assert one.faces.tobytes() == other.faces.tobytes()


def test_what_is_made_without_options():
    """The detail of both is 3: the figure and its shirt have as many points."""
    assert len(assets.shirt().vertices) == len(assets.shirt(3).vertices)
    assert len(assets.torso().vertices) == len(assets.torso(3).vertices)


def test_the_figure_moves_as_its_keys_say():
    """At 1.2 s it looks to its left, at 2 s it has its left arm ahead of it, and at 2.7 s both its arms."""
    figure = assets.torso(2)
    x = figure.vertices
    left, right = x[:, 2].argmin(), x[:, 2].argmax()  # the tips of its hands
    face = np.where(x[:, 1] > 1.5, x[:, 0], -1).argmax()
    assert (figure.pose(1.2) - x)[face, 2] < -0.03
    for time, hands in ((2.0, [left]), (2.7, [left, right])):
        moved = (figure.pose(time) - x)[hands]
        assert (moved[:, 0] > 0.3).all()
        assert (moved[:, 1] > 0.2).all()


@pytest.mark.parametrize("make", [assets.torso, assets.shirt])
@pytest.mark.parametrize("detail", [1, 9, 2.5, True])
def test_refuses(make, detail):
    with pytest.raises(InputError, match="detail must be a whole number of at least 2 and of at most 8, got"):
        make(detail)


def test_the_motion_is_the_spline_of_scipy():
    spline = CubicSpline(KEYS[:, 0], KEYS[:, 1:], bc_type="clamped")
    for time in (-1.0, 0.0, 0.3, 0.5, 1.7, 2.7, 3.99, 4.0, 9.0):
        found = clamped_spline(KEYS[:, 0], KEYS[:, 1:], time)
        assert_allclose(found, spline(np.clip(time, 0, 4)), atol=1e-14)
