"""A detailed animal in a coarse cage falls down stairs: its skin collides, and the cage feels it.

All that moves by itself is a lattice of soft cubes (teal). The skin hangs on it: inside a cube by weights,
and outside, where it is red, by glue. Ears, tail and whatever else sticks out meet the steps, themselves and
each other all the same, and what pushes them goes to the lattice by the transpose of their derivative.

    python examples/embedded_on_stairs.py [PICTURE.png] [MOVIE.mp4] [MESH]
"""

import numpy as np
import trimesh
from _report import paths, print_contacts, print_newton, run_implicit, save_movie, save_picture
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.transform import Rotation

import pointglue as pg
from pointglue import assets, view
from pointglue.elastic import Bond, Contact, ElasticBody, HexahedronEnergy, ImplicitSolver, RigidBody
from pointglue.geometry import simplices
from pointglue.geometry.cages import hex_cage

STEP = 1 / 60  # s
SHOWN = (0.0, 0.25, 0.5)  # s
SIZE, CELL, FULL = 0.66, 0.085, 0.08  # m, m, and the part of a cube that must be filled or it is left out
YOUNG, POISSON, DENSITY = 6e4, 0.4, 250.0  # Pa, -, kg/m^3: soft foam rubber
HIDE = 0.5  # kg/m^2, of the skin itself
STEPS, RISE, RUN, WIDTH = 4, 0.18, 0.3, 0.9  # of the stairs, m
PLACE, TURNS, SPEED = (0.3, 0.46, 0.0), (0, 25, -12), (1.3, 0.0, 0.0)  # above the stairs; degrees; m/s
# The edges of a hexahedron, between its corners.
EDGES = [[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4], [0, 4], [1, 5], [2, 6], [3, 7]]


def animal(mesh):
    """Vertices, of the size wanted and about the origin, and faces; of a file that looks along z, turned."""
    if mesh is None:
        vertices, faces = assets.donkey()
    else:
        loaded = trimesh.load(mesh, process=False, force="mesh")
        loaded.merge_vertices(merge_tex=True, merge_norm=True)
        vertices, faces = np.array(loaded.vertices)[:, [2, 1, 0]] * [1, 1, -1], np.array(loaded.faces)
    vertices = vertices - (vertices.min(0) + vertices.max(0)) / 2
    return SIZE * vertices / np.ptp(vertices, axis=0).max(), faces


def lattice(vertices, faces):
    """The cells about the animal that are well filled: points, hexahedra, and how full each of these is."""
    points, hexahedra, fill = hex_cage(vertices, faces, CELL)
    used, numbers = np.unique(hexahedra[fill >= FULL], return_inverse=True)
    return points[used], numbers.reshape(-1, 8), fill[fill >= FULL]


def build(mesh):
    """The solver, which points of the skin are in the lattice, and the lattice's edges."""
    vertices, faces = animal(mesh)
    points, hexahedra, fill = lattice(vertices, faces)
    edges = np.unique(np.sort(hexahedra[:, EDGES].reshape(-1, 2), axis=1), axis=0)
    links = coo_array((np.ones(len(edges)), edges.T), shape=(len(points), len(points)))
    assert connected_components(links, directed=False)[0] == 1
    surface = simplices.tet_surface(simplices.tets_of_hexahedra(hexahedra))
    edges = edges[np.isin(edges, surface).all(1)]

    turn, place = Rotation.from_euler("xyz", TURNS, degrees=True).as_matrix(), np.array(PLACE)
    place[1] += STEPS * RISE
    vertices, points = vertices @ turn.T + place, points @ turn.T + place
    energy = HexahedronEnergy(points, hexahedra, young=YOUNG, poisson=POISSON, fill=fill)
    area = trimesh.Trimesh(vertices, faces, process=False).area_faces
    hide = HIDE * np.bincount(faces.ravel(), np.repeat(area / 3, 3), minlength=len(vertices))
    embedding = pg.embed((points, hexahedra), vertices)
    cage = ElasticBody(points, energy.mass(DENSITY), [energy], velocities=SPEED, name="cage")
    skin = ElasticBody(vertices, hide, faces=faces, velocities=SPEED, name="skin")
    stairs = RigidBody.solid(
        *assets.stairs(STEPS, rise=RISE, run=RUN, width=WIDTH), 1000.0, fixed=True, name="stairs"
    )
    slab = trimesh.creation.box((8, 0.1, 6))
    ground = RigidBody.solid(slab.vertices + [2, -0.05, 0], slab.faces, 1000.0, fixed=True, name="ground")
    solver = ImplicitSolver(
        [cage, skin, stairs, ground],
        glue=[Bond("skin", np.arange(len(vertices)), "cage", embedding)],
        contact=Contact(distance=3e-3, friction=0.4),
        tolerance=2e-2,
    )
    return solver, embedding.inside, edges


def main(picture, movie=None, mesh=None):
    solver, inside, edges = build(mesh)
    skin, cage = solver.model.bodies[1], solver.model.bodies[0]
    outside = 1 - inside.mean()
    print(f"{len(skin.positions):,} vertices in a cage of {len(cage.positions)}, {outside:.0%} outside")
    assert 0.02 < outside < 0.5

    def check(state):
        assert not solver.surfaces.intersecting(state.positions)

    states, spent = run_implicit(solver, solver.start(), STEP, 3.0 if movie else SHOWN[-1], check)
    print_newton(states, spent)
    print_contacts(states)

    colors = np.where(inside[:, None], [0.72, 0.66, 0.6], [0.82, 0.3, 0.24])
    stairs = solver.model.bodies[2]

    def draw(scene, state, shift=0.0, caged=False):
        scene.mesh(stairs.positions + shift, stairs.faces, color="sand")
        scene.mesh(state.body("skin") + shift, skin.faces, color=colors)
        if caged:
            scene.lines(state.body("cage") + shift, segments=edges, color="teal", radius=0.0035)
        return scene

    camera = view.Camera(direction=(0.55, 0.3, 1.0), fov=12)
    scene = view.Picture(size=(1600, 560), ground=0.0, camera=camera)
    for k, moment in enumerate(SHOWN):
        draw(scene, states[round(moment / STEP)], (k - 1) * 1.85 * camera.axes[0], caged=k == 0)
    save_picture(scene, picture)
    if movie:
        whole = view.Picture(size=(960, 540), camera=view.Camera(direction=(0.55, 0.3, 1.0), fov=20))
        still = draw(draw(whole, states[0]), states[-1]).fitted_camera()
        frames = (draw(view.Picture(size=(960, 540), ground=0.0, camera=still), s) for s in states[::2])
        save_movie(frames, movie)


if __name__ == "__main__":
    main(*paths("embedded_on_stairs"))
