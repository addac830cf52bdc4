"""LLVM text of ``batch``: the program on n states, W side by side.

States are taken in blocks of T tiles of W. Scratch holds, per tile, vectors over W states:
inputs | outputs | arguments | sines, cosines | slots. A block is loaded (transposed), its sines
and cosines are evaluated, every segment runs over its tiles, and the outputs are transposed
back. The last tile is filled up with copies of the last state; they are stored over that state.
"""

from __future__ import annotations

from typing import final

from dynsys.codegen.body import write_segment
from dynsys.codegen.graph import Op, Program
from dynsys.codegen.llvm_text import Lines, VectorType
from dynsys.codegen.schedule import Place, Schedule, Segment, Stage
from dynsys.codegen.signature import Signature
from dynsys.codegen.sincos import sincos
from dynsys.codegen.target import Target
from dynsys.codegen.transpose import column_blocks, load_columns, store_columns

__all__ = ["batch_scratch_bytes", "emit_batch"]

TILES = 8


@final
class _Memory:
    """Places in a tile, counted in vectors of W states."""

    def __init__(self, t: VectorType, signature: Signature, schedule: Schedule) -> None:
        self.t = t
        self.outputs = signature.n_inputs
        self.arguments = self.outputs + signature.n_outputs
        self.trig = self.arguments + schedule.n_arguments
        self.temporaries = self.trig + 2 * schedule.n_arguments
        size = self.temporaries + schedule.n_slots
        self.size = size | 1  # an odd number of vectors: tiles fall into different cache sets

    def address(self, lines: Lines, slot: int) -> str:
        return lines.at(self.t, "%tile", slot * self.t.width)

    def load_slot(self, lines: Lines, slot: int) -> str:
        return lines.load(self.t, self.address(lines, slot), self.t.size * self.t.width)

    def store_slot(self, lines: Lines, value: str, slot: int) -> None:
        lines.store(self.t, value, self.address(lines, slot), self.t.size * self.t.width)

    def load(self, lines: Lines, kind: str, number: int) -> str:
        first = {
            "input": 0,
            "sine": self.trig + number,
            "cosine": self.trig + number + 1,
            "temporary": self.temporaries,
        }[kind]
        return self.load_slot(lines, first + number)

    def store(self, lines: Lines, value: str, place: Place) -> None:
        kind, number = place
        first = {
            "output": self.outputs,
            "argument": self.arguments,
            "temporary": self.temporaries,
        }[kind]
        self.store_slot(lines, value, first + number)


def batch_scratch_bytes(signature: Signature, schedule: Schedule, t: VectorType) -> int:
    """Bytes of scratch memory that one call of ``batch`` needs."""
    return _Memory(t, signature, schedule).size * t.width * t.size * TILES


def emit_batch(
    program: Program, schedule: Schedule, signature: Signature, dtype: str, target: Target
) -> str:
    """Text of ``i64 @batch(n, scratch, in0, stride0, ..., out0, stride, ...)``.

    Strides count numbers from row to row. Returns 1 if every output is finite, else 0.
    """
    t = VectorType(dtype, target.width(dtype))
    memory = _Memory(t, signature, schedule)
    functions = [_load_function(t, signature, memory), _store_function(t, signature, memory)]
    if schedule.n_arguments:
        functions.append(_sincos_function(t, target))
    calls: list[str] = []
    for number, stage in enumerate(schedule.stages):
        for segment in stage.segments:
            if segment.nodes or segment.copies:
                name = f"@segment_{len(functions)}"
                functions.append(
                    _segment_function(name, t, program, schedule, segment, memory)
                )
                calls.append(name)
        if stage.arguments:
            name = f"@trig_{number}"
            functions.append(_trig_function(name, t, schedule, stage, memory))
            calls.append(name)
    return "".join(functions) + _driver(t, signature, calls)


def _loop(name: str, parameters: str, lines: Lines, memory: _Memory, *, result: str = "") -> str:
    """A function that runs ``lines`` for %t = 0 .. %tiles, with %tile the address of tile t."""
    t = memory.t
    body = "\n".join(lines.text)
    carried = f"  %sum = phi {t} [ zeroinitializer, %start ], [ {result}, %loop ]\n"
    return f"""
define internal {t if result else "void"} {name}(ptr %scratch, i64 %tiles{parameters}) noinline {{
start:
  br label %loop
loop:
  %t = phi i64 [ 0, %start ], [ %t_next, %loop ]
{carried if result else ""}  %offset = mul i64 %t, {memory.size * t.width}
  %tile = getelementptr {t.element}, ptr %scratch, i64 %offset
{body}
  %t_next = add i64 %t, 1
  %more = icmp ult i64 %t_next, %tiles
  br i1 %more, label %loop, label %done
done:
  ret {f"{t} {result}" if result else "void"}
}}
"""


def _segment_function(
    name: str,
    t: VectorType,
    program: Program,
    schedule: Schedule,
    segment: Segment,
    memory: _Memory,
) -> str:
    lines = Lines("v")
    write_segment(lines, t, program, schedule, segment, memory)
    return _loop(name, "", lines, memory)


def _row_numbers(lines: Lines, width: int) -> list[str]:
    """Rows 0 .. W of tile %t, never beyond the last of the %rows rows of the block."""
    first = lines.let(f"mul i64 %t, {width}")
    last = lines.let("sub i64 %rows, 1")
    numbers = [first]
    for k in range(1, width):
        row = lines.let(f"add i64 {first}, {k}")
        inside = lines.let(f"icmp slt i64 {row}, %rows")
        numbers.append(lines.let(f"select i1 {inside}, i64 {row}, i64 {last}"))
    return numbers


def _row_addresses(lines: Lines, t: VectorType, numbers: list[str], group: int) -> list[str]:
    rows = []
    for number in numbers:
        offset = lines.let(f"mul i64 {number}, %s{group}")
        rows.append(lines.let(f"getelementptr {t.element}, ptr %p{group}, i64 {offset}"))
    return rows


def _group_parameters(count: int) -> str:
    return ", i64 %rows" + "".join(f", ptr %p{g}, i64 %s{g}" for g in range(count))


def _load_function(t: VectorType, signature: Signature, memory: _Memory) -> str:
    """Text of ``@load``: input rows to vectors of the tiles."""
    lines = Lines("v")
    numbers = _row_numbers(lines, t.width)
    start = 0
    for group, (_, size) in enumerate(signature.inputs):
        rows = _row_addresses(lines, t, numbers, group) if size else []
        for first, count in column_blocks(size, t.width):
            for i, value in enumerate(load_columns(lines, t, rows, first, count)):
                memory.store_slot(lines, value, start + first + i)
        start += size
    return _loop("@load", _group_parameters(len(signature.inputs)), lines, memory)


def _store_function(t: VectorType, signature: Signature, memory: _Memory) -> str:
    """Text of ``@save``: vectors of the tiles to output rows; returns 0 or NaN per lane."""
    lines = Lines("v")
    numbers = _row_numbers(lines, t.width)
    start = memory.outputs
    total = "%sum"
    for group, (_, size) in enumerate(signature.outputs):
        rows = _row_addresses(lines, t, numbers, group) if size else []
        for first, count in column_blocks(size, t.width):
            columns = [memory.load_slot(lines, start + first + i) for i in range(count)]
            store_columns(lines, t, rows, first, columns)
            for value in columns:  # 0 * x is NaN exactly if x is not finite
                zero = lines.let(f"fmul contract {t} {value}, zeroinitializer")
                total = lines.let(f"fadd contract {t} {zero}, {total}")
        start += size
    if total == "%sum":
        total = lines.let(f"fadd {t} %sum, zeroinitializer")
    parameters = _group_parameters(len(signature.outputs))
    return _loop("@save", parameters, lines, memory, result=total)


def _sincos_function(t: VectorType, target: Target) -> str:
    """Text of ``@sincos(args, out, count)``: out = sine, cosine, sine, ... of count vectors."""
    lines = Lines("v")
    align = t.size * t.width
    x_at = lines.let(f"getelementptr {t}, ptr %args, i64 %k")
    x = lines.load(t, x_at, align)
    sine, cosine, inside = sincos(lines, t, x, fma=target.fma)
    twice = lines.let("shl i64 %k, 1")
    out = lines.let(f"getelementptr {t}, ptr %out, i64 {twice}")
    lines.store(t, sine, out, align)
    lines.store(t, cosine, lines.at(t, out, t.width), align)
    both = lines.let(f"and {t.mask} %mask, {inside}")
    done = Lines("d")
    fine = done.all_true(t, both)
    ones = "splat (i1 true)" if t.width > 1 else "true"
    return f"""
define internal void @sincos(ptr %args, ptr %out, i64 %count) noinline {{
start:
  br label %loop
loop:
  %k = phi i64 [ 0, %start ], [ %k_next, %loop ]
  %mask = phi {t.mask} [ {ones}, %start ], [ {both}, %loop ]
{chr(10).join(lines.text)}
  %k_next = add i64 %k, 1
  %more = icmp ult i64 %k_next, %count
  br i1 %more, label %loop, label %check
check:
{chr(10).join(done.text)}
  br i1 {fine}, label %done, label %large
large:
  call void @repair(ptr %args, ptr %out, i64 %count, i64 {t.width})
  br label %done
done:
  ret void
}}
"""


def _trig_function(
    name: str, t: VectorType, schedule: Schedule, stage: Stage, memory: _Memory
) -> str:
    """Sines and cosines of a stage; arguments that are neighbours in memory go in one call."""
    runs: list[list[int]] = []  # [slot of first argument, number of first argument, count]
    for node in stage.arguments:
        number = schedule.argument_number[node]
        is_input = schedule.op[node] == Op.INPUT
        slot = schedule.left[node] if is_input else memory.arguments + number
        if runs and runs[-1][0] + runs[-1][2] == slot:
            runs[-1][2] += 1
        else:
            runs.append([slot, number, 1])
    lines = Lines("v")
    for slot, number, count in runs:
        args = memory.address(lines, slot)
        out = memory.address(lines, memory.trig + 2 * number)
        lines.do(f"call void @sincos(ptr {args}, ptr {out}, i64 {count})")
    return _loop(name, "", lines, memory)


def _driver(t: VectorType, signature: Signature, calls: list[str]) -> str:
    n_in = len(signature.inputs)
    groups = range(len(signature.groups))
    block = TILES * t.width
    lines = Lines("v")
    arguments: list[str] = []
    for g in groups:
        offset = lines.let(f"mul i64 %first, %s{g}")
        address = lines.let(f"getelementptr {t.element}, ptr %p{g}, i64 {offset}")
        arguments.append(f", ptr {address}, i64 %s{g}")
    common = "ptr %scratch, i64 %tiles"
    lines.do(f"call void @load({common}, i64 %rows{''.join(arguments[:n_in])})")
    for name in calls:
        lines.do(f"call void {name}({common})")
    zero = lines.let(f"call {t} @save({common}, i64 %rows{''.join(arguments[n_in:])})")
    total = lines.let(f"fadd {t} %sum, {zero}")
    end = Lines("d")
    mask = end.let(f"fcmp ord {t} %sum, zeroinitializer")
    fine = end.all_true(t, mask)
    parameters = "".join(f", ptr %p{g}, i64 %s{g}" for g in groups)
    return f"""
define i64 @batch(i64 %n, ptr %scratch{parameters}) {{
start:
  br label %head
head:
  %first = phi i64 [ 0, %start ], [ %next, %loop ]
  %sum = phi {t} [ zeroinitializer, %start ], [ {total}, %loop ]
  %next = add i64 %first, {block}
  %more = icmp slt i64 %first, %n
  br i1 %more, label %loop, label %done
loop:
  %left = sub i64 %n, %first
  %whole = icmp slt i64 %left, {block}
  %rows = select i1 %whole, i64 %left, i64 {block}
  %padded = add i64 %rows, {t.width - 1}
  %tiles = udiv i64 %padded, {t.width}
{chr(10).join(lines.text)}
  br label %head
done:
{chr(10).join(end.text)}
  %flag = zext i1 {fine} to i64
  ret i64 %flag
}}
"""
