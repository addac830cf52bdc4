"""LTL and LTDL against their definition, their pattern and dense solves."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose

import dynsys
from dynsys import (
    ModelError,
    SingularSystemError,
    StateError,
    ltdl,
    ltl,
    mul_L,
    mul_LT,
    solve_L,
    solve_LT,
    solve_ltdl,
    solve_ltl,
    synthetic,
)
from dynsys.distribution import say_slow
from dynsys.errors import SlowWarning
from dynsys.jit import Loop
from dynsys.model.expanded import expanded_parent
from dynsys.recursive.sparse_factors import (
    ltdl_in_situ,
    ltdl_scalars,
    ltl_scalars,
    solve,
    support_mask,
)
from dynsys.types import IntArray
from experiments.counting import Tally
from tests.recursive.trees import parents, random_factor, random_inertia
from tests.strategies import seeds


@given(parent=parents(), seed=seeds)
def test_factors_multiply_back_and_keep_the_pattern(parent: IntArray, seed: int) -> None:
    H = random_inertia(parent, np.random.default_rng(seed))
    L = ltl(H, parent)
    assert_allclose(L.T @ L, H, atol=1e-12)
    unit, diag = ltdl(H, parent)
    assert_allclose(unit.T @ np.diag(diag) @ unit, H, atol=1e-12)
    assert_allclose(np.diagonal(unit), 1.0)
    outside = ~support_mask(parent)
    assert not L[outside].any()
    assert not unit[outside].any()


@pytest.mark.slow
@given(parent=parents(), seed=seeds)
def test_products_and_solves_are_those_of_the_dense_matrix(parent: IntArray, seed: int) -> None:
    rng = np.random.default_rng(seed)
    L, n = random_factor(parent, rng), len(parent)
    unit = L.copy()
    np.fill_diagonal(unit, 1.0)
    for x in (rng.normal(size=n), rng.normal(size=(n, 3)), rng.normal(size=(n, 0))):
        for factor, flag in ((L, False), (unit, True)):
            before = x.copy()
            assert_allclose(mul_L(factor, parent, x, unit=flag), factor @ x, atol=1e-12)
            assert_allclose(mul_LT(factor, parent, x, unit=flag), factor.T @ x, atol=1e-12)
            back = solve_L(factor, parent, x, unit=flag)
            assert_allclose(factor @ back, x, atol=1e-12)
            back = solve_LT(factor, parent, x, unit=flag)
            assert_allclose(factor.T @ back, x, atol=1e-12)
            assert_allclose(x, before)


@given(parent=parents(), seed=seeds)
def test_solve_inverts_the_matrix(parent: IntArray, seed: int) -> None:
    rng = np.random.default_rng(seed)
    H, b = random_inertia(parent, rng), rng.normal(size=(len(parent), 2))
    assert_allclose(H @ solve(H, parent, b), b, atol=1e-11)
    assert_allclose(H @ solve_ltl(ltl(H, parent), parent, b[:, 0]), b[:, 0], atol=1e-11)
    assert_allclose(H @ solve_ltdl(*ltdl(H, parent), parent, b), b, atol=1e-11)


@given(parent=parents(max_size=6), seed=seeds)
def test_source_and_machine_code_are_one_algorithm(parent: IntArray, seed: int) -> None:
    H = random_inertia(parent, np.random.default_rng(seed))
    assert_allclose(ltl_scalars(H.astype(np.longdouble), parent).astype(float), ltl(H, parent))
    L, diag = ltdl_scalars(Tally().scalars(H), parent)
    unit, d = ltdl(H, parent)
    assert_allclose(L.astype(float), unit, atol=1e-12)
    assert_allclose(diag.astype(float), d)
    machine, source = H.copy(), H.copy()
    assert isinstance(ltdl_in_situ, Loop)
    ltdl_in_situ(machine, parent)
    ltdl_in_situ.source(source, parent)
    assert_allclose(np.tril(machine), np.tril(source), atol=1e-14)


def test_a_robot_is_factorised_by_its_expanded_parents() -> None:
    robot = synthetic.asimo()
    H = dynsys.recursive.crba(robot, robot.random_configuration(1))
    L, diag = ltdl(H, expanded_parent(robot))
    assert_allclose(L.T @ np.diag(diag) @ L, H, atol=1e-12)


def test_without_numba_the_source_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    say_slow.cache_clear()
    loop = Loop(ltdl_in_situ.source)
    H = np.array([[4.0, 2.0], [2.0, 5.0]])
    with pytest.warns(SlowWarning, match=r"pip install '.*\[fast\]'"):
        loop(H, np.array([-1, 0]))
    assert_allclose(np.tril(H), [[3.2, 0.0], [0.4, 5.0]])


def test_any_numbers_and_lists_are_taken() -> None:
    L = ltl([[4, 2], [2, 5]], [-1, 0])
    assert_allclose(L.T @ L, [[4, 2], [2, 5]])


@pytest.mark.parametrize("pivot", [0.0, -1.0])
def test_an_indefinite_matrix_is_named_by_its_row(pivot: float) -> None:
    H = np.diag([1.0, pivot, 1.0])
    for factorise in (ltl, ltdl):
        with pytest.raises(SingularSystemError, match="row 1"):
            factorise(H, [-1, 0, 0])


def test_a_matrix_of_another_tree_is_refused() -> None:
    H = np.eye(3)
    H[2, 1] = H[1, 2] = 0.1
    with pytest.raises(StateError, match=r"\(2, 1\)"):
        ltdl(H, [-1, 0, 0])
    assert ltdl(H, [-1, 0, 1])[1].shape == (3,)


@pytest.mark.parametrize(
    ("parent", "text"),
    [([-1, 1, 0], r"parent\[1\]"), ([-2, 0, 0], r"parent\[0\]"), ([-1, 0], "2 entries")],
)
def test_a_wrong_parent_array_is_refused(parent: list[int], text: str) -> None:
    with pytest.raises(ModelError, match=text):
        ltl(np.eye(3), parent)
    with pytest.raises(ModelError, match=text):
        mul_L(np.eye(3), parent, np.ones(3))


def test_wrong_shapes_and_values_are_refused() -> None:
    with pytest.raises(StateError, match="square"):
        ltl(np.ones((2, 3)), [-1, 0])
    with pytest.raises(StateError, match="not finite"):
        ltl([[1.0, 0.0], [np.nan, 1.0]], [-1, 0])
    with pytest.raises(StateError, match="3 rows"):
        solve_L(np.eye(3), [-1, 0, 1], np.ones(2))
    with pytest.raises(StateError, match="diag"):
        solve_ltdl(np.eye(2), np.ones(3), [-1, 0], np.ones(2))
    with pytest.raises(ModelError, match="whole numbers"):
        ltl(np.eye(2), [-1.0, 0.5])
