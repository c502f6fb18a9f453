"""The server without a browser: who is let in, what pages are told, and what bad pages cannot do."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest
from small_runs import write_run
from studio_server import STATIC, TOKEN, parse_update, running, write_box
from waiting import DEADLINE, wait_until
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from pointglue.elastic import ImplicitSolver
from pointglue.errors import InputError
from pointglue.studio.protocol.typescript import typescript
from pointglue.studio.server import serve

ROOT = Path(__file__).parents[2]


class Tab:
    """A page without a browser."""

    def __init__(self, studio, hello=True, **options):
        headers = {"Origin": f"http://127.0.0.1:{studio.port}"}
        url = f"ws://127.0.0.1:{studio.port}/socket?token={options.pop('token', TOKEN)}"
        self.stack = ExitStack()
        headers = options.pop("headers", headers)
        self.socket = self.stack.enter_context(
            connect(url, additional_headers=headers, max_size=None, proxy=None)
        )
        self.state, self.clock, self.arrays, self.notes, self.files = None, None, {}, [], None
        self.updates = self.number = self.asked = self.done = 0
        if hello:
            self.send("hello")
            self.until(lambda: self.state is not None)

    def send(self, kind, /, **values):
        self.asked += kind not in ("hello", "ack")
        self.socket.send(json.dumps({"type": kind, **values}))

    def ask(self, text):
        """Send a message as it is, and take in the answers."""
        self.asked += 1
        self.socket.send(text)
        self.idle()

    def hear(self, seconds=DEADLINE, ack=True):
        """Take in one message."""
        data = self.socket.recv(timeout=seconds)
        if isinstance(data, str):
            message = json.loads(data)
            if message["type"] == "done":
                self.done += 1
            elif message["type"] == "note":
                self.notes.append(message["text"])
            else:
                self.files = message
            return
        header, arrays = parse_update(data)
        self.state = header["state"] or self.state
        self.clock = header["clock"]
        self.arrays |= arrays
        self.updates += 1
        self.number = header["number"]
        if ack:
            self.send("ack", number=self.number)

    def until(self, condition, ack=True):
        """Take in messages until a condition holds; what was heard instead is told if it never does."""
        end = time.monotonic() + DEADLINE
        while not condition():
            try:
                self.hear(max(end - time.monotonic(), 0.0), ack)
            except TimeoutError:
                raise AssertionError(f"not so after {DEADLINE:g} s; instead: {self.heard()}") from None

    def idle(self, ack=True):
        """Until the server has dealt with all that this page has asked for, and has told all of it."""
        self.until(lambda: self.done == self.asked, ack)

    def caught_up(self, studio):
        """The same, and the page has all there is."""
        self.idle()
        self.until(lambda: self.number == studio.session.replica.count)

    def heard(self):
        arrays = {key: None if array is None else array.shape for key, array in self.arrays.items()}
        return {
            name: getattr(self, name)
            for name in ("asked", "done", "updates", "clock", "state", "notes", "files")
        } | {"arrays": arrays}

    def close(self):
        self.stack.close()


@pytest.fixture
def tab(studio):
    write_box(studio.folder)
    one = Tab(studio)
    yield one
    one.close()


def opened(tab):
    tab.send("open", path="bar.ply")
    tab.idle()
    # Arrays and the state may come in two updates.
    tab.until(lambda: ("bar", "rest") in tab.arrays and tab.state["objects"])


def get(studio, path, host=None):
    with closing(HTTPConnection("127.0.0.1", studio.port, timeout=DEADLINE)) as connection:
        connection.request("GET", path, headers={"Host": host or f"127.0.0.1:{studio.port}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace"), dict(answer.getheaders())


def test_the_page_is_for_whoever_has_the_token(studio):
    if STATIC.is_dir():
        status, text, _ = get(studio, f"/?token={TOKEN}")
        assert status == 200
        assert "<title>pointglue studio</title>" in text
    for path in ("/", "/?token=", "/?token=wrong", "/?token=%C3%BC"):
        status, text, headers = get(studio, path)
        assert status == 403
        assert "pointglue studio" in text
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert get(studio, "/index.html")[0] == 404  # it has one address
    for asset in (STATIC / "assets").glob("*"):
        status, _, headers = get(studio, f"/assets/{asset.name}")
        assert status == 200
        assert "frame-ancestors 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "127.0.0.1:80:80x"]
)
def test_other_names_are_not_served(studio, host):
    assert get(studio, f"/?token={TOKEN}", host or " ")[0] in (400, 421)


@pytest.mark.parametrize(
    ("token", "origin"),
    [
        ("wrong", "http://127.0.0.1:{port}"),
        ("", "http://127.0.0.1:{port}"),
        (TOKEN, "http://evil.example"),
        (TOKEN, "http://127.0.0.1:1"),
        (TOKEN, "null"),
        (TOKEN, None),
    ],
)
def test_the_socket_is_for_the_page_alone(studio, token, origin):
    headers = {} if origin is None else {"Origin": origin.format(port=studio.port)}
    with pytest.raises(InvalidStatus) as refused:
        Tab(studio, token=token, headers=headers)
    assert refused.value.response.status_code == 403


def test_static_files_do_not_lead_out(studio):
    for path in ("/../server.py", "/..%2fserver.py", "/assets/../../server.py", "/%2e%2e/server.py"):
        assert get(studio, path)[0] in (400, 404)


def test_what_arrives_is_what_is_there(tab, studio):
    opened(tab)
    surface = studio.document.surface("bar")
    np.testing.assert_array_equal(tab.arrays["bar", "rest"], np.float32(surface.vertices))
    np.testing.assert_array_equal(tab.arrays["bar", "faces"], surface.faces)
    assert tab.state["objects"][0]["name"] == "bar"


def test_quantised_positions_are_near(tab, studio):
    opened(tab)
    small = Tab(studio, hello=False)
    small.send("hello", quantise=True)
    small.until(lambda: ("bar", "rest") in small.arrays)
    # Half a step of 65535 along each side.
    bound = 0.5 * np.ptp(tab.arrays["bar", "rest"], axis=0) / 65535 * 1.01 + 1e-7
    assert (np.abs(small.arrays["bar", "rest"] - tab.arrays["bar", "rest"]) <= bound).all()
    small.close()


def test_one_update_at_a_time(tab, studio):
    opened(tab)
    tab.send("add_handle", object="bar", position=[0.9, 0.2, 0])
    tab.until(lambda: tab.state["objects"][0]["handles"])
    tab.caught_up(studio)
    seen = tab.updates
    for k in range(40):
        tab.send("drag_handle", object="bar", handle="handle 1", position=[0.9, 0.21 + 0.01 * k, 0])
        if k == 0:
            tab.until(lambda: tab.updates == seen + 1, ack=False)
    tab.idle(ack=False)
    assert tab.updates == seen + 1  # nothing more without an ack
    tab.send("ack", number=studio.session.replica.count)  # a wrong number is no ack
    tab.send("list_files")
    tab.idle(ack=False)
    assert tab.updates == seen + 1
    tab.send("ack", number=tab.number)
    tab.until(lambda: abs(tab.arrays["bar", "handles"][0, 1] - 0.6) < 1e-6)
    tab.caught_up(studio)
    assert tab.updates <= seen + 3  # what was in between is skipped


def depth(studio):
    return len(studio.session.state.past), len(studio.session.state.future)


def test_two_tabs_see_the_same(tab, studio):
    opened(tab)
    other = Tab(studio)
    other.until(lambda: ("bar", "rest") in other.arrays)
    for k in range(15):
        place = [-0.9 + 0.12 * k, 0.2, 0.0]
        (tab if k % 2 else other).send("add_handle", object="bar", position=place)
        (other if k % 2 else tab).send(
            "undo" if k % 5 == 4 else "select",
            **({} if k % 5 == 4 else {"object": "bar", "what": "vertices", "indices": [k]}),
        )
    both = (tab, other)
    for one in both:
        one.idle()
    for one in both:
        one.caught_up(studio)
        assert (one.state["undo"], one.state["redo"]) == depth(studio)
        assert len(one.arrays["bar", "handles"]) == len(studio.document.objects["bar"]["handles"])
    assert tab.state == other.state
    np.testing.assert_array_equal(tab.arrays["bar", "handles"], other.arrays["bar", "handles"])
    other.close()


def test_leaving_while_it_runs(tab, studio):
    opened(tab)
    tab.send("make", object="bar", spacing=0.25)
    tab.send("play")
    tab.until(lambda: tab.clock["status"] == "playing" and tab.clock["frame"] > 2)
    tab.send("grab", object="bar", position=[0, 0, 0])
    tab.socket.socket.close()  # as when the power goes
    wait_until(lambda: not studio.hub.pages, lambda: studio.hub.pages)
    preview = studio.session.state.preview
    wait_until(lambda: preview.hand is None, lambda: preview.hand)  # nobody holds it any more
    again = Tab(studio)
    frame = again.clock["frame"]
    again.until(lambda: again.clock["frame"] > frame + 2)
    again.send("reset")
    again.until(lambda: again.clock["status"] == "still")
    again.close()


BAD = [
    "",
    "{}",
    "[]",
    "null",
    "not json",
    '{"type": "nonsense"}',
    '{"type": "open"}',
    '{"type": "open", "path": 5}',
    '{"type": "open", "path": "nowhere.ply"}',
    '{"type": "open", "path": "a\\u0000b"}',
    '{"type": "spray", "object": "bar", "centres": [[0, 0]], "spacing": 1}',
    '{"type": "spray", "object": "bar", "centres": [[0, 0.2, 0]], "radius": 0.5, "spacing": 0}',
    '{"type": "spray", "object": "bar", "centres": [[0, 0.2, 0]], "radius": 0.5, "spacing": -1e300}',
    '{"type": "spray", "object": "bar", "centres": [[0, 0.2, 0]], "radius": 0.5, "spacing": 1e-9}',
    '{"type": "spray", "object": "bar", "centres": [[1e999, 0, 0]], "radius": 1, "spacing": 1}',
    '{"type": "place", "object": "bar", "position": [0, 0, 0], "radius": -1}',
    '{"type": "place", "object": "nobody", "position": [0, 0, 0], "radius": 1}',
    '{"type": "make", "object": "bar", "spacing": 1e-12}',
    '{"type": "make", "object": "bar", "spacing": 1e12}',
    '{"type": "fit", "object": "bar"}',
    '{"type": "group", "object": "bar"}',
    '{"type": "set", "path": [], "value": 1}',
    '{"type": "set", "path": ["objects", "bar", "falloff"], "value": -1}',
    '{"type": "set", "path": ["objects", "bar", "falloff"], "value": 1e308}',
    '{"type": "set", "path": ["objects", "bar", "stretch"], "value": "NaN"}',
    '{"type": "set", "path": ["objects", 3, "x"], "value": 1}',
    '{"type": "set", "path": ["objects"], "value": 3}',
    '{"type": "set", "path": ["objects", "bar"], "value": "x"}',
    '{"type": "set", "path": ["objects", "bar", "handles"], "value": 0}',
    '{"type": "set", "path": ["attach"], "value": [1]}',
    '{"type": "set", "path": ["frames", "count"], "value": 99999999999}',
    '{"type": "set", "path": ["frames", "rate"], "value": 0}',
    '{"type": "set", "path": ["world", "gravity"], "value": [0, 1e300, 0]}',
    '{"type": "set", "path": ["attach", 0, "parents"], "value": 8}',
    '{"type": "set", "path": ["objects", "bar"], "value": null, "more": 1}',
    '{"type": "set", "path": ["objects", "x"], "value": {"kind": "particles", "body": "b.npz"}}',
    '{"type": "rename", "object": "bar", "name": "../../x"}',
    '{"type": "set_kind", "object": "bar", "kind": "gold"}',
    '{"type": "select", "object": "bar", "what": "vertices", "indices": [99999999]}',
    '{"type": "select", "object": "bar", "what": "vertices", "indices": [-1]}',
    '{"type": "select", "object": "bar", "what": "particles", "indices": [0]}',
    '{"type": "drag_handle", "object": "bar", "handle": "nobody", "position": [0, 0, 0]}',
    '{"type": "remove_handle", "object": "bar", "handle": "nobody"}',
    '{"type": "attach", "object": "bar", "to": "bar", "kind": "glue"}',
    '{"type": "detach", "number": 7}',
    '{"type": "attach_key", "number": -1, "what": "release"}',
    '{"type": "grab", "object": "bar", "position": [0, 0, 0]}',
    '{"type": "export", "object": "bar", "path": "x.exe"}',
    '{"type": "save", "path": ""}',
    '{"type": "redo"}',
    '{"type": "restore", "keep": true}',
    '{"type": "add_handle", "object": "bar", "position": [1e12, 0, 0]}',
    '{"type": "add_handle", "object": "bar", "position": [500, 0, 0]}',
]  # fmt: skip


def test_bad_messages_are_told_and_change_nothing(tab, studio):
    opened(tab)
    before = studio.document
    for text in BAD:
        tab.notes.clear()
        tab.ask(text)
        assert tab.notes, text
        assert "unforeseen" not in tab.notes[0], (text, tab.notes)
        assert studio.document is before, text
    tab.notes.clear()
    tab.ask(b"\x00\xff\xfe")
    assert len(tab.notes) == 1


@pytest.mark.parametrize("ending", ["ply", "obj", "stl", "off", "glb", "toml"])
def test_broken_files_are_told(tab, studio, ending, rng):
    whole = (studio.folder / "bar.ply").read_bytes()
    contents = [
        b"",
        b"\x00" * 100,
        rng.bytes(3000),
        b"v 1 2\nf 1 2 9\n",
        whole[: len(whole) // 2],
        b"solid x\nfacet\n",
    ]
    for k, content in enumerate(contents):
        (studio.folder / f"broken{k}.{ending}").write_bytes(content)
        tab.notes.clear()
        tab.send("open", path=f"broken{k}.{ending}")
        tab.idle()
        assert tab.notes
        assert "unforeseen" not in tab.notes[0], (ending, k, tab.notes)
        assert not studio.document.objects


def test_every_command_is_answered(tab, studio):
    """Also those that change nothing, are wrong, or are skipped: the page waits for it."""
    opened(tab)
    tab.idle()
    tab.send("reset")
    tab.send("undo")
    tab.send("undo")  # there is nothing more
    tab.ask("nonsense")
    for k in range(20):
        tab.send("scrub", frame=k)
    tab.idle()
    assert tab.done == 25


def test_a_page_is_asked_before_a_file_is_replaced(tab, studio):
    opened(tab)
    (studio.folder / "posed.obj").write_text("precious")
    tab.send("export", object="bar", path="posed.obj")
    tab.idle()
    assert tab.files == {"type": "exists", "path": "posed.obj"}
    assert (studio.folder / "posed.obj").read_text() == "precious"
    tab.send("export", object="bar", path="posed.obj", replace=True)
    tab.idle()
    tab.until(lambda: tab.notes)
    assert tab.notes == ["Wrote posed.obj"]


def test_a_run_that_is_damaged_leaves_the_studio_as_it_was(tab, studio):
    opened(tab)
    store = write_run(studio.folder / "run")
    store.path(1).write_bytes(b"nothing")
    tab.send("open", path="run")
    tab.idle()
    assert "frame_0001.npz" in tab.notes[0]
    tab.send("save", path="scene.toml")
    tab.until(lambda: tab.state["path"] == "scene.toml")


def test_a_long_frame_does_not_keep_anybody_waiting(tab, studio, monkeypatch):
    def endless(self, state, dt, watch=lambda: None):
        while True:
            watch()
            time.sleep(0.001)

    monkeypatch.setattr(ImplicitSolver, "step", endless)
    opened(tab)
    tab.send("set_kind", object="bar", kind="flesh")
    tab.send("play")
    tab.until(lambda: tab.clock["status"] == "playing")
    tab.send("list_files")  # which leaves it playing
    tab.until(lambda: tab.files is not None)
    assert tab.clock["status"] == "playing"
    tab.send("pause")
    tab.until(lambda: tab.clock["status"] == "paused")
    tab.send("step")
    tab.send("reset")
    tab.until(lambda: tab.clock["status"] == "still")
    assert tab.clock["frame"] == 1
    assert tab.notes == []


def test_rapid_commands(tab, studio):
    opened(tab)
    for k in range(300):
        kind = ("undo", "redo", "step", "play", "pause", "reset", "ground", "scrub")[k % 8]
        tab.send(kind, **{"ground": {"on": k % 3 == 0}, "scrub": {"frame": 7 * k}}.get(kind, {}))
    tab.send("pause")
    tab.idle()
    assert not [note for note in tab.notes if "unforeseen" in note]
    tab.send("reset")
    tab.send("new")
    tab.caught_up(studio)
    assert tab.state["objects"] == []


def test_messages_of_the_client_are_up_to_date():
    source = ROOT / "studio-client" / "src" / "messages.ts"
    assert source.read_text() == typescript(), (
        "python -m pointglue.studio.protocol.typescript > studio-client/src/messages.ts"
    )


def test_packages_of_the_client_come_from_the_public_registry():
    lock = (ROOT / "studio-client" / "package-lock.json").read_text()
    assert {*re.findall(r'"resolved": "(https://[^/]+)', lock)} <= {"https://registry.npmjs.org"}
    assert '"integrity": "sha512-' in lock


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_an_address_for_everybody_is_refused(host, monkeypatch, tmp_path):
    (tmp_path / "index.html").touch()
    monkeypatch.setattr("pointglue.studio.server.STATIC", tmp_path)
    with pytest.raises(InputError, match="the address that others reach"):
        serve(host=host)


def test_a_page_that_was_not_built_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr("pointglue.studio.server.STATIC", tmp_path)
    with pytest.raises(InputError, match="has not been built"):
        serve()


# One process for all of them: each command ends before anything is served, and then a line tells how.
OPEN_ALL = """
import os, sys
from pointglue.cli import main

for place in sys.argv[1:]:
    os.chdir(os.path.dirname(place))
    sys.argv = ["pointglue", "studio", "--no-browser", os.path.basename(place)]
    try:
        main()
    except SystemExit as end:
        print("ended with", end.code, file=sys.stderr)
"""


def test_what_cannot_be_opened_is_told_in_a_line(tmp_path):
    cases = [("taken/bad.obj", "another studio is working in this folder"), ("free/bad.obj", "bad.obj")]
    cases += [("free/bad.toml", "objects"), ("free/nowhere.ply", "no such file")]
    for folder in (tmp_path / "taken", tmp_path / "free"):
        folder.mkdir()
        (folder / "bad.obj").write_bytes(b"\x00\x01 nonsense")
        (folder / "bad.toml").write_text("objects = 3")
    command = [sys.executable, "-c", OPEN_ALL, *(str(tmp_path / place) for place, _ in cases)]
    with running(tmp_path / "taken"):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE)
    lines = done.stderr.splitlines()
    assert lines[1::2] == ["ended with 1"] * len(cases), done.stderr
    for (place, told), line in zip(cases, lines[::2], strict=True):
        assert told in line, place


def _text(path):
    """What is in a file that may not be there yet."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def test_the_command_prints_where_it_is_and_survives_being_killed(tmp_path):
    write_box(tmp_path)
    command = [sys.executable, "-m", "pointglue", "studio", "bar.ply", "--no-browser"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment)
    told = r"pointglue studio: http://127\.0\.0\.1:(\d+)/\?token=([\w-]{32})"
    found = re.fullmatch(told, process.stdout.readline().strip())
    assert found
    port, token = int(found[1]), found[2]
    studio = type("Studio", (), {"port": port})
    try:
        one = Tab(studio, token=token)
        one.send("add_handle", object="bar", position=[0.9, 0.2, 0])
        one.until(lambda: one.state["objects"][0]["handles"])
        kept = tmp_path / ".pointglue-studio" / "now" / "scene.toml"
        wait_until(lambda: "handle 1" in _text(kept), lambda: _text(kept))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE)
        process.stdout.close()
    with pytest.raises(ConnectionClosed):
        one.until(lambda: False)
    one.close()
    with running(tmp_path) as again:
        two = Tab(again)
        assert two.state["found"]
        assert not two.state["objects"]
        two.send("restore", keep=True)
        two.until(lambda: two.state["objects"] and two.state["objects"][0]["handles"])
        two.close()
