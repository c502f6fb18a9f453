"""A rope between two hands, one of which turns: the twist runs along the rope and spreads evenly.

The particles are drawn flat, with a gold stripe along one edge, so that one sees how each of them is turned.
First row, before. Second, a moment after the right hand has begun to turn: the left end does not know of it
yet. Third, after four turns, when all has come to rest: every particle is turned by as much against the next.

A chain of points looks the same however its ends are turned about it, so it carries no twist at all. What it
takes without orientations is in the last row, below the same rope, both twisted by two turns: three small
balls for each cross-section, and twice as many of these so that there are no gaps. They twist alike, at six
times the particles and twelve times the edges.

    python examples/twisting_rope.py [PICTURE.png]
"""

import time

import numpy as np
from _report import paths, save_picture
from scipy.spatial.transform import Rotation

import pointglue as pg
from pointglue import particles, view

COUNT, LENGTH, SLACK = 49, 2.2, 0.05
FRAME = 1 / 60
HELD = 2  # particles in each hand
WIDTH = 0.055
# Turns, and the seconds that the rope hangs, is turned, and settles.
FAST, SLOW = (4, 2.0, 0.25, 5.0), (2, 1.0, 1.0, 1.5)
COPIES = 16  # ropes that are timed together: what a call costs counts for little


def oriented():
    """A chain of flat ellipsoids."""
    flat = [0.6 * LENGTH / (COUNT - 1), 0.018, WIDTH]
    return particles.rope(
        [-LENGTH / 2, 0, 0],
        [LENGTH / 2, 0, 0],
        particles=COUNT,
        radius=WIDTH,
        radii=np.tile(flat, (COUNT, 1)),
        stiffness=0.1,
        stretch=1.0,
        torsion=0.3,
    )


def dense(mass):
    """The same rope of balls, three for each of twice as many cross-sections, and as heavy."""
    angle = 2 * np.pi * np.arange(3) / 3
    corners = WIDTH * np.stack([0 * angle, np.cos(angle), np.sin(angle)], axis=1)
    along = np.linspace(-LENGTH / 2, LENGTH / 2, 2 * COUNT)[:, None, None] * [1.0, 0.0, 0.0]
    k = np.arange(6 * COUNT).reshape(-1, 3)
    around, on = np.stack([k, np.roll(k, 1, axis=1)], axis=2), np.stack([k[:-1], k[1:]], axis=2)
    return pg.OrientedBody(
        (along + corners).reshape(-1, 3),
        radii=0.025,
        mass=mass / (6 * COUNT),
        edges=np.concatenate([around.reshape(-1, 2), on.reshape(-1, 2)]),
        stiffness=0.95,
        stretch=1.0,
    )


def twist(rope, held, turns, hang, lasts, settle):
    """States of the rope: both hands, of so many particles, come together, then the right one turns."""
    angles = np.linspace(0, 2 * np.pi * turns, 4 * turns + 1)
    times = [0.0, *np.linspace(hang, hang + lasts, len(angles))]
    spin = [[np.cos(a / 2), np.sin(a / 2), 0.0, 0.0] for a in [0.0, *angles]]
    way = np.array([SLACK / 2, 0.0, 0.0])
    left = particles.Motion([0.0, 0.5 * hang], [0 * way, way])
    right = particles.Motion(times, [0 * way, *np.tile(-way, (len(angles), 1))], spin)
    n = len(rope)
    kinematic = [
        particles.KinematicParticles(np.arange(held), left),
        particles.KinematicParticles(np.arange(n - held, n), right),
    ]
    solver = particles.ParticleSolver(rope, kinematic=kinematic, iterations=8, substep=1 / 240, damping=3.0)
    states = [solver.start()]
    for _ in range(round((hang + lasts + settle) / FRAME)):
        states.append(solver.step(states[-1], FRAME))
    return states


def twists(state):
    """(edges,), the degrees by which each particle is turned about the rope against the one before."""
    turn = state.rotations[1:] @ np.swapaxes(state.rotations[:-1], 1, 2)
    along = np.diff(state.positions, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    return np.degrees((Rotation.from_matrix(turn).as_rotvec() * along).sum(1))


def dense_twists(state):
    """(sections - 1,), the same for the dense rope, where only the places of the balls tell it."""
    section = state.positions.reshape(-1, 3, 3)
    middle = section.mean(1)
    along = np.gradient(middle, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    out = section[:, 0] - middle
    out -= (out * along).sum(1, keepdims=True) * along
    a, b = out[:-1], out[1:]
    return np.degrees(np.arctan2((np.cross(a, b) * along[:-1]).sum(1), (a * b).sum(1)))


def cost(rope, contacts):
    """ms that a frame takes for a rope, on one thread."""
    ropes = [rope.moved(translation=[0.0, 0.0, 0.3 * k]) for k in range(COPIES)]
    solver = particles.ParticleSolver(ropes, iterations=8, substep=1 / 240, damping=3.0, contacts=contacts)
    state, taken = solver.start(), []
    with pg.threads(1):
        for _ in range(8):
            clock = time.process_time()
            state = solver.step(state, FRAME)
            taken.append(time.process_time() - clock)
    return 1e3 * min(taken) / COPIES


def draw(scene, rope, state, place):
    """Add the rope of ellipsoids, its hands grey and one of its edges gold."""
    colors = np.tile([0.91, 0.40, 0.29], (COUNT, 1))
    colors[np.r_[:HELD, COUNT - HELD : COUNT]] = [0.39, 0.45, 0.52]
    axes = state.rotations @ state.rest.rotations
    scene.ellipsoids(state.positions + place, rope.radii, axes, color=colors)
    scene.lines(state.positions + place + 0.95 * WIDTH * axes[:, :, 2], color="gold", radius=0.011)


def main(picture):
    rope = oriented()
    states, hang = twist(rope, HELD, *FAST), round(FAST[1] / FRAME)
    before, during, after = (states[k] for k in (hang, hang + 3, -1))
    # A particle in a hand does not turn with its neighbours, so the edges next to it carry a little more.
    free = slice(HELD, COUNT - 1 - HELD)
    early, late = twists(during)[free], twists(after)[free]
    uneven = np.ptp(late) / late.mean()
    print(f"before: {abs(twists(before)).max():.3f} degrees from particle to particle")
    print(f"a moment later: {early[:3].mean():.2f} at the left, {early[-3:].mean():.2f} at the right")
    print(f"in the end: {late.mean():.2f} everywhere, to {uneven:.2%}; {twists(after).sum() / 360:.2f} turns")
    assert abs(twists(before)).max() < 0.01
    assert early[:3].mean() < 0.1 * early[-3:].mean()
    assert uneven < 0.02
    assert abs(twists(after).sum() / 360 - FAST[0]) < 0.05

    balls = dense(rope.mass.sum())
    few, many = twist(rope, HELD, *SLOW), twist(balls, 6 * HELD, *SLOW)
    print(f"{len(rope)} particles and {len(rope.edges)} edges, or {len(balls)} and {len(balls.edges)}:")
    for moment in (0.25, 0.5, 0.75, 1.0, 1.5, 2.5):
        k = round((SLOW[1] + moment) / FRAME)
        one, other = twists(few[k]) / 360, dense_twists(many[k]) / 360
        half = one[: COUNT // 2].sum(), other[: len(other) // 2].sum()
        whole = one.sum(), other.sum()
        print(
            f"after {moment:.2f} s, {whole[0]:.2f} and {whole[1]:.2f} turns at the right end, "
            f"{half[0]:.2f} and {half[1]:.2f} in the middle"
        )
        assert abs(whole[0] - whole[1]) < 0.05
        assert abs(half[0] - half[1]) < 0.15
    # Wide particles have more neighbours that they might touch: contact takes a larger share of their time.
    for contacts, name in (("none", "without contact"), ("all", "with contact")):
        one, other = cost(rope, contacts), cost(balls, contacts)
        print(f"{name}, a frame takes {one:.3f} and {other:.3f} ms a rope: {other / one:.1f} times as long")

    camera = view.Camera(direction=(0.0, 0.2, 1.0), fov=12)
    scene = view.Picture(size=(1280, 800), ground=False, camera=camera)
    for k, state in enumerate([before, during, after, few[-1]]):
        draw(scene, rope, state, [0.0, -0.35 * k, 0.0])
    x = many[-1].positions + [0.0, -0.35 * 4, 0.0]
    scene.points(
        x, color=np.tile([[0.91, 0.71, 0.30], *[[0.42, 0.70, 0.84]] * 2], (2 * COUNT, 1)), radius=0.025
    )
    save_picture(scene, picture)


if __name__ == "__main__":
    main(*paths("twisting_rope"))
