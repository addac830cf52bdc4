"""Every pivot order of a small system: the least number of operations, proved.

The irreducible blocks of the block triangular form are solved one after the other; within a
block every order and every pairing of equations and unknowns is tried. The price of a step
depends on what is left of the matrix and on nothing else, so that a matrix met again at no
lower cost is not continued (branch and bound).

The price is that of :func:`estimate`: operations of the elimination by structure alone, where
products with +-1 and right-hand sides that are zero cost nothing. What a program executes is
less: equal values are computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import StructurallySingularError, TooLarge
from dynsys.jit import Loop
from dynsys.plan.orders.dulmage_mendelsohn import block_triangular
from dynsys.plan.orders.orders import PivotOrder
from dynsys.plan.search.price import SearchProblem, diagonal_blocks
from dynsys.program.program import Op
from dynsys.types import BoolArray, IntArray

__all__ = ["Optimum", "estimate", "least_operations", "structure"]

Kinds: TypeAlias = NDArray[np.int8]
Pivots: TypeAlias = list[tuple[int, int]]

LEAST_STEP = 2
"""Every step but the last changes a right-hand side and is substituted back: two additions."""


class Optimum(NamedTuple):
    """The best order, its estimated operations, and how many matrices were looked at."""

    order: PivotOrder
    operations: int
    matrices: int


def least_operations(problem: SearchProblem, *, limit: int = 2_000_000) -> Optimum:
    """Order of least estimated operations among all orders of the irreducible blocks.

    Parameters
    ----------
    problem : a small system whose pivots are all regarded as safe.
    limit : matrices to look at before giving up.

    Raises
    ------
    TooLarge
        if the limit is reached.
    """
    pivots: Pivots = []
    matrices = 0
    kinds = _kinds(problem)
    for rows, cols in block_triangular(problem.pattern):
        rows, cols = np.sort(rows), np.sort(cols)
        best, met = _least(_Left(kinds[np.ix_(rows, cols)], rows, cols), limit - matrices)
        matrices += met
        pivots += best
    order = PivotOrder.of(pivots)
    found = estimate(problem, order)
    if found is None:
        raise StructurallySingularError("the blocks in their order do not eliminate")
    return Optimum(order, found, matrices)


@final
@dataclass(frozen=True, eq=False)
class _Left:
    """What is left of a block: the kinds of its entries, its rows and columns, ascending."""

    kinds: Kinds
    rows: IntArray
    cols: IntArray

    @property
    def key(self) -> tuple[bytes, ...]:
        return self.rows.tobytes(), self.cols.tobytes(), self.kinds.tobytes()

    def choices(self) -> list[tuple[int, int]]:
        """Places of pivots worth trying: all, or one singleton where there is one.

        A row with one entry determines its unknown at a price that waiting does not change. A
        column with one entry leaves its row to back substitution; waiting could only replace
        one of the row's entries, which saves two operations at most and costs two at least.
        """
        there = self.kinds != NONE
        in_row, in_col = there.sum(axis=1, keepdims=True), there.sum(axis=0, keepdims=True)
        single = np.argwhere(there & ((in_row == 1) | (in_col == 1)))
        found: Pivots = (single[:1] if len(single) else np.argwhere(there)).tolist()
        return [(i, j) for i, j in found]

    def without(self, i: int, j: int) -> tuple[int, _Left | None]:
        """Price of the pivot at place (i, j) with its back substitution, and what it leaves.

        None if it leaves an equation or an unknown without entry.
        """
        rows, cols = (np.delete(np.arange(len(self.rows)), k) for k in (i, j))
        kinds = self.kinds[np.ix_(np.append(i, rows), np.append(j, cols))]
        price = int(first_pivot_price(kinds))
        left = np.ascontiguousarray(kinds[1:, 1:])
        if not (left.any(axis=0).all() and left.any(axis=1).all()):
            return price, None
        return price, _Left(left, self.rows[rows], self.cols[cols])


def _least(block: _Left, limit: int) -> tuple[Pivots, int]:
    """Pivots of least price of an irreducible block, and how many matrices were looked at."""
    least: dict[tuple[bytes, ...], int] = {}
    bound, best = np.inf, None
    stack: list[tuple[_Left, int, Pivots]] = [(block, 0, [])]
    while stack:
        left, cost, pivots = stack.pop()
        if not len(left.rows):
            if cost < bound:
                bound, best = cost, pivots
            continue
        if cost + LEAST_STEP * (len(left.rows) - 1) >= bound:
            continue
        if least.get(left.key, np.inf) <= cost:
            continue
        least[left.key] = cost
        if len(least) > limit:
            raise TooLarge(f"more than {limit} matrices; search instead")
        steps = [(*left.without(i, j), (i, j)) for i, j in left.choices()]
        # the cheapest first, so that the bound is good soon
        for price, after, (i, j) in sorted(steps, key=lambda s: (s[0], s[2]), reverse=True):
            if after is not None:
                pivot = int(left.rows[i]), int(left.cols[j])
                stack.append((after, cost + price, [*pivots, pivot]))
    if best is None:
        raise StructurallySingularError("an irreducible block has no order")
    return best, len(least)


# ---- the price by structure ------------------------------------------------------------------

NONE, GENERAL, UNIT = 0, 1, 2


def structure(problem: SearchProblem) -> tuple[BoolArray, BoolArray]:
    """Entries (entries,) that are +-1 at every state; right-hand sides (rows,) not all zero."""
    assembly, n = problem.assembly, problem.pattern.nnz
    refs = assembly.outputs
    nodes = np.abs(refs[:n]) - 1
    constant = (refs[:n] != 0) & (assembly.op[nodes] == Op.CONSTANT)
    unit = np.zeros(n, dtype=bool)
    unit[constant] = assembly.constants[assembly.left[nodes[constant]]] == 1
    return unit, np.asarray(refs[n:] != 0)


def estimate(problem: SearchProblem, order: PivotOrder) -> int | None:
    """Operations of the elimination by structure; None if a pivot is structurally zero."""
    known_rhs = structure(problem)[1]
    found = int(lu_price(_kinds(problem, order), known_rhs[order.row_order]))
    return None if found < 0 else found


def _kinds(problem: SearchProblem, order: PivotOrder | None = None) -> Kinds:
    """NONE, GENERAL or UNIT (n, n) for every place of D, permuted by an order."""
    rows, cols = problem.places
    if order is not None:
        rows, cols = np.argsort(order.row_order)[rows], np.argsort(order.col_order)[cols]
    kinds = np.zeros(problem.pattern.shape, dtype=np.int8)
    kinds[rows, cols] = np.where(structure(problem)[0], UNIT, GENERAL)
    return kinds


@Loop
def lu_price(place: Any, known_rhs: Any) -> Any:
    """Operations of the elimination, or -1 if a pivot is structurally zero.

    Parameters
    ----------
    place : (n, n) int8, permuted: NONE, GENERAL or UNIT; is overwritten.
    known_rhs : (n,) bool, permuted: right-hand sides that are not zero; is overwritten.
    """
    n = len(place)
    closed, block = diagonal_blocks(place)
    solved, x_known = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    finish = np.zeros(n, np.int8)  # GENERAL: the row still has to be divided or multiplied
    right, below = np.zeros(n, np.int64), np.zeros(n, np.int64)
    total = waiting_from = 0
    for k in range(n):
        pivot = place[k, k]
        if pivot == NONE:
            return -1
        n_right = 0
        for j in range(n):  # u
            if j != k and place[k, j] != NONE:
                right[n_right] = j
                n_right += 1
        if n_right == 0:  # x_k = b_k / p, at once
            solved[k], x_known[k] = True, known_rhs[k]
            if known_rhs[k] and pivot != UNIT:
                total += 1
            total += _determine(place, known_rhs, k, k + 1, x_known[k])
        else:
            n_below = 0
            for i in range(k + 1, n):  # l, within the block
                if place[i, k] != NONE and block[i] == block[k]:
                    below[n_below] = i
                    n_below += 1
            finish[k] = pivot
            if n_below:
                total += _clear(place, known_rhs, k, right[:n_right], below[:n_below], finish)
        if closed[k]:  # back substitution through the rows of the block
            for m in range(k, waiting_from - 1, -1):
                if not solved[m]:
                    total += _back(place, known_rhs, m, finish[m], x_known)
                    solved[m] = True
                    total += _determine(place, known_rhs, m, k + 1, x_known[m])
            waiting_from = k + 1
    return total


@Loop
def _determine(place: Any, known_rhs: Any, c: Any, start: Any, known: Any) -> Any:
    """b_i -= A_ic x_c in the rows from ``start`` on."""
    total = 0
    for i in range(start, len(place)):
        entry = place[i, c]
        if entry != NONE:
            place[i, c] = NONE
            if known:
                total += (entry != UNIT) + known_rhs[i]
                known_rhs[i] = True
    return total


@Loop
def _clear(place: Any, known_rhs: Any, k: Any, right: Any, below: Any, finish: Any) -> Any:
    """A_ij -= l_i u_j / p, b_i -= l_i b_k / p in the rows below."""
    pivot = place[k, k]
    total = int(pivot != UNIT)  # its reciprocal
    scale_rows = len(below) > len(right)
    if scale_rows:  # u / p, b_k / p
        finish[k] = NONE
        if pivot != UNIT:
            for j in right:
                total += place[k, j] != UNIT
                place[k, j] = GENERAL
            total += known_rhs[k]
    for i in below:
        multiplier = place[i, k]
        place[i, k] = NONE
        if not scale_rows and pivot != UNIT:  # l_i / p
            total += multiplier != UNIT
            multiplier = GENERAL
        for j in right:  # A_ij -= l_i u_j
            value = place[k, j]
            total += multiplier != UNIT and value != UNIT
            if place[i, j] == NONE:
                product_unit = multiplier == UNIT and value == UNIT
                place[i, j] = UNIT if product_unit else GENERAL
            else:
                total += 1
                place[i, j] = GENERAL
        if known_rhs[k]:  # b_i -= l_i b_k
            total += (multiplier != UNIT) + known_rhs[i]
            known_rhs[i] = True
    return total


@Loop
def _back(place: Any, known_rhs: Any, m: Any, finish: Any, x_known: Any) -> Any:
    """x_m = b_m - sum of u_j x_j in row m, then times or by what ``finish`` says."""
    known, total = known_rhs[m], 0
    for j in range(len(place)):
        if j != m and place[m, j] != NONE and x_known[j]:
            total += (place[m, j] != UNIT) + known
            known = True
    x_known[m] = known
    if known and finish == GENERAL:
        total += 1
    return total


@Loop
def first_pivot_price(place: Any) -> Any:
    """Operations of the first pivot with its back substitution, all right-hand sides known.

    ``place`` (n, n) as in :func:`lu_price`, with a pivot at (0, 0); what elimination
    leaves is in ``place[1:, 1:]`` afterwards.
    """
    n = len(place)
    known = np.ones(n, np.bool_)
    right = 1 + np.flatnonzero(place[0, 1:])
    below = 1 + np.flatnonzero(place[1:, 0])
    if len(right) == 0:
        return int(place[0, 0] != UNIT) + _determine(place, known, 0, 1, True)
    finish = place[0, :1].copy()
    total = 0
    if len(below):
        total += _clear(place, known, 0, right, below, finish)
    return total + _back(place, known, 0, finish[0], known.copy())
