"""The laws solved for what they determine: d = T z + d_0, with z = (qdd, external wrenches).

The laws D d + b_D = 0 leave exactly the joint accelerations and the external wrenches open.
Given those, the recursion of inverse dynamics yields every other unknown without a division,
so T and d_0 exist at every state and estimation is a small problem in z.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dynsys.system.equations import EquationBlock, Kinematics, Term
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownBlock, UnknownKind
from dynsys.types import Array, IntArray

__all__ = ["LawResponse"]

_GIVEN_BY: dict[str, UnknownKind] = {
    "acceleration": "acceleration",
    "net_wrench": "net_wrench",
    "balance": "joint_wrench",
    "torque": "torque",
}
"""Unknown that each law gives; its coefficient there is minus one."""


@final
@dataclass(frozen=True, eq=False)
class LawResponse:
    """T (unknowns, freedoms of z) and d_0 (unknowns,) of a robot at any state.

    Parameters
    ----------
    system : a system whose equations begin with, or are, the laws of its robot.
    """

    system: LinearSystem

    @cached_property
    def open_blocks(self) -> tuple[UnknownBlock, ...]:
        """The unknowns z, in the order of their columns."""
        blocks = self.system.unknowns.blocks
        return tuple(b for b in blocks if b.kind in ("qdd", "external_wrench"))

    @cached_property
    def open_columns(self) -> IntArray:
        """Columns of D that z fills."""
        return np.concatenate([block.columns for block in self.open_blocks])

    @cached_property
    def _steps(self) -> tuple[tuple[UnknownBlock, EquationBlock, tuple[Term, ...]], ...]:
        """Unknown, its law, and the law's other terms, in the order of inverse dynamics."""
        unknowns = self.system.unknowns
        laws: dict[tuple[str, int], EquationBlock] = {}
        for equation in self.system.equations:
            if not equation.measured and equation.kind in _GIVEN_BY:
                laws[equation.kind, equation.body] = equation
        bodies = range(unknowns.robot.n_bodies)
        order = [("acceleration", i) for i in bodies]
        for i in reversed(bodies):
            if unknowns.net_wrench:
                order.append(("net_wrench", i))
            order.append(("balance", i))
        order += [("torque", i) for i in unknowns.driven]
        steps = []
        for key in order:
            law = laws[key]
            target = unknowns.block(_GIVEN_BY[law.kind], law.body)
            others = tuple(term for term in law.terms if term.unknown is not target)
            steps.append((target, law, others))
        return tuple(steps)

    def at(
        self,
        kinematics: Kinematics,
        directions: Array | None = None,
        *,
        bias: bool = True,
        absolute: bool = False,
    ) -> Array:
        """[T Z, d_0] (unknowns, k + 1) at a state, in the scalars of its kinematics.

        Parameters
        ----------
        kinematics : the state.
        directions : Z (size of z, k), the identity if None.
        bias : False leaves d_0 zero.
        absolute : True sums the magnitudes of all terms instead.
        """
        columns = self.open_columns
        Z = np.eye(len(columns)) if directions is None else directions
        size = self.system.unknowns.size, Z.shape[1] + 1
        d = np.zeros(size, dtype=np.result_type(kinematics.qd, np.float64))
        d[columns, :-1] = np.abs(Z) if absolute else Z
        for target, law, others in self._steps:
            value = d[target.slice]
            for term in others:
                coefficient = term.value(kinematics) if callable(term.value) else term.value
                value += (abs(coefficient) if absolute else coefficient) @ d[term.unknown.slice]
            if bias and law.bias is not None:
                given = law.bias(kinematics)
                value[:, -1] += abs(given) if absolute else given
        return d
