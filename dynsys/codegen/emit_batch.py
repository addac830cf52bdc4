"""LLVM text of ``batch``: the program on n states, W side by side.

States are taken in blocks of T tiles of W. Scratch holds, per tile, vectors over W states:
inputs | outputs | arguments | sines, cosines | slots. A block is loaded (transposed), its sines
and cosines are evaluated, every segment runs over its tiles, and the outputs are transposed
back. The rows that fill no tile are copied in and out one by one.
"""

from __future__ import annotations

from typing import final

from dynsys.codegen.batch_driver import emit_driver
from dynsys.codegen.body import write_segment
from dynsys.codegen.llvm_text import Lines, VectorType
from dynsys.codegen.program import Op, Program
from dynsys.codegen.schedule import Place, Schedule, Segment, Stage
from dynsys.codegen.signature import Signature
from dynsys.codegen.sincos import sincos
from dynsys.codegen.target import Target
from dynsys.codegen.transpose import column_blocks, load_columns, store_columns

__all__ = ["batch_scratch_bytes", "emit_batch"]

_FEWEST_TILES, _MOST_TILES = 4, 8
_BLOCK_BYTES = 65536
"""Scratch of a block: tiles share the fetched instructions of a segment as long as their data
stays in fast memory."""

MOST_UNROLLED = 128
"""Longer outputs are written by a loop."""


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
        bytes_per_tile = self.size * t.width * t.size
        self.tiles = max(_FEWEST_TILES, min(_MOST_TILES, _BLOCK_BYTES // bytes_per_tile))
        self.block_bytes = self.tiles * bytes_per_tile

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
    return _Memory(t, signature, schedule).block_bytes


def emit_batch(
    program: Program,
    schedule: Schedule,
    signature: Signature,
    dtype: str,
    target: Target,
    name: str = "batch",
) -> str:
    """Text of ``i64 @name(n, scratch, in0, stride0, ..., out0, stride, ...)``.

    Strides count numbers from row to row. Returns 1 if every output is finite, else 0.
    """
    t = VectorType(dtype, target.width(dtype))
    memory = _Memory(t, signature, schedule)
    functions = [_load_function(t, signature, memory), _store_function(t, signature, memory)]
    if schedule.n_arguments:
        functions += [_sincos_function(t, target, together) for together in (1, 2)]
    calls: list[str] = []
    for number, stage in enumerate(schedule.stages):
        for segment in stage.segments:
            if segment.nodes or segment.copies:
                part = f"@segment_{len(functions)}"
                functions.append(_segment_function(part, t, program, schedule, segment, memory))
                calls.append(part)
        if stage.arguments:
            part = f"@trig_{number}"
            functions.append(_trig_function(part, t, schedule, stage, memory))
            calls.append(part)
    driver = emit_driver(t, signature, calls, memory.outputs, memory.tiles, name)
    return "".join(functions) + driver


def _loop(
    name: str, parameters: str, lines: Lines, memory: _Memory, *, result: str = ""
) -> str:
    """A function that runs ``lines`` for %t = 0 .. %tiles, with %tile the address of tile t."""
    t = memory.t
    body = "\n".join(lines.text)
    carried = f"  %sum = phi {t} [ zeroinitializer, %start ], [ {result}, %loop ]\n"
    kind = t if result else "void"
    return f"""
define internal {kind} {name}(ptr %scratch, i64 %tiles{parameters}) noinline {{
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


def _row_addresses(lines: Lines, t: VectorType, group: int) -> list[str]:
    """Addresses of the W rows of tile %t in a group."""
    stride = f"i64 %s{group}"
    number = lines.let(f"mul i64 %t, {t.width}")
    offset = lines.let(f"mul i64 {number}, %s{group}")
    rows = [lines.let(f"getelementptr {t.element}, ptr %p{group}, i64 {offset}")]
    for _ in range(1, t.width):
        rows.append(lines.let(f"getelementptr {t.element}, ptr {rows[-1]}, {stride}"))
    return rows


def _group_parameters(count: int) -> str:
    return "".join(f", ptr %p{g}, i64 %s{g}" for g in range(count))


def _load_function(t: VectorType, signature: Signature, memory: _Memory) -> str:
    """Text of ``@load``: input rows to vectors of the tiles."""
    lines = Lines("v")
    start = 0
    for group, (_, size) in enumerate(signature.inputs):
        rows = _row_addresses(lines, t, group) if size else []
        _prefetch_next_block(lines, t, rows, group, size, memory.tiles)
        for first, count in column_blocks(size, t.width):
            for i, value in enumerate(load_columns(lines, t, rows, first, count)):
                memory.store_slot(lines, value, start + first + i)
        start += size
    return _loop("@load", _group_parameters(len(signature.inputs)), lines, memory)


def _prefetch_next_block(
    lines: Lines, t: VectorType, rows: list[str], group: int, size: int, tiles: int
) -> None:
    """Ask for the rows that the same tile of the next block will read, line by line."""
    if not size:
        return
    far = lines.let(f"mul i64 %s{group}, {tiles * t.width}")
    for row in rows:
        start = lines.let(f"getelementptr {t.element}, ptr {row}, i64 {far}")
        for first in range(0, size, 64 // t.size):
            address = lines.at(t, start, first)
            lines.do(f"call void @llvm.prefetch.p0(ptr {address}, i32 0, i32 2, i32 1)")


def _store_function(t: VectorType, signature: Signature, memory: _Memory) -> str:
    """Text of ``@save``: vectors of the tiles to output rows; returns 0 or NaN per lane."""
    lines = Lines("v")
    start = memory.outputs
    total = "%sum"
    for group, (_, size) in enumerate(signature.outputs):
        rows = _row_addresses(lines, t, group) if size else []
        if size > MOST_UNROLLED:
            slots = memory.address(lines, start)
            arguments = f"ptr {slots}, ptr {rows[0]}, i64 %s{group}, i64 {size}"
            zero = lines.let(f"call {t} @save_long({arguments})")
            total = lines.let(f"fadd contract {t} {zero}, {total}")
            start += size
            continue
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
    return _save_long(t) + _loop("@save", parameters, lines, memory, result=total)


def _save_long(t: VectorType) -> str:
    """Text of ``@save_long(slots, row, stride, size)``: W rows of a long output, by a loop."""
    lines = Lines("v")
    rows = ["%to"]
    for _ in range(1, t.width):
        rows.append(lines.let(f"getelementptr {t.element}, ptr {rows[-1]}, i64 %stride"))
    align = t.size * t.width
    columns = [lines.load(t, lines.at(t, "%from", i * t.width), align) for i in range(t.width)]
    store_columns(lines, t, rows, 0, columns)
    total = "%sum"
    for value in columns:  # 0 * x is NaN exactly if x is not finite
        zero = lines.let(f"fmul contract {t} {value}, zeroinitializer")
        total = lines.let(f"fadd contract {t} {zero}, {total}")
    return f"""
define internal {t} @save_long(ptr %slots, ptr %row, i64 %stride, i64 %size) noinline {{
start:
  %last = sub i64 %size, {t.width}
  br label %loop
loop:
  %k = phi i64 [ 0, %start ], [ %next, %loop ]
  %sum = phi {t} [ zeroinitializer, %start ], [ {total}, %loop ]
  %place = mul i64 %k, {t.width}
  %from = getelementptr {t.element}, ptr %slots, i64 %place
  %to = getelementptr {t.element}, ptr %row, i64 %k
{chr(10).join(lines.text)}
  %far = add i64 %k, {t.width}
  %beyond = icmp sgt i64 %far, %last
  %next = select i1 %beyond, i64 %last, i64 %far
  %more = icmp slt i64 %k, %last
  br i1 %more, label %loop, label %done
done:
  ret {t} {total}
}}
"""


def _sincos_function(t: VectorType, target: Target, together: int) -> str:
    """Text of ``@sincos1`` or ``@sincos2`` (args, out, count): out = sine, cosine, sine, ...

    ``together`` vectors per round hide each other's latency; count is at least that, and the
    last round repeats a vector where it does not divide count.
    """
    lines = Lines("v")
    align = t.size * t.width
    mask = "%mask"
    numbers = [lines.let(f"add i64 %k, {i}") for i in range(together)]
    sources = [lines.let(f"getelementptr {t}, ptr %args, i64 {k}") for k in numbers]
    xs = [lines.load(t, address, align) for address in sources]
    results = sincos(lines, t, xs, fma=target.fma)
    for k, (sine, cosine, inside) in zip(numbers, results, strict=True):
        twice = lines.let(f"shl i64 {k}, 1")
        out = lines.let(f"getelementptr {t}, ptr %out, i64 {twice}")
        lines.store(t, sine, out, align)
        lines.store(t, cosine, lines.at(t, out, t.width), align)
        wide = lines.let(f"sext {t.mask} {inside} to {t.integer}")
        mask = lines.let(f"and {t.integer} {mask}, {wide}")
    done = Lines("d")
    all_inside = done.let(f"icmp ne {t.integer} {mask}, zeroinitializer")
    fine = done.all_true(t, all_inside)
    return f"""
define internal void @sincos{together}(ptr %args, ptr %out, i64 %count) noinline {{
start:
  %last = sub i64 %count, {together}
  br label %loop
loop:
  %k = phi i64 [ 0, %start ], [ %k_next, %loop ]
  %mask = phi {t.integer} [ {t.integer_constant(-1)}, %start ], [ {mask}, %loop ]
{chr(10).join(lines.text)}
  %k_far = add i64 %k, {together}
  %beyond = icmp sgt i64 %k_far, %last
  %k_next = select i1 %beyond, i64 %last, i64 %k_far
  %more = icmp slt i64 %k, %last
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
        lines.do(f"call void @sincos{min(count, 2)}(ptr {args}, ptr {out}, i64 {count})")
    return _loop(name, "", lines, memory)
