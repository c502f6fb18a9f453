"""Meshes of many shells become one body: what sits on something stays there, what is apart stays apart."""

import numpy as np
import pytest
import trimesh
from web_meshes import count_shells, many_shells, merged

from pointglue import OrientedBody, ParticleSolver
from pointglue.errors import InputError, PointglueWarning
from pointglue.geometry import shapes
from pointglue.geometry.inside import Inside
from pointglue.particles import MeshCollider, Plane

CUBE = shapes.box((1.0, 1.0, 1.0), (4, 4, 4))


def shifted(mesh, by, scale=1.0):
    return scale * mesh[0] + np.asarray(by), mesh[1]


@pytest.fixture(scope="module")
def dressed():
    with pytest.warns(
        PointglueWarning, match="mesh has 44 shells, and 43 of them were tied .* tie=False leaves"
    ):
        return OrientedBody.from_mesh(many_shells())


def test_a_dressed_figure_is_one_piece(dressed):
    assert count_shells(*many_shells()) == 44
    assert len(set(dressed.components)) == 1
    assert dressed.check() == []


def test_small_shells_ride_as_a_whole(dressed):
    """A tooth smaller than the spacing has one set of links, so that it moves as one affine piece."""
    vertices, faces = many_shells()
    inside = Inside(vertices, faces)
    small = np.flatnonzero(inside.shells.sizes < 0.05)
    assert len(small) > 25
    for shell in small:
        own = inside.components == shell
        assert len(np.unique(dressed.visual.links[own], axis=0)) == 1
        assert len(np.unique(dressed.visual.weights[own], axis=0)) == 1


def test_nothing_falls_off(dressed):
    """Dropped on its face, every shell keeps its distance from the figure to a few centimetres of 1.8 m."""
    solver = ParticleSolver(
        dressed, substep=1 / 240, iterations=4, colliders=[Plane((0, -0.1, 0), (0, 1, 0))]
    )
    state = solver.start()
    state = state.replace(spins=np.tile([1.0, 0, 0], (len(dressed), 1)))
    for _ in range(60):
        state = solver.step(state, 1 / 60)
    vertices, faces = many_shells()
    now, shells = dressed.skin(state), Inside(vertices, faces).shells
    rows = {tuple(place): k for k, place in enumerate(vertices.tolist())}
    for (one, other), _ in zip(*shells.bridges, strict=True):
        i, j = (rows[tuple(shells.tree.vertices[k].tolist())] for k in (one, other))
        rest = np.linalg.norm(vertices[i] - vertices[j])
        assert np.linalg.norm(now[i] - now[j]) < rest + 0.04


def test_separate_objects_stay_separate():
    """Two cubes are one thing if the gap is below 1 % of their size, 1.7 cm."""
    for gap, pieces in ((0.03, 2), (0.01, 1)):
        body = OrientedBody.from_mesh(merged(CUBE, shifted(CUBE, (1 + gap, 0, 0))), spacing=0.3, tie=True)
        assert len(set(body.components)) == pieces
    (message,) = OrientedBody.from_mesh(merged(CUBE, shifted(CUBE, (3, 0, 0))), spacing=0.3).check()
    assert message.startswith("2 pieces move on their own")


@pytest.mark.filterwarnings("ignore:the body is")  # as small, and as large
def test_ties_do_not_depend_on_size_and_place():
    mesh = merged(CUBE, shifted(CUBE, (0.52, 0.1, 0.1), 0.05), shifted(CUBE, (1.2, 0, 0), 0.2))
    for scale, shift in ((1.0, 0.0), (1e-3, 0.0), (1e3, 1e4)):
        body = OrientedBody.from_mesh(shifted(mesh, shift, scale), spacing=0.3 * scale, tie=True)
        assert len(set(body.components)) == 2


def test_what_is_inside_is_tied():
    core = shifted(CUBE, (0.1, 0, 0), 0.3)
    body = OrientedBody.from_mesh(merged(CUBE, core), spacing=0.2, tie=True)
    assert len(set(body.components)) == 1
    assert len(set(OrientedBody.from_mesh(merged(CUBE, core), spacing=0.2, tie=False).components)) == 2


def test_a_chain_of_small_shells_has_particles_all_along():
    """Riders are carried no farther than a spacing: a row of beads is not hung on one of them."""
    beads = merged(*(shifted(CUBE, (0.101 * k, 0, 0), 0.1) for k in range(20)))
    body = OrientedBody.from_mesh(merged(shifted(CUBE, (-0.551, 0, 0)), beads), spacing=0.4, tie=True)
    assert len(set(body.components)) == 1
    assert np.ptp(body.positions[:, 0]) > 2.0


@pytest.mark.parametrize("wanted", [40, 300])
def test_a_count_of_particles(wanted):
    body = OrientedBody.from_mesh(CUBE, particles=wanted)
    assert abs(len(body) - wanted) <= max(0.1 * wanted, 1)
    with pytest.raises(InputError, match="particles and spacing exclude each other"):
        OrientedBody.from_mesh(CUBE, particles=10, spacing=0.1)
    with pytest.raises(InputError, match="particles must be"):
        OrientedBody.from_mesh(CUBE, particles=0)


def test_rigid_pieces():
    body = OrientedBody.from_mesh(merged(CUBE, shifted(CUBE, (3, 0, 0))), spacing=0.4, rigid=True)
    assert len(body.groups) == 2
    assert sorted(np.concatenate(body.groups)) == list(range(len(body)))


def test_files_trimeshes_and_scenes(tmp_path):
    mesh = trimesh.Trimesh(*CUBE, process=False)
    mesh.export(tmp_path / "cube.ply")
    scene = trimesh.Scene()
    scene.add_geometry(mesh)
    wanted = OrientedBody.from_mesh(CUBE, spacing=0.4)
    for given in (mesh, scene, tmp_path / "cube.ply", str(tmp_path / "cube.ply")):
        body = OrientedBody.from_mesh(given, spacing=0.4)
        np.testing.assert_allclose(body.positions, wanted.positions, atol=1e-6)
    shift = np.eye(4)
    shift[:3, 3] = [5, 0, 0]
    scene.add_geometry(mesh, transform=shift)
    assert np.ptp(OrientedBody.from_mesh(scene, spacing=0.4).positions[:, 0]) > 5
    collider = MeshCollider(mesh)
    assert collider.closed
    np.testing.assert_array_equal(collider.vertices, MeshCollider(*CUBE).vertices)
    with pytest.raises(InputError, match="mesh must have faces, got a scene without triangles"):
        OrientedBody.from_mesh(trimesh.Scene())
