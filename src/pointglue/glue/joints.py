"""Joints between two soft bodies: points of one fitted frame held on points of another."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import bsr_array, csr_array

from ..checks import Array, as_reals, require_finite
from ..errors import InputError
from ..procrustes import Groups
from ..procrustes.matrices import OnDegenerate
from .glue import Glue, GluePose, bind_glue

__all__ = ["Joint", "JointKind", "JointPose", "bind_joint"]

JointKind = Literal["ball", "hinge", "weld"]

# The equations of each kind, as (point, axis of the joint's own frame): all three coordinates of the
# first point, two of the second, one of the third. The others follow, since both frames are rigid,
# and would make the system singular.
_EQUATIONS = {
    "ball": np.array([(0, 0), (0, 1), (0, 2)]),
    "hinge": np.array([(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)]),
    "weld": np.array([(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]),
}
_POINTS = {"ball": 1, "hinge": 2, "weld": 3}


@dataclass(frozen=True, eq=False)
class Joint:
    """Q joints between points x (N, 3) and points y (M, 3), phi(x) = psi(y). Made by :func:`bind_joint`.

    A joint has one point (ball), two points on its axis (hinge) or three (weld), each bound in the
    frame of either side; it is closed when they coincide. Its 3, 5 or 6 equations are independent.
    """

    kind: JointKind
    first: Glue
    second: Glue
    frames: Array
    """Axes of each joint at rest, in columns (Q, 3, 3): the first is the axis of a hinge."""

    def __len__(self) -> int:
        """Number of joints."""
        return len(self.frames)

    def at(
        self,
        x: ArrayLike,
        y: ArrayLike,
        *,
        rotations: ArrayLike | None = None,
        previous: "JointPose | None" = None,
    ) -> "JointPose":
        """The joints with their parents at x and y.

        The equations are components of phi - psi along the joints' axes, turned by `rotations`
        (Q, 3, 3): by default as the first side is turned now. The derivatives hold those fixed, so pass
        the same ones all through a solve. `previous` settles the spin of frames that are left free.
        """
        before = (None, None) if previous is None else (previous.first.rotations, previous.second.rotations)
        sides = self.first.at(x, previous=before[0]), self.second.at(y, previous=before[1])
        if rotations is None:
            turns = sides[0].rotations[:: _POINTS[self.kind]]
        else:
            turns = as_reals("rotations", rotations)
            if turns.shape != self.frames.shape:
                raise InputError(f"rotations must have shape {self.frames.shape}, got {turns.shape}")
            require_finite("rotations", turns)
            if np.abs(np.swapaxes(turns, 1, 2) @ turns - np.eye(3)).max() > 1e-6:
                raise InputError("rotations must hold rotations, got other matrices")
        return JointPose(self, *sides, turns)


@dataclass(frozen=True, eq=False)
class JointPose:
    """Joints with both sides at given positions."""

    joint: Joint
    first: GluePose
    second: GluePose
    rotations: Array

    @property
    def gaps(self) -> Array:
        """phi(x) - psi(y) of every joint's points (Q, points, 3), in metres: all zero when it is closed."""
        return (self.first.positions - self.second.positions).reshape(len(self.joint), -1, 3)

    @cached_property
    def directions(self) -> csr_array:
        """B (rows, 3 T): which components of the gaps are equations."""
        equations, count = _EQUATIONS[self.joint.kind], len(self.joint)
        points = _POINTS[self.joint.kind]
        axes = self.rotations @ self.joint.frames  # (Q, 3, 3)
        values = np.swapaxes(axes, 1, 2)[:, equations[:, 1]]  # (Q, equations, 3)
        place = points * np.arange(count)[:, None] + equations[:, 0]
        columns = 3 * place[:, :, None] + np.arange(3)
        indptr = 3 * np.arange(count * len(equations) + 1)
        return csr_array(
            (values.ravel(), columns.ravel(), indptr), shape=(len(indptr) - 1, 3 * points * count)
        )

    @cached_property
    def residual(self) -> Array:
        """c (rows,): 3, 5 or 6 numbers a joint, in metres; zero when it is closed.

        It is also zero where one side of a hinge or weld is turned over by half a turn: look at `gaps`
        to tell, if a joint may have been that far open.
        """
        return np.asarray(self.directions @ self.gaps.ravel())

    def jacobians(self) -> tuple[csr_array, csr_array]:
        """dc / dx (rows, 3 N) and dc / dy (rows, 3 M)."""
        B = self.directions
        return csr_array(B @ self.first.jacobian()), csr_array(-(B @ self.second.jacobian()))

    def hessians(self, multipliers: ArrayLike) -> tuple[bsr_array, bsr_array]:
        """Second derivatives of multipliers . c by x and by y; there is none across."""
        f = self._forces(multipliers)
        return self.first.hessian(f), self.second.hessian(-f)

    def transfer_forces(self, multipliers: ArrayLike) -> tuple[Array, Array]:
        """Forces J^T multipliers on the parents, (N, 3) and (M, 3)."""
        f = self._forces(multipliers)
        return self.first.transfer_forces(f), self.second.transfer_forces(-f)

    def _forces(self, multipliers: ArrayLike) -> Array:
        given = as_reals("multipliers", multipliers)
        if given.shape != self.residual.shape:
            raise InputError(
                f"multipliers must have shape {self.residual.shape}, one per equation, got {given.shape}"
            )
        require_finite("multipliers", given)
        return np.asarray(self.directions.T @ given).reshape(-1, 3)


def bind_joint(
    first_rest: ArrayLike,
    second_rest: ArrayLike,
    at: ArrayLike,
    *,
    kind: JointKind = "ball",
    axis: ArrayLike = (1.0, 0.0, 0.0),
    parents: int = 8,
    among: tuple[ArrayLike | None, ArrayLike | None] = (None, None),
    on_degenerate: OnDegenerate = "raise",
) -> Joint:
    """Join two objects, given by their points at rest, at places `at` (Q, 3), or one place (3,).

    "ball" leaves all turning free, "hinge" that about `axis` (Q, 3) or (3,), "weld" none. The parents
    are the nearest points of either object, narrowed to the rows `among`; for two parts of one array
    of particles give that array twice.
    """
    if kind not in _EQUATIONS:
        raise InputError(f"kind must be 'ball', 'hinge' or 'weld', got {kind!r}")
    if not isinstance(among, tuple | list) or len(among) != 2:
        raise InputError(f"among must be a pair, the rows that either side may take or None, got {among!r}")
    places = np.atleast_2d(as_reals("at", at))
    if places.ndim != 2 or places.shape[1] != 3 or not len(places):
        raise InputError(f"at must have shape (Q, 3) or (3,), got shape {np.shape(at)}")
    require_finite("at", places)
    frames = _frames(axis, len(places))
    rests = (first_rest, second_rest)
    groups = [
        bind_glue(rest, places, parents=parents, among=rows).parents
        for rest, rows in zip(rests, among, strict=True)
    ]
    _refuse_shared(rests, groups)
    # Far enough apart to define an axis as sharply as the parents define the frame.
    reach = np.mean([_spread(*side) for side in zip(rests, groups, strict=True)], axis=0)
    offsets = np.stack([np.zeros((len(places), 3)), frames[:, :, 0], frames[:, :, 1]], axis=1)
    points = (places[:, None] + reach[:, None, None] * offsets)[:, : _POINTS[kind]].reshape(-1, 3)
    sides = [
        bind_glue(rest, points, indices=_repeated(near, _POINTS[kind]), on_degenerate=on_degenerate)
        for rest, near in zip(rests, groups, strict=True)
    ]
    return Joint(kind, sides[0], sides[1], frames)


def _refuse_shared(rests: tuple[ArrayLike, ArrayLike], groups: list[Groups]) -> None:
    """Raise where both sides of a joint within one array hang on the same points: nothing would be joined."""
    if np.shape(rests[0]) != np.shape(rests[1]) or not np.array_equal(np.asarray(rests[0]), rests[1]):
        return
    count = len(np.asarray(rests[0]))
    first, second = (side.group_of * count + side.indices for side in groups)
    shared = np.intersect1d(first, second)
    if len(shared):
        joint, point = divmod(int(shared[0]), count)
        raise InputError(
            f"both sides of joint {joint} take point {point} as a parent: say by among=(rows, rows) which "
            f"points belong to which side"
        )


def _frames(axis: ArrayLike, count: int) -> Array:
    """Right-handed axes in columns (count, 3, 3), the first along `axis`."""
    given = as_reals("axis", axis).astype(np.float64)
    given = given / max(float(np.abs(given).max(initial=0.0)), 1e-300)  # its length may overflow when squared
    if given.shape not in ((3,), (count, 3)):
        raise InputError(f"axis must have shape (3,) or ({count}, 3), got shape {given.shape}")
    require_finite("axis", given)
    length = np.linalg.norm(given, axis=-1, keepdims=True)
    if not (length > 0).all():
        raise InputError("axis must not be zero")
    u = np.broadcast_to(given / length, (count, 3))
    # The coordinate axis farthest from u is safe to take a cross product with.
    other = np.eye(3)[np.abs(u).argmin(1)]
    v = np.cross(u, other)
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    return np.stack([u, v, np.cross(u, v)], axis=2)


def _spread(rest: ArrayLike, groups: Groups) -> Array:
    """Root mean square distance of each group's points from their mean (Q,)."""
    points = np.asarray(rest)[groups.indices]
    mean = np.add.reduceat(points, groups.offsets[:-1], axis=0) / groups.sizes[:, None]
    squares = ((points - mean[groups.group_of]) ** 2).sum(1)
    return np.asarray(np.sqrt(np.add.reduceat(squares, groups.offsets[:-1]) / groups.sizes))


def _repeated(groups: Groups, times: int) -> Groups:
    """Every group `times` times over, one after the other."""
    return groups.take(np.repeat(np.arange(len(groups)), times))[0]
