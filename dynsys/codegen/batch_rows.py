"""LLVM text of ``@load`` and ``@save``: rows of states to vectors of the tiles and back."""

from __future__ import annotations

from dynsys.codegen.batch_tiles import TileMemory, tile_loop
from dynsys.codegen.llvm_text import Lines, VectorType, row_parameters
from dynsys.codegen.transpose import column_blocks, load_columns, store_columns
from dynsys.program.signature import Signature

__all__ = ["load_function", "store_function"]

MOST_UNROLLED = 128
"""Longer outputs are written by a loop."""


def load_function(t: VectorType, signature: Signature, memory: TileMemory) -> str:
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
    return tile_loop("@load", row_parameters(len(signature.inputs)), lines, memory)


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


def store_function(t: VectorType, signature: Signature, memory: TileMemory) -> str:
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
            total = _with_nan(lines, t, columns, total)
        start += size
    if total == "%sum":
        total = lines.let(f"fadd {t} %sum, zeroinitializer")
    parameters = row_parameters(len(signature.outputs))
    return _save_long(t) + tile_loop("@save", parameters, lines, memory, result=total)


def _save_long(t: VectorType) -> str:
    """Text of ``@save_long(slots, row, stride, size)``: W rows of a long output, by a loop."""
    lines = Lines("v")
    rows = ["%to"]
    for _ in range(1, t.width):
        rows.append(lines.let(f"getelementptr {t.element}, ptr {rows[-1]}, i64 %stride"))
    align = t.size * t.width
    columns = [lines.load(t, lines.at(t, "%from", i * t.width), align) for i in range(t.width)]
    store_columns(lines, t, rows, 0, columns)
    total = _with_nan(lines, t, columns, "%sum")
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


def _with_nan(lines: Lines, t: VectorType, values: list[str], total: str) -> str:
    """``total``, 0 or NaN per lane, with that of more values."""
    for value in values:  # 0 * x is NaN exactly if x is not finite
        zero = lines.let(f"fmul contract {t} {value}, zeroinitializer")
        total = lines.let(f"fadd contract {t} {zero}, {total}")
    return total


def _row_addresses(lines: Lines, t: VectorType, group: int) -> list[str]:
    """Addresses of the W rows of tile %t in a group."""
    stride = f"i64 %s{group}"
    number = lines.let(f"mul i64 %t, {t.width}")
    offset = lines.let(f"mul i64 {number}, %s{group}")
    rows = [lines.let(f"getelementptr {t.element}, ptr %p{group}, i64 {offset}")]
    for _ in range(1, t.width):
        rows.append(lines.let(f"getelementptr {t.element}, ptr {rows[-1]}, {stride}"))
    return rows
