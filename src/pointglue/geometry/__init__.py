"""Shapes and what can be measured on them."""

from . import shapes, simplices, trees

__all__ = ["shapes", "simplices", "trees"]
