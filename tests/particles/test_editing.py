"""Edits of a body: what each changes, what it leaves alone, and that whatever comes out can be simulated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, pdist

from pointglue.errors import InputError
from pointglue.geometry.shapes import box
from pointglue.geometry.shapes import skin as surface
from pointglue.particles import OrientedBody, ParticleSolver, block, rope
from pointglue.particles.authoring.editing import (
    Brush,
    add,
    bind,
    connect,
    cut,
    erase,
    group,
    paint,
    pin,
    spray,
    ungroup,
)
from pointglue.particles.authoring.skinning import Skin

EVERYWHERE = Brush((0, 0, 0), 100.0)


def bar(**options):
    """Six particles in a row along x within a bar, all different."""
    options = {"stiffness": np.arange(1, 7) / 10, "stretch": 0.0, **options}
    body = rope((-1, 0, 0), (1, 0, 0), particles=6, radius=0.2, **options)
    vertices, faces = box((2.4, 0.5, 0.5), (12, 3, 3))
    return body.replace(torsion=np.arange(1, 6) / 10, visual=Skin.of(vertices, faces, body.positions))


def fork():
    """Two chains of nine in the prongs of a fork along x, 0.16 apart; the prongs have 0.06 between them."""

    def distance(place):
        bars = [
            ([0.5, 0, 0.08], [0.5, 0.05, 0.05]),
            ([0.5, 0, -0.08], [0.5, 0.05, 0.05]),
            ([0, 0, 0], [0.08, 0.05, 0.13]),
        ]
        outside = [np.abs(place - centre) - half for centre, half in bars]
        return np.min(
            [np.linalg.norm(np.maximum(q, 0), axis=1) + np.minimum(q.max(1), 0) for q in outside], axis=0
        )

    vertices, faces = surface(distance, (-0.2, -0.15, -0.25), (1.15, 0.15, 0.25), 0.03)
    along = np.linspace(0, 0.95, 9)
    points = np.concatenate([np.stack([along, 0 * along, np.full(9, z)], axis=1) for z in (0.08, -0.08)])
    links, weights = np.zeros((len(vertices), 4), int), np.tile([1.0, 0, 0, 0], (len(vertices), 1))
    return OrientedBody(points, radii=0.05, loose=True, visual=Skin(vertices, faces, links, weights))


def same(one, two, *but):
    """Whether two bodies agree in all fields but some."""
    for name in one.__dataclass_fields__:
        if name in but or name == "visual":
            continue
        a, b = getattr(one, name), getattr(two, name)
        if name == "groups":
            assert len(a) == len(b)
            assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
        else:
            np.testing.assert_array_equal(a, b, err_msg=name)


class TestBrush:
    def test_a_ball(self):
        points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1.1, 0]])
        np.testing.assert_array_equal(Brush((0, 0, 0), 1).covers(points), [True, True, False])
        np.testing.assert_array_equal(Brush((0, 0, 0), 1).strength(points), [1, 1, 0])

    def test_a_smooth_one_fades(self):
        points = np.array([[0.0, 0, 0], [0, 0.5, 0], [1, 0, 0], [0, 1.1, 0]])
        np.testing.assert_allclose(Brush((0, 0, 0), 1, smooth=True).strength(points), [1, 0.5625, 0, 0])


def test_a_mask_says_the_same_as_numbers():
    body = bar(groups=[[0, 1], [4, 5]], yield_speed=[1.0, 2.0])
    mask = np.array([False, True, False, True, False, False])
    same(erase(body, mask), erase(body, [1, 3]))
    same(paint(body, mask, "creep", 2.0), paint(body, [1, 3], "creep", 2.0))
    same(paint(body, mask[1:], "torsion", 1.0), paint(body, [0, 2], "torsion", 1.0))
    same(group(body, mask), group(body, [1, 3]))
    same(ungroup(body, [False, True]), ungroup(body, [1]))
    bound = bind(body, body.visual.vertices[:, 0] > 0, mask).visual
    expected = bind(body, np.flatnonzero(body.visual.vertices[:, 0] > 0), [1, 3]).visual
    np.testing.assert_array_equal(bound.links, expected.links)
    assert erase(body, np.zeros(6, bool)) is body


def test_pin_and_let_go():
    body = pin(bar(), Brush((-1, 0, 0), 0.5))
    np.testing.assert_array_equal(body.pinned, [True, True, False, False, False, False])
    same(body, bar(), "pinned")
    np.testing.assert_array_equal(pin(body, [1, 2], pinned=False).pinned, [True] + [False] * 5)


class TestAdd:
    def test_new_ones_are_like_the_nearest(self):
        body = add(bar(creep=0.5), [[1.1, 0.3, 0], [-1.2, 0, 0]], radii=[0.1, 0.3])
        same_as = bar(creep=0.5)
        assert len(body) == 8
        np.testing.assert_array_equal(body.positions[:6], same_as.positions)
        np.testing.assert_array_equal(body.radii[6:], [[0.1] * 3, [0.3] * 3])
        np.testing.assert_array_equal(body.stiffness[6:], [0.6, 0.1])
        np.testing.assert_array_equal(body.creep[6:], 0.5)
        np.testing.assert_allclose(body.mass[6:] / body.radii[6:].prod(1), 1000 * 4 / 3 * np.pi)
        np.testing.assert_array_equal(body.torsion, same_as.torsion)
        assert body.loose

    def test_loose_until_connected(self):
        body = add(bar(), [[1.5, 0, 0]], radii=0.1)
        assert body.loose
        assert not connect(body, [[5, 6]]).loose
        assert not group(body, [5, 6]).loose


class TestSpray:
    @pytest.mark.parametrize(
        "cells", [(1, 1, 1), (30, 8, 8)]
    )  # triangles much larger than the brush, and smaller
    def test_blue_noise_on_the_mesh(self, cells):
        vertices, faces = box((4.0, 1.0, 1.0), cells)
        body = OrientedBody([[0.0, 0.5, 0.0]], radii=0.01, visual=Skin.of(vertices, faces, [[0.0, 0.5, 0]]))
        brush = Brush((0.3, 0.5, 0.1), 0.7)
        sprayed = spray(body, brush, spacing=0.1)
        new = sprayed.positions[1:]
        assert pdist(sprayed.positions).min() >= 0.1
        assert brush.covers(new).all()
        np.testing.assert_allclose(np.abs(new / [2, 0.5, 0.5]).max(1), 1, atol=1e-14)  # on the surface
        # Nowhere in the brush is there room for a ball twice the spacing: the top side, and the front.
        grid = np.stack(np.meshgrid(np.linspace(-0.4, 1, 60), np.linspace(-0.5, 0.5, 40)), -1).reshape(-1, 2)
        top = np.insert(grid, 1, 0.5, axis=1)
        front = np.stack([grid[:, 0], grid[:, 1], np.full(len(grid), 0.5)], axis=1)
        places = np.concatenate([top, front])
        places = places[np.linalg.norm(places - brush.centre, axis=1) < 0.7]
        assert cdist(places, sprayed.positions).min(1).max() < 0.15
        np.testing.assert_array_equal(sprayed.radii[1:], 0.05)

    def test_points_are_spread_evenly(self):
        """As many on one half of the top as on the other, whatever the triangles."""
        vertices, faces = box((4.0, 0.01, 4.0), (1, 1, 1))
        body = OrientedBody([[0.0, 9.0, 0.0]], radii=0.01, visual=Skin.of(vertices, faces, [[0.0, 0, 0]]))
        new = spray(body, Brush((0, 0, 0), 1.5), spacing=0.1).positions[1:]
        for side in np.eye(3)[[0, 2]]:
            assert abs((new @ side > 0).mean() - 0.5) < 0.05
        inner = np.linalg.norm(new[:, [0, 2]], axis=1) < 1.5 / np.sqrt(2)
        assert abs(inner.mean() - 0.5) < 0.05

    def test_what_is_across_a_gap_leaves_room(self):
        mesh = fork().visual
        body = OrientedBody([[0.0, 0, 0]], radii=0.05, visual=mesh)
        brush = Brush((0.7, 0, 0), 0.25)
        new = spray(body, brush, spacing=0.1).positions[1:]
        one, two = new[new[:, 2] > 0], new[new[:, 2] < 0]
        assert min(pdist(one).min(), pdist(two).min()) >= 0.1
        assert cdist(one, two).min() < 0.1
        # Both walls of the gap are covered by particles of their own.
        for mine, side in ((one, 1), (two, -1)):
            wall = mesh.vertices[
                brush.covers(mesh.vertices) & (np.abs(side * mesh.vertices[:, 2] - 0.03) < 0.01)
            ]
            assert len(wall) > 20
            assert cdist(wall, mine).min(1).max() < 0.15

    def test_in_a_bowl_they_keep_their_distance(self):
        """There no straight line between two places on the surface is inside."""

        def bowl(place):
            r = np.linalg.norm(place, axis=1)
            return np.maximum(np.maximum(r - 1, 0.8 - r), place[:, 1])

        vertices, faces = surface(bowl, (-1.2, -1.2, -1.2), (1.2, 0.2, 1.2), 0.1)
        body = OrientedBody([[0, -0.9, 0.0]], radii=0.05, visual=Skin.of(vertices, faces, [[0, -0.9, 0.0]]))
        new = spray(body, Brush((0, -0.8, 0), 0.5), spacing=0.2).positions[1:]
        assert len(new) > 20
        assert pdist(new).min() >= 0.2

    def test_the_seed_decides(self):
        one, two, three = (spray(bar(), EVERYWHERE, spacing=0.2, seed=seed) for seed in (1, 1, 2))
        same(one, two)
        assert len(one) != len(three) or (one.positions != three.positions).any()

    def test_where_there_is_room_no_more_it_stays(self):
        full = spray(bar(), EVERYWHERE, spacing=0.3)
        assert len(spray(full, EVERYWHERE, spacing=0.3, seed=1)) - len(full) < 0.1 * len(full)
        body = bar()
        assert spray(body, Brush((0, 9, 0), 1), spacing=0.1) is body


class TestErase:
    def test_everything_is_renumbered(self):
        body = bar(groups=[[0, 1, 2], [3], [4, 5]], yield_speed=[1.0, 2.0, 3.0])
        left = erase(body, [3, 1])
        kept = [0, 2, 4, 5]
        for name in ("positions", "stiffness", "mass", "orientations", "radii"):
            np.testing.assert_array_equal(getattr(left, name), getattr(body, name)[kept])
        np.testing.assert_array_equal(left.edges, [[2, 3]])
        np.testing.assert_array_equal(left.torsion, [0.5])
        assert [g.tolist() for g in left.groups] == [[0, 1], [2, 3]]
        np.testing.assert_array_equal(left.yield_speed, [1, 3])
        same(erase(body, Brush(body.positions[1], 0.1)), erase(body, [1]))
        assert erase(body, []) is body

    def test_vertices_keep_what_is_left_to_them(self):
        body = bar()
        left = erase(body, [0])
        before, after = body.visual, left.visual
        free = ~((before.links == 0) & (before.weights > 0)).any(1)
        assert free.any()
        assert not free.all()
        np.testing.assert_array_equal(after.weights[free & (before.links > 0).all(1)],
                                      before.weights[free & (before.links > 0).all(1)])  # fmt: skip
        for skin, shift in ((before, 0), (after, 1)):
            table = np.zeros((len(skin), 6))
            np.add.at(table, (np.arange(len(skin))[:, None], skin.links + shift), skin.weights)
            if shift == 0:
                expected = table.copy()
                expected[:, 0] = 0
                expected /= expected.sum(1, keepdims=True)
        np.testing.assert_allclose(table, expected, atol=1e-15)
        np.testing.assert_allclose(left.skin(left.start()), before.vertices, atol=1e-15)

    def test_vertices_that_lost_all_are_bound_to_the_nearest_left(self):
        body = bind(bar(), Brush((-1, 0, 0), 0.5), [0])
        mine = Brush((-1, 0, 0), 0.5).covers(body.visual.vertices)
        assert mine.any()
        left = erase(body, [0])
        fresh = Skin.of(body.visual.vertices, body.visual.faces, left.positions)
        np.testing.assert_array_equal(left.visual.links[mine], fresh.links[mine])
        np.testing.assert_array_equal(left.visual.weights[mine], fresh.weights[mine])

    def test_a_body_without_a_mesh(self):
        assert erase(block((1, 1, 1), (2, 2, 2)), [0]).visual is None


class TestEdges:
    def test_connect_within_the_brush(self):
        body = bar()
        near = connect(body, Brush((-0.6, 0, 0), 0.45), longest=1.0, stretch=0.3)
        np.testing.assert_array_equal(near.edges[5:], [[0, 2]])  # 0, 1 and 2 are in, two edges were there
        np.testing.assert_array_equal(near.stretch, [0] * 5 + [0.3])
        np.testing.assert_array_equal(near.torsion, [0.1, 0.2, 0.3, 0.4, 0.5, 0])
        assert connect(body, EVERYWHERE, longest=0.5) is body
        same(body, near, "edges", "stretch", "torsion")

    def test_connect_does_not_leap_a_gap(self):
        body = fork()
        joined = connect(body, EVERYWHERE, longest=0.17)
        chain = [[i, i + 1] for i in range(8)]
        # The roots of the prongs see each other; all other pairs 0.16 apart do not.
        expected = [[0, 1], [0, 9], *chain[1:], *([i + 9, j + 9] for i, j in chain)]
        np.testing.assert_array_equal(joined.edges, expected)
        straight = connect(body.replace(visual=None), EVERYWHERE, longest=0.17)
        assert len(straight.edges) == 16 + 9
        np.testing.assert_array_equal(connect(body, [[8, 17]]).edges, [[8, 17]])  # who says so means it

    def test_connect_over_a_folded_sheet(self):
        """One sheet lies 0.05 above the other, joined along x = 0; particles are on the vertices."""
        u, z = np.meshgrid(np.linspace(-0.5, 0.5, 21), np.linspace(0, 0.5, 11))
        points = np.stack([np.abs(u), 0.05 * np.sign(u) * (np.abs(u) > 0.01), z], axis=-1).reshape(-1, 3)
        number = np.arange(21 * 11).reshape(11, 21)
        faces = np.stack([number[:-1, :-1], number[:-1, 1:], number[1:, 1:], number[1:, :-1]], -1)
        body = OrientedBody(
            points, radii=0.01, loose=True, visual=Skin.of(points, faces.reshape(-1, 4), points)
        )
        edges = connect(body, EVERYWHERE, longest=0.12).edges
        upper, lower = u.ravel() > 0.01, u.ravel() < -0.01
        across = edges[(upper[edges] & lower[edges[:, ::-1]]).any(1)]
        # 0.1 apart, but 0.14 over the fold.
        assert not len(across)
        flat = edges[upper[edges].all(1)]
        near = pdist(points[upper]) <= 0.12
        assert len(flat) == near.sum()

    def test_connect_beside_other_components(self):
        body = bar()
        vertices, faces = body.visual.vertices, body.visual.faces
        both = (
            np.concatenate([vertices, vertices + [0, 0.6, 0]]),
            np.concatenate([faces, faces + len(vertices)]),
        )
        body = OrientedBody(
            np.concatenate([body.positions, body.positions + [0, 0.6, 0]]),
            radii=0.1,
            loose=True,
            visual=Skin(*both, np.tile(body.visual.links, (2, 1)), np.tile(body.visual.weights, (2, 1))),
        )
        edges = connect(body, EVERYWHERE, longest=0.65).edges
        assert len(edges) == 10
        assert ((edges < 6).all(1) | (edges >= 6).all(1)).all()

    def test_connect_pairs(self):
        body = connect(bar(), [[5, 0], [0, 5], [1, 0]], torsion=0.9)
        np.testing.assert_array_equal(body.edges[5:], [[5, 0]])
        assert body.torsion[5] == 0.9

    def test_cut_what_passes_through(self):
        body = bar()
        left = cut(body, Brush((0, 0.05, 0), 0.1))  # the middle of the third edge; no particle is near
        np.testing.assert_array_equal(left.edges, [[0, 1], [1, 2], [3, 4], [4, 5]])
        np.testing.assert_array_equal(left.torsion, [0.1, 0.2, 0.4, 0.5])
        same(left, cut(body, [[3, 2]]))
        assert not left.loose
        assert cut(body, [[0, 1]]).loose
        assert cut(body, Brush((0, 1, 0), 0.5)) is body
        assert len(cut(body, EVERYWHERE).edges) == 0


class TestPaint:
    def test_particles_and_edges(self):
        body = bar()
        np.testing.assert_array_equal(
            paint(body, Brush((-1, 0, 0), 0.5), "stiffness", 1.0).stiffness, [1, 1, 0.3, 0.4, 0.5, 0.6]
        )
        np.testing.assert_array_equal(paint(body, [0, 2], "mass", 7.0).mass[[0, 2]], 7)
        stiff = paint(body, Brush((0, 0, 0), 0.1), "torsion", 1.0)
        np.testing.assert_array_equal(stiff.torsion, [0.1, 0.2, 1, 0.4, 0.5])
        np.testing.assert_array_equal(paint(body, [4], "stretch", 0.5).stretch, [0, 0, 0, 0, 0.5])
        same(body, stiff, "torsion")

    def test_strength_and_falloff(self):
        body = bar(creep=2.0)
        np.testing.assert_allclose(paint(body, [0], "creep", 4.0, strength=0.25).creep, [2.5] + [2] * 5)
        soft = paint(body, Brush(body.positions[2], 0.8, smooth=True), "creep", 4.0)
        np.testing.assert_allclose(soft.creep, [2, 3.125, 4, 3.125, 2, 2])

    def test_infinity_is_all_or_nothing(self):
        body = paint(bar(), [0, 1], "yield_strain", 0.5, strength=0.1)
        np.testing.assert_array_equal(body.yield_strain, [0.5, 0.5] + [np.inf] * 4)
        back = paint(body, [1], "yield_strain", np.inf, strength=0.1)
        np.testing.assert_array_equal(back.yield_strain, [0.5] + [np.inf] * 5)


class TestGroups:
    def test_group_and_ungroup(self):
        body = group(bar(), Brush((-1, 0, 0), 0.5), yield_speed=3.0)
        body = group(body, [4, 5])
        assert [g.tolist() for g in body.groups] == [[0, 1], [4, 5]]
        np.testing.assert_array_equal(body.yield_speed, [3, np.inf])
        rest = ungroup(body, [0])
        assert [g.tolist() for g in rest.groups] == [[4, 5]]
        np.testing.assert_array_equal(rest.yield_speed, [np.inf])
        same(rest, ungroup(body, Brush((-1, 0, 0), 0.1)))
        assert ungroup(body, EVERYWHERE).groups == ()


class TestBind:
    def test_all(self):
        body = add(bar(), [[0, 0.1, 0]], radii=0.1)
        assert (body.visual.links < 6).all()
        bound = bind(body)
        expected = Skin.of(body.visual.vertices, body.visual.faces, body.positions)
        np.testing.assert_array_equal(bound.visual.links, expected.links)
        np.testing.assert_array_equal(bound.visual.weights, expected.weights)

    def test_chosen_vertices_to_chosen_particles(self):
        body = bar()
        vertices, particles = Brush((1, 0, 0), 0.7), [2, 3]
        bound = bind(body, vertices, particles)
        mine = vertices.covers(body.visual.vertices)
        assert mine.any()
        used = bound.visual.weights[mine] > 0
        assert set(bound.visual.links[mine][used]) == {2, 3}
        np.testing.assert_array_equal(bound.visual.links[~mine], body.visual.links[~mine])
        np.testing.assert_array_equal(bound.visual.weights[~mine], body.visual.weights[~mine])
        assert bind(body, [], [0]) is body
        # The shape has not changed, and is not sorted again.
        assert bound.visual.inside is body.visual.inside


BAR = bar()
BRUSH = st.builds(Brush, st.tuples(*[st.floats(-1.25, 1.25)] * 3), st.floats(0.1, 1.5), st.booleans())
EDITS = {
    "spray": lambda body, brush, other, x: spray(body, brush, spacing=0.3 + 0.2 * x),
    "erase": lambda body, brush, other, x: erase(body, brush),
    "connect": lambda body, brush, other, x: connect(body, brush, longest=0.2 + x, stretch=x),
    "cut": lambda body, brush, other, x: cut(body, brush),
    "stiffness": lambda body, brush, other, x: paint(body, brush, "stiffness", x, strength=x),
    "torsion": lambda body, brush, other, x: paint(body, brush, "torsion", x),
    "creep": lambda body, brush, other, x: paint(paint(body, brush, "creep", x), other, "yield_strain", x),
    "group": lambda body, brush, other, x: group(body, brush, yield_speed=x),
    "ungroup": lambda body, brush, other, x: ungroup(body, brush),
    "bind": lambda body, brush, other, x: bind(body, brush, other),
    "bind all": lambda body, brush, other, x: bind(body),
}
EDIT = st.tuples(st.sampled_from(sorted(EDITS)), BRUSH, BRUSH, st.floats(0, 1))


@settings(max_examples=60)
@given(st.lists(EDIT, min_size=1, max_size=8))
def test_any_edits_make_a_body_that_can_be_simulated(edits):
    body, refused = BAR, set()
    for name, brush, other, x in edits:
        try:
            body = EDITS[name](body, brush, other, x)
        except InputError as error:
            refused.add(str(error).split(":")[0])
    # The brush found nothing, or all.
    assert refused <= {"where covers every particle", "where covers no particle", "particles covers none"}
    np.testing.assert_allclose(body.skin(body.start()), BAR.visual.vertices, atol=1e-14)
    solver = ParticleSolver(body)
    state = solver.step(solver.step(solver.start(), 1 / 60), 1 / 60)
    assert np.isfinite(body.skin(state)).all()
    assert np.isfinite(body.skin(state, blend="dual")).all()
    assert len(body) == 1 or body.loose == bool(
        set(range(len(body)))
        - set(body.edges.ravel().tolist())
        - {i for g in body.groups for i in g.tolist()}
    )


def test_none_is_the_whole_body():
    body = group(group(bar(), [0, 1]), [3])
    assert pin(body, None).pinned.all()
    assert (paint(body, None, "stiffness", 0.25).stiffness == 0.25).all()
    assert (paint(body, None, "torsion", 0.5).torsion == 0.5).all()
    assert len(group(body, None).groups[-1]) == len(body)
    assert ungroup(body, None).groups == ()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda b: Brush((0, 0), 1), r"centre must have shape \(3,\), got \(2,\)"),
        (lambda b: Brush((0, 0, np.nan), 1), "centre must be finite"),
        (lambda b: Brush((0, 0, 0), 0), "radius must be a finite number above 0, got 0"),
        (lambda b: Brush((0, 0, 0), "1"), "radius must be a finite number above 0, got '1'"),
        (lambda b: Brush((0, 0, 0), 1, smooth="no"), "smooth must be True or False, got 'no'"),
        (lambda b: erase(b, [True, False]), r"where is a mask of shape \(2,\), but there are 6 particles"),
        (lambda b: paint(b, np.ones(6, bool), "torsion", 1), r"where is a mask .* there are 5 edges"),
        (lambda b: pin(b, [6]), "where holds 6, but there are 6 particles"),
        (lambda b: pin(b, [0], pinned=1), "pinned must be True or False, got 1"),
        (lambda b: add(b, b.positions[:1], radii=0.1), r"positions \[0, 6\] coincide"),
        (lambda b: add(b, [[0, np.nan, 0]], radii=0.1), "positions must be finite"),
        (lambda b: add(b, [[0, 1, 0]], radii=-1), "radii must be positive"),
        (lambda b: spray(b, [0], spacing=1), "where must be a Brush, got list"),
        (lambda b: spray(b, EVERYWHERE, spacing=0), "spacing must be a finite number above 0, got 0"),
        (lambda b: spray(b, EVERYWHERE, spacing=1e-4), r"spacing of 0.0001 would make about \d{9} particles"),
        (lambda b: spray(b, EVERYWHERE, spacing=1, seed="x"), "seed must be a whole number"),
        (lambda b: spray(b.replace(visual=None), EVERYWHERE, spacing=1), "body has no visual mesh"),
        (lambda b: erase(b, EVERYWHERE), "where covers every particle"),
        (lambda b: erase(b, [6]), "where holds 6, but there are 6 particles"),
        (lambda b: erase(b, [-1]), "where holds -1, but there are 6 particles"),
        (lambda b: erase(b, [0.5]), "where must hold whole numbers"),
        (lambda b: connect(b, EVERYWHERE), "longest must say how long an edge may be"),
        (lambda b: connect(b, EVERYWHERE, longest=np.inf), "longest must be a finite number above 0"),
        (lambda b: connect(b, [[0, 1]], longest=1.0), "longest goes with a brush"),
        (lambda b: connect(b, [0, 1]), r"where must be a Brush or pairs of shape \(k, 2\), got shape \(2,\)"),
        (lambda b: connect(b, [[0, 6]]), "where holds 6, but there are 6 particles"),
        (lambda b: connect(b, [[2, 2]]), r"where\[0\] joins particle 2 to itself$"),
        (lambda b: connect(b, [[0, 2], [1, 1]]), r"where\[1\] joins particle 1 to itself$"),
        (lambda b: connect(b, [[0, 2]], stretch=2), "stretch must be .* 0 and of at most 1, got 2$"),
        (lambda b: connect(b, [[0, 2]], torsion=np.nan), "torsion must be .* 0 and of at most 1, got nan$"),
        (lambda b: connect(b, [[0, 2]], torsion="x"), "torsion must be .* 0 and of at most 1, got 'x'$"),
        (lambda b: cut(b, [[0, 2]]), r"where holds \[0, 2\], but these particles have no edge"),
        (lambda b: cut(b, [[0, 9]]), "where holds 9, but there are 6 particles"),
        (lambda b: paint(b, EVERYWHERE, "colour", 1), "field must be .young., .*, got 'colour'"),
        (lambda b: paint(b, EVERYWHERE, "mass", "heavy"), "value must be a number, got 'heavy'"),
        (lambda b: paint(b, EVERYWHERE, "mass", 0), "mass must be positive and finite"),
        (lambda b: paint(b, EVERYWHERE, "mass", np.inf), "mass must be positive and finite"),
        (lambda b: paint(b, EVERYWHERE, "mass", 1, strength=2), "strength must be .* of at most 1, got 2"),
        (lambda b: paint(b, [5], "torsion", 1), "where holds 5, but there are 5 edges"),
        (lambda b: group(b, [7]), "where holds 7, but there are 6 particles"),
        (lambda b: group(b, Brush((0, 9, 0), 1)), "where covers no particle"),
        (lambda b: group(b, [0], yield_speed=-1), "yield_speed must be a number of at least 0, got -1$"),
        (lambda b: group(b, [0], yield_speed=None), "yield_speed must be a number of at least 0, got None$"),
        (lambda b: ungroup(b, [0]), "where holds 0, but there are 0 groups"),
        (lambda b: bind(b, [10_000]), r"vertices holds 10000, but there are \d+ vertices"),
        (lambda b: bind(b, None, [6]), "particles holds 6, but there are 6 particles"),
        (lambda b: bind(b, None, []), "particles covers none"),
        (lambda b: bind(b.replace(visual=None)), "body has no visual mesh"),
    ],
)  # fmt: skip
def test_bad_input_is_named(edit, message):
    with pytest.raises(InputError, match=message):
        edit(bar())


@pytest.mark.parametrize(
    "edit",
    [
        lambda b: add(b, [[0, 0, 0]], radii=1),
        lambda b: spray(b, EVERYWHERE, spacing=1),
        lambda b: erase(b, [0]),
        lambda b: connect(b, [[0, 1]]),
        lambda b: cut(b, [[0, 1]]),
        lambda b: paint(b, [0], "mass", 1),
        lambda b: pin(b, [0]),
        lambda b: group(b, [0]),
        lambda b: ungroup(b, [0]),
        bind,
    ],
)
def test_what_is_no_body_is_named(edit):
    with pytest.raises(InputError, match="body must be an OrientedBody, got dict"):
        edit({})
