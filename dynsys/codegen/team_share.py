"""LLVM text of one thread's part of a batch: chunks of its own zone, then of the others'."""

from __future__ import annotations

from dynsys.codegen.batch_driver import CHUNK
from dynsys.codegen.fastcall import FREE, MALLOC, runtime
from dynsys.codegen.llvm_text import Lines, VectorType
from dynsys.codegen.team_block import (
    ARRAYS,
    BOARD,
    COUNTERS,
    LINE,
    ROWS,
    ZONES,
    join,
    load,
    parameters,
)
from dynsys.program.signature import Signature

__all__ = ["emit_share"]


def emit_share(t: VectorType, signature: Signature, scratch_bytes: int) -> str:
    """Text of ``i64 @work(block, line)``, which a caller and its helpers run alike."""
    return _share(t, signature) + _work(signature, scratch_bytes)


def _share(t: VectorType, signature: Signature) -> str:
    """Text of ``@share``: chunks of rows, of one's own zone first, until none is left."""
    lines = Lines("c")
    arguments = ""
    for g in range(len(signature.groups)):
        offset = lines.let(f"mul i64 %first, %s{g}")
        address = lines.let(f"getelementptr {t.element}, ptr %p{g}, i64 {offset}")
        arguments += f", ptr {address}, i64 %s{g}"
    fine = lines.let(f"call i64 @batch(i64 %rows, ptr %scratch{arguments})")
    return f"""
define internal i64 @share(
    ptr %counters, i64 %zones, i64 %own, i64 %n, ptr %scratch{parameters(signature)}) {{
start:
  %up = add i64 %n, {CHUNK - 1}
  %chunks = udiv i64 %up, {CHUNK}
  br label %next_zone
next_zone:
  %fine = phi i64 [ 1, %start ], [ %fine_here, %head ]
  %step = phi i64 [ 0, %start ], [ %step_on, %head ]
  %step_on = add i64 %step, 1
  %left_over = icmp ult i64 %step, %zones
  br i1 %left_over, label %zone, label %done
zone:
  %place = add i64 %own, %step
  %which = urem i64 %place, %zones
  %after = add i64 %which, 1
  %begin_scaled = mul i64 %which, %chunks
  %end_scaled = mul i64 %after, %chunks
  %begin = udiv i64 %begin_scaled, %zones
  %end = udiv i64 %end_scaled, %zones
  %line = mul i64 %which, {LINE}
  %counter = getelementptr i64, ptr %counters, i64 %line
  br label %head
head:
  %fine_here = phi i64 [ %fine, %zone ], [ %both, %loop ]
  %taken = atomicrmw add ptr %counter, i64 1 monotonic
  %chunk = add i64 %begin, %taken
  %more = icmp ult i64 %chunk, %end
  br i1 %more, label %loop, label %next_zone
loop:
  %first = mul i64 %chunk, {CHUNK}
  %left = sub i64 %n, %first
  %few = icmp ult i64 %left, {CHUNK}
  %rows = select i1 %few, i64 %left, i64 {CHUNK}
{join(lines)}
  %both = and i64 %fine_here, {fine}
  br label %head
done:
  ret i64 %fine
}}
"""


def _work(signature: Signature, scratch_bytes: int) -> str:
    """Text of ``i64 @work(block, line)``: a share of the rows; -1 if memory is short.

    The caller's line is the one before the first of the board.
    """
    lines = Lines("w")
    memory = lines.let(f"call ptr {runtime(lines, MALLOC)}(i64 {scratch_bytes + 64})")
    enough = lines.let(f"icmp ne ptr {memory}, null")
    some = Lines("v")
    start = some.let(f"ptrtoint ptr {memory} to i64")
    aligned = some.let(f"and i64 {some.let(f'add i64 {start}, 63')}, -64")
    scratch = some.let(f"inttoptr i64 {aligned} to ptr")
    arguments = ""
    for g in range(len(signature.groups)):
        data = load(some, "ptr", ARRAYS + 2 * g)
        stride = load(some, "i64", ARRAYS + 2 * g + 1)
        arguments += f", ptr {data}, i64 {stride}"
    rows = load(some, "i64", ROWS)
    zones = load(some, "i64", ZONES)
    counters = load(some, "ptr", COUNTERS)
    board = some.let(f"ptrtoint ptr {load(some, 'ptr', BOARD)} to i64")
    distance = some.let(f"sub i64 {some.let('ptrtoint ptr %line to i64')}, {board}")
    lines_on = some.let(f"sdiv i64 {distance}, {8 * LINE}")
    own = some.let(f"add i64 {lines_on}, 1")
    shared = f"ptr {counters}, i64 {zones}, i64 {own}, i64 {rows}, ptr {scratch}"
    fine = some.let(f"call i64 @share({shared}{arguments})")
    some.do(f"call void {runtime(some, FREE)}(ptr {memory})")
    return f"""
define internal i64 @work(ptr %block, ptr %line) {{
{join(lines)}
  br i1 {enough}, label %some, label %short
some:
{join(some)}
  ret i64 {fine}
short:
  ret i64 -1
}}
"""
