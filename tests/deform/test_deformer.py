"""Handle deformation against a plain reference, its invariances, and its derivatives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import random_rotation

import pointglue as pg
from pointglue.deform import HandleDeformer
from pointglue.errors import InputError
from pointglue.geometry import shapes


def reference(x, p, q, falloff, *, stretch=0.0, damping=0.0, previous=None, weights=None, k=None, turns=None):
    """All vertices at once, by numpy's decomposition, as the paper says and the errata correct."""
    d = x.shape[1]
    low, high = 1 - stretch, 1 / (1 - stretch) if stretch < 1 else np.inf
    w = np.linalg.norm(x[:, None] - p, axis=2) ** (-2 * falloff) * (1 if weights is None else weights)
    p_star, q_star = w @ p / w.sum(1)[:, None], w @ q / w.sum(1)[:, None]
    arms = p - p_star[:, None]
    A = np.einsum("vi,vij,vik->vjk", w, q - q_star[:, None], arms)
    size = np.einsum("vi,vij,vij->v", w, arms, arms)
    if k is not None:
        A = A + np.einsum("vi,ijk->vjk", w * k, turns)
        size += d * (w @ k)
    before = np.eye(d) if previous is None else previous
    scale = np.ones(len(x))
    for _ in range(500 if stretch > 0 and damping > 0 else 1):
        U, _, Vt = np.linalg.svd(scale[:, None, None] * A + damping * before)
        U[:, :, -1] *= np.sign(np.linalg.det(U @ Vt))[:, None]
        M = U @ Vt
        if stretch > 0:
            scale = np.clip(np.einsum("vij,vij->v", M, A) / size, low, high)
    return scale[:, None] * np.einsum("vij,vj->vi", M, x - p_star) + q_star, M


def rotations_near_identity(rng, count, d, size):
    return pg.special_procrustes(np.eye(d) + size * rng.standard_normal((count, d, d)))


MODES = [
    pytest.param({"stretch": stretch, "damping": damping}, id=f"stretch {stretch} damping {damping}")
    for stretch in (0.0, 0.3, 1.0)
    for damping in (0.0, 0.7)
]


@pytest.fixture(params=[2, 3], ids=["2D", "3D"])
def scene(request, rng):
    d = request.param
    p = rng.standard_normal((7, d))
    return rng.standard_normal((150, d)), p, p + 0.3 * rng.standard_normal(p.shape)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("falloff", [0.5, 1.0, 3.0])
def test_against_the_plain_reference(scene, rng, mode, falloff):
    x, p, q = scene
    previous = rotations_near_identity(rng, len(x), x.shape[1], 0.2) if mode["damping"] else None
    weights = 0.5 + rng.random(len(p))
    expected, rotations = reference(x, p, q, falloff, previous=previous, weights=weights, **mode)
    deformer = HandleDeformer(x, p, falloff=falloff, weights=weights, **mode)
    pose = deformer.at(q, previous=previous)
    np.testing.assert_allclose(pose.positions, expected, atol=1e-10)
    np.testing.assert_allclose(pose.rotations, rotations, atol=1e-10)
    np.testing.assert_allclose(deformer.deform(q, previous=previous), expected, atol=1e-10)


@pytest.mark.parametrize("stretch", [0.0, 1.0])
def test_oriented_handles_against_the_reference(scene, rng, stretch):
    x, p, q = scene
    k = rng.random(len(p)) * (np.arange(len(p)) % 2)  # every other one carries an orientation
    turns = rotations_near_identity(rng, len(p), x.shape[1], 0.5)
    expected, _ = reference(x, p, q, 1.0, stretch=stretch, k=k, turns=turns)
    deformer = HandleDeformer(x, p, stretch=stretch, radii=np.sqrt((x.shape[1] + 2) * k))
    np.testing.assert_allclose(deformer.deform(q, rotations=turns), expected, atol=1e-10)
    np.testing.assert_allclose(deformer.at(q, rotations=turns).positions, expected, atol=1e-10)


@pytest.mark.parametrize("mode", MODES)
def test_derivatives(scene, rng, mode):
    x, p, q = scene
    previous = rotations_near_identity(rng, len(x), x.shape[1], 0.2) if mode["damping"] else None
    deformer = HandleDeformer(x, p, **mode)

    def positions(handles):
        return deformer.at(handles, previous=previous).positions

    pose, d, g, h = (
        deformer.at(q, previous=previous),
        rng.standard_normal(q.shape),
        rng.standard_normal(x.shape),
        1e-6,
    )
    rates = pose.jvp(d)
    difference = (positions(q + h * d) - positions(q - h * d)) / (2 * h)
    np.testing.assert_allclose(rates, difference, atol=1e-8 * np.abs(rates).max())  # h^2 and eps / h
    assert (pose.vjp(g) * d).sum() == pytest.approx((g * rates).sum(), rel=1e-11)


def test_derivatives_with_oriented_handles(scene, rng):
    x, p, q = scene
    turns = rotations_near_identity(rng, len(p), x.shape[1], 0.5)
    deformer = HandleDeformer(np.concatenate([x, p]), p, stretch=1.0, radii=0.6 * (np.arange(len(p)) % 2))
    pose = deformer.at(q, rotations=turns)
    d, g, h = rng.standard_normal(q.shape), rng.standard_normal(deformer.points.shape), 1e-6
    ends = [deformer.at(q + s * h * d, rotations=turns).positions for s in (1, -1)]
    np.testing.assert_allclose(pose.jvp(d), (ends[0] - ends[1]) / (2 * h), atol=1e-7)
    assert (pose.vjp(g) * d).sum() == pytest.approx((g * pose.jvp(d)).sum(), rel=1e-11)


def test_shortcuts_of_the_derivatives(scene, rng):
    x, p, q = scene
    deformer = HandleDeformer(x, p)
    d, g = rng.standard_normal(q.shape), rng.standard_normal(x.shape)
    np.testing.assert_array_equal(deformer.jvp(q, d), deformer.at(q).jvp(d))
    np.testing.assert_array_equal(deformer.vjp(q, g), deformer.at(q).vjp(g))
    turns = rotations_near_identity(rng, len(p), x.shape[1], 0.5)
    oriented = HandleDeformer(x, p, radii=0.4)
    pose = oriented.at(q, rotations=turns)
    np.testing.assert_array_equal(oriented.jvp(q, d, rotations=turns), pose.jvp(d))
    np.testing.assert_array_equal(oriented.vjp(q, g, rotations=turns), pose.vjp(g))


@given(seed=st.integers(0, 2**32 - 1), falloff=st.floats(0.3, 2), stretch=st.sampled_from([0.0, 0.4, 1.0]))
def test_a_rigid_motion_of_the_handles_is_one_of_the_shape(seed, falloff, stretch):
    rng = np.random.default_rng(seed)
    x, p = rng.standard_normal((40, 3)), rng.standard_normal((8, 3))
    R, t = random_rotation(rng), rng.standard_normal(3)
    deformer = HandleDeformer(x, p, falloff=falloff, stretch=stretch)
    # Rounding over the gap: where two handles outweigh all others, a line, that is 1e-6 or so.
    np.testing.assert_allclose(deformer.deform(p @ R.T + t), x @ R.T + t, atol=1e-9)


def test_a_similarity_of_the_handles_is_one_of_the_shape(rng):
    x, p, R = rng.standard_normal((40, 3)), rng.standard_normal((5, 3)), random_rotation(rng)
    np.testing.assert_allclose(
        HandleDeformer(x, p, stretch=1.0).deform(2.5 * p @ R.T), 2.5 * x @ R.T, atol=1e-12
    )
    pose = HandleDeformer(x, p, stretch=0.25).at(2.5 * p)
    np.testing.assert_allclose(pose.scales, 1 / 0.75)  # held at the limit
    np.testing.assert_allclose(HandleDeformer(x, p, stretch=0.25).at(0.1 * p).scales, 0.75)


@pytest.mark.parametrize("falloff", [0.5, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("near", [0.0, 1e-300, 1e-12, 1e-6])
def test_handles_are_interpolated(rng, falloff, near):
    """A vertex on a handle, or as near as can be, goes with it, and turns as its surroundings do."""
    p = rng.standard_normal((6, 3))
    q = p + 0.3 * rng.standard_normal(p.shape)
    deformer = HandleDeformer(np.concatenate([p + near, rng.standard_normal((10, 3))]), p, falloff=falloff)
    pose = deformer.at(q)
    if near == 0.0:
        np.testing.assert_array_equal(deformer.deform(q)[:6], q)
    np.testing.assert_allclose(pose.positions[:6], q, atol=1e-15 + 2 * near * 6**0.5)
    assert np.isfinite(pose.rotations).all()
    if falloff <= 1:  # compare with a point beside the handle, where the slow formula has digits left
        _, rotation = reference(p + 1e-7, p, q, falloff)
        np.testing.assert_allclose(pose.rotations[:6], rotation, atol=2e-3)


def test_the_deformation_is_continuous(rng):
    """Across the whole shape, and through the handles: neighbours move alike."""
    p = rng.standard_normal((6, 3))
    q = p + 0.2 * rng.standard_normal(p.shape)
    for start, end in [(p[0] - [1, 1, 1], p[0] + [1, 1, 1]), (p[1] - [0, 2, 0], p[2] + [0, 2, 0])]:
        line = start + np.linspace(0, 1, 20001)[:, None] * (end - start)
        moved = HandleDeformer(line, p).deform(q)
        step = np.linalg.norm(np.diff(moved, axis=0), axis=1) / np.linalg.norm(np.diff(line, axis=0), axis=1)
        assert step.max() < 20  # of a smooth curve; a jump would be thousands


def test_one_handle_moves_all_and_turns_nothing(rng):
    x = rng.standard_normal((20, 3))
    np.testing.assert_allclose(HandleDeformer(x, [[0, 0, 0]]).deform([[1, 2, 3]]), x + [1, 2, 3])
    R = random_rotation(rng)
    turned = HandleDeformer(x, [[0, 0, 0]], radii=0.5).deform([[1, 2, 3]], rotations=[R])
    np.testing.assert_allclose(turned, x @ R.T + [1, 2, 3], atol=1e-14)


def test_two_handles_turn_by_the_smallest_rotation(rng):
    x = rng.standard_normal((20, 3))
    p, q = np.array([[0.0, 0, 0], [1, 0, 0]]), np.array([[0.0, 0, 0], [0, 1, 0]])
    quarter = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])  # about z: the least that brings x to y
    pose = HandleDeformer(x, p).at(q)
    np.testing.assert_allclose(pose.positions, x @ quarter.T, atol=1e-7)
    assert pose.degenerate.all()
    # What they leave open stays near the previous frame.
    spun = quarter @ np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])
    held = HandleDeformer(x, p).deform(q, previous=np.tile(spun, (20, 1, 1)))
    np.testing.assert_allclose(held, x @ spun.T, atol=1e-7)


def test_what_is_open_at_some_vertices_stays_near_their_own_previous_rotations(rng):
    x, p = rng.standard_normal((20, 3)), np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [1, 1, 0]])
    distance = np.linalg.norm(p[:, None] - x, axis=2)
    distance[3, 1::2] = 1e9  # these have handles on a line
    deformer = HandleDeformer(x, p, distance=distance)
    turn = random_rotation(rng)
    before = np.array([random_rotation(rng) for _ in x])
    pose = deformer.at(p @ turn.T, previous=before)
    assert pose.degenerate.tolist() == 10 * [False, True]
    np.testing.assert_allclose(deformer.deform(p @ turn.T, previous=before), pose.positions, atol=1e-12)


def test_handles_close_to_a_line_still_turn(rng):
    """A rigid motion of three handles that are off a line by a hundred-thousandth of its length."""
    x = rng.random((50, 3))
    c, s = np.cos(2.0), np.sin(2.0)
    R = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    p = np.array([[0, 0, 0], [1.0, 1e-5, 0], [2, 0, 0]])
    np.testing.assert_allclose(HandleDeformer(x, p).deform(p @ R.T), x @ R.T, atol=1e-4)  # eps / gap


def test_three_handles_never_mirror(rng):
    x, p = rng.standard_normal((50, 3)), rng.standard_normal((3, 3))
    for _ in range(20):
        pose = HandleDeformer(x, p).at(rng.standard_normal((3, 3)))
        np.testing.assert_allclose(np.linalg.det(pose.rotations), 1)


def test_damping_holds_back_and_lets_go(rng):
    x, p = rng.standard_normal((50, 3)), rng.standard_normal((6, 3))
    q = p @ random_rotation(rng).T
    free = HandleDeformer(x, p).at(q).rotations
    angles = []
    for damping in (0.0, 1.0, 100.0):
        M = HandleDeformer(x, p, damping=damping).at(q).rotations
        angles.append(np.trace(M, axis1=1, axis2=2))
    assert (angles[2] > angles[0]).all()  # nearer to the identity, the previous frame
    frames = HandleDeformer(x, p, damping=1.0)
    M = None
    for _ in range(200):
        M = frames.at(q, previous=M).rotations
    np.testing.assert_allclose(M, free, atol=1e-6)  # and arrives in the end


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("mode", [{}, {"stretch": 1.0}, {"damping": 1e-3}])
def test_every_scale_and_high_falloff(rng, scale, mode):
    """No overflow: weights go with distances to the power of 40."""
    x, p = rng.standard_normal((100, 3)), rng.standard_normal((6, 3))
    q = p + 0.2 * rng.standard_normal(p.shape)
    deformer = HandleDeformer(scale * x, scale * p, falloff=20.0, **mode)
    pose = deformer.at(scale * q)
    assert np.isfinite(pose.positions).all()
    assert np.isfinite(pose.jvp(q)).all()
    if not mode.get("damping"):
        same = HandleDeformer(x, p, falloff=20.0, **mode).deform(q)
        # Two handles outweigh all others: rotations are known to eps / gap, with gaps down to 1e-12.
        np.testing.assert_allclose(pose.positions / scale, same, atol=1e-3)


def test_nothing_moves_with_the_arrays_it_was_made_of(rng):
    x, p = rng.standard_normal((50, 3)), rng.standard_normal((5, 3))
    q, moved = p + 0.1, x.copy()
    deformer = HandleDeformer(moved, p)
    pose, expected = deformer.at(q), deformer.deform(q)
    moved += 1
    p += 1
    q += 1
    np.testing.assert_allclose(pose.positions, expected, atol=1e-15)
    for array in (pose.positions, pose.rotations, pose.scales, deformer.points, deformer.handles):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_normals_turn_along(scene, rng):
    x, p, q = scene
    pose = HandleDeformer(x, p, stretch=0.5).at(q)
    n = rng.standard_normal(x.shape)
    turned = pose.normals(n)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=1), np.linalg.norm(n, axis=1))
    np.testing.assert_allclose(turned, np.einsum("vij,vj->vi", pose.rotations, n))


def test_threads_chunks_and_out_do_not_change_a_bit(rng):
    x, p = rng.standard_normal((5000, 3)), rng.standard_normal((11, 3))
    q, g = p + 0.2 * rng.standard_normal(p.shape), rng.standard_normal(x.shape)
    deformer = HandleDeformer(x, p)
    results = []
    for count in (1, 2, 3):
        with pg.threads(count):
            results.append((deformer.deform(q), deformer.at(q).positions, deformer.vjp(q, g)))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    out = np.empty_like(x)
    assert deformer.deform(q, out=out) is out
    np.testing.assert_array_equal(out, results[0][0])
    np.testing.assert_array_equal(HandleDeformer(x[37:161], p).deform(q), out[37:161])


def test_out_in_the_plane_and_with_damping(rng):
    x, p = rng.standard_normal((100, 2)), rng.standard_normal((4, 2))
    for options in ({}, {"damping": 0.3}):
        deformer, out = HandleDeformer(x, p, **options), np.empty((100, 2))
        assert deformer.deform(1.1 * p, out=out) is out
        np.testing.assert_array_equal(out, deformer.deform(1.1 * p))


def test_meshes_tuples_and_trimesh_are_the_same(rng):
    import trimesh

    vertices, faces = shapes.box((1.0, 1.0, 1.0), (3, 3, 3))
    p = np.array([[0.4, 0.4, 0.4], [-0.4, 0, 0], [0, -0.4, 0.2]])
    q = p + 0.1 * rng.standard_normal(p.shape)
    results = [
        HandleDeformer(shape, p, distance="inside").deform(q)
        for shape in ((vertices, faces), trimesh.Trimesh(vertices, faces, process=False))
    ]
    np.testing.assert_array_equal(*results)
    default = HandleDeformer((vertices, faces), p)
    assert default.distances is not None
    given = HandleDeformer(vertices, p, distance=default.distances)
    np.testing.assert_array_equal(given.deform(q), results[0])
    assert HandleDeformer(vertices, p).distances is None
    assert HandleDeformer((vertices, None), p).distances is None
    square, cells = shapes.box((1.0, 1.0, 1.0), (3, 3, 1))
    cells = cells[(square[cells][:, :, 2] > 0).all(1)]
    plane = HandleDeformer((square[:, :2], cells), p[:, :2])  # a mesh of the plane
    space = HandleDeformer((square * [1, 1, 0], cells), p * [1, 1, 0])
    np.testing.assert_array_equal(plane.distances, space.distances)


X, P = np.random.default_rng(0).random((10, 3)), np.eye(3)
BAD = {
    "no handles": (
        lambda: HandleDeformer(X, np.empty((0, 3))),
        r"handles must have shape \(H, 3\), at least one",
    ),
    "coincident": (
        lambda: HandleDeformer(X, [[0, 0, 0], [1, 1, 1], [0, 0, 0]]),
        r"handles 0 and 2 coincide at \[0",
    ),
    "far": (
        lambda: HandleDeformer(X, [[0, 0, 0], [1e4, 0, 0]]),
        "handle 1 at .* times the shape's size away",
    ),
    "nan handle": (
        lambda: HandleDeformer(X, [[0, np.nan, 0]]),
        r"handles must be finite, got nan at index \[0, 1\]",
    ),
    "no points": (lambda: HandleDeformer(np.empty((0, 3)), P), "shape must hold points"),
    "nan points": (lambda: HandleDeformer([[np.nan, 0, 0]], P), "shape must be finite"),
    "4D": (lambda: HandleDeformer(np.zeros((5, 4)), P), "shape must hold points"),
    "dimensions": (lambda: HandleDeformer(X, [[0, 0]]), r"handles must have shape \(H, 3\)"),
    "ragged faces": (
        lambda: HandleDeformer((X, [[0, 1, 2], [1, 2]]), P),
        "faces must be an array of numbers",
    ),
    "list": (
        lambda: HandleDeformer([X, [[0, 1, 2]]], P),
        r"a tuple \(vertices, faces\) or a trimesh.Trimesh, got list",
    ),
    "path": (lambda: HandleDeformer("mesh.obj", P), "trimesh.Trimesh, got str"),
    "ragged falloff": (
        lambda: HandleDeformer(X, P, falloff=[[1], [1, 2]]),
        r"falloff must be a finite number above 0, got \[\[1\], \[1, 2\]\]",
    ),
    "huge": (lambda: HandleDeformer(1e155 * X, P), "shape must be numbers that can be squared"),
    "huge targets": (
        lambda: HandleDeformer(X, P).deform(1e300 * P),
        "handles_now must be numbers that can be",
    ),
    "huge radii": (lambda: HandleDeformer(X, P, radii=1e200), "radii must be numbers that can be squared"),
    "tiny distance": (
        lambda: HandleDeformer(X, P, distance=np.full((3, 10), 1e-200)),
        "must not be 0 from one",
    ),
    "huge distance": (
        lambda: HandleDeformer(X, P, distance=np.full((3, 10), 1e200)),
        "negative or too large",
    ),
    "cache": (lambda: HandleDeformer((X, [[0, 1, 2]]), P, cache=3), "cache must be a folder, got int"),
    "nan normals": (lambda: HandleDeformer(X, P).at(P).normals(X * np.nan), "rest_normals must be finite"),
    "faces": (lambda: HandleDeformer((X, [[0, 1, 10]]), P), "faces must index the 10 vertices"),
    "quads": (lambda: HandleDeformer((X, [[0, 1, 2, 3]]), P), r"faces must be triangles \(m, 3\)"),
    "inside without faces": (lambda: HandleDeformer(X, P, distance="inside"), "needs a mesh: pass"),
    "distance": (
        lambda: HandleDeformer(X, P, distance="geo"),
        "distance must be 'inside', 'euclidean' or an array",
    ),
    "distance shape": (
        lambda: HandleDeformer(X, P, distance=np.ones((2, 2))),
        r"distance must have shape \(3, 10\)",
    ),
    "distance sign": (lambda: HandleDeformer(X, P, distance=-np.ones((3, 10))), "must not be negative"),
    "distance zeros": (
        lambda: HandleDeformer(X, P, distance=np.zeros((3, 10))),
        "must not be 0 from one vertex",
    ),
    "falloff": (lambda: HandleDeformer(X, P, falloff=0), "falloff must be a finite number above 0, got 0"),
    "stretch": (
        lambda: HandleDeformer(X, P, stretch=1.5),
        "stretch must be a finite number of at least 0 and of at most 1",
    ),
    "damping": (lambda: HandleDeformer(X, P, damping=-1), "damping must be a finite number of at least 0"),
    "weights": (lambda: HandleDeformer(X, P, weights=[1, 0, 1]), "weights must be positive, got 0.0"),
    "weights shape": (lambda: HandleDeformer(X, P, weights=[1, 1]), "one for each of 3 handles"),
    "radii": (lambda: HandleDeformer(X, P, radii=-1), "radii must not be negative"),
    "targets": (lambda: HandleDeformer(X, P).deform(P[:2]), r"handles_now must have shape \(3, 3\)"),
    "nan targets": (lambda: HandleDeformer(X, P).deform(P * np.nan), "handles_now must be finite"),
    "rotations": (
        lambda: HandleDeformer(X, P).deform(P, rotations=[P] * 3),
        "rotations are for handles with radii",
    ),
    "mirror": (
        lambda: HandleDeformer(X, P, radii=1).deform(P, rotations=[P, -P, P]),
        r"rotations must be rotations, but at index \[1\] it reflects",
    ),
    "rotations shape": (
        lambda: HandleDeformer(X, P, radii=1).deform(P, rotations=P),
        "rotations must have shape",
    ),
    "previous": (
        lambda: HandleDeformer(X, P).deform(P, previous=P),
        r"previous must have shape \(10, 3, 3\)",
    ),
    "previous mirror": (
        lambda: HandleDeformer(X, P).deform(P, previous=np.tile(-np.eye(3), (10, 1, 1))),
        r"previous must be rotations, but at index \[0\] it reflects, and 9 more",
    ),
    "out": (lambda: HandleDeformer(X, P).deform(P, out=np.empty((9, 3))), "out must be a contiguous"),
    "g": (lambda: HandleDeformer(X, P).vjp(P, P), r"g must have shape \(10, 3\)"),
    "normals": (lambda: HandleDeformer(X, P).at(P).normals(P), r"rest_normals must have shape \(10, 3\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    make, message = BAD[case]
    with pytest.raises(InputError, match=message):
        make()
