"""How glue is made: the parents of each target, their weights, and the checks of both."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Array, as_array, as_integers, as_reals, check_choice, check_integer, require_finite
from ..errors import InputError
from ..procrustes import Groups, RestShape
from ..procrustes.matrices import OnDegenerate, checked_policy
from .glue import Glue
from .parents import (
    LINE_GAP,
    Falloff,
    OnCollinear,
    adjacency,
    choose_parents,
    falloff_weights,
    named_parents,
    on_line,
    parents_within,
    refuse_lines,
)

__all__ = ["bind_glue"]


def bind_glue(
    rest_points: ArrayLike,
    targets: ArrayLike,
    *,
    parents: int = 8,
    indices: ArrayLike | Groups | None = None,
    radius: float | None = None,
    faces: ArrayLike | None = None,
    among: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    falloff: Falloff | None = None,
    on_collinear: OnCollinear = "widen",
    on_degenerate: OnDegenerate = "raise",
    min_gap: float | None = None,
) -> Glue:
    """Bind targets, anywhere in space, to points of a deforming object at rest.

    Parameters
    ----------
    rest_points : (N, d)
        Points of the object at rest [m], d = 2 or 3.
    targets : (T, d)
        Rest positions of the points to bind [m].
    parents : int
        How many of the nearest points set the reach of a target: with the default, smooth weights all points
        within r are its parents, r^2 = 1.2 d_k^2 + 0.5 d_1^2 by the distances of the nearest and of the k-th
        point; with others the nearest k and those that are as far as the k-th. Points at one distance are
        parents together or not at all.
    indices : (T, k) or Groups, optional
        The parents of each target by name, rows of `rest_points`.
    radius : float, optional
        All points within this distance are parents [m].
    faces : (m, 3), optional
        Triangles of the object: neighbours are then sought along its surface, so that a point on one sleeve
        takes no parents from the other.
    among : (n,), optional
        The points that may be parents at all.
    weights : (T, k) or (E,), optional
        Weight of each parent, shaped as `indices`, else in the order of the result's `parents`.
    falloff : {"smooth", "uniform", "inverse"}, optional
        How weights follow from the distance where they are not given: "smooth" fades out towards points that
        are not parents, so that targets side by side move alike though their parents differ; where all
        points are parents they weigh the same. "inverse" favours the nearest. By default "smooth", and
        "uniform" for parents that are named by `indices` or have `weights`.
    on_collinear : {"widen", "raise"}
        Nearest points that lie close to a line make no frame: take more of them until they do, or raise.
        Where there are none off the line, a target on it is bound all the same, without a frame.
    on_degenerate : {"raise", "clamp"}
    min_gap : float, optional
        What happens when parents collapse later on, as in :func:`~pointglue.fit_rigid`.

    Returns
    -------
    Glue
        The binding of the T targets.

    Raises
    ------
    InputError
        If the arguments do not go together.
    DegenerateFitError
        If the parents of a target lie on a line at rest, and the target does not.
    """
    rest, bound = _rows("rest_points", rest_points), _rows("targets", targets)
    d = rest.shape[1]
    if bound.shape[1] != d:
        raise InputError(f"targets must have {d} coordinates like rest_points, got shape {bound.shape}")
    if sum(option is not None for option in (indices, radius, faces)) > 1:
        raise InputError("indices, radius and faces are three ways to choose parents: give one of them")
    if among is not None and (indices is not None or faces is not None):
        raise InputError("among narrows the search for nearest points: leave it out with indices or faces")
    checked_policy(on_degenerate, min_gap, rest.dtype)
    if falloff is None:
        falloff = "smooth" if indices is None and weights is None else "uniform"
    check_choice("falloff", falloff, ("uniform", "smooth", "inverse"))
    check_choice("on_collinear", on_collinear, ("widen", "raise"))
    if indices is not None:
        chosen = named_parents(rest, bound, _checked_parents(indices, len(bound), len(rest), d))
    else:
        allowed = None if among is None else _allowed(among, len(rest))
        pool = rest if allowed is None else rest[allowed]
        if len(pool) < d:
            raise InputError(f"{'among' if among is not None else 'rest_points'} must hold at least {d} "
                             f"points to make a frame, got {len(pool)}")  # fmt: skip
        if radius is not None:
            chosen = parents_within(pool, bound, radius)
        else:
            number = check_integer("parents", parents, at_least=d)
            edges = None if faces is None else adjacency(faces, len(rest))
            chosen = choose_parents(pool, bound, number, falloff, on_collinear, edges)
        if allowed is not None:
            groups = Groups(chosen.groups.offsets, allowed[chosen.groups.indices])
            chosen = replace(chosen, groups=groups)
    groups = chosen.groups
    # In ascending order, as scipy likes its columns: it sorts others in place, and `out` would be lost.
    order = np.argsort(groups.group_of * len(rest) + groups.indices)
    groups = Groups(groups.offsets, groups.indices[order])
    if weights is None:
        per_entry = falloff_weights(rest, bound, groups, falloff, chosen.reach)
    else:
        given = as_reals("weights", weights)
        shapes = {groups.indices.shape}
        if indices is not None and not isinstance(indices, Groups):
            shapes.add(np.shape(indices))
        if given.shape not in shapes:
            raise InputError(
                f"weights must hold one number per parent, {len(groups.indices)} in all"
                f"{', shaped as indices' if len(shapes) > 1 else ''}, got shape {given.shape}"
            )
        per_entry = given.reshape(-1) if indices is None else given.reshape(-1)[order]
    shape = RestShape(rest, per_entry, groups=groups)
    if indices is not None or radius is not None or weights is not None:  # others are chosen to make one
        gap = np.where(on_line(shape, bound), 2.0, shape.fit(rest, on_degenerate="clamp").gap)
        refuse_lines(gap, groups, np.arange(len(bound)), LINE_GAP, "Choose, or weigh, some off that line.")
    bound.flags.writeable = False
    return Glue(shape, bound, on_degenerate, min_gap)


def _rows(name: str, value: ArrayLike) -> Array:
    """Return checked points, copied: an engine's own array would move under the binding."""
    given = np.array(as_reals(name, value))
    if given.ndim != 2 or given.shape[1] not in (2, 3) or len(given) == 0:
        raise InputError(f"{name} must have shape (n, 3) or (n, 2), at least one row, got {given.shape}")
    require_finite(name, given)
    return given


def _allowed(among: ArrayLike, count: int) -> NDArray[np.int64]:
    rows = as_integers("among", among)
    if rows.size and (rows.min() < 0 or rows.max() >= count):
        wrong = rows.min() if rows.min() < 0 else rows.max()
        raise InputError(f"among must name rows of the {count} rest_points, got {wrong}")
    return np.unique(rows)


def _checked_parents(indices: ArrayLike | Groups, targets: int, points: int, least: int) -> Groups:
    if isinstance(indices, Groups):
        groups = indices
    else:
        rows = as_array("indices", indices)
        if rows.ndim != 2 or len(rows) != targets or rows.shape[1] < 1:
            raise InputError(f"indices must be Groups or have shape ({targets}, k), got shape {rows.shape}")
        groups = Groups(np.arange(len(rows) + 1) * rows.shape[1], as_integers("indices", rows.ravel()))
    if len(groups) != targets:
        raise InputError(f"indices must name the parents of {targets} targets, got {len(groups)}")
    if groups.indices.max() >= points:
        entry = int(groups.indices.argmax())
        raise InputError(
            f"indices must name rows of the {points} rest_points, "
            f"got {groups.indices[entry]} for target {groups.group_of[entry]}"
        )
    repeat = groups.first_repeat()
    if repeat is not None:
        k, parent = repeat
        raise InputError(f"indices: target {k} names parent {parent} twice; give it a larger weight instead")
    if groups.sizes.min() < least:
        k = int(groups.sizes.argmin())
        raise InputError(f"indices: target {k} has {groups.sizes[k]} parents, and a frame needs {least}")
    return groups
