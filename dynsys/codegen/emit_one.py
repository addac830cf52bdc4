"""LLVM text of ``one``: the program on a single state.

Sines and cosines are still evaluated W at a time: the angles of one state sit side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from dynsys.codegen.body import write_segment
from dynsys.codegen.llvm_text import Lines, VectorType
from dynsys.codegen.schedule import Place, Schedule, Stage
from dynsys.codegen.sincos import sincos
from dynsys.codegen.target import Target
from dynsys.program.program import Op, Program
from dynsys.program.signature import Signature

__all__ = ["emit_one"]


@final
@dataclass(frozen=True)
class _Pack:
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
    program: Program,
    schedule: Schedule,
    signature: Signature,
    dtype: str,
    target: Target,
    name: str = "one",
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
                write_segment(main, t, program, schedule, segment, memory)
                continue
            part = Lines()
            write_segment(part, t, program, schedule, segment, memory)
            part_name = f"@{name}_{len(functions)}"
            functions.append(
                f"define internal void {part_name}(ptr %scratch, {parameters}) noinline {{\n"
                + "\n".join(part.text)
                + "\n  ret void\n}\n"
            )
            main.do(f"call void {part_name}(ptr %scratch, {parameters})")
        _write_sincos(main, t, schedule, memory, memory.packs[number], target, number)
    body = "\n".join(main.text)
    functions.append(f"define void @{name}({parameters}) {{\n{body}\n  ret void\n}}\n")
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
