"""Shapes and what can be measured on them."""

from . import bvh, cages, inside, moments, normals, partition, sampling, shapes, simplices, welding, winding

__all__ = [
    "bvh",
    "cages",
    "inside",
    "moments",
    "normals",
    "partition",
    "sampling",
    "shapes",
    "simplices",
    "welding",
    "winding",
]
