"""Simulation duct tape: points that follow deforming objects, and forces that go back to them."""

from .assembly import Assembly, AssemblyPose, BodyFrames
from .attachments import Attachment, Spring, Springs, assemble
from .binding import Binding, BoundPose
from .embedding import Embedding, embed
from .glue import Glue, GluePose
from .gluing import bind_glue
from .joints import Joint, JointPose, bind_joint
from .linear import LinearBinding, bind_linear
from .sliders import Slider, bind_slider

__all__ = [
    "Assembly",
    "AssemblyPose",
    "Attachment",
    "Binding",
    "BodyFrames",
    "BoundPose",
    "Embedding",
    "Glue",
    "GluePose",
    "Joint",
    "JointPose",
    "LinearBinding",
    "Slider",
    "Spring",
    "Springs",
    "assemble",
    "bind_glue",
    "bind_joint",
    "bind_linear",
    "bind_slider",
    "embed",
]
