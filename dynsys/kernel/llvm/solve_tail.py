"""Tail of a matrix program: H^-1 times matrices, and H^-1 itself, from sparse factors of H.

    X = H^-1 [B_1  B_2  1]         H = L^T E L, L unit, with the sparsity of the tree

The head gives 1 / E (n,), the number one, -L row by row, and B_1, B_2 (n, n). Some columns at a
time, a few vectors of them, go through both sweeps in place of the answer:

    y_j = b_j - sum over freedoms i that j supports  L_ij y_i           leaf to root
    x_i = y_i / E_i - sum over freedoms j that support i  L_ij x_j      root to leaf

Every row is gathered in registers and stored once. Rows of B are zero but for columns that
support, or are supported by, their freedom; so are rows of y, and blocks of zeros are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final

import numpy as np

from dynsys.kernel.llvm.matrix_tails import block_starts, tail_function
from dynsys.kernel.llvm.text import Lines, Tables, VectorType
from dynsys.plan.operations import Operations
from dynsys.types import ScalarArray

__all__ = ["SolveTail"]

MATRICES = 3
VECTORS = (2, 3, 4)
"""How many vectors of columns may go through the sweeps together."""


@final
class SolveTail:
    """X (3, n, n); ``supports`` names the freedoms that support each freedom, itself too."""

    def __init__(self, supports: Sequence[frozenset[int]]) -> None:
        self.supports, self.n = supports, len(supports)
        self.rows = [sorted(support - {i}) for i, support in enumerate(supports)]
        starts = np.cumsum([self.n + 1, *map(len, self.rows)])
        self._L = {
            (i, j): int(starts[i]) + k
            for i, row in enumerate(self.rows)
            for k, j in enumerate(row)
        }
        self._B = int(starts[-1])
        self.n_head, self.n_work = self._B + 2 * self.n**2, 0

    def operations(self, dtype: str, width: int) -> Operations:
        """Every row scaled, and every row that it gathers, for all columns of all blocks."""
        scaled = gathered = 0
        for *_, sweeps in self._blocks(width):
            for (*_, many), _ in (row for sweep in sweeps for row in sweep):
                scaled, gathered = scaled + 1, gathered + many
        columns = self._vectors(width) * width
        return Operations(scaled + gathered, gathered) * columns

    def _columns(self, i: int) -> frozenset[int]:
        """Columns of B in which row i, and y_i, may differ from zero."""
        return self.supports[i] | {k for k, own in enumerate(self.supports) if i in own}

    def evaluate(self, head: ScalarArray) -> ScalarArray:
        """X (3, n, n) from the numbers of the head, without vectors."""
        n = self.n
        B = head[self._B :].reshape(2, n, n)
        X = np.concatenate([B, np.eye(n, dtype=head.dtype)[None]])
        for i in reversed(range(n)):
            for j in self.rows[i]:
                X[:, j] = X[:, j] + head[self._L[i, j]] * X[:, i]
        for i in range(n):
            X[:, i] = X[:, i] * head[i]
            for j in self.rows[i]:
                X[:, i] = X[:, i] + head[self._L[i, j]] * X[:, j]
        return X

    def text(self, dtype: str, width: int) -> str:
        """Text of ``void @tail(ptr head, ptr work, ptr out)``."""
        one, count = VectorType(dtype, 1), self._vectors(width)
        t, tables, main, n = VectorType(dtype, width), Tables("solve_table"), Lines("m"), self.n
        units = ", ".join(
            f"{one} {one.constant(float(i == j))}" for i in range(n) for j in range(n)
        )
        identity = f"@solve_unit = internal constant [{n * n} x {one}] [{units}], align 64\n"
        for matrix, first, (up, down) in self._blocks(width):
            of_unit = matrix == MATRICES - 1
            base, place = ("@solve_unit", 0) if of_unit else ("%head", self._B)
            source = main.at(t, base, place + (0 if of_unit else matrix * n * n) + first)
            out = main.at(t, "%out", matrix * n * n + first)
            for start, sweep in ((source, up), (out, down)):
                rows = tables.integers(x for row, _ in sweep for x in row)
                pairs = tables.integers(x for _, some in sweep for x in some)
                main.do(
                    f"call void @solve_sweep(ptr {start}, ptr %head, ptr {out},"
                    f" ptr {rows}, ptr {pairs})"
                )
        sweep_text = _sweep_text(t, count, n)
        return tables.text() + identity + sweep_text + tail_function(main)

    def _vectors(self, width: int) -> int:
        """How many vectors of columns go through the sweeps together."""
        possible = [v for v in VECTORS if v * width <= self.n]
        return min(possible, key=lambda v: (v + 1) * len(block_starts(self.n, v * width)))

    def _blocks(self, width: int) -> Iterator[tuple[int, int, tuple[_Sweep, _Sweep]]]:
        """Number of the matrix, first column, and both sweeps of every block of columns."""
        size = self._vectors(width) * width
        for matrix in range(MATRICES):
            for first in block_starts(self.n, size):
                columns = frozenset(range(first, first + size))
                yield matrix, first, self._sweeps(columns, matrix == MATRICES - 1)

    def _sweeps(self, columns: frozenset[int], of_unit: bool) -> tuple[_Sweep, _Sweep]:
        """Rows leaf to root, then root to leaf, as :func:`_sweep_text` reads them."""
        n = self.n
        if of_unit:
            filled = [any(i in self.supports[c] for c in columns) for i in range(n)]
        else:
            filled = [bool(self._columns(i) & columns) for i in range(n)]
        carried: list[list[int]] = [[] for _ in range(n)]
        for i, j in self._L:
            if filled[i]:
                carried[j].append(i)
        up = [
            (
                (j * n, n, len(carried[j])),
                [x for i in carried[j] for x in (i * n, self._L[i, j])],
            )
            for j in reversed(range(n))
        ]
        down = [
            ((i * n, i, len(row)), [x for j in row for x in (j * n, self._L[i, j])])
            for i, row in enumerate(self.rows)
        ]
        return up, down


_Sweep = list[tuple[tuple[int, int, int], list[int]]]
"""Per row: its place, the place of its factor in the head, how many rows it gathers; then the
place of each of these, and that of its factor."""


def _sweep_text(t: VectorType, count: int, n: int) -> str:
    """Text of ``@solve_sweep(source, head, out, rows, pairs)``: n rows of ``count`` vectors."""
    each = range(count)

    def lines(template: str) -> str:
        return "".join(template.format(v=v, at=v * t.width) for v in each)

    def broadcast(name: str, address: str) -> str:
        return f"""\
  %{name}_number = load {t.element}, ptr {address}, align {t.size}
  %{name}_first = insertelement {t} poison, {t.element} %{name}_number, i32 0
  %{name} = shufflevector {t} %{name}_first, {t} poison, <{t.width} x i32> zeroinitializer
"""

    def table(name: str, pointer: str, index: str, offset: int) -> str:
        return f"""\
  %{name}_at = getelementptr i32, ptr {pointer}, i64 {index}
  %{name}_place = getelementptr i32, ptr %{name}_at, i64 {offset}
  %{name}_32 = load i32, ptr %{name}_place, align 4
  %{name} = zext i32 %{name}_32 to i64
"""

    e, load = t.element, f"load {t}, ptr"
    begin = lines(
        f"""\
  %b{{v}}_at = getelementptr {e}, ptr %from, i64 {{at}}
  %b{{v}} = {load} %b{{v}}_at, align {t.size}
  %s{{v}} = fmul contract {t} %b{{v}}, %scale
"""
    )
    sums = lines(f"  %g{{v}} = phi {t} [ %s{{v}}, %row ], [ %h{{v}}, %gather ]\n")
    add = lines(
        f"""\
  %x{{v}}_at = getelementptr {e}, ptr %other_from, i64 {{at}}
  %x{{v}} = {load} %x{{v}}_at, align {t.size}
  %m{{v}} = fmul contract {t} %l, %x{{v}}
  %h{{v}} = fadd contract {t} %m{{v}}, %g{{v}}
"""
    )
    finals = lines(f"  %f{{v}} = phi {t} [ %s{{v}}, %row ], [ %h{{v}}, %gather ]\n")
    store = lines(
        f"""\
  %o{{v}}_at = getelementptr {e}, ptr %to, i64 {{at}}
  store {t} %f{{v}}, ptr %o{{v}}_at, align {t.size}
"""
    )
    return f"""
define internal void @solve_sweep(ptr %source, ptr %head, ptr %out, ptr %rows, ptr %pairs) {{
start:
  br label %row
row:
  %r = phi i64 [ 0, %start ], [ %r_next, %stored ]
  %p = phi i64 [ 0, %start ], [ %p_end, %stored ]
  %r3 = mul i64 %r, 3
{table("place", "%rows", "%r3", 0)}{table("factor", "%rows", "%r3", 1)}\
{table("many", "%rows", "%r3", 2)}\
  %from = getelementptr {e}, ptr %source, i64 %place
  %to = getelementptr {e}, ptr %out, i64 %place
  %factor_from = getelementptr {e}, ptr %head, i64 %factor
{broadcast("scale", "%factor_from")}{begin}\
  %p_step = mul i64 %many, 2
  %p_end = add i64 %p, %p_step
  %some = icmp ne i64 %many, 0
  br i1 %some, label %gather, label %stored
gather:
  %k = phi i64 [ %p, %row ], [ %k_next, %gather ]
{sums}{table("other", "%pairs", "%k", 0)}{table("weight", "%pairs", "%k", 1)}\
  %other_from = getelementptr {e}, ptr %out, i64 %other
  %weight_from = getelementptr {e}, ptr %head, i64 %weight
{broadcast("l", "%weight_from")}{add}\
  %k_next = add i64 %k, 2
  %again = icmp ult i64 %k_next, %p_end
  br i1 %again, label %gather, label %stored
stored:
{finals}{store}\
  %r_next = add i64 %r, 1
  %more = icmp ult i64 %r_next, {n}
  br i1 %more, label %row, label %done
done:
  ret void
}}
"""
