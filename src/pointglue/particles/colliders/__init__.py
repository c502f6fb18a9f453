"""Colliders as the particle solver uses them: primitive solids and meshes."""
