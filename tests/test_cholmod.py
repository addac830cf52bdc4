"""CHOLMOD behind one interface, whichever scikit-sparse is installed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.sparse import csc_array, random_array

from dynsys.cholmod import SimplicialFactors, fill_reducing_order, has_cholmod

pytestmark = pytest.mark.skipif(not has_cholmod(), reason="CHOLMOD is not installed")


def quasi_definite(seed: int, n: int = 12, m: int = 7) -> csc_array[np.float64]:
    rng = np.random.default_rng(seed)
    B = random_array((m, n), density=0.3, rng=rng).toarray()
    return csc_array(np.block([[np.diag(rng.uniform(1, 2, n)), B.T], [B, -np.eye(m)]]))


def test_factors_of_one_pattern_solve_matrix_after_matrix() -> None:
    A = quasi_definite(0)
    factors = SimplicialFactors(A)
    for scale in (1.0, 3.0):
        scaled = csc_array(scale * A)
        assert factors.factor(scaled)
        for b in (np.arange(A.shape[0], dtype=float), np.eye(A.shape[0])[:, :3]):
            b.flags.writeable = False
            assert np.allclose(scaled @ factors.solve(b), b, atol=1e-12)


def test_orders_are_permutations_that_save_fill() -> None:
    n = 30
    arrow = np.eye(n) * n
    arrow[0] = arrow[:, 0] = 1.0  # full in its natural order
    arrow[0, 0] = n
    for method in ("amd", "metis"):
        order = fill_reducing_order(csc_array(arrow), method)
        assert sorted(order) == list(range(n))
        L = np.linalg.cholesky(arrow[np.ix_(order, order)])
        assert np.count_nonzero(np.abs(L) > 1e-14) < 3 * n


def test_singular_is_said_and_bad_condition_is_not_warned_of() -> None:
    A = csc_array(np.array([[1.0, 1.0], [1.0, 1.0]]))
    assert not SimplicialFactors(A).factor(A)
    nearly = csc_array(np.diag([1.0, 1e-15]))
    factors = SimplicialFactors(nearly)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert factors.factor(nearly)
        assert np.allclose(factors.solve(np.array([1.0, 1e-15])), 1.0)
