"""LLVM text of ``batch``: the program on n states, W side by side.

States are taken in blocks of T tiles of W. Scratch holds, per tile, vectors over W states:
inputs | outputs | arguments | sines, cosines | slots. A block is loaded (transposed), its sines
and cosines are evaluated, every segment runs over its tiles, and the outputs are transposed
back. The rows that fill no tile are copied in and out one by one.
"""

from __future__ import annotations

from dynsys.codegen.batch_driver import emit_driver
from dynsys.codegen.batch_rows import load_function, store_function
from dynsys.codegen.batch_tiles import TileMemory, tile_loop
from dynsys.codegen.body import write_segment
from dynsys.codegen.llvm_text import Lines, VectorType
from dynsys.codegen.schedule import Schedule, Segment, Stage
from dynsys.codegen.sincos import sincos
from dynsys.codegen.target import Target
from dynsys.program.program import Op, Program
from dynsys.program.signature import Signature

__all__ = ["batch_scratch_bytes", "emit_batch"]


def batch_scratch_bytes(signature: Signature, schedule: Schedule, t: VectorType) -> int:
    """Bytes of scratch memory that one call of ``batch`` needs."""
    return TileMemory(t, signature, schedule).block_bytes


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
    memory = TileMemory(t, signature, schedule)
    functions = [load_function(t, signature, memory), store_function(t, signature, memory)]
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


def _segment_function(
    name: str,
    t: VectorType,
    program: Program,
    schedule: Schedule,
    segment: Segment,
    memory: TileMemory,
) -> str:
    lines = Lines("v")
    write_segment(lines, t, program, schedule, segment, memory)
    return tile_loop(name, "", lines, memory)


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
    name: str, t: VectorType, schedule: Schedule, stage: Stage, memory: TileMemory
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
    return tile_loop(name, "", lines, memory)
