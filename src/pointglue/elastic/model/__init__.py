"""The solver's model of all bodies: particles, rigid bodies, degrees of freedom, bonds."""
