"""Bodies and models that are cached on disk: the same to the last bit, built anew where a file is no good."""

import os
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from pointglue.io import load_body, save_body
from pointglue.particles import OrientedBody
from pointglue.scene import build_scene, cache, load_scene
from pointglue.scene.build.particle_bodies import sampled_body

DUCK = {"kind": "particles", "mesh": {"shape": "duck", "detail": 1}, "spacing": "8 cm"}
SCENE = {"objects": {"duck": DUCK}}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("POINTGLUE_CACHE", str(tmp_path / "cache"))
    sampled_body.cache_clear()
    yield tmp_path / "cache"
    sampled_body.cache_clear()


def body():
    sampled_body.cache_clear()
    return build_scene(load_scene(SCENE)).engines[0].solver.body


def same(one, other):
    """Whether two bodies are the same to the last bit."""
    for field in fields(OrientedBody):
        a, b = getattr(one, field.name), getattr(other, field.name)
        pairs = zip(a, b, strict=True) if field.name == "groups" else [(a, b)]
        if field.name == "visual":
            pairs = [(getattr(a, part.name), getattr(b, part.name)) for part in fields(a)]
        if not all(np.array_equal(x, y) for x, y in pairs):
            return False
    return True


def test_what_is_cached_is_the_same_to_the_last_bit(folder, monkeypatch):
    first = body()
    assert len(list(folder.glob("bodies/*.npz"))) == len(list(folder.glob("models/*.npz"))) == 1
    monkeypatch.setattr(OrientedBody, "from_mesh", lambda *_, **__: pytest.fail("is built again"))
    assert same(body(), first)


def test_files_of_bodies_keep_every_bit(tmp_path):
    built = OrientedBody.from_mesh(([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]],
                                   [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]), spacing=0.3)  # fmt: skip
    save_body(tmp_path / "body.npz", built)
    assert same(load_body(tmp_path / "body.npz"), built)


def test_what_is_damaged_is_built_again(folder):
    first = body()
    for file in folder.glob("*/*.npz"):
        file.write_bytes(file.read_bytes()[:100])
    assert same(body(), first)
    assert all(file.stat().st_size > 100 for file in folder.glob("*/*.npz"))


def test_a_folder_that_cannot_be_written_is_no_error(folder):
    folder.write_text("a file")
    assert len(body()) > 3


def test_the_oldest_are_deleted(folder, monkeypatch):
    monkeypatch.setattr(cache, "MOST_FILES", 2)
    for number in range(4):
        cache.cached(
            "things", bytes([number]), lambda: b"x", open, lambda path, built: path.write_bytes(built)
        )
        for k, file in enumerate(sorted(folder.glob("things/*"), key=os.path.getmtime)):
            os.utime(file, (k, k))
    assert len(list(folder.glob("things/*"))) == 2
    for number in (2, 3):
        built = cache.cached(
            "things", bytes([number]), lambda: b"built again", Path.read_bytes, Path.write_bytes
        )
        assert built == b"x"


def test_other_code_builds_it_anew(folder, monkeypatch):
    body()
    monkeypatch.setattr(cache, "code_digest", lambda: b"newer")
    body()
    assert len(list(folder.glob("bodies/*.npz"))) == 2
