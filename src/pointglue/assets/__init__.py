"""Creatures and things for scenes, made from a few numbers. Metres, Y up; whatever has a front looks along x.

Every function returns vertices (n, 3) and faces (m, 3) of a closed surface, counter-clockwise seen from
outside; `car` returns several such parts, `torso` one that moves, and `shirt` open cloth for it.
"""

from .figures import FIGURE, bowl, button, donkey, duck, figure, leaves, pony, pudding
from .shirt import SHIRT_PARTS, Shirt, Torso, shirt, torso
from .simple import fish, gear, octopus, plant, stairs
from .truck import Car, car

__all__ = [
    "FIGURE",
    "SHIRT_PARTS",
    "Car",
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
