"""Whole meshes: as files and objects of trimesh have them, and the shells that they are made of.

The modules are loaded on first use: trimesh takes 0.2 s.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import mesh_files, mesh_inputs, mesh_parts, shells

__all__ = ["mesh_files", "mesh_inputs", "mesh_parts", "shells"]

if not TYPE_CHECKING:  # a type checker that saw this would believe in any name

    def __getattr__(name: str) -> Any:
        if name in __all__:
            return import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
