"""What is simulated: particles with an orientation, the edges between them and the groups they form."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, pi
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ..checks import Array, as_array, as_integers, as_reals, require_finite
from ..errors import InputError
from ._solve.pairs import touching_pairs
from .authoring.skinning import Blend, Skin, join_skins, links_of
from .quaternions import matrices_of, quaternions_of
from .state import ParticleState, RestPose

if TYPE_CHECKING:
    from .authoring.from_mesh import Placement

__all__ = ["OrientedBody", "join"]

WATER = 1000.0  # kg/m^3, the density of a body whose mass is not said
# Particles nearer to each other than this fraction of the body's extent are one point given twice.
COINCIDENT = 1e-9
DEFAULTS = {"stretch": 0.0, "torsion": 0.0, "yield_speed": inf}
# Flatter or longer than this, contact points lose half their digits.
ASPECT = 1e3


@dataclass(frozen=True, eq=False, init=False)
class OrientedBody:
    """Ellipsoids with masses, joined by edges (implicit groups) and rigid (explicit) groups.

    Each particle matches its shape with the particles it shares an edge with; particles of an explicit
    group match with that whole group instead and move as one rigid piece. Two groups that share one
    particle are joined as by a ball joint, two that share two particles as by a hinge.
    """

    positions: Array
    """(n, 3), the bind pose, m."""
    orientations: Array
    """(n, 4) unit quaternions wxyz: the axes of the ellipsoids in the bind pose."""
    radii: Array
    """(n, 3), half the lengths of the ellipsoids' axes, m."""
    mass: Array
    """(n,), kg."""
    edges: NDArray[np.int64]
    """(m, 2), each pair once."""
    stiffness: Array
    """(n,) in 0..1: how much of its deviation a particle's group corrects in 1/60 s."""
    stretch: Array
    """(m,) in 0..1: the same for the length of an edge, apart from bending; 0 for none."""
    torsion: Array
    """(m,) in 0..1: the same for the twist between the two particles of an edge; 0 for none."""
    groups: tuple[NDArray[np.int64], ...]
    """Particles of each rigid group."""
    yield_speed: Array
    """(len(groups),), m/s: a group that is hit faster than this deforms for good; inf for never."""
    yield_strain: Array
    """(n,): deformation of a particle's group beyond which it flows; inf for never."""
    creep: Array
    """(n,), 1/s: how fast deformation beyond the yield strain becomes permanent."""
    pinned: NDArray[np.bool_]
    """(n,): held where they are."""
    loose: bool
    """Whether particles without any neighbour are meant, and no mistake."""
    visual: Skin | None
    """The mesh that follows the particles, if there is one; see :meth:`skin`."""

    def __init__(
        self,
        positions: ArrayLike,
        *,
        radii: ArrayLike,
        orientations: ArrayLike | None = None,
        mass: ArrayLike | None = None,
        edges: ArrayLike = (),
        stiffness: ArrayLike = 1.0,
        stretch: ArrayLike = 0.0,
        torsion: ArrayLike = 0.0,
        groups: Iterable[ArrayLike] = (),
        yield_speed: ArrayLike = inf,
        yield_strain: ArrayLike = inf,
        creep: ArrayLike = 0.0,
        pinned: ArrayLike = False,
        loose: bool = False,
        visual: Skin | None = None,
    ) -> None:
        x = as_reals("positions", positions).astype(np.float64)
        if x.ndim != 2 or x.shape[1] != 3 or not len(x):
            raise InputError(f"positions must have shape (n, 3) with n at least 1, got shape {x.shape}")
        require_finite("positions", x)
        n = len(x)
        size = as_reals("radii", radii).astype(np.float64)
        if size.shape not in ((), (n,), (n, 3)):
            raise InputError(f"radii must be one number or have shape ({n},) or ({n}, 3), got {size.shape}")
        size = np.broadcast_to(size[:, None] if size.ndim == 1 else size, (n, 3)).copy()
        _in_range("radii", size, 0.0, inf, open_low=True, open_high=True)
        flat = size.max(1) / size.min(1)
        if flat.max() > ASPECT:
            raise InputError(
                f"radii of one particle may differ by a factor of {ASPECT:g}, "
                f"got {size[flat.argmax()].tolist()} at index {int(flat.argmax())}"
            )
        if orientations is None:
            turned = np.tile([1.0, 0.0, 0.0, 0.0], (n, 1))
        else:
            turned = as_reals("orientations", orientations).astype(np.float64)
            if turned.shape != (n, 4):
                raise InputError(f"orientations must have shape ({n}, 4), wxyz, got shape {turned.shape}")
            require_finite("orientations", turned)
            length = np.linalg.norm(turned, axis=1, keepdims=True)
            if not (length > 0).all():
                raise InputError(f"orientations[{int(length.argmin())}] is zero: a quaternion wxyz is needed")
            # Unit ones stay as they are, to the last bit.
            turned = np.where(np.abs(length - 1) > 1e-15, turned / length, turned)
        m = WATER * 4 / 3 * pi * size.prod(1) if mass is None else _spread("mass", mass, n)
        _in_range("mass", m, 0.0, inf, open_low=True, open_high=True)
        if not isinstance(loose, bool):
            raise InputError(f"loose must be True or False, got {loose!r}")
        if not isinstance(visual, Skin | None):
            raise InputError(f"visual must be a Skin or None, got {type(visual).__name__}")
        if visual is not None and visual.particles > n:
            raise InputError(
                f"visual is linked to particle {visual.particles - 1}, but there are {n} particles: "
                f"bind it to them, or pass visual=None"
            )
        pairs = _checked_edges(edges, n)
        if not isinstance(groups, Iterable):
            raise InputError(f"groups must be a list of lists of particles, got {type(groups).__name__}")
        listed = tuple(_checked_group(k, group, n) for k, group in enumerate(groups))
        values: dict[str, Array | tuple[Array, ...] | bool | Skin | None] = {
            "positions": x,
            "orientations": turned,
            "radii": size,
            "mass": m,
            "edges": pairs,
            "stiffness": _in_range("stiffness", _spread("stiffness", stiffness, n), 0.0, 1.0),
            "stretch": _in_range("stretch", _spread("stretch", stretch, len(pairs)), 0.0, 1.0),
            "torsion": _in_range("torsion", _spread("torsion", torsion, len(pairs)), 0.0, 1.0),
            "groups": listed,
            "yield_speed": _in_range(
                "yield_speed", _spread("yield_speed", yield_speed, len(listed)), 0.0, inf
            ),
            "yield_strain": _in_range("yield_strain", _spread("yield_strain", yield_strain, n), 0.0, inf),
            "creep": _in_range("creep", _spread("creep", creep, n), 0.0, inf, open_high=True),
            "pinned": _mask("pinned", pinned, n),
            "loose": loose,
            "visual": visual,
        }
        self._set(values)
        self._check_layout()

    @classmethod
    def from_mesh(
        cls,
        mesh: Any,
        *,
        spacing: float | None = None,
        placement: "Placement | None" = None,
        reach: float = 1.4,
        aspect: float = 2.0,
        density: float = WATER,
        seed: int | np.random.Generator = 0,
        **options: Any,
    ) -> "OrientedBody":
        """Particles that fill the mesh, are joined as it is, and carry it along; see :meth:`skin`.

        `mesh` has `vertices` and `faces`, or is a tuple of them; any triangles and quads will do. Particles
        are about `spacing` (m) apart; without it there are about 300. `placement` puts them on the
        "surface", into the "volume" or along the "skeleton" of limbs; by itself into the volume of what has
        one, and else on the surface. Particles closer than `reach` spacings are joined; all distances are
        measured inside the shape, so that nothing reaches across a gap. Ellipsoids are at most `aspect`
        times as long as thick. `density` is in kg/m^3, and `options` are fields of the body. Same mesh and
        `seed`, same body.
        """
        from .authoring.from_mesh import body_from_mesh  # which needs this class

        made = body_from_mesh(
            mesh,
            spacing=spacing,
            placement=placement,
            reach=reach,
            aspect=aspect,
            density=density,
            seed=seed,
            **options,
        )
        skin = Skin(made.vertices, made.faces, *links_of(made.links, made.distances))
        return made.body.replace(visual=skin)

    def _set(self, values: dict[str, Array | tuple[Array, ...] | bool | Skin | None]) -> None:
        for name, value in values.items():
            for array in value if isinstance(value, tuple) else (value,):
                if isinstance(array, np.ndarray):
                    array.flags.writeable = False
            object.__setattr__(self, name, value)

    def _check_layout(self) -> None:
        """Raise for particles at one point, and for particles that nothing holds."""
        count = len(self)
        extent = np.ptp(self.positions, axis=0).max()
        if count > 1:
            near = cKDTree(self.positions).query(self.positions, k=2)
            # The second nearest of a point is itself where two coincide.
            first = int(near[0][:, 1].argmin())
            if near[0][first, 1] <= COINCIDENT * extent:
                pair = sorted({first, *(int(i) for i in near[1][first])})[:2]
                raise InputError(f"positions {pair} coincide at {self.positions[first].tolist()}: merge them")
        joined = np.zeros(count, np.bool_)
        joined[self.edges.ravel()] = True
        for group in self.groups:
            joined[group] = True
        if count > 1 and not self.loose and not joined.all():
            alone = np.flatnonzero(~joined)
            raise InputError(
                f"particles {alone[:5].tolist()}{' and more' if len(alone) > 5 else ''} have no edge and no "
                f"group, so nothing holds them to the body: connect them, or pass loose=True if that is meant"
            )

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def components(self) -> NDArray[np.int64]:
        """(n,), the number of the connected piece that each particle belongs to."""
        pairs = [self.edges, *(np.stack([np.full(len(g), g[0]), g], axis=1) for g in self.groups)]
        i, j = np.concatenate(pairs).T
        links = coo_array((np.ones(len(i)), (i, j)), shape=(len(self), len(self)))
        return np.asarray(connected_components(links, directed=False)[1], np.int64)

    def start(self) -> ParticleState:
        """The body at rest in its bind pose, at time 0."""
        n = len(self)
        axes = matrices_of(self.orientations)
        axes.flags.writeable = False
        rest = RestPose(self.positions, axes, touching_pairs(self.positions, axes, self.radii))
        return ParticleState(
            time=0.0,
            positions=self.positions.copy(),
            rotations=np.tile(np.eye(3), (n, 1, 1)),
            velocities=np.zeros((n, 3)),
            spins=np.zeros((n, 3)),
            pinned=self.pinned,
            rest=rest,
            pause=np.zeros(len(self.groups)),
        )

    def moved(
        self, *, scale: float = 1.0, rotation: ArrayLike | None = None, translation: ArrayLike = (0, 0, 0)
    ) -> "OrientedBody":
        """The same body elsewhere: first scaled and turned about the origin, then shifted.

        `scale` makes it larger, of the same density; `rotation` has shape (3, 3).
        """
        if isinstance(scale, bool) or not isinstance(scale, int | float | np.number) or not 0 < scale < inf:
            raise InputError(f"scale must be positive and finite, got {scale!r}")
        turn = np.eye(3) if rotation is None else as_reals("rotation", rotation).astype(np.float64)
        shift = as_reals("translation", translation).astype(np.float64)
        if (
            turn.shape != (3, 3)
            or not np.abs(turn @ turn.T - np.eye(3)).max() < 1e-6
            or np.linalg.det(turn) < 0
        ):
            raise InputError("rotation must be a rotation matrix of shape (3, 3)")
        if shift.shape != (3,) or not np.isfinite(shift).all():
            raise InputError(f"translation must be three finite numbers, got {translation!r}")
        axes = turn @ matrices_of(self.orientations)
        return self.replace(
            positions=scale * self.positions @ turn.T + shift,
            orientations=quaternions_of(axes),
            radii=scale * self.radii,
            mass=scale**3 * self.mass,
            visual=None if self.visual is None else self.visual.moved(scale * turn, shift),
        )

    def replace(self, **changes: object) -> "OrientedBody":
        """The same body with some of its fields changed."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        unknown = sorted(set(changes) - set(fields))
        if unknown:
            raise InputError(f"OrientedBody has no field {unknown[0]!r}; it has {', '.join(fields)}")
        # What holds for all edges or groups holds for other ones too.
        for name, of in (("stretch", "edges"), ("torsion", "edges"), ("yield_speed", "groups")):
            if of in changes and name not in changes and len(set(fields[name].tolist())) <= 1:
                fields[name] = fields[name][0] if len(fields[name]) else DEFAULTS[name]
        return OrientedBody(**{**fields, **changes})

    def transforms(self, state: ParticleState) -> tuple[Array, Array]:
        """From the bind pose to now: rotations (n, 3, 3) and translations (n, 3), for skinning.

        The composition of the deformation, the rest pose and the inverse bind pose.
        """
        turn = self._turns(state)
        return turn, state.positions - np.einsum("nij,nj->ni", turn, self.positions)

    def skin(self, state: ParticleState, *, blend: Blend = "linear", out: Array | None = None) -> Array:
        """Vertices (V, 3) of the visual mesh now; see :meth:`Skin.pose`."""
        visual, turn = self._visual(), self._turns(state)
        shift = state.positions - self.positions
        return visual.pose(turn, shift, about=self.positions, blend=blend, out=out)

    def skin_normals(
        self, state: ParticleState, *, blend: Blend = "linear", out: Array | None = None
    ) -> Array:
        """Unit normals (V, 3) of the visual mesh now; see :meth:`Skin.normals`."""
        return self._visual().normals(self._turns(state), blend=blend, out=out)

    def _visual(self) -> Skin:
        if self.visual is None:
            raise InputError("the body has no visual mesh: give it one, visual=Skin.of(vertices, faces, ...)")
        return self.visual

    def _turns(self, state: ParticleState) -> Array:
        """(n, 3, 3), from the bind pose to now."""
        self._check_state(state)
        back = np.swapaxes(matrices_of(self.orientations), 1, 2)
        return np.asarray(state.rotations @ (state.rest.rotations @ back))

    def momentum(self, state: ParticleState) -> tuple[Array, Array]:
        """Linear momentum (3,), kg m/s, and angular momentum (3,) about the origin, kg m^2/s."""
        self._check_state(state)
        p = self.mass[:, None] * state.velocities
        spin = np.einsum("nij,nj->ni", self._inertia(state), state.spins)
        return p.sum(0), (np.cross(state.positions, p) + spin).sum(0)

    def kinetic_energy(self, state: ParticleState) -> float:
        """J, of motion and of spin."""
        self._check_state(state)
        spin = np.einsum("ni,nij,nj", state.spins, self._inertia(state), state.spins)
        return float(0.5 * (self.mass * (state.velocities**2).sum(1)).sum() + 0.5 * spin)

    def _check_state(self, state: ParticleState) -> None:
        if not isinstance(state, ParticleState):
            raise InputError(f"state must be a ParticleState, got {type(state).__name__}")
        if len(state) != len(self):
            raise InputError(f"state has {len(state)} particles, but the body has {len(self)}")

    def _inertia(self, state: ParticleState) -> Array:
        """(n, 3, 3), of each ellipsoid about its centre now; none for the shared ones, see `oriented`."""
        axes = state.rotations @ state.rest.rotations
        moments = self.mass[:, None] / 5 * self.radii**2 * self.oriented[:, None]
        A = np.einsum("nik,nk,njk->nij", axes, moments, axes)
        return np.asarray(np.trace(A, axis1=1, axis2=2)[:, None, None] * np.eye(3) - A)

    @property
    def oriented(self) -> NDArray[np.bool_]:
        """(n,): False for particles of more than one group, which carry no orientation between them."""
        times = np.zeros(len(self), np.int64)
        for group in self.groups:
            times[group] += 1
        return np.asarray(times < 2)


def join(bodies: Sequence[OrientedBody]) -> OrientedBody:
    """All bodies as one, particles in their order. Each has been checked; two of them may share a place."""
    if not bodies:
        raise InputError("bodies must hold at least one OrientedBody, got none")
    shift = np.cumsum([0, *(len(body) for body in bodies)])[:-1]
    together: dict[str, Array | tuple[Array, ...] | bool | Skin | None] = {
        name: np.concatenate([getattr(body, name) for body in bodies])
        for name in OrientedBody.__dataclass_fields__
        if name not in ("edges", "groups", "loose", "visual")
    }
    moved = list(zip(bodies, shift, strict=True))
    together["edges"] = np.concatenate([body.edges + k for body, k in moved])
    together["groups"] = tuple(group + k for body, k in moved for group in body.groups)
    together["loose"] = True
    together["visual"] = join_skins([body.visual for body in bodies], [len(body) for body in bodies])
    joined = OrientedBody.__new__(OrientedBody)
    joined._set(together)
    return joined


def _spread(name: str, value: ArrayLike, count: int) -> Array:
    """`value` for each of `count` items."""
    given = as_reals(name, value).astype(np.float64)
    if given.shape not in ((), (count,)):
        raise InputError(f"{name} must be one number or have shape ({count},), got shape {given.shape}")
    return np.broadcast_to(given, (count,)).copy()


def _in_range(
    name: str, array: Array, low: float, high: float, open_low: bool = False, open_high: bool = False
) -> Array:
    """The array, if all its numbers are between `low` and `high`."""
    fits = ((array > low) if open_low else (array >= low)) & (
        (array < high) if open_high else (array <= high)
    )
    if not fits.all():
        where = tuple(int(i) for i in np.argwhere(~fits)[0])
        if high == 1.0:
            wanted = "between 0 and 1"
        elif open_high:
            wanted = "positive and finite" if open_low else "finite and not negative"
        else:
            wanted = "not negative"
        raise InputError(f"{name} must be {wanted}, got {array[where]} at index {list(where)}")
    return array


def _mask(name: str, value: ArrayLike, count: int) -> NDArray[np.bool_]:
    given = as_array(name, value)
    if given.dtype != np.bool_ or given.shape not in ((), (count,)):
        raise InputError(
            f"{name} must be a mask of {count} booleans, got {given.dtype} of shape {given.shape}"
        )
    return np.broadcast_to(given, (count,)).copy()


def _checked_edges(edges: ArrayLike, count: int) -> NDArray[np.int64]:
    given = as_array("edges", edges)
    if given.size == 0:
        return np.empty((0, 2), np.int64)
    if given.ndim != 2 or given.shape[1] != 2:
        raise InputError(f"edges must have shape (m, 2), got shape {given.shape}")
    pairs = as_integers("edges", given.ravel()).reshape(-1, 2)
    if pairs.min() < 0 or pairs.max() >= count:
        bad = int(np.flatnonzero(((pairs < 0) | (pairs >= count)).any(1))[0])
        raise InputError(f"edges[{bad}] is {pairs[bad].tolist()}, but there are {count} particles")
    if (pairs[:, 0] == pairs[:, 1]).any():
        bad = int(np.flatnonzero(pairs[:, 0] == pairs[:, 1])[0])
        raise InputError(f"edges[{bad}] joins particle {pairs[bad, 0]} to itself")
    _, first, times = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True, return_counts=True)
    if (times > 1).any():
        raise InputError(f"edges holds {pairs[first[times.argmax()]].tolist()} more than once")
    return pairs


def _checked_group(k: int, group: ArrayLike, count: int) -> NDArray[np.int64]:
    members = as_integers(f"groups[{k}]", group)
    if not len(members):
        raise InputError(f"groups[{k}] is empty")
    if members.min() < 0 or members.max() >= count:
        raise InputError(
            f"groups[{k}] must hold particles from 0 to {count - 1}, got {members.tolist()[:10]}"
        )
    if len(np.unique(members)) < len(members):
        raise InputError(f"groups[{k}] holds a particle more than once")
    return members
