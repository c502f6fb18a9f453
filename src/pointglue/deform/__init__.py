"""Handle deformation: drag points, and a mesh or point cloud follows as rigidly as it can."""

from .deformer import HandleDeformer, HandlePose
from .distances import inside_distances
from .skeleton import Skeleton
from .streaming import deform_cloud

__all__ = ["HandleDeformer", "HandlePose", "Skeleton", "deform_cloud", "inside_distances"]
