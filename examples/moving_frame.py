"""A point that is not part of a deforming bar follows it, and its weight goes back to the bar.

The frame (red, green, blue) is the best rigid fit to eight points of the bar, marked in gold. The
lantern hangs in that frame, off the bar. The teal arrows are the forces that the lantern's weight
(coral) becomes on the eight points: the transpose of the Jacobian of its position. They add up to
the weight, and to its torque.

    python examples/moving_frame.py [PICTURE.png]
"""

import numpy as np
from _report import paths, save_picture

import pointglue as pg
from pointglue import view
from pointglue.geometry import shapes

HEIGHT, WIDTH = 2.0, 0.4
FORCE_SCALE = 0.6  # metres of arrow per newton


def swayed(points, bend, twist):
    """The upright bar, fixed at its foot, bent by `bend` and twisted by `twist` radians at its top."""
    x, y, z = points.T
    s = y / HEIGHT
    turn = twist * s
    x, z = x * np.cos(turn) + z * np.sin(turn), z * np.cos(turn) - x * np.sin(turn)
    angle = bend * s
    sine, versine = np.sinc(angle / np.pi) * y, np.sinc(angle / 2 / np.pi) ** 2 * angle * y / 2
    return np.stack([versine + x * np.cos(angle), sine - x * np.sin(angle), z], axis=1)


def main(picture):
    rest, faces = shapes.box((WIDTH, HEIGHT, WIDTH), (6, 36, 6))
    rest[:, 1] += HEIGHT / 2
    lantern = np.array([0.7, 0.875 * HEIGHT, 0.0])
    on_edge = np.isclose(abs(rest[:, 0]), WIDTH / 2) & np.isclose(abs(rest[:, 2]), WIDTH / 2)
    parents = np.flatnonzero(on_edge & np.isin(rest[:, 1], [HEIGHT, 0.75 * HEIGHT]))
    weight = np.array([0.0, -1.0, 0.0])

    poses = np.stack([swayed(rest, *pose) for pose in [(0, 0), (0.8, 0.5), (1.5, -1.2)]])
    fit = pg.fit_rigid(rest[parents], poses[:, parents])
    carried = fit.apply(lantern)
    forces = np.einsum("fnij,i->fnj", fit.jacobian(lantern), weight)

    # What the Jacobian promises: no force and no torque is lost on the way.
    assert np.allclose(forces.sum(1), weight)
    torque = np.cross(poses[:, parents], forces).sum(1)
    assert np.allclose(torque, np.cross(carried, weight))

    scene = view.Picture(camera=view.Camera(direction=(0.3, 0.3, 1.0)))
    for k, place in enumerate([[-1.9, 0, 0], [-0.4, 0, 0], [1.4, 0, 0]]):
        origin = fit.centroid[k] + place
        scene.mesh(poses[k] + place, faces, color="sand")
        scene.points(poses[k, parents] + place, color="gold", radius=0.03)
        scene.frame(fit.rotation[k], origin, size=0.38)
        scene.lines(np.stack([origin, carried[k] + place]), color="slate", radius=0.012)
        scene.ellipsoids((carried[k] + place)[None], np.full((1, 3), 0.08), color="coral")
        scene.arrows((carried[k] + place)[None], FORCE_SCALE * weight[None], color="coral", radius=0.014)
        scene.arrows(poses[k, parents] + place, FORCE_SCALE * forces[k], color="teal", radius=0.011)
        print(f"pose {k}: lantern at {np.round(carried[k], 3)}, gap {fit.gap[k]:.2f}")
    save_picture(scene, picture)


if __name__ == "__main__":
    main(*paths("moving_frame"))
