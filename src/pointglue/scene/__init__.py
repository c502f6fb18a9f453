"""Scenes: TOML files in, frames out.

for frame in run_scene("tree.toml", out="tree"):
    print(frame.number, frame.stats)
"""

from .build import build
from .load import LoadedScene, load_scene, parse_setting
from .run import Run, run_scene
from .schema import Scene, json_schema
from .simulation import Simulation, SimulationState

__all__ = [
    "LoadedScene",
    "Run",
    "Scene",
    "Simulation",
    "SimulationState",
    "build",
    "json_schema",
    "load_scene",
    "parse_setting",
    "run_scene",
]
