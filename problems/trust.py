"""How far an answer can be trusted: bounds on its error, computed after the fact.

The torques that the answer's qdd needs are computed once more in extended precision. What is
missing is the residual of the equations of motion,

    rho = torque - ID(q, qd, qdd, f_ext),          H (exact qdd - qdd) = rho,

so that, with the freedoms u whose acceleration was asked for and k whose torque was,

    |error of qdd_u| <= |H_uu^-1| (|rho_u| + delta_u)
    |error of torque_k| <= |rho_k| + delta_k + |H_ku| |error of qdd_u|.

delta is one unit in the last place of float64 of everything that adds up to a torque (the
model itself is not known better) plus the rounding of the check. The bounds hold whatever
computed the answer, in whatever precision. Where H is so ill-conditioned that its inverse has
no correct digit, they are infinite.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import final

import numpy as np

from dynsys.loops import LoopKernel
from dynsys.model.tree import KinematicTree
from dynsys.recursive.crba import crba_scalars
from dynsys.recursive.kinematics import transforms
from dynsys.recursive.rnea import rnea_scalars
from dynsys.types import Array, ArrayLike, BoolArray, ScalarArray

__all__ = ["Trust", "error_bounds", "magnitudes", "unit_quaternions"]

EXTENDED = np.longdouble
LARGEST_EXTENDED = 200
"""Freedoms up to which H is inverted in extended precision: cubic, and not by LAPACK."""
EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)
EPS_EXTENDED = float(np.finfo(EXTENDED).eps)


@final
@dataclass(frozen=True, eq=False)
class Trust:
    """Bounds on the errors of a solution; with a leading axis N for a batch.

    Attributes
    ----------
    torque_error, qdd_error : (nv,) bounds on |answer - exact answer|; zero where it was given.
    relative_error : the larger of both, each relative to its largest entry.
    backward_error : largest residual of an equation of motion, relative to the sum of the
        magnitudes in it: 1e-16 is as good as float64 gets.
    condition : of H over the freedoms whose acceleration was asked for, its diagonal scaled to
        one, so that units do not matter; 1 where there are none.
    """

    torque_error: Array
    qdd_error: Array
    relative_error: float | Array
    backward_error: float | Array
    condition: float | Array

    def __str__(self) -> str:
        worst = [
            float(np.max(x, initial=0.0))
            for x in (self.relative_error, self.backward_error, self.condition)
        ]
        return (
            f"relative error below {worst[0]:.1e}, backward error {worst[1]:.1e},"
            f" condition {worst[2]:.1e}"
        )


def error_bounds(
    robot: KinematicTree,
    known: BoolArray,
    state: tuple[Array, Array, Array | None],
    torque: Array,
    qdd: Array,
) -> Trust:
    """Bounds for torque and qdd (nv,) at a state q, qd, f_ext; ``known`` (nv,) marks given qdd.

    N states, torques and qdd have a leading axis N.
    """
    q, qd, f_ext = state
    if q.ndim == 2:
        forces = [None] * len(q) if f_ext is None else f_ext
        rows = zip(q, qd, forces, torque, qdd, strict=True)
        judged = [
            error_bounds(robot, known, (q, qd, f), tau, qdd) for q, qd, f, tau, qdd in rows
        ]
        return Trust(*(np.array([getattr(t, x.name) for t in judged]) for x in fields(Trust)))
    if not (np.isfinite(torque).all() and np.isfinite(qdd).all()):
        lost = np.full(robot.nv, np.inf)
        errors = np.where(known, lost, 0.0), np.where(known, 0.0, lost)
        return Trust(*errors, np.inf, np.inf, np.inf)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        exact_q = unit_quaternions(robot, q.astype(EXTENDED))
        wrenches = None if f_ext is None else f_ext.astype(EXTENDED)
        needed = rnea_scalars(
            robot, exact_q, qd.astype(EXTENDED), qdd.astype(EXTENDED), wrenches
        )
        rho = np.abs(torque.astype(EXTENDED) - needed)
        sums = magnitudes(robot, q, qd, qdd, f_ext)
        slack = (EPS + 8 * (robot.n_bodies + 8) * EPS_EXTENDED) * sums
        doubt = _or_infinite((rho + slack + TINY).astype(np.float64))
        scale = np.where(sums > 0, sums, TINY)
        backward = float(_or_infinite(np.max(rho / scale, initial=0.0)))
        return _bounds(robot, known, exact_q, doubt, backward, torque, qdd)


def _bounds(
    robot: KinematicTree,
    known: BoolArray,
    q: ScalarArray,
    doubt: Array,
    backward: float,
    torque: Array,
    qdd: Array,
) -> Trust:
    """Carry doubts about torques (nv,) over to what was asked for."""
    unknown = ~known
    qdd_error, torque_error, condition = np.zeros(robot.nv), np.zeros(robot.nv), 1.0
    if unknown.any():
        extended = int(unknown.sum()) <= LARGEST_EXTENDED
        H = _inertia(robot, q, extended)
        inverse, condition, growth = _inverse(H[np.ix_(unknown, unknown)])
        qdd_error[unknown] = _or_infinite(growth * (np.abs(inverse) @ doubt[unknown]))
        carried = np.abs(H[np.ix_(known, unknown)]).astype(np.float64) @ qdd_error[unknown]
        torque_error[known] = _or_infinite(doubt[known] + carried)
    else:
        torque_error[known] = doubt[known]
    largest = [
        float(np.max(error, initial=0.0) / max(np.max(np.abs(answer), initial=0.0), TINY))
        for error, answer in ((torque_error, torque), (qdd_error, qdd))
        if error.any()
    ]
    error = float(_or_infinite(max(largest, default=0.0)))
    return Trust(torque_error, qdd_error, error, backward, condition)


def _or_infinite(x: ArrayLike) -> Array:
    """Return x with infinity, no bound at all, in place of NaN."""
    return np.asarray(np.where(np.isnan(x), np.inf, x), dtype=np.float64)


def unit_quaternions(robot: KinematicTree, q: ScalarArray) -> ScalarArray:
    """Q with every quaternion at unit norm: what the answer is meant for."""
    q = q.copy()
    for where in robot.quaternion_slices:
        q[where] = q[where] / np.sqrt(np.sum(q[where] ** 2))
    return q


def _inertia(robot: KinematicTree, q: ScalarArray, extended: bool) -> ScalarArray:
    """H (nv, nv): column k is the torque of a unit acceleration of k, without gravity."""
    if extended:
        return crba_scalars(robot, q)
    nv = robot.nv
    kernel = LoopKernel(
        robot.with_gravity(np.zeros(3)), np.ones(nv, dtype=bool), "qdd", ("torque",)
    )
    rows = np.repeat(q.astype(np.float64)[None], nv, axis=0)
    (H,), _ = kernel.batch(rows, np.zeros((nv, nv)), np.eye(nv))
    return (H + H.T) / 2


def _inverse(H: ScalarArray) -> tuple[Array, float, float]:
    """Inverse of a positive definite H, condition of H scaled, and growth >= 1 of its error.

    The growth is infinite where rounding leaves nothing of the inverse.
    """
    n = len(H)
    diagonal = np.diag(H)
    if not (np.isfinite(H).all() and (diagonal > 0).all()):
        return np.zeros((n, n)), np.inf, np.inf
    root = np.sqrt(diagonal)
    scaled = H / root / root[:, None]
    inverse = _inverted(scaled)
    if inverse is None:
        return np.zeros((n, n)), np.inf, np.inf
    condition = float(np.abs(scaled).sum(axis=1).max() * np.abs(inverse).sum(axis=1).max())
    lost = 8 * n * condition * float(np.finfo(H.dtype).eps)
    growth = 1 / (1 - lost) if lost < 0.1 else np.inf
    return (inverse / root / root[:, None]).astype(np.float64), condition, growth


def _inverted(A: ScalarArray) -> ScalarArray | None:
    """Inverse of a symmetric A by Gauss-Jordan on its diagonal, None if a pivot is not > 0."""
    if A.dtype == np.float64:
        try:
            return np.asarray(np.linalg.inv(A))
        except np.linalg.LinAlgError:
            return None
    A = A.copy()
    for k in range(len(A)):
        pivot = A[k, k]
        if not pivot > 0:
            return None
        row = A[k] / pivot
        column = A[:, k].copy()
        A -= np.outer(column, row)
        A[k] = row
        A[:, k] = -column / pivot
        A[k, k] = 1 / pivot
    return A


def magnitudes(
    robot: KinematicTree, q: Array, qd: Array, qdd: Array, f_ext: Array | None
) -> Array:
    """Sum of the magnitudes of all that adds up to each joint's torque (nv,).

    RNEA over norms: with the speeds w, accelerations wd and a that joints and gravity add up to
    and u = wd + w^2,  F = m a + u |h|,  N = |h| a + u |J|,  carried to the parent over |r|.
    """
    n, X_up = robot.n_bodies, transforms(robot, q)
    freedoms = robot.v_slices()
    turning = [np.linalg.norm(S[:3], axis=0) for S in robot.motion_subspace]
    sliding = [np.linalg.norm(S[3:], axis=0) for S in robot.motion_subspace]
    w, u, a = np.zeros(n), np.zeros(n), np.zeros(n)
    F, N, arm = np.zeros(n), np.zeros(n), np.zeros(n)
    for i, parent in enumerate(robot.parent):
        v = freedoms[i]
        rate, push = np.abs(qd[v]), np.abs(qdd[v])
        arm[i] = np.linalg.norm(X_up[i].r)
        w0, u0, a0 = (
            (w[parent], u[parent], a[parent] + u[parent] * arm[i])
            if parent >= 0
            else (0.0, 0.0, float(np.linalg.norm(robot.gravity)))
        )
        w[i] = w0 + turning[i] @ rate
        wd = u0 + turning[i] @ push + w0 * (turning[i] @ rate)
        a[i] = a0 + sliding[i] @ push + 2 * w[i] * (sliding[i] @ rate)
        u[i] = wd + w[i] ** 2
        first, second = robot.moments[i].first, robot.moments[i].second
        h = float(np.linalg.norm(first))
        F[i] = robot.moments[i].mass * a[i] + u[i] * h
        N[i] = h * a[i] + u[i] * float(np.linalg.norm(second))
        if f_ext is not None:
            N[i] += np.linalg.norm(f_ext[i, :3])
            F[i] += np.linalg.norm(f_ext[i, 3:])
    sums = np.asarray(np.abs(robot.armature * qdd), dtype=np.float64)
    if robot.joint_friction is not None:
        sums += robot.joint_friction.magnitude(qd)
    for i in reversed(range(n)):
        sums[freedoms[i]] += turning[i] * N[i] + sliding[i] * F[i]
        if (parent := int(robot.parent[i])) >= 0:
            F[parent] += F[i]
            N[parent] += N[i] + arm[i] * F[i]
    return sums
