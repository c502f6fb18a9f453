"""A studio that runs in this process, and a client without a browser."""

import json
import struct
import threading
from contextlib import contextmanager

import numpy as np
import trimesh
import uvicorn
from waiting import DEADLINE, wait_until

from pointglue import assets
from pointglue.geometry import shapes
from pointglue.studio.runtime.session import Session
from pointglue.studio.server import STATIC, configuration, create_app

__all__ = [
    "STATIC", "TOKEN", "ManualClock", "Server", "parse_update", "running", "write_box", "write_octopus",
]  # fmt: skip

TOKEN = "a-token-for-tests"


class ManualClock:
    """The clock of a session whose time tests decide."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds

    def wait_until(self, time):
        self.now = max(self.now, time)


class Server:
    """The application, the port that it listens to, and its session."""

    def __init__(self, app, port, folder, stop):
        self.app, self.port, self.folder, self.stop = app, port, folder, stop

    @property
    def session(self):
        return self.app.state.hub.session

    @property
    def document(self):
        return self.session.document

    @property
    def hub(self):
        return self.app.state.hub

    def shown(self):
        """Whether every page shows all that there is; what runs may change it again at once."""
        pages = list(self.hub.pages)
        return bool(pages) and all(page.acknowledged == self.session.replica.count for page in pages)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/?token={TOKEN}"


@contextmanager
def running(folder, start=None):
    app = create_app(Session(folder, start), token=TOKEN)
    server = uvicorn.Server(configuration(app, "127.0.0.1", 0))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started or not thread.is_alive(), lambda: "a server that is starting")
    assert server.started

    def stop():
        server.should_exit = True
        thread.join(DEADLINE)
        assert not thread.is_alive(), "the server does not end"

    try:
        yield Server(app, server.servers[0].sockets[0].getsockname()[1], folder, stop)
    finally:
        stop()


def parse_update(data):
    """The header of an update, and its arrays by object and channel."""
    length = struct.unpack("<I", data[:4])[0]
    header = json.loads(data[4 : 4 + length])
    arrays = {}
    for part in header["arrays"]:
        key = part["object"], part["channel"]
        arrays[key] = None
        if part["shape"] is not None:
            dtype = np.dtype(f"<{part['dtype']}")
            count = int(np.prod(part["shape"], dtype=int))
            array = np.frombuffer(data, dtype, count, 4 + length + part["offset"]).reshape(part["shape"])
            if part["dtype"] == "u2":
                array = part["low"] + array * np.array(part["step"])
            arrays[key] = array
    return header, arrays


def write_octopus(folder, name="octopus.ply"):
    vertices, faces = assets.octopus()
    trimesh.Trimesh(vertices, faces, process=False).export(folder / name)
    return folder / name


def write_box(folder, name="bar.ply", size=(2.0, 0.4, 0.4), cells=(20, 4, 4), shift=(0, 0, 0)):
    vertices, faces = shapes.box(size, cells)
    trimesh.Trimesh(vertices + np.array(shift), faces, process=False).export(folder / name)
    return folder / name
