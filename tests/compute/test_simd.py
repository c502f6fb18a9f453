"""Vectors of four: each element does what a number would, to the last bit where nothing is fused."""

import numpy as np
import pytest

from pointglue.compute import kernel
from pointglue.compute.simd import element, load, splat, store


@kernel
def sums(a, b, out) -> None:
    for i in range(len(a)):
        store(out, i, 1, load(a, i, 0) + load(b, i, 2))


@kernel
def differences(a, b, out) -> None:
    for i in range(len(a)):
        store(out, i, 1, load(a, i, 0) - load(b, i, 2))


@kernel
def products(a, b, out) -> None:
    for i in range(len(a)):
        store(out, i, 1, load(a, i, 0) * load(b, i, 2))


@kernel
def scaled(a, b, out) -> None:
    for i in range(len(a)):
        store(out, i, 1, element(load(b, i, 0), 3) * load(a, i, 0))


@kernel
def spread(a, b, out) -> None:
    for i in range(len(a)):
        store(out, i, 1, splat(a[i, 2]))


def expected(a, b):
    return {
        sums: a[:, :4] + b[:, 2:6],
        differences: a[:, :4] - b[:, 2:6],
        products: a[:, :4] * b[:, 2:6],
        scaled: b[:, 3:4] * a[:, :4],
        spread: np.repeat(a[:, 2:3], 4, axis=1),
    }


@pytest.mark.parametrize("function", [sums, differences, products, scaled, spread], ids=lambda f: f.__name__)
def test_each_operation_in_rows_of_any_length_and_alignment(function):
    rng = np.random.default_rng(0)
    # Slices of wider arrays: rows apart by more than their length, at addresses of no special alignment.
    a, b = rng.standard_normal((5, 9))[:, 1:8], rng.standard_normal((5, 7))
    out = np.full((5, 6), np.nan)
    function(a, b, out)
    np.testing.assert_array_equal(out[:, 1:5], expected(a, b)[function])
    assert np.isnan(out[:, [0, 5]]).all()  # and nothing else is written


@kernel
def total(a, out) -> None:
    """A vector carried through a loop."""
    sum_ = splat(0.0)
    for i in range(len(a)):
        sum_ = sum_ + load(a, i, 0)
    store(out, 0, 0, sum_)


def test_carried_through_a_loop():
    a = np.random.default_rng(1).standard_normal((100, 4))
    out = np.empty((1, 4))
    total(a, out)
    np.testing.assert_array_equal(out[0], np.add.accumulate(a)[-1])  # the same order of adding up
