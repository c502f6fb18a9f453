"""Shapes and what can be measured on them."""

from . import shapes

__all__ = ["shapes"]
