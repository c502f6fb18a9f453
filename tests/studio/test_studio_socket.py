"""The socket and whatever comes through it: an answer with a message or a clean close, and others go on."""

import asyncio
import json
import random
import shutil
from contextlib import closing

import pytest
from drawn_commands import drawn_text
from fuzzing import BEGINNINGS
from studio_server import TOKEN, parse_update, write_box
from waiting import DEADLINE, wait_until
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from pointglue.studio.runtime.hub import Hub, Page
from pointglue.studio.runtime.session import Session
from pointglue.studio.server import MOST_BYTES


def connected(studio):
    """A socket that has not said hello."""
    return connect(
        f"ws://127.0.0.1:{studio.port}/socket?token={TOKEN}",
        additional_headers={"Origin": f"http://127.0.0.1:{studio.port}"},
        max_size=None,
        proxy=None,
    )


def answers(socket):
    """All texts up to the next end of a command."""
    found = []
    while not found or found[-1]["type"] != "done":
        data = socket.recv(timeout=DEADLINE)
        if isinstance(data, str):
            found.append(json.loads(data))
    return found


def opened(socket):
    """A mesh is opened, as it would be by any page."""
    socket.send('{"type": "open", "path": "bar.ply"}')
    assert [one["type"] for one in answers(socket)] == ["done"]


def test_commands_before_hello_are_done(studio):
    write_box(studio.folder)
    with connected(studio) as socket:
        opened(socket)
        assert list(studio.document.objects) == ["bar"]
        socket.send('{"type": "ack", "number": 5}')
        socket.send('{"type": "select", "object": "nobody", "what": "points", "indices": []}')
        told = answers(socket)
        assert told[0]["text"] == "there is no object 'nobody'"


@pytest.mark.parametrize(
    "message",
    [
        100_000 * "[",
        '{"type": "set", "path": ["title"], "value": ' + 5000 * "[" + 5000 * "]" + "}",
        '{"type": "set", "path": ["title"], "value": ' + 5000 * "9" + "}",
        '{"type": "set", "path": ["title"], "value": NaN}',
        '{"type": "set", "path": ' + json.dumps(5000 * ["a"]) + "}",
        '{"type": "select", "object": "bar", "what": "points", "indices": '
        + json.dumps(200_000 * [-1])
        + "}",
        '{"type": "rename", "object": "bar", "name": "\\ud800"}',
        '{"type": ' + json.dumps(100_000 * "x") + "}",
        '{"type": "undo"} {"type": "undo"}',
        '{"type": "undo", ' + json.dumps(100_000 * "x") + ": 1}",
        b'{"type": "undo", "more": 1}',
        b"\x00\xff\xfe",
        b"",
        5,
        [],
    ],
    ids=range(15),
)
def test_what_is_no_command_is_told(studio, message):
    write_box(studio.folder)
    with connected(studio) as socket:
        opened(socket)
        before = studio.document
        socket.send(message if isinstance(message, str | bytes) else json.dumps(message))
        told = answers(socket)
        assert [(one["type"], one.get("level")) for one in told] == [("note", "error"), ("done", None)]
        assert "unforeseen" not in told[0]["text"]
        assert len(told[0]["text"]) < 500
        assert studio.document is before


@pytest.mark.parametrize(
    ("message", "codes"),
    [
        # The last word may get lost where the server hangs up while it is still being talked to.
        ((MOST_BYTES + 1) * "x", (1009, 1006)),
        ((MOST_BYTES + 1) * b"x", (1009, 1006)),
        (b"\xff\xfe", (1007,)),
    ],
    ids=["long text", "long bytes", "no UTF-8"],
)
def test_what_cannot_be_heard_closes_its_own_socket(studio, message, codes):
    write_box(studio.folder)
    with connected(studio) as other:
        with connected(studio) as socket:
            with pytest.raises(ConnectionClosed):
                talk_until_closed(socket, message, text=True if 1007 in codes else None)
            assert socket.close_code in codes
        wait_until(lambda: len(studio.hub.pages) == 1, lambda: studio.hub.pages)
        opened(other)


def talk_until_closed(socket, message, text):
    """It may be closed while the message is sent, or afterwards."""
    socket.send(message, text=text)
    while True:
        socket.recv(timeout=DEADLINE)


@pytest.mark.parametrize("number", range(4))
def test_random_commands_are_answered(seeds, tmp_path, number):
    """Through the thread that works on the session, in which nothing may go wrong that is not foreseen."""
    shutil.copytree(seeds, tmp_path / "folder")
    rng, session, loop = random.Random(number), Session(tmp_path / "folder"), asyncio.new_event_loop()
    hub, page = Hub(session), Page(loop)
    hub.pages.add(page)
    with closing(loop), closing(hub):
        for _ in range(10):
            begin = [one.model_dump_json() for one in BEGINNINGS[rng.choice(list(BEGINNINGS))]]
            for text in begin:
                answered(hub, page, text)
            for _ in range(8):
                answered(hub, page, drawn_text(rng, session))


def answered(hub, page, text):
    """Wait until a command is done."""
    if json.loads(text)["type"] not in ("hello", "ack"):
        page.outbox.clear()
        hub.receive(page, text)
        wait_until(
            lambda: any('"type":"done"' in told for told in [*page.outbox]), lambda: (text, [*page.outbox])
        )
    assert not any("unforeseen" in told for told in [*page.outbox]), (text, page.outbox)


def test_a_page_that_comes_while_things_move_has_all_of_them(tmp_path):
    """Whatever it acknowledges before, its hello is answered with the whole state."""
    session, loop = Session(tmp_path), asyncio.new_event_loop()
    hub, page = Hub(session), Page(loop)
    with closing(loop), closing(hub):
        assert hub.update(page) is None  # it has not said hello
        hub.receive(page, '{"type": "hello"}')
        first = parse_update(hub.update(page))[0]
        assert first["state"] is not None
        assert hub.update(page) is None  # it is busy with that
        # It says hello again, and acknowledges what it was sent before only then.
        hub.receive(page, '{"type": "hello"}')
        hub.receive(page, json.dumps({"type": "ack", "number": first["number"]}))
        again = parse_update(hub.update(page))[0]
        assert again["state"] == first["state"]
        hub.receive(page, json.dumps({"type": "ack", "number": again["number"] + 7}))
        hub.receive(page, json.dumps({"type": "ack", "number": again["number"]}))
        assert page.acknowledged == page.sent == session.replica.count
