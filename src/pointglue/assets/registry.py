"""The registry of models: the name of each, its parameters, and the function that builds it.

The scene format, its reference and the studio read this table, so that a new model is a function and an entry
here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ..checks import Array
from .figures import bowl, button, donkey, duck, figure, leaves, pony, pudding
from .shirt import BUTTONS, Shirt, shirt
from .simple import fish, gear, octopus, plant, stairs
from .torso import Torso, torso
from .truck import TRUCK_PARTS, Car, car, truck_part

__all__ = ["ASSETS", "Asset", "Parameter"]

Surface = tuple[Array, Array]
Groups = dict[str, NDArray[np.int64]]
Motion = Callable[[float], Array]

SEEDS = (0, 2**32 - 1)  # least and largest seed that NumPy's generators take


@dataclass(frozen=True)
class Parameter:
    """A parameter of a model that scene files can set.

    Parameters
    ----------
    name : str
        The key in the scene file, and the argument of the builder.
    kind : {"integer", "length", "choice", "points"}
        A whole number within `bounds`, a positive length [m], one of the `choices`, or `count` points [m].
    description : str
        A sentence for the reference. It begins with an article if the parameter has no default: an error
        message asks for it in these words.
    default : optional
        The value if none is given; a parameter without a default must be given.
    bounds : (int, int)
        The least and the largest value of an integer.
    choices : tuple of str
        What a choice can be.
    count : int
        The number of points.
    """

    name: str
    kind: Literal["integer", "length", "choice", "points"]
    description: str
    default: Any = None
    bounds: tuple[int, int] = (0, 0)
    choices: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True)
class Asset:
    """A model, and how it is built from its parameters.

    Parameters
    ----------
    name : str
        The value of ``shape`` in scene files.
    description : str
        What it is, for the reference.
    build : callable
        Takes the parameters by name and returns vertices (n, 3) [m] and faces (m, 3).
    parameters : tuple of Parameter
        What can be set.
    slow : bool
        Whether it takes about a second to build, or a package that takes long to load: then its mesh is
        worth a file in the user's cache folder.
    group_names : tuple of str
        Names of the groups of vertices that come with it.
    groups : callable, optional
        Takes the parameters by name and returns the vertices of each group, by name.
    motion : callable, optional
        Takes the parameters by name and returns a function from the time [s] to the vertices (n, 3) [m], for
        a model that moves by itself.
    in_studio : bool
        Whether the studio offers it among the shapes to add; all parameters of such a model have defaults.
    """

    name: str
    description: str
    build: Callable[..., Surface]
    parameters: tuple[Parameter, ...] = ()
    slow: bool = False
    group_names: tuple[str, ...] = ()
    groups: Callable[..., Groups] | None = None
    motion: Callable[..., Motion] | None = None
    in_studio: bool = False


@cache  # several parts of one truck are asked for
def _car() -> Car:
    return car()


@cache  # its vertices and its motion are asked for
def _torso(detail: int) -> Torso:
    return torso(detail)


@cache  # its parts and its groups are asked for
def _shirt(detail: int) -> Shirt:
    return shirt(detail)


def _torso_surface(*, detail: int) -> Surface:
    found = _torso(detail)
    return found.vertices, found.faces


def _shirt_surface(*, part: str, detail: int) -> Surface:
    found = _shirt(detail)
    return found.pocket if part == "pocket" else (found.vertices, found.faces)


def _shirt_groups(*, part: str, detail: int) -> Groups:
    found = _shirt(detail)
    if part == "pocket":
        return {"seam": found.seam}
    groups = {"left": found.left, "right": found.right}
    groups |= {"left cuff": found.cuffs[0], "right cuff": found.cuffs[1]}
    nearest = cKDTree(found.vertices[found.left]).query(found.buttons, 4)[1]
    return groups | {f"button {k + 1}": found.left[rows] for k, rows in enumerate(nearest)}


def _listed(*assets: Asset) -> Mapping[str, Asset]:
    return {asset.name: asset for asset in assets}


_SPINE = "The spine of the branch: the middle of its root, a point that it bends towards, and its tip."
_DETAIL = "More of it, more triangles."

ASSETS = _listed(
    Asset("octopus", "An octopus of 1 m that stands at y = 0.", octopus, in_studio=True),
    Asset("fish", "A lionfish of half a metre about the origin, that looks along x.", fish),
    Asset(
        "plant",
        "A plant that stands at y = 0.",
        plant,
        (Parameter("seed", "integer", "Other numbers, other plants.", 0, SEEDS),),
    ),
    Asset(
        "gear",
        "A gear wheel about the origin.",
        gear,
        (Parameter("teeth", "integer", "How many.", 8, (3, 200)),),
    ),
    Asset(
        "stairs",
        "A flight of stairs.",
        stairs,
        (
            Parameter("steps", "integer", "How many.", 8, (1, 1000)),
            Parameter("rise", "length", "The height of a step.", 0.2),
            Parameter("run", "length", "The depth of a step.", 0.3),
            Parameter("width", "length", "The width of the flight.", 2.0),
        ),
    ),
    Asset("bowl", "A shallow bowl that stands at y = 0, a metre wide.", bowl, slow=True),
    Asset(
        "button",
        "A button with a rim about the origin, its axis along z.",
        button,
        (
            Parameter("radius", "length", "The radius of the button."),
            Parameter("sections", "integer", "Sides of its rim.", 32, (3, 1000)),
        ),
        slow=True,
    ),
    Asset(
        "duck",
        "A rubber duck of 27 cm, that looks along x.",
        lambda *, detail: duck(cell=0.04 / detail),
        (Parameter("detail", "integer", _DETAIL, 2, (1, 10)),),
        slow=True,
    ),
    Asset("pudding", "A fluted pudding of 21 cm that stands at y = 0.", pudding, slow=True),
    Asset("figure", "A figure of 1 m that stands at y = 0 and looks along z.", figure, slow=True),
    Asset("pony", "A pony of 2.3 m that stands at y = 0 and looks along x.", pony, slow=True),
    Asset("donkey", "A young donkey of 65 cm that stands at y = 0 and looks along x.", donkey, slow=True),
    Asset(
        "truck",
        "A part of a truck of 4 m that looks along x; the whole stands at y = 0.",
        lambda *, part: truck_part(_car(), part),
        (
            Parameter(
                "part",
                "choice",
                "The part of the truck; wheels are those of an axle, with it.",
                choices=TRUCK_PARTS,
            ),
        ),
        slow=True,
    ),
    Asset(
        "leaves",
        "Leaves about a branch, without the branch.",
        leaves,
        (
            Parameter("spine", "points", _SPINE, count=3),
            Parameter("radius", "length", "The radius of the branch at the root."),
            Parameter("count", "integer", "How many.", 16, (1, 10_000)),
            Parameter("size", "length", "The length of a leaf.", 0.14),
            Parameter("seed", "integer", "Other numbers, other leaves.", 0, SEEDS),
        ),
    ),
    Asset(
        "torso",
        'A moving figure of 1.8 m, down to its thighs, that looks along x; for kind = "animated".',
        _torso_surface,
        (Parameter("detail", "integer", _DETAIL, 2, (2, 8)),),
        motion=lambda *, detail: _torso(detail).pose,
    ),
    Asset(
        "shirt",
        "A part of a shirt that fits a torso of any detail.\n\n"
        'It comes with groups: of the shirt "left" and "right", where the left front lies over the right\n'
        'one, "left cuff", "right cuff", and "button 1" to "button 7", the points of the left front about\n'
        'each of them from the top; of the pocket "seam", along three sides.',
        _shirt_surface,
        (
            Parameter(
                "part",
                "choice",
                "The buttoned shirt, or the pocket that belongs before its chest.",
                "shirt",
                choices=("shirt", "pocket"),
            ),
            Parameter("detail", "integer", _DETAIL, 2, (2, 8)),
        ),
        group_names=(
            "left",
            "right",
            "left cuff",
            "right cuff",
            *(f"button {k + 1}" for k in range(len(BUTTONS))),
            "seam",
        ),
        groups=_shirt_groups,
    ),
)
"""All models, by name, in the order of the reference."""
