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

from dynsys.codegen.gram_products import call_products, product_functions
from dynsys.codegen.llvm_text import Lines, VectorType
from dynsys.codegen.tail_text import (
    Tables,
    broadcast,
    internal_function,
    join,
    masked,
    multiply_add,
    multiply_subtract,
    tail_function,
)
from dynsys.codegen.tiles import Supports, block_starts, union
from dynsys.recursive.common_frame import Freedoms
from dynsys.recursive.inverse import inverse_from_articulated, operational_inverse
from dynsys.types import IntArray, ScalarArray

__all__ = ["GramTail"]


@final
@dataclass(frozen=True, eq=False)
class GramTail:
    """G (m, m) of m columns; ``supports`` names the freedoms that support each column.

    The head gives the columns x (6, m), unless they are the freedoms themselves, then D (n,),
    S (6, n) and U (6, n).
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
        return self._D + 13 * self.n

    @property
    def n_work(self) -> int:
        """Numbers of memory: S', U', r, x of the freedoms, V."""
        return self._V + self.n * self.m

    @property
    def _r(self) -> int:
        return 12 * self.n

    @property
    def _x(self) -> int:
        return 13 * self.n if self.own else 0

    @property
    def _D(self) -> int:
        return 0 if self.own else 6 * self.m

    @property
    def _V(self) -> int:
        return (19 if self.own else 13) * self.n

    def evaluate(self, head: ScalarArray) -> ScalarArray:
        """G (m, m) from the numbers of the head, without vectors."""
        n = self.n
        wrenches, numbers = head[: self._D], head[self._D :]
        matrix = numbers[n:].reshape(2, 6, n)
        bodies = Freedoms(numbers[:n], matrix[0], matrix[1])
        if self.own:
            return inverse_from_articulated(bodies, self.parent)
        return operational_inverse(bodies, wrenches.reshape(6, -1), self.supports)

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
        call_products(main, tables, t, self.supports, self._V)
        functions = [self._scale(t), self._sweep(t), product_functions(t, self.m)]
        if self.own:
            functions.append(self._diagonal(t))
        return tables.text() + "".join(functions) + tail_function(main)

    # ---- scaling -------------------------------------------------------------------------

    def _scale(self, t: VectorType) -> str:
        """Text of ``@gram_scale(head, work, first)``: r, S', U' (and x) of W freedoms."""
        lines = Lines("t")
        column = lines.let(f"getelementptr {t.element}, ptr %head, i64 %first")
        lines.do(f"%given = getelementptr {t.element}, ptr {column}, i64 {self._D}")
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
        return internal_function("gram_scale", "ptr %head, ptr %work, i64 %first", lines)

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
        rows = []
        for h in range(2):  # S' is read again for the second vector: registers are scarce
            total = self._dot(loop, t, names[h::2])
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
{join(start)}
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
{join(loop)}
  %next = add i64 %step, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""

    def _dot(self, lines: Lines, t: VectorType, x: list[str]) -> str:
        """x . S'_j, in two sums that do not wait for each other."""
        sums = ["", ""]
        for k in (0, 3, 1, 4, 2, 5):
            S = self._of_freedom(lines, t, k * self.n)
            before = sums[k // 3]
            if before:
                sums[k // 3] = multiply_add(lines, t, S, x[k], before)
            else:
                sums[k // 3] = lines.let(f"fmul contract {t} {S}, {x[k]}")
        return lines.let(f"fadd contract {t} {sums[0]}, {sums[1]}")

    def _of_freedom(self, lines: Lines, t: VectorType, place: int) -> str:
        return broadcast(lines, t, lines.at(t, "%freedom", place))
