"""Lambda^-1 in O(n + m^2), the lowest order there can be: PV-OSIMr.

Sathya, Decre and Swevers (IEEE Robotics and Automation Letters, 2024) reach this order because
propagators compose. This is our own derivation from that idea, not their listing. Between two
bodies that matter - operational bodies, and bodies where ways to them part - a chain of joints
acts on wrenches and motions like one joint with

    Psi = L_1 L_2 .. L_k        omega = sum_i P_i^T (S_i D_i^-1 S_i^T) P_i,  P_i = L_i+1 .. L_k

found once per chain, O(n) in all. On the reduced tree, which has at most 2 m bodies, each new
body j costs one product per body before it, O(m^2) in all:

    Omega_ij = Omega_i,parent(j) Psi_j              Omega_jj = omega_j + Psi_j^T Omega_pp Psi_j
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np

from dynsys.jit import Loop
from dynsys.loops.tree_state import TreeState
from dynsys.model.tree import KinematicTree
from dynsys.operational.method import AbstractMethod
from dynsys.operational.omega import (
    Gathering,
    add_transposed_product,
    multiply,
    propagators,
    wanted_bodies,
)
from dynsys.operational.tasks import TaskSpace
from dynsys.types import Array, IntArray

__all__ = ["Method", "ReducedTree", "reduce_tree"]


@final
class Method(AbstractMethod):
    """Propagators, composed along chains, then Omega of the reduced tree: O(n + m^2)."""

    def __init__(self, robot: KinematicTree, space: TaskSpace) -> None:
        super().__init__(robot, space)
        self.reduced = reduce_tree(robot.parent, wanted_bodies(space))
        place, size = self.reduced.place, len(self.reduced.body)
        self.gather = Gathering(space, lambda a, b: place[a] * size + place[b])

    def lambda_inv(self, state: TreeState) -> Array:
        tree, size = self.reduced, len(self.reduced.body)
        psi, omega = np.empty((size, 6, 6)), np.empty((size, 6, 6))
        compose_chains(tree.parent, tree.start, tree.chain, *propagators(state), psi, omega)
        blocks = np.zeros((size, size, 6, 6))
        fill_reduced(tree.parent, psi, omega, blocks)
        return self.gather(state.poses, blocks.reshape(-1, 6, 6))


class ReducedTree(NamedTuple):
    """Bodies that matter: operational ones and those where ways to them part, ascending.

    ``parent`` numbers them by place; ``chain[start[k]:start[k + 1]]`` are the bodies from below
    the parent's up to body[k] itself, in ascending order.
    """

    body: IntArray
    parent: IntArray
    start: IntArray
    chain: IntArray
    place: dict[int, int]


def reduce_tree(parent: Sequence[int] | IntArray, bodies: Sequence[int]) -> ReducedTree:
    """Reduced tree for the given operational bodies.

    Examples
    --------
    >>> tree = reduce_tree([-1, 0, 1, 2, 2, 3, 4], [5, 6])
    >>> tree.body.tolist(), tree.parent.tolist(), tree.chain.tolist()
    ([2, 5, 6], [-1, 0, 0], [0, 1, 2, 3, 5, 4, 6])
    """
    above = [int(p) for p in parent]
    wanted = set(bodies)
    branches: dict[int, int] = {}
    needed: set[int] = set()
    for body in bodies:
        while body >= 0 and body not in needed:
            needed.add(body)
            body = above[body]
            if body >= 0:
                branches[body] = branches.get(body, 0) + 1
    kept = sorted(wanted | {body for body, count in branches.items() if count > 1})
    place = {body: k for k, body in enumerate(kept)}
    parents, chains = [], []
    for body in kept:
        way, below = [body], above[body]
        while below >= 0 and below not in place:
            way.append(below)
            below = above[below]
        parents.append(place.get(below, -1))
        chains.append(way[::-1])
    return ReducedTree(
        np.array(kept, dtype=np.intp),
        np.array(parents, dtype=np.intp),
        np.cumsum([0, *map(len, chains)]).astype(np.intp),
        np.array([body for way in chains for body in way], dtype=np.intp),
        place,
    )


@Loop
def compose_chains(
    parent: IntArray,
    start: IntArray,
    chain: IntArray,
    propagator: Array,
    mobility: Array,
    psi: Array,
    omega: Array,
) -> None:
    """Psi and omega (size, 6, 6) of every chain from the propagators of its joints.

    Psi of a chain on the base is never asked for and is left as its first joint's.
    """
    half, new = np.empty((6, 6)), np.empty((6, 6))
    for b in range(len(start) - 1):
        psi[b] = propagator[chain[start[b]]]
        omega[b] = mobility[chain[start[b]]]
        for p in range(start[b] + 1, start[b + 1]):
            step = propagator[chain[p]]
            multiply(omega[b], step, half)
            if parent[b] >= 0:  # psi = psi L
                multiply(psi[b], step, new)
                psi[b] = new
            omega[b] = mobility[chain[p]]  # omega = S D^-1 S' + L' omega L
            add_transposed_product(step, half, omega[b])


@Loop
def fill_reduced(parent: IntArray, psi: Array, omega: Array, blocks: Array) -> None:
    """Omega of the reduced tree (size, size, 6, 6), zeros at first, all bodies at once."""
    for j in range(len(parent)):
        p = parent[j]
        if p >= 0:
            for i in range(j):
                multiply(blocks[i, p], psi[j], blocks[i, j])
                blocks[j, i] = blocks[i, j].T
        blocks[j, j] = omega[j]
        if p >= 0:
            add_transposed_product(psi[j], blocks[p, j], blocks[j, j])
