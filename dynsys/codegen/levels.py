"""Evaluation of every node of a program at several states, level by level.

Nodes of one level depend on earlier levels only, so that each level takes a few array
operations whatever its size: the reference evaluator for whole graphs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dynsys.codegen.program import BINARY, UFUNC, UNARY, Op, Program
from dynsys.types import IntArray, ScalarArray

__all__ = ["evaluate_nodes", "node_levels"]


def node_levels(program: Program) -> IntArray:
    """Longest way (n_nodes,) from a leaf to each node; 0 for inputs and constants."""
    level = [0] * (program.n_nodes + 1)
    for k, (op, left, right) in enumerate(
        zip(program.op.tolist(), program.left.tolist(), program.right.tolist(), strict=True), 1
    ):
        if op in UNARY:
            level[k] = level[abs(left)] + 1
        elif op in BINARY:
            level[k] = max(level[abs(left)], level[abs(right)]) + 1
    return np.array(level[1:], dtype=np.intp)


def evaluate_nodes(program: Program, inputs: ScalarArray) -> ScalarArray:
    """Values (n_nodes, n_states) of all nodes for inputs (n_states, n_inputs), same dtype."""
    values = np.zeros((program.n_nodes, len(inputs)), dtype=inputs.dtype)
    op, left, right = program.op, program.left, program.right
    is_input, is_constant = op == Op.INPUT, op == Op.CONSTANT
    values[is_input] = inputs.T[left[is_input]]
    values[is_constant] = program.constants[left[is_constant], None]
    keys = node_levels(program) * len(Op) + op
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
