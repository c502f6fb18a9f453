"""Things that particles collide with: primitive shapes and meshes, at rest or moving."""
