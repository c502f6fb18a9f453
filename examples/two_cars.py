"""Two trucks meet head-on: dented bodies, soft tyres, and wheels that go on turning.

Each truck is one body of 280 particles that carries a mesh of 67,000 vertices. Its hull is a rigid group that
a blow dents for good. Each axle with its rims is a rigid group of its own, and shares two particles with the
hull: that makes a hinge, and the wheels spin freely. Tyres are soft rings that hold on to the rims.
Left, just before the crash; right, two seconds later.

    python examples/two_cars.py [PICTURE.png] [MOVIE.mp4]
"""

import time
from itertools import pairwise

import numpy as np
from _report import paths, save_movie, save_picture
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

import pointglue as pg
from pointglue import assets, fit_rigid, particles, view

FRAME, SECONDS, CRASH = 1 / 60, 2.5, 0.6  # s
SPEED = 9.0  # m/s
HEADINGS, MEET = (-0.45, np.pi + 0.6), ([-0.6, 0, 0], [0.6, 0, 0.2])  # rad, m
RADIUS = 0.6  # of a tyre, m
RIM, LUGS = 8, 16  # particles around a wheel
PAINT = ("#c8323f", "#2f6db5")
COLORS = {"glass": "#1f2a36", "lamps": "#ffe9a8", "trim": "#59626c", "rims": "#c3c8ce", "tyres": "#26282c"}


def truck():
    """The body of a truck, how many vertices each part of its mesh has, and the particles of each wheel."""
    car = assets.car()
    hull = pg.OrientedBody.from_mesh(car.body, spacing=0.36, reach=1.2, density=300.0, stiffness=0.9)
    ends = car.axle_ends.reshape(-1, 3)  # of both axles, left and right
    parts = [
        hull,
        # Heavy, or the hinges would give.
        pg.OrientedBody(ends * (1, 1, 0.4), radii=0.12, mass=0.08 * hull.mass.sum(), loose=True),
        pg.OrientedBody(ends, radii=0.15, mass=20.0, loose=True),
        around(ends, 0.29, RIM, (0.04, 0.12, 0.2), mass=6.0),
        # As curved as the tyre, so that it rolls without a bump; thin, since friction holds a lug's middle.
        around(ends, 0.95 * RADIUS, LUGS, (0.03, 0.134, 0.24), mass=8.0, stiffness=0.95),
    ]
    bounds = pairwise(np.cumsum([len(part) for part in parts]))
    pin, hub, rim, lug = (np.arange(*bound).reshape(4, -1) for bound in bounds)

    held = cKDTree(hull.positions).query(parts[1].positions, k=6)[1]
    below = np.arange(LUGS) * RIM // LUGS
    edges = [hull.edges, pairs(held, pin), pairs(lug, np.roll(lug, 1, axis=1))]
    edges += [pairs(lug, rim[:, (below + k) % RIM]) for k in (0, 1)]
    axles = np.concatenate([pin, hub, rim], axis=1).reshape(2, -1)
    fields = ("positions", "orientations", "radii", "mass", "stiffness")
    body = pg.OrientedBody(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in fields},
        edges=np.concatenate(edges),
        groups=[np.append(np.arange(len(hull)), pin), *axles],
        yield_speed=[2.0, np.inf, np.inf],
    )
    skin, lengths = dressed(car, hull.visual, body.positions, hub, np.concatenate([lug, rim], axis=1))
    return body.replace(visual=skin), lengths, np.concatenate([hub, rim, lug], axis=1)


def around(centres, distance, count, radii, **options):
    """Particles on a circle about each of the wheels' centres, their first axes outwards."""
    angle = 2 * np.pi * np.arange(count) / count
    out = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    turned = Rotation.from_rotvec(angle[:, None] * [0, 0, 1]).as_quat(scalar_first=True)
    return pg.OrientedBody(
        (centres[:, None] + distance * out).reshape(-1, 3),
        orientations=np.tile(turned, (len(centres), 1)),
        radii=np.tile(radii, (len(centres) * count, 1)),
        loose=True,
        **options,
    )


def pairs(a, b):
    """Edges (m, 2) between particles a and b, arrays that go together."""
    return np.stack([part.ravel() for part in np.broadcast_arrays(a, b)], axis=1)


def dressed(car, metal, positions, hubs, wheels):
    """The visual mesh, each part bound to particles of its own only, and the lengths of its parts."""
    skins = [(metal.vertices, metal.faces, metal.links, metal.weights)]
    on_metal = cKDTree(metal.vertices)
    for vertices, faces in (car.glass, car.lamps, car.trim):
        # What is fixed to the metal goes with the metal next to it: no gap opens.
        near = on_metal.query(vertices)[1]
        skins.append((vertices, faces, metal.links[near], metal.weights[near]))
    for part, hub in zip(car.axles + car.rims, [0, 2, 0, 1, 2, 3], strict=True):
        # An axle is rigid: any of its particles will do.
        skins.append(
            (*part, np.full((len(part[0]), 4), hubs[hub]), np.tile([1.0, 0, 0, 0], (len(part[0]), 1)))
        )
    for tyre, wheel in zip(car.tyres, wheels, strict=True):
        bound = particles.Skin.of(*tyre, positions[wheel])
        skins.append((*tyre, wheel[bound.links], bound.weights))
    vertices, faces, links, weights = zip(*skins, strict=True)
    ends = np.cumsum([len(part) for part in vertices])
    shifted = [part + end - len(x) for part, end, x in zip(faces, ends, vertices, strict=True)]
    whole = particles.Skin(*(np.concatenate(column) for column in (vertices, shifted, links, weights)))
    return whole, [len(part) for part in vertices]


def drive(body, wheels, seconds):
    """Solver and states of two trucks that drive at each other, and what a frame takes."""
    turns = [Rotation.from_euler("y", angle).as_matrix() for angle in HEADINGS]
    far = np.array([-SPEED * CRASH - 1.9, 0, 0])
    solver = particles.ParticleSolver(
        [
            body.moved(rotation=turn, translation=turn @ far + at)
            for turn, at in zip(turns, MEET, strict=True)
        ],
        iterations=4,
        substep=1 / 240,
        contacts="bodies",
        colliders=[particles.Plane([0, 0, 0], [0, 1, 0], friction=0.8)],
        friction=0.3,
        plastic_time=0.05,
        drag=0.1,
    )
    start = solver.start()
    speeds, spins = np.zeros((2, *start.positions.shape))
    for part, turn in zip(solver.parts, turns, strict=True):
        axis = -SPEED / RADIUS * turn[:, 2]  # of a wheel that rolls
        speeds[part] = SPEED * turn[:, 0]
        for wheel in wheels + part.start:
            spins[wheel] = axis
            speeds[wheel] += np.cross(axis, start.positions[wheel] - start.positions[wheel[0]])
    states, taken = [start.replace(velocities=speeds, spins=spins)], []
    for _ in range(round(seconds / FRAME)):
        clock = time.perf_counter()
        states.append(solver.step(states[-1], FRAME))
        taken.append(time.perf_counter() - clock)
    return solver, states, 1e3 * np.median(taken)


def off(rest, x):
    """How far each point is from the best rigid fit, m."""
    return np.linalg.norm(fit_rigid(rest, x).apply(rest) - x, axis=1)


def jumps(solver, state, hulls):
    """How far (m) a vertex moves within its hull in a substep: while it yields, at last, and rigid again."""
    found = [state]
    while (found[-1].pause > 0).any():
        found.append(solver.step(found[-1], solver.substep))
    found.append(solver.step(found[-1], solver.substep))
    poses = [solver.body.skin(state) for state in found[-4:]]
    return [max(off(a[hull], b[hull]).max() for hull in hulls) for a, b in pairwise(poses)]


def skinning(solver, state):
    """ms for the vertices of one truck."""
    out, times = np.empty_like(solver.body.visual.vertices), []
    for _ in range(9):
        clock = time.perf_counter()
        solver.body.skin(state, out=out)
        times.append(time.perf_counter() - clock)
    return 1e3 * min(times) / len(solver.parts)


def main(picture, movie=None):
    body, lengths, wheels = truck()
    with pg.threads(1):
        solver, states, stepping = drive(body, wheels, 10.0 if movie else SECONDS)
        skins = skinning(solver, states[-1])
    hulls = [slice(part.start, part.start + lengths[0]) for part in solver.visual_parts]
    bind = solver.body.visual.vertices
    print(f"a truck: {len(body)} particles, {len(body.edges)} edges, {len(body.visual)} vertices")
    print(
        f"a frame of both takes {stepping:.1f} + {2 * skins:.1f} ms, solver and skinning (the paper: 8 + 30)"
    )
    print(f"skinning takes {skins:.1f} ms a truck")
    assert skins < 3.0

    approach = states[round(0.75 * CRASH / FRAME)]
    bent = max(off(bind[hull], solver.body.skin(approach)[hull]).max() for hull in hulls)
    for part in solver.parts:
        hubs = wheels[:, 0] + part.start
        turns = np.linalg.norm(approach.spins[hubs], axis=1) / (2 * np.pi)
        rolling = np.linalg.norm(approach.velocities[hubs].mean(0)) / (2 * np.pi * RADIUS)
        print(f"its wheels make {turns.min():.2f} to {turns.max():.2f} turns/s, at its speed {rolling:.2f}")
        assert np.allclose(turns, rolling, rtol=0.1)
    print(f"meanwhile hulls are rigid to {1e3 * bent:.4f} mm")
    assert bent < 1e-4

    paused = np.array([(state.pause > 0).any() for state in states])
    first, last = np.flatnonzero(paused)[[0, -1]]
    dents = [
        [off(bind[hull], solver.body.skin(state)[hull]).max() for hull in hulls]
        for state in (states[last + 2], states[-1])
    ]
    for after, end in zip(*dents, strict=True):
        print(f"dented by {100 * after:.1f} cm after the crash, by {100 * end:.1f} cm in the end")
    # The frame before the one that has everything rigid again, so that there are substeps to look at.
    yields, ends, rigid = (1e3 * jump for jump in jumps(solver, states[last - 1], hulls))
    print(
        f"a vertex moves within its hull by {yields:.2f} and {ends:.2f} mm in the last substeps of yielding,"
    )
    print(f"and by {rigid:.4f} mm in the next one, when the hull is rigid again")
    assert min(dents[1]) > 0.1
    assert np.allclose(*dents, atol=2e-3)
    assert ends < 1.5 * yields
    assert rigid < 0.1
    axles = [
        group for group, limit in zip(solver.body.groups, solver.body.yield_speed, strict=True) if limit > 99
    ]
    straight = max(off(solver.body.positions[axle], states[-1].positions[axle]).max() for axle in axles)
    print(f"axles are bent by {1e3 * straight:.3f} mm, and go on turning about their hinges")
    assert straight < 2e-3
    for shown, hull in zip(solver.visual_parts, hulls, strict=True):
        now = solver.body.skin(states[-1])
        low, upright = now[shown, 1].min(), fit_rigid(bind[hull], now[hull]).rotation[1, 1]
        print(f"its lowest vertex is at {100 * low:.1f} cm, and it stands upright to {upright:.3f}")
        assert abs(low) < 0.15
        assert upright > 0.9
    fastest = np.linalg.norm(states[-1].velocities, axis=1).max()
    print(f"in the end the fastest particle goes {fastest:.2f} m/s")
    assert fastest < (0.5 if movie else 10.0)

    colors = paint(lengths)
    faces = solver.body.visual.faces
    camera = view.Camera(direction=(0.0, 0.5, 1.0), target=(-0.2, 0.9, 0.0), distance=33.5, fov=12)
    scene = view.Picture(size=(1600, 560), ground=0.0, camera=camera)
    for state, place in ((states[first - 6], -4.6), (states[round(SECONDS / FRAME)], 4.6)):
        middle = state.positions.mean(0) * [1, 0, 1]
        scene.mesh(solver.body.skin(state) - middle + [place, 0, 0], faces, color=colors)
    save_picture(scene, picture)
    if movie:
        camera = view.Camera(direction=(0.0, 0.5, 1.0), target=(0.0, 0.8, 0.8), distance=30, fov=20)

        def frame(state):
            shot = view.Picture(size=(960, 540), ground=0.0, camera=camera)
            shot.mesh(solver.body.skin(state), faces, color=colors)
            return shot

        save_movie((frame(state) for state in states[::2]), movie)


def paint(lengths):
    """Colours (V, 3) of the vertices of both trucks."""
    parts = ["glass", "lamps", *["trim"] * 3, *["rims"] * 4, *["tyres"] * 4]
    named = [[code, *(COLORS[part] for part in parts)] for code in PAINT]
    rgb = [[[int(code[k : k + 2], 16) / 255 for k in (1, 3, 5)] for code in codes] for codes in named]
    return np.concatenate([np.repeat(one, lengths, axis=0) for one in rgb])


if __name__ == "__main__":
    main(*paths("two_cars"))
