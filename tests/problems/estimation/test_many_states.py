"""Stacked states and the estimator decide and answer alike, whatever the rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array

from dynsys.system.size import CONTRADICTION
from dynsys.types import Array, BoolArray
from problems.estimation.estimator import Minimiser, minimise
from problems.estimation.many_states import (
    ABSENT,
    EXACT,
    NOISY,
    clear_rounding,
    minimise_many,
)
from problems.measured.reduced import ReducedSystem, whiten
from tests.strategies import seeds


@dataclass(frozen=True)
class Rows:
    B: Array
    c: Array
    std: Array
    present: BoolArray


@dataclass(frozen=True)
class Answer:
    certain: bool
    z: Array
    deviations: Array
    unseen: Array
    dof: int
    chi_square: float
    residual: Array
    unexplained: Array


def stacked(*states: Rows) -> list[Answer]:
    """Several states of as many rows and unknowns, solved at once."""
    std = np.array([r.std for r in states])
    exact, present = std == 0, np.array([r.present for r in states])
    weight = 1 / np.where(exact, 1.0, std)
    kinds = np.where(present, np.where(exact, EXACT, NOISY), ABSENT).astype(np.int64)
    B, c = np.array([r.B for r in states]), np.array([r.c for r in states])
    columns = np.ascontiguousarray((B * weight[:, :, None]).transpose(0, 2, 1))
    right = np.where(present, c, 0.0) * weight
    many = minimise_many(
        columns, right, kinds, np.abs(columns), np.abs(right) + 1.0, explain=True
    )
    return [
        Answer(
            bool(many.certain[k]),
            many.z[k],
            many.basis[k, : many.free[k]].T,
            many.basis[k, many.free[k] : many.free[k] + many.unseen[k]].T,
            int(many.dof[k]),
            float(many.chi_square[k]),
            many.misfit[k] @ many.unexplained[k],
            many.unexplained[k, : many.dof[k]],
        )
        for k in range(len(states))
    ]


def one(B: Array, c: Array, std: Array, present: BoolArray) -> Answer:
    return stacked(Rows(B, c, std, present))[0]


def by_the_estimator(B: Array, c: Array, std: Array, present: BoolArray) -> Minimiser:
    whitened = whiten(csc_array(np.diag(std**2)), present)
    c, size = np.where(present, c, 0.0), np.abs(B)
    rows = ReducedSystem(cast("Any", None), B, size, B, c, size, np.abs(c) + 1.0)
    return minimise(rows, whitened)


@st.composite
def rows(draw: st.DrawFn) -> Rows:
    """Sparse rows of any rank, exact ones that agree, noise of many sizes, some missing."""
    rng = np.random.default_rng(draw(seeds))
    p, m = draw(st.integers(1, 9)), draw(st.integers(1, 16))
    rank = draw(st.integers(0, min(p, m)))
    n_exact = draw(st.integers(0, m))
    B = rng.normal(size=(m, rank)) @ rng.normal(size=(rank, p))
    if draw(st.booleans()):  # rows with few entries
        B = rng.integers(-1, 2, size=(m, p)) * (rng.uniform(size=(m, p)) < 0.4) * 1.0
    B *= 10.0 ** rng.uniform(-3, 3, size=p)
    B *= 10.0 ** rng.uniform(-2, 2, size=(m, 1))
    std = 10.0 ** rng.uniform(-2, 2, size=m)
    std[:n_exact] = 0.0
    z = rng.normal(size=p) / np.maximum(np.linalg.norm(B, axis=0), 1e-3)
    c = B @ z + std * rng.normal(size=m)
    return Rows(B, c, std, rng.uniform(size=m) < draw(st.sampled_from([1.0, 0.7, 0.3])))


@settings(max_examples=300, deadline=None)
@given(rows())
def test_stacks_agree_with_the_estimator(r: Rows) -> None:
    fast = one(r.B, r.c, r.std, r.present)
    slow = by_the_estimator(r.B, r.c, r.std, r.present)
    if not fast.certain:  # rare: the estimator answers
        singular = slow.rank.singular
        near = (singular < 1e-6) & (singular > 0)
        assert near.any() or slow.violation.max(initial=0.0) > 1e-12 or slow.rank.nullity
        return
    assert slow.violation.max(initial=0.0) <= CONTRADICTION
    assert fast.unseen.shape[1] == slow.rank.nullity
    assert fast.dof == len(slow.residual) - slow.explained.shape[1]
    # any combination of rows is determined: what the rows see of z
    seen = r.B[r.present]
    moved = seen @ fast.unseen
    reach = np.linalg.norm(seen * slow.rank.scale, axis=1, keepdims=True)
    assert (np.abs(moved) <= 1e-9 * reach).all()
    scale = 1e-7 * (np.abs(seen) @ np.abs(slow.x) + np.abs(r.c[r.present]) + 1e-300)
    assert (np.abs(seen @ (fast.z - slow.x)) <= scale).all()
    unit = seen / np.where(reach > 0, reach, 1.0)
    known, found = unit @ slow.deviation, unit @ fast.deviations
    largest = float(np.linalg.norm(known)) ** 2
    np.testing.assert_allclose(found @ found.T, known @ known.T, atol=1e-6 * largest + 1e-300)
    expected = slow.residual @ slow.residual
    assert fast.chi_square == pytest.approx(expected, rel=1e-6, abs=1e-9 * (1 + fast.dof))
    noisy = r.present & (r.std > 0)
    np.testing.assert_allclose(fast.residual[noisy], slow.residual, atol=1e-6)
    projector = fast.unexplained[:, noisy].T @ fast.unexplained[:, noisy]
    rest = np.eye(int(noisy.sum())) - slow.explained @ slow.explained.T
    np.testing.assert_allclose(projector, rest, atol=1e-7)


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_most_states_are_beyond_doubt(seed: int) -> None:
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(20, 8))
    B[:, 7] = B[:, 0]  # one direction unseen
    std = np.where(np.arange(20) < 3, 0.0, 0.1)
    c = B @ rng.normal(size=8) + std * rng.normal(size=20)
    fast = one(B, c, std, np.ones(20, dtype=bool))
    assert fast.certain and fast.unseen.shape[1] == 1 and fast.dof == 17 - 4


def test_what_is_in_doubt_is_left_to_the_estimator() -> None:
    rng = np.random.default_rng(0)
    B = rng.normal(size=(12, 4))
    std, there = np.full(12, 0.1), np.ones(12, dtype=bool)
    certain = []
    for part in 10.0 ** np.arange(-14.0, -5.0, 0.25):  # the estimator's tolerance lies within
        C = B.copy()
        C[:, 3] = B[:, :3] @ [1.0, 2.0, 3.0] + part * B[:, 3]
        fast = one(C, B[:, 0], std, there)
        slow = by_the_estimator(C, B[:, 0], std, there)
        certain.append(fast.certain)
        assert not fast.certain or fast.unseen.shape[1] == slow.rank.nullity
    assert certain[0] and certain[-1] and 6 <= certain.count(False) <= 13


def test_exact_rows_that_contradict_are_left_to_the_estimator() -> None:
    B = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    std, there = np.array([0.0, 0.0, 0.1]), np.ones(3, dtype=bool)
    assert one(B, np.array([2.0, 2.0, 1.0]), std, there).certain
    assert not one(B, np.array([2.0, 2.0 + 1e-6, 1.0]), std, there).certain
    mute = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert not one(mute, np.array([2.0, 2.0, 1.0]), std, there).certain


def test_numbers_that_are_none_are_in_doubt() -> None:
    B, std, there = np.eye(3), np.full(3, 0.1), np.ones(3, dtype=bool)
    assert not one(B, np.array([1.0, np.nan, 2.0]), std, there).certain
    B[1, 1] = np.nan
    assert not one(B, np.ones(3), std, there).certain


def test_rounding_is_cleared_beside_its_usual_size_or_a_larger_one() -> None:
    columns = np.array([[[1.0, 1e-16, 3e-14], [1e-14, 2e-16, 1e-3]]])
    size = np.array([[1e-3, 1.0, 1e-14], [1e-3, 1.0, 1e-3]])
    clear_rounding(columns, size)
    np.testing.assert_array_equal(columns[0], [[1.0, 0.0, 3e-14], [0.0, 0.0, 1e-3]])


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_a_state_does_not_depend_on_those_beside_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    std = np.where(np.arange(14) < 4, 0.0, 0.1)
    states = []
    for nullity in (0, 2, 0, 1, 0):
        B = rng.normal(size=(14, 6 - nullity)) @ rng.normal(size=(6 - nullity, 6))
        c = B @ rng.normal(size=6) + std * rng.normal(size=14)
        states.append(Rows(B, c, std, rng.uniform(size=14) < 0.8))
    for of_many, state in zip(stacked(*states), states, strict=True):
        alone = stacked(state)[0]
        assert of_many.certain == alone.certain and of_many.dof == alone.dof
        np.testing.assert_allclose(of_many.z, alone.z, rtol=1e-7, atol=1e-9)
