"""Sparse sums of element matrices, and the base of energies that are such sums."""

from itertools import pairwise

import numpy as np
import pytest
from checking import check_energy, check_threads
from numpy.testing import assert_allclose, assert_array_equal

import pointglue as pg
from pointglue.elastic import BlockPattern, Elements
from pointglue.elastic.linalg.kernels.blocks import psd_part
from pointglue.errors import InputError


class Quadratics(Elements):
    """x^T H x / 2 of each element, for given matrices H: written in NumPy, with a negative part."""

    def __init__(self, stencils, count, H):
        super().__init__(stencils, count)
        self.H = H

    def _of_elements(self, x):
        return x[self.stencils].reshape(len(self), -1)

    def _values(self, x, out):
        y = self._of_elements(x)
        out[:] = np.einsum("ei,eij,ej->e", y, self.H, y) / 2

    def _gradients(self, x, out):
        out[...] = np.einsum("eij,ej->ei", self.H, self._of_elements(x)).reshape(out.shape)

    def _hessians(self, x, project, out):
        values, vectors = np.linalg.eigh(self.H)
        shown = np.maximum(values, 0) if project else values
        out[...] = np.einsum("eik,ek,ejk->eij", vectors, shown, vectors)


def symmetric(rng, number, size):
    H = rng.normal(size=(number, size, size))
    return H + np.swapaxes(H, 1, 2)


def positive_part(H):
    scratch = np.full((2, len(H) + 4, len(H)), np.nan)
    psd_part(H, len(H), *scratch)


def dense(count, d, stencils, elements):
    total = np.zeros((d * count, d * count))
    for points, H in zip(stencils, elements, strict=True):
        for i, a in enumerate(points):
            for j, b in enumerate(points):
                total[d * a : d * a + d, d * b : d * b + d] += H[d * i : d * i + d, d * j : d * j + d]
    return total


@pytest.mark.parametrize("d", [2, 3])
def test_a_pattern_sums_elements_of_several_energies(rng, d):
    count = 12
    lists = [[0, 3, 5], [5, 3], [7, 1, 2, 9], [4, 4]]  # the last one names a point twice
    tets = rng.integers(0, 10, (6, 4))
    ragged = [rng.normal(size=(d * len(part), d * len(part))) for part in lists]
    uniform = rng.normal(size=(6, 4 * d, 4 * d))
    pattern = BlockPattern(count, [pg.Groups.from_lists(lists), tets], dimension=d)
    data = pattern.assemble([np.concatenate([H.ravel() for H in ragged]), uniform])
    expected = dense(count, d, lists, ragged) + dense(count, d, tets, uniform)
    matrix = pattern.matrix(data)
    assert_allclose(matrix.toarray(), expected, rtol=0, atol=1e-14)
    matrix.check_format()
    for first, last in pairwise(matrix.indptr):
        assert (np.diff(matrix.indices[first:last]) > 0).all()
    assert_array_equal(data[pattern.diagonal], matrix.diagonal())
    taken = np.full_like(data, np.nan)
    assert pattern.assemble([np.concatenate([H.ravel() for H in ragged]), uniform], out=taken) is taken
    assert_array_equal(taken, data)


def test_points_without_elements_have_a_diagonal():
    pattern = BlockPattern(3, [np.empty((0, 2), int)])
    data = pattern.assemble([np.empty((0, 6, 6))])
    data[pattern.diagonal] = np.arange(9)
    assert_array_equal(pattern.matrix(data).toarray(), np.diag(np.arange(9.0)))


def test_the_sum_has_the_same_bits_for_any_number_of_threads(rng):
    count = 4000
    tets = rng.integers(0, count, (20000, 4))
    elements = rng.normal(size=(20000, 12, 12))
    pattern = BlockPattern(count, [tets, tets[:500]])
    sums = []
    for number in (1, 2, 3):
        with pg.threads(number):
            sums.append(pattern.assemble([elements, elements[:500]]))
    assert_array_equal(sums[0], sums[1])
    assert_array_equal(sums[0], sums[2])


def test_what_is_wrong_is_named():
    with pytest.raises(InputError, match=r"stencils\[1\] must name some of 5 points, got 5"):
        BlockPattern(5, [np.array([[0, 4]]), np.array([[0, 5]])])
    with pytest.raises(InputError, match=r"stencils\[0\] must name some of 5 points, got -1"):
        BlockPattern(5, [np.array([[0, -1]])])
    with pytest.raises(InputError, match=r"stencils\[0\] must have shape \(E, k\).*got shape \(3,\)"):
        BlockPattern(5, [np.arange(3)])
    with pytest.raises(InputError, match=r"stencils\[0\] must hold whole numbers"):
        BlockPattern(5, [np.array([[0.5, 1.0]])])
    pattern = BlockPattern(5, [np.array([[0, 4]])])
    with pytest.raises(InputError, match=r"elements must hold 1 arrays, got 2"):
        pattern.assemble([np.zeros((1, 6, 6))] * 2)
    with pytest.raises(InputError, match=r"elements\[0\] must hold 36 numbers, got 144"):
        pattern.assemble([np.zeros((1, 12, 12))])


@pytest.mark.parametrize("n", [1, 2, 5, 12, 18])
def test_the_positive_part_of_a_matrix(rng, n):
    low = rng.normal(size=(n, 2))
    special = [np.zeros((n, n)), -np.eye(n), np.ones((n, n)), -np.ones((n, n)), np.eye(n) - low @ low.T,
               np.diag(np.arange(n) - 2.0), np.eye(n)[::-1], -low @ low.T]  # fmt: skip
    for H in (*symmetric(rng, 20, n), *special):
        values, vectors = np.linalg.eigh(H)
        expected = (vectors * np.maximum(values, 0)) @ vectors.T
        result = H.copy()
        positive_part(result)
        assert_allclose(result, expected, rtol=0, atol=2e-15 * n * np.abs(values).max())


def test_the_positive_part_is_found_in_any_range(rng):
    H = symmetric(rng, 1, 9)[0]
    parts = []
    for scale in (1.0, 1e150, 1e-150):
        result = scale * H
        positive_part(result)
        parts.append(result / scale)
    assert_allclose(parts[1], parts[0], rtol=1e-10, atol=1e-13)
    assert_allclose(parts[2], parts[0], rtol=1e-10, atol=1e-13)


def test_a_definite_matrix_stays_as_it_is(rng):
    H = symmetric(rng, 1, 12)[0]
    H += (1.0 - np.linalg.eigvalsh(H)[0]) * np.eye(12)
    result = H.copy()
    positive_part(result)
    assert_array_equal(result, H)


def test_a_matrix_that_is_not_finite_ends_the_search():
    H = -np.eye(5)
    H[1, 2] = H[2, 1] = np.nan
    positive_part(H)
    assert np.isnan(H[1, 2])


def test_sums_of_elements_are_an_energy(rng):
    energy = Quadratics(rng.integers(0, 15, (30, 3)), 15, symmetric(rng, 30, 9))
    check_energy(energy, rng.normal(size=(15, 3)), rigid=False)


def test_energies_have_the_same_bits_for_any_number_of_threads(rng):
    energy = Quadratics(rng.integers(0, 20000, (8000, 3)), 20000, symmetric(rng, 8000, 9))
    check_threads(energy, rng.normal(size=(20000, 3)))


def test_points_are_checked(rng):
    energy = Quadratics(np.array([[0, 1, 2]]), 4, symmetric(rng, 1, 9))
    with pytest.raises(InputError, match=r"x must have shape \(4, 3\), one row per point, got \(3, 3\)"):
        energy.value(np.zeros((3, 3)))
    with pytest.raises(InputError, match=r"x must be finite, got nan at index \[2, 1\]"):
        energy.gradient(np.array([[0, 0, 0], [1, 1, 1], [1, np.nan, 0], [0, 1, 0]]))
    with pytest.raises(InputError, match=r"out must be a contiguous, writeable array of float64 of shape"):
        energy.elements(np.zeros((4, 3)), out=np.zeros((2, 9, 9)))
