"""The frames of bound points that damped springs pull at, told by four more bound points each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...glue import Attachment, Binding, Glue, bind_glue
from ...procrustes import Groups

__all__ = ["FRAME_POINTS", "SpringFrames", "frame_attachment"]

# (4, 3): corners of a tetrahedron, which sum to zero and whose products v v^T sum to the identity.
FRAME_POINTS = 0.5 * np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])


@dataclass(frozen=True, eq=False)
class SpringFrames:
    """The points that tell the frames of damped springs.

    Bound to the parents of a spring's bound point, at distance `reach` along `FRAME_POINTS`, they are at
    f_k = g + reach R v_k: so the rotation is R = sum f_k v_k^T / reach, a linear function of them.

    Parameters
    ----------
    springs : (D,)
        Which springs are damped.
    points : (D, 4)
        Rows of the four points of each among all particles.
    reach : (D,)
        How far they are from the bound point at rest [m].
    """

    springs: NDArray[np.int64]
    points: NDArray[np.int64]
    reach: Array


def frame_attachment(binding: Binding, first: int) -> tuple[Attachment, Array]:
    """Return the four points of each target's frame as an attachment, and how far they are from it.

    Parameters
    ----------
    binding : Binding
        Glue, or a linear binding, of T targets.
    first : int
        The row of the first of the 4 T points.

    Returns
    -------
    attachment : Attachment
        The points of all frames, bound to the parents of their targets.
    reach : (T,)
        The distance of the points from their target at rest [m].
    """
    rest = binding.shape.rest if isinstance(binding, Glue) else binding.rest  # type: ignore[attr-defined]
    parents = binding.parents
    arms = np.linalg.norm(rest[parents.indices] - binding.targets[parents.group_of], axis=1)
    reach = np.maximum.reduceat(arms, parents.offsets[:-1])
    points = (binding.targets[:, None] + reach[:, None, None] * FRAME_POINTS).reshape(-1, 3)
    four = np.repeat(np.arange(len(binding)), len(FRAME_POINTS))
    if isinstance(binding, Glue):
        glue = Glue(binding.shape.take(four), points, binding.on_degenerate, binding.min_gap)
    else:
        groups: Groups = parents.take(four)[0]
        glue = bind_glue(rest, points, indices=groups)
    return Attachment(first + np.arange(len(points)), glue), reach
