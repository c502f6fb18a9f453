"""Compiled loops of contact: distances, barrier, friction, impacts, and the search for pairs."""
