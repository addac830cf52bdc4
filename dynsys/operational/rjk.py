"""The recursion of Rodriguez, Jain and Kreutz-Delgado for Omega = S H^-1 S^T ([OSI] figure 14).

    leaves to base:   D_i = S_i^T P_i S_i + armature      U_i = P_i S_i
                      tau_i = 1 - U_i D_i^-1 S_i^T        P_parent += X_i^T (tau_i P_i) X_i
    base to leaves:   Omega_ii = S_i D_i^-1 S_i^T + (X_i^T tau_i)^T Omega_pp (X_i^T tau_i)
    branches:         Omega_ij from the parents' block

P_i is an articulated-body inertia, Omega_ij (6, 6) the velocity of body i per impulsive wrench
on body j, each in its own coordinates. Cost O(N + m^2 d). [ROD] had it first.
"""

from __future__ import annotations

import numpy as np

from dynsys.jit import Loop
from dynsys.loops.packed import PackedTree
from dynsys.operational.need import BlockPlan, Kind
from dynsys.types import Array, IntArray

__all__ = ["omega_blocks", "propagators"]

DIAGONAL, SUPPORTING = int(Kind.DIAGONAL), int(Kind.SUPPORTING)
TRANSPOSED, ZERO = int(Kind.BRANCHES_TRANSPOSED), int(Kind.ZERO)


def propagators(tree: PackedTree, X: Array) -> tuple[Array, Array]:
    """psi_i = X_i^T tau_i and S_i D_i^-1 S_i^T of every body, both (N, 6, 6).

    psi takes forces to the parent past the joint, its transpose motions back. A joint that
    moves no inertia gives values that are not finite.
    """
    psi, mobility = np.empty_like(X), np.zeros_like(X)
    articulate(
        tree.parent, X, tree.inertia.copy(), tree.S, tree.first, tree.armature, psi, mobility
    )
    return psi, mobility


def omega_blocks(plan: BlockPlan, psi: Array, mobility: Array) -> Array:
    """Needed blocks of Omega (n_blocks, 6, 6), in the order of the plan."""
    blocks = np.zeros((len(plan.i), 6, 6))
    propagate(plan.i, plan.j, plan.kind, plan.source, psi, mobility, blocks)
    return blocks


@Loop
def articulate(
    parent: IntArray,
    X: Array,
    P: Array,
    S: Array,
    first: IntArray,
    armature: Array,
    psi: Array,
    mobility: Array,
) -> None:
    """Second loop of [OSI] figure 14; P (N, 6, 6) are inertias first, articulated in the end.

    A joint of several freedoms is passed one freedom at a time, last first, each by a rank-one
    step: the joint is the chain of the expanded graph, with massless bodies between.
    """
    U, half = np.empty(6), np.empty((6, 6))
    for i in range(len(parent) - 1, -1, -1):
        for r in range(6):
            for c in range(6):
                psi[i, r, c] = 1.0 if r == c else 0.0  # tau of the joint so far
        for k in range(first[i + 1] - 1, first[i] - 1, -1):
            D = armature[k]
            for r in range(6):
                U[r] = 0.0
                for c in range(6):
                    U[r] += P[i, r, c] * S[k, c]
                D += S[k, r] * U[r]
            for r in range(6):  # past this freedom: tau_k tau, tau^T s D^-1 s^T tau
                half[0, r] = 0.0
                for c in range(6):
                    half[0, r] += S[k, c] * psi[i, c, r]
            for r in range(6):
                for c in range(6):
                    mobility[i, r, c] += half[0, r] * half[0, c] / D
            for r in range(6):
                for c in range(6):
                    psi[i, r, c] -= U[r] / D * half[0, c]
            for r in range(6):
                for c in range(6):
                    P[i, r, c] -= U[r] * U[c] / D
        if parent[i] >= 0:
            for r in range(6):
                for c in range(6):
                    half[r, c] = 0.0
                    for k in range(6):
                        half[r, c] += P[i, r, k] * X[i, k, c]
            for r in range(6):
                for c in range(6):
                    for k in range(6):
                        P[parent[i], r, c] += X[i, k, r] * half[k, c]
        half[:, :] = psi[i]
        for r in range(6):
            for c in range(6):
                psi[i, r, c] = 0.0
                for k in range(6):
                    psi[i, r, c] += X[i, k, r] * half[k, c]


@Loop
def propagate(
    row: IntArray,
    column: IntArray,
    kind: IntArray,
    source: IntArray,
    psi: Array,
    mobility: Array,
    blocks: Array,
) -> None:
    """Third and fourth loop of [OSI] figure 14."""
    half = np.empty((6, 6))
    for b in range(len(row)):
        i, j = row[b], column[b]
        if kind[b] == DIAGONAL:
            blocks[b] = mobility[i]
        if kind[b] == ZERO or source[b] < 0:
            continue
        for r in range(6):
            for c in range(6):
                half[r, c] = 0.0
                for k in range(6):
                    if kind[b] == TRANSPOSED:
                        half[r, c] += blocks[source[b], k, r] * psi[j, k, c]
                    else:
                        half[r, c] += blocks[source[b], r, k] * psi[j, k, c]
        if kind[b] == SUPPORTING:
            blocks[b] = half
            continue
        for r in range(6):
            for c in range(6):
                for k in range(6):
                    blocks[b, r, c] += psi[i, k, r] * half[k, c]
