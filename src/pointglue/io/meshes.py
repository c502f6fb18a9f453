"""Meshes from files: a deformation moves vertices, everything else about them stays as it was."""

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

from ..checks import Array
from ..errors import InputError, MissingDependencyError, PointglueError, PointglueWarning

__all__ = ["Mesh", "Part", "UniqueNames", "read_mesh"]

# Where a material of trimesh keeps its images.
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
    """Triangles of one material."""

    name: str
    vertices: Array
    """(n, 3)."""
    faces: Array
    """(m, 3)."""
    normals: Array | None = None
    """(n, 3), if the file has them."""
    colors: Array | None = None
    """(n, 4) of uint8: red, green, blue, alpha."""
    face_colors: Array | None = None
    """(m, 4) of uint8."""
    uv: Array | None = None
    """(n, 2) texture coordinates."""
    material: Any = None
    """trimesh's."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """What a mesh file holds: one part, or one for every object and material, in their places."""

    parts: tuple[Part, ...]

    @cached_property
    def vertices(self) -> Array:
        """(V, 3), part after part."""
        return np.concatenate([part.vertices for part in self.parts])

    @cached_property
    def faces(self) -> Array:
        """(m, 3) by the rows of `vertices`."""
        starts = np.cumsum([0] + [len(part.vertices) for part in self.parts])
        return np.concatenate([part.faces + start for part, start in zip(self.parts, starts, strict=False)])

    @cached_property
    def normals(self) -> Array | None:
        """(V, 3), 0 in parts without; None if no part has any."""
        if all(part.normals is None for part in self.parts):
            return None
        zero = [np.zeros_like(part.vertices) if part.normals is None else part.normals for part in self.parts]
        return np.concatenate(zero)

    def moved(self, vertices: Array, normals: Array | None = None) -> "Mesh":
        """The same mesh with other `vertices` (V, 3) and `normals` (V, 3)."""
        ends = np.cumsum([len(part.vertices) for part in self.parts])[:-1]
        places = np.split(vertices, ends)
        turned = [None] * len(places) if normals is None else np.split(normals, ends)
        return Mesh(
            tuple(
                replace(part, vertices=place, normals=None if part.normals is None else normal)
                for part, place, normal in zip(self.parts, places, turned, strict=True)
            )
        )


class UniqueNames:
    """Names that are given once: what is asked for again gets a number."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._numbers: dict[str, int] = {}

    def new(self, name: str) -> str:
        """Return `name`, or the first of `name_2`, `name_3`... that has not been given yet."""
        number, other = self._numbers.get(name, 1), name
        while other in self._given:
            number += 1
            other = f"{name}_{number}"
        self._numbers[name] = number  # where to look next time, so that a thousand like names take no square
        self._given.add(other)
        return other


def read_mesh(path: str | os.PathLike[str]) -> Mesh:
    """Read a mesh of any format that trimesh reads: polygons as triangles, vertices in the file's order."""
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
                json.loads(file.read_bytes())  # trimesh would speak of other files
            parts = _parts(_scene(file))
    except PointglueError:
        raise
    except ImportError as error:
        raise MissingDependencyError(f"{file}: {_line(error)}") from error
    except Exception as error:  # trimesh raises whatever a broken file makes it stumble over
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


def _scene(file: Path, **options: Any) -> Any:
    """The file as trimesh has it. trimesh is kept from talking, and from reading past broken numbers."""
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
    parts: list[Part] = []
    order = {key: k for k, key in enumerate(scene.geometry)}
    names = UniqueNames()
    for place, key in sorted(_places(scene.graph), key=lambda item: order[item[1]]):
        shape = scene.geometry[key]
        if not isinstance(shape, trimesh.Trimesh) or not len(shape.faces):
            continue  # points and lines
        parts.append(_part(names.new(str(key)), shape, place))
    return parts


def _places(graph: Any) -> list[tuple[Array, Any]]:
    """Return the matrix (4, 4) to the scene of every node that has a geometry, and the geometry's name.

    trimesh multiplies the matrices of each node's whole way by numpy.linalg.multi_dot, whose search for the
    best order takes the cube of their number: a chain of 200 bones took half a minute. Here each node is
    placed once, from its parent.
    """
    forest = graph.transforms
    placed: dict[Any, Array] = {graph.base_frame: np.eye(4)}
    for node in graph.nodes_geometry:
        way = [node]  # up to the first that has its place
        while way[-1] not in placed:
            way.append(forest.parents[way[-1]])
            if len(way) > len(forest.node_data):
                raise InputError("its nodes are children of each other")
        for parent, child in pairwise(reversed(way)):
            placed[child] = placed[parent] @ forest.edge_data[parent, child].get("matrix", np.eye(4))
    return [(placed[node], forest.node_data[node]["geometry"]) for node in graph.nodes_geometry]


def _part(name: str, shape: Any, place: Array) -> Part:
    """One mesh of a scene, moved to its place there."""
    size, visual = len(shape.vertices), shape.visual
    # Only the cache tells normals from the file from those that trimesh would make up.
    normals = np.array(shape.vertex_normals) if "vertex_normals" in shape._cache else None
    part = _placed(Part(name, np.array(shape.vertices), np.array(shape.faces), normals), place)
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


def _placed(part: Part, place: Array) -> Part:
    """The part, moved by a matrix (4, 4) that may stretch and mirror it."""
    if np.array_equal(place, np.eye(4)):
        return part
    linear = place[:3, :3]
    volume, normals = np.linalg.det(linear), None
    if part.normals is not None and volume != 0:
        normals = part.normals @ np.linalg.inv(linear)
        length = np.linalg.norm(normals, axis=1, keepdims=True)
        normals = np.divide(normals, length, out=np.zeros_like(normals), where=length > 0)
    return replace(
        part,
        vertices=part.vertices @ linear.T + place[:3, 3],
        faces=part.faces[:, ::-1] if volume < 0 else part.faces,
        normals=normals,
    )


def _material(material: Any) -> Any:
    """The material, unless it is what trimesh puts where there is none."""
    if hash(material) == hash(empty_material()):
        return None
    for key in IMAGES:
        image = getattr(material, key, None)
        if image is not None and "save" not in vars(image):
            _encode_once(image)
    return material


def _encode_once(image: Any) -> None:
    """Let an image remember itself as a file, for the next frame, and a JPEG keep its quality."""
    encode, known = image.save, {}

    def save(fp: IO[bytes], format: str) -> None:
        if format not in known:
            same = format.upper() == "JPEG" and image.format == "JPEG"
            draft = io.BytesIO()
            encode(draft, format=format, **({"quality": "keep"} if same else {}))
            known[format] = draft.getvalue()
        fp.write(known[format])

    image.save = save


def _read_ply(file: Path) -> list[Part]:
    with file.open("rb") as opened:
        header = opened.read(100_000).partition(b"end_header")[0]
    for name in re.findall(rb"(?i)TextureFile[ \t]+([^\r\n]+)", header):
        _check_image(file, os.fsdecode(name.strip()))
    parts = _parts(_scene(file, fix_texture=False))
    if not parts or not re.search(rb"property\s+list\s+\S+\s+\S+\s+texcoord", header):
        return parts
    # Texture coordinates by corners: vertices on seams are split, and what they carry with them.
    (whole,), (split,) = parts, _parts(_scene(file, fix_texture=True))
    source = np.minimum(np.arange(len(split.vertices)), len(whole.vertices) - 1)
    source[split.faces] = whole.faces
    normals, colors = (None if field is None else field[source] for field in (whole.normals, whole.colors))
    return [replace(split, normals=normals, colors=colors)]


def _read_obj(file: Path) -> list[Part]:
    text = file.read_bytes()
    for name in _values(rb"mtllib", text):
        library = file.parent / os.fsdecode(name)
        if not library.is_file():
            _warn(f"{file}: there is no {library}: its materials are lost")
            continue
        for image in _values(rb"(?i:map_Kd)", library.read_bytes()):
            _check_image(file, os.fsdecode(image))
    # Vertices that no face uses can stay, unless vertices are split: by texture coordinates and normals,
    # which have indices of their own, or by materials.
    plain = re.search(rb"(?m)^[ \t]*v[tn][ \t]", text) is None
    parts = _parts(_scene(file, maintain_order=plain))
    if plain and len(parts) > 1:
        parts = _parts(_scene(file))
    return parts[::-1]  # trimesh has the last first


def _values(key: bytes, text: bytes) -> list[bytes]:
    """Return what the lines say that begin with a key, which is a regular expression.

    Spaces are looked for within a line only: over many empty ones, every line would look at all after it.
    """
    found = re.findall(rb"(?m)^[ \t]*" + key + rb"[ \t]+([^\r\n]*)", text)
    return [value for each in found if (value := each.strip())]


def _check_image(file: Path, name: str) -> None:
    """Warn of a texture that will be missing."""
    if not (file.parent / name).is_file():
        _warn(f"{file}: there is no {file.parent / name}: this texture is lost")


def _warn(message: str) -> None:
    warnings.warn(message, PointglueWarning, stacklevel=4)


def _line(error: Exception) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
