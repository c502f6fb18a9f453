"""The options of contact."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...checks import check_real
from ...errors import InputError

__all__ = ["Contact"]


@dataclass(frozen=True)
class Contact:
    """How surfaces meet: all bodies that have faces, each with itself too unless it is rigid.

    Bodies that are glued together do not meet where, at the start, glued parts are nearer than thickness +
    distance. Any other start that intersects or is too near is refused, unless `grow` is given.

    Parameters
    ----------
    distance : float
        How far beyond their thickness points, edges and triangles begin to push each other apart [m].
    thickness : float
        The least distance of surfaces [m]; they never come nearer.
    friction : float
        Coulomb's coefficient of friction [1]; colliders may have their own.
    slip : float
        The sliding speed below which surfaces count as sticking [m/s].
    stiffness : float, optional
        The barrier stiffness, which is about the pressure at half the distance [Pa]. By default it is found
        from the masses, and grows when surfaces come too near.
    ignore : sequence of (str, str)
        Pairs of names of bodies or colliders that pass through each other. A name that is paired with
        itself is a body that does not meet itself.
    grow : float
        The time in which thickness grows to its value, beginning with what there is room for [s]. With it,
        soft bodies that intersect at the start are untangled.

    Raises
    ------
    InputError
        If a number is out of its range, or `ignore` holds anything but pairs of names.
    """

    distance: float
    thickness: float = 0.0
    friction: float = 0.0
    slip: float = 1e-3
    stiffness: float | None = None
    ignore: Sequence[tuple[str, str]] = ()
    grow: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("distance", "slip", "stiffness"):
            value = getattr(self, name)
            if not (name == "stiffness" and value is None):
                check_real(name, value, above=0)
        for name in ("thickness", "friction", "grow"):
            check_real(name, getattr(self, name), at_least=0)
        for pair in self.ignore:
            if not (
                isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(n, str) for n in pair)
            ):
                raise InputError(f"ignore must hold pairs of names of bodies, got {pair!r}")
