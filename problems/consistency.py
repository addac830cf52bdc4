"""Do the readings agree? Residuals in units of their own spread; which sensor disagrees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtrc

from dynsys.types import Array, IntArray
from problems.suspect import SIGNIFICANCE, UNCHECKED, Suspect

if TYPE_CHECKING:
    from problems.estimation import Estimation
    from problems.posterior import AbstractPosterior

__all__ = ["checked_information", "normalised_residuals", "suspects"]


def _variances(problem: Estimation, rows: IntArray) -> Array:
    return np.asarray(problem.measured.variance[rows])


def normalised_residuals(problem: Estimation, posterior: AbstractPosterior) -> Array:
    """lambda_k / sqrt(G_kk) of every row of y: unit normal if the readings agree.

    lambda = C^-1 (y - b_Y - Y d) and G its covariance. Exact rows hold exactly: zero. NaN where
    nothing checks a reading: G_kk = 0.
    """
    rows = np.arange(problem.layout.size)
    out = np.full(len(rows), np.nan)
    variance = _variances(problem, rows)
    noisy = np.flatnonzero(variance > 0)
    out[variance == 0] = 0.0
    if posterior.degrees_of_freedom > 0:
        G = np.diag(posterior.residual_information(noisy))
        checked = G * variance[noisy] > UNCHECKED
        seen = noisy[checked]
        out[seen] = posterior.multipliers[seen] / np.sqrt(G[checked])
    return out


def checked_information(
    problem: Estimation, posterior: AbstractPosterior, rows: IntArray
) -> tuple[Array, int]:
    """Pseudo-inverse of G (k, k) at noisy ``rows``, and its rank: what others can check."""
    std = np.sqrt(_variances(problem, rows))
    values, axes = np.linalg.eigh(
        posterior.residual_information(rows) * np.outer(std, std)  # in standard deviations
    )
    seen = values > UNCHECKED
    scaled = std[:, None] * axes[:, seen]
    return np.asarray(scaled / values[seen] @ scaled.T), int(seen.sum())


def suspects(problem: Estimation, posterior: AbstractPosterior) -> list[Suspect]:
    """Sensors without which the readings would agree, by how much each explains.

    Without the rows s the chi-square falls by  lambda_s^T G_ss^-1 lambda_s, exactly.
    """
    total, dof = posterior.chi_square, posterior.degrees_of_freedom
    if dof <= 0 or chdtrc(dof, total) >= SIGNIFICANCE:
        return []
    found = []
    for name in problem.layout.names:
        place = problem.layout.slice(name)
        rows = np.arange(place.start, place.stop)
        rows = rows[_variances(problem, rows) > 0]
        if not len(rows):
            continue
        inverse, rank = checked_information(problem, posterior, rows)
        if rank == 0:
            continue
        part = posterior.multipliers[rows]
        explains = float(part @ inverse @ part)
        left = dof - rank
        p = float(chdtrc(left, max(total - explains, 0.0))) if left > 0 else 1.0
        if p >= SIGNIFICANCE:
            found.append(Suspect(name, explains, rank, p))
    return sorted(found, key=lambda suspect: -suspect.explains)
