"""Impulses at contacts, limits, dry joints and closures: one complementarity problem, solved.

    u = A x + b            A = J M^-1 J^T, b: velocities (m/s, rad/s) without the impulses x

| rows       | what holds                                                               |
|------------|--------------------------------------------------------------------------|
| contact, 3 | x_n >= 0, u_n >= 0, x_n u_n = 0; x_t within mu x_n, against u_t if it slides |
| limit      | x >= 0, u >= 0, x u = 0                                                  |
| dry joint  | -bound <= x <= bound, against u where it moves                           |
| closure    | u = 0                                                                    |

Each is a projection, x = P(x - u / s) for any scale s > 0, and the distance from it, times s,
is the residual: the velocity (m/s) by which an answer is wrong.

Newton's method on these projections (Alart and Curnier, 1991; Jourdan, Alart and Jean, 1998)
solves a dense system of the rows that are at work, with the round cone as it is. Its steps do
not know slow convergence: mass ratios of 10^4 take the two or three that equal masses take.
Where its active set runs in circles, sweeps of projected Gauss-Seidel bring the start nearer;
they need nothing but A and converge, slowly, wherever the problem is well posed. What was
reached is told: steps, sweeps, residual.

A is singular whenever more feet stand than forces can be told apart. Each row yields by
:data:`YIELD` of its own inertia, which picks one of the answers and moves no foot measurably.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from dynsys.errors import ModelError, StateError
from dynsys.jit import Loop
from dynsys.types import Array, ArrayLike, IntArray, float_array

__all__ = [
    "CLOSURE",
    "CONTACT",
    "DRY",
    "LIMIT",
    "Blocks",
    "Impulses",
    "Solver",
    "find_impulses",
    "soften",
    "solve_contacts",
]

CONTACT, LIMIT, DRY, CLOSURE = 0, 1, 2, 3
YIELD = 1e-10
"""What a row yields, relative to its own mobility."""
ROUNDS, STEPS = 6, 12
"""Rounds of sweeps and Newton steps, and steps in each."""

Solver = Literal["newton", "gauss_seidel"]


class Blocks(NamedTuple):
    """Rows that belong together: kind, first row, and friction coefficient or bound."""

    kind: IntArray
    row: IntArray
    limit: Array


class Impulses(NamedTuple):
    """Impulses x (3 c,), what it took, and the velocity (m/s) by which they are wrong."""

    x: Array
    sweeps: int
    residual: float
    steps: int
    converged: bool

    @property
    def change(self) -> float:
        """The residual: what one more sweep would change."""
        return self.residual


def _finite(x: ArrayLike, name: str) -> Array:
    try:
        found = float_array(x)
    except (TypeError, ValueError) as error:
        raise StateError(f"{name} is not numeric: {error}") from None
    if not np.isfinite(found).all():
        raise StateError(f"{name} holds a number that is not finite")
    return found


def solve_contacts(
    A: ArrayLike,
    b: ArrayLike,
    friction: float,
    start: ArrayLike | None = None,
    sweeps: int = 2000,
    tolerance: float = 1e-9,
    solver: Solver = "newton",
) -> Impulses:
    """Impulses (3 c,) for contact-space inertia A (3 c, 3 c); b (3 c,) is u without them.

    Rows come in threes: normal, two tangents. The answer counts as converged where it is wrong
    by no more than ``tolerance`` (m/s); "gauss_seidel" makes ``sweeps`` sweeps at most.

    Examples
    --------
    >>> found = solve_contacts(np.eye(3), np.array([-1.0, 3.0, 0.0]), friction=0.5)
    >>> found.x.round(6).tolist(), found.converged
    ([1.0, -0.5, 0.0], True)
    """
    A, b = _finite(A, "A"), _finite(b, "b")
    x = np.zeros(b.shape) if start is None else _finite(start, "start").copy()
    if b.ndim != 1 or A.shape != (len(b), len(b)) or len(b) % 3 or x.shape != b.shape:
        raise StateError(
            f"A must be (3 c, 3 c), b and start (3 c,), got {A.shape}, {b.shape} and {x.shape}"
        )
    if not 0 <= friction < np.inf:
        raise StateError(f"friction must be a number >= 0, got {friction!r}")
    if solver not in ("newton", "gauss_seidel"):
        raise ModelError(f"no solver {solver!r}; there are: newton, gauss_seidel")
    c = len(b) // 3
    blocks = Blocks(
        np.zeros(c, dtype=np.intp), 3 * np.arange(c, dtype=np.intp), np.full(c, float(friction))
    )
    outcome, soft = np.zeros(3), A.copy()
    soften(soft)
    find_impulses(
        soft, np.ascontiguousarray(b), blocks, solver == "newton", sweeps, tolerance, x, outcome
    )
    residual = float(outcome[2])
    return Impulses(x, int(outcome[1]), residual, int(outcome[0]), residual <= tolerance)


@Loop
def soften(A: Array) -> None:
    """Let every row of A (m, m) yield a little, in place."""
    most = 0.0
    for i in range(len(A)):
        most = max(most, A[i, i])
    for i in range(len(A)):
        A[i, i] += YIELD * A[i, i] + 1e-3 * YIELD * most + 1e-300


@Loop
def find_impulses(
    A: Array,
    b: Array,
    blocks: Blocks,
    newton: bool,
    sweeps: int,
    tolerance: float,
    x: Array,
    outcome: Array,
) -> None:
    """Improve x (m,) in place; outcome = (Newton steps, sweeps, residual)."""
    m = len(b)
    u, best, trial = np.empty(m), np.empty(m), np.empty(m)
    outcome[0] = outcome[1] = 0.0
    error = _residual(A, b, blocks, x, u)
    if newton and error > tolerance:
        G, g, order = np.empty((m, m)), np.empty(m), np.empty(m, dtype=np.int64)
        for turn in range(ROUNDS):
            for i in range(m):
                best[i] = trial[i] = x[i]
            for _ in range(STEPS):
                if not _newton_step(A, b, blocks, u, trial, G, g, order):
                    break
                outcome[0] += 1
                found = _residual(A, b, blocks, trial, u)
                if found < error:
                    error = found
                    for i in range(m):
                        best[i] = trial[i]
                if error <= tolerance:
                    break
            for i in range(m):
                x[i] = best[i]
            if error <= tolerance:
                break
            for _ in range(25 * (turn + 1)):
                _sweep(A, b, blocks, x)
                outcome[1] += 1
            error = _residual(A, b, blocks, x, u)
            if error <= tolerance:
                break
    while error > tolerance and outcome[1] < sweeps:
        for _ in range(min(4, sweeps - int(outcome[1]))):
            _sweep(A, b, blocks, x)
            outcome[1] += 1
        error = _residual(A, b, blocks, x, u)
    outcome[2] = error


@Loop
def _residual(A: Array, b: Array, blocks: Blocks, x: Array, u: Array) -> float:
    """Largest distance from the projections, m/s; u = A x + b on the way. NaN counts as inf."""
    m = len(b)
    for i in range(m):
        total = b[i]
        for k in range(m):
            total += A[i, k] * x[k]
        u[i] = total
    worst = 0.0
    for c in range(len(blocks.kind)):
        kind, i, limit = blocks.kind[c], blocks.row[c], blocks.limit[c]
        if kind == CONTACT:
            scale = A[i, i]
            error = abs(x[i] - max(0.0, x[i] - u[i] / scale)) * scale
            scale = max(A[i + 1, i + 1], A[i + 2, i + 2])
            first, second = x[i + 1] - u[i + 1] / scale, x[i + 2] - u[i + 2] / scale
            size, most = np.sqrt(first * first + second * second), limit * max(0.0, x[i])
            if size > most:
                first, second = first * (most / size), second * (most / size)
            error = max(error, abs(x[i + 1] - first) * scale, abs(x[i + 2] - second) * scale)
        elif kind == LIMIT:
            error = abs(x[i] - max(0.0, x[i] - u[i] / A[i, i])) * A[i, i]
        elif kind == DRY:
            error = abs(x[i] - min(limit, max(-limit, x[i] - u[i] / A[i, i]))) * A[i, i]
        else:
            error = abs(u[i])
        if not error <= worst:
            worst = error if error == error else np.inf
    return worst


@Loop
def _newton_step(
    A: Array,
    b: Array,
    blocks: Blocks,
    u: Array,
    x: Array,
    G: Array,
    g: Array,
    order: IntArray,
) -> bool:
    """Newton's step from x, at which u = A x + b; False where its matrix is singular."""
    m, n = len(b), 0
    for c in range(len(blocks.kind)):  # which rows are at work; the others' impulses are known
        kind, i, limit = blocks.kind[c], blocks.row[c], blocks.limit[c]
        if kind == CLOSURE:
            order[n] = i
            n += 1
            continue
        z = x[i] - u[i] / A[i, i]
        if kind == DRY:
            if abs(z) <= limit:
                order[n] = i
                n += 1
            else:
                x[i] = limit if z > 0 else -limit
        elif z <= 0.0:
            x[i] = 0.0
            if kind == CONTACT:
                x[i + 1] = x[i + 2] = 0.0
        else:
            for k in range(3 if kind == CONTACT else 1):
                order[n] = i + k
                n += 1
    # A x = -b on these rows ...
    for r in range(n):
        i = order[r]
        total = -b[i]
        for k in range(m):
            total -= A[i, k] * x[k]
        for s in range(n):
            total += A[i, order[s]] * x[order[s]]
            G[r, s] = A[i, order[s]]
        g[r] = total
    # ... but friction where a contact slides: (1 - K) x_t - mu d x_n + K (A x + b)_t / s = 0
    r = 0
    for c in range(len(blocks.kind)):
        kind, i = blocks.kind[c], blocks.row[c]
        if r >= n or order[r] != i:
            continue
        if kind != CONTACT:
            r += 1
            continue
        mu, scale = blocks.limit[c], max(A[i + 1, i + 1], A[i + 2, i + 2])
        z1, z2 = x[i + 1] - u[i + 1] / scale, x[i + 2] - u[i + 2] / scale
        size, most = np.sqrt(z1 * z1 + z2 * z2), mu * max(0.0, x[i] - u[i] / A[i, i])
        if size > most:
            d1, d2, part = z1 / size, z2 / size, most / size
            k11, k12, k22 = part * (1 - d1 * d1), -part * d1 * d2, part * (1 - d2 * d2)
            for s in range(n):
                one, two = G[r + 1, s], G[r + 2, s]
                G[r + 1, s] = k11 * one + k12 * two
                G[r + 2, s] = k12 * one + k22 * two
            one, two = g[r + 1], g[r + 2]
            g[r + 1], g[r + 2] = k11 * one + k12 * two, k12 * one + k22 * two
            G[r + 1, r] -= scale * mu * d1
            G[r + 2, r] -= scale * mu * d2
            G[r + 1, r + 1] += scale * (1 - k11)
            G[r + 1, r + 2] -= scale * k12
            G[r + 2, r + 1] -= scale * k12
            G[r + 2, r + 2] += scale * (1 - k22)
        r += 3
    if not _solve_dense(G, g, n):
        return False
    for r in range(n):
        x[order[r]] = g[r]
    return True


@Loop
def _solve_dense(G: Array, g: Array, n: int) -> bool:
    """Replace g (n,) by the solution of G g' = g: LU with rows exchanged, in place."""
    for k in range(n):
        pivot, largest = k, abs(G[k, k])
        for i in range(k + 1, n):
            if abs(G[i, k]) > largest:
                pivot, largest = i, abs(G[i, k])
        if not largest > 0.0:
            return False
        if pivot != k:
            for j in range(k, n):
                G[k, j], G[pivot, j] = G[pivot, j], G[k, j]
            g[k], g[pivot] = g[pivot], g[k]
        for i in range(k + 1, n):
            if G[i, k] != 0.0:
                factor = G[i, k] / G[k, k]
                for j in range(k + 1, n):
                    G[i, j] -= factor * G[k, j]
                g[i] -= factor * g[k]
    for i in range(n - 1, -1, -1):
        total = g[i]
        for j in range(i + 1, n):
            total -= G[i, j] * g[j]
        g[i] = total / G[i, i]
    for i in range(n):
        if not np.isfinite(g[i]):
            return False
    return True


@Loop
def _sweep(A: Array, b: Array, blocks: Blocks, x: Array) -> None:
    """One sweep of projected Gauss-Seidel over all blocks."""
    m, u = len(b), np.empty(3)
    for c in range(len(blocks.kind)):
        kind, i, limit = blocks.kind[c], blocks.row[c], blocks.limit[c]
        for r in range(3 if kind == CONTACT else 1):
            u[r] = b[i + r]
            for k in range(m):
                u[r] += A[i + r, k] * x[k]
        wanted = x[i] - u[0] / A[i, i]
        if kind == CLOSURE:
            x[i] = wanted
        elif kind == DRY:
            x[i] = min(limit, max(-limit, wanted))
        elif kind == LIMIT:
            x[i] = max(0.0, wanted)
        else:
            normal = max(0.0, wanted)
            step = normal - x[i]
            scale = max(A[i + 1, i + 1], A[i + 2, i + 2]) + abs(A[i + 1, i + 2])
            first = x[i + 1] - (u[1] + A[i + 1, i] * step) / scale
            second = x[i + 2] - (u[2] + A[i + 2, i] * step) / scale
            size, most = np.sqrt(first * first + second * second), limit * normal
            if size > most:
                first, second = first * (most / size), second * (most / size)
            x[i], x[i + 1], x[i + 2] = normal, first, second
