"""Shapes and what can be measured on them."""

from . import cages, inside, models, sampling, shapes, simplices, trees

__all__ = ["cages", "inside", "models", "sampling", "shapes", "simplices", "trees"]
