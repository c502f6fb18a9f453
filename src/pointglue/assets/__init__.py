"""Procedural models for scenes, built from a few numbers. Metres, Y up; what has a front looks along x.

Every function returns vertices (n, 3) and faces (m, 3) of a closed surface, counter-clockwise seen from
outside; `car` returns several such parts, `torso` one that moves, and `shirt` open cloth for it. `ASSETS` has
those that scene files know by name.
"""

from .figures import FIGURE, bowl, button, donkey, duck, figure, leaves, pony, pudding
from .registry import ASSETS, Asset, Parameter
from .shirt import SHIRT_PARTS, Shirt, shirt
from .simple import fish, gear, octopus, plant, stairs
from .torso import Torso, torso
from .truck import Car, car

__all__ = [
    "ASSETS",
    "FIGURE",
    "SHIRT_PARTS",
    "Asset",
    "Car",
    "Parameter",
    "Shirt",
    "Torso",
    "bowl",
    "button",
    "car",
    "donkey",
    "duck",
    "figure",
    "fish",
    "gear",
    "leaves",
    "octopus",
    "plant",
    "pony",
    "pudding",
    "shirt",
    "stairs",
    "torso",
]
