"""Contact-space inertia A = J M^-1 J^T, by three routes ([DRUM] section 6.3).

| route      | M^-1 J^T                                                     |
|------------|--------------------------------------------------------------|
| drumwright | articulated bodies, Theta(n) per column                      |
| dense      | LAPACK's Cholesky factorisation and back-substitution        |
| ltl        | Cholesky factorisation by branch-induced sparsity, likewise  |

The first also has the velocities of all bodies, hence A, at hand; the others multiply by J,
using the sparsity of J.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, final, get_args

import numpy as np
from scipy.linalg import lapack

from dynsys.errors import ModelError, SingularSystemError
from dynsys.jit import Loop
from dynsys.loops import drumwright
from dynsys.loops.drumwright import TreeArrays
from dynsys.loops.packed import inertia_matrix
from dynsys.model.tree import nearest_name
from dynsys.recursive.sparse_factors import ltl_in_situ, solve_L_in_situ, solve_LT_in_situ
from dynsys.types import Array, IntArray

__all__ = ["ROUTES", "ContactInertia", "ContactSpace", "Route"]

Route = Literal["drumwright", "dense", "ltl"]
ROUTES: tuple[Route, ...] = get_args(Route)


class ContactSpace(NamedTuple):
    """A (3 c, 3 c), and velocity changes M^-1 r (nv,) by joint impulses r (nv,)."""

    A: Array
    respond: Callable[[Array], Array]


@final
class ContactInertia:
    """Contact spaces of one robot by one route, at any q."""

    def __init__(self, arrays: TreeArrays, route: Route = "drumwright") -> None:
        if route not in ROUTES:
            raise ModelError(
                f"no route {route!r} to the contact-space inertia{nearest_name(route, ROUTES)};"
                f" there are: {', '.join(ROUTES)}"
            )
        self.arrays, self.route = arrays, route
        tree = arrays.tree
        self._base = drumwright.floating_base(tree.freedom_parent, tree.S, tree.first)

    def at(self, q: Array, J: Array, tip: IntArray, points: Array) -> ContactSpace:
        """Contact space of c points with Jacobian J (3 c, nv).

        Point k moves with freedom ``tip[k]`` and is at ``points[k]`` in base coordinates; J is
        nonzero at that freedom and those that support it.
        """
        if self.route == "drumwright":
            freedoms, base = self.arrays.freedoms(q), self._base
            A = drumwright.contact_inertia(freedoms, J, base, tip, points)
            return ContactSpace(
                A, lambda r: drumwright.multiply_inverse(freedoms, r[:, None], base)[:, 0]
            )
        solve = self._factors(q)
        A = np.zeros((len(J), len(J)))
        response = solve(np.ascontiguousarray(J.T))
        multiply_supported(self.arrays.tree.freedom_parent, tip, J, response, A)
        return ContactSpace(A, lambda r: solve(r[:, None].copy())[:, 0])

    def _factors(self, q: Array) -> Callable[[Array], Array]:
        """Factorise M; the function returned replaces B (nv, m) by M^-1 B."""
        tree = self.arrays.tree
        H = inertia_matrix(tree, self.arrays.motion_matrices(q))
        if self.route == "dense":
            L, failed = lapack.dpotrf(H, lower=1)
            if failed:
                raise SingularSystemError(
                    f"robot {self.arrays.robot.name!r}: its inertia matrix is not positive"
                    " definite; give its bodies mass or its joints armature"
                )
            return lambda B: np.ascontiguousarray(lapack.dpotrs(L, B, lower=1)[0])
        ltl_in_situ(H, tree.freedom_parent)
        self.arrays.require_positive(np.diagonal(H))

        def solve(B: Array) -> Array:
            solve_LT_in_situ(H, tree.freedom_parent, B, False)
            solve_L_in_situ(H, tree.freedom_parent, B, False)
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
