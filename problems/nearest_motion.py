"""Nearest motion and wrenches that meet exact statements, as machine code.

    minimise  |(qdd - qdd_0) / size|^2 + |(f - f_0) / size|^2
    subject to the laws, the statements  Y d + b = y, and components of f that are known

This is an estimator whose measurements are qdd_0 and f_0 with the sizes as noise: one
elimination in tree order, where the general way needs a pseudo-inverse per state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dynsys.errors import KernelBuildError
from dynsys.kernel.estimators import estimation_kernel
from dynsys.kernel.kernel import Kernel
from dynsys.system.equations import EquationBlock, Term, Values
from dynsys.system.laws import known_inputs
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, IntArray
from sensors import Layout

__all__ = ["NearestMotion"]


@final
@dataclass(frozen=True, eq=False)
class NearestMotion:
    """See the module.

    Parameters
    ----------
    layout : the sensors; some of their rows are the statements.
    statements : numbers of those rows.
    wrench_sizes : (6 n_bodies,) natural size of a change; zero where a component is known.
    qdd_sizes : (nv,) likewise.
    """

    layout: Layout
    statements: IntArray
    wrench_sizes: Array
    qdd_sizes: Array

    @cached_property
    def _unknowns(self) -> UnknownLayout:
        return UnknownLayout(self.layout.robot, net_wrench=True)

    @cached_property
    def _given(self) -> tuple[EquationBlock, ...]:
        """Every wrench and every joint acceleration, body by body."""
        return known_inputs(self._unknowns, range(self.layout.robot.n_bodies))

    def _inputs(self, wrenches: Array, qdd: Array) -> Array:
        """Given quantities (..., rows) from wrenches (..., 6 n_bodies) and qdd (..., nv)."""
        parts = [
            qdd[..., self._unknowns.freedoms[block.body]]
            if block.kind == "known_qdd"
            else wrenches[..., 6 * block.body : 6 * block.body + 6]
            for block in self._given
        ]
        return np.concatenate(parts, axis=-1)

    @cached_property
    def _stated(self) -> tuple[EquationBlock, ...]:
        """The equations of the sensors, their statements alone."""
        found: list[EquationBlock] = []
        for block in self.layout.equations(self._unknowns):
            place = self.layout.slice(block.name)
            inside = (self.statements >= place.start) & (self.statements < place.stop)
            if inside.any():
                found.append(_some_rows(block, self.statements[inside] - place.start))
        return tuple(found)

    @cached_property
    def kernel(self) -> Kernel | None:
        """Machine code, None where pivots that are safe at every state do not exist."""
        sizes = self._inputs(self.wrench_sizes, self.qdd_sizes)
        noise = np.concatenate([sizes**2, np.zeros(len(self.statements))])
        try:
            return estimation_kernel(
                self.layout.robot,
                (*self._given, *self._stated),
                np.diag(noise),
                ("qdd", "external_wrench"),
            )
        except KernelBuildError:
            return None

    def at(self, q: Array, qd: Array, qdd: Array, f: Array) -> tuple[Array, Array] | None:
        """Accelerations (N, nv) and wrenches (N, 6 n_bodies); NaN where there is no answer."""
        if self.kernel is None:
            return None
        stated = np.broadcast_to(
            self.layout.constants[self.statements], (len(q), len(self.statements))
        )
        y = np.hstack([self._inputs(f, qdd), stated])
        (near_qdd, near_f), _ = self.kernel.batch(q, qd, y)
        return near_qdd, near_f


def _some_rows(block: EquationBlock, rows: IntArray) -> EquationBlock:
    def of(values: Array | Values) -> Array | Values:
        if callable(values):
            return lambda kinematics: values(kinematics)[rows]
        return values[rows]

    return EquationBlock(
        name=block.name,
        kind=block.kind,
        body=block.body,
        size=len(rows),
        terms=tuple(Term(t.unknown, t.pattern[rows], of(t.value)) for t in block.terms),
        bias=None if block.bias is None else lambda kin: block.bias_at(kin)[rows],
        measured=True,
    )
