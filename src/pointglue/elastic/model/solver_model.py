"""All bodies of a solver as one set of particles, with what ties them together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import Array, as_integers
from ...errors import BindingCycleError, InputError
from ...glue import (
    Assembly,
    AssemblyPose,
    Attachment,
    Binding,
    BodyFrames,
    Embedding,
    Glue,
    Spring,
    Springs,
    assemble,
    bind_glue,
)
from ...glue.linear import LinearBinding
from ...procrustes import Groups, RestShape
from ..bodies import Bond, ElasticBody, JointBond
from .rigid_bodies import RigidBody, RigidInertia

__all__ = ["SolverModel"]

HEAVY = 1e8  # times all that is free to move: what keys move gives way to forces by so much less


@dataclass(frozen=True, eq=False)
class Equations:
    """Of all joints, M of them: direction . (x[first] - x[second]) = 0."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    joint_of: NDArray[np.int64]
    """The joint of each, counted through all bonds (M,)."""
    frame_of: NDArray[np.int64]
    """The particle with whose frame the direction turns (M,)."""
    directions: Array
    """At rest (M, 3)."""


@dataclass(frozen=True, eq=False)
class Tie:
    """Particles that hang on others by glue, or the two sides of joints."""

    rows: NDArray[np.int64]
    parents: NDArray[np.int64]
    release: float
    joints: slice | None

    def holds(self, moment: float, loose: NDArray[np.bool_], opened: NDArray[np.bool_]) -> bool:
        """Whether any of it does at a time (s), given what has been let go: particles (N,) and joints."""
        gone = loose[self.rows] if self.joints is None else opened[self.joints]
        return moment < self.release and not gone.all()


class SolverModel:
    """Particles of the bodies one after the other, then those that joints and springs hang on.

    `N` of them in all, of which the first `count` are the bodies'. What is moved by keys is just there, or,
    where it has to be `pushed` through contacts, is drawn there as something very heavy.
    """

    def __init__(
        self,
        bodies: Sequence[ElasticBody | RigidBody],
        glue: Sequence[Bond],
        joints: Sequence[JointBond],
        conflict_spring: Spring | None,
        *,
        pushed: bool = False,
    ) -> None:
        self.bodies, self.glue, self.joints = _checked(bodies, glue, joints)
        ends = np.cumsum([len(body.positions) for body in self.bodies])
        self.rows = {
            body.name: slice(int(end) - len(body.positions), int(end))
            for body, end in zip(self.bodies, ends, strict=True)
        }
        """Where the particles of each body are, by its name."""
        self.count = int(ends[-1])
        self.rigid = [body for body in self.bodies if isinstance(body, RigidBody)]
        places = np.concatenate([body.positions for body in self.bodies])
        attachments = [self._attachment(bond, places) for bond in self.glue]
        places, of_joints = self._hang_joints(places)
        body_of = np.full(len(places), -1)
        for number, rigid in enumerate(self.rigid):
            body_of[self.rows[rigid.name]] = number
        origins = np.array([body.centre for body in self.rigid]) if self.rigid else None
        try:
            whole, springs = assemble(
                places,
                [part for parts in [*attachments, of_joints] for part in parts],
                body_of=body_of if self.rigid else None,
                origins=origins,
                conflict_spring=conflict_spring,
            )
        except BindingCycleError as error:
            raise BindingCycleError(error.cycle, tuple(map(self.describe, error.cycle))) from None
        self.springs: Springs = springs
        self.rest, self.body_of = whole.rest, whole.body_of
        self.origins, self._layers = whole.origins, _merged(whole.layers)
        self._whole = self._assembled(self._layers)
        self._limits(attachments)
        self.ties = self._tied(attachments, of_joints)
        """What hangs on what from the start."""
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
            [np.linalg.norm(body.positions - np.asarray(body.centre), axis=1).max() for body in self.rigid]
        )
        """Farthest of each rigid body's points from its centre (B,), m."""
        self.fixed = np.array([body.fixed for body in self.rigid], np.bool_)
        self.size = float(np.ptp(self.rest, axis=0).max())
        """Largest extent at rest (m)."""
        self._hold(pushed)

    def _tied(self, attachments: list[list[Attachment]], of_joints: list[Attachment]) -> list["Tie"]:
        ties = []
        for bond, parts in zip(self.glue, attachments, strict=True):
            timed = bond if bond.spring is None else bond.spring
            if timed.attach <= 0:
                ties += [
                    Tie(np.asarray(part.particles), part.binding.parents.indices, timed.release, None)
                    for part in parts
                ]
        number = 0
        for joint, one, other in zip(self.joints, of_joints[::2], of_joints[1::2], strict=True):
            members = slice(number, number + len(joint.joint))
            number = members.stop
            if joint.attach <= 0:
                ends = (one.binding.parents.indices, other.binding.parents.indices)
                ties.append(Tie(*ends, joint.release, members))
        return ties

    def _hold(self, pushed: bool) -> None:
        """What is not free to move, and what draws the rest to where it would go without forces."""
        self.driven = np.zeros(len(self.rest), np.bool_)
        """Particles that keys move (N,)."""
        for body in self.bodies:
            if isinstance(body, ElasticBody) and body.motion is not None:
                rows = self.rows[body.name]
                self.driven[rows] = self.pinned[rows]
        self.driven_bodies = np.array([body.motion is not None for body in self.rigid], np.bool_)
        self.held, self.still = self.pinned, self.fixed
        """Particles (N,) and rigid bodies (B,) that are no unknowns."""
        self.weight, self.pull = self.mass, self.inertia
        """Masses that draw to the target: of particles (N,), and of rigid bodies."""
        if pushed:
            self.held, self.still = self.pinned & ~self.driven, self.fixed & ~self.driven_bodies
            light = float(self.mass[~self.pinned].sum() + self.inertia.mass[~self.fixed].sum())
            heavy = HEAVY * (light or 1.0)
            self.weight = np.where(self.driven, heavy, self.mass)
            sizes = np.maximum(self.radii, 1e-6 * self.size)[:, None, None] ** 2 * np.eye(3)
            of_body = self.driven_bodies
            self.pull = RigidInertia(
                np.where(of_body, heavy, self.inertia.mass),
                np.where(of_body[:, None, None], heavy * sizes.reshape(-1, 3, 3), self.inertia.moment),
            )

    def body_named(self, particle: int) -> str | None:
        """The name of the body that a particle is of, if it is not one of a joint."""
        return next((name for name, rows in self.rows.items() if rows.start <= particle < rows.stop), None)

    def describe(self, particle: int) -> str:
        """The particle by its body and row."""
        name = self.body_named(particle)
        return str(particle) if name is None else f"{particle - self.rows[name].start} of {name!r}"

    def describe_joint(self, number: int) -> str:
        """The joint by its bodies."""
        for bond in self.joints:
            if number < len(bond.joint):
                return f"{bond.joint.kind} joint {number} of {bond.first!r} and {bond.second!r}"
            number -= len(bond.joint)
        raise IndexError(number)

    def assembly(self, loose: NDArray[np.bool_], targets: Array) -> Assembly:
        """The particles with their bindings, but for those that are `loose` (N,).

        `targets` (N, 3) are where bound ones would be at rest.
        """
        layers = self._layers
        if targets is not self.rest:
            layers = [(rows, _aimed(binding, targets[rows])) for rows, binding in layers]
        elif not loose.any():
            return self._whole
        kept = [
            (rows[~loose[rows]], binding.take(np.flatnonzero(~loose[rows])))
            for rows, binding in layers
            if not loose[rows].all()
        ]
        return self._assembled(kept)

    def caught(
        self,
        targets: Array,
        loose: NDArray[np.bool_],
        points: NDArray[np.bool_],
        joints: NDArray[np.bool_],
        places: Array,
        frames: BodyFrames,
    ) -> Array:
        """Targets (N, 3) with which `points` (N,) and the second sides of `joints` stick where they are now.

        That is at `places` (N, 3), those of joints at the first sides.
        """
        of_joints = self.equations.joint_of
        held = np.flatnonzero(joints[of_joints]) if len(of_joints) else np.empty(0, np.int64)
        second, first = self.equations.second[held], self.equations.first[held]
        out = targets.copy()
        # Each round settles what hangs on what is settled.
        for _ in range(len(self._layers)):
            pose = self.assembly(loose, out).evaluate(places.copy(), frames)
            wanted = np.where(points[:, None], places, pose.positions)
            wanted[second] = pose.positions[first]
            for (rows, _), bound in zip(pose.assembly.layers, pose.poses, strict=True):
                off = (wanted - pose.positions)[rows]
                out[rows] += np.einsum("tji,tj->ti", bound.rotations, off)
        return out

    def _assembled(self, layers: list[tuple[NDArray[np.int64], Binding]]) -> Assembly:
        bodies, origins = (self.body_of, self.origins) if self.rigid else (None, None)
        return Assembly(self.rest, layers, body_of=bodies, origins=origins)

    def _attachment(self, bond: Bond, places: Array) -> list[Attachment]:
        mine = self._rows_of(bond.body, "glue")
        count = mine.stop - mine.start
        given = np.asarray(bond.points)
        if given.dtype == np.bool_ and given.shape == (count,):
            given = np.flatnonzero(given)
        numbers = as_integers("points", given)
        if not len(numbers) or numbers.min() < 0 or numbers.max() >= count:
            wrong = numbers.tolist()[:4] if len(numbers) else "none"
            raise InputError(f"points must name some of the {count} points of {bond.body!r}, got {wrong}")
        if bond.to is None:
            parts = _in_scene(bond.binding, places, 0)
        else:
            theirs = self._rows_of(bond.to, "glue")
            if bond.binding is None:
                among = np.setdiff1d(np.arange(theirs.start, theirs.stop), mine.start + numbers)
                glue = bind_glue(places, places[mine.start + numbers], among=among)
                parts = [(np.arange(len(numbers)), glue)]
            else:
                if bond.binding.point_count != theirs.stop - theirs.start:
                    raise InputError(
                        f"the binding of {bond.body!r} must be to the {theirs.stop - theirs.start} points of "
                        f"{bond.to!r}, got one to {bond.binding.point_count} points"
                    )
                parts = _in_scene(bond.binding, places, theirs.start)
        if sum(len(rows) for rows, _ in parts) != len(numbers):
            raise InputError(f"points names {len(numbers)} points for {len(bond.binding or ())} bound ones")
        return [Attachment(mine.start + numbers[rows], part, bond.spring) for rows, part in parts]

    def _hang_joints(self, places: Array) -> tuple[Array, list[Attachment]]:
        """Particles for the points of the joints' two sides, and what they hang on; fills `equations`."""
        attachments, ghosts, total, number = [], [], len(places), 0
        parts: list[tuple[Array, ...]] = [(*[np.empty(0, np.int64)] * 4, np.empty((0, 3)))]
        for bond in self.joints:
            sides = []
            for name, glue in ((bond.first, bond.joint.first), (bond.second, bond.joint.second)):
                rows = self._rows_of(name, "joints")
                if glue.point_count != rows.stop - rows.start:
                    raise InputError(
                        f"the joint of {bond.first!r} and {bond.second!r} must be bound to the "
                        f"{rows.stop - rows.start} points of {name!r}, got {glue.point_count}"
                    )
                side = _moved(glue, places, rows.start)
                fresh = np.arange(total, total + len(side))
                total += len(side)
                attachments.append(Attachment(fresh, side))
                ghosts.append(side.targets)
                sides.append(fresh)
            rests = (self._positions(name) for name in (bond.first, bond.second))
            still = np.tile(np.eye(3), (len(bond.joint), 1, 1))
            directions = bond.joint.at(*rests, rotations=still).directions
            point = directions.indices[::3] // 3  # each equation is of one
            of_joint = np.arange(len(point)) // (len(point) // len(bond.joint))
            frame = of_joint * (len(sides[0]) // len(bond.joint))
            ends = (sides[0][point], sides[1][point], number + of_joint, sides[0][frame])
            parts.append((*ends, directions.data.reshape(-1, 3)))
            number += len(bond.joint)
        self.equations = Equations(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        self.joint_count = number
        return np.concatenate([places, *ghosts]), attachments

    def directions(self, pose: AssemblyPose) -> Array:
        """Of the joints' equations (M, 3), turned as the joints' first sides are."""
        frames = np.empty((len(self.rest), 3, 3))
        for (rows, _), bound in zip(pose.assembly.layers, pose.poses, strict=True):
            frames[rows] = bound.rotations
        turned = frames[self.equations.frame_of] @ self.equations.directions[:, :, None]
        return np.asarray(turned[:, :, 0])

    def _positions(self, name: str) -> Array:
        return next(body.positions for body in self.bodies if body.name == name)

    def _limits(self, attachments: list[list[Attachment]]) -> None:
        """When bonds let go: per particle for hard ones, in the springs for what became springs."""
        size = len(self.rest)
        self.attach = np.full(size, -np.inf)
        self.release, self.break_force = np.full(size, np.inf), np.full(size, np.inf)
        self.bond_of = np.full(size, -1)
        """The row in `glue` of the bond that holds each particle (N,), or -1."""
        bound = np.zeros(size, np.bool_)
        for rows, _ in self._layers:
            bound[rows] = True
        springs = self.springs
        attach, release, force = (
            each.copy() for each in (springs.attach, springs.release, springs.break_force)
        )
        self.bond_of_spring = np.full(len(springs), -1)
        """The row in `glue` of the bond of each spring (S,), or -1."""
        spring = 0
        for k, (bond, parts) in enumerate(zip(self.glue, attachments, strict=True)):
            for part in parts:
                rows = np.asarray(part.particles)
                hard = bound[rows] & (bond.spring is None)
                self.bond_of[rows[hard]] = k
                self.attach[rows[hard]], self.release[rows[hard]] = bond.attach, bond.release
                self.break_force[rows[hard]] = bond.break_force
                if bond.attach > 0 and bond.spring is None and not hard.all():
                    raise InputError(
                        f"attach is for points that glue can hold: {self.describe(int(rows[~hard][0]))} is "
                        "on a rigid body or has another bond, and would be drawn by a spring to where it was "
                        "at rest; use a JointBond, or a spring with its own attach"
                    )
                if bond.attach > 0 and isinstance(part.binding, LinearBinding):
                    raise InputError(
                        f"attach is for glue, which sticks where things are: the points of {bond.body!r} are "
                        "bound linearly, which leaves no choice where"
                    )
                number = int(np.sum(~hard))
                self.bond_of_spring[spring : spring + number] = k
                if bond.spring is None:
                    attach[spring : spring + number] = bond.attach
                    release[spring : spring + number] = bond.release
                    force[spring : spring + number] = bond.break_force
                spring += number
        self.springs = replace(springs, attach=attach, release=release, break_force=force)
        each = np.array([len(bond.joint) for bond in self.joints], np.int64)
        self.bond_of_joint = np.repeat(np.arange(len(self.joints)), each)
        """The row in `joints` of each joint."""
        self.joint_attach = np.repeat([bond.attach for bond in self.joints], each)
        self.joint_release = np.repeat([bond.release for bond in self.joints], each)
        self.joint_break_force = np.repeat([bond.break_force for bond in self.joints], each)

    def _rows_of(self, name: Any, what: str) -> slice:
        if name not in self.rows:
            raise InputError(f"{what} must name bodies, {', '.join(map(repr, self.rows))}, got {name!r}")
        return self.rows[name]


def _in_scene(binding: Binding | None, places: Array, offset: int) -> list[tuple[NDArray[np.int64], Binding]]:
    """The binding with its parents among all particles, in parts of one kind, with the targets of each."""
    if isinstance(binding, Embedding):
        return [
            (rows[inner], part)
            for rows, piece in binding.parts
            for inner, part in _in_scene(piece, places, offset)
        ]
    assert binding is not None
    return [(np.arange(len(binding)), _moved(binding, places, offset))]


def _moved(binding: Binding, places: Array, offset: int) -> Any:
    """Glue or a linear binding whose parents are the particles from `offset` on."""
    groups = Groups(binding.parents.offsets, binding.parents.indices + offset)
    if isinstance(binding, LinearBinding):
        return LinearBinding(places, binding.targets, groups, binding.weights)
    if not isinstance(binding, Glue):
        raise InputError(f"binding must be of glue, linear or an embedding, got {type(binding).__name__}")
    rest = places.copy()
    rest[offset : offset + binding.point_count] = binding.shape.rest
    glue = bind_glue(
        rest,
        binding.targets,
        indices=groups,
        weights=binding.weights,
        on_degenerate=binding.on_degenerate,
        min_gap=binding.min_gap,
    )
    return replace(glue, anchor=binding.anchor)


def _aimed(binding: Binding, targets: Array) -> Binding:
    """The binding with its targets elsewhere at rest; linear ones have no say in that."""
    return replace(binding, targets=targets) if isinstance(binding, Glue) else binding


def _merged(layers: list[tuple[NDArray[np.int64], Binding]]) -> list[tuple[NDArray[np.int64], Binding]]:
    """The same with glue of one kind in one piece: it is evaluated at once."""
    kinds: dict[Any, list[tuple[NDArray[np.int64], Glue]]] = {}
    out: list[tuple[NDArray[np.int64], Binding]] = []
    for rows, binding in layers:
        if isinstance(binding, Glue) and binding.anchor is None:
            same = (binding.on_degenerate, binding.min_gap, binding.shape.dtype, binding.point_count)
            kinds.setdefault(same, []).append((rows, binding))
        else:
            out.append((rows, binding))
    for members in kinds.values():
        first = members[0][1]
        glue = Glue(
            RestShape.joined([glue.shape for _, glue in members]),
            np.concatenate([glue.targets for _, glue in members]),
            first.on_degenerate,
            first.min_gap,
        )
        out.append((np.concatenate([rows for rows, _ in members]), glue))
    return out


def _checked(
    bodies: Sequence[Any], glue: Sequence[Any], joints: Sequence[Any]
) -> tuple[list[ElasticBody | RigidBody], list[Bond], list[JointBond]]:
    kinds = (
        ("bodies", bodies, (ElasticBody, RigidBody)),
        ("glue", glue, Bond),
        ("joints", joints, JointBond),
    )
    for name, items, kind in kinds:
        if not isinstance(items, (list, tuple)):
            raise InputError(f"{name} must be a list, got {type(items).__name__}")
        for k, item in enumerate(items):
            if not isinstance(item, kind):
                wanted = (
                    "an ElasticBody or a RigidBody"
                    if name == "bodies"
                    else "a Bond"
                    if name == "glue"
                    else "a JointBond"
                )
                raise InputError(f"{name}[{k}] must be {wanted}, got {type(item).__name__}")
    if not bodies:
        raise InputError("bodies must hold at least one body")
    names = [body.name for body in bodies]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"bodies must have names of their own, got {name!r} {names.count(name)} times")
    return list(bodies), list(glue), list(joints)
