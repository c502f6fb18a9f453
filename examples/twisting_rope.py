"""A rope between two hands, one of which turns: the twist runs along the rope and spreads evenly.

The particles are drawn flat, with a gold stripe along one edge, so that one sees how each of them is turned.
Top, before. Middle, a moment after the right hand has begun to turn: the left end does not know of it yet.
Bottom, after four turns, when all has come to rest: every particle is turned by as much against the next.

Only oriented particles can do this. A chain of points looks the same however its ends are turned about it, so
it carries no twist at all.

    python examples/twisting_rope.py [PICTURE.png]
"""

import sys
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from pointglue import particles, view

COUNT, LENGTH, SLACK = 49, 2.2, 0.05
TURNS, HANG, TWIST, SETTLE = 4, 2.0, 0.25, 5.0
FRAME = 1 / 60
HELD = 2  # particles in each hand
WIDTH = 0.055


def hands():
    """Both hands come together, then the right one turns."""
    angles = np.linspace(0, 2 * np.pi * TURNS, 4 * TURNS + 1)
    times = [0.0, *np.linspace(HANG, HANG + TWIST, len(angles))]
    turns = [[np.cos(a / 2), np.sin(a / 2), 0.0, 0.0] for a in [0.0, *angles]]
    way = np.array([SLACK / 2, 0.0, 0.0])
    left = particles.Motion([0.0, 0.5 * HANG], [0 * way, way])
    right = particles.Motion(times, [0 * way, *np.tile(-way, (len(angles), 1))], turns)
    ends = np.arange(HELD), np.arange(COUNT - HELD, COUNT)
    return [particles.Script(ends[0], left), particles.Script(ends[1], right)]


def twists(state):
    """(edges,), the degrees by which each particle is turned about the rope against the one before."""
    turn = state.rotations[1:] @ np.swapaxes(state.rotations[:-1], 1, 2)
    along = np.diff(state.positions, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    return np.degrees((Rotation.from_matrix(turn).as_rotvec() * along).sum(1))


def main(picture):
    flat = [0.6 * LENGTH / (COUNT - 1), 0.018, WIDTH]
    rope = particles.rope(
        [-LENGTH / 2, 0, 0],
        [LENGTH / 2, 0, 0],
        particles=COUNT,
        radius=WIDTH,
        radii=np.tile(flat, (COUNT, 1)),
        stiffness=0.1,
        stretch=1.0,
        torsion=0.3,
    )
    solver = particles.ParticleSolver(rope, scripts=hands(), iterations=8, substep=1 / 240, damping=3.0)
    states = [solver.start()]
    for _ in range(round((HANG + TWIST + SETTLE) / FRAME)):
        states.append(solver.step(states[-1], FRAME))
    before, during, after = (states[k] for k in (round(HANG / FRAME), round(HANG / FRAME) + 3, -1))

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
    assert abs(twists(after).sum() / 360 - TURNS) < 0.05

    camera = view.Camera(direction=(0.0, 0.2, 1.0), fov=12)
    scene = view.Scene(size=(1280, 560), ground=False, camera=camera)
    colours = np.tile([0.91, 0.40, 0.29], (COUNT, 1))
    colours[np.r_[:HELD, COUNT - HELD : COUNT]] = [0.39, 0.45, 0.52]
    for k, state in enumerate([before, during, after]):
        place = [0.0, -0.35 * k, 0.0]
        axes = state.rotations @ state.rest.rotations
        scene.ellipsoids(state.positions + place, rope.radii, axes, color=colours)
        scene.lines(state.positions + place + 0.95 * WIDTH * axes[:, :, 2], color="gold", radius=0.011)
    picture.parent.mkdir(parents=True, exist_ok=True)
    scene.save(picture)
    print(f"wrote {picture}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/twisting_rope.png"))
