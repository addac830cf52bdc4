"""G = V^T V in LLVM text: tiles of W rows and 2 W columns, each a sum over rows of V.

A tile sums over the freedoms that support both a row and a column of it; where V has zeros in
such a row, they add nothing. Entries (i, j) and (j, i) are sums of the same products in the
same order: G is symmetric to the last bit.
"""

from __future__ import annotations

from dynsys.codegen.llvm_text import Lines, VectorType
from dynsys.codegen.tail_text import Tables, broadcast, join, multiply_add
from dynsys.codegen.tiles import Supports, block_starts, union
from dynsys.codegen.transpose import store_columns

__all__ = ["call_products", "product_functions"]


def call_products(
    main: Lines, tables: Tables, t: VectorType, supports: Supports, V: int
) -> None:
    """Append the calls for all tiles; V begins at number ``V`` of %work."""
    m = len(supports)
    for b in block_starts(m, 2 * t.width):
        for a in (a for a in block_starts(m, t.width) if a < b + 2 * t.width):
            shared = union(supports, a, t.width) & union(supports, b, 2 * t.width)
            rows = tables.integers(V + m * k for k in sorted(shared))
            inside = b <= a <= b + t.width  # its mirror is another such tile
            name = "gram_inner_tile" if inside else "gram_tile"
            place = f"i64 {a}, i64 {b}, i64 {len(shared)}, ptr {rows}"
            main.do(f"call void @{name}(ptr %work, ptr %out, {place})")


def product_functions(t: VectorType, m: int) -> str:
    """Text of ``@gram_tile`` and ``@gram_inner_tile``, which leaves the mirror out."""
    return _tile(t, m, mirror=True) + _tile(t, m, mirror=False)


def _tile(t: VectorType, m: int, *, mirror: bool) -> str:
    """W rows from a, 2 W columns from b: sums over ``count`` rows of V."""
    loop, done = Lines("t"), Lines("d")
    sums = [f"%g{i}" for i in range(2 * t.width)]
    columns = [loop.load(t, loop.at(t, "%from_b", h * t.width)) for h in range(2)]
    after = []
    for i in range(t.width):
        x = broadcast(loop, t, loop.at(t, "%from_a", i))
        for h in range(2):
            after.append(multiply_add(loop, t, x, columns[h], sums[2 * i + h]))
    finals = [f"%f{i}" for i in range(2 * t.width)]
    for i in range(t.width):
        row = done.at(t, "%out_ab", i * m)
        for h in range(2):
            done.store(t, finals[2 * i + h], done.at(t, row, h * t.width))
    for h in range(2 if mirror else 0):
        rows = [done.at(t, "%out_ba", (h * t.width + i) * m) for i in range(t.width)]
        store_columns(done, t, rows, 0, finals[h::2])
    name = "gram_tile" if mirror else "gram_inner_tile"
    parameters = "ptr %work, ptr %out, i64 %a, i64 %b, i64 %count, ptr %rows"
    return f"""
define internal void @{name}({parameters}) noinline {{
start:
  %at_a = getelementptr {t.element}, ptr %work, i64 %a
  %at_b = getelementptr {t.element}, ptr %work, i64 %b
  %some = icmp ne i64 %count, 0
  br i1 %some, label %loop, label %done
loop:
  %k = phi i64 [ 0, %start ], [ %next, %loop ]
{_phis(t, sums, after)}
  %row_at = getelementptr i32, ptr %rows, i64 %k
  %row32 = load i32, ptr %row_at
  %row = zext i32 %row32 to i64
  %from_a = getelementptr {t.element}, ptr %at_a, i64 %row
  %from_b = getelementptr {t.element}, ptr %at_b, i64 %row
{join(loop)}
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %done
done:
{_phis(t, finals, after)}
  %row_a = mul i64 %a, {m}
  %place_ab = add i64 %row_a, %b
  %out_ab = getelementptr {t.element}, ptr %out, i64 %place_ab
  %row_b = mul i64 %b, {m}
  %place_ba = add i64 %row_b, %a
  %out_ba = getelementptr {t.element}, ptr %out, i64 %place_ba
{join(done)}
  ret void
}}
"""


def _phis(t: VectorType, names: list[str], values: list[str]) -> str:
    return "\n".join(
        f"  {name} = phi {t} [ zeroinitializer, %start ], [ {value}, %loop ]"
        for name, value in zip(names, values, strict=True)
    )
