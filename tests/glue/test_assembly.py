"""Chains of bindings, rigid bodies, attachments, springs and joints."""

import re
from contextlib import nullcontext

import numpy as np
import pytest
from oracle import random_rotation
from scipy.spatial.transform import Rotation

import pointglue as pg
from pointglue.errors import InputError
from pointglue.geometry import simplices

COUNT = 60
BODIES = np.where(np.arange(COUNT) < 12, np.arange(COUNT) // 6, -1)  # two bodies of six particles


@pytest.fixture
def rest(rng):
    return rng.standard_normal((COUNT, 3))


def bound(rest, rows, among):
    return rows, pg.bind_glue(rest, rest[rows], among=among)


@pytest.fixture
def chain(rest):
    """Particles bound to particles bound to particles, the last also to a body; given in the wrong order."""
    first = bound(rest, np.arange(40, 50), np.arange(40))
    second = bound(rest, np.arange(50, 55), np.arange(30, 50))
    third = bound(rest, np.arange(55, 58), np.r_[0:6, 50:55])
    return pg.Assembly(rest, [third, second, first], body_of=BODIES)


class Path:
    """Straight lines through what is free: particles move, bodies turn by rotation vectors."""

    def __init__(self, assembly, rng):
        self.assembly, self.count = assembly, 3 * len(assembly.free)
        self.start = assembly.rest + 0.2 * rng.standard_normal(assembly.rest.shape)
        self.turns = np.stack([random_rotation(rng) for _ in assembly.origins])
        self.direction = rng.standard_normal(assembly.dofs)

    @property
    def v(self):
        v = np.full(self.assembly.rest.shape, np.nan)  # rows that are not free are not read
        v[self.assembly.free] = self.direction[: self.count].reshape(-1, 3)
        return v

    @property
    def twists(self):
        return self.direction[self.count :].reshape(-1, 6)

    def at(self, t):
        x = np.full(self.start.shape, np.nan)
        free = self.assembly.free
        x[free] = self.start[free] + t * self.v[free]
        turns = Rotation.from_rotvec(t * self.twists[:, 3:]).as_matrix() @ self.turns
        return self.assembly.at(x, pg.BodyFrames(self.assembly.origins + t * self.twists[:, :3], turns))


def test_a_chain_is_resolved_in_order(chain):
    assert [sorted(rows.tolist()) for rows, _ in chain.layers] == [
        list(range(40, 50)),
        list(range(50, 55)),
        list(range(55, 58)),
    ]
    assert chain.dofs == 3 * (28 + 2) + 12
    at_rest = pg.BodyFrames(chain.origins, np.tile(np.eye(3), (2, 1, 1)))
    np.testing.assert_allclose(chain.at(chain.rest, at_rest).positions, chain.rest, atol=1e-13)


def test_a_chain_moves_rigidly_with_the_whole(chain, rng):
    R, t = random_rotation(rng), rng.standard_normal(3)
    frames = pg.BodyFrames(chain.origins @ R.T + t, np.tile(R, (2, 1, 1)))
    np.testing.assert_allclose(
        chain.at(chain.rest @ R.T + t, frames).positions, chain.rest @ R.T + t, atol=1e-12
    )


def test_derivatives_of_a_chain(chain, rng):
    path, h = Path(chain, rng), 1e-5
    pose, f = path.at(0), rng.standard_normal((COUNT, 3))
    velocities = pose.velocities(path.v, path.twists)
    difference = (path.at(h).positions - path.at(-h).positions) / (2 * h)
    np.testing.assert_allclose(velocities, difference, atol=1e-8 * np.abs(velocities).max())
    np.testing.assert_allclose(pose.jacobian() @ path.direction, velocities.ravel(), atol=1e-12)
    forces, wrenches = pose.transfer_forces(f)
    free = np.concatenate([forces[chain.free].ravel(), wrenches.ravel()])
    np.testing.assert_allclose(pose.jacobian().T @ f.ravel(), free, atol=1e-12)
    assert not forces[np.setdiff1d(np.arange(COUNT), chain.free)].any()
    # Second derivatives, along the path: fourth order differences, rounding 2e-8
    h = 1e-3
    values = [path.at(k * h).positions for k in (-2, -1, 0, 1, 2)]
    second = np.tensordot([-1, 16, -30, 16, -1], values, 1) / (12 * h * h)
    turning = pose.accelerations(path.v, 0 * path.v, path.twists)
    np.testing.assert_allclose(second, turning, atol=1e-6 * np.abs(turning).max())
    H = pose.hessian(f)
    assert path.direction @ (H @ path.direction) == pytest.approx((f * turning).sum(), rel=1e-10)
    assert abs(H - H.T).max() < 1e-12 * abs(H).max()
    # and off the diagonal, by the polarised form
    other = Path(chain, rng)
    other.start, other.turns = path.start, path.turns
    mixed = Path(chain, rng)
    mixed.start, mixed.turns, mixed.direction = path.start, path.turns, path.direction + other.direction
    each = [(f * pose.accelerations(p.v, 0 * p.v, p.twists)).sum() for p in (mixed, path, other)]
    assert path.direction @ (H @ other.direction) == pytest.approx(
        (each[0] - each[1] - each[2]) / 2, rel=1e-9
    )


def test_accelerations_carry_those_of_particles_and_bodies(chain, rng):
    path = Path(chain, rng)
    pose, zero = path.at(0), np.zeros((COUNT, 3))
    rates = rng.standard_normal((2, 6))
    linear = pose.accelerations(zero, path.v, None, rates)
    np.testing.assert_allclose(linear, pose.velocities(path.v, rates), atol=1e-12)


def test_net_force_and_torque_arrive(chain, rng):
    pose, f = Path(chain, rng).at(0), rng.standard_normal((COUNT, 3))
    forces, wrenches = pose.transfer_forces(f)
    origins = chain.origins
    np.testing.assert_allclose(forces.sum(0) + wrenches[:, :3].sum(0), f.sum(0), atol=1e-12)
    torque = np.cross(pose.positions, forces).sum(0) + (
        np.cross(origins, wrenches[:, :3]) + wrenches[:, 3:]
    ).sum(0)
    np.testing.assert_allclose(torque, np.cross(pose.positions, f).sum(0), atol=1e-11)


def test_a_body_contributes_its_frame(rest, rng):
    """Glue on particles of a rigid body alone is that body's own motion, to rounding."""
    rows = np.arange(50, 53)
    assembly = pg.Assembly(rest, [bound(rest, rows, np.arange(6))], body_of=BODIES)
    R, t = random_rotation(rng), rng.standard_normal((2, 3))
    pose = assembly.at(rest, pg.BodyFrames(t, np.stack([R, np.eye(3)])))
    np.testing.assert_allclose(
        pose.positions[rows], (rest[rows] - assembly.origins[0]) @ R.T + t[0], atol=1e-12
    )


def test_previous_settles_a_free_spin(rng):
    rest = np.concatenate([rng.standard_normal((6, 3)), [[0.5, 0.5, 2.0]]])
    glue = pg.bind_glue(rest, rest[6:], among=np.arange(6), on_degenerate="clamp", parents=6)
    assembly = pg.Assembly(rest, [([6], glue)])
    turned = rest @ np.diag([1.0, -1.0, -1.0])
    line = rest * [1.0, 0.0, 0.0]
    before = assembly.at(turned)
    held, fresh = assembly.at(line, previous=before), assembly.at(line)
    assert (
        abs(held.positions[6] - before.positions[6]).sum()
        < abs(fresh.positions[6] - before.positions[6]).sum()
    )


def test_embeddings_and_what_hangs_on_them(rng):
    """Linear bindings and glue with anchors in one assembly: what they say alone, forces handed down too."""
    cage, tets = simplices.tet_box((1, 1, 1), (2, 2, 2))
    points = rng.uniform(-0.8, 0.8, (20, 3))
    skin = pg.embed((cage, tets), points)
    assert 0 < skin.inside.sum() < 20
    count = len(cage)
    assembly = pg.Assembly(np.concatenate([cage, points]), [(count + np.arange(20), skin)])
    parts = pg.Assembly(assembly.rest, [(count + rows, part) for rows, part in skin.parts])
    x = assembly.rest + 0.1 * rng.standard_normal(assembly.rest.shape)
    f = rng.standard_normal(x.shape)
    own = skin.at(x[:count])
    expected = f[:count] + own.transfer_forces(f[count:])
    for made in (assembly.at(x), parts.at(x)):
        np.testing.assert_allclose(made.positions[count:], own.positions, atol=1e-14)
        forces, _ = made.transfer_forces(f)
        np.testing.assert_allclose(forces[:count], expected, atol=1e-13)
        assert not forces[count:].any()


def test_cycles_are_refused_by_name(rest):
    with pytest.raises(
        InputError, match=r"bound to each other in a cycle: \d+ needs \d+( needs \d+)*"
    ) as caught:
        pg.Assembly(
            rest,
            [
                bound(rest, np.arange(40, 50), np.arange(48, 60)),
                bound(rest, np.arange(50, 55), np.arange(30, 50)),
            ],
        )
    named = [int(number) for number in re.findall(r"\d+", str(caught.value))]
    assert named[0] == named[-1]
    with pytest.raises(InputError, match="in a cycle: 7 needs 7"):
        pg.Assembly(rest, [([7], pg.bind_glue(rest, rest[7:8]))])


def test_bad_assemblies_are_named(rest):
    glue = pg.bind_glue(rest, rest[40:42], among=np.arange(40))
    small = pg.bind_glue(np.concatenate([rest, rest]), rest[:1], among=np.arange(80))
    flat = pg.bind_glue(rest[:, :2], rest[:1, :2])
    cases = [
        (lambda: pg.Assembly(np.empty((0, 3))), r"rest must have shape \(n, 3\)"),
        (lambda: pg.Assembly(rest, [([40], glue)]), r"bindings\[0\] names 1 particles for 2 targets"),
        (lambda: pg.Assembly(rest, [([40, 60], glue)]), r"bindings\[0\] must name rows of the 60 particles"),
        (
            lambda: pg.Assembly(rest, [([40, 40], glue)]),
            "binds particle 40, which is bound already: use `assemble`",
        ),
        (
            lambda: pg.Assembly(rest, [([0, 40], glue)], body_of=BODIES),
            "particle 0, which is on a rigid body",
        ),
        (lambda: pg.Assembly(rest, [([0], small)]), "got a binding to 120 points"),
        (lambda: pg.Assembly(rest, [glue]), r"bindings\[0\] must be a pair \(rows, binding\), got Glue"),
        (lambda: pg.Assembly(rest, [([0], flat)]), "must be a binding in space, got one in the plane"),
        (lambda: pg.Assembly(rest, body_of=BODIES[:9]), "body_of must hold a body or -1"),
        (lambda: pg.Assembly(rest, body_of=np.where(BODIES == 1, 2, BODIES)), "body 1 has no particles"),
        (lambda: pg.Assembly(rest, body_of=2 * BODIES), "got -2"),
        (lambda: pg.Assembly(rest, origins=np.eye(3)), "give body_of too"),
        (
            lambda: pg.Assembly(rest, body_of=BODIES, origins=np.zeros((1, 3))),
            r"origins must have shape \(2, 3\)",
        ),
    ]
    for make, message in cases:
        with pytest.raises(InputError, match=message):
            make()


def test_bad_poses_are_named(chain):
    frames = pg.BodyFrames(chain.origins, np.tile(np.eye(3), (2, 1, 1)))
    broken = chain.rest.copy()
    broken[chain.free[0]] = np.nan
    pose = chain.at(chain.rest, frames)
    cases = [
        (
            lambda: chain.at(chain.rest, (chain.origins, None)),
            r"frames must be BodyFrames\(origins, rotations\)",
        ),
        (lambda: chain.at(chain.rest), "frames must say where the 2 rigid bodies are"),
        (lambda: chain.at(chain.rest[1:], frames), r"x must have shape \(60, 3\)"),
        (lambda: chain.at(broken, frames), "x must be finite"),
        (
            lambda: chain.at(chain.rest, pg.BodyFrames(chain.origins[:1], frames.rotations)),
            "one row per body",
        ),
        (
            lambda: chain.at(chain.rest, pg.BodyFrames(chain.origins, np.eye(3))),
            r"must have shape \(2, 3, 3\)",
        ),
        (
            lambda: chain.at(chain.rest, pg.BodyFrames(chain.origins, -frames.rotations)),
            r"frames.rotations must be rotations, but at index \[0\]",
        ),
        (lambda: pose.velocities(broken), "v must be finite"),
        (lambda: pose.velocities(chain.rest, np.zeros((1, 6))), r"twists must have shape \(2, 6\)"),
        (lambda: pose.velocities(chain.rest[:5]), r"v must have shape \(60, 3\)"),
        (lambda: pose.transfer_forces(chain.rest[:5]), r"f must have shape \(60, 3\)"),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message):
            call()


# Attachments


def glue_to(rest, rows, among):
    return pg.bind_glue(rest, rest[rows], among=among)


def test_a_single_hard_attachment_is_a_binding(rest):
    assembly, springs = pg.assemble(rest, [pg.Attachment([50, 51], glue_to(rest, [50, 51], np.arange(40)))])
    assert len(assembly) == COUNT
    assert len(springs) == 0
    assert 50 not in assembly.free


def test_conflicting_attachments_become_springs(rest):
    """Figure 3, right: the particle stays free and is drawn to two new bound particles."""
    attachments = [
        pg.Attachment([50, 51], glue_to(rest, [50, 51], np.arange(20))),
        pg.Attachment([50], glue_to(rest, [50], np.arange(20, 40))),
    ]
    assembly, springs = pg.assemble(rest, attachments, conflict_spring=pg.Spring(300.0, damping=2.0))
    assert len(assembly) == COUNT + 2
    assert 50 in assembly.free
    assert 51 not in assembly.free
    assert springs.first.tolist() == [50, 50]
    assert sorted(springs.second.tolist()) == [60, 61]
    assert springs.stiffness.tolist() == [300.0, 300.0]
    np.testing.assert_allclose(assembly.at(assembly.rest).positions[60:], rest[[50, 50]], atol=1e-12)


def test_particles_on_bodies_are_held_by_springs(rest):
    attachment = pg.Attachment([3], glue_to(rest, [3], np.arange(20, 40)))
    assembly, springs = pg.assemble(rest, [attachment], body_of=BODIES)
    assert springs.first.tolist() == [3]
    assert springs.second.tolist() == [60]
    assert springs.stiffness.tolist() == [1e4]
    assert assembly.body_of[60] == -1


def test_springs_pull_towards_the_bound_point_and_back_on_its_parents(rest, rng):
    spring = pg.Spring(50.0, damping=3.0)
    assembly, springs = pg.assemble(rest, [pg.Attachment([50], glue_to(rest, [50], np.arange(20)), spring)])
    x = assembly.rest + 0.1 * rng.standard_normal(assembly.rest.shape)
    pose, v = assembly.at(x), rng.standard_normal(assembly.rest.shape)
    active = springs.active(0.0)
    rates = pose.velocities(v)
    forces = springs.forces(pose.positions, rates, active)
    apart = pose.positions[50] - pose.positions[60]
    np.testing.assert_allclose(forces[50], -50.0 * apart - 3.0 * (rates[50] - rates[60]))
    np.testing.assert_allclose(forces.sum(0), 0, atol=1e-13)
    on_free, _ = pose.transfer_forces(forces)
    np.testing.assert_allclose(on_free.sum(0), 0, atol=1e-12)
    parents = glue_to(rest, [50], np.arange(20)).parents.indices
    assert np.flatnonzero(on_free.any(1)).tolist() == sorted(
        {50, *parents.tolist()}
    )  # itself and its parents


def test_spring_energy_and_its_derivatives(rest, rng):
    attachments = [pg.Attachment([50, 51], glue_to(rest, [50, 51], np.arange(20)), pg.Spring(50.0))]
    assembly, springs = pg.assemble(rest, attachments)
    x, d, h = (
        assembly.rest + 0.1 * rng.standard_normal(assembly.rest.shape),
        rng.standard_normal((62, 3)),
        1e-4,
    )
    active = np.array([True, False])
    assert springs.value(x, active) == pytest.approx(25.0 * ((x[50] - x[60]) ** 2).sum())
    slope = (springs.value(x + h * d, active) - springs.value(x - h * d, active)) / (2 * h)
    assert (springs.gradient(x, active) * d).sum() == pytest.approx(slope, rel=1e-9)
    H = springs.hessian(x, active)
    change = springs.gradient(x + d, active) - springs.gradient(x, active)  # linear, so exact
    np.testing.assert_allclose((H @ d.ravel()).reshape(d.shape), change, atol=1e-11)


def test_hard_attachments_must_be_where_they_are_bound(rest):
    glue = pg.bind_glue(rest, rest[[51]], among=np.arange(20))
    with pytest.raises(InputError, match=r"particle 50 is .* away from the bound point that it is to be"):
        pg.assemble(rest, [pg.Attachment([50], glue)])
    assert (
        len(pg.assemble(rest, [pg.Attachment([50], glue, pg.Spring(1.0))])[1]) == 1
    )  # a spring may pull it there


@pytest.mark.parametrize(("off", "allowed"), [(0.9e-6, True), (1.1e-6, False)])
def test_how_far_off_they_may_be_goes_by_the_size_of_all_particles(rest, off, allowed):
    """A millionth of the longest side of the box around them, wherever that is."""
    far = rest + [1000.0, 0.0, 0.0]
    size = np.ptp(far, axis=0).max()
    glue = pg.bind_glue(far, far[[50]] + [0.0, 0.0, off * size], among=np.arange(20))
    with nullcontext() if allowed else pytest.raises(InputError, match=r"particle 50 is .* away"):
        pg.assemble(far, [pg.Attachment([50], glue)])


def test_keys_and_breaking(rest):
    spring = pg.Spring(100.0, attach=1.0, release=2.0, break_force=5.0)
    assembly, springs = pg.assemble(rest, [pg.Attachment([50], glue_to(rest, [50], np.arange(20)), spring)])
    assert [springs.active(t).item() for t in (0.99, 1.0, 1.99, 2.0)] == [False, True, True, False]
    x = assembly.rest.copy()
    for stretch, breaks in ((0.049, False), (0.051, True)):
        x[50] = x[60] + [stretch, 0, 0]
        assert springs.overloaded(x, 0 * x, springs.active(1.5)).item() is breaks
        assert not springs.overloaded(x, 0 * x, springs.active(0.0)).item()
    assert springs.value(x, springs.active(0.0)) == 0.0


def test_bad_attachments_are_named(rest):
    glue = glue_to(rest, [50], np.arange(20))
    cases = [
        (lambda: pg.Spring(0.0), "stiffness must be a finite number above 0, got 0.0"),
        (lambda: pg.Spring(float("nan")), "stiffness must be a finite number above 0"),
        (lambda: pg.Spring("stiff"), "stiffness must be a finite number above 0, got 'stiff'"),
        (lambda: pg.Spring(1.0, damping=-1.0), "damping must be a finite number of at least 0, got -1.0"),
        (lambda: pg.Spring(1.0, attach=2.0, release=1.0), "release must come after attach"),
        (lambda: pg.Spring(1.0, break_force=0.0), "break_force must be a number above 0, got 0.0"),
        (lambda: pg.assemble(rest, [glue]), r"attachments\[0\] must be an Attachment, got Glue"),
        (lambda: pg.assemble(rest, [pg.Attachment([1, 2], glue)]), "names 2 particles for 1 bound points"),
        (lambda: pg.assemble(rest, [pg.Attachment([99], glue)]), "rows of the 60 particles, got 99"),
        (lambda: pg.assemble(rest[0], []), r"rest must have shape \(n, 3\)"),
        (lambda: pg.assemble(rest, pg.Attachment([50], glue)), "must be a list of them"),
        (lambda: pg.assemble(rest, [], conflict_spring=5.0), "conflict_spring must be a Spring, got float"),
        (lambda: pg.assemble(rest, [pg.Attachment([50], None)]), "needs a binding, got NoneType"),
        (lambda: pg.assemble(rest, [pg.Attachment([50], glue, 5.0)]), "spring must be a Spring, got 5.0"),
        (lambda: pg.assemble(rest[:55], [pg.Attachment([50], glue)]), "got a binding to 60 points"),
        (lambda: pg.assemble(rest, [pg.Attachment([50], glue)], body_of=[0]), "body_of must hold"),
    ]
    for make, message in cases:
        with pytest.raises(InputError, match=message):
            make()
    _, springs = pg.assemble(rest, [pg.Attachment([50], glue, pg.Spring(1.0))])
    with pytest.raises(InputError, match="active must be 1 booleans"):
        springs.value(np.zeros((61, 3)), [1.0])
    for call in (springs.value, springs.gradient, springs.hessian):
        with pytest.raises(InputError, match="x must hold every particle of the assembly, got 60 rows"):
            call(rest, [True])
        with pytest.raises(InputError, match="x must be finite"):
            call(np.full((61, 3), np.nan), [True])
    for time in ("a", float("nan")):
        with pytest.raises(InputError, match="time must be a number, got"):
            springs.active(time)


# Joints

KINDS = {"ball": 3, "hinge": 5, "weld": 6, "prismatic": 5, "cylindrical": 4, "planar": 3}


@pytest.fixture
def sides(rng):
    return rng.standard_normal((50, 3)), rng.standard_normal((40, 3)) + [1, 0, 0]


PLACES = np.array([[0.5, 0.0, 0.0], [0.4, 0.3, 0.0]])


@pytest.mark.parametrize("kind", KINDS)
def test_joints_are_closed_at_rest_and_after_a_common_motion(sides, rng, kind):
    joint = pg.bind_joint(*sides, PLACES, kind=kind, axis=[0, 0, 1])
    R, t = random_rotation(rng), rng.standard_normal(3)
    moved = [side @ R.T + t for side in sides]
    for pose in (joint.at(*sides), joint.at(*moved)):
        assert pose.residual.shape == (2 * KINDS[kind],)
        np.testing.assert_allclose(pose.gaps, 0, atol=1e-12)
        np.testing.assert_allclose(pose.residual, 0, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "about", "closed"),
    [
        ("ball", [1, 2, 3], True),
        ("ball", None, False),
        ("hinge", [0, 0, 1], True),
        ("hinge", [1, 0, 0], False),
        ("hinge", None, False),
        ("weld", [0, 0, 1], False),
        ("weld", [1, 0, 0], False),
        ("weld", [0, 1, 0], False),
        ("weld", None, False),
        ("prismatic", [0, 0, 1], False),
        ("prismatic", [1, 0, 0], False),
        ("prismatic", None, False),
        ("cylindrical", [0, 0, 1], True),
        ("cylindrical", [1, 0, 0], False),
        ("cylindrical", None, False),
        ("planar", [0, 0, 1], True),
        ("planar", [1, 0, 0], False),
        ("planar", None, True),
    ],
)
def test_what_each_joint_leaves_free(sides, kind, about, closed):
    """Turning the second side about an axis through the joint, or (None) shifting it across."""
    joint = pg.bind_joint(*sides, PLACES[0], kind=kind, axis=[0, 0, 2])
    if about is None:
        moved = sides[1] + [0, 0.01, 0]
    else:
        R = Rotation.from_rotvec(0.3 * np.array(about) / np.linalg.norm(about)).as_matrix()
        moved = (sides[1] - PLACES[0]) @ R.T + PLACES[0]
    violation = np.abs(joint.at(sides[0], moved).residual).max()
    assert violation < 1e-12 if closed else violation > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_shifts_along_the_axis_and_coordinates(sides, rng, kind):
    """The first side turns by 0.3 and slides by 0.4 relative to the second, and both move on together."""
    joint = pg.bind_joint(*sides, PLACES, kind=kind, axis=[0, 0, 2])
    slides, turns = kind in ("prismatic", "cylindrical"), kind in ("hinge", "cylindrical", "planar")
    R = Rotation.from_rotvec([0, 0, 0.3 * turns]).as_matrix()
    t = [0, 0, 0.4] if slides else [0.2 * (kind == "planar"), 0, 0]
    both, shift = random_rotation(rng), rng.standard_normal(3)
    for place in PLACES:
        joint = pg.bind_joint(*sides, place, kind=kind, axis=[0, 0, 2])
        x = ((sides[0] - place) @ R.T + place + t) @ both.T + shift
        pose = joint.at(x, sides[1] @ both.T + shift)
        np.testing.assert_allclose(pose.residual, 0, atol=1e-12)
        for name, there, value in (("slides", slides, 0.4), ("angles", turns, 0.3)):
            if there:
                np.testing.assert_allclose(getattr(pose, name), value, atol=1e-12)
            else:
                with pytest.raises(InputError, match=f"{name} are of joints that .* axis, got a {kind}"):
                    getattr(pose, name)
    along = joint.at(sides[0] + [0, 0, 0.01], sides[1])
    assert (np.abs(along.residual).max() < 1e-12) == slides


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_joints(sides, rng, kind):
    joint = pg.bind_joint(*sides, PLACES, kind=kind, axis=rng.standard_normal((2, 3)))
    x, y = (side + 0.1 * rng.standard_normal(side.shape) for side in sides)
    pose = joint.at(x, y)
    dx, dy, h = rng.standard_normal(x.shape), rng.standard_normal(y.shape), 1e-5

    def residual(t):
        return joint.at(x + t * dx, y + t * dy, rotations=pose.rotations).residual

    Jx, Jy = pose.jacobians()
    np.testing.assert_allclose(
        Jx @ dx.ravel() + Jy @ dy.ravel(), (residual(h) - residual(-h)) / (2 * h), atol=1e-8
    )
    # All equations are independent, or a solver with multipliers would be singular.
    stacked = np.hstack([Jx.toarray(), Jy.toarray()])
    assert np.linalg.svd(stacked, compute_uv=False)[-1] > 1e-2
    multipliers = rng.standard_normal(len(pose.residual))
    fx, fy = pose.transfer_forces(multipliers)
    np.testing.assert_allclose(Jx.T @ multipliers, fx.ravel(), atol=1e-13)
    np.testing.assert_allclose(Jy.T @ multipliers, fy.ravel(), atol=1e-13)
    np.testing.assert_allclose(fx.sum(0) + fy.sum(0), 0, atol=1e-12)  # action and reaction
    Hx, Hy = pose.hessians(multipliers)
    h = 1e-3
    curve = multipliers @ (
        np.tensordot([-1, 16, -30, 16, -1], [residual(k * h) for k in (-2, -1, 0, 1, 2)], 1)
    )
    second = dx.ravel() @ (Hx @ dx.ravel()) + dy.ravel() @ (Hy @ dy.ravel())
    second += 2 * dx.ravel() @ (pose.cross_hessian(multipliers) @ dy.ravel())
    assert curve / (12 * h * h) == pytest.approx(second, abs=1e-6)


def test_joints_within_one_array_and_through_an_assembly(rest, rng):
    """Soft to rigid: one side of the joint is a body, whose particles are rows of the same array."""
    joint = pg.bind_joint(rest, rest, [0.3, 0.2, 0.1], kind="weld", among=(np.arange(6), np.arange(20, 60)))
    assembly = pg.Assembly(rest, body_of=BODIES)
    path, h = Path(assembly, rng), 1e-5
    pose = path.at(0)
    rotations = joint.at(pose.positions, pose.positions).rotations

    def residual(t):
        x = path.at(t).positions
        return joint.at(x, x, rotations=rotations).residual

    Jx, Jy = joint.at(pose.positions, pose.positions).jacobians()
    slope = (Jx + Jy) @ (pose.jacobian() @ path.direction)
    np.testing.assert_allclose(slope, (residual(h) - residual(-h)) / (2 * h), atol=1e-8)


def test_joints_of_one_object_with_itself_are_refused(rest):
    with pytest.raises(InputError, match=r"both sides of joint 0 take point \d+ as a parent: say by among="):
        pg.bind_joint(rest, rest, [0, 0, 0])


def test_a_turned_over_weld_shows_in_its_gaps(sides):
    """Half a turn about an axis of the joint closes the equations, not the joint; documented."""
    joint = pg.bind_joint(*sides, PLACES[0], kind="weld", axis=[0, 0, 1])
    pose = joint.at(sides[0], (sides[1] - PLACES[0]) @ np.diag([1.0, -1, -1]) + PLACES[0])
    assert np.abs(pose.gaps).max() > 0.1


def test_a_joint_keeps_its_spin(rng):
    rest = rng.standard_normal((8, 3))
    joint = pg.bind_joint(rest, rest + 0.1, [0.2, 0.3, 0.4], kind="weld", on_degenerate="clamp")
    line = rest * [1.0, 0.0, 0.0]
    before = joint.at(rest @ np.diag([1.0, -1, -1]), rest + 0.1)
    held, fresh = joint.at(line, rest + 0.1, previous=before), joint.at(line, rest + 0.1)
    turned = before.first.rotations[0]
    assert np.trace(held.first.rotations[0] @ turned.T) > np.trace(fresh.first.rotations[0] @ turned.T)


def test_bad_joints_are_named(sides):
    cases = [
        (
            lambda: pg.bind_joint(*sides, PLACES, kind="slider"),
            'kind must be "ball", "hinge", "weld", "prismatic", "cylindrical", "planar" or "bushing", got',
        ),
        (lambda: pg.bind_joint(*sides, np.zeros((2, 2))), r"at must have shape \(Q, 3\)"),
        (lambda: pg.bind_joint(*sides, [np.nan, 0, 0]), "at must be finite"),
        (lambda: pg.bind_joint(*sides, PLACES, axis=[0, 0, 0]), "axis must not be zero"),
        (lambda: pg.bind_joint(*sides, PLACES, across=[-2, 0, 0]), "across must not be along axis"),
        (lambda: pg.bind_joint(*sides, PLACES, among=None), "among must be a pair"),
        (
            lambda: pg.bind_joint(*sides, PLACES).at(*sides, rotations=np.zeros((2, 3, 3))),
            "rotations must be rotations",
        ),
        (  # mirrored axes are orthonormal, and no rotation
            lambda: pg.bind_joint(*sides, PLACES).at(*sides, rotations=np.tile(-np.eye(3), (2, 1, 1))),
            r"rotations must be rotations, but at index \[0\] it reflects, and 1 more such",
        ),
        (
            lambda: pg.bind_joint(*sides, PLACES, axis=np.ones((3, 3))),
            r"axis must have shape \(3,\) or \(2, 3\)",
        ),
        (lambda: pg.bind_joint(*sides, PLACES).at(*sides, rotations=np.eye(3)), r"rotations must have shape"),
        (lambda: pg.bind_joint(*sides, PLACES).at(*sides[::-1]), r"x must have shape \(50, 3\)"),
        (
            lambda: pg.bind_joint(*sides, PLACES).at(*sides).hessians([1.0]),
            r"multipliers must have shape \(6,\)",
        ),
    ]
    for make, message in cases:
        with pytest.raises(InputError, match=message):
            make()
