"""The line for those who wait at a terminal."""

import io
import sys
from threading import Event

import pytest

from pointglue.scene import status


class Terminal(io.StringIO):
    """Takes what is written, and tells when a text has come."""

    def __init__(self, text, *, real):
        super().__init__()
        self.text, self.real, self.come = text, real, Event()

    def isatty(self):
        return self.real

    def write(self, text):
        count = super().write(text)
        if self.text in self.getvalue():
            self.come.set()
        return count


@pytest.fixture
def terminal(monkeypatch):
    def make(text, *, real):
        stream = Terminal(text, real=real)
        monkeypatch.setenv("TERM", "xterm")
        for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):  # by which others tell rich what to do
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    return make


def test_it_says_what_is_being_made(terminal, monkeypatch):
    monkeypatch.setattr(status, "DELAY", 0.0)
    stream = terminal("building the tree ...", real=True)
    with status.waiting() as tell:
        tell("building the tree")
        assert stream.come.wait(60), stream.getvalue()


def test_what_is_over_soon_says_nothing(terminal, monkeypatch):
    monkeypatch.setattr(status, "DELAY", 3600.0)
    stream = terminal("", real=True)
    with status.waiting() as tell:
        tell("building the tree")
    assert "making" not in stream.getvalue()


def test_nothing_is_written_to_a_file(terminal, monkeypatch):
    monkeypatch.setattr(status, "DELAY", 0.0)
    stream = terminal("", real=False)
    with status.waiting() as tell:
        tell("building the tree")
    assert stream.getvalue() == ""
