"""The symmetric system that a least-squares estimate solves, for pictures and counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.sparse import csc_array

from dynsys.plan.lu import symbolic_lu
from dynsys.plan.orders.orders import Pattern, PivotOrder
from dynsys.types import IntArray
from problems.estimation.estimation import Estimation
from problems.report.matrix_part import (
    QUANTITY_WORDS,
    Labels,
    Matrix,
    column_kinds,
    column_labels,
    columns_of,
    fill_of,
    row_labels,
)

__all__ = ["LAW", "NOISE", "Saddle", "eliminated_saddle", "saddle"]

LAW, NOISE = "law", "noise"


@final
@dataclass(frozen=True, eq=False)
class Saddle:
    """Pattern of [C Y 0; Y^T 0 D^T; 0 D 0] with its whole diagonal, and names of its lines.

    ``body`` (size,) is the body of each line, -1 for none; ``kinds`` the quantity of an
    unknown, "noise" for a reading, "law" for a law.
    """

    pattern: Pattern
    labels: Labels
    body: IntArray
    kinds: list[str]


def saddle(estimation: Estimation) -> Saddle:
    """Symmetric system of the estimate; multipliers carry their equation's name."""
    system, measured = estimation.system, estimation.measured
    n_laws, n = measured.laws.shape
    m = system.shape[0] - n_laws
    rows, columns = system.indices, columns_of(system.pattern())
    # laws become the last lines, readings the first
    line = np.where(rows < n_laws, m + n + rows, rows - n_laws)
    noise = measured.covariance.tocoo()
    diagonal = np.arange(m + n + n_laws)
    one = [line, m + columns, noise.coords[0], diagonal]
    other = [m + columns, line, noise.coords[1], diagonal]
    i, j = np.concatenate(one).astype(np.intp), np.concatenate(other).astype(np.intp)
    size = len(diagonal)
    keys = np.unique(j * size + i)
    starts = np.searchsorted(keys, np.arange(size + 1) * size)
    pattern = csc_array((np.ones(len(keys), dtype=np.bool_), keys % size, starts), (size, size))
    labels, n_blocks = row_labels(system, estimation), len(measured.laws.equations)
    bodies = [np.full(block.size, block.body) for block in system.equations]
    of_unknowns = [np.full(block.size, block.body) for block in system.unknowns.blocks]
    body = np.concatenate([*bodies[n_blocks:], *of_unknowns, *bodies[:n_blocks]])
    return Saddle(
        pattern,
        [*labels[n_blocks:], *column_labels(system.unknowns.blocks), *labels[:n_blocks]],
        body.astype(np.intp),
        [*(NOISE,) * m, *column_kinds(system), *(LAW,) * n_laws],
    )


def eliminated_saddle(system: Saddle, order: IntArray, name: str) -> Matrix:
    """The symmetric system under an order, with the fill of its factor L (and L^T)."""
    pivots = PivotOrder(order, order)
    permuted = pivots.apply_pattern(system.pattern)
    rows, columns = permuted.indices, columns_of(permuted)
    kind = np.array(system.kinds)[order]
    quantity = np.where(np.isin(kind[columns], [NOISE, LAW]), kind[rows], kind[columns])
    quantity = np.where((quantity == LAW) | (rows == columns), NOISE, quantity)
    entries = {
        str(k): (rows[quantity == k].tolist(), columns[quantity == k].tolist())
        for k in QUANTITY_WORDS
        if (quantity == k).any()
    }
    lu = symbolic_lu(system.pattern, pivots)
    entries |= fill_of(permuted, lu.rows, lu.columns)
    size, listed = len(order), order.tolist()
    return Matrix(
        f"as eliminated: least squares, {name}",
        (size, size),
        system.labels,
        system.labels,
        listed,
        listed,
        entries,
        row_word="line",
        col_word="line",
    )
