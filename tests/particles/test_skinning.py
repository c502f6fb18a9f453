"""The visual mesh follows its particles: exactly at rest, rigidly with rigid motion, and nobody else's."""

import numpy as np
import pytest
from oracle import random_rotation
from particles.reference import axes_of, mixed
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from pointglue.compute import threads
from pointglue.errors import InputError
from pointglue.geometry.shapes import box, skin
from pointglue.particles import OrientedBody, ParticleSolver, RestPose, block
from pointglue.particles._solve.plasticity import set_rest_shape
from pointglue.particles.authoring.skinning import Skin
from pointglue.particles.body import join

BLENDS = ["linear", "dual"]


def covered(body, cells=(9, 6, 5)):
    """The body with a box around its particles."""
    size = np.ptp(body.positions, axis=0) + 2 * body.radii.max()
    vertices, faces = box(tuple(size), cells)
    middle = 0.5 * (body.positions.min(0) + body.positions.max(0))
    return body.replace(visual=Skin.of(vertices + middle, faces, body.positions))


def linked(vertices, links, weights):
    """A skin with the links written out."""
    return Skin(vertices, [[0, 0, 0]], links, weights)


def posed(rng, body):
    """A state far from rest, with a rest pose of its own."""
    n = len(body)
    rest = RestPose(
        body.positions + 0.1 * rng.standard_normal((n, 3)),
        Rotation.random(n, rng=rng).as_matrix(),
        np.empty((0, 2), np.int64),
    )
    return body.start().replace(
        positions=rng.standard_normal((n, 3)), rotations=Rotation.random(n, rng=rng).as_matrix(), rest=rest
    )


def dense(skin, count):
    """Weights (V, n) of all particles."""
    table = np.zeros((len(skin), count))
    np.add.at(table, (np.arange(len(skin))[:, None], skin.links), skin.weights)
    return table


def hamilton(p, q):
    """The product of two quaternions wxyz."""
    w, v = p[0] * q[0] - p[1:] @ q[1:], p[0] * q[1:] + q[0] * p[1:] + np.cross(p[1:], q[1:])
    return np.concatenate([[w], v])


@pytest.mark.parametrize("blend", BLENDS)
@pytest.mark.parametrize("place", [(0, 0, 0), (1e6, -2e6, 5e5)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_rest_pose_is_reproduced_wherever_it_is(rng, blend, place, scale):
    body = mixed(rng)
    # Ellipsoids that lie askew: their axes cancel only to rounding.
    body = body.replace(positions=scale * body.positions, radii=scale * body.radii)
    body = covered(body.moved(rotation=random_rotation(rng), translation=scale * np.array(place)))
    v = body.visual.vertices
    # Rounding of a few products in the size of the body. Far away that is less than the last digit there.
    tolerance = 8 * np.finfo(float).eps * np.ptp(v, axis=0).max()
    np.testing.assert_allclose(body.skin(body.start(), blend=blend), v, rtol=0, atol=tolerance)


@pytest.mark.parametrize("blend", BLENDS)
def test_rigid_motion_of_all_particles_moves_the_skin_rigidly(rng, blend):
    body, R, t = covered(mixed(rng)), random_rotation(rng), np.array([1.0, -20, 3])
    start = body.start()
    state = start.replace(positions=start.positions @ R.T + t, rotations=np.tile(R, (len(body), 1, 1)))
    v = body.visual.vertices
    np.testing.assert_allclose(body.skin(state, blend=blend), v @ R.T + t, atol=1e-12)
    np.testing.assert_allclose(
        body.skin_normals(state, blend=blend), body.visual.rest_normals @ R.T, atol=1e-12
    )


def test_linear_blending_is_the_weighted_mean_of_what_each_link_says(rng):
    body = covered(mixed(rng))
    state = posed(rng, body)
    turn = state.rotations @ state.rest.rotations @ np.swapaxes(axes_of(body), 1, 2)  # d r b^-1
    expected = np.zeros_like(body.visual.vertices)
    for k, v in enumerate(body.visual.vertices):
        for i, w in zip(body.visual.links[k], body.visual.weights[k], strict=True):
            expected[k] += w * (turn[i] @ (v - body.positions[i]) + state.positions[i])
    np.testing.assert_allclose(body.skin(state), expected, atol=1e-13)
    np.testing.assert_allclose(body.visual.pose(*body.transforms(state)), expected, atol=1e-13)


@pytest.mark.parametrize("blend", BLENDS)
def test_nothing_jumps_when_a_dent_becomes_the_shape(rng, blend):
    body = covered(block((1.0, 0.6, 0.4), (5, 3, 2), rigid=True))
    before = posed(rng, body)
    after = set_rest_shape(body, before, body.groups[0])
    assert np.abs(after.rest.positions - before.rest.positions).max() > 0.1
    np.testing.assert_allclose(body.skin(after, blend=blend), body.skin(before, blend=blend), atol=1e-13)


def test_dual_blending_is_that_of_kavan(rng):
    """Quaternions (q, t q / 2) added up with their signs made alike, and divided by the length of q."""
    body = covered(mixed(rng))
    state = posed(rng, body)
    R, t = body.transforms(state)
    q = Rotation.from_matrix(R).as_quat(scalar_first=True)
    d = np.array([0.5 * hamilton(np.concatenate([[0.0], s]), r) for s, r in zip(t, q, strict=True)])
    posed_now = body.skin(state, blend="dual")
    skin = body.visual
    for k, v in enumerate(skin.vertices):
        heaviest = q[skin.links[k, skin.weights[k].argmax()]]
        sign = np.where(q[skin.links[k]] @ heaviest < 0, -1, 1) * skin.weights[k]
        real, dual = sign @ q[skin.links[k]], sign @ d[skin.links[k]]
        length = np.linalg.norm(real)
        real, dual = real / length, dual / length
        shift = 2 * hamilton(dual, real * [1, -1, -1, -1])[1:]
        expected = Rotation.from_quat(real, scalar_first=True).as_matrix() @ v + shift
        np.testing.assert_allclose(posed_now[k], expected, atol=1e-12)


@pytest.mark.parametrize("blend", BLENDS)
def test_one_link_moves_as_its_particle(rng, blend):
    R, t = Rotation.random(5, rng=rng), rng.standard_normal((5, 3))
    v = rng.standard_normal((20, 3))
    links = rng.integers(0, 5, (20, 4))
    skin = linked(v, links, np.tile([0.0, 0, 1, 0], (20, 1)))
    expected = R[links[:, 2]].apply(v) + t[links[:, 2]]
    np.testing.assert_allclose(skin.pose(R.as_matrix(), t, blend=blend), expected, atol=1e-14)


def test_a_twisted_cylinder_keeps_its_radius_with_dual_quaternions_only():
    """Two frames about the axis, turned by 0 and by a; in the middle linear blending leaves cos(a / 2)."""
    angle, w = np.radians(150), np.linspace(0, 1, 21)
    around = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    ring = np.stack([0 * around, np.cos(around), np.sin(around)], axis=1)
    v = (ring + np.stack([w, 0 * w, 0 * w], axis=1)[:, None]).reshape(-1, 3)
    share = np.repeat(w, len(ring))
    skin = linked(
        v, np.tile([0, 1, 0, 0], (len(v), 1)), np.stack([1 - share, share, 0 * share, 0 * share], 1)
    )
    R = Rotation.from_rotvec([[0, 0, 0], [angle, 0, 0]])
    linear, dual = (skin.pose(R.as_matrix(), np.zeros((2, 3)), blend=blend) for blend in BLENDS)
    np.testing.assert_allclose(np.linalg.norm(dual[:, 1:], axis=1), 1, atol=1e-14)
    # Half angles are added up as quaternions.
    turned = 2 * np.arctan2(share * np.sin(angle / 2), 1 - share + share * np.cos(angle / 2))
    np.testing.assert_allclose(dual, Rotation.from_rotvec(turned[:, None] * [1, 0, 0]).apply(v), atol=1e-14)
    radius = np.linalg.norm(linear[:, 1:], axis=1)
    np.testing.assert_allclose(radius, np.abs(1 - share + share * np.exp(1j * angle)), atol=1e-14)
    assert radius.min() == pytest.approx(np.cos(angle / 2))  # 0.26


@pytest.mark.parametrize("blend", BLENDS)
def test_opposite_turns_give_numbers_all_the_same(blend):
    """Half turns about three axes, at equal weights: matrices and quaternions that cancel."""
    R = np.concatenate([[np.eye(3)], Rotation.from_rotvec(np.pi * np.eye(3)).as_matrix()])
    skin = Skin(np.eye(3), [[0, 1, 2]], np.tile(np.arange(4), (3, 1)), np.full((3, 4), 0.25))
    assert np.isfinite(skin.pose(R, np.zeros((4, 3)), blend=blend)).all()
    normals = skin.normals(R, blend=blend)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, atol=1e-14)
    two = skin.relinked(np.tile([0, 1, 1, 1], (3, 1)), np.tile([0.5, 0.5, 0, 0], (3, 1)))
    assert np.isfinite(two.pose(R, np.ones((4, 3)), blend=blend)).all()


def test_normals_are_those_of_the_faces_and_turn_with_the_vertices(rng):
    vertices, faces = box((1.0, 2.0, 3.0), (2, 2, 2))
    flat = Skin.of(np.concatenate([vertices, [[9.0, 9, 9]]]), faces, [[0.0, 0, 0]])
    # In the middle of a side its normal; at a corner, by area; none at a vertex of no face.
    middle = np.flatnonzero((vertices == [0.5, 0, 0]).all(1))[0]
    np.testing.assert_array_equal(flat.rest_normals[middle], [1, 0, 0])
    np.testing.assert_array_equal(flat.rest_normals[-1], 0)
    body = covered(mixed(rng))
    state = posed(rng, body)
    R = body.transforms(state)[0]
    blended = np.einsum("vl,vlij,vj->vi", body.visual.weights, R[body.visual.links], body.visual.rest_normals)
    blended /= np.linalg.norm(blended, axis=1, keepdims=True)
    np.testing.assert_allclose(body.skin_normals(state), blended, atol=1e-12)
    for blend in BLENDS:
        turned = flat.normals(random_rotation(rng)[None], blend=blend)
        np.testing.assert_allclose(np.linalg.norm(turned, axis=1), [1] * len(vertices) + [0], atol=1e-14)


def test_weights_fade_with_the_distance_and_end_at_the_fifth(rng):
    """In a box everything is seen: distances are straight."""
    vertices, faces = box((2.0, 1.0, 1.0), (8, 4, 4))
    particles = rng.uniform([-0.9, -0.4, -0.4], [0.9, 0.4, 0.4], (12, 3))
    d = cdist(vertices, particles)
    reach = np.sort(d, axis=1)[:, 4:5]
    expected = np.maximum(1 - d / reach, 0) ** 2
    expected /= expected.sum(1, keepdims=True)
    skin = Skin.of(vertices, faces, particles)
    np.testing.assert_allclose(dense(skin, 12), expected, atol=1e-12)
    np.testing.assert_allclose(skin.weights.sum(1), 1, atol=4e-16)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_few_particles_are_enough(rng, count):
    vertices, faces = box((2.0, 1.0, 1.0), (8, 4, 4))
    particles = rng.uniform([-0.9, -0.4, -0.4], [0.9, 0.4, 0.4], (count, 3))
    skin = Skin.of(vertices, faces, particles)
    assert skin.links.max() == count - 1
    d = cdist(vertices, particles)
    expected = (1 - d / (d.min(1) + d.max(1))[:, None]) ** 2
    np.testing.assert_allclose(dense(skin, count), expected / expected.sum(1, keepdims=True), atol=1e-12)


def test_a_particle_on_a_vertex_and_particles_all_at_one_distance():
    vertices, faces = box((1.0, 1.0, 1.0), (2, 2, 2))
    at = Skin.of(vertices, faces, vertices[:1])
    np.testing.assert_array_equal(at.weights[0], [1, 0, 0, 0])
    apex = np.flatnonzero((vertices == [0, 0.5, 0]).all(1))[0]
    angle = np.arange(6) * np.pi / 3
    ring = 0.3 * np.stack([np.cos(angle), 0 * angle, np.sin(angle)], axis=1)
    np.testing.assert_allclose(Skin.of(vertices, faces, ring).weights[apex].sum(), 1)
    # Five distances that are equal to the last bit leave no reach.
    exact = 0.25 * np.array([[1.0, 0, 0], [-1, 0, 0], [0, 0, 1], [0, 0, -1], [0, 0, 0]])
    exact[4] = [0.0, 0.5 - np.hypot(0.5, 0.25), 0.0]
    distance = np.linalg.norm(exact - vertices[apex], axis=1)
    assert len(set(distance)) == 1
    np.testing.assert_array_equal(Skin.of(vertices, faces, exact).weights[apex], 0.25)


def test_weights_are_continuous_over_the_surface(rng):
    """Four times finer, neighbours differ four times less, also where links are exchanged."""
    particles = rng.uniform([-0.95, -0.04, -0.04], [0.95, 0.04, 0.04], (14, 3))
    jumps, exchanges = [], []
    for cells in (200, 800):
        vertices, faces = box((2.0, 0.1, 0.1), (cells, 1, 1))
        line = np.flatnonzero((vertices[:, 1:] == 0.05).all(1))
        line = line[np.argsort(vertices[line, 0])]
        weights = dense(Skin.of(vertices, faces, particles), 14)[line]
        jumps.append(np.abs(np.diff(weights, axis=0)).max())
        exchanges.append((np.diff(weights > 0, axis=0).any(1)).sum())
    assert min(exchanges) > 10
    assert jumps[1] < 0.3 * jumps[0]


def test_quads_are_split(rng):
    vertices, faces = box((1.0, 1.0, 1.0), (1, 1, 1))
    quads = np.concatenate([faces[: len(faces) // 2], faces[len(faces) // 2 :, 2:]], axis=1)
    skin = Skin.of(vertices, quads, [[0.0, 0, 0]])
    assert {tuple(np.roll(f, -f.argmin())) for f in skin.faces} == {
        tuple(np.roll(f, -f.argmin())) for f in faces
    }


def fork(place):
    """Distance from two bars along x, 0.06 apart, joined by a third at x = 0."""
    bars = [
        ([0.5, 0, 0.08], [0.5, 0.05, 0.05]),
        ([0.5, 0, -0.08], [0.5, 0.05, 0.05]),
        ([0, 0, 0], [0.08, 0.05, 0.13]),
    ]
    outside = [np.abs(place - centre) - half for centre, half in bars]
    return np.min(
        [np.linalg.norm(np.maximum(q, 0), axis=1) + np.minimum(q.max(1), 0) for q in outside], axis=0
    )


def test_a_limb_does_not_drag_its_neighbour(rng):
    vertices, faces = skin(fork, (-0.2, -0.15, -0.25), (1.15, 0.15, 0.25), 0.03)
    along = np.linspace(0, 0.95, 9)
    left, right = (np.stack([along, 0 * along, np.full(9, z)], axis=1) for z in (0.08, -0.08))
    particles = np.concatenate([left, right])
    chain = np.stack([np.arange(8), np.arange(1, 9)], axis=1)
    body = OrientedBody(
        particles,
        radii=0.05,
        edges=np.concatenate([chain, chain + 9, [[0, 9]]]),
        visual=Skin.of(vertices, faces, particles),
    )
    start = body.start()
    positions, rotations = start.positions.copy(), start.rotations.copy()
    positions[3:9] += [0, 0.3, 0.1]
    rotations[3:9] = Rotation.random(6, rng=rng).as_matrix()
    still, moved = body.skin(start), body.skin(start.replace(positions=positions, rotations=rotations))
    other = (vertices[:, 0] > 0.25) & (vertices[:, 2] < 0)
    assert other.sum() > 100
    np.testing.assert_array_equal(moved[other], still[other])
    assert np.abs(moved - still)[(vertices[:, 0] > 0.5) & (vertices[:, 2] > 0)].max(1).min() > 0.05
    # Measured straight, most of them would have gone along.
    nearest = np.argsort(cdist(vertices[other], particles), axis=1)[:, :4]
    assert ((nearest >= 3) & (nearest < 9)).any(1).mean() > 0.5


@pytest.mark.parametrize("blend", BLENDS)
def test_threads_do_not_matter(rng, blend):
    count = 40_000
    w = rng.random((count, 4))
    skin = Skin(
        rng.standard_normal((count, 3)),
        rng.integers(0, count, (count, 3)),
        rng.integers(0, 50, (count, 4)),
        w / w.sum(1, keepdims=True),
    )
    R, t = Rotation.random(50, rng=rng).as_matrix(), rng.standard_normal((50, 3))
    results = []
    for number in (1, 2, 3):
        with threads(number):
            results.append((skin.pose(R, t, blend=blend), skin.normals(R, blend=blend)))
    for points, normals in results[1:]:
        np.testing.assert_array_equal(points, results[0][0])
        np.testing.assert_array_equal(normals, results[0][1])
    out = np.empty((count, 3))
    assert skin.pose(R, t, blend=blend, out=out) is out
    np.testing.assert_array_equal(out, results[0][0])


class TestOfBodies:
    def test_it_moves_with_the_body(self, rng):
        body, R, t = covered(mixed(rng)), random_rotation(rng), np.array([3.0, 2, 1])
        there = body.moved(rotation=R, translation=t)
        np.testing.assert_allclose(there.visual.vertices, body.visual.vertices @ R.T + t, atol=1e-14)
        np.testing.assert_array_equal(there.visual.links, body.visual.links)
        state = there.start()
        np.testing.assert_allclose(there.skin(state), there.visual.vertices, atol=1e-14)

    @pytest.mark.parametrize("blend", BLENDS)
    def test_rigid_leaves_of_a_hinge_are_rigid_in_the_skin(self, blend):
        """Particles of the hinge turn with one of the leaves only; the skin of the other had a lip there."""
        x = np.stack(np.meshgrid(0.1 * np.arange(-4, 5), 0.1 * np.arange(3), indexing="ij"), -1).reshape(
            -1, 2
        )
        x = np.column_stack([x[:, 0], np.zeros(len(x)), x[:, 1]])
        leaves = [np.flatnonzero(x[:, 0] < 0.01), np.flatnonzero(x[:, 0] > -0.01)]
        side = np.stack(np.meshgrid(0.02 * np.arange(-20, 21), [0.0, 0.1, 0.2], indexing="ij"), -1)
        vertices = np.insert(side.reshape(-1, 2), 1, 0.0, axis=1)
        corner = np.add.outer(3 * np.arange(40), np.arange(2)).ravel()
        faces = np.concatenate([corner[:, None] + [0, 3, 4], corner[:, None] + [0, 4, 1]])
        body = OrientedBody(x, radii=0.03, groups=leaves, visual=Skin.of(vertices, faces, x))
        turn, free = Rotation.from_euler("z", -64, degrees=True), x[:, 0] > 0.01
        now = np.where(free[:, None], turn.apply(x), x)
        rotations = np.where(free[:, None, None], turn.as_matrix(), np.eye(3))
        state = body.start().replace(positions=now, rotations=rotations)
        # A vertex next to the hinge follows both leaves, and may be anywhere between them.
        on_free, between = vertices[:, 0] > 0.03, np.abs(vertices[:, 0]) < 0.03
        expected = np.where(vertices[:, :1] > 0, turn.apply(vertices), vertices)
        shown = body.skin(state, blend=blend)
        np.testing.assert_allclose(shown[~between], expected[~between], atol=1e-14)
        assert np.abs(shown - expected)[between].max() < 0.02
        # A body without shared particles keeps its weights, and a vertex of two leaves all that it follows.
        alone = OrientedBody(x, radii=0.03, groups=leaves[:1], edges=[[k, k + 3] for k in range(24)],
                             visual=body.visual)  # fmt: skip
        plain = body.visual.pose(rotations, now - x, about=x, blend=blend)
        np.testing.assert_array_equal(alone.skin(alone.start().replace(positions=now, rotations=rotations),
                                                 blend=blend), plain)  # fmt: skip
        assert np.abs(plain - expected)[on_free].max() > 0.005

    def test_bodies_together_show_what_each_shows(self, rng):
        one, bare, two = (
            covered(mixed(rng)),
            block((1, 1, 1), (2, 1, 1)),
            covered(block((1, 1, 1), (3, 2, 2))),
        )
        bodies = [one, bare.moved(translation=(0, 5, 0)), two.moved(translation=(0, 0, 5))]
        solver = ParticleSolver(bodies)
        state = solver.step(solver.start(), 0.1)
        shown = solver.body.skin(state)
        assert [part.stop - part.start for part in solver.visual_parts] == [
            len(one.visual),
            0,
            len(two.visual),
        ]
        for body, part, seen in zip(bodies, solver.parts, solver.visual_parts, strict=True):
            if body.visual is None:
                continue
            own = body.visual.pose(
                state.rotations[part], state.positions[part] - body.positions, about=body.positions
            )
            # Measured from another centre, so rounded elsewhere
            np.testing.assert_allclose(shown[seen], own, atol=1e-14)
        faces = np.concatenate([one.visual.faces, two.visual.faces + len(one.visual)])
        np.testing.assert_array_equal(solver.body.visual.faces, faces)
        assert join([bare, bare]).visual is None
        assert ParticleSolver(bare).visual_parts == (slice(0, 0),)

    def test_it_stays_through_replace(self, rng):
        body = covered(mixed(rng))
        assert body.replace(stiffness=0.1).visual is body.visual

    def test_links_must_have_particles(self, rng):
        body = covered(block((1, 1, 1), (2, 2, 2)))
        one = OrientedBody([[0.0, 0, 0]], radii=0.1)
        fewer = {name: getattr(one, name) for name in one.__dataclass_fields__ if name != "visual"}
        with pytest.raises(
            InputError, match=r"visual is linked to particle 7, but there are 1 particles: bind"
        ):
            body.replace(**fewer)
        with pytest.raises(InputError, match="visual must be a Skin or None, got str"):
            body.replace(visual="mesh.obj")

    def test_without_a_mesh_there_is_nothing_to_show(self):
        body = block((1, 1, 1), (2, 2, 2))
        for show in (body.skin, body.skin_normals):
            with pytest.raises(InputError, match="the body has no visual mesh"):
                show(body.start())
        with pytest.raises(InputError, match="state has 1 particles, but the body has 8"):
            covered(body).skin(OrientedBody([[0.0, 0, 0]], radii=1).start())


SQUARE = [[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
QUAD = [[0, 1, 2, 3]]
ONE = np.tile([1.0, 0, 0, 0], (4, 1))
NONE = np.zeros((4, 4), int)
EYE = np.eye(3)[None]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Skin([[0, 0]], QUAD, NONE, ONE), r"vertices must have shape \(n, 3\), got \(1, 2\)"),
        (lambda: Skin(np.empty((0, 3)), QUAD, NONE, ONE), "vertices must be at least one"),
        (lambda: Skin([[np.nan, 0, 0]] * 4, QUAD, NONE, ONE), "vertices must be finite, got nan at index"),
        (lambda: Skin(SQUARE, [], NONE, ONE), "faces must have shape"),
        (lambda: Skin(SQUARE, [[0, 1, 4]], NONE, ONE), "faces must index the 4 vertices, got 4"),
        (lambda: Skin(SQUARE, [[0.0, 1, 2]], NONE, ONE), "faces must hold whole numbers"),
        (lambda: Skin(SQUARE, QUAD, NONE[:, :3], ONE), r"links must have shape \(4, 4\), got shape \(4, 3\)"),
        (lambda: Skin(SQUARE, QUAD, NONE - 1, ONE), "links must be numbers of particles, got -1"),
        (
            lambda: Skin(SQUARE, QUAD, NONE + 2**40, ONE),
            "links must be numbers of particles, got 1099511627776",
        ),
        (lambda: Skin(SQUARE, QUAD, NONE, ONE[:3]), r"weights must have shape \(4, 4\), got shape \(3, 4\)"),
        (
            lambda: Skin(SQUARE, QUAD, NONE, 0.5 * ONE),
            r"weights\[0\] must add up to 1 and not be negative, got",
        ),
        (lambda: Skin(SQUARE, QUAD, NONE, ONE + [1, -1, 0, 0]), r"weights\[0\] must add up to 1 and not be"),
        (lambda: Skin(SQUARE, QUAD, NONE, ONE * np.nan), "weights must be finite"),
        (lambda: Skin.of(SQUARE, QUAD, np.empty((0, 3))), "particles must be at least one, got none"),
        (lambda: Skin.of(SQUARE, QUAD, [[np.inf, 0, 0]]), "particles must be finite"),
        (lambda: Skin.of(SQUARE, [], [[0, 0, 0]]), "faces must have shape"),
        (
            lambda: Skin(SQUARE, QUAD, NONE, ONE).pose(np.eye(3), [[0, 0, 0]]),
            r"rotations must have shape \(n, 3",
        ),
        (lambda: Skin(SQUARE, QUAD, NONE, ONE).pose(np.nan * EYE, [[0, 0, 0]]), "rotations must be finite"),
        (
            lambda: Skin(SQUARE, QUAD, NONE, ONE).pose(EYE, np.zeros((2, 3))),
            r"translations must have shape \(1, 3",
        ),
        (lambda: Skin(SQUARE, QUAD, NONE, ONE).pose(EYE, [[0, 0, np.nan]]), "translations must be finite"),
        (
            lambda: Skin(SQUARE, QUAD, NONE, ONE).pose(EYE, [[0, 0, 0]], about=SQUARE),
            r"about must have shape \(1,",
        ),
        (
            lambda: Skin(SQUARE, QUAD, NONE + 1, ONE).pose(EYE, [[0, 0, 0]]),
            "of 1 particles, but the skin is linked",
        ),
        (
            lambda: Skin(SQUARE, QUAD, NONE, ONE).pose(EYE, [[0, 0, 0]], blend="cubic"),
            'blend must be "linear" or "dual", got .cubic.',
        ),
        (
            lambda: Skin(SQUARE, QUAD, NONE, ONE).normals(EYE, blend="cubic"),
            'blend must be "linear" or "dual"',
        ),
        (
            lambda: Skin(SQUARE, QUAD, NONE, ONE).normals(EYE, out=np.empty((4, 3), np.float32)),
            r"out must be an array of float64 and shape \(4, 3\), got float32 of shape \(4, 3\)",
        ),
        (lambda: Skin(SQUARE, QUAD, NONE, ONE).normals(EYE, out=[]), "got list"),
        (
            lambda: Skin(SQUARE, QUAD, NONE, ONE).normals(EYE, out=np.empty((3, 4)).T),
            "out must be contiguous and writeable",
        ),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(InputError, match=message):
        build()


def test_weights_in_few_digits_are_made_to_add_up():
    third = np.array([1, 1, 1, 0], np.float32) / np.float32(3)
    skin = Skin(SQUARE, QUAD, np.tile(np.arange(4), (4, 1)), np.tile(third, (4, 1)))
    np.testing.assert_allclose(skin.weights.sum(1), 1, atol=4e-16)
    again = skin.relinked(skin.links, skin.weights)
    np.testing.assert_array_equal(again.weights, skin.weights)
    with pytest.raises(ValueError, match="read-only"):
        skin.weights[0] = 1


@pytest.mark.parametrize(
    "wrong", [np.diag([1.0, 1, -1]), 1.001 * np.eye(3), np.zeros((3, 3)), 1e200 * np.eye(3), np.ones((3, 3))]
)
def test_only_rotations_have_dual_quaternions(wrong):
    body = covered(block((1, 1, 1), (2, 2, 2)))
    turns, none = np.tile(np.eye(3), (8, 1, 1)), np.zeros((8, 3))
    turns[5] = wrong
    message = r"rotations must be rotations, but at index \[5\] "
    with pytest.raises(InputError, match=message):
        body.visual.pose(turns, none, blend="dual")
    with pytest.raises(InputError, match=message):
        body.visual.normals(turns, blend="dual")
    assert np.isfinite(body.visual.pose(turns, none)).all()
    # What drifts by rounding is one still.
    turns[5] = (1 + 1e-8) * np.eye(3)
    np.testing.assert_allclose(body.visual.pose(turns, none, blend="dual"), body.visual.vertices, atol=1e-14)


@pytest.mark.parametrize("ask", ["skin", "skin_normals", "transforms", "momentum", "kinetic_energy"])
def test_what_is_no_state_is_named(ask):
    with pytest.raises(InputError, match="state must be a ParticleState, got NoneType"):
        getattr(covered(block((1, 1, 1), (2, 2, 2))), ask)(None)
