"""Tail of H^-1 and Lambda^-1: G = V^T V from articulated freedoms, SIMD over the columns.

With r = 1 / sqrt(D), S' = r S and U' = r U, a wrench x at a body passes the joints towards the
base, leaving at each the torque that the joint does not carry:

    v_j = x . S'_j       x <- x - v_j U'_j            j from the body to the base

Columns x = U_i / D_i for freedom i (with v_i = -r_i) give V with H^-1 = V^T V; columns that are
rows of a Jacobian, as wrenches in the common frame, give Lambda^-1 = J H^-1 J^T = V^T V. H not
positive definite makes r, and all that follows, NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from dynsys.branch.inverse import inverse_from_articulated, operational_inverse
from dynsys.codegen.llvm_text import Lines, VectorType
from dynsys.codegen.tail_text import (
    Tables,
    broadcast,
    dot,
    masked,
    multiply_add,
    multiply_subtract,
)
from dynsys.codegen.tiles import Supports, block_starts, union
from dynsys.codegen.transpose import store_columns
from dynsys.recursive.common_frame import Freedoms
from dynsys.types import IntArray, ScalarArray

__all__ = ["GramTail"]


@final
@dataclass(frozen=True, eq=False)
class GramTail:
    """G (m, m) of m columns; ``supports`` names the freedoms that support each column.

    The head gives D (n,), S (6, n), U (6, n) and, unless the columns are the freedoms
    themselves, the columns x (6, m).
    """

    parent: IntArray  # expanded
    supports: Supports
    own: bool  # columns are the freedoms themselves

    @property
    def n(self) -> int:
        """Number of freedoms."""
        return len(self.parent)

    @property
    def m(self) -> int:
        """Number of columns."""
        return len(self.supports)

    @property
    def n_head(self) -> int:
        """Numbers that the head computes."""
        return 13 * self.n + (0 if self.own else 6 * self.m)

    @property
    def n_work(self) -> int:
        """Numbers of memory: S', U', r, x of the freedoms, V."""
        return self._V + self.n * self.m

    @property
    def _r(self) -> int:
        return 12 * self.n

    @property
    def _x(self) -> int:
        return 13 * self.n

    @property
    def _V(self) -> int:
        return (19 if self.own else 13) * self.n

    def fits(self, width: int) -> bool:
        """Whether vectors of ``width`` numbers can cover the matrices."""
        return self.n >= width and self.m >= 2 * width

    def evaluate(self, head: ScalarArray) -> ScalarArray:
        """G (m, m) from the numbers of the head, without vectors."""
        n = self.n
        matrix = head[n : 13 * n].reshape(2, 6, n)
        bodies = Freedoms(head[:n], matrix[0], matrix[1])
        if self.own:
            return inverse_from_articulated(bodies, self.parent)
        return operational_inverse(bodies, head[13 * n :].reshape(6, -1), self.supports)

    def text(self, dtype: str, width: int) -> str:
        """Text of ``void @tail(ptr head, ptr work, ptr out)``."""
        t = VectorType(dtype, width)
        tables, main = Tables("gram_table"), Lines("m")
        for first in block_starts(self.n, width):
            main.do(f"call void @gram_scale(ptr %head, ptr %work, i64 {first})")
        for first in block_starts(self.m, 2 * width):
            self._call_sweep(main, tables, t, first)
        if self.own:
            main.do("call void @gram_diagonal(ptr %work)")
        for b in block_starts(self.m, 2 * width):
            for a in (a for a in block_starts(self.m, width) if a < b + 2 * width):
                self._call_tile(main, tables, t, a, b)
        body = "\n".join(main.text)
        functions = [self._scale(t), self._sweep(t), self._tile(t)]
        if self.own:
            functions.append(self._diagonal(t))
        tail = f"define internal void @tail(ptr %head, ptr %work, ptr %out) {{\n{body}\n  ret void\n}}\n"
        return tables.text() + "".join(functions) + tail

    # ---- scaling -------------------------------------------------------------------------

    def _scale(self, t: VectorType) -> str:
        """Text of ``@gram_scale(head, work, first)``: r, S', U' (and x) of W freedoms."""
        lines = Lines("t")
        lines.do(f"%given = getelementptr {t.element}, ptr %head, i64 %first")
        lines.do(f"%at = getelementptr {t.element}, ptr %work, i64 %first")
        D = lines.load(t, "%given")
        inverse = lines.let(f"fdiv {t} {t.constant(1.0)}, {D}")
        r = lines.let(f"call {t} @llvm.sqrt.{t.suffix}({t} {inverse})")
        lines.store(t, r, lines.at(t, "%at", self._r))
        for k in range(12):
            value = lines.load(t, lines.at(t, "%given", (1 + k) * self.n))
            scaled = lines.let(f"fmul {t} {value}, {r}")
            lines.store(t, scaled, lines.at(t, "%at", k * self.n))
            if self.own and k >= 6:
                x = lines.let(f"fmul {t} {scaled}, {r}")
                lines.store(t, x, lines.at(t, "%at", self._x + (k - 6) * self.n))
        return _function("@gram_scale(ptr %head, ptr %work, i64 %first)", lines)

    def _diagonal(self, t: VectorType) -> str:
        """Text of ``@gram_diagonal(work)``: V_ii = -r_i."""
        return f"""
define internal void @gram_diagonal(ptr %work) noinline {{
start:
  %r = getelementptr {t.element}, ptr %work, i64 {self._r}
  %V = getelementptr {t.element}, ptr %work, i64 {self._V}
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  %from = getelementptr {t.element}, ptr %r, i64 %i
  %value = load {t.element}, ptr %from
  %minus = fneg {t.element} %value
  %place = mul i64 %i, {self.m + 1}
  %to = getelementptr {t.element}, ptr %V, i64 %place
  store {t.element} %minus, ptr %to
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {self.n}
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""

    # ---- sweep ---------------------------------------------------------------------------

    def _call_sweep(self, main: Lines, tables: Tables, t: VectorType, first: int) -> None:
        columns = range(first, first + 2 * t.width)
        steps = sorted(union(self.supports, first, 2 * t.width), reverse=True)
        lanes = [
            j in self.supports[c] and not (self.own and j == c) for j in steps for c in columns
        ]
        if not steps:
            return
        source = "%work" if self.own else "%head"
        places, masks = tables.integers(steps), tables.masks(t, lanes)
        main.do(
            f"call void @gram_sweep(ptr {source}, ptr %work, i64 {first}, i64 {len(steps)}, "
            f"ptr {places}, ptr {masks})"
        )

    def _sweep(self, t: VectorType) -> str:
        """Text of ``@gram_sweep``: rows of V for 2 W columns, two vectors side by side."""
        start, loop = Lines("s"), Lines("t")
        start.do(f"%column = getelementptr {t.element}, ptr %work, i64 %first")
        start.do(f"%source = getelementptr {t.element}, ptr %x, i64 %first")
        first = [
            start.load(t, start.at(t, "%source", self._x + k * self.m + h * t.width))
            for k in range(6)
            for h in range(2)
        ]
        names = [f"%x{k}" for k in range(12)]
        S = [self._of_freedom(loop, t, k * self.n) for k in range(6)]
        rows = []
        for h in range(2):
            total = dot(loop, t, S, names[h::2])
            mask_at = loop.at(t, "%mask_at", h * t.width)
            mask = loop.let(f"load {t.integer}, ptr {mask_at}, align {t.size}")
            rows.append(masked(loop, t, total, mask))
            loop.store(t, rows[h], loop.at(t, "%row_at", h * t.width))
        after = [""] * 12
        for k in range(6):
            U = self._of_freedom(loop, t, (6 + k) * self.n)
            for h in range(2):
                x = names[2 * k + h]
                after[2 * k + h] = multiply_subtract(loop, t, U, rows[h], x)
        phis = "\n".join(
            f"  {name} = phi {t} [ {a}, %start ], [ {b}, %loop ]"
            for name, a, b in zip(names, first, after, strict=True)
        )
        parameters = "ptr %x, ptr %work, i64 %first, i64 %count, ptr %steps, ptr %masks"
        return f"""
define internal void @gram_sweep({parameters}) noinline {{
start:
{_join(start)}
  br label %loop
loop:
  %step = phi i64 [ 0, %start ], [ %next, %loop ]
{phis}
  %step_at = getelementptr i32, ptr %steps, i64 %step
  %j32 = load i32, ptr %step_at
  %j = zext i32 %j32 to i64
  %freedom = getelementptr {t.element}, ptr %work, i64 %j
  %mask_place = mul i64 %step, {2 * t.width}
  %mask_at = getelementptr {t.element}, ptr %masks, i64 %mask_place
  %row = mul i64 %j, {self.m}
  %row_far = add i64 %row, {self._V}
  %row_at = getelementptr {t.element}, ptr %column, i64 %row_far
{_join(loop)}
  %next = add i64 %step, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""

    def _of_freedom(self, lines: Lines, t: VectorType, place: int) -> str:
        return broadcast(lines, t, lines.at(t, "%freedom", place))

    # ---- products ------------------------------------------------------------------------

    def _call_tile(self, main: Lines, tables: Tables, t: VectorType, a: int, b: int) -> None:
        shared = union(self.supports, a, t.width) & union(self.supports, b, 2 * t.width)
        rows = tables.integers(self._V + self.m * k for k in sorted(shared))
        main.do(
            f"call void @gram_tile(ptr %work, ptr %out, i64 {a}, i64 {b}, i64 {len(shared)}, "
            f"ptr {rows})"
        )

    def _tile(self, t: VectorType) -> str:
        """Text of ``@gram_tile``: W rows from a, 2 W columns from b, and their mirror."""
        loop, done = Lines("t"), Lines("d")
        names = [f"%g{i}" for i in range(2 * t.width)]
        columns = [loop.load(t, loop.at(t, "%from_b", h * t.width)) for h in range(2)]
        after = []
        for i in range(t.width):
            x = broadcast(loop, t, loop.at(t, "%from_a", i))
            for h in range(2):
                after.append(multiply_add(loop, t, x, columns[h], names[2 * i + h]))
        finals = [f"%f{i}" for i in range(2 * t.width)]
        for i in range(t.width):
            row = done.at(t, "%out_ab", i * self.m)
            for h in range(2):
                done.store(t, finals[2 * i + h], done.at(t, row, h * t.width))
        for h in range(2):
            rows = [done.at(t, "%out_ba", (h * t.width + i) * self.m) for i in range(t.width)]
            store_columns(done, t, rows, 0, finals[h::2])
        phis = "\n".join(
            f"  {name} = phi {t} [ zeroinitializer, %start ], [ {b}, %loop ]"
            for name, b in zip(names, after, strict=True)
        )
        results = "\n".join(
            f"  {name} = phi {t} [ zeroinitializer, %start ], [ {b}, %loop ]"
            for name, b in zip(finals, after, strict=True)
        )
        return f"""
define internal void @gram_tile(ptr %work, ptr %out, i64 %a, i64 %b, i64 %count, ptr %rows) noinline {{
start:
  %at_a = getelementptr {t.element}, ptr %work, i64 %a
  %at_b = getelementptr {t.element}, ptr %work, i64 %b
  %some = icmp ne i64 %count, 0
  br i1 %some, label %loop, label %done
loop:
  %k = phi i64 [ 0, %start ], [ %next, %loop ]
{phis}
  %row_at = getelementptr i32, ptr %rows, i64 %k
  %row32 = load i32, ptr %row_at
  %row = zext i32 %row32 to i64
  %from_a = getelementptr {t.element}, ptr %at_a, i64 %row
  %from_b = getelementptr {t.element}, ptr %at_b, i64 %row
{_join(loop)}
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %done
done:
{results}
  %row_a = mul i64 %a, {self.m}
  %place_ab = add i64 %row_a, %b
  %out_ab = getelementptr {t.element}, ptr %out, i64 %place_ab
  %row_b = mul i64 %b, {self.m}
  %place_ba = add i64 %row_b, %a
  %out_ba = getelementptr {t.element}, ptr %out, i64 %place_ba
{_join(done)}
  ret void
}}
"""


def _join(lines: Lines) -> str:
    return "\n".join(lines.text)


def _function(head: str, lines: Lines) -> str:
    return f"\ndefine internal void {head} noinline {{\n{_join(lines)}\n  ret void\n}}\n"
