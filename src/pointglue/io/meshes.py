"""Meshes from files and back: a deformation moves vertices, everything else about them stays as it was."""

import io
import json
import logging
import os
import re
import warnings
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import IO, Any

import numpy as np
import trimesh
from trimesh.exchange.load import mesh_formats
from trimesh.visual.color import ColorVisuals, to_rgba
from trimesh.visual.material import SimpleMaterial, empty_material
from trimesh.visual.texture import TextureVisuals

from ..checks import Array
from ..errors import InputError, MissingDependencyError, PointglueError, PointglueWarning
from ..files import draft_name

__all__ = ["Mesh", "Output", "Part", "open_output", "read_mesh"]

MESHES = (".glb", ".gltf", ".obj", ".off", ".ply", ".stl")
ARRAYS = (".npy", ".npz")
FRAME_DIGITS = 4
# Where a material of trimesh keeps its images.
IMAGES = (
    "image",
    "baseColorTexture",
    "emissiveTexture",
    "metallicRoughnessTexture",
    "normalTexture",
    "occlusionTexture",
)
# What an MTL file may say that names no other file.
MTL_KEYS = ("d", "illum", "Ke", "Ni", "Tf", "Tr")
WHITE = (255, 255, 255, 255)


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
    places = [scene.graph[node] for node in scene.graph.nodes_geometry]
    for place, key in sorted(places, key=lambda item: order[item[1]]):
        shape = scene.geometry[key]
        if not isinstance(shape, trimesh.Trimesh) or not len(shape.faces):
            continue  # points and lines
        name = _unused(str(key), [part.name for part in parts])
        parts.append(_part(name, shape, np.asarray(place)))
    return parts


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
    for name in re.findall(rb"(?m)^\s*mtllib\s+(.*?)\s*$", text):
        library = file.parent / os.fsdecode(name)
        if not library.is_file():
            _warn(f"{file}: there is no {library}: its materials are lost")
            continue
        for image in re.findall(rb"(?mi)^\s*map_Kd\s+(.*?)\s*$", library.read_bytes()):
            _check_image(file, os.fsdecode(image))
    # Vertices that no face uses can stay, unless vertices are split: by texture coordinates and normals,
    # which have indices of their own, or by materials.
    plain = re.search(rb"(?m)^\s*v[tn]\s", text) is None
    parts = _parts(_scene(file, maintain_order=plain))
    if plain and len(parts) > 1:
        parts = _parts(_scene(file))
    return parts[::-1]  # trimesh has the last first


def _check_image(file: Path, name: str) -> None:
    """Warn of a texture that will be missing."""
    if not (file.parent / name).is_file():
        _warn(f"{file}: there is no {file.parent / name}: this texture is lost")


def _warn(message: str) -> None:
    warnings.warn(message, PointglueWarning, stacklevel=4)


def _line(error: Exception) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class Output(ABC):
    """A file that takes a mesh, or files that take one frame after the other."""

    names: str
    """What has been or will be written."""

    @abstractmethod
    def add(self, vertices: Array, normals: Array | None = None) -> None:
        """The next frame: vertices (V, 3) and, if the mesh has normals, those (V, 3)."""


@contextmanager
def open_output(path: str | os.PathLike[str], mesh: Mesh, frames: int | None = None) -> Iterator[Output]:
    """Where `mesh` is to be written with other vertices: once, or `frames` times with numbers in the name.

    The ending of `path` is the format. ``.npy`` and ``.npz`` take all frames in one array (F, V, 3). A
    missing folder is made. Each file appears when it is complete, and replaces an earlier one only then.
    """
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in MESHES + ARRAYS:
        ending = f"not {kind!r}" if kind else "it has no ending"
        raise InputError(f"{target}: must end in {', '.join(MESHES)}, .npy or .npz, {ending}")
    if target.is_dir():
        raise InputError(f"{target}: is a folder, not a file")
    draft = draft_name(target)
    with _writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.touch()  # now, rather than after an hour of work
    try:
        if kind in ARRAYS:
            with _writing(target), _array(draft, kind, mesh, 1 if frames is None else frames) as file:
                yield _Array(target, file)
            with _writing(target):
                draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    if kind in MESHES:
        yield _Files(target, mesh, frames)


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Say which file it is that cannot be written."""
    try:
        yield
    except OSError as error:
        raise PointglueError(f"{target}: cannot be written: {error.strerror or error}") from error


class _Files(Output):
    """Mesh files, one for each frame; materials and textures are shared by the frames."""

    def __init__(self, target: Path, mesh: Mesh, frames: int | None) -> None:
        self.target, self.mesh, self.frames = target, mesh, frames
        self.digits = max(FRAME_DIGITS, len(str(frames)))
        self.done = 0
        first, last = self._path(1), self._path(frames or 1)
        self.names = str(first) if first == last else f"{first} to {last.name}"
        self.beside: set[str] = set()

    def _path(self, number: int) -> Path:
        if self.frames is None:
            return self.target
        return self.target.with_name(f"{self.target.stem}_{number:0{self.digits}}{self.target.suffix}")

    def add(self, vertices: Array, normals: Array | None = None) -> None:
        self.done += 1
        path = self._path(self.done)
        content, beside = _encode(self.mesh.moved(vertices, normals), path.suffix.lower(), self.target.stem)
        files = {path.with_name(name): data for name, data in beside.items() if name not in self.beside}
        self.beside.update(beside)
        _write({**files, path: content})


def _write(files: Mapping[Path, bytes]) -> None:
    """Write all of them, then let all appear, the last one last."""
    drafts: dict[Path, Path] = {}
    try:
        for target, content in files.items():
            with _writing(target):
                drafts[target] = draft_name(target)
                drafts[target].write_bytes(content)
        for target, draft in drafts.items():
            with _writing(target):
                draft.replace(target)
    finally:
        for draft in drafts.values():
            with suppress(OSError):
                draft.unlink(missing_ok=True)


class _Array(Output):
    """All frames in one array (F, V, 3)."""

    def __init__(self, target: Path, file: IO[bytes]) -> None:
        self.names, self.file = str(target), file

    def add(self, vertices: Array, normals: Array | None = None) -> None:
        self.file.write(np.ascontiguousarray(vertices, dtype="<f8").tobytes())


@contextmanager
def _array(draft: Path, kind: str, mesh: Mesh, frames: int) -> Iterator[IO[bytes]]:
    """A file for an array, frame after frame; an .npz has the triangles, too."""
    shape = (frames, *mesh.vertices.shape)
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    with draft.open("wb") as file:
        if kind == ".npy":
            np.lib.format.write_array_header_1_0(file, header)
            yield file
            return
        with zipfile.ZipFile(file, "w") as archive:
            with archive.open("faces.npy", "w") as entry:
                np.lib.format.write_array(entry, mesh.faces)
            with archive.open("vertices.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array_header_1_0(entry, header)
                yield entry


def _encode(mesh: Mesh, kind: str, stem: str) -> tuple[bytes, dict[str, bytes]]:
    """The mesh as a file, and what has to be beside it: materials and textures, named after `stem`."""
    if kind == ".obj":
        return _obj(mesh, stem)
    if kind == ".ply":
        return _ply(mesh, stem)
    if kind == ".off":
        return _off(mesh), {}
    if kind == ".stl":
        return trimesh.Trimesh(mesh.vertices, mesh.faces, process=False).export(file_type="stl"), {}
    scene = trimesh.Scene()
    for part in mesh.parts:
        scene.add_geometry(_trimesh(part), geom_name=part.name, node_name=part.name)
    if kind == ".glb":
        return scene.export(file_type="glb"), {}
    return scene.export(file_type="gltf", embed_buffers=True)["model.gltf"], {}


def _trimesh(part: Part) -> Any:
    if part.uv is not None or part.material is not None:
        visual = TextureVisuals(uv=part.uv, material=part.material)
        if part.colors is not None:
            visual.vertex_attributes["color"] = part.colors
    else:
        visual = ColorVisuals(vertex_colors=part.colors, face_colors=part.face_colors)
    return trimesh.Trimesh(
        part.vertices, part.faces, vertex_normals=part.normals, visual=visual, process=False
    )


def _ply(mesh: Mesh, stem: str) -> tuple[bytes, dict[str, bytes]]:
    """One mesh: a PLY file knows no parts, and one texture."""
    parts = mesh.parts
    by_faces = all(part.colors is None for part in parts) and any(p.face_colors is not None for p in parts)
    shape = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
    if by_faces:
        shape.visual.face_colors = _joined([(p.face_colors, len(p.faces)) for p in parts], WHITE)
    elif any(part.colors is not None for part in parts):
        shape.visual.vertex_colors = _joined([(_vertex_colors(p), len(p.vertices)) for p in parts], WHITE)
    if any(part.uv is not None for part in parts):
        uv = _joined([(part.uv, len(part.vertices)) for part in parts], (0.0, 0.0))
        shape.vertex_attributes.update(s=uv[:, 0], t=uv[:, 1])
    normals = None if any(part.normals is None for part in parts) else mesh.normals
    if normals is not None:
        shape.vertex_normals = normals
    content = shape.export(file_type="ply", vertex_normal=normals is not None)
    images = {id(image): image for part in parts if (image := _image(part.material)) is not None}
    if len(images) != 1:
        return content, {}
    name, data = _image_file(next(iter(images.values())), stem)
    line = b"\ncomment TextureFile " + name.encode() + b"\nelement vertex"
    return content.replace(b"\nelement vertex", line, 1), {name: data}


def _joined(fields: list[tuple[Array | None, int]], default: tuple[float, ...]) -> Array:
    """The fields of all parts, with a default for the rows of a part that has none."""
    kind = next(field.dtype for field, _ in fields if field is not None)
    rows = [np.tile(default, (size, 1)) if field is None else field for field, size in fields]
    return np.concatenate(rows).astype(kind)


def _vertex_colors(part: Part) -> Array | None:
    """Colours of the vertices, if need be those of the faces around them."""
    if part.colors is not None or part.face_colors is None:
        return part.colors
    return np.asarray(_trimesh(part).visual.vertex_colors)


def _image(material: Any) -> Any:
    """The image that is the colour of a material, or None."""
    return getattr(material, "image", None) or getattr(material, "baseColorTexture", None)


def _image_file(image: Any, name: str) -> tuple[str, bytes]:
    kind = "jpeg" if image.format == "JPEG" else "png"
    content = io.BytesIO()
    image.save(content, format=kind)
    return f"{name}.{kind}", content.getvalue()


def _off(mesh: Mesh) -> bytes:
    faces = np.column_stack([np.full(len(mesh.faces), 3), mesh.faces])
    head = f"OFF\n{len(mesh.vertices)} {len(mesh.faces)} 0\n"
    return (head + _text("%.10g %.10g %.10g", mesh.vertices) + _text("%d %d %d %d", faces)).encode()


def _obj(mesh: Mesh, stem: str) -> tuple[bytes, dict[str, bytes]]:
    """Vertices, texture coordinates and normals, each with indices of their own."""
    names, beside = _materials(mesh, stem)
    lines = [f"mtllib {stem}.mtl\n"] if names else []
    before = np.zeros(3, np.int64)
    for part in mesh.parts:
        if len(mesh.parts) > 1:
            lines.append(f"o {part.name}\n")
        colors = _vertex_colors(part)
        if colors is None:
            lines.append(_text("v %.10g %.10g %.10g", part.vertices))
        else:
            colored = np.hstack([part.vertices, colors[:, :3] / 255])
            lines.append(_text("v %.10g %.10g %.10g %.6g %.6g %.6g", colored))
        if part.uv is not None:
            lines.append(_text("vt %.10g %.10g", part.uv))
        if part.normals is not None:
            lines.append(_text("vn %.7g %.7g %.7g", part.normals))
        if names:
            lines.append(f"usemtl {names[id(part.material)]}\n")
        has = np.array([True, part.uv is not None, part.normals is not None])
        corner = "%d" + ("/%d" if has[1] else "") + (("/%d" if has[1] else "//%d") if has[2] else "")
        index = part.faces[:, :, None] + 1 + before[has]
        lines.append(_text(f"f {corner} {corner} {corner}", index.reshape(len(index), 3 * has.sum())))
        before += has * len(part.vertices)
    return "".join(lines).encode(), beside


def _materials(mesh: Mesh, stem: str) -> tuple[dict[int, str], dict[str, bytes]]:
    """The names of materials by their ids, and the files that describe them."""
    names: dict[int, str] = {}
    files: dict[str, bytes] = {}
    text: list[str] = []
    if all(part.material is None for part in mesh.parts):
        return names, files
    for material in (part.material for part in mesh.parts):
        if id(material) in names:
            continue
        # A material stays in use until the next is named, so that a part without needs one, too.
        simple = SimpleMaterial(name="default") if material is None else material
        for change in ("to_pbr", "to_simple"):
            if not hasattr(simple, "diffuse") and hasattr(simple, change):
                simple = getattr(simple, change)()
        name = _unused(re.sub(r"\s+", "_", str(simple.name).strip()) or "material", names.values())
        names[id(material)] = name
        text.append(f"newmtl {name}\n")
        for key, color in (("Ka", simple.ambient), ("Kd", simple.diffuse), ("Ks", simple.specular)):
            text.append(f"{key} " + " ".join(f"{value / 255:.6g}" for value in color[:3]) + "\n")
        text.append(f"Ns {simple.glossiness:.6g}\n")
        more = {key: simple.kwargs[key.lower()] for key in MTL_KEYS if key.lower() in simple.kwargs}
        text.extend(" ".join([key, *values]) + "\n" for key, values in more.items())
        if simple.image is not None:
            file, data = _image_file(simple.image, stem + "_" + re.sub(r"[^\w.-]", "_", name))
            files[file] = data
            text.append(f"map_Kd {file}\n")
        text.append("\n")
    files[f"{stem}.mtl"] = "".join(text).encode()
    return names, files


def _unused(name: str, taken: Collection[str]) -> str:
    """`name`, with a number if it is taken."""
    return next(other for k in count(1) if (other := name if k == 1 else f"{name}_{k}") not in taken)


def _text(row: str, numbers: Array) -> str:
    """One line for each row of `numbers`."""
    return (row + "\n") * len(numbers) % tuple(numbers.ravel().tolist())
