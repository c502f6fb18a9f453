"""Readers take time in proportion to the size of a file, whatever it is made of.

Each file is so large that a reader which takes the square of it would be at it for minutes. It is
read in a process of its own, which is given up after a time that no linear reader needs.
"""

import base64
import json
import subprocess
import sys

import numpy as np
import pytest
from waiting import DEADLINE

TRIANGLE = "v 0 0 0\nv 1 0 0\nv 0 1 0\n{}f 1 2 3\n"
READ = "import sys; from pointglue.io import read_mesh; print(len(read_mesh(sys.argv[1]).parts))"
CHECK = """
import sys
from pointglue.errors import SceneError
from pointglue.scene import load_scene

try:
    load_scene(sys.argv[1])
except SceneError as error:
    print(len(error.problems))
"""


def gltf(nodes):
    """One triangle in many places."""
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], "<f4").tobytes()
    data = base64.b64encode(corners).decode()
    scene = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0] if "children" in nodes[0] else list(range(len(nodes)))}],
        "nodes": nodes,
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
        "bufferViews": [{"buffer": 0, "byteOffset": 0, "byteLength": 36}],
        "buffers": [{"byteLength": 36, "uri": f"data:application/octet-stream;base64,{data}"}],
    }
    return json.dumps(scene)


def chain(count):
    return [{"mesh": 0, "translation": [1, 0, 0]} | ({"children": [k + 1]} if k < count - 1 else {})
            for k in range(count)]  # fmt: skip


def objects(count):
    return "".join(f'[objects.a{k}]\nkind = "cloth"\nmseh = {{}}\n' for k in range(count))


FILES = {
    "empty lines": ("a.obj", TRIANGLE.format("\n" * 600_000), READ, 1),
    "empty lines of Windows": ("a.obj", TRIANGLE.format("\r\n" * 400_000), READ, 1),
    "spaces in the name of a file": ("a.obj", "mtllib" + " " * 600_000 + "\n" + TRIANGLE.format(""), READ, 1),
    "one mesh in many places": ("a.gltf", gltf([{"mesh": 0}] * 10_000), READ, 10_000),
    "a chain of nodes": ("a.gltf", gltf(chain(500)), READ, 500),
    "problems in all of many tables": ("a.toml", objects(20_000), CHECK, 40_000),
}


@pytest.mark.parametrize("name", FILES)
def test_time_grows_with_the_size(name, tmp_path):
    file, text, code, expected = FILES[name]
    (tmp_path / file).write_text(text, newline="")
    command = [sys.executable, "-c", code, str(tmp_path / file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == expected
