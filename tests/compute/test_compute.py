"""How kernels are compiled."""

import importlib.util
import re
import time

import numpy as np
import pytest

import pointglue as pg
from pointglue.compute import kernel, measured, thread_count

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
    path = tmp_path / "long_kernels.py"  # new every time: what comes from the disk cache has no LLVM to read
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("long_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.called = kernel(module.called)
    calling = kernel(module.calling)
    assert calling(0.5, 0.25) == calling(0.25, 0.5)
    (text,) = calling.inspect_llvm().values()
    defined = re.findall(r"^define .*@(\S+)\(", text, re.MULTILINE)
    assert any("calling" in name for name in defined)
    assert not [name for name in defined if "called" in name]


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


def test_threads_are_as_before_once_an_error_has_left_the_block():
    def fail():
        assert thread_count() == before + 1
        raise ZeroDivisionError

    before = thread_count()
    with pytest.raises(ZeroDivisionError), pg.threads(before + 1):
        fail()
    assert thread_count() == before
