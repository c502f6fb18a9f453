"""Skeletons of handles: bones of constant length, posed by inverse kinematics, and rigid groups.

A skeleton stands between the user and a deformer: from the few handles that are dragged it finds positions
for all of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain as joined
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Array, as_integers, as_reals, check_rotations, is_integer, require_finite
from ..errors import InputError
from ..procrustes import fit_rigid, special_procrustes

__all__ = ["Skeleton"]

# Sweeps of FABRIK: near a stretched chain its error falls as slowly as 1 / sweeps.
MOST_SWEEPS = 32
# Ratio to a chain's length: nearer to the target than this, FABRIK stops and `_close_gap` takes over.
REACH_TOLERANCE = 1e-6
# Ratio to a chain's length: joints that are off a line by less than this are on it.
STRAIGHT = 1e-6
# Ratio to the size of the rest pose: a shorter bone has no direction.
SHORTEST_BONE = 1e-9
# Ratio to a chain's length: a joint closer to the axis than this gives no side to bend to.
ON_AXIS = 1e-12

_Handles = tuple[int, ...]


@dataclass(frozen=True, eq=False, init=False)
class Skeleton:
    """Handles of which some are connected, by bones of constant length or as rigid groups.

    A handle of a chain, unless it is the root, moves the others of its group and the chains that start there,
    with the bone that it starts (the tip: with the bone that ends there). A root follows the group that it
    is in. So no handle is in two groups, or in two chains other than as a root, and no group has two handles
    that are in chains other than as roots.

    Poses are positions (H, d), and every method returns a new one. What moves has the lengths and shapes
    of rest, to rounding, however many moves there were; what does not move keeps every bit.

    Parameters
    ----------
    rest : (H, 3) or (H, 2)
        The handles at rest [m].
    chains : iterable of sequences of int
        Lists of handles from root to tip, say shoulder, elbow, hand: each two in a row are a bone of constant
        length.
    groups : iterable of sequences of int
        Lists of handles that move as one rigid body, say a pair at a joint.

    Raises
    ------
    InputError
        If a list names a handle that is not there, a bone has no length, or the lists contradict each other.
    """

    rest: Array
    chains: tuple[_Handles, ...]
    groups: tuple[_Handles, ...]

    def __init__(
        self,
        rest: ArrayLike,
        chains: Iterable[Sequence[int] | NDArray[np.integer]] = (),
        groups: Iterable[Sequence[int] | NDArray[np.integer]] = (),
    ) -> None:
        points = np.array(as_reals("rest", rest))
        if points.ndim != 2 or points.shape[1] not in (2, 3) or not len(points):
            raise InputError(f"rest must have shape (H, 3) or (H, 2), at least one row, got {points.shape}")
        require_finite("rest", points)
        points.flags.writeable = False
        object.__setattr__(self, "rest", points)
        object.__setattr__(self, "chains", _check_lists("chains", chains, len(points)))
        object.__setattr__(self, "groups", _check_lists("groups", groups, len(points)))
        self._check_bones()
        self._check_hierarchy()

    @cached_property
    def bones(self) -> NDArray[np.int64]:
        """The handles at the start and the end of every bone (B, 2), chain after chain."""
        return np.array([*joined.from_iterable(map(pairwise, self.chains))], np.int64).reshape(-1, 2)

    def drag(self, handles_now: ArrayLike, moves: Mapping[int, ArrayLike]) -> Array:
        """Drag some handles, and let the others follow by inverse kinematics.

        A handle of a chain is reached for by the bones from the root to it, and comes as near as they let
        it; the bones beyond follow rigidly. If there are several in one chain, each is reached for from the
        one before. A root, or any handle that follows no chain, moves all its descendants along.

        One handle of a group shifts it; more place and turn it, by their best rigid fit. If the group
        follows a chain, the chain reaches for that place. Chains that start on others come last.

        Parameters
        ----------
        handles_now : (H, d)
            Where the handles are [m].
        moves : mapping of int to (d,)
            Where some of them are dragged to [m].

        Returns
        -------
        (H, d)
            Where they are then [m].

        Raises
        ------
        InputError
            If a shape does not fit, a number is not finite, or there is no such handle.
        """
        now, targets = self._check_pose(handles_now), self._check_targets(moves)
        x = now.astype(np.float64)
        for members in self._roots:
            if not targets.keys().isdisjoint(members):
                turn, places = self._group_target(x, members, targets)
                for handle, place in zip(members, places, strict=True):
                    _move_rigidly(x, self._subtree([handle]), turn, x[handle], place)
        for chain in self._ordered_chains:
            anchor = 0
            for j, handle in enumerate(chain):
                members = self._following_groups.get(handle, (handle,))
                if j and not targets.keys().isdisjoint(members):
                    place = self._group_target(x, members, targets)[1][members.index(handle)]
                    self._reach(x, chain[anchor : j + 1], place, anchor == 0)
                    turn = self._group_target(x, members, targets)[0]
                    _move_rigidly(x, self._below(handle), turn, x[handle], x[handle])
                    anchor = j
        return self._with_rest_lengths(now, x)

    def rotate(self, handles_now: ArrayLike, joint: int, rotation: ArrayLike) -> Array:
        """Turn all that is below a joint about it.

        Below a joint are the bones that start there, on to the tips, with all that follows them, and the
        group that follows the joint. A handle with nothing below it turns its group, if that is on no chain.

        Parameters
        ----------
        handles_now : (H, d)
            Where the handles are [m].
        joint : int
            The handle to turn about.
        rotation : (d, d)
            The rotation.

        Returns
        -------
        (H, d)
            Where they are then [m].

        Raises
        ------
        InputError
            If a shape does not fit, the matrix is no rotation, or there is nothing to turn.
        """
        now, handle = self._check_pose(handles_now), self._check_handle("joint", joint)
        d = self.rest.shape[1]
        R = check_rotations("rotation", rotation, (d, d))
        below = self._below(handle) or self._subtree(next((g for g in self._roots if handle in g), ()))
        if below in ([], [handle]):
            raise InputError(f"joint must be a handle with something below it to turn, got {handle}")
        x = now.astype(np.float64)
        _move_rigidly(x, below, special_procrustes(R), x[handle], x[handle])
        return self._with_rest_lengths(now, x)

    # The hierarchy.

    @cached_property
    def _chain_position(self) -> dict[int, tuple[_Handles, int]]:
        """The chain of every handle that is in one, except as a root, and its place in it."""
        return {handle: (chain, j) for chain in self.chains for j, handle in enumerate(chain) if j}

    @cached_property
    def _following_groups(self) -> dict[int, _Handles]:
        """The groups that follow chains, by the handle of the chain."""
        return {handle: group for group in self.groups for handle in group if handle in self._chain_position}

    @cached_property
    def _roots(self) -> tuple[_Handles, ...]:
        """What follows nothing: groups that are on no chain, and single handles."""
        taken = {*self._chain_position, *joined.from_iterable(self.groups)}
        singles = [(handle,) for handle in range(len(self.rest)) if handle not in taken]
        return (*(group for group in self.groups if self._chain_position.keys().isdisjoint(group)), *singles)

    @cached_property
    def _children(self) -> list[list[int]]:
        """The children of each handle: the chains that it is root of, and the group that follows it."""
        children: list[list[int]] = [[] for _ in self.rest]
        for chain in self.chains:
            children[chain[0]] += chain[1:]
        for handle, group in self._following_groups.items():
            children[handle] += [other for other in group if other != handle]
        return children

    @cached_property
    def _ordered_chains(self) -> list[_Handles]:
        """The chains, each after those that it starts on."""
        order = {handle: k for k, handle in enumerate(self._subtree(joined.from_iterable(self._roots)))}
        return sorted(self.chains, key=lambda chain: order[chain[0]])

    def _subtree(self, handles: Iterable[int]) -> list[int]:
        """Return the handles, and after them all their descendants."""
        found = list(handles)
        for handle in found:  # which grows meanwhile
            found += self._children[handle]
        return found

    def _below(self, joint: int) -> list[int]:
        """Return all handles that turn about a joint."""
        chain, j = self._chain_position.get(joint, ((), 0))
        return self._subtree([*chain[j + 1 :], *self._children[joint]])

    # Motion: these write to x (H, d).

    def _group_target(self, x: Array, members: _Handles, targets: dict[int, Array]) -> tuple[Array, Array]:
        """Return the rotation (d, d) of a group and the positions (n, d) of its members for some targets."""
        rows, dragged = list(members), [handle for handle in members if handle in targets]
        if len(dragged) == 1:
            return np.eye(x.shape[1]), targets[dragged[0]] + (x[rows] - x[dragged[0]])
        now = fit_rigid(self.rest[rows], x[rows], on_degenerate="clamp").rotation
        wanted = np.array([targets[handle] for handle in dragged])
        fit = fit_rigid(self.rest[dragged], wanted, on_degenerate="clamp", previous=now)
        return fit.rotation @ now.T, fit.apply(self.rest[rows])

    def _reach(self, x: Array, path: _Handles, target: Array, from_root: bool) -> None:
        """Bring the last handle of a path along a chain to the target, or near it; the first one stays."""
        old = x[list(path)]
        new = _fabrik(old, self.rest[list(path)].astype(np.float64), target)
        turns = [
            _least_rotation(*bone) for bone in zip(np.diff(old, axis=0), np.diff(new, axis=0), strict=True)
        ]
        for k, handle in enumerate(path[:-1]):
            along = [] if k == 0 and from_root else self._children[handle]
            _move_rigidly(x, [handle, *self._subtree(along)], turns[k], old[k], new[k])
        _move_rigidly(x, [path[-1], *self._below(path[-1])], turns[-1], old[-1], new[-1])

    def _with_rest_lengths(self, now: Array, x: Array) -> Array:
        """Give all that has moved the lengths and shapes of rest, so that rounding errors do not add up."""
        moved = (x != now).any(axis=1)
        for members in self._roots:
            self._restore_shape(x, moved, members, None)
        for chain in self._ordered_chains:
            for j, (a, b) in enumerate(pairwise(chain), 1):
                if moved[b]:
                    bone, at_rest = x[b] - x[a], self.rest[b].astype(np.float64) - self.rest[a]
                    length = np.linalg.norm(at_rest)
                    x[self._subtree(chain[j:])] += length * _unit(bone, at_rest / length) - bone
                self._restore_shape(x, moved, self._following_groups.get(b, ()), b)
        return x.astype(np.result_type(self.rest, now))

    def _restore_shape(
        self, x: Array, moved: NDArray[np.bool_], members: _Handles, leader: int | None
    ) -> None:
        """Give a group that has moved its shape of rest; its leader stays."""
        rows = list(members)
        if len(rows) > 1 and moved[rows].any():
            places = fit_rigid(self.rest[rows], x[rows], on_degenerate="clamp").apply(self.rest[rows])
            shift = places - x[rows] + (0.0 if leader is None else x[leader] - places[rows.index(leader)])
            for handle, by in zip(rows, shift, strict=True):
                x[[] if handle == leader else self._subtree([handle])] += by

    # Checks.

    def _check_bones(self) -> None:
        a, b = self.bones.T
        lengths = np.linalg.norm(self.rest[b] - self.rest[a], axis=1)
        short = np.flatnonzero(lengths <= SHORTEST_BONE * np.ptp(self.rest, axis=0).max())
        if len(short):
            raise InputError(f"rest must give every bone a length, got {lengths[short[0]]} "
                             f"from handle {a[short[0]]} to handle {b[short[0]]}")  # fmt: skip

    def _check_hierarchy(self) -> None:
        for name, lists, skip in (("chains", self.chains, 1), ("groups", self.groups, 0)):
            home: dict[int, int] = {}
            for k, part in enumerate(lists):
                for handle in part[skip:]:
                    if home.setdefault(handle, k) != k:
                        raise InputError(
                            f"{name} must not share handles, got {handle} in {name}[{home[handle]}] and "
                            f"{name}[{k}]" + skip * "; only as its root may it be in one more"
                        )
        for k, group in enumerate(self.groups):
            led = [handle for handle in group if handle in self._chain_position]
            if len(led) > 1:
                raise InputError(f"groups[{k}] must follow one handle of a chain at most, got {led}")
        loose = set(range(len(self.rest))).difference(self._subtree(joined.from_iterable(self._roots)))
        if loose:
            raise InputError(f"chains must not start on themselves, got a circle in handles {sorted(loose)}")

    def _check_pose(self, handles_now: ArrayLike) -> Array:
        given = as_reals("handles_now", handles_now)
        if given.shape != self.rest.shape:
            raise InputError(f"handles_now must have shape {self.rest.shape} like rest, got {given.shape}")
        require_finite("handles_now", given)
        return given

    def _check_handle(self, name: str, handle: object) -> int:
        count = len(self.rest)
        if not is_integer(handle) or not 0 <= handle < count:  # type: ignore[operator]
            raise InputError(f"{name} must be the number of one of the {count} handles, got {handle!r}")
        return int(handle)  # type: ignore[call-overload, no-any-return]

    def _check_targets(self, moves: Mapping[int, ArrayLike]) -> dict[int, Array]:
        if not isinstance(moves, Mapping):
            raise InputError(f"moves must be a dict, {{handle: position}}, got {type(moves).__name__}")
        targets = {}
        for key, value in moves.items():
            handle = self._check_handle("each key of moves", key)
            target = as_reals(f"moves[{handle}]", value).astype(np.float64)
            if target.shape != self.rest.shape[1:]:
                raise InputError(f"moves[{handle}] must have shape {self.rest.shape[1:]}, got {target.shape}")
            require_finite(f"moves[{handle}]", target)
            targets[handle] = target
        return targets


def _check_lists(name: str, lists: object, count: int) -> tuple[_Handles, ...]:
    if isinstance(lists, (str, Mapping)) or not isinstance(lists, Iterable):
        raise InputError(f"{name} must be lists of handles, got {type(lists).__name__}")
    parts = [tuple(as_integers(f"{name}[{k}]", part).tolist()) for k, part in enumerate(lists)]
    for k, part in enumerate(parts):
        if len(part) < 2 or len(set(part)) < len(part):
            raise InputError(f"{name}[{k}] must name two handles at least, each once, got {list(part)}")
        if min(part) < 0 or max(part) >= count:
            raise InputError(f"{name}[{k}] must name some of the {count} handles, got {list(part)}")
    return tuple(parts)


def _fabrik(points: Array, rest: Array, target: Array) -> Array:
    """Return the joints (n + 1, d) of a chain, its tip on the target or as near as its bones let it.

    The method is FABRIK (Aristidou and Lasenby 2011), from `points` on. Where the chain is nearly stretched
    or folded it stops short of the target; :func:`_close_gap` does the rest.
    """
    root, lengths = points[0], np.linalg.norm(np.diff(rest, axis=0), axis=1)
    reach, longest, distance = lengths.sum(), lengths.argmax(), np.linalg.norm(target - root)
    axis = _unit(target - root, _unit(points[longest + 1] - points[longest], np.eye(len(root))[0]))
    if distance >= reach or distance <= 2.0 * lengths[longest] - reach:  # too far, or too near: on one line
        signs = np.where((distance >= reach) | (np.arange(len(lengths)) == longest), 1.0, -1.0)
        return np.vstack([root, root + np.cumsum(signs * lengths)[:, None] * axis])
    x = _fabrik_start(points, rest, target, reach)
    for _ in range(MOST_SWEEPS):
        if np.linalg.norm(x[-1] - target) <= REACH_TOLERANCE * reach:
            break
        x[-1] = target
        for i in range(len(lengths) - 1, -1, -1):
            x[i] = x[i + 1] + lengths[i] * _unit(x[i] - x[i + 1], axis)
        x[0] = root
        for i, length in enumerate(lengths):
            x[i + 1] = x[i] + length * _unit(x[i + 1] - x[i], axis)
    return _close_gap(x, lengths, target, axis)


def _fabrik_start(points: Array, rest: Array, target: Array, reach: float) -> Array:
    """Return joints (n + 1, d) to start FABRIK from: `points`, unless on a line, which it may never leave.

    If the chain is straight it is turned to the target, and bent to the side of its bend at rest. If only
    the joints before the tip are in line with the target they give way, so that the bend stays what it is.
    """
    root, first = points[0], np.eye(len(target))[0]
    line, rest_line = (_unit(p[-1] - p[0], _unit(p[1] - p[0], first)) for p in (points, rest))
    axis, along = _unit(target - root, line), (points - root) @ line
    x: Array = points.copy()
    if _longest(_perpendicular(points - root, line)) <= STRAIGHT * reach:
        bends = _perpendicular(rest - rest[0], rest_line)
        bend = _least_rotation(rest_line, axis) @ bends[np.linalg.norm(bends, axis=1).argmax()]
        side = _unit(bend, axis) if _longest(bend) > STRAIGHT * reach else _any_perpendicular(axis)
        x[:] = root + along[:, None] * axis
        x[1:-1] += 0.5 * np.sqrt(reach * abs(along[-1] - np.linalg.norm(target - root))) * side
    elif _longest(_perpendicular(points[:-1] - root, axis)) <= STRAIGHT * reach:
        x[1:-1] -= 0.5 * _perpendicular(points[-1] - root, axis)
    return x


def _close_gap(points: Array, lengths: Array, target: Array, axis: Array) -> Array:
    """Return the joints with the tip on the target, which bones of these lengths can reach.

    Beginning at the tip, every joint goes to its bone's length from the next, and if the bones before
    it cannot reach it there, to where they can: in the same plane, by the law of cosines.
    """
    x, root = points.copy(), points[0]
    most = np.cumsum(lengths)  # the first i bones reach from least[i - 1] to most[i - 1]
    least = np.maximum(2.0 * np.maximum.accumulate(lengths) - most, 0.0)
    x[-1] = target
    for i in range(len(lengths) - 1, 0, -1):
        x[i] = x[i + 1] + lengths[i] * _unit(x[i] - x[i + 1], axis)
        far, near = np.linalg.norm(x[i + 1] - root), np.linalg.norm(x[i] - root)
        r = min(max(near, least[i - 1], abs(far - lengths[i])), most[i - 1], far + lengths[i])
        if r != near and far > 0.0:
            u = (x[i + 1] - root) / far
            off = _perpendicular(x[i] - root, u)
            v = _unit(off, u) if _longest(off) > ON_AXIS * most[-1] else _any_perpendicular(u)
            along = 0.5 * (far + (r - lengths[i]) / far * (r + lengths[i]))
            x[i] = root + along * u + np.sqrt(max(r**2 - along**2, 0.0)) * v
    return x


def _move_rigidly(x: Array, handles: Sequence[int], turn: Array, old: Array, new: Array) -> None:
    """Move handles rigidly: turned about `old`, which goes to `new`."""
    rows = list(handles)
    x[rows] = new + (x[rows] - old) @ turn.T


def _least_rotation(u: Array, v: Array) -> Array:
    """Return the least rotation (d, d) from the direction of u to that of v."""
    u = _unit(u, _unit(v, np.eye(len(v))[0]))
    v = _unit(v, u)
    w = _unit(_perpendicular(v, u), _any_perpendicular(u))
    plane, spin = np.outer(u, u) + np.outer(w, w), np.outer(w, u) - np.outer(u, w)
    return np.asarray(np.eye(len(u)) + (u @ v - 1.0) * plane + (w @ v) * spin)


def _perpendicular(v: Array, axis: Array) -> Array:
    """Return the part of vectors (..., d) perpendicular to a unit axis (d,)."""
    for _ in range(2):  # the second time for the digits that the first one costs
        v = v - (v @ axis)[..., None] * axis
    return v


def _any_perpendicular(axis: Array) -> Array:
    """Return a unit vector perpendicular to a unit axis (d,), always the same."""
    return _unit(_perpendicular(np.eye(len(axis))[np.abs(axis).argmin()], axis), axis)


def _longest(v: Array) -> float:
    """Return the length of the longest of vectors (..., d)."""
    return float(np.linalg.norm(v, axis=-1).max())


def _unit(v: Array, otherwise: Array) -> Array:
    """Return the direction of v, `otherwise` if it has none."""
    length = np.linalg.norm(v)
    return v / length if length > 0.0 else otherwise
