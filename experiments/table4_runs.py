"""Components of the RJK recursion, each executed over counting scalars ([OSI] table 4)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dynsys.program.counting import OperationCount, Tally
from dynsys.types import Array, ScalarArray
from experiments import featherstone2010_counts as table
from experiments.axial_screws import (
    Screw,
    congruence,
    constant_angle,
    general_motion,
    mobility_forward,
    motion_forward,
)
from experiments.screw_robot import dot_tau, propagator, times_tau, without_joint

__all__ = ["component_runs"]

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
    yield "Omega_ii + (...)", 0, table.DIAGONAL_ADD, OperationCount(0, 1)
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
