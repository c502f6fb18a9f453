"""Derivatives by what is free to move, against those of the assembly, and a step's own by differences."""

import numpy as np
import pytest
from checking import derivative
from numpy.testing import assert_allclose, assert_array_equal
from oracle import random_rotation
from scenes import TOP, box, joined, soft
from scipy.sparse import csr_array

import pointglue as pg
from pointglue.elastic import Bond, ImplicitSolver, JointBond, Motor
from pointglue.elastic.model.constraints import Rates, StepRows
from pointglue.elastic.model.dofs import DegreesOfFreedom, DofMatrix
from pointglue.elastic.step.glue_springs import GlueSprings
from pointglue.elastic.step.objective import Clock, Configuration, Objective

COUNT = 60


@pytest.fixture
def chain(rng):
    """Particles bound to bound particles, the last also to a body; three are pinned, a body is fixed."""
    rest = rng.standard_normal((COUNT, 3))
    bodies = np.where(np.arange(COUNT) < 12, np.arange(COUNT) // 6, -1)
    pairs = [
        (rows, pg.bind_glue(rest, rest[rows], among=among))
        for rows, among in (
            (np.arange(40, 50), np.arange(40)),
            (np.arange(50, 55), np.arange(30, 50)),
            (np.arange(55, 58), np.r_[0:6, 50:55]),
        )
    ]
    assembly = pg.Assembly(rest, pairs, body_of=bodies)
    x = rest + 0.2 * rng.standard_normal(rest.shape)
    turns = np.stack([random_rotation(rng) for _ in range(2)])
    pose = assembly.at(x, pg.BodyFrames(assembly.origins, turns))
    pinned = np.isin(np.arange(COUNT), [20, 33, 59])
    return DegreesOfFreedom(assembly, pinned, np.array([False, True])), pose


def columns(dofs):
    """The columns of the assembly's Jacobian that belong to nodes."""
    assembly = dofs.assembly
    of_particle = np.searchsorted(assembly.free, dofs.particles)
    first = 3 * len(assembly.free) + 6 * dofs.bodies
    own = (3 * of_particle[:, None] + np.arange(3)).ravel()
    return np.concatenate([own, (first[:, None] + np.arange(6)).ravel()])


def dense(dofs, blocks):
    count = len(dofs.assembly)
    J = np.zeros((count, 3, len(dofs), 3))
    J[dofs.particles, :, np.arange(len(dofs.particles))] = np.eye(3)
    J[dofs.block_particles, :, dofs.block_nodes] = blocks
    return J.reshape(3 * count, -1)


def test_blocks_are_the_jacobian(chain):
    dofs, pose = chain
    J = dense(dofs, dofs.blocks(pose))
    assert_allclose(J, pose.jacobian().toarray()[:, columns(dofs)], atol=1e-13)


def test_projection(chain, rng):
    dofs, pose = chain
    pairs = rng.integers(0, COUNT, (400, 2))
    H = np.zeros((COUNT, 3, COUNT, 3))
    data = rng.standard_normal((len(pairs), 3, 3))
    np.add.at(H.transpose(0, 2, 1, 3), tuple(pairs.T), data)
    sources, widths = 9 * np.arange(len(pairs)), np.full(len(pairs), 3)
    projection = DofMatrix(dofs, *pairs.T, sources, widths)
    blocks = dofs.blocks(pose)
    out = projection.reduce(blocks, data.ravel())
    J = dense(dofs, blocks)
    result = csr_array((out, projection.indices, projection.indptr), shape=(J.shape[1],) * 2)
    expected = J.T @ H.reshape(3 * COUNT, -1) @ J
    assert_allclose(result.toarray(), expected, atol=1e-12 * np.abs(expected).max())


SLIDERS = ("curve", "hoop", "surface")


def slides_on(second, hung, kind):
    """Sliding glue of a box on a bent curve, a closed one or a surface of a soft body."""
    x, z = np.meshgrid([0.0, 0.1, 0.2, 0.3], [0.0, 0.1, 0.25], indexing="ij")
    grid = np.stack([x, x * z - 0.5, z], axis=-1)
    path = grid if kind == "surface" else grid[:, 1] if kind == "curve" else grid[[0, 0, 2, 2], [0, 2, 2, 0]]
    slider = pg.bind_slider(hung.positions, second.positions, (0.12, -0.5, 0.1), path, closed=kind == "hoop")
    return JointBond("hung", "second", slider)


def solver_of_all(kinds, **drives):
    """Soft on soft by glue, a box on springs of glue and a joint, another on a joint, damping throughout."""
    first = soft("first", pinned=TOP, damping=0.004)
    second = soft("second", (0, -0.5, 0), damping=0.002)
    hung, last = box("hung", (0.1, -0.8, 0.1)), box("last", (0.1, -1.2, 0.1))
    return ImplicitSolver(
        [first, second, hung, last],
        glue=[
            Bond("second", TOP, "first"),
            Bond("hung", [0, 1], "first", spring=pg.Spring(80.0, damping=3.0)),
        ],
        joints=[
            slides_on(second, hung, kinds[0])
            if kinds[0] in SLIDERS
            else joined(second, hung, (0.1, -0.6, 0.1), kind=kinds[0], axis=(1.0, 2.0, 3.0)),
            joined(hung, last, (0.1, -1.0, 0.1), kind=kinds[1], **drives),
        ],
    )


DRIVES = {"angle_limits": (-0.1, 0.2), "angle_motor": Motor(speed=1.0, damping=3.0)}
SLIDE_DRIVES = {"slide_limits": (-0.1, 0.2), "slide_motor": Motor(position=1.0, stiffness=3.0)}
JOINTS = [
    (("ball", "hinge"), {}),
    (("hinge", "hinge"), DRIVES),
    (("prismatic", "cylindrical"), DRIVES | SLIDE_DRIVES),
    (("planar", "prismatic"), SLIDE_DRIVES),
    (("cylindrical", "planar"), DRIVES),
    *(((kind, "ball"), {}) for kind in SLIDERS),
    (("ball", "bushing"), {"stiffness": (30.0, 0.0, np.inf), "damping": (0.0, 2.0, 0.0)}),
]


def moved_objective(rng, kinds=("ball", "hinge"), **drives):
    """A step of that solver, at a configuration well away from its start."""
    solver = solver_of_all(kinds, **drives)
    state = solver.start()
    springs = GlueSprings(solver.model.springs, solver.model.spring_frames, np.ones(2, bool))
    terms = solver.integrator.terms(0.02, springs)
    nothing = np.zeros(len(state.particles), bool)
    system = solver.integrator.system_for(nothing, np.ones(2, bool), solver.model.rest, terms)
    pose = system.assembly.at(state.particles, pg.BodyFrames(state.origins, state.rotations))
    constraints = solver.model.constraints
    slides = constraints.slides(pose.positions)
    bounds = constraints.bounds(slides, state.angles, Rates(50.0, 0.0, 0.02, 0.0, 0.0))
    sliders = constraints.slider_frames(pose.positions)
    rows = StepRows(solver.model.directions(pose), state.angles, bounds, sliders)
    scheme = solver.integrator.scheme(state, 0.02)
    past = state.particles + 0.01 * rng.standard_normal(state.particles.shape)
    terms = [term.damped(scheme.slope, state.particles, past, 0.4) for term in terms]
    assert sum(term.dissipation is not None for term in terms) == 3
    forces = rng.standard_normal(state.particles.shape)
    objective = Objective(system, scheme, terms, forces, rows, pose, Clock())
    start = Configuration(state.particles, state.origins, state.rotations)
    configuration = objective.moved(start, 0.03 * rng.standard_normal((len(system.dofs), 3)), 1.0)
    return objective, configuration


def newton_matrix(objective, now, loads, *, project):
    """The matrix of a Newton step, with all its parts."""
    reduced = objective.reduced(now, loads, project=project)
    return objective.matrix(now, loads, reduced, project=project)


@pytest.mark.parametrize(("kinds", "drives"), JOINTS)
def test_a_step_s_gradient_and_hessian(rng, kinds, drives):
    """The gradient of value + multipliers . left sides, and how it changes, along curves."""
    objective, configuration = moved_objective(rng, kinds, **drives)
    multipliers = rng.standard_normal(len(objective.system.equations))

    def lagrangian(configuration):
        now = objective.at(configuration)
        return now.value + multipliers @ now.left_sides

    def gradient(configuration):
        now = objective.at(configuration)
        objective.differentiate(now)
        return objective.loads(now, multipliers).on_nodes, now

    slopes, now = gradient(configuration)
    matrix = newton_matrix(objective, now, objective.loads(now, multipliers), project=False)
    layout, least = objective.system.base, matrix.least
    K = csr_array((matrix.data, layout.indices, layout.indptr), shape=(layout.size,) * 2)
    assert abs(K - K.T).max() < 1e-12 * abs(K).max()
    count = slopes.size
    assert (least[:count] > 0).all()
    assert (least[count:] < 0).all()
    for _ in range(4):
        d = rng.standard_normal(slopes.shape)
        along = derivative(lambda s, d=d: lagrangian(objective.moved(configuration, d, s)), 2e-5)
        assert along == pytest.approx(np.sum(slopes * d), rel=1e-8)
        change = derivative(
            lambda s, d=d: np.sum(gradient(objective.moved(configuration, d, s))[0] * d), 2e-5
        )
        flat = d.ravel()
        stiffening = matrix.penalties @ (K[count:, :count] @ flat) ** 2
        assert_array_equal(matrix.penalties > 0, objective.is_equation)
        assert change == pytest.approx(flat @ (K[:count, :count] @ flat) - stiffening, rel=1e-8)
        opening = derivative(
            lambda s, d=d: objective.at(objective.moved(configuration, d, s)).left_sides, 2e-5
        )
        assert_allclose(K[count:, :count] @ flat, opening, atol=1e-9 * np.abs(opening).max())


def test_a_projected_hessian_is_definite(rng):
    objective, configuration = moved_objective(rng)
    now = objective.at(configuration)
    objective.differentiate(now)
    loads = objective.loads(now, 50 * rng.standard_normal(len(objective.system.equations)))
    projection, count = objective.system.base, 3 * len(objective.system.dofs)
    for project in (False, True):
        matrix = newton_matrix(objective, now, loads, project=project)
        K = csr_array((matrix.data, projection.indices, projection.indptr), shape=(projection.size,) * 2)
        C = K[count:, :count].toarray()
        bare = K[:count, :count].toarray() - C.T @ (matrix.penalties[:, None] * C)
        assert (np.linalg.eigvalsh(bare)[0] > 0) == project  # so strong joints make the exact one indefinite
