"""Guards: outputs turn NaN at inputs the program must not answer. Free of branches.

    first output += 0 * sum of sqrt(margin),   margin >= 0 where the guarded value is fine

Quaternions must have unit norm: margin = tolerance^2 - (|quaternion|^2 - 1)^2. Pivots that are
safe by sampling only must stay away from zero: with x = 1 / pivot, margin = x (limit - x), or
margin = |pivot| - limit.
Exact readings must not contradict each other: with a residual r among terms of size s,
margin = (tolerance s)^2 - r^2.
Inputs that nothing depends on, such as the position of a floating base, must be finite like the
others, which show it in some output: first output += 0 * input.
Guards are added after simplification, which would rightly find that they change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynsys.program.program import Op, Program
from dynsys.system.size import CONTRADICTION

__all__ = ["guarded"]

TOLERANCE = {"float64": 2e-6, "float32": 1e-3}
"""Allowed error of a quaternion's squared norm."""
CONTRADICTS = {"float64": CONTRADICTION, "float32": 1e-3}
"""Exact rows that miss each other by more than this part of their terms contradict."""


class _Appender:
    """Nodes added behind those of a program."""

    def __init__(self, program: Program) -> None:
        self.op, self.left = program.op.tolist(), program.left.tolist()
        self.right = program.right.tolist()
        self.constants = list(program.constants)
        self._inputs = {
            left: k + 1
            for k, (op, left) in enumerate(zip(self.op, self.left, strict=True))
            if op == Op.INPUT
        }

    def node(self, op: Op, left: int, right: int = 0) -> int:
        self.op.append(int(op))
        self.left.append(left)
        self.right.append(right)
        return len(self.op)

    def constant(self, value: float) -> int:
        self.constants.append(np.longdouble(value))
        return self.node(Op.CONSTANT, len(self.constants) - 1)

    def input(self, number: int) -> int:
        if number not in self._inputs:
            self._inputs[number] = self.node(Op.INPUT, number)
        return self._inputs[number]

    def unread(self, count: int) -> list[int]:
        """Which of the first ``count`` inputs no node stands for."""
        return [number for number in range(count) if number not in self._inputs]


def guarded(
    program: Program,
    quaternions: Sequence[slice],
    dtype: str = "float64",
    reciprocal_limits: Sequence[float] = (),
    *,
    pivot_limits: Sequence[float] = (),
    n_finite: int = 0,
    n_checks: int = 0,
    every: bool = False,
) -> Program:
    """Guard the quaternions among the inputs, and what ends the outputs: pivots and checks.

    The last ``2 n_checks`` outputs are residuals and the squared sizes of their terms, the
    ``len(reciprocal_limits)`` before them reciprocals of pivots, and before those come as many
    pivots as there are ``pivot_limits``; each gets a guard and is then no output any more. The
    first ``n_finite`` inputs must be finite. ``every`` output turns NaN, where who reads them
    may not look at the first.
    """
    n_pivots = len(pivot_limits) + len(reciprocal_limits)
    outputs = program.outputs.tolist()[: len(program.outputs) - n_pivots - 2 * n_checks]
    watched = program.outputs.tolist()[len(outputs) :][:n_pivots]
    pivots, reciprocals = watched[: len(pivot_limits)], watched[len(pivot_limits) :]
    checks = program.outputs.tolist()[len(outputs) + n_pivots :]
    add = _Appender(program)
    unread = add.unread(n_finite)
    if not outputs or not (quaternions or n_pivots or unread or n_checks):
        return program
    margins = [_unit_norm(add, where, TOLERANCE[dtype]) for where in quaternions]
    allowed = CONTRADICTS[dtype] ** 2
    for r, size in zip(checks[:n_checks], checks[n_checks:], strict=True):
        if r:  # else it cancels at every state
            within = add.node(Op.MUL, add.constant(allowed), size)
            margins.append(add.node(Op.ADD, within, -add.node(Op.MUL, r, r)))
    for p, limit in zip(pivots, pivot_limits, strict=True):
        margins.append(add.node(Op.ADD, add.node(Op.ABS, p), -add.constant(limit)))
    for x, limit in zip(reciprocals, reciprocal_limits, strict=True):
        margins.append(add.node(Op.MUL, x, add.node(Op.ADD, add.constant(limit), -x)))
    zero = add.constant(0.0)
    first = outputs[0] or zero
    roots = [add.node(Op.SQRT, margin) for margin in margins]
    if roots:
        total = roots[0]
        for root in roots[1:]:
            total = add.node(Op.ADD, total, root)
        first = add.node(Op.ADD, first, add.node(Op.MUL, zero, total))
    for number in unread:
        first = add.node(Op.ADD, first, add.node(Op.MUL, zero, add.input(number)))
    rest = outputs[1:]
    if every and margins:
        gap = add.node(Op.MUL, zero, first)
        rest = [ref and add.node(Op.ADD, ref, gap) for ref in rest]
    return Program.from_lists(
        add.op, add.left, add.right, add.constants, [first, *rest], program.n_inputs
    )


def _unit_norm(add: _Appender, where: slice, tolerance: float) -> int:
    parts = [add.input(k) for k in range(where.start, where.stop)]
    squares = [add.node(Op.MUL, x, x) for x in parts]
    halves = (add.node(Op.ADD, *squares[:2]), add.node(Op.ADD, *squares[2:]))
    defect = add.node(Op.ADD, add.node(Op.ADD, *halves), -add.constant(1.0))
    return add.node(Op.ADD, add.constant(tolerance**2), -add.node(Op.MUL, defect, defect))
