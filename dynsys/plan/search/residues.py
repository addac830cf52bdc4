"""Exact prices in compiled loops: a program counted by its values modulo a prime.

A search asks for the price of thousands of orders. Recording a program and merging its equal
nodes takes a tenth of a second; here it takes a tenth of a millisecond. Every quantity is known
by its residues modulo P at two random states (sines and cosines are points of a circle, unit
quaternions of a sphere, over the integers modulo P, where there is no rounding). So

    equal residues      the same quantity, however computed: one node
    residues 0          a sum that cancels: no node
    the same at both    a constant: folded, free

as :mod:`dynsys.program.simplify` finds them from rounded values; two different quantities meet
with probability 2^-62. Constants have been rounded before they come here: those that agree to
1e-13 are one. What no output needs is not counted. Beside the residues stand the
values at a few states in double precision: how safe a pivot is.

A table of nodes is a :class:`Nodes`, references are those of a program: node k is k + 1, its
negative -(k + 1), zero is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynsys.jit import Loop
from dynsys.program.program import Op, Program, evaluate_nodes
from dynsys.types import Array, IntArray

__all__ = ["Nodes", "add", "counted", "div", "less_product", "mul", "residue_nodes"]

P = 2**31 - 1
"""The prime: products of two residues fit 64 bits."""
ROUNDING = 1e-13
"""Constants that differ by less are the same: those of a program have been rounded."""
CONSTANT, INPUT, ADD, MUL, DIV, SINE = range(6)
"""Operations by the numbers of :class:`~dynsys.program.program.Op`."""
OP, LEFT, RIGHT, A, B = range(5)
"""Columns of ``info``."""


class Nodes(NamedTuple):
    """Nodes so far: ``size[0]`` of them; the arrays have room for more.

    ``info`` (room, 5): operation and references as in a program, then the residues at two
    states, of the sign that makes the first the smaller of +-; ``real`` (room, states) values
    of the same sign; ``table`` finds a node by its residues (open addressing, length a power of
    two). ``size[1]`` is set when there is no room left.
    """

    info: NDArray[np.int64]
    real: Array
    table: NDArray[np.int32]
    size: NDArray[np.int64]

    @staticmethod
    def empty(room: int, states: int) -> Nodes:
        """No nodes yet."""
        length = 1 << (2 * room + 2).bit_length()
        return Nodes(
            np.zeros((room, 5), np.int64),
            np.zeros((room, states)),
            np.zeros(length, np.int32),
            np.array([0, 0, -1]),
        )

    def with_room(self, more: int) -> Nodes:
        """Copy with room for so many more nodes."""
        n = int(self.size[0])
        copy = Nodes.empty(n + more, self.real.shape[1])
        copy.info[:n], copy.real[:n], copy.size[0] = self.info[:n], self.real[:n], n
        if len(copy.table) == len(self.table):
            copy.table[:] = self.table
        else:
            _enter(copy)
        return copy


# ---- arithmetic ------------------------------------------------------------------------------


@Loop
def _place(a: Any, b: Any, mask: Any) -> Any:
    """Where the search for residues begins in the table."""
    x = a * 2654435761 + b * 40503
    x ^= x >> 29
    return (x ^ (x >> 13)) & mask


@Loop
def _enter(nodes: Any) -> None:
    """Fill an empty table."""
    info, mask = nodes.info, len(nodes.table) - 1
    for k in range(nodes.size[0]):
        at = _place(info[k, A], info[k, B], mask)
        while nodes.table[at] != 0:
            at = (at + 1) & mask
        nodes.table[at] = k + 1


@Loop
def _node(nodes: Any, op: Any, left: Any, right: Any, a: Any, b: Any) -> Any:
    """Reference of the quantity with residues a, b: known already, or a new node.

    The values of a new one, ``size[2]`` if that is not -1, are left to the caller.
    """
    info, table, size = nodes.info, nodes.table, nodes.size
    size[2] = -1
    if a == 0 and b == 0:
        return 0
    sign = 1
    if a > P - a or (a == 0 and b > P - b):
        sign, a, b = -1, (P - a) % P, (P - b) % P
    mask = len(table) - 1
    at = _place(a, b, mask)
    while table[at] != 0:
        k = table[at] - 1
        if info[k, A] == a and info[k, B] == b:
            return sign * (k + 1)
        at = (at + 1) & mask
    k = size[0]
    if k + 1 >= len(info):
        size[1] = 1
        return sign
    info[k, OP] = CONSTANT if a == b else op
    info[k, LEFT], info[k, RIGHT], info[k, A], info[k, B] = left, right, a, b
    table[at] = k + 1
    size[0] = k + 1
    size[2] = k
    return sign * (k + 1)


@Loop
def add(nodes: Any, x: Any, y: Any) -> Any:
    """x + y."""
    if x == 0 or y == 0:
        return x + y
    info, real = nodes.info, nodes.real
    i, j = abs(x) - 1, abs(y) - 1
    a = info[i, A] if x > 0 else P - info[i, A]
    b = info[i, B] if x > 0 else P - info[i, B]
    a += info[j, A] if y > 0 else P - info[j, A]
    b += info[j, B] if y > 0 else P - info[j, B]
    s = 1.0 if x > 0 else -1.0
    t = 1.0 if y > 0 else -1.0
    ref = _node(nodes, ADD, x, y, a % P, b % P)
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
    info, real = nodes.info, nodes.real
    i, j = abs(x) - 1, abs(y) - 1
    a, b = info[i, A] * info[j, A] % P, info[i, B] * info[j, B] % P
    ref = _node(nodes, MUL, x, y, a, b)
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
    info, real = nodes.info, nodes.real
    i, j = abs(x) - 1, abs(y) - 1
    a = info[i, A] * _inverse(info[j, A]) % P
    b = info[i, B] * _inverse(info[j, B]) % P
    op = MUL if info[j, OP] == CONSTANT else DIV
    ref = _node(nodes, op, x, y, a, b)
    k = nodes.size[2]
    if k >= 0:
        s = 1.0 if ref > 0 else -1.0
        for e in range(real.shape[1]):
            real[k, e] = s * real[i, e] / real[j, e]
    return ref if (x > 0) == (y > 0) else -ref


@Loop
def _inverse(a: Any) -> Any:
    """1/a modulo P by Euclid's algorithm; 0 for 0."""
    r, s, x, y = P, a, 0, 1
    while s != 0:
        quotient = r // s
        r, s = s, r - quotient * s
        x, y = y, x - quotient * y
    return x % P


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


def residue_nodes(
    program: Program, states: Array, quaternions: Sequence[slice] = ()
) -> tuple[Nodes, IntArray]:
    """Nodes of a program, and the references of its outputs among them.

    Parameters
    ----------
    program : straight-line code; roots and extrema count as unknown functions.
    states : (n, inputs) at which values in double precision stand beside the residues.
    quaternions : inputs that are unit quaternions.
    """
    found = [_residues(program, quaternions, np.random.default_rng((0, k))) for k in (0, 1)]
    real = evaluate_nodes(program, np.ascontiguousarray(states, dtype=np.float64))
    nodes = Nodes.empty(program.n_nodes + 2, real.shape[1])
    code = np.stack([program.op, program.left, program.right, *found], axis=1, dtype=np.int64)
    refs = _entered(nodes, code, real)
    outputs = program.outputs.astype(np.int64)
    return nodes, np.sign(outputs) * np.where(outputs == 0, 0, refs[np.abs(outputs) - 1])


@Loop
def _entered(nodes: Any, code: Any, real: Any) -> Any:
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
            ref = _node(nodes, op, left, right, code[k, A], code[k, B])
            new = nodes.size[2]
            if new >= 0:
                for e in range(real.shape[1]):
                    nodes.real[new, e] = real[k, e] if ref > 0 else -real[k, e]
        refs[k] = ref
    return refs


def _residues(
    program: Program, quaternions: Sequence[slice], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Residues (n_nodes,) at a random state of what is no sum, product or quotient."""

    def any_residue() -> int:
        return int(rng.integers(1, P))

    inputs = [any_residue() for _ in range(program.n_inputs)]
    for where in quaternions:
        inputs[where] = _unit_quaternion([any_residue() for _ in range(4)])
    constants = _merged(program.constants)
    circle: dict[int, tuple[int, int]] = {}
    found: list[int] = []
    for op, left in zip(program.op.tolist(), program.left.tolist(), strict=True):
        value = 0
        if op == Op.CONSTANT:
            above, below = constants[left].as_integer_ratio()
            value = above * pow(below, -1, P)
        elif op == Op.INPUT:
            value = inputs[left]
        elif op in (Op.SIN, Op.COS):  # (2 t, 1 - t^2) / (1 + t^2)
            if left not in circle:
                t = any_residue()
                scale = pow(1 + t * t, -1, P)
                circle[left] = (2 * t * scale, (1 - t * t) * scale)
            value = circle[left][int(op == Op.COS)]
        elif op > Op.COS:
            value = any_residue()
        found.append(value % P)
    return np.array(found, dtype=np.int64)


def _merged(constants: NDArray[np.longdouble]) -> NDArray[np.longdouble]:
    """Constants, those that differ by rounding replaced by the least of them."""
    order = np.argsort(constants, kind="stable")
    found = constants[order]
    for k in range(1, len(found)):
        if found[k] - found[k - 1] <= ROUNDING * found[k]:
            found[k] = found[k - 1]
    merged = constants.copy()
    merged[order] = found
    return merged


def _unit_quaternion(x: Sequence[int]) -> list[int]:
    """Square of a quaternion over its squared norm, last component the real one."""
    *v, w = x
    norm = sum(k * k for k in v)
    scale = pow(w * w + norm, -1, P)
    return [2 * w * k * scale % P for k in v] + [(w * w - norm) * scale % P]
