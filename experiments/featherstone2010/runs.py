"""Operations that the algorithms of [OSI] execute: section 8, sparse and dense; table 4."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dynsys.operational.methods.y_factor import lambda_inverse
from dynsys.operational.sparse_jacobian import (
    Supports,
    divide_rows,
    inertia_weighted_inverse,
    mul_JT,
    null_space_projection,
    yd_factors,
)
from dynsys.recursive.sparse_factors import as_columns, ltdl_in_situ, scalar_type, support_mask
from dynsys.types import Array, ArrayLike, IntArray, ScalarArray
from experiments.counting import OperationCount, Tally
from experiments.featherstone2005.axial_screws import (
    Screw,
    add,
    congruence,
    constant_angle,
    dot_tau,
    general_motion,
    mobility_forward,
    motion_forward,
    propagator,
    times_tau,
    without_joint,
)
from experiments.featherstone2010 import counts as table

__all__ = [
    "component_runs",
    "dense_run",
    "expanded_as_printed",
    "mul_J",
    "sparse_run",
    "y_factor",
]


def expanded_as_printed(
    parent: Sequence[int], freedoms: Sequence[int], b: Sequence[int]
) -> tuple[list[int], list[int]]:
    """lambda_e and b_e by the listing of [OSI] figure 4; everything counts from 1, base 0."""
    n, N = sum(freedoms), len(parent)
    lambda_e = [0, *range(n)]
    ends = [0] * (N + 1)
    for i in range(1, N + 1):
        ends[i] = ends[i - 1] + freedoms[i - 1]
    for i in range(1, N + 1):
        lambda_e[ends[i - 1] + 1] = ends[parent[i - 1]]
    return lambda_e[1:], [ends[i] for i in b]


def mul_J(J: ArrayLike, supports: Supports, x: ArrayLike) -> ScalarArray:
    """J x (m,) or (m, k): sum d_i m + (d_i - 1) a per column ([OSI] figure 5)."""
    matrix = np.asarray(J)
    columns, shape = as_columns(x, matrix.shape[1], "x")
    y = np.zeros((len(matrix), columns.shape[1]), dtype=scalar_type(matrix, columns))
    for group, rows in enumerate(pairwise(supports.row)):
        nodes = supports.nodes[supports.start[group] : supports.start[group + 1]]
        for i in range(*rows):
            terms = [matrix[i, k] * columns[k] for k in nodes]
            y[i] = sum(terms[1:], start=terms[0]) if terms else 0.0
    return y.reshape(len(matrix), *shape[1:])


def y_factor(J: ArrayLike, L: ArrayLike, supports: Supports, parent: IntArray) -> ScalarArray:
    """Y = J L^-1 (m, n) from the factor L of H = L^T L."""
    matrix, factor = np.asarray(J), np.asarray(L)
    kind = scalar_type(matrix, factor)
    Y = np.array(matrix, dtype=kind)
    divide_rows(Y, np.ascontiguousarray(factor, kind), parent, supports.arrays, False)
    return Y


def counted(run: Callable[..., Any], *values: ScalarArray) -> OperationCount:
    """Operations that ``run`` executes on counting copies of the arrays."""
    tally = Tally()
    run(*(tally.scalars(array) for array in values))
    return tally.count


def sparse_run(
    supports: Supports, parent: IntArray, seed: int = 0
) -> dict[str, OperationCount]:
    """Operations executed on random matrices of the given pattern, by the names of table 1."""
    rng, n, m = np.random.default_rng(seed), len(parent), supports.m
    L = np.where(support_mask(parent), rng.uniform(0.1, 0.3, (n, n)), 0.0) + np.eye(n)
    J = np.where(supports.mask(n), rng.normal(size=(m, n)), 0.0)
    diag, Lambda = rng.uniform(1, 2, n), rng.normal(size=(m, m))
    Jbar = rng.normal(size=(n, m))

    def inverse(unit: bool) -> Callable[..., Any]:
        return lambda Y, F, A: inertia_weighted_inverse(Y, F, A, supports, parent, unit=unit)

    unsupported = int((~supports.mask(n).any(axis=0)).sum())
    on_plain_zeros = OperationCount(0, unsupported)  # 1 + 0 in N, which no tally sees
    return {
        "LTDL": counted(lambda H: ltdl_in_situ(H, parent), L.T @ L),
        "J x": counted(lambda A, x: mul_J(A, supports, x), J, np.ones(n)),
        "J^T x": counted(lambda A, x: mul_JT(A, supports, x), J, np.ones(m)),
        "Y": counted(lambda A, F, d: yd_factors(A, F, d, supports, parent), J, L, diag),
        "Y LTL": counted(lambda A, F: y_factor(A, F, supports, parent), J, L),
        "Lambda^-1": counted(lambda A, B: lambda_inverse(A, B, supports), J, J),
        "Jbar LTL": counted(inverse(False), J, L, Lambda),
        "Jbar LTDL": counted(inverse(True), J, L, Lambda),
        "N": on_plain_zeros
        + counted(lambda A, B: null_space_projection(A, B, supports), J, Jbar),
    }


def dense_run(m: int, n: int, seed: int = 0) -> dict[str, OperationCount]:
    """Operations executed by standard matrix arithmetic on full matrices."""
    rng = np.random.default_rng(seed)
    chain = np.arange(-1, n - 1)
    everything = table.supports_of_rows(np.full(m, n - 1), chain)
    L = np.tril(rng.uniform(0.1, 0.3, (n, n))) + np.eye(n)
    J, Lambda, Jbar = (rng.normal(size=shape) for shape in ((m, n), (m, m), (n, m)))

    def jbar(Y: ScalarArray, F: ScalarArray, A: ScalarArray) -> None:
        x = np.dot(Y.T, A)
        for i in range(n):
            for j in range(i):
                x[i] = x[i] - F[i, j] * x[j]

    def null_space(A: ScalarArray, B: ScalarArray) -> None:
        N = -np.dot(B, A)
        for k in range(n):
            N[k, k] = 1 + N[k, k]

    dense = sparse_run(everything, chain, seed)
    return {
        "LTDL": dense["LTDL"],
        "J x": counted(np.dot, J, np.ones(n)),
        "J^T x": counted(lambda A, x: np.dot(A.T, x), J, np.ones(m)),
        "Y": dense["Y"],
        "Lambda^-1": dense["Lambda^-1"],
        "Jbar LTDL": counted(jbar, J, L, Lambda),
        "N": counted(null_space, J, Jbar),
    }


# ---- components of the RJK recursion, each executed over counting scalars ([OSI] table 4) ----

JOINT = Screw(2, constant_angle(0.3), 0.2)
LINK = Screw(0, constant_angle(-0.7), 0.4)
THIRD = Screw(2, constant_angle(1.1), 0.1)
SCREWS = {2: (LINK, JOINT), 3: (THIRD, LINK, JOINT)}


def component_runs() -> Iterator[tuple[str, int, OperationCount, OperationCount]]:
    """Name, number of screws (0: none), count of the paper, count executed."""
    yield "D^-1", 0, table.INVERSE, _inverse()
    yield "tau", 0, table.TAU, _tau()
    yield "tau P", 0, table.TAU_P, _tau_P()
    for n, screws in SCREWS.items():
        yield "phi (...) phi^T", n, table.INERTIA[n], _inertia(screws)
    yield "P_parent + (...)", 0, table.ADD_INERTIA, _add()
    for n, screws in SCREWS.items():
        yield "phi^T Omega phi", n, table.DIAGONAL_SHIFT[n], _diagonal(screws)
    yield "tau^T (...) tau", 0, table.DIAGONAL_TAU, _diagonal_tau()
    yield "Omega_ii + (...)", 0, table.DIAGONAL_ADD, _diagonal_add()
    for n in SCREWS:
        yield "Omega phi", n, table.ROW_SHIFT[n], _rows(n)
    yield "(...) tau", 0, table.ROW_TAU, _row_tau()


def _symmetric() -> Array:
    A = np.random.default_rng(0).normal(size=(6, 6))
    return np.asarray(A @ A.T + np.eye(6))


def _start() -> tuple[Tally, ScalarArray]:
    tally = Tally()
    return tally, tally.scalars(_symmetric())


def _inverse() -> OperationCount:
    tally, P = _start()
    1 / P[2, 2]
    return tally.count


def _tau() -> OperationCount:
    tally, P = _start()
    propagator(P, tally.scalars([0.5])[0])
    return tally.count


def _tau_P() -> OperationCount:
    tally, P = _start()
    without_joint(P, tally.scalars(np.ones(6)))
    return tally.count


def _inertia(screws: tuple[Screw, ...]) -> OperationCount:
    tally, P = _start()
    P[2, :] = P[:, 2] = 0
    for screw in reversed(screws):
        P = congruence(P, screw)
    return tally.count


def _add() -> OperationCount:
    tally, P = _start()
    lower = np.tril_indices(6)
    P[lower] + P[lower]
    return tally.count


def _diagonal(screws: tuple[Screw, ...]) -> OperationCount:
    tally, omega = _start()
    for screw in screws:
        omega = mobility_forward(omega, screw)
    return tally.count


def _diagonal_tau() -> OperationCount:
    tally, omega = _start()
    tau = tally.scalars(np.ones(6))
    dot_tau(tau, times_tau(omega, tau))
    return tally.count


def _diagonal_add() -> OperationCount:
    tally, omega = _start()
    joint = np.zeros((6, 6), dtype=object)  # S D^-1 S^T, its zeros known
    joint[2, 2] = tally.scalars([1.0])[0]
    for element, more in zip(omega.flat, joint.flat, strict=True):
        add(element, more)
    return tally.count


def _rows(n: int) -> OperationCount:
    tally, omega = _start()
    for vector in omega:
        if n == 3:
            general_motion(vector, np.eye(3), np.ones(3))
        else:
            for screw in SCREWS[n]:
                vector = motion_forward(vector, screw)
    return tally.count


def _row_tau() -> OperationCount:
    tally, omega = _start()
    times_tau(omega, tally.scalars(np.ones(6)))
    return tally.count
