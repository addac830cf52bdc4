"""Which pivots of the symmetric elimination are safe by argument, which only by sampling.

The pivot of a joint is its articulated inertia S^T IA S + armature. IA is the inertia of the
joint's own body plus positive semidefinite terms of what hangs on it, so that

    pivot >= sum over the bodies the joint moves directly of S^T I S, + armature      > 0

holds at every state where the right-hand side, which does not depend on q, is positive
definite: safe by argument. Where it is not (a massless body between two joints), the pivot
depends on what the body carries: it is sampled, checked at run time, and a state that fails the
check is solved by pivoting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from dynsys.errors import SingularSystemError
from dynsys.model.tree import KinematicTree
from dynsys.recursive.crba import crba_scalars
from dynsys.types import Array, BoolArray

__all__ = ["PivotSafety", "pivot_safety"]

SAMPLES = 20
OWN_SHARE = 1e-9
"""Least share of a body's own inertia, relative to its largest moment, that counts as some."""
SINGULAR = 1e-12
"""A pivot below this part of the joint's composite inertia is rounding: H is singular."""


@final
@dataclass(frozen=True)
class PivotSafety:
    """Pivot of a joint: its name, why it is safe, and the least share of H_ii it kept."""

    joint: str
    safe_by: Literal["argument", "sampling"]
    worst_share: float


def pivot_safety(robot: KinematicTree, known: BoolArray) -> tuple[PivotSafety, ...]:
    """Judge the pivot of every joint whose qdd is unknown; ``known`` (nv,) marks the others.

    Raises
    ------
    SingularSystemError
        if some joint moves no inertia at any sampled state, naming it.
    """
    shares = _sampled_shares(robot, known)
    found = []
    for i, v in enumerate(robot.v_slices()):
        if robot.bodies[i].coupling is None and v.stop > v.start and not known[v].any():
            safe = _has_own_inertia(robot, v)
            share = float(shares[v].min())
            found.append(
                PivotSafety(robot.joint_names[i], "argument" if safe else "sampling", share)
            )
    return tuple(found)


def _has_own_inertia(robot: KinematicTree, v: slice) -> bool:
    """Whether S^T I S + armature of the bodies moved by freedoms v is positive definite."""
    own = np.diag(robot.armature[v])
    scale = float(robot.armature[v].max(initial=0.0))
    for moments, S, slot in zip(
        robot.moments, robot.motion_subspace, robot.v_slices(), strict=True
    ):
        if slot == v:
            own = own + S.T @ moments.matrix() @ S
            scale = max(scale, float(np.abs(moments.matrix()).max()))
    return bool(np.linalg.eigvalsh(own)[0] > OWN_SHARE * scale)


def _sampled_shares(robot: KinematicTree, known: BoolArray) -> Array:
    """Least pivot / H_ii (nv,) over sampled states; 1 where qdd is known."""
    shares = np.ones(robot.nv)
    unknown = np.flatnonzero(~known)
    rng = np.random.default_rng(0)
    best = np.zeros(len(unknown))
    for _ in range(SAMPLES if len(unknown) else 0):
        H = crba_scalars(robot, robot.random_configuration(rng))[np.ix_(unknown, unknown)]
        share = _pivots(H) / np.maximum(np.diag(H), np.finfo(float).tiny)
        shares[unknown] = np.minimum(shares[unknown], share)
        best = np.maximum(best, share)
    if (best < SINGULAR).any():
        without = set(unknown[best < SINGULAR].tolist())
        names = [
            name
            for name, v in zip(robot.joint_names, robot.v_slices(), strict=True)
            if without & set(range(v.start, v.stop))
        ]
        raise SingularSystemError(
            f"robot {robot.name!r}: the acceleration of joint {', '.join(map(repr, names))} is"
            " not determined: the bodies it moves have no inertia about its axis; give them"
            " mass or the joint armature"
        )
    return shares


def _pivots(H: Array) -> Array:
    """Pivots (n,) of the elimination of H from the last freedom to the first."""
    A = H.copy()
    pivots = np.empty(len(A))
    for k in reversed(range(len(A))):
        pivots[k] = A[k, k]
        if A[k, k] > 0:
            A[:k, :k] -= np.outer(A[:k, k], A[:k, k]) / A[k, k]
    return pivots
