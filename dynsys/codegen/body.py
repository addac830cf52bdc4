"""Text of one segment: the operations of a schedule as LLVM instructions.

Negation is never an instruction where a user can absorb it: every value is known as (name,
sign), sums become differences, and the sign of a product moves to its user.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias, final

from dynsys.codegen.llvm_text import Lines, VectorType
from dynsys.codegen.schedule import Place, Schedule, Segment
from dynsys.program.program import Op, Program

__all__ = ["AbstractMemory", "write_segment"]

_Value: TypeAlias = tuple[str, int]

_RELOAD_DISTANCE = 40
"""A value in memory is loaded again when it was last used this many operations ago: cheaper
than a register that is spilled in between."""


class AbstractMemory(Protocol):
    """Where inputs, sines, cosines and slots lie; differs between one state and batches."""

    def load(self, lines: Lines, kind: str, number: int) -> str:
        """Value of an ``input``, ``sine``, ``cosine`` or ``temporary``."""

    def store(self, lines: Lines, value: str, place: Place) -> None:
        """Write a value to its place."""


def write_segment(
    lines: Lines,
    t: VectorType,
    program: Program,
    schedule: Schedule,
    segment: Segment,
    memory: AbstractMemory,
) -> None:
    """Append the instructions of a segment to ``lines``."""
    writer = _Writer(lines, t, program, schedule, memory)
    for k in segment.nodes:
        writer.operation(k)
        for ref, place in segment.stores.get(k, ()):
            memory.store(lines, writer.plain(ref), place)
    for ref, place in segment.copies:
        memory.store(lines, writer.plain(ref), place)


@final
class _Writer:
    def __init__(
        self, lines: Lines, t: VectorType, program: Program, s: Schedule, memory: AbstractMemory
    ) -> None:
        self.lines, self.t, self.s, self.memory = lines, t, s, memory
        self.constants = program.constants
        self.value: dict[int, _Value] = {}
        self.loaded: dict[int, tuple[str, int]] = {}  # node -> (name, operation that used it)
        self.clock = 0

    def get(self, ref: int) -> _Value:
        """(name, sign) of a signed reference."""
        if ref == 0:
            return self.t.constant(0.0), 1
        k, sign = (ref - 1, 1) if ref > 0 else (-ref - 1, -1)
        known = self.value.get(k)
        if known is not None:
            return known[0], sign * known[1]
        op, left = self.s.op[k], self.s.left[k]
        if op == Op.CONSTANT:
            return self.t.constant(self.constants[left]), sign
        if op == Op.SIN and left < 0:
            sign = -sign
        return self._from_memory(k), sign

    def _from_memory(self, k: int) -> str:
        name, used = self.loaded.get(k, ("", -_RELOAD_DISTANCE))
        if self.clock - used >= _RELOAD_DISTANCE:
            op, left = self.s.op[k], self.s.left[k]
            if op == Op.INPUT:
                name = self.memory.load(self.lines, "input", left)
            elif op in (Op.SIN, Op.COS):
                number = self.s.argument_number[abs(left) - 1]
                kind = "sine" if op == Op.SIN else "cosine"
                name = self.memory.load(self.lines, kind, number)
            else:
                name = self.memory.load(self.lines, "temporary", self.s.slot[k])
        self.loaded[k] = (name, self.clock)
        return name

    def plain(self, ref: int) -> str:
        """Name of a value with its sign worked in."""
        name, sign = self.get(ref)
        return name if sign > 0 else self.lines.let(f"fneg {self.t} {name}")

    def operation(self, k: int) -> None:
        """Append node k."""
        self.clock += 1
        op, left, right = self.s.op[k], self.s.left[k], self.s.right[k]
        if op == Op.ADD:
            self.value[k] = self._add(left, right)
        elif op in (Op.MUL, Op.DIV):
            (a, sa), (b, sb) = self.get(left), self.get(right)
            word = "fmul" if op == Op.MUL else "fdiv"
            self.value[k] = self.lines.let(f"{word} contract {self.t} {a}, {b}"), sa * sb
        elif op in (Op.MIN, Op.MAX):
            self.value[k] = self._extremum(op, left, right)
        elif op == Op.ABS:
            self.value[k] = self._call("fabs", self.get(left)[0]), 1
        else:
            self.value[k] = self._call("sqrt", self.plain(left)), 1

    def _call(self, intrinsic: str, *operands: str) -> str:
        arguments = ", ".join(f"{self.t} {name}" for name in operands)
        return self.lines.let(f"call {self.t} @llvm.{intrinsic}.{self.t.suffix}({arguments})")

    def _add(self, left: int, right: int) -> _Value:
        (a, sa), (b, sb) = self.get(left), self.get(right)
        if sa == sb:
            return self.lines.let(f"fadd contract {self.t} {a}, {b}"), sa
        if sa < 0:
            a, b = b, a
        return self.lines.let(f"fsub contract {self.t} {a}, {b}"), 1

    def _extremum(self, op: int, left: int, right: int) -> _Value:
        (a, sa), (b, sb) = self.get(left), self.get(right)
        smaller = op == Op.MIN
        if sa == sb:  # min(-a, -b) = -max(a, b)
            return self._call("minimum" if smaller == (sa > 0) else "maximum", a, b), sa
        a, b = self.plain(left), self.plain(right)
        return self._call("minimum" if smaller else "maximum", a, b), 1
