"""Coriolis matrix C(q, qd) (nv, nv):  torque = H qdd + C qd + gravity,  Hdot = C + C^T. O(n d).

With the Jacobians of all particles, C = sum m J^T dJ/dt; gathered per body in one frame,

    C_ij = S_i . (I dS_j + B S_j)           C_ji = S_j . (I dS_i + B S_i)

for every freedom j that supports freedom i, I and B those of all bodies that i carries and
B + B^T = dI/dt (Echeandia, Wensing, RA-L 2021; Niemeyer, Slotine 1991). Hence Hdot - 2 C is
skew, which passivity-based control needs, and C is the one of Christoffel's symbols where
qd are rates of coordinates. Friction is no part of it.
"""

from __future__ import annotations

import numpy as np

from dynsys.model.tree import KinematicTree, Mechanism
from dynsys.recursive.derivatives import Freedom, move_freedoms
from dynsys.types import Array, ArrayLike, ScalarArray

__all__ = ["coriolis_matrix", "coriolis_scalars"]


def coriolis_matrix(robot: KinematicTree, q: ArrayLike, qd: ArrayLike) -> Array:
    """C (nv, nv) with C qd = rnea(q, qd, 0) - rnea(q, 0, 0) and Hdot - 2 C skew."""
    return coriolis_scalars(robot, robot.check_q(q), robot.check_v(qd, "qd"))


def coriolis_scalars(robot: Mechanism, q: ScalarArray, qd: ScalarArray) -> ScalarArray:
    """C (nv, nv) over scalars of any kind; see :func:`coriolis_matrix`."""
    freedoms, carried, above = move_freedoms(robot, q, qd, np.zeros(robot.nv), None)
    C = np.zeros((robot.nv, robot.nv), dtype=np.result_type(q, qd))
    for i in reversed(range(robot.n_bodies)):
        if above[i] >= 0:
            carried[above[i]].add(carried[i])
    for i, own in enumerate(freedoms):
        load = carried[i]
        down: list[Freedom] = []
        j = above[i]
        while own and j >= 0:
            down += freedoms[j]
            j = above[j]
        for x in own:
            # Carried.B is twice the B of this module
            column = load.inertia_times(x.dS) + load.B_times(x.S) / 2
            row, row_B = load.inertia_times(x.S), load.B_transposed_times(x.S) / 2
            for y in own:
                C[y.place, x.place] = C[y.place, x.place] + y.S @ column
            for y in down:
                C[x.place, y.place] = C[x.place, y.place] + row @ y.dS + row_B @ y.S[:3]
                C[y.place, x.place] = C[y.place, x.place] + y.S @ column
    return C
