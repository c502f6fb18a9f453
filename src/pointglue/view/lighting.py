"""The light of a picture: materials, soft shadows on the ground and ambient occlusion.

Lengths are in camera distances, with the camera's target at the origin and Y up.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft2, rfft2
from scipy.ndimage import gaussian_filter, map_coordinates
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from .colors import BACKGROUND
from .tessellation import Floats, Ints

CREASE_COSINE = np.cos(np.radians(70.0))  # edges that turn by more stay sharp, so that a box looks like one
TEXELS = 640  # number along each side of the ground's shadow map, which covers [-1, 1] camera distances
PENUMBRAS = np.array([0.004, 0.012, 0.036, 0.1])  # standard deviations of the blurs that the shadow map mixes
LIT_GROUND = 0.855 * np.array([0.97, 0.985, 1.0])  # linear light; the background's hue, or movies show rings
VOXEL = 0.01  # edge of the voxels for ambient occlusion, in camera distances
KEY_LIGHT = np.array([-0.42, 0.7, 0.5776])  # unit vector to the main light, in the camera's axes


def studio_matcap(size: int = 256) -> Floats:
    """Return a sphere in the light of a photographer's studio, in red, green, blue and black paint.

    Polyscope blends the four into any colour, and takes the light of a surface from the point of the sphere
    that has the same normal (a "matcap"). The images (4, size, size, 3) are linear light.
    """
    y, x = np.mgrid[1 : -1 : size * 1j, -1 : 1 : size * 1j]
    inside = np.minimum(1, 0.999 / np.maximum(np.hypot(x, y), 1e-9))
    x, y = x * inside, y * inside
    z = np.sqrt(1 - x * x - y * y)
    normal = np.stack([x, y, z], axis=-1)

    def lit(towards: NDArray[np.float64], wrap: float) -> Floats:
        cosine = normal @ (towards / np.linalg.norm(towards))
        return np.asarray(np.maximum(cosine + wrap, 0)[..., None] / (1 + wrap))

    key = 0.80 * lit(KEY_LIGHT, 0.25) ** 1.2 * (1, 0.97, 0.93)
    fill = 0.18 * lit(np.array([0.9, 0.1, 0.4]), 0.5) * (0.86, 0.93, 1)
    sky = (0.20 + 0.10 * y)[..., None] * (0.95, 0.98, 1)
    bounce = 0.13 * lit(np.array([0, -1, 0.4]), 0.4) * (1, 0.98, 0.95)
    halfway = lit(KEY_LIGHT + np.array([0, 0, 1]), 0)
    rim = 0.07 * ((1 - z) ** 3 * np.maximum(0.4 + 0.6 * y, 0))[..., None]
    gloss = 0.07 * halfway**28 + 0.05 * halfway**140 + rim
    # Light paint is glossier than black: an occluded surface, whose paint is darkened, would otherwise look
    # dusty.
    paint = np.concatenate([np.eye(3), np.zeros((1, 3))])[:, None, None]
    shine = np.array([0.9, 0.9, 0.9, 0.35])[:, None, None, None]
    return np.asarray(paint * (key + fill + sky + bounce) + shine * gloss)


def flat_matcap() -> Floats:
    """Return a sphere (4, 4, 4, 3) whose paint shows as it is, whatever the normal."""
    return np.concatenate([np.eye(3), np.zeros((1, 3))])[:, None, None] * np.ones((4, 4, 3))


def split_creases(vertices: Floats, faces: Ints) -> tuple[Ints, Ints]:
    """Join vertices that coincide and split those on a sharp edge, so that smooth shading is right.

    Parameters
    ----------
    vertices : (n, 3)
        Where the vertices are.
    faces : (m, 3)
        The vertices of each triangle.

    Returns
    -------
    old : (k,)
        The old index of every new vertex.
    faces : (m, 3)
        The faces in new indices.
    """
    order = np.lexsort(vertices.T)
    joined = np.zeros(len(vertices), dtype=np.int64)
    joined[order[1:]] = np.cumsum((np.diff(vertices[order], axis=0) != 0).any(axis=1))
    corner = joined[faces].ravel()
    normals = face_normals(vertices, faces)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), np.finfo(float).tiny)

    # The corners at the lower and the upper end of every edge, in an order that puts twins side by side.
    start = np.arange(faces.size)
    end = start.reshape(-1, 3)[:, [1, 2, 0]].ravel()
    low, high = np.where(corner[start] < corner[end], (start, end), (end, start))
    order = np.lexsort((corner[high], corner[low]))
    low, high, face = low[order], high[order], order // 3
    twins = (np.diff(corner[low]) == 0) & (np.diff(corner[high]) == 0)
    smooth = twins & (np.einsum("ij,ij->i", normals[face[:-1]], normals[face[1:]]) > CREASE_COSINE)

    # Corners that meet across a smooth edge are one vertex.
    a, b = np.concatenate([(c[:-1][smooth], c[1:][smooth]) for c in (low, high)], axis=1)
    graph = coo_matrix((np.ones(len(a), dtype=bool), (a, b)), shape=(faces.size, faces.size))
    count, label = connected_components(graph, directed=False)
    old = np.empty(count, dtype=np.int64)
    old[label] = faces.ravel()
    return old, label.astype(np.int64).reshape(-1, 3)


def face_normals(vertices: Floats, faces: Ints) -> Floats:
    """Return normals (m, 3) as long as twice the area of their face."""
    a, b, c = vertices[faces].transpose(1, 0, 2)
    return np.cross(b - a, c - a)


def vertex_normals(vertices: Floats, faces: Ints) -> Floats:
    """Return unit normals (k, 3) of the vertices, means over faces weighted by area."""
    of_faces = np.repeat(face_normals(vertices, faces), 3, axis=0)
    sums = [np.bincount(faces.ravel(), weights=column, minlength=len(vertices)) for column in of_faces.T]
    normals = np.stack(sums, axis=1)
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.asarray(normals / np.maximum(lengths, np.finfo(float).tiny))


def surface_samples(vertices: Floats, faces: Ints, spacing: float) -> Floats:
    """Return points (n, 3) spread over the triangles, neighbours about `spacing` apart or closer."""
    corners = vertices[faces]
    # From the corner between the shortest and the longest side, so that a sliver takes few points.
    first = np.argsort(np.linalg.norm(corners - corners[:, [1, 2, 0]], axis=2), axis=1)[:, 1]
    a, b, c = (corners[np.arange(len(faces)), (first + k) % 3] for k in (2, 0, 1))
    u, v = b - a, c - a
    steps = np.maximum(np.stack([np.linalg.norm(u, axis=1), np.linalg.norm(v, axis=1)]) / spacing, 1)
    levels = np.minimum(np.ceil(np.log2(steps)), 9).astype(int)
    kinds = levels[0] + 10 * levels[1]
    points = []
    for kind in np.unique(kinds):
        m, n = 2 ** (kind % 10), 2 ** (kind // 10)
        t, s = (index.ravel() for index in np.indices((n, m)))
        t = t / n  # rows from the side u on, each as long as the triangle is wide there
        s = (s + 0.5) / m * (1 - t)
        here = kinds == kind
        points.append(a[here, None] + s[:, None] * u[here, None] + t[:, None] * v[here, None])
    return np.concatenate([np.empty((0, 3)), *(group.reshape(-1, 3) for group in points)])


@cache
def _transfer(sigma: float) -> Floats:
    """Return the Fourier transform of a Gaussian blur over the shadow map."""
    f = np.fft.fftfreq(TEXELS, d=2 / TEXELS)
    along = np.exp(-2 * (np.pi * sigma * f) ** 2)
    return np.asarray(along[:, None] * along[: TEXELS // 2 + 1])


@cache
def ground_texture() -> Floats:
    """Return the ground without shadows (TEXELS, TEXELS, 3): a spot of light on the background."""
    along = np.linspace(-1, 1, TEXELS)
    lamp = np.clip(1 - np.hypot(along[:, None], along), 0, 1)[..., None]
    grain = np.random.default_rng(0).uniform(
        -0.003, 0.003, lamp.shape
    )  # or the steps of 8 bits show as rings
    return np.asarray(BACKGROUND + (LIT_GROUND - BACKGROUND) * lamp**2 * (3 - 2 * lamp) + grain * (lamp > 0))


def shadow_map(points: Floats, opacity: Floats, drift: Floats) -> Floats:
    """Return the share of the light that reaches the ground, softer the higher the occluders are.

    Parameters
    ----------
    points : (n, 3)
        Occluders; y is their height above the ground.
    opacity : (n,)
        How much light each takes, from 0 to 1.
    drift : (2,)
        How far a shadow moves in x and z per unit of height.

    Returns
    -------
    (TEXELS, TEXELS)
        From 0 to 1, over z and x in [-1, 1].
    """
    points, opacity = points[points[:, 1] > 0], opacity[points[:, 1] > 0]

    def blurred(image: Floats, *sigmas: float) -> list[Floats]:
        waves = rfft2(image)
        return [np.asarray(irfft2(waves * _transfer(sigma), s=image.shape)) for sigma in sigmas]

    def cells(drift: Floats) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        x = np.floor((points[:, 0] + drift[0] * points[:, 1] + 1) * (TEXELS / 2)).astype(np.int64)
        z = np.floor((points[:, 2] + drift[1] * points[:, 1] + 1) * (TEXELS / 2)).astype(np.int64)
        inside = (x >= 0) & (x < TEXELS) & (z >= 0) & (z < TEXELS)
        return (x + TEXELS * z)[inside], inside

    cell, inside = cells(drift)
    cover, height = np.zeros((TEXELS, TEXELS)), np.full((TEXELS, TEXELS), np.inf)
    np.maximum.at(cover.ravel(), cell, opacity[inside])
    np.minimum.at(height.ravel(), cell, points[inside, 1])
    hit = np.isfinite(height)
    (total,), (count,) = blurred(np.where(hit, height, 0), PENUMBRAS[2]), blurred(hit * 1.0, PENUMBRAS[2])

    # Mix, texel by texel, the two blurs on either side of the penumbra that the mean height asks for.
    level = np.interp(0.22 * total / np.maximum(count, 1e-6), PENUMBRAS, np.arange(len(PENUMBRAS)))
    layers = blurred(cover, *PENUMBRAS)
    cast = sum(np.maximum(1 - abs(level - k), 0) * layer for k, layer in enumerate(layers))

    # Little light gets in where something stands close above the ground.
    cell, inside = cells(np.zeros(2))
    contact = np.zeros((TEXELS, TEXELS))
    np.maximum.at(contact.ravel(), cell, opacity[inside] * np.exp(-points[inside, 1] / 0.02))
    (contact,) = blurred(contact, PENUMBRAS[1])
    light = (1 - 0.48 * cast) * (1 - 0.5 * contact)

    edge = np.clip(6 * (1 - np.abs(np.linspace(-1, 1, TEXELS))), 0, 1)  # nothing is cut off at the border
    return np.asarray(1 - (1 - light) * edge[:, None] * edge)


class AmbientOcclusion:
    """The share of the light that reaches a surface when others are near, from a grid of occupied voxels.

    Parameters
    ----------
    points : (n, 3)
        Samples of all surfaces.
    opacity : (n,)
        How much light each takes, from 0 to 1.
    ground : float or None
        The height of the ground, which takes light as well.
    """

    def __init__(self, points: Floats, opacity: Floats, ground: float | None) -> None:
        self.grids: list[tuple[float, NDArray[np.float32]]] = []
        seen = (np.abs(points) < 1).all(axis=1)  # one point far away would make the grid too large
        if not seen.any():
            return
        cells = np.floor(points[seen] / VOXEL).astype(np.int64)
        self.low = cells.min(axis=0) - 12
        cells -= self.low
        filled = np.zeros(cells.max(axis=0) + 13, dtype=np.float32)
        flat = np.ravel_multi_index(tuple(cells.T), filled.shape)
        np.maximum.at(filled.ravel(), flat, opacity[seen].astype(np.float32))
        if ground is not None and 0 <= (row := int(ground // VOXEL) - self.low[1]) < filled.shape[1]:
            filled[:, row] = 1
        self.grids = [(sigma, gaussian_filter(filled, sigma, truncate=2.5)) for sigma in (2.0, 5.0)]

    def light(self, points: Floats, normals: Floats, strength: float) -> Floats:
        """Return the share of the light (n,) at points with unit normals (n, 3): 1 if nothing is near."""
        light = np.ones(len(points))
        for sigma, grid in self.grids:
            cells = points / VOXEL + 1.3 * sigma * normals - self.low - 0.5
            crowd = map_coordinates(grid, cells.T, order=1)
            # What a single plane gives, and a bit more, so that nearly flat surfaces occlude nothing.
            alone = 1.15 * np.exp(-(1.3**2) / 2) / (sigma * np.sqrt(2 * np.pi))
            light /= 1 + strength * np.maximum(crowd / alone - 1, 0)
        return light
