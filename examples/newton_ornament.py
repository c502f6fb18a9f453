"""An ornament hangs on a soft branch in an engine that knows nothing of glue: NVIDIA newton.

newton steps two equal branches, grids of tetrahedra, with its VBD solver on the CPU. The ornament, a
rigid ball beside the front branch, is ours. Before each step we read newton's points and velocities,
ask the glue where the ball belongs, and add what the ball pulls with to newton's forces, through the
transpose of the Jacobian of its pose. Positions come out and forces go in; the engine stays as it is.

The lines are the branches at rest. The gold points are the parents of the ball, the teal arrows the
forces on them: they add up to its pull (coral), and to its torque.

    pip install -e '.[engines]'
    python examples/newton_ornament.py [PICTURE.png]
"""

import numpy as np
from _report import paths, save_picture
from scipy.spatial.transform import Rotation

import pointglue as pg
from pointglue import view
from pointglue.errors import MissingDependencyError
from pointglue.geometry import shapes

try:
    import newton
    import warp as wp
except ImportError as error:
    raise MissingDependencyError("newton is not installed: pip install -e '.[engines]'") from error

CELLS, CELL, LEAN = (12, 2, 2), 0.1, 0.35  # of a branch along x, y, z; metres; radians above the horizontal
MASS, RADIUS = 2.0, 0.1  # of the ornament
STEP, STEPS = 1 / 480, 800  # VBD comes closer to converged by short steps than by many iterations
GRAVITY = np.array([0, -9.81, 0, 0, 0, 0])  # on three ways of moving and three of turning
DRAG = 6.0  # 1/s, on everything, so that it comes to rest soon
FORCE_SCALE = 0.022  # metres of arrow per newton


class Ornament:
    """A free rigid ball, tied to the frame of the glue by a damped spring in all six directions.

    To load the branch with m (g - a), where a is the acceleration of the frame in the last step, would
    be shorter. But the ball is heavier than its parents: that load grows sixfold in every step.
    """

    inertia = np.repeat([MASS, 0.4 * MASS * RADIUS**2], 3)

    def __init__(self, position):
        self.position, self.turn, self.rate = position, Rotation.identity(), np.zeros(6)

    def step(self, pose, v, inverse_mass):
        """Move on by one step; the force and torque (6,) with which the ball pulls at its frame."""
        # How readily frame and ball give way to each other: J M^-1 J^T of the parents, and the ball's own.
        units = np.stack([pose.transfer_forces(unit[None, :3], unit[None, 3:]) for unit in np.eye(6)])
        softness = np.einsum("ani,n,bni->ab", units, inverse_mass, units) + np.diag(1 / self.inertia)
        frame_rate = np.concatenate([pose.velocities(v)[0], pose.angular_velocities(v)[0]])
        apart = (self.turn * Rotation.from_matrix(pose.rotations[0]).inv()).as_rotvec()
        self.gap = np.concatenate([self.position - pose.positions[0], apart])
        # Just so stiff and so damped that, if nothing else acts, the gap is closed after this one step.
        # The branch resists by more than its mass alone, so that this does not overshoot.
        load = np.linalg.solve(softness, self.gap / STEP + self.rate - frame_rate) / STEP
        self.rate = self.rate + STEP * (GRAVITY - load / self.inertia - DRAG * self.rate)
        self.position = self.position + STEP * self.rate[:3]
        self.turn = Rotation.from_rotvec(STEP * self.rate[3:]) * self.turn
        return load


def branches():
    """newton's model: the branch with the ornament, then the one without, their left ends fixed."""
    builder = newton.ModelBuilder(up_axis=newton.Axis.Y)
    cells = dict(zip(("dim_x", "dim_y", "dim_z"), CELLS, strict=True), cell_x=CELL, cell_y=CELL, cell_z=CELL)
    stuff = {"density": 40.0, "k_mu": 8e4, "k_lambda": 1e5, "k_damp": 0.0}  # like soft foam
    lean = wp.quat_from_axis_angle(wp.vec3(0, 0, 1), LEAN)
    for place in (wp.vec3(), wp.vec3(0, 0, -0.8)):
        builder.add_soft_grid(pos=place, rot=lean, vel=wp.vec3(), fix_left=True, **cells, **stuff)
    builder.color()  # VBD moves all points of one colour at once
    return builder.finalize(device="cpu")


def doubles(*arrays):
    """newton's arrays have 32 bits. The glue computes in 64 if it is given 64."""
    return [array.numpy().astype(np.float64) for array in arrays]


def main(picture):
    wp.config.log_level = wp.LOG_ERROR  # no list of devices and compiled modules
    model = branches()
    solver = newton.solvers.SolverVBD(model, iterations=5)
    state, following, control = model.state(), model.state(), model.control()
    rest, mass, inverse_mass = doubles(model.particle_q, model.particle_mass, model.particle_inv_mass)
    grid = (2, *(count + 1 for count in CELLS[::-1]), 3)  # newton's order: branch, z, y, x
    corners = rest.reshape(grid)[np.ix_(*[[0, -1]] * 4)].reshape(16, 3)
    place = corners[5] + [0.07, -0.19, 0.15]  # outside the branch, below its tip and to the front
    glue, ornament = pg.bind_glue(rest, place[None], parents=8), Ornament(place)

    lost, farthest = 0.0, 0.0
    for _ in range(STEPS):
        x, v = doubles(state.particle_q, state.particle_qd)
        pose = glue.at(x)
        load = ornament.step(pose, v, inverse_mass)
        forces = pose.transfer_forces(load[None, :3], load[None, 3:])
        state.particle_f.assign(forces - DRAG * mass[:, None] * v)
        solver.step(state, following, control, None, STEP)
        state, following = following, state
        torque = load[3:] + np.cross(pose.positions[0], load[:3])
        errors = forces.sum(0) - load[:3], np.cross(x, forces).sum(0) - torque
        lost = max(lost, np.linalg.norm(errors) / max(np.linalg.norm(load), 1e-3))
        farthest = max(farthest, np.linalg.norm(ornament.gap[:3]))

    x, v = doubles(state.particle_q, state.particle_qd)
    assert abs(v).max() < 0.05, f"it should be at rest, and moves at {abs(v).max():.3g} m/s"
    loaded, bare = (rest - x).reshape(grid)[..., -1, 1].mean(axis=(1, 2))
    print(f"sag of the tip: {loaded:.3f} m with the ornament, {bare:.3f} m without")
    print(f"force and torque lost: {lost:.1e} of the load; ornament off its seat: {1e3 * farthest:.1f} mm")
    assert loaded > 1.5 * bare > 0.1
    assert np.allclose(load, ornament.inertia * GRAVITY, atol=0.4)  # at rest: its weight, no torque
    assert lost < 1e-10  # in every step, what went to the points is what the ornament pulled with
    # The frame carries the seat of the ornament rigidly, and the ornament keeps to it.
    pose, parents = glue.at(x), glue.parents.indices
    seat = (pose.positions[0] - glue.weights @ x[parents]) @ pose.rotations[0]
    assert np.allclose(seat, place - glue.weights @ rest[parents], atol=1e-12)
    assert farthest < 0.01
    assert 0.2 < np.linalg.norm(ornament.position - x, axis=1).min() < 0.3  # it was 0.25 m at rest

    scene = view.Picture(camera=view.Camera(direction=(0.7, 0.25, 0.9)))
    wall, wall_faces = shapes.box((0.1, 0.45, 1.4), (1, 1, 1))
    scene.mesh(wall + [-0.06, 0.09, -0.3], wall_faces, color="slate")
    edges = [(i, i ^ bit) for i in range(16) for bit in (1, 2, 4) if not i & bit]
    scene.lines(corners, segments=edges, color="sage", radius=0.004)
    scene.mesh(x, model.tri_indices.numpy(), color="sand", edges=True)
    scene.points(x[parents], color="gold", radius=0.022)
    scene.arrows(x[parents], FORCE_SCALE * forces[parents], color="teal", radius=0.01)
    scene.lines(np.stack([x[parents].mean(axis=0), ornament.position]), color="graphite", radius=0.012)
    scene.ellipsoids(ornament.position[None], np.full((1, 3), RADIUS), color="coral")
    scene.arrows(ornament.position[None], FORCE_SCALE * load[None, :3], color="coral", radius=0.014)
    save_picture(scene, picture)


if __name__ == "__main__":
    main(*paths("newton_ornament"))
