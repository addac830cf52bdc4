"""Value numbering: nodes that always have the same value become one node.

Every node is evaluated at a dozen random states in extended precision (64-bit mantissa). Nodes
whose values agree (up to sign) to 2^-56 at every state are the same quantity computed twice,
such as the two halves of a symmetric matrix; sums that cancel to 2^-57 of their terms are zero;
nodes that never change are constants. Doubles that differ at all differ by 2^-53, eight times
the tolerance, so that no two model parameters are ever confused.

Unit quaternions must be sampled as such: identities that hold on them are found and used.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dynsys.program.graph import Graph
from dynsys.program.program import BINARY, UNARY, Op, Program, evaluate_nodes

__all__ = ["simplify"]

EQUAL = np.longdouble(2.0) ** -56
CANCELLED = np.longdouble(2.0) ** -57

LONG, FEW = 20_000, 0.01

Extended = NDArray[np.longdouble]


def simplify(program: Program, samples: Extended, passes: int = 3) -> Program:
    """Repeat value numbering until the program stops shrinking (at most ``passes`` times).

    ``samples`` (n_states, n_inputs) are random admissible inputs, about a dozen. Of a long
    program the last few nodes are not worth another pass.
    """
    for _ in range(passes):
        smaller = _value_number(program, samples)
        removed = program.n_nodes - smaller.n_nodes
        if removed <= 0:
            return program
        program = smaller
        if program.n_nodes > LONG and removed < FEW * program.n_nodes:
            return program
    return program


def _value_number(program: Program, samples: Extended) -> Program:
    """Merge equal nodes, fold vanishing sums and constant nodes; then drop dead code."""
    values = evaluate_nodes(program, samples)
    representative, sign = _classes(program, values)
    constant = _constant_value(program, values)
    graph, is_input, is_constant = Graph(), Op.INPUT, Op.CONSTANT
    inputs = [scalar.ref for scalar in graph.inputs(program.n_inputs)]
    refs: list[int] = [0] * program.n_nodes

    def get(ref: int) -> int:
        return refs[ref - 1] if ref > 0 else -refs[-ref - 1] if ref < 0 else 0

    for k, (op, left, right, first, same_sign) in enumerate(
        zip(
            program.op.tolist(),
            program.left.tolist(),
            program.right.tolist(),
            representative.tolist(),
            sign.tolist(),
            strict=True,
        )
    ):
        if op == is_input:
            refs[k] = inputs[left]
        elif op == is_constant:
            refs[k] = graph.constant(program.constants[left])
        elif (value := constant.get(k)) is not None:
            refs[k] = graph.constant(value)
        elif first != k:
            refs[k] = refs[first] * same_sign
        else:
            refs[k] = graph.operation(op, get(left), get(right))
    return graph.frozen([get(ref) for ref in program.outputs.tolist()])


def _classes(program: Program, values: Extended) -> tuple[NDArray[np.intp], NDArray[np.int8]]:
    """First node of each node's class of equal values, and the sign relative to it."""
    n = program.n_nodes
    representative = np.arange(n)
    sign = np.ones(n, dtype=np.int8)
    usable = np.isfinite(values).all(axis=1) & (values[:, 0] != 0)
    lead = np.sign(values[:, 0]).astype(np.int8)
    magnitude = values * np.where(lead < 0, -1, 1)[:, None]  # first value positive
    candidates = np.flatnonzero(usable)
    order = candidates[np.argsort(magnitude[candidates, 0], kind="stable")]
    first_values = magnitude[order, 0]
    breaks = np.flatnonzero(np.diff(first_values) > EQUAL * first_values[1:]) + 1
    for start, stop in pairwise([0, *breaks.tolist(), len(order)]):
        if stop - start < 2:
            continue
        group = np.sort(order[start:stop])
        while len(group) > 1:
            head, rest = group[0], group[1:]
            scale = np.abs(magnitude[head])
            same = (np.abs(magnitude[rest] - magnitude[head]) <= EQUAL * scale).all(axis=1)
            members = rest[same]
            representative[members] = head
            sign[members] = lead[members] * lead[head]
            group = rest[~same]
    return representative, sign


def _constant_value(program: Program, values: Extended) -> dict[int, np.longdouble]:
    """Values of computed nodes that never change: vanishing sums and other constants."""
    found: dict[int, np.longdouble] = {}
    computed = np.isin(program.op, UNARY + BINARY) & np.isfinite(values).all(axis=1)
    spread = np.abs(values - values[:, :1]).max(axis=1)
    for k in np.flatnonzero(computed & (spread <= EQUAL * np.abs(values[:, 0]))):
        found[int(k)] = values[k, 0]
    sums = np.flatnonzero(computed & (program.op == Op.ADD))
    terms = np.maximum(
        np.abs(values[np.abs(program.left[sums]) - 1]),
        np.abs(values[np.abs(program.right[sums]) - 1]),
    )
    for k in sums[(np.abs(values[sums]) <= CANCELLED * terms).all(axis=1)]:
        found[int(k)] = np.longdouble(0)
    return found
