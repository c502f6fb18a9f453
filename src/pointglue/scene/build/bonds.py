"""Turn the [[attach]] tables of a scene into bonds and joints of the implicit solver."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ...checks import Array
from ...elastic import Bond, JointBond, Motor
from ...errors import InputError
from ...geometry.simplices import tets_of_hexahedra
from ...glue import Binding, Joint, Slider, Spring, bind_glue, bind_joint, bind_linear, bind_slider
from ..schema import scene as schema
from ..schema.attach_tables import GlueAttach, JointAttach, SpringAttach
from ..schema.fields import Points
from ..schema.loading import LoadedScene, Problem
from ..schema.motors import AngleMotor, SlideMotor
from ..tracks import NumberTrack
from .built import Built
from .meshing import Indices
from .selection import select

__all__ = ["bonds_of", "cycle_problem", "joint_of"]


def bonds_of(
    tables: schema.SceneFile,
    built: Mapping[str, Built],
    recording: Callable[..., AbstractContextManager[None]],
) -> tuple[list[Bond], list[JointBond]]:
    """Return the bonds and joints of all [[attach]] tables.

    Parameters
    ----------
    tables : SceneFile
        The scene.
    built : mapping of str to Built
        Its objects, by name.
    recording : callable
        Takes the parts of a key and returns a context that records errors within it as problems of that key.
    """
    glue: list[Bond] = []
    joints: list[JointBond] = []
    for k, table in enumerate(tables.attach):
        one, other = built[table.source], built[table.to]
        limits: dict[str, Any] = {
            "attach": -inf if table.attach is None else tables.frames.seconds(table.attach),
            "release": inf if table.release is None else tables.frames.seconds(table.release),
            "break_force": table.break_force or inf,
        }
        held = (
            limits
            if isinstance(table, SpringAttach)
            else limits | {"break_torque": table.break_torque or inf}
        )
        with recording("attach", k):
            among = None if table.among is None else _chosen("among", table.among, other, one)
            if isinstance(table, JointAttach):
                joint = joint_of(table, one.points, other.points, among)
                joints.append(JointBond(table.source, table.to, joint, **held, **_drives(table, tables)))
                continue
            rows = _chosen("points", table.points, one, other)
            if isinstance(table, GlueAttach) and table.binding == "linear":
                glue.append(Bond(table.source, rows, table.to, _linear(other, one.points[rows]), **held))
                continue
            binding = bind_glue(other.points, one.points[rows], among=among, **table.glue_options)
            if isinstance(table, SpringAttach):
                spring = Spring(table.stiffness, damping=table.damping, **limits)
                glue.append(Bond(table.source, rows, table.to, binding, spring=spring))
            else:
                glue.append(Bond(table.source, rows, table.to, binding, **held))
    return glue, joints


def joint_of(table: JointAttach, one: Array, other: Array, among: Indices | None = None) -> Joint | Slider:
    """Return the joint of a table between points `one` (n, 3) and those `among` points `other` (m, 3)."""
    if table.type == "curve" or table.type == "surface":
        return bind_slider(
            one,
            other,
            table.at,
            table.path or table.patch or (),
            closed=table.closed,
            parents=table.parents,
            among=among,
            on_degenerate=table.on_degenerate,
        )
    return bind_joint(
        one,
        other,
        table.at,
        kind=table.type,
        axis=table.axis,
        across=table.across,
        parents=table.parents,
        among=(None, among),
        on_degenerate=table.on_degenerate,
    )


def _drives(table: JointAttach, tables: schema.SceneFile) -> dict[str, Any]:
    """Return the limits and motors of a joint, as options of `JointBond`."""
    return {
        "stiffness": table.stiffness,
        "damping": table.damping,
        "slide_limits": table.slide_limits,
        "angle_limits": table.angle_limits,
        "slide_motor": _motor(table.slide_motor, tables),
        "angle_motor": _motor(table.angle_motor, tables),
    }


def _motor(table: SlideMotor | AngleMotor | None, tables: schema.SceneFile) -> Motor | None:
    """Return the motor of a table, if there is one."""
    if table is None:
        return None
    target: dict[str, Any] = {"speed": table.speed, "position": table.position}
    if table.keys:
        times = [tables.frames.seconds(key.time) for key in table.keys]
        name = "speed" if table.keys[0].position is None else "position"
        target[name] = NumberTrack(times, [getattr(key, name) for key in table.keys], table.ease)
    most = table.max_torque if isinstance(table, AngleMotor) else table.max_force
    return Motor(
        **target,
        stiffness=inf if table.stiffness is None else table.stiffness,
        damping=table.damping,
        max_force=inf if most is None else most,
    )


def cycle_problem(
    cycle: Sequence[int], offsets: Mapping[str, int], built: Mapping[str, Built], scene: LoadedScene
) -> Problem:
    """Return the problem of a cycle of glue, in terms of objects and attachments.

    Parameters
    ----------
    cycle : sequence of int
        Particles of the solver, each bound to the next.
    offsets : mapping of str to int
        The first particle of each object.
    built : mapping of str to Built
        The objects.
    scene : LoadedScene
        The scene.

    Returns
    -------
    key, text
        The first attachment of the cycle, and what is wrong.
    """
    names, starts = list(offsets), list(offsets.values())
    attach = scene.tables.attach
    found: list[int] = []
    for one, other in pairwise(cycle):
        k, j = (bisect_right(starts, particle) - 1 for particle in (one, other))
        found += [
            number
            for number, table in enumerate(attach)
            if isinstance(table, GlueAttach)
            and (table.source, table.to) == (names[k], names[j])
            and one - starts[k] in _chosen("points", table.points, built[table.source], built[table.to])
        ][:1]
    first, *others = dict.fromkeys(found)
    text = f"glues {attach[first].source!r} to {_named(attach[first])}"
    for number in others:
        line = scene.source.line(("attach", number))
        text += (
            f", which attach[{number}]{f' (line {line})' if line else ''} glues to {_named(attach[number])}"
        )
    return ("attach", first), (
        f"{text}: glue must not go round in a circle. Leave one of them out, choose points that nothing else "
        'is glued to, or make one a spring (kind = "spring")'
    )


def _named(table: Any) -> str:
    return "itself" if table.source == table.to else repr(table.to)


def _chosen(key: str, points: Points, one: Built, other: Built) -> Indices:
    try:
        return select(points, one.points, one.groups, other.points)
    except InputError as error:
        raise InputError(f"{key} {error}") from None


def _linear(other: Built, targets: Array) -> Binding:
    """Return the binding to the tetrahedra, or else triangles, whose centroids are nearest to the targets."""
    hexahedra = getattr(other, "hexahedra", None)
    cells = np.asarray(getattr(other, "faces", None) if hexahedra is None else tets_of_hexahedra(hexahedra))
    centroids = other.points[cells].mean(1)
    return bind_linear(other.points, targets, cells[cKDTree(centroids).query(targets)[1]])
