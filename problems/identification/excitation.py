"""Motions that tell more: a Fourier series within the limits of the joints.

    q_j(t) = centre_j + reach_j sum over k (a_k sin k w t + b_k cos k w t),   w = 2 pi / seconds

Band-limited, periodic, starting and ending at rest (sum k a_k = sum k^2 b_k = 0). Any numbers
a, b give a motion within the limits: the series is scaled to the reach that positions and
speeds allow. Among such motions a random search with shrinking steps lowers the worst expected
deviation of what the layout can see at all, each base parameter in its natural size (Swevers et
al. 1997 use the same series). Joints of several freedoms, and a floating base, stay where they
are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dynsys.errors import StateError
from dynsys.types import Array, IntArray
from problems.identification.parameter_set import ParameterSet
from problems.identification.seen import seen_by
from problems.identification.weighted import Log, weighted_rows

__all__ = ["Excitation", "design"]

HIGHEST = 0.5
"""Highest frequency of a series, Hz, unless three harmonics need more."""
MARGIN = 0.95
"""Part of the limits that is used."""
SPEED = 2.0
"""Largest speed of a joint without a limit, rad/s or m/s."""
RATE = 100.0
"""Samples per second of the motion that is handed out."""
PER_PERIOD = 10
"""Samples per period of the highest frequency that are counted as independent readings."""
RANDOM = 20
EVALUATIONS = 600


@final
@dataclass(frozen=True, eq=False)
class Excitation:
    """A motion, and what may be expected of it.

    Attributes
    ----------
    time, q, qd, qdd : (N,), (N, nq), (N, nv), (N, nv), at ``rate`` samples a second.
    highest : highest frequency, Hz.
    worst : largest expected deviation of a base parameter by data alone, in its natural size.
    worst_parameter : its name.
    random : the same of random motions.
    std : expected deviation by name of parameter.
    """

    time: Array
    q: Array
    qd: Array
    qdd: Array
    rate: float
    highest: float
    worst: float
    worst_parameter: str
    random: tuple[float, ...]
    std: dict[str, float]


@final
@dataclass(frozen=True, eq=False)
class _Series:
    """All motions of a robot of this kind: (joints, 2 K + 2) numbers to a motion."""

    sought: ParameterSet
    seconds: float

    @cached_property
    def joints(self) -> IntArray:
        """Places in qd of the joints that move."""
        robot = self.sought.robot
        places = [
            v.start
            for body, v in zip(robot.bodies, robot.v_slices(), strict=True)
            if body.joint.nv == 1 and body.joint.nq == 1 and body.coupling is None
        ]
        return np.array(places, dtype=np.intp)

    @cached_property
    def _positions(self) -> IntArray:
        """Places in q of the same joints."""
        robot = self.sought.robot
        of = dict(zip([v.start for v in robot.v_slices()], robot.q_slices(), strict=True))
        return np.array([of[int(v)].start for v in self.joints], dtype=np.intp)

    @cached_property
    def _limits(self) -> tuple[Array, Array, Array]:
        """Least and largest position, and largest speed, of these joints (joints,).

        Joints that follow them (mimic) stay within theirs too.
        """
        robot = self.sought.robot
        low, high = (limit[self._positions] for limit in robot.position_limits)
        speed = robot.velocity_limit[self.joints]
        starts = [v.start for v in robot.v_slices()]
        for body in robot.bodies:
            if body.coupling is None or not body.coupling.ratio:
                continue
            k = self.joints.tolist().index(starts[body.coupling.leader])
            lower, upper, fastest = (
                none if x is None else np.asarray(x, dtype=np.float64).item()
                for x, none in (
                    (body.lower, -np.inf),
                    (body.upper, np.inf),
                    (body.velocity_limit, np.inf),
                )
            )
            ratio, shift = body.coupling.ratio, body.coupling.offset
            ends = sorted(((lower - shift) / ratio, (upper - shift) / ratio))
            low[k], high[k] = max(low[k], ends[0]), min(high[k], ends[1])
            speed[k] = min(speed[k], fastest / abs(ratio))
            if not low[k] < high[k]:
                raise StateError(
                    f"robot {robot.name!r}: joint {body.joint_name or body.name!r} follows"
                    f" {robot.joint_names[body.coupling.leader]!r}, and there is no position at"
                    " which both are within their limits; correct these"
                )
        low = np.where(np.isfinite(low), low, np.minimum(-np.pi, high - 2 * np.pi))
        high = np.where(np.isfinite(high), high, np.maximum(np.pi, low + 2 * np.pi))
        return low, high, np.where(speed < np.inf, np.minimum(speed, 1e3), SPEED)

    @property
    def harmonics(self) -> int:
        return max(3, int(HIGHEST * self.seconds))

    @property
    def highest(self) -> float:
        return self.harmonics / self.seconds

    @property
    def size(self) -> tuple[int, int]:
        return len(self.joints), 2 * self.harmonics + 2

    def at(self, numbers: Array, time: Array) -> tuple[Array, Array, Array]:
        """q, qd, qdd at times (N,) of a motion given by numbers of any size."""
        robot, k = self.sought.robot, np.arange(1, self.harmonics + 1)
        a, b = numbers[:, : len(k)].copy(), numbers[:, len(k) : -2].copy()
        a -= np.outer(a @ k, k) / (k @ k)
        b -= np.outer(b @ k**2, k**2) / (k**2 @ k**2)
        w = 2 * np.pi / self.seconds
        fine = np.linspace(0, self.seconds, 40 * self.harmonics + 1)
        shape, slope = (self._sum(a, b, fine, w, order) for order in (0, 1))
        low, high, speed = self._limits
        width = np.maximum(np.ptp(shape, axis=0), 1e-12)
        most = np.minimum(
            MARGIN * (high - low) / width,
            MARGIN * speed / np.maximum(np.abs(slope).max(axis=0), 1e-12),
        )
        reach = most / (1.0 + np.exp(-3.0 - numbers[:, -2]))  # nearly all of it, or less
        room = MARGIN * (high - low) - reach * width
        share = 1.0 / (1.0 + np.exp(-numbers[:, -1]))
        start = low + 0.5 * (1 - MARGIN) * (high - low) + share * np.maximum(room, 0.0)
        centre = start - reach * shape.min(axis=0)
        q = np.tile(robot.neutral(), (len(time), 1))
        qd, qdd = np.zeros((2, len(time), robot.nv))
        q[:, self._positions] = centre + reach * self._sum(a, b, time, w, 0)
        qd[:, self.joints] = reach * self._sum(a, b, time, w, 1)
        qdd[:, self.joints] = reach * self._sum(a, b, time, w, 2)
        return q, qd, qdd

    def log(self, numbers: Array, time: Array) -> Log:
        """The motion as a log without readings."""
        q, qd, qdd = self.at(numbers, time)
        return Log(q, qd, qdd, np.zeros((len(time), self.sought.layout.size)))

    @staticmethod
    def _sum(a: Array, b: Array, time: Array, w: float, order: int) -> Array:
        """Derivative of the series (N, joints)."""
        k = w * np.arange(1, a.shape[1] + 1)
        phase = np.outer(time, k) + 0.5 * np.pi * order
        return np.asarray((k**order * np.sin(phase)) @ a.T + (k**order * np.cos(phase)) @ b.T)


def design(
    sought: ParameterSet, seconds: float, *, seed: int = 0, evaluations: int = EVALUATIONS
) -> Excitation:
    """Find a motion of so many seconds; see the module.

    Raises
    ------
    StateError
        if nothing moves, or nothing is seen.
    """
    if not isinstance(seconds, (int, float, np.number)) or not 0 < seconds < np.inf:
        raise StateError(f"a motion takes some seconds, got {seconds!r}")
    series = _Series(sought, float(seconds))
    if not len(series.joints):
        raise StateError("a motion needs a joint of one freedom to move")
    general = seen_by(sought, None)
    if not general.rank:
        raise StateError("no reading of this layout depends on any parameter that is sought")
    place, scale = {name: k for k, name in enumerate(sought.names)}, sought.scale
    terms = [combination.terms for combination in general.combinations]
    columns = [place[of[0][0]] for of in terms]
    size = np.array([np.linalg.norm([x * scale[place[n]] for n, x in of]) for of in terms])
    time = np.arange(0, seconds, 1.0 / (PER_PERIOD * series.highest))
    std = np.where(sought.layout.std > 0, sought.layout.std, 1.0)

    def deviations(numbers: Array) -> Array:
        """Expected deviation of each base parameter, by data alone, in its natural size."""
        log = series.log(numbers, time)
        A = weighted_rows(sought, log, std)[..., columns].reshape(-1, len(columns)) * size
        values, vectors = np.linalg.eigh(A.T @ A)
        told = np.maximum(values, 1e-12 * values[-1])
        return np.asarray(np.sqrt((vectors**2 / told).sum(axis=1)))

    rng = np.random.default_rng(seed)
    starts = [rng.normal(size=series.size) for _ in range(RANDOM)]
    costs = [float(deviations(x).max()) for x in starts]
    best, cost = starts[int(np.argmin(costs))], min(costs)
    step = 0.5
    for _ in range(evaluations):
        trial = best.copy()
        joint = rng.integers(len(best))
        if rng.random() < 0.5:
            trial[joint] += step * rng.normal(size=best.shape[1])
        else:
            trial += 0.5 * step * rng.normal(size=best.shape)
        found = float(deviations(trial).max())
        step = min(1.0, 1.5 * step) if found < cost else max(0.03, 0.97 * step)
        if found < cost:
            best, cost = trial, found
    whole = np.arange(round(seconds * RATE) + 1) / RATE
    q, qd, qdd = series.at(best, whole)
    return Excitation(
        time=whole,
        q=q,
        qd=qd,
        qdd=qdd,
        rate=RATE,
        highest=series.highest,
        worst=cost,
        worst_parameter=str(general.combinations[int(deviations(best).argmax())]),
        random=tuple(costs),
        std=seen_by(sought, series.log(best, time)).std,
    )
