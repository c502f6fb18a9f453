"""From the [[attach]] tables of a scene to bonds and joints of the implicit solver."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ...checks import Array
from ...elastic import Bond, JointBond
from ...errors import InputError
from ...glue import Binding, Spring, bind_glue, bind_joint, bind_linear
from ..schema import scene as schema
from ..schema.fields import Points
from ..schema.loading import LoadedScene, Problem
from .built import Built
from .surfaces import Indices, select

__all__ = ["bonds_of", "circle_of"]


def bonds_of(
    tables: schema.SceneFile, built: Mapping[str, Built], about: Callable[..., AbstractContextManager[None]]
) -> tuple[list[Bond], list[JointBond]]:
    """Return the bonds and joints of all attachments; `about` notes what is wrong with a key."""
    glue: list[Bond] = []
    joints: list[JointBond] = []
    for k, table in enumerate(tables.attach):
        one, other = built[table.source], built[table.to]
        limits: dict[str, Any] = {
            "attach": -inf if table.attach is None else tables.frames.seconds(table.attach),
            "release": inf if table.release is None else tables.frames.seconds(table.release),
            "break_force": table.break_force or inf,
        }
        with about("attach", k):
            among = None if table.among is None else _chosen("among", table.among, other, one)
            if isinstance(table, schema.JointAttach):
                joint = bind_joint(
                    one.points,
                    other.points,
                    table.at,
                    kind=table.type,
                    axis=table.axis,
                    parents=table.parents,
                    among=(None, among),
                )
                joints.append(JointBond(table.source, table.to, joint, **limits))
                continue
            rows = _chosen("points", table.points, one, other)
            if isinstance(table, schema.GlueAttach) and table.binding == "linear":
                glue.append(Bond(table.source, rows, table.to, _linear(other, one.points[rows]), **limits))
                continue
            binding = bind_glue(other.points, one.points[rows], parents=table.parents, among=among)
            if isinstance(table, schema.SpringAttach):
                spring = Spring(table.stiffness, damping=table.damping, **limits)
                glue.append(Bond(table.source, rows, table.to, binding, spring=spring))
            else:
                glue.append(Bond(table.source, rows, table.to, binding, **limits))
    return glue, joints


def circle_of(
    cycle: Sequence[int], offsets: Mapping[str, int], built: Mapping[str, Built], scene: LoadedScene
) -> Problem:
    """Return the problem of glue that goes round in a circle, told by objects and attachments.

    `cycle` are particles of the solver, each bound to the next, and `offsets` the first particles of objects.
    """
    names, starts = list(offsets), list(offsets.values())
    attach = scene.tables.attach
    found: list[int] = []
    for one, other in pairwise(cycle):
        k, j = (bisect_right(starts, particle) - 1 for particle in (one, other))
        found += [
            number
            for number, table in enumerate(attach)
            if isinstance(table, schema.GlueAttach)
            and (table.source, table.to) == (names[k], names[j])
            and one - starts[k] in _chosen("points", table.points, built[table.source], built[table.to])
        ][:1]
    first, *others = dict.fromkeys(found)
    told = f"glues {attach[first].source!r} to {_named(attach[first])}"
    for number in others:
        line = scene.source.line(("attach", number))
        told += (
            f", which attach[{number}]{f' (line {line})' if line else ''} glues to {_named(attach[number])}"
        )
    return ("attach", first), (
        f"{told}: glue must not go round in a circle. Leave one of them out, choose points that nothing else "
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
    """Weighted sums of the corners of the tetrahedra, or else triangles, whose middles are nearest."""
    cells = getattr(other, "tets", None)
    cells = np.asarray(getattr(other, "faces", None) if cells is None else cells)
    middles = other.points[cells].mean(1)
    return bind_linear(other.points, targets, cells[cKDTree(middles).query(targets)[1]])
