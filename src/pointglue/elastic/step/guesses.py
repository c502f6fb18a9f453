"""Where soft bodies that nothing holds would be at the end of a step if they were rigid, to begin from."""

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...procrustes import Groups, special_procrustes
from ..bodies import ElasticBody
from ..model.solver_model import SolverModel

__all__ = ["free_bodies", "turned_bodies"]

MIN_TURN = 0.01  # rad: a soft body that turns by less is stretched by less than 1e-4 if it goes straight on


def free_bodies(model: SolverModel) -> Groups | None:
    """Return the particles of each soft body of which none is pinned, or None if there is no such body."""
    rows = [model.rows[body.name] for body in model.bodies if isinstance(body, ElasticBody)]
    free = [np.arange(each.start, each.stop) for each in rows if not model.pinned[each].any()]
    return Groups.from_lists(free) if free else None


def turned_bodies(
    model: SolverModel, groups: Groups, x: Array, target: Array
) -> tuple[NDArray[np.int64], Array] | None:
    """Return where bodies are that move rigidly, as near to a target as they get.

    Parameters
    ----------
    model : SolverModel
        All bodies.
    groups : Groups
        The particles of the bodies.
    x, target : (N, 3)
        Where all particles are, and where they would go without forces [m].

    Returns
    -------
    rows : (n,)
        The particles of the bodies.
    positions : (n, 3)
        Where they go [m]; None stands for both if no body turns by more than MIN_TURN.
    """
    rows, of, starts = groups.indices, groups.group_of, groups.offsets[:-1]
    shares = model.mass[rows, None] / np.add.reduceat(model.mass[rows], starts)[of, None]
    ends = (x[rows], target[rows])
    centers = [np.add.reduceat(shares * points, starts) for points in ends]
    arms, pulled = (points - center[of] for points, center in zip(ends, centers, strict=True))
    moments = np.add.reduceat((shares * pulled)[:, :, None] * arms[:, None, :], starts)
    turns = special_procrustes(moments, on_degenerate="clamp")
    if np.abs(turns - np.eye(3)).max() <= MIN_TURN:
        return None
    return rows, np.einsum("eij,ej->ei", turns[of], arms) + centers[1][of]
