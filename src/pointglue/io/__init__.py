"""Files: meshes of any format that trimesh reads, handles, bodies of particles, and the frames of runs.

The names below are loaded on first use: a command that reads handles needs no particles, and trimesh takes
0.2 s to load.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..geometry.meshes.mesh_files import read_mesh
    from ..geometry.meshes.mesh_parts import Mesh, Part
    from .body_files import load_body, save_body
    from .checkpoints import load_checkpoint, save_checkpoint
    from .export import export_run
    from .frame_records import Frame, StoredObject
    from .frames import FrameStore
    from .handles import Handles, read_handles
    from .mesh_output import Output, open_output
    from .sequences import write_sequence
    from .stats import StatsLog
    from .usd import write_usd

_HOME = {
    "Frame": ".frame_records",
    "FrameStore": ".frames",
    "Handles": ".handles",
    "Mesh": "..geometry.meshes.mesh_parts",
    "Output": ".mesh_output",
    "Part": "..geometry.meshes.mesh_parts",
    "StatsLog": ".stats",
    "StoredObject": ".frame_records",
    "export_run": ".export",
    "load_body": ".body_files",
    "load_checkpoint": ".checkpoints",
    "open_output": ".mesh_output",
    "read_handles": ".handles",
    "read_mesh": "..geometry.meshes.mesh_files",
    "save_body": ".body_files",
    "save_checkpoint": ".checkpoints",
    "write_sequence": ".sequences",
    "write_usd": ".usd",
}

__all__ = [
    "Frame", "FrameStore", "Handles", "Mesh", "Output", "Part", "StatsLog", "StoredObject", "export_run",
    "load_body", "load_checkpoint", "open_output", "read_handles", "read_mesh", "save_body",
    "save_checkpoint", "write_sequence", "write_usd",
]  # fmt: skip

if not TYPE_CHECKING:  # a type checker that saw this would believe in any name

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            return getattr(import_module(_HOME[name], __name__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
