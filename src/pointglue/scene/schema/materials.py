"""The materials that objects are made of."""

from typing import Annotated, Any, Literal

from pydantic import model_validator

from .fields import Share, Table
from .units import Quantity

__all__ = [
    "ClothMaterial",
    "Damping",
    "Density",
    "FleshMaterial",
    "JellyMaterial",
    "ParticleMaterial",
    "Rate",
    "RigidMaterial",
    "Stiffness",
]

Damping = Annotated[float, Quantity("s", least=0)]
Density = Annotated[float, Quantity("kg/m3", above=0)]
Rate = Annotated[float, Quantity("1/s", least=0)]
Stiffness = Annotated[float, Quantity("N/m", above=0)]


class ParticleMaterial(Table):
    """The material of oriented particles. Values that are left out are those of the preset."""

    preset: Literal["rigid", "plastic", "soft", "cloth", "rope"] = "soft"
    """rigid: one rigid piece; plastic: one that takes dents; soft: springs back; cloth and rope: bend."""
    density: Density = 1000.0
    """The mass by volume."""
    mass: Annotated[float, Quantity("kg", above=0)] | None = None
    """The mass of the whole object, instead of the density."""
    floats: Annotated[float, Quantity("", above=0, most=100)] | None = None
    """Instead of both: the mass of each particle relative to that of the water it displaces; it hovers
    at 1 and rises below."""
    young: Annotated[float, Quantity("Pa", above=0)] | None = None
    """The Young's modulus of an elastic body, instead of its stiffness: 1e5 Pa is muscle, 1e7 Pa rubber,
    1e9 Pa plastic. It bends as beam theory says, whatever the number of its particles."""
    stiffness: Share | None = None
    """How much of a deformation is taken back in 1/60 s."""
    stretch: Share | None = None
    """The same for edges that are too long or too short."""
    torsion: Share | None = None
    """The same for edges that are twisted."""
    yield_speed: Annotated[float, Quantity("m/s", above=0)] | None = None
    """The speed of impact above which a rigid piece takes a dent."""
    yield_strain: Annotated[float, Quantity("", above=0)] | None = None
    """The strain above which it flows."""
    creep: Rate | None = None
    """How fast it flows."""


class FleshMaterial(Table):
    """An elastic solid: stable neo-Hookean."""

    density: Density = 1000.0
    """The mass by volume."""
    young: Annotated[float, Quantity("Pa", above=0)]
    """The Young's modulus: 1e4 Pa is jelly, 1e5 Pa muscle, 1e7 Pa rubber and green wood."""
    poisson: Annotated[float, Quantity("", least=-0.99, most=0.495)] = 0.4
    """Poisson's ratio: how much it contracts across when it is stretched; near 0.5 it keeps its volume."""
    damping: Damping = 0.0
    """Viscosity: the ratio of damping to stiffness of changes of shape. 10 ms calm a wobble, with 1 s and
    more it creeps like goo. Rigid motion is not damped."""


class ClothMaterial(Table):
    """A thin sheet."""

    density: Annotated[float, Quantity("kg/m2", above=0)] = 0.2
    """The mass by area."""
    stretch: Stiffness = 500.0
    """Resistance to stretch: Young's modulus times the thickness."""
    poisson: Annotated[float, Quantity("", least=-0.99, most=0.99)] = 0.3
    """Poisson's ratio: how much it contracts across when it is stretched."""
    bend: Annotated[float, Quantity("N m", least=0)] = 1e-5
    """Flexural rigidity."""
    limit: Annotated[float, Quantity("", above=1)] | None = None
    """Ratio of length to rest length, 1.1 say, beyond which it stiffens rapidly."""
    damping: Damping = 0.0
    """Viscosity: the ratio of damping to stiffness, of stretch and of bending. Rigid motion is not damped."""


class RigidMaterial(Table):
    """A rigid solid."""

    density: Density = 1000.0
    """The mass by volume: of a closed mesh, of the closed parts of another, or of its convex hull."""
    mass: Annotated[float, Quantity("kg", above=0)] | None = None
    """The mass, instead of the density; that of an open mesh is spread over its surface."""


class JellyMaterial(Table):
    """Shape matching of overlapping cubes."""

    density: Density = 1000.0
    """The mass by volume."""
    young: Annotated[float, Quantity("Pa", above=0)]
    """The Young's modulus in stretch and compression, at any size of cells; it does not contract across."""
    blend: Annotated[float, Quantity("", least=0, most=0.95)] = 0.0
    """How much of a linear map cubes may take: the more, the stiffer is bending within a cube compared with
    stretch, which `young` keeps as it is."""
    damping: Damping = 0.0
    """Viscosity: the ratio of damping to stiffness of changes of shape. Rigid motion is not damped."""

    @model_validator(mode="before")
    @classmethod
    def _in_pascal(cls, given: Any) -> Any:
        if isinstance(given, dict) and "stiffness" in given:
            raise ValueError(
                "has a stiffness in N/m, which was another material with every size of cells: give young in "
                "Pa instead, 2 (1 - blend)^2 / cell times as large"
            )
        return given
