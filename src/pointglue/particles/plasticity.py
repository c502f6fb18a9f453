"""Deformation that stays: groups let go of by a blow, and flow beyond a yield strain."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..checks import Array
from ..procrustes.matrices import nearest_rotations
from .body import OrientedBody
from .pairs import touching_pairs
from .schedule import Schedule
from .state import ParticleState, RestPose

__all__ = ["absorb", "creep"]

MIN_GAP = 1e-8


def absorb(body: OrientedBody, state: ParticleState, members: NDArray[np.int64]) -> ParticleState:
    """The shape that the group `members` has now becomes its rest shape; nothing moves.

    With s the rigid transform from rest to now that matches the group: r <- s^-1 d r and d <- s.
    """
    rest, x = state.rest, state.positions[members]
    share = body.mass[members] / body.mass[members].sum()
    centre_at_rest, centre = share @ rest.positions[members], share @ x
    axes = rest.rotations[members]
    own = np.einsum("nik,nk,njk->nij", axes, share[:, None] / 5 * body.radii[members] ** 2, axes)
    A = np.einsum("n,ni,nj->ij", share, x - centre, rest.positions[members] - centre_at_rest)
    oriented = body.oriented[members]
    A = A + (state.rotations[members] @ own)[oriented].sum(0)
    before = state.rotations[members[:1]].reshape(1, 9)
    Q = nearest_rotations(A.reshape(1, 9), before, MIN_GAP)[0].reshape(3, 3)
    positions, rotations, turned = rest.positions.copy(), rest.rotations.copy(), state.rotations.copy()
    positions[members] = (x - centre) @ Q + centre_at_rest
    rotations[members] = Q.T @ state.rotations[members] @ axes
    turned[members] = Q
    # Overlaps that the blow made are part of the new shape; those of other pieces are contacts.
    found = touching_pairs(positions, rotations, body.radii)
    inside = np.zeros(len(body), np.bool_)
    inside[members] = True
    touching = np.unique(np.concatenate([rest.touching, found[inside[found].all(1)]]), axis=0)
    return replace(state, rotations=turned, rest=RestPose(positions, rotations, touching))


def creep(body: OrientedBody, state: ParticleState, schedule: Schedule, dt: float) -> ParticleState:
    """Let the rest pose flow where a particle's group is deformed beyond its yield strain; nothing moves.

    The strain is the distance from the matched pose, relative to the size of the group, both root mean
    squares. Each particle's place at rest moves by the mean of what its groups ask for.
    """
    implicit = int((schedule.owner >= 0).sum())
    owner = schedule.owner[:implicit]
    Q, deviation, strain = _fits(state, schedule, schedule.offsets[:, :3], implicit)
    limit = body.yield_strain[owner]
    flows = strain > limit
    if not flows.any():
        return state
    fraction = np.zeros(implicit)
    fraction[flows] = (1 - limit[flows] / strain[flows]) * -np.expm1(-body.creep[owner][flows] * dt)
    group = _group_of(schedule, implicit)
    members = schedule.members[: len(group)]
    asked = fraction[group, None] * np.einsum("nji,nj->ni", Q[group], deviation)
    times = np.bincount(members, minlength=len(body))
    shift = (
        np.stack([np.bincount(members, a, len(body)) for a in asked.T], axis=1)
        / np.maximum(times, 1)[:, None]
    )
    positions = state.rest.positions + shift
    first = members[schedule.starts[:implicit]]
    arm = positions[members] - positions[first][group]
    share = schedule.offsets[: len(group), 3]
    arm -= np.stack([np.bincount(group, share * a, implicit) for a in arm.T], axis=1)[group]
    # Each particle turns with its group, so its axes at rest turn back: it looks as it did.
    Q, _, _ = _fits(state, schedule, arm, implicit)
    rotations, turned = state.rest.rotations.copy(), state.rotations.copy()
    rotations[owner] = np.swapaxes(Q, 1, 2) @ state.rotations[owner] @ state.rest.rotations[owner]
    turned[owner] = Q
    rest = RestPose(positions, rotations, state.rest.touching)
    return replace(state, rotations=turned, rest=rest)


def _group_of(schedule: Schedule, count: int) -> NDArray[np.int64]:
    return np.repeat(np.arange(count), np.diff(schedule.starts[: count + 1]))


def _fits(state: ParticleState, schedule: Schedule, offsets: Array, count: int) -> tuple[Array, Array, Array]:
    """Of the first `count` groups: rotations, how far each member is from its place, and the strain."""
    group = _group_of(schedule, count)
    members, share = schedule.members[: len(group)], schedule.offsets[: len(group), 3]
    offsets = offsets[: len(group)]
    first = members[schedule.starts[:count]]
    x = state.positions[members] - state.positions[first][group]

    def mean(values: Array) -> Array:
        columns = values.reshape(len(values), -1).T
        return np.stack([np.bincount(group, share * c, count) for c in columns], axis=1)

    x -= mean(x)[group]
    own = (state.rotations @ schedule.moments.reshape(-1, 3, 3))[members].reshape(-1, 9)
    A = schedule.scales[:, :1][:count] * mean(x[:, :, None] * offsets[:, None, :])
    A += schedule.scales[:, 1:][:count] * np.stack([np.bincount(group, c, count) for c in own.T], axis=1)
    Q = nearest_rotations(A, state.rotations[first].reshape(-1, 9), MIN_GAP)[0].reshape(-1, 3, 3)
    deviation = x - np.einsum("nij,nj->ni", Q[group], offsets)
    size = mean((offsets**2).sum(1))[:, 0]
    square = mean((deviation**2).sum(1))[:, 0]
    return Q, deviation, np.sqrt(square / np.where(size > 0, size, 1.0))
