"""Meshes, primitive shapes, distances inside a shape, sampling and cages.

The modules below are loaded on first use: what only welds vertices needs neither trees nor SciPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import (
        bvh,
        cages,
        inside,
        meshes,
        moments,
        normals,
        quaternions,
        rigid_motion,
        sampling,
        shapes,
        simplices,
        solids,
        welding,
        winding,
    )

__all__ = [
    "bvh", "cages", "inside", "meshes", "moments", "normals", "quaternions", "rigid_motion",
    "sampling", "shapes", "simplices", "solids", "welding", "winding",
]  # fmt: skip

if not TYPE_CHECKING:  # a type checker that saw this would believe in any name

    def __getattr__(name: str) -> Any:
        if name in __all__:
            return import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
