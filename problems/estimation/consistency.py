"""Do the readings agree? Residuals in units of their own spread; which sensor disagrees.

    lambda = C^-1 (y - b_Y - Y d)       multipliers of the readings, G their covariance

With the stated noise lambda_k / sqrt(G_kk) is a unit normal number. Without the rows s of a
sensor the chi-square falls by lambda_s^T G_ss^-1 lambda_s, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import chdtrc

from dynsys.types import Array, IntArray
from problems.estimation.posterior import AbstractPosterior
from problems.measured.measured_system import MeasuredSystem

__all__ = ["UNCHECKED", "Suspect", "normalised_residuals", "suspects"]

SIGNIFICANCE = 0.01
"""Readings that would disagree this much in fewer than one of a hundred cases disagree."""

UNCHECKED = 1e-9
"""Part of a reading's information that the others must be able to check."""


@final
@dataclass(frozen=True)
class Suspect:
    """A sensor whose removal explains the disagreement.

    ``explains`` of the chi-square go with it, ``degrees_of_freedom`` with its rows; what is
    left over would be as large by chance with probability ``p_value``.
    """

    sensor: str
    explains: float
    degrees_of_freedom: int
    p_value: float

    def __str__(self) -> str:
        return (
            f"sensor {self.sensor!r} disagrees with the others (chi-square {self.explains:.3g})"
        )


def normalised_residuals(measured: MeasuredSystem, posterior: AbstractPosterior) -> Array:
    """lambda_k / sqrt(G_kk) of every row of y: unit normal if the readings agree.

    Exact rows hold exactly: zero. NaN where nothing checks a reading: G_kk = 0.
    """
    rows = np.arange(measured.layout.size)
    out = np.full(len(rows), np.nan)
    variance = measured.variance[rows]
    noisy = np.flatnonzero(variance > 0)
    out[variance == 0] = 0.0
    if posterior.degrees_of_freedom > 0:
        G = np.diag(posterior.residual_information(noisy))
        checked = G * variance[noisy] > UNCHECKED
        seen = noisy[checked]
        out[seen] = posterior.multipliers[seen] / np.sqrt(G[checked])
    return out


def _checked_information(
    measured: MeasuredSystem, posterior: AbstractPosterior, rows: IntArray
) -> tuple[Array, int]:
    """Pseudo-inverse of G (k, k) at noisy ``rows``, and its rank: what others can check."""
    std = np.sqrt(measured.variance[rows])
    values, axes = np.linalg.eigh(
        posterior.residual_information(rows) * np.outer(std, std)  # in standard deviations
    )
    seen = values > UNCHECKED
    scaled = std[:, None] * axes[:, seen]
    return np.asarray(scaled / values[seen] @ scaled.T), int(seen.sum())


def suspects(measured: MeasuredSystem, posterior: AbstractPosterior) -> list[Suspect]:
    """Sensors without which the readings would agree, by how much each explains."""
    total, dof = posterior.chi_square, posterior.degrees_of_freedom
    if dof <= 0 or chdtrc(dof, total) >= SIGNIFICANCE:
        return []
    found = []
    for name in measured.layout.names:
        place = measured.layout.slice(name)
        rows = np.arange(place.start, place.stop)
        rows = rows[measured.variance[rows] > 0]
        if not len(rows):
            continue
        inverse, rank = _checked_information(measured, posterior, rows)
        if rank == 0:
            continue
        part = posterior.multipliers[rows]
        explains = float(part @ inverse @ part)
        left = dof - rank
        p = float(chdtrc(left, max(total - explains, 0.0))) if left > 0 else 1.0
        if p >= SIGNIFICANCE:
            found.append(Suspect(name, explains, rank, p))
    return sorted(found, key=lambda suspect: -suspect.explains)
