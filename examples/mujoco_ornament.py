"""Glue in an engine that knows nothing of it: in MuJoCo, a rigid lantern hangs off a soft beam.

The beam is a flex, held by a wall; the lantern is a free rigid body. MuJoCo has no joint, weld or
contact between them: all that ties them is glue. In every step it says where the beam carries three
points in the air before its end, and how fast; a spring and damper draws each to its hook (blue) on
the lantern, which makes a weld; the lantern gets these forces, and the beam their opposites, which
glue brings to its vertices. Gold are the parents, and teal the forces that they bear: the upper ones
are pulled, the lower ones pushed. The outline is the beam before it was let go.

    python examples/mujoco_ornament.py [PICTURE.png]
"""

import numpy as np
from _report import paths, save_picture

import pointglue as pg
from pointglue import view
from pointglue.errors import MissingDependencyError
from pointglue.geometry import shapes

try:
    import mujoco
except ModuleNotFoundError:
    raise MissingDependencyError("MuJoCo is not installed: pip install -e '.[engines]'") from None

SECONDS, DT = 2.5, 5e-4
SPARE = 3.0  # the springs bear a step this many times DT: room for their dampers and the beam's own stiffness
DRAG = 0.4  # N s/m on each vertex of the beam, as in thick air, so that it soon comes to rest
LENGTH, WIDTH = 1.2, 0.2  # of the beam
HEIGHT = 0.36  # of the lantern
FORCE_SCALE = 0.06  # metres of arrow per newton

MODEL = f"""
<mujoco>
  <option gravity="0 -9.81 0" timestep="{DT}"/>
  <default> <geom type="ellipsoid" contype="0" conaffinity="0"/> </default>
  <worldbody>
    <flexcomp name="beam" type="grid" dim="3" count="13 3 3" spacing="0.1 0.1 0.1" pos="0.6 0 0"
              mass="2" radius="0.001">
      <elasticity young="1.5e5" poisson="0" damping="1e-4"/>
      <contact contype="0" conaffinity="0" selfcollide="none"/>
      <pin gridrange="0 0 0 0 2 2"/>
    </flexcomp>
    <body name="lantern" pos="1.42 -0.27 0">
      <freejoint/>
      <geom size="0.13 0.15 0.13" mass="0.8" rgba="0.91 0.40 0.29 1"/>
      <geom size="0.09 0.03 0.09" mass="0.1" rgba="0.23 0.25 0.28 1" pos="0 0.15 0"/>
      <geom size="0.07 0.03 0.07" mass="0.1" rgba="0.23 0.25 0.28 1" pos="0 -0.15 0"/>
      <site pos="0.08 0.17 0"/> <site pos="-0.04 0.17 0.07"/> <site pos="-0.04 0.17 -0.07"/>
    </body>
  </worldbody>
</mujoco>
"""


def main(picture):
    model = mujoco.MjModel.from_xml_string(MODEL)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    lantern, hooks = model.body("lantern").id, data.site_xpos
    free = model.flex_vertbodyid > 0  # a vertex is a body with three slides, or part of the world if held
    bodies = model.flex_vertbodyid[free]
    slides = model.body_dofadr[bodies][:, None] + np.arange(3)
    mass, weight = model.body_mass[bodies], -model.body_mass[lantern] * model.opt.gravity
    rest = data.flexvert_xpos.copy()

    # A copy of the hooks: the arrays in `data` are the engine's own memory, and move on with it.
    end = np.flatnonzero(rest[free, 0] > 0.99 * LENGTH)
    glue = pg.bind_glue(rest[free], hooks.copy(), parents=len(end), among=end)
    # The stiffest springs that bear the step, all three at once.
    stiffness = (glue.time_step(rest[free], mass, 1.0).min() / (SPARE * DT)) ** 2
    damping = stiffness * SPARE * DT / 2  # half of critical

    velocity, worst = np.zeros(6), np.zeros(3)
    for _ in range(round(SECONDS / DT)):
        mujoco.mj_step1(model, data)  # positions and velocities of now; mj_step alone leaves those before it
        pose = glue.at(data.flexvert_xpos[free])
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, lantern, velocity, 0)
        spin, speed = velocity[:3], velocity[3:]

        # Both sides are pushed at the bound points, the lantern too: a damper whose two ends are a bit
        # apart and move across the gap would make a torque out of nothing.
        arms = pose.positions - data.xipos[lantern]
        stretch = pose.positions - hooks
        slip = pose.velocities(data.qvel[slides]) - speed - np.cross(spin, arms)
        forces = stiffness * stretch + damping * slip
        data.xfrc_applied[lantern] = *forces.sum(0), *np.cross(arms, forces).sum(0)
        data.xfrc_applied[bodies, :3] = pose.transfer_forces(-forces)
        data.qfrc_applied[slides] = -DRAG * data.qvel[slides]

        pushes, twists = data.xfrc_applied[:, :3], data.xfrc_applied[:, 3:]
        unmatched = pushes.sum(0), (np.cross(data.xipos, pushes) + twists).sum(0)
        apart = np.linalg.norm(stretch, axis=1).max()
        worst = np.maximum(worst, [*np.linalg.norm(unmatched, axis=1), apart])
        mujoco.mj_step2(model, data)

    bound = pose.time_step(mass, stiffness).min()
    sag = (rest - data.flexvert_xpos)[:, 1].max()
    off = np.linalg.norm(forces.sum(0) - weight) / np.linalg.norm(weight)
    print(f"springs of {stiffness:.0f} N/m bear steps of {1e3 * bound:.2f} ms, and have {1e3 * DT:.2f} ms")
    print(f"hooks off their places by {1e3 * worst[2]:.2f} mm at most, {1e3 * apart:.2f} mm at the end")
    print(f"unmatched force {worst[0]:.1e} N and torque {worst[1]:.1e} N m at most")
    print(f"at the end the beam sags by {sag:.3f} m, and bears the lantern's weight to {100 * off:.2f} %")
    assert model.neq + data.ncon == 0, "MuJoCo itself ties nothing"
    assert bound > DT, "the springs are slow enough for the step"
    assert worst[2] < 0.02 * HEIGHT, "the tie holds"
    assert worst[:2].max() < 1e-9 * np.linalg.norm(weight), "action is reaction, torques about the origin too"
    assert off < 0.02, "the weight arrives"
    assert not data.warning.number.any(), "MuJoCo finds nothing unstable"
    assert abs(data.qvel).max() < 0.02, "all comes to rest"
    assert 0.1 < sag < 0.5, "and the beam has given way"

    x = data.flexvert_xpos[free]
    centre = x[end].mean(axis=0)
    wall, sides = shapes.box((0.1, 0.6, 0.6), (1, 1, 1))
    outline, _ = shapes.box((LENGTH, WIDTH, WIDTH), (1, 1, 1))
    edges = [(i, j) for i in range(8) for j in range(i) if np.count_nonzero(outline[i] != outline[j]) == 1]
    scene = view.Picture(camera=view.Camera(direction=(0.5, 0.15, 1.0)))
    scene.mesh(wall - [0.05, 0, 0], sides, color="slate")
    scene.lines(outline + [LENGTH / 2, 0, 0], segments=edges, color="slate", radius=0.003)
    scene.mesh(data.flexvert_xpos, model.flex_shell.reshape(-1, 3), color="sand", opacity=0.6)
    scene.points(x[end], color="gold", radius=0.02)
    scene.arrows(x[end], FORCE_SCALE * data.xfrc_applied[bodies[end], :3], color="teal", radius=0.009)
    scene.lines([centre, *hooks], segments=[(0, 1), (0, 2), (0, 3)], color="slate", radius=0.008)
    scene.points(hooks, color="blue", radius=0.014)
    turns, colors = data.geom_xmat.reshape(-1, 3, 3), model.geom_rgba[:, :3]
    scene.ellipsoids(data.geom_xpos, model.geom_size, turns, color=colors)
    save_picture(scene, picture)


if __name__ == "__main__":
    main(*paths("mujoco_ornament"))
