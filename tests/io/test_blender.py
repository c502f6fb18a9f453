"""USD files, read by Blender, whose Python module has an environment of its own: `make blender`."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from small_runs import stored_objects, write_run

from pointglue.io import write_usd

PYTHON = os.environ.get("POINTGLUE_BLENDER") or (sys.executable if find_spec("bpy") else None)

pytestmark = pytest.mark.skipif(
    PYTHON is None, reason="make blender runs this: POINTGLUE_BLENDER names no Python that has bpy"
)

READER = """
import json, sys
import bpy
import numpy as np

path, out, *numbers = sys.argv[1:]
bpy.ops.wm.read_factory_settings(use_empty=True)
bpy.ops.wm.usd_import(filepath=path)
scene = bpy.context.scene
found = {"frames": [scene.frame_start, scene.frame_end], "rate": scene.render.fps / scene.render.fps_base}
found["kinds"] = {thing.name: thing.type for thing in bpy.data.objects}
found["colors"] = {
    thing.name: [
        list(node.inputs["Base Color"].default_value)[:3]
        for slot in thing.material_slots
        for node in slot.material.node_tree.nodes
        if node.type == "BSDF_PRINCIPLED"
    ]
    for thing in bpy.data.objects
    if thing.type == "MESH"
}
found["points"] = {}
for number in numbers:
    scene.frame_set(int(number))
    graph = bpy.context.evaluated_depsgraph_get()
    found["points"][number] = {}
    for thing in bpy.data.objects:
        if thing.type == "MESH":
            seen = thing.evaluated_get(graph)
            points = [list(seen.matrix_world @ vertex.co) for vertex in seen.to_mesh().vertices]
            found["points"][number][thing.name] = points
json.dump(found, open(out, "w"))
"""


def test_blender_sees_what_the_frames_say(tmp_path):
    store = write_run(tmp_path / "run", range(3, 13))
    out = tmp_path / "found.json"
    command = [PYTHON, "-c", READER, str(write_usd(store)), str(out), "3", "8", "12"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert found["frames"] == [3, 12]
    assert found["rate"] == pytest.approx(24)
    assert found["kinds"] == {
        "World": "EMPTY", "cloth": "MESH", "box": "MESH", "rope": "CURVES", "dust": "POINTCLOUD",
        "stone": "MESH",
    }  # fmt: skip
    for number, things in found["points"].items():
        points = store.positions(store.read(int(number)))
        assert things.keys() == {"cloth", "box", "stone"}
        for name, seen in things.items():
            x, y, z = points[name].T
            # Blender's up is z: what is x, y, z here is x, -z, y there. It has single precision.
            assert np.array(seen) == pytest.approx(np.stack([x, -z, y], axis=1), abs=1e-6), (number, name)
    red = stored_objects()[0].color[0]
    assert found["colors"]["cloth"][0][0] == pytest.approx(((red + 0.055) / 1.055) ** 2.4, rel=1e-5)
