"""Simulation duct tape: points that follow deforming objects, and forces that go back to them."""

from .binding import Binding, BoundPose
from .glue import Glue, GluePose, bind_glue

__all__ = ["Binding", "BoundPose", "Glue", "GluePose", "bind_glue"]
