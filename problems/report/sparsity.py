"""Sparsity of a report: the system as assembled, and as it is eliminated, entries by name.

A :class:`Matrix` holds the positions of the entries by quantity and the names of its rows and
columns; its picture draws runs of entries as SVG paths, one per quantity. An estimate solves
the symmetric system of a least-squares problem, :class:`Saddle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, identity

from dynsys.plan.lu import symbolic_lu
from dynsys.plan.orders.orders import Pattern, PivotOrder
from dynsys.system.equations import EquationBlock
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownBlock
from dynsys.types import IntArray
from problems.estimation.estimation import Estimation
from problems.report.markup import count, figure, script_data, text
from problems.verdict.words import component_names

__all__ = [
    "LAW",
    "NOISE",
    "Matrix",
    "Saddle",
    "assembled",
    "eliminated",
    "eliminated_saddle",
    "matrix",
    "saddle",
    "sparsity_section",
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

Entries = dict[str, tuple[list[int], list[int]]]
"""Rows and columns of the entries of each class."""

Kinds = NDArray[np.str_]
"""Class of each of some lines or entries."""


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
    entries: Entries
    row_word: str = "equation"
    col_word: str = "unknown"

    @property
    def counts(self) -> dict[str, int]:
        """Number of entries of each class."""
        return {kind: len(rows) for kind, (rows, _) in self.entries.items()}


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


def column_kinds(system: LinearSystem) -> Kinds:
    """Quantity of every column."""
    return np.concatenate([np.full(b.size, b.kind) for b in system.unknowns.blocks])


def assembled(system: LinearSystem, estimation: Estimation | None) -> Matrix:
    """Laws, then readings or known quantities, in their natural order."""
    n_rows, n_cols = system.shape
    columns = columns_of(system.pattern())
    below = "known quantities" if estimation is None else "readings"
    return Matrix(
        f"as assembled: laws, then {below}",
        (n_rows, n_cols),
        row_labels(system, estimation),
        column_labels(system.unknowns.blocks),
        list(range(n_rows)),
        list(range(n_cols)),
        _by_kind(system.indices, columns, column_kinds(system)[columns]),
    )


def columns_of(A: Pattern) -> IntArray:
    """Column of every entry."""
    return np.repeat(np.arange(A.shape[1]), np.diff(A.indptr))


def _by_kind(rows: IntArray, columns: IntArray, kinds: Kinds) -> Entries:
    """Entries by the quantity of each."""
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
    columns = columns_of(permuted)
    kinds = column_kinds(system)[order.col_order][columns]
    entries = _by_kind(permuted.indices.astype(np.intp), columns, kinds)
    lu = symbolic_lu(system.pattern(), order)
    entries |= fill_of(permuted, lu.rows, lu.columns)
    return Matrix(
        f"as eliminated: {name}", natural.shape, natural.row_labels, natural.col_labels,
        order.row_order.tolist(), order.col_order.tolist(), entries,
    )  # fmt: skip


def fill_of(A: Pattern, rows: IntArray, columns: IntArray) -> Entries:
    """Entries of the factors that are none of the matrix, under the name "fill"."""
    n = A.shape[1]
    have = A.indices.astype(np.int64) * n + columns_of(A)
    new = ~np.isin(rows.astype(np.int64) * n + columns, have)
    return {"fill": (rows[new].tolist(), columns[new].tolist())} if new.any() else {}


# ---- the symmetric system that a least-squares estimate solves ---------------------------


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
    kinds: Kinds


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
        np.concatenate([np.full(m, NOISE), column_kinds(system), np.full(n_laws, LAW)]),
    )


def eliminated_saddle(system: Saddle, order: IntArray, name: str) -> Matrix:
    """The symmetric system under an order, with the fill of its factor L (and L^T)."""
    pivots = PivotOrder(order, order)
    permuted = pivots.apply_pattern(system.pattern)
    rows, columns = permuted.indices.astype(np.intp), columns_of(permuted)
    kind = system.kinds[order]
    quantity = np.where(np.isin(kind[columns], [NOISE, LAW]), kind[rows], kind[columns])
    quantity = np.where((quantity == LAW) | (rows == columns), NOISE, quantity)
    entries = _by_kind(rows, columns, quantity)
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


# ---- pictures ----------------------------------------------------------------------------


def sparsity_section(before: Matrix, after: Matrix | None) -> str:
    """The system before and after permutation."""
    pictures = matrix(before, 1) + ("" if after is None else matrix(after, 2))
    equations, unknowns = before.shape
    entries = sum(before.counts.values())
    caption = (
        "Every entry that can be nonzero at some posture; colour is the quantity of the unknown"
        " it multiplies. Point at an entry, or use the arrow keys, to read its equation and its"
        " unknown; press a name above to see one quantity alone. Fill: entries that"
        " elimination adds."
    )
    return (
        f"<p>{count(unknowns)} unknowns, {count(equations)} equations, {count(entries)}"
        f" entries: {100.0 * entries / (unknowns * equations):.2g}% of the matrix.</p>"
        f"{matrix_legend(before, after)}"
        + figure(f'<div class="matrices">{pictures}</div>', caption)
    )


PIXELS = 460.0
"""About the side of a picture on the screen: entries are made no thinner than one of these."""


def matrix(content: Matrix, number: int) -> str:
    """SVG picture, a line that names the entry pointed at, and the names it needs (JSON)."""
    rows, columns = content.shape
    thick = max(1.0, max(rows, columns) / PIXELS)
    entries = sum(n for kind, n in content.counts.items() if kind != "fill")
    fill = content.counts.get("fill", 0)
    words = (
        f"{content.title}: {rows} rows, {columns} columns, {entries} entries"
        f"{f', {fill} of fill' if fill else ''}"
    )
    paths = [
        f'<path class="q-{kind}" data-kind="{kind}" d="{_runs(*content.entries[kind])}"/>'
        for kind in ("fill", *(k for k in QUANTITY_WORDS if k != "fill"))
        if kind in content.entries
    ]
    return (
        f'<div class="matrix" id="matrix-{number}"><h4>{text(content.title)}</h4>'
        f'<p class="size">{count(rows)} &times; {count(columns)}, {count(entries)} entries'
        f"{f', {count(fill)} of fill' if fill else ''}</p>"
        f'<svg viewBox="0 0 {columns} {rows}" tabindex="0" role="img"'
        f' aria-label="{text(words)}. Arrow keys move from entry to entry.">'
        f'<rect class="paper" width="{columns}" height="{rows}"/>'
        f'<g class="entries" transform="translate(0 .5)" stroke-width="{thick:.2f}"'
        f' stroke-linecap="{"square" if thick > 1 else "butt"}">{"".join(paths)}</g>'
        f'<path class="cross" d=""/></svg>'
        f'<p class="readout" aria-live="polite">Point at an entry to read its names.</p>'
        f"{script_data(_names(content))}</div>"
    )


def _runs(rows: list[int], columns: list[int]) -> str:
    """Path of horizontal runs of neighbours: ``Mcolumn rowhlength`` each."""
    r, c = np.array(rows), np.array(columns)
    order = np.lexsort((c, r))
    r, c = r[order], c[order]
    first = np.flatnonzero(np.r_[True, (np.diff(r) != 0) | (np.diff(c) != 1)])
    lengths = np.diff(np.r_[first, len(r)])
    return "".join(
        f"M{column} {row}h{length}"
        for column, row, length in zip(
            c[first].tolist(), r[first].tolist(), lengths.tolist(), strict=True
        )
    )


def _names(content: Matrix) -> dict[str, object]:
    """Names and orders of the lines; None: the natural order."""
    rows, columns = (
        None if order == list(range(len(order))) else order
        for order in (content.row_order, content.col_order)
    )
    same = content.row_labels is content.col_labels and content.row_order == content.col_order
    return {
        "rows": content.row_labels,
        "columns": "same" if same else content.col_labels,
        "rowOrder": rows,
        "columnOrder": "same" if same else columns,
        "words": [content.row_word, content.col_word],
        "kinds": {k: QUANTITY_WORDS[k] for k in content.entries},
    }


def matrix_legend(*contents: Matrix | None) -> str:
    """Buttons that show one class of entries alone."""
    shown = {kind for content in contents if content for kind in content.counts}
    buttons = "".join(
        f'<li><button type="button" aria-pressed="false" data-kind="{kind}">'
        f'<span class="swatch b-{kind}"></span>{text(words)}</button></li>'
        for kind, words in QUANTITY_WORDS.items()
        if kind in shown
    )
    return f'<ul class="legend kinds" aria-label="show one kind of entry">{buttons}</ul>'
