import errno
import os

import numpy as np
import pytest
from PIL import Image
from small_meshes import VERTICES


@pytest.fixture
def colors(rng):
    colors = rng.integers(0, 256, (len(VERTICES), 4)).astype(np.uint8)
    colors[:, 3] = 255
    return colors


@pytest.fixture
def uv(rng):
    return rng.random((len(VERTICES), 2))


@pytest.fixture
def normals(rng):
    normals = rng.standard_normal(VERTICES.shape)
    return normals / np.linalg.norm(normals, axis=1, keepdims=True)


@pytest.fixture
def image(rng):
    return Image.fromarray(rng.integers(0, 256, (8, 8, 3)).astype(np.uint8))


@pytest.fixture
def fill_disk(monkeypatch):
    """A function after which there is room for a hundred bytes more."""
    write, room = os.write, 0

    def write_some(handle, content):
        """As systems do: what there is room for, and an error when there is none."""
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written, room = write(handle, content[:room]), 0
        return written

    def write_parts(handle, parts):
        return write_some(handle, b"".join(parts))

    def fill():
        nonlocal room
        room = 100
        monkeypatch.setattr("pointglue.io.archives.os.write", write_some)
        monkeypatch.setattr("pointglue.io.archives.os.writev", write_parts, raising=False)

    return fill
