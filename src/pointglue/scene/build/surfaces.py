"""From the tables of a scene to vertices and faces, places and motions."""

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from ... import assets
from ...checks import Array
from ...errors import InputError
from ...geometry import shapes, simplices
from ...geometry.cages import surface_cage
from ...io.archives import read_archive, write_archive
from ...particles import Motion
from ..cache import kept
from ..schema import fields as tables

__all__ = ["Surface", "Track", "cage_of", "middle", "placed", "rotation", "select", "surface_of", "torso_of"]

Indices = NDArray[np.int64]
# Cells of a mesh that has no size of its own for them, along its extent.
USUAL_CELLS = 10
MOST_CELLS = 1e6  # in the box around a mesh: more is a slip of the pen
# m: beyond, numbers lose their digits, and squares of them overflow in the end.
FARTHEST, SMALLEST = 1e9, 1e-9
# Shapes that take a second to make, or a package that takes long to load.
SLOW = (
    tables.BowlShape, tables.ButtonShape, tables.CapsuleShape, tables.CylinderShape, tables.DonkeyShape,
    tables.DuckShape, tables.FigureShape, tables.PonyShape, tables.PuddingShape, tables.RingShape,
    tables.SphereShape, tables.TruckShape,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Surface:
    """Vertices (n, 3) in the scene, and triangles (m, 3)."""

    vertices: Array
    faces: Indices


def rotation(turn: tuple[float, ...]) -> Array:
    """The matrix (3, 3) of degrees about x, y and z one after the other, or of a quaternion wxyz."""
    if len(turn) == 3:
        return np.asarray(Rotation.from_euler("xyz", turn, degrees=True).as_matrix())
    return np.asarray(Rotation.from_quat([*turn[1:], turn[0]]).as_matrix())


def placed(points: ArrayLike, transform: tables.Transform) -> Array:
    """Points (n, 3) scaled, turned and moved."""
    scaled = np.asarray(points, np.float64) * transform.scale
    return scaled @ rotation(transform.rotate).T + transform.translate


def middle(points: Array) -> Array:
    """Of the box around points (n, 3)."""
    return np.asarray((points.min(0) + points.max(0)) / 2)


class Track:
    """A motion from key to key: x -> R x + t of where things start, turned about `pivot` (3,)."""

    def __init__(self, keys: tuple[tables.Key, ...], frames: Any, ease: str, pivot: Array) -> None:
        turns = [rotation(key.rotate) for key in keys]
        self.times = np.array([frames.seconds(key.time) for key in keys])
        quaternions = Rotation.from_matrix(turns).as_quat()[:, [3, 0, 1, 2]]
        try:
            self._motion = Motion(self.times, [key.translate for key in keys], quaternions)
        except InputError as error:
            raise InputError(str(error).removeprefix("times ")) from None
        self._smooth, self._pivot = ease == "smooth", pivot

    def at(self, time: float) -> tuple[Array, Array]:
        """R (3, 3) and t (3,) at a time (s)."""
        turn, shift = self._motion.at(self._eased(float(time)))
        return turn, shift + self._pivot - turn @ self._pivot

    def matrix(self, time: float) -> Array:
        """The same as (4, 4)."""
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = self.at(time)
        return T

    def _eased(self, time: float) -> float:
        k = int(np.searchsorted(self.times, time)) - 1
        if not self._smooth or not 0 <= k < len(self.times) - 1:
            return time
        begin, end = self.times[k], self.times[k + 1]
        share = (time - begin) / (end - begin)
        return float(begin + (end - begin) * share * share * (3 - 2 * share))


def surface_of(mesh: Any, transform: tables.Transform, folder: Path, *, weld: bool = False) -> Surface:
    """What a mesh table describes, where the transform puts it.

    `weld` makes one vertex of all that are at the same place: some files have several at seams of textures,
    STL files everywhere. Vertices without faces are left out then.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # which is told below
        if isinstance(mesh, SLOW):
            make = partial(_made, mesh, folder)
            vertices, faces = kept("models", mesh.model_dump_json().encode(), make, _read, _write)
        else:
            vertices, faces = _made(mesh, folder)
    if weld and isinstance(mesh, tables.FromFile):
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


def _made(mesh: Any, folder: Path) -> tuple[Array, Array]:
    match mesh:
        case tables.FromFile():
            from ...io.meshes import read_mesh  # not before it is needed: it takes a while to load

            read = read_mesh(folder / mesh.file)
            return read.vertices, read.faces
        case tables.BoxShape():
            return shapes.box(mesh.size, mesh.cells)
        case tables.SphereShape() | tables.CylinderShape() | tables.CapsuleShape() | tables.RingShape():
            return _rounded(mesh)
        case tables.SheetShape():
            return sheet_grid(mesh.size, mesh.cells)
        case tables.RopeShape():
            return tube(mesh)
        case tables.BranchShape():
            return _surface(*branch(mesh, (44, 5, 5), before=0.05))  # reaches into what it grows on
        case tables.OctopusShape():
            return assets.octopus()
        case tables.FishShape():
            return assets.fish()
        case tables.PlantShape():
            return assets.plant(seed=mesh.seed)
        case tables.GearShape():
            return assets.gear(teeth=mesh.teeth)
        case tables.StairsShape():
            return assets.stairs(mesh.steps, rise=mesh.rise, run=mesh.run, width=mesh.width)
        case tables.ButtonShape():
            return assets.button(mesh.radius, sections=mesh.sections)
        case tables.DuckShape():
            return assets.duck(cell=0.04 / mesh.detail)
        case tables.TruckShape():
            return _truck(mesh.part)
        case tables.LeavesShape():
            return assets.leaves(mesh.spine, mesh.radius, count=mesh.count, size=mesh.size, seed=mesh.seed)
        case tables.TorsoShape():
            torso = torso_of(mesh.detail)
            return torso.vertices, torso.faces
        case tables.ShirtShape():
            shirt = _shirt(mesh.detail)
            return shirt.pocket if mesh.part == "pocket" else (shirt.vertices, shirt.faces)
        case tables.BowlShape():
            return assets.bowl()
        case tables.PuddingShape():
            return assets.pudding()
        case tables.FigureShape():
            return assets.figure()
        case tables.PonyShape():
            return assets.pony()
        case tables.DonkeyShape():
            return assets.donkey()
    raise InputError(f"a {mesh.shape} is for colliders only")


def _read(file: Path) -> tuple[Array, Array]:
    arrays = read_archive(file, "mesh of a model")
    return arrays["vertices"], arrays["faces"]


def _write(file: Path, built: tuple[Array, Array]) -> None:
    write_archive(file, {"vertices": np.asarray(built[0]), "faces": np.asarray(built[1])})


def _welded(vertices: Array, faces: Array) -> tuple[Array, Array]:
    """Vertices of faces, in the order in which their places come first, and faces that have three corners."""
    _, first, place = np.unique(vertices, axis=0, return_index=True, return_inverse=True)
    corners = first[place.ravel()][faces]
    corners = corners[(corners != np.roll(corners, 1, axis=1)).all(1)]
    used, numbers = np.unique(corners, return_inverse=True)
    return vertices[used], numbers.reshape(-1, 3)


def groups_of(mesh: Any) -> dict[str, tables.Points]:
    """The groups of points that come with a shape."""
    if not isinstance(mesh, tables.ShirtShape):
        return {}
    shirt = _shirt(mesh.detail)
    if mesh.part == "pocket":
        rows = {"seam": shirt.seam}
    else:
        rows = {"left": shirt.left, "right": shirt.right}
        rows |= {"left cuff": shirt.cuffs[0], "right cuff": shirt.cuffs[1]}
        near = cKDTree(shirt.vertices[shirt.left]).query(shirt.buttons, 4)[1]
        rows |= {f"button {k + 1}": shirt.left[own] for k, own in enumerate(near)}
    return {name: tables.Points(indices=[int(row) for row in own]) for name, own in rows.items()}


@cache  # of one truck, several parts are asked for
def _car() -> assets.Car:
    return assets.car()


@cache  # of its vertices and of its motion
def torso_of(detail: int) -> assets.Torso:
    """Return the torso of a detail, the same one to all who ask."""
    return assets.torso(detail)


@cache
def _shirt(detail: int) -> assets.Shirt:
    return assets.shirt(detail)


def _truck(part: str) -> tuple[Array, Array]:
    car = _car()
    if part in ("front wheels", "rear wheels"):
        k = 0 if part == "front wheels" else 1
        pieces = [car.axles[k], *car.rims[2 * k : 2 * k + 2], *car.tyres[2 * k : 2 * k + 2]]
        starts = np.cumsum([0, *(len(vertices) for vertices, _ in pieces)])
        faces = [own + start for (_, own), start in zip(pieces, starts, strict=False)]
        return np.concatenate([vertices for vertices, _ in pieces]), np.concatenate(faces)
    piece: tuple[Array, Array] = getattr(car, part)
    return piece


def _rounded(mesh: Any) -> tuple[Array, Array]:
    """Return a ball, a cylinder, a capsule or a ring."""
    from trimesh import creation  # not before it is needed: it takes a while to load

    match mesh:
        case tables.SphereShape():
            ball = creation.icosphere(mesh.detail, mesh.radius)
            return np.array(ball.vertices), np.array(ball.faces)
        case tables.CylinderShape():
            return _upright(creation.cylinder(mesh.radius, mesh.height, sections=mesh.sections))
        case tables.CapsuleShape():
            return _upright(creation.capsule(mesh.height, mesh.radius, count=[24, 24]))
    if not mesh.girth < mesh.radius:
        raise InputError(f"girth must be less than radius, got {mesh.girth:g} and {mesh.radius:g} m")
    sections = {"major_sections": mesh.sections, "minor_sections": max(3, mesh.sections // 2)}
    return _upright(creation.torus(mesh.radius, mesh.girth, **sections))


def _upright(mesh: Any) -> tuple[Array, Array]:
    """With its axis along y instead of z, about the origin."""
    vertices = np.array(mesh.vertices)
    vertices -= middle(vertices)
    return vertices[:, [1, 2, 0]], np.array(mesh.faces)


def sheet_grid(size: tuple[float, float], cells: tuple[int, int]) -> tuple[Array, Indices]:
    """A grid in the plane of x and z, seen from above; diagonals take turns."""
    i, j = np.meshgrid(np.arange(cells[0] + 1), np.arange(cells[1] + 1), indexing="ij")
    points = np.stack([(i / cells[0] - 0.5) * size[0], 0.0 * i, (j / cells[1] - 0.5) * size[1]], axis=-1)
    number = i * (cells[1] + 1) + j
    a, b, c, d = number[:-1, :-1], number[:-1, 1:], number[1:, 1:], number[1:, :-1]
    odd = ((i + j)[:-1, :-1, None] % 2).astype(bool)
    first = np.where(odd, np.stack([a, b, c], -1), np.stack([a, b, d], -1))
    second = np.where(odd, np.stack([a, c, d], -1), np.stack([b, c, d], -1))
    return points.reshape(-1, 3), np.concatenate([first.reshape(-1, 3), second.reshape(-1, 3)])


def tube(rope: tables.RopeShape) -> tuple[Array, Array]:
    """The round surface of a rope, closed."""
    start, end = np.array(rope.start), np.array(rope.end)
    length = float(np.linalg.norm(end - start))
    if not length > 0:
        raise InputError(f"start and end of a rope must be apart, got {rope.start} twice")
    points, tets = simplices.tet_box((1, 2, 2), (4 * rope.cells, 3, 3))
    across = points[:, 1:] * np.sqrt(1 - points[:, :0:-1] ** 2 / 2)
    along = (end - start) / length
    side = np.cross(along, np.eye(3)[np.abs(along).argmin()])
    side /= np.linalg.norm(side)
    y, z = rope.radius * across.T
    swept = start + (points[:, :1] + 0.5) * (end - start) + y[:, None] * side
    return _surface(swept + z[:, None] * np.cross(along, side), tets)


def branch(
    shape: tables.BranchShape, cells: tuple[int, int, int], *, before: float = 0.0
) -> tuple[Array, Indices]:
    """Points and tetrahedra of a branch that begins `before` its root, a share of its length."""
    spine = np.array(shape.spine)
    if not (np.linalg.norm(np.diff(spine, axis=0), axis=1) > 0).all():
        raise InputError("the points of spine must be apart")
    box, tets = simplices.tet_box((1, 2, 2), cells)
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
    return place + y[:, None] * side + z[:, None] * np.cross(along, side), tets


def _surface(points: Array, tets: Indices) -> tuple[Array, Indices]:
    used, faces = np.unique(simplices.tet_surface(tets), return_inverse=True)
    return points[used], faces.reshape(-1, 3)


def cage_of(
    mesh: Any, transform: tables.Transform, surface: Surface, cell: float | None
) -> tuple[Array, Any]:
    """Points (n, 3) and tetrahedra (m, 4) that fill a surface: cubes of the size `cell`, or its own cells."""
    if cell is None and isinstance(mesh, tables.BoxShape):
        points, tets = simplices.tet_box(mesh.size, mesh.cells)
        return placed(points, transform), tets
    if cell is None and isinstance(mesh, tables.BranchShape):
        points, tets = branch(mesh, (mesh.cells, 2, 2))
        return placed(points, transform), tets
    size = np.ptp(surface.vertices, axis=0)
    cell = cell or float(size.max()) / USUAL_CELLS
    count = float(np.prod(size / cell + 1))
    if count > MOST_CELLS:
        raise InputError(f"cell must be larger: {cell:g} m makes up to {count:.2g} cubes of this mesh")
    return surface_cage(surface.vertices, surface.faces, cell)


def select(points: tables.Points, places: Array, groups: Any, other: Array | None = None) -> Indices:
    """Rows of `places` (n, 3); `other` (m, 3) are the points of the other object of an attachment."""
    if points.name is not None:
        if points.name not in groups:
            raise InputError(f"names no group: {points.name!r}")
        if groups[points.name].name is not None:
            raise InputError(f"names the group {points.name!r}, which is only another name")
        return select(groups[points.name], places, {}, other)
    count = len(places)
    if points.all:
        return np.arange(count)
    if points.any is not None:
        return np.unique(np.concatenate([select(one, places, groups, other) for one in points.any]))
    if points.indices is not None:
        rows = np.unique(np.array(points.indices, np.int64))
        if len(rows) and rows[-1] >= count:
            raise InputError(f"must have indices below {count}, the number of points, got {rows[-1]}")
    elif points.box is not None:
        rows = np.flatnonzero(((places >= points.box[0]) & (places <= points.box[1])).all(1))
    elif points.ball is not None:
        away = np.linalg.norm(places - points.ball.center, axis=1)
        rows = np.flatnonzero(away <= points.ball.radius)
    else:
        if other is None:
            raise InputError("nearest is for attachments: there is no other object here")
        away = cKDTree(other).query(places)[0]
        rows = np.sort(np.argsort(away, kind="stable")[: points.nearest])
    if not len(rows):
        low, high = (np.array2string(corner, precision=4) for corner in (places.min(0), places.max(0)))
        raise InputError(f"selects no point: there are {count}, from {low} to {high}")
    return rows
