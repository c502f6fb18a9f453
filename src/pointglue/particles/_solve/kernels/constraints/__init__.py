"""Compiled loops of the constraints within a body: shape matching, lengths, twists, lattices of beams."""
