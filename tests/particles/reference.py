"""The oriented-particle paper with its corrections in plain NumPy, slow, and the bodies that the tests share.

Nothing here is taken from the package but the order in which constraints run.
"""

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.spatial.transform import Rotation

from pointglue.particles import OrientedBody, block, hinged_boxes, rope, sheet
from pointglue.particles._solve.schedule import Schedule
from pointglue.particles._solve.topology import Topology


def quaternions(rotations):
    """wxyz."""
    return np.roll(Rotation.from_matrix(rotations).as_quat(), 1, axis=-1)


def axes_of(body):
    """Orientations at rest as matrices."""
    return Rotation.from_quat(np.roll(body.orientations, -1, axis=-1)).as_matrix()


def inertia_of(mass, radii, axes):
    """Of each solid ellipsoid about its centre, (m/5) diag(b^2 + c^2, a^2 + c^2, a^2 + b^2) in its axes."""
    moments = mass[:, None] / 5 * ((radii**2).sum(1, keepdims=True) - radii**2)
    return np.einsum("nik,nk,njk->nij", axes, moments, axes)


def curved_rope(count=9, **options):
    """A helix: bent and wound at rest, with anisotropic ellipsoids along it."""
    angle = np.linspace(0, 2.2, count)
    positions = np.stack([np.cos(angle), np.sin(angle), 0.3 * angle], axis=1)
    along = np.stack([-np.sin(angle), np.cos(angle), np.full(count, 0.3)], axis=1) / np.sqrt(1.09)
    side = np.cross(along, [0.0, 0, 1])
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    axes = np.stack([along, side, np.cross(along, side)], axis=2)
    options = {"radii": np.tile([0.13, 0.05, 0.08], (count, 1)), **options}
    edges = np.stack([np.arange(count - 1), np.arange(1, count)], axis=1)
    return OrientedBody(positions, orientations=quaternions(axes), edges=edges, **options)


def mixed(rng, **options):
    """A block of soft cells with a rope that hangs on it and a rigid group that shares one particle with it.

    Masses, radii and orientations are all different.
    """
    soft, tail = (
        block((0.6, 0.4, 0.4), (3, 2, 2)),
        rope((0.4, 0.2, 0.1), (1.0, 0.3, 0.2), particles=4, radius=0.05),
    )
    extra = np.array([[1.2, 0.3, 0.2], [1.25, 0.5, 0.2], [1.3, 0.3, 0.4]])
    positions = np.concatenate([soft.positions, tail.positions, extra])
    n, k = len(positions), len(soft)
    edges = np.concatenate([soft.edges, tail.edges + k, [[k - 1, k], [n - 4, n - 3], [n - 3, n - 2]]])
    defaults = {
        "radii": 0.04 + 0.08 * rng.random((n, 3)),
        "mass": 0.5 + rng.random(n),
        "orientations": rng.standard_normal((n, 4)),
        "stiffness": 0.1 + 0.8 * rng.random(n),
        "stretch": rng.random(len(edges)),
        "torsion": rng.random(len(edges)),
        "groups": [np.r_[n - 4 : n]],
    }
    return OrientedBody(positions, edges=edges, **{**defaults, **options})


def solids():
    """Name -> body: every builder and topology; rigid ones apart, in `rigid_solids`."""
    rng = np.random.default_rng(4)
    return {
        "sphere": OrientedBody([[0.1, 0.2, 0.3]], radii=0.2),
        "ellipsoid": OrientedBody([[0.1, 0.2, 0.3]], radii=[[0.2, 0.1, 0.05]], orientations=[[1, 2, 3, 4]]),
        "pair": OrientedBody([[0, 0, 0], [0.3, 0.1, 0]], radii=[0.1, 0.2], edges=[[0, 1]], stiffness=0.3),
        "rope": rope((0, 0, 0), (1, 0.3, 0.2), particles=8, radius=0.03, stiffness=0.3, torsion=0.2),
        "curved": curved_rope(torsion=0.5, stretch=0.3, stiffness=0.5),
        "sheet": sheet((1, 0.8), (4, 3), thickness=0.05, stiffness=0.3, stretch=0.5),
        "block": block((1, 0.6, 0.4), (4, 3, 2), stiffness=0.4),
        "mixed": mixed(rng),
    }


def rigid_solids():
    """Name -> body held together by explicit groups."""
    return {
        "box": block((1.0, 0.6, 0.4), (5, 3, 2), rigid=True),
        "hinge": hinged_boxes((0.5, 0.3, 0.4), (2, 2, 2)),
        "ball joint": ball_joint(),
    }


def ball_joint():
    """Two rigid boxes that share one particle."""
    one = block((0.4, 0.2, 0.2), (2, 1, 1))
    left, right = one.positions - [0.3, 0, 0], one.positions + [0.3, 0, 0]
    return OrientedBody(
        np.concatenate([left, right, [[0.0, 0, 0]]]),
        radii=0.1,
        mass=[8.0, 8.0, 8.0, 8.0, 2.0],
        edges=[[0, 1], [1, 4], [4, 2], [2, 3]],
        groups=[[0, 1, 4], [2, 3, 4]],
    )


def shaken(state, rng, speed=1.0, spin=3.0):
    """The same state with random velocities and spins."""
    shape = state.positions.shape
    return state.replace(
        velocities=speed * rng.standard_normal(shape), spins=spin * rng.standard_normal(shape)
    )


def turning(body, state, spin):
    """The state of a body that turns rigidly about its centre of mass, which rests."""
    arm = state.positions - np.average(state.positions, axis=0, weights=body.mass)
    spins = np.tile(np.asarray(spin, float), (len(body), 1))
    return state.replace(velocities=np.cross(spins, arm), spins=spins)


def polar(A):
    """The rotation nearest to A, by a singular value decomposition."""
    U, _, Vh = np.linalg.svd(A)
    return U @ np.diag([1, 1, np.linalg.det(U @ Vh)]) @ Vh


class Reference:
    """One body in flight, without contacts and pins, a substep of length h at a time."""

    def __init__(self, body, h, iterations=2, gravity=(0.0, 0.0, 0.0)):
        self.body, self.h, self.iterations, self.gravity = body, h, iterations, np.array(gravity)
        topology = Topology(body)
        plan = Schedule.of(
            topology, body.start().rest, np.zeros(len(body), bool), np.ones(len(body.groups), bool)
        )
        spans = zip(plan.starts[:-1], plan.starts[1:], plan.order.sets, strict=True)
        self.order = [(plan.members[a:b], int(k)) for a, b, k in spans]
        self.edge_order = [int(k) for k in topology.edge_order]
        self.rest_axes = axes_of(body)
        times = np.bincount(np.concatenate([np.empty(0, int), *body.groups]), minlength=len(body))
        self.oriented = times < 2
        self.first = np.full(len(body), -1)
        for group in reversed(range(len(body.groups))):
            self.first[body.groups[group]] = group
        self.moments = (
            np.einsum(
                "nik,nk,njk->nij", self.rest_axes, body.mass[:, None] / 5 * body.radii**2, self.rest_axes
            )
            * (self.oriented[:, None, None])
        )

    def coefficient(self, s, times):
        """The stiffness of a step of 1/60 s for one of several in this substep: the compliance stays."""
        compliance = (1 - s) / s * (1 / 60) ** 2 if s > 0 else np.inf
        whole = 1 / (1 + compliance / self.h**2)
        return 1 - (1 - whole) ** (1 / times)

    def step(self, x, R, v, w):
        body, h = self.body, self.h
        v = v + h * self.gravity
        wanted = self.angular_momenta(x, R, v, w)
        J = self.inertia(R)  # each ellipsoid precesses: the mean spin of the step
        L = np.einsum("nij,nj->ni", J, w)
        solved = [np.linalg.pinv(J[i]) @ np.cross(L[i], w[i]) for i in range(len(body))]
        mean = w + h / 2 * np.array(solved)
        xp, turned = x + h * v, [None] * len(body.groups)
        for k, (rigid, members) in enumerate(self.rotors()):
            # A rigid group, with what hangs on it, flies along arcs: it turns by its own mean spin.
            arm, spin, gain = self.turning(members, x, R, v - h * self.gravity, w)
            arc = Rotation.from_rotvec(h * (spin + gain)).apply(arm) - arm - h * np.cross(spin, arm)
            xp[members] += arc
            mean[rigid] = w[rigid] + gain
            turned[k] = gain
        Rp = Rotation.from_rotvec(h * mean).as_matrix() @ R
        for e in self.edge_order:
            self.untwist(e, Rp)
        for _ in range(self.iterations):
            for members, k in self.order:
                self.match(members, k, xp, Rp)
            if self.is_chain():
                self.stretch_chain(xp)
            else:
                for e in self.edge_order:
                    self.stretch(e, xp)
        v, w = (xp - x) / h, Rotation.from_matrix(Rp @ np.swapaxes(R, 1, 2)).as_rotvec() / h
        for k, (rigid, members) in enumerate(self.rotors()):
            # Velocities at the end of the arcs, not the mean ones.
            arm = xp[members] - np.average(xp[members], axis=0, weights=body.mass[members])
            turn = Rotation.from_matrix(Rp[rigid[0]] @ R[rigid[0]].T)
            v[members] += np.cross(turn.as_rotvec() / h + turned[k], arm) - (arm - turn.inv().apply(arm)) / h
            w[rigid] += turned[k]
        now = self.angular_momenta(xp, Rp, v, w)
        for piece in range(len(wanted)):
            # A rigid spin about the centre of mass brings back what matching took.
            inside = self.pieces() == piece
            m, arm = (
                body.mass[inside],
                xp[inside] - np.average(xp[inside], axis=0, weights=body.mass[inside]),
            )
            J = self.inertia(Rp)[inside].sum(0)
            J = J + np.einsum("n,nij->ij", m, (arm**2).sum(1)[:, None, None] * np.eye(3))
            J = J - np.einsum("n,ni,nj->ij", m, arm, arm)
            missing = np.linalg.solve(J, wanted[piece] - now[piece])
            v[inside] += np.cross(missing, arm)
            w[inside] += missing
        return xp, Rp, v, w

    def rotors(self):
        """Of each group its own particles, and these with the soft ones that are joined to it alone."""
        body, soft = self.body, self.first < 0
        links = np.zeros((len(body), len(body)))
        for i, j in body.edges:
            links[i, j] = soft[i] and soft[j]
        piece = connected_components(links, directed=False)[1]
        held = {int(p): set() for p in piece[soft]}
        for i, j in np.concatenate([body.edges, body.edges[:, ::-1]]):
            if soft[i] and not soft[j]:
                held[int(piece[i])].add(int(self.first[j]))
        for k in range(len(body.groups)):
            rigid = np.flatnonzero(self.first == k)
            hanging = [i for i in np.flatnonzero(soft) if held[int(piece[i])] == {k}]
            yield rigid, np.concatenate([rigid, hanging]).astype(int)

    def turning(self, members, x, R, v, w):
        """The arms of particles from their centre of mass, their common spin and half of how it precesses."""
        m = self.body.mass[members]
        arm = x[members] - m @ x[members] / m.sum()
        own = self.inertia(R)[members]
        L = (m[:, None] * np.cross(arm, v[members]) + np.einsum("nij,nj->ni", own, w[members])).sum(0)
        J = own.sum(0) + sum(s * (a @ a * np.eye(3) - np.outer(a, a)) for s, a in zip(m, arm, strict=True))
        spin = np.linalg.solve(J, L)
        return arm, spin, self.h / 2 * np.linalg.solve(J, np.cross(L, spin))

    def pieces(self):
        links = np.zeros((len(self.body), len(self.body)))
        for i, j in self.body.edges:
            links[i, j] = 1
        for group in self.body.groups:
            links[group[0], group] = 1
        return connected_components(links, directed=False)[1]

    def inertia(self, R):
        """Of the ellipsoids as they lie; shared particles of two groups carry none."""
        each = inertia_of(self.body.mass, self.body.radii, R @ self.rest_axes)
        return each * self.oriented[:, None, None]

    def angular_momenta(self, x, R, v, w):
        """Of each piece."""
        each = np.cross(x, self.body.mass[:, None] * v) + np.einsum("nij,nj->ni", self.inertia(R), w)
        pieces = self.pieces()
        return [each[pieces == k].sum(0) for k in range(pieces.max() + 1)]

    def match(self, members, k, x, R):
        """Equations 7 to 9 and 4 with A_i = (m/5) R_i diag(r^2) Rrest_i^T, R_i = R Rrest."""
        body, m = self.body, self.body.mass[members]
        rest = body.positions[members]
        c, rest_c = m @ x[members] / m.sum(), m @ rest / m.sum()
        A = (R[members] @ self.moments[members]).sum(0) + np.einsum("n,ni,nj->ij", m, x[members], rest)
        Q = polar(A - m.sum() * np.outer(c, rest_c))
        explicit = k >= len(body)
        turns = [i for i in members if self.first[i] == k - len(body)] if explicit else [k]
        silent = [i for i in members if i not in turns]  # the others answer for themselves
        goal = Q @ Rotation.from_rotvec(self.untorqued(members, silent, Q, R)).as_matrix()
        s = 1.0 if explicit else self.coefficient(body.stiffness[k], self.iterations)
        x[members] += s * ((rest - rest_c) @ goal.T + c - x[members])
        R[turns] = Q

    def untorqued(self, members, silent, Q, R):
        """By how much positions turn less than Q: orientations of `silent` particles exert no torque on them.

        A Newton step: H w = -Q^T t with the torque t of B Q^T, and H = tr(A) I - A for the moment matrix A at
        rest. It is turned by twice the arctangent of w / 2, and long steps are made shorter.
        """
        B = (R[silent] @ self.moments[silent]).sum(0)
        skew = B @ Q.T - Q @ B.T
        torque = Q.T @ np.array([skew[1, 2], skew[2, 0], skew[0, 1]])
        m, rest = self.body.mass[members], self.body.positions[members]
        rest = rest - m @ rest / m.sum()
        A = np.einsum("n,ni,nj->ij", m, rest, rest) + self.moments[members].sum(0)
        turn = np.linalg.pinv(np.trace(A) * np.eye(3) - A) @ torque
        half = turn / 2 / (1 + turn @ turn)
        length = max(np.linalg.norm(half), 1e-300)
        return half / length * 2 * np.arctan(length)

    def stretch(self, e, x):
        (i, j), m = self.body.edges[e], self.body.mass
        length = np.linalg.norm(self.body.positions[j] - self.body.positions[i])
        d = x[j] - x[i]
        way = self.coefficient(self.body.stretch[e], self.iterations) * (1 - length / np.linalg.norm(d)) * d
        share = m[j] / (m[i] + m[j])
        x[i] += share * way
        x[j] -= (1 - share) * way

    def is_chain(self):
        """Whether all particles are on one line of edges, all of which resist stretch."""
        degree = np.bincount(self.body.edges.ravel(), minlength=len(self.body))
        firm = len(self.body) > 1 and (self.body.stretch > 0).all()
        firm = firm and len(self.body.edges) == len(self.body) - 1
        return firm and sorted(degree)[-1] <= 2

    def stretch_chain(self, x):
        """All lengths at once: J W J^T l = |d| - l0, the diagonal over s; if s = 1 until they are right."""
        (i, j), w = self.body.edges.T, 1 / self.body.mass
        rest = np.linalg.norm(self.body.positions[j] - self.body.positions[i], axis=1)
        s = np.array([self.coefficient(v, self.iterations) for v in self.body.stretch])
        for _ in range(20 if (s == 1).all() else 1):
            d = x[j] - x[i]
            length = np.linalg.norm(d, axis=1)
            J = np.zeros((len(i), len(x), 3))
            J[np.arange(len(i)), j] = d / length[:, None]
            J[np.arange(len(i)), i] = -d / length[:, None]
            A = np.einsum("kna,n,lna->kl", J, w, J)
            A[np.diag_indices(len(i))] /= s
            way = -w[:, None] * np.einsum("k,kna->na", np.linalg.solve(A, length - rest), J)
            strain = np.abs(length / rest - 1).max()
            near = np.array([rest[(i == n) | (j == n)].min() for n in range(len(x))])
            x += way / max(1.0, (np.linalg.norm(way, axis=1) / (0.25 * (1 + 4 * strain) * near)).max())
            if strain < 1e-4:
                break

    def untwist(self, e, R):
        """22 and 23 at once, on rotations from rest, in proportion to the inverse inertias."""
        i, j = self.body.edges[e]
        s = min(
            self.coefficient(self.body.torsion[e], 1), 0.5
        )  # more would leave it all on every second edge
        weight = [1 / np.trace(self.moments[k]) if self.oriented[k] else 0.0 for k in (i, j)]
        way = Rotation.from_matrix(R[j] @ R[i].T).as_rotvec()
        share = weight[0] / sum(weight)
        R[i] = Rotation.from_rotvec(s * share * way).as_matrix() @ R[i]
        R[j] = Rotation.from_rotvec(-s * (1 - share) * way).as_matrix() @ R[j]
