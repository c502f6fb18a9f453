"""Contact: derivatives, who meets whom, how things start, and that nothing ever goes through anything."""

import pickle

import numpy as np
import pytest
import trimesh
from peers import ipctk
from scenes import box, joined, run

import pointglue as pg
from pointglue.elastic import Bond, ClothEnergy, Contact, ElasticBody, FleshEnergy, ImplicitSolver, StepError
from pointglue.elastic.contact import start as contact_start
from pointglue.elastic.contact.stage import ContactStage
from pointglue.errors import InputError, IntersectionError, PointglueWarning
from pointglue.geometry.simplices import tet_box, tet_surface

RNG = np.random.default_rng(5)


def sheet(name="sheet", shift=(0, 0, 0), *, cells=6, size=0.6, turn=0.0, **options):
    """A square of cloth, lying flat, of 200 g/m^2."""
    k = np.arange((cells + 1) ** 2)
    x = np.stack([k // (cells + 1), 0 * k, k % (cells + 1)], axis=1) * size / cells - [size / 2, 0, size / 2]
    c, s = np.cos(turn), np.sin(turn)
    x = x @ np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]]).T + shift
    corner = (k.reshape(cells + 1, -1)[:-1, :-1]).ravel()
    a, b, c, d = corner, corner + 1, corner + cells + 2, corner + cells + 1
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    energy = ClothEnergy(x, faces, stretch=2e3, poisson=0.3, bend=1e-4)
    return ElasticBody(x, energy.mass(0.2), [energy], faces=faces, name=name, **options)


def flesh(name="flesh", shift=(0, 0, 0), *, young=2e4, **options):
    """A soft box, 0.2 m wide, of tetrahedra."""
    rest, tets = tet_box((0.2, 0.2, 0.2), (2, 2, 2))
    rest = rest + shift
    energy = FleshEnergy(rest, tets, young=young, poisson=0.3)
    return ElasticBody(rest, energy.mass(500.0), [energy], faces=tet_surface(tets), name=name, **options)


def floor(width=3.0):
    return box("floor", (0, -0.05, 0), extents=(width, 0.1, width), fixed=True)


def stage(solver, x, *, reference=None, slope=50.0, stiffness=1e3):
    return ContactStage(solver.surfaces, x, x if reference is None else reference, slope, stiffness, 0.0)


def near_pair(friction=0.0, **options):
    """Two sheets a millimetre apart, one turned, with their solver and particles that are a little uneven."""
    contact = Contact(distance=3e-3, friction=friction, slip=0.02, **options)
    bodies = [sheet("lower", cells=4), sheet("upper", (0.01, 2e-3, 0.02), cells=4, turn=0.3)]
    solver = ImplicitSolver(bodies, contact=contact)
    x = solver.start().positions + 2e-4 * RNG.normal(size=(50, 3))
    return solver, x


class TestDerivatives:
    @pytest.mark.parametrize("friction", [0.0, 0.5])
    def test_gradient_is_that_of_the_value(self, friction):
        solver, x = near_pair(friction)
        now = stage(solver, x, reference=x - 3e-4 * RNG.normal(size=x.shape))
        step = RNG.normal(size=x.shape)
        eps = 1e-7  # m; distances are 1e-3 m: truncation 1e-8, rounding 1e-16 / 1e-7
        slope = (now.value(x + eps * step) - now.value(x - eps * step)) / (2 * eps)
        assert now.count(x) > 20
        assert np.sum(now.gradient(x) * step[solver.surfaces.particles]) == pytest.approx(slope, rel=1e-6)

    @pytest.mark.parametrize("friction", [0.0, 0.5])
    def test_hessian_is_that_of_the_gradient(self, friction):
        solver, x = near_pair(friction)
        now = stage(solver, x, reference=x - 3e-4 * RNG.normal(size=x.shape))
        step = RNG.normal(size=x.shape)
        eps = 1e-7
        wanted = (now.gradient(x + eps * step) - now.gradient(x - eps * step)) / (2 * eps)
        rows, columns, blocks = now.blocks(x, project=False)
        got = np.zeros_like(x)
        np.add.at(got, rows, np.einsum("kij,kj->ki", blocks, step[columns]))
        scale = np.abs(wanted).max()
        assert np.abs(got[solver.surfaces.particles] - wanted).max() < 1e-5 * scale

    def test_projected_hessian_is_semidefinite(self):
        solver, x = near_pair(0.5)
        rows, columns, blocks = stage(solver, x).blocks(x, project=True)
        H = np.zeros((len(x), 3, len(x), 3))
        np.add.at(H, (rows, slice(None), columns), blocks)
        H = H.reshape(3 * len(x), -1)
        values = np.linalg.eigvalsh((H + H.T) / 2)
        assert values[0] > -1e-9 * values[-1]

    def test_barrier_pushes_apart_and_sums_to_nothing(self):
        solver, x = near_pair()
        push = -stage(solver, x).gradient(x)
        assert np.abs(push.sum(0)).max() < 1e-9 * np.abs(push).max()
        assert np.abs(np.cross(x, push).sum(0)).max() < 1e-9 * np.abs(push).max()
        assert push[25:, 1].sum() > 0  # the upper one goes up


class TestWays:
    def test_way_ends_before_the_impact(self):
        solver, x = near_pair()
        to = x.copy()
        to[25:, 1] -= 0.05
        now = stage(solver, x)
        way = now.collision_free_fraction(x, to)
        assert 0 < way < 0.06
        there = x + way * (to - x)
        assert not solver.surfaces.intersecting(there)
        assert np.isfinite(now.value(there))
        assert solver.surfaces.intersecting(to) is False  # it would be through: nothing but the way shows it

    def test_thickness_is_kept(self):
        solver, x = near_pair(thickness=5e-4)
        to = x.copy()
        to[25:, 1] -= 0.05
        now = stage(solver, x)
        there = x + now.collision_free_fraction(x, to) * (to - x)
        arrays = solver.surfaces.mesh.arrays
        edges, faces = (np.asfortranarray(each.astype(np.int32)) for each in (arrays.edges, arrays.faces))
        vertices = np.asfortranarray(solver.surfaces.at(there))
        mesh, met = ipctk.CollisionMesh(vertices, edges, faces), ipctk.NormalCollisions()
        met.build(mesh, vertices, 0.01)
        assert np.sqrt(met.compute_minimum_distance(mesh, vertices)) > 5e-4

    def test_candidates_are_kept_while_they_cover(self):
        solver, x = near_pair()
        now = stage(solver, x)
        before = now.candidates
        now.collision_free_fraction(x, x + 1e-4)
        assert now.candidates is before
        now.collision_free_fraction(x, x + 0.1)
        assert now.candidates is not before


class TestWhoMeetsWhom:
    def falling(self, **options):
        upper = sheet("upper", (0, 0.02, 0), turn=0.2)
        lower = sheet("lower", pinned=np.ones(49, bool))
        solver = ImplicitSolver([lower, upper], contact=Contact(distance=2e-3, **options), tolerance=1e-3)
        return run(solver, 8, 1 / 48).body("upper")[:, 1].min()

    def test_bodies_meet(self):
        assert self.falling() > 0

    def test_ignored_pairs_pass_through(self):
        assert self.falling(ignore=[("upper", "lower")]) < -0.1

    def test_ignoring_one_pair_leaves_the_others(self):
        bodies = [floor(), sheet("a", (0, 0.01, 0)), sheet("b", (0, 0.02, 0), turn=0.3)]
        contact = Contact(distance=2e-3, ignore=[("a", "b")])
        state = run(ImplicitSolver(bodies, contact=contact, tolerance=1e-2), 6, 1 / 48)
        assert min(state.body(name)[:, 1].min() for name in "ab") > 0
        assert np.abs(state.body("a")[:, 1].mean() - state.body("b")[:, 1].mean()) < 2e-3

    def test_what_cannot_move_may_intersect(self):
        posts = [box(name, (x, 0, 0), fixed=True) for name, x in (("left", 0.0), ("right", 0.1))]
        cloth = sheet("cloth", (0, 0.3, 0), pinned=np.ones(49, bool))
        contact = Contact(distance=1e-3)
        assert not ImplicitSolver([*posts, cloth], contact=contact).surfaces.intersecting(
            np.concatenate([posts[0].positions, posts[1].positions, cloth.positions])
        )
        with pytest.raises(IntersectionError, match="bodies must not intersect at the start"):
            ImplicitSolver([posts[0], box("right", (0.1, 0, 0))], contact=contact)

    def test_a_body_meets_itself_unless_told_not_to(self):
        folded = sheet()
        x = folded.positions.copy()
        x[:, 1] = np.where(x[:, 0] > 0, 3e-3, 0)
        x[:, 0] = np.where(x[:, 0] > 0, -x[:, 0], x[:, 0]) + 2e-3 * np.sin(40 * x[:, 2])
        x[:, 1] += 2e-4 * RNG.random(len(x))
        body = ElasticBody(x, folded.mass, folded.energies, faces=folded.faces, name="folded")
        assert ImplicitSolver([body], contact=Contact(distance=5e-3)).surfaces.least_distance(x) < 5e-3
        alone = Contact(distance=5e-3, ignore=[("folded", "folded")])
        assert ImplicitSolver([body], contact=alone).surfaces.least_distance(x) == np.inf

    def test_glued_bodies_do_not_meet_where_they_are_glued(self):
        lower, upper = sheet("lower"), sheet("upper", (0.003, 1e-3, 0.004))
        middle = np.flatnonzero(np.linalg.norm(upper.positions - [0.003, 1e-3, 0.004], axis=1) < 0.12)
        bond = Bond("upper", middle, to="lower")
        solver = ImplicitSolver([lower, upper], glue=[bond], contact=Contact(distance=2e-3))
        allowed = solver.surfaces.mesh.may_meet
        assert not allowed(24, 49 + 24)  # in the middle, where the glue is
        assert allowed(0, 49)  # at the corner

    def test_glued_bodies_that_intersect_where_they_are_glued(self):
        """A twig stuck into a branch: refused without glue, welcome with it."""
        twig = flesh("twig", (0.02, 0.19, 0.03))
        branch = flesh("branch")
        root = np.flatnonzero(twig.positions[:, 1] < twig.positions[:, 1].min() + 0.01)
        with pytest.raises(InputError, match=r"must not intersect at the start.*'twig'"):
            ImplicitSolver([branch, twig], contact=Contact(distance=1e-3))
        bond = Bond("twig", root, to="branch")
        solver = ImplicitSolver([branch, twig], glue=[bond], contact=Contact(distance=1e-3))
        assert not solver.surfaces.intersecting(solver.start().positions)


class TestBonds:
    """Bodies that are bonded, and no longer: nothing passes through but where bonds were too near."""

    def boxes(self, gap, joint, gravity, **options):
        first = box("first", extents=(0.1, 0.1, 0.1), fixed=True)
        second = box("second", (0.1 + gap, 0, 0), extents=(0.1, 0.1, 0.1))
        joints = [joined(first, second, [[0.05 + gap / 2, 0.05, 0.0]], joint, **options)]
        contact = Contact(distance=5e-3)
        return ImplicitSolver(
            [first, second], joints=joints, contact=contact, gravity=gravity, tolerance=1e-3
        )

    def check(self, solver, steps):
        state = solver.start()
        for _ in range(steps):
            state = solver.step(state, 1 / 24)
            assert not solver.surfaces.intersecting(state.positions)
        return state

    def test_joined_boxes_do_not_swing_into_each_other(self):
        state = self.check(self.boxes(4e-3, "ball", (-9.81, -9.81, 0)), 8)
        assert state.origins[1, 0] > 0.1

    def test_a_weld_that_is_released_leaves_bodies_that_meet(self):
        state = self.check(self.boxes(2e-3, "weld", (-9.81, 0, 0), release=0.1), 8)
        assert state.origins[1, 0] > 0.1

    def test_glue_that_is_released_leaves_bodies_that_meet(self):
        ground = sheet("ground", pinned=np.ones(49, bool))
        body = flesh("flesh", (0, 0.103, 0))
        bottom = np.flatnonzero(body.positions[:, 1] < 0.01)
        bond = Bond("flesh", bottom, to="ground", release=0.1)
        solver = ImplicitSolver([ground, body], glue=[bond], contact=Contact(distance=5e-3), tolerance=1e-3)
        assert not solver.surfaces.mesh.may_meet(24, 49 + int(bottom[4]))
        state = self.check(solver, 8)
        assert state.body("flesh")[np.unique(body.faces), 1].min() > 0
        assert solver.surfaces.mesh.may_meet(24, 49 + int(bottom[4]))

    def test_what_intersects_when_it_is_released_comes_out(self):
        """A twig that has been stuck into its branch, let go and pulled out."""
        twig, branch = flesh("twig", (0.02, 0.19, 0.03)), flesh("branch", pinned=np.ones(27, bool))
        root = np.flatnonzero(twig.positions[:, 1] < twig.positions[:, 1].min() + 0.01)
        solver = ImplicitSolver(
            [branch, twig], glue=[Bond("twig", root, to="branch", release=0.05)],
            contact=Contact(distance=1e-3), gravity=(0, 9.81, 0), tolerance=1e-3,
        )  # fmt: skip
        state = run(solver, 8, 1 / 24)
        assert state.body("twig")[:, 1].min() > 0.2
        assert not solver.surfaces.intersecting(state.positions)
        assert solver.surfaces.mesh.may_meet(26, 27 + int(root[0]))


class TestStart:
    def test_intersections_are_named(self):
        bodies = [sheet("lower"), sheet("upper", turn=0.0)]
        tilted = bodies[1].positions.copy()
        tilted[:, 1] = 0.3 * tilted[:, 0] + 1e-3
        bodies[1] = ElasticBody(
            tilted, bodies[1].mass, bodies[1].energies, faces=bodies[1].faces, name="upper"
        )
        with pytest.raises(
            IntersectionError, match=r"must not intersect at the start, got edge .* of '.*' and face"
        ) as told:
            ImplicitSolver(bodies, contact=Contact(distance=1e-3))
        assert told.value.pairs == (("lower", "upper"),)
        assert pickle.loads(pickle.dumps(told.value)).pairs == told.value.pairs

    @pytest.mark.parametrize("pinned", [False, True])
    def test_what_crosses_itself_may_if_it_is_ignored_pinned_or_not(self, pinned):
        one, other = flesh(), flesh(shift=(0.05, 0.07, 0.03))
        rest = np.concatenate([one.positions, other.positions])
        mass = np.concatenate([one.mass, other.mass])
        faces = np.concatenate([one.faces, other.faces + len(one.positions)])
        held = (rest[:, 1] < rest[:, 1].min() + 1e-9) & pinned
        both = ElasticBody(rest, mass, pinned=held, faces=faces, name="both")
        with pytest.raises(IntersectionError) as told:
            ImplicitSolver([both], contact=Contact(distance=1e-3))
        assert told.value.pairs == (("both", "both"),)
        solver = ImplicitSolver([both], contact=Contact(distance=1e-3, ignore=[("both", "both")]))
        assert not solver.surfaces.intersecting(rest)

    def test_crossings_are_counted_up_to_a_limit(self, monkeypatch):
        """Two spheres that go through each other in one body, and a sheet that goes through both."""
        monkeypatch.setattr(contact_start, "MAX_COUNTED_INTERSECTIONS", 20)
        ball = trimesh.creation.icosphere(3, 0.3)
        rest = np.concatenate([ball.vertices, ball.vertices + [0.21, 0.03, 0.02]])
        faces = np.concatenate([ball.faces, ball.faces + len(ball.vertices)])
        both = ElasticBody(rest, np.ones(len(rest)), faces=faces, name="both")
        with pytest.raises(IntersectionError) as told:
            ImplicitSolver([both, sheet("sheet")], contact=Contact(distance=1e-3))
        error = told.value
        assert error.pairs == (("both", "both"), ("both", "sheet"))
        assert error.counts == (20, 20)
        assert error.most == 20
        assert all(np.linalg.norm(place) < 0.6 for place in error.places)

    def test_a_mesh_that_hangs_on_what_does_not_meet_is_not_searched(self, monkeypatch):
        """The mesh of a cage hangs on points without a surface: there is nothing that it must not meet."""
        monkeypatch.setattr(
            contact_start.ProximityQuery,
            "_intersections",
            lambda _, region=None: [] if region is None else pytest.fail("is searched"),
        )
        monkeypatch.setattr(contact_start.ProximityQuery, "_near", lambda *_: pytest.fail("is searched"))
        cage = flesh()
        skin = ElasticBody(cage.positions, cage.mass, faces=cage.faces, name="skin")
        inner = ElasticBody(cage.positions, cage.mass, cage.energies, name="cage")
        bond = Bond("skin", np.arange(len(cage.positions)), "cage")
        solver = ImplicitSolver([inner, skin], glue=[bond], contact=Contact(distance=1e-3))
        assert len(solver.model.initial_bonds) == 1

    def test_thickness_beyond_the_first_distance_is_named(self):
        bodies = [sheet("lower"), sheet("upper", (0.01, 2e-3, 0))]
        with pytest.raises(InputError, match=r"thickness must be less .*0.002 m apart"):
            ImplicitSolver(bodies, contact=Contact(distance=1e-3, thickness=5e-3))

    def test_thickness_grows_on_request(self):
        bodies = [sheet("lower"), sheet("upper", (0.01, 2e-3, 0))]
        contact = Contact(distance=1e-3, thickness=5e-3, grow=0.2)
        solver = ImplicitSolver(bodies, contact=contact, gravity=(0, 0, 0), tolerance=1e-3)
        state = run(solver, 8, 1 / 32)
        assert state.body("upper")[:, 1].min() - state.body("lower")[:, 1].max() > 0
        assert solver.surfaces.least_distance(state.positions) > 5e-3
        assert stage(solver, state.positions).gap(state.positions) > 0

    @pytest.mark.parametrize("grow", [0.05, 1e-3])
    def test_thickness_that_grows_quickly_waits_for_room(self, grow):
        bodies = [sheet("lower"), sheet("upper", (0.01, 2e-3, 0))]
        contact = Contact(distance=1e-3, thickness=5e-3, grow=grow)
        solver = ImplicitSolver(bodies, contact=contact, gravity=(0, 0, 0), tolerance=1e-3)
        state, surfaces = solver.start(), solver.surfaces
        for _ in range(8):
            assert surfaces.thickness(state.positions, 1.0) < surfaces.least_distance(state.positions)
            state = solver.step(state, 1 / 32)
        assert surfaces.thickness(state.positions, 1.0) == 5e-3
        assert surfaces.least_distance(state.positions) > 5e-3

    def test_tangled_cloth_is_untangled_on_request(self):
        lower, upper = sheet("lower"), sheet("upper", (0, 4e-3, 0), turn=0.2)
        dented = upper.positions.copy()
        dented[np.linalg.norm(dented[:, [0, 2]], axis=1) < 0.12, 1] -= 7e-3
        upper = ElasticBody(dented, upper.mass, upper.energies, faces=upper.faces, name="upper")
        with pytest.raises(InputError, match="untangle"):
            ImplicitSolver([lower, upper], contact=Contact(distance=1e-3))
        solver = ImplicitSolver([lower, upper], contact=Contact(distance=1e-3, grow=0.1), tolerance=1e-3)
        state = solver.start()
        assert not solver.surfaces.intersecting(state.positions)
        assert np.abs(state.positions[:98] - np.concatenate([lower.positions, dented])).max() < 0.02
        state = run(solver, 4, 1 / 48)
        assert not solver.surfaces.intersecting(state.positions)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"distance": 0.0}, "distance must be a finite number above 0, got 0.0"),
            ({"distance": float("nan")}, "distance must be a finite number above 0, got nan"),
            ({"distance": 1e-3, "friction": -1}, "friction must be a finite number of at least 0, got -1"),
            ({"distance": 1e-3, "thickness": "1 mm"}, "thickness must be a finite number of at least 0"),
            ({"distance": 1e-3, "stiffness": 0}, "stiffness must be a finite number above 0"),
            ({"distance": 1e-3, "ignore": ["ab"]}, "ignore must hold pairs"),
        ],
    )
    def test_numbers_are_checked(self, options, message):
        with pytest.raises(InputError, match=message):
            Contact(**options)

    def test_names_and_faces_are_checked(self):
        with pytest.raises(InputError, match="ignore must name bodies, 'sheet', got 'shet'"):
            ImplicitSolver([sheet()], contact=Contact(distance=1e-3, ignore=[("shet", "sheet")]))
        bare = ElasticBody(np.eye(3), np.ones(3))
        with pytest.raises(InputError, match="contact needs bodies with faces"):
            ImplicitSolver([bare], contact=Contact(distance=1e-3))
        with pytest.raises(InputError, match="faces of 'body' must name some of its 3 points, got 3"):
            ElasticBody(np.eye(3), np.ones(3), faces=[[0, 1, 3]])
        with pytest.raises(InputError, match=r"faces of 'body' must have three corners, got \[0, 0, 1\]"):
            ElasticBody(np.eye(3), np.ones(3), faces=[[0, 0, 1]])
        with pytest.raises(InputError, match="contact must be a Contact, got float"):
            ImplicitSolver([sheet()], contact=1e-3)


class TestKeys:
    def through(self, speed, motion=None):
        cloth = sheet("cloth", pinned=np.isin(np.arange(49), [0, 6, 42, 48]))
        ball = trimesh.creation.icosphere(subdivisions=2, radius=0.1)
        up = motion or (lambda t: ((0, min(-0.2 + speed * t, 0.1), 0), np.eye(3)))
        mover = pg.RigidBody.solid(
            ball.vertices + [0, -0.2, 0], ball.faces, 500.0, fixed=True, motion=up, name="ball"
        )
        return ImplicitSolver([cloth, mover], contact=Contact(distance=2e-3), tolerance=1e-2)

    def test_keyed_bodies_are_where_keys_say_and_push(self):
        solver = self.through(4.0)
        state = solver.start()
        for _ in range(4):
            state = solver.step(state, 1 / 24)
            assert not solver.surfaces.intersecting(state.positions)
        np.testing.assert_allclose(state.origins[0], [0, 0.1, 0], atol=1e-6)
        assert state.body("cloth")[:, 1].max() > 0.15  # lifted, not pierced

    @pytest.mark.parametrize(
        ("speed", "message"),
        [
            (4.0, r"contact (bars the way|keeps 'press' .* m from where its motion says)"),
            (1.0, r"contact keeps 'press' .* m from where its motion says"),
        ],
    )
    def test_a_body_with_no_way_out_is_named(self, speed, message):
        """A keyed plate comes down on a box on the floor; slowly, steps converge with it above its key."""
        press = box("press", (0, 0.4, 0), fixed=True, motion=lambda t: ((0, 0.4 - speed * t, 0), np.eye(3)))
        under = box("under", (0, 0.11, 0), extents=(0.2, 0.2, 0.2))
        solver = ImplicitSolver([press, under, floor()], contact=Contact(distance=1e-3), halvings=1)
        with pytest.raises(StepError, match=message) as caught:
            run(solver, 4, 1 / 24)
        assert not solver.surfaces.intersecting(caught.value.state.positions)

    def test_keys_move_where_nothing_is_free(self):
        mover = box("mover", (0, 1, 0), fixed=True, motion=lambda t: ((t, 1, 0), np.eye(3)))
        state = run(ImplicitSolver([mover, floor()], contact=Contact(distance=1e-3)), 4, 1 / 24)
        np.testing.assert_allclose(state.origins[0], [4 / 24, 1, 0], atol=1e-9)

    def test_quick_turns_are_followed_in_halves(self):
        def turn(t):
            c, s = np.cos(60 * t), np.sin(60 * t)
            return (0, 1, 0), [[c, 0, s], [0, 1, 0], [-s, 0, c]]

        blade = box("blade", (0, 1, 0), fixed=True, motion=turn)
        solver = ImplicitSolver([blade, floor()], contact=Contact(distance=1e-3))
        state = solver.step(solver.start(), 1 / 24)  # 2.5 rad
        assert state.report.substeps > 1
        np.testing.assert_allclose(state.rotations[0], turn(1 / 24)[1], atol=1e-6)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ((0, 1, 0), "motion of 'mover' must give a position and a rotation"),
            (None, "motion of 'mover' must give a position and a rotation, got None"),
            (((0, 1), np.eye(3)), r"motion of 'mover' must give shape \(3,\), got \(2,\)"),
            (
                ((0, 1, 0), np.eye(2)),
                r"rotations by the motion of 'mover' must have shape \(3, 3\), got \(2, 2\)",
            ),
            (((0, 1, 0), np.zeros((3, 3))), "motion of 'mover' must be rotations, but R R.T is off by 1"),
            (((0, 1, 0), -np.eye(3)), "motion of 'mover' must be rotations, but it reflects"),
        ],
    )
    def test_keys_of_another_shape(self, given, message):
        mover = box("mover", (0, 1, 0), fixed=True, motion=lambda t: given)
        with pytest.raises(InputError, match=message):
            run(ImplicitSolver([mover, floor()], contact=Contact(distance=1e-3)), 1, 0.01)

    def test_keys_that_are_not_numbers(self):
        solver = self.through(0, lambda t: ((0, np.nan, 0), np.eye(3)))
        with pytest.raises(InputError, match="motion of 'ball'"):
            solver.step(solver.start(), 0.01)

    def test_soft_colliders_bend(self):
        """All points pinned and moved by keys: a hand, say."""
        board = sheet("board", (0, -0.05, 0), cells=4, size=0.4, pinned=np.ones(25, bool))
        flat = board.positions

        def bent(t):
            return flat + [0, 1, 0] * np.outer(8 * t * (0.1 - np.abs(flat[:, 0])), np.ones(3))

        board = ElasticBody(
            flat, board.mass, [], pinned=np.ones(25, bool), motion=bent, faces=board.faces, name="board"
        )
        cloth = sheet("cloth", cells=8, size=0.5, turn=0.3)
        solver = ImplicitSolver([board, cloth], contact=Contact(distance=2e-3, friction=0.3), tolerance=1e-2)
        state = solver.start()
        for _ in range(8):
            state = solver.step(state, 1 / 48)
            assert not solver.surfaces.intersecting(state.positions)
        np.testing.assert_allclose(state.body("board"), bent(state.time), atol=1e-6)


def test_embedded_surfaces_meet_and_move_their_cage():
    """A surface that hangs on a cage of eight tetrahedra: contact lifts the cage through it."""
    rest, tets = tet_box((0.2, 0.2, 0.2), (1, 1, 1))
    rest = rest + [0, 0.12, 0]
    energy = FleshEnergy(rest, tets, young=5e4, poisson=0.3)
    cage = ElasticBody(rest, energy.mass(500.0), [energy], name="cage")
    ball = trimesh.creation.icosphere(subdivisions=2, radius=0.105)
    points = ball.vertices + [0, 0.12, 0]
    binding = pg.embed((rest, tets), points)
    skin = ElasticBody(points, np.full(len(points), 1e-6), faces=ball.faces, name="skin")
    bond = Bond("skin", np.arange(len(points)), to="cage", binding=binding)
    solver = ImplicitSolver(
        [floor(), cage, skin], glue=[bond], contact=Contact(distance=2e-3), tolerance=1e-3
    )
    state = solver.start()
    for _ in range(20):
        state = solver.step(state, 1 / 60)
        assert not solver.surfaces.intersecting(state.positions)
    assert state.body("skin")[:, 1].min() > 0
    assert np.abs(state.velocities).max() < 0.5  # it has been stopped: free fall would be 3.3 m/s


def test_joints_and_contact_together():
    """A chain of two boxes falls on the floor; the joint stays closed."""
    one, two = box("one", (0, 0.3, 0)), box("two", (0.0, 0.7, 0))
    solver = ImplicitSolver(
        [floor(), one, two], joints=[joined(one, two, [[0.0, 0.5, 0.0]])],
        contact=Contact(distance=2e-3, friction=0.3), tolerance=1e-3,
    )  # fmt: skip
    state = solver.start()
    for _ in range(30):
        state = solver.step(state, 1 / 60)
        assert not solver.surfaces.intersecting(state.positions)
        assert state.report.violation < 1e-8 * solver.model.size
    assert state.origins[1:, 1].min() > 0.09


def test_contact_is_the_same_for_any_number_of_threads():
    ends = []
    for threads in (1, 2):
        solver = ImplicitSolver(
            [floor(), sheet(shift=(0, 0.02, 0)), flesh(shift=(0, 0.15, 0))],
            contact=Contact(distance=2e-3, friction=0.3), tolerance=1e-3,
        )  # fmt: skip
        with pg.threads(threads):
            ends.append(run(solver, 5, 1 / 48).positions)
    assert ends[0].tobytes() == ends[1].tobytes()


def test_a_step_is_a_function_of_its_state_alone():
    """Whatever the solver has stepped before: a run that is resumed goes on to the same bits."""
    bodies = [floor(), sheet(shift=(0, 0.02, 0)), box("box", (0, 0.3, 0))]
    contact = Contact(distance=2e-3, friction=0.3)
    solver = ImplicitSolver(bodies, contact=contact, tolerance=1e-2)
    states = [solver.start()]
    for _ in range(14):
        states.append(solver.step(states[-1], 1 / 48))
    again = ImplicitSolver(bodies, contact=contact, tolerance=1e-2)
    for k in (12, 4, 13, 9):
        assert again.step(states[k], 1 / 48).positions.tobytes() == states[k + 1].positions.tobytes()


def test_a_reach_beyond_the_mesh_is_warned_of():
    with pytest.warns(PointglueWarning, match="farther than many edges of 'flesh'"):
        ImplicitSolver([flesh()], contact=Contact(distance=0.3))


def test_stiffness_goes_by_the_step_that_is_asked_for():
    falling = [floor(), box("box", (0, 0.3, 0))]
    firm = [
        ImplicitSolver(falling, contact=Contact(distance=1e-3), method=method) for method in ("euler", "bdf2")
    ]
    first, second = (solver.step(solver.start(), 1 / 24).barrier_stiffness for solver in firm)
    assert first == second


def test_solvers_states_and_errors_can_be_sent_to_other_processes():
    solver = ImplicitSolver([floor(), sheet(shift=(0, 0.02, 0))], contact=Contact(distance=2e-3))
    state = solver.step(solver.start(), 1 / 48)
    again = pickle.loads(pickle.dumps(solver))
    copied = pickle.loads(pickle.dumps(state))
    assert not copied.positions.flags.writeable
    assert again.step(copied, 1 / 48).positions.tobytes() == solver.step(state, 1 / 48).positions.tobytes()
    error = pickle.loads(pickle.dumps(StepError("stuck", state)))
    assert str(error) == "stuck"
    assert error.state.time == state.time


def test_a_step_that_is_much_too_long_is_halved_or_refused_but_never_tunnels():
    solver = ImplicitSolver([floor(100.0), flesh(shift=(0, 0.3, 0), velocities=(0, -200.0, 0))],
        contact=Contact(distance=1e-3), tolerance=1e-2)  # fmt: skip
    state = solver.start()
    try:
        state = solver.step(state, 0.5)
    except StepError as error:
        state = error.state
    surface = np.unique(solver.model.bodies[1].faces)  # the point inside has nothing to hold it
    assert state.body("flesh")[surface, 1].min() > 0
    assert not solver.surfaces.intersecting(state.positions)
