"""Least squares over parameters that some robot has.

    minimise  |u|^2,  theta = free + U u,  such that every body's pseudo-inertia is positive:

        P = [[Sigma, h], [h^T, m]],   Sigma = tr(I)/2 - I

U U^T the covariance of the unconstrained answer ``free``: the nearest parameters in its units;
and friction and rotor inertias are not negative. P > 0 says that the ten parameters of a body
are those of some distribution of mass; it is linear in them, so this is a convex problem with
one answer (Wensing, Kim, Slotine 2018, "Linear matrix inequalities for physically consistent
inertial parameter identification"). Solved by Clarabel, an interior-point method, some fifteen
iterations. Its unknowns are  x = (theta - free) / natural size,  not u: a body's constraints
then hold ten of them, where u has all in each, and a factor costs p^3 / 3 instead of ten times
that (45 bodies, 626 parameters: 0.5 s, in u 4 s).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csc_array

from dynsys.distribution import required
from dynsys.errors import DynsysError
from dynsys.types import Array, IntArray

__all__ = ["nearest_physical", "pseudo_inertia"]

MARGIN = 1e-6
"""Least eigenvalue of a pseudo-inertia in its natural size: strictly inside what is allowed."""

_UPPER = [(i, j) for j in range(4) for i in range(j + 1)]


def _basis() -> Array:
    """P (10, 4, 4) of each of the ten parameters."""
    P = np.zeros((10, 4, 4))
    P[0, 3, 3] = 1.0
    for k in range(3):
        P[1 + k, k, 3] = P[1 + k, 3, k] = 1.0
    for k, (i, j) in enumerate(zip(*np.triu_indices(3), strict=True)):
        P[4 + k, i, j] -= 1.0
        if i == j:
            P[4 + k, :3, :3] += 0.5 * np.eye(3)
        else:
            P[4 + k, j, i] -= 1.0
    return P


BASIS = _basis()


def pseudo_inertia(ten: Array) -> Array:
    """P (..., 4, 4) of the ten parameters (..., 10) of a body.

    Examples
    --------
    >>> from dynsys.model.parameters import inertial_values
    >>> from dynsys.model.spatial import Inertia
    >>> P = pseudo_inertia(inertial_values(Inertia(2.0, np.array([0, 0, 0.5]), np.eye(3))))
    >>> P.diagonal().tolist(), P[2, 3].item()
    ([0.5, 0.5, 1.0, 2.0], 1.0)
    """
    return np.asarray(np.einsum("...k,kij->...ij", ten, BASIS))


def nearest_physical(
    free: Array, root: Array, scale: Array, bodies: Sequence[IntArray], least: IntArray
) -> Array:
    """Parameters theta (p,) that some robot has, nearest to ``free``.

    Parameters
    ----------
    free : (p,) the answer without constraints, returned if some robot has it.
    root : (p, p) U of the module.
    scale : (p,) natural sizes.
    bodies : places (10,) of the ten of each body.
    least : places of the parameters that are not negative.

    Raises
    ------
    DynsysError
        if the solver stops without an answer.
    """
    if _is_physical(free, bodies, least, scale):
        return free
    inverse = np.linalg.inv(root / scale[:, None])
    for form in (scale, root):  # u has the better condition: where x ends without an answer
        H = inverse.T @ inverse if form is scale else np.eye(len(free))
        moved, status = _solved(free, form, H, scale, bodies, least)
        if status in ("Solved", "AlmostSolved"):
            break
    else:
        raise DynsysError(
            f"no physically consistent parameters were found (solver: {status}); use"
            " physical=False to see what the data ask for"
        )
    x = free + moved
    x[least] = np.maximum(x[least], 0.0)
    return np.asarray(x)


def _solved(
    free: Array,
    form: Array,
    H: Array,
    scale: Array,
    bodies: Sequence[IntArray],
    least: IntArray,
) -> tuple[Array, str]:
    """Way (p,) from ``free`` to the answer, F x of least  x^T H x;  how the solver ended.

    ``form`` is F (p, p), or its diagonal (p,).
    """
    purpose = (
        "holding inertias to what bodies can have (not so by physical=False, --not-physical)"
    )
    clarabel = required("clarabel", purpose)

    p = len(free)
    F = np.diag(form) if form.ndim == 1 else form
    rows: list[Array] = []
    shift: list[Sequence[float] | Array] = []
    cones: list[object] = []
    if len(least):
        rows.append(-F[least] / scale[least, None])
        shift.append(free[least] / scale[least])
        cones.append(clarabel.NonnegativeConeT(len(least)))
    for ten in bodies:
        size = _natural(scale[ten])
        for i, j in _UPPER:  # the upper triangle of P, its off-diagonal times sqrt 2
            unit = (1.0 if i == j else np.sqrt(2.0)) / (size[i] * size[j]) * BASIS[:, i, j]
            rows.append(-unit[None] @ F[ten])
            shift.append([unit @ free[ten] - (MARGIN if i == j else 0.0)])
        cones.append(clarabel.PSDTriangleConeT(4))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.direct_solve_method, settings.max_threads = "faer", 1  # factors by blocks
    constraints = csc_array(np.concatenate(rows))
    solver = clarabel.DefaultSolver(
        csc_array(np.triu(H)), np.zeros(p), constraints, np.concatenate(shift), cones, settings
    )
    solution = solver.solve()
    x = np.asarray(solution.x)
    return np.asarray(form * x if form.ndim == 1 else form @ x), str(solution.status)


def _natural(scale: Array) -> Array:
    """Size (4,) of a body's rows of P: lengths times sqrt(mass), and sqrt(mass)."""
    mass = np.sqrt(scale[0])
    length = float(np.mean(scale[1:4])) / scale[0]
    return np.array([mass * length] * 3 + [mass])


def _is_physical(x: Array, bodies: Sequence[IntArray], least: IntArray, scale: Array) -> bool:
    if (x[least] < 0).any():
        return False
    for ten in bodies:
        size = _natural(scale[ten])
        P = pseudo_inertia(x[ten]) / np.outer(size, size)
        if np.linalg.eigvalsh(P)[0] < MARGIN:
            return False
    return True
