"""Tails of matrix programs: H, H^-1 and Lambda^-1 from the freedoms of a robot, tile by tile.

With S_i the axis of freedom i in a common frame and F_i the wrench that moves what it carries,

    H_ij = F_i . S_j                          where freedom j supports freedom i, and mirrored.

With D, U of the articulated recursion, r = 1 / sqrt(D), S' = r S and U' = r U, a wrench x at a
body passes the joints towards the base, leaving at each the torque that it does not carry:

    v_j = x . S'_j       x <- x - v_j U'_j    j from the body to the base

Columns x = U_i / D_i for freedom i (with v_i = -r_i) give V with H^-1 = V^T V; columns that are
rows of a Jacobian, as wrenches in the common frame, give Lambda^-1 = J H^-1 J^T = V^T V. H not
positive definite makes r, and all that follows, NaN.

Columns (freedoms, or rows of a Jacobian) are taken in blocks of the vector width; the last
block overlaps its neighbour instead of reaching beyond the matrix: nothing needs padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final

from dynsys.kernel.llvm.batch import store_columns, transposed
from dynsys.kernel.llvm.text import (
    Lines,
    Tables,
    VectorType,
    counting_loop,
    internal_function,
)
from dynsys.model.expanded import own_supports
from dynsys.plan.operations import Operations
from dynsys.recursive.common_frame import Freedoms
from dynsys.recursive.inverse import (
    inertia_from_composites,
    inverse_from_articulated,
    operational_inverse,
)
from dynsys.types import IntArray, ScalarArray

__all__ = [
    "GramTail",
    "InertiaTail",
    "block_starts",
    "broadcast",
    "masked",
    "tail_function",
]

Supports = Sequence[frozenset[int]]
"""Per column: the freedoms that support it."""


def broadcast(lines: Lines, t: VectorType, address: str) -> str:
    """The number at an address in every lane."""
    value = lines.load(VectorType(t.dtype, 1), address)
    first = lines.let(f"insertelement {t} poison, {t.element} {value}, i32 0")
    return lines.shuffle(t, first, "poison", [0] * t.width)


def masked(lines: Lines, t: VectorType, value: str, mask: str) -> str:
    """Lanes of a value where the mask (integers) is all ones, zero elsewhere."""
    bits = lines.let(f"bitcast {t} {value} to {t.integer}")
    kept = lines.let(f"and {t.integer} {bits}, {mask}")
    return lines.let(f"bitcast {t.integer} {kept} to {t}")


def tail_function(main: Lines) -> str:
    """Text of ``@tail``; see ``dynsys.kernel.llvm.computation``."""
    return internal_function("@tail", "ptr %head, ptr %work, ptr %out", main)


def _freedoms(numbers: ScalarArray, n: int) -> Freedoms:
    """A scalar (n,) and two matrices (6, n) of all freedoms, from 13 n numbers."""
    matrices = numbers[n:].reshape(2, 6, n)
    return Freedoms(numbers[:n], matrices[0], matrices[1])


# ---- blocks of columns, and the freedoms that support them -----------------------------------


def block_starts(size: int, width: int) -> list[int]:
    """First columns of blocks that cover ``size`` >= ``width`` columns.

    >>> block_starts(10, 4)
    [0, 4, 6]
    """
    starts = list(range(0, size - width + 1, width))
    return starts if size % width == 0 else [*starts, size - width]


def _union(supports: Supports, first: int, count: int) -> frozenset[int]:
    """Freedoms that support any of ``count`` columns from ``first`` on."""
    return frozenset().union(*supports[first : first + count])


# ---- H ---------------------------------------------------------------------------------------


@final
class InertiaTail:
    """H (n, n) by the expanded ``parent``; the head gives H_ii (n,), S (6, n), F (6, n)."""

    def __init__(self, parent: IntArray) -> None:
        self.parent, self.n = parent, len(parent)
        self.n_head, self.n_work = 13 * self.n, 0

    def evaluate(self, head: ScalarArray) -> ScalarArray:
        """H (n, n) from the numbers of the head, without vectors."""
        return inertia_from_composites(_freedoms(head, self.n), self.parent)

    def text(self, dtype: str, width: int) -> str:
        """Text of ``void @tail(ptr head, ptr work, ptr out)``."""
        t = VectorType(dtype, width)
        tables, main = Tables("inertia_table"), Lines("m")
        for a, b, lanes in self._tiles(width):
            if not any(lanes) and a != b:
                main.do(f"call void @inertia_zero_tile(ptr %out, i64 {a}, i64 {b})")
                continue
            name = "inertia_tile" if a != b else "inertia_diagonal_tile"
            place = f"i64 {a}, i64 {b}, ptr {tables.masks(t, lanes)}"
            main.do(f"call void @{name}(ptr %head, ptr %out, {place})")
        functions = (self._tile(t), self._zero_tile(t), self._diagonal_tile(t))
        return tables.text() + "".join(functions) + tail_function(main)

    def operations(self, dtype: str, width: int) -> Operations:
        """F_i . S_j of all entries of a tile; on the diagonal, with its mirror added."""
        total = Operations()
        for a, b, lanes in self._tiles(width):
            if any(lanes) or a == b:
                total += Operations(6, 5 + (a == b)) * width**2
        return total

    def _tiles(self, width: int) -> Iterator[tuple[int, int, list[bool]]]:
        """Rows from a, columns from b, which entries (width, width) below the diagonal are not
        zero.
        """
        starts, supports = block_starts(self.n, width), own_supports(self.parent)
        # H(a,b) = F(:,a)^T S(:,b) and its mirror; zero between different limbs
        places = [(a, b) for a in starts for b in starts if b < a]
        # H(a,a), which also sets right what overlapping tiles wrote there
        for a, b in [*places, *zip(starts, starts, strict=True)]:
            rows, columns = range(a, a + width), range(b, b + width)
            yield a, b, [j < i and j in supports[i] for i in rows for j in columns]

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
                    rows[i] = lines.multiply_add(t, F, S, rows[i])
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
            "@inertia_tile", "ptr %head, ptr %out, i64 %a, i64 %b, ptr %masks", lines
        )

    def _zero_tile(self, t: VectorType) -> str:
        lines = Lines("t")
        for first, second in (("%a", "%b"), ("%b", "%a")):
            for address in self._out_rows(lines, t, first, second):
                lines.store(t, "zeroinitializer", address)
        return internal_function("@inertia_zero_tile", "ptr %out, i64 %a, i64 %b", lines)

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
        return internal_function("@inertia_diagonal_tile", parameters, lines)


# ---- H^-1 and Lambda^-1 ----------------------------------------------------------------------


@final
class GramTail:
    """G (m, m) of m columns; ``supports`` names the freedoms that support each column.

    The head gives the columns x (6, m), unless they are the freedoms themselves (``own``), then
    D (n,), S (6, n) and U (6, n). ``parent`` is the expanded array.
    """

    def __init__(self, parent: IntArray, supports: Supports, *, own: bool) -> None:
        self.parent, self.supports, self.own = parent, supports, own
        n, m = self.n, self.m = len(parent), len(supports)
        # numbers of the head: x | D S U
        self._D = 0 if own else 6 * m
        self.n_head = self._D + 13 * n
        # numbers of memory: S' U' r | x of the freedoms | V
        self._r = 12 * n
        self._x = 13 * n if own else 0
        self._V = 19 * n if own else 13 * n
        self.n_work = self._V + n * m

    def evaluate(self, head: ScalarArray) -> ScalarArray:
        """G (m, m) from the numbers of the head, without vectors."""
        wrenches, bodies = head[: self._D], _freedoms(head[self._D :], self.n)
        if self.own:
            return inverse_from_articulated(bodies, self.parent)
        return operational_inverse(bodies, wrenches.reshape(6, -1), self.supports)

    def operations(self, dtype: str, width: int) -> Operations:
        """Scaling, 2 W wrenches past every joint that supports one, products of tiles."""
        scale = Operations(18 if self.own else 12, 0, 1) * len(block_starts(self.n, width))
        passing = Operations(6, 5) + Operations(6, 6)  # v = x . S', x - v U'
        joints = sum(len(steps) for _, steps in self._sweeps(width))
        entries = sum(len(shared) for *_, shared in _products(self.supports, width)) * width
        both = passing * joints + Operations(1, 1) * entries
        return (scale + both * 2) * width

    def text(self, dtype: str, width: int) -> str:
        """Text of ``void @tail(ptr head, ptr work, ptr out)``."""
        t = VectorType(dtype, width)
        tables, main = Tables("gram_table"), Lines("m")
        # r = D^-1/2, S' = S diag(r), U' = U diag(r)
        for first in block_starts(self.n, width):
            main.do(f"call void @gram_scale(ptr %head, ptr %work, i64 {first})")
        # V(:,c) for two vectors of columns c: all wrenches x pass the joints to the base
        for first, steps in self._sweeps(width):
            self._call_sweep(main, tables, t, first, steps)
        # V(i,i) = -r(i)
        for i in range(self.n if self.own else 0):
            number = VectorType(dtype, 1)
            r = main.load(number, main.at(t, "%work", self._r + i))
            minus = main.let(f"fneg {number} {r}")
            main.store(number, minus, main.at(t, "%work", self._V + i * (self.m + 1)))
        # G(a,b) = V(:,a)^T V(:,b)
        _call_products(main, tables, t, self.supports, self._V)
        functions = (
            self._scale(t),
            self._sweep(t),
            _tile(t, self.m, mirror=True),
            _tile(t, self.m, mirror=False),
        )
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
        return internal_function("@gram_scale", "ptr %head, ptr %work, i64 %first", lines)

    # ---- sweep ---------------------------------------------------------------------------

    def _sweeps(self, width: int) -> Iterator[tuple[int, list[int]]]:
        """First of 2 W columns, and the joints that their wrenches pass."""
        for first in block_starts(self.m, 2 * width):
            steps = sorted(_union(self.supports, first, 2 * width), reverse=True)
            if steps:
                yield first, steps

    def _call_sweep(
        self, main: Lines, tables: Tables, t: VectorType, first: int, steps: Sequence[int]
    ) -> None:
        columns = range(first, first + 2 * t.width)
        lanes = [
            j in self.supports[c] and not (self.own and j == c) for j in steps for c in columns
        ]
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
                after[2 * k + h] = loop.multiply_subtract(t, U, rows[h], x)
        place = f"""\
  %step_at = getelementptr i32, ptr %steps, i64 %k
  %j32 = load i32, ptr %step_at
  %j = zext i32 %j32 to i64
  %freedom = getelementptr {t.element}, ptr %work, i64 %j
  %mask_place = mul i64 %k, {2 * t.width}
  %mask_at = getelementptr {t.element}, ptr %masks, i64 %mask_place
  %row = mul i64 %j, {self.m}
  %row_far = add i64 %row, {self._V}
  %row_at = getelementptr {t.element}, ptr %column, i64 %row_far
"""
        return internal_function(
            "@gram_sweep",
            "ptr %x, ptr %work, i64 %first, i64 %count, ptr %steps, ptr %masks",
            counting_loop(start, _phis(t, names, first, after), f"{place}{loop}", "%count"),
        )

    def _dot(self, lines: Lines, t: VectorType, x: list[str]) -> str:
        """x . S'_j, in two sums that do not wait for each other."""
        sums = ["", ""]
        for k in (0, 3, 1, 4, 2, 5):
            S = self._of_freedom(lines, t, k * self.n)
            before = sums[k // 3]
            if before:
                sums[k // 3] = lines.multiply_add(t, S, x[k], before)
            else:
                sums[k // 3] = lines.let(f"fmul contract {t} {S}, {x[k]}")
        return lines.let(f"fadd contract {t} {sums[0]}, {sums[1]}")

    def _of_freedom(self, lines: Lines, t: VectorType, place: int) -> str:
        return broadcast(lines, t, lines.at(t, "%freedom", place))


# ---- G = V^T V -------------------------------------------------------------------------------


def _products(supports: Supports, width: int) -> Iterator[tuple[int, int, frozenset[int]]]:
    """Rows from a, columns from b of all tiles, and what each sums over.

    A tile of W rows and 2 W columns sums over the freedoms that support both a row and a column
    of it; where V has zeros in such a row, they add nothing. Entries (i, j) and (j, i) are sums
    of the same products in the same order: G is symmetric to the last bit.
    """
    m = len(supports)
    for b in block_starts(m, 2 * width):
        for a in (a for a in block_starts(m, width) if a < b + 2 * width):
            yield a, b, _union(supports, a, width) & _union(supports, b, 2 * width)


def _call_products(
    main: Lines, tables: Tables, t: VectorType, supports: Supports, V: int
) -> None:
    """Append the calls for all tiles; V begins at number ``V`` of %work."""
    for a, b, shared in _products(supports, t.width):
        rows = tables.integers(V + len(supports) * k for k in sorted(shared))
        inside = b <= a <= b + t.width  # its mirror is another such tile
        name = "gram_inner_tile" if inside else "gram_tile"
        place = f"i64 {a}, i64 {b}, i64 {len(shared)}, ptr {rows}"
        main.do(f"call void @{name}(ptr %work, ptr %out, {place})")


def _tile(t: VectorType, m: int, *, mirror: bool) -> str:
    """W rows from a, 2 W columns from b: sums over ``count`` rows of V."""
    loop, done = Lines("t"), Lines("d")
    sums, zeros = [f"%g{i}" for i in range(2 * t.width)], ["zeroinitializer"] * 2 * t.width
    columns = [loop.load(t, loop.at(t, "%from_b", h * t.width)) for h in range(2)]
    after = []
    for i in range(t.width):
        x = broadcast(loop, t, loop.at(t, "%from_a", i))
        for h in range(2):
            after.append(loop.multiply_add(t, x, columns[h], sums[2 * i + h]))
    finals = [f"%f{i}" for i in range(2 * t.width)]
    for i in range(t.width):
        row = done.at(t, "%out_ab", i * m)
        for h in range(2):
            done.store(t, finals[2 * i + h], done.at(t, row, h * t.width))
    for h in range(2 if mirror else 0):
        rows = [done.at(t, "%out_ba", (h * t.width + i) * m) for i in range(t.width)]
        store_columns(done, t, rows, 0, finals[h::2])
    start = f"""\
  %at_a = getelementptr {t.element}, ptr %work, i64 %a
  %at_b = getelementptr {t.element}, ptr %work, i64 %b
  %some = icmp ne i64 %count, 0
  br i1 %some, label %loop, label %done"""
    place = f"""\
  %row_at = getelementptr i32, ptr %rows, i64 %k
  %row32 = load i32, ptr %row_at
  %row = zext i32 %row32 to i64
  %from_a = getelementptr {t.element}, ptr %at_a, i64 %row
  %from_b = getelementptr {t.element}, ptr %at_b, i64 %row
"""
    end = f"""\
{_phis(t, finals, zeros, after)}\
  %row_a = mul i64 %a, {m}
  %place_ab = add i64 %row_a, %b
  %out_ab = getelementptr {t.element}, ptr %out, i64 %place_ab
  %row_b = mul i64 %b, {m}
  %place_ba = add i64 %row_b, %a
  %out_ba = getelementptr {t.element}, ptr %out, i64 %place_ba
"""
    return internal_function(
        "@gram_tile" if mirror else "@gram_inner_tile",
        "ptr %work, ptr %out, i64 %a, i64 %b, i64 %count, ptr %rows",
        counting_loop(
            start, _phis(t, sums, zeros, after), f"{place}{loop}", "%count", f"{end}{done}"
        ),
    )


def _phis(t: VectorType, names: list[str], first: list[str], after: list[str]) -> str:
    """Values that a loop carries: what they are at its start, and after a round."""
    return "".join(
        f"  {name} = phi {t} [ {a}, %start ], [ {b}, %loop ]\n"
        for name, a, b in zip(names, first, after, strict=True)
    )
