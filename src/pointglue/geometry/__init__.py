"""Shapes and what can be measured on them."""

from . import inside, models, sampling, shapes, simplices, trees

__all__ = ["inside", "models", "sampling", "shapes", "simplices", "trees"]
