"""Synthetic logs: what the sensors of a layout read along a motion, with their noise.

    y = Y d + b + noise,    d from inverse dynamics of q, qd, qdd and the external wrenches

What the layout states exactly (no wrench on a body, no torque at the free base, a foot that
does not accelerate) holds in the log: external wrenches, and accelerations where nothing else
can, are moved by the least amount that makes it so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from scipy.sparse import csr_array

from dynsys.errors import LayoutError
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, BoolArray, IntArray
from problems.logs.columns import joint_columns
from problems.logs.write import Group
from problems.readings import TrueReadings
from problems.trajectory import Trajectory, random_signal
from sensors import Layout

__all__ = ["Simulation"]

FORCE, MOMENT, ACCELERATION = 100.0, 10.0, 1.0
"""Sizes (N, N m, rad/s^2) in which the least change is measured."""

UNMET = 1e-9
"""Exact statements that miss by more than this part of their terms cannot be met."""


@final
@dataclass(frozen=True, eq=False)
class Simulation:
    """A log to be: samples of a trajectory at a rate.

    Parameters
    ----------
    layout : the sensors, and through it the robot.
    trajectory : the motion.
    rate : samples per second.
    seed : of noise and wrenches.
    contact_force : reach (N) of the random wrenches on bodies that may be touched; moments
        reach a tenth of it.
    position_std, velocity_std : noise of the logged q and qd (rad, m and per second).
    missing : part of the readings that are lost (NaN).
    """

    layout: Layout
    trajectory: Trajectory
    rate: float = 1000.0
    seed: int = 0
    contact_force: float = 20.0
    position_std: float = 0.0
    velocity_std: float = 0.0
    missing: float = 0.0

    def __post_init__(self) -> None:
        if not (self.rate > 0 and 0 <= self.missing < 1):
            raise LayoutError("simulate: rate must be positive, and 0 <= missing < 1")

    @property
    def robot(self) -> KinematicTree:
        """The robot of the layout."""
        return self.layout.robot

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        span = self.trajectory.stop - self.trajectory.start
        return round(span * self.rate)

    @cached_property
    def readings(self) -> TrueReadings:
        """The sensors without noise."""
        return TrueReadings(self.layout)

    # ---- columns -------------------------------------------------------------------------

    @cached_property
    def _measured(self) -> list[str]:
        return [s.name for s in self.layout if s.constant(1) is None]

    def groups(self, *, truth: bool = False) -> list[Group]:
        """Columns of the log; with ``truth`` also those of the true torques and wrenches."""
        robot, layout = self.robot, self.layout
        groups = [
            Group("time", ("time",)),
            Group("q", tuple(joint_columns(robot, "q"))),
            Group("qd", tuple(joint_columns(robot, "qd"))),
        ]
        groups += [Group(n, tuple(layout.labels[layout.slice(n)])) for n in self._measured]
        if truth:
            for quantity in ("torque", "qdd"):
                columns = joint_columns(robot, f"truth.{quantity}")
                groups.append(Group(f"truth.{quantity}", tuple(columns)))
            for body in robot.body_names:
                name = f"truth.external_wrench.{body}"
                axes = ("tx", "ty", "tz", "fx", "fy", "fz")
                groups.append(Group(name, tuple(f"{name}.{axis}" for axis in axes)))
        return groups

    # ---- samples -------------------------------------------------------------------------

    def motion(self, start: int, stop: int) -> tuple[Array, Array, Array, Array, Array]:
        """Time, q, qd, qdd and wrenches (N, n_bodies, 6) that meet the exact statements."""
        time = self.trajectory.start + np.arange(start, stop) / self.rate
        q, qd, qdd = self.trajectory.at(time)
        f = np.asarray(self._contact(time - self.trajectory.start))
        f[:, self._pinned] = self._pins[self._pinned]
        if len(self._statements):
            qdd, f = self._meet_statements(q, qd, qdd, f)
        return time, q, qd, qdd, f.reshape(len(time), -1, 6)

    def rows(self, start: int, stop: int, *, truth: bool = False) -> Array:
        """Samples start : stop, the columns of :meth:`groups`.

        The noise of a stretch depends on ``seed`` and ``start``.
        """
        time, q, qd, qdd, f = self.motion(start, stop)
        torque, y = self.readings.at(q, qd, qdd, f)
        rng = np.random.default_rng([self.seed, 2, start])
        y += (self._noise @ rng.normal(size=(self.layout.size, len(y)))).T
        if self.missing:
            y[rng.uniform(size=y.shape) < self.missing] = np.nan
        q_noise, qd_noise = rng.normal(size=q.shape), rng.normal(size=qd.shape)
        parts = [
            time[:, None],
            q + self.position_std * q_noise,
            qd + self.velocity_std * qd_noise,
            *(y[:, self.layout.slice(name)] for name in self._measured),
        ]
        if truth:
            parts += [torque, qdd, f.reshape(len(time), -1)]
        return np.hstack(parts)

    @cached_property
    def _noise(self) -> csr_array[Any]:
        """A square root (rows, rows) of the covariance of the readings."""
        covariance = self.layout.covariance().toarray()
        values, axes = np.linalg.eigh(covariance)
        if np.count_nonzero(covariance - np.diag(covariance.diagonal())) == 0:
            return csr_array(np.diag(np.sqrt(covariance.diagonal())))
        root = axes * np.sqrt(np.maximum(values, 0.0)) @ axes.T
        root[np.abs(root) < 1e-14 * np.abs(root).max()] = 0.0
        return csr_array(root)

    @cached_property
    def _contact(self) -> Any:
        rng = np.random.default_rng([self.seed, 3])
        reach = np.tile(np.repeat([0.1, 1.0], 3), self.robot.n_bodies) * self.contact_force
        return random_signal(rng, reach, self.n_samples / self.rate + 1.0, 1.0)

    # ---- exact statements ----------------------------------------------------------------

    @cached_property
    def _exact_rows(self) -> list[tuple[int, list[Any], bool]]:
        """Exact rows with a known value: number, terms, whether a bias comes with it."""
        unknowns = self.readings.unknowns
        rows: list[tuple[int, list[Any], bool]] = []
        for block in self.layout.equations(unknowns):
            place = self.layout.slice(block.name)
            for k in range(block.size):
                row = place.start + k
                if self.layout.exact[row] and np.isfinite(self.layout.constants[row]):
                    terms = [
                        (term.unknown, k, term) for term in block.terms if term.pattern[k].any()
                    ]
                    rows.append((row, terms, block.bias is not None))
        return rows

    @cached_property
    def _pins(self) -> Array:
        """Known value (6 n_bodies,) of each component of the external wrenches, else NaN."""
        pins = np.full(6 * self.robot.n_bodies, np.nan)
        for row, terms, biased in self._exact_rows:
            if len(terms) != 1 or biased:
                continue
            unknown, k, term = terms[0]
            places = np.flatnonzero(term.pattern[k])
            if unknown.kind == "external_wrench" and term.is_constant and len(places) == 1:
                column = 6 * unknown.body + int(places[0])
                pins[column] = self.layout.constants[row] / term.value[k, places[0]]
        return pins

    @property
    def _pinned(self) -> BoolArray:
        return np.isfinite(self._pins)

    @cached_property
    def _statements(self) -> IntArray:
        """Exact rows that the pins do not settle."""
        pinned, open_rows = self._pinned, []
        for row, terms, _ in self._exact_rows:
            settled = terms and all(
                unknown.kind == "external_wrench"
                and pinned[6 * unknown.body + np.flatnonzero(term.pattern[k])].all()
                for unknown, k, term in terms
            )
            if terms and not settled:
                open_rows.append(row)
        return np.array(open_rows, dtype=np.intp)

    @cached_property
    def _moves_joints(self) -> bool:
        """Whether statements are about motion, which wrenches alone cannot change."""
        rows = set(self._statements.tolist())
        return any(
            unknown.kind in ("acceleration", "qdd")
            for row, terms, _ in self._exact_rows
            if row in rows
            for unknown, _, _ in terms
        )

    def _meet_statements(
        self, q: Array, qd: Array, qdd: Array, f: Array
    ) -> tuple[Array, Array]:
        """Least change of wrenches, and of qdd where need be, after which the statements hold.

        y is affine in (f, qdd): its columns are found by unit steps.
        """
        nf = f.shape[1]
        free = np.flatnonzero(~self._pinned)
        x = np.hstack([f, qdd])
        sizes = np.full(x.shape[1], ACCELERATION)
        sizes[:nf] = np.where(np.arange(nf) % 6 < 3, MOMENT, FORCE)

        def misses(x: Array, who: BoolArray) -> Array:
            y = self.readings.at(q[who], qd[who], x[:, nf:], x[:, :nf])[1]
            return np.asarray(self.layout.constants[self._statements] - y[:, self._statements])

        everyone = np.ones(len(q), dtype=bool)
        if not self._moves_joints:
            x = _closest(x, free, sizes, lambda x: misses(x, everyone))
        unmet = np.abs(misses(x, everyone)).max(axis=1) > UNMET * _size(x)
        if unmet.any():
            movable = np.concatenate([free, np.arange(nf, x.shape[1])])
            x[unmet] = _closest(x[unmet], movable, sizes, lambda x: misses(x, unmet))
            self._check_met(misses(x[unmet], unmet), x[unmet])
        return x[:, nf:].copy(), x[:, :nf].copy()

    def _check_met(self, miss: Array, x: Array) -> None:
        wrong = np.abs(miss) > UNMET * _size(x)[:, None]
        if wrong.any():
            label = self.layout.labels[self._statements[np.argwhere(wrong)[0, 1]]]
            raise LayoutError(
                f"simulate: no motion near this trajectory meets {label!r} exactly (it misses"
                f" by {np.abs(miss).max():.3g}); let more bodies be touched, or give a"
                " trajectory that meets it"
            )


def _size(x: Array) -> Array:
    return np.asarray(FORCE + np.abs(x).max(axis=1))


def _closest(
    x: Array, columns: IntArray, sizes: Array, misses: Callable[[Array], Array]
) -> Array:
    """Change of some columns of x (N, k), least in units of ``sizes``, that ends all misses.

    Misses (N, m) are affine in x.
    """
    at = misses(x)
    slopes = []
    for column in columns.tolist():
        stepped = x.copy()
        stepped[:, column] += sizes[column]
        slopes.append(at - misses(stepped))
    if not slopes:
        return x
    inverse = np.linalg.pinv(np.stack(slopes, axis=2), rcond=1e-10)
    for _ in range(2):  # the second time for the rounding of the first
        x = x.copy()
        x[:, columns] += np.einsum("nkm,nm->nk", inverse, at) * sizes[columns]
        at = misses(x)
    return x
