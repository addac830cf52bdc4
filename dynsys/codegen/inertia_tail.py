"""Tail of H: H_ij = F_i . S_j from composite freedoms in a common frame, tile by tile.

Freedom j supports freedom i; entries between freedoms of different limbs are exact zeros. The
tiles on the diagonal come last: they set right what overlapping tiles wrote there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from dynsys.codegen.llvm_text import Lines, VectorType
from dynsys.codegen.tail_text import (
    Tables,
    broadcast,
    internal_function,
    masked,
    multiply_add,
    tail_function,
)
from dynsys.codegen.tiles import Supports, block_starts, own_supports
from dynsys.codegen.transpose import store_columns, transposed
from dynsys.recursive.common_frame import Freedoms
from dynsys.recursive.inverse import inertia_from_composites
from dynsys.types import IntArray, ScalarArray

__all__ = ["InertiaTail"]


@final
@dataclass(frozen=True, eq=False)
class InertiaTail:
    """H (n, n) by the expanded ``parent``; the head gives H_ii (n,), S (6, n), F (6, n)."""

    parent: IntArray

    @property
    def n(self) -> int:
        """Number of freedoms."""
        return len(self.parent)

    @property
    def n_head(self) -> int:
        """Numbers that the head computes."""
        return 13 * self.n

    @property
    def n_work(self) -> int:
        """Numbers of memory."""
        return 0

    def evaluate(self, head: ScalarArray) -> ScalarArray:
        """H (n, n) from the numbers of the head, without vectors."""
        matrix = head[self.n :].reshape(2, 6, self.n)
        bodies = Freedoms(head[: self.n], matrix[0], matrix[1])
        return inertia_from_composites(bodies, self.parent)

    def text(self, dtype: str, width: int) -> str:
        """Text of ``void @tail(ptr head, ptr work, ptr out)``."""
        t = VectorType(dtype, width)
        tables, main = Tables("inertia_table"), Lines("m")
        starts, supports = block_starts(self.n, width), own_supports(self.parent)
        for a in starts:
            for b in (b for b in starts if b < a):
                self._call(main, tables, t, supports, a, b)
        for a in starts:
            self._call(main, tables, t, supports, a, a)
        functions = (self._tile(t), self._zero_tile(t), self._diagonal_tile(t))
        return tables.text() + "".join(functions) + tail_function(main)

    def _call(
        self, main: Lines, tables: Tables, t: VectorType, supports: Supports, a: int, b: int
    ) -> None:
        lanes = [
            j < i and j in supports[i]
            for i in range(a, a + t.width)
            for j in range(b, b + t.width)
        ]
        if not any(lanes) and a != b:
            main.do(f"call void @inertia_zero_tile(ptr %out, i64 {a}, i64 {b})")
            return
        masks = tables.masks(t, lanes)
        name = "inertia_tile" if a != b else "inertia_diagonal_tile"
        main.do(f"call void @{name}(ptr %head, ptr %out, i64 {a}, i64 {b}, ptr {masks})")

    def _products(self, lines: Lines, t: VectorType) -> list[str]:
        """F_i . S_j for W rows i from %a and W columns j from %b, masked."""
        lines.do(f"%at_a = getelementptr {t.element}, ptr %head, i64 %a")
        lines.do(f"%at_b = getelementptr {t.element}, ptr %head, i64 %b")
        rows = [""] * t.width
        for k in range(6):
            S = lines.load(t, lines.at(t, "%at_b", (1 + k) * self.n))
            for i in range(t.width):
                F = broadcast(lines, t, lines.at(t, "%at_a", (7 + k) * self.n + i))
                if k:
                    rows[i] = multiply_add(lines, t, F, S, rows[i])
                else:
                    rows[i] = lines.let(f"fmul contract {t} {F}, {S}")
        for i in range(t.width):
            at = lines.at(t, "%masks", i * t.width)
            mask = lines.let(f"load {t.integer}, ptr {at}, align {t.size}")
            rows[i] = masked(lines, t, rows[i], mask)
        return rows

    def _out_rows(self, lines: Lines, t: VectorType, a: str, b: str) -> list[str]:
        """Addresses of (a + i, b) in H for i = 0 .. W."""
        row = lines.let(f"mul i64 {a}, {self.n}")
        place = lines.let(f"add i64 {row}, {b}")
        first = lines.let(f"getelementptr {t.element}, ptr %out, i64 {place}")
        return [lines.at(t, first, i * self.n) for i in range(t.width)]

    def _tile(self, t: VectorType) -> str:
        lines = Lines("t")
        rows = self._products(lines, t)
        for row, address in zip(rows, self._out_rows(lines, t, "%a", "%b"), strict=True):
            lines.store(t, row, address)
        store_columns(lines, t, self._out_rows(lines, t, "%b", "%a"), 0, rows)
        return internal_function(
            "inertia_tile", "ptr %head, ptr %out, i64 %a, i64 %b, ptr %masks", lines
        )

    def _zero_tile(self, t: VectorType) -> str:
        lines = Lines("t")
        for first, second in (("%a", "%b"), ("%b", "%a")):
            for address in self._out_rows(lines, t, first, second):
                lines.store(t, "zeroinitializer", address)
        return internal_function("inertia_zero_tile", "ptr %out, i64 %a, i64 %b", lines)

    def _diagonal_tile(self, t: VectorType) -> str:
        """Lower triangle, its mirror, and the diagonal that the head knows."""
        lines = Lines("t")
        rows = self._products(lines, t)
        addresses = self._out_rows(lines, t, "%a", "%a")
        for i, (row, mirror) in enumerate(zip(rows, transposed(lines, t, rows), strict=True)):
            both = lines.let(f"fadd {t} {row}, {mirror}")
            lines.store(t, both, addresses[i])
        scalar = VectorType(t.dtype, 1)
        for i, address in enumerate(addresses):
            value = lines.load(scalar, lines.at(t, "%at_a", i))
            lines.store(scalar, value, lines.at(t, address, i))
        parameters = "ptr %head, ptr %out, i64 %a, i64 %b, ptr %masks"
        return internal_function("inertia_diagonal_tile", parameters, lines)
