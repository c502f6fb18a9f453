"""The scenes of contact in MuJoCo, with its contact that lets nothing intersect.

Points, masses, gravity, triangles of St. Venant and Kirchhoff and the rigidity of hinges, which it is told
as a thickness, are those of ours. What differs is contact: a constraint that takes all speed away and holds
surfaces 1 mm apart beyond a radius of 1 mm each. Ours is a barrier that begins at 4 mm, and gives speed back.
"""

from time import process_time

import mujoco
import numpy as np
from _contact_scenes import BEND, POISSON, REACH, SECONDS, STRETCH, Scene

from pointglue.geometry.solids import Ball

THICKNESS = np.sqrt(12 * (1 - POISSON**2) * BEND / STRETCH)  # m: of a plate as stiff in both ways


def run(scene: Scene, steps: int, tolerance: float) -> tuple[float, np.ndarray]:
    """Return the CPU time of so many steps of MuJoCo [s], and where the points are then."""
    under = scene.under
    solid = f'type="sphere" size="{under.radius}"' if isinstance(under, Ball) else (
        'type="plane" size="5 5 1" zaxis="0 1 0"'
    )  # fmt: skip
    model = mujoco.MjModel.from_xml_string(f"""
        <mujoco>
          <option gravity="0 -9.81 0" timestep="{SECONDS / steps}" integrator="discrete"
                  tolerance="{tolerance}">
            <flag ipc="enable"/>
          </option>
          <worldbody>
            <geom {solid}/>
            <flexcomp name="cloth" type="direct" dim="2" radius="{REACH / 4}"
                      point="{_words(scene.rest)}" element="{_words(scene.faces)}">
              <elasticity young="{STRETCH / THICKNESS}" poisson="{POISSON}" thickness="{THICKNESS}"
                          elastic2d="both"/>
            </flexcomp>
          </worldbody>
        </mujoco>""")
    model.body_mass[model.flex_vertbodyid] = scene.mass
    data = mujoco.MjData(model)
    mujoco.mj_setConst(model, data)
    data.qpos[:] = (scene.start - scene.rest).ravel()
    begin = process_time()
    mujoco.mj_step(model, data, steps)
    seconds = process_time() - begin
    mujoco.mj_kinematics(model, data)
    mujoco.mj_flex(model, data)
    return seconds, data.flexvert_xpos.copy()


def _words(numbers: np.ndarray) -> str:
    return " ".join(map(repr, numbers.ravel().tolist()))
