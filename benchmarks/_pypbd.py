"""Shape matching by pypbd (the C++ library PositionBasedDynamics): seconds per cluster and iteration.

python benchmarks/_pypbd.py prints its times on lattices, on one thread and on two.
"""

import numpy as np
import pypbd
from _racing import iteration_time, timed
from threadpoolctl import threadpool_limits

import pointglue as pg


def build(rest, masses, groups: pg.Groups, stiffness: float = 1.0) -> pypbd.SimulationModel:
    """A model at rest (n, 3) with one constraint per group."""
    model = pypbd.SimulationModel()
    model.init()
    particles = model.getParticles()
    for index, (position, mass) in enumerate(zip(rest, masses, strict=True)):
        particles.addVertex(position)
        particles.setMass(index, mass)
    shared = np.bincount(groups.indices, minlength=len(rest))  # pypbd divides each correction by it
    for members in np.split(groups.indices, groups.offsets[1:-1]):
        model.addShapeMatchingConstraint(len(members), members.tolist(), shared[members].tolist(), stiffness)
    assert len(model.getConstraints()) == len(groups)  # those it refuses are dropped without a word
    model.initConstraintGroups()  # the colouring, otherwise part of the first step
    return model


def seconds(
    rest,
    masses,
    groups: pg.Groups,
    points,
    *,
    threads: int = 1,
    stiffness: float = 1.0,
    iterations: tuple[int, int] = (1, 21),
    repeats: int = 40,
) -> float:
    """Best time per cluster and iteration of pypbd's own loop, each step starting anew from `points`.

    The difference between steps of few and of many `iterations`, so that prediction, velocities and the
    call from Python cancel. Its polar decomposition iterates until it converges, which takes less time
    the nearer the points are to rest; a tiny stiffness leaves them as they are, for the same work.
    Colours of at most 64 clusters run on one thread, whatever `threads`.
    """
    model, controller = build(rest, masses, groups, stiffness), _controller()
    _check(rest, masses, groups, points, model.getConstraintGroups()[0])

    def step(count: int) -> float:
        _place(model, points)
        controller.setValueUInt(controller.MAX_ITERATIONS, count)
        return timed(lambda: controller.step(model))

    with threadpool_limits(threads, user_api="openmp"):
        return iteration_time(step, iterations, repeats) / len(groups)


def _controller() -> pypbd.TimeStepController:
    """One substep, no velocity pass, and no collisions (which Simulation.initDefault would add)."""
    controller = pypbd.TimeStepController()
    controller.init()  # the parameters' ids are -1 before
    controller.setValueUInt(controller.NUM_SUB_STEPS, 1)
    controller.setValueUInt(controller.MAX_ITERATIONS_V, 0)
    assert controller.getCollisionDetection() is None
    pypbd.TimeManager.getCurrent().setTimeStepSize(1e-6)  # gravity moves nothing
    return controller


def _place(model: pypbd.SimulationModel, points) -> None:
    particles, still = model.getParticles(), np.zeros(3)
    for index, position in enumerate(points):
        particles.setPosition(index, position)
        particles.setVelocity(index, still)


def _check(rest, masses, groups: pg.Groups, points, color: list[int]) -> None:
    """One iteration carries clusters that share no particle to their best rigid fits.

    On the scene itself: where a cluster's moment has a determinant below 1e-12, as on a lattice of
    spacing 0.005 with unit masses, pypbd takes the identity for its rotation, and little time.
    """
    apart = pg.Groups.from_lists([groups.indices[groups.offsets[k] : groups.offsets[k + 1]] for k in color])
    model, controller = build(rest, masses, apart), _controller()
    _place(model, points)
    controller.setValueUInt(controller.MAX_ITERATIONS, 1)
    controller.step(model)
    members, cluster = apart.indices, np.repeat(np.arange(len(apart)), np.diff(apart.offsets))
    fit = pg.fit_rigid(rest, points, np.asarray(masses)[members], groups=apart)
    goal = np.einsum("eij,ej->ei", fit.rotation[cluster], rest[members]) + fit.translation[cluster]
    error = np.abs(np.asarray(model.getParticles().getVertices())[members] - goal).max()
    assert error < 1e-4 * np.abs(points[members] - goal).max(), "pypbd does not reach the rigid fit"


def lattice(side: int, size: int, rng: np.random.Generator):
    """Rest, masses, clusters and noisy points: side^3 particles with their neighbours, up to 7 or 27."""
    cells = np.indices((side,) * 3).reshape(3, -1).T
    near = np.indices((3, 3, 3)).reshape(3, -1).T - 1
    if size == 7:
        near = near[np.abs(near).sum(1) <= 1]
    places = cells[:, None] + near
    within = ((places >= 0) & (places < side)).all(2)
    numbers = places @ [side * side, side, 1]
    clusters = pg.Groups.from_lists([row[mask] for row, mask in zip(numbers, within, strict=True)])
    rest = cells.astype(float)
    return rest, np.ones(len(rest)), clusters, rest + 0.1 * rng.standard_normal(rest.shape)


if __name__ == "__main__":
    for side in (10, 22):
        for size in (7, 27):
            scene = lattice(side, size, np.random.default_rng(0))
            for name, stiffness in (("stiffness 1", 1.0), ("held deformed", 1e-9)):
                ns = [seconds(*scene, threads=n, stiffness=stiffness) * 1e9 for n in (1, 2)]
                what = f"{side**3:,} clusters of up to {size}, {name}"
                print(f"{what}: {ns[0]:.0f} ns, on two threads {ns[1]:.0f} ns")
