"""Contact of a robot with a horizontal plane: points, contact-space inertia, impulses.

    J_c (3, nv)   velocity of point c in base coordinates (normal, two tangents) per qd

The plane is z = height; its normal is z, the tangents x and y. Row order per contact: normal
first, N and D of [DRUM] section 6.3 side by side. The contact-space inertia is found by one of
three routes:

| route      | A = J M^-1 J^T: how M^-1 J^T is found                        |
|------------|--------------------------------------------------------------|
| drumwright | articulated bodies, Theta(n) per column                      |
| dense      | LAPACK's Cholesky factorisation and back-substitution        |
| ltl        | Cholesky factorisation by branch-induced sparsity, likewise  |

The first also has the velocities of all bodies, hence A, at hand; the others multiply by J,
using the sparsity of J. Contact impulses x with Coulomb friction follow by projected
Gauss-Seidel:

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, final, get_args

import numpy as np
from scipy.linalg import lapack

from dynsys.errors import ModelError, SingularSystemError, StateError, nearest_name
from dynsys.jit import Loop
from dynsys.loops import drumwright
from dynsys.loops.drumwright import Freedoms
from dynsys.loops.flat import FlatRobot, TreeArrays
from dynsys.loops.tree_state import Poses, TreeState
from dynsys.model.tree import KinematicTree
from dynsys.recursive.sparse_factors import ltl_in_situ, solve_L_in_situ, solve_LT_in_situ
from dynsys.types import Array, ArrayLike, IntArray

__all__ = [
    "ROUTES",
    "ContactInertia",
    "ContactPoints",
    "ContactSpace",
    "Ground",
    "Impulses",
    "Route",
    "solve_contacts",
]


@final
@dataclass(frozen=True)
class Ground:
    """Horizontal plane z = ``height`` with Coulomb friction.

    ``correction`` is the part of a penetration beyond ``slop`` (m) that a step removes, at no
    more than ``speed_limit`` (m/s).
    """

    friction: float = 0.8
    height: float = 0.0
    correction: float = 0.2
    slop: float = 1e-4
    speed_limit: float = 0.5

    def __post_init__(self) -> None:
        if not self.friction >= 0 or not 0 <= self.correction <= 1 or not self.slop >= 0:
            raise ModelError(f"friction and slop must be >= 0, correction in 0..1: {self}")


@final
class ContactPoints:
    """Points fixed to bodies of a robot: ``body`` (K,), ``point`` (K, 3) in its coordinates."""

    def __init__(
        self, robot: KinematicTree, bodies: Sequence[str | int], points: ArrayLike
    ) -> None:
        self.robot = robot
        self.body: IntArray = np.array([robot.body_index(b) for b in bodies], dtype=np.intp)
        self.point = np.array(points, dtype=np.float64).reshape(len(bodies), 3)
        if (self.body < 0).any():
            raise ModelError(f"robot {robot.name!r}: a contact point on the base never moves")

    def positions(self, poses: Poses) -> Array:
        """Positions (K, 3) in base coordinates."""
        E, r = poses.E[self.body], poses.r[self.body]
        return np.asarray(r + np.einsum("kji,kj->ki", E, self.point))

    def jacobian(
        self, tree: TreeArrays, poses: Poses, positions: Array, active: IntArray
    ) -> Array:
        """J (3 len(active), nv) of the chosen points."""
        J = np.zeros((3 * len(active), len(tree.S)))
        fill_jacobian(
            *(tree.parent, tree.first, tree.S, poses.E, poses.r),
            *(self.body[active], positions[active], J),
        )
        return J


@Loop
def fill_jacobian(
    parent: IntArray,
    first: IntArray,
    S: Array,
    E: Array,
    r: Array,
    body: IntArray,
    position: Array,
    J: Array,
) -> None:
    """Rows 3 c .. 3 c + 2 of J, zeros at first: velocity of a point along z, x, y."""
    arm, w, v = np.empty(3), np.empty(3), np.empty(3)
    for c in range(len(body)):
        i = body[c]
        while i >= 0:
            for m in range(3):
                arm[m] = position[c, m] - r[i, m]
            for k in range(first[i], first[i + 1]):
                for m in range(3):
                    w[m] = v[m] = 0.0
                    for n in range(3):
                        w[m] += E[i, n, m] * S[k, n]
                        v[m] += E[i, n, m] * S[k, n + 3]
                J[3 * c, k] = v[2] + w[0] * arm[1] - w[1] * arm[0]
                J[3 * c + 1, k] = v[0] + w[1] * arm[2] - w[2] * arm[1]
                J[3 * c + 2, k] = v[1] + w[2] * arm[0] - w[0] * arm[2]
            i = parent[i]


# ---- contact-space inertia ---------------------------------------------------------------

Route = Literal["drumwright", "dense", "ltl"]
ROUTES: tuple[Route, ...] = get_args(Route)


class ContactSpace(NamedTuple):
    """A (3 c, 3 c), and velocity changes M^-1 r (nv,) by joint impulses r (nv,)."""

    A: Array
    respond: Callable[[Array], Array]


@final
class ContactInertia:
    """Contact spaces of one robot by one route, at any q."""

    def __init__(self, flat: FlatRobot, route: Route = "drumwright") -> None:
        if route not in ROUTES:
            raise ModelError(
                f"no route {route!r} to the contact-space inertia{nearest_name(route, ROUTES)};"
                f" there are: {', '.join(ROUTES)}"
            )
        self.tree, self.route = flat.tree, route
        self._robot = flat.robot
        self._base = drumwright.floating_base(self.tree)

    def at(self, q: Array, J: Array, tip: IntArray, points: Array) -> ContactSpace:
        """Contact space of c points with Jacobian J (3 c, nv).

        Point k moves with freedom ``tip[k]`` and is at ``points[k]`` in base coordinates; J is
        nonzero at that freedom and those that support it.
        """
        state = TreeState(self._robot, q)
        if self.route == "drumwright":
            freedoms, base = Freedoms.at(state), self._base
            A = drumwright.contact_inertia(freedoms, J, base, tip, points)
            return ContactSpace(
                A, lambda r: drumwright.multiply_inverse(freedoms, r[:, None], base)[:, 0]
            )
        solve = self._factors(state)
        A = np.zeros((len(J), len(J)))
        response = solve(np.ascontiguousarray(J.T))
        multiply_supported(self.tree.freedom_parent, tip, J, response, A)
        return ContactSpace(A, lambda r: solve(r[:, None].copy())[:, 0])

    def _factors(self, state: TreeState) -> Callable[[Array], Array]:
        """Factorise M; the function returned replaces B (nv, m) by M^-1 B."""
        H, parent = state.H, self.tree.freedom_parent
        if self.route == "dense":
            L, failed = lapack.dpotrf(H, lower=1)
            if failed:
                raise SingularSystemError(
                    f"robot {self._robot.name!r}: its inertia matrix is not positive"
                    " definite; give its bodies mass or its joints armature"
                )
            return lambda B: np.ascontiguousarray(lapack.dpotrs(L, B, lower=1)[0])
        ltl_in_situ(H, parent)
        state.require_positive(np.diagonal(H))

        def solve(B: Array) -> Array:
            solve_LT_in_situ(H, parent, B, False)
            solve_L_in_situ(H, parent, B, False)
            return B

        return solve


@Loop
def multiply_supported(
    parent: IntArray, tip: IntArray, J: Array, response: Array, A: Array
) -> None:
    """Add J response, which is symmetric, to A (m, m), zeros at first."""
    for c in range(len(tip)):
        k = tip[c]
        while k >= 0:
            for row in range(3 * c, 3 * c + 3):
                element = J[row, k]
                for column in range(3 * c + 3):
                    A[row, column] += element * response[k, column]
            k = parent[k]
    for row in range(len(A)):
        for column in range(row):
            A[column, row] = A[row, column]


# ---- contact impulses --------------------------------------------------------------------


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
