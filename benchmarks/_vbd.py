"""newton's VBD on the bodies of our solver: the same points, masses, elements and small-strain moduli.

Its materials are near ours but not ours: of tetrahedra mu/2 (|F|^2 - 3) + (lambda + mu)/2 (J - a)^2, the
stable neo-Hookean one without its logarithm, and the same with areas for triangles, where ours are of
St. Venant and Kirchhoff. Hinges are the same. So each solver is asked how well it has solved its own
problem, and VBD's, which it keeps in 32 bits, is evaluated here in 64.
"""

from dataclasses import dataclass
from time import process_time

import newton
import numpy as np
import warp as wp

from pointglue.elastic import ElasticBody

GRAVITY = np.array([0.0, -9.81, 0.0])


@dataclass(frozen=True)
class Solid:
    """A body, its elements (m, 4) or (m, 3), the moduli of small strains, and its hinges (h, 4), if any."""

    body: ElasticBody
    elements: np.ndarray
    mu: float
    lam: float
    hinges: np.ndarray
    hinge_stiffness: np.ndarray
    """k (h,) of k/2 angle^2, in N m."""

    def residual(self, gradient, x0, v0, x, dt: float) -> float:
        """How far a step from x0, v0 to x is off: |gradient of what is minimised| dt / mass, rms (m/s)."""
        mass, free = self.body.mass[:, None], ~self.body.pinned
        off = mass * (x - x0 - dt * v0 - dt * dt * GRAVITY) / dt**2 + gradient(x)
        return float(np.sqrt(np.mean(np.sum((off * dt / mass)[free] ** 2, axis=1))))


class Peer:
    """SolverVBD with a solid in it."""

    def __init__(self, solid: Solid, bending) -> None:
        """`bending` is the gradient of the hinges, which both have in common."""
        wp.config.log_level = wp.LOG_ERROR
        self.solid, self.bending = solid, bending
        rest, cells = solid.body.positions, solid.elements
        builder = newton.ModelBuilder(up_axis=newton.Axis.Y)
        mass = np.where(solid.body.pinned, 0.0, solid.body.mass)  # its way to pin
        builder.add_particles(rest.tolist(), np.zeros_like(rest).tolist(), mass.tolist())
        if cells.shape[1] == 4:
            for cell in cells.tolist():
                builder.add_tetrahedron(*cell, solid.mu, solid.lam, 0.0)
        else:
            none, ones = np.zeros(len(cells)), np.ones(len(cells))
            stuff = {"tri_ke": solid.mu * ones, "tri_ka": solid.lam * ones}
            builder.add_triangles(*cells.T, **stuff, tri_kd=none, tri_drag=none, tri_lift=none)
            tip, one, two, other = solid.hinges.T
            per_length = solid.hinge_stiffness / np.linalg.norm(rest[one] - rest[two], axis=1)
            builder.add_edges(tip, other, one, two, edge_ke=per_length, edge_kd=0 * per_length)
        builder.color(include_bending=len(solid.hinges) > 0)
        self.model = builder.finalize(device="cpu")
        edges = rest[cells[:, 1:]] - rest[cells[:, :1]]
        if cells.shape[1] == 3:
            edges = edges[:, :, [0, 2]]  # the cloth lies flat
        self.inverse = np.linalg.inv(np.swapaxes(edges, 1, 2))
        self.volumes = np.abs(np.linalg.det(edges)) / (6 if cells.shape[1] == 4 else 2)

    def step(self, x0, v0, dt: float, iterations: int) -> tuple[float, float]:
        """Seconds of a step from such a state, and its residual (m/s)."""
        solver = newton.solvers.SolverVBD(self.model, iterations=iterations)
        before, after, control = self.model.state(), self.model.state(), self.model.control()
        x0, v0 = x0.astype(np.float32), v0.astype(np.float32)
        before.particle_q.assign(x0)
        before.particle_qd.assign(v0)
        start = process_time()
        solver.step(before, after, control, None, dt)
        seconds = process_time() - start
        x = after.particle_q.numpy().astype(np.float64)
        return seconds, self.solid.residual(
            self.gradient, x0.astype(np.float64), v0.astype(np.float64), x, dt
        )

    def gradient(self, x):
        """The derivative (n, 3) of its energy."""
        cells, mu, lam = self.solid.elements, self.solid.mu, self.solid.lam + self.solid.mu
        F = np.swapaxes(x[cells[:, 1:]] - x[cells[:, :1]], 1, 2) @ self.inverse
        # J is the root of det F^T F, and by F it has the derivative J F (F^T F)^-1.
        C = np.swapaxes(F, 1, 2) @ F
        J = np.sqrt(np.linalg.det(C)) * (np.sign(np.linalg.det(F)) if cells.shape[1] == 4 else 1.0)
        P = mu * F + (lam * (J - 1 - mu / lam) * J)[:, None, None] * (F @ np.linalg.inv(C))
        each = np.swapaxes(self.volumes[:, None, None] * P @ np.swapaxes(self.inverse, 1, 2), 1, 2)
        out = self.bending(x)
        np.add.at(out, cells[:, 1:], each)
        np.subtract.at(out, cells[:, 0], each.sum(1))
        return out
