"""The fields of a body: what users give, checked and spread over its particles, edges and groups."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, pi
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..checks import Array, as_reals, check_choice, check_flag, require_finite
from ..errors import InputError
from .authoring.skinning import Skin
from .particle_checks import (
    check_edges,
    check_group,
    check_hulls,
    check_layout,
    check_mask,
    check_range,
    spread,
)

__all__ = ["WATER", "CheckedBody", "CheckedFields", "Fields", "check_fields"]

WATER = 1000.0  # kg/m^3, the density of a body whose mass is not said
# Ratio of the radii of one particle: flatter or longer, contact points lose half their digits.
MOST_ASPECT = 1e3
CheckedFields = dict[str, Array | tuple[Array, ...] | bool | Skin | None]


class Fields(NamedTuple):
    """The fields of a body as users give them; see :class:`OrientedBody`."""

    positions: ArrayLike
    orientations: ArrayLike | None
    radii: ArrayLike
    mass: ArrayLike | None
    density: ArrayLike
    edges: ArrayLike
    young: ArrayLike
    stiffness: ArrayLike
    stretch: ArrayLike
    torsion: ArrayLike
    groups: Iterable[ArrayLike]
    hulls: Iterable[ArrayLike | None]
    yield_speed: ArrayLike
    yield_strain: ArrayLike
    creep: ArrayLike
    pinned: ArrayLike | Literal["position"]
    pivots: ArrayLike
    loose: bool
    visual: Skin | None


@dataclass(frozen=True, eq=False, init=False)
class CheckedBody:
    """The fields of an :class:`OrientedBody`, read-only, and what follows from them alone."""

    positions: Array
    orientations: Array
    radii: Array
    mass: Array
    density: Array
    edges: NDArray[np.int64]
    young: Array
    stiffness: Array
    stretch: Array
    torsion: Array
    groups: tuple[NDArray[np.int64], ...]
    hulls: tuple[Array, ...]
    yield_speed: Array
    yield_strain: Array
    creep: Array
    pinned: NDArray[np.bool_]
    pivots: NDArray[np.bool_]
    loose: bool
    visual: Skin | None

    def _set(self, values: CheckedFields) -> None:
        """Take over the fields, and make them read-only."""
        for name, value in values.items():
            for array in value if isinstance(value, tuple) else (value,):
                if isinstance(array, np.ndarray):
                    array.flags.writeable = False
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def components(self) -> NDArray[np.int64]:
        """The number (n,) of the connected piece that each particle belongs to."""
        pairs = [self.edges, *(np.stack([np.full(len(g), g[0]), g], axis=1) for g in self.groups)]
        i, j = np.concatenate(pairs).T
        links = coo_array((np.ones(len(i)), (i, j)), shape=(len(self), len(self)))
        return np.asarray(connected_components(links, directed=False)[1], np.int64)

    @property
    def pieces(self) -> list[NDArray[np.int64]]:
        """The particles (k,) of each connected piece, single ones left out."""
        components = self.components
        order = np.argsort(components, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(components))[:-1])
        return [part for part in parts if len(part) > 1]

    @property
    def size(self) -> float:
        """The largest extent of the body along an axis, with its radii [m]."""
        reach = self.radii.max(1)[:, None]
        return float(((self.positions + reach).max(0) - (self.positions - reach).min(0)).max())

    @property
    def oriented(self) -> NDArray[np.bool_]:
        """Mask (n,), False for particles of more than one group, which have no orientation of their own."""
        times = np.zeros(len(self), np.int64)
        for group in self.groups:
            times[group] += 1
        return np.asarray(times < 2)


def check_fields(given: Fields) -> CheckedFields:
    """Return all fields of a body by their names, each of its full shape, or raise.

    Parameters
    ----------
    given : Fields
        What a user has given.

    Returns
    -------
    dict
        Arrays, tuples of arrays, a flag and a skin.

    Raises
    ------
    InputError
        If a shape does not fit, a number is out of its bounds, two particles coincide, or one has no
        neighbour in a body that is not loose.
    """
    x = as_reals("positions", given.positions).astype(np.float64)
    if x.ndim != 2 or x.shape[1] != 3 or not len(x):
        raise InputError(f"positions must have shape (n, 3) with n at least 1, got shape {x.shape}")
    require_finite("positions", x)
    n = len(x)
    size = _checked_radii(given.radii, n)
    density = spread("density", given.density, n)
    heavy = check_range("density", density, 0.0, inf, open_low=True, open_high=True)
    m = heavy * 4 / 3 * pi * size.prod(1) if given.mass is None else spread("mass", given.mass, n)
    check_range("mass", m, 0.0, inf, open_low=True, open_high=True)
    loose = check_flag("loose", given.loose)
    visual = given.visual
    if not isinstance(visual, Skin | None):
        raise InputError(f"visual must be a Skin or None, got {type(visual).__name__}")
    if visual is not None and visual.particles > n:
        raise InputError(
            f"visual is linked to particle {visual.particles - 1}, but there are {n} particles: "
            f"bind it to them, or pass visual=None"
        )
    pinned, pivots = given.pinned, given.pivots
    if isinstance(pinned, str):
        check_choice("pinned", pinned, ("position",))
        pinned, pivots = False, True
    pairs = check_edges(given.edges, n)
    if not isinstance(given.groups, Iterable):
        raise InputError(f"groups must be a list of lists of particles, got {type(given.groups).__name__}")
    groups = tuple(check_group(k, group, n) for k, group in enumerate(given.groups))
    yield_speed = spread("yield_speed", given.yield_speed, len(groups))
    yield_strain = spread("yield_strain", given.yield_strain, n)
    checked: CheckedFields = {
        "positions": x,
        "orientations": _checked_orientations(given.orientations, n),
        "radii": size,
        "mass": m,
        "density": heavy,
        "edges": pairs,
        "young": check_range("young", spread("young", given.young, n), 0.0, inf, open_high=True),
        "stiffness": check_range("stiffness", spread("stiffness", given.stiffness, n), 0.0, 1.0),
        "stretch": check_range("stretch", spread("stretch", given.stretch, len(pairs)), 0.0, 1.0),
        "torsion": check_range("torsion", spread("torsion", given.torsion, len(pairs)), 0.0, 1.0),
        "groups": groups,
        "hulls": check_hulls(given.hulls, len(groups)),
        "yield_speed": check_range("yield_speed", yield_speed, 0.0, inf),
        "yield_strain": check_range("yield_strain", yield_strain, 0.0, inf),
        "creep": check_range("creep", spread("creep", given.creep, n), 0.0, inf, open_high=True),
        "pinned": check_mask("pinned", pinned, n),
        "pivots": check_mask("pivots", pivots, n),
        "loose": loose,
        "visual": visual,
    }
    check_layout(x, pairs, groups, loose)
    return checked


def _checked_radii(given: ArrayLike, n: int) -> Array:
    """Return the radii (n, 3) of ellipsoids, or raise."""
    size = as_reals("radii", given).astype(np.float64)
    if size.shape not in ((), (n,), (n, 3)):
        raise InputError(f"radii must be one number or have shape ({n},) or ({n}, 3), got {size.shape}")
    size = np.broadcast_to(size[:, None] if size.ndim == 1 else size, (n, 3)).copy()
    check_range("radii", size, 0.0, inf, open_low=True, open_high=True)
    flat = size.max(1) / size.min(1)
    if flat.max() > MOST_ASPECT:
        raise InputError(
            f"radii of one particle may differ by a factor of {MOST_ASPECT:g}, "
            f"got {size[flat.argmax()].tolist()} at index {int(flat.argmax())}"
        )
    return size


def _checked_orientations(given: ArrayLike | None, n: int) -> Array:
    """Return unit quaternions wxyz (n, 4), or raise."""
    if given is None:
        return np.tile([1.0, 0.0, 0.0, 0.0], (n, 1))
    turned = as_reals("orientations", given).astype(np.float64)
    if turned.shape != (n, 4):
        raise InputError(f"orientations must have shape ({n}, 4), wxyz, got shape {turned.shape}")
    require_finite("orientations", turned)
    length = np.linalg.norm(turned, axis=1, keepdims=True)
    if not (length > 0).all():
        raise InputError(f"orientations[{int(length.argmin())}] is zero: a quaternion wxyz is needed")
    # Unit ones stay as they are, to the last bit.
    return np.where(np.abs(length - 1) > 1e-15, turned / length, turned)
