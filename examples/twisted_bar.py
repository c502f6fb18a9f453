"""A bar whose ends are turned against each other by 90 degrees, in three ways.

Left, linear blend skinning with a bone for each end: where both bones weigh the same, it takes the mean of
two rotations, which is no rotation, and the bar has a waist of 1 / sqrt(2). Middle, eight handles (red)
about each end: every vertex is moved by a rotation, and the waist all but disappears. Right, one handle in
each end that carries an orientation, like a ball on an axle: nothing shrinks at all, though the corners turn
by 84 degrees only, since nothing holds them. The ring in the middle of each bar is the section that is
measured. (Figure 2 of the moving least squares paper.)

    python examples/twisted_bar.py [PICTURE.png]
"""

import numpy as np
from _report import paths, save_picture

from pointglue import view
from pointglue.deform import HandleDeformer
from pointglue.geometry import shapes

LENGTH, CELLS = 3.0, 8
TWIST = np.pi / 2


def about_y(angle):
    """Rotation matrices (..., 3, 3) about the bar's axis."""
    c, s, o = np.cos(angle), np.sin(angle), np.zeros_like(angle)
    rows = [[c, o, s], [o, o + 1, o], [-s, o, c]]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def turned(points):
    """What happens to the ends: the lower half of the bar turned one way, the upper half the other."""
    return np.einsum("nij,nj->ni", about_y(TWIST / 2 * np.sign(points[:, 1])), points)


def skinned(points):
    """Linear blend skinning: the two bones' positions of each vertex, mixed by its height."""
    lower, upper = about_y(np.array([-TWIST, TWIST]) / 2)
    weight = (points[:, 1] / LENGTH + 0.5)[:, None]
    return (1 - weight) * points @ lower.T + weight * points @ upper.T


def main(picture):
    rest, faces = shapes.box((1, LENGTH, 1), (CELLS, 3 * CELLS, CELLS))
    across = np.abs(rest[:, [0, 2]])
    at_end, on_edge = np.isclose(abs(rest[:, 1]), LENGTH / 2), np.isclose(across, 0.5).all(1)
    # The corners of both ends, and the middles of their sides.
    rim = rest[at_end & (np.isclose(across, 0.5) | np.isclose(across, 0)).all(1) & (across.max(1) > 0.4)]
    corners = HandleDeformer((rest, faces), rim)
    # The radius says how firmly a handle holds its orientation against the others. Here it is alone.
    axle = np.array([[0, -LENGTH / 2, 0], [0, LENGTH / 2, 0]])
    balls = HandleDeformer((rest, faces), axle, radii=0.5)
    bars = [
        ("skinning", skinned(rest), None),
        ("8 handles an end", corners.deform(turned(rim)), turned(rim)),
        (
            "1 oriented handle an end",
            balls.deform(axle, rotations=about_y(TWIST / 2 * np.sign(axle[:, 1]))),
            axle,
        ),
    ]

    waist = np.isclose(rest[:, 1], 0)
    around = np.flatnonzero(waist)[np.argsort(np.arctan2(*rest[waist][:, [0, 2]].T))]
    scene = view.Picture(camera=view.Camera(direction=(0.05, 0.26, 1.0), fov=16))
    sides = []
    for k, (name, bar, handles) in enumerate(bars):
        corner = bar[waist & on_edge][:, [0, 2]]
        sides.append(np.sqrt(2) * np.linalg.norm(corner, axis=1).mean())
        print(f"{name}: the middle section's side is {sides[-1]:.3f} of what it was")
        place = [1.95 * (k - 1), LENGTH / 2, 0]
        scene.mesh(bar + place, faces, color=["#a3afbb", "sand", "sand"][k], edges=True)
        scene.lines(bar[np.append(around, around[0])] * [1.01, 1, 1.01] + place, color="teal", radius=0.02)
        if handles is not None:
            scene.points(handles + place, color="red", radius=0.05)
    assert abs(sides[0] - np.sqrt(0.5)) < 0.01 * np.sqrt(0.5)
    assert sides[1] > 0.95
    assert abs(sides[2] - 1) < 1e-12
    assert np.allclose(bars[1][1][at_end & on_edge], turned(rest[at_end & on_edge]))
    save_picture(scene, picture)


if __name__ == "__main__":
    main(*paths("twisted_bar"))
