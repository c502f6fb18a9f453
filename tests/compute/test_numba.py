"""What the kernels assume of numba beyond its documented interface, one assumption a test.

If one fails with a new version, `pointglue.compute` is the place to mend it; then the bound in pyproject.toml
may be raised.
"""

import gc
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from llvmlite import ir
from numba.core import event
from packaging.requirements import Requirement

from pointglue.compute import kernel, simd


def test_the_version_is_one_that_has_been_tested():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (bound,) = (Requirement(one) for one in project["dependencies"] if Requirement(one).name == "numba")
    assert bound.specifier.contains(version("numba"))
    assert any(one.operator == "<" for one in bound.specifier)  # internals may change with any version


def test_compilation_is_announced_with_the_function():
    """`compute.compilation` sets LLVM's options while our own functions are compiled."""
    seen = []

    class Listener(event.Listener):
        def on_start(self, event):
            seen.append(event.data["dispatcher"].py_func.__name__)

        def on_end(self, event):
            seen.append("end")

    with event.install_listener("numba:compile", Listener()):
        assert numba.njit(lambda x: x + 1)(1) == 2
    assert seen == ["<lambda>", "end"]


def test_the_garbage_collector_rests_until_a_function_is_compiled():
    """It goes on as it was, also where the function cannot be compiled."""
    seen = []

    class Listener(event.Listener):
        def on_start(self, event):
            seen.append(gc.isenabled())

        def on_end(self, event):
            pass

    with event.install_listener("numba:compile", Listener()):
        assert numba.njit(lambda x: x + 1)(1) == 2
        assert gc.isenabled()
        with pytest.raises(numba.TypingError):
            numba.njit(lambda x: x.nothing)(1)
        assert gc.isenabled()
        gc.disable()
        try:
            assert numba.njit(lambda x: x + 2)(1) == 3
            assert not gc.isenabled()
        finally:
            gc.enable()
    assert seen == [False] * 3


def test_superword_vectorisation_is_a_setting():
    assert numba.config.SLP_VECTORIZE in (0, 1)


def test_a_vector_is_one_register_of_llvm():
    def doubled(a):
        simd.store(a, 0, 0, simd.load(a, 0, 0) + simd.load(a, 0, 0))

    compiled = numba.njit(doubled)
    a = np.arange(4.0).reshape(1, 4)
    compiled(a)
    np.testing.assert_array_equal(a, [[0, 2, 4, 6]])
    (text,) = compiled.inspect_llvm().values()
    assert f"fadd contract <{simd.WIDTH} x double>" in text


def test_the_builder_makes_vectors():
    """The instructions of llvmlite that `compute.simd` calls by name."""
    for name in (
        "fadd", "fsub", "fmul", "load", "store", "ptrtoint", "inttoptr",
        "insert_element", "extract_element", "shuffle_vector", "extract_value",
    ):  # fmt: skip
        assert callable(getattr(ir.IRBuilder, name))


class Pair(NamedTuple):
    one: np.ndarray
    two: float


@kernel
def product(pair, out) -> None:
    for i in range(len(out)):
        out[i] = pair.one[i] * pair.two


def test_records_of_arrays_and_numbers_are_arguments():
    out = np.empty(3)
    product(Pair(np.arange(3.0), 2.0), out)
    np.testing.assert_array_equal(out, [0, 2, 4])


@kernel
def applied(function, x):
    return function(x)


@kernel
def square(x):
    return x * x


@kernel
def cube(x):
    return x * x * x


@kernel
def both(x):
    return applied(square, x), applied(cube, x)


def test_kernels_are_arguments_of_kernels():
    """The walk of a tree takes the kernels that make the question."""
    assert both(3.0) == (9.0, 27.0)


@pytest.mark.parametrize(
    "name", ["cache", "nogil", "error_model", "fastmath", "forceinline", "no_cfunc_wrapper"]
)
def test_options_of_kernels_are_known(name):
    values = {"error_model": "numpy", "fastmath": {"contract"}}
    assert numba.njit(**{name: values.get(name, True)})(lambda x: x)(1) == 1
