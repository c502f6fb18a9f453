"""Impulses of contacts that are found together: how much work they are."""

import numpy as np

from pointglue.particles._solve.kernels.contact.impulses import find_impulses
from pointglue.particles._solve.kernels.contact.records import ImpulseBodies, ImpulseContacts

DROP = 1e-3  # m: how far everything would fall into the ground
TOLERANCE = 1e-6 * DROP


def solved(masses, singles):
    """Look at a stack, from below, with the ground and each other, and at single things on the ground."""
    bodies = len(masses) + singles
    inverses = np.zeros((bodies, 10))
    inverses[:, 0] = [*(1 / np.asarray(masses)), *np.ones(singles)]
    none = np.zeros(bodies + 1, np.int64)
    things = ImpulseBodies(
        body_of=np.arange(bodies),
        starts=np.arange(bodies + 1),
        block_starts=none,
        responses=np.empty((0, 9)),
        moved=np.zeros((bodies, 3)),
        arms=np.zeros((bodies, 3)),
        inverses=inverses,
        motions=np.zeros((bodies, 6)),
    )
    below = np.array([-1, *range(len(masses) - 1), *[-1] * singles])
    contacts = ImpulseContacts(
        first=np.arange(bodies),
        second=below,
        normals=np.tile([0.0, 1.0, 0.0], (bodies, 1)),
        needs=np.where(below < 0, DROP, 0.0),
        slips=np.zeros((bodies, 3)),
        friction=np.zeros(bodies),
        impulses=np.zeros((bodies, 3)),
        gives=np.empty((bodies, 2)),
    )
    looks = find_impulses(4000, TOLERANCE, things, contacts)
    # Each impulse lifts what is above it. The slowest error of these stacks falls by a hundredth in a sweep
    # at least, so that it is a hundred times the last change at most.
    np.testing.assert_allclose(things.motions[:, 1], DROP, atol=100 * TOLERANCE)
    return looks


def test_what_has_settled_is_not_looked_at_in_every_sweep():
    """A heavy thing on a light one takes hundreds of sweeps, and what lies beside it a single one."""
    stack, singles = [1.0, 30.0], 100
    alone = solved(stack, 0)
    sweeps = alone / len(stack)
    assert sweeps > 100
    # Every tenth sweep goes over all.
    assert solved(stack, singles) < alone + 0.2 * sweeps * singles
