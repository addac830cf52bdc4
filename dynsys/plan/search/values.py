"""Exact prices in compiled loops: a program counted by the values of its nodes.

A search asks for the price of thousands of orders. Recording a program and merging its equal
nodes takes seconds; here it takes milliseconds. Every quantity is known by its values at two
random states, in twice the double precision (a value is a sum of two doubles, high and low:
Dekker 1971), and as :mod:`dynsys.program.simplify` has it

    equal to 2^-56 at both    the same quantity, however computed: one node
    a sum below 2^-57         of its terms, at both: cancelled, no node
    the same at both          a constant: folded, free

Residues modulo a prime would be quicker to compare, but constants of a robot have been rounded:
c1 (c2 x) and (c1 c2) x are one quantity to the simplified program and two to exact arithmetic.
What no output needs is not counted. Beside these values stand those at a few more states in
double precision: how safe a pivot is.

A table of nodes is a :class:`Nodes`, references are those of a program: node k is k + 1, its
negative -(k + 1), zero is 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynsys.jit import Loop
from dynsys.program.program import Program, evaluate_nodes
from dynsys.types import Array, IntArray

__all__ = ["Nodes", "add", "counted", "div", "less_product", "mul", "program_nodes"]

EQUAL, CANCELLED = 2.0**-56, 2.0**-57
"""As in :mod:`dynsys.program.simplify`."""
SPLIT = 134217729.0
"""2^27 + 1: cuts a double into two halves whose products are exact."""
BUCKET = 10
"""Last bits of a value that its place in the table does not depend on."""
CONSTANT, INPUT, ADD, MUL, DIV, SINE = range(6)
"""Operations by the numbers of :class:`~dynsys.program.program.Op`."""
OP, LEFT, RIGHT, SWITCHED = range(4)
"""Columns of ``info``."""


class Nodes(NamedTuple):
    """Nodes so far: ``size[0]`` of them; the arrays have room for more.

    ``info`` (room, 4): operation and references as in a program, then whether the value
    vanishes with weights that may be zero; ``exact`` (room, 4): values at two states, high and
    low, of the sign that makes the first positive, ``bits`` the same as integers; ``real``
    (room, states) values of that sign; ``table`` finds a node by its first value (open
    addressing, length a power of two). ``size[1]`` is set when there is no room left.
    """

    info: NDArray[np.int32]
    exact: Array
    bits: NDArray[np.int64]
    real: Array
    table: NDArray[np.int32]
    size: NDArray[np.int64]

    @staticmethod
    def empty(room: int, states: int) -> Nodes:
        """No nodes yet."""
        length = 1 << (2 * room + 2).bit_length()
        exact = np.empty((room, 4))
        return Nodes(
            np.zeros((room, 4), np.int32),
            exact,
            exact.view(np.int64),
            np.empty((room, states)),
            np.zeros(length, np.int32),
            np.array([0, 0, -1]),
        )

    def with_room(self, more: int) -> Nodes:
        """Copy with room for so many more nodes."""
        n = int(self.size[0])
        copy = Nodes.empty(n + more, self.real.shape[1])
        copy.info[:n], copy.exact[:n], copy.real[:n] = (
            self.info[:n],
            self.exact[:n],
            self.real[:n],
        )
        copy.size[0] = n
        if len(copy.table) == len(self.table):
            copy.table[:] = self.table
        else:
            _enter(copy)
        return copy


# ---- numbers of twice the double precision ---------------------------------------------------


@Loop
def _sum(a: Any, b: Any, c: Any, d: Any) -> Any:
    """(a + b) + (c + d), a and c the high parts."""
    s = a + c
    t = s - a
    e = (a - (s - t)) + (c - t)
    u = b + d
    v = u - b
    f = (b - (u - v)) + (d - v)
    e += u
    h = s + e
    e = e - (h - s) + f
    s = h + e
    return s, e - (s - h)


@Loop
def _product(a: Any, b: Any, c: Any, d: Any) -> Any:
    """(a + b) (c + d)."""
    p = a * c
    x = SPLIT * a
    x = x - (x - a)
    y = SPLIT * c
    y = y - (y - c)
    u, v = a - x, c - y
    e = ((x * y - p) + x * v + u * y) + u * v
    e += a * d + b * c
    s = p + e
    return s, e - (s - p)


@Loop
def _quotient(a: Any, b: Any, c: Any, d: Any) -> Any:
    """(a + b) / (c + d), by two steps of long division."""
    q = a / c
    h, l = _product(c, d, q, 0.0)
    h, l = _sum(a, b, -h, -l)
    r = h / c
    x, y = _product(c, d, r, 0.0)
    h, l = _sum(h, l, -x, -y)
    return _sum(q, r, h / c, 0.0)


# ---- the table -------------------------------------------------------------------------------


@Loop
def _place(key: Any, mask: Any) -> Any:
    """Where the search begins in the table."""
    x = key * -7046029254386353131  # 2^64 over the golden ratio
    x ^= x >> 29
    return (x ^ (x >> 13)) & mask


@Loop
def _enter(nodes: Any) -> None:
    """Fill an empty table."""
    mask = len(nodes.table) - 1
    for k in range(nodes.size[0]):
        at = _place(nodes.bits[k, 0] >> BUCKET, mask)
        while nodes.table[at] != 0:
            at = (at + 1) & mask
        nodes.table[at] = k + 1


@Loop
def _node(
    nodes: Any, op: Any, left: Any, right: Any, switched: Any, a: Any, b: Any, c: Any, d: Any
) -> Any:
    """Reference of the quantity a + b, c + d at the two states: known already, or a new node.

    Values in double precision of a new one, ``size[2]`` if that is not -1, are left to the
    caller.
    """
    info, exact, bits, table, size = (
        nodes.info,
        nodes.exact,
        nodes.bits,
        nodes.table,
        nodes.size,
    )
    size[2] = -1
    if a == 0.0 and c == 0.0:
        return 0
    sign = 1
    if a < 0.0 or (a == 0.0 and c < 0.0):
        sign, a, b, c, d = -1, -a, -b, -c, -d
    k = size[0]
    if k + 1 >= len(info):
        size[1] = 1
        return sign
    exact[k, 0], exact[k, 1], exact[k, 2], exact[k, 3] = a, b, c, d
    own, mask = bits[k, 0], len(table) - 1
    low, high = (own - 2) >> BUCKET, (own + 2) >> BUCKET
    for key in range(low, high + 1):  # one, or two on the edge between buckets
        at = _place(key, mask)
        while table[at] != 0:
            j = table[at] - 1
            if abs((exact[j, 0] - a) + (exact[j, 1] - b)) <= EQUAL * a and abs(
                (exact[j, 2] - c) + (exact[j, 3] - d)
            ) <= EQUAL * abs(c):
                return sign * (j + 1)
            at = (at + 1) & mask
    at = _place(own >> BUCKET, mask)
    while table[at] != 0:
        at = (at + 1) & mask
    info[k, OP] = CONSTANT if abs((a - c) + (b - d)) <= EQUAL * a else op
    info[k, LEFT], info[k, RIGHT], info[k, SWITCHED] = left, right, switched
    table[at] = k + 1
    size[0] = k + 1
    size[2] = k
    return sign * (k + 1)


# ---- arithmetic ------------------------------------------------------------------------------


@Loop
def add(nodes: Any, x: Any, y: Any) -> Any:
    """x + y."""
    if x == 0 or y == 0:
        return x + y
    info, exact, real = nodes.info, nodes.exact, nodes.real
    i, j = abs(x) - 1, abs(y) - 1
    s = 1.0 if x > 0 else -1.0
    t = 1.0 if y > 0 else -1.0
    a, b = _sum(s * exact[i, 0], s * exact[i, 1], t * exact[j, 0], t * exact[j, 1])
    c, d = _sum(s * exact[i, 2], s * exact[i, 3], t * exact[j, 2], t * exact[j, 3])
    first, second = abs(exact[i, 0]), abs(exact[i, 2])
    if abs(a) <= CANCELLED * max(first, abs(exact[j, 0])):
        if abs(c) <= CANCELLED * max(second, abs(exact[j, 2])):
            return 0
    switched = info[i, SWITCHED] and info[j, SWITCHED]
    ref = _node(nodes, ADD, x, y, switched, a, b, c, d)
    k = nodes.size[2]
    if k >= 0:
        s, t = (s, t) if ref > 0 else (-s, -t)
        for e in range(real.shape[1]):
            real[k, e] = s * real[i, e] + t * real[j, e]
    return ref


@Loop
def mul(nodes: Any, x: Any, y: Any) -> Any:
    """x * y."""
    if x == 0 or y == 0:
        return 0
    info, exact, real = nodes.info, nodes.exact, nodes.real
    i, j = abs(x) - 1, abs(y) - 1
    a, b = _product(exact[i, 0], exact[i, 1], exact[j, 0], exact[j, 1])
    c, d = _product(exact[i, 2], exact[i, 3], exact[j, 2], exact[j, 3])
    switched = info[i, SWITCHED] or info[j, SWITCHED]
    ref = _node(nodes, MUL, x, y, switched, a, b, c, d)
    k = nodes.size[2]
    if k >= 0:
        s = 1.0 if ref > 0 else -1.0
        for e in range(real.shape[1]):
            real[k, e] = s * real[i, e] * real[j, e]
    return ref if (x > 0) == (y > 0) else -ref


@Loop
def less_product(nodes: Any, x: Any, y: Any, z: Any) -> Any:
    """x - y z."""
    return add(nodes, x, -mul(nodes, y, z))


@Loop
def div(nodes: Any, x: Any, y: Any) -> Any:
    """x / y; y is not zero. By a constant it is a product."""
    if x == 0:
        return 0
    info, exact, real = nodes.info, nodes.exact, nodes.real
    i, j = abs(x) - 1, abs(y) - 1
    a, b = _quotient(exact[i, 0], exact[i, 1], exact[j, 0], exact[j, 1])
    c, d = _quotient(exact[i, 2], exact[i, 3], exact[j, 2], exact[j, 3])
    op = MUL if info[j, OP] == CONSTANT else DIV
    ref = _node(nodes, op, x, y, info[i, SWITCHED], a, b, c, d)
    k = nodes.size[2]
    if k >= 0:
        s = 1.0 if ref > 0 else -1.0
        for e in range(real.shape[1]):
            real[k, e] = s * real[i, e] / real[j, e]
    return ref if (x > 0) == (y > 0) else -ref


@Loop
def counted(nodes: Any, needed: Any) -> Any:
    """Operations of the nodes that are marked, and of all they depend on.

    ``needed`` (room,) bool; all that is counted is marked afterwards.
    """
    info, total = nodes.info, 0
    for k in range(nodes.size[0] - 1, -1, -1):
        op = info[k, OP]
        if needed[k] and op > INPUT:
            total += op < SINE
            needed[abs(info[k, LEFT]) - 1] = True
            if info[k, RIGHT] != 0:
                needed[abs(info[k, RIGHT]) - 1] = True
    return total


# ---- nodes of a recorded program -------------------------------------------------------------


def program_nodes(
    program: Program, samples: NDArray[np.longdouble], states: Array
) -> tuple[Nodes, IntArray]:
    """Nodes of a program, and the references of its outputs among them.

    Parameters
    ----------
    program : straight-line code.
    samples : (2 or more, inputs) admissible states in extended precision, of which two count.
    states : (n, inputs) at which values in double precision stand beside them.
    """
    values = evaluate_nodes(program, samples[:2])
    high = values.astype(np.float64)
    exact = np.stack([high, (values - high).astype(np.float64)], axis=2).reshape(-1, 4)
    real = evaluate_nodes(program, np.ascontiguousarray(states, dtype=np.float64))
    nodes = Nodes.empty(program.n_nodes + 2, real.shape[1])
    code = np.stack([program.op, program.left, program.right], axis=1, dtype=np.int64)
    refs = _entered(nodes, code, exact, real)
    outputs = program.outputs.astype(np.int64)
    return nodes, np.sign(outputs) * np.where(outputs == 0, 0, refs[np.abs(outputs) - 1])


@Loop
def _entered(nodes: Any, code: Any, exact: Any, real: Any) -> Any:
    """References (n_nodes,) of the nodes of a program, ``code`` as in ``info``."""
    refs = np.zeros(len(code), np.int64)
    for k in range(len(code)):
        op, x, y = code[k, OP], code[k, LEFT], code[k, RIGHT]
        left = right = 0
        if op > INPUT:
            left = refs[abs(x) - 1] * (1 if x > 0 else -1)
            right = 0 if y == 0 else refs[abs(y) - 1] * (1 if y > 0 else -1)
        if op == ADD:
            ref = add(nodes, left, right)
        elif op == MUL:
            ref = mul(nodes, left, right)
        elif op == DIV:
            ref = div(nodes, left, right)
        else:
            ref = _node(
                nodes, op, left, right, 0, exact[k, 0], exact[k, 1], exact[k, 2], exact[k, 3]
            )
            new = nodes.size[2]
            if new >= 0:
                for e in range(real.shape[1]):
                    nodes.real[new, e] = real[k, e] if ref > 0 else -real[k, e]
        refs[k] = ref
    return refs
