"""The laws solved for what they determine: d = T z + d_0, z = (qdd, external wrenches).

Given z, the recursion of inverse dynamics yields every other unknown without a division, so T
and d_0 exist at every state, and their sizes with them (:mod:`dynsys.system.size`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dynsys.system.equations import EquationBlock, Kinematics, Term
from dynsys.system.linear_system import LinearSystem
from dynsys.system.size import LawSizes
from dynsys.system.unknowns import UnknownBlock
from dynsys.types import Array, IntArray

__all__ = ["LawResponse", "read_blocks"]


@final
@dataclass(frozen=True, eq=False)
class LawResponse:
    """T (unknowns, freedoms of z) and d_0 (unknowns,) of a robot at any state.

    The laws are those of ``system``, whose equations begin with, or are, the laws of its robot.
    """

    system: LinearSystem

    @property
    def open_columns(self) -> IntArray:
        """Columns of D that z = (qdd, external wrenches) fills, in their order."""
        return self.system.open_columns

    @cached_property
    def _steps(self) -> tuple[tuple[UnknownBlock, EquationBlock, tuple[Term, ...]], ...]:
        """Unknown, its law, and the law's other terms, in the order of inverse dynamics."""
        return tuple(
            (target, law, tuple(term for term in law.terms if term.unknown is not target))
            for law, target in self.system.inverse_dynamics
        )

    @cached_property
    def sizes(self) -> LawSizes:
        """Sizes of T and d_0."""
        return LawSizes(self.system)

    def at(
        self,
        kinematics: Kinematics,
        directions: Array | None = None,
        *,
        bias: bool = True,
    ) -> Array:
        """[T Z, d_0] (unknowns, k + 1) at a state, in the scalars of its kinematics.

        Parameters
        ----------
        kinematics : the state.
        directions : Z (size of z, k), the identity if None.
        bias : False leaves d_0 zero.
        """
        columns = self.open_columns
        Z = np.eye(len(columns)) if directions is None else directions
        size = self.system.unknowns.size, Z.shape[1] + 1
        d = np.zeros(size, dtype=np.result_type(kinematics.qd, np.float64))
        d[columns, :-1] = Z
        for target, law, others in self._steps:
            _add_terms(d[target.slice], others, kinematics, d)
            if bias:
                _add_bias(d[target.slice], law, kinematics)
        return d


def read_blocks(blocks: Iterable[EquationBlock], kinematics: Kinematics, d: Array) -> Array:
    """Y d (rows, k + 1) of unknowns d (n, k + 1), b_Y added to the last column.

    In the scalars of the kinematics.
    """
    parts = [np.zeros((0, d.shape[1]))]
    for block in blocks:
        part = np.zeros((block.size, d.shape[1]), dtype=d.dtype)
        _add_terms(part, block.terms, kinematics, d)
        _add_bias(part, block, kinematics)
        parts.append(part)
    return np.concatenate(parts)


def _add_terms(rows: Array, terms: Iterable[Term], kinematics: Kinematics, d: Array) -> None:
    for term in terms:
        rows += term.at(kinematics) @ d[term.unknown.slice]


def _add_bias(rows: Array, block: EquationBlock, kinematics: Kinematics) -> None:
    if block.bias is not None:
        rows[:, -1] += block.bias(kinematics)
