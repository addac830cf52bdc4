"""LLVM text of ``batch`` itself: the loop over blocks of tiles, and the rows left over."""

from __future__ import annotations

from dynsys.codegen.llvm_text import Lines, VectorType, row_parameters
from dynsys.program.signature import Signature

__all__ = ["CHUNK", "emit_driver"]

CHUNK = 64
"""Rows that a thread takes at a time; a multiple of every vector width."""


def emit_driver(
    t: VectorType,
    signature: Signature,
    calls: list[str],
    first_output: int,
    tiles: int,
    name: str,
) -> str:
    """Text of ``name``; ``calls`` are the functions (scratch, tiles) between load and save."""
    compute = "\n".join(f"  call void {name}(ptr %scratch, i64 %tiles)" for name in calls)
    return f"""
define internal void @compute(ptr %scratch, i64 %tiles) noinline {{
{compute}
  ret void
}}
{_copy_function(t, into_tile=True)}{_copy_function(t, into_tile=False)}
{_batch_function(t, signature, first_output, tiles, name)}"""


def _copy_function(t: VectorType, *, into_tile: bool) -> str:
    """Text of ``@fill`` or ``@spill``: rows to the columns of a tile, or back, one by one.

    Lanes beyond the last row repeat it. Returns the sum of 0 times every number.
    """
    name, source, result = (
        ("@fill", "%row", "%tile") if into_tile else ("@spill", "%tile", "%row")
    )
    e = t.element
    return f"""
define internal {e} {name}(ptr %vectors, i64 %size, i64 %rows, ptr %p, i64 %s) noinline {{
start:
  %total = mul i64 %size, {t.width}
  %last = sub i64 %rows, 1
  br label %head
head:
  %k = phi i64 [ 0, %start ], [ %next, %loop ]
  %sum = phi {e} [ 0.0, %start ], [ %more_sum, %loop ]
  %more = icmp ult i64 %k, %total
  br i1 %more, label %loop, label %done
loop:
  %column = udiv i64 %k, {t.width}
  %lane = urem i64 %k, {t.width}
  %beyond = icmp ugt i64 %lane, %last
  %which = select i1 %beyond, i64 %last, i64 %lane
  %offset = mul i64 %which, %s
  %index = add i64 %offset, %column
  %row = getelementptr {e}, ptr %p, i64 %index
  %tile = getelementptr {e}, ptr %vectors, i64 %k
  %x = load {e}, ptr {source}
  store {e} %x, ptr {result}
  %zero = fmul {e} %x, 0.0
  %more_sum = fadd {e} %sum, %zero
  %next = add i64 %k, 1
  br label %head
done:
  ret {e} %sum
}}
"""


def _addresses(lines: Lines, t: VectorType, first: str, groups: range) -> list[str]:
    out = []
    for g in groups:
        offset = lines.let(f"mul i64 {first}, %s{g}")
        out.append(lines.let(f"getelementptr {t.element}, ptr %p{g}, i64 {offset}"))
    return out


def _batch_function(
    t: VectorType, signature: Signature, first_output: int, tiles: int, name: str
) -> str:
    n_in, n = len(signature.inputs), len(signature.groups)
    block = Lines("b")
    row = block.let(f"mul i64 %first, {t.width}")
    arguments = [
        f", ptr {address}, i64 %s{g}"
        for g, address in enumerate(_addresses(block, t, row, range(n)))
    ]
    block.do(f"call void @load(ptr %scratch, i64 %tiles{''.join(arguments[:n_in])})")
    block.do("call void @compute(ptr %scratch, i64 %tiles)")
    zero = block.let(f"call {t} @save(ptr %scratch, i64 %tiles{''.join(arguments[n_in:])})")
    total = block.let(f"fadd {t} %sum, {zero}")
    end = Lines("d")
    mask = end.let(f"fcmp ord {t} %sum, zeroinitializer")
    fine = end.all_true(t, mask)
    rest, rest_fine = _rest(t, signature, first_output, fine)
    return f"""
define i64 @{name}(i64 %n, ptr %scratch{row_parameters(n)}) {{
start:
  %full = udiv i64 %n, {t.width}
  br label %head
head:
  %first = phi i64 [ 0, %start ], [ %next, %loop ]
  %sum = phi {t} [ zeroinitializer, %start ], [ {total}, %loop ]
  %next = add i64 %first, {tiles}
  %more = icmp ult i64 %first, %full
  br i1 %more, label %loop, label %end
loop:
  %left = sub i64 %full, %first
  %few = icmp ult i64 %left, {tiles}
  %tiles = select i1 %few, i64 %left, i64 {tiles}
{chr(10).join(block.text)}
  br label %head
end:
{chr(10).join(end.text)}
  %done_rows = mul i64 %full, {t.width}
  %rows = sub i64 %n, %done_rows
  %some = icmp ne i64 %rows, 0
  br i1 %some, label %rest, label %done
rest:
{chr(10).join(rest.text)}
  br label %done
done:
  %all_fine = phi i1 [ {fine}, %end ], [ {rest_fine}, %rest ]
  %flag = zext i1 %all_fine to i64
  ret i64 %flag
}}
"""


def _rest(
    t: VectorType, signature: Signature, first_output: int, fine: str
) -> tuple[Lines, str]:
    """The last %rows < W rows: one tile, filled up with copies of the last row."""
    lines = Lines("r")
    addresses = _addresses(lines, t, "%done_rows", range(len(signature.groups)))
    n_in, slot, e = len(signature.inputs), 0, t.element
    for g, (_, size) in enumerate(signature.groups):
        if g == n_in:
            lines.do("call void @compute(ptr %scratch, i64 1)")
            slot = first_output
        vectors = lines.at(t, "%scratch", slot * t.width)
        arguments = f"ptr {vectors}, i64 {size}, i64 %rows, ptr {addresses[g]}, i64 %s{g}"
        name = "@fill" if g < n_in else "@spill"
        zero = lines.let(f"call {e} {name}({arguments})")
        if g >= n_in:
            ordered = lines.let(f"fcmp ord {e} {zero}, 0.0")
            fine = lines.let(f"and i1 {fine}, {ordered}")
        slot += size
    return lines, fine
