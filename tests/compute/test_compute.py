"""How kernels are compiled."""

import importlib.util
import os
import re
import subprocess
import sys
import threading
import time

import numba
import numpy as np
import pytest

import pointglue as pg
from pointglue.compute import kernel, measured, run, thread_count
from pointglue.files import is_locked

LONG = "\n".join(f"    x = x * {1 + 1 / n} + math.sin({n} * x)" for n in range(1, 200))
SOURCE = f"""\
import math

def called(x):
{LONG}
    return x

def calling(x, y):
    return called(x) * called(y)
"""


def test_kernels_carry_no_copy_of_those_they_call(tmp_path):
    """Else which of several copies runs, each rounded in its way, would depend on what was loaded before."""
    # New every time: what comes from the disk cache has no LLVM to read.
    module = kernels_of(tmp_path / "long_kernels.py", SOURCE, "long_kernels")
    module.called = kernel(module.called)
    calling = kernel(module.calling)
    assert calling(0.5, 0.25) == calling(0.25, 0.5)
    (text,) = calling.inspect_llvm().values()
    defined = re.findall(r"^define .*@(\S+)\(", text, re.MULTILINE)
    assert any("calling" in name for name in defined)
    assert not [name for name in defined if "called" in name]


def kernels_of(path, source, name):
    """The kernels of a module that is new, so that nothing has been compiled before."""
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


COUNTING = """\
import sys
from numba.core import event

class Listener(event.Listener):
    count = 0
    def on_start(self, event):
        Listener.count += 1
    def on_end(self, event):
        pass

event.register("numba:compile", Listener())
import long_kernels
print("ready", flush=True)
sys.stdin.readline()
assert long_kernels.calling(0.5, 0.25) == long_kernels.calling(0.25, 0.5)
print(Listener.count)
"""


def test_processes_that_begin_together_compile_each_kernel_once(tmp_path):
    """Those that come later wait, and load what the first one has saved."""
    source = SOURCE.replace("import math", "import math\nfrom pointglue.compute import kernel")
    (tmp_path / "long_kernels.py").write_text(source.replace("def ", "@kernel\ndef "))
    command = [sys.executable, "-c", COUNTING]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": tmp_path}
    processes = [subprocess.Popen(command, **streams) for _ in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:  # all have loaded the module before the first begins to compile
        process.stdin.write("\n")
        process.stdin.flush()
    counts = [int(process.communicate()[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sorted(counts) == [0, 0, 2]  # `calling`, and `called` within it


def test_a_kernel_that_cannot_be_compiled_is_left_to_other_processes(tmp_path):
    source = "def wrong(x):\n    return x.nothing + 1\n"
    module = kernels_of(tmp_path / "wrong_kernels.py", source, "wrong_kernels")
    wrong = kernel(module.wrong)
    with pytest.raises(numba.TypingError):
        wrong(1.0)
    (lock,) = tmp_path.glob("__pycache__/*.lock")
    assert not is_locked(lock)


def test_seconds_of_kernels_are_measured_within_the_block_alone():
    x = np.random.default_rng(0).standard_normal((20_000, 4, 3))
    pg.fit_rigid(x[0], x)
    begin = time.perf_counter()
    with measured() as spent:
        pg.fit_rigid(x[0], x)
        once = dict(spent)
        with measured() as inner:
            pg.fit_rigid(x[0], x)
        assert spent == once  # the inner block has its own
        pg.fit_rigid(x[0], x)
    taken = time.perf_counter() - begin
    assert 0 < once["procrustes.kernels.fit"] < spent["procrustes.kernels.fit"] < taken
    assert inner["procrustes.kernels.fit"] > 0
    last = dict(spent)
    pg.fit_rigid(x[0], x)
    assert spent == last


def test_where_the_system_tells_no_affinity_all_cores_are_used(monkeypatch):
    monkeypatch.delenv("POINTGLUE_NUM_THREADS", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    for cores, expected in ((7, 7), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        assert thread_count() == expected


def test_threads_are_as_before_once_an_error_has_left_the_block():
    def fail():
        assert thread_count() == before + 1
        raise ZeroDivisionError

    before = thread_count()
    with pytest.raises(ZeroDivisionError), pg.threads(before + 1):
        fail()
    assert thread_count() == before


def test_callers_in_several_threads_have_the_other_threads_in_common():
    """Two callers with three threads each: two others work for both, and cores are not asked for twice."""
    first, both, others = threading.Event(), threading.Event(), set()

    def work(start, stop, own):
        if start == 0:  # the caller's part, after it has handed out the rest
            own.set()
        else:
            others.add(threading.current_thread().name)
            assert both.wait(60)

    def call(own):
        with pg.threads(3):
            run(work, 3, 1, own)

    callers = [threading.Thread(target=call, args=(own,)) for own in (first, both)]
    callers[0].start()
    assert first.wait(60)
    callers[1].start()
    for caller in callers:
        caller.join()
    assert both.is_set()
    assert 0 < len(others) <= 2
