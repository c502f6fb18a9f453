"""Where a deformation by handles tears, and how damping keeps it whole.

A bar, light above and dark below, with three handles in it: a (red) is far from b and c (gold and coral),
which are close together. Top left, at rest. Then c goes down past b, to the other side of the line from a
to b, so that the best fit to the three is now upside down. Top right, a small fall-off: the bar has turned
over, as a whole. Bottom left, a big fall-off: it tears. About b and c, the weight of a is lost in rounding;
nothing says "upside down" there any more, and the smallest rotation that takes b and c along is one within
the plane. Bottom right, the same with damping, in many small steps: rotations stay near those of the step
before, and nothing jumps. (Figure 3 of the moving least squares paper.)

    python examples/handle_jump.py [PICTURE.png]
"""

import numpy as np
from _report import paths, save_picture

from pointglue import view
from pointglue.deform import HandleDeformer
from pointglue.geometry import shapes

SIZE, CELLS = (3.2, 0.7, 0.7), (64, 14, 14)
HANDLES = np.array([[-1.3, 0.0, 0.0], [0.7, 0.0, 0.0], [0.7, 0.1, 0.0]])  # a, b, c
MOVED = np.array([[-1.3, 0.0, 0.0], [0.7, 0.0, 0.0], [0.8, -0.1, 0.0]])
SMALL, BIG = 1.0, 10.0
STEPS = 30


def main(picture):
    rest, faces = shapes.box(SIZE, CELLS)
    edges = np.unique(np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1), axis=0)

    def lengths(x):
        return np.linalg.norm(x[edges[:, 0]] - x[edges[:, 1]], axis=1)

    small = HandleDeformer(rest, HANDLES, falloff=SMALL).at(MOVED)
    big = HandleDeformer(rest, HANDLES, falloff=BIG).at(MOVED)
    # Damping counts against what pulls at the rotations: weight by length squared. No vertex is nearer to
    # b and c than a quarter, so this much holds every one of them; less than this holds only the far ones,
    # and the bar would tear between those and the rest.
    pull = 0.25 ** (-2 * BIG) * ((HANDLES[2] - HANDLES[1]) ** 2).sum()
    slow = HandleDeformer(rest, HANDLES, falloff=BIG, damping=pull)
    damped = slow.at(HANDLES)
    for t in np.linspace(0, 1, STEPS + 1)[1:]:
        damped = slow.at(HANDLES + t * (MOVED - HANDLES), previous=damped.rotations)

    panels = [
        ("at rest", rest, HANDLES),
        ("small fall-off", small.positions, MOVED),
        ("big fall-off", big.positions, MOVED),
        ("big fall-off, damped", damped.positions, MOVED),
    ]
    shades = np.where(rest[:, 1:2] > -1e-9, [[0.89, 0.82, 0.69]], [[0.16, 0.62, 0.56]])
    scene = view.Picture(
        size=(1280, 640), ground=False, camera=view.Camera(direction=(0.1, 0.25, 1.0), fov=12)
    )
    stretch, spots = [], []
    for k, (name, bar, handles) in enumerate(panels):
        stretch.append((lengths(bar) / lengths(rest)).max())
        print(f"{name}: the most stretched edge is {stretch[-1]:.2f} times as long as at rest")
        place = [3.8 * (k % 2), -1.75 * (k // 2), 0]
        scene.mesh(bar + place, faces, color=shades, edges=True)
        spots.append(handles + place)
    # The handles are inside the bar. Drawn a little way towards the eye, they are seen where they are.
    scene.camera = scene.fitted_camera()
    eye = np.array(scene.camera.target) + scene.camera.distance * scene.camera.axes[2]
    for spot, color in zip(np.swapaxes(spots, 0, 1), ("red", "gold", "coral"), strict=True):
        scene.points(spot + 0.04 * (eye - spot), color=color, radius=0.05)
    upside_down = np.diag([1.0, -1.0, -1.0])
    assert np.allclose(small.rotations[rest[:, 0] < -1.5], upside_down, atol=0.3)
    assert stretch[2] > 10  # a tear: edges that span the gap
    assert stretch[3] < 2.5
    save_picture(scene, picture)


if __name__ == "__main__":
    main(*paths("handle_jump"))
