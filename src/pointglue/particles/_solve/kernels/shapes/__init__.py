"""Geometry of single particles: ellipsoids, rotations, distances."""
