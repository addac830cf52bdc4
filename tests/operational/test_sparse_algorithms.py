"""Sparse products, Y factors, Jbar and N against dense algebra; their counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dynsys import ltdl, ltl
from dynsys.operational.methods.y_factor import lambda_inverse
from dynsys.operational.sparse_jacobian import (
    Supports,
    ancestor,
    inertia_weighted_inverse,
    mul_JT,
    null_space_projection,
    yd_factors,
)
from dynsys.types import IntArray
from experiments.featherstone2010.counts import (
    dense_counts,
    row_depths,
    sparse_counts,
    supports_of_rows,
)
from experiments.featherstone2010.runs import dense_run, mul_J, sparse_run, y_factor
from tests.recursive.trees import parents, random_inertia
from tests.strategies import seeds


@st.composite
def task_spaces(draw: st.DrawFn) -> tuple[IntArray, Supports]:
    """Draw a tree and groups of rows that depend on one or several of its nodes, or on none."""
    parent = draw(parents(max_size=10))
    node = st.integers(-1, len(parent) - 1)
    groups = draw(st.lists(st.lists(node, max_size=3), min_size=1, max_size=4))
    sizes = [draw(st.integers(1, 3)) for _ in groups]
    return parent, Supports.above(groups, sizes, parent)


@pytest.mark.slow
@given(space=task_spaces(), seed=seeds)
def test_products_and_factors_are_those_of_dense_matrices(
    space: tuple[IntArray, Supports], seed: int
) -> None:
    parent, supports = space
    rng, n, m = np.random.default_rng(seed), len(parent), supports.m
    mask = supports.mask(n)
    J, H = np.where(mask, rng.normal(size=(m, n)), 0.0), random_inertia(parent, rng)
    for x, y in ((rng.normal(size=n), rng.normal(size=m)), (np.eye(n), np.eye(m))):
        assert_allclose(mul_J(J, supports, x), J @ x, atol=1e-12)
        assert_allclose(mul_JT(J, supports, y), J.T @ y, atol=1e-12)
    exact = J @ np.linalg.solve(H, J.T)
    L = ltl(H, parent)
    Y = y_factor(J, L, supports, parent)
    assert_allclose(Y, J @ np.linalg.inv(L), atol=1e-11)
    assert_allclose(lambda_inverse(Y, Y, supports), exact, atol=1e-11)
    unit, diag = ltdl(H, parent)
    Yd, YD = yd_factors(J, unit, diag, supports, parent)
    assert_allclose(lambda_inverse(YD, Yd, supports), exact, atol=1e-11)
    for factor in (Y, Yd, YD):
        assert not factor[~mask].any()  # [OSI] section 6: the pattern of J
    Lambda = rng.normal(size=(m, m))
    wanted = np.linalg.solve(H, J.T @ Lambda)
    for left, factor, flag in ((Y, L, False), (YD, unit, True)):
        Jbar = inertia_weighted_inverse(left, factor, Lambda, supports, parent, unit=flag)
        assert_allclose(Jbar, wanted, atol=1e-10)
    N = null_space_projection(J, wanted, supports)
    assert_allclose(N, np.eye(n) - wanted @ J, atol=1e-10)


@given(space=task_spaces())
@settings(max_examples=15)
def test_sparse_formulas_are_what_is_executed(space: tuple[IntArray, Supports]) -> None:
    parent, supports = space
    formulas = sparse_counts(supports, parent)
    executed = sparse_run(supports, parent)
    assert {name: executed[name] for name in formulas} == formulas
    assert executed["Y LTL"] == formulas["Y"]


def test_dense_formulas_are_what_is_executed() -> None:
    for m, n in ((1, 1), (2, 5), (6, 3)):
        formulas = dense_counts(m, n)
        executed = dense_run(m, n)
        for name in executed.keys() - {"LTDL"}:
            assert executed[name] == formulas[name], name


@given(parent=parents(), seed=seeds)
def test_ancestor_is_the_last_common_node(parent: IntArray, seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = (int(k) for k in rng.integers(-1, len(parent), 2))
    ways = [set(Supports.above([[node]], [1], parent).nodes.tolist()) for node in (p, q)]
    assert ancestor(parent, p, q) == max(ways[0] & ways[1], default=-1)


def test_rows_of_equal_bodies_form_one_group() -> None:
    parent = np.array([-1, 0, 0, 1, 1, 2, 2])
    supports = supports_of_rows([3, 3, 6, -1], parent)
    assert supports.row.tolist() == [0, 2, 3, 4]
    assert row_depths(supports).tolist() == [3, 3, 3, 0]
    assert supports.mask(7).sum() == 9
