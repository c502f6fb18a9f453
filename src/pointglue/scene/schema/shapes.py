"""The meshes of a scene file: files, primitive shapes, and a table for each model of the registry."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union

from pydantic import ConfigDict, Field, Tag, create_model, model_validator

from ...assets.registry import ASSETS, Asset, Parameter
from .fields import Cells, Cells2, Direction, Length, Position, Share, Sizes, Sizes2, Table, chosen_by

MOST_POINTS = 2_000_000  # of a shape built from numbers: more is probably a mistake


class FromFile(Table):
    """A mesh from a file."""

    file: str
    """The name of the file, PLY, OBJ, STL, OFF, GLB or GLTF, relative to the scene file."""


class _Shape(Table):
    @model_validator(mode="after")
    def _not_too_many(self) -> "_Shape":
        cells = getattr(self, "cells", ())
        count = 1
        for number in cells if isinstance(cells, tuple) else (cells,):
            count *= number + 1
        if count > MOST_POINTS:
            raise ValueError(f"cells must make at most {MOST_POINTS:,} points, got {count:,}")
        return self


class BoxShape(_Shape):
    """A box about the origin."""

    shape: Literal["box"]
    size: Sizes
    """The lengths along x, y and z."""
    cells: Cells = (1, 1, 1)
    """How many along each: of its surface, and for flesh without `cell` of its tetrahedra."""


class SphereShape(Table):
    """A ball about the origin."""

    shape: Literal["sphere"]
    radius: Length
    """The radius of the ball."""
    detail: Annotated[int, Field(strict=True, ge=0, le=7)] = 3
    """How often the faces of an icosahedron are divided into four."""


class CylinderShape(_Shape):
    """A cylinder about the origin, its axis along y."""

    shape: Literal["cylinder"]
    radius: Length
    """The radius of the circle."""
    height: Length
    """The height, along y."""
    sections: Annotated[int, Field(strict=True, ge=3, le=1000)] = 32
    """Sides of the circle."""


class CapsuleShape(Table):
    """A capsule about the origin: all points within a radius of a line along y."""

    shape: Literal["capsule"]
    radius: Length
    """The radius: how far the surface is from the line."""
    height: Length
    """The length of the line, from centre to centre of the round ends."""


class SheetShape(_Shape):
    """A flat grid about the origin, in the plane of x and z; its triangles' diagonals take turns."""

    shape: Literal["sheet"]
    size: Sizes2
    """The lengths along x and z."""
    cells: Cells2 = (20, 20)
    """How many along each; of particles there is one at each corner."""


class RopeShape(Table):
    """A straight rope."""

    shape: Literal["rope"]
    start: Position
    """The place of one end."""
    end: Position
    """The place of the other end."""
    radius: Length
    """The radius of the rope."""
    cells: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 20
    """Pieces along it; of particles there is one at each end of a piece."""


class BranchShape(_Shape):
    """A bent stick that grows thinner, round at the tip."""

    shape: Literal["branch"]
    spine: Annotated[list[Position], Field(min_length=3, max_length=3)]
    """The middle of its root, a point that it bends towards, and its tip."""
    radius: Length
    """The radius at the root."""
    taper: Share = 0.7
    """How much thinner it is at the tip, as a share."""
    cells: Annotated[int, Field(strict=True, ge=1, le=1000)] = 20
    """How many along it, for flesh without `cell`."""


class RingShape(Table):
    """A ring about the origin, its axis along y."""

    shape: Literal["ring"]
    radius: Length
    """The radius from the axis to the middle of the ring."""
    girth: Length
    """The radius of the ring itself, from its middle."""
    sections: Annotated[int, Field(strict=True, ge=3, le=1000)] = 32
    """Cells around the axis; half as many go around the ring."""


class PlaneShape(Table):
    """The half space below a plane: a collider only."""

    shape: Literal["plane"]
    point: Position = (0.0, 0.0, 0.0)
    """Any point of the plane."""
    normal: Direction = (0.0, 1.0, 0.0)
    """The direction out of the half space, of any length."""


class ModelShape(Table):
    """A model of the registry; the table of each is derived from this one."""

    # The registry describes the fields; to look for that in source code which is not there takes 0.25 s.
    model_config = ConfigDict(use_attribute_docstrings=False)

    shape: str

    @property
    def asset(self) -> Asset:
        """What builds it."""
        return ASSETS[self.shape]

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments of the functions that build it, by name."""
        return {parameter.name: getattr(self, parameter.name) for parameter in self.asset.parameters}


def _model_table(asset: Asset) -> type[ModelShape]:
    """Return the table of a model, with a field for each of its parameters."""
    fields: dict[str, Any] = {"shape": (Literal[asset.name], ...)}
    for one in asset.parameters:
        default = ... if one.default is None else one.default
        fields[one.name] = (_parameter_type(one), Field(default, description=one.description))
    name = f"{asset.name.title()}Shape"
    return create_model(name, __base__=ModelShape, __doc__=asset.description, __module__=__name__, **fields)


def _parameter_type(parameter: Parameter) -> Any:
    match parameter.kind:
        case "integer":
            least, most = parameter.bounds
            return Annotated[int, Field(strict=True, ge=least, le=most)]
        case "length":
            return Length
        case "choice":
            return Literal[parameter.choices]
    return Annotated[list[Position], Field(min_length=parameter.count, max_length=parameter.count)]


PRIMITIVES: dict[str, type[Table]] = {
    "box": BoxShape,
    "sphere": SphereShape,
    "cylinder": CylinderShape,
    "capsule": CapsuleShape,
    "sheet": SheetShape,
    "rope": RopeShape,
    "branch": BranchShape,
    "ring": RingShape,
    "plane": PlaneShape,
}
"""The tables of shapes that are built from numbers alone, by the value of ``shape``."""
MODELS = {name: _model_table(asset) for name, asset in ASSETS.items()}
"""The tables of the models of the registry, by the value of ``shape``."""

_TABLES = {"file": FromFile, **PRIMITIVES, **MODELS}
if TYPE_CHECKING:
    Mesh: TypeAlias = (
        FromFile
        | BoxShape
        | SphereShape
        | CylinderShape
        | CapsuleShape
        | SheetShape
        | RopeShape
        | BranchShape
        | RingShape
        | PlaneShape
        | ModelShape
    )
else:
    Mesh = Annotated[
        Union[tuple(Annotated[table, Tag(f"shape={name}")] for name, table in _TABLES.items())],  # noqa: UP007
        chosen_by("shape", "file"),
    ]
    """A file, or one of the shapes."""
