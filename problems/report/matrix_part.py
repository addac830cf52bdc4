"""Sparsity of a report: the system as assembled, and as it is eliminated, entries by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.sparse import csc_array, identity

from dynsys.plan.lu import symbolic_lu
from dynsys.plan.orders.orders import Pattern, PivotOrder
from dynsys.system.equations import EquationBlock
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownBlock
from dynsys.types import IntArray
from problems.estimation.estimation import Estimation
from problems.verdict.words import component_names

__all__ = [
    "LAW",
    "NOISE",
    "QUANTITY_WORDS",
    "Labels",
    "Matrix",
    "Saddle",
    "assembled",
    "column_kinds",
    "column_labels",
    "columns_of",
    "eliminated",
    "eliminated_saddle",
    "fill_of",
    "row_labels",
    "saddle",
]

QUANTITY_WORDS = {
    "acceleration": "acceleration a",
    "net_wrench": "net wrench f^B",
    "joint_wrench": "joint wrench f",
    "torque": "torque tau",
    "external_wrench": "external wrench f^x",
    "qdd": "joint acceleration qdd",
    "noise": "noise covariance, diagonal",
    "fill": "fill",
}
"""Classes of entries, in words."""

Labels = list[tuple[str, list[str]]]
"""Blocks of rows or columns in natural order: name, and the name of each component."""


@final
@dataclass(frozen=True, eq=False)
class Matrix:
    """A sparse matrix to be drawn: positions of its entries by class, names of its lines.

    Line i shown is line ``row_order[i]`` of the natural order that ``row_labels`` follow.
    """

    title: str
    shape: tuple[int, int]
    row_labels: Labels
    col_labels: Labels
    row_order: list[int]
    col_order: list[int]
    entries: dict[str, tuple[list[int], list[int]]]
    row_word: str = "equation"
    col_word: str = "unknown"

    @property
    def counts(self) -> dict[str, int]:
        """Number of entries of each class."""
        return {kind: len(rows) for kind, (rows, _) in self.entries.items()}


# ---- names -------------------------------------------------------------------------


def column_labels(blocks: tuple[UnknownBlock, ...]) -> Labels:
    """Names of the unknowns."""
    return [(str(block), component_names(block.kind, block.size)) for block in blocks]


_LAWS = {
    "acceleration": "law of acceleration: ",
    "balance": "law of balance: ",
    "torque": "law of torque: ",
    "net_wrench": "law of net wrench: ",
}


def row_labels(system: LinearSystem, estimation: Estimation | None) -> Labels:
    """Names of the equations, laws in words, readings by sensor and component."""
    readings = _readings(estimation)
    found: Labels = []
    for block in system.equations:
        words = "" if block.measured else _LAWS.get(block.kind, "")
        labels = readings.get(block.name) or component_names(_law_kind(block), block.size)
        name = block.name if words == "" else words + block.name.partition("(")[2].rstrip(")")
        found.append((name, labels))
    return found


def _law_kind(block: EquationBlock) -> str:
    kind = block.kind.removeprefix("known_")
    return "joint_wrench" if kind == "wrench" else kind


def _readings(estimation: Estimation | None) -> dict[str, list[str]]:
    """Component names of each sensor's rows."""
    if estimation is None:
        return {}
    layout = estimation.layout
    return {
        name: [label.removeprefix(f"{name}.") for label in layout.labels[layout.slice(name)]]
        for name in layout.names
    }


def column_kinds(system: LinearSystem) -> list[str]:
    """Quantity of every column."""
    kinds = [""] * system.shape[1]
    for block in system.unknowns.blocks:
        kinds[block.slice] = [block.kind] * block.size
    return kinds


# ---- matrices ----------------------------------------------------------------------


def assembled(system: LinearSystem, estimation: Estimation | None) -> Matrix:
    """Laws, then readings or known quantities, in their natural order."""
    n_rows, n_cols = system.shape
    below = "known quantities" if estimation is None else "readings"
    return Matrix(
        f"as assembled: laws, then {below}",
        (n_rows, n_cols),
        row_labels(system, estimation),
        column_labels(system.unknowns.blocks),
        list(range(n_rows)),
        list(range(n_cols)),
        _by_kind(system.indices, columns_of(system.pattern()), column_kinds(system)),
    )


def columns_of(A: Pattern) -> IntArray:
    """Column of every entry."""
    return np.repeat(np.arange(A.shape[1]), np.diff(A.indptr))


def _by_kind(
    rows: IntArray, columns: IntArray, kind_of_column: list[str]
) -> dict[str, tuple[list[int], list[int]]]:
    kinds = np.array(kind_of_column)[columns]
    return {
        str(kind): (rows[kinds == kind].tolist(), columns[kinds == kind].tolist())
        for kind in QUANTITY_WORDS
        if (kinds == kind).any()
    }


def eliminated(
    system: LinearSystem, estimation: Estimation | None, order: PivotOrder, name: str
) -> Matrix:
    """The square system under a pivot order, with the fill of its factors L + U."""
    natural = assembled(system, estimation)
    permuted = order.apply_pattern(system.pattern())
    kinds = np.array(column_kinds(system))[order.col_order].tolist()
    entries = _by_kind(permuted.indices.astype(np.intp), columns_of(permuted), kinds)
    lu = symbolic_lu(system.pattern(), order)
    entries |= fill_of(permuted, lu.rows, lu.columns)
    return Matrix(
        f"as eliminated: {name}", natural.shape, natural.row_labels, natural.col_labels,
        order.row_order.tolist(), order.col_order.tolist(), entries,
    )  # fmt: skip


def fill_of(
    A: Pattern, rows: IntArray, columns: IntArray
) -> dict[str, tuple[list[int], list[int]]]:
    """Entries of the factors that are none of the matrix, under the name "fill"."""
    n = A.shape[1]
    have = A.indices.astype(np.int64) * n + columns_of(A)
    new = ~np.isin(rows.astype(np.int64) * n + columns, have)
    return {"fill": (rows[new].tolist(), columns[new].tolist())} if new.any() else {}


# ----------------------------------------------------------------------
# The symmetric system that a least-squares estimate solves, for pictures and counts.

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
    found = measured.saddle()
    n_laws, m = len(found.lines.laws), len(found.lines.readings)
    whole = found.pattern() + csc_array(identity(found.lines.size, dtype=np.bool_))
    labels, n_blocks = row_labels(system, estimation), len(measured.laws.equations)
    bodies = [np.full(block.size, block.body) for block in system.equations]
    of_unknowns = [np.full(block.size, block.body) for block in system.unknowns.blocks]
    body = np.concatenate([*bodies[n_blocks:], *of_unknowns, *bodies[:n_blocks]])
    return Saddle(
        csc_array(whole),
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
