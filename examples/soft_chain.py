"""A chain of soft bodies, linked by ball joints and hinges, is let go and swings.

Seven links hang on a bar, one after the other, by balls (gold) and by hinges (dark pins) in turn. The fourth
link is rigid (slate), all others are soft: the picture shows the chain as it is let go, on its way down, and
on the other side, as it whips. A joint holds a point in the frame of one body on a point in the frame of the
other, between soft ones as between a soft and a rigid one, and no body has a mesh that reaches it. The joints
are equations of every step: they are closed to rounding, and take no energy and give none.

    python examples/soft_chain.py [PICTURE.png] [MOVIE.mp4]
"""

from itertools import pairwise

import numpy as np
import trimesh
from _report import paths, print_newton, run_implicit, save_movie, save_picture

import pointglue as pg
from pointglue import view
from pointglue.elastic import ElasticBody, FleshEnergy, ImplicitSolver, JointBond, RigidBody
from pointglue.geometry import simplices

STEP = 1 / 60
LINKS, RIGID = 7, 3
LENGTH, GIRTH, PITCH = 0.36, 0.085, 0.44  # of a link, its radius, from joint to joint (m)
YOUNG, DENSITY = 3e5, 300.0  # Pa, kg/m^3: firm rubber foam
TURN = -1.0  # rad/s about the vertical at the start, so that it does not stay in a plane
SHOWN = (0.0, 0.55, 0.9, 1.4)  # s
COLORS = ["coral", "sky", "teal", "slate", "plum", "sage", "rose"]


def lozenge(cells):
    """A link about the origin, along x: a box of tetrahedra made round."""
    box, tets = simplices.tet_box((2, 2, 2), cells)
    along, across = box[:, 0], box[:, 1:] * np.sqrt(1 - box[:, :0:-1] ** 2 / 2)
    girth = GIRTH * np.sqrt(1 - 0.9 * np.abs(along) ** 3)
    return np.column_stack([LENGTH / 2 * along, girth[:, None] * across]), tets


def skin():
    """What is seen of a link: vertices and faces."""
    points, tets = lozenge((32, 6, 6))
    used, faces = np.unique(simplices.tet_surface(tets), return_inverse=True)
    return points[used], faces.reshape(-1, 3)


def build():
    """The solver and its joints. The chain starts in a row along x; its links turn about the bar as one."""
    bar = trimesh.creation.cylinder(0.03, 1.2, sections=48)
    points, tets = lozenge((10, 2, 2))
    surface, faces = skin()
    bodies = [RigidBody.solid(bar.vertices, bar.faces, DENSITY, fixed=True, name="bar")]
    for k in range(LINKS):
        centre = np.array([PITCH * (k + 0.5), 0.0, 0.0])
        if k == RIGID:
            speed = np.cross([0, TURN, 0], centre)
            link = RigidBody.solid(
                surface + centre, faces, DENSITY, name=f"link {k}", velocity=speed, spin=[0, TURN, 0]
            )
        else:
            energy = FleshEnergy(points + centre, tets, young=YOUNG, poisson=0.4)
            speeds = np.cross([0, TURN, 0], points + centre)
            link = ElasticBody(
                points + centre, energy.mass(DENSITY), [energy], name=f"link {k}", velocities=speeds
            )
        bodies.append(link)
    joints = [
        JointBond(
            a.name,
            b.name,
            pg.bind_joint(
                a.positions,
                b.positions,
                [PITCH * k, 0, 0],
                kind="hinge" if k % 2 else "ball",
                axis=[0, 0, 1],
                parents=18,
            ),
        )
        for k, (a, b) in enumerate(pairwise(bodies))
    ]
    return ImplicitSolver(bodies, joints=joints, method="bdf2"), joints


def places(joints, state):
    """Where the joints are (J, 3)."""
    return np.stack([bond.joint.first.positions(state.body(bond.first))[0] for bond in joints])


def main(picture, movie=None):
    solver, joints = build()
    states, spent = run_implicit(solver, solver.start(), STEP, 6.0 if movie else SHOWN[-1])
    print_newton(states, spent)
    gap = max(
        np.abs(bond.joint.at(state.body(bond.first), state.body(bond.second)).gaps).max()
        for state in states[1:]
        for bond in joints
    )
    print(f"no joint is ever open by more than {gap:.1g} m, {gap / solver.model.size:.1g} of the size")
    assert gap < 1e-8 * solver.model.size

    energies = np.array([sum(solver.energy(state).values()) for state in states])
    swung = np.ptp([solver.energy(state)["gravity"] for state in states])
    rise = (energies - np.minimum.accumulate(energies)).max() / swung
    lost = (energies[0] - energies[-1]) / swung
    print(f"energy never rises by more than {rise:.1%} of what the swing exchanges; {lost:.1%} is lost")
    assert energies.max() <= energies[0] + 1e-9 * swung
    assert rise < 0.03  # an error of second order: half the step leaves a quarter of it

    links = np.array([np.diff(places(joints, state), axis=0) for state in states[1:]])
    lengths = np.linalg.norm(links, axis=2)
    strain = np.abs(lengths / PITCH - 1).max(0)  # of all links but the last
    print(
        f"lengths: soft links within {np.delete(strain, RIGID).max():.1%}, the rigid one {strain[RIGID]:.1g}"
    )
    assert strain[RIGID] < 1e-9
    assert strain.max() < 0.1
    assert all(np.isfinite(state.positions).all() for state in states)

    surface, faces = skin()
    cover = pg.embed(lozenge((10, 2, 2)), surface)
    bar = solver.model.bodies[0]

    def draw(scene, state):
        for k, color in enumerate(COLORS):
            x = state.body(f"link {k}")
            scene.mesh(x if k == RIGID else cover.positions(x), faces, color=color)
        for bond, place in zip(joints, places(joints, state), strict=True):
            if bond.joint.kind == "ball":
                scene.points(place[None], radius=0.045, color="gold")
            else:
                turn = bond.joint.first.at(state.body(bond.first)).rotations[0]
                pin = place + np.outer([-0.08, 0.08], turn[:, 2])
                scene.lines(pin, radius=0.035, color="graphite")
        scene.mesh(bar.positions, bar.faces, color="graphite")
        return scene

    camera = view.Camera(direction=(0.16, 0.1, 1.0), fov=16)
    scene = view.Picture(size=(1600, 800), ground=-3.3, camera=camera)
    for moment in SHOWN:
        draw(scene, states[round(moment / STEP)])
    save_picture(scene, picture)
    if movie:
        still = view.Camera(direction=(0.16, 0.1, 1.0), fov=20, target=(0.0, -1.6, 0.0), distance=12.0)
        frames = (draw(view.Picture(size=(960, 540), ground=-3.3, camera=still), s) for s in states[::2])
        save_movie(frames, movie)


if __name__ == "__main__":
    main(*paths("soft_chain"))
