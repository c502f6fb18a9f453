"""Files: meshes of any format that trimesh reads, handles, bodies of particles, and the frames of runs."""

from .bodies import load_body, save_body
from .checkpoints import load_checkpoint, save_checkpoint
from .export import export_run
from .frames import Frame, FrameStore, Look
from .handles import Handles, read_handles
from .mesh_output import Output, open_output
from .meshes import Mesh, Part, read_mesh
from .sequences import write_sequence
from .stats import StatsLog
from .usd import write_usd

__all__ = [
    "Frame",
    "FrameStore",
    "Handles",
    "Look",
    "Mesh",
    "Output",
    "Part",
    "StatsLog",
    "export_run",
    "load_body",
    "load_checkpoint",
    "open_output",
    "read_handles",
    "read_mesh",
    "save_body",
    "save_checkpoint",
    "write_sequence",
    "write_usd",
]
