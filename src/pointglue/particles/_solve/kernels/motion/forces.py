"""Forces of wind and water on single ellipsoids."""

import math

from .....compute import kernel

__all__ = ["immersion_forces"]


@kernel
def immersion_forces(start, stop, medium, dt, particles, forces):
    """Lift of the submerged share of each ellipsoid, (1 + t)^2 (2 - t) / 4, and drag [N].

    `medium` is a `Medium`, `particles` are `Immersed`. The shadow of an ellipsoid along the unit vector u has
    the area pi abc |diag(1/a, 1/b, 1/c) axes^T u|. Drag is taken at the end of the step of length `dt`, so
    that it never reverses the motion.
    """
    level, up, strength, density, drag, current = (
        medium.level,
        medium.up,
        medium.gravity,
        medium.density,
        medium.drag,
        medium.flow,
    )
    radii, mass, X, V = particles.radii, particles.mass, particles.positions, particles.velocities
    E, R = particles.rotations, particles.axes
    for i in range(start, stop):
        a, b, c = radii[i, 0], radii[i, 1], radii[i, 2]
        x, y, z = current[0] - V[i, 0], current[1] - V[i, 1], current[2] - V[i, 2]
        tall = wide = 0.0
        for k in range(3):
            # Axis k of the ellipsoid as it lies now.
            p = E[i, 0] * R[i, k] + E[i, 1] * R[i, 3 + k] + E[i, 2] * R[i, 6 + k]
            q = E[i, 3] * R[i, k] + E[i, 4] * R[i, 3 + k] + E[i, 5] * R[i, 6 + k]
            r = E[i, 6] * R[i, k] + E[i, 7] * R[i, 3 + k] + E[i, 8] * R[i, 6 + k]
            tall += (radii[i, k] * (p * up[0] + q * up[1] + r * up[2])) ** 2
            wide += ((p * x + q * y + r * z) / radii[i, k]) ** 2
        depth = level - (X[i, 0] * up[0] + X[i, 1] * up[1] + X[i, 2] * up[2])
        t = min(1.0, max(-1.0, depth / math.sqrt(tall)))
        share = 0.25 * (1.0 + t) * (1.0 + t) * (2.0 - t)
        lift = density * strength * 4.0 / 3.0 * math.pi * a * b * c * share
        k = 0.5 * density * drag * share * math.pi * a * b * c * math.sqrt(wide)
        k = k / (1.0 + k * dt / mass[i])
        forces[i, 0] = lift * up[0] + k * x
        forces[i, 1] = lift * up[1] + k * y
        forces[i, 2] = lift * up[2] + k * z
