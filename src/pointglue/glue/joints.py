"""Joints between two soft bodies: points of one fitted frame that coincide with points of another."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import bsr_array, csr_array

from ..checks import Array, as_reals, check_choice, check_rotations, require_finite
from ..errors import InputError
from ..procrustes import Groups
from ..procrustes.matrices import OnDegenerate
from ..procrustes.space import perpendiculars
from .glue import Glue, GluePose
from .gluing import bind_glue

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
    """Q joints between points x (N, 3) and points y (M, 3), phi(x) = psi(y), made by :func:`bind_joint`.

    A joint has one point (ball), two points on its axis (hinge) or three (weld), each bound in the
    frame of either side; it is closed when they coincide. Its 3, 5 or 6 equations are independent.

    Attributes
    ----------
    kind : {"ball", "hinge", "weld"}
        What the joints leave free: all rotations, the one about the axis, or none.
    first : Glue
        The points of all joints, bound to the first side.
    second : Glue
        The same points, bound to the second side.
    frames : (Q, 3, 3)
        Axes of each joint at rest, in columns: the first is the axis of a hinge.
    """

    kind: JointKind
    first: Glue
    second: Glue
    frames: Array

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
        """Return the joints with their parents at x and y.

        The equations are components of phi - psi along the joints' axes, rotated by `rotations`. The
        derivatives hold those fixed, so pass the same ones all through a solve.

        Parameters
        ----------
        x : (N, 3)
            Positions of the points of the first side [m].
        y : (M, 3)
            Positions of the points of the second side [m].
        rotations : (Q, 3, 3), optional
            Rotations of the axes from rest; by default those of the first side now.
        previous : JointPose, optional
            The pose of the step before, towards which an undetermined spin of a frame is pulled.

        Returns
        -------
        JointPose

        Raises
        ------
        InputError
            If a shape is another, a number is not finite or a matrix is no rotation.
        DegenerateFitError
            If the parents of a joint do not determine a frame, and it is to raise.
        """
        before = (None, None) if previous is None else (previous.first.rotations, previous.second.rotations)
        sides = self.first.at(x, previous=before[0]), self.second.at(y, previous=before[1])
        if rotations is None:
            axes = sides[0].rotations[:: _POINTS[self.kind]]
        else:
            axes = check_rotations("rotations", rotations, self.frames.shape)
        return JointPose(self, *sides, axes)


@dataclass(frozen=True, eq=False)
class JointPose:
    """Joints with both sides at given positions.

    Attributes
    ----------
    joint : Joint
        The joints.
    first : GluePose
        The joints' points as the first side moves them.
    second : GluePose
        The joints' points as the second side moves them.
    rotations : (Q, 3, 3)
        Rotations of the joints' axes from rest.
    """

    joint: Joint
    first: GluePose
    second: GluePose
    rotations: Array

    @property
    def gaps(self) -> Array:
        """The differences phi(x) - psi(y) of the joints' points (Q, points, 3) [m]: zero when closed."""
        return (self.first.positions - self.second.positions).reshape(len(self.joint), -1, 3)

    @cached_property
    def directions(self) -> csr_array:
        """The matrix B (rows, 3 T) that takes the components of the gaps that are equations."""
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
        """The residual c (rows,): 3, 5 or 6 numbers a joint [m]; zero when it is closed.

        It is also zero where one side of a hinge or weld is rotated by half a turn: look at `gaps` to tell,
        if a joint may have been that far open.
        """
        return np.asarray(self.directions @ self.gaps.ravel())

    def jacobians(self) -> tuple[csr_array, csr_array]:
        """Return dc / dx (rows, 3 N) and dc / dy (rows, 3 M)."""
        B = self.directions
        return csr_array(B @ self.first.jacobian()), csr_array(-(B @ self.second.jacobian()))

    def hessians(self, multipliers: ArrayLike) -> tuple[bsr_array, bsr_array]:
        """Return the second derivatives of multipliers . c by x and by y; there is none across."""
        f = self._forces(multipliers)
        return self.first.hessian(f), self.second.hessian(-f)

    def transfer_forces(self, multipliers: ArrayLike) -> tuple[Array, Array]:
        """Return the forces J^T multipliers on the parents, (N, 3) and (M, 3) [N]."""
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
    """Join two objects, given by their points at rest.

    Parameters
    ----------
    first_rest : (N, 3)
        Points of the first object at rest [m].
    second_rest : (M, 3)
        Points of the second object at rest [m]. For two parts of one array of particles give that array
        twice.
    at : (Q, 3) or (3,)
        Where the joints are [m].
    kind : {"ball", "hinge", "weld"}
        A ball leaves all rotations free, a hinge that about `axis`, a weld none.
    axis : (Q, 3) or (3,)
        Axes of hinges, of any length.
    parents : int
        How many of the nearest points of either object are parents.
    among : pair of (n,) or None
        The points of either side that may be parents at all.
    on_degenerate : {"raise", "clamp"}
        What happens when parents collapse later on, as in :func:`~pointglue.fit_rigid`.

    Returns
    -------
    Joint
        The joints, closed at rest.

    Raises
    ------
    InputError
        If the arguments do not go together, or both sides would take the same points.
    DegenerateFitError
        If the parents of a joint lie on a line at rest.
    """
    check_choice("kind", kind, _EQUATIONS)
    if not isinstance(among, tuple | list) or len(among) != 2:
        raise InputError(f"among must be a pair, the rows that either side may take or None, got {among!r}")
    places = np.atleast_2d(as_reals("at", at))
    if places.ndim != 2 or places.shape[1] != 3 or not len(places):
        raise InputError(f"at must have shape (Q, 3) or (3,), got shape {np.shape(at)}")
    require_finite("at", places)
    frames = _frames(axis, len(places))
    rests = (first_rest, second_rest)
    near = [
        bind_glue(rest, places, parents=parents, among=rows) for rest, rows in zip(rests, among, strict=True)
    ]
    _refuse_shared(rests, [glue.parents for glue in near])
    # Far enough apart to define an axis as sharply as the parents define the frame.
    reach = np.mean([_radius_of_gyration(glue) for glue in near], axis=0)
    offsets = np.stack([np.zeros((len(places), 3)), frames[:, :, 0], frames[:, :, 1]], axis=1)
    points = (places[:, None] + reach[:, None, None] * offsets)[:, : _POINTS[kind]].reshape(-1, 3)
    sides = [_repeated(glue, points, _POINTS[kind], on_degenerate) for glue in near]
    return Joint(kind, sides[0], sides[1], frames)


def _refuse_shared(rests: tuple[ArrayLike, ArrayLike], groups: list[Groups]) -> None:
    """Raise where both sides of a joint within one array have the same parents: nothing would be joined."""
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
    """Return right-handed axes in columns (count, 3, 3), the first along `axis`."""
    given = as_reals("axis", axis).astype(np.float64)
    given = given / max(float(np.abs(given).max(initial=0.0)), 1e-300)  # its length may overflow when squared
    if given.shape not in ((3,), (count, 3)):
        raise InputError(f"axis must have shape (3,) or ({count}, 3), got shape {given.shape}")
    require_finite("axis", given)
    length = np.linalg.norm(given, axis=-1, keepdims=True)
    if not (length > 0).all():
        raise InputError("axis must not be zero")
    u = np.broadcast_to(given / length, (count, 3))
    v = perpendiculars(u)
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    return np.stack([u, v, np.cross(u, v)], axis=2)


def _radius_of_gyration(glue: Glue) -> Array:
    """Return the root mean square distance of each target's parents from their centroid (Q,)."""
    groups, weights, starts = glue.parents, glue.weights[:, None], glue.parents.offsets[:-1]
    points = np.asarray(glue.shape.rest, np.float64)[groups.indices]
    centroid = np.add.reduceat(weights * points, starts, axis=0)
    squares = weights * (points - centroid[groups.group_of]) ** 2
    return np.asarray(np.sqrt(np.add.reduceat(squares.sum(1), starts)))


def _repeated(glue: Glue, points: Array, times: int, on_degenerate: OnDegenerate) -> Glue:
    """Return glue of points (times Q, 3), `times` of them by the parents of each target, with its weights."""
    groups, entries = glue.parents.take(np.repeat(np.arange(len(glue)), times))
    weights = glue.weights[entries]
    return bind_glue(glue.shape.rest, points, indices=groups, weights=weights, on_degenerate=on_degenerate)
