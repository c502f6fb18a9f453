"""A shirt on somebody who moves: buttons, pocket and cuffs are held by glue, all else by contact.

The left front lies over the right one. Where it is buttoned, glue holds a few of its points before the right
front, on the proper side and a little apart; the buttons are rigid bodies on it, and the pocket is a cloth of
its own, sewn on along three sides. The collar is open at first: springs of glue close its two buttons. Cuffs
are glued to the wrists and let go later. (Figure 6 of the Point Cloud Glue paper.)

    python examples/shirt.py [PICTURE.png] [MOVIE.mp4]

Without a movie it is a coarser shirt and a shorter story.
"""

import time

import numpy as np
import trimesh
from _report import paths, save_movie, save_picture
from scipy.sparse import coo_array, diags_array, eye_array, vstack
from scipy.spatial import cKDTree

import pointglue as pg
from pointglue import assets, view
from pointglue.compute import measured
from pointglue.elastic import Bond, ClothEnergy, Contact, ElasticBody, ImplicitSolver, JointBond, RigidBody
from pointglue.glue import Spring

STEP = 1 / 60  # s
SHOWN = (0.0, 1.25, 2.75)  # s
VIEW, ASIDE = (1.0, 0.1, -0.42), 1.41  # from where it is seen, and how far apart in the picture (m)
CONTACT = Contact(distance=2e-3, thickness=5e-4, friction=0.3)
COTTON = {"poisson": 0.3, "limit": 1.1}
STRETCH, BEND = (900.0, 2500.0), (4e-5, 3e-4)  # N/m and N m: of cloth, and lined
DENSITY = 0.16  # kg/m^2
BEFORE = 4e-3  # m from the cloth to the middle of a button
CLOSED_LATER = 2  # buttons, from the top
SPRING = {"stiffness": 60.0, "damping": 6.0}  # N/m, N s/m
OPEN = (1.345, 0.155, np.radians(34))  # m from where on, within what height, and how far
HINGE = -0.085  # m, about which the front is turned open
ARM = np.radians(46)  # how far sleeves point down
SKIN, TROUSERS, WHITE, NAVY, BLUE, PALE, STITCH, THREAD = (
    np.array([int(code[k : k + 2], 16) for k in (0, 2, 4)]) / 255
    for code in ("d8b896", "3b4350", "f0f1f2", "28344a", "7ba4d4", "c6daee", "3f6298", "93a7bf")
)
PROFILE = [(0, -1.0), (6.5, -1.0), (8, 0.2), (8, 1.2), (7, 1.6), (5.5, 0.9), (0, 0.9)]  # of a button, mm
# What the paper's figure is of, the fits of glue with their derivatives; and second derivatives.
FITS = ("glue.kernels.fit_positions", "procrustes.kernels.jacobian")
HESSIANS = ("glue.kernels.hessian_terms", "glue.kernels.sum_hessian_pairs")
LINED = [assets.SHIRT_PARTS.index(part) for part in ("cuff", "placket", "stand", "collar")]


class Outfit:
    """The scene: what is in it, and its solver. Times in s."""

    def __init__(self, detail, *, close, release):
        self.torso, self.shirt = assets.torso(2), assets.shirt(detail)
        shirt, lined = self.shirt, np.isin(self.shirt.parts, LINED)
        self.energy = ClothEnergy(
            shirt.vertices,
            shirt.faces,
            stretch=np.where(lined, STRETCH[1], STRETCH[0]),
            bend=np.where(lined, BEND[1], BEND[0]),
            **COTTON,
        )
        pocket_energy = ClothEnergy(*shirt.pocket, stretch=STRETCH[0], bend=4 * BEND[0], **COTTON)
        start = opened(shirt)
        self.bonds = [self._buttonhole(k, close) for k in range(len(shirt.buttons))]
        self.buttons, self.welds = zip(
            *(self._button(k, start) for k in range(len(shirt.buttons))), strict=True
        )
        self.seam = Bond(
            "pocket", shirt.seam, "shirt", pg.bind_glue(shirt.vertices, shirt.pocket[0][shirt.seam])
        )
        self.cuffs = [
            Bond("shirt", cuff, "torso", self._around_wrist(cuff), release=release) for cuff in shirt.cuffs
        ]
        count = len(self.torso.vertices)
        self.solver = ImplicitSolver(
            [
                ElasticBody(
                    self.torso.vertices,
                    np.full(count, 0.01),
                    pinned=np.ones(count, bool),
                    motion=self.torso.pose,
                    faces=self.torso.faces,
                    name="torso",
                ),
                ElasticBody(start, self.energy.mass(DENSITY), [self.energy], faces=shirt.faces, name="shirt"),
                ElasticBody(
                    shirt.pocket[0],
                    pocket_energy.mass(DENSITY),
                    [pocket_energy],
                    faces=shirt.pocket[1],
                    name="pocket",
                ),
                *self.buttons,
            ],
            glue=[*self.bonds, self.seam, *self.cuffs],
            joints=self.welds,
            contact=CONTACT,
        )

    def _buttonhole(self, k, close):
        """Four points of the left front around a button, held before the right front."""
        shirt = self.shirt
        near = shirt.left[cKDTree(shirt.vertices[shirt.left]).query(shirt.buttons[k], 4)[1]]
        glue = pg.bind_glue(shirt.vertices, shirt.vertices[near], among=shirt.right)
        spring = Spring(**SPRING, attach=close) if k < CLOSED_LATER else None
        return Bond("shirt", near, "shirt", glue, spring=spring)

    def _button(self, k, start):
        """A button where it is on the open shirt, and the weld that holds it there."""
        shirt = self.shirt
        place = shirt.buttons[k] + BEFORE * shirt.normals[k]
        pose = pg.bind_glue(shirt.vertices, [place], among=shirt.left).at(start)
        side = np.cross([0.0, 1.0, 0.0], shirt.normals[k])
        side /= np.linalg.norm(side)
        frame = pose.rotations[0] @ np.stack(
            [side, np.cross(shirt.normals[k], side), shirt.normals[k]], axis=1
        )
        disc = trimesh.creation.revolve(1e-3 * np.array(PROFILE), sections=16)
        body = RigidBody.solid(
            disc.vertices @ frame.T + pose.positions[0], disc.faces, 1200.0, name=f"button {k}"
        )
        among = (shirt.left, None)
        weld = pg.bind_joint(start, body.positions, pose.positions[0], kind="weld", among=among)
        return body, JointBond("shirt", body.name, weld)

    def _around_wrist(self, cuff):
        return pg.bind_glue(self.torso.vertices, self.shirt.vertices[cuff])


def opened(shirt):
    """Vertices with the collar open: the left front is turned outwards, about the side of the neck."""
    x = shirt.vertices
    mine = (x[:, 0] > 0) & (x[:, 2] > HINGE) & (x[:, 2] < 0)
    mine[shirt.left], mine[shirt.right] = True, False
    low, within, most = OPEN
    far = np.maximum(x[:, 2] - HINGE, 0.0) * mine
    # The cloth keeps its length: it bends more and more, over 6 cm.
    turn = most * smooth((x[:, 1] - low) / within) * smooth(np.linspace(0, 1, 33)[:, None] * far / 0.06)
    return x + far[:, None] * np.stack([np.sin(turn).mean(0), 0 * far, np.cos(turn).mean(0) - 1], axis=1)


def smooth(x):
    """From 0 at 0 to 1 at 1, level at both ends and beyond."""
    t = np.clip(x, 0, 1)
    return t * t * (3 - 2 * t)


def run(outfit, seconds):
    """States, seconds that each took, and those of kernels but for the first step, which loads them.

    No state may have an intersection.
    """
    states, taken = [outfit.solver.start()], []
    with measured() as kernels:
        for _ in range(round(seconds / STEP)):
            begin = time.perf_counter()
            states.append(outfit.solver.step(states[-1], STEP))
            taken.append(time.perf_counter() - begin)
            assert not outfit.solver.surfaces.intersecting(states[-1].positions)
            if len(taken) == 1:
                kernels.clear()
    return states, taken, kernels


def layers(outfit, states):
    """Signed distances (m) of the left front's glued points from the right front: by glue, and linearly.

    The linear binding is that to the nearest triangle of the right front.
    """
    shirt = outfit.shirt
    bonds = outfit.bonds[CLOSED_LATER:]
    points = np.concatenate([bond.points for bond in bonds])
    under = shirt.faces[np.isin(shirt.faces, shirt.right).any(1)]
    near = under[nearest(shirt.vertices[under], shirt.vertices[points])]
    linear = pg.bind_linear(shirt.vertices, shirt.vertices[points], near)
    out = []
    for state in states:
        x = state.body("shirt")
        a, b, c = np.moveaxis(x[near], 1, 0)
        normal = np.cross(b - a, c - a)
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        out.append([((place - a) * normal).sum(1) for place in (x[points], linear.positions(x))])
    return np.moveaxis(np.array(out), 1, 0)


def nearest(triangles, points):
    """The triangle (m, 3, 3) that is nearest to each of the points (n, 3)."""
    m, n = len(triangles), len(points)
    on = trimesh.triangles.closest_point(np.tile(triangles, (n, 1, 1)), np.repeat(points, m, axis=0))
    return np.linalg.norm(on.reshape(n, m, 3) - points[:, None], axis=2).argmin(1)


class Drawing:
    """How it is drawn: cloth smoothed by two rounds of Loop's subdivision, striped along its threads."""

    def __init__(self, outfit, rounds=2):
        self.outfit, shirt = outfit, outfit.shirt
        self.cloth, self.faces = loop(shirt.faces, len(shirt.vertices), rounds)
        self.pocket, self.pocket_faces = loop(shirt.pocket[1], len(shirt.pocket[0]), rounds)
        rest = self.cloth @ shirt.vertices
        self.parts = np.repeat(shirt.parts, len(self.faces) // len(shirt.parts))
        self.seams = borders(self.faces, self.parts)
        x, _, z = rest.T
        around = {"trunk": 0.17 * np.arctan2(z, x)}
        for part, side in (("left sleeve", -1), ("right sleeve", 1)):
            up = np.array([0.0, np.cos(ARM), side * np.sin(ARM)])
            from_axis = rest - [0.0, 1.337, side * 0.165]
            around[part] = 0.075 * np.arctan2(from_axis @ up, x)
        self.colors = {part: striped(around[part]) for part in around}
        rest = self.pocket @ shirt.pocket[0]
        # Around the pocket, in order: its hem.
        edge = trimesh.Trimesh(rest, self.pocket_faces, process=False).outline()
        self.hem = edge.entities[0].points
        self.colors["pocket"] = striped(0.17 * np.arctan2(rest[:, 2], rest[:, 0]))

    def draw(self, scene, state, place=0.0):
        """Add all of it, shifted to the right in the picture."""
        shift = place * scene.camera.axes[0]
        outfit, torso = self.outfit, self.outfit.torso
        dressed = smooth((torso.height - 0.90) / 0.01)[:, None]
        scene.mesh(state.body("torso") + shift, torso.faces, color=dressed * SKIN + (1 - dressed) * TROUSERS)
        vertices = self.cloth @ state.body("shirt") + shift
        for number, part in enumerate(assets.SHIRT_PARTS):
            faces = self.faces[self.parts == number]
            scene.mesh(vertices, faces, color=self.colors.get(part, WHITE))
        used, seams = np.unique(self.seams, return_inverse=True)
        scene.lines(vertices[used], segments=seams.reshape(-1, 2), color=THREAD, radius=0.0009)
        pocket = self.pocket @ state.body("pocket") + shift
        scene.mesh(pocket, self.pocket_faces, color=self.colors["pocket"])
        scene.lines(pocket[self.hem], color=STITCH, radius=0.0011)
        for button in outfit.buttons:
            scene.mesh(state.body(button.name) + shift, button.faces, color=NAVY)


def loop(faces, count, rounds):
    """Loop's subdivision of triangles between `count` points: the matrix of the new ones, and faces."""
    whole = eye_array(count, format="csr")
    for _ in range(rounds):
        sides = faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
        edges, at, uses = np.unique(np.sort(sides, axis=1), axis=0, return_inverse=True, return_counts=True)
        k, rows = len(edges), np.arange(len(edges))
        inner = uses == 2
        across = coo_array((np.ones(len(at)), (at, faces[:, [2, 0, 1]].ravel())), shape=(k, count)).tocsr()
        ends = coo_array((np.ones(2 * k), (np.repeat(rows, 2), edges.ravel())), shape=(k, count)).tocsr()
        middles = diags_array(np.where(inner, 3, 4) / 8) @ ends + diags_array(inner / 8) @ across
        # Points go a little towards their neighbours; those on the border only towards those on it.
        border = np.zeros(count, bool)
        border[edges[~inner]] = True
        near = np.concatenate([edges, edges[:, ::-1]])
        near = near[~border[near[:, 0]] | np.tile(~inner, 2)]
        degree = np.bincount(near[:, 0], minlength=count)
        share = np.where(border, 1 / 8, (5 / 8 - (3 / 8 + np.cos(2 * np.pi / degree) / 4) ** 2) / degree)
        pull = coo_array((share[near[:, 0]], near.T), shape=(count, count)).tocsr()
        kept = diags_array(1 - share * degree) + pull
        whole = vstack([kept, middles]).tocsr() @ whole
        a, b, c = faces.T
        ab, bc, ca = count + at.reshape(-1, 3).T
        faces = (
            np.stack([[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]]).transpose(2, 0, 1).reshape(-1, 3)
        )
        count += k
    return whole, faces


def borders(faces, parts):
    """Edges (k, 2) between triangles of different parts."""
    sides = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]], axis=2).reshape(-1, 2)
    edges, at = np.unique(sides, axis=0, return_inverse=True)
    low, high = np.full(len(edges), parts.max()), np.zeros(len(edges), int)
    np.minimum.at(low, at, np.repeat(parts, 3))
    np.maximum.at(high, at, np.repeat(parts, 3))
    return edges[low < high]


def striped(across):
    """Colours (n, 3) of cloth at such places across its threads (m)."""
    share = np.clip(0.5 + 1.2 * np.sin(2 * np.pi * across / 0.022), 0, 1)[:, None]
    return share * BLUE + (1 - share) * PALE


def tell(outfit, states, taken, kernels):
    """Print what it took, and check what holds."""
    reports, clock = [state.report for state in states[1:]], sum(taken)
    print(
        f"{len(outfit.shirt.vertices)} points of the shirt, {len(outfit.torso.vertices)} of the body, "
        f"{len(outfit.buttons)} buttons, {len(reports)} steps of {clock / len(reports):.2f} s"
    )
    print(
        f"{np.mean([report.iterations for report in reports]):.1f} Newton iterations a step, "
        f"{np.mean([report.contacts for report in reports]):.0f} contacts, "
        f"{max(report.contacts for report in reports)} at most"
    )
    clock = sum(taken[1:])
    spent = {part: sum(report.seconds[part] for report in reports[1:]) for part in reports[0].seconds}
    print(", ".join(f"{part} {value / clock:.2%}" for part, value in spent.items()))
    fits, bends = (sum(kernels[name] for name in names) / clock for names in (FITS, HESSIANS))
    print(
        f"of glue, fits and their derivatives take {fits:.3%} (the paper's: < 0.1 %), second ones {bends:.3%}"
    )
    gap = min(report.gap for report in reports)
    print(f"nothing intersects; surfaces come as near as {1e3 * (gap + CONTACT.thickness):.2f} mm")
    glued, linear = layers(outfit, states)
    print(
        f"at the buttons the fronts are {1e3 * glued.min():.1f} to {1e3 * glued.max():.1f} mm apart by glue, "
        f"{1e3 * abs(linear).max():.0e} mm by triangles"
    )
    assert gap > 0
    assert glued.min() > CONTACT.thickness  # in order, and apart
    assert abs(linear).max() < 1e-12


def draw(drawing, states, picture):
    """Three of the states side by side."""
    way = view.Camera(direction=VIEW).axes[0]
    middle = np.array([0.0, 1.31, 0.0]) + (ASIDE + 0.1) * way
    camera = view.Camera(direction=VIEW, target=tuple(map(float, middle)), distance=6.35, fov=12)
    scene = view.Picture(size=(1500, 460), ground=False, camera=camera)
    for k, state in enumerate(states):
        drawing.draw(scene, state, k * ASIDE)
    save_picture(scene, picture)


def film(drawing, states, movie):
    """One state a frame, 30 a second."""
    camera = view.Camera(direction=VIEW, target=(0.0, 1.24, 0.0), distance=3.4, fov=20)

    def frame(state):
        scene = view.Picture(size=(960, 540), ground=False, camera=camera)
        drawing.draw(scene, state)
        return scene

    save_movie(map(frame, states), movie)


def main(picture, movie=None):
    detail, seconds, close, release = (3, 3.0, 0.3, 2.3) if movie else (2, 4 * STEP, STEP, 2 * STEP)
    outfit = Outfit(detail, close=close, release=release)
    states, *taken = run(outfit, seconds)
    tell(outfit, states, *taken)
    drawing = Drawing(outfit)
    shown = SHOWN if movie else (0, seconds / 2, seconds)
    draw(drawing, [states[round(moment / STEP)] for moment in shown], picture)
    if movie:
        film(drawing, states[:: round(1 / 30 / STEP)], movie)


if __name__ == "__main__":
    main(*paths("shirt"))
