"""Files: meshes of any format that trimesh reads, handles, bodies of particles, and the frames of runs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .body_files import load_body, save_body
from .checkpoints import load_checkpoint, save_checkpoint
from .export import export_run
from .frame_records import Frame, StoredObject
from .frames import FrameStore
from .handles import Handles, read_handles
from .sequences import write_sequence
from .stats import StatsLog
from .usd import write_usd

if TYPE_CHECKING:
    from .mesh_output import Output, open_output
    from .meshes import Mesh, Part, read_mesh

__all__ = [
    "Frame",
    "FrameStore",
    "Handles",
    "Mesh",
    "Output",
    "Part",
    "StatsLog",
    "StoredObject",
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

_LATER = {
    "Mesh": "meshes",
    "Output": "mesh_output",
    "Part": "meshes",
    "open_output": "mesh_output",
    "read_mesh": "meshes",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load what reads and writes meshes when it is asked for: trimesh takes 0.2 s to load."""
        if name in _LATER:
            return getattr(import_module(f".{_LATER[name]}", __name__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
