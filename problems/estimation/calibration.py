"""Constant offsets of sensors from a log.

    y_t = Y_t d_t + b_t + S o + noise     with the same o at every sample t

Each sample's unknowns are eliminated exactly: what its residuals say of the offsets is the
information S^T G_t S and the vector S^T lambda_t, with lambda = C^-1 residual and G its
covariance. Their sums over the log are the normal equations of o. Directions without
information are offsets that this layout and motion cannot tell from a change of the unknowns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar, final

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import LayoutError
from dynsys.recursive.inputs import state_rows
from dynsys.types import Array, ArrayLike, BoolArray, IntArray, float_array
from problems.estimation.estimation import Estimation
from problems.measured.measured_system import Active, Readings
from problems.verdict.words import sparse_basis

__all__ = ["Calibration", "calibrate_offsets"]

Scalar = TypeVar("Scalar", bound=np.generic)
UNSEEN = 1e-9
"""Information below this part of a sensor's own, per sample, is rounding."""


@final
@dataclass(frozen=True, eq=False)
class Calibration:
    """Offsets to subtract from the readings, by sensor name.

    Attributes
    ----------
    offset, std : (size,) of each sensor; NaN where it cannot be told.
    observable : truth values (size,) of each sensor.
    unobservable : combinations of offsets that the log says nothing about, in words.
    samples : number of samples used.
    """

    offset: Mapping[str, Array]
    std: Mapping[str, Array]
    observable: Mapping[str, BoolArray]
    unobservable: tuple[str, ...]
    samples: int

    def correct(self, y: Mapping[str, ArrayLike]) -> dict[str, Array]:
        """Readings less the offsets that are known."""
        try:
            out = {name: np.array(float_array(value)) for name, value in y.items()}
        except (TypeError, ValueError) as error:
            raise LayoutError(f"readings are not numeric: {error}") from None
        for name, offset in self.offset.items():
            if name in out:
                known = np.where(self.observable[name], offset, 0.0)
                size_one = len(known) == 1 and out[name].shape[-1:] != (1,)
                out[name] = out[name] - (known[0] if size_one else known)
        return out

    def __str__(self) -> str:
        lines = []
        for name, offset in self.offset.items():
            pairs = zip(offset, self.std[name], strict=True)
            texts = [f"{o:.4g} +- {s:.2g}" if np.isfinite(o) else "unknown" for o, s in pairs]
            lines.append(f"{name}: {', '.join(texts)}")
        lines += [f"not observable: {text}" for text in self.unobservable]
        return "\n".join(lines)


def calibrate_offsets(
    est: Estimation,
    q: ArrayLike,
    qd: ArrayLike,
    y: Readings,
    sensors: Sequence[str] | None = None,
    *,
    active: Active | None = None,
) -> Calibration:
    """Offsets of some sensors, jointly over all samples of a log, by least squares.

    Parameters
    ----------
    est : the estimation problem.
    q, qd, y : log (N, nq), (N, nv), readings as for ``solve_batch``; NaN: missing.
    sensors : names of the sensors that may have an offset; None for all noisy ones.
    active : as for ``solve_batch``.

    Raises
    ------
    LayoutError
        unknown sensor, or one without noise: an exact reading has no offset.
    """
    rows, names = _offset_rows(est, sensors)
    positions, velocities = state_rows(est.robot, (("q", q), ("qd", qd)))
    readings = est.measured.pack(y, active, len(positions))
    information = np.zeros((len(rows), len(rows)))
    vector = np.zeros(len(rows))
    std = np.sqrt(est.measured.variance[rows])
    for k in range(len(positions)):
        state = est.robot.check_q(positions[k]), est.robot.check_v(velocities[k], "qd")
        posterior = est.posterior(*state, readings[k])
        here = ~np.isnan(readings[k][rows])
        G = posterior.residual_information(rows) * np.outer(std, std)
        information += np.where(np.outer(here, here), G, 0.0)
        vector += np.where(here, posterior.multipliers[rows] * std, 0.0)
    return _solve(est, names, std, information, vector, len(positions))


def _offset_rows(
    est: Estimation, sensors: Sequence[str] | None
) -> tuple[IntArray, tuple[str, ...]]:
    layout, variance = est.layout, est.measured.variance

    def is_noisy(name: str) -> bool:
        return bool((variance[layout.slice(name)] > 0).all())

    names = tuple(filter(is_noisy, layout.names)) if sensors is None else tuple(sensors)
    for name in names:
        if not is_noisy(name):
            raise LayoutError(
                f"sensor {name!r} has rows without noise, which hold exactly; give it a std"
            )
    places = [np.arange(layout.size)[layout.slice(name)] for name in names]
    return np.concatenate([np.zeros(0, dtype=np.intp), *places]), names


def _solve(
    est: Estimation,
    names: tuple[str, ...],
    std: Array,
    information: Array,
    vector: Array,
    n: int,
) -> Calibration:
    """Offsets in standard deviations from the normal equations, open directions apart."""
    values, axes = np.linalg.eigh(information)
    seen = values > UNSEEN * max(n, 1)
    known, unknown = axes[:, seen], axes[:, ~seen]
    offset = std * (known @ ((known.T @ vector) / values[seen]))
    deviation = std * np.linalg.norm(known / np.sqrt(values[seen]), axis=1)
    observable = np.linalg.norm(unknown, axis=1) < 1e-6
    offset[~observable] = deviation[~observable] = np.nan
    cuts = np.cumsum([est.layout.sizes[name] for name in names])[:-1]

    def by_name(values: NDArray[Scalar]) -> Mapping[str, NDArray[Scalar]]:
        return MappingProxyType(dict(zip(names, np.split(values, cuts), strict=True)))

    labels = [label for name in names for label in est.layout.labels[est.layout.slice(name)]]
    words = _combinations(labels, std[:, None] * unknown)
    return Calibration(by_name(offset), by_name(deviation), by_name(observable), words, n)


def _combinations(labels: Sequence[str], open_directions: Array) -> tuple[str, ...]:
    """Each open direction as a sum of offsets, largest first."""
    if not open_directions.shape[1]:
        return ()
    words = []
    for direction in sparse_basis(open_directions).T:
        direction = direction / np.abs(direction).max()
        moved = [k for k in np.argsort(-np.abs(direction)) if abs(direction[k]) > 1e-6]
        texts = [f"{direction[k]:+.3g} {labels[k]}" for k in moved[:6]]
        words.append(" ".join(texts) + (" ..." if len(moved) > 6 else ""))
    return tuple(words)
