"""The tables that attach objects to each other: glue, springs and joints."""

from typing import Annotated, Any, Literal

from pydantic import Field, Tag, model_validator

from .fields import Direction, Length, Points, Position, Table, chosen_by
from .materials import Stiffness
from .motors import AngleMotor, Angles, AxisDamping, AxisStiffness, SlideMotor, Slides
from .units import Moment, Quantity

__all__ = ["Attach", "GlueAttach", "JointAttach", "Parents", "SpringAttach"]

_Force = Annotated[float, Quantity("N", above=0)]
_Torque = Annotated[float, Quantity("N m", above=0)]
_PatchRow = Annotated[list[Position], Field(min_length=2, max_length=50)]


class Parents(Table):
    """How parents are chosen by glue."""

    parents: Annotated[int, Field(strict=True, ge=3, le=1000)] = 8
    """How many of the nearest points of the other object set the reach: the points within it are parents."""
    radius: Length | None = None
    """Instead of `parents`, a distance: all points of the other object within it are parents."""
    falloff: Literal["smooth", "uniform", "inverse"] = "smooth"
    """How much each parent weighs by its distance: smooth fades out at the end of the reach, so that points
    side by side move alike; uniform weighs all the same; inverse favours the nearest."""
    on_degenerate: Literal["raise", "clamp"] = "raise"
    """What happens when the parents of a point collapse to a line: raise stops the run and names them, clamp
    keeps the spin that they leave open."""

    @property
    def glue_options(self) -> dict[str, Any]:
        """The same as arguments of `bind_glue`."""
        return {name: getattr(self, name) for name in Parents.model_fields}


class _Attach(Table):
    source: Annotated[str, Field(alias="from")]
    """The name of the object that is attached."""
    to: str
    """The name of the object that it is attached to."""
    among: Points | None = None
    """Which points of `to` may be parents; all if left out."""
    attach: Moment | None = None
    """When it starts: glue and joints keep the relative positions of that time. Left out, at the start."""
    release: Moment | None = None
    """When it is released; never if left out."""
    break_force: _Force | None = None
    """The force that breaks it at a point; never if left out."""


class GlueAttach(_Attach, Parents):
    """Glue: points that are exactly where their binding puts them."""

    kind: Literal["glue"]
    points: Points
    """The points of `from` that are attached."""
    break_torque: _Torque | None = None
    """The torque about the centroid of the points that breaks all of them off; never if left out."""
    binding: Literal["glue", "linear"] = "glue"
    """linear: a weighted sum of the corners of the nearest tetrahedron or triangle, to compare with."""


class SpringAttach(_Attach, Parents):
    """Springs that draw points to where their binding puts them."""

    kind: Literal["spring"]
    points: Points
    """The points of `from` that are attached."""
    stiffness: Stiffness
    """The stiffness of each spring."""
    damping: Annotated[float, Quantity("N s/m", least=0)] = 0.0
    """The damping of each spring."""


class JointAttach(_Attach):
    """A joint between the frames of two objects."""

    kind: Literal["joint"]
    type: Literal[
        "ball", "hinge", "weld", "prismatic", "cylindrical", "planar", "bushing", "curve", "surface"
    ]
    """The type: a ball turns freely, a hinge turns about the axis, a weld does not turn; prismatic slides
    along the axis, cylindrical slides along it and turns about it, planar slides across it and turns too;
    bushing is held by springs along its axes only; curve slides along a smooth curve of `to`, surface over a
    smooth surface of it, up to their ends and edges, and both turn freely."""
    parents: Annotated[int, Field(strict=True, ge=3, le=1000)] = 8
    """How many of the nearest points of either object set the reach: those within it carry the joint."""
    on_degenerate: Literal["raise", "clamp"] = "raise"
    """What happens when these points collapse to a line: raise stops the run and names them, clamp keeps the
    spin that they leave open."""
    at: Position
    """The place of the joint, in the scene at the start; on a curve or surface, the nearest place of it."""
    axis: Direction = (1.0, 0.0, 0.0)
    """The axis, in the scene at the start; a ball and a weld need none."""
    across: Direction | None = None
    """The direction of the second axis of a bushing; left out, any. The third is across both."""
    stiffness: AxisStiffness = (0.0, 0.0, 0.0)
    """The stiffness of a bushing along each of its axes, which turn with `from`."""
    damping: AxisDamping = (0.0, 0.0, 0.0)
    """The damping of a bushing along each of its axes."""
    path: Annotated[list[Position], Field(min_length=2, max_length=200)] | None = None
    """Places of `to` through which the curve goes, in order, in the scene at the start; for a curve only."""
    patch: Annotated[list[_PatchRow], Field(min_length=2, max_length=50)] | None = None
    """Rows of places of `to`, all of one length, through which the surface goes, in the scene at the start;
    for a surface only."""
    closed: bool = False
    """Whether the last place of the path is followed by the first, so that it has no ends, as a hoop; of a
    patch, whether the last row is followed by the first, as around a sleeve."""
    slide_limits: Slides | None = None
    """How far `from` may slide along the axis relative to `to`, at least and at most; it starts at 0."""
    angle_limits: Angles | None = None
    """How far `from` may turn about the axis relative to `to`, right-handed, at least and at most, from 0."""
    slide_motor: SlideMotor | None = None
    """What drives the slide of a prismatic or cylindrical joint."""
    angle_motor: AngleMotor | None = None
    """What drives the angle of a hinge, a cylindrical or a planar joint."""
    break_torque: _Torque | None = None
    """The torque about the joint that breaks it; never if left out."""

    @model_validator(mode="after")
    def _path(self) -> "JointAttach":
        if (self.path is None) == (self.type == "curve"):
            raise ValueError("must have a path if its type is curve, and only then")
        if (self.patch is None) == (self.type == "surface"):
            raise ValueError("must have a patch if its type is surface, and only then")
        if self.closed and self.path is None and self.patch is None:
            raise ValueError("must not be closed unless its type is curve or surface")
        if self.patch is not None and len({len(row) for row in self.patch}) > 1:
            counts = ", ".join(str(len(row)) for row in self.patch)
            raise ValueError(f"must have a patch with rows of one length, got {counts}")
        return self


Attach = Annotated[
    Annotated[GlueAttach, Tag("kind=glue")]
    | Annotated[SpringAttach, Tag("kind=spring")]
    | Annotated[JointAttach, Tag("kind=joint")],
    chosen_by("kind"),
]
