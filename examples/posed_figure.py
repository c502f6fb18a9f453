"""A figure posed by twenty handles (red): at rest, and on its way with a wave of the hand.

The handles are in the middle of the bones of a simple skeleton, and on the surface at the end of each limb.
Posing turns the bones about their joints; handles go with their bones and carry their orientation, and all
of the skin follows. No vertex is painted with weights. (Figure 1 of the moving least squares paper.)

    python examples/posed_figure.py [PICTURE.png] [MESH]

A mesh of your own needs a table of joints like those below; there is one for a file named homer.
"""

from pathlib import Path

import numpy as np
import trimesh
from _report import paths, save_picture
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation
from scipy.special import logsumexp

from pointglue import view
from pointglue.deform import HandleDeformer
from pointglue.geometry import shapes

# Each bone's joint and tip in a figure of height 1 that looks along z, and its radii there. Limbs are the
# left ones, and mirrored.
FIGURE = {
    "hips": [(0, 0.5, 0), (0, 0.55, 0), (0.088, 0.085)],
    "chest": [(0, 0.6, 0), (0, 0.82, 0), (0.09, 0.055)],
    "head": [(0, 0.88, 0.005), (0, 0.94, 0), (0.075, 0.09)],
    "arm": [(0.1, 0.74, 0), (0.22, 0.69, 0), (0.055, 0.04)],
    "forearm": [(0.22, 0.69, 0), (0.24, 0.7, 0.13), (0.038, 0.03)],
    "hand": [(0.24, 0.7, 0.14), (0.245, 0.705, 0.19), (0.04, 0.04)],
    "thigh": [(0.065, 0.47, 0), (0.085, 0.27, 0.01), (0.062, 0.048)],
    "shin": [(0.085, 0.27, 0.01), (0.085, 0.06, 0), (0.046, 0.036)],
    "foot": [(0.085, 0.045, 0), (0.095, 0.035, 0.09), (0.042, 0.036)],
}
NOSE = (0, 0.91, 0.095)
HOMER = {
    "hips": [(0, 0.34, -0.03), (0, 0.42, -0.02)],
    "chest": [(0, 0.46, -0.02), (0, 0.64, -0.01)],
    "head": [(0, 0.68, -0.02), (0, 0.97, -0.05)],
    "arm": [(0.1, 0.59, -0.025), (0.2, 0.55, -0.025)],
    "forearm": [(0.205, 0.545, -0.02), (0.225, 0.56, 0.09)],
    "hand": [(0.225, 0.56, 0.09), (0.235, 0.57, 0.15)],
    "thigh": [(0.075, 0.29, -0.03), (0.078, 0.18, -0.025)],
    "shin": [(0.078, 0.18, -0.025), (0.078, 0.05, -0.03)],
    "foot": [(0.078, 0.05, -0.02), (0.08, 0.02, 0.08)],
}
# What each bone hangs on, and its turns against that in degrees, about z, then y, then x: right, then left.
POSE = {
    "hips": (None, (0, 0, 0)),
    "chest": ("hips", (5, -8, 0)),
    "head": ("chest", (-13, 22, -4)),
    "arm": ("chest", (-68, 0, 0), (-30, 15, 0)),
    "forearm": ("arm", (45, -72, 0), (0, 45, 15)),
    "hand": ("forearm", (45, -5, 0), (0, 15, 0)),
    "thigh": ("hips", (-4, 0, 25), (3, 0, -42)),
    "shin": ("thigh", (0, 0, 38), (0, 0, 14)),
    "foot": ("shin", (0, 0, -15), (0, 0, 0)),
}


def bones(joints):
    """Every bone's name, side (-1 or 1, in the middle 1), joint and tip."""
    for name, (joint, tip, *_) in joints.items():
        for side in (-1, 1)[-len(POSE[name]) + 1 :]:
            yield name, side, np.array(joint) * [side, 1, 1], np.array(tip) * [side, 1, 1]


def outside(x, blend=0.01):
    """Distance from the generated figure's skin (n,), negative inside: of the nearest bone, rounded."""
    each = [np.linalg.norm(x - NOSE, axis=1) - 0.022]
    for name, _, a, b in bones(FIGURE):
        t = np.clip((x - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1)
        each.append(
            np.linalg.norm(x - a - t[:, None] * (b - a), axis=1) - np.interp(t, [0, 1], FIGURE[name][2])
        )
    return -blend * logsumexp(-np.array(each) / blend, axis=0)


def main(picture, mesh=None):
    joints = FIGURE
    if mesh is None:
        rest, faces = shapes.skin(outside, (-0.4, -0.1, -0.2), (0.4, 1.2, 0.35), 0.015)
    else:
        if "homer" not in Path(mesh).name:
            raise SystemExit("there is a table of joints for homer only: add one for your mesh")
        loaded = trimesh.load(mesh, process=False, force="mesh")
        rest, faces, joints = np.asarray(loaded.vertices), np.asarray(loaded.faces), HOMER
        low, high = rest.min(0), rest.max(0)
        rest = (rest - [(low + high)[0] / 2, low[1], (low + high)[2] / 2]) / (high - low)[1]

    # Where the pose takes each bone, x -> R x + t, and its handles with it.
    skin, frames = cKDTree(rest), {(None, 1): (np.eye(3), np.zeros(3))}
    handles, now, turns = [], [], []
    for name, side, joint, tip in bones(joints):
        parent, *angles = POSE[name]
        R, t = frames[parent, side] if (parent, side) in frames else frames[parent, 1]
        turn = R @ Rotation.from_euler("zyx", angles[-1 if side > 0 else 0], degrees=True).as_matrix()
        shift = R @ joint + t - turn @ joint
        frames[name, side] = turn, shift
        ends = [rest[skin.query(2 * tip - joint)[1]]] if name in ("head", "hand", "foot") else []
        for place in [(joint + tip) / 2, *ends]:
            handles.append(place)
            now.append(turn @ place + shift)
            turns.append(turn)
    handles, now = np.array(handles), np.array(now)
    deformer = HandleDeformer((rest, faces), handles, falloff=2.0, radii=0.05)
    posed = deformer.deform(now, rotations=turns)

    away, vertex = skin.query(handles)
    on = away == 0
    assert on.sum() == 5
    assert np.array_equal(posed[vertex[on]], now[on])
    edges = np.unique(np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1), axis=0)
    before, after = (np.linalg.norm(np.diff(x[edges], axis=1)[:, 0], axis=1) for x in (rest, posed))
    stretch = (after / before).max()
    print(f"{len(rest):,} vertices, {len(handles)} handles; no edge stretches by more than {stretch:.2f}")
    # A limb as thick as its bend is long, bent by 72 degrees and turned by 45, stretches on the outside by
    # about (1 + 1.26, 0.79), of length 2.4.
    assert stretch < 2.4

    scene = view.Picture(camera=view.Camera(direction=(-0.5, 0.12, 1.0), fov=16))
    step = np.array([0, -posed[:, 1].min(), 0])  # stands on the ground again
    spots = []
    for side, x, spot in [(-0.33, rest, handles), (0.33, posed + step, now + step)]:
        scene.mesh(x + side * scene.camera.axes[0], faces, color="gold")
        spots.append(spot + side * scene.camera.axes[0])
    # Most handles are inside. Drawn a little way towards the eye, they are seen where they are.
    scene.camera = scene.fitted_camera()
    eye = np.array(scene.camera.target) + scene.camera.distance * scene.camera.axes[2]
    for spot in spots:
        scene.points(spot + 0.06 * (eye - spot), color="red", radius=0.009)
    save_picture(scene, picture)


if __name__ == "__main__":
    main(*paths("posed_figure"))
