"""Compiled loops of the energies, one module for each."""
