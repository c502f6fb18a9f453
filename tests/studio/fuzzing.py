"""Sequences of random commands, and what must hold after each of them."""

import random
import shutil

import numpy as np
from drawn_commands import drawn_text
from pydantic import ValidationError
from small_runs import write_run
from studio_server import write_box

from pointglue.errors import PointglueError
from pointglue.studio.protocol import commands as m
from pointglue.studio.runtime.preview import StoppedError
from pointglue.studio.runtime.session import Session

__all__ = ["BEGINNINGS", "play_sequence", "write_seeds"]

KINDS = """
frames = { count = 4 }
world = { gravity = [0, -9.81, 0], wind = { velocity = [1, 0, 0] } }
contact = { distance = "1 mm", ignore = [["flesh", "flesh"]] }

[objects.flesh]
kind = "flesh"
mesh = { shape = "box", size = [1, 1, 1] }
material = { young = "100 kPa" }
pin = { indices = [0, 1] }
groups = { left = { box = [[-1, -1, -1], [0, 1, 1]] } }

[objects.flesh.grips.hand]
points = { indices = [7] }
keys = [{ time = 0.0 }, { time = "frame 3", translate = [0, 1, 0] }]

[objects.jelly]
kind = "jelly"
mesh = { shape = "box", size = [1, 1, 1] }
transform = { scale = [1, 2, 1], rotate = [0, 30, 0], translate = [3, 0, 0] }
material = { young = 1e4 }

[objects.sheet]
kind = "cloth"
mesh = { shape = "sheet", size = [1, 1], cells = [2, 2] }
transform = { translate = [0, 3, 0] }

[objects.stone]
kind = "rigid"
mesh = { shape = "box", size = [1, 1, 1] }
transform = { translate = [6, 0, 0] }
keys = [{ time = 0.0 }, { time = "0.1 s", rotate = [0, 90, 0] }]

[objects.wall]
kind = "collider"
mesh = { shape = "plane", point = [0, -3, 0] }
friction = 0.2

[objects.leaf]
kind = "follower"
mesh = { shape = "box", size = [0.1, 0.1, 0.1] }
on = "flesh"

[objects.rope]
kind = "particles"
mesh = { shape = "rope", start = [0, 6, 0], end = [1, 6, 0], radius = 0.1, cells = 4 }
material = { preset = "rope" }
pin = { indices = [0] }

[[attach]]
kind = "glue"
from = "sheet"
to = "flesh"
points = { nearest = 2 }

[[attach]]
kind = "joint"
type = "hinge"
from = "jelly"
to = "stone"
at = [4.5, 0, 0]
release = "frame 3"

[[force]]
kind = "push"
on = ["flesh", "rope"]
force = [1, 0, 0]
"""
BEGINNINGS = {
    "nothing": [],
    "box": [m.Open(path="box.toml")],
    "ground": [m.Open(path="ground.toml")],
    "handles": [m.Open(path="handles.toml")],
    "bound": [m.Open(path="bound.toml"), m.Select(object="box", what="points", indices=[0, 1, 2, 3])],
    "made": [m.Open(path="made.toml"), m.Select(object="box", what="particles", indices=[0, 1, 2])],
    "octopus": [m.Open(path="octopus.toml"), m.Select(object="octopus", what="particles", indices=[0, 1])],
    "kinds": [m.Open(path="kinds.toml"), m.Select(object="flesh", what="points", indices=[0, 1, 2, 4])],
    "playing": [m.Open(path="bound.toml"), m.Play()],
    "grabbed": [m.Open(path="made.toml"), m.Grab(object="box", position=(0.0, 0.0, 0.0))],
    "run": [m.Open(path="bound.toml"), m.Open(path="run")],
}
"""What sequences begin with, in a folder with what `write_seeds` writes."""


def write_seeds(folder):
    """Write small scenes and a run for sequences to begin with."""
    write_box(folder, size=(2.0, 0.4, 0.4), cells=(5, 1, 1))
    write_run(folder / "run")
    (folder / "kinds.toml").write_text(KINDS)
    flesh, cloth = [m.SetKind(object="box", kind="flesh")], [m.SetKind(object="sheet", kind="cloth")]
    small = m.Set(path=["objects", "box", "mesh", "cells"], value=[2, 2, 2])
    box = [m.AddShape(shape="box"), small]
    sheet = [m.AddShape(shape="sheet"), m.Set(path=["objects", "sheet", "mesh", "cells"], value=[3, 3])]
    handles = [m.AddHandle(object="bar", position=(x, 0.2, 0.0)) for x in (-0.9, 0.0, 0.9)]
    chosen = [m.Select(object="sheet", what="points", indices=[0, 1, 2, 3])]
    scenes = {
        "box": box,
        "ground": [*box, m.Ground(on=True)],
        "handles": [
            m.Open(path="bar.ply"),
            *handles,
            m.Link(object="bar", handles=["handle 1", "handle 2"], how="chain"),
            m.DragHandle(object="bar", handle="handle 3", position=(1.0, 0.5, 0.0), done=True),
        ],
        "bound": [*box, *flesh, *sheet, *cloth, *chosen, m.Attach(object="sheet", to="box", kind="spring")],
        "made": [*box, m.Make(object="box", spacing=0.5), m.Ground(on=True), m.AddShape(shape="sphere")],
        "octopus": [m.AddShape(shape="octopus"), m.Make(object="octopus", spacing=0.25)],
    }
    session = Session(folder)
    for name, commands in scenes.items():
        session.apply(m.New())
        for command in (m.Set(path=["frames", "count"], value=4), *commands, m.Save(path=f"{name}.toml")):
            session.apply(command)
    session.close()


def play_sequence(seeds, folder, number, longest=8):
    """Do the commands of the sequence of a number in a folder of its own; AssertionError tells them all."""
    rng = random.Random(number)
    shutil.copytree(seeds, folder)
    session = Session(folder)
    done = []
    try:
        begin = rng.choice(list(BEGINNINGS))
        for command in BEGINNINGS[begin]:
            session.apply(command)
        for _ in range(rng.randint(2, longest)):
            done.append(drawn_text(rng, session))
            _do(session, done[-1], rng)
        if rng.random() < 0.4:
            done.append("saved, opened again and compared")
            _save_and_compare(session, folder)
    except Exception as error:
        told = "\n".join(text if len(text) < 1000 else f"{text[:1000]}..." for text in done)
        raise AssertionError(f"sequence {number}, which begins with {begin!r}:\n{told}") from error
    finally:
        session.close()
    shutil.rmtree(folder)


def _do(session, text, rng):
    """One command; it is done, or refused with a message, and then all is as it was."""
    before, count, refused = _all_of(session), len(session.state.past), None
    try:
        command = m.parse_command(text)
    except ValidationError:
        return
    try:
        session.apply(command)
    except StoppedError:  # the simulation has come to an end, which is no fault of the command
        assert session.document is before["document"]
    except PointglueError as error:
        refused = str(error)
    if refused is not None:
        after = _all_of(session)
        assert refused
        assert {key for key in before if not _same(before[key], after[key])} == set()
        return
    if rng.random() < 0.1:
        session.tick()
        session.release()
    document = session.document
    if len(session.state.past) > count and rng.random() < 0.3:
        session.apply(m.Undo())
        assert session.document is before["document"]
        session.apply(m.Redo())
        assert session.document is document


def _all_of(session):
    """Everything that a command may change."""
    run, preview = session.state.run, session.state.preview
    return {
        "document": session.document,
        "past": list(session.state.past),
        "future": list(session.state.future),
        "frame": session.frame,
        "path": session.path,
        "live": dict(session.poses.live),
        "playing": session.state.playing,
        "run": run,
        "frame of run": None if run is None else (run.frame, run.numbers),
        "preview": preview,
        "state": None if preview is None else preview.state,
        "hand": None if preview is None else preview.hand,
        "notes": list(session.notes),
        "shown": session.replica.since(0)[3],
    }


def _same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=True)
    return one is other or (type(one) in (int, bool, list, tuple) and one == other)


def _save_and_compare(session, folder):
    """A file that the studio has saved is opened by another studio, which shows the same."""
    session.apply(m.CloseRun())
    session.apply(m.Reset())
    session.release()  # a handle that is still being dragged
    try:
        session.apply(m.Save(path="saved.toml", replace=True))
    except PointglueError:
        assert not session.document.objects
        return
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    other = Session(elsewhere, folder / "saved.toml")
    try:
        here, there = _seen(session), _seen(other)
        assert {key for key in here | there if not _same(here.get(key), there.get(key))} == set()
    finally:
        other.close()


def _seen(session):
    """What is shown of the scene, but for what is selected, and what only memory has."""
    state = session.page_state()
    arrays = session.replica.since(0)[3]
    seen = {key: array for key, array in arrays.items() if not key[1].startswith("selected_")}
    for one in state.objects:
        # The mesh of a body in memory is kept for the day on which it is no body any more; files have none.
        hidden = ("mesh", "transform") if one.edited else ()
        table = {key: value for key, value in one.table.items() if key not in hidden}
        seen[one.name] = [one.model_dump(exclude={"table"}), table]
    told = ("title", "attach", "frames", "gravity", "ground", "tables")
    return seen | {key: [getattr(state, key)] for key in told}
