"""What unconstrained least squares says of the rows of a fit: no prior, no constraints.

A fit is held near the model and to robots that exist. Where that costs it the data, it says so:

1. Readings. The rms of a reading about the fit exceeds EXCESS times that about

       minimise  sum of (y - R theta - E x - c)^2 / s^2,

   every sample alike: no robust weights, no correlation times. s are the fit's deviations, then
   what least squares itself leaves of each reading (the layout's, where the fit takes those).
   Least squares of many parameters follows noise and smooth errors, so each tenth of the log is
   compared with what the other nine say of it; the fit has seen them all.
2. Combinations. Of the fit's own normal equations, all its weights as they are, the
   eigenvectors v of  G  in natural sizes that data tell to a half of these, v^T G v >= TOLD:

       |v^T (theta - G^-1 g)|  >  DEVIATIONS  v's deviation,  as the fit states it.

   Both are estimates from the same noise, so that the prior alone moves a combination so far
   only where the model is wrong. A constraint that the truth lies on is pressed by noise on one
   side: what constraints alone move counts beyond the deviations that the farthest of all
   combinations has as rarely as one has DEVIATIONS.

No reading is judged below the least noise that the fit may take it to have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, final

import numpy as np
from scipy.special import ndtr, ndtri

from dynsys.types import Array, BoolArray
from problems.identification.parameter_set import ParameterSet
from problems.identification.weighted import Samples

if TYPE_CHECKING:
    from problems.identification.fit import Information

__all__ = ["Apart", "LeastSquares", "beside_least_squares", "rms"]

EXCESS = 1.1
"""Rms of a reading about the fit, in that about least squares, from which it is named."""
DEVIATIONS = 2.0
"""Deviations of a combination from least squares from which it is named."""
TOLD = 4.0
"""Information on a combination, in that of natural sizes, from which data tell it."""
RANK = 1e-10
"""Information below this part of the largest is rounding of normal equations."""
PARTS = 10
"""Parts of a log, each predicted from the others."""
NAMED = 0.1
"""A parameter is named that has this share of a combination; the largest always is."""


@final
@dataclass(frozen=True)
class Apart:
    """A combination of parameters that is told by data and lies off least squares.

    Attributes
    ----------
    shares : names and their parts of the combination's square, natural sizes, largest first.
    deviations : how far it lies, in its deviations.
    found, asked : value of the first parameter in the fit, and where least squares has this
        combination.
    """

    shares: tuple[tuple[str, float], ...]
    deviations: float
    found: float
    asked: float

    def __str__(self) -> str:
        names = ", ".join(f"{name} ({100 * share:.0f} %)" for name, share in self.shares)
        first = self.shares[0][0]
        return (
            f"{names}: {self.deviations:.3g} deviations from least squares, which has {first}"
            f" {self.asked:.4g}, not {self.found:.4g}"
        )


@final
@dataclass(frozen=True, eq=False)
class LeastSquares:
    """A fit beside unconstrained least squares on the same rows.

    Attributes
    ----------
    labels, units : of the rows.
    fit, rms : (rows,) rms about the fit and about least squares; NaN for rows without readings.
    exceeded : (rows,) readings whose rms about the fit is too large.
    apart : combinations that lie too far off, farthest first.
    """

    labels: tuple[str, ...]
    units: tuple[str, ...]
    fit: Array
    rms: Array
    exceeded: BoolArray
    apart: tuple[Apart, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """What speaks against the fit, a sentence each; none where it follows the data."""
        readings = (
            f"{self.labels[k]}: rms {self.fit[k]:.3g} {self.units[k]}, where least squares has"
            f" {self.rms[k]:.3g}"
            for k in np.flatnonzero(self.exceeded).tolist()
        )
        return (*readings, *map(str, self.apart))


def rms(x: Array) -> Array:
    """Of every column; NaN for one without numbers."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sqrt(np.nansum(x**2, axis=0) / np.isfinite(x).sum(axis=0)))


def beside_least_squares(
    samples: Samples,
    theta: Array,
    information: Information,
    scale: Array,
    std: Array,
    least: Array,
    *,
    estimate: bool,
) -> LeastSquares:
    """Compare a fit; see the module.

    Parameters
    ----------
    samples : the rows of the log.
    theta, information, scale : the fit (p,), what the log told it, natural sizes (p,).
    std, least : (rows,) deviations of the readings, and those below which none is judged.
    estimate : the fit takes deviations from residuals, not from the layout.
    """
    if estimate:
        G, g = (x.sum(axis=0) for x in _normal(samples, std))
        alike = np.broadcast_to(_solved(theta, G, g, scale), (PARTS, len(theta)))
        left = np.maximum(rms(_off(samples, std, alike)), least)
        std = np.where(samples.stated | np.isnan(left), std, left)
    G, g = _normal(samples, std)
    others = [_solved(theta, G.sum(0) - G[k], g.sum(0) - g[k], scale) for k in range(PARTS)]
    fit = rms(_off(samples, std, np.broadcast_to(theta, (PARTS, len(theta)))))
    other = rms(_off(samples, std, np.array(others)))
    layout = samples.sought.layout
    exceeded = fit > EXCESS * np.maximum(other, least)
    apart = _apart(samples.sought, theta, information, scale)
    return LeastSquares(layout.labels, layout.units, fit, other, exceeded, apart)


def _within(samples: Samples, start: int, count: int) -> Iterator[tuple[int, slice]]:
    """Parts of the log, and where they stand among ``count`` samples from ``start``."""
    edges = np.linspace(0, len(samples.log), PARTS + 1).astype(np.intp) - start
    for k, (low, high) in enumerate(pairwise(np.clip(edges, 0, count).tolist())):
        yield k, slice(low, high)


def _normal(samples: Samples, std: Array) -> tuple[Array, Array]:
    """G (PARTS, p, p) and g (PARTS, p) of rows that all count alike."""
    p = samples.sought.size
    G, g = np.zeros((PARTS, p, p)), np.zeros((PARTS, p))
    for start, rows in samples.unit(std, np.ones_like(std)):
        for row, used in enumerate(rows.columns):
            A, b = rows.block(row), rows.b[:, row]
            for k, part in _within(samples, start, len(b)):
                G[k][np.ix_(used, used)] += A[part].T @ A[part]
                g[k][used] += A[part].T @ b[part]
    return G, g


def _off(samples: Samples, std: Array, theta: Array) -> Array:
    """Residuals (N, rows) in units of the readings, theta (PARTS, p) of each part's own."""
    found = np.empty(samples.log.y.shape)
    for start, rows in samples.unit(std, np.ones_like(std)):
        off = np.empty_like(rows.b)
        for k, part in _within(samples, start, len(off)):
            off[part] = rows.off(theta[k])[part]
        found[start : start + len(off)] = samples.in_units(rows, std, off)
    return found


def _solved(theta: Array, G: Array, g: Array, scale: Array) -> Array:
    """Least squares (p,) of what G tells at all; what it does not tell is that of ``theta``."""
    values, vectors = np.linalg.eigh(scale[:, None] * G * scale)
    told = values > RANK * values[-1]
    right = vectors.T @ (scale * (g - G @ theta))
    return np.asarray(theta + scale * (vectors @ (right * told / np.where(told, values, 1.0))))


def _apart(
    sought: ParameterSet, theta: Array, information: Information, scale: Array
) -> tuple[Apart, ...]:
    """Combinations that lie off least squares, farthest first."""
    names, G, g = sought.names, information.G, information.g
    values, vectors = np.linalg.eigh(scale[:, None] * G * scale)
    told = values >= max(TOLD, RANK * values[-1])
    values, V = values[told], vectors[:, told]
    asked = V.T @ (scale * (g - G @ theta)) / values  # from the fit, in natural sizes
    pulled = V.T @ (scale * (g - G @ sought.model)) / (values * (1.0 + values))
    U = V / scale[:, None]
    std = np.sqrt(np.einsum("pk,pq,qk->k", U, information.covariance(scale), U))
    by_chance = -ndtri(ndtr(-DEVIATIONS) / max(len(values), 1))
    far, by_prior = np.abs(asked) / std, np.abs(pulled) / std
    off = (far > DEVIATIONS) & ((by_prior > DEVIATIONS) | (far > by_chance))
    found = []
    for k in sorted(np.flatnonzero(off).tolist(), key=lambda k: -far[k]):
        share = V[:, k] ** 2
        order = np.argsort(-share)
        named = [i for i in order.tolist() if share[i] >= NAMED] or [int(order[0])]
        first = named[0]
        found.append(
            Apart(
                tuple((names[i], float(share[i])) for i in named),
                float(far[k]),
                float(theta[first]),
                float(theta[first] + scale[first] * V[first, k] * asked[k]),
            )
        )
    return tuple(found)
