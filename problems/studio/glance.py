"""What a set of sensors determines at one posture, in milliseconds.

The rows are those of the reduced system, B z = c with d = T(q) z + d_0
(:mod:`problems.measured.reduced`), the same that estimates and verdicts use. T is kept while
the posture stays, and so are the rows Y T of every sensor: adding one costs its own rows and
one factorisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from dynsys.errors import LayoutError
from dynsys.model.tree import STANDARD_GRAVITY, KinematicTree
from dynsys.recursive.rnea import rnea
from dynsys.system.equations import EquationBlock, Kinematics
from dynsys.system.linear_system import LinearSystem
from dynsys.system.response import LawResponse, read_blocks
from dynsys.system.size import CONTRADICTION, natural_units, reading_sizes
from dynsys.types import Array, BoolArray
from problems.estimation.estimator import minimise
from problems.measured.measured_system import joint_covariance
from problems.measured.prior import Prior, prior_rows
from problems.measured.reduced import ReducedSystem, WhitenedRows, whiten
from problems.studio.contacts import contact_frames
from sensors.layout import Layout
from sensors.sensor import AbstractSensor

__all__ = ["Demand", "Glance", "GlanceKeeper"]

POSTURES = 8
"""Random postures at which the largest torque of gravity is looked for."""
NOTHING = 1e-9
"""Torque of gravity, in the robot's weight times 1 m, that is rounding."""


class Demand(NamedTuple):
    """What the robot's drives and contacts carry: deviations are large or small beside it.

    ``torque`` (nv,) is the limit of each freedom or, where the file states none (``limited``
    (nv,) is False), its largest torque of gravity, the base turned any way: 0 where nothing is
    off a joint's axis. ``weight`` is in N.
    """

    torque: Array
    limited: BoolArray
    weight: float

    @classmethod
    def of(cls, robot: KinematicTree) -> Demand:
        """Limits and weight as the robot has them; cost: 3 POSTURES recursions."""
        limit = robot.effort_limit
        limited = np.isfinite(limit) & (limit > 0.0)
        g = float(np.linalg.norm(robot.gravity)) or float(np.linalg.norm(STANDARD_GRAVITY))
        rest = np.zeros(robot.nv)
        along = [robot.with_friction(False).with_gravity(g * axis) for axis in np.eye(3)]
        held = np.zeros(robot.nv)
        for seed in range(POSTURES):
            q = robot.random_configuration(seed)
            torques = [rnea(turned, q, rest, rest) for turned in along]
            held = np.maximum(held, np.linalg.norm(torques, axis=0))
        weight = g * robot.total_mass
        held[held < NOTHING * weight] = 0.0
        return cls(np.where(limited, limit, held), limited, weight)


@final
@dataclass(frozen=True, eq=False)
class Glance:
    """What is known at one posture, the robot at rest.

    Attributes
    ----------
    kinematics : the posture.
    torque_std, torque_open : (nv,) standard deviation, and whether it is undetermined.
    frames : (n_bodies,) name of the frame in which the external wrench of each body is told.
    wrench_cov : (n_bodies, 6, 6) covariance of what is determined of each external wrench.
    wrench_open : (n_bodies, 6) components that are undetermined.
    wrench_unseen : (n_bodies, 6, nullity) what the unseen directions do to each wrench, every
        direction of natural size.
    nullity : number of directions that no sensor sees.
    checks : readings beyond those that are needed.
    contradicts : True if readings without noise contradict each other here.
    demand : what deviations are large or small beside.
    """

    kinematics: Kinematics
    torque_std: Array
    torque_open: BoolArray
    frames: tuple[str, ...]
    wrench_cov: Array
    wrench_open: BoolArray
    wrench_unseen: Array
    nullity: int
    checks: int
    contradicts: bool
    demand: Demand

    @property
    def is_complete(self) -> bool:
        """True if every quantity is determined at this posture."""
        return self.nullity == 0

    @property
    def wrench_std(self) -> Array:
        """(n_bodies, 6) standard deviations, each in its frame."""
        variance = np.einsum("bii->bi", self.wrench_cov)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))


@final
class GlanceKeeper:
    """Looks at sensors on one robot; keeps what a change of sensors or posture leaves valid.

    Parameters
    ----------
    robot : the robot.
    prior : beliefs that count as readings, or None.
    declared : frames where contacts are expected, see :mod:`.contacts`.
    """

    def __init__(
        self,
        robot: KinematicTree,
        prior: Prior | None = None,
        declared: Sequence[str] = (),
    ) -> None:
        self.robot = robot
        self._declared = tuple(declared)
        self._laws = LinearSystem(robot, net_wrench=True)
        self._laws_solved = LawResponse(self._laws)
        self._units = natural_units(self._laws)
        self._demand = Demand.of(robot)
        self._prior_rows = prior_rows(prior, self._laws.unknowns)
        self._q: Array | None = None
        self._kinematics: Kinematics
        self._response: tuple[Array, Array]
        self._blocks: dict[str, tuple[AbstractSensor, EquationBlock]] = {}
        self._rows: dict[EquationBlock, tuple[Array, Array]] = {}
        self._whitened: tuple[Layout, WhitenedRows] | None = None
        self._last: tuple[Layout, Array, Glance] | None = None

    def _move_to(self, q: Array) -> None:
        if self._q is not None and np.array_equal(q, self._q):
            return
        self._kinematics = Kinematics.at(self.robot, q, np.zeros(self.robot.nv))
        laws = self._laws_solved
        self._response = laws.at(self._kinematics), laws.sizes.at(self._kinematics)
        self._q = q.copy()
        self._rows.clear()

    def _rows_of(self, block: EquationBlock) -> tuple[Array, Array]:
        """[Y T, b_Y + Y d_0] of one sensor, and its sizes; kept at this posture."""
        if block not in self._rows:
            T, size = self._response
            self._rows[block] = (
                read_blocks([block], self._kinematics, T),
                reading_sizes([block], self._kinematics, size),
            )
        return self._rows[block]

    def _reduced(self, layout: Layout) -> ReducedSystem:
        """Rows of all sensors and of the prior."""
        planned: dict[str, tuple[AbstractSensor, EquationBlock]] = {}
        for sensor in layout.sensors:
            kept = self._blocks.get(sensor.name)
            if kept is None or kept[0] is not sensor:
                (block,) = sensor.blocks(self._laws.unknowns)
                kept = sensor, block
            planned[sensor.name] = kept
        self._blocks = planned
        blocks = [*(block for _, block in planned.values()), *self._prior_rows.equations]
        parts = [(np.zeros((0, self._response[0].shape[1])),) * 2, *map(self._rows_of, blocks)]
        seen, size = (np.concatenate(part) for part in zip(*parts, strict=True))
        y = np.concatenate([np.nan_to_num(layout.constants), self._prior_rows.mean])
        return ReducedSystem.of(self._kinematics, self._response, (seen, size), y, self._units)

    def _whiten(self, layout: Layout) -> WhitenedRows:
        """Whitening of all readings, kept while the sensors stay."""
        if self._whitened is None or self._whitened[0] is not layout:
            noise = joint_covariance(layout, self._prior_rows)
            self._whitened = layout, whiten(noise, np.ones(noise.shape[0], dtype=bool))
        return self._whitened[1]

    def _contradicts(self, layout: Layout, whitened: WhitenedRows, violation: Array) -> bool:
        """Tell whether rows without noise that need no data contradict each other."""
        needs_data = np.zeros(whitened.exact.shape[1])
        needs_data[: layout.size] = np.isnan(layout.constants)
        stated = np.asarray(abs(whitened.exact) @ needs_data) == 0
        return bool((violation[stated] > CONTRADICTION).any())

    def look(self, layout: Layout, q: Array) -> Glance:
        """Say what ``layout`` determines at position ``q`` (nq,); the last answer is kept.

        Raises
        ------
        LayoutError
            if the factorisation does not converge, or if it is not known what a sensor feels.
        """
        last = self._last
        if last is None or last[0] is not layout or not np.array_equal(last[1], q):
            layout.require_sides()
            try:
                last = self._last = layout, q.copy(), self._look(layout, q)
            except np.linalg.LinAlgError as error:
                raise LayoutError(f"these sensors cannot be judged here: {error}") from None
        return last[2]

    def _look(self, layout: Layout, q: Array) -> Glance:
        self._move_to(q)
        reduced, whitened = self._reduced(layout), self._whiten(layout)
        found = minimise(reduced, whitened)
        unknowns, nv = self._laws.unknowns, self.robot.nv
        torque, wrench = unknowns.columns("torque"), unknowns.columns("external_wrench")
        some = np.concatenate([torque, wrench.ravel()])
        T, size = reduced.T[some], reduced.T_size[some]
        frames = contact_frames(layout, self._declared)
        for i, name in enumerate(frames):
            if name != self.robot.body_names[i]:
                # f in coordinates of the frame is X^-T f, X the motion transform to it
                X = np.asarray(self.robot.frame(name).transform.inverse().matrix()).T
                rows = slice(nv + 6 * i, nv + 6 * i + 6)
                T[rows], size[rows] = X @ T[rows], np.abs(X) @ size[rows]
        spread, is_open = T @ found.deviation, found.rank.is_open(T, size)
        of_body = spread[nv:].reshape(*wrench.shape, -1)
        moved = np.where(is_open[nv:, None], T[nv:] @ found.rank.null, 0.0)
        nullity = found.rank.nullity
        return Glance(
            kinematics=self._kinematics,
            torque_std=np.linalg.norm(spread[:nv], axis=1),
            torque_open=is_open[:nv],
            frames=frames,
            wrench_cov=np.einsum("bik,bjk->bij", of_body, of_body),
            wrench_open=is_open[nv:].reshape(wrench.shape),
            wrench_unseen=moved.reshape(*wrench.shape, nullity),
            nullity=nullity,
            checks=len(reduced.c) - (T.shape[1] - nullity),
            contradicts=self._contradicts(layout, whitened, found.violation),
            demand=self._demand,
        )
