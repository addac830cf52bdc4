"""The estimator at many states: the factors of :mod:`problems.estimation.estimator`, stacked.

    minimise  |A z - a|^2   subject to   E z = e,      A (w, p) of unit noise, E (r, p) exact

Steps bear the numbers of that file. Ranks are taken only where they are certain: with C all
rows and columns of unit size (:mod:`dynsys.system.size`), singular values of C and of E, its
exact rows, are at least ``SEEN`` or at most ``UNSEEN``; the estimator's tolerance lies between.
All other states are left to it, and exact rows that do not fit.

Rows that are not there are zero, so states with different readings missing are one stack.
Cost: two of LAPACK's QR of the rows of each state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.linalg import qr
from scipy.linalg.lapack import dtrtri

from dynsys.system.size import ROUNDING
from dynsys.types import Array, BoolArray, IntArray

__all__ = ["ABSENT", "EXACT", "NOISY", "Minimisers", "clear_rounding", "minimise_many"]

ABSENT, NOISY, EXACT = 0, 1, 2
"""What a row is: not there, of unit noise, without noise."""
SEEN, UNSEEN = 1e-9, 1e-12
"""What is seen moves rows of unit size by this at least, what is unseen by that at most."""
FITS = 1e-11
"""Part of their terms that exact rows may miss by; to the estimator, a thousand times that."""


@final
@dataclass(frozen=True, eq=False)
class Minimisers:
    """What the rows of N states say of p unknowns.

    Attributes
    ----------
    certain : (N,) False where the estimator must be asked; all else is without meaning there.
    z : (N, p), a minimiser.
    scale : (N, p), natural unit of every unknown.
    basis : (N, p, p): deviations, then unseen directions, one in each row. The covariance of
        what is determined is that of the sum of deviations.
    free, unseen, dof : (N,), number of deviations, of unseen directions, degrees of freedom.
    chi_square : (N,).
    misfit, unexplained : (N, f), (N, f, m) where asked for: what no unknown explains of the
        noisy rows, in an orthonormal basis of such directions; zeros beyond ``dof``.
    """

    certain: BoolArray
    z: Array
    scale: Array
    basis: Array
    free: IntArray
    unseen: IntArray
    dof: IntArray
    chi_square: Array
    misfit: Array
    unexplained: Array


def clear_rounding(columns: Array, size: Array) -> None:
    """Zero entries of columns (N, p, m) that are rounding beside their usual size (p, m).

    A row with a larger entry than usual has larger sizes than usual.
    """
    part = np.abs(columns) / np.maximum(size, 1e-300)
    larger = np.maximum(part.max(axis=1, keepdims=True, initial=0.0), 1.0)
    columns[part <= ROUNDING * larger] = 0.0


def minimise_many(
    columns: Array,
    right: Array,
    kinds: IntArray,
    sizes: Array,
    right_size: Array,
    *,
    deviate: bool = True,
    explain: bool = False,
) -> Minimisers:
    """Solve N systems of m rows, some absent, in p unknowns.

    Parameters
    ----------
    columns : (N, p, m) rows side by side: column after column.
    right : (N, m) right sides a and e.
    kinds : (N, m) what each row is.
    sizes : (N, p, m) of the columns; (1, p, m) if the same at every state.
    right_size : (N, m) of the right sides.
    deviate, explain : whether deviations, and misfit and unexplained, are wanted.
    """
    n, p, m = columns.shape
    count, f = np.zeros((3, n), dtype=np.intp), m if explain else 0
    unit, scale = _units(sizes, kinds != ABSENT)
    found = Minimisers(
        np.zeros(n, dtype=bool),
        np.zeros((n, p)),
        scale,
        np.zeros((n, p, p)),
        count[0],
        count[1],
        count[2],
        np.full(n, np.nan),
        np.zeros((n, f)),
        np.zeros((n, f, m)),
    )
    B = np.swapaxes(columns, 1, 2) * scale[:, None]  # x = z / scale
    C = B * unit[:, :, None]  # rows and columns of unit size
    finite = np.isfinite(B + C).all(axis=(1, 2)) & np.isfinite(right).all(axis=1)
    exact = np.flatnonzero((kinds == EXACT).any(axis=0))
    noisy = np.flatnonzero((kinds == NOISY).any(axis=0))
    is_exact = kinds[:, exact] == EXACT
    E = np.where(is_exact[:, :, None], C[:, exact], 0.0)
    e = np.where(is_exact, right[:, exact] * unit[:, exact], 0.0)
    for some, null in _unseen(C, np.flatnonzero(finite)):  # 5
        k, no_rows = null.shape[1], np.zeros((len(some), null.shape[1]))
        held, to = np.hstack([E[some], null]), np.hstack([e[some], no_rows])
        for part, x, F in _held(held, to):  # 6
            at = some[part]
            is_noisy = kinds[at][:, noisy] == NOISY
            N = np.where(is_noisy[:, :, None], B[at[:, None], noisy], 0.0)
            a = np.where(is_noisy, right[at[:, None], noisy], 0.0) - _times(N, x)
            Q, R = np.linalg.qr(N @ F)  # 7
            w = F.shape[2]
            if R.shape[1] < w or not np.diagonal(R, axis1=1, axis2=2).all():
                continue  # in doubt after all
            Q_a = _times(np.swapaxes(Q, 1, 2), a)
            x = x + _times(F, np.linalg.solve(R, Q_a[:, :, None])[:, :, 0])
            residual = a - _times(Q, Q_a)
            found.z[at] = x * scale[at]
            if deviate:  # 9
                G = F @ np.linalg.inv(R)
                found.basis[at, :w] = np.swapaxes(G, 1, 2) * scale[at, None]
            found.basis[at, w : w + k] = null[part] * scale[at, None]
            found.free[at], found.unseen[at] = w, k
            found.dof[at] = is_noisy.sum(axis=1) - w
            found.chi_square[at] = np.einsum("nw,nw->n", residual, residual)
            found.certain[at] = True
            if explain:
                _explain(found, at, noisy, is_noisy, N @ F, a)
    fits = _misses(columns, right, found.z) <= FITS * _terms(sizes, right_size, found.z)
    found.certain[:] &= (fits | (kinds != EXACT)).all(axis=1)
    found.certain[:] &= np.isfinite(found.chi_square) & np.isfinite(found.z).all(axis=1)
    return found


def _units(sizes: Array, there: BoolArray) -> tuple[Array, Array]:
    """Factors (N, m) that bring rows to unit size, and then (N, p) columns."""
    norms = np.sqrt(np.einsum("npm,npm->nm", sizes, sizes))
    unit = np.where(there, 1.0 / np.where(norms > 0, norms, 1.0), 0.0)
    total = np.sqrt(np.einsum("npm,nm->np", sizes**2, unit**2))
    return unit, 1.0 / np.where(total > 0, total, 1.0)


def _times(A: Array, x: Array) -> Array:
    """Products of N matrices and N vectors."""
    return np.asarray((A @ x[:, :, None])[:, :, 0])


def _misses(columns: Array, right: Array, z: Array) -> Array:
    return np.abs(_times(np.swapaxes(columns, 1, 2), z) - right)


def _terms(sizes: Array, right_size: Array, z: Array) -> Array:
    return _times(np.swapaxes(sizes, 1, 2), np.abs(z)) + right_size


def _unseen(C: Array, some: IntArray) -> Iterator[tuple[IntArray, Array]]:
    """States alike in rank, and what their rows C (N, m, p) do not see: (states, k, p).

    Nearly always nothing: sigma_p(C) >= 1 / |R^-1| with C = Q R.
    """
    if not len(some):
        return
    p, R = C.shape[2], np.asarray(np.linalg.qr(C[some], mode="r"))
    is_full = np.full(len(some), R.shape[1] == p)
    if R.shape[1] == p:
        is_full &= np.abs(np.diagonal(R, axis1=1, axis2=2)).min(axis=1, initial=1.0) > SEEN
        is_full[is_full] = np.linalg.norm(np.linalg.inv(R[is_full]), axis=(1, 2)) <= 1 / SEEN
    yield some[is_full], np.zeros((int(is_full.sum()), 0, p))
    others = np.flatnonzero(~is_full)
    null = [_null_of(R[k]) for k in others.tolist()]
    ranks = np.array([-1 if of is None else p - len(of) for of in null])
    for rank in np.unique(ranks[ranks >= 0]).tolist():
        alike = np.flatnonzero(ranks == rank)
        yield some[others[alike]], np.array([null[k] for k in alike.tolist()])


def _null_of(C: Array) -> Array | None:
    """Orthonormal rows (k, p) that C does not see; None where its rank is in doubt.

    With C P = Q [R_1 R_2; 0 r], largest columns first:  null P = [-(R_1^-1 R_2)^T 1].
    """
    p = C.shape[1]
    R, order = qr(C, mode="r", pivoting=True, check_finite=False)
    diagonal = np.abs(np.diagonal(R))
    rank = int((diagonal > SEEN * max(diagonal[:1].max(initial=0.0), 1.0)).sum())
    R_1, inverse = R[:rank, :rank], np.zeros((0, 0))
    if rank:
        inverse, _ = dtrtri(R_1)
    if np.linalg.norm(inverse) * SEEN > 1 or np.linalg.norm(R[rank:, rank:]) > UNSEEN:
        return None
    null = np.zeros((p, p - rank))
    null[order] = np.vstack([-inverse @ R[:rank, rank:], np.eye(p - rank)])
    return np.asarray(np.linalg.qr(null)[0].T)


def _held(E: Array, e: Array) -> Iterator[tuple[IntArray, Array, Array]]:
    """States alike in the rank of E x = e, their x_E (states, p), and F (states, p, w)."""
    n, r, p = E.shape
    if not r:
        yield np.arange(n), np.zeros((n, p)), np.tile(np.eye(p), (n, 1, 1))
    elif n:
        U, s, V = np.linalg.svd(E)
        for rank, part in _ranks(s):
            along = _times(np.swapaxes(U[part][:, :, :rank], 1, 2), e[part]) / s[part, :rank]
            x = _times(np.swapaxes(V[part, :rank], 1, 2), along)
            yield part, x, np.swapaxes(V[part, rank:], 1, 2)


def _ranks(singular: Array) -> Iterator[tuple[int, IntArray]]:
    """Ranks that are certain, and the states that have each."""
    largest = np.maximum(singular[:, :1], 1.0)
    seen, doubtful = singular >= SEEN * largest, singular > UNSEEN * largest
    ranks = np.where((seen == doubtful).all(axis=1), seen.sum(axis=1), -1)
    for rank in np.unique(ranks[ranks >= 0]).tolist():
        yield rank, np.flatnonzero(ranks == rank)


def _explain(
    found: Minimisers, at: IntArray, noisy: IntArray, is_noisy: BoolArray, A: Array, a: Array
) -> None:
    """Fill in what no unknown explains: the rest of Q, rows that are not there last."""
    free, m = A.shape[2], found.unexplained.shape[2]
    order = np.argsort(~is_noisy, axis=1, kind="stable")
    A = np.take_along_axis(A, order[:, :, None], axis=1)
    rest = np.swapaxes(np.linalg.qr(A, mode="complete")[0], 1, 2)[:, free:]
    rest = rest * (np.arange(rest.shape[1]) < found.dof[at, None])[:, :, None]
    misfit = _times(rest, np.take_along_axis(a, order, axis=1))
    whole = np.zeros((len(at), rest.shape[1], m))
    np.put_along_axis(whole, noisy[order][:, None], rest, axis=2)
    found.misfit[at, : rest.shape[1]] = misfit
    found.unexplained[at, : rest.shape[1]] = whole
