"""Signals that end a command: what they raise, when they are left alone, and what is said then."""

import os
import signal
import sys
import time

import numba
import pytest
from waiting import DEADLINE

from pointglue.io.signals import ENDING, REPEAT_WINDOW, Ending, deferred, stoppable


@pytest.fixture(autouse=True)
def handlers():
    """Those to begin with, none of which is ignored; the handlers are put back whatever a test does."""
    before = {one: signal.signal(one, signal.default_int_handler) for one in ENDING}
    yield dict.fromkeys(ENDING, signal.default_int_handler)
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_interrupts_and_is_told(number, handlers):
    with Ending() as ending:
        assert ending.first is None
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        assert ending.first == number
    assert {one: signal.getsignal(one) for one in ENDING} == handlers


def test_several_at_once_are_one_wish_and_a_later_one_is_another():
    now = 5.0
    with Ending(lambda: now) as ending:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        for number in ENDING:
            signal.raise_signal(number)  # the last frame is being written
        now += REPEAT_WINDOW
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert ending.first == signal.SIGTERM


def test_computations_are_interrupted_where_they_ask_for_it():
    now, done = 5.0, []

    def compute(*words, number=signal.SIGTERM):
        with deferred() as check:
            check()
            for word in words:
                signal.raise_signal(number)
                done.append(word)
            check()
            done.append("did not stop")

    with Ending(lambda: now):
        with pytest.raises(KeyboardInterrupt):
            compute("went on")
        assert done == ["went on"]
        compute()  # it was told once: what is left to do is not interrupted again
        now += REPEAT_WINDOW
        with pytest.raises(KeyboardInterrupt):
            compute("somebody is in a hurry")
    assert done == ["went on", "did not stop"]
    with pytest.raises(KeyboardInterrupt):  # nobody has asked for anything else than Python's own
        compute("went on", number=signal.SIGINT)
    assert len(done) == 2


def test_computations_that_do_not_ask_are_interrupted_at_their_end():
    done = []

    def compute():
        with deferred():
            signal.raise_signal(signal.SIGTERM)
            done.append("whole")
        done.append("did not stop")

    with Ending(), pytest.raises(KeyboardInterrupt):
        compute()
    assert done == ["whole"]


def test_kernels_are_not_compiled_for_what_is_given_up():
    """On a busy machine, compiling what a first frame needs takes minutes."""

    @numba.njit
    def twice(x):
        return 2 * x

    def compute():
        with deferred():
            signal.raise_signal(signal.SIGTERM)
            twice(1.0)

    with Ending(), pytest.raises(KeyboardInterrupt):
        compute()
    assert twice.signatures == []
    assert twice(1.0) == 2.0  # nothing is left behind of the attempt


class SignalsWhenFinalised:
    """Receives a signal in its finaliser, from which no exception can be raised."""

    def __del__(self):
        signal.raise_signal(signal.SIGTERM)


def test_an_interruption_that_a_finaliser_loses_is_raised_again():
    """Else the command would go on to its end, as if nobody had asked it to stop."""

    def lose():
        SignalsWhenFinalised()
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            time.sleep(0.001)

    with Ending() as ending, pytest.raises(KeyboardInterrupt):
        lose()
    assert ending.first == signal.SIGTERM


def test_an_interruption_that_a_finaliser_loses_in_a_computation_waits_for_its_end():
    steps = []

    def lose():
        SignalsWhenFinalised()
        with deferred() as check:
            end = time.monotonic() + DEADLINE
            while time.monotonic() < end:
                check()
                steps.append("begun")
                time.sleep(0.001)
                steps.append("ended")

    with Ending(), pytest.raises(KeyboardInterrupt):
        lose()
    assert steps[-1] == "ended"


def test_errors_of_finalisers_are_still_reported(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: told.append(str(what.exc_value)))
    before = sys.unraisablehook

    class Fails:
        def __del__(self):
            raise ValueError("in a finaliser")

    with Ending():
        Fails()
    assert told == ["in a finaliser"]
    assert sys.unraisablehook is before


def test_what_is_ignored_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    with Ending() as ending:
        signal.raise_signal(signal.SIGHUP)
        assert ending.first is None
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_command_says_what_is_done_and_how_to_go_on(number, code, capsys):
    with pytest.raises(SystemExit) as left, stoppable(lambda: "after frame 7", lambda: ["run", "a b"]):
        signal.raise_signal(number)
    assert left.value.code == code
    assert capsys.readouterr().err == ("pointglue: stopped after frame 7. Go on with: pointglue run 'a b'\n")


def test_an_error_on_the_way_out_is_no_other_end(capsys):
    """A progress bar fails where its terminal is gone."""

    def bar():
        try:
            signal.raise_signal(signal.SIGHUP)
        finally:
            raise OSError(5, "Input/output error")

    with pytest.raises(SystemExit) as left, stoppable(lambda: "early"):
        bar()
    assert left.value.code == 129


def test_errors_without_a_signal_are_left_alone():
    with pytest.raises(OSError, match="full"), stoppable(lambda: "early"):
        raise OSError("full")


def test_a_terminal_that_is_gone_does_not_keep_the_exit_code(monkeypatch):
    kept = [os.dup(stream) for stream in (1, 2)]

    def gone(*args, **options):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("typer.secho", gone)
    try:
        with pytest.raises(SystemExit) as left, stoppable(lambda: "early"):
            signal.raise_signal(signal.SIGHUP)
        assert os.fstat(1).st_rdev == os.fstat(2).st_rdev == os.stat(os.devnull).st_rdev
    finally:
        for stream, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, stream)
            os.close(copy)
    assert left.value.code == 129
