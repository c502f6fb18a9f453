"""Files: meshes of any format that trimesh reads, and the handles that move them."""

from .handles import Handles, read_handles
from .meshes import Mesh, Output, Part, open_output, read_mesh

__all__ = ["Handles", "Mesh", "Output", "Part", "open_output", "read_handles", "read_mesh"]
