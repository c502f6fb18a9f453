"""Meshes from files: a deformation moves vertices, everything else about them stays as it was.

The files are read by trimesh. Some of its defects, seen with version 5.2, are corrected here; each function
says which.
"""

import io
import json
import logging
import os
import re
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import trimesh
from trimesh.exchange.load import mesh_formats
from trimesh.visual.color import to_rgba
from trimesh.visual.material import empty_material

from ...checks import Array
from ...errors import InputError, MissingDependencyError, PointglueError, PointglueWarning

__all__ = ["Mesh", "Part", "UniqueNames", "mesh_of_scene", "read_mesh"]

# The attributes of trimesh's materials that hold images.
IMAGES = (
    "image",
    "baseColorTexture",
    "emissiveTexture",
    "metallicRoughnessTexture",
    "normalTexture",
    "occlusionTexture",
)


@dataclass(frozen=True, eq=False)
class Part:
    """Triangles of one material.

    Parameters
    ----------
    name : str
        The name of the object, which no other part of the mesh has.
    vertices : (n, 3)
        Where the vertices are.
    faces : (m, 3)
        The vertices of each triangle.
    normals : (n, 3) or None
        Unit normals of the vertices, if the file has them.
    colors : (n, 4) of uint8 or None
        Red, green, blue and alpha of the vertices.
    face_colors : (m, 4) of uint8 or None
        Red, green, blue and alpha of the triangles.
    uv : (n, 2) or None
        Texture coordinates.
    material : object or None
        The material, as trimesh has it.
    """

    name: str
    vertices: Array
    faces: Array
    normals: Array | None = None
    colors: Array | None = None
    face_colors: Array | None = None
    uv: Array | None = None
    material: Any = None


@dataclass(frozen=True, eq=False)
class Mesh:
    """The content of a mesh file.

    Parameters
    ----------
    parts : tuple of Part
        One part, or one for every object and material, in the coordinates of the file.
    """

    parts: tuple[Part, ...]

    @cached_property
    def vertices(self) -> Array:
        """The vertices (V, 3) of all parts, one part after the other."""
        return np.concatenate([part.vertices for part in self.parts])

    @cached_property
    def faces(self) -> Array:
        """The triangles (m, 3) of all parts, as rows of `vertices`."""
        starts = np.cumsum([0] + [len(part.vertices) for part in self.parts])
        return np.concatenate([part.faces + start for part, start in zip(self.parts, starts, strict=False)])

    @cached_property
    def normals(self) -> Array | None:
        """The normals (V, 3) of all parts, zero in those that have none; None if no part has any."""
        if all(part.normals is None for part in self.parts):
            return None
        zero = [np.zeros_like(part.vertices) if part.normals is None else part.normals for part in self.parts]
        return np.concatenate(zero)

    def moved(self, vertices: Array, normals: Array | None = None) -> "Mesh":
        """Return the same mesh with other `vertices` (V, 3) and `normals` (V, 3)."""
        ends = np.cumsum([len(part.vertices) for part in self.parts])[:-1]
        vertices_of = np.split(vertices, ends)
        normals_of = [None] * len(vertices_of) if normals is None else np.split(normals, ends)
        return Mesh(
            tuple(
                replace(part, vertices=own, normals=None if part.normals is None else normal)
                for part, own, normal in zip(self.parts, vertices_of, normals_of, strict=True)
            )
        )


class UniqueNames:
    """A source of unique names: a name that has been given already gets a number."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._numbers: dict[str, int] = {}

    def new(self, name: str) -> str:
        """Return `name`, or the first of `name_2`, `name_3`... that has not been given yet."""
        number, other = self._numbers.get(name, 1), name
        while other in self._given:
            number += 1
            other = f"{name}_{number}"
        self._numbers[name] = (
            number  # where to search next time, or a thousand equal names would take a million tries
        )
        self._given.add(other)
        return other


def read_mesh(path: str | os.PathLike[str]) -> Mesh:
    """Read a mesh of any format that trimesh reads.

    Parameters
    ----------
    path : str or path
        The file; its ending is the format.

    Returns
    -------
    Mesh
        Polygons are split into triangles; vertices are in the order of the file.

    Raises
    ------
    InputError
        If the file is missing, damaged, of an unknown format or holds no triangles; the message names it.
    MissingDependencyError
        If the format needs a package that is missing.

    Warns
    -----
    PointglueWarning
        If a texture or a library of materials that the file names is missing.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{file}: {'is a folder, not a mesh' if file.is_dir() else 'no such file'}")
    kind = file.suffix.lower()
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    try:
        if kind == ".ply":
            parts = _read_ply(file)
        elif kind == ".obj":
            parts = _read_obj(file)
        else:
            if kind == ".gltf":
                json.loads(file.read_bytes())  # of other content, trimesh says: FileNotFoundError: model.gltf
            parts = _parts(_scene(file))
    except PointglueError:
        raise
    except ImportError as error:
        raise MissingDependencyError(f"{file}: {_line(error)}") from error
    except Exception as error:  # trimesh raises errors of any type for broken files
        if kind[1:] not in mesh_formats():
            known = ", ".join(f".{name}" for name in sorted(mesh_formats()) if "_" not in name)
            raise InputError(f"{file}: is of no format that trimesh reads, {known}") from error
        raise InputError(f"{file}: cannot be read as {kind}: {_line(error)}") from error
    if not parts:
        raise InputError(f"{file}: holds no triangles")
    for part in parts:
        if not np.isfinite(part.vertices).all():
            k = int(np.argwhere(~np.isfinite(part.vertices))[0, 0])
            raise InputError(f"{file}: vertex {k} is not finite: {part.vertices[k].tolist()}")
        if part.faces.min() < 0 or part.faces.max() >= len(part.vertices):
            raise InputError(
                f"{file}: faces must index the {len(part.vertices)} vertices, "
                f"got {part.faces.min()} to {part.faces.max()}"
            )
    return Mesh(tuple(parts))


def mesh_of_scene(scene: Any) -> Mesh:
    """Return the triangles of a scene of trimesh, each mesh where the scene has it.

    Parameters
    ----------
    scene : trimesh.Scene
        The scene.

    Returns
    -------
    Mesh
        One part for each mesh of the scene.

    Raises
    ------
    InputError
        If it holds no triangles.
    """
    parts = _parts(scene)
    if not parts:
        raise InputError("mesh must have faces, got a scene without triangles")
    return Mesh(tuple(parts))


def _scene(file: Path, **options: Any) -> Any:
    """Return a file as a scene of trimesh.

    trimesh logs and warns of what our messages say, and reads on after broken numbers; neither happens here.
    """
    log, silence = logging.getLogger("trimesh"), logging.NullHandler()
    log.addHandler(silence)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", "string or file could not be read", DeprecationWarning)
            return trimesh.load(str(file), force="scene", process=False, **options)
    finally:
        log.removeHandler(silence)


def _parts(scene: Any) -> list[Part]:
    """Return the triangle meshes of a scene, in the coordinates of the scene."""
    parts: list[Part] = []
    order = {key: k for k, key in enumerate(scene.geometry)}
    names = UniqueNames()
    for transform, key in sorted(_placements(scene.graph), key=lambda item: order[item[1]]):
        shape = scene.geometry[key]
        if not isinstance(shape, trimesh.Trimesh) or not len(shape.faces):
            continue  # points and lines
        parts.append(_part(names.new(str(key)), shape, transform))
    return parts


def _placements(graph: Any) -> list[tuple[Array, Any]]:
    """Return the matrix (4, 4) to the scene of every node that has a geometry, and the geometry's name.

    trimesh multiplies the matrices from the root to each node by numpy.linalg.multi_dot, whose search for the
    best order takes the cube of their number: a chain of 200 bones took half a minute. Here each node is
    placed once, from its parent.
    """
    forest = graph.transforms
    placed: dict[Any, Array] = {graph.base_frame: np.eye(4)}
    for node in graph.nodes_geometry:
        chain = [node]  # up to the first that is placed already
        while chain[-1] not in placed:
            chain.append(forest.parents[chain[-1]])
            if len(chain) > len(forest.node_data):
                raise InputError("its nodes are children of each other")
        for parent, child in pairwise(reversed(chain)):
            placed[child] = placed[parent] @ forest.edge_data[parent, child].get("matrix", np.eye(4))
    return [(placed[node], forest.node_data[node]["geometry"]) for node in graph.nodes_geometry]


def _part(name: str, shape: Any, transform: Array) -> Part:
    """Return one mesh of a scene, in the coordinates of the scene."""
    size, visual = len(shape.vertices), shape.visual
    normals = np.array(shape.vertex_normals) if _has_normals(shape) else None
    part = _placed(Part(name, np.array(shape.vertices), np.array(shape.faces), normals), transform)
    if visual.kind == "vertex":
        return replace(part, colors=np.array(visual.vertex_colors))
    if visual.kind == "face":
        return replace(part, face_colors=np.array(visual.face_colors))
    if visual.kind != "texture":
        return part
    if find_spec("PIL") is None:
        raise ImportError("textures and materials need Pillow: pip install pillow")
    uv, colors = visual.uv, shape.vertex_attributes.get("color")
    if colors is None and "color" in visual.vertex_attributes:
        colors = visual.vertex_attributes["color"]
    return replace(
        part,
        uv=np.array(uv) if np.shape(uv) == (size, 2) else None,
        colors=np.array(to_rgba(np.array(colors))) if np.shape(colors)[:1] == (size,) else None,
        material=_material(visual.material),
    )


def _has_normals(shape: Any) -> bool:
    """Return whether a mesh of trimesh has normals of its own.

    trimesh computes `vertex_normals` where the file has none, and does not say so. But its PLY writer leaves
    computed ones out, unless they have been asked for before.
    """
    content = shape.export(file_type="ply", include_attributes=False)
    return b"property float nx" in content.partition(b"end_header")[0]


def _placed(part: Part, transform: Array) -> Part:
    """Return a part moved by a matrix (4, 4), which may stretch and mirror it."""
    if np.array_equal(transform, np.eye(4)):
        return part
    linear = transform[:3, :3]
    volume, normals = np.linalg.det(linear), None
    if part.normals is not None and volume != 0:
        normals = part.normals @ np.linalg.inv(linear)
        length = np.linalg.norm(normals, axis=1, keepdims=True)
        normals = np.divide(normals, length, out=np.zeros_like(normals), where=length > 0)
    return replace(
        part,
        vertices=part.vertices @ linear.T + transform[:3, 3],
        faces=part.faces[:, ::-1] if volume < 0 else part.faces,
        normals=normals,
    )


def _material(material: Any) -> Any:
    """Return a material, or None for the grey one that trimesh puts where a file has none."""
    if hash(material) == hash(empty_material()):
        return None
    for key in IMAGES:
        image = getattr(material, key, None)
        if image is not None and "save" not in vars(image):
            _encode_once(image)
    return material


def _encode_once(image: Any) -> None:
    """Let an image keep its file for the next frame, and a JPEG its quality.

    trimesh's glTF writer encodes every image again for every frame, and JPEG at Pillow's quality of 75.
    """
    encode, known = image.save, {}

    def save(fp: IO[bytes], format: str) -> None:
        if format not in known:
            same = format.upper() == "JPEG" and image.format == "JPEG"
            encoded = io.BytesIO()
            encode(encoded, format=format, **({"quality": "keep"} if same else {}))
            known[format] = encoded.getvalue()
        fp.write(known[format])

    image.save = save


def _read_ply(file: Path) -> list[Part]:
    """Return the part of a PLY file.

    Texture coordinates may belong to corners of triangles. trimesh then splits vertices (`fix_texture`), but
    drops their normals and leaves their colours as many as they were; without splitting, the coordinates are
    wrong. So the file is read both ways.
    """
    with file.open("rb") as opened:
        header = opened.read(100_000).partition(b"end_header")[0]
    for name in re.findall(rb"(?i)TextureFile[ \t]+([^\r\n]+)", header):
        _check_image(file, os.fsdecode(name.strip()))
    parts = _parts(_scene(file, fix_texture=False))
    if not parts or not re.search(rb"property\s+list\s+\S+\s+\S+\s+texcoord", header):
        return parts
    (whole,), (split,) = parts, _parts(_scene(file, fix_texture=True))
    source = np.minimum(np.arange(len(split.vertices)), len(whole.vertices) - 1)
    source[split.faces] = whole.faces
    normals, colors = (None if field is None else field[source] for field in (whole.normals, whole.colors))
    return [replace(split, normals=normals, colors=colors)]


def _read_obj(file: Path) -> list[Part]:
    """Return the parts of an OBJ file.

    trimesh drops vertices that no face uses, unless told to `maintain_order`, which keeps all vertices in
    every part; it returns the parts of several materials in reverse; and it says nothing of libraries of
    materials and of textures that are missing.
    """
    text = file.read_bytes()
    for name in _values(rb"mtllib", text):
        library = file.parent / os.fsdecode(name)
        if not library.is_file():
            _warn(f"{file}: there is no {library}: its materials are lost")
            continue
        for image in _values(rb"(?i:map_Kd)", library.read_bytes()):
            _check_image(file, os.fsdecode(image))
    # Unused vertices can be kept unless vertices are split: by texture coordinates and normals, which have
    # indices of their own, or by materials.
    unsplit = re.search(rb"(?m)^[ \t]*v[tn][ \t]", text) is None
    parts = _parts(_scene(file, maintain_order=unsplit))
    if unsplit and len(parts) > 1:
        parts = _parts(_scene(file))
    return parts[::-1]


def _values(key: bytes, text: bytes) -> list[bytes]:
    """Return the values of the lines that begin with a key, which is a regular expression.

    Spaces are matched within a line only: over many empty lines, the search would take the square of them.
    """
    found = re.findall(rb"(?m)^[ \t]*" + key + rb"[ \t]+([^\r\n]*)", text)
    return [value for each in found if (value := each.strip())]


def _check_image(file: Path, name: str) -> None:
    """Warn of a texture that is missing."""
    if not (file.parent / name).is_file():
        _warn(f"{file}: there is no {file.parent / name}: this texture is lost")


def _warn(message: str) -> None:
    warnings.warn(message, PointglueWarning, stacklevel=4)


def _line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
