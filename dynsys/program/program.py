"""Program: a computation as straight-line code over flat arrays, with its plain evaluators.

References are signed: node k is referred to as k + 1, its negative as -(k + 1), so that
negation costs nothing; 0 is exact zero. :meth:`Program.evaluate` computes the outputs node by
node, :func:`evaluate_nodes` the values of all nodes, depth by depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dynsys.types import IntArray, ScalarArray

__all__ = [
    "BINARY",
    "UFUNC",
    "UNARY",
    "Op",
    "Program",
    "evaluate_nodes",
    "in_order_of_need",
    "node_depths",
    "side_by_side",
    "with_inputs",
    "without_dead_code",
]


class Op(IntEnum):
    """What a node computes from its operands l and r."""

    CONSTANT = 0
    INPUT = 1
    ADD = 2  # l + r
    MUL = 3  # l * r
    DIV = 4  # l / r
    SIN = 5
    COS = 6
    SQRT = 7
    ABS = 8
    MIN = 9
    MAX = 10


UNARY = (Op.SIN, Op.COS, Op.SQRT, Op.ABS)
BINARY = (Op.ADD, Op.MUL, Op.DIV, Op.MIN, Op.MAX)


@final
@dataclass(frozen=True, eq=False)
class Program:
    """A straight-line computation: node k is ``op[k]`` of its signed references.

    ``left`` of an INPUT is the input's number, of a CONSTANT its place in ``constants``.
    Operands come before their users. ``outputs`` are signed references.
    """

    op: NDArray[np.int8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    constants: NDArray[np.longdouble]
    outputs: NDArray[np.int32]
    n_inputs: int

    @classmethod
    def from_lists(
        cls,
        op: Sequence[int],
        left: Sequence[int],
        right: Sequence[int],
        constants: Sequence[np.longdouble],
        outputs: Sequence[int],
        n_inputs: int,
    ) -> Program:
        """Freeze nodes that were collected in lists."""
        return cls(
            np.array(op, dtype=np.int8),
            np.array(left, dtype=np.int32),
            np.array(right, dtype=np.int32),
            np.array(constants, dtype=np.longdouble),
            np.array(outputs, dtype=np.int32),
            n_inputs,
        )

    @property
    def n_nodes(self) -> int:
        """Number of nodes, constants and inputs included."""
        return len(self.op)

    def count(self) -> dict[str, int]:
        """Operations executed per evaluation, exactly: each node is executed once."""
        kinds = np.bincount(self.op, minlength=len(Op))
        return {op.name.lower(): int(kinds[op]) for op in Op if op > Op.INPUT}

    def evaluate(self, inputs: ScalarArray) -> ScalarArray:
        """Outputs (..., n_outputs) from inputs (..., n_inputs), in the dtype of ``inputs``.

        The readable twin of the compiled kernels: one vectorised operation per node.
        """
        x = np.moveaxis(np.asarray(inputs), -1, 0)
        values: list[Any] = []
        constant, given, of_one = Op.CONSTANT, Op.INPUT, frozenset(UNARY)

        def get(ref: int) -> Any:
            return values[ref - 1] if ref > 0 else -values[-ref - 1]

        for op, left, right in zip(
            self.op.tolist(), self.left.tolist(), self.right.tolist(), strict=True
        ):
            if op == constant:
                values.append(np.full(x.shape[1:], self.constants[left], dtype=x.dtype))
            elif op == given:
                values.append(x[left])
            elif op in of_one:
                values.append(UFUNC[op](get(left)))
            else:
                values.append(UFUNC[op](get(left), get(right)))
        out = np.empty((*x.shape[1:], len(self.outputs)), dtype=x.dtype)
        for k, ref in enumerate(self.outputs.tolist()):
            out[..., k] = 0 if ref == 0 else get(ref)
        return out


UFUNC: dict[int, Any] = {
    Op.ADD: np.add,
    Op.MUL: np.multiply,
    Op.DIV: np.divide,
    Op.SIN: np.sin,
    Op.COS: np.cos,
    Op.SQRT: np.sqrt,
    Op.ABS: np.abs,
    Op.MIN: np.minimum,
    Op.MAX: np.maximum,
}


def with_inputs(program: Program, at: int = 0) -> Program:
    """The program that has all of its inputs as outputs too, before the output ``at``."""
    places = np.zeros(program.n_inputs, dtype=np.int32)
    given = np.flatnonzero(program.op == Op.INPUT)
    places[program.left[given]] = given + 1
    missing = np.flatnonzero(places == 0).astype(np.int32)  # of no use to the outputs
    places[missing] = program.n_nodes + 1 + np.arange(len(missing))
    return replace(
        program,
        op=np.append(program.op, np.full(len(missing), Op.INPUT, dtype=np.int8)),
        left=np.append(program.left, missing),
        right=np.append(program.right, np.zeros_like(missing)),
        outputs=np.insert(program.outputs, at, places),
    )


def without_dead_code(program: Program) -> Program:
    """Keep the nodes that the outputs depend on, in their order."""
    lefts, rights = _operands(program)
    needed = np.zeros(program.n_nodes + 1, dtype=bool)
    needed[np.abs(program.outputs)] = True
    flags = needed.tolist()
    for k in range(program.n_nodes - 1, -1, -1):
        if flags[k + 1]:
            flags[lefts[k]] = flags[rights[k]] = True
    return _taken(program, np.flatnonzero(flags[1:]))


def in_order_of_need(program: Program) -> Program:
    """The same operations, each computed when the first that needs it is about to be.

    Eliminations are recorded pivot by pivot, which updates each entry once for every pivot: a
    load, an operation and a store. Depth first from the outputs, the first operand first, all
    updates of an entry follow each other, and it stays in a register. Less traffic, less code.
    """
    lefts, rights = _operands(program)
    done, order = [False] * (program.n_nodes + 1), []
    done[0] = True  # no operand
    for root in np.unique(np.abs(program.outputs)).tolist():
        stack = [root]
        while stack:
            k = stack[-1]
            if done[k]:
                stack.pop()
            elif not done[lefts[k - 1]]:
                stack.append(lefts[k - 1])
            elif not done[rights[k - 1]]:
                stack.append(rights[k - 1])
            else:
                done[stack.pop()] = True
                order.append(k - 1)
    return _taken(program, np.array(order, dtype=np.intp))


def _operands(program: Program) -> tuple[list[int], list[int]]:
    """Nodes, counted from 1, that each node needs; 0 for none."""
    binary = np.isin(program.op, BINARY)
    has_left = binary | np.isin(program.op, UNARY)
    lefts, rights = np.abs(program.left) * has_left, np.abs(program.right) * binary
    return lefts.tolist(), rights.tolist()


def _taken(program: Program, order: IntArray) -> Program:
    """Nodes ``order`` of a program, operands first, renumbered; and their constants."""
    renumber = np.zeros(program.n_nodes + 1, dtype=np.int32)
    renumber[order + 1] = np.arange(1, len(order) + 1)
    op, left, right = program.op[order], program.left[order], program.right[order]
    binary, is_constant = np.isin(op, BINARY), op == Op.CONSTANT
    has_left, used = binary | np.isin(op, UNARY), left[is_constant]
    left[has_left] = (np.sign(left) * renumber[np.abs(left) * has_left])[has_left]
    right[binary] = (np.sign(right) * renumber[np.abs(right) * binary])[binary]
    left[is_constant] = np.arange(len(used))
    outputs = np.sign(program.outputs) * renumber[np.abs(program.outputs)]
    constants = program.constants[used]
    return Program(op, left, right, constants, outputs.astype(np.int32), program.n_inputs)


def side_by_side(first: Program, second: Program) -> Program:
    """Outputs of both programs, on the same inputs."""
    if first.n_inputs != second.n_inputs:
        raise ValueError("the programs have different inputs")
    shift = first.n_nodes
    operand = np.isin(second.op, UNARY + BINARY)
    is_constant = second.op == Op.CONSTANT
    left = np.where(operand, second.left + shift * np.sign(second.left), second.left)
    left = np.where(is_constant, left + len(first.constants), left)
    right = np.where(
        np.isin(second.op, BINARY), second.right + shift * np.sign(second.right), 0
    )
    outputs = second.outputs + shift * np.sign(second.outputs)
    return Program(
        np.concatenate([first.op, second.op]),
        np.concatenate([first.left, left]).astype(np.int32),
        np.concatenate([first.right, right]).astype(np.int32),
        np.concatenate([first.constants, second.constants]),
        np.concatenate([first.outputs, outputs]).astype(np.int32),
        first.n_inputs,
    )


# ---- all nodes at several states -------------------------------------------------------------


def node_depths(program: Program) -> IntArray:
    """Longest way (n_nodes,) from a leaf to each node; 0 for inputs and constants."""
    depth = [0] * (program.n_nodes + 1)
    of_one, of_two = frozenset(UNARY), frozenset(BINARY)
    for k, (op, left, right) in enumerate(
        zip(program.op.tolist(), program.left.tolist(), program.right.tolist(), strict=True), 1
    ):
        if op in of_two:
            depth[k] = max(depth[abs(left)], depth[abs(right)]) + 1
        elif op in of_one:
            depth[k] = depth[abs(left)] + 1
    return np.array(depth[1:], dtype=np.intp)


def evaluate_nodes(program: Program, inputs: ScalarArray) -> ScalarArray:
    """Values (n_nodes, n_states) of all nodes for inputs (n_states, n_inputs), same dtype.

    Nodes of one depth do not depend on each other: those of one operation are computed by one
    array operation, however many they are.
    """
    values = np.zeros((program.n_nodes, len(inputs)), dtype=inputs.dtype)
    op, left, right = program.op, program.left, program.right
    is_input, is_constant = op == Op.INPUT, op == Op.CONSTANT
    values[is_input] = inputs.T[left[is_input]]
    values[is_constant] = program.constants[left[is_constant], None]
    keys = node_depths(program) * len(Op) + op
    keys[is_input | is_constant] = -1
    order: NDArray[np.intp] = np.argsort(keys, kind="stable")
    order = order[int((keys == -1).sum()) :]
    breaks = np.flatnonzero(np.diff(keys[order])) + 1
    with np.errstate(all="ignore"):
        for group in np.split(order, breaks) if len(order) else []:
            kind = int(op[group[0]])
            l_ref = left[group]
            l_value = values[np.abs(l_ref) - 1] * np.sign(l_ref)[:, None]
            if kind in UNARY:
                values[group] = UFUNC[kind](l_value)
            else:
                r_ref = right[group]
                r_value = values[np.abs(r_ref) - 1] * np.sign(r_ref)[:, None]
                values[group] = UFUNC[kind](l_value, r_value)
    return values
