"""Meshes, primitive shapes, distances inside a shape, sampling and cages."""

from . import bvh, cages, inside, moments, normals, sampling, shapes, simplices, welding, winding

__all__ = [
    "bvh",
    "cages",
    "inside",
    "moments",
    "normals",
    "sampling",
    "shapes",
    "simplices",
    "welding",
    "winding",
]
