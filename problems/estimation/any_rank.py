"""Least squares of any rank at many states: orthogonal factors whose rank is certain, as loops.

    minimise  |A z - a|^2   subject to   E z = e,      A (w, p) of unit noise, E (r, p) exact

The twin of :meth:`problems.measured.reduced.ReducedSystem.solve`, which decides ranks by
singular values below a tolerance. Here ranks come from two factorisations with column pivoting
(Bjorck and Golub 1967: exact rows first, what they fix substituted into the others), and are
taken only where they are certain, as they nearly always are. With C all rows and columns of
unit size (:mod:`dynsys.system.size`), that is

    sigma_r(C) >= SEEN        from the inverses of triangular factors
    sigma_(r+1)(C) <= UNSEEN  from C times the directions found to be unseen

Everything else, exact rows that do not fit among it, is left to the twin: ``DOUBTFUL``.

Cost about 2 w p^2 operations a state; no Python between states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numpy as np

from dynsys.jit import Loop
from dynsys.types import Array, IntArray

__all__ = ["ABSENT", "CERTAIN", "DOUBTFUL", "EXACT", "NOISY", "clear_rounding", "solve_rows"]

P = ParamSpec("P")
R = TypeVar("R")

ABSENT, NOISY, EXACT = 0, 1, 2
"""What a row is: not there, of unit noise, without noise."""
CERTAIN, DOUBTFUL = 0, 1
"""Whether a state is answered."""

SEEN, UNSEEN = 1e-9, 1e-12
"""What is seen moves rows of unit size by this at least, what is unseen by that at most; the
twin's tolerance lies between."""
STOP, ROUNDED = 1e-11, 1e-14
"""Columns this small beside rows of unit size, or beside the noisiest, are left unfactored."""
FITS = 1e-11
"""Part of their terms that exact rows may miss by; the twin allows a thousand times that."""
WIDE = 16
"""Rows that machine code takes at a time."""
CANCELLED = 1.5e-8
"""Part of a squared column norm below which it is computed afresh, as in LAPACK's dgeqp3."""


def summed(source: Callable[P, R]) -> Loop[P, R]:
    """Make a loop whose sums may be taken in any order, many terms at a time."""
    return Loop(source, fastmath={"contract", "reassoc"})


@summed
def clear_rounding(columns: Array, size: Array, part: float) -> None:
    """Zero entries of columns (N, p, m) below a part of their usual size (p, m).

    A row with a larger entry than usual has larger sizes than usual.
    """
    n_states, p, m = columns.shape
    limit = np.empty(m)
    for n in range(n_states):
        for i in range(m):
            limit[i] = 1.0
        for j in range(p):
            for i in range(m):
                limit[i] = max(limit[i], abs(columns[n, j, i]) / max(size[j, i], 1e-300))
        for j in range(p):
            for i in range(m):
                if abs(columns[n, j, i]) <= part * limit[i] * size[j, i]:
                    columns[n, j, i] = 0.0


@summed
def solve_rows(
    columns: Array,
    right: Array,
    kinds: IntArray,
    sizes: Array,
    right_size: Array,
    z: Array,
    scale: Array,
    basis: Array,
    counts: IntArray,
    chi_square: Array,
    misfit: Array,
    unexplained: Array,
) -> None:
    """Solve N systems of m rows, some absent, in p unknowns.

    Parameters
    ----------
    columns : (N, p, m) rows side by side: column after column.
    right : (N, m) right sides a and e.
    kinds : (N, m) what each row is.
    sizes : (N, p, m) of the columns; (1, p, m) if the same at every state.
    right_size : (N, m) of the right sides.
    z : (N, p), written: a minimiser.
    scale : (N, p), written: natural unit of every unknown.
    basis : (N, p, p), written: deviations, then unseen directions, one in each row. The
        covariance of what is determined is that of the sum of deviations.
    counts : (N, 4), written: ``CERTAIN`` or ``DOUBTFUL``, number of deviations, of unseen
        directions, degrees of freedom.
    chi_square : (N,), written.
    misfit, unexplained : (N, m) and (N, m, m), written unless empty: what no unknown explains
        of the noisy rows, in an orthonormal basis of such directions, one in each row; zeros
        beyond the degrees of freedom.
    """
    explains = len(misfit) > 0
    for n in range(len(columns)):
        at = n if explains else 0
        sizes_at = n if len(sizes) > 1 else 0
        counts[n, 0] = DOUBTFUL
        counts[n, 1] = counts[n, 2] = counts[n, 3] = 0
        solve_one(
            columns[n],
            right[n],
            kinds[n],
            sizes[sizes_at],
            right_size[n],
            z[n],
            scale[n],
            basis[n],
            counts[n],
            chi_square[n : n + 1],
            misfit[at : at + 1],
            unexplained[at : at + 1],
        )


@summed
def solve_one(
    columns: Array,
    right: Array,
    kinds: IntArray,
    sizes: Array,
    right_size: Array,
    z: Array,
    scale: Array,
    basis: Array,
    counts: IntArray,
    chi_square: Array,
    misfit: Array,
    unexplained: Array,
) -> None:
    """Solve one of them; it is in doubt unless the last line is reached."""
    p, m = columns.shape
    width = max((m + WIDE - 1) // WIDE * WIDE, p + 1)
    exact, noisy = np.empty((p + 1, width)), np.empty((p + 1, width))
    reduced, whole = np.empty((p + 1, width)), np.zeros((p + 1, width))
    order_of_all, tau_of_all, v = np.empty(p, dtype=np.int64), np.empty(p), np.empty(width)
    order, late = np.empty(p, dtype=np.int64), np.empty(p, dtype=np.int64)
    tau, norms, first = np.empty(p), np.empty(p), np.empty(p)
    of_noisy, of_exact = np.empty(m, dtype=np.int64), np.empty(m, dtype=np.int64)
    row_norm, x, place = np.empty(m), np.empty(p + 1), np.empty(p, dtype=np.int64)
    # ---- rows that are there; natural units: unit rows have unit columns, by their sizes
    for i in range(m):
        row_norm[i] = 0.0
    for j in range(p):
        for i in range(m):
            row_norm[i] += sizes[j, i] * sizes[j, i]
    n_exact, n_noisy, largest = number(kinds, EXACT), number(kinds, NOISY), 0.0
    for i in range(m):
        row_norm[i] = np.sqrt(row_norm[i])
        if kinds[i] == NOISY:
            largest = max(largest, row_norm[i])
        inverse = 1.0 / row_norm[i] if row_norm[i] > 0.0 else 1.0
        row_norm[i] = inverse if kinds[i] != ABSENT else 0.0
    for j in range(p):
        total = 0.0
        for i in range(m):
            unit = sizes[j, i] * row_norm[i]
            total += unit * unit
        scale[j] = 1.0 / np.sqrt(total) if total > 0.0 else 1.0
    a, e = 0, 0
    for i in range(m):
        if kinds[i] == NOISY:
            noisy[p, a], of_noisy[a] = right[i], i
            a += 1
        elif kinds[i] == EXACT:
            exact[p, e], of_exact[e] = right[i] * row_norm[i], i
            e += 1
    for j in range(p):
        unit = scale[j]
        for i in range(n_noisy):
            noisy[j, i] = columns[j, of_noisy[i]] * unit
        for i in range(n_exact):
            exact[j, i] = columns[j, of_exact[i]] * unit * row_norm[of_exact[i]]
    # ---- what exact rows fix: E = Q [R1 R2], z1 = x - X z2 with X = R1^-1 R2
    for j in range(p):
        order[j] = j
    fixed = factor(exact, tau, order, norms, first, v, p, n_exact, STOP)
    rest = 0.0
    for j in range(fixed, p):
        for i in range(fixed, n_exact):
            rest += exact[j, i] * exact[j, i]
    if not rest <= UNSEEN * UNSEEN:
        return
    inverse_1 = inverse_norm(exact, fixed, x)
    for j in range(fixed, p + 1):
        solve_upper(exact, fixed, exact[j])
    spread = 0.0
    for j in range(fixed, p):
        for i in range(fixed):
            spread += exact[j, i] * exact[j, i]
    heavy = 0.0
    for j in range(fixed):
        for i in range(n_noisy):
            heavy += noisy[order[j], i] * noisy[order[j], i]
    # ---- what is left for the noisy rows
    left = p - fixed
    for j in range(left + 1):
        source = order[fixed + j] if j < left else p
        for i in range(n_noisy):
            reduced[j, i] = noisy[source, i]
        for k in range(fixed):
            factor_k = exact[fixed + j, k]
            if factor_k != 0.0:
                for i in range(n_noisy):
                    reduced[j, i] -= factor_k * noisy[order[k], i]
    for j in range(left):
        late[j] = order[fixed + j]
    least = ROUNDED * largest
    steps = factor(reduced, tau, late, norms, first, v, left, n_noisy, least)
    free = steps
    while free > 0 and abs(reduced[free - 1, free - 1]) < STOP * largest:
        free -= 1
    for j in range(left):  # X in the order of the second factors
        place[late[j]] = j
    for j in range(left):
        for i in range(fixed):
            noisy[i, place[order[fixed + j]]] = exact[fixed + j, i]
    # ---- deviations: columns of the inverse of the second factor; is the rank certain?
    total = 0.0
    for k in range(free):
        for j in range(k):
            x[j] = 0.0
        x[k] = 1.0
        solve_upper(reduced, k + 1, x)
        for j in range(k + 1):
            total += x[j] * x[j]
        spread_out(x, k + 1, noisy, fixed, order, late, scale, basis[k])
    reach_2 = np.sqrt(total) * (largest + np.sqrt(heavy) * inverse_1)
    reach_1 = inverse_1 + np.sqrt(spread) * reach_2
    certain = np.hypot(reach_1, reach_2) * SEEN <= 1.0
    for k in range(free, left if certain else free):
        for j in range(k):
            x[j] = -reduced[k, j] if j < free else 0.0
        solve_upper(reduced, free, x)
        x[k] = 1.0
        spread_out(x, k + 1, noisy, fixed, order, late, scale, basis[k])
    if not (certain and are_unseen(columns, row_norm, basis, free, left, scale)):
        # rows of unit size say more: noise does not matter
        for j in range(p):
            order_of_all[j] = j
            for i in range(n_exact):
                unit = columns[j, of_exact[i]] * row_norm[of_exact[i]]
                whole[j, i] = unit * scale[j]
            for i in range(n_noisy):
                unit = columns[j, of_noisy[i]] * row_norm[of_noisy[i]]
                whole[j, n_exact + i] = unit * scale[j]
        rows = n_exact + n_noisy
        rank = factor(whole, tau_of_all, order_of_all, norms, first, v, p, rows, STOP)
        inverse = max(inverse_norm(whole, rank, x), inverse_1)
        known, free = free, rank - fixed
        if free > known or not inverse * SEEN <= 1.0:
            return
        for k in range(free, left):
            column = fixed + k
            for i in range(rank):
                x[i] = -whole[column, i]
            solve_upper(whole, rank, x)
            for j in range(p):
                basis[k, j] = 0.0
            for j in range(rank):
                basis[k, order_of_all[j]] = x[j] * scale[order_of_all[j]]
            basis[k, order_of_all[column]] = scale[order_of_all[column]]
        if not are_unseen(columns, row_norm, basis, free, left, scale):
            return
    # ---- minimiser
    total = 0.0
    for i in range(free, n_noisy):
        total += reduced[left, i] * reduced[left, i]
    chi_square[0] = total
    for i in range(free):
        x[i] = reduced[left, i]
    solve_upper(reduced, free, x)
    for j in range(p):
        z[j] = 0.0
    for j in range(free):
        z[late[j]] = x[j]
    for i in range(fixed):
        z[order[i]] = exact[p, i]
        for j in range(free):
            z[order[i]] -= noisy[i, j] * x[j]
    for j in range(p):
        z[j] *= scale[j]
    # ---- do the exact rows fit?
    fits = True
    for i in range(m):
        if kinds[i] == EXACT:
            miss, terms = -right[i], right_size[i]
            for j in range(p):
                miss += columns[j, i] * z[j]
                terms += sizes[j, i] * abs(z[j])
            fits = fits and abs(miss) <= FITS * terms
    for j in range(p):
        fits = fits and np.isfinite(z[j])
    if not (fits and np.isfinite(total)):
        return
    if len(misfit) > 0:
        for d in range(m):
            misfit[0, d] = reduced[left, free + d] if d < n_noisy - free else 0.0
        explain(reduced, tau, steps, free, n_noisy, kinds, unexplained[0])
    counts[0], counts[1] = CERTAIN, free
    counts[2], counts[3] = left - free, n_noisy - free


@summed
def number(kinds: IntArray, kind: int) -> int:
    """Count the rows of a kind: for numba a plain integer, no constant to compile anew for."""
    total = 0
    for i in range(len(kinds)):
        total += kinds[i] == kind
    return total


@summed
def factor(
    F: Array,
    tau: Array,
    order: IntArray,
    norms: Array,
    first: Array,
    v: Array,
    n: int,
    rows: int,
    least: float,
) -> int:
    """Factor n columns F[:n] of so many rows in place, largest first; the one behind follows.

    Householder's reflectors with column pivoting; returns the number of columns larger than
    ``least`` that there were. R is above the diagonal, reflectors below. Rows are padded with
    zeros to a multiple of ``WIDE``, so that no loop has a rest to do number by number.
    """
    stop = (rows + WIDE - 1) // WIDE * WIDE
    for i in range(rows, stop):
        v[i] = 0.0
        for j in range(n + 1):
            F[j, i] = 0.0
    for j in range(n):
        total = 0.0
        for i in range(rows):
            total += F[j, i] * F[j, i]
        norms[j] = first[j] = total
    for k in range(min(n, rows)):
        best = k
        for j in range(k + 1, n):
            if norms[j] > norms[best]:
                best = j
        if not norms[best] > least * least:
            return k
        if best != k:
            order[k], order[best] = order[best], order[k]
            norms[best], first[best] = norms[k], first[k]
            for i in range(rows):
                kept = F[k, i]
                F[k, i] = F[best, i]
                F[best, i] = kept
        head, below = F[k, k], 0.0
        for i in range(k + 1, rows):
            below += F[k, i] * F[k, i]
        tau[k] = 0.0
        if below > 0.0:
            size = np.sqrt(head * head + below)
            F[k, k] = -size if head > 0.0 else size
            tau[k] = (F[k, k] - head) / F[k, k]
            inverse = 1.0 / (head - F[k, k])
            start = k // WIDE * WIDE
            for i in range(start, k):
                v[i] = 0.0
            v[k] = 1.0
            for i in range(k + 1, rows):
                F[k, i] *= inverse
                v[i] = F[k, i]
            for j in range(k + 1, n - 2, 4):
                reflect_four(F, j, v[start:stop], start, tau[k])
            for j in range(n + 1 - (n - k) % 4, n + 1):
                reflect(F, j, v[start:stop], start, tau[k])
        for j in range(k + 1, n):
            norms[j] -= F[j, k] * F[j, k]
            if norms[j] <= CANCELLED * first[j]:
                total = 0.0
                for i in range(k + 1, rows):
                    total += F[j, i] * F[j, i]
                norms[j] = first[j] = total
    return min(n, rows)


@summed
def reflect_four(F: Array, j: int, v: Array, start: int, tau: float) -> None:
    """Apply 1 - tau v v^T to columns j : j + 4 from row ``start`` on, side by side."""
    stop = start + len(v)
    a, b = F[j, start:stop], F[j + 1, start:stop]
    c, d = F[j + 2, start:stop], F[j + 3, start:stop]
    w, x, y, z = 0.0, 0.0, 0.0, 0.0
    for i in range(len(v)):
        w += v[i] * a[i]
        x += v[i] * b[i]
        y += v[i] * c[i]
        z += v[i] * d[i]
    take(a, v, tau * w)
    take(b, v, tau * x)
    take(c, v, tau * y)
    take(d, v, tau * z)


@summed
def reflect(F: Array, j: int, v: Array, start: int, tau: float) -> None:
    """Apply 1 - tau v v^T to column j from row ``start`` on."""
    a, w = F[j, start : start + len(v)], 0.0
    for i in range(len(v)):
        w += v[i] * a[i]
    take(a, v, tau * w)


@summed
def take(a: Array, v: Array, times: float) -> None:
    """Subtract so many times v from a."""
    for i in range(len(v)):
        a[i] -= times * v[i]


@summed
def solve_upper(F: Array, n: int, x: Array) -> None:
    """x[:n] = R^-1 x[:n] with R the leading block of factors F."""
    for k in range(n - 1, -1, -1):
        x[k] /= F[k, k]
        if x[k] != 0.0:
            take(x, F[k, :k], x[k])


@summed
def inverse_norm(F: Array, n: int, x: Array) -> float:
    """Frobenius norm of the inverse of the leading block (n, n) of R."""
    total = 0.0
    for k in range(n):
        for i in range(k):
            x[i] = 0.0
        x[k] = 1.0
        solve_upper(F, k + 1, x)
        for i in range(k + 1):
            total += x[i] * x[i]
    return float(np.sqrt(total))


@summed
def spread_out(
    x: Array,
    n: int,
    fixed_by: Array,
    fixed: int,
    order: IntArray,
    late: IntArray,
    scale: Array,
    out: Array,
) -> None:
    """Direction x (n,) of what is left, as one of all unknowns: what is fixed follows."""
    for j in range(len(out)):
        out[j] = 0.0
    for j in range(n):
        out[late[j]] = x[j] * scale[late[j]]
    for i in range(fixed):
        total = 0.0
        for j in range(n):
            total -= fixed_by[i, j] * x[j]
        out[order[i]] = total * scale[order[i]]


@summed
def are_unseen(
    columns: Array, row_weight: Array, basis: Array, start: int, stop: int, scale: Array
) -> bool:
    """Whether rows of unit size do not see directions, which are made orthonormal."""
    if not orthonormal(basis, start, stop, scale):
        return False
    seen = 0.0
    for k in range(start, stop):
        seen = np.hypot(seen, moved(columns, row_weight, basis[k]))
    return seen <= UNSEEN


@summed
def orthonormal(basis: Array, start: int, stop: int, scale: Array) -> bool:
    """Make rows start : stop of a basis orthonormal in units of ``scale``; False if dependent.

    Gram and Schmidt, twice each.
    """
    for k in range(start, stop):
        for _ in range(2):
            for other in range(start, k):
                product = 0.0
                for j in range(len(scale)):
                    product += basis[k, j] * basis[other, j] / (scale[j] * scale[j])
                for j in range(len(scale)):
                    basis[k, j] -= product * basis[other, j]
        total = 0.0
        for j in range(len(scale)):
            total += basis[k, j] * basis[k, j] / (scale[j] * scale[j])
        if not total > 0.0:
            return False
        for j in range(len(scale)):
            basis[k, j] /= np.sqrt(total)
    return True


@summed
def moved(columns: Array, row_weight: Array, direction: Array) -> float:
    """By how much a direction moves rows of unit size, altogether."""
    total = 0.0
    out = np.zeros(len(row_weight))
    for j in range(len(direction)):
        if direction[j] != 0.0:
            for i in range(len(out)):
                out[i] += columns[j, i] * direction[j]
    for i in range(len(out)):
        unit = out[i] * row_weight[i]
        total += unit * unit
    return float(np.sqrt(total))


@summed
def explain(
    F: Array,
    tau: Array,
    steps: int,
    free: int,
    rows: int,
    kinds: IntArray,
    unexplained: Array,
) -> None:
    """Basis, orthonormal, of what the first ``free`` columns do not explain of noisy rows."""
    q = np.empty(rows)
    for d in range(len(unexplained)):
        for i in range(rows):
            q[i] = 0.0
        if free + d < rows:
            q[free + d] = 1.0
            for k in range(steps - 1, -1, -1):
                product = q[k]
                for i in range(k + 1, rows):
                    product += F[k, i] * q[i]
                product *= tau[k]
                q[k] -= product
                for i in range(k + 1, rows):
                    q[i] -= product * F[k, i]
        row = 0
        for i in range(len(kinds)):
            unexplained[d, i] = 0.0
            if kinds[i] == NOISY:
                unexplained[d, i] = q[row]
                row += 1
