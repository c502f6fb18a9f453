"""Small dense systems, against LAPACK."""

import numpy as np
import pytest

from pointglue.particles._solve.kernels.constraints.dense import solve_dense


@pytest.mark.parametrize("n", [1, 2, 3, 30, 90])
def test_solutions_are_those_of_lapack(n, rng):
    A, b = rng.normal(size=(n, n)), rng.normal(size=n)
    A[0, 0] = 0.0 if n > 1 else 1.0  # that takes a pivot
    expected = np.linalg.solve(A, b)
    # Backward stable: as many digits are lost as the condition says.
    close = 1e-14 * n * np.linalg.cond(A) * np.abs(expected).max()
    solve_dense(A, b)
    np.testing.assert_allclose(b, expected, atol=close)
