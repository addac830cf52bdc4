"""Constrained weighted least squares as one symmetric system, in unknowns and multipliers.

    minimise  (Y d + b - y)^T R^-1 (Y d + b - y) / 2     with the laws  D d + b_D = 0

    [ 0   D^T  Y^T ] [ d ]     [ 0     ]
    [ D   0    0   ] [ m ]  =  [ -b_D  ]      rows without noise have R = 0: exact
    [ Y   0    -R  ] [ n ]     [ y - b ]

The leading block of the inverse is the posterior covariance of d. A weight w in [0, 1] of a row
divides its standard deviation and leaves covariances with other rows alone: Y, y and b are
multiplied by w, R_rs by w_r w_s; an exact row gets R_rr = 1 - w. Zero removes the row. Its
multiplier R^-1 (Y d + b - y) is then w n.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.sparse import coo_array, csr_array

from dynsys.estimation.elimination import RIGHT, Row
from dynsys.estimation.recorder import Recorder, Ref
from dynsys.estimation.rows import LinearRow

__all__ = ["SaddlePoint", "saddle_point"]


@final
@dataclass(frozen=True, eq=False)
class SaddlePoint:
    """The system, and what its unknowns are.

    Attributes
    ----------
    rows : of the symmetric system, by unknown or multiplier.
    group : body of each.
    avoided : pairs that should be no pivots.
    multiplier : of each measurement, by its number; exact rows without unknowns have none.
    """

    rows: dict[int, Row]
    group: dict[int, int]
    avoided: set[tuple[int, int]]
    multiplier: dict[int, int]


def saddle_point(
    record: Recorder,
    body: Mapping[int, int],
    laws: Sequence[LinearRow],
    measurements: Sequence[LinearRow],
    noise: coo_array[np.float64],
    weights: Mapping[int, Any],
) -> SaddlePoint:
    """Symmetric system of laws and measurements; see the module.

    Parameters
    ----------
    body : group of every column.
    laws, measurements : rows, y already subtracted.
    noise : R, in the order of the measurements.
    weights : weight of some of the measurements, by their number.
    """
    rows: dict[int, Row] = {u: {} for u in body}
    group = dict(body)
    record.include([x for row in (*laws, *measurements) for x in _scalars(row)])
    avoided: set[tuple[int, int]] = set()
    for law in laws:
        m = _add_multiplier(record, rows, group, law, record.one)
        avoided |= {pair for column in law.not_for for pair in ((m, column), (column, m))}
    given = record.include(list(weights.values()), switched=True)
    factor = dict(zip(weights, given, strict=True))
    diagonal = csr_array(noise).diagonal()
    multiplier: dict[int, int] = {}
    for r, row in enumerate(measurements):
        if row.coefficients or diagonal[r]:
            w = factor.get(r, record.one)
            multiplier[r] = _add_multiplier(record, rows, group, row, w)
            if not diagonal[r] and r in factor:
                (rest,) = record.include([weights[r] - 1.0], switched=True)
                _set(rows, multiplier[r], multiplier[r], rest)
    entries = (noise.row.tolist(), noise.col.tolist(), noise.data.tolist())
    for r, s, x in zip(*entries, strict=True):
        if r in multiplier and s in multiplier and s <= r and x:
            value = record.constant(-x)
            if r != s:
                value = record.mul(value, factor.get(r, record.one))
                value = record.mul(value, factor.get(s, record.one))
            _set(rows, multiplier[r], multiplier[s], value)
    return SaddlePoint(rows, group, avoided, multiplier)


def _add_multiplier(
    record: Recorder, rows: dict[int, Row], group: dict[int, int], row: LinearRow, weight: Ref
) -> int:
    """Append a row and, as the symmetric system has it, its column."""
    m = len(rows)
    rows[m], group[m] = {}, row.body
    columns = [*row.coefficients, RIGHT]
    refs = record.include(_scalars(row))
    for column, ref in zip(columns, refs, strict=True):
        if ref:
            _set(rows, m, column, record.mul(ref, weight))
    return m


def _scalars(row: LinearRow) -> list[Any]:
    return [*row.coefficients.values(), row.constant]


def _set(rows: dict[int, Row], u: int, v: int, value: Ref) -> None:
    rows[u][v] = value
    if v != RIGHT:
        rows[v][u] = value
