"""Articulated-body algorithm: qdd = FD(q, qd, torque, f_ext). O(n).

The accelerations are split into those of the motion with qdd = 0, whose wrenches p the forward
pass of RNEA gives (velocity products and gravity included), and the remainder a, for which the
articulated-body equations ([NORI] eq. 12-13, [RBDA] section 7.3) hold without velocity terms:

    a_i = X a_parent + S qdd      f_i = IA_i a_i + pA_i      torque_i = S^T f_i + armature qdd

    Ia = IA - U D^-1 U^T,  U = IA S,  D = S^T U + armature ;  pa = pA + U D^-1 (torque - S^T pA)
    IA_parent += X^T Ia X                                     pA_parent += X^T pa
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dynsys.errors import SingularSystemError, StateError
from dynsys.model.spatial import Transform, congruence
from dynsys.model.tree import KinematicTree, Mechanism
from dynsys.recursive.crba import crba_scalars
from dynsys.recursive.kinematics import WrenchInput, external_wrenches, transforms
from dynsys.recursive.rnea import net_wrenches, rnea_scalars
from dynsys.types import Array, ArrayLike, BoolArray, ScalarArray

__all__ = ["aba", "aba_scalars", "along_axes", "factor_ldl", "solve_ldl", "without_joint"]


def aba(robot: KinematicTree, q: ArrayLike, qd: ArrayLike, torque: ArrayLike,
        f_ext: WrenchInput = None) -> Array:  # fmt: skip
    """Acceleration qdd (nv,) with H qdd + C = torque + sum J^T f_ext: forward dynamics.

    One state; arguments and errors are those of :func:`dynsys.aba`. Coupled (mimic) joints
    break the tree's sparsity: H is then formed (CRBA) and solved densely, O(n^3).
    """
    q, qd = robot.check_q(q), robot.check_v(qd, "qd")
    torque = robot.check_v(torque, "torque")
    wrenches = external_wrenches(robot, f_ext)
    if robot.is_coupled:
        return _coupled(robot, q, qd, torque, wrenches)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        qdd = aba_scalars(robot, q, qd, torque, wrenches)
        if np.isfinite(qdd).all():
            return qdd
        at_rest = aba_scalars(robot, q, np.zeros(robot.nv), np.zeros(robot.nv))
    if not np.isfinite(at_rest).all():
        raise SingularSystemError(_no_inertia(robot, q))
    raise StateError(
        f"robot {robot.name!r}: aba at this state overflows float64; check the units of its"
        " arguments and masses"
    )


def aba_scalars(robot: Mechanism, q: ScalarArray, qd: ScalarArray, torque: ScalarArray,
                f_ext: ScalarArray | None = None) -> ScalarArray:  # fmt: skip
    """Acceleration (nv,) over scalars of any kind, trees without coupling; see :func:`aba`."""
    X_up = transforms(robot, q)
    p = net_wrenches(robot, X_up, qd, None, f_ext)
    return articulated_response(robot, X_up, p, torque - robot.friction_torque(qd))


def articulated_response(
    robot: Mechanism, X_up: Sequence[Transform], p: list[ScalarArray], torque: ScalarArray
) -> ScalarArray:
    """Acceleration (nv,) of the tree at rest under joint torques and bias wrenches p (6,)."""
    joints: dict[int, tuple[ScalarArray, ScalarArray, ScalarArray]] = {}

    def pass_joint(i: int, IA: ScalarArray) -> ScalarArray:
        S, v = robot.motion_subspace[i], robot.v_slices()[i]
        U = IA @ S
        D = factor_ldl(S.T @ U + np.diag(robot.armature[v]))
        u = torque[v] - S.T @ p[i]
        joints[i] = (U, D, u)
        if (parent := robot.parent[i]) < 0:
            return IA
        p[parent] = p[parent] + X_up[i].force_back(p[i] + U @ solve_ldl(D, u))
        return without_joint(IA, S, U, D, armature=bool(robot.armature[v].any()))

    gather_inertias(robot, X_up, pass_joint)
    # away from the base: accelerations
    qdd = 0 * torque
    a: list[ScalarArray] = []
    for i in range(robot.n_bodies):
        (U, D, u), v, parent = joints[i], robot.v_slices()[i], robot.parent[i]
        carried = np.zeros(6) if parent < 0 else X_up[i].motion(a[parent])
        qdd[v] = solve_ldl(D, u - U.T @ carried)  # [NORI] eq. (13 qdd)
        a.append(carried + robot.motion_subspace[i] @ qdd[v])
    return qdd


def gather_inertias(
    robot: Mechanism,
    X_up: Sequence[Transform],
    pass_joint: Callable[[int, ScalarArray], ScalarArray],
) -> None:
    """Articulated inertias towards the base: IA_parent += X^T Ia X ([NORI] eq. 12 IA).

    ``pass_joint(i, IA)`` is called with the articulated inertia (6, 6) of every body, leaves
    first, and returns Ia, what its joint lets through; on the base nobody asks for it.
    """
    IA: list[ScalarArray] = [moments.matrix() for moments in robot.moments]
    for i in reversed(range(robot.n_bodies)):
        Ia = pass_joint(i, IA[i])
        if (parent := robot.parent[i]) >= 0:
            IA[parent] = IA[parent] + congruence(X_up[i], Ia)


def without_joint(
    IA: ScalarArray, S: Array, U: ScalarArray, D: ScalarArray, *, armature: bool
) -> ScalarArray:
    """Ia = IA - U D^-1 U^T (6, 6): the inertia the joint lets through ([NORI] eq. 12 Ia).

    Without armature Ia S = 0 exactly; for joints along frame axes those rows stay out.
    """
    nv = S.shape[1]
    Ia = IA - U @ np.column_stack([solve_ldl(D, U[k]) for k in range(6)]) if nv else IA.copy()
    if not armature and (along := along_axes(S)).any():
        Ia[along, :] = 0
        Ia[:, along] = 0
    return Ia


def along_axes(S: Array) -> BoolArray:
    """Rows (6,) along which a joint moves, if it moves along frame axes; else none."""
    size = np.abs(S)
    is_aligned = S.shape[1] and (size.sum(axis=0) == 1).all() and (size.max(axis=0) == 1).all()
    return size.max(axis=1) == 1 if is_aligned else np.zeros(6, dtype=bool)


def _coupled(
    robot: KinematicTree, q: Array, qd: Array, torque: Array, f_ext: Array | None
) -> Array:
    bias = rnea_scalars(robot, q, qd, np.zeros(robot.nv), f_ext)
    try:
        return np.asarray(np.linalg.solve(crba_scalars(robot, q), torque - bias), np.float64)
    except np.linalg.LinAlgError:
        raise SingularSystemError(_no_inertia(robot, q)) from None


def _no_inertia(robot: KinematicTree, q: Array) -> str:
    """Name the joints along which the robot has no inertia at q."""
    H = crba_scalars(robot, q)
    direction = np.abs(np.linalg.eigh(H)[1][:, 0])
    names = [
        name
        for name, v in zip(robot.joint_names, robot.v_slices(), strict=True)
        if direction[v].max(initial=0.0) > 0.1
    ]
    return (
        f"robot {robot.name!r}: the acceleration of joint {', '.join(map(repr, names))} is not"
        " determined: the bodies it moves have no inertia about its axis; give them mass or the"
        " joint armature"
    )


# ---- D^-1 of one joint: symmetric positive definite, at most a handful of rows -----------


def factor_ldl(M: ScalarArray) -> ScalarArray:
    """L below the diagonal, reciprocals 1/d on it, from the lower triangle of M (n, n).

        M = L diag(d) L^T,  L unit lower triangular.  Cost n^3/6 + O(n^2) multiplications.

    Written out because LAPACK takes numbers only, and this also runs on the expression graph.
    No pivoting: the joint inertias it factorises are positive definite for physical robots.
    """
    F = M.copy()
    n = len(F)
    for k in range(n):
        F[k, k] = 1 / F[k, k]
        for i in range(k + 1, n):
            scaled = F[i, k] * F[k, k]
            for j in range(k + 1, i + 1):
                F[i, j] = F[i, j] - scaled * F[j, k]
        for i in range(k + 1, n):
            F[i, k] = F[i, k] * F[k, k]
    return F


def solve_ldl(F: ScalarArray, b: ScalarArray) -> ScalarArray:
    """Return x (n,) with M x = b from the factors of :func:`factor_ldl`."""
    n = len(F)
    x = [b[k] for k in range(n)]
    for i in range(n):  # x = L \ b
        for j in range(i):
            x[i] = x[i] - F[i, j] * x[j]
    for i in range(n):  # x = diag(d) \ x
        x[i] = x[i] * F[i, i]
    for i in reversed(range(n)):  # x = L' \ x
        for j in range(i + 1, n):
            x[i] = x[i] - F[j, i] * x[j]
    return np.array(x) if n else b
