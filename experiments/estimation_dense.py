"""Dense constrained least squares by the null-space method: the obvious twin of an estimator.

    minimise |W (Y d + b - y)|   subject to   E d + e = 0,   E: laws and rows without noise

    d = d_0 + Z x,   E d_0 = -e,   E Z = 0;   covariance of d:  Z ((WYZ)^T WYZ)^-1 Z^T

Nothing of the estimator's own algebra is used but the assembled equations.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr, solve_triangular

from dynsys.types import Array
from problems import Estimation

__all__ = ["dense_posterior"]


def dense_posterior(problem: Estimation, q: Array, qd: Array, y: Array) -> tuple[Array, Array]:
    """Unknowns d (n,) and a factor F (n, k) of their covariance F F^T."""
    A, b = problem.system.assemble(q, qd)
    rows, n_laws = A.toarray(), problem.measured.laws.shape[0]
    b = b.copy()
    b[n_laws:] -= y
    noisy = np.concatenate([np.zeros(n_laws, bool), ~problem.layout.exact])
    start, free = _constrained(rows[~noisy], b[~noisy])
    R = problem.layout.covariance().toarray()[np.ix_(noisy[n_laws:], noisy[n_laws:])]
    root = np.linalg.cholesky(R)
    J = solve_triangular(root, rows[noisy] @ free, lower=True)
    misfit = solve_triangular(root, rows[noisy] @ start + b[noisy], lower=True)
    Q, T = np.linalg.qr(J)
    d = start - free @ solve_triangular(T, Q.T @ misfit)
    return d, np.asarray(solve_triangular(T, free.T, trans="T").T)


def _constrained(E: Array, e: Array) -> tuple[Array, Array]:
    """A solution of E d + e = 0, and an orthonormal basis of all d with E d = 0."""
    scale = 1.0 / np.linalg.norm(E, axis=1)
    Q, T = qr((scale[:, None] * E).T)
    m = len(E)
    start = -Q[:, :m] @ solve_triangular(T[:m], scale * e, trans="T")
    start -= Q[:, :m] @ solve_triangular(T[:m], scale * (E @ start + e), trans="T")
    return start, np.asarray(Q[:, m:])
