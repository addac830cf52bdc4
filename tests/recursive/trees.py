"""Random parent arrays and matrices with their pattern."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from dynsys.recursive.sparse_factors import support_mask
from dynsys.types import Array, IntArray

__all__ = ["parents", "random_factor", "random_inertia"]


@st.composite
def parents(draw: st.DrawFn, max_size: int = 12) -> IntArray:
    n = draw(st.integers(1, max_size))
    return np.array([draw(st.integers(-1, i - 1)) for i in range(n)], dtype=np.intp)


def random_factor(parent: IntArray, rng: np.random.Generator) -> Array:
    """Return a well-conditioned L with the pattern of the tree."""
    n = len(parent)
    L = np.where(support_mask(parent), rng.uniform(-0.5, 0.5, (n, n)), 0.0)
    np.fill_diagonal(L, rng.uniform(1.0, 2.0, n))
    return L


def random_inertia(parent: IntArray, rng: np.random.Generator) -> Array:
    L = random_factor(parent, rng)
    return np.asarray(L.T @ L)
