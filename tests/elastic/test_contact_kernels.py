"""The kernels of contact against the IPC Toolkit, over random and degenerate pairs, and brute force."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse as sp
from peers import ipctk
from scipy.optimize import linprog
from scipy.spatial.transform import Rotation

import pointglue as pg
from pointglue.elastic.contact.collision_mesh import CollisionMesh
from pointglue.elastic.contact.contacts import ContactSet, FrictionSet, summed_blocks
from pointglue.elastic.contact.exact import crosses
from pointglue.elastic.contact.kernels import ccd, distances
from pointglue.elastic.contact.kernels.barrier import BarrierShape
from pointglue.elastic.contact.kernels.ccd import ImpactLimits
from pointglue.elastic.contact.kernels.crossings import NO, UNSURE, YES, crossing
from pointglue.elastic.contact.kernels.pairs import SurfaceArrays
from pointglue.scene.build.meshing import sheet_grid

TRIANGLE = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.2, 0.9, 0.0]])
CLOSE = 1e-10  # relative; distances of 1e-3 between edges of 1 leave 13 of 16 digits


def tuples(x):
    return tuple(tuple(map(float, row)) for row in x)


def near_triangles(rng, kind, count=12):
    """Pairs of triangles that nearly touch, as points (6 count, 3), with a gap of about 2e-3."""
    pairs = []
    for _ in range(count):
        one = TRIANGLE + 0.2 * rng.normal(size=(3, 3))
        normal = np.cross(one[1] - one[0], one[2] - one[0])
        normal /= np.linalg.norm(normal)
        gap = rng.uniform(5e-4, 4e-3) * normal
        weights = rng.dirichlet([1, 1, 1])
        away = [0.4 * rng.normal(size=3) + 0.5 * normal for _ in range(2)]
        if kind == "inside":
            other = weights @ one + gap + np.array([np.zeros(3), *away])
        elif kind == "corner":
            out = one[0] - one.mean(0)
            other = (
                one[0] + 2e-3 * out / np.linalg.norm(out) + np.array([np.zeros(3), *(out + a for a in away)])
            )
        elif kind == "side":
            middle = rng.uniform(0.2, 0.8)
            side = middle * one[0] + (1 - middle) * one[1]
            out = np.cross(one[1] - one[0], normal)
            out /= np.linalg.norm(out)
            other = side + 2e-3 * out + np.array([np.zeros(3), *(out + a for a in away)])
        elif kind == "crossed":
            middle = one[:2].mean(0) + gap
            out = np.cross(one[1] - one[0], normal)
            other = np.array([middle - 0.4 * out, middle + 0.5 * out, middle + normal + 0.1 * out])
        elif kind == "nearly parallel":
            out = np.cross(one[1] - one[0], normal)
            turn = rng.uniform(-0.02, 0.02) * out
            shift = rng.uniform(-0.6, 0.6) * (one[1] - one[0]) + gap + 1e-3 * out
            other = np.array([one[0] + shift - turn, one[1] + shift + turn, one[0] + shift + normal + out])
        elif kind == "parallel":
            # Not right over an edge, where two regions meet and each library takes another one.
            other = one + gap + 0.3 * (one[1] - one[0]) + 0.05 * np.cross(one[1] - one[0], normal)
        else:
            assert kind == "coplanar"
            out = np.cross(one[1] - one[0], normal)
            out /= np.linalg.norm(out)
            side = one[1] - one[0]
            other = one[0] + 0.1 * side + 2e-3 * out + np.array([np.zeros(3), side, out])
        pairs.append(np.concatenate([one, other]) + 10 * rng.normal(size=3))
    return np.concatenate(pairs)


KINDS = ["inside", "corner", "side", "crossed", "nearly parallel", "parallel", "coplanar"]


class Both:
    """The same triangles as our mesh and as the toolkit's, with their contacts."""

    def __init__(self, x, faces, parts, distance=5e-3, thickness=0.0, rest=None):
        rest = x if rest is None else rest
        self.x, self.distance, self.thickness = np.ascontiguousarray(x), distance, thickness
        self.mesh = CollisionMesh(np.ascontiguousarray(rest), faces, parts, np.full(len(x), -1))
        self.reach = distance + thickness
        candidates = self.mesh.candidates(self.x, self.x, self.reach)
        self.met = ContactSet(self.mesh, self.x, candidates, self.reach)
        self.shape = BarrierShape(distance, thickness, 1e3)
        theirs = np.asfortranarray(faces.astype(np.int32))
        self.y = np.asfortranarray(x)
        ipctk.set_num_threads(1)  # its sums then have a fixed order
        self.toolkit = ipctk.CollisionMesh(np.asfortranarray(rest), ipctk.edges(theirs), theirs)
        self.theirs = ipctk.NormalCollisions()
        self.theirs.use_area_weighting = True
        self.theirs.build(self.toolkit, self.y, distance, thickness)
        self.barrier = ipctk.BarrierPotential(distance, 1e3, True)

    @classmethod
    def of(cls, kind, seed=0, **options):
        x = near_triangles(np.random.default_rng(seed), kind)
        faces = np.arange(len(x)).reshape(-1, 3)
        return cls(x, faces, np.repeat(np.arange(len(faces)) % 2, 3), **options)

    def matrix(self, points, hessians):
        row, column, blocks = summed_blocks(points, hessians, len(self.x))
        i, j = (3 * each[:, None, None] + np.zeros((3, 3), int) for each in (row, column))
        entries = (blocks.ravel(), ((i + np.arange(3)[:, None]).ravel(), (j + np.arange(3)).ravel()))
        return sp.coo_array(entries, shape=(3 * len(self.x),) * 2).toarray()

    def hessian(self, *, project):
        out = np.empty((len(self.met), 12, 12))
        self.met.hessians(self.shape, out, project=project)
        return self.matrix(self.met.contacts.points, out)

    def gradient(self):
        out = np.zeros_like(self.x)
        self.met.add_gradient(self.shape, out)
        return out


def assert_close(ours, theirs):
    assert np.abs(ours - theirs).max() <= CLOSE * np.abs(theirs).max()


@pytest.mark.parametrize("thickness", [0.0, 3e-4])
@pytest.mark.parametrize("kind", KINDS)
def test_barrier_is_that_of_the_toolkit(kind, thickness):
    both = Both.of(kind, thickness=thickness)
    assert len(both.met) == len(both.theirs) > 5
    assert both.met.value(both.shape) == pytest.approx(
        both.barrier(both.theirs, both.toolkit, both.y), rel=CLOSE
    )
    theirs = both.barrier.gradient(both.theirs, both.toolkit, both.y).reshape(-1, 3)
    assert_close(both.gradient(), theirs)
    methods = ipctk.PSDProjectionMethod
    for project, method in ((False, methods.NONE), (True, methods.CLAMP)):
        theirs = both.barrier.hessian(both.theirs, both.toolkit, both.y, method).toarray()
        assert_close(both.hessian(project=project), theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_projected_hessians_are_semidefinite_and_symmetric(kind):
    both = Both.of(kind)
    H = np.empty((len(both.met), 12, 12))
    both.met.hessians(both.shape, H, project=True)
    assert np.array_equal(H, np.swapaxes(H, 1, 2))
    values = np.linalg.eigvalsh(H)
    assert (values[:, 0] >= -1e-13 * values[:, -1]).all()


@pytest.mark.parametrize("kind", ["inside", "corner", "side", "crossed", "nearly parallel"])
def test_derivatives_are_those_of_differences(kind):
    both, rng = Both.of(kind, seed=3), np.random.default_rng(4)
    way, eps = (
        rng.normal(size=both.x.shape),
        1e-7,
    )  # gaps are 1e-3: truncation 1e-8, rounding 1e-16 * 1e3 / 1e-7

    def at(x):
        faces = both.mesh.arrays.faces
        return Both(x, faces, np.repeat(np.arange(len(faces)) % 2, 3), rest=both.x)

    above, below = at(both.x + eps * way), at(both.x - eps * way)
    slope = (above.met.value(both.shape) - below.met.value(both.shape)) / (2 * eps)
    assert np.sum(both.gradient() * way) == pytest.approx(slope, rel=1e-5)
    bend = (above.gradient() - below.gradient()) / (2 * eps)
    ours = (both.hessian(project=False) @ way.ravel()).reshape(-1, 3)
    assert np.abs(ours - bend).max() < 1e-5 * np.abs(bend).max()


@pytest.mark.parametrize("speed", [1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("kind", KINDS)
def test_friction_is_that_of_the_toolkit(kind, speed):
    both, slope, slip = Both.of(kind, seed=1), 50.0, 0.02
    reference = both.x - speed * np.random.default_rng(2).normal(size=both.x.shape)
    ours = FrictionSet(both.met, both.shape, 0.4, slip, slope)
    theirs, potential = ipctk.TangentialCollisions(), ipctk.FrictionPotential(slip)
    theirs.build(both.toolkit, both.y, both.theirs, both.barrier, 0.4)
    assert len(ours) == len(theirs)
    rates = np.asfortranarray(slope * (both.x - reference))
    if not len(ours):
        assert kind == "parallel"
        return
    value = potential(theirs, both.toolkit, rates) / slope
    assert ours.value(both.x, reference) == pytest.approx(value, rel=CLOSE)
    gradient = np.zeros_like(both.x)
    ours.add_gradient(both.x, reference, gradient)
    assert_close(gradient, potential.gradient(theirs, both.toolkit, rates).reshape(-1, 3))
    out = np.empty((len(ours), 12, 12))
    ours.hessians(both.x, reference, out)
    H = slope * potential.hessian(theirs, both.toolkit, rates, ipctk.PSDProjectionMethod.NONE).toarray()
    assert_close(both.matrix(ours.slides.points, out), H)
    values = np.linalg.eigvalsh(out)
    assert (values[:, 0] >= -1e-13 * values[:, -1]).all()


def sheets(cells=12, *, turn=0.3, seed=0):
    """Two uneven sheets that lie on each other: vertices, faces, parts."""
    rng = np.random.default_rng(seed)
    k = np.arange((cells + 1) ** 2)
    flat = np.stack([k // (cells + 1), 0.0 * k, k % (cells + 1)], axis=1) / cells - [0.5, 0, 0.5]
    corner = k.reshape(cells + 1, -1)[:-1, :-1].ravel()
    a, b, c, d = corner, corner + 1, corner + cells + 2, corner + cells + 1
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    cos, sin = np.cos(turn), np.sin(turn)
    upper = flat @ np.array([[cos, 0, -sin], [0, 1, 0], [sin, 0, cos]]).T + [0.01, 2e-3, 0.02]
    x = np.concatenate([flat, upper]) + 2e-4 * rng.normal(size=(2 * len(flat), 3))
    return x, np.concatenate([faces, faces + len(flat)]), np.repeat([0, 1], len(flat))


@pytest.mark.parametrize("turn", [0.0, 0.3])
def test_whole_meshes_have_the_contacts_of_the_toolkit(turn):
    both = Both(*sheets(turn=turn), distance=4e-3, thickness=1e-4)
    assert len(both.met) == len(both.theirs) > 500
    assert both.met.value(both.shape) == pytest.approx(
        both.barrier(both.theirs, both.toolkit, both.y), rel=CLOSE
    )
    assert_close(both.gradient(), both.barrier.gradient(both.theirs, both.toolkit, both.y).reshape(-1, 3))
    method = ipctk.PSDProjectionMethod.CLAMP
    theirs = both.barrier.hessian(both.theirs, both.toolkit, both.y, method).toarray()
    assert_close(both.hessian(project=True), theirs)


@pytest.mark.parametrize("seed", range(3))
def test_squared_distances_of_random_and_degenerate_pairs(seed):
    """Also of points on a grid, where many are on a line or in a plane."""
    rng = np.random.default_rng(seed)
    every = [rng.normal(size=(3000, 4, 3)), rng.integers(-2, 3, size=(3000, 4, 3)).astype(float)]
    x = np.concatenate(every)
    area = np.linalg.norm(np.cross(x[:, 2] - x[:, 1], x[:, 3] - x[:, 1]), axis=1)
    long = (x[:, 0] != x[:, 1]).any(1) & (x[:, 2] != x[:, 3]).any(1)
    for chosen, ours, theirs in (
        (area > 0, distances.squared_distance_triangle, ipctk.point_triangle_distance),
        (long, distances.squared_distance_edges, ipctk.edge_edge_distance),
    ):
        wanted = np.array([theirs(*points) for points in x[chosen]])
        found = np.array([ours(*tuples(points)) for points in x[chosen]])
        assert len(found) > 5000
        assert (np.abs(found - wanted) <= np.maximum(CLOSE * wanted, 1e-14)).all()


class TestImpacts:
    SHARE = 0.9

    def queries(self, rng, count):
        """Primitives of four points near each other, and where these go: half of them head on."""
        x = rng.uniform(-1, 1, size=(count, 4, 3))
        y = x + rng.choice([0.1, 1.0, 3.0], size=(count, 1, 1)) * rng.normal(size=x.shape)
        head_on = rng.random(count) < 0.5
        y[head_on] = x[head_on] + 0.05 * rng.normal(size=(head_on.sum(), 4, 3))
        y[head_on, 0] += 2 * (x[head_on, 1:].mean(1) - x[head_on, 0])
        return x, y

    def ours(self, x, y, first, thickness=0.0, *, at_once=False):
        """Each query by itself, or all at once."""
        count = len(x)
        at = np.ascontiguousarray(x.reshape(-1, 3)), np.ascontiguousarray(y.reshape(-1, 3))
        rows, limits = np.arange(4 * count).reshape(-1, 4), ImpactLimits(thickness, self.SHARE, 100_000)
        out = np.empty(count)
        if first == 1:
            pairs, cells = np.stack([rows[:, 0], np.arange(count)], 1), rows[:, 1:].copy()
        else:
            pairs, cells = np.arange(2 * count).reshape(-1, 2), rows.reshape(-1, 2)
        run = ccd.face_impacts if first == 1 else ccd.edge_impacts
        pairs = pairs.astype(np.int32)
        nothing = np.empty(0)
        other = np.empty((0, 2 if first == 1 else 3), np.int64)
        cells = (cells, other) if first == 1 else (other, cells)
        surface = SurfaceArrays(*cells, nothing, nothing, nothing, nothing, np.zeros(4 * count))
        for k in range(0, count, count if at_once else 1):
            run(k, count if at_once else k + 1, at, surface, pairs, limits, out)
        return out

    @pytest.mark.parametrize("first", [1, 2])
    def test_never_later_than_the_tight_answer_and_not_much_earlier(self, first):
        """50,000 queries of each kind; where we stop, 10 to 16 % of the first gap are left."""
        x, y = self.queries(np.random.default_rng(first), 50_000)
        ours = self.ours(x, y, first)
        tight = ipctk.TightInclusionCCD(1e-6, 100_000, 1.0)
        ask = tight.point_triangle_ccd if first == 1 else tight.edge_edge_ccd
        squared = distances.squared_distance_triangle if first == 1 else distances.squared_distance_edges
        assert (ours <= 1).all()
        for p, q, t in zip(x, y, ours, strict=True):
            # Whether there is an impact until then takes far less time than when the first one is.
            hit, _ = ask(*p, *q, 0.0, t)
            assert not hit
            if t < 1:
                left = np.sqrt(squared(*tuples(p + t * (q - p))) / squared(*tuples(p)))
                # With a little more for rounding, where primitives of 1 are 1e-4 apart.
                assert 0.0999 < left < 0.1 + 0.9 / 16 + 1e-4
        some = [ask(*p, *q) for p, q in zip(x[::10], y[::10], strict=True)]
        assert all(t < impact for t, (hit, impact) in zip(ours[::10], some, strict=True) if hit)
        assert sum(hit for hit, _ in some) > 300

    @pytest.mark.parametrize("first", [1, 2])
    def test_the_least_of_all_does_not_depend_on_their_order(self, first):
        x, y = self.queries(np.random.default_rng(9), 3000)
        y = x + 0.3 * (y - x)
        ours = self.ours(x, y, first)
        late = np.sort(np.flatnonzero(ours > 0.5))
        for chosen in (late, late[::-1]):
            assert self.ours(x[chosen], y[chosen], first, at_once=True).min() == ours[late].min()

    @pytest.mark.parametrize("first", [1, 2])
    def test_thickness_is_kept_all_along(self, first):
        x, y = self.queries(np.random.default_rng(first + 5), 3000)
        squared = distances.squared_distance_triangle if first == 1 else distances.squared_distance_edges
        apart = np.array([squared(*tuples(p)) for p in x]) > 0.1**2
        x, y = x[apart], y[apart]
        for p, q, t in zip(x, y, self.ours(x, y, first, thickness=0.05), strict=True):
            for s in np.linspace(0, t, 7):
                assert squared(*tuples(p + s * (q - p))) > 0.05**2

    def test_what_touches_does_not_move(self):
        x = np.array([[[0.2, 0.2, 0.0], [0, 0, 0], [1, 0, 0], [0, 1, 0]]])
        assert (
            self.ours(x, x + np.array([[[0, 0, -1.0]], [[0, 0, 0]]])[[0, 1, 1, 1]].reshape(1, 4, 3), 1) == 0
        )
        assert self.ours(x, x, 1, thickness=0.1) == 0


class TestSearch:
    def brute_force(self, mesh, x, reach):
        """All pairs without a common vertex that are within the reach."""
        faces, edges = mesh.arrays.faces, mesh.arrays.edges
        by_face = {
            (v, f)
            for v, f in product(range(len(x)), range(len(faces)))
            if v not in faces[f]
            and distances.squared_distance_triangle(*tuples(x[[v, *faces[f]]])) <= reach**2
        }
        by_edge = {
            (e, f)
            for e, f in combinations(range(len(edges)), 2)
            if not set(edges[e]) & set(edges[f])
            and distances.squared_distance_edges(*tuples(x[[*edges[e], *edges[f]]])) <= reach**2
        }
        return by_face, by_edge

    def as_sets(self, candidates):
        by_face = list(map(tuple, candidates.faces.tolist()))
        by_edge = [tuple(sorted(pair)) for pair in candidates.edges.tolist()]
        assert len(set(by_face)) == len(by_face)
        assert len(set(by_edge)) == len(by_edge)
        return set(by_face), set(by_edge)

    @pytest.mark.parametrize("reach", [3e-3, 0.3])
    def test_still_meshes_have_the_pairs_of_brute_force(self, reach):
        x, faces, parts = sheets(cells=4)
        mesh = CollisionMesh(x, faces, parts, np.full(len(x), -1))
        assert self.as_sets(mesh.candidates(x, x, reach)) == self.brute_force(mesh, x, reach)

    def test_pairs_of_a_way_and_of_what_is_near_it(self):
        x, faces, parts = sheets(cells=4)
        rng = np.random.default_rng(3)
        mesh = CollisionMesh(x, faces, parts, np.full(len(x), -1))
        y = (
            x + [0.5, 0.0, 0.0] + 0.05 * rng.normal(size=x.shape)
        )  # all of it moves, and some more than others
        y[parts == 1] += [0.0, 0.1, 0.2]
        found = self.as_sets(mesh.candidates(x, y, 5e-3, 2e-3))
        for t in (0.0, 0.3, 0.7, 1.0):
            there = x + t * (y - x) + rng.uniform(-2e-3, 2e-3, size=x.shape)
            for ours, wanted in zip(found, self.brute_force(mesh, there, 5e-3), strict=True):
                assert wanted <= ours

    def test_what_may_not_meet_is_not_found(self):
        x, faces, parts = sheets(cells=4)
        free = np.full(len(x), -1)

        def found(patch, ignored=()):
            mesh = CollisionMesh(x, faces, parts, patch, ignored)
            return mesh, self.as_sets(mesh.candidates(x, x, 0.3))

        _, (every, _) = found(free)
        for patch, ignored in ((np.where(parts == 0, 0, -1), ()), (free, [(0, 0)])):
            mesh, (by_face, by_edge) = found(patch, ignored)
            sides = {(parts[v], parts[faces[f, 0]]) for v, f in by_face}
            assert sides == {(0, 1), (1, 0), (1, 1)}
            assert by_face == {(v, f) for v, f in every if (parts[v], parts[faces[f, 0]]) != (0, 0)}
            assert {parts[mesh.arrays.edges[e, 0]] + parts[mesh.arrays.edges[f, 0]] for e, f in by_edge} == {
                1,
                2,
            }
        assert found(np.zeros(len(x), int))[1] == (set(), set())
        assert found(free, [(0, 0), (0, 1), (1, 1)])[1] == (set(), set())
        mesh = CollisionMesh(x, faces, parts, free)
        blocked = [(30, v) for v in range(25)]
        mesh.block(blocked)
        assert not mesh.may_meet(30, 3)
        assert not mesh.may_meet(3, 30)
        assert mesh.may_meet(31, 3)
        by_face, _ = self.as_sets(mesh.candidates(x, x, 0.3))
        # A face with the blocked vertex may be met by others' vertices through its own other corners.
        assert by_face == {(v, f) for v, f in every if not (v == 30 and faces[f, 0] < 25)}

    def test_too_many_are_given_up(self):
        x, faces, parts = sheets(cells=6)
        mesh = CollisionMesh(x, faces, parts, np.full(len(x), -1))
        assert mesh.few_candidates(x, x, 1.0, 0.0, most=100) is None
        assert len(mesh.candidates(x, x, 1.0).faces) > 2000


class TestCrossings:
    def test_the_sure_answers_are_the_exact_ones(self):
        rng = np.random.default_rng(0)
        flat = rng.integers(-3, 4, size=(1500, 5, 3)).astype(float)
        flat[:, :, 2] = flat[:, :, 0] - 2 * flat[:, :, 1]
        turned = flat @ Rotation.from_rotvec([0.3, 1.1, -0.7]).as_matrix().T  # flat to rounding
        every = [rng.normal(size=(1500, 5, 3)), rng.integers(0, 3, size=(1500, 5, 3)).astype(float)]
        seen = set()
        for x in np.concatenate([*every, flat, turned]):
            sure = crossing(*tuples(x))
            seen.add(sure)
            if sure != UNSURE:
                assert crosses(x[:2], x[2:]) == (sure == YES)
        assert seen == {NO, YES, UNSURE}

    @pytest.mark.parametrize("turn", [[0, 0, 0], [0.3, 1.1, -0.7]])
    def test_flat_sheets_need_no_exact_arithmetic(self, monkeypatch, turn):
        """Each edge lies in the plane of the triangles around it, and whole numbers take 50 us a pair."""

        def refuse(edge, triangle):
            raise AssertionError("asked for an exact answer")

        monkeypatch.setattr("pointglue.elastic.contact.collision_mesh.crosses", refuse)
        points, faces = sheet_grid((1.0, 1.3), (12, 9))
        x = points @ Rotation.from_rotvec(turn).as_matrix().T + [0.003, 0.36, 0.007]
        mesh = CollisionMesh(x, faces, np.zeros(len(x), int), np.full(len(x), -1))
        assert len(mesh.crossings(x)) == 0

    def test_exact_answers(self):
        triangle = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], float)
        for edge, wanted in (
            ([[0.2, 0.2, -1], [0.2, 0.2, 1]], True),
            ([[0.2, 0.2, 0], [0.2, 0.2, 1]], True),  # touches from above
            ([[0.2, 0.2, 1e-300], [0.2, 0.2, 1]], False),
            ([[1, 0, -1], [1, 0, 1]], True),  # through a corner
            ([[0.5, 0.5, -1], [0.5, 0.5, 1]], True),  # through a side
            ([[np.nextafter(0.5, 1), 0.5, -1], [np.nextafter(0.5, 1), 0.5, 1]], False),
            ([[-1, 0.2, 0], [2, 0.2, 0]], True),  # in its plane
            ([[0.1, 0.1, 0], [0.2, 0.2, 0]], True),  # inside
            ([[-1, -0.2, 0], [2, -0.2, 0]], False),
            ([[0.6, 0.6, 0], [2, 2, 0]], False),
            ([[1, 0, 0], [2, 0, 0]], True),
        ):
            assert crosses(np.array(edge, float), triangle) is wanted
        assert Fraction(0.1) != Fraction(1, 10)  # floats are what they are

    def test_whole_numbers_against_linear_programming(self, rng):
        """Points p + t (q - p) and a + u (b - a) + v (c - a) that are equal: most cases are degenerate.

        Few values have what is flat, in one line and in one point, and half of them are in one plane.
        """
        answers = []
        while len(answers) < 400:
            x = rng.integers(-2, 3, (5, 3)).astype(float)
            if len(answers) % 2:
                x[:, rng.integers(3)] = x @ rng.integers(-1, 2, 3)
            p, q, a, b, c = x
            if not np.cross(b - a, c - a).any() or (p == q).all():
                continue
            sides = np.array([q - p, a - b, a - c]).T
            found = linprog(
                np.zeros(3), A_ub=[[0, 1, 1]], b_ub=[1], A_eq=sides, b_eq=a - p, bounds=[(0, 1)] * 3
            )
            assert found.status in (0, 2)  # solved, or infeasible
            # Moved, so that no plane goes through the origin.
            assert crosses(x[:2] + [5, 7, 11], x[2:] + [5, 7, 11]) == (found.status == 0)
            answers.append((found.status == 0, np.linalg.det([q - p, b - a, c - a]) == 0))
        assert len(set(answers)) == 4  # yes and no, across the plane and parallel to it

    @pytest.mark.parametrize("seed", range(4))
    def test_meshes_cross_where_the_toolkit_says(self, seed):
        x, faces, parts = sheets(cells=6, seed=seed)
        x[parts == 1, 1] += 0.03 * np.sin(9 * x[parts == 1, 0]) - (0.001 if seed % 2 else -0.04)
        mesh = CollisionMesh(x, faces, parts, np.full(len(x), -1))
        found = mesh.crossings(x)
        edges, triangles = mesh.arrays.edges, mesh.arrays.faces
        apart = (edges[:, None, :, None] != triangles[None, :, None, :]).all((2, 3))
        ends, corners = list(x[edges]), list(x[triangles])
        wanted = {
            (e, f)
            for e, f in np.argwhere(apart).tolist()
            if ipctk.is_edge_intersecting_triangle(*ends[e], *corners[f])
        }
        assert set(map(tuple, found.tolist())) == wanted
        assert bool(wanted) == bool(seed % 2)


def test_the_same_bytes_on_any_number_of_threads():
    x, faces, parts = sheets(cells=48)
    mesh = CollisionMesh(x, faces, parts, np.full(len(x), -1))

    def everything():
        candidates = mesh.candidates(x, x, 4e-3, 1e-3)
        met = ContactSet(mesh, x, candidates, 4e-3)
        shape = BarrierShape(4e-3, 0.0, 1e3)
        gradient, H = np.zeros_like(x), np.empty((len(met), 12, 12))
        met.add_gradient(shape, gradient)
        met.hessians(shape, H, project=True)
        blocks = summed_blocks(met.contacts.points, H, len(x))
        return [*candidates, met.value(shape), gradient, *blocks]

    with pg.threads(1):
        one = everything()
    with pg.threads(3):
        three = everything()
    assert len(one[0]) > 5000
    assert all(np.array_equal(a, b) for a, b in zip(one, three, strict=True))
