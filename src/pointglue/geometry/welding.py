"""Connectivity of triangle meshes as files have them: seams, copies of triangles, components, edges."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ..checks import Array

__all__ = ["bounding_diagonal", "edge_lengths", "unique_faces", "vertex_components", "weld"]

# Ratio to the size of the mesh: vertices closer together than this are one.
SEAM_WIDTH = 1e-7


def weld(vertices: Array, size: float) -> tuple[Array, NDArray[np.int64]]:
    """Merge vertices that coincide.

    Parameters
    ----------
    vertices : (n, 3)
        The vertices [m].
    size : float
        The size of the mesh [m].

    Returns
    -------
    unique : (k, 3)
        The vertices without repetition [m].
    place : (n,)
        The row of `unique` that each of the given vertices has become.
    """
    unique, place = np.unique(vertices, axis=0, return_inverse=True)
    pairs = cKDTree(unique).query_pairs(SEAM_WIDTH * size, output_type="ndarray")
    place = place.reshape(-1)
    if not len(pairs):
        return unique, place
    touching = csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(unique),) * 2)
    _, label = connected_components(touching, directed=False)
    _, first = np.unique(label, return_index=True)
    return unique[first], label[place]


def unique_faces(faces: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each triangle once, whatever the order of its corners.

    Exporters write two-sided surfaces as two copies of each triangle.

    Parameters
    ----------
    faces : (m, 3)
        The triangles.

    Returns
    -------
    (k, 3)
        The first copy of each triangle, in the given order.
    """
    _, first = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
    return faces[np.sort(first)]


def bounding_diagonal(vertices: Array) -> float:
    """Return the diagonal of the axis-aligned bounding box of vertices.

    Parameters
    ----------
    vertices : (n, d)
        The vertices [m].

    Returns
    -------
    float
        The length of the diagonal [m].
    """
    return float(np.linalg.norm(np.ptp(vertices, axis=0)))


def edge_lengths(vertices: Array, faces: NDArray[np.int64]) -> csr_array:
    """Return the lengths of the edges of a mesh.

    Parameters
    ----------
    vertices : (n, 3)
        The vertices [m].
    faces : (m, 3)
        The triangles.

    Returns
    -------
    (n, n)
        A sparse, symmetric matrix: entry (i, j) is the length of the edge between vertices i and j [m].
    """
    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    ends = np.unique(np.sort(ends, axis=1), axis=0)
    ends = ends[ends[:, 0] != ends[:, 1]]
    length = np.linalg.norm(vertices[ends[:, 0]] - vertices[ends[:, 1]], axis=1)
    rows, columns = np.concatenate([ends[:, 0], ends[:, 1]]), np.concatenate([ends[:, 1], ends[:, 0]])
    return csr_array((np.tile(length, 2), (rows, columns)), shape=(len(vertices), len(vertices)))


def vertex_components(count: int, faces: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the connected component that each vertex belongs to.

    Parameters
    ----------
    count : int
        The number of vertices.
    faces : (m, 3)
        The triangles.

    Returns
    -------
    (count,)
        The components, numbered in the order of their first vertices; -1 for vertices of no face.
    """
    ends = np.concatenate([faces[:, :2], faces[:, 1:]])
    graph = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(count, count))
    _, label = connected_components(graph, directed=False)
    used = np.zeros(count, np.bool_)
    used[faces] = True
    result = np.full(count, -1)
    result[used] = np.unique(label[used], return_inverse=True)[1].reshape(-1)
    return result
