"""Dense constrained least squares by the null-space method: the obvious twin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import null_space

from dynsys import KinematicTree, LinearSystem
from dynsys.system.equations import EquationBlock
from dynsys.types import Array


@dataclass(frozen=True)
class Posterior:
    """Estimate d and its covariance; residual of every row."""

    d: Array
    covariance: Array
    residual: Array
    condition: float


def posterior(
    robot: KinematicTree,
    equations: Sequence[EquationBlock],
    R: Array,
    state: tuple[Array, Array, Array],
    present: Array | None = None,
) -> Posterior:
    """Laws and rows without noise exactly, the others by weighted least squares."""
    q, qd, y = state
    laws = LinearSystem(robot)
    A, b = laws.with_equations(equations).assemble(q, qd)
    n = laws.shape[0]
    D, b_D, Y, b_Y = A.toarray()[:n], b[:n], A.toarray()[n:], b[n:]
    used = np.ones(len(y), dtype=bool) if present is None else present
    exact = used & (np.diag(R) == 0)
    noisy = used & ~exact
    D, b_D = np.vstack([D, Y[exact]]), np.concatenate([b_D, (b_Y - y)[exact]])
    start = np.linalg.lstsq(D, -b_D, rcond=None)[0]
    free = null_space(D, rcond=1e-10)
    d, covariance, condition = start, np.zeros((len(start), len(start))), 1.0
    if free.shape[1]:
        whiten = np.linalg.inv(np.linalg.cholesky(R[np.ix_(noisy, noisy)]))
        J = whiten @ Y[noisy] @ free
        step = np.linalg.lstsq(J, whiten @ (y - b_Y - Y @ start)[noisy], rcond=None)[0]
        d = start + free @ step
        covariance = free @ np.linalg.inv(J.T @ J) @ free.T
        condition = float(np.linalg.cond(J))
    return Posterior(d, covariance, Y @ d + b_Y - y, condition)
