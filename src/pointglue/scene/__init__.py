"""Scenes: TOML files in, frames out.

for frame in run_scene("tree.toml", out="tree"):
    print(frame.number, frame.stats)
"""

from .build.builder import build_scene, check_scene
from .demo import demo_path, demo_titles
from .run import Run, run_scene
from .schema.loading import LoadedScene, load_scene, parse_setting
from .schema.scene import SceneFile, json_schema
from .simulation import Simulation, SimulationState
from .sweeps import Wedge, parse_sweep
from .wedge import draw_wedges, run_wedges

__all__ = [
    "LoadedScene",
    "Run",
    "SceneFile",
    "Simulation",
    "SimulationState",
    "Wedge",
    "build_scene",
    "check_scene",
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
