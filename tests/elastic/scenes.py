"""Small bodies that the tests of the solver are made of."""

import numpy as np
import trimesh
from scipy.spatial import cKDTree

import pointglue as pg
from pointglue.elastic import ElasticBody, JointBond, RigidBody, SpringEnergy

SPACING = 0.1
GRID = SPACING * np.stack(np.meshgrid(*[np.arange(4.0)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
EDGES = cKDTree(GRID).query_pairs(1.8 * SPACING, output_type="ndarray")
TOP = np.flatnonzero(GRID[:, 1] > 2.5 * SPACING)
BOTTOM = np.flatnonzero(GRID[:, 1] < 0.5 * SPACING)


def soft(name="soft", shift=(0, 0, 0), *, stiffness=500.0, damping=0.0, pinned=None, **options):
    """A cube of springs, 0.3 m wide, of 64 points with 10 g each."""
    points = GRID + shift
    mask = None if pinned is None else np.isin(np.arange(len(points)), pinned)
    energy = SpringEnergy(points, EDGES, stiffness, damping=damping)
    return ElasticBody(points, np.full(len(points), 0.01), [energy], pinned=mask, name=name, **options)


def box(name="box", shift=(0, 0, 0), *, extents=(0.2, 0.3, 0.25), density=200.0, **options):
    """A rigid box."""
    mesh = trimesh.creation.box(extents)
    return RigidBody.solid(mesh.vertices + shift, mesh.faces, density, name=name, **options)


def joined(first, second, at, kind="ball", axis=(1.0, 0.0, 0.0), **options):
    """A joint between two bodies."""
    joint = pg.bind_joint(first.positions, second.positions, at, kind=kind, axis=axis)
    return JointBond(first.name, second.name, joint, **options)


def run(solver, steps, dt, state=None):
    """The state after some steps."""
    state = solver.start() if state is None else state
    for _ in range(steps):
        state = solver.step(state, dt)
    return state
