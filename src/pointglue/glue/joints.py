"""Joints between two bodies: points of one fitted frame that coincide with those of another, or slide."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array

from ..checks import Array, as_reals, check_choice, check_rotations, require_finite
from ..errors import InputError
from ..procrustes import Groups
from ..procrustes.matrices import OnDegenerate
from ..procrustes.space import perpendiculars
from .glue import Glue, GluePose
from .gluing import bind_glue
from .joint_functions import AxisAngles, PairProducts

__all__ = [
    "SLIDING_KINDS",
    "Joint",
    "JointKind",
    "JointPose",
    "bind_joint",
    "has_angle",
    "has_slide",
    "sliding_stencils",
]

JointKind = Literal["ball", "hinge", "weld", "prismatic", "cylindrical", "planar", "bushing"]

# The equations of each kind, as (point, axis of the joint's own frame): all three coordinates of the
# first point, two of the second, one of the third. The others follow, since both frames are rigid,
# and would make the system singular. Joints that slide lack some of those of the first point.
_EQUATIONS = {
    "ball": np.array([(0, 0), (0, 1), (0, 2)]),
    "hinge": np.array([(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)]),
    "weld": np.array([(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]),
    "prismatic": np.array([(0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]),
    "cylindrical": np.array([(0, 1), (0, 2), (1, 1), (1, 2)]),
    "planar": np.array([(0, 0), (1, 1), (1, 2)]),
    "bushing": np.empty((0, 2), np.int64),
}
_POINTS = {"ball": 1, "hinge": 4, "weld": 3, "prismatic": 4, "cylindrical": 4, "planar": 4, "bushing": 4}
_COINCIDENT = {"ball": 1, "hinge": 2, "weld": 3, "prismatic": 0, "cylindrical": 0, "planar": 0, "bushing": 0}
MIN_ACROSS = 1e-6  # sine of the least angle between the first and the second axis
SLIDING_KINDS = ("prismatic", "cylindrical", "planar", "bushing")
"""The kinds whose points do not coincide, so that the directions of their equations move during a step."""


def has_slide(kind: str) -> bool:
    """Return whether joints of a kind have a coordinate along their axis."""
    return kind in ("prismatic", "cylindrical")


def has_angle(kind: str) -> bool:
    """Return whether joints of a kind have an angle about their axis."""
    return kind in ("hinge", "cylindrical", "planar")


@dataclass(frozen=True, eq=False)
class Joint:
    """Q joints between points x (N, 3) and points y (M, 3), phi(x) = psi(y), made by :func:`bind_joint`.

    A joint has points that are bound in the frames of either side: its place, and tips of its axes. A ball, a
    hinge and a weld are closed when one, two or three of them coincide. The others slide: their equations are
    distances along axes of the first side. All equations of a joint are independent.

    Attributes
    ----------
    kind : {"ball", "hinge", "weld", "prismatic", "cylindrical", "planar", "bushing"}
        What the joints leave free, see :func:`bind_joint`.
    first : Glue
        The points of all joints, bound to the first side.
    second : Glue
        The same points, bound to the second side.
    frames : (Q, 3, 3)
        Axes of each joint at rest, in columns: the first is the joint's axis.
    reach : (Q,)
        The distance of the tips of the axes from the place [m].
    """

    kind: JointKind
    first: Glue
    second: Glue
    frames: Array
    reach: Array

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

        The equations of joints that do not slide are components of phi - psi along the joints' axes, rotated
        by `rotations`. The derivatives hold those fixed, so pass the same ones all through a solve.

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
        """The differences phi(x) - psi(y) of the points that coincide when closed (Q, points, 3) [m].

        There is one for a ball, two for a hinge, three for a weld, and none for joints that slide.
        """
        every = (self.first.positions - self.second.positions).reshape(len(self.joint), -1, 3)
        return every[:, : _COINCIDENT[self.joint.kind]]

    @cached_property
    def slides(self) -> Array:
        """How far the first side has slid along the axis, relative to the second (Q,) [m]."""
        if not has_slide(self.joint.kind):
            raise InputError(f"slides are of joints that slide along their axis, got a {self.joint.kind}")
        points = _POINTS[self.joint.kind] * np.arange(len(self.joint))
        count = len(self.first.positions)
        stencils = np.stack([points, count + points, points + 1, points], axis=1)
        return PairProducts(stencils, self.joint.reach).values(self._points)

    @cached_property
    def angles(self) -> Array:
        """How far the first side has turned about the axis, relative to the second, -pi to pi (Q,) [rad]."""
        if not has_angle(self.joint.kind):
            raise InputError(f"angles are of joints that turn about their axis, got a {self.joint.kind}")
        points = _POINTS[self.joint.kind] * np.arange(len(self.joint))
        other = len(self.first.positions) + points
        stencils = np.stack([points, points + 2, points + 3, other, other + 2], axis=1)
        return AxisAngles(stencils, np.ones(len(self.joint))).values(self._points)

    @property
    def _points(self) -> Array:
        """The points of the first side, then those of the second (2 T, 3) [m]."""
        return np.concatenate([self.first.positions, self.second.positions])

    @cached_property
    def _sliding(self) -> PairProducts:
        """The equations of joints that slide, as functions of the points of both sides."""
        rows = sliding_stencils(
            self.joint.kind, *(np.arange(2 * len(self.first.positions)).reshape(2, len(self.joint), -1))
        )
        return PairProducts(rows, np.repeat(self.joint.reach, len(_EQUATIONS[self.joint.kind])))

    @cached_property
    def directions(self) -> csr_array:
        """The matrix B (rows, 3 T) that takes the components of the gaps that are equations.

        Joints that slide have none.
        """
        if self.joint.kind in SLIDING_KINDS:
            raise InputError(f"directions are of joints that do not slide, got a {self.joint.kind} joint")
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
        """The residual c (rows,): 3 to 6 numbers a joint [m]; zero when it is closed.

        It is also zero where one side of a hinge or weld is rotated by half a turn: look at `gaps` to tell,
        if a joint may have been that far open.
        """
        if self.joint.kind in SLIDING_KINDS:
            return self._sliding.values(self._points)
        return np.asarray(self.directions @ (self.first.positions - self.second.positions).ravel())

    def jacobians(self) -> tuple[csr_array, csr_array]:
        """Return dc / dx (rows, 3 N) and dc / dy (rows, 3 M)."""
        by_first, by_second = self._by_points
        return csr_array(by_first @ self.first.jacobian()), csr_array(by_second @ self.second.jacobian())

    def hessians(self, multipliers: ArrayLike) -> tuple[csr_array, csr_array]:
        """Return the second derivatives of multipliers . c by x and by y."""
        given = self._checked(multipliers)
        by_first, by_second = self._by_points
        own = (
            self.first.hessian((by_first.T @ given).reshape(-1, 3)),
            self.second.hessian((by_second.T @ given).reshape(-1, 3)),
        )
        if self.joint.kind not in SLIDING_KINDS:
            return csr_array(own[0]), csr_array(own[1])
        J, size = self.first.jacobian(), self.first.positions.size
        bent = self._curvature(given)[:size, :size]
        return csr_array(own[0] + J.T @ bent @ J), csr_array(own[1])  # no product is of two second sides

    def cross_hessian(self, multipliers: ArrayLike) -> csr_array:
        """Return the second derivative of multipliers . c by x and y (3 N, 3 M), zero unless joints slide."""
        given = self._checked(multipliers)
        one, other = self.first.jacobian(), self.second.jacobian()
        if self.joint.kind not in SLIDING_KINDS:
            return csr_array((one.shape[1], other.shape[1]))
        size = self.first.positions.size
        return csr_array(one.T @ self._curvature(given)[:size, size:] @ other)

    def transfer_forces(self, multipliers: ArrayLike) -> tuple[Array, Array]:
        """Return the forces J^T multipliers on the parents, (N, 3) and (M, 3) [N]."""
        given = self._checked(multipliers)
        f, g = (np.asarray(by.T @ given).reshape(-1, 3) for by in self._by_points)
        return self.first.transfer_forces(f), self.second.transfer_forces(g)

    @cached_property
    def _by_points(self) -> tuple[csr_array, csr_array]:
        """The derivatives of the residual by the points of either side, each (rows, 3 T)."""
        if self.joint.kind not in SLIDING_KINDS:
            return self.directions, csr_array(-self.directions)
        products, size = self._sliding, self.first.positions.size
        columns = (3 * products.stencils[:, :, None] + np.arange(3)).ravel()
        rows = np.repeat(np.arange(len(products)), 12)
        values = products.gradients(self._points).ravel()
        whole = csr_array(coo_array((values, (rows, columns)), shape=(len(products), 2 * size)))
        return whole[:, :size], whole[:, size:]

    def _curvature(self, multipliers: Array) -> csr_array:
        """Return the second derivative of multipliers . c by the points, of joints that slide."""
        products, size = self._sliding, 2 * self.first.positions.size
        own = (3 * products.stencils[:, :, None] + np.arange(3)).reshape(-1, 12)
        values = products.elements(self._points, multipliers)
        rows, columns = np.broadcast_arrays(own[:, :, None], own[:, None, :])
        return csr_array(coo_array((values.ravel(), (rows.ravel(), columns.ravel())), shape=(size, size)))

    def _checked(self, multipliers: ArrayLike) -> Array:
        """Return multipliers, or raise unless there is one per equation."""
        given = as_reals("multipliers", multipliers)
        if given.shape != self.residual.shape:
            raise InputError(
                f"multipliers must have shape {self.residual.shape}, one per equation, got {given.shape}"
            )
        require_finite("multipliers", given)
        return given


def sliding_stencils(
    kind: JointKind, first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the stencils (rows, 4) of the equations of joints that slide, see `PairProducts`.

    Parameters
    ----------
    kind : {"prismatic", "cylindrical", "planar"}
        The kind of the joints.
    first, second : (Q, 4)
        The points of either side: the place, and the tips of the three axes.

    Returns
    -------
    (rows, 4)
        For the place its distance from the other side's along an axis of the first side; for an axis of the
        second side its component along one of the first, which is zero where the frames agree.
    """
    found = []
    for point, axis in _EQUATIONS[kind].tolist():
        ends = (first[:, 0], second[:, 0]) if point == 0 else (second[:, 0], second[:, point])
        found.append(np.stack([*ends, first[:, 1 + axis], first[:, 0]], axis=1))
    return np.stack(found, axis=1).reshape(-1, 4) if found else np.empty((0, 4), np.int64)


def bind_joint(
    first_rest: ArrayLike,
    second_rest: ArrayLike,
    at: ArrayLike,
    *,
    kind: JointKind = "ball",
    axis: ArrayLike = (1.0, 0.0, 0.0),
    across: ArrayLike | None = None,
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
    kind : {"ball", "hinge", "weld", "prismatic", "cylindrical", "planar", "bushing"}
        A ball leaves all rotations free, a hinge that about `axis`, a weld none. A prismatic joint slides
        along `axis` and does not turn, a cylindrical one slides along it and turns about it, and a planar one
        slides across it and turns about it. A bushing leaves everything free; solvers give it springs along
        its axes.
    axis : (Q, 3) or (3,)
        Axes of the joints, of any length; balls and welds need none.
    across : (Q, 3) or (3,), optional
        Directions of the second axes, of which the part across `axis` counts; any by default.
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
    frames = _frames(axis, across, len(places))
    rests = (first_rest, second_rest)
    near = [
        bind_glue(rest, places, parents=parents, among=rows) for rest, rows in zip(rests, among, strict=True)
    ]
    _refuse_shared(rests, [glue.parents for glue in near])
    # Far enough apart to define an axis as sharply as the parents define the frame.
    reach = np.mean([_radius_of_gyration(glue) for glue in near], axis=0)
    offsets = np.concatenate([np.zeros((len(places), 1, 3)), np.swapaxes(frames, 1, 2)], axis=1)
    points = (places[:, None] + reach[:, None, None] * offsets)[:, : _POINTS[kind]].reshape(-1, 3)
    sides = [_repeated(glue, points, _POINTS[kind], on_degenerate) for glue in near]
    return Joint(kind, sides[0], sides[1], frames, reach)


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


def _frames(axis: ArrayLike, across: ArrayLike | None, count: int) -> Array:
    """Return right-handed axes in columns (count, 3, 3), the first along `axis`, the second by `across`."""
    u = _directions("axis", axis, count)
    v = perpendiculars(u)
    if across is not None:
        given = _directions("across", across, count)
        v = given - (given * u).sum(1, keepdims=True) * u
        if not (np.linalg.norm(v, axis=1) > MIN_ACROSS).all():
            raise InputError("across must not be along axis")
    v = v / np.linalg.norm(v, axis=1, keepdims=True)
    return np.stack([u, v, np.cross(u, v)], axis=2)


def _directions(name: str, value: ArrayLike, count: int) -> Array:
    """Return directions of length 1 (count, 3), or raise."""
    given = as_reals(name, value).astype(np.float64)
    given = given / max(float(np.abs(given).max(initial=0.0)), 1e-300)  # its length may overflow when squared
    if given.shape not in ((3,), (count, 3)):
        raise InputError(f"{name} must have shape (3,) or ({count}, 3), got shape {given.shape}")
    require_finite(name, given)
    length = np.linalg.norm(given, axis=-1, keepdims=True)
    if not (length > 0).all():
        raise InputError(f"{name} must not be zero")
    return np.array(np.broadcast_to(given / length, (count, 3)))


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
