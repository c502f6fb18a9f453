"""The scenes of contact in newton's VBD, with contact of the cloth with itself.

Points, masses, gravity, hinges and, for small strains, the stiffness of triangles are those of ours. What
differs: triangles are stable neo-Hookean, contact is a penalty, of points alone where it is with a solid, and
all is computed in 32 bits. Contact begins at 4 mm and has neither friction nor damping, as ours.
"""

from time import process_time

import newton
import numpy as np
from _contact_scenes import BEND, POISSON, REACH, SECONDS, STRETCH, Scene
from _vbd import Solid, builder_of

from pointglue.elastic import ElasticBody
from pointglue.geometry.solids import Ball

CONTACT_STIFFNESS = 1e3  # N/m a point, newton's default


def run(scene: Scene, steps: int, iterations: int) -> tuple[float, np.ndarray]:
    """Return the CPU time of so many steps of newton's VBD [s], and where the points are then."""
    builder = builder_of(_solid(scene))
    smooth = newton.ModelBuilder.ShapeConfig(ke=CONTACT_STIFFNESS, kd=0.0, mu=0.0)
    if isinstance(scene.under, Ball):
        builder.add_shape_sphere(-1, radius=scene.under.radius, cfg=smooth)
    else:
        builder.add_ground_plane(cfg=smooth)
    model = builder.finalize(device="cpu")
    model.particle_radius.fill_(REACH)
    model.soft_contact_ke, model.soft_contact_kd, model.soft_contact_mu = CONTACT_STIFFNESS, 0.0, 0.0
    collisions = newton.CollisionPipeline(model, soft_contact_gap=REACH)
    contacts = collisions.contacts()
    solver = newton.solvers.SolverVBD(
        model,
        iterations=iterations,
        particle_enable_self_contact=True,
        particle_self_contact_margin=REACH,
        particle_self_contact_gap=3 * REACH,  # a step moves no point farther than about half of both
    )
    before, after, control = model.state(), model.state(), model.control()

    def step() -> None:
        before.clear_forces()
        collisions.collide(before, contacts)
        solver.step(before, after, control, contacts, SECONDS / steps)

    before.particle_q.assign(scene.start.astype(np.float32))
    step()  # compiles what is not yet; what it found is left behind in `after`
    begin = process_time()
    for _ in range(steps):
        step()
        before, after = after, before
    return process_time() - begin, before.particle_q.numpy().astype(np.float64)


def _solid(scene: Scene) -> Solid:
    """Return the cloth at rest as newton is told of it."""
    energy = scene.energy
    hinges = energy.hinges
    length = np.linalg.norm(scene.rest[hinges[:, 1]] - scene.rest[hinges[:, 2]], axis=1)
    area = np.ptp(scene.rest[:, 0]) * np.ptp(scene.rest[:, 2]) / len(scene.faces)  # all are alike
    mu, lam = STRETCH / (2 * (1 + POISSON)), STRETCH * POISSON / (1 - POISSON**2)
    body = ElasticBody(scene.rest, scene.mass, [energy], name="cloth")
    return Solid(body, scene.faces, mu, lam, hinges, BEND * length**2 / (2 * area))
