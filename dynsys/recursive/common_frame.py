"""Freedoms of a tree in one common frame, from whose products H and H^-1 are made.

    composite bodies     H_ij = F_i . S_j             F_i = Ic_i S_i        ([RBDA] section 6.2)
    articulated bodies   L_ij = U_i . S_j / D_i       U_i = IA_i S_i, D_i = S_i . U_i + armature

for freedoms j that support freedom i. The inertias are gathered in body frames, where S_i is
constant; S, F and U are then expressed once in the common frame, so that every pair of freedoms
costs six products however far apart it is. Joints of several freedoms come apart into single
ones, the last freedom nearest to the body.

The common frame is the base's or, if one body floats freely and carries all others, that
body's: H does not depend on where it floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynsys.model.spatial import Transform, cross
from dynsys.model.tree import Mechanism
from dynsys.recursive.aba import gather_inertias, without_joint
from dynsys.recursive.crba import Composite
from dynsys.recursive.kinematics import transforms
from dynsys.types import ScalarArray

__all__ = ["Freedoms", "articulated_freedoms", "common_poses", "composite_freedoms"]


class Freedoms(NamedTuple):
    """Per freedom: D or H_ii (nv,), motion S and wrench F or U (6, nv) in the common frame."""

    diagonal: ScalarArray
    motion: ScalarArray
    wrench: ScalarArray


def common_poses(mechanism: Mechanism, X_up: Sequence[Transform]) -> list[Transform]:
    """Transform common frame -> body of every body that moves; see the module."""
    root = _floating_root(mechanism)
    poses: list[Transform] = []
    for i, (parent, X) in enumerate(zip(mechanism.parent, X_up, strict=True)):
        if i <= root:
            poses.append(Transform.identity())
        else:
            poses.append(X if parent < 0 else poses[parent].then(X))
    return poses


def _floating_root(mechanism: Mechanism) -> int:
    """Body with six freedoms that carries every other moving body, or -1."""
    sizes = [v.stop - v.start for v in mechanism.v_slices()]
    root = next((i for i, size in enumerate(sizes) if size), -1)
    if root < 0 or np.linalg.matrix_rank(mechanism.motion_subspace[root]) < 6:
        return -1
    carried = {root}
    for i in range(root + 1, mechanism.n_bodies):
        if int(mechanism.parent[i]) in carried:
            carried.add(i)
        elif sizes[i]:
            return -1
    return root


def composite_freedoms(mechanism: Mechanism, q: ScalarArray) -> Freedoms:
    """H_ii, S and F = Ic S of every freedom, over scalars of any kind. O(n)."""
    X_up = transforms(mechanism, q)
    poses = common_poses(mechanism, X_up)
    composite = [Composite.of(moments) for moments in mechanism.moments]
    out = _empty(mechanism, q)
    for i in reversed(range(mechanism.n_bodies)):
        for s, k in _columns(mechanism, i):
            F = composite[i].times(s)
            _put(out, k, poses[i], s, F, s @ F + mechanism.armature[k])
        if (parent := int(mechanism.parent[i])) >= 0:
            composite[parent] = composite[parent].plus(composite[i].seen_by_parent(X_up[i]))
    return out


def articulated_freedoms(
    mechanism: Mechanism, q: ScalarArray
) -> tuple[Freedoms, list[Transform]]:
    """D, S and U = IA S of every freedom, and the poses common frame -> body. O(n)."""
    X_up = transforms(mechanism, q)
    poses = common_poses(mechanism, X_up)
    out = _empty(mechanism, q)

    def pass_joint(i: int, Ia: ScalarArray) -> ScalarArray:
        for s, k in reversed(_columns(mechanism, i)):
            U = Ia @ s
            D = s @ U + mechanism.armature[k]
            _put(out, k, poses[i], s, U, D)
            reciprocal = np.array([[1 / D]])
            armature = bool(mechanism.armature[k])
            Ia = without_joint(Ia, s[:, None], U[:, None], reciprocal, armature=armature)
        return Ia

    gather_inertias(mechanism, X_up, pass_joint)
    return out, poses


def _empty(mechanism: Mechanism, q: ScalarArray) -> Freedoms:
    n = mechanism.nv
    return Freedoms(
        np.zeros(n, dtype=q.dtype),
        np.zeros((6, n), dtype=q.dtype),
        np.zeros((6, n), dtype=q.dtype),
    )


def _columns(mechanism: Mechanism, i: int) -> list[tuple[ScalarArray, int]]:
    """(S, freedom) of every freedom of joint i."""
    v = mechanism.v_slices()[i]
    S = mechanism.motion_subspace[i]
    return [(S[:, k - v.start], k) for k in range(v.start, v.stop)]


def _put(
    out: Freedoms,
    k: int,
    pose: Transform,
    s: ScalarArray,
    wrench: ScalarArray,
    diagonal: object,
) -> None:
    out.diagonal[k] = diagonal
    turned = pose.E.T @ s[:3]
    out.motion[:, k] = np.concatenate([turned, pose.E.T @ s[3:] + cross(pose.r, turned)])
    out.wrench[:, k] = pose.force_back(wrench)
