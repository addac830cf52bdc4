"""Kinetic and potential energy of a robot, by compiled loops. O(n)."""

from __future__ import annotations

import numpy as np

from dynsys.jit import Loop
from dynsys.loops.packed import PackedTree, Poses
from dynsys.types import Array, IntArray

__all__ = ["kinetic_energy", "potential_energy"]


def kinetic_energy(tree: PackedTree, X: Array, v: Array) -> float:
    """1/2 v^T M v from body velocities; X (N, 6, 6) parent -> body, v (nv,)."""
    velocity = np.zeros((len(X), 6))
    body_velocities(tree.parent, tree.first, X, tree.S, v, velocity)
    momentum = np.einsum("ijk,ik->ij", tree.inertia, velocity)
    return float(0.5 * np.sum(velocity * momentum) + 0.5 * np.sum(tree.armature * v * v))


def potential_energy(tree: PackedTree, poses: Poses, gravity: Array) -> float:
    """-sum m g . c over all bodies, zero at the base's origin."""
    mass = tree.inertia[:, 3, 3]
    moment = tree.inertia[:, [2, 0, 1], [4, 5, 3]]  # m c, from the block m [c]x
    centres = mass[:, None] * poses.r + np.einsum("kji,kj->ki", poses.E, moment)
    return float(-(centres.sum(axis=0) @ gravity))


@Loop
def body_velocities(
    parent: IntArray, first: IntArray, X: Array, S: Array, v: Array, velocity: Array
) -> None:
    """Spatial velocity (N, 6) of every body, body coordinates; zeros at first."""
    for i in range(len(parent)):
        for r in range(6):
            if parent[i] >= 0:
                for c in range(6):
                    velocity[i, r] += X[i, r, c] * velocity[parent[i], c]
            for k in range(first[i], first[i + 1]):
                velocity[i, r] += S[k, r] * v[k]
