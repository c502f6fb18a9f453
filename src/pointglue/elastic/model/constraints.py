"""The rows of equations of a step: joints that are closed, joints that slide, and their limits and motors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...glue.joint_functions import AxisAngles, PairProducts
from ...glue.joints import SLIDING_KINDS, Joint, has_angle, has_slide, sliding_stencils
from ...glue.sliders import Slider, SliderFrame, SliderRows
from ..bodies import JointBond, Motor

__all__ = ["Bounds", "Constraints", "JointEquations", "JointPoints", "Rates", "StepRows"]


@dataclass(frozen=True, eq=False)
class JointEquations:
    """The M equations of joints whose points coincide: direction . (x[first] - x[second]) = 0.

    Parameters
    ----------
    first, second : (M,)
        The particles of the two sides.
    joint_of : (M,)
        The joint of each equation, counted through all bonds.
    frame_of : (M,)
        The particle with whose frame the direction turns.
    directions : (M, 3)
        The directions at rest [1].
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    joint_of: NDArray[np.int64]
    frame_of: NDArray[np.int64]
    directions: Array


@dataclass(frozen=True, eq=False)
class JointPoints:
    """The particles of the Q joints of one bond.

    Parameters
    ----------
    bond : JointBond
        The bond.
    joints : (Q,)
        The numbers of its joints, counted through all bonds.
    first, second : (Q, p)
        The particles of either side: the place, and the tips of the axes.
    """

    bond: JointBond
    joints: NDArray[np.int64]
    first: NDArray[np.int64]
    second: NDArray[np.int64]


class Bounds(NamedTuple):
    """What R rows of left sides c(x) must satisfy during a step.

    A row's multiplier, of at most `force` either way, keeps c - compliance * multiplier from `lower` to
    `upper`. Equations of joints have 0, 0, infinity and 0.
    """

    lower: Array
    """(R,): the least left side [m]."""
    upper: Array
    """(R,): the greatest left side [m]."""
    force: Array
    """(R,): the greatest multiplier, either way [N]."""
    compliance: Array
    """(R,): by how much each row gives way [m/N]."""


class StepRows(NamedTuple):
    """What the rows are during one step."""

    directions: Array
    """(M, 3): the directions of the equations of joints whose points coincide [1]."""
    angles: Array
    """(A,): the angles of all joints that have one at the beginning of the step, over turns [rad]."""
    bounds: Bounds
    """What all rows must satisfy."""
    sliders: tuple[SliderFrame, ...] = ()
    """Where the sliders are at the beginning of the step."""


class Rates(NamedTuple):
    """How rates of coordinates q are told at the end of a step: slope (q - now - weight (now - before))."""

    slope: float
    """The derivative of rates by coordinates [1/s]."""
    weight: float
    """The weight of the step before, which is 0 for methods of one step [1]."""
    end: float
    """The end of the step [s]."""
    now: float
    """Its beginning [s]."""
    before: float
    """The beginning of the step before [s]."""


class _AxisSpring(NamedTuple):
    """A spring of a bushing along one of its axes."""

    stiffness: float
    """Its stiffness, which may be infinite [N/m]."""
    damping: float
    """Its damping [N s/m]."""


class _Drive(NamedTuple):
    """A limit, a motor or a spring of the coordinate of one joint, as the row that it is."""

    coordinate: int
    """The row of the coordinate among all those along axes, or among all angles."""
    effort: tuple[float, float] | Motor | _AxisSpring
    """The least and the greatest coordinate [m or rad], the motor, or the spring."""


class Constraints:
    """All rows of equations: of coinciding joints, sliders and sliding joints, then limits and motors.

    Parameters
    ----------
    linear : JointEquations
        The equations of joints whose points coincide.
    points : sequence of JointPoints
        The particles of all joints.

    Attributes
    ----------
    linear : JointEquations
        The equations of joints whose points coincide.
    joint_of : (R,)
        The joint of each row.
    anchors : (R,)
        A particle of each row, which is where the joint is.
    entry_rows, entry_particles : (n,)
        The row and the particle of each derivative of a row by a particle.
    slide_joints, angle_joints : (S,), (A,)
        The joints that have a slide along an axis, and those that have an angle.
    coordinate_joints : (K,)
        The joints of all coordinates along axes: those with a slide, then three of each bushing.
    slider_joints : (C,)
        The joints that are sliders.
    """

    def __init__(self, linear: JointEquations, points: Sequence[JointPoints]) -> None:
        self.linear = linear
        sliders = [(each, each.bond.joint) for each in points if isinstance(each.bond.joint, Slider)]
        self.slider_joints = _joined([each.joints for each, _ in sliders])
        self._starts = [slider for _, slider in sliders]
        self._sliders = [
            SliderRows(np.concatenate([each.first[0], each.second[0]]), slider.axes)
            for each, slider in sliders
        ]
        slides = [each for each in points if has_slide(each.bond.joint.kind)]
        turning = [each for each in points if has_angle(each.bond.joint.kind)]
        self.slide_joints = _joined([each.joints for each in slides])
        self.angle_joints = _joined([each.joints for each in turning])
        bushings = [each for each in points if each.bond.joint.kind == "bushing"]
        self.coordinate_joints = np.concatenate(
            [self.slide_joints, np.repeat(_joined([each.joints for each in bushings]), 3)]
        )
        reaches = [each.bond.joint.reach for each in slides]
        reaches += [np.repeat(each.bond.joint.reach, 3) for each in bushings]
        along = [_slide_stencils(each, 1) for each in slides]
        along += [
            np.stack([_slide_stencils(each, axis) for axis in (1, 2, 3)], axis=1).reshape(-1, 4)
            for each in bushings
        ]
        self._slides = PairProducts(_joined(along, (0, 4)), _joined(reaches, (0,), float))
        self._angles = AxisAngles(
            _joined([_angle_stencils(each) for each in turning], (0, 5)),
            _joined([each.bond.joint.reach for each in turning], (0,), float),
        )
        sliding = [each for each in points if each.bond.joint.kind in SLIDING_KINDS]
        kinds = [_sliding_stencils(each) for each in sliding]
        each_row = [len(rows) // len(each.joints) for rows, each in zip(kinds, sliding, strict=True)]
        joints = [np.repeat(each.joints, count) for each, count in zip(sliding, each_row, strict=True)]
        reach = [
            np.repeat(each.bond.joint.reach, count) for each, count in zip(sliding, each_row, strict=True)
        ]
        self._slide_drives = _drives(slides, "slide") + _axis_springs(bushings, len(self.slide_joints))
        self._angle_drives = _drives(turning, "angle")
        driven = np.array([drive.coordinate for drive in self._slide_drives], np.int64)
        self._turned = np.array([drive.coordinate for drive in self._angle_drives], np.int64)
        self._products = PairProducts(
            np.concatenate([_joined(kinds, (0, 4)), self._slides.stencils[driven]]),
            np.concatenate([_joined(reach, (0,), float), self._slides.reach[driven]]),
        )
        self._turns = AxisAngles(self._angles.stencils[self._turned], self._angles.reach[self._turned])
        self.joint_of = np.concatenate(
            [
                linear.joint_of,
                np.repeat(self.slider_joints, 3),
                _joined(joints),
                self.coordinate_joints[driven],
                self.angle_joints[self._turned],
            ]
        )
        self.anchors = np.concatenate(
            [
                linear.first,
                np.repeat([slider.stencil[0] for slider in self._sliders], 3).astype(np.int64),
                self._products.stencils[:, 3],
                self._turns.stencils[:, 0],
            ]
        )
        self._set_entries()

    def _set_entries(self) -> None:
        """Set the rows and the particles of all derivatives."""
        linear, products, turns = self.linear, self._products.stencils, self._turns.stencils
        ends = np.stack([linear.first, linear.second], axis=1)
        sliders = [np.tile(slider.stencil, (3, 1)) for slider in self._sliders]
        stencils = [ends, *sliders, products, turns]
        firsts = np.cumsum([0, *(len(each) for each in stencils)])[:-1]
        self.entry_particles = np.concatenate([each.ravel() for each in stencils])
        self.entry_rows = np.concatenate(
            [
                first + np.repeat(np.arange(len(each)), each.shape[1])
                for first, each in zip(firsts, stencils, strict=True)
            ]
        )

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.joint_of)

    @property
    def stencils(self) -> list[NDArray[np.int64]]:
        """The stencils of the rows with a second derivative by particles, in the order of `elements`."""
        functions = [each.stencils for each in (self._products, self._turns) if len(each)]
        return [slider.stencil[None] for slider in self._sliders] + functions

    def values(self, x: Array, rows: StepRows) -> Array:
        """Return the left sides c(x) of all rows (R,), at particles x (N, 3) [m]."""
        if not len(self):  # which costs as much as the energies of a small body
            return np.empty(0)
        linear = self.linear
        offsets = x[linear.first] - x[linear.second]
        turned = rows.angles[self._turned]
        return np.concatenate(
            [
                (rows.directions * offsets).sum(1),
                *(slider.values(x, frame) for slider, frame in self._framed(rows)),
                self._products.values(x),
                _over_turns(self._turns.values(x) / self._turns.reach, turned) * self._turns.reach,
            ]
        )

    def gradients(self, x: Array, rows: StepRows) -> Array:
        """Return the derivatives (n, 3) of `entry_rows` by `entry_particles`, at particles x (N, 3) [1]."""
        if not len(self):
            return np.empty((0, 3))
        of_linear = np.stack([rows.directions, -rows.directions], axis=1)
        sliders = [slider.gradients(x, frame) for slider, frame in self._framed(rows)]
        parts = [of_linear, *sliders, self._products.gradients(x), self._turns.gradients(x)]
        return np.concatenate([part.reshape(-1, 3) for part in parts])

    def elements(self, x: Array, rows: StepRows, multipliers: Array, penalties: Array) -> list[Array]:
        """Return matrices of the rows by the particles of `stencils` (E, 3 k, 3 k) [N/m].

        Each is the Hessian of a multiplier (R,) [N] times its row, and a penalty (R,) [N/m] times the square
        of the row's gradient; those of one slider are added up.
        """
        first, found = len(self.linear.first), []
        for slider, frame in self._framed(rows):
            own = slice(first, first + 3)
            g = slider.gradients(x, frame).reshape(3, -1)
            squares = np.einsum("r,ri,rj->ij", penalties[own], g, g)
            found.append((slider.elements(x, frame, multipliers[own]) + squares)[None])
            first += 3
        last = first + len(self._products)
        for each, own in ((self._products, slice(first, last)), (self._turns, slice(last, None))):
            if len(each):
                g = each.gradients(x).reshape(len(each), -1)
                squares = penalties[own, None, None] * g[:, :, None] * g[:, None, :]
                found.append(each.elements(x, multipliers[own]) + squares)
        return found

    def slider_frames(self, x: Array) -> tuple[SliderFrame, ...]:
        """Return where the sliders are on their paths, at particles x (N, 3)."""
        return tuple(slider.nearest(x) for slider in self._sliders)

    def slider_slides(self, x: Array) -> Array:
        """Return how far the sliders have come from the start along each direction (C, 2) [m].

        With particles at x (N, 3). The second is not a number for a curve.
        """
        found = np.full((len(self._sliders), 2), np.nan)
        for row, start, frame in zip(found, self._starts, self.slider_frames(x), strict=True):
            row[: len(start.axes)] = start.slides(frame.lengths)
        return found

    def _framed(self, rows: StepRows) -> Iterator[tuple[SliderRows, SliderFrame]]:
        """Return the rows of each slider, and where it is at the beginning of the step."""
        return zip(self._sliders, rows.sliders, strict=True)

    def slides(self, x: Array) -> Array:
        """Return the coordinates of `coordinate_joints` along axes (K,), at particles x (N, 3) [m]."""
        return self._slides.values(x)

    def angles(self, x: Array, before: Array) -> Array:
        """Return the angles of the joints that have one (A,), at particles x (N, 3) [rad].

        They are those nearest to the angles `before` (A,), and so count whole turns.
        """
        return _over_turns(self._angles.values(x) / self._angles.reach, before)

    def bounds(self, slides: Array, angles: Array, rates: Rates) -> Bounds:
        """Return what all rows must satisfy during a step.

        Parameters
        ----------
        slides : (K,)
            The coordinates along axes that the step's velocities are told from [m].
        angles : (A,)
            The angles that they are told from [rad].
        rates : Rates
            How velocities are told.

        Returns
        -------
        Bounds
        """
        count = len(self)
        bounds = Bounds(np.zeros(count), np.zeros(count), np.full(count, np.inf), np.zeros(count))
        for number, slider in enumerate(self._sliders):
            first = len(self.linear.first) + 3 * number
            bounds.lower[first : first + 3], bounds.upper[first : first + 3] = slider.ends
        row = count - len(self._slide_drives) - len(self._angle_drives)
        for drives, references, scales in (
            (self._slide_drives, slides, np.ones(len(slides))),
            (self._angle_drives, angles, self._angles.reach),
        ):
            for drive in drives:
                scale = float(scales[drive.coordinate])  # from radians to metres
                if isinstance(drive.effort, _AxisSpring):
                    reference = float(references[drive.coordinate])
                    target, compliance = _spring_target(drive.effort, reference, rates)
                    bounds.lower[row] = bounds.upper[row] = target
                    bounds.compliance[row] = compliance
                elif isinstance(drive.effort, Motor):
                    motor = drive.effort
                    target, compliance = _motor_target(motor, float(references[drive.coordinate]), rates)
                    bounds.lower[row] = bounds.upper[row] = scale * target
                    bounds.force[row] = motor.max_force / scale
                    bounds.compliance[row] = scale * scale * compliance
                else:
                    bounds.lower[row], bounds.upper[row] = (scale * limit for limit in drive.effort)
                row += 1
        return bounds

    def spring_energy(self, x: Array, angles: Array, time: float, holds: NDArray[np.bool_]) -> float:
        """Return the energy of bushings and of motors with a stiffness [J].

        Parameters
        ----------
        x : (N, 3)
            The particles [m].
        angles : (A,)
            The angles of all joints that have one [rad].
        time : float
            The time for which motors have a position [s].
        holds : (J,)
            Which joints hold.

        Returns
        -------
        float
        """
        parts = (
            (self._slide_drives, self.slides(x), self.coordinate_joints),
            (self._angle_drives, angles, self.angle_joints),
        )
        return sum(
            _stored(drive.effort, float(coordinates[drive.coordinate]), time)
            for drives, coordinates, joints in parts
            for drive in drives
            if holds[joints[drive.coordinate]]
        )

    def describe(self, row: int) -> str:
        """Return what a row is of a joint: an empty text for its equations, or a limit or motor."""
        drives = [*self._slide_drives, *self._angle_drives]
        number = row - (len(self) - len(drives))
        if number < 0:
            slider, part = divmod(row - len(self.linear.first), 3)
            if not 0 <= slider < len(self._sliders):
                return ""
            return "end of the path of " if part >= 3 - len(self._sliders[slider].axes) else ""
        if isinstance(drives[number].effort, _AxisSpring):
            return "stiff axis of "
        what = "slide" if number < len(self._slide_drives) else "angle"
        return f"{what} {'motor' if isinstance(drives[number].effort, Motor) else 'limit'} of "


def _sliding_stencils(points: JointPoints) -> NDArray[np.int64]:
    """Return the stencils of the equations of joints that slide."""
    assert isinstance(points.bond.joint, Joint)
    return sliding_stencils(points.bond.joint.kind, points.first, points.second)


def _drives(points: list[JointPoints], coordinate: str) -> list[_Drive]:
    """Return the limits and motors of the slides, or of the angles, of joints that have one."""
    found, number = [], 0
    for each in points:
        efforts = (getattr(each.bond, f"{coordinate}_limits"), getattr(each.bond, f"{coordinate}_motor"))
        rows = range(number, number + len(each.joints))
        number = rows.stop
        found += [_Drive(row, effort) for effort in efforts if effort is not None for row in rows]
    return found


def _axis_springs(points: list[JointPoints], first: int) -> list[_Drive]:
    """Return the springs of bushings along their axes; `first` is the row of the first coordinate of them."""
    found = []
    for each in points:
        for number in range(len(each.joints)):
            for axis, spring in enumerate(zip(each.bond.stiffness, each.bond.damping, strict=True)):
                if any(spring):
                    found.append(_Drive(first + 3 * number + axis, _AxisSpring(*spring)))
        first += 3 * len(each.joints)
    return found


def _spring_target(spring: _AxisSpring, reference: float, rates: Rates) -> tuple[float, float]:
    """Return where a spring with its damping draws a coordinate [m], and how it gives way [m/N]."""
    if np.isinf(spring.stiffness):
        return 0.0, 0.0
    viscous = spring.damping * rates.slope
    gain = spring.stiffness + viscous
    return viscous / gain * reference, 1 / gain


def _motor_target(motor: Motor, reference: float, rates: Rates) -> tuple[float, float]:
    """Return where a motor draws a coordinate at the end of a step, and how it gives way [m/N or rad/(N m)].

    `reference` is the coordinate that its rate is told from.
    """
    assert motor.damping is not None
    if motor.position is None:
        return reference + motor.at(rates.end) / rates.slope, 1 / (motor.damping * rates.slope)
    target = motor.at(rates.end)
    if np.isinf(motor.stiffness):
        return target, 0.0
    now = motor.at(rates.now)
    before = now if rates.weight == 0 else motor.at(rates.before)
    error = now + rates.weight * (now - before) - reference
    gain = motor.stiffness + motor.damping * rates.slope
    return target - motor.damping * rates.slope / gain * error, 1 / gain


def _stored(effort: tuple[float, float] | Motor | _AxisSpring, coordinate: float, time: float) -> float:
    """Return the energy of a drive at a coordinate [m or rad] and a time [s]; its slope is the force [J]."""
    if isinstance(effort, _AxisSpring):
        return 0.0 if np.isinf(effort.stiffness) else 0.5 * effort.stiffness * coordinate**2
    if not isinstance(effort, Motor) or effort.position is None or np.isinf(effort.stiffness):
        return 0.0
    distance = abs(coordinate - effort.at(time))
    stretch = min(distance, effort.max_force / effort.stiffness)  # beyond it the motor stalls
    return effort.stiffness * stretch * (distance - 0.5 * stretch)


def _over_turns(angles: Array, before: Array) -> Array:
    """Return angles with as many whole turns added as bring them nearest to those before [rad]."""
    return np.asarray(angles + 2 * np.pi * np.round((before - angles) / (2 * np.pi)))


def _slide_stencils(points: JointPoints, axis: int) -> NDArray[np.int64]:
    """Return the stencils (Q, 4) of the first side's place from the second's, along axis 1, 2 or 3."""
    first, second = points.first, points.second
    return np.stack([first[:, 0], second[:, 0], first[:, axis], first[:, 0]], axis=1)


def _angle_stencils(points: JointPoints) -> NDArray[np.int64]:
    """Return the stencils (Q, 5) of angles, see `AxisAngles`."""
    first, second = points.first, points.second
    return np.stack([first[:, 0], first[:, 2], first[:, 3], second[:, 0], second[:, 2]], axis=1)


def _joined(parts: list[Array], shape: tuple[int, ...] = (0,), dtype: type = np.int64) -> Array:
    """Return arrays one after the other, or an empty one of that shape."""
    return np.concatenate([np.empty(shape, dtype), *parts])
