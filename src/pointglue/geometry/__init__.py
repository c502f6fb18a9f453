"""Shapes and what can be measured on them."""

from . import bvh, cages, inside, moments, sampling, shapes, simplices

__all__ = ["bvh", "cages", "inside", "moments", "sampling", "shapes", "simplices"]
