"""Meshes to files: the same mesh with other vertices, once or frame after frame.

trimesh writes glTF, STL and the body of PLY files; OBJ and OFF are written here, for the reasons that their
functions give (seen with trimesh 5.2). It takes 0.5 s to load, so that functions which use it import it.
"""

import io
import os
import re
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..checks import Array
from ..errors import InputError
from ..files import explain_write_errors, temporary_path
from ..geometry.meshes.mesh_parts import Mesh, Part, UniqueNames

__all__ = ["Output", "open_output"]

MESH_ENDINGS = (".glb", ".gltf", ".obj", ".off", ".ply", ".stl")
ARRAY_ENDINGS = (".npy", ".npz")
FRAME_DIGITS = 4  # of the numbers in file names, at least
# Keys of MTL files that are kept: those that name no other file.
MTL_KEYS = ("d", "illum", "Ke", "Ni", "Tf", "Tr")
WHITE = (255, 255, 255, 255)


class Output(ABC):
    """A file for one mesh, or files for a mesh in one frame after the other.

    Attributes
    ----------
    names : str
        The files that have been or will be written, for people to read.
    """

    names: str

    @abstractmethod
    def add(self, vertices: Array, normals: Array | None = None) -> None:
        """Write the next frame.

        Parameters
        ----------
        vertices : (V, 3)
            Where the vertices are.
        normals : (V, 3), optional
            Their normals, if the mesh has any.
        """


@contextmanager
def open_output(path: str | os.PathLike[str], mesh: Mesh, frames: int | None = None) -> Iterator[Output]:
    """Open the files for a mesh that is written with other vertices.

    A missing folder is made. Each file appears when it is complete, and replaces an earlier one only then.

    Parameters
    ----------
    path : str or path
        The file; its ending is the format. ``.npy`` and ``.npz`` hold all frames in one array (F, V, 3).
    mesh : Mesh
        The mesh, which gives everything but the vertices and the normals.
    frames : int, optional
        The number of frames, each in a file with its number in the name; by default there is one, without.

    Yields
    ------
    Output

    Raises
    ------
    InputError
        If the ending is unknown, or `path` is a folder.
    PointglueError
        If a file cannot be written.
    """
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in MESH_ENDINGS + ARRAY_ENDINGS:
        ending = f"not {kind!r}" if kind else "it has no ending"
        raise InputError(f"{target}: must end in {', '.join(MESH_ENDINGS)}, .npy or .npz, {ending}")
    if target.is_dir():
        raise InputError(f"{target}: is a folder, not a file")
    temporary = temporary_path(target)
    with explain_write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch()  # now, not after an hour of work
    try:
        if kind in ARRAY_ENDINGS:
            with (
                explain_write_errors(target),
                _open_array(temporary, kind, mesh, 1 if frames is None else frames) as file,
            ):
                yield _ArrayFile(target, file)
            with explain_write_errors(target):
                temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    if kind in MESH_ENDINGS:
        yield _MeshFiles(target, mesh, frames)


class _MeshFiles(Output):
    """Mesh files, one for each frame; materials and textures are shared by the frames."""

    def __init__(self, target: Path, mesh: Mesh, frames: int | None) -> None:
        self.target, self.mesh, self.frames = target, mesh, frames
        self.digits = max(FRAME_DIGITS, len(str(frames)))
        self.done = 0
        first, last = self._path(1), self._path(frames or 1)
        self.names = str(first) if first == last else f"{first} to {last.name}"
        self.side_files: set[str] = set()

    def _path(self, number: int) -> Path:
        if self.frames is None:
            return self.target
        return self.target.with_name(f"{self.target.stem}_{number:0{self.digits}}{self.target.suffix}")

    def add(self, vertices: Array, normals: Array | None = None) -> None:
        self.done += 1
        path = self._path(self.done)
        content, side_files = _encode(
            self.mesh.moved(vertices, normals), path.suffix.lower(), self.target.stem
        )
        files = {
            path.with_name(name): data for name, data in side_files.items() if name not in self.side_files
        }
        self.side_files.update(side_files)
        _write({**files, path: content})


def _write(files: Mapping[Path, bytes]) -> None:
    """Write several files, which appear when all are complete, in their order."""
    temporary: dict[Path, Path] = {}
    try:
        for target, content in files.items():
            with explain_write_errors(target):
                temporary[target] = temporary_path(target)
                temporary[target].write_bytes(content)
        for target, path in temporary.items():
            with explain_write_errors(target):
                path.replace(target)
    finally:
        for path in temporary.values():
            with suppress(OSError):
                path.unlink(missing_ok=True)


class _ArrayFile(Output):
    """All frames in one array (F, V, 3)."""

    def __init__(self, target: Path, file: IO[bytes]) -> None:
        self.names, self.file = str(target), file

    def add(self, vertices: Array, normals: Array | None = None) -> None:
        self.file.write(np.ascontiguousarray(vertices, dtype="<f8").tobytes())


@contextmanager
def _open_array(path: Path, kind: str, mesh: Mesh, frames: int) -> Iterator[IO[bytes]]:
    """Open a file for an array that is written frame by frame; an .npz holds the triangles as well."""
    shape = (frames, *mesh.vertices.shape)
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
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
    """Return a mesh as a file, and the side files with its materials and textures, named after `stem`."""
    if kind == ".obj":
        return _obj(mesh, stem)
    if kind == ".ply":
        return _ply(mesh, stem)
    if kind == ".off":
        return _off(mesh), {}
    import trimesh

    if kind == ".stl":
        return trimesh.Trimesh(mesh.vertices, mesh.faces, process=False).export(file_type="stl"), {}
    scene = trimesh.Scene()
    for part in mesh.parts:
        scene.add_geometry(_trimesh(part), geom_name=part.name, node_name=part.name)
    if kind == ".glb":
        return scene.export(file_type="glb"), {}
    return scene.export(file_type="gltf", embed_buffers=True)["model.gltf"], {}


def _trimesh(part: Part) -> Any:
    """Return a part as a mesh of trimesh."""
    import trimesh
    from trimesh.visual.color import ColorVisuals
    from trimesh.visual.texture import TextureVisuals

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
    """Return a PLY file of all parts as one mesh, and its texture, if it has exactly one.

    trimesh writes texture coordinates, but not the comment that names their texture: it is added here.
    """
    import trimesh

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
    """Return the fields of all parts, with a default for the rows of a part that has none."""
    kind = next(field.dtype for field, _ in fields if field is not None)
    rows = [np.tile(default, (size, 1)) if field is None else field for field, size in fields]
    return np.concatenate(rows).astype(kind)


def _vertex_colors(part: Part) -> Array | None:
    """Return the colours of the vertices, or means over the faces around them if only faces have colours."""
    if part.colors is not None or part.face_colors is None:
        return part.colors
    return np.asarray(_trimesh(part).visual.vertex_colors)


def _image(material: Any) -> Any:
    """Return the image that is the colour of a material, or None."""
    return getattr(material, "image", None) or getattr(material, "baseColorTexture", None)


def _image_file(image: Any, name: str) -> tuple[str, bytes]:
    """Return the name and the content of an image's file."""
    kind = "jpeg" if image.format == "JPEG" else "png"
    content = io.BytesIO()
    image.save(content, format=kind)
    return f"{name}.{kind}", content.getvalue()


def _off(mesh: Mesh) -> bytes:
    """Return an OFF file with ten significant digits.

    trimesh writes ten decimals, which leaves one digit of a mesh of a nanometre.
    """
    faces = np.column_stack([np.full(len(mesh.faces), 3), mesh.faces])
    head = f"OFF\n{len(mesh.vertices)} {len(mesh.faces)} 0\n"
    return (head + _text("%.10g %.10g %.10g", mesh.vertices) + _text("%d %d %d %d", faces)).encode()


def _obj(mesh: Mesh, stem: str) -> tuple[bytes, dict[str, bytes]]:
    """Return an OBJ file with ten significant digits, and its materials.

    trimesh writes eight decimals, which leaves two digits of a mesh of a micrometre; it drops the normals of
    scenes of several parts and the transparency of materials; and it takes names of materials as they are, so
    that many readers cut one with a space short, and "../x" is a texture outside of the folder.
    """
    names, side_files = _materials(mesh, stem)
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
    return "".join(lines).encode(), side_files


def _materials(mesh: Mesh, stem: str) -> tuple[dict[int, str], dict[str, bytes]]:
    """Return the names of materials by their ids, and the files that describe them."""
    names: dict[int, str] = {}
    unique = UniqueNames()
    files: dict[str, bytes] = {}
    text: list[str] = []
    if all(part.material is None for part in mesh.parts):
        return names, files
    from trimesh.visual.material import SimpleMaterial

    for material in (part.material for part in mesh.parts):
        if id(material) in names:
            continue
        # A material stays in use until the next is named, so a part without one needs one as well.
        simple = SimpleMaterial(name="default") if material is None else material
        for change in ("to_pbr", "to_simple"):
            if not hasattr(simple, "diffuse") and hasattr(simple, change):
                simple = getattr(simple, change)()
        name = unique.new(re.sub(r"\s+", "_", str(simple.name).strip()) or "material")
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


def _text(row: str, numbers: Array) -> str:
    """Return one line for each row of `numbers`."""
    return (row + "\n") * len(numbers) % tuple(numbers.ravel().tolist())
