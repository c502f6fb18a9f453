"""Compiled loops of motion: integration, rotors, islands, sleep, and the forces of wind and water."""
