"""Compiled loops of the particle solver."""
