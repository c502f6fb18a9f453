"""Scenes: TOML files in, frames out.

for frame in run_scene("tree.toml", out="tree"):
    print(frame.number, frame.stats)
"""

from .build import build, check
from .demo import demo_path, demo_titles
from .load import LoadedScene, load_scene, parse_setting
from .run import Run, run_scene
from .schema import Scene, json_schema
from .simulation import Simulation, SimulationState
from .wedge import Wedge, draw_wedges, parse_sweep, run_wedges

__all__ = [
    "LoadedScene",
    "Run",
    "Scene",
    "Simulation",
    "SimulationState",
    "Wedge",
    "build",
    "check",
    "demo_path",
    "demo_titles",
    "draw_wedges",
    "json_schema",
    "load_scene",
    "parse_setting",
    "parse_sweep",
    "run_scene",
    "run_wedges",
]
