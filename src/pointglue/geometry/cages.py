"""Cages: coarse solids around detailed surfaces."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..checks import Array, check_real
from ..compute import run
from ..errors import InputError
from .inside import Inside
from .kernels import cages as kernels
from .normals import area_normals, unit_normals
from .simplices import CUBE_CORNERS, tets_of_hexahedra
from .welding import bounding_diagonal, unique_faces, weld

__all__ = ["HexCage", "coarse_surface", "hex_cage", "surface_cage"]

MOST_CUBES = 2**26  # in the box around the surface, filled or not: 270 MB of marks
# Distance by which triangles are moved inwards [cells]: one that lies between two cells then belongs to the
# cell behind it, and is still inside for `pointglue.embed`.
INWARD_SHIFT = 5e-10
# Distance by which a surface may reach beyond the last cell [cells], to allow for rounding.
ROUNDING = 1e-6
# Least thickness of a surface that cells are fitted to [cells]: a flatter one gets cubes.
FLAT = 0.01
# Lines along x that measure how full a cell is, along y and along z.
LINES = 4
# Where those lines are between their neighbours: uneven, so that none goes along edges of regular meshes.
LINE_OFFSET = 0.5371
# Least share of a cell that counts as filled: no point is without mass, or without stiffness.
LEAST_FILL = 0.02


class HexCage(NamedTuple):
    """A solid of box-shaped hexahedra about a surface and its inside."""

    points: Array
    """(p, 3): the points of the solid [m]."""
    hexahedra: NDArray[np.int64]
    """(q, 8): the corners of its hexahedra, in the order of VTK."""
    fill: Array
    """(q,): the share of the volume of each that is inside the surface, for
    :class:`~pointglue.elastic.HexahedronEnergy`."""


def surface_cage(vertices: ArrayLike, faces: ArrayLike, cell: float) -> tuple[Array, NDArray[np.int64]]:
    """Build a solid of tetrahedra about a surface and its inside.

    It consists of the cells of :func:`hex_cage`, each divided into six tetrahedra.

    Parameters
    ----------
    vertices : (n, 3)
        The vertices of the surface [m].
    faces : (m, 3)
        Its triangles.
    cell : float
        The largest size of a cell [m].

    Returns
    -------
    points : (p, 3)
        The points of the solid [m].
    tets : (q, 4)
        Its tetrahedra, positively oriented.

    Raises
    ------
    InputError
        If `faces` are not triangles, if a vertex is not finite, or the size makes too many cells.
    """
    lattice = _Lattice(Inside(vertices, faces), cell)
    points, hexahedra = lattice.joined()
    return points, tets_of_hexahedra(hexahedra, lattice.cells)


def hex_cage(vertices: ArrayLike, faces: ArrayLike, cell: float) -> HexCage:
    """Build a solid of hexahedra about a surface and its inside.

    It consists of all cells of a lattice that the surface goes through or that are inside. The lattice fits
    into the box around the surface: its cells are cubes, or shorter along axes where that makes them fit. So
    a box is filled exactly, and a thin plate gets thin cells. Components of the surface that are open have no
    inside and get one layer of cells, which count as full. Neighbouring cells are connected only where the
    shape is: two fingers in adjacent cells stay separate, while two fingers in one cell become one.

    Parameters
    ----------
    vertices : (n, 3)
        The vertices of the surface [m].
    faces : (m, 3)
        Its triangles.
    cell : float
        The largest size of a cell [m].

    Returns
    -------
    HexCage
        Its points, its hexahedra and how full each of them is.

    Raises
    ------
    InputError
        If `faces` are not triangles, if a vertex is not finite, or the size makes too many cells.
    """
    lattice = _Lattice(Inside(vertices, faces), cell)
    return HexCage(*lattice.joined(), lattice.fill())


def coarse_surface(
    vertices: Array, faces: NDArray[np.int64], size: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Simplify a surface: vertices that are joined within one cube of a lattice and face one way become one.

    That is the one farthest outwards, so that corners and what the surface stands on stay. There are six ways
    to face, so that thin limbs keep a volume. Seams close.

    Parameters
    ----------
    vertices : (n, 3)
        The vertices [m].
    faces : (m, 3)
        The triangles.
    size : float
        The size of the cubes [m]; 0 leaves all vertices, and only closes seams.

    Returns
    -------
    rows : (k,)
        The vertices that are left, as rows of `vertices`.
    faces : (l, 3)
        The triangles that are left, as rows of `rows`.
    """
    points, place = weld(vertices, bounding_diagonal(vertices))
    corners = place[faces]
    triangles = points[corners] - points.mean(0)
    inverted = np.linalg.det(triangles).sum() < 0  # triangles are seen from inside
    normals = np.zeros_like(points)
    np.add.at(normals, corners, (-1 if inverted else 1) * area_normals(triangles)[:, None])
    axis = np.abs(normals).argmax(1)
    sign = np.sign(np.take_along_axis(normals, axis[:, None], 1)[:, 0])
    ends = corners[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    if size > 0:
        key = np.column_stack([np.floor((points - points.min(0)) / size), axis, sign])
        one, other = ends[(key[ends[:, 0]] == key[ends[:, 1]]).all(1)].T
    else:
        one = other = np.empty(0, np.int64)
    total = len(points)
    count, label = connected_components(
        coo_array((np.ones(len(one)), (one, other)), shape=(total, total)), directed=False
    )
    mean = np.zeros((count, 3))
    np.add.at(mean, label, normals)
    # Farthest along the axis that they face; of those on a plane, farthest along the mean normal.
    along = sign * np.take_along_axis(points, axis[:, None], 1)[:, 0]
    along = np.round(along / (ROUNDING * bounding_diagonal(points)))
    order = np.lexsort([-np.einsum("ni,ni->n", points, mean[label]), -along, label])
    outermost = order[np.searchsorted(label[order], np.arange(count))]
    merged = label[corners]
    merged = unique_faces(merged[(merged != np.roll(merged, 1, axis=1)).all(1)])
    used, left = np.unique(merged, return_inverse=True)
    _, first = np.unique(place, return_index=True)
    return first[outermost[used]], left.reshape(-1, 3)


class _Lattice:
    """The cells about a shape.

    Attributes
    ----------
    cells : (q, 3)
        Where the cells stand in the lattice.
    """

    cells: NDArray[np.int64]

    def __init__(self, shape: Inside, cell: float) -> None:
        cell = check_real("cell", cell, above=0)
        corners = shape.vertices[shape.faces]
        low, high = corners.min((0, 1)), corners.max((0, 1))
        with np.errstate(over="ignore"):
            counts = np.maximum(np.ceil((high - low) / cell - ROUNDING), 1)
        if counts.prod() > MOST_CUBES:
            raise InputError(
                f"cell must be larger: {cell!r} makes a box of {' x '.join(f'{n:.0f}' for n in counts)} cubes"
            )
        self._size = np.where(high - low > FLAT * cell, (high - low) / counts, cell)
        self._origin = (low + high - self._size * counts) / 2
        solid = shape.solid[shape.components[shape.faces[:, 0]]]
        self._triangles = (corners - self._origin) / self._size
        self._open = ~solid
        self._crossed = np.zeros((*counts.astype(np.int64), 4), np.bool_)
        self._mark(self._triangles, self._crossed)
        within = shape if solid.all() else Inside(shape.vertices, shape.faces[solid]) if solid.any() else None
        self._shape = within
        filled = self._crossed[..., 0].copy()
        filled[~filled] = self._contained(np.argwhere(~filled) + 0.5)
        self._filled = filled
        self.cells = np.argwhere(filled)

    def _mark(self, triangles: Array, crossed: NDArray[np.bool_]) -> None:
        run(kernels.mark_crossed, len(triangles), 1024, _shifted_inwards(triangles), crossed)

    def _contained(self, places: Array) -> NDArray[np.bool_]:
        """Return whether places (n, 3), in cells, are inside."""
        if self._shape is None:
            return np.zeros(len(places), np.bool_)
        return self._shape.contains(self._origin + self._size * places)

    def joined(self) -> tuple[Array, NDArray[np.int64]]:
        """Return the points [m] and the hexahedra of the cells, joined where the shape is."""
        number = np.full(self._filled.shape, -1)
        number[self._filled] = np.arange(len(self.cells))
        pairs = []
        for axis in range(3):
            upper = self.cells[self.cells[:, axis] > 0]
            lower = upper - np.eye(3, dtype=np.int64)[axis]
            beside = self._filled[tuple(lower.T)]
            upper, lower = upper[beside], lower[beside]
            joined = self._crossed[..., 1 + axis][tuple(upper.T)]
            joined[~joined] = self._contained(upper[~joined] + 0.5 * (1 - np.eye(3)[axis]))
            above, below = (number[tuple(cell[joined].T)][:, None] for cell in (upper, lower))
            shared = np.flatnonzero(CUBE_CORNERS[:, axis] == 0)
            opposite = CUBE_CORNERS[shared] + np.eye(3, dtype=np.int64)[axis]
            across = (opposite[:, None] == CUBE_CORNERS).all(2).argmax(1)
            pairs.append(np.stack([8 * above + shared, 8 * below + across]).reshape(2, -1))
        # Corners of cells that are joined, directly or through others, become one point.
        one, other = np.concatenate(pairs, axis=1)
        total = 8 * len(self.cells)
        _, label = connected_components(
            coo_array((np.ones(len(one)), (one, other)), shape=(total, total)), directed=False
        )
        _, first, point = np.unique(label, return_index=True, return_inverse=True)
        lattice = (self.cells[:, None] + CUBE_CORNERS).reshape(-1, 3)[first]
        return self._origin + self._size * lattice, point.reshape(-1, 8)

    def fill(self) -> Array:
        """Return the share (q,) of each cell that is inside the shape, or 1 where an open surface is."""
        if self._shape is None:
            return np.ones(len(self.cells))
        share = self._measured()
        share[~self._crossed[..., 0]] = 1.0
        if self._open.any():
            thin = np.zeros_like(self._crossed)
            self._mark(self._triangles[self._open], thin)
            share[thin[..., 0]] = 1.0
        return np.asarray(np.clip(share[tuple(self.cells.T)], LEAST_FILL, 1.0))

    def _measured(self) -> Array:
        """Return the shares of all cells of the lattice that are inside, along lines in the direction of x.

        Where a line passes a triangle its winding number changes by one; it is inside where that is not zero.
        A line that ends with another number than zero has gone through a hole, and does not count.
        """
        assert self._shape is not None
        nx, ny, nz = self._filled.shape
        tree = self._shape.tree
        line, x, sign = _crossings((tree.vertices[tree.faces] - self._origin) / self._size, ny, nz)
        closed = np.bincount(line, sign, minlength=ny * nz * LINES**2) == 0
        line, x, sign = (array[closed[line]] for array in (line, x, sign))
        order = np.lexsort([x, line])
        line, x, sign = line[order], np.clip(x[order], 0.0, nx), sign[order]
        after = np.cumsum(sign) != 0
        change = np.diff(after.astype(np.int64), prepend=0)  # 1 where a line goes in, -1 where it comes out
        # What goes in at x fills the rest of its cell and all cells beyond.
        cell = np.minimum(x.astype(np.int64), nx - 1)
        place, total = line * nx + cell, len(closed) * nx
        entered = np.bincount(place, change, minlength=total).reshape(-1, nx)
        rest = np.bincount(place, change * (cell + 1 - x), minlength=total).reshape(-1, nx)
        length = rest + np.cumsum(entered, axis=1) - entered
        mean = length.reshape(ny, LINES, nz, LINES, nx).sum((1, 3))
        valid = closed.reshape(ny, LINES, nz, LINES).sum((1, 3))[:, :, None]
        return np.moveaxis(np.where(valid > 0, mean / np.maximum(valid, 1), 1.0), 2, 0)


def _crossings(triangles: Array, ny: int, nz: int) -> tuple[NDArray[np.int64], Array, NDArray[np.int64]]:
    """Return where lines along x pass triangles (m, 3, 3), in cells: the line, x, and 1 inwards, -1 outwards.

    Line (j LINES + a) nz LINES + k LINES + b passes cells (., j, k). A line along the edge of a triangle
    misses it.
    """
    across = triangles[:, :, 1:] * LINES - LINE_OFFSET
    most = np.array([ny, nz]) * LINES - 1
    first = np.clip(np.ceil(across.min(1)), 0, most + 1).astype(np.int64)
    spans = np.maximum(np.clip(np.floor(across.max(1)), -1, most).astype(np.int64) - first + 1, 0)
    number = spans.prod(1)
    triangle = np.repeat(np.arange(len(triangles)), number)
    step = np.arange(len(triangle)) - np.repeat(np.cumsum(number) - number, number)
    j, k = first[triangle].T + np.stack(np.divmod(step, np.maximum(spans[triangle, 1], 1)))
    away = across[triangle] - np.stack([j, k], axis=1)[:, None]  # (n, 3, 2): from the line to the corners
    y, z = away[:, :, 0], away[:, :, 1]
    weights = np.stack([y[:, a] * z[:, b] - y[:, b] * z[:, a] for a, b in ((1, 2), (2, 0), (0, 1))], axis=1)
    hit = (weights > 0).all(1) | (weights < 0).all(1)
    weights, triangle = weights[hit], triangle[hit]
    x = np.einsum("na,na->n", weights, triangles[triangle, :, 0]) / weights.sum(1)
    # Triangles are counter-clockwise seen from outside: their normals are against x where a line goes in.
    return (j * nz * LINES + k)[hit], x, np.where(weights[:, 0] > 0, -1, 1)


def _shifted_inwards(corners: Array) -> Array:
    """Return triangles (m, 3, 3), in cells, moved inwards by INWARD_SHIFT, as (m, 9)."""
    return np.ascontiguousarray((corners - INWARD_SHIFT * unit_normals(corners)[:, None]).reshape(-1, 9))
