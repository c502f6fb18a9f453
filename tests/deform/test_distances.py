"""Distances inside a shape: visibility, ways along edges, odd meshes, and the cache."""

import numpy as np
import pytest
import scipy.sparse.csgraph as csgraph
from scipy.spatial.transform import Rotation
from web_meshes import many_shells

from pointglue.deform import HandleDeformer, inside_distances
from pointglue.errors import InputError, PointglueWarning
from pointglue.geometry import shapes
from pointglue.geometry.bvh import TriangleTree
from pointglue.geometry.welding import bounding_diagonal, edge_lengths, weld


def slow_visible(vertices, faces, eye):
    """By solving for the crossing of every segment with every triangle."""
    visible = np.ones(len(vertices), bool)
    for v, target in enumerate(vertices):
        for face in faces:
            if (np.linalg.norm(vertices[face] - target, axis=1) == 0).any():
                continue
            a, b, c = vertices[face]
            M = np.stack([b - a, c - a, eye - target], axis=1)
            if abs(np.linalg.det(M)) < 1e-14:
                continue
            s, t, r = np.linalg.solve(M, eye - a)
            if s >= -1e-9 and t >= -1e-9 and s + t <= 1 + 1e-9 and 1e-9 < r < 1 - 1e-9:
                visible[v] = False
                break
    return visible


def slow_distances(vertices, faces, eye):
    """All pairs by the plain algorithm of the paper: a dense graph with the handle as a node."""
    count = len(vertices)
    graph = np.full((count + 1, count + 1), np.inf)
    for a, b in np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]):
        graph[a, b] = graph[b, a] = np.linalg.norm(vertices[a] - vertices[b])
    seen = slow_visible(vertices, faces, eye)
    graph[count, :count][seen] = np.linalg.norm(vertices[seen] - eye, axis=1)
    return csgraph.dijkstra(csgraph.csgraph_from_dense(graph, null_value=np.inf), indices=count)[:count]


def two_legs():
    """A body with two legs side by side, as one closed surface: boxes of a lattice, without inner walls."""
    filled = {(x, 2, z) for x in range(5) for z in range(2)}
    filled |= {(x, y, z) for x in (0, 4) for y in (0, 1) for z in range(2)}
    corners, quads = {}, []
    for cell in sorted(filled):
        for axis in range(3):
            for side in (0, 1):
                beside = list(cell)
                beside[axis] += 2 * side - 1
                if tuple(beside) in filled:
                    continue
                u, w = (axis + 1) % 3, (axis + 2) % 3
                quad = []
                for du, dw in ((0, 0), (1, 0), (1, 1), (0, 1)):
                    corner = list(cell)
                    corner[axis] += side
                    corner[u] += du
                    corner[w] += dw
                    quad.append(corners.setdefault(tuple(corner), len(corners)))
                quads.append(quad if side else quad[::-1])
    quads = np.array(quads)
    return np.array(list(corners), float), np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])


LEG = np.array([0.523, 0.411, 1.137])  # inside the first leg, in no plane of the lattice


def test_visibility_by_brute_force(rng):
    vertices, faces = two_legs()
    tree = TriangleTree(vertices, faces)
    for eye in (LEG, [2.41, 2.63, 0.92], [7.1, 5.3, 3.7], *rng.uniform(0, 5, (5, 3))):
        hidden = tree.blocked(eye, np.arange(len(vertices)))
        np.testing.assert_array_equal(~hidden, slow_visible(vertices, faces, np.asarray(eye)))


def test_distances_against_the_paper_s_algorithm(rng):
    vertices, faces = two_legs()
    handles = np.array([LEG, [2.41, 2.63, 0.92], [4.61, 0.32, 1.23]])
    distances = inside_distances(vertices, faces, handles)
    for handle, row in zip(handles, distances, strict=True):
        np.testing.assert_allclose(row, slow_distances(vertices, faces, handle), atol=1e-12)


def test_the_other_leg_is_far_away():
    vertices, faces = two_legs()
    other = (vertices[:, 0] >= 4) & (vertices[:, 1] <= 1)
    straight = np.linalg.norm(vertices - LEG, axis=1)
    inside = inside_distances(vertices, faces, LEG[None])[0]
    assert (inside >= straight - 1e-12).all()
    assert inside[other].min() > 1.5 * straight[other].min()
    handles = np.array([LEG, [4.5, 0.4, 1.1], [2.5, 2.5, 1.0], [0.5, 2.5, 1.0], [4.5, 2.5, 1.0]])
    moved = handles + np.array([[0.0, 0, 1.5], *np.zeros((4, 3))])
    drift = {
        distance: np.abs(
            HandleDeformer((vertices, faces), handles, distance=distance).deform(moved) - vertices
        )[other].max()
        for distance in ("inside", "euclidean")
    }
    assert drift["inside"] < 0.7 * drift["euclidean"]


def test_a_handle_on_the_surface_or_on_a_vertex(rng):
    vertices, faces = shapes.box((2.0, 2.0, 2.0), (4, 4, 4))
    on_face, on_vertex = vertices[faces[3]].mean(0), vertices[7]
    distances = inside_distances(vertices, faces, np.stack([on_face, on_vertex]))
    # The box is convex: everything is in sight.
    np.testing.assert_allclose(distances[0], np.linalg.norm(vertices - on_face, axis=1), atol=1e-12)
    np.testing.assert_allclose(distances[1], np.linalg.norm(vertices - on_vertex, axis=1), atol=1e-12)
    assert distances[1][7] == 0.0


@pytest.mark.parametrize("turned", [False, True], ids=["outwards", "inwards"])
@pytest.mark.parametrize("off", [0.0, 1e-7, -1e-7], ids=["on", "outside", "inside"])
def test_a_handle_on_the_surface_looks_inwards(off, turned):
    """Picked on the inner side of one leg, it does not see the other leg through the air between them."""
    vertices, faces = two_legs()
    handle = np.array([1.0 + off, 0.43, 1.13])
    other = (vertices[:, 0] >= 4) & (vertices[:, 1] <= 1)
    cells = faces[:, ::-1] if turned else faces
    distance = inside_distances(vertices, cells, handle[None])[0]
    within = inside_distances(vertices, faces, np.array([[0.999, 0.43, 1.13]]))[0]
    np.testing.assert_allclose(distance, within, atol=2e-3)
    assert distance[other].min() > 1.2 * np.linalg.norm(vertices[other] - handle, axis=1).min()


def test_a_handle_on_a_wall_within_sees_both_sides():
    """Neither side of the wall is outside: the handle belongs to both."""
    vertices, faces = shapes.box((2.0, 2.0, 2.0), (4, 4, 4))
    lattice = np.stack(np.meshgrid([0.0], *[np.arange(-1.0, 1.5, 0.5)] * 2, indexing="ij"), -1).reshape(-1, 3)
    k = np.arange(25).reshape(5, 5)
    quads = np.stack([k[:-1, :-1], k[1:, :-1], k[1:, 1:], k[:-1, 1:]], axis=-1).reshape(-1, 4)
    wall = quads[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)
    points, handle = np.concatenate([vertices, lattice]), np.array([0.0, 0.1, 0.2])
    distance = inside_distances(points, np.concatenate([faces, wall + len(vertices)]), handle[None])[0]
    np.testing.assert_allclose(distance, np.linalg.norm(points - handle, axis=1), rtol=1e-12)


def test_touching_triangles_are_welded(rng):
    """A soup whose corners agree but for rounding, as files in 32 bits have them."""
    vertices, faces = two_legs()
    soup, loose = vertices[faces].reshape(-1, 3), np.arange(3 * len(faces)).reshape(-1, 3)
    noisy = soup + 1e-8 * rng.standard_normal(soup.shape)
    distances = inside_distances(noisy, loose, LEG[None])[0]
    np.testing.assert_allclose(
        distances, inside_distances(vertices, faces, LEG[None])[0][faces.ravel()], atol=1e-6
    )


def test_triangle_soup_is_welded():
    vertices, faces = two_legs()
    soup, loose = vertices[faces].reshape(-1, 3), np.arange(3 * len(faces)).reshape(-1, 3)
    distances = inside_distances(soup, loose, LEG[None])[0]
    np.testing.assert_allclose(distances, inside_distances(vertices, faces, LEG[None])[0][faces.ravel()])


def test_open_and_non_manifold_meshes():
    vertices, faces = two_legs()
    opened = faces[~(vertices[faces][:, :, 1] == 0).all(1)]  # soles removed
    fin = np.concatenate([opened, [[0, 1, len(vertices) - 1]]])  # a third triangle on an edge
    for cells in (opened, fin):
        used = np.unique(cells)
        distances = inside_distances(vertices, cells, LEG[None])[0]
        assert np.isfinite(distances).all()
        assert (distances >= np.linalg.norm(vertices - LEG, axis=1) - 1e-12).all()
        assert len(used) <= len(vertices)


def test_unreachable_parts_fall_back_and_say_so():
    """A box within a box within a box: from outside the second, the innermost cannot be reached."""
    outer, faces = shapes.box((4.0, 4.0, 4.0), (4, 4, 4))
    inner, inner_faces = shapes.box((1.0, 1.0, 1.0), (2, 2, 2))
    core, core_faces = shapes.box((0.3, 0.3, 0.3), (1, 1, 1))
    vertices = np.concatenate([outer, inner, core])
    cells = np.concatenate([faces, inner_faces + len(outer), core_faces + len(outer) + len(inner)])
    handle = np.array([1.2, 0.1, 0.2])
    with pytest.warns(PointglueWarning, match=r"handles \[0\] cannot reach all parts of the mesh"):
        distances = inside_distances(vertices, cells, handle[None])[0]
    # One bridge leads there, from a corner of the core to the middle of a face: the rest is along edges.
    own = distances[len(outer) + len(inner) :]
    first = int(own.argmin())
    gap = np.linalg.norm(inner - core[first], axis=1)
    nearest = np.flatnonzero(gap < gap.min() + 1e-9)  # the boxes are regular: there may be several
    assert np.isclose(own[first], distances[len(outer) + nearest] + gap.min()).any()
    ways = csgraph.dijkstra(edge_lengths(core, core_faces), indices=first)
    np.testing.assert_allclose(own, own[first] + ways)


def test_distances_do_not_jump_within_a_part():
    """Along an edge a distance changes by at most its length, in teeth and eyes too: paths are continuous."""
    vertices, faces = many_shells()
    welded, place = weld(vertices, bounding_diagonal(vertices))
    edges = edge_lengths(welded, place[faces]).tocoo()
    handles = np.array([[0.0, 1.3, 0.0], [0.5, 0.95, 0.02], [0.0, 1.66, 0.0]])
    with pytest.warns(PointglueWarning, match="cannot reach all parts"):
        distances = inside_distances(vertices, faces, handles)
    for distance in distances:
        one = np.full(len(welded), np.nan)
        one[place] = distance
        assert (np.abs(one[edges.row] - one[edges.col]) <= edges.data * (1 + 1e-9)).all()


def test_a_coat_is_as_near_as_the_arm_in_it():
    """A large shell is measured from wherever it is close, a small one from one place, to move as a whole."""
    arm = shapes.box((2.0, 0.2, 0.2), (40, 4, 4))
    sleeve = shapes.box((1.6, 0.24, 0.24), (32, 4, 4))
    ends = np.abs(sleeve[0][sleeve[1]].mean(1)[:, 0]) > 0.8 - 1e-9
    used, open_faces = np.unique(sleeve[1][~ends], return_inverse=True)
    sleeve = sleeve[0][used], open_faces.reshape(-1, 3)
    button = shapes.box((0.02, 0.02, 0.02), (1, 1, 1))
    vertices = np.concatenate([arm[0], sleeve[0], button[0] + [0.5, 0.131, 0.0]])
    cells = [arm[1], sleeve[1] + len(arm[0]), button[1] + len(arm[0]) + len(sleeve[0])]
    handle = np.array([-0.9, 0.0, 0.0])
    with pytest.warns(PointglueWarning, match="cannot reach all parts"):
        distance = inside_distances(vertices, np.concatenate(cells), handle[None])[0]
    straight = np.linalg.norm(vertices - handle, axis=1)
    on_sleeve = slice(len(arm[0]), len(arm[0]) + len(sleeve[0]))
    # The way to a place on the sleeve goes through the arm and over a gap of 0.02, by a corner 0.05 away.
    assert (distance[on_sleeve] <= straight[on_sleeve] + 0.1).all()
    own = distance[-8:]
    assert np.ptp(own) <= np.ptp(vertices[-8:], axis=0).sum()


def test_flat_meshes_are_measured_around_their_notches():
    """In a plane nothing stands in the way of sight but the outline: the other leg of a U is far."""
    x, z = np.meshgrid(np.arange(11) / 10, np.arange(11) / 10, indexing="ij")
    points = np.stack([x, z, 0 * x], axis=-1).reshape(-1, 3)
    k = np.arange(121).reshape(11, 11)
    quads = np.stack([k[:-1, :-1], k[1:, :-1], k[1:, 1:], k[:-1, 1:]], axis=-1).reshape(-1, 4)
    middle = points[quads].mean(1)
    quads = quads[(np.abs(middle[:, 0] - 0.5) > 0.1) | (middle[:, 1] < 0.2)]
    used, quads = np.unique(quads, return_inverse=True)
    points, faces = points[used], quads.reshape(-1, 4)[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)
    handle = np.array([0.05, 0.95, 0.0])
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    for frame in (np.eye(3), turn):
        distance = inside_distances(points @ frame.T, faces, (frame @ handle)[None])[0]
        own = points[:, 0] <= 0.4
        np.testing.assert_allclose(distance[own], np.linalg.norm(points[own] - handle, axis=1), rtol=1e-9)
        # Around both corners of the notch, (0.4, 0.2) and (0.6, 0.2).
        corners = np.array([[0.4, 0.2, 0.0], [0.6, 0.2, 0.0]])
        way = np.linalg.norm(corners[0] - handle) + 0.2
        other = (points[:, 0] >= 0.6) & (points[:, 1] > 0.2)
        true = way + np.linalg.norm(points[other] - corners[1], axis=1)
        # Beyond a corner a distance is found from those of two others, which are not from one place: 3 %.
        np.testing.assert_allclose(distance[other], true, rtol=0.03)


def test_the_cache_keeps_the_warning(tmp_path):
    vertices, faces = shapes.box((1.0, 1.0, 1.0), (2, 2, 2))
    two = np.concatenate([vertices, vertices + [3, 0, 0]]), np.concatenate([faces, faces + len(vertices)])
    for _ in range(2):
        with pytest.warns(PointglueWarning, match="cannot reach all parts"):
            inside_distances(*two, np.array([[0.1, 0.12, 0.13]]), cache=tmp_path)


def test_bad_input_is_named():
    vertices, faces = two_legs()
    for arguments, message in [
        ((vertices, faces + 10_000, LEG[None]), "cells must index"),
        ((vertices, faces, LEG), r"handles must have shape \(n, 3\), got \(3,\)"),
        ((vertices, faces, LEG[None] * np.nan), "handles must be finite"),
        ((vertices[:, :2], faces, LEG[None]), "triangles .* in space"),
    ]:
        with pytest.raises(InputError, match=message):
            inside_distances(*arguments)


def test_a_walled_in_handle_is_an_error():
    """Two cubes about the handle, turned against each other: each hides the corners of the other."""
    cube, faces = shapes.box((1.0, 1.0, 1.0), (1, 1, 1))
    other = cube @ Rotation.from_rotvec([0.61, 0.55, 0.2]).as_matrix().T
    vertices, cells = np.concatenate([1.3 * cube, 1.3 * other]), np.concatenate([faces, faces + 8])
    handle = np.array([0.013, 0.021, 0.017])
    assert not slow_visible(vertices, cells, handle).any()
    with pytest.raises(InputError, match=r"handle 0 at \[0.013, 0.021, 0.017\] sees no vertex of the mesh"):
        inside_distances(vertices, cells, handle[None])


def test_the_cache_is_used_keyed_by_content_and_survives_damage(tmp_path, monkeypatch):
    vertices, faces = two_legs()
    handles = np.array([LEG, [2.4, 2.6, 0.9]])
    folder = tmp_path / "new" / "cache"
    first = inside_distances(vertices, faces, handles, cache=folder)
    files = sorted(folder.iterdir())
    assert len(files) == 2
    calls = []
    original = TriangleTree.blocked
    monkeypatch.setattr(TriangleTree, "blocked", lambda *a: calls.append(1) or original(*a))
    np.testing.assert_array_equal(inside_distances(vertices, faces, handles, cache=folder), first)
    assert not calls
    more = inside_distances(vertices, faces, np.concatenate([handles, [[4.5, 0.5, 1.0]]]), cache=folder)
    assert len(calls) == 1  # only the new handle
    np.testing.assert_array_equal(more[:2], first)
    inside_distances(vertices * 1.0001, faces, handles, cache=folder)
    assert len(calls) == 3  # another mesh
    whole = np.load(files[0])
    strange = [whole[:-1], whole.astype(np.float32), np.stack([whole, whole])]
    for number, other in enumerate([None, *strange], 4):
        if other is None:
            files[0].write_bytes(files[0].read_bytes()[:50])
        else:
            np.save(files[0], other)
        np.testing.assert_array_equal(inside_distances(vertices, faces, handles, cache=folder), first)
        assert len(calls) == number  # the damaged one, worked out and written again
    assert not [path for path in folder.iterdir() if path.suffix != ".npy"]


def test_a_cache_that_cannot_be_written_is_an_error_with_its_name(tmp_path):
    vertices, faces = two_legs()
    file = tmp_path / "file"
    file.write_text("not a folder")
    with pytest.raises(InputError, match=r"cache .*file"):
        inside_distances(vertices, faces, LEG[None], cache=file)
