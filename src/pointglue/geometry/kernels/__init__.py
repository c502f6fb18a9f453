"""Compiled loops of geometry: over trees, inside shapes, and of cages."""
