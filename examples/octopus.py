"""A soft octopus falls, and two more fall on it (figure 3 of the paper on oriented particles).

From left to right: its particles, from soft (gold) to stiff (red); in the air; on the ground; two more on
their way; and the three in the end. About 300 ellipsoids carry a mesh of 5,600 vertices, and collide with the
ground, with each other and with those of the others. Distances are measured inside the shape: no arm holds on
to another, and none drags the skin of another along.

    python examples/octopus.py [PICTURE.png] [MOVIE.mp4]
"""

import numpy as np
from _report import paths, run_particles, save_movie, save_picture
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

import pointglue as pg
from pointglue import assets, particles, view
from pointglue.particles.authoring import editing

FRAME = 1 / 60
GROUND = particles.Plane([0, 0, 0], [0, 1, 0])
OPTIONS = {"colliders": [GROUND], "iterations": 4, "damping": 8.0}
SOFT, STIFF = 0.25, 1.0
COLORS = ["rose", "teal", "gold"]


def limbs(points, cells):
    """The number of the arm that each point is on, 0 to 7 or -1 for none, and the points at the tips."""
    edges = np.unique(np.sort(np.concatenate([cells[:, :2], cells[:, -2:]]), axis=1), axis=0)
    length = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
    out = (np.hypot(points[:, 0], points[:, 2]) > 0.17) & (points[:, 1] < 0.25)
    kept, shape = out[edges].all(1), (len(points), len(points))
    pieces = connected_components(coo_array((length[kept], edges[kept].T), shape), directed=False)[1]
    arms = np.unique(np.where(out, pieces, -1), return_inverse=True)[1] - 1
    assert arms.max() == 7
    away = dijkstra(coo_array((length, edges.T), shape), directed=False, indices=points[:, 1].argmax())
    return arms, [int(np.where(arms == arm, away, 0.0).argmax()) for arm in range(8)]


def octopus():
    """Made in one call, then finished by hand: a particle in the tip of each arm, and a stiff head."""
    vertices, faces = assets.octopus()
    body = pg.OrientedBody.from_mesh((vertices, faces), aspect=4.0)
    tips = vertices[limbs(vertices, faces)[1]]
    last = cKDTree(body.positions).query(tips)[1]
    ends = len(body) + np.arange(len(tips))
    body = editing.add(body, tips + 0.2 * (body.positions[last] - tips), radii=0.009)
    body = editing.connect(body, np.stack([last, ends], axis=1))
    body = editing.bind(body, np.flatnonzero(cKDTree(tips).query(vertices)[0] < 0.06))
    height = np.clip((body.positions[:, 1] - 0.1) / 0.12, 0.0, 1.0)
    # All of one mass: light particles would be thrown about by heavy ones.
    return body.replace(stiffness=SOFT + height * (STIFF - SOFT), mass=body.mass.mean())


def turned(body, degrees, place):
    return body.moved(
        rotation=Rotation.from_euler("yzx", degrees, degrees=True).as_matrix(), translation=place
    )


def joined(solver, first, speed):
    """How three start: the first goes on from its last state, the others fall at a speed already."""
    state, own = solver.start(), solver.parts[0]
    values = {}
    for name in ("positions", "rotations", "velocities", "spins"):
        values[name] = getattr(state, name).copy()
        if name == "velocities":
            values[name][:, 1] = -speed
        values[name][own] = getattr(first, name)
    return state.replace(**values)


def dragged(body):
    """How far vertices of other arms move, at most, when the particles of one arm are moved by a metre."""
    where, skin = limbs(body.positions, body.edges)[0], limbs(body.visual.vertices, body.visual.faces)[0]
    start, farthest = body.start(), 0.0
    still = body.skin(start)
    for arm in range(8):
        moved = start.replace(positions=start.positions + (where == arm)[:, None] * [0.0, 1.0, 0.0])
        way = np.linalg.norm(body.skin(moved) - still, axis=1)
        own = skin[way.argmax()]
        assert way[skin == own].mean() > 0.9
        farthest = max(farthest, way[(skin >= 0) & (skin != own)].max())
    return farthest


def speeds(state):
    return np.linalg.norm(state.velocities, axis=1)


def main(picture, movie=None):
    body = octopus()
    drag = dragged(body)
    print(f"{len(body)} particles, {len(body.edges)} edges, {len(body.visual)} vertices")
    print(f"an arm that moves by 1 m takes the vertices of others along by {drag:.1g} m")
    assert drag == 0

    one = particles.ParticleSolver(turned(body, [0, 20, 10], [0.0, 0.6, 0.0]), **OPTIONS)
    fall, meshes, (solving, skinning) = run_particles(one, one.start(), FRAME, 3.0)
    print(f"one: solver {solving:.1f}, skinning {skinning:.1f} ms a frame (the paper: 4, and 6 with drawing)")
    others = [turned(body, [70, -60, 0], [0.0, 0.75, 0.05]), turned(body, [200, 100, 0], [-0.1, 1.35, 0.0])]
    three = particles.ParticleSolver([one.body, *others], **OPTIONS)
    pile, piled, (solving, skinning) = run_particles(
        three, joined(three, fall[-1], 1.0), FRAME, 7.0 if movie else 2.5
    )
    print(f"three: solver {solving:.1f}, skinning {skinning:.1f} ms a frame (the paper: 10 to solve)")

    x = np.concatenate([state.positions for state in pile])
    lowest = min(mesh[:, 1].min() for mesh in [*meshes, *piled])
    slow, fast = speeds(fall[-1]).max(), speeds(pile[-1])
    assert np.isfinite(x).all()
    print(f"no vertex of all times is more than {-1e3 * lowest:.0f} mm below the ground")
    print(f"in the end: one at rest to {1e3 * slow:.0f} mm/s, three to {1e3 * fast.max():.0f} mm/s")
    print(f"(99 % of their particles to {1e3 * np.quantile(fast, 0.99):.0f} mm/s)")
    assert lowest > -0.02
    assert slow < 0.05
    assert np.quantile(fast, 0.99) < 0.1  # a last arm may slip off another
    assert not movie or fast.max() < 0.1

    camera = view.Camera(direction=(0.25, 0.35, 1.0), fov=12)
    scene = view.Picture(size=(1600, 560), ground=0.0, camera=camera)
    gold, red = np.array([[0.91, 0.71, 0.3], [0.82, 0.26, 0.31]])
    share = (body.stiffness[:, None] - SOFT) / (STIFF - SOFT)
    axes = body.start().rest.rotations
    scene.ellipsoids(body.positions, body.radii, axes, color=gold + share * (red - gold))

    def draw(scene, mesh, place):
        parts = three.visual_parts[: len(mesh) // len(body.visual)]
        for part, color in zip(parts, COLORS, strict=False):
            scene.mesh(mesh[part] + place * camera.axes[0], body.visual.faces, color=color)
        return scene

    for place, mesh in ((1.05, meshes[0]), (2.15, meshes[-1]), (3.35, piled[6]), (4.55, piled[-1])):
        draw(scene, mesh, place)
    save_picture(scene, picture)
    if movie:
        still = view.Camera(direction=(0.25, 0.35, 1.0), fov=20, target=(0.0, 0.5, 0.0), distance=4.6)
        shots = [*meshes[:-1], *piled][::2]
        frames = (draw(view.Picture(size=(960, 540), ground=0.0, camera=still), mesh, 0.0) for mesh in shots)
        save_movie(frames, movie)


if __name__ == "__main__":
    main(*paths("octopus"))
