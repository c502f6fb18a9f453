"""Elastic pieces: lattices of beams with a Young's modulus, stepped implicitly, and their contacts."""
