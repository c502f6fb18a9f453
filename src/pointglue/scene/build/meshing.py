"""Turn the mesh tables of a scene into vertices and faces, and into hexahedra that fill them."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...errors import InputError
from ...geometry import simplices
from ...geometry.cages import HexCage, hex_cage
from ...geometry.shapes import box
from ...io.archives import read_archive, write_archive
from ...procrustes.space import perpendiculars
from ..cache import cached
from ..schema import shapes
from ..schema.fields import Points, Transform
from ..tracks import box_center, placed

__all__ = ["Indices", "Surface", "cage_of", "groups_of", "sheet_grid", "surface_of"]

Indices = NDArray[np.int64]
USUAL_CELLS = 10  # cells along the extent of a mesh for which no size of cells is given
MOST_CELLS = 1e6  # in the box around a mesh: more is probably a mistake
# Largest coordinate and smallest size of a mesh [m]: beyond, numbers lose digits and their squares overflow.
FARTHEST, SMALLEST = 1e9, 1e-9
# Primitives that need trimesh, which takes long to load: their meshes are cached on disk.
CACHED = (shapes.CapsuleShape, shapes.CylinderShape, shapes.RingShape, shapes.SphereShape)


@dataclass(frozen=True, eq=False)
class Surface:
    """A triangle mesh in the scene."""

    vertices: Array
    """Where the vertices are (n, 3) [m]."""
    faces: Indices
    """Triangles (m, 3)."""


def surface_of(mesh: shapes.Mesh, transform: Transform, folder: Path, *, weld: bool = False) -> Surface:
    """Return the surface that a mesh table describes.

    Parameters
    ----------
    mesh : table
        A file, a primitive or a model.
    transform : Transform
        From the mesh as it is built or read to where it starts.
    folder : Path
        The folder that file names are relative to.
    weld : bool
        Whether the vertices of a file that are at the same place become one: some files have several at
        seams of textures, STL files everywhere. Vertices without faces are left out then.

    Returns
    -------
    Surface

    Raises
    ------
    InputError
        If the mesh cannot be read or built, has no faces, or is too far away, too large or too small.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # sizes are checked below
        if isinstance(mesh, CACHED) or (isinstance(mesh, shapes.ModelShape) and mesh.asset.slow):
            build = partial(_mesh_of, mesh, folder)
            vertices, faces = cached("models", mesh.model_dump_json().encode(), build, _read, _write)
        else:
            vertices, faces = _mesh_of(mesh, folder)
    if weld and isinstance(mesh, shapes.FromFile):
        vertices, faces = _welded(vertices, faces)
    if not len(faces):
        raise InputError("mesh must have faces, got none")
    with np.errstate(over="ignore", invalid="ignore"):
        points = placed(vertices, transform)
        reach, size = np.abs(points).max(), np.ptp(points, axis=0).max()
    if not reach <= FARTHEST:
        far = f"{reach:g} m" if np.isfinite(reach) else "farther than can be said"
        raise InputError(f"mesh must be within {FARTHEST:g} m of the origin, but reaches {far}")
    if not size > 0:
        raise InputError("mesh must have a size: all its vertices are at one place")
    if size < SMALLEST:
        raise InputError(f"mesh must be at least {SMALLEST:g} m large, got {size:g} m")
    return Surface(points, np.asarray(faces, np.int64))


def _mesh_of(mesh: shapes.Mesh, folder: Path) -> tuple[Array, Array]:
    """Return the vertices and faces of a file, a primitive or a model."""
    match mesh:
        case shapes.ModelShape():
            return mesh.asset.build(**mesh.parameters)
        case shapes.FromFile():
            from ...geometry.meshes.mesh_files import (
                read_mesh,  # not before it is needed: it takes a while to load
            )

            read = read_mesh(folder / mesh.file)
            return read.vertices, read.faces
        case shapes.BoxShape():
            return box(mesh.size, mesh.cells)
        case shapes.SphereShape() | shapes.CylinderShape() | shapes.CapsuleShape() | shapes.RingShape():
            return _rounded(mesh)
        case shapes.SheetShape():
            return sheet_grid(mesh.size, mesh.cells)
        case shapes.RopeShape():
            return _rope_surface(mesh)
        case shapes.BranchShape():
            # It reaches into what it grows on.
            return _surface(*_branch_hexahedra(mesh, (44, 5, 5), before=0.05))
    raise InputError(f"a {mesh.shape} is for colliders only")


def _read(file: Path) -> tuple[Array, Array]:
    arrays = read_archive(file, "mesh of a model")
    return arrays["vertices"], arrays["faces"]


def _write(file: Path, mesh: tuple[Array, Array]) -> None:
    write_archive(file, {"vertices": np.asarray(mesh[0]), "faces": np.asarray(mesh[1])})


def _welded(vertices: Array, faces: Array) -> tuple[Array, Array]:
    """Return one vertex for each place, in the order of the first there, and faces with three corners."""
    _, first, inverse = np.unique(vertices, axis=0, return_index=True, return_inverse=True)
    corners = first[inverse.ravel()][faces]
    corners = corners[(corners != np.roll(corners, 1, axis=1)).all(1)]
    used, numbers = np.unique(corners, return_inverse=True)
    return vertices[used], numbers.reshape(-1, 3)


def groups_of(mesh: shapes.Mesh) -> dict[str, Points]:
    """Return the groups of points that come with a model, by name."""
    if not isinstance(mesh, shapes.ModelShape) or mesh.asset.groups is None:
        return {}
    groups = mesh.asset.groups(**mesh.parameters)
    return {name: Points(indices=[int(row) for row in rows]) for name, rows in groups.items()}


def _rounded(mesh: Any) -> tuple[Array, Array]:
    """Return the mesh of a ball, a cylinder, a capsule or a ring."""
    from trimesh import creation  # not before it is needed: it takes a while to load

    match mesh:
        case shapes.SphereShape():
            ball = creation.icosphere(mesh.detail, mesh.radius)
            return np.array(ball.vertices), np.array(ball.faces)
        case shapes.CylinderShape():
            return _upright(creation.cylinder(mesh.radius, mesh.height, sections=mesh.sections))
        case shapes.CapsuleShape():
            return _upright(creation.capsule(mesh.height, mesh.radius, count=[24, 24]))
    if not mesh.girth < mesh.radius:
        raise InputError(f"girth must be less than radius, got {mesh.girth:g} and {mesh.radius:g} m")
    sections = {"major_sections": mesh.sections, "minor_sections": max(3, mesh.sections // 2)}
    return _upright(creation.torus(mesh.radius, mesh.girth, **sections))


def _upright(mesh: Any) -> tuple[Array, Array]:
    """Return a mesh of trimesh about the origin, with its axis along y instead of z."""
    vertices = np.array(mesh.vertices)
    vertices -= box_center(vertices)
    return vertices[:, [1, 2, 0]], np.array(mesh.faces)


def sheet_grid(size: tuple[float, float], cells: tuple[int, int]) -> tuple[Array, Indices]:
    """Return vertices and faces of a grid in the plane of x and z, seen from above; diagonals alternate."""
    i, j = np.meshgrid(np.arange(cells[0] + 1), np.arange(cells[1] + 1), indexing="ij")
    points = np.stack([(i / cells[0] - 0.5) * size[0], 0.0 * i, (j / cells[1] - 0.5) * size[1]], axis=-1)
    number = i * (cells[1] + 1) + j
    a, b, c, d = number[:-1, :-1], number[:-1, 1:], number[1:, 1:], number[1:, :-1]
    odd = ((i + j)[:-1, :-1, None] % 2).astype(bool)
    first = np.where(odd, np.stack([a, b, c], -1), np.stack([a, b, d], -1))
    second = np.where(odd, np.stack([a, c, d], -1), np.stack([b, c, d], -1))
    return points.reshape(-1, 3), np.concatenate([first.reshape(-1, 3), second.reshape(-1, 3)])


def _rope_surface(rope: shapes.RopeShape) -> tuple[Array, Array]:
    """Return the round surface of a rope, closed."""
    start, end = np.array(rope.start), np.array(rope.end)
    length = float(np.linalg.norm(end - start))
    if not length > 0:
        raise InputError(f"start and end of a rope must be apart, got {rope.start} twice")
    points, hexahedra = simplices.hex_box((1, 2, 2), (4 * rope.cells, 3, 3))
    across = points[:, 1:] * np.sqrt(1 - points[:, :0:-1] ** 2 / 2)
    along = (end - start) / length
    side = perpendiculars(along)
    side /= np.linalg.norm(side)
    y, z = rope.radius * across.T
    swept = start + (points[:, :1] + 0.5) * (end - start) + y[:, None] * side
    return _surface(swept + z[:, None] * np.cross(along, side), hexahedra)


def _branch_hexahedra(
    shape: shapes.BranchShape, cells: tuple[int, int, int], *, before: float = 0.0
) -> tuple[Array, Indices]:
    """Return points and hexahedra of a branch that begins `before` its root, a share of its length."""
    spine = np.array(shape.spine)
    if not (np.linalg.norm(np.diff(spine, axis=0), axis=1) > 0).all():
        raise InputError("the points of spine must be apart")
    box, hexahedra = simplices.hex_box((1, 2, 2), cells)
    s, across = (box[:, 0] + 0.5) * (1 + before) - before, box[:, 1:]
    a, b, c = spine
    u = s[:, None]
    place = np.where(u < 0, a + 2 * u * (b - a), (1 - u) ** 2 * a + 2 * u * (1 - u) * b + u * u * c)
    along = (1 - u) * (b - a) + u * (c - b)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    side = np.cross(along, np.eye(3)[np.abs(c - a).argmin()])
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    taper = (1 - shape.taper * np.clip(s, 0, 1)) * np.sqrt(1 - 0.96 * np.clip(np.abs(s), 0, 1) ** 30)
    y, z = (across * np.sqrt(1 - across[:, ::-1] ** 2 / 2)).T * shape.radius * taper
    return place + y[:, None] * side + z[:, None] * np.cross(along, side), hexahedra


def _surface(points: Array, hexahedra: Indices) -> tuple[Array, Indices]:
    used, faces = np.unique(
        simplices.tet_surface(simplices.tets_of_hexahedra(hexahedra)), return_inverse=True
    )
    return points[used], faces.reshape(-1, 3)


def cage_of(mesh: shapes.Mesh, transform: Transform, surface: Surface, cell: float | None) -> HexCage:
    """Return the hexahedra that fill a surface.

    They are cells of a lattice, of the size `cell` [m]; without it, a box and a branch use their own cells.
    """
    if cell is None and isinstance(mesh, shapes.BoxShape | shapes.BranchShape):
        points, hexahedra = (
            simplices.hex_box(mesh.size, mesh.cells)
            if isinstance(mesh, shapes.BoxShape)
            else _branch_hexahedra(mesh, (mesh.cells, 2, 2))
        )
        return HexCage(placed(points, transform), hexahedra, np.ones(len(hexahedra)))
    size = np.ptp(surface.vertices, axis=0)
    cell = cell or float(size.max()) / USUAL_CELLS
    count = float(np.prod(size / cell + 1))
    if count > MOST_CELLS:
        raise InputError(f"cell must be larger: {cell:g} m makes up to {count:.2g} cubes of this mesh")
    return hex_cage(surface.vertices, surface.faces, cell)
