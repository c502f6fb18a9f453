import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from waiting import COMPILING

# What a shell starts in the background ignores Ctrl-C, and what nohup starts ignores that its terminal is
# closed, and so would the commands that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The first example of a property may compile kernels, so that a deadline would measure the compiler.
settings.register_profile("pointglue", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pointglue")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Nothing that tests make is kept in the user's folder, and nothing comes from there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POINTGLUE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(20110801)


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs a command in this process: its exit code, what it prints, and the errors; never a traceback.

    That it compiles kernels is left out: which test is the first to need them, their order decides.
    """
    from pointglue.cli import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["pointglue", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            main()
        told = capsys.readouterr()
        assert "Traceback" not in told.out + told.err
        return done.value.code, told.out, told.err.replace(COMPILING, "")

    return run


@pytest.fixture
def small_disk(tmp_path):
    """A disk of one megabyte, where the system lets us make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no rights to mount a disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
