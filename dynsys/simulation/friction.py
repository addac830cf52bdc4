"""Contact impulses with Coulomb friction by projected Gauss-Seidel.

    u = A x + b           per contact: x_n >= 0, u_n >= 0, x_n u_n = 0
                          |x_t| <= mu x_n, and x_t opposes u_t where the contact slides

Why this solver. It needs nothing but A and b, which [DRUM]'s method delivers; it takes the
round friction cone as it is, where an LCP solver (Lemke, or the one of [DRUM]'s reference 10)
needs a polyhedral one and O(m^3) pivoting; every iterate is feasible, so that it may stop early
and start from the impulses of the step before; and A may be singular, as it is whenever more
feet stand than forces can be told apart. General conic solvers take the round cone as well, but
solve a convex relaxation in which a sliding foot lifts off. Its weakness is slow convergence on
long stacks; a centipede has none. The result says what was reached.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynsys.errors import StateError
from dynsys.jit import Loop
from dynsys.types import Array

__all__ = ["Impulses", "solve_contacts"]


class Impulses(NamedTuple):
    """Impulses x (3 c,), sweeps made, and the largest change (m/s) in the last sweep."""

    x: Array
    sweeps: int
    change: float


def solve_contacts(
    A: Array,
    b: Array,
    friction: float,
    start: Array | None = None,
    sweeps: int = 200,
    tolerance: float = 1e-7,
) -> Impulses:
    """Impulses (3 c,) for contact-space inertia A (3 c, 3 c); b (3 c,) is u without them.

    Rows come in threes: normal, two tangents. Sweeps stop when no contact would change its
    velocity by more than ``tolerance`` (m/s).

    Examples
    --------
    >>> solve_contacts(np.eye(3), np.array([-1.0, 3.0, 0.0]), friction=0.5).x.tolist()
    [1.0, -0.5, 0.0]
    """
    if A.shape != (len(b), len(b)) or len(b) % 3:
        raise StateError(f"A must be (3 c, 3 c) and b (3 c,), got {A.shape} and {b.shape}")
    x = np.zeros(len(b)) if start is None else start.copy()
    outcome = np.zeros(2)
    project_gauss_seidel(A, b, friction, sweeps, tolerance, x, outcome)
    return Impulses(x, int(outcome[0]), float(outcome[1]))


@Loop
def project_gauss_seidel(
    A: Array, b: Array, mu: float, sweeps: int, tolerance: float, x: Array, outcome: Array
) -> None:
    """Improve x (3 c,) in place; outcome = (sweeps made, largest change of velocity)."""
    u = np.empty(3)
    for sweep in range(sweeps):
        change = 0.0
        for i in range(0, len(x), 3):
            for r in range(3):
                u[r] = b[i + r]
                for k in range(len(x)):
                    u[r] += A[i + r, k] * x[k]
            normal = max(0.0, x[i] - u[0] / A[i, i])
            step = normal - x[i]
            scale = max(A[i + 1, i + 1], A[i + 2, i + 2]) + abs(A[i + 1, i + 2])
            first = x[i + 1] - (u[1] + A[i + 1, i] * step) / scale
            second = x[i + 2] - (u[2] + A[i + 2, i] * step) / scale
            size, limit = np.sqrt(first * first + second * second), mu * normal
            if size > limit:
                first, second = first * (limit / size), second * (limit / size)
            change = max(change, abs(step) * A[i, i], abs(first - x[i + 1]) * scale)
            change = max(change, abs(second - x[i + 2]) * scale)
            x[i], x[i + 1], x[i + 2] = normal, first, second
        outcome[0], outcome[1] = sweep + 1, change
        if change <= tolerance:
            return
