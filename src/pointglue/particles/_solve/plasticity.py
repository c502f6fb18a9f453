"""Permanent deformation: of rigid groups that an impact has released, and flow beyond a yield strain."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ...checks import Array
from ...compute import run
from ...procrustes import fit_rigid
from ...procrustes.matrices import nearest_rotations
from ..body import OrientedBody
from ..state import ParticleState, RestPose
from .kernels.constraints.matching import MIN_GAP
from .kernels.records import PlasticEdges
from .kernels.shapes.rotations import flow_edges, flow_turns
from .pairs import touching_pairs
from .schedule import Schedule
from .topology import EdgeSystem, Topology

__all__ = ["creep", "set_rest_shape"]


def set_rest_shape(body: OrientedBody, state: ParticleState, members: NDArray[np.int64]) -> ParticleState:
    """Make the current shape of the group `members` its rest shape; nothing moves.

    With s the rigid transform from rest to now that matches the group: r <- s^-1 d r and d <- s. Pieces that
    are joined to the group by shared particles keep their own rest shape and are brought to where these are
    now: with f the transform of such another group, r <- s^-1 f r and d <- d f^-1 s.
    """
    rest, x = state.rest, state.positions
    Q, rest_centroid, centroid = _matched(body, state, members)
    positions, rotations, turned = rest.positions.copy(), rest.rotations.copy(), state.rotations.copy()
    positions[members] = (x[members] - centroid) @ Q + rest_centroid
    rotations[members] = Q.T @ state.rotations[members] @ rest.rotations[members]
    turned[members] = Q
    inside = np.zeros(len(body), np.bool_)
    inside[members] = True
    for other, joined in _joined_pieces(body, inside):
        F, at_rest, now = _matched(body, state, other)
        back = Q.T @ F
        positions[joined] = (rest.positions[joined] - at_rest) @ back.T + (now - centroid) @ Q + rest_centroid
        rotations[joined] = back @ rest.rotations[joined]
        turned[joined] = state.rotations[joined] @ back.T
    # Overlaps that the impact made are part of the new shape; those of other pieces are contacts.
    found = touching_pairs(positions, rotations, body.radii)
    touching = np.unique(np.concatenate([rest.touching, found[inside[found].all(1)]]), axis=0)
    return replace(state, rotations=turned, rest=RestPose(positions, rotations, touching))


def _matched(
    body: OrientedBody, state: ParticleState, members: NDArray[np.int64]
) -> tuple[Array, Array, Array]:
    """Return the rotation (3, 3) of a group from rest to now, and its centroid (3,) at rest and now."""
    rest, x = state.rest, state.positions[members]
    share = body.mass[members] / body.mass[members].sum()
    rest_centroid, centroid = share @ rest.positions[members], share @ x
    axes = rest.rotations[members]
    own = np.einsum("nik,nk,njk->nij", axes, share[:, None] / 5 * body.radii[members] ** 2, axes)
    A = np.einsum("n,ni,nj->ij", share, x - centroid, rest.positions[members] - rest_centroid)
    oriented = body.oriented[members]
    A = A + (state.rotations[members] @ own)[oriented].sum(0)
    before = state.rotations[members[:1]].reshape(1, 9)
    return nearest_rotations(A.reshape(1, 9), before, MIN_GAP)[0].reshape(3, 3), rest_centroid, centroid


def _joined_pieces(
    body: OrientedBody, inside: NDArray[np.bool_]
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return the groups that share particles with those `inside` (n,), and all that is connected to each."""
    joined = [group for group in body.groups if inside[group].any() and not inside[group].all()]
    if not joined:
        return []
    outer = [group[~inside[group]] for group in body.groups if not inside[group].all()]
    edges = body.edges[~inside[body.edges].any(1)]
    stars = [np.stack([np.full(len(group), group[0]), group], axis=1) for group in outer]
    i, j = np.concatenate([edges, *stars]).T
    links = coo_array((np.ones(len(i)), (i, j)), shape=(len(body), len(body)))
    piece = connected_components(links, directed=False)[1]
    found, seen = [], set()
    for group in joined:
        of = int(piece[group[~inside[group]][0]])
        if of not in seen:  # what is joined by several groups goes with the first
            seen.add(of)
            found.append((group, np.flatnonzero((piece == of) & ~inside)))
    return found


def creep(
    body: OrientedBody, state: ParticleState, topology: Topology, schedule: Schedule, dt: float
) -> ParticleState:
    """Return the state after plastic flow of groups deformed beyond their yield strain; nothing moves.

    The strain is the distance from the matched pose, relative to the size of the group, both root mean
    squares. A fraction f of the deformation becomes permanent: along an edge the frames at rest turn against
    each other by f log(Q_i^T Q_j), and the edge itself goes from its rest vector towards Q_i^T (x_j - x_i).
    Turns first and then positions are put together by least squares over all edges, so that all groups
    go on sharing one rest pose and there are no ghost forces.
    """
    count = schedule.implicit
    if not count:  # single particles, or rigid groups alone
        return state
    owner = schedule.owner[:count]
    Q, strain = _fits(state, schedule, schedule.offsets[:, :3])
    limit = body.yield_strain[owner]
    flows = strain > limit
    if not flows.any():
        return state
    fraction, turns = np.zeros(len(body)), state.rotations.copy()
    fraction[owner[flows]] = (1 - limit[flows] / strain[flows]) * -np.expm1(-body.creep[owner][flows] * dt)
    turns[owner] = Q
    positions = _flowed(state, topology.edge_system(state.pause == 0), fraction, turns)
    for group, paused in zip(body.groups, state.pause > 0, strict=True):
        if not paused:  # a rigid group moves in the rest pose, but as a whole
            moved = fit_rigid(state.rest.positions[group], positions[group], on_degenerate="clamp")
            positions[group] = moved.apply(state.rest.positions[group])
    # Each particle turns with its group, so its axes at rest turn back: it looks as it did.
    arm = positions[schedule.members] - positions[schedule.members[schedule.starts[:-1]]][_group_of(schedule)]
    Q, _ = _fits(state, schedule, arm - _means(schedule, arm)[_group_of(schedule)])
    turned = state.rotations.copy()
    turned[owner] = Q
    rotations = np.swapaxes(turned, 1, 2) @ state.rotations @ state.rest.rotations
    return replace(state, rotations=turned, rest=RestPose(positions, rotations, state.rest.touching))


def _flowed(state: ParticleState, system: EdgeSystem, fraction: Array, turns: Array) -> Array:
    """Return positions at rest after the edges have flowed by the fractions of their particles."""
    i, j = system.pairs.T
    x, rest = state.positions, state.rest.positions
    share = np.where(system.rigid, 0.0, 0.5 * (fraction[i] + fraction[j]))
    bend, edges = np.empty((len(i), 3)), np.empty((len(i), 3))
    run(flow_turns, len(i), 1024, system.pairs, share, turns.reshape(-1, 9), bend)
    phi = system.solve(bend, np.zeros_like(rest))
    flowing = PlasticEdges(system.pairs, rest[j] - rest[i], x[j] - x[i])
    run(flow_edges, len(i), 1024, flowing, fraction, turns.reshape(-1, 9), phi, edges)
    edges[system.rigid] = flowing.rest[system.rigid]
    return system.solve(edges, rest)


def _group_of(schedule: Schedule) -> NDArray[np.int64]:
    """Return the number of the group that each entry is in, (members,)."""
    return np.repeat(np.arange(len(schedule.owner)), np.diff(schedule.starts))


def _means(schedule: Schedule, values: Array) -> Array:
    """Return means over the groups of values (members, ...), weighted by mass, each as a flat row."""
    group, columns = _group_of(schedule), values.reshape(len(values), -1).T
    weighted = [np.bincount(group, schedule.offsets[:, 3] * c, len(schedule.owner)) for c in columns]
    return np.stack(weighted, axis=1)


def _fits(state: ParticleState, schedule: Schedule, offsets: Array) -> tuple[Array, Array]:
    """Return the rotations of the implicit groups, matched with the given offsets, and their strains."""
    group, members, count = _group_of(schedule), schedule.members, schedule.implicit
    first = members[schedule.starts[:-1]]
    x = state.positions[members] - state.positions[first][group]
    x -= _means(schedule, x)[group]
    own = (state.rotations @ schedule.moments.reshape(-1, 3, 3))[members].reshape(-1, 9)
    A = schedule.scales[:, :1] * _means(schedule, x[:, :, None] * offsets[:, None, :])
    A += schedule.scales[:, 1:] * np.stack([np.bincount(group, c, len(first)) for c in own.T], axis=1)
    Q = nearest_rotations(A, state.rotations[first].reshape(-1, 9), MIN_GAP)[0].reshape(-1, 3, 3)
    deviation = x - np.einsum("nij,nj->ni", Q[group], offsets)
    size, square = (_means(schedule, (d**2).sum(1))[:count, 0] for d in (offsets, deviation))
    return Q[:count], np.sqrt(square / np.where(size > 0, size, 1.0))
