"""Rigid groups of particles: two that share a hinge, and one that a blow dents for good.

Left, two rigid boxes have two particles in common (gold), and with them an axis. One box (slate) is held, the
other is let go and swings about that axis, from light to dark, until it hits the first one's far side or
comes to rest below. No joint is set up anywhere: that the particles are shared is the joint.

Right, a rigid wall before and after a heavy ball hits it faster than its yield speed. The wall is let go of for
five frames, in which its particles only hold on to their neighbours. The shape it has then is the shape it
keeps; red is where it has moved most. Nothing jumps when it becomes rigid again.

    python examples/hinge_and_dent.py [PICTURE.png]
"""

import sys
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from pointglue import fit_rigid, particles, view

FRAME = 1 / 60
SHOT = np.array([0.0, 1.0, -12.0])  # m/s


def swing():
    """The hinged boxes, tilted, and what becomes of them in a second: body, states and angles."""
    cells = (4, 1, 4)
    body = particles.hinged_boxes((0.72, 0.13, 0.6), cells)
    one = int(np.prod(cells))
    turn = Rotation.from_euler("z", -0.5).as_matrix()
    body = body.moved(rotation=turn, translation=[0.0, 0.95, 0.0])
    held = np.arange(len(body)) < one
    solver = particles.ParticleSolver(body.replace(pinned=held), iterations=4, substep=1 / 240)
    states = [solver.start()]
    for _ in range(round(1.0 / FRAME)):
        states.append(solver.step(states[-1], FRAME))
    free, pins = slice(one, 2 * one), slice(2 * one, None)
    arms = np.array([state.positions[free].mean(0) - state.positions[pins].mean(0) for state in states])
    angles = np.degrees(np.unwrap(np.arctan2(arms[:, 1], arms[:, 0])))
    drift = max(abs(state.positions[pins] - body.positions[pins]).max() for state in states)
    return solver, states, angles, drift


def shoot():
    """The wall and the ball: solver and states over two seconds."""
    wall = particles.block((1.1, 0.77, 0.66), (10, 7, 6), rigid=True, yield_speed=3.0, stiffness=0.3)
    ball = particles.OrientedBody([[0.0, 0.42, 1.1]], radii=0.17, mass=60.0)
    solver = particles.ParticleSolver(
        [wall.moved(translation=[0.0, 0.385, 0.0]), ball],
        iterations=4,
        substep=1 / 240,
        colliders=[particles.Plane([0, 0, 0], [0, 1, 0])],
    )
    state = solver.start()
    states = [state.pushed(solver.body.mass, [len(wall)], ball.mass[0] * SHOT)]
    for _ in range(round(2.0 / FRAME)):
        states.append(solver.step(states[-1], FRAME))
    return solver, states


def main(picture):
    hinge, poses, angles, drift = swing()
    print(f"the box swings from {angles[0]:.0f} to {angles.min():.0f} degrees, its axis stays to {1e3 * drift:.2f} mm")
    for k in range(0,61,3): print(k,angles[k])
    solver, states = shoot()
    wall, ball = solver.parts
    rest, kept = solver.body.positions[wall], states[-1].rest.positions[wall]
    pauses = np.array([state.pause[0] for state in states])
    print(pauses[:30])
    for a in states[::10]: print(a.time,a.positions[ball],a.velocities[ball], a.positions[wall].mean(0), np.abs(a.velocities[wall]).max())
    dent=np.linalg.norm(fit_rigid(kept, rest).apply(kept)-rest,axis=1); print(dent.max(), np.sort(dent)[-10:])
    scene = view.Scene(size=(1600, 640), ground=0.0, camera=view.Camera(direction=(-0.3, 0.45, 1.0), fov=14))
    def put(s,st,part,dx,color):
        ax=st.rotations@st.rest.rotations
        scene.ellipsoids(st.positions[part]+dx,s.body.radii[part],ax[part],color=color)
    n=16
    put(hinge,poses[0],slice(0,n),[-1.9,0,0],"slate")
    put(hinge,poses[0],slice(2*n,2*n+2),[-1.9,0,0],"gold")
    for k,c in zip([0,18,60],["rose","coral","red"]):
        put(hinge,poses[k],slice(n,2*n),[-1.9,0,0],c)
    for dx,st in ((0,states[0]),(1.7,states[-1])):
        d=np.linalg.norm(fit_rigid(st.rest.positions[wall], rest).apply(st.rest.positions[wall])-rest,axis=1)
        t=np.clip(d/.1,0,1)[:,None]
        put(solver,st,wall,[dx,0,0],(1-t)*np.array([.85,.77,.63])+t*np.array([.82,.26,.31]))
        put(solver,st,ball,[dx,0,0],"graphite")
    picture.parent.mkdir(parents=True, exist_ok=True)
    scene.save(picture)
    print(f"wrote {picture}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/hinge_and_dent.png"))
