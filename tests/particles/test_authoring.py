"""From any mesh to particles: covered, joined as the surface is, no edge over a gap, shapes within bounds."""

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, dijkstra

import pointglue
from pointglue.errors import InputError
from pointglue.geometry import shapes
from pointglue.geometry.inside import Inside
from pointglue.geometry.quaternions import matrices_of
from pointglue.geometry.sampling import refined
from pointglue.geometry.welding import bounding_diagonal, edge_lengths, weld
from pointglue.particles import OrientedBody
from pointglue.particles.authoring.from_mesh import author

DEFAULTS = {
    "spacing": None, "placement": None, "tie": False, "reach": 1.4, "aspect": 2.0, "density": 1000.0,
    "seed": 0,
}  # fmt: skip
MESHES = Path(os.environ.get("POINTGLUE_MESHES", Path(__file__).parents[3] / "shared" / "meshes"))


def authored_from(mesh, **options):
    return author(mesh, **{**DEFAULTS, **options})


def body_of(authored):
    return OrientedBody(authored.positions, **authored.fields)


def together(*meshes):
    first = np.cumsum([0, *(len(vertices) for vertices, _ in meshes)])
    vertices = np.concatenate([vertices for vertices, _ in meshes])
    return vertices, np.concatenate([faces + k for (_, faces), k in zip(meshes, first, strict=False)])


def shifted(mesh, by):
    return mesh[0] + np.asarray(by), mesh[1]


def quad_sheet(n):
    grid = np.stack(np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij"), -1).reshape(-1, 2)
    k = np.arange(n * (n + 1)).reshape(n, n + 1)[:, :-1].ravel()
    quads = np.stack([k, k + 1, k + n + 2, k + n + 1], axis=1)
    return np.column_stack([grid / n, np.zeros(len(grid))]), quads


def cup():
    ball = trimesh.creation.icosphere(subdivisions=3)
    return ball.vertices, ball.faces[ball.vertices[ball.faces].mean(1)[:, 1] < 0.2]


BOX = shapes.box((1.0, 1.0, 1.0), (1, 1, 1))
BAR = shapes.box((4.0, 0.3, 0.3), (40, 3, 3))
WINGS = (
    np.array(
        [
            [0.0, 0, 0],
            [0, 0, 1],
            [1, 0, 0],
            [1, 0, 1],
            [-0.5, 0.9, 0],
            [-0.5, 0.9, 1],
            [-0.5, -0.9, 0],
            [-0.5, -0.9, 1],
        ]
    ),
    np.array([[0, 1, 3, 2], [0, 1, 5, 4], [0, 1, 7, 6]]),
)
ODD = {
    "twelve triangles": (BOX, 0.3),
    "quads, open": (quad_sheet(6), 0.2),
    "one quad": (quad_sheet(1), 0.2),
    "one triangle": ((np.eye(3), np.array([[0, 1, 2]])), 0.3),
    "cup": (cup(), 0.4),
    "three sheets on an edge": (WINGS, 0.3),
    "soup": ((BOX[0][BOX[1]].reshape(-1, 3), np.arange(36).reshape(-1, 3)), 0.3),
    "cubes sharing an edge": (together(BOX, shifted(BOX, (1, 1, 0))), 0.3),
    "cubes sharing a vertex": (together(BOX, shifted(BOX, (1, 1, 1))), 0.3),
    "cubes through each other": (together(BOX, shifted(BOX, (0.5, 0.5, 0.4))), 0.3),
    "a cube in a cube": (together(BOX, (0.4 * BOX[0], BOX[1])), 0.25),
    "bars side by side": (together(BAR, shifted(BAR, (0, 0.42, 0))), 0.4),
    "many": (
        together(*(shifted(shapes.box((0.3, 0.3, 0.3), (2, 2, 2)), (k % 5, k // 5, 0)) for k in range(20))),
        0.5,
    ),
    "far apart": (together(BOX, shifted(BOX, (1000, 0, 0))), 0.5),
    "inside out": ((BOX[0], BOX[1][:, ::-1]), 0.3),
    "both ways round": ((BOX[0], np.concatenate([BOX[1], BOX[1][:, ::-1]])), 0.3),
    "flat faces, lone vertex": (
        (np.concatenate([BOX[0], [[9.0, 9, 9]]]), np.concatenate([BOX[1], [[0, 0, 1], [2, 2, 2]]])),
        0.3,
    ),
    "tiny": ((1e-4 * BOX[0], BOX[1]), 0.3e-4),
    "huge": ((1e4 * BOX[0], BOX[1]), 0.3e4),
    "far from the origin": (shifted(BOX, 1e6), 0.3),
}


def surface_pieces(vertices, faces):
    """The component of each vertex, independently: by edges of the welded mesh."""
    unique, place = weld(vertices, bounding_diagonal(vertices))
    ends = place[faces]
    graph = coo_array(
        (np.ones(2 * len(ends)), (np.r_[ends[:, 0], ends[:, 1]], np.r_[ends[:, 1], ends[:, 2]])),
        shape=(len(unique),) * 2,
    )
    return connected_components(graph, directed=False)[1][place]


def check_sound(authored, spacing, aspect=2.0):
    body, vertices, faces = body_of(authored), authored.vertices, authored.faces
    used = np.unique(faces)
    # Every vertex is linked, near.
    assert (authored.links[:, 0] >= 0).all()
    assert (authored.distances[used, 0] <= spacing).all()
    straight = np.linalg.norm(vertices[used] - body.positions[authored.links[used, 0]], axis=1)
    assert (authored.distances[used, 0] >= straight - 1e-9 * spacing - 1e-9 * np.abs(vertices).max()).all()
    # Connected exactly as the surface is: what a vertex holds on to, and what its component's do.
    pieces = surface_pieces(vertices, faces)[used]
    joined = body.components[authored.links[used, 0]]
    assert (
        len(np.unique(np.column_stack([pieces, joined]), axis=0))
        == len(np.unique(pieces))
        == len(np.unique(joined))
    )
    assert len(np.unique(body.components)) == len(np.unique(pieces))
    # Ellipsoids are inside their clamp, and of right-handed axes.
    assert (body.radii <= 0.55 * spacing * (1 + 1e-9)).all()
    assert (body.radii >= 0.55 * spacing / aspect * (1 - 1e-9)).all()
    np.testing.assert_allclose(np.linalg.det(matrices_of(body.orientations)), 1.0)
    # None is lost in space, and none comes twice.
    distance = trimesh.proximity.ProximityQuery(trimesh.Trimesh(vertices, faces, process=False)).vertex(
        body.positions
    )[0]
    assert len(np.unique(body.positions, axis=0)) == len(body)
    assert distance.max() < np.linalg.norm(np.ptp(vertices[used], axis=0))


def check_edges(authored, spacing):
    """An edge lies inside the shape, or the way over a fine mesh between its ends is short as well."""
    body = body_of(authored)
    inside = Inside(authored.vertices, authored.faces)
    ends = body.positions[body.edges]
    along = np.linspace(0.02, 0.98, 25)[:, None, None]
    places = (1 - along) * ends[:, 0] + along * ends[:, 1]
    within = inside.contains(places.reshape(-1, 3)).reshape(25, -1).all(0)
    if within.all():
        return
    vertices, faces = refined(authored.vertices, authored.faces, spacing / 5, 10**7)
    unique, place = weld(vertices, bounding_diagonal(vertices))
    graph = edge_lengths(unique, place[faces])
    # The nearest vertex of its own component: another may run through it.
    piece = surface_pieces(vertices, faces)
    used = np.unique(authored.faces)
    of = dict(zip(body.components[authored.links[used, 0]].tolist(), piece[used].tolist(), strict=True))
    for i, j in body.edges[~within]:
        mine = place[piece == of[int(body.components[i])]]
        near = [mine[np.linalg.norm(unique[mine] - body.positions[k], axis=1).argmin()] for k in (i, j)]
        start = sum(np.linalg.norm(unique[v] - body.positions[k]) for v, k in zip(near, (i, j), strict=True))
        way = dijkstra(graph, indices=near[0], limit=5 * spacing)[near[1]]
        # Between the two vertices it is no farther than by way of the particles; along the edges of a grid a
        # way is longer by sqrt(2) at most.
        assert way < np.sqrt(2) * (1.4 * spacing + start) + 2 * spacing / 5


SOME = ["soup", "cubes sharing an edge", "cubes through each other", "bars side by side", "many", "cup"]


@pytest.mark.parametrize(
    ("name", "placement"),
    [(name, None) for name in ODD] + [(name, kind) for name in SOME for kind in ("surface", "skeleton")],
)
def test_odd_meshes_become_sound_bodies(name, placement):
    mesh, spacing = ODD[name]
    authored = authored_from(mesh, spacing=spacing, placement=placement)
    check_sound(authored, spacing)
    check_edges(authored, spacing)


@pytest.mark.skipif(not MESHES.exists(), reason="the meshes are not here")
@pytest.mark.parametrize(
    ("file", "placement"),
    [
        ("spot.obj", None),
        ("cow.obj", None),
        ("cow.obj", "surface"),
        ("cow.obj", "skeleton"),
        ("stanford-bunny.obj", None),
        ("horse.ply", None),
        ("homer.obj", None),
        ("cheburashka.obj", None),
    ],
)
def test_creatures_need_no_tuning(file, placement):
    mesh = trimesh.load(MESHES / file, process=False, force="mesh")
    authored = authored_from(mesh, placement=placement)
    body = body_of(authored)
    # Points that drift together are merged along a skeleton.
    assert (180 if placement == "skeleton" else 220) <= len(body) <= 360
    assert (2.0 if placement == "skeleton" else 2.4) <= len(body.edges) / len(body) <= 6
    spacing = body.radii.max() / 0.55
    check_sound(authored, spacing)
    # Edges that leave the shape are few, and the rest was seen from end to end.
    ends = body.positions[body.edges]
    along = np.linspace(0.02, 0.98, 15)[:, None, None]
    places = ((1 - along) * ends[:, 0] + along * ends[:, 1]).reshape(-1, 3)
    within = Inside(mesh.vertices, mesh.faces).contains(places).reshape(15, -1).all(0)
    assert within.mean() > (0.97 if placement is None else 0.4)
    assert np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1).max() < 2.2 * spacing
    if mesh.is_watertight:
        np.testing.assert_allclose(body.mass.sum(), 1000 * abs(mesh.volume), rtol=1e-9)


def test_bars_close_together_have_their_own_particles_and_no_edges_between():
    for gap in (0.04, 0.12):
        mesh = together(BAR, shifted(BAR, (0, 0.3 + gap, 0)))
        for placement in ("surface", "volume", "skeleton"):
            # The smaller gap is nearly 1 % of their length: by default they would be tied there.
            tie = False if gap < 0.1 else None
            body = OrientedBody.from_mesh(mesh, spacing=0.4, placement=placement, tie=tie)
            upper = body.positions[:, 1] > 0.15 + gap / 2
            assert 8 <= upper.sum() <= 32
            assert 8 <= (~upper).sum() <= 32
            assert not (upper[body.edges[:, 0]] != upper[body.edges[:, 1]]).any()


def test_a_thin_limb_is_a_chain():
    body = OrientedBody.from_mesh(BAR, spacing=0.6)
    order = np.argsort(body.positions[:, 0])
    inner = body.positions[order[1:-1]]
    assert np.abs(inner[:, 1:]).max() < 0.06
    degree = np.bincount(body.edges.ravel(), minlength=len(body))
    assert degree.max() <= 4
    chain = {tuple(sorted(pair)) for pair in pairwise(order.tolist())}
    assert chain <= {tuple(sorted(pair)) for pair in body.edges.tolist()}


def test_ellipsoids_lie_in_the_surface():
    body = OrientedBody.from_mesh(quad_sheet(20), spacing=0.2)
    axes = matrices_of(body.orientations)
    thin = body.radii.argmin(1)
    np.testing.assert_allclose(np.abs(axes[np.arange(len(body)), 2, thin]), 1.0, atol=1e-6)
    np.testing.assert_allclose(body.radii.min(1), 0.55 * 0.2 / 2)
    inner = (np.abs(body.positions[:, :2] - 0.5) < 0.3).all(1)
    assert (body.radii[inner].max(1) > 0.08).all()
    along = OrientedBody.from_mesh(shapes.box((4.0, 0.15, 0.15), (40, 2, 2)), spacing=0.5, aspect=3.0)
    inner = np.abs(along.positions[:, 0]) < 1.5
    longest = matrices_of(along.orientations)[np.arange(len(along)), 0, along.radii.argmax(1)]
    assert (np.abs(longest[inner]) > 0.9).all()


@settings(max_examples=8)
@given(st.integers(0, 2**32), st.floats(0.25, 0.9), st.sampled_from([None, "surface", "skeleton"]))
def test_random_boxes_become_sound_bodies(seed, spacing, placement):
    rng = np.random.default_rng(seed)
    size = rng.uniform(0.05, 1.5, 3)
    vertices, faces = shapes.box(tuple(size), (1, 2, 1))
    spacing *= float(np.linalg.norm(size)) / 2
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    authored = authored_from((vertices @ turn, faces), spacing=spacing, placement=placement, seed=seed)
    check_sound(authored, spacing)
    np.testing.assert_allclose(authored.mass.sum(), 1000 * size.prod(), rtol=1e-9)


def test_the_same_bytes_for_a_seed_whatever_the_threads():
    mesh, spacing = ODD["bars side by side"]

    def bytes_of(seed, threads):
        with pointglue.threads(threads):
            made = authored_from(mesh, spacing=spacing, seed=seed)
        body = body_of(made)
        arrays = [
            body.positions,
            body.orientations,
            body.radii,
            body.mass,
            body.edges,
            made.links,
            made.distances,
        ]
        return b"".join(array.tobytes() for array in arrays)

    first = bytes_of(7, 1)
    assert bytes_of(7, 2) == bytes_of(np.random.default_rng(7), 1) == first
    assert bytes_of(8, 1) != first


def test_options_go_to_the_body_and_density_to_the_mass():
    body = OrientedBody.from_mesh(BOX, spacing=0.4, density=200.0, stiffness=0.3, torsion=0.5)
    assert (body.stiffness == 0.3).all()
    assert (body.torsion == 0.5).all()
    np.testing.assert_allclose(body.mass.sum(), 200.0)
    assert not body.loose
    few = OrientedBody.from_mesh(BOX, spacing=1.5)
    assert len(few) <= 2
    assert OrientedBody.from_mesh(ODD["many"][0], spacing=0.9, placement="volume").loose


def test_the_solver_keeps_it_in_shape():
    body = OrientedBody.from_mesh(ODD["cubes sharing an edge"][0], spacing=0.4)
    solver = pointglue.ParticleSolver(body, gravity=(0, 0, 0))
    state = body.start()
    for _ in range(20):
        state = solver.step(state, 1 / 60)
    np.testing.assert_allclose(state.positions, body.positions, atol=1e-9)


@pytest.mark.parametrize(
    ("mesh", "options", "message"),
    [
        ((BOX[0], np.empty((0, 3), int)), {}, "mesh must have faces, got none"),
        ((np.where(BOX[0] > 0.4, np.nan, BOX[0]), BOX[1]), {}, r"vertices must be finite, got nan at index"),
        ((np.zeros((3, 3)), [[0, 1, 2]]), {}, "mesh must have a size"),
        ((BOX[0], BOX[1] + 1), {}, r"faces must index the 8 vertices, got numbers from 1 to 8"),
        ((BOX[0][:, :2], BOX[1]), {}, r"mesh must have vertices \(n, 3\), got shape \(8, 2\)"),
        (7, {}, "mesh must be a file, have vertices and faces, or be a tuple of them, got int"),
        ("no.ply", {}, "no.ply: no such file"),
        (BOX, {"spacing": 2.0}, r"spacing must be smaller than the mesh, which is 1.732 across, got 2.0"),
        (BOX, {"spacing": 1e-3}, r"spacing 0.001 would make about 1.7e\+09 particles of a mesh 1.732 across"),
        (BOX, {"spacing": 1e-3, "placement": "surface"}, r"would make about 6e\+06 particles"),
        (BOX, {"spacing": -1.0}, "spacing must be a finite number above 0, got -1.0"),
        (BOX, {"spacing": np.nan}, "spacing must be a finite number above 0, got nan"),
        (BOX, {"reach": 0.5}, "reach must be a finite number of at least 1, got 0.5"),
        (BOX, {"aspect": "2"}, "aspect must be a finite number of at least 1, got '2'"),
        (BOX, {"density": 0}, "density must be a finite number above 0, got 0"),
        (
            BOX,
            {"placement": "inside"},
            'placement must be "surface", "volume" or "skeleton", got .inside.',
        ),
        (quad_sheet(3), {"placement": "volume"}, "placement 'volume' needs a closed mesh"),
        (BOX, {"seed": "a"}, "seed must be a whole number of at least 0, or a numpy Generator, got 'a'"),
        (BOX, {"stifness": 0.1}, "'stifness' is not an option of a body made from a mesh"),
        (BOX, {"stiffness": 1.5}, "stiffness must be between 0 and 1"),
    ],
)
def test_bad_input_is_named(mesh, options, message):
    with pytest.raises(InputError, match=message):
        OrientedBody.from_mesh(mesh, **{"spacing": 0.3, **options})


BALL = trimesh.creation.icosphere(subdivisions=3)


def doubled(faces):
    return BALL.vertices, np.concatenate([BALL.faces, faces])


@pytest.mark.parametrize(
    ("mesh", "volume"),
    [
        # The wall of a cavity belongs to the solid around it.
        (
            (
                np.concatenate([BALL.vertices, 0.8 * BALL.vertices]),
                np.concatenate([BALL.faces, BALL.faces[:, ::-1] + len(BALL.vertices)]),
            ),
            BALL.volume * (1 - 0.8**3),
        ),
        (doubled(BALL.faces), BALL.volume),
        (doubled(BALL.faces[:, ::-1]), BALL.volume),  # two-sided, as from a game
        ((np.concatenate([BALL.vertices, [[1e7, 0, 0]]]), BALL.faces), BALL.volume),  # a stray vertex
    ],
    ids=["hollow", "double", "two-sided", "stray"],
)
def test_faces_that_are_there_twice_cavities_and_strays(mesh, volume):
    body = OrientedBody.from_mesh(mesh, spacing=0.4)
    assert body.mass.sum() == pytest.approx(1000 * volume, rel=1e-9)
    assert len(set(body.components)) == 1


@pytest.mark.parametrize(
    "mesh",
    [
        ([[0, 0, 0], [1, 0, 0], [0.5, 1e-3, 0]], [[0, 1, 2]]),
        trimesh.creation.box((1, 1, 0.001)),
        trimesh.creation.torus(1, 0.01, major_sections=100, minor_sections=8),
        # A large sheet and a small ball
        (
            np.concatenate(
                [[[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], 0.01 * BALL.vertices + [0.5, 0.5, 1]]
            ),
            np.concatenate([[[0, 1, 2], [0, 2, 3]], BALL.faces + 4]),
        ),
    ],
    ids=["needle", "plate", "wire", "sheet and ball"],
)
def test_thin_things_have_about_as_many_particles_by_themselves(mesh):
    assert 100 < len(OrientedBody.from_mesh(mesh)) < 700  # not thousands, and not a handful


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": None}, "seed must be a whole number of at least 0, or a numpy Generator, got None"),
        ({"seed": True}, "seed must be a whole number"),
        ({"seed": -1}, "seed must be a whole number of at least 0, or a numpy Generator, got -1"),
        ({"visual": None}, "'visual' is not an option"),
        ({"aspect": 0.5}, "aspect must be a finite number of at least 1"),
        ({"spacing": 0.001}, "would make about .* particles"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(InputError, match=message):
        OrientedBody.from_mesh(BALL, **options)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_sizes_without_a_volume(scale):
    with pytest.raises(InputError, match="mesh must be between 1e-90 and 1e90 m across"):
        OrientedBody.from_mesh((scale * BALL.vertices, BALL.faces))
