"""Files: meshes of any format that trimesh reads, the handles that move them, and bodies of particles."""

from .bodies import load_body, save_body
from .handles import Handles, read_handles
from .meshes import Mesh, Output, Part, open_output, read_mesh

__all__ = [
    "Handles",
    "Mesh",
    "Output",
    "Part",
    "load_body",
    "open_output",
    "read_handles",
    "read_mesh",
    "save_body",
]
