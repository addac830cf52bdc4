"""Constant offsets of sensors from a log.

    y_t = Y_t d_t + b_t + S o + noise     with the same o at every sample t

Each sample's unknowns are eliminated exactly: an offset moves the misfit that no unknown
explains, r_t = M_t o + noise of unit deviation (:mod:`problems.estimation.consistency`), and
the rows of the whole log are solved for o by orthogonal factors. Every offset is measured by
what the others check of it, not by what its sensor claims: directions that move no misfit are
offsets that this layout and motion cannot tell from a change of the unknowns.

Deviations are those of the stated noise, times sqrt(T) where what is left of the misfit is
correlated in time: T samples of what it does to an offset count as one
(:mod:`problems.correlation`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import LayoutError
from dynsys.recursive.inputs import finite_rows
from dynsys.types import Array, ArrayLike, BoolArray, IntArray, float_array
from problems.correlation import LEAST_SAMPLES, Autoregression
from problems.estimation.consistency import Checks
from problems.estimation.estimate import MeasuredStates
from problems.estimation.estimation import Estimation
from problems.measured.measured_system import Active, Readings
from problems.verdict.words import sparse_basis

__all__ = ["Calibration", "calibrate_offsets"]

Scalar = TypeVar("Scalar", bound=np.generic)
UNSEEN = 1e-6
"""Combinations of offsets that each move the misfit by one, and together by less, are open."""


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
        unknown sensor, none, or one without noise: an exact reading has no offset.
    """
    rows, names = _offset_rows(est, sensors)
    positions, velocities = finite_rows(est.robot, (("q", q), ("qd", qd)))
    readings = est.measured.pack(y, active, len(positions))
    states = MeasuredStates(est, (positions, velocities, readings[:, : est.layout.size]))
    factor = np.zeros((0, len(rows) + 1))

    def judge(_: IntArray, checks: Checks) -> None:
        nonlocal factor
        moves = checks.moves[:, rows] * checks.sizes[:, rows, None]
        every = np.concatenate([moves, checks.misfit[:, None]], axis=1).transpose(0, 2, 1)
        factor = np.asarray(np.linalg.qr(np.vstack([factor, *every]), mode="r"))

    places = np.arange(len(positions))
    states.judged(places, judge)
    solved = _solve(factor)
    pull = np.zeros((len(places), len(rows)))

    def weigh(some: IntArray, checks: Checks) -> None:
        moves = checks.moves[:, rows] * checks.sizes[:, rows, None] / solved.sizes[:, None]
        left = checks.misfit - np.einsum("nif,i->nf", moves, solved.offset)
        pull[some] = np.einsum("nif,nf->ni", moves, left) @ (solved.known @ solved.known.T)

    if len(places) >= LEAST_SAMPLES:
        states.judged(places, weigh)
    times = [Autoregression.of(one).correlation_time for one in pull.T]
    return _named(est, names, rows, solved, np.sqrt(times), len(places))


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
    if not names:
        raise LayoutError(
            f"robot {est.robot.name!r}: no sensor that may have an offset; name one, or give"
            " one a std: what holds exactly has no offset"
        )
    places = [np.arange(layout.size)[layout.slice(name)] for name in names]
    return np.concatenate(places), names


class _Solved(NamedTuple):
    """Offsets (m,) by what each alone does to the misfit of the log, ``sizes`` (m,) of that.

    Orthogonal combinations that the log tells, by deviation (m, seen), and those it does not.
    """

    offset: Array
    sizes: Array
    known: Array
    unknown: Array


def _solve(factor: Array) -> _Solved:
    """Offsets from the triangular factor of the rows of the log, open directions apart."""
    moves, misfit = factor[:, :-1], factor[:, -1]
    sizes = np.linalg.norm(moves, axis=0)
    sizes = np.where(sizes > 0, sizes, 1.0)
    left, values, axes = np.linalg.svd(moves / sizes)
    seen = int((values > UNSEEN).sum())
    known = axes[:seen].T / values[:seen]
    return _Solved(known @ (left[:, :seen].T @ misfit), sizes, known, axes[seen:].T)


def _named(
    est: Estimation,
    names: tuple[str, ...],
    rows: IntArray,
    solved: _Solved,
    wider: Array,
    n: int,
) -> Calibration:
    """Offsets in units of the readings, deviations ``wider`` (m,) than those of white noise."""
    unit = np.sqrt(est.measured.variance[rows]) / solved.sizes
    unknown = solved.unknown
    offset = unit * solved.offset
    deviation = unit * wider * np.linalg.norm(solved.known, axis=1)
    observable = np.linalg.norm(unknown, axis=1) < UNSEEN
    offset[~observable] = deviation[~observable] = np.nan
    cuts = np.cumsum([est.layout.sizes[name] for name in names])[:-1]

    def by_name(values: NDArray[Scalar]) -> Mapping[str, NDArray[Scalar]]:
        return MappingProxyType(dict(zip(names, np.split(values, cuts), strict=True)))

    labels = [label for name in names for label in est.layout.labels[est.layout.slice(name)]]
    words = _combinations(labels, unit[:, None] * unknown)
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
