"""Statements of a program in C, cut into segments of at most :data:`SEGMENT` operations.

A value used in its own segment is a local variable; one used later also has a slot of a
scratch array. A slot read last in segment s is free again in segment s + 1, so that within a
segment no slot is both read and written anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

import numpy as np

from dynsys.codegen.c_names import Argument
from dynsys.errors import KernelBuildError
from dynsys.program.program import BINARY, UNARY, Op, Program, without_dead_code

__all__ = ["REAL", "SEGMENT", "CType", "Code", "Part"]

CType: TypeAlias = Literal["float64", "float32"]
SEGMENT = 1000
REAL = {"float64": "double", "float32": "float"}
"""C type of each dtype."""
_FUNCTION = {int(Op.SIN): "sin", int(Op.COS): "cos", int(Op.SQRT): "sqrt"}


@final
@dataclass
class Part:
    """Statements of one segment, and the names of the arguments they use."""

    lines: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)


@final
class Code:
    """C statements of a program whose inputs and outputs are the ``listed`` arguments."""

    def __init__(
        self,
        program: Program,
        listed: Sequence[Argument],
        dtype: CType,
        segment_length: int = SEGMENT,
    ) -> None:
        if dtype not in REAL:
            raise KernelBuildError(f"C is exported as float64 or float32, not {dtype!r}")
        self._inputs = _elements(a for a in listed if not a.is_output)
        self._outputs = _elements(a for a in listed if a.is_output)
        sizes = (len(self._inputs), len(self._outputs))
        if sizes != (program.n_inputs, len(program.outputs)):
            raise KernelBuildError(
                f"the signature has {sizes[0]} inputs and {sizes[1]} outputs, the program "
                f"{program.n_inputs} and {len(program.outputs)}"
            )
        if not self._outputs:
            raise KernelBuildError("a program without outputs computes nothing to export")
        self.program = without_dead_code(program)
        self.real = REAL[dtype]
        self.scratch = _unused("w", listed)
        self._local = _unused("t", listed)
        self._suffix = "f" if dtype == "float32" else ""
        self._literals = self._exact_literals(dtype)
        self._op = self.program.op.tolist()
        self._left, self._right = self.program.left.tolist(), self.program.right.tolist()
        self._cut(segment_length)

    @property
    def needs_math(self) -> bool:
        """Whether the statements call sin, cos or sqrt."""
        return not _FUNCTION.keys().isdisjoint(self._op)

    def _exact_literals(self, dtype: CType) -> list[str]:
        """Constants as hexadecimal floats: the extended-precision values, rounded once."""
        constants = self.program.constants
        with np.errstate(over="ignore", under="ignore"):
            rounded = constants.astype(np.dtype(dtype))
        if not np.isfinite(rounded).all():
            bad = constants[~np.isfinite(rounded)][0]
            raise KernelBuildError(f"the constant {bad} has no value in {dtype}")
        return [float(x).hex() + self._suffix for x in rounded]

    def _cut(self, segment_length: int) -> None:
        """Segment of each operation, and a slot for each value that a later segment reads."""
        program = self.program
        is_operation = np.isin(program.op, (*UNARY, *BINARY))
        n = int(is_operation.sum())
        self.n_segments = max(1, -(-n // segment_length))
        length = max(1, -(-n // self.n_segments))
        segment = np.where(is_operation, (np.cumsum(is_operation) - 1) // length, -1)
        last = segment.copy()
        for operands, users in ((program.left, (*UNARY, *BINARY)), (program.right, BINARY)):
            reads = np.isin(program.op, users)
            np.maximum.at(last, np.abs(operands[reads]) - 1, segment[reads])
        self._segment: list[int] = segment.tolist()
        self._slot: dict[int, int] = {}
        self.n_slots = 0
        free: list[int] = []
        released: list[list[int]] = [[] for _ in range(self.n_segments)]
        now = 0
        for k in np.flatnonzero(is_operation & (last > segment)).tolist():
            while now < self._segment[k]:
                free += released[now]
                now += 1
            if not free:
                free.append(self.n_slots)
                self.n_slots += 1
            self._slot[k] = free.pop()
            released[int(last[k])].append(self._slot[k])

    def parts(self) -> list[Part]:
        """Statements of all segments; an output is written in the segment that computes it."""
        parts = [Part() for _ in range(self.n_segments)]
        for k, segment in enumerate(self._segment):
            if segment >= 0:
                part = parts[segment]
                text = self._operation(k, part, segment)
                part.lines.append(f"    const {self.real} {self._local}{k} = {text};")
                if k in self._slot:
                    part.used.add(self.scratch)
                    slot = f"{self.scratch}[{self._slot[k]}]"
                    part.lines.append(f"    {slot} = {self._local}{k};")
        for (array, index), ref in zip(
            self._outputs, self.program.outputs.tolist(), strict=True
        ):
            segment = self._segment[abs(ref) - 1] if ref else -1
            part = parts[segment]  # of a leaf: the last one
            part.used.add(array)
            part.lines.append(f"    {array}[{index}] = {self._signed(ref, part, segment)};")
        return parts

    def _operation(self, k: int, part: Part, segment: int) -> str:
        """Right-hand side of node k."""
        op, left, right = self._op[k], self._left[k], self._right[k]
        a = self._signed(left, part, segment)
        if op in _FUNCTION:
            return f"{_FUNCTION[op]}{self._suffix}({a})"
        if op == Op.ABS:
            return f"{a} > 0 ? {a} : 0 - {a}"
        if op == Op.ADD:
            if left < 0 < right:
                left, right, a = right, left, self._signed(right, part, segment)
            return f"{a} {'+' if right > 0 else '-'} {self._signed(abs(right), part, segment)}"
        b = self._signed(right, part, segment)
        if op in (Op.MIN, Op.MAX):  # like NumPy, NaN if either operand is
            return f"({a} {'<' if op == Op.MIN else '>'} {b} || {a} != {a}) ? {a} : {b}"
        return f"{a} {'*' if op == Op.MUL else '/'} {b}"

    def _signed(self, ref: int, part: Part, segment: int) -> str:
        """Value of a signed reference as seen from a segment."""
        if ref == 0:
            return f"0.0{self._suffix}"
        k = abs(ref) - 1
        if self._op[k] == Op.CONSTANT:
            text = self._literals[self._left[k]]
        elif self._op[k] == Op.INPUT:
            array, index = self._inputs[self._left[k]]
            part.used.add(array)
            text = f"{array}[{index}]"
        elif self._segment[k] == segment:
            text = f"{self._local}{k}"
        else:
            part.used.add(self.scratch)
            text = f"{self.scratch}[{self._slot[k]}]"
        return text if ref > 0 else f"-{text}"


def _elements(listed: Iterable[Argument]) -> list[tuple[str, int]]:
    """(array, index) of each scalar of some arguments, in order."""
    return [(a.name, k) for a in listed for k in range(a.size)]


def _unused(stem: str, listed: Sequence[Argument]) -> str:
    """A stem that no argument's name begins with."""
    while any(a.name.startswith(stem) for a in listed):
        stem += "_"
    return stem
