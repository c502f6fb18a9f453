"""All bodies of a solver as one set of particles, with their bonds and joints."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...errors import BindingCycleError, InputError
from ...glue import (
    Assembly,
    AssemblyPose,
    Attachment,
    BodyFrames,
    Slider,
    Spring,
    Springs,
    assemble,
)
from ...glue.joints import SLIDING_KINDS
from ...glue.linear import LinearBinding
from ..bodies import Bond, ElasticBody, JointBond
from .bond_layers import Layer, merged_layers, shifted_binding, with_targets
from .bound_points import BoundPoints, InitialBond, bound_points, rows_of
from .constraints import Constraints, JointEquations, JointPoints
from .load_groups import LoadGroups
from .rigid_bodies import RigidBody, RigidInertia
from .spring_frames import SpringFrames, frame_attachment

__all__ = ["SolverModel"]

# ratio: mass of kinematic bodies in a step with contact, relative to the total free mass. Contact forces
# displace them by that much less than they displace free bodies.
KINEMATIC_MASS_RATIO = 1e8
# ratio of the model's size: how far points may be from where a joint was bound to them
REST_TOLERANCE = 1e-6
MIN_RADIUS_RATIO = 1e-6  # ratio of the model's size: the least radius of a kinematic body's inertia


class SolverModel:
    """The particles of all bodies one after the other, then those of joints and springs.

    There are N particles in all, of which the first `count` are the bodies'.

    Parameters
    ----------
    bodies : sequence of ElasticBody or RigidBody
        The bodies, each with a name of its own.
    glue : sequence of Bond
        The bonds of glue between them.
    joints : sequence of JointBond
        The joints between them.
    conflict_spring : Spring or None
        The spring that replaces all glue of a point which several bonds bind; without it they are equations.
    kinematic_unknowns : bool
        Whether kinematic particles and bodies are unknowns with a very large mass, so that contact can stop
        them. Otherwise they are just put where their motion says.

    Raises
    ------
    InputError
        If the bodies, bonds and joints do not fit each other.
    BindingCycleError
        If glue binds particles to each other in a circle.
    """

    def __init__(
        self,
        bodies: Sequence[ElasticBody | RigidBody],
        glue: Sequence[Bond],
        joints: Sequence[JointBond],
        conflict_spring: Spring | None,
        *,
        kinematic_unknowns: bool = False,
    ) -> None:
        self.bodies, self.glue, self.joints = _check_lists(bodies, glue, joints)
        ends = np.cumsum([len(body.positions) for body in self.bodies])
        self.rows = {
            body.name: slice(int(end) - len(body.positions), int(end))
            for body, end in zip(self.bodies, ends, strict=True)
        }
        """The rows of each body's particles, by its name."""
        self.count = int(ends[-1])
        self.rigid = [body for body in self.bodies if isinstance(body, RigidBody)]
        positions = np.concatenate([body.positions for body in self.bodies])
        body_of = np.full(len(positions), -1)
        for number, rigid in enumerate(self.rigid):
            body_of[self.rows[rigid.name]] = number
        attachments = bound_points(self.glue, self.rows, positions, body_of, conflict_spring)
        positions, of_joints = self._add_joint_particles(positions)
        positions, of_points = self._add_point_equations(positions, attachments)
        positions, of_frames = self._add_spring_frames(positions, attachments)
        body_of = np.concatenate([body_of, np.full(len(positions) - self.count, -1)])
        origins = np.array([body.center_of_mass for body in self.rigid]) if self.rigid else None
        try:
            whole, springs = assemble(
                positions,
                [bound.attachment for bound in attachments if not bound.by_equations]
                + of_joints
                + of_points
                + of_frames,
                body_of=body_of if self.rigid else None,
                origins=origins,
            )
        except BindingCycleError as error:
            raise BindingCycleError(error.cycle, tuple(map(self.describe, error.cycle))) from None
        self.springs: Springs = springs
        self.rest, self.body_of = whole.rest, whole.body_of
        self.origins, self._layers = whole.origins, merged_layers(whole.layers)
        self._whole = self._assembled(self._layers)
        self.constraints = Constraints(self.equations, self.joint_points)
        """All rows of equations: those of `equations`, then those of joints that slide, limits and motors."""
        self._set_limits(attachments)
        self.load_groups = self._load_groups(attachments, of_joints, of_points)
        """The particles that tell the loads of bonds and joints."""
        self.initial_bonds = self._initial_bonds(attachments, of_joints)
        """The bonds and joints that hold from the start."""
        size = len(self.rest)
        self.mass, self.pinned = np.zeros(size), np.zeros(size, np.bool_)
        for body in self.bodies:
            if isinstance(body, ElasticBody):
                self.mass[self.rows[body.name]] = body.mass
                self.pinned[self.rows[body.name]] = body.pinned
        bound = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in self._layers)])
        both = bound[self.pinned[bound]]
        if len(both):
            raise InputError(
                f"particle {self.describe(int(both[0]))} is both pinned and glued: leave one out"
            )
        self.inertia = RigidInertia(
            np.array([body.mass for body in self.rigid]),
            np.array([body.moment for body in self.rigid]).reshape(-1, 3, 3),
        )
        self.radii = np.array(
            [
                np.linalg.norm(body.positions - np.asarray(body.center_of_mass), axis=1).max()
                for body in self.rigid
            ]
        )
        """The greatest distance of each rigid body's points from its centre of mass (B,) [m]."""
        self.fixed = np.array([body.fixed for body in self.rigid], np.bool_)
        self.size = float(np.ptp(self.rest, axis=0).max())
        """The largest extent at rest [m]."""
        self._set_kinematics(kinematic_unknowns)

    def _initial_bonds(
        self, attachments: list[BoundPoints], of_joints: list[Attachment]
    ) -> list[InitialBond]:
        """Return the bonds and joints that hold from the start."""
        bonds, number = [], 0
        for joint, one, other in zip(self.joints, of_joints[::2], of_joints[1::2], strict=True):
            members = slice(number, number + len(joint.joint))
            number = members.stop
            if joint.attach <= 0:
                ends = (one.binding.parents.indices, other.binding.parents.indices)
                bonds.append(InitialBond(*ends, joint.release, members))
        for bound in attachments:
            rows, of_points = bound.particles, None
            if bound.by_equations:
                of_points = slice(number, number + len(rows))
                number = of_points.stop
            bond = self.glue[bound.bond]
            timed = bond if bond.spring is None else bond.spring
            if timed.attach <= 0:
                parents = bound.attachment.binding.parents.indices
                bonds.append(InitialBond(rows, parents, timed.release, of_points))
        return bonds

    def _load_groups(
        self,
        attachments: list[BoundPoints],
        of_joints: list[Attachment],
        of_points: list[Attachment],
    ) -> LoadGroups:
        """Return the particles by which the loads of bonds and joints are told."""
        found: list[tuple[int, int, NDArray[np.int64]]] = []
        equations, springs = iter(of_points), 0
        for bound in attachments:
            if bound.by_equations:
                rows = np.asarray(next(equations).particles)
            elif bound.attachment.spring is not None:
                rows = self.springs.second[springs : springs + len(bound.particles)]
                springs += len(rows)
            else:
                rows = bound.particles
            if found and found[-1][0] == bound.bond:
                rows = np.concatenate([found.pop()[2], rows])
            found.append((bound.bond, -1, rows))
        number = 0
        for k, (joint, side) in enumerate(zip(self.joints, of_joints[1::2], strict=True)):
            for rows in np.asarray(side.particles).reshape(len(joint.joint), -1):
                found.append((len(self.glue) + k, number, rows))
                number += 1
        nothing = np.empty(0, np.int64)
        return LoadGroups(
            np.array([bond for bond, _, _ in found], np.int64),
            np.array([joint for _, joint, _ in found], np.int64),
            np.repeat(np.arange(len(found)), [len(rows) for _, _, rows in found]),
            np.concatenate([nothing, *(rows for _, _, rows in found)]),
        )

    def _set_kinematics(self, kinematic_unknowns: bool) -> None:
        """Set which particles and bodies are kinematic or prescribed, and the masses of the inertia term."""
        self.kinematic = np.zeros(len(self.rest), np.bool_)
        """Which particles are moved by keys (N,)."""
        for body in self.bodies:
            if isinstance(body, ElasticBody) and body.motion is not None:
                rows = self.rows[body.name]
                self.kinematic[rows] = self.pinned[rows]
        self.kinematic_bodies = np.array([body.motion is not None for body in self.rigid], np.bool_)
        """Which rigid bodies are moved by keys (B,)."""
        self.prescribed, self.prescribed_bodies = self.pinned, self.fixed
        """Which particles (N,) and rigid bodies (B,) are no unknowns of a step."""
        mass, inertia = self.mass, self.inertia
        if kinematic_unknowns:
            self.prescribed = self.pinned & ~self.kinematic
            self.prescribed_bodies = self.fixed & ~self.kinematic_bodies
            free = float(self.mass[~self.pinned].sum() + self.inertia.mass[~self.fixed].sum())
            heavy = KINEMATIC_MASS_RATIO * (free or 1.0)
            mass = np.where(self.kinematic, heavy, mass)
            radii = np.maximum(self.radii, MIN_RADIUS_RATIO * self.size)
            sizes = radii[:, None, None] ** 2 * np.eye(3)
            of_body = self.kinematic_bodies
            inertia = RigidInertia(
                np.where(of_body, heavy, inertia.mass),
                np.where(of_body[:, None, None], heavy * sizes.reshape(-1, 3, 3), inertia.moment),
            )
        # What is prescribed would add a constant, in whose rounding the changes of a light cloth are lost.
        moving = ~self.prescribed_bodies
        self.step_mass = np.where(self.prescribed, 0.0, mass)
        """Masses of the particles (N,) in the inertia term of a step, 0 of those that are prescribed [kg]."""
        self.step_inertia = RigidInertia(moving * inertia.mass, moving[:, None, None] * inertia.moment)
        """Inertia of the rigid bodies in the inertia term of a step, 0 of those that are prescribed."""

    def followers(self, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which particles (N,) are bound, at the start, to some of those that are marked (N,)."""
        found = np.zeros(len(self.rest), np.bool_)
        for rows, binding in self._layers:
            parents = binding.parents
            found[rows] = np.logical_or.reduceat(marked[parents.indices], parents.offsets[:-1])
        return found

    def body_named(self, particle: int) -> str | None:
        """Return the name of a particle's body, or None for a particle of a joint."""
        return next((name for name, rows in self.rows.items() if rows.start <= particle < rows.stop), None)

    def describe(self, particle: int) -> str:
        """Return a description of a particle by its body and row."""
        name = self.body_named(particle)
        return str(particle) if name is None else f"{particle - self.rows[name].start} of {name!r}"

    def describe_joint(self, number: int) -> str:
        """Return a description of a joint, or of glue that is an equation, by its bodies."""
        bond = self.bonds[int(self.bond_of_joint[number])]
        if isinstance(bond, Bond):
            particle = int(self.equations.first[self.equations.joint_of == number][0])
            return f"the glue of point {self.describe(particle)}"
        first = int(np.flatnonzero(self.bond_of_joint == self.bond_of_joint[number])[0])
        return f"{bond.joint.kind} joint {number - first} of {bond.first!r} and {bond.second!r}"

    def describe_glue(self, particle: int) -> tuple[str, tuple[str, ...]]:
        """Return a description of a bound particle with its parents, and the names of its bodies."""
        groups, parents = self.load_groups, self._parents_of(particle)
        theirs = tuple(dict.fromkeys(filter(None, map(self.body_named, parents))))
        numbers = [row - self.rows[theirs[0]].start for row in parents if self.body_named(row) == theirs[0]]
        listed = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
        of_parents = f" (points {listed} of {theirs[0]!r})" if theirs else ""
        own = self.body_named(particle)
        if own is not None:
            return f"the glue of point {self.describe(particle)}{of_parents}", (own, *theirs)
        at = np.flatnonzero(groups.particles == particle)
        bond = self.bonds[groups.bond_of[groups.group_of[at[0]]]] if len(at) else None
        if isinstance(bond, Bond):
            return f"the glue of {bond.body!r}{of_parents}", tuple(dict.fromkeys((bond.body, *theirs)))
        return f"a joint or spring{of_parents}", theirs

    def _parents_of(self, particle: int) -> list[int]:
        """Return the parents of a bound particle."""
        for rows, binding in self._layers:
            (at,) = np.nonzero(rows == particle)
            if len(at):
                groups = binding.parents
                return list(groups.indices[groups.offsets[at[0]] : groups.offsets[at[0] + 1]].tolist())
        return []

    def joined_bodies(self, number: int) -> tuple[str, ...]:
        """Return the names of the bodies that a joint, or glue that is an equation, holds together."""
        bond = self.bonds[int(self.bond_of_joint[number])]
        names = (bond.body, bond.to) if isinstance(bond, Bond) else (bond.first, bond.second)
        return tuple(name for name in names if name is not None)

    def unyielding_motor(self, number: int) -> tuple[str, tuple[str, ...]] | None:
        """Return a description of the motor of unlimited force that may hold a joint open, and its bodies.

        It is that of the joint itself, or the nearest along the bonds between bodies that are not fixed.
        """
        ends = [
            {bond.body, bond.to} if isinstance(bond, Bond) else {bond.first, bond.second}
            for bond in self.bonds
        ]
        fixed = {body.name for body in self.rigid if body.fixed}
        chain = [int(self.bond_of_joint[number])]
        for at in chain:
            bond = self.bonds[at]
            if isinstance(bond, JointBond):
                for what, motor in (("slide", bond.slide_motor), ("angle", bond.angle_motor)):
                    if motor is not None and motor.unyielding:
                        bodies = (bond.first, bond.second)
                        return f"the {what} motor of {bond.first!r} and {bond.second!r}", bodies
            movable = ends[at] - fixed - {None}
            chain += [k for k, names in enumerate(ends) if names & movable and k not in chain]
        return None

    def assembly(self, free: NDArray[np.bool_], targets: Array) -> Assembly:
        """Return the particles with their bindings.

        Parameters
        ----------
        free : (N,)
            Which particles are not bound, because they have been released or attach later.
        targets : (N, 3)
            Where bound particles would be at rest [m].

        Returns
        -------
        Assembly
        """
        layers = self._layers
        if targets is not self.rest:
            layers = [(rows, with_targets(binding, targets[rows])) for rows, binding in layers]
        elif not free.any():
            return self._whole
        kept = [
            (rows[~free[rows]], binding.take(np.flatnonzero(~free[rows])))
            for rows, binding in layers
            if not free[rows].all()
        ]
        return self._assembled(kept)

    def attached_targets(
        self,
        targets: Array,
        free: NDArray[np.bool_],
        points: NDArray[np.bool_],
        joints: NDArray[np.bool_],
        positions: Array,
        frames: BodyFrames,
    ) -> Array:
        """Return targets with which points and joints attach where they are now.

        Parameters
        ----------
        targets : (N, 3)
            Where bound particles would be at rest so far [m].
        free : (N,)
            Which particles are not bound after that.
        points : (N,)
            Which particles of glue attach.
        joints : (J,)
            Which joints attach: their second sides do, where the first sides are.
        positions : (N, 3)
            Where the particles are [m].
        frames : BodyFrames
            Where the rigid bodies are.

        Returns
        -------
        (N, 3)
            The new targets [m].
        """
        of_joints = self.equations.joint_of
        active = np.flatnonzero(joints[of_joints]) if len(of_joints) else np.empty(0, np.int64)
        parts = [(self.equations.second[active], self.equations.first[active])]
        parts += [
            (each.second[joints[each.joints]].ravel(), each.first[joints[each.joints]].ravel())
            for each in self.joint_points
            if each.first.shape == each.second.shape  # sliders do not attach later
        ]
        second, first = (np.concatenate(each) for each in zip(*parts, strict=True))
        out = targets.copy()
        # Each round finds the targets of one more layer, given those that its parents are bound by.
        for _ in range(len(self._layers)):
            pose = self.assembly(free, out).evaluate(positions.copy(), frames)
            wanted = np.where(points[:, None], positions, pose.positions)
            wanted[second] = pose.positions[first]
            for (rows, _), bound in zip(pose.assembly.layers, pose.poses, strict=True):
                off = (wanted - pose.positions)[rows]
                out[rows] += np.einsum("tji,tj->ti", bound.rotations, off)
        return out

    def _assembled(self, layers: list[Layer]) -> Assembly:
        bodies, origins = (self.body_of, self.origins) if self.rigid else (None, None)
        return Assembly(self.rest, layers, body_of=bodies, origins=origins)

    def _add_joint_particles(self, positions: Array) -> tuple[Array, list[Attachment]]:
        """Return all positions with those of the joints' sides, and their attachments; set `equations`."""
        attachments, targets, total, number = [], [], len(positions), 0
        parts: list[tuple[Array, ...]] = [(*[np.empty(0, np.int64)] * 4, np.empty((0, 3)))]
        self.joint_points: list[JointPoints] = []
        """The particles of the joints of each bond in `joints`."""
        for bond in self.joints:
            sides = []
            for name, glue in ((bond.first, bond.joint.first), (bond.second, bond.joint.second)):
                rows = rows_of(self.rows, name, "joints")
                if glue.point_count != rows.stop - rows.start:
                    raise InputError(
                        f"the joint of {bond.first!r} and {bond.second!r} must be bound to the "
                        f"{rows.stop - rows.start} points of {name!r}, got {glue.point_count}: give the "
                        "bodies in the order of bind_joint"
                    )
                used = np.unique(glue.parents.indices)
                away = np.abs(glue.shape.rest[used] - positions[rows.start + used]).max()
                if away > REST_TOLERANCE * np.ptp(positions, axis=0).max():
                    raise InputError(
                        f"the joint of {bond.first!r} and {bond.second!r} must be bound to the points of "
                        f"{name!r} where they start, but they were {away:.3g} m away when it was bound: give "
                        "the bodies in the order of bind_joint"
                    )
                side = shifted_binding(glue, positions, rows.start)
                fresh = np.arange(total, total + len(side))
                total += len(side)
                attachments.append(Attachment(fresh, side))
                targets.append(side.targets)
                sides.append(fresh)
            members = np.arange(number, number + len(bond.joint))
            number += len(bond.joint)
            one, other = (side.reshape(len(members), -1) for side in sides)
            self.joint_points.append(JointPoints(bond, members, one, other))
            if isinstance(bond.joint, Slider) or bond.joint.kind in SLIDING_KINDS:
                continue
            rests = (self._positions(name) for name in (bond.first, bond.second))
            unrotated = np.tile(np.eye(3), (len(bond.joint), 1, 1))
            directions = bond.joint.at(*rests, rotations=unrotated).directions
            point = directions.indices[::3] // 3  # each equation is of one point
            of_joint = np.arange(len(point)) // (len(point) // len(bond.joint))
            frame = of_joint * (len(sides[0]) // len(bond.joint))
            ends = (sides[0][point], sides[1][point], members[of_joint], sides[0][frame])
            parts.append((*ends, directions.data.reshape(-1, 3)))
        self.equations = JointEquations(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        self.joint_count = number
        return np.concatenate([positions, *targets]), attachments

    def _add_point_equations(
        self, positions: Array, attachments: list[BoundPoints]
    ) -> tuple[Array, list[Attachment]]:
        """Return all positions with those that glue by equations holds points to, and their attachments.

        Each such point counts as a joint of three equations, behind those of `joints`.
        """
        ghosts, targets, parts = [], [positions], [self.equations]
        total = len(positions)
        for bound in attachments:
            if bound.by_equations:
                rows, binding = bound.particles, bound.attachment.binding
                fresh = np.arange(total, total + len(rows))
                total += len(rows)
                ghosts.append(Attachment(fresh, binding))
                targets.append(binding.targets)
                numbers = np.repeat(self.joint_count + np.arange(len(rows)), 3)
                self.joint_count += len(rows)
                ends = (np.repeat(rows, 3), np.repeat(fresh, 3))
                axes = np.tile(np.eye(3), (len(rows), 1))
                parts.append(JointEquations(*ends, numbers, ends[1], axes))
        self.equations = JointEquations(
            *(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(JointEquations))
        )
        return np.concatenate(targets), ghosts

    def _add_spring_frames(
        self, positions: Array, attachments: list[BoundPoints]
    ) -> tuple[Array, list[Attachment]]:
        """Return all positions with those that tell the frames of damped springs, and their attachments."""
        total, number = len(positions), 0
        found, targets = [], [positions]
        springs, reaches = [np.empty(0, np.int64)], [np.empty(0)]
        for bound in attachments:
            spring = bound.attachment.spring
            if spring is None:
                continue
            count = len(bound.particles)
            if spring.damping > 0:
                frame, reach = frame_attachment(bound.attachment.binding, total)
                total += len(frame.binding)
                found.append(frame)
                targets.append(frame.binding.targets)
                springs.append(number + np.arange(count))
                reaches.append(reach)
            number += count
        points = np.arange(len(positions), total).reshape(-1, 4)
        self.spring_frames = SpringFrames(np.concatenate(springs), points, np.concatenate(reaches))
        """The points that tell the frames of damped springs."""
        return np.concatenate(targets), found

    def directions(self, pose: AssemblyPose) -> Array:
        """Return the directions of the joints' equations (M, 3), rotated with the joints' first sides."""
        frames = np.empty((len(self.rest), 3, 3))
        for (rows, _), bound in zip(pose.assembly.layers, pose.poses, strict=True):
            frames[rows] = bound.rotations
        turned = frames[self.equations.frame_of] @ self.equations.directions[:, :, None]
        return np.asarray(turned[:, :, 0])

    def _positions(self, name: str) -> Array:
        """Return the positions of a body's points (n, 3) at the start."""
        return next(body.positions for body in self.bodies if body.name == name)

    def _set_limits(self, attachments: list[BoundPoints]) -> None:
        """Set the times and forces of bonds: by particle for glue, by joint for joints and equations."""
        size = len(self.rest)
        self.bonds: list[Bond | JointBond] = [*self.glue, *self.joints]
        """The bonds of glue, then the joints."""
        self.attach = np.full(size, -np.inf)
        self.release, self.break_force = np.full(size, np.inf), np.full(size, np.inf)
        self.bond_of = np.full(size, -1)
        """The row in `bonds` of the glue that eliminates each particle (N,), or -1."""
        of_springs = [np.empty(0, np.int64)]
        joints = [np.full(len(joint.joint), len(self.glue) + k) for k, joint in enumerate(self.joints)]
        for bound in attachments:
            bond, rows = self.glue[bound.bond], bound.particles
            number = np.full(len(rows), bound.bond)
            if bond.spring is None and bond.attach > 0:
                self._check_attaching(bond, bound.attachment)
            if bound.attachment.spring is not None:
                of_springs.append(number)
            elif bound.by_equations:
                joints.append(number)
            else:
                self.bond_of[rows] = number
                self.attach[rows], self.release[rows] = bond.attach, bond.release
                self.break_force[rows] = bond.break_force
        self.bond_of_spring = np.concatenate(of_springs)
        """The row in `bonds` of the bond of each spring (S,)."""
        self.bond_of_joint = np.concatenate([np.empty(0, np.int64), *joints])
        """The row in `bonds` of each joint, and of each point that glue holds by equations (J,)."""
        timed = [self.bonds[k] for k in self.bond_of_joint.tolist()]
        self.joint_attach = np.array([bond.attach for bond in timed])
        self.joint_release = np.array([bond.release for bond in timed])
        self.joint_break_force = np.array([bond.break_force for bond in timed])
        self.break_torque = np.array([bond.break_torque for bond in self.bonds])
        """The torque at which each of `bonds` breaks [N m]; that of a joint is about each joint."""

    def _check_attaching(self, bond: Bond, attachment: Attachment) -> None:
        """Raise unless glue can attach points later, where they are at that time."""
        if attachment.spring is not None:
            particle = int(np.asarray(attachment.particles)[0])
            raise InputError(
                f"attach is for glue, which binds points where they are: {self.describe(particle)} has "
                "another bond, and conflict_spring would draw it to where it was at rest: leave that out"
            )
        if isinstance(attachment.binding, LinearBinding):
            raise InputError(
                f"attach is for glue, which binds points where they are: the points of {bond.body!r} "
                "are bound linearly, which leaves no choice where"
            )


def _check_lists(
    bodies: Sequence[Any], glue: Sequence[Any], joints: Sequence[Any]
) -> tuple[list[ElasticBody | RigidBody], list[Bond], list[JointBond]]:
    """Return the lists, or raise unless each holds what it should and names are distinct."""
    kinds = (
        ("bodies", bodies, (ElasticBody, RigidBody), "an ElasticBody or a RigidBody"),
        ("glue", glue, Bond, "a Bond"),
        ("joints", joints, JointBond, "a JointBond"),
    )
    for name, items, kind, wanted in kinds:
        if not isinstance(items, (list, tuple)):
            raise InputError(f"{name} must be a list, got {type(items).__name__}")
        for k, item in enumerate(items):
            if not isinstance(item, kind):
                raise InputError(f"{name}[{k}] must be {wanted}, got {type(item).__name__}")
    if not bodies:
        raise InputError("bodies must hold at least one body")
    names = [body.name for body in bodies]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"bodies must have names of their own, got {name!r} {names.count(name)} times")
    return list(bodies), list(glue), list(joints)
