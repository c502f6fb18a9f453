"""Handle deformation: drag points, and a mesh or point cloud follows as rigidly as it can."""

from typing import TYPE_CHECKING, Any

from .deformer import HandleDeformer
from .distances import inside_distances
from .pose import HandlePose
from .sequence import HandleSequence
from .skeleton import Skeleton
from .streaming import deform_cloud

if TYPE_CHECKING:
    from .inside_shape import InsideShape

__all__ = [
    "HandleDeformer",
    "HandlePose",
    "HandleSequence",
    "InsideShape",
    "Skeleton",
    "deform_cloud",
    "inside_distances",
]

if not TYPE_CHECKING:  # a type checker that saw this would believe in any name

    def __getattr__(name: str) -> Any:
        if name == "InsideShape":  # loaded on first use, and SciPy with it, which takes 0.3 s
            from .inside_shape import InsideShape

            return InsideShape
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
