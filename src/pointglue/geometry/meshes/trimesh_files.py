"""Meshes as trimesh reads them, and its scenes.

Some defects of trimesh, seen with version 5.2, are corrected here; each function says which.
"""

import io
import json
import logging
import os
import re
import warnings
from dataclasses import replace
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
from ...errors import InputError, PointglueWarning
from .mesh_parts import Mesh, Part, UniqueNames

__all__ = ["mesh_of_scene", "read_parts", "readable_kinds"]

# The attributes of trimesh's materials that hold images.
IMAGES = (
    "image",
    "baseColorTexture",
    "emissiveTexture",
    "metallicRoughnessTexture",
    "normalTexture",
    "occlusionTexture",
)


def readable_kinds() -> list[str]:
    """Return the endings of the formats that trimesh reads."""
    return sorted(f".{name}" for name in mesh_formats())


def read_parts(file: Path) -> list[Part]:
    """Return the parts of a file of any format that trimesh reads.

    Parameters
    ----------
    file : Path
        The file; its ending is the format.

    Returns
    -------
    list of Part

    Raises
    ------
    Exception
        trimesh raises errors of any type for broken files.
    """
    kind = file.suffix.lower()
    if kind == ".ply":
        return _read_ply(file)
    if kind == ".obj":
        return _read_obj(file)
    if kind == ".gltf":
        json.loads(file.read_bytes())  # of other content, trimesh says: FileNotFoundError: model.gltf
    return _parts(_scene(file))


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
