"""Random programs with every operation, and a bound of the rounding error of their values."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from dynsys.program.program import UNARY, Op, Program

__all__ = ["error_bound", "programs"]

N_INPUTS = 5
_KINDS = (
    Op.ADD,
    Op.ADD,
    Op.MUL,
    Op.MUL,
    Op.DIV,
    Op.SIN,
    Op.COS,
    Op.SQRT,
    Op.ABS,
    Op.MIN,
    Op.MAX,
)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Programs not folded by Graph: signs, constants and leaves may stand anywhere."""
    seed = draw(st.integers(0, 2**32 - 1))
    size = draw(st.integers(0, 60))
    rng = np.random.default_rng(seed)
    constants = np.array([0.0, 1.0, 0.1, -2.5], dtype=np.longdouble) / np.longdouble(3)
    op = [Op.INPUT] * N_INPUTS + [Op.CONSTANT] * len(constants)
    left = [*range(N_INPUTS), *range(len(constants))]
    right = [0] * len(op)
    for _ in range(size):
        refs = rng.integers(1, len(op) + 1, size=2) * rng.choice([-1, 1], size=2)
        op.append(_KINDS[rng.integers(len(_KINDS))])
        left.append(int(refs[0]))
        right.append(0 if op[-1] in UNARY else int(refs[1]))
    refs = rng.integers(1, len(op) + 1, size=7) * rng.choice(
        [-1, 0, 1], size=7, p=[0.4, 0.1, 0.5]
    )
    refs[-1] = refs[0]
    return Program(
        np.array(op, dtype=np.int8),
        np.array(left, dtype=np.int32),
        np.array(right, dtype=np.int32),
        constants,
        refs.astype(np.int32),
        N_INPUTS,
    )


def error_bound(
    program: Program, x: NDArray[np.longdouble], unit: float
) -> tuple[NDArray[np.longdouble], NDArray[np.longdouble]]:
    """Outputs (n, n_outputs) in extended precision and bounds of their rounding errors."""
    value: list[NDArray[np.longdouble]] = []
    error: list[NDArray[np.longdouble]] = []
    u = np.longdouble(4 * unit)
    for op, left, right in zip(program.op, program.left, program.right, strict=True):
        if op == Op.CONSTANT:
            v = np.full(len(x), program.constants[left])
            e = u * abs(v)
        elif op == Op.INPUT:
            v, e = x[:, left], np.zeros(len(x), np.longdouble)
        else:
            a, ea = np.sign(left) * value[abs(left) - 1], error[abs(left) - 1]
            b, eb = np.sign(right) * value[abs(right) - 1], error[abs(right) - 1]
            v, e = _step(Op(op), a, ea, b, eb)
            e = e + u * (np.abs(v) if op not in (Op.SIN, Op.COS) else 1)
        value.append(v)
        error.append(e)
    zero = np.zeros(len(x), np.longdouble)
    return (
        np.stack([np.sign(r) * value[abs(r) - 1] if r else zero for r in program.outputs], 1),
        np.stack([error[abs(r) - 1] if r else zero for r in program.outputs], 1),
    )


def _step(op: Op, a, ea, b, eb):  # type: ignore[no-untyped-def]
    inf = np.longdouble(np.inf)
    if op == Op.ADD:
        return a + b, ea + eb
    if op == Op.MUL:
        return a * b, abs(a) * eb + abs(b) * ea + ea * eb
    if op == Op.DIV:
        small = abs(b) <= 2 * eb
        return a / b, np.where(small, inf, (ea + abs(a / b) * eb) / np.maximum(abs(b) - eb, 0))
    if op == Op.SQRT:
        near_zero = abs(a) <= 2 * ea
        return np.sqrt(a), np.where(near_zero, inf, ea / np.sqrt(abs(a)))
    if op in (Op.SIN, Op.COS):
        return (np.sin if op == Op.SIN else np.cos)(a), ea
    if op == Op.ABS:
        return abs(a), ea
    return (np.minimum if op == Op.MIN else np.maximum)(a, b), np.maximum(ea, eb)
