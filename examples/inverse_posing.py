"""Posing from the outside in: handles are found that bring chosen points of a shape to given places.

A creature with two feelers, at rest the pale one, is held in the middle by a post. Its tips (teal) are wanted
at the coral balls. Nobody drags the handles (red): least squares finds them, with the derivatives that
`vjp` hands back from the tips to all handles. Soft rods between the handles keep length and thickness, and
the ring of handles at the post stays where it is.

    python examples/inverse_posing.py [PICTURE.png]
"""

import numpy as np
from _report import paths, save_picture
from scipy.optimize import least_squares

from pointglue import view
from pointglue.deform import HandleDeformer
from pointglue.geometry import shapes

LENGTH, RINGS, FALLOFF = 4.0, 17, 1.0
ALONG = np.array([[-1.0, 0, 0], [1.0, 0, 0]])  # where the feelers point
SIDES = np.array([[0, 1.0, 0], [0, -0.8, 0.6]])  # where they shall turn to
BENDS = np.array([[2.4], [1.8]])  # and how far, in radians
PULL = 30.0  # of the targets, against the rods
STEPS = 6


def thickness(x):
    """The radius, along the axis."""
    return 0.25 - 0.12 * np.abs(2 * x / LENGTH) ** 1.5


def feelers():
    """A round bar that tapers towards both ends, from a box: squares about the axis become circles."""
    points, faces = shapes.box((LENGTH, 2, 2), (120, 10, 10))
    x, across = points[:, :1], points[:, 1:]
    length = np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-9)
    across = across * np.abs(across).max(1, keepdims=True) / length * thickness(x)
    return np.concatenate([x, across], axis=1), faces


def arcs(share):
    """Where the tips would be (2, 3) if the two halves were arcs, bent by a share of BENDS."""
    angle = share * BENDS
    return LENGTH / 2 * (np.sin(angle) * ALONG + (1 - np.cos(angle)) * SIDES) / angle


def main(picture):
    (rest, faces), goals = feelers(), arcs(1.0)
    # Rings of three handles inside, and rods from each handle to the others of its ring and the next two.
    x, angle = np.repeat(np.linspace(-0.5, 0.5, RINGS) * LENGTH, 3), np.arange(3 * RINGS) * 2 * np.pi / 3
    handles = np.stack([x, 0.08 * np.cos(angle), 0.08 * np.sin(angle)], axis=1)
    free = np.abs(x) > 1e-9
    a, b = np.triu_indices(len(handles), 1)
    near = b // 3 - a // 3 <= 2
    a, b = a[near], b[near]
    lengths = np.linalg.norm(handles[a] - handles[b], axis=1)

    tips = [np.linalg.norm(rest - LENGTH / 2 * along, axis=1).argmin() for along in ALONG]
    # The tips alone will do for now: a vertex moves by itself, whatever others there are.
    points = HandleDeformer(rest[tips], handles, falloff=FALLOFF)

    def pose(moved):
        q = handles.copy()
        q[free] = moved.reshape(-1, 3)
        return q, points.at(q), q[a] - q[b]

    def errors(moved, targets):
        """Of the tips, times PULL, and of the rods' lengths."""
        _, now, rods = pose(moved)
        return np.append(PULL * (now.positions - targets), np.linalg.norm(rods, axis=1) - lengths)

    def slopes(moved, _):
        """The derivatives of the errors: a row for each, in which every handle has three columns."""
        _, now, rods = pose(moved)
        of_tips = [now.vjp(PULL * one.reshape(-1, 3)) for one in np.eye(3 * len(tips))]
        of_rods, each = np.zeros((len(a), *handles.shape)), np.arange(len(a))
        way = rods / np.linalg.norm(rods, axis=1, keepdims=True)
        of_rods[each, a], of_rods[each, b] = way, -way
        rows = np.concatenate([of_tips, of_rods])
        return rows[:, free].reshape(len(rows), -1)

    # These are the derivatives: against difference quotients, at a place that is nothing special.
    rng = np.random.default_rng(0)
    found = handles[free].ravel()
    place, way = found + 0.03 * rng.standard_normal(found.shape), 1e-5 * rng.standard_normal(found.shape)
    change = (errors(place + way, goals) - errors(place - way, goals)) / 2
    off = np.abs(slopes(place, None) @ way - change).max() / np.abs(change).max()
    print(f"derivatives and difference quotients agree to {off:.0e}")
    assert off < 1e-6

    # The targets set out from the tips and on arcs: on a straight way they would first push the tips in.
    evaluations = 0
    for share in np.linspace(0, 1, STEPS + 1)[1:]:
        result = least_squares(errors, found, slopes, args=(arcs(share),), method="lm")
        found, evaluations = result.x, evaluations + result.nfev
    q = pose(found)[0]
    posed = HandleDeformer((rest, faces), handles, falloff=FALLOFF, distance="euclidean").deform(q)
    miss = np.linalg.norm(posed[tips] - goals, axis=1).max()
    strain = np.abs(np.linalg.norm(q[a] - q[b], axis=1) / lengths - 1)
    print(f"{evaluations} evaluations; the tips miss their targets by {miss / LENGTH:.1e} of the length")
    print(f"the rods are strained by {strain.mean():.1%} in the mean, {strain.max():.1%} at most")
    assert miss < 1e-3 * LENGTH
    assert strain.max() < 0.5

    scene = view.Picture(ground=-1.4, camera=view.Camera(direction=(0.1, 0.2, 1.0), fov=20))
    scene.mesh(posed, faces, color="sand")
    scene.points(goals, color="coral", radius=0.1)
    scene.points(rest[tips], color="teal", radius=0.06)
    scene.lines([[0, -1.4, 0], [0, 0, 0]], color="graphite", radius=0.05)
    scene.camera = scene.fitted_camera()
    eye = np.array(scene.camera.target) + scene.camera.distance * scene.camera.axes[2]
    # Along the way to the eye everything is seen in the same place: so the handles, which are inside, come
    # to the front, and the pale creature goes to the back.
    scene.points(q + 0.06 * (eye - q), color="red", radius=0.02)
    scene.mesh(rest - 0.06 * (eye - rest), faces, color="slate", opacity=0.25)
    save_picture(scene, picture)


if __name__ == "__main__":
    main(*paths("inverse_posing"))
