"""The scenes that come along: their first frames are what they were, and the command films them.

Where a change of the frames is meant, ``python tests/scene/test_demos.py`` writes new references.
"""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pointglue.scene import build_scene, demo_path, demo_titles, load_scene

REFERENCES = Path(__file__).with_name("demo_frames.json")
# Fewer particles and cells where building takes long; what the scene is remains the same.
SMALLER = {
    "bodies_on_stairs": {"objects.rigid_gear0.spacing": "12 cm", "objects.rigid_gear5.spacing": "12 cm"},
}
FRAMES = 2  # after the first


def shapes(name):
    """Where each object is in a frame soon after the first: its middle, and how far it reaches about it."""
    simulation = build_scene(load_scene(demo_path(name), SMALLER.get(name)))
    state = simulation.start()
    for _ in range(FRAMES):
        state = simulation.advance(state)
    frame, found = simulation.frame(state), {}
    for look in simulation.looks:
        points = frame.points.get(look.name)
        if look.motion == "transform":
            T = frame.transforms[look.name]
            points = look.rest @ T[:3, :3].T + T[:3, 3]
        if points is not None:
            found[look.name] = [*points.mean(0), *points.std(0)]
    return found


def names():
    return list(demo_titles())


@pytest.mark.parametrize("name", names())
def test_frames_are_what_they_were(name):
    found, known = shapes(name), json.loads(REFERENCES.read_text())[name]
    assert list(found) == list(known)
    size = np.ptp([row[:3] for row in known.values()], axis=0).max() + max(
        max(row[3:]) for row in known.values()
    )
    for key, row in found.items():
        # Other processors round otherwise, and contact makes more of it; a change of the method shows.
        assert np.allclose(row, known[key], rtol=0, atol=1e-4 * size), key


def test_references_are_of_demos_that_exist():
    assert list(json.loads(REFERENCES.read_text())) == names()


@pytest.mark.parametrize("name", names())
def test_titles_say_in_a_line_what_it_is(name):
    title = demo_titles()[name]
    assert 20 < len(title) < 110
    assert not title.endswith(".")


def test_the_command(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    demo = partial(command, "demo")
    _, printed, _ = demo("--list")
    assert [line.split()[0] for line in printed.splitlines()] == names()
    assert demo()[1] == printed
    code, _, told = demo("twistedbar")
    assert code == 1
    assert "there is no demo 'twistedbar'; did you mean 'twisted_bar'?" in told
    code, printed, told = demo("twisted_bar", "--set", "frames.count=3")
    assert (code, told) == (0, "")
    out = Path("out") / "twisted_bar"
    pictures = out / "pictures"
    for path in (out / "animation.usdc", pictures / "movie.mp4", pictures / "contact_sheet.png"):
        assert f"wrote {path}\n" in printed
        assert path.stat().st_size > 1000
    assert len(list(pictures.glob("frame_*.png"))) == 3
    code, _, told = demo("twisted_bar", "--set", "frames.count=3", "-o", "out/twisted_bar")
    assert code == 1
    assert "holds a run already: --resume it, --replace it" in told
    monkeypatch.setattr("pointglue.cli.render_folder", lambda folder, **_: None)  # it has been seen to draw
    for more, wrote in [
        (["--resume", "-o", "out/twisted_bar"], "wrote 1 frame "),
        (["--resume"], "wrote 0 frames "),
        (["--replace", "-o", "out/twisted_bar"], "wrote 4 frames "),
        ([], "wrote 4 frames "),
    ]:
        code, printed, told = demo("twisted_bar", "--set", "frames.count=4", *more)
        assert (code, told) == (0, "")
        assert f"\n{wrote}" in f"\n{printed}"
    assert "exclude each other" in demo("twisted_bar", "--resume", "--replace")[2]


if __name__ == "__main__":
    built = {name: {key: np.round(row, 7).tolist() for key, row in shapes(name).items()} for name in names()}
    lines = [f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in built.items()]
    REFERENCES.write_text("{\n" + ",\n".join(lines) + "\n}\n")
