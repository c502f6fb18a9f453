"""Bindings of bonds: moved among all particles of the model, given other targets, merged into few layers."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...errors import InputError
from ...glue import Binding, Embedding, Glue, bind_glue
from ...glue.linear import LinearBinding
from ...procrustes import Groups, RestShape

__all__ = ["Layer", "among_particles", "merged_layers", "shifted_binding", "with_targets"]

Layer = tuple[NDArray[np.int64], Binding]
"""The rows of bound particles, and the binding that they follow."""


def among_particles(binding: Binding | None, positions: Array, offset: int) -> list[Layer]:
    """Return a binding in parts of one kind, with parents among all particles.

    Parameters
    ----------
    binding : Binding
        The binding of a bond, whose parents are rows of one body.
    positions : (n, 3)
        The rest positions of all particles [m].
    offset : int
        The row of the body's first particle.

    Returns
    -------
    list of (rows, binding)
        The parts, each with the rows of its targets in the binding.
    """
    if isinstance(binding, Embedding):
        return [
            (rows[inner], part)
            for rows, piece in binding.parts
            for inner, part in among_particles(piece, positions, offset)
        ]
    assert binding is not None
    return [(np.arange(len(binding)), shifted_binding(binding, positions, offset))]


def shifted_binding(binding: Binding, positions: Array, offset: int) -> Any:
    """Return glue or a linear binding whose parents are the particles from row `offset` on."""
    groups = Groups(binding.parents.offsets, binding.parents.indices + offset)
    if isinstance(binding, LinearBinding):
        return LinearBinding(positions, binding.targets, groups, binding.weights)
    if not isinstance(binding, Glue):
        raise InputError(f"binding must be of glue, linear or an embedding, got {type(binding).__name__}")
    rest = positions.copy()
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


def with_targets(binding: Binding, targets: Array) -> Binding:
    """Return glue with other targets at rest (n, 3) [m]; a linear binding is returned as it is."""
    return replace(binding, targets=targets) if isinstance(binding, Glue) else binding


def merged_layers(layers: list[Layer]) -> list[Layer]:
    """Return layers in which glue of one kind is one binding, so that it is evaluated at once."""
    kinds: dict[Any, list[tuple[NDArray[np.int64], Glue]]] = {}
    out: list[Layer] = []
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
