"""Particles to push out of colliders, and what independent means say of the contact."""

import numpy as np
from scipy.optimize import brentq, minimize_scalar, nnls
from scipy.spatial.transform import Rotation

from pointglue.particles._solve.kernels.contact.records import ContactArrays
from pointglue.particles._solve.kernels.records import Ellipsoids
from pointglue.particles.colliders.mesh import ready_collider

CUBE = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)


class Particles:
    """A few ellipsoids and what a solver keeps of them; `push` is one substep of one iteration."""

    def __init__(self, centres, shapes, rotations=None, fixed=None):
        n = len(centres)
        self.P = np.full((n, 12), 7.0)
        self.P[:, :3] = centres
        self.E = np.tile(np.eye(3).ravel(), (n, 1)) if rotations is None else rotations.reshape(n, 9)
        self.C = np.broadcast_to(np.reshape(shapes, (-1, 9)), (n, 9)).copy()
        self.fixed = np.zeros(n, bool) if fixed is None else fixed
        self.bounds = np.sqrt(np.linalg.eigvalsh(self.C.reshape(n, 3, 3)).max(1))
        self.contacts = ContactArrays(np.zeros(n), np.zeros((n, 3)), np.zeros((n, 3)))
        self.depths, self.normals, self.corrections = self.contacts

    @property
    def ellipsoids(self):
        return Ellipsoids(self.P, self.E, self.C, self.fixed)

    def push(self, collider, start=None, times=(0.0, 0.0)):
        ready = ready_collider(collider, len(self.P))
        start = self.P[:, :3].copy() if start is None else np.array(start, float)
        ready.prepare(start, self.P, self.bounds, *times)
        ready.resolve(self.ellipsoids, self.contacts)
        return ready

    @property
    def G(self):  # noqa: N802
        E = self.E.reshape(-1, 3, 3)
        return E @ self.C.reshape(-1, 3, 3) @ E.transpose(0, 2, 1)


def turned(rng):
    return Rotation.random(random_state=rng).as_matrix()


def shape(rng, aspect, size=1.0):
    """C of an ellipsoid with this longest half axis and ratio of it to the shortest, turned anyhow."""
    R = turned(rng)
    C = R @ np.diag((size * np.array([1.0, aspect ** -rng.uniform(), 1 / aspect])) ** 2) @ R.T
    return (C + C.T) / 2


def hull_gap(corners, x, G):
    """Least |L^-1 (p - x)| over the hull of `corners`, by non-negative least squares; 1 is touching.

    With D the scaled corners from x, |D w|^2 + (sum w - 1)^2 over w >= 0 is least in the direction of the
    weights that are wanted.
    """
    D = np.linalg.solve(np.linalg.cholesky(G), (corners - x).T)
    w = nnls(np.vstack([D, np.ones(len(corners))]), np.array([0.0, 0, 0, 1]))[0]
    return np.linalg.norm(D @ (w / w.sum()))


def distance_to(x, G, point):
    """Distance of a point from an ellipsoid, 0 inside."""
    squares, axes = np.linalg.eigh(G)
    p = axes.T @ (point - x)
    if (p**2 / squares).sum() <= 1:
        return 0.0
    t = brentq(
        lambda t: (squares * (p / (squares + t)) ** 2).sum() - 1,
        0,
        np.sqrt(squares.max()) * np.linalg.norm(p),
        xtol=1e-300,
        rtol=1e-15,
    )
    return np.linalg.norm(t * p / (squares + t))


def axis_distance(start, end, x, G):
    """Distance of a line segment from an ellipsoid."""
    found = minimize_scalar(
        lambda t: distance_to(x, G, start + t * (end - start)),
        bounds=(0, 1),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return min(found.fun, distance_to(x, G, start), distance_to(x, G, end))


def last_touch(gap, way):
    """How far along a way, from outside, `gap` of the place is 1."""
    high = 1.0
    while gap(high * way) < 1:
        high *= 2
    # From far away inwards: a convex set is met once.
    low = high
    while gap(low * way) > 1:
        low *= 0.7
    return brentq(lambda s: gap(s * way) - 1, low, high, xtol=1e-300, rtol=1e-13)


def check_touch(collider, gap, way, C):
    """Just inside the touching distance there is a push, just outside there is none."""
    s = last_touch(gap, way)
    inside, outside = (Particles([s * (1 + off) * way], C) for off in (-1e-9, 1e-9))
    inside.push(collider)
    outside.push(collider)
    assert inside.depths[0] > 0
    assert outside.depths[0] == 0
    assert (outside.P[0, :3] == s * (1 + 1e-9) * way).all()


def check_bookkeeping(p, before):
    """What is noted of one push is the push."""
    moved = p.P[:, :3] - before
    np.testing.assert_allclose(p.corrections, moved, atol=1e-14)
    np.testing.assert_allclose(p.depths[:, None] * p.normals, moved, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(p.normals[p.depths > 0], axis=1), 1, rtol=1e-14)
    assert (p.P[:, 3:] == 7).all()


def sheet(cells=6, size=2.0):
    """A square of triangles in the plane y = 0."""
    i = np.arange(cells + 1)
    x, z = (g.ravel() for g in np.meshgrid(size * (i / cells - 0.5), size * (i / cells - 0.5), indexing="ij"))
    a = (i[:-1, None] * (cells + 1) + i[None, :-1]).ravel()
    b, c, d = a + 1, a + cells + 2, a + cells + 1
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    return np.stack([x, 0 * x, z], 1), faces


def star():
    """A closed mesh with sharp spikes, whose inside is known: eight tetrahedra upon an octahedron."""
    vertices = np.concatenate([0.3 * np.eye(3), -0.3 * np.eye(3), CUBE])
    faces = []
    for k, s in enumerate(CUBE):
        ring = [a if s[a] > 0 else a + 3 for a in range(3)]
        ring = ring if s.prod() > 0 else ring[::-1]
        faces += [[ring[0], ring[1], k + 6], [ring[1], ring[2], k + 6], [ring[2], ring[0], k + 6]]
    return vertices, np.array(faces)
