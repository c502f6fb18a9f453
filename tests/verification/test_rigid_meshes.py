"""Rigid bodies of meshes as they come: open, flat, of many shells, crossing themselves, looking both ways."""

import warnings

import numpy as np
import pytest
from scipy.spatial import Delaunay
from trimesh import creation

import pointglue as pg
from pointglue.elastic.model.rigid_meshes import convex_parts
from pointglue.errors import InputError, PointglueWarning
from pointglue.geometry.shapes import box
from pointglue.scene import load_scene
from pointglue.scene.build.builder import build_scene

SIZE = np.array([0.6, 0.4, 0.2])
SOLID = np.diag(SIZE**2) / 12  # second moment by mass of a solid box


def full_box():
    return box(SIZE, (3, 2, 2))


def without_lid():
    vertices, faces = full_box()
    return vertices, faces[vertices[faces][:, :, 1].mean(1) < 0.49 * SIZE[1]]


def looking_both_ways():
    vertices, faces = full_box()
    return vertices, np.concatenate([faces[:5, ::-1], faces[5:]])


def with_a_fin():
    """A closed box with an open triangle beside it, inside of its hull's extent."""
    vertices, faces = full_box()
    fin = np.array([[0.3, 0.0, 0.0], [0.31, 0.05, 0.0], [0.31, -0.05, 0.0]])
    return np.concatenate([vertices, fin]), np.concatenate([faces, [[len(vertices) + k for k in range(3)]]])


def open_figure_with_eyes():
    vertices, faces = without_lid()
    eye, own = box((0.02, 0.02, 0.02), (1, 1, 1))
    places = [eye + [side, 0.0, 0.2] for side in (-0.1, 0.1)]
    triangles = [own + len(vertices) + k * len(eye) for k in range(2)]
    return np.concatenate([vertices, *places]), np.concatenate([faces, *triangles])


def crossing_itself():
    vertices, faces = full_box()
    return np.concatenate([vertices, vertices + 0.3 * SIZE]), np.concatenate([faces, faces + len(vertices)])


def edges_of_four_triangles():
    """Two boxes that share an edge: no manifold."""
    vertices, faces = box((1.0, 1.0, 1.0), (1, 1, 1))
    both, inverse = np.unique(np.concatenate([vertices, vertices + [1, 1, 0]]), axis=0, return_inverse=True)
    return both, inverse.reshape(-1)[np.concatenate([faces, faces + len(vertices)])]


def sheet():
    vertices, faces = full_box()
    return vertices * [1, 1, 0], faces[(vertices[faces][:, :, 2] > 0.49 * SIZE[2]).all(1)]


def soup():
    """Every triangle with vertices of its own, and some without any area."""
    vertices, faces = full_box()
    corners = vertices[faces].reshape(-1, 3)
    needle = np.array([[0.0, 0, 0], [0.1, 0, 0], [0.2, 0, 0]])
    return np.concatenate([corners, needle]), np.arange(len(corners) + 3).reshape(-1, 3)


MESHES = {
    build.__name__: build
    for build in (
        full_box, without_lid, looking_both_ways, with_a_fin, open_figure_with_eyes, crossing_itself,
        edges_of_four_triangles, sheet, soup,
    )
}  # fmt: skip


def test_a_closed_mesh_is_solid():
    body, solid = (make(*full_box(), density=700.0) for make in (pg.RigidBody.from_mesh, pg.RigidBody.solid))
    assert body.mass_source == solid.mass_source == "solid"
    assert body.mass == pytest.approx(700 * SIZE.prod(), rel=1e-13)
    np.testing.assert_allclose(body.moment, body.mass * SOLID, atol=1e-13)
    np.testing.assert_allclose(body.moment, solid.moment, atol=1e-13)


@pytest.mark.parametrize("name", ["without_lid", "looking_both_ways"])
def test_the_hull_of_an_open_box_is_the_box(name):
    body = pg.RigidBody.from_mesh(*MESHES[name](), density=500.0)
    assert body.mass_source == "hull"
    assert body.mass == pytest.approx(500 * SIZE.prod(), rel=1e-12)
    np.testing.assert_allclose(body.moment, body.mass * SOLID, atol=1e-12)
    np.testing.assert_allclose(body.center_of_mass, 0, atol=1e-12)


@pytest.mark.parametrize("name", ["with_a_fin", "soup"])
def test_closed_parts_carry_the_mass_of_a_mesh_that_is_mostly_closed(name):
    body = pg.RigidBody.from_mesh(*MESHES[name]())
    assert body.mass_source == "closed parts"
    assert body.mass == pytest.approx(1000 * SIZE.prod(), rel=1e-12)
    np.testing.assert_allclose(body.moment, body.mass * SOLID, atol=1e-11)


def test_closed_eyes_do_not_carry_the_mass_of_an_open_figure():
    body = pg.RigidBody.from_mesh(*open_figure_with_eyes())
    assert body.mass_source == "hull"
    assert body.mass > 1000 * SIZE.prod()


def test_a_stated_mass_is_spread_over_an_open_surface():
    """Five plates: floor and walls of the box, each of the mass of its area, about their common centre."""
    body = pg.RigidBody.from_mesh(*without_lid(), mass=3.0)
    assert body.mass_source == "surface"
    assert body.mass == 3.0
    a, b, c = SIZE
    plates = [  # area, centre, sides
        (a * c, (0, -b / 2, 0), (a, 0, c)),
        *((b * c, (side * a / 2, 0, 0), (0, b, c)) for side in (-1, 1)),
        *((a * b, (0, 0, side * c / 2), (a, b, 0)) for side in (-1, 1)),
    ]
    mass = 3.0 * np.array([plate[0] for plate in plates]) / sum(plate[0] for plate in plates)
    centers = np.array([plate[1] for plate in plates])
    center = mass @ centers / 3.0
    moment = sum(
        m * (np.diag(np.square(sides)) / 12 + np.outer(at - center, at - center))
        for m, at, (_, _, sides) in zip(mass, centers, plates, strict=True)
    )
    np.testing.assert_allclose(body.center_of_mass, center, atol=1e-14)
    np.testing.assert_allclose(body.moment, moment, atol=1e-14)


def test_a_flat_mesh_is_a_plate():
    body = pg.RigidBody.from_mesh(*sheet(), mass=2.0)
    assert body.mass_source == "plate"
    np.testing.assert_allclose(body.moment, 2.0 * np.diag([SIZE[0] ** 2, SIZE[1] ** 2, 0]) / 12, atol=1e-14)
    guessed = pg.RigidBody.from_mesh(*sheet())  # a hundredth of its diagonal thick
    assert guessed.mass == pytest.approx(1000 * SIZE[:2].prod() * 0.01 * np.hypot(*SIZE[:2]), rel=1e-12)


def test_triangles_on_a_line_are_refused():
    line = np.linspace(0, 1, 4)[:, None] * [1.0, 2.0, 0.5]
    with pytest.raises(InputError, match="must not all lie on one line"):
        pg.RigidBody.from_mesh(line, [[0, 1, 2], [1, 2, 3]])


@pytest.mark.parametrize("name", MESHES)
def test_masses_do_not_depend_on_units_and_places(name):
    vertices, faces = MESHES[name]()
    body = pg.RigidBody.from_mesh(vertices, faces)
    large = pg.RigidBody.from_mesh(1000 * vertices + [5e4, -2e4, 3e4], faces, density=1e-6)
    assert large.mass_source == body.mass_source
    assert large.mass == pytest.approx(body.mass, rel=1e-9)
    np.testing.assert_allclose(large.moment / 1e6, body.moment, atol=1e-8 * np.abs(body.moment).max())


class TestCollisionShapes:
    """The convex hull, and hulls of parts, on the vertices of the mesh."""

    ring = creation.torus(1.0, 0.2, major_sections=32, minor_sections=12)

    def test_a_hull_is_convex_and_holds_everything(self):
        vertices = np.asarray(self.ring.vertices)
        body = pg.RigidBody.from_mesh(vertices, self.ring.faces, collision="hull")
        corners = vertices[np.asarray(body.faces)]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        heights = np.einsum("mi,nmi->nm", normals, vertices[:, None] - corners[None, :, 0])
        assert heights.max() < 1e-12  # outwards, and no vertex is beyond any of them
        assert Delaunay(vertices).find_simplex([0.0, 0.0, 0.0]) >= 0  # it fills the hole of the ring
        assert body.mass == pytest.approx(1000 * self.ring.volume)  # mass is that of the mesh all the same

    def test_a_decomposition_covers_the_mesh_and_leaves_the_hole_of_a_ring(self):
        faces = np.asarray(self.ring.faces)
        body = pg.RigidBody.from_mesh(self.ring.vertices, faces, collision="decomposition")
        assert set(np.unique(np.asarray(body.faces)).tolist()) <= set(np.unique(faces).tolist())
        parts = convex_parts(np.asarray(self.ring.vertices), faces)
        assert 4 <= len(parts) <= 32
        assert sorted(map(tuple, np.concatenate(parts).tolist())) == sorted(map(tuple, faces.tolist()))
        for part in parts:
            hull = Delaunay(np.asarray(self.ring.vertices)[np.unique(part)])
            assert hull.find_simplex([0.0, 0.0, 0.0]) < 0

    def test_a_convex_mesh_is_one_part(self):
        assert len(convex_parts(*full_box())) == 1


@pytest.mark.parametrize("collision", ["mesh", "hull", "decomposition"])
@pytest.mark.parametrize("name", MESHES)
def test_every_mesh_falls_on_the_floor_as_a_rigid_object(name, collision, tmp_path):
    """With nothing said but its kind it is built, falls, and stays above the floor."""
    vertices, faces = MESHES[name]()
    lines = [f"v {x} {y} {z}" for x, y, z in vertices - [0, vertices[:, 1].min() - 0.01, 0]]
    lines += [f"f {a} {b} {c}" for a, b, c in faces + 1]
    (tmp_path / "mesh.obj").write_text("\n".join(lines))
    thing = {"kind": "rigid", "mesh": {"file": str(tmp_path / "mesh.obj")}, "collision": collision}
    floor = {"kind": "collider", "mesh": {"shape": "plane"}}
    scene = {"objects": {"thing": thing, "floor": floor}, "contact": {"distance": "2 mm"}}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", PointglueWarning)
        simulation = build_scene(load_scene(scene))
    source = simulation.engines[0].solver.model.rigid[0].mass_source
    texts = [str(warning.message) for warning in told]
    assert (len([text for text in texts if "material.mass states the mass" in text]) == 1) == (
        source != "solid"
    )
    solver = simulation.engines[0].solver
    state = solver.start()
    for _ in range(5):
        state = solver.step(state, 1 / 24)
    assert 0 < state.body("thing")[:, 1].min() < 0.0099
