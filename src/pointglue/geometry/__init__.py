"""Shapes and what can be measured on them."""

from . import shapes, simplices

__all__ = ["shapes", "simplices"]
