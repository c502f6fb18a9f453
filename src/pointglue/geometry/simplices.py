"""Triangles, tetrahedra and hexahedra: where a point lies among them, and boxes and cages made of them."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Array, as_array, as_integers, as_reals, check_integer, check_real, require_finite
from ..compute import run
from ..errors import InputError
from .kernels import trees as kernels
from .normals import unit_normals
from .shapes import check_box

__all__ = [
    "CUBE_CORNERS",
    "barycentric",
    "check_cells",
    "hex_box",
    "lattice_cage",
    "locate",
    "tet_box",
    "tet_surface",
    "tets_of_hexahedra",
]

# The corners of a cube in the order of VTK: around the lower side, counter-clockwise seen from above, then
# around the upper one.
CUBE_CORNERS = np.array(
    [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]]
)
# Kuhn's six tetrahedra of a cube, one per path from corner 0 to corner 6 along three edges. Cubes side by
# side cut their common face alike, and so do cubes that are mirror images in their common face.
CUBE_TETS = np.array([[0, 1, 2, 6], [0, 2, 3, 6], [0, 3, 7, 6], [0, 7, 4, 6], [0, 4, 5, 6], [0, 5, 1, 6]])
# Ratio of volume to the product of edges: a simplex below it is flat but for rounding.
FLAT = 1e-12
# Ratio to the size of a cell: a larger tolerance would let points into cells next to theirs.
LARGEST_TOLERANCE = 0.1
# Largest number of boxes of the search grid along its longest side.
MOST_BOXES = 100
# Ratio of the points' size to the spacing of a lattice, beyond which whole numbers would not do.
MOST_CUBES = 1e6
# Ratio to the size of a hexahedron: the accuracy to which the place of a point in it is found.
ROUNDING = 1e-12
# Largest number of steps to a point's place in a hexahedron, of which one that is not distorted needs one.
NEWTON_STEPS = 20
# Least number of points per thread.
POINTS_PER_THREAD = 1024


def check_cells(
    vertices: ArrayLike, cells: ArrayLike, name: str = "cells", *, solids: tuple[int, ...] = (4,)
) -> tuple[Array, NDArray[np.int64]]:
    """Check vertices (n, d) and the triangles or, in space, solid cells between them.

    Parameters
    ----------
    vertices : (n, 3) or (n, 2)
        The vertices [m].
    cells : (m, 3), (m, 4) or (m, 8)
        Rows of the vertices.
    name : str
        What the cells are called, for the messages.
    solids : tuple of int
        How many corners a cell may have in space besides 3: 4 for tetrahedra, 8 for hexahedra.

    Returns
    -------
    vertices : (n, d)
        The vertices as float64, a copy [m].
    cells : (m, 3), (m, 4) or (m, 8)
        The cells as int64.

    Raises
    ------
    InputError
        If a shape is wrong, a number is not finite, or a cell names a vertex that does not exist.
    """
    points, simplices = as_reals("vertices", vertices), as_array(name, cells)
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise InputError(f"vertices must have shape (n, 3) or (n, 2), got shape {points.shape}")
    require_finite("vertices", points)
    corners = (*solids, 3) if points.shape[1] == 3 else (3,)
    if simplices.ndim != 2 or simplices.shape[1] not in corners or not simplices.size:
        *others, last = (f"(m, {count})" for count in corners)
        expected = f"{', '.join(others)} or {last}" if others else last
        raise InputError(f"{name} must have shape {expected}, got shape {simplices.shape}")
    flat = as_integers(name, simplices.ravel())
    if flat.min() < 0 or flat.max() >= len(points):
        raise InputError(
            f"{name} must index the {len(points)} vertices, got numbers from {flat.min()} to {flat.max()}"
        )
    return points.astype(np.float64), flat.reshape(simplices.shape)


def barycentric(corners: Array) -> Array:
    """Compute the affine maps from a point (p, 1) to its barycentric coordinates in simplices.

    Parameters
    ----------
    corners : (m, k, d)
        The corners of the simplices [m].

    Returns
    -------
    (m, k, d + 1)
        The maps; nan for flat simplices. For triangles in space (k = d = 3) there is a fourth row, the
        height above the plane.
    """
    k, d = corners.shape[1:]
    edges = np.swapaxes(corners[:, 1:] - corners[:, :1], 1, 2)  # (m, d, k - 1)
    surface = k == d == 3
    if surface:
        edges = np.concatenate([edges, unit_normals(corners)[:, :, None]], axis=2)
    reach = np.prod(np.linalg.norm(edges, axis=1), axis=1)
    flat = ~(np.abs(np.linalg.det(edges)) > FLAT * reach)
    edges[flat] = np.eye(d)
    inverse = np.linalg.inv(edges)
    inverse[flat] = np.nan
    others = inverse[:, : k - 1]
    rows = np.concatenate([-others.sum(1, keepdims=True), inverse], axis=1)
    constants = -np.einsum("mij,mj->mi", rows, corners[:, 0])
    constants[:, 0] += 1.0
    return np.concatenate([rows, constants[:, :, None]], axis=2)


def locate(
    vertices: ArrayLike, cells: ArrayLike, points: ArrayLike, *, tolerance: float = 1e-9
) -> tuple[NDArray[np.int64], Array]:
    """Find the cell that holds each point.

    Parameters
    ----------
    vertices : (v, 3) or (v, 2)
        The vertices of the cells [m].
    cells : (m, k)
        Triangles (k = 3), tetrahedra (k = 4) or hexahedra (k = 8) with corners in the order of VTK.
    points : (n, 3) or (n, 2)
        The points [m].
    tolerance : float
        Points outside by less than this share of their cell's size count as inside, as do points at that
        height over a triangle in space.

    Returns
    -------
    found : (n,)
        The cell of each point, -1 if none holds it.
    weights : (n, k)
        Weights of the corners of the cell in the point, never negative; they sum to one.

    Raises
    ------
    InputError
        If an argument is not of that kind, or no cell has a size.
    """
    corners_of, simplices = check_cells(vertices, cells, solids=(8, 4))
    tolerance = check_real("tolerance", tolerance, at_least=0, at_most=LARGEST_TOLERANCE)
    wanted = as_reals("points", points).astype(np.float64)
    d, k = corners_of.shape[1], simplices.shape[1]
    if wanted.ndim != 2 or wanted.shape[1] != d:
        raise InputError(f"points must have shape (n, {d}) like vertices, got shape {wanted.shape}")
    require_finite("points", wanted)
    if k == 8:
        return _locate_in_hexahedra(corners_of, simplices, wanted, tolerance)
    corners = corners_of[simplices]
    maps = barycentric(corners)
    extent = (corners.max(1) - corners.min(1)).max(1)
    if not extent.max() > 0:
        raise InputError("cells must have a size: the corners of each one coincide")
    low = corners.min(1) - tolerance * extent[:, None]
    high = corners.max(1) + tolerance * extent[:, None]
    # A grid of boxes about as large as the cells, each with the list of cells that touch it.
    origin = low.min(0)
    size = max(float(np.median(extent[extent > 0])), float((high.max(0) - origin).max()) / MOST_BOXES)
    counts = np.ceil((high.max(0) - origin) / size).astype(np.int64) + 1
    first = np.floor((low - origin) / size).astype(np.int64)
    spans = np.floor((high - origin) / size).astype(np.int64) - first + 1
    per_cell = spans.prod(1)
    cell = np.repeat(np.arange(len(simplices)), per_cell)
    number = np.arange(len(cell)) - np.repeat(np.cumsum(per_cell) - per_cell, per_cell)
    box = np.zeros(len(cell), dtype=np.int64)
    for axis in range(d):
        number, step = np.divmod(number, spans[cell, axis])
        box = box * counts[axis] + first[cell, axis] + step
    order = np.argsort(box, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(box, minlength=counts.prod()))])
    found, weights = np.full(len(wanted), -1), np.zeros((len(wanted), k))
    place = np.floor((wanted - origin) / size).astype(np.int64)
    outside = ((place < 0) | (place >= counts)).any(1)
    boxes = np.where(outside, -1, np.ravel_multi_index(tuple(np.where(outside, 0, place.T)), tuple(counts)))
    grid = kernels.CellGrid(starts, cell[order], maps, extent)
    run(kernels.search, len(wanted), POINTS_PER_THREAD, wanted, boxes, grid, tolerance, found, weights)
    return found, weights


def _locate_in_hexahedra(
    vertices: Array, hexahedra: NDArray[np.int64], points: Array, tolerance: float
) -> tuple[NDArray[np.int64], Array]:
    """Return the hexahedron that holds each point, and trilinear weights of its corners.

    Warped faces are not those of the tetrahedra in which points are found: a point that is beside its
    hexahedron, as trilinear weights see it, has the weights of its tetrahedron.
    """
    tets = tets_of_hexahedra(hexahedra)
    tet, shares = locate(vertices, tets, points, tolerance=tolerance)
    inside = tet >= 0
    found, weights = np.where(inside, tet // len(CUBE_TETS), -1), np.zeros((len(points), 8))
    corners = vertices[hexahedra[found[inside]]]
    own = np.zeros((len(corners), 8))
    np.put_along_axis(own, CUBE_TETS[tet[inside] % len(CUBE_TETS)], shares[inside], axis=1)
    trilinear = _trilinear(corners, points[inside])
    size = np.ptp(corners, axis=1).max(1)
    apart = np.abs(np.einsum("na,nai->ni", trilinear, corners) - points[inside]).max(1)
    weights[inside] = np.where((apart > max(tolerance, ROUNDING) * size)[:, None], own, trilinear)
    return found, weights


def _trilinear(corners: Array, points: Array) -> Array:
    """Return the weights (n, 8) of the corners (n, 8, 3) of hexahedra in points (n, 3), none negative.

    The place of a point among the corners of a cube is found by Newton's method, in one step for
    parallelepipeds.
    """
    place, change = np.full((len(points), 3), 0.5), np.ones((len(points), 3))
    for _ in range(NEWTON_STEPS):
        factors = np.where(CUBE_CORNERS, place[:, None], 1 - place[:, None])  # (n, 8, 3)
        error = points - np.einsum("na,nai->ni", factors.prod(2), corners)
        slopes = np.stack(
            [(2 * CUBE_CORNERS[:, c] - 1) * np.delete(factors, c, axis=2).prod(2) for c in range(3)], axis=1
        )
        change = np.linalg.solve(np.swapaxes(slopes @ corners, 1, 2), error[:, :, None])[:, :, 0]
        change = np.clip(place + change, 0.0, 1.0) - place
        place += change
        if not (np.abs(change) > ROUNDING).any():
            break
    return np.asarray(np.where(CUBE_CORNERS, place[:, None], 1 - place[:, None]).prod(2))


def hex_box(size: tuple[float, float, float], cells: tuple[int, int, int]) -> tuple[Array, NDArray[np.int64]]:
    """Build a solid box about the origin, of hexahedra.

    Parameters
    ----------
    size : (3,)
        Its lengths [m].
    cells : (3,)
        How many hexahedra there are along each of them.

    Returns
    -------
    vertices : (n, 3)
        The vertices [m].
    hexahedra : (m, 8)
        The corners of the hexahedra, in the order of VTK.

    Raises
    ------
    InputError
        If a length is not positive or a number of cells less than 1.
    """
    cubes = _cubes_of_box(size, cells)
    lattice, hexahedra = _hexahedra_of_cubes(cubes)
    return (lattice / np.array(cells) - 0.5) * np.array(size), hexahedra


def tet_box(size: tuple[float, float, float], cells: tuple[int, int, int]) -> tuple[Array, NDArray[np.int64]]:
    """Build a solid box about the origin, of tetrahedra.

    The diagonals of neighbouring cubes are mirror images of each other. So the box is symmetric where the
    numbers of cubes are even, and a bar does not bend sideways. Tetrahedra with linear weights converge with
    the square of their size, but from far away: see :func:`hex_box`.

    Parameters
    ----------
    size : (3,)
        Its lengths [m].
    cells : (3,)
        How many cubes there are along each of them.

    Returns
    -------
    vertices : (n, 3)
        The vertices [m].
    tets : (m, 4)
        Six tetrahedra for each of the cubes.

    Raises
    ------
    InputError
        If a length is not positive or a number of cells less than 1.
    """
    cubes = _cubes_of_box(size, cells)
    lattice, hexahedra = _hexahedra_of_cubes(cubes)
    return (lattice / np.array(cells) - 0.5) * np.array(size), tets_of_hexahedra(hexahedra, cubes)


def lattice_cage(points: ArrayLike, spacing: float, *, least: int = 1) -> tuple[Array, NDArray[np.int64]]:
    """Build a coarse cage about points: the cubes of a lattice that hold some of them.

    Parameters
    ----------
    points : (n, 3)
        The points [m].
    spacing : float
        The size of a cube [m].
    least : int
        How many points a cube must hold. With 1 every point is inside; a larger number leaves thin parts
        out, which :func:`pointglue.embed` moves along all the same.

    Returns
    -------
    vertices : (k, 3)
        The vertices [m].
    tets : (m, 4)
        Six tetrahedra for each of the cubes.

    Raises
    ------
    InputError
        If an argument is not of that kind, or no cube holds `least` points.
    """
    given = as_reals("points", points)
    if given.ndim != 2 or given.shape[1] != 3 or not len(given):
        raise InputError(f"points must have shape (n, 3), at least one row, got shape {given.shape}")
    require_finite("points", given)
    spacing = check_real("spacing", spacing, above=0)
    if np.ptp(given, axis=0).max() / spacing > MOST_CUBES:
        raise InputError(f"spacing {spacing!r} is less than a millionth of the points' size")
    least = check_integer("least", least)
    origin = given.min(0) - spacing / 2
    cubes, held = np.unique(np.floor((given - origin) / spacing).astype(np.int64), axis=0, return_counts=True)
    if not (held >= least).any():
        raise InputError(f"least must be at most {held.max()}, the most points in one cube, got {least!r}")
    lattice, hexahedra = _hexahedra_of_cubes(cubes[held >= least])
    return origin + spacing * lattice, tets_of_hexahedra(hexahedra, cubes[held >= least])


def tets_of_hexahedra(hexahedra: ArrayLike, cubes: ArrayLike | None = None) -> NDArray[np.int64]:
    """Divide hexahedra into tetrahedra.

    Parameters
    ----------
    hexahedra : (m, 8)
        The corners of the hexahedra, in the order of VTK.
    cubes : (m, 3), optional
        Where each of them stands in a lattice, as whole numbers: neighbours are then divided as mirror images
        of each other, so that diagonals alternate. Without it all are divided alike.

    Returns
    -------
    (6 m, 4)
        Six tetrahedra for each, one hexahedron after the other.
    """
    cells = np.asarray(hexahedra, np.int64)
    flips = np.zeros((len(cells), 3), np.int64) if cubes is None else np.asarray(cubes, np.int64) % 2
    mirrored = CUBE_CORNERS ^ flips[:, None]  # (m, 8, 3): which corner takes the part of each
    corner = (mirrored[:, :, None] == CUBE_CORNERS).all(3).argmax(2)
    tets = np.take_along_axis(cells, corner, axis=1)[:, CUBE_TETS]
    odd = flips.sum(1) % 2 == 1
    tets[odd] = tets[odd][:, :, [0, 2, 1, 3]]  # a mirror image has the other orientation
    return tets.reshape(-1, 4)


def _cubes_of_box(size: tuple[float, float, float], cells: tuple[int, int, int]) -> NDArray[np.int64]:
    check_box(size, cells)
    return np.stack(np.meshgrid(*(np.arange(n) for n in cells), indexing="ij"), axis=-1).reshape(-1, 3)


def _hexahedra_of_cubes(cubes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return whole-number vertices, each once, and the hexahedra of unit cubes, given their low corners."""
    corners = (cubes[:, None] + CUBE_CORNERS).reshape(-1, 3)
    first, index, _ = _distinct(corners)
    return corners[first], index.reshape(-1, 8)


def _distinct(
    rows: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the index of each distinct row (n, k) where it comes first, which one each row is, and counts.

    Distinct rows are in ascending order, as `np.unique` returns them, which takes several times as long.
    """
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.ones(len(rows), np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]).any(1)
    index = np.empty(len(rows), np.int64)
    index[order] = np.cumsum(new) - 1
    return order[new], index, np.bincount(index)


def tet_surface(tets: ArrayLike) -> NDArray[np.int64]:
    """Return the surface of a solid: the triangles that belong to one tetrahedron only.

    Parameters
    ----------
    tets : (n, 4)
        The tetrahedra, positively oriented.

    Returns
    -------
    (m, 3)
        The triangles, counter-clockwise seen from outside.

    Raises
    ------
    InputError
        If `tets` are not rows of four whole numbers.
    """
    cells = as_array("tets", tets)
    if cells.ndim != 2 or cells.shape[1] != 4 or cells.dtype.kind not in "iu":
        raise InputError(f"tets must be whole numbers of shape (m, 4), got {cells.dtype} {cells.shape}")
    # Copies of a tetrahedron are left out: a face between two copies is still on the surface.
    cells = cells[np.sort(_distinct(np.sort(cells, axis=1))[0])]
    faces = cells[:, [[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]]].reshape(-1, 3)
    first, _, count = _distinct(np.sort(faces, axis=1))
    return np.asarray(faces[np.sort(first[count == 1])], dtype=np.int64)
