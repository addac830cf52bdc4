"""Values of laws and readings at a state, by machine code of their own.

    entries of [D; Y] in the order of their pattern, and [b_D; b_Y], from (q, qd)

The general path fills its matrices with them at every state. Python takes a millisecond for
that on a humanoid, machine code some microseconds; it is compiled once it pays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import numpy as np

from dynsys.errors import DynsysError
from dynsys.kernel.build import kernel_from
from dynsys.kernel.python_entry import FastCall
from dynsys.loops import prefer_loops
from dynsys.plan.record import sample_states
from dynsys.program.graph import Graph
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.system.equations import Kinematics
from dynsys.types import Array
from problems.measured.measured_system import MeasuredSystem

__all__ = ["PATIENCE", "Assembly"]

PATIENCE = 32
"""States that are assembled by Python before code for it is compiled."""


@final
@dataclass(eq=False)
class Assembly:
    """Fills the values of a measured system, state after state.

    ``patience``: so many more states are filled by Python.
    """

    measured: MeasuredSystem
    patience: int = field(default_factory=lambda: PATIENCE)

    def settle(self, states: int) -> None:
        """Fill so many states in one way, from the first on: both ways round differently."""
        self.patience = 0 if states > PATIENCE else states

    def at(self, q: Array, qd: Array) -> tuple[Array, Array]:
        """Entries (nnz,) of the whole system, and b (rows,) without y."""
        self.patience -= 1
        call = self._call if self.patience < 0 else None
        if call is not None:
            whole = self.measured.whole
            data, b = np.empty(whole.nnz), np.empty(whole.shape[0])
            if call(q, qd, data, b):
                return data, b
        return self.measured.whole.values(Kinematics.at(self.measured.robot, q, qd))

    @cached_property
    def _call(self) -> FastCall | None:
        """Machine code f(q, qd, entries, b); None if there is none."""
        measured = self.measured
        robot, whole = measured.robot, measured.whole
        if prefer_loops(robot) or not whole.nnz:
            return None
        inputs = (("q", robot.nq), ("qd", robot.nv))
        outputs = (("entries", whole.nnz), ("b", whole.shape[0]))
        states = sample_states(robot, 3, 7)
        try:
            made_from = ("assembly", *measured.identity)
            kernel = kernel_from(self.program, Signature(inputs, outputs), states, made_from)
        except (DynsysError, TypeError):  # rows of the user's own that take numbers only
            return None
        return kernel.fast

    def program(self) -> Program:
        """Entries and b from q and qd; TypeError if some rows take numbers only."""
        graph, robot = Graph(), self.measured.robot
        q, qd = graph.inputs(robot.nq), graph.inputs(robot.nv)
        data, b = self.measured.whole.values(Kinematics.at(robot, q, qd))
        return graph.program([*data, *b])
