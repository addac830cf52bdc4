"""LLVM text of ``one``: the program on a single state, and of the segments of any schedule.

Sines and cosines are still evaluated W at a time: the angles of one state sit side by side.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias, final

from dynsys.kernel.llvm.sincos import sincos
from dynsys.kernel.llvm.target import Target
from dynsys.kernel.llvm.text import Lines, VectorType, internal_function
from dynsys.kernel.schedule import Place, Schedule, Segment, Stage
from dynsys.program.program import Op
from dynsys.program.signature import Signature

__all__ = ["AbstractMemory", "emit_one", "write_segment"]

_Value: TypeAlias = tuple[str, int]
"""Name and sign. Negation is never an instruction where a user can absorb it: sums become
differences, and the sign of a product moves to its user."""

ADD, CONSTANT, SIN = Op.ADD, Op.CONSTANT, Op.SIN
PRODUCTS: dict[int, str] = {Op.MUL: "fmul", Op.DIV: "fdiv"}
"""Looked up once: an enumeration takes its time."""

_RELOAD_DISTANCE = 40
"""A value in memory is loaded again when it was last used this many operations ago: cheaper
than a register that is spilled in between."""


class _Pack(NamedTuple):
    """Arguments evaluated together; ``offset`` counts numbers in the argument memory."""

    offset: int
    width: int
    arguments: tuple[int, ...]


def _packs(stage: Stage, width: int, offset: int) -> list[_Pack]:
    """Arguments of a stage in packs of ``width``; the rest in one narrower, padded pack."""
    nodes = stage.arguments
    packs = []
    whole = len(nodes) - len(nodes) % width
    for first in range(0, whole, width):
        packs.append(_Pack(offset, width, tuple(nodes[first : first + width])))
        offset += width
    rest = nodes[whole:]
    if rest:
        narrow = 1 << (len(rest) - 1).bit_length()
        if len(nodes) >= narrow:
            rest = nodes[-narrow:]  # some twice, but side by side in memory
        rest = rest + rest[-1:] * (narrow - len(rest))
        packs.append(_Pack(offset, narrow, tuple(rest)))
    return packs


@final
class _Memory:
    """Inputs and outputs lie with the caller; scratch = arguments | sines, cosines | slots."""

    def __init__(
        self, t: VectorType, signature: Signature, schedule: Schedule, width: int
    ) -> None:
        self.t, self.signature = t, signature
        self.packs: list[list[_Pack]] = []
        offset = 0
        for stage in schedule.stages:
            self.packs.append(_packs(stage, width, offset))
            offset += sum(pack.width for pack in self.packs[-1])
        self.n_arguments = offset
        self.size = 3 * offset + schedule.n_slots
        self.sine: dict[int, int] = {}
        self.cosine: dict[int, int] = {}
        self.argument: dict[int, int] = {}
        for pack in (pack for packs in self.packs for pack in packs):
            for lane, node in enumerate(pack.arguments):
                number = schedule.argument_number[node]
                self.argument[number] = pack.offset + lane
                self.sine[number] = offset + 2 * pack.offset + lane
                self.cosine[number] = self.sine[number] + pack.width

    def load(self, lines: Lines, kind: str, number: int) -> str:
        if kind == "input":
            group, index = self.signature.input_place(number)
            return lines.load(self.t, lines.at(self.t, f"%in{group}", index))
        if kind == "temporary":
            offset = 3 * self.n_arguments + number
        else:
            offset = (self.sine if kind == "sine" else self.cosine)[number]
        return lines.load(self.t, lines.at(self.t, "%scratch", offset))

    def store(self, lines: Lines, value: str, place: Place) -> None:
        kind, number = place
        if kind == "output":
            group, index = self.signature.output_place(number)
            address = lines.at(self.t, f"%out{group}", index)
        elif kind == "argument":
            address = lines.at(self.t, "%scratch", self.argument[number])
        else:
            address = lines.at(self.t, "%scratch", 3 * self.n_arguments + number)
        lines.store(self.t, value, address)


def emit_one(
    schedule: Schedule, signature: Signature, dtype: str, target: Target, name: str
) -> str:
    """Text of ``void @name(in0, in1, ..., out0, ...)``, one pointer per group."""
    t = VectorType(dtype, 1)
    memory = _Memory(t, signature, schedule, target.width(dtype))
    names = [f"%in{g}" for g in range(len(signature.inputs))]
    names += [f"%out{g}" for g in range(len(signature.outputs))]
    parameters = ", ".join(f"ptr {name}" for name in names)
    functions: list[str] = []
    main = Lines()
    main.do(f"%scratch = alloca [{max(1, memory.size)} x {t}], align 64")
    single = sum(len(stage.segments) for stage in schedule.stages) <= 1 + len(
        schedule.stages[:-1]
    )
    for number, stage in enumerate(schedule.stages):
        for segment in stage.segments:
            if single:
                write_segment(main, t, schedule, segment, memory)
                continue
            part = Lines()
            write_segment(part, t, schedule, segment, memory)
            part_name = f"@{name}_{len(functions)}"
            given = f"ptr %scratch, {parameters}"
            functions.append(internal_function(part_name, given, part, apart=True))
            main.do(f"call void {part_name}(ptr %scratch, {parameters})")
        _write_sincos(main, t, schedule, memory, memory.packs[number], target, number)
    functions.append(f"define void @{name}({parameters}) {{\n{main}\n  ret void\n}}\n")
    return "".join(functions)


def _write_sincos(
    lines: Lines,
    t: VectorType,
    schedule: Schedule,
    memory: _Memory,
    packs: list[_Pack],
    target: Target,
    number: int,
) -> None:
    """Sines and cosines of all packs, then one test whether any argument was too large."""
    fine = ""
    for together in _alike(packs):
        wide = VectorType(t.dtype, together[0].width)
        xs = [_gather(lines, t, schedule, memory, pack) for pack in together]
        results = sincos(lines, wide, xs, fma=target.fma)
        for pack, x, (sine, cosine, inside) in zip(together, xs, results, strict=True):
            at = memory.n_arguments + 2 * pack.offset
            lines.store(wide, x, lines.at(t, "%scratch", pack.offset))
            lines.store(wide, sine, lines.at(t, "%scratch", at))
            lines.store(wide, cosine, lines.at(t, "%scratch", at + pack.width))
            ok = lines.all_true(wide, inside)
            fine = lines.let(f"and i1 {fine}, {ok}") if fine else ok
    if not packs:
        return
    lines.do(f"br i1 {fine}, label %trig_done{number}, label %trig_repair{number}")
    lines.label(f"trig_repair{number}")
    for pack in packs:
        args = lines.at(t, "%scratch", pack.offset)
        out = lines.at(t, "%scratch", memory.n_arguments + 2 * pack.offset)
        lines.do(f"call void @repair(ptr {args}, ptr {out}, i64 1, i64 {pack.width})")
    lines.do(f"br label %trig_done{number}")
    lines.label(f"trig_done{number}")


def _alike(packs: list[_Pack]) -> list[list[_Pack]]:
    """Packs in pairs of equal width, evaluated together."""
    pairs: list[list[_Pack]] = []
    for pack in packs:
        if pairs and len(pairs[-1]) == 1 and pairs[-1][0].width == pack.width:
            pairs[-1].append(pack)
        else:
            pairs.append([pack])
    return pairs


def _gather(
    lines: Lines, t: VectorType, schedule: Schedule, memory: _Memory, pack: _Pack
) -> str:
    """Arguments of a pack as one vector: one load where they are neighbours in an input."""
    wide = VectorType(t.dtype, pack.width)
    places = [
        memory.signature.input_place(schedule.left[k]) if schedule.op[k] == Op.INPUT else None
        for k in pack.arguments
    ]
    start = places[0]
    if start is not None and all(
        place == (start[0], start[1] + lane) for lane, place in enumerate(places)
    ):
        return lines.load(wide, lines.at(t, f"%in{start[0]}", start[1]))
    vector = "poison"
    for lane, (k, place) in enumerate(zip(pack.arguments, places, strict=True)):
        if place is not None:
            value = memory.load(lines, "input", schedule.left[k])
        else:
            where = memory.argument[schedule.argument_number[k]]
            value = lines.load(t, lines.at(t, "%scratch", where))
        if pack.width == 1:
            return value
        vector = lines.let(f"insertelement {wide} {vector}, {t} {value}, i32 {lane}")
    return vector


# ---- segments: the operations of a schedule as LLVM instructions -----------------------------


class AbstractMemory(Protocol):
    """Where inputs, sines, cosines and slots lie; differs between one state and batches."""

    def load(self, lines: Lines, kind: str, number: int) -> str:
        """Value of an ``input``, ``sine``, ``cosine`` or ``temporary``."""

    def store(self, lines: Lines, value: str, place: Place) -> None:
        """Write a value to its place."""


def write_segment(
    lines: Lines,
    t: VectorType,
    schedule: Schedule,
    segment: Segment,
    memory: AbstractMemory,
) -> None:
    """Append the instructions of a segment to ``lines``."""
    writer = _Writer(lines, t, schedule, memory)
    for k in segment.nodes:
        writer.operation(k)
        for ref, place in segment.stores.get(k, ()):
            memory.store(lines, writer.plain(ref), place)
    for ref, place in segment.copies:
        memory.store(lines, writer.plain(ref), place)


@final
class _Writer:
    def __init__(
        self, lines: Lines, t: VectorType, s: Schedule, memory: AbstractMemory
    ) -> None:
        self.lines, self.t, self.s, self.memory = lines, t, s, memory
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
        if op == CONSTANT:
            return self.t.constant(self.s.constants[left]), sign
        if op == SIN and left < 0:
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
        if op == ADD:
            self.value[k] = self._add(left, right)
        elif op in PRODUCTS:
            (a, sa), (b, sb) = self.get(left), self.get(right)
            word = PRODUCTS[op]
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
