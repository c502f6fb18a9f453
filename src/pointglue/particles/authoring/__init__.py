"""Bodies of particles made from meshes, edited, and skinned."""
