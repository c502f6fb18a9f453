"""Handle deformation: drag points, and a mesh or point cloud follows as rigidly as it can."""

from .deformer import HandleDeformer
from .distances import InsideShape, inside_distances
from .pose import HandlePose
from .sequence import HandleSequence
from .skeleton import Skeleton
from .streaming import deform_cloud

__all__ = [
    "HandleDeformer",
    "HandlePose",
    "HandleSequence",
    "InsideShape",
    "Skeleton",
    "deform_cloud",
    "inside_distances",
]
