"""LTDL of a given H, specialised to a tree: H = L^T diag(d) L, SIMD along the rows.

Rows are taken in blocks of W columns; of each row only the blocks that hold ancestors are
touched. Columns of a block that are no ancestors hold exact zeros and change nothing. Two
freedoms, a child and its parent, are eliminated together, so that every row above is read and
written once for both ([BIS] appendix, two rounds of its outer loop).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.errors import KernelBuildError
from dynsys.kernel.llvm.computation import each_row, kernel_text
from dynsys.kernel.llvm.target import Target
from dynsys.kernel.llvm.text import Lines, VectorType, row_addresses, row_parameters
from dynsys.model.expanded import own_supports
from dynsys.plan.operations import Operations
from dynsys.program.graph import Graph
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.recursive.sparse_factors import ltdl_scalars
from dynsys.types import IntArray, ScalarArray

__all__ = ["LtdlCode", "ltdl_computation"]

FEWEST_FREEDOMS = 8
MOST_UPDATES = 8000
"""Block updates; above, the code would outgrow every instruction cache."""


def ltdl_computation(parent: IntArray, width: int) -> Program | LtdlCode:
    """L (n, n) and d (n,) of H (n, n), for an expanded parent array.

    Raises
    ------
    KernelBuildError
        if the tree is too large for straight-line code.
    """
    n = len(parent)
    if n < max(FEWEST_FREEDOMS, width):
        graph = Graph()
        L, diag = ltdl_scalars(graph.inputs(n * n).reshape(n, n), parent)
        return graph.program([*np.ravel(L), *diag])
    updates = sum(
        len({j // width for j in support if j <= i})
        for support in own_supports(parent)
        for i in support
    )
    if updates > MOST_UPDATES:
        raise KernelBuildError(
            f"an LTDL kernel of {n} freedoms would need {updates} row updates, more than"
            f" {MOST_UPDATES}: use dynsys.ltdl, compiled loops for trees of any size"
        )
    return LtdlCode(parent)


@final
@dataclass(frozen=True, eq=False)
class LtdlCode:
    """An :class:`AbstractComputation`; see the module. ``parent`` is the expanded array."""

    parent: IntArray

    def evaluate(self, inputs: ScalarArray) -> ScalarArray:
        """L (n, n) and d (n,) side by side, for H (..., n n)."""
        n = len(self.parent)
        matrices = inputs.reshape(-1, n, n)
        rows = [
            np.concatenate([np.ravel(x) for x in ltdl_scalars(H, self.parent)])
            for H in matrices
        ]
        return np.array(rows).reshape(*inputs.shape[:-1], -1)

    def operations(self, dtype: str, target: Target) -> Operations:
        """Its text is straight-line code: every instruction once, every lane of a vector."""
        width = target.tile_width(dtype)
        text = _Writer(self.parent, VectorType(dtype, width)).text()
        products, differences = (width * text.count(f" {op} ") for op in ("fmul", "fsub"))
        return Operations(products, differences, text.count(" fdiv "))

    def module(self, signature: Signature, dtype: str, target: Target) -> str:
        """LLVM text of all functions of a kernel."""
        t = VectorType(dtype, target.tile_width(dtype))
        one = _Writer(self.parent, t).text()
        rows = row_addresses(3, t, "%k") + "  call void @one(ptr %a0, ptr %a1, ptr %a2)"
        batch = each_row(
            "batch", ", ptr %scratch" + row_parameters(3), rows, "%a1", len(self.parent) ** 2
        )
        return kernel_text(one + batch, signature, dtype, target, 0)


class _Writer:
    """Text of ``void @one(H, L, d)``; rows in work live in ``scratch``, padded to blocks."""

    def __init__(self, parent: IntArray, t: VectorType) -> None:
        self.parent, self.t, self.n = parent, t, len(parent)
        self.blocks = -(-self.n // t.width)
        self.lines = Lines()
        self.begun: set[tuple[int, int]] = set()  # (row, block) that scratch holds
        self.supports = own_supports(parent)

    def text(self) -> str:
        size = self.n * self.blocks * self.t.width
        self.lines.do(f"%scratch = alloca [{size} x {self.t.element}], align 64")
        k = self.n - 1
        while k >= 0:
            together = [k, k - 1] if k and self.parent[k] == k - 1 else [k]
            self._eliminate(together)
            k -= len(together)
        parameters = "ptr %in0, ptr %out0, ptr %out1"
        return f"define void @one({parameters}) {{\n{self.lines}\n  ret void\n}}\n"

    def _eliminate(self, freedoms: list[int]) -> None:
        """Pivots of a freedom or of child and parent, then all rows above."""
        lines, t = self.lines, self.t
        lines.do(f"br label %pivot{freedoms[0]}")
        lines.label(f"pivot{freedoms[0]}")
        pivots: list[tuple[dict[int, str], dict[int, str]]] = []  # rows of H and of L
        for k in freedoms:
            row = {c: self._load(k, c) for c in self._row_blocks(k)}
            for above, scaled in pivots:  # H(k,:) -= L(child,k) H(child,:)
                factor = self._lane(scaled[k // t.width], k)
                row = {c: lines.multiply_subtract(t, factor, above[c], row[c]) for c in row}
            pivots.append((row, self._finish(k, row)))
        last = freedoms[-1]
        for i in sorted(self.supports[last] - {last}, reverse=True):
            # H(i,:) -= L(k,i) H(k,:) for every pivot k
            factors = [self._lane(scaled[i // t.width], i) for _, scaled in pivots]
            for c in (c for c in self._row_blocks(last) if c * t.width <= i):
                value = self._load(i, c)
                for factor, (row, _) in zip(factors, pivots, strict=True):
                    value = lines.multiply_subtract(t, factor, row[c], value)
                lines.store(t, value, self._scratch(i, c), t.size * t.width)
                self.begun.add((i, c))

    def _finish(self, k: int, row: dict[int, str]) -> dict[int, str]:
        """Write d_k and row k of L; returns the blocks of that row."""
        lines, t = self.lines, self.t
        own = k // t.width
        # d(k) = H(k,k)
        pivot = lines.let(f"extractelement {t} {row[own]}, i32 {k % t.width}")
        lines.store(VectorType(t.dtype, 1), pivot, lines.at(t, "%out1", k))
        # L(k,:) = H(k,:) / d(k), 1 on the diagonal and 0 right of it
        one = VectorType(t.dtype, 1).constant(1.0)
        reciprocal = lines.let(f"fdiv {t.element} {one}, {pivot}")
        first = lines.let(f"insertelement {t} poison, {t.element} {reciprocal}, i32 0")
        factor = self._lane(first, 0)
        scaled = {c: lines.let(f"fmul {t} {value}, {factor}") for c, value in row.items()}
        for c in range(self.blocks):
            value = scaled.get(c, "zeroinitializer")
            if c == own:
                value = self._below_diagonal(value, k)
            width = min(t.width, self.n - c * t.width)
            place = lines.at(t, "%out0", k * self.n + c * t.width)
            lines.store_first(t, value, width, place)
        return scaled

    def _below_diagonal(self, value: str, k: int) -> str:
        """Lanes left of column k of its block, 1 in column k, 0 beyond."""
        t = self.t
        at = k % t.width
        numbers = [1.0 if lane == at else 0.0 for lane in range(t.width)]
        scalar = VectorType(t.dtype, 1)
        constant = ", ".join(f"{t.element} {scalar.constant(x)}" for x in numbers)
        lanes = [i if i < at else t.width + i for i in range(t.width)]
        return self.lines.shuffle(t, value, f"<{constant}>", lanes)

    def _row_blocks(self, k: int) -> list[int]:
        return sorted({j // self.t.width for j in self.supports[k]})

    def _scratch(self, i: int, c: int) -> str:
        return self.lines.at(self.t, "%scratch", (i * self.blocks + c) * self.t.width)

    def _load(self, i: int, c: int) -> str:
        """Block c of row i as it stands; the end of H is not passed."""
        t, lines = self.t, self.lines
        if (i, c) in self.begun:
            return lines.load(t, self._scratch(i, c), t.size * t.width)
        first = i * self.n + c * t.width
        beyond = max(0, first + t.width - self.n * self.n)
        value = lines.load(t, lines.at(t, "%in0", first - beyond))
        if not beyond:
            return value
        lanes = [min(i + beyond, t.width - 1) for i in range(t.width)]
        return lines.shuffle(t, value, "poison", lanes)

    def _lane(self, value: str, column: int) -> str:
        """The number of one column of a block in every lane."""
        lanes = [column % self.t.width] * self.t.width
        return self.lines.shuffle(self.t, value, "poison", lanes)
