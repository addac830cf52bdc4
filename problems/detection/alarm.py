"""A threshold with a meaning: alarms per hour of a statistic that is correlated in time.

Free motion gives samples of a statistic (chi-square, or the size of a residual). Neighbouring
samples are not independent, so that counting exceedances would count one excursion many times.
Excursions above a level u are therefore gathered into clusters, apart by at least the
correlation time, and only their peaks count. Far out, peaks beyond u are exponential or have a
power tail (generalised Pareto, [Pickands 1975]),

    alarms per hour beyond x  =  rate(u) (1 + xi (x - u) / beta)^(-1/xi)

which is solved for the threshold x of the rate that is asked for. Hours are those in which
there were samples: a log that was paused for an hour was not watched for it. How far x lies
beyond what was seen is said (``extrapolation``): 20 s of data promise a rate of 1 per hour by a
factor of 180 beyond their own length.

Where readings are missing, chi-square x has fewer degrees of freedom k than it usually has, k0,
and is smaller by nature. It is compared as the one that is as improbable with k0: the cube root
of chi-square, in parts of what free motion has, is about normal ([Wilson, Hilferty 1931]).

    z = ((x / c k)^(1/3) - 1 + 2 / 9k) sqrt(9k / 2)         c = sum of x / sum of k
    x0 = c k0 (1 - 2 / 9k0 + z sqrt(2 / 9k0))^3
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.errors import LogError, StateError
from dynsys.types import Array, ArrayLike, IntArray, float_array
from problems.correlation import integrated_correlation
from problems.inputs import ascending_times

__all__ = ["Alarm", "calibrate_alarm", "clusters", "correlation_time"]

HOUR = 3600.0
GAP = 5.0
"""A pause of so many usual steps is no time in which an alarm could have come."""
LEAST_PEAKS = 12
"""Clusters that tell a power tail from an exponential one."""
WANTED_PEAKS = 30
"""Clusters that a tail is fitted to: more reach down into the bulk, fewer scatter."""


@final
@dataclass(frozen=True)
class Alarm:
    """A threshold for a statistic, and what it promises.

    Attributes
    ----------
    threshold : alarm above this.
    per_hour : false alarms per hour that are promised.
    apart : excursions closer than this (s) are one alarm.
    extrapolation : how many times rarer the promise is than one alarm in the calibration.
    shape : xi of the tail, 0 if exponential.
    freedoms : degrees of freedom k0 that a chi-square usually has; NaN of other statistics.
    per_freedom : what free motion has of chi-square per degree of freedom, c.
    """

    threshold: float
    per_hour: float
    apart: float
    extrapolation: float
    shape: float
    freedoms: float = float("nan")
    per_freedom: float = 1.0

    def __post_init__(self) -> None:
        if not np.isfinite(self.threshold):
            raise LogError(f"a threshold of {self.threshold} raises no alarm, or always one")

    def events(self, time: ArrayLike, statistic: ArrayLike) -> list[tuple[int, int]]:
        """First and last sample of each alarm; no sample without a statistic (NaN) is one."""
        t, s = _series(time, statistic)
        found = clusters(t, s, self.threshold, self.apart)
        return [(int(members[0]), int(members[-1])) for members in found]

    def comparable(self, chi_square: ArrayLike, freedoms: ArrayLike) -> Array:
        """Chi-square (N,) of degrees of freedom (N,) as with those that it usually has.

        NaN where there are none: nothing checks such a sample. Others are left as they are by
        an alarm that knows of no degrees of freedom.
        """
        x, k = float_array(chi_square), float_array(freedoms)
        k0, c = self.freedoms, self.per_freedom
        checked = k > 0
        if np.isnan(k0):
            return np.where(checked, x, np.nan)
        k = np.where(checked, k, 1.0)
        z = (np.cbrt(x / (c * k)) - 1 + 2 / (9 * k)) * np.sqrt(4.5 * k)
        as_usual = c * k0 * (1 - 2 / (9 * k0) + z / np.sqrt(4.5 * k0)) ** 3
        return np.where(checked, np.where(k == k0, x, as_usual), np.nan)

    def __str__(self) -> str:
        beyond = ""
        if self.extrapolation > 1:
            beyond = f", {self.extrapolation:.3g} times beyond the data it was found on"
        return f"above {self.threshold:.4g}: {self.per_hour:g} false alarms per hour{beyond}"


def correlation_time(time: Array, statistic: Array) -> float:
    """Seconds after which the statistic has forgotten itself: its integrated correlation."""
    return integrated_correlation(statistic) * float(np.median(np.diff(time)))


def clusters(time: Array, statistic: Array, level: float, apart: float) -> list[IntArray]:
    """Samples above a level, gathered where less than ``apart`` seconds lie between them."""
    above = np.flatnonzero(statistic > level)
    if not len(above):
        return []
    return np.split(above, np.flatnonzero(np.diff(time[above]) > apart) + 1)


def calibrate_alarm(
    time: ArrayLike, statistic: ArrayLike, per_hour: float, freedoms: ArrayLike | None = None
) -> Alarm:
    """Threshold of a statistic (N,) seen in free motion at times (N,), for a rate of alarms.

    Samples without a statistic (NaN) are left out. Of a chi-square give its degrees of freedom
    (N,) too: then the threshold holds where other readings are missing.

    Raises
    ------
    LogError
        if there are too few samples, the rate is not positive or beyond what the log shows, or
        the statistic never changes.
    StateError
        if times do not ascend, or the statistic is infinite.
    """
    t, s = _series(time, statistic)
    usual: dict[str, float] = {}
    if freedoms is not None and (k := float_array(freedoms))[k > 0].size:
        total = float(np.nansum(s[k > 0]))
        usual["freedoms"] = float(np.median(k[k > 0]))
        usual["per_freedom"] = total / float(k[k > 0].sum()) or 1.0
        s = Alarm(0.0, 1.0, 0.0, 1.0, 0.0, **usual).comparable(s, k)
    there = ~np.isnan(s)
    t, s = t[there], s[there]
    if not isinstance(per_hour, (int, float, np.number)) or not 0 < per_hour < np.inf:
        raise LogError(f"false alarms per hour must be positive, got {per_hour!r}")
    if len(s) < 5 * LEAST_PEAKS:
        raise LogError(
            f"an alarm is calibrated on {5 * LEAST_PEAKS} samples of free motion at least,"
            f" got {len(s)}"
        )
    apart = correlation_time(t, s)
    hours = _watched(t) / HOUR
    level, peaks = _peaks(t, s, apart)
    if not len(peaks):
        raise LogError(
            f"the statistic is {level:.4g} at every sample of the free motion: no threshold has"
            " a rate of false alarms; calibrate on a log with noise"
        )
    excess = peaks - level
    rate = len(peaks) / hours
    if per_hour > rate:
        raise LogError(
            f"{per_hour:g} false alarms per hour are more than the {rate:.3g} excursions that"
            " free motion shows; ask for fewer"
        )
    shape, scale = _tail(excess)
    ratio = rate / per_hour
    beyond = scale * (np.log(ratio) if shape == 0 else (ratio**shape - 1.0) / shape)
    rarer = float(1.0 / (per_hour * hours))
    return Alarm(level + float(beyond), float(per_hour), apart, rarer, shape, **usual)


def _watched(time: Array) -> float:
    """Seconds of a log, each pause counted as a usual step."""
    steps = np.diff(time)
    usual = float(np.median(steps))
    return float(np.where(steps > GAP * usual, usual, steps).sum())


def _series(time: ArrayLike, statistic: ArrayLike) -> tuple[Array, Array]:
    """Times and statistic (N,) as arrays; NaN where there is none."""
    try:
        s = float_array(statistic)
    except (TypeError, ValueError) as error:
        raise StateError(f"the statistic is not numeric: {error}") from None
    if s.ndim != 1:
        raise StateError(f"the statistic must have shape (N,), got {s.shape}")
    if np.isinf(s).any():
        raise StateError(f"the statistic of sample {int(np.isinf(s).argmax())} is infinite")
    return ascending_times(time, len(s)), s


def _peaks(time: Array, statistic: Array, apart: float) -> tuple[float, Array]:
    """Highest level that enough clusters exceed, or that most do, and the clusters' peaks."""
    best: tuple[float, Array] = (float(statistic.min()), np.zeros(0))
    for part in np.linspace(0.99, 0.5, 50):
        level = float(np.quantile(statistic, part))
        found = clusters(time, statistic, level, apart)
        if len(found) > len(best[1]):
            best = level, np.array([statistic[members].max() for members in found])
        if len(found) >= WANTED_PEAKS:
            break
    return best


def _tail(excess: Array) -> tuple[float, float]:
    """Shape and scale of the tail by probability-weighted moments; heavy tails only if seen."""
    scale = float(excess.mean()) if len(excess) else 0.0
    if len(excess) < LEAST_PEAKS or scale == 0:
        return 0.0, scale
    x = np.sort(excess)
    weights = (len(x) - np.arange(1, len(x) + 1)) / (len(x) - 1)
    b0, b1 = x.mean(), float((weights * x).mean())
    shape = 2.0 - b0 / (b0 - 2.0 * b1)
    deviation = (1.0 + abs(shape)) / np.sqrt(len(x))
    if shape < 2 * deviation:  # not told from exponential; a bounded tail promises too much
        return 0.0, scale
    return float(shape), float(2.0 * b0 * b1 / (b0 - 2.0 * b1))
