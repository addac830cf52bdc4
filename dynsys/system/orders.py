"""The recursive Newton-Euler algorithm as a pair of permutations: Property 1 of [NORI].

``D[row_order][:, col_order]`` of inverse dynamics is lower triangular with -1 and 1 on its
diagonal, so forward substitution solves it without factorisation.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dynsys.system.equations import EquationBlock
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownBlock, UnknownKind
from dynsys.types import IntArray

__all__ = ["rnea_order"]


def rnea_order(system: LinearSystem) -> tuple[IntArray, IntArray]:
    """Row and column order that make inverse dynamics lower triangular, [NORI] eq. (10)-(11).

    columns  f^x_1, qdd_1 .. f^x_N, qdd_N,  a_1 .. a_N,  (f^B_N), f_N, tau_N ..
             (f^B_1), f_1, tau_1
    rows     the known-quantity equations, acceleration, (net wrench), balance and torque laws,
             each in the place of the unknown it determines

    Beyond (10)-(11): a torque waits for the last wrench of the joints coupled to it (mimic),
    and f^B_i, where it is an unknown, comes just before f_i.

    Parameters
    ----------
    system : laws plus all external wrenches and all joint accelerations as known quantities.
    """
    columns: list[UnknownBlock] = []
    rows: list[EquationBlock] = []
    for kind, body in _rnea_sequence(system):
        columns.append(system.unknowns.block(kind, body))
        rows.append(determining_equation(system, kind, body))
    return stacked(system.rows(block) for block in rows), stacked(b.columns for b in columns)


def _rnea_sequence(system: LinearSystem) -> Iterable[tuple[UnknownKind, int]]:
    robot = system.robot
    driven = system.unknowns.driven
    complete_at: dict[int, list[int]] = {}
    for leader, joints in driven.items():
        complete_at.setdefault(min(joints), []).append(leader)
    for i in range(robot.n_bodies):
        yield "external_wrench", i
        if i in driven:
            yield "qdd", i
    for i in range(robot.n_bodies):
        yield "acceleration", i
    for i in reversed(range(robot.n_bodies)):
        if system.unknowns.net_wrench:
            yield "net_wrench", i
        yield "joint_wrench", i
        for leader in complete_at.get(i, ()):
            yield "torque", leader


_DETERMINED_BY = {
    "external_wrench": "known_external_wrench",
    "qdd": "known_qdd",
    "acceleration": "acceleration",
    "net_wrench": "net_wrench",
    "joint_wrench": "balance",
    "torque": "torque",
}


def determining_equation(system: LinearSystem, kind: UnknownKind, body: int) -> EquationBlock:
    """Return the equation that gives an unknown in the recursion of inverse dynamics."""
    names = system.robot.joint_names if kind in ("torque", "qdd") else system.robot.body_names
    return system.equation(f"{_DETERMINED_BY[kind]}({names[body]})")


def stacked(blocks: Iterable[IntArray]) -> IntArray:
    """One index array from those of blocks."""
    return np.concatenate(list(blocks)).astype(np.intp)
