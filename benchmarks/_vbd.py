"""newton's VBD on the bodies of our solver: the same points, masses, elements and small-strain moduli.

Its materials are near ours but not ours: of tetrahedra mu/2 (|F|^2 - 3) + (lambda + mu)/2 (J - a)^2, the
stable neo-Hookean one without its logarithm, and the same with areas for triangles, where ours are of
St. Venant and Kirchhoff. Hinges are the same. So each solver is asked how well it has solved its own
problem: VBD's, which it keeps in 32 bits, is stated here in 64, for our solver to find the exact ends.
"""

from dataclasses import dataclass
from time import process_time

import newton
import numpy as np
import warp as wp

from pointglue.elastic import ElasticBody, Elements


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

    @property
    def shapes(self) -> tuple[np.ndarray, np.ndarray]:
        """Gradients (m, k, 3 or 2) of the corners' weights at rest, and volumes or areas (m,)."""
        rest, cells = self.body.positions, self.elements
        edges = rest[cells[:, 1:]] - rest[cells[:, :1]]
        if cells.shape[1] == 3:
            edges = edges[:, :, [0, 2]]  # the cloth lies flat
        others = np.swapaxes(np.linalg.inv(edges), 1, 2)
        volumes = np.abs(np.linalg.det(edges)) / (6 if cells.shape[1] == 4 else 2)
        return np.concatenate([-others.sum(1, keepdims=True), others], axis=1), volumes


class Material(Elements):
    """VBD's energy of tetrahedra or triangles; its second derivative by F is taken by complex steps."""

    def __init__(self, solid: Solid) -> None:
        super().__init__(solid.elements, len(solid.body.positions))
        self.mu, self.lam = solid.mu, solid.lam + solid.mu
        self.weights, self.volumes = solid.shapes

    def _deformations(self, x):
        return np.einsum("mai,maj->mij", x[self.stencils], self.weights)

    def _growth(self, F):
        """J, and its derivative by F."""
        if F.shape[2] == 3:
            J = np.linalg.det(F)
            return J, J[:, None, None] * np.swapaxes(np.linalg.inv(F), 1, 2)
        C = np.swapaxes(F, 1, 2) @ F
        J = np.sqrt(np.linalg.det(C))
        return J, J[:, None, None] * (F @ np.linalg.inv(C))

    def _stress(self, F):
        J, slope = self._growth(F)
        return self.mu * F + (self.lam * (J - 1) - self.mu)[:, None, None] * slope

    def _values(self, x, out):
        F = self._deformations(x)
        growth = self._growth(F)[0] - 1
        square = 0.5 * self.mu * (np.sum(F * F, axis=(1, 2)) - F.shape[2])
        out[:] = self.volumes * (square + growth * (0.5 * self.lam * growth - self.mu))

    def _gradients(self, x, out):
        P = self._stress(self._deformations(x))
        out[:] = np.einsum("m,mij,maj->mai", self.volumes, P, self.weights)

    def _hessians(self, x, project, out):
        F = self._deformations(x)
        size = F[0].size
        H = np.empty((len(F), size, size))
        for j in range(size):
            step = np.array(F, complex, order="C")
            step.reshape(len(F), size)[:, j] += 1e-30j
            H[:, :, j] = self._stress(step).imag.reshape(len(F), size) / 1e-30
        H = (H + np.swapaxes(H, 1, 2)) / 2
        if project:
            values, vectors = np.linalg.eigh(H)
            H = (vectors * np.maximum(values, 0.0)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        B = np.einsum("maj,kl->maklj", self.weights, np.eye(3)).reshape(len(F), -1, size)  # F by the points
        out[:] = self.volumes[:, None, None] * (B @ H @ np.swapaxes(B, 1, 2))


def builder_of(solid: Solid) -> newton.ModelBuilder:
    """Return what builds newton's model of a solid."""
    wp.config.log_level = wp.LOG_ERROR
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
    return builder


class Peer:
    """SolverVBD with a solid in it."""

    def __init__(self, solid: Solid) -> None:
        self.model = builder_of(solid).finalize(device="cpu")

    def step(self, x0, v0, dt: float, iterations: int) -> tuple[float, np.ndarray]:
        """Seconds of a step from such a state, and where it ends."""
        solver = newton.solvers.SolverVBD(self.model, iterations=iterations)
        before, after, control = self.model.state(), self.model.state(), self.model.control()
        before.particle_q.assign(x0.astype(np.float32))
        before.particle_qd.assign(v0.astype(np.float32))
        start = process_time()
        solver.step(before, after, control, None, dt)
        return process_time() - start, after.particle_q.numpy().astype(np.float64)
