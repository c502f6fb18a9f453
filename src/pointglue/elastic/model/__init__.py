"""The model that the solver has of all bodies: particles, rigid bodies, degrees of freedom, bonds."""
