"""Poses of a bound object that the tests of glue go through by name."""

import numpy as np
import pytest
from oracle import random_rotation

import pointglue as pg


def tilted(points, rng):
    return points @ random_rotation(rng).T + rng.standard_normal(3)


def at_rest(rest, rng):
    return rest


def moved(rest, rng):
    return tilted(rest, rng)


def deformed(rest, rng):
    return tilted(rest + 0.15 * rng.standard_normal(rest.shape), rng)


def coplanar(rest, rng):
    return tilted(rest * [1.0, 0.8, 0.0], rng)


def reflected(rest, rng):
    # Flattened on the way, or several rotations would fit a mirrored cube equally well.
    return tilted(rest * [1.0, 0.9, -0.3] + 0.02 * rng.standard_normal(rest.shape), rng)


POSES = [at_rest, moved, deformed, coplanar, reflected]
every_pose = pytest.mark.parametrize("pose", POSES, ids=lambda pose: pose.__name__)


def bound_cloud(rng, **options):
    """40 targets, most of them outside, on a cloud of 200 points; parents spread widely, of uneven weight."""
    rest = rng.standard_normal((200, 3))
    targets = 2.0 * rng.standard_normal((40, 3))
    indices = np.stack([rng.choice(200, 10, replace=False) for _ in targets])
    return rest, pg.bind_glue(rest, targets, indices=indices, weights=0.2 + rng.random((40, 10)), **options)
