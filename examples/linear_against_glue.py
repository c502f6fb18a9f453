"""What a push on a point outside its triangle does to the triangle: linear weights against glue.

Left, the classical binding: the bound point (coral) is a weighted sum of the corners (gold), and as it
lies outside, the far corner has a negative weight. A force on the point (coral arrow) pushes that
corner the other way (teal arrows), and the corners are driven apart: the dark outlines are the
triangle at equal times afterwards. Right, glue: the same push moves and turns the triangle and leaves
its shape alone. (Figure 1 of the Point Cloud Glue paper.)

    python examples/linear_against_glue.py [PICTURE.png]
"""

import numpy as np
from _report import paths, save_picture

import pointglue as pg
from pointglue import view

TRIANGLE = np.array([[-0.6, 0.0, 0.0], [0.6, 0.0, 0.0], [0.1, 1.0, 0.0]])
BOUND = np.array([[0.25, -0.7, 0.0]])
PUSH = np.array([[0.0, -1.0, 0.0]])
ARROW = 0.45  # metres of arrow per newton
STEP, STEPS, SHOWN = 1e-3, 900, (450, 900)


def pushed(binding):
    """Outlines of three free corners of 1 kg while the bound point is pushed."""
    x, v, outlines = TRIANGLE.copy(), np.zeros((3, 3)), []
    for step in range(1, STEPS + 1):
        v += STEP * binding.transfer_forces(x, PUSH)
        x += STEP * v
        if step in SHOWN:
            outlines.append(x.copy())
    return outlines


def spread(x):
    return np.linalg.norm(x - x.mean(0)) / np.linalg.norm(TRIANGLE - TRIANGLE.mean(0))


def main(picture):
    linear = pg.bind_linear(TRIANGLE, BOUND, [[0, 1, 2]])
    glue = pg.bind_glue(TRIANGLE, BOUND, parents=3)
    scene = view.Picture(ground=False, camera=view.Camera(direction=(0, 0, 1), fov=14))
    grown = {}
    for name, binding, place in [("linear", linear, [-1.2, 0, 0]), ("glue", glue, [1.2, 0, 0])]:
        forces = binding.transfer_forces(TRIANGLE, PUSH)
        assert np.allclose(forces.sum(0), PUSH[0])  # both hand on the whole force
        outlines = pushed(binding)
        grown[name] = spread(outlines[-1])
        scene.mesh(TRIANGLE + place, [[0, 1, 2]], color="sand")
        for outline in outlines:
            above = np.array(place) + [0, 0, 0.02]
            scene.lines(outline[[0, 1, 2, 0]] + above, color="slate", radius=0.008)
        scene.points(TRIANGLE + place, color="gold", radius=0.045)
        scene.points(BOUND + place, color="coral", radius=0.055)
        front = np.array(place) + [0, 0, 0.1]
        scene.arrows(BOUND + front, ARROW * PUSH, color="coral", radius=0.02)
        scene.arrows(TRIANGLE + front, ARROW * forces, color="teal", radius=0.016)
        upwards = np.round(forces[:, 1], 2)
        print(f"{name:>6}: upward forces on the corners {upwards} N, size afterwards x{grown[name]:.2f}")
    assert linear.weights.min() < -0.5
    assert grown["linear"] > 1.3
    assert abs(grown["glue"] - 1) < 0.05
    save_picture(scene, picture)


if __name__ == "__main__":
    main(*paths("linear_against_glue"))
