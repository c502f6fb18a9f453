"""A detailed mesh follows a coarse cage that does not contain it.

Left, the mesh and a lattice of cubes about its inner part; what sticks out is red. Right, the lattice is
bent and twisted, and all of the mesh follows: inside by barycentric weights, outside by glue. No weight
is negative, so forces on the mesh are safe to hand to the cage.

    python examples/embedded_mesh.py [PICTURE.png] [MESH]
"""

import numpy as np
import trimesh
from _report import paths, save_picture

import pointglue as pg
from pointglue import view
from pointglue.geometry import simplices


def urchin():
    """A ball with long soft spikes: the generated stand-in for a mesh of your own."""
    ball = trimesh.creation.icosphere(subdivisions=5)
    spikes = trimesh.creation.icosahedron().vertices
    spikes = spikes / np.linalg.norm(spikes, axis=1, keepdims=True)
    near = (ball.vertices @ spikes.T).max(1)
    height = 1 + 0.9 * np.exp((near - 1) / 0.02)
    return ball.vertices * height[:, None] * [1.3, 1.0, 1.0], np.asarray(ball.faces)


def swung(points, size):
    """Twisted about x by half a radian per size, and bent downwards towards the ends."""
    x, y, z = (points / size).T
    c, s = np.cos(0.5 * x), np.sin(0.5 * x)
    y, z = c * y - s * z, s * y + c * z
    angle = 0.5 * x
    return size * np.stack(
        [x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - abs(x * np.sin(angle)), z], axis=1
    )


def main(picture, mesh=None):
    if mesh is None:
        vertices, faces = urchin()
    else:
        loaded = trimesh.load(mesh, process=False, force="mesh")
        vertices, faces = np.asarray(loaded.vertices), np.asarray(loaded.faces)
    vertices = vertices - (vertices.min(0) + vertices.max(0)) / 2
    size = np.ptp(vertices, axis=0).max() / 2
    spacing = 0.2 * size
    # The cage is made about the inner part only, so that the outermost seventh sticks out of it.
    distance = np.linalg.norm(vertices, axis=1)
    cage, tets = simplices.lattice_cage(vertices[distance < np.quantile(distance, 6 / 7)], spacing)
    embedding = pg.embed((cage, tets), vertices)
    now = swung(cage, size)
    carried = embedding.positions(now)

    least = min(part.weights.min() for _, part in embedding.parts)
    assert least >= 0
    assert np.allclose(embedding.positions(cage), vertices)
    rng = np.random.default_rng(0)
    f = rng.standard_normal(vertices.shape)
    assert np.allclose(embedding.transfer_forces(now, f).sum(0), f.sum(0))
    print(f"{len(vertices):,} vertices, {embedding.inside.mean():.1%} of them inside a cage of {len(cage)}")
    print(f"least weight {least:.1e}")

    colors = np.where(embedding.inside[:, None], [0.85, 0.76, 0.62], [0.85, 0.3, 0.25])
    edges = np.unique(
        np.sort(simplices.tet_surface(tets)[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1), axis=0
    )
    # The lattice's own edges, without the diagonals that cut its cubes into tetrahedra.
    straight = edges[np.isclose(np.linalg.norm(cage[edges[:, 0]] - cage[edges[:, 1]], axis=1), spacing)]
    scene = view.Picture(camera=view.Camera(direction=(0.35, 0.3, 1.0)))
    gap = 1.15 * np.ptp(carried[:, 0])
    for points, frame, shift in [(vertices, cage, -gap / 2), (carried, now, gap / 2)]:
        scene.mesh(points + [shift, 0, 0], faces, color=colors)
        scene.lines(frame + [shift, 0, 0], segments=straight, color="teal", radius=0.004 * size)
    save_picture(scene, picture)


if __name__ == "__main__":
    main(*paths("embedded_mesh"))
