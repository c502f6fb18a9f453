"""Handle deformation: drag points, and a mesh or point cloud follows as rigidly as it can."""

from .deformer import HandleDeformer, HandlePose
from .distances import inside_distances

__all__ = ["HandleDeformer", "HandlePose", "inside_distances"]
