"""Why distances are measured inside the shape: one raised hoof, and what becomes of the leg beside it.

Handles (red) are in the hooves and along the body; one front hoof swings forward. What moved is teal. Left,
with distances straight through the air, the other front leg is close to the handle that moves, and is dragged
along. Right, with distances "inside", the way from one leg to the other goes up through the chest and
down again, and the other hoof stays put. (Figure 4 of the moving least squares paper.)

    python examples/handle_legs.py [PICTURE.png] [MESH]

The mesh is a creature that stands on four legs along its longer side, whichever axis is up.
"""

import numpy as np
import trimesh
from _report import paths, save_picture
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import logsumexp

from pointglue import view
from pointglue.deform import HandleDeformer
from pointglue.geometry import shapes

# The generated creature: bones from one place to another, with the radii at both.
BONES = [((-0.7, 1.15, 0), (0.6, 1.2, 0), 0.36, 0.34), ((0.6, 1.3, 0), (1.05, 1.95, 0), 0.26, 0.18)]
BONES += [((1.05, 1.95, 0), (1.5, 1.75, 0), 0.19, 0.12), ((-1.0, 1.25, 0), (-1.35, 0.6, 0), 0.1, 0.07)]
BONES += [((x, 1.0, z), (x, 0.1, z), 0.16, 0.1) for x in (-0.75, 0.5) for z in (-0.19, 0.19)]
BONES += [((x, 0.1, z), (x + 0.1, 0.08, z), 0.11, 0.09) for x in (-0.75, 0.5) for z in (-0.19, 0.19)]
BONES += [((0.98, 2.0, z), (0.9, 2.3, 1.6 * z), 0.09, 0.05) for z in (-0.1, 0.1)]


def outside(x, blend=0.05):
    """Distance from the skin (n,), negative inside: that of the nearest bone, rounded where bones meet."""
    each = []
    for a, b, ra, rb in BONES:
        bone = np.subtract(b, a)
        t = np.clip((x - a) @ bone / (bone @ bone), 0, 1)
        each.append(np.linalg.norm(x - a - t[:, None] * bone, axis=1) - ra - t * (rb - ra))
    return -blend * logsumexp(-np.array(each) / blend, axis=0)


def hooves(vertices, faces):
    """Middles of the pieces that the mesh is in near the ground (k, 3)."""
    low = vertices[:, 1] < vertices[:, 1].min() + 0.06 * np.ptp(vertices[:, 1])
    near = faces[low[faces].all(1)]
    ends = near[:, :2].ravel(), near[:, 1:].ravel()
    graph = coo_array((np.ones(len(ends[0])), ends), shape=(len(vertices),) * 2)
    piece = connected_components(graph, directed=False)[1]
    return np.array([vertices[piece == k].mean(0) for k in np.unique(piece[near])])


def standing(vertices, faces):
    """The creature with its hooves on y = 0, of height 1 and along x, and the hooves."""
    for axes in ([0, 1, 2], [1, 2, 0], [2, 0, 1]):
        turned = vertices[:, axes]
        if len(hooves(turned, faces)) == 4:  # only seen from below it is in four pieces
            middle = (turned.min(0) + turned.max(0)) / 2
            turned = (turned - [middle[0], turned[:, 1].min(), middle[2]]) / np.ptp(turned[:, 1])
            return turned, hooves(turned, faces)
    raise SystemExit("the mesh does not stand on four hooves along x, y or z")


def main(picture, mesh=None):
    if mesh is None:
        vertices, faces = shapes.skin(outside, (-1.6, -0.2, -0.6), (1.8, 2.6, 0.6), 0.04)
    else:
        loaded = trimesh.load(mesh, process=False, force="mesh")
        vertices, faces = np.asarray(loaded.vertices), np.asarray(loaded.faces)
    rest, feet = standing(vertices, faces)
    body = rest[rest[:, 1] > 0.6]
    parts = np.digitize(body[:, 0], np.linspace(body[:, 0].min(), body[:, 0].max(), 6)[1:-1])
    handles = np.concatenate([feet, [body[parts == k].mean(0) for k in range(5)]])
    # Of the front hooves, that farther from the camera swings forward about the shoulder, at half the height.
    front = np.argsort(feet[:, 0])[2:]
    lifted, other = front[np.argsort(feet[front, 2])]
    now = handles.copy()
    now[lifted] += 0.5 * np.array([np.sin(0.8), 1 - np.cos(0.8), 0])

    inside = HandleDeformer((rest, faces), handles, distance="inside")
    straight = HandleDeformer((rest, faces), handles, distance="euclidean")
    hoof = inside.distances[other] < 0.1
    scene = view.Picture(camera=view.Camera(direction=(1.0, 0.2, 0.75), fov=14))
    dragged, spots = [], []
    for deformer, side in [(straight, -0.5), (inside, 0.5)]:
        posed = deformer.deform(now)
        moved = np.linalg.norm(posed - rest, axis=1)
        dragged.append(moved[hoof].mean())
        place = side * 1.1 * scene.camera.axes[0]
        share = np.clip(moved / 0.25, 0, 1)[:, None]
        colors = (1 - share) * [0.85, 0.77, 0.63] + share * [0.1, 0.56, 0.52]
        scene.mesh(posed + place, faces, color=colors)
        spots.append(now + place)
    # Handles are inside. Drawn a little way towards the eye, they are seen where they are.
    scene.camera = scene.fitted_camera()
    eye = np.array(scene.camera.target) + scene.camera.distance * scene.camera.axes[2]
    for spot in spots:
        scene.points(0.94 * spot + 0.06 * eye, color="red", radius=0.013)
    print(f"{len(rest):,} vertices; the hoof next to the lifted one moves by {dragged[0]:.4f} of the height")
    print(f"with straight distances, and by {dragged[1]:.4f} with distances inside")
    assert dragged[1] < dragged[0] / 3
    save_picture(scene, picture)


if __name__ == "__main__":
    main(*paths("handle_legs"))
