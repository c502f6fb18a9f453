"""Dense positive definite systems, against LAPACK."""

import numpy as np
import pytest

from pointglue.particles._solve.kernels.constraints.dense import BLOCK, factor_dense, solve_dense


@pytest.mark.parametrize("n", [1, 2, 3, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 100])
def test_solutions_are_those_of_lapack(n, rng):
    root, b = rng.normal(size=(n, n)), rng.normal(size=n)
    A = root @ root.T + 1e-3 * np.eye(n)
    expected = np.linalg.solve(A, b)
    # Backward stable: as many digits are lost as the condition says.
    close = 1e-14 * n * np.linalg.cond(A) * np.abs(expected).max()
    factor_dense(A)
    solve_dense(A, b)
    np.testing.assert_allclose(b, expected, atol=close)
