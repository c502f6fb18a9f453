"""What a force on a bound point becomes on its parents, in four cases.

The bound point (coral) is off its twelve parents (gold). From left to right: the force (coral arrow)
along the arm pushes all parents alike; across the arm, it also turns them, in a windmill pattern;
aslant, both; and on deformed parents, whose fitted frame is drawn in red and green. Nothing is driven
apart. (Figure 4 of the Point Cloud Glue paper.)

    python examples/transferred_forces.py [PICTURE.png]
"""

import numpy as np
from _report import paths, save_picture

import pointglue as pg
from pointglue import view

ARROW, ON_PARENTS = 0.55, 1.6  # metres of arrow per newton; those on the parents are drawn larger


def ring():
    """Twelve points: an outer ring of eight and an inner one of four."""
    outer, inner = np.arange(8) * np.pi / 4, np.pi / 4 + np.arange(4) * np.pi / 2
    radii = np.r_[np.full(8, 0.5), np.full(4, 0.22)]
    angles = np.r_[outer, inner]
    return np.stack([radii * np.cos(angles), radii * np.sin(angles), 0 * radii], axis=1)


def squashed(points):
    """Bent and sheared, as cloth might be."""
    x, y, _ = points.T
    return np.stack([1.15 * x + 0.35 * y, 0.75 * y + 0.3 * x + 0.5 * x * x, 0 * x], axis=1)


def main(picture):
    rest, bound = ring(), np.array([[0.0, -0.95, 0.0]])
    glue = pg.bind_glue(rest, bound, parents=12)
    along, across = np.array([0.0, -1.0, 0.0]), np.array([1.0, 0.0, 0.0])
    cases = [(rest, along), (rest, across), (rest, (along + across) / np.sqrt(2)), (squashed(rest), across)]
    scene = view.Picture(size=(1280, 520), ground=False, camera=view.Camera(direction=(0, 0, 1), fov=14))
    for k, (x, force) in enumerate(cases):
        pose, place = glue.at(x), np.array([1.75 * k, 0.0, 0.0])
        forces = pose.transfer_forces(force[None])
        assert np.allclose(forces.sum(0), force)
        assert np.allclose(np.cross(x, forces).sum(0), np.cross(pose.positions[0], force))
        apart = (forces * (x - x.mean(0))).sum()
        assert abs(apart) < 1e-12  # no work is spent on blowing the parents up
        if k == 0:
            assert np.allclose(forces, force / 12)  # along the arm every parent takes the same share
        scene.lines(np.stack([x.mean(0), pose.positions[0]]) + place, color="slate", radius=0.008)
        scene.points(x + place, color="gold", radius=0.035)
        scene.points(pose.positions + place, color="coral", radius=0.05)
        for axis, color in enumerate(("red", "green")):
            arm = 0.16 * pose.rotations[0][:, axis]
            ends = np.stack([x.mean(0) - arm, x.mean(0) + arm])
            scene.lines(ends + place + [0, 0, 0.05], color=color, radius=0.014)
        front = place + [0, 0, 0.1]
        scene.arrows(pose.positions + front, ARROW * force[None], color="coral", radius=0.02)
        scene.arrows(x + front, ON_PARENTS * forces, color="teal", radius=0.013)
        longest = np.linalg.norm(forces, axis=1).max()
        print(f"case {'abcd'[k]}: largest share {longest:.3f} N, work of blowing up {apart:.0e} W")
    save_picture(scene, picture)


if __name__ == "__main__":
    main(*paths("transferred_forces"))
