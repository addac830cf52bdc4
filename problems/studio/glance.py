"""What a set of sensors determines at one posture, in milliseconds.

The laws leave z = (qdd, external wrenches) open: d = T(q) z + d_0. T is kept while the posture
stays, and so are the rows Y T of every sensor: adding one costs its own rows and one dense
factorisation. Ranks and deviations are those of
:mod:`problems.estimation.least_squares`, the same that estimates and verdicts use.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, final

import numpy as np
from scipy.sparse import block_diag, csc_array

from dynsys.errors import LayoutError
from dynsys.model.tree import KinematicTree
from dynsys.system.equations import EquationBlock, Kinematics
from dynsys.system.linear_system import LinearSystem
from dynsys.types import Array, BoolArray
from problems.estimation.least_squares import Rows, WhitenedRows, solve_dense, whiten
from problems.estimation.measured_system import LawResponse
from problems.estimation.posterior import OPEN
from problems.estimation.prior import Prior, PriorRows
from sensors.layout import Layout
from sensors.sensor import AbstractSensor

__all__ = ["Glance", "Onlooker"]

Block: TypeAlias = tuple[Array, Array, Array]
"""Y T of one sensor, the same with absolute terms, and b_Y + Y d_0."""

CONTRADICTION = 1e-8
"""Exact statements that miss each other by more than this part of their terms contradict."""


@final
@dataclass(frozen=True, eq=False)
class Glance:
    """What is known at one posture, the robot at rest.

    Attributes
    ----------
    kinematics : the posture.
    torque_std, torque_open : (nv,) standard deviation, and whether it is undetermined.
    wrench_cov : (n_bodies, 6, 6) covariance of what is determined of each external wrench.
    wrench_open : (n_bodies, 6) components that are undetermined, body coordinates.
    wrench_unseen : (n_bodies, 6, nullity) what the unseen directions do to each wrench, every
        direction of natural size.
    nullity : number of directions that no sensor sees.
    checks : readings beyond those that are needed.
    contradicts : True if exact statements contradict each other here.
    """

    kinematics: Kinematics
    torque_std: Array
    torque_open: BoolArray
    wrench_cov: Array
    wrench_open: BoolArray
    wrench_unseen: Array
    nullity: int
    checks: int
    contradicts: bool

    @property
    def is_complete(self) -> bool:
        """True if every quantity is determined at this posture."""
        return self.nullity == 0

    @property
    def wrench_std(self) -> Array:
        """(n_bodies, 6) standard deviations in body coordinates."""
        variance = np.einsum("bii->bi", self.wrench_cov)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))


@final
class Onlooker:
    """Looks at sensors on one robot; keeps what a change of sensors or posture leaves valid.

    Parameters
    ----------
    robot : the robot.
    prior : beliefs that count as readings, or None.
    """

    def __init__(self, robot: KinematicTree, prior: Prior | None = None) -> None:
        self.robot = robot
        self.prior = prior
        self._q: Array | None = None
        self._kinematics: Kinematics
        self._T: Array
        self._size_of_T: Array
        self._blocks: dict[str, tuple[AbstractSensor, EquationBlock]] = {}
        self._seen: dict[str, tuple[EquationBlock, Block]] = {}
        self._whitened: tuple[Layout, WhitenedRows] | None = None
        self._last: tuple[Layout, Array, Glance] | None = None

    @cached_property
    def _laws(self) -> LinearSystem:
        return LinearSystem(self.robot, net_wrench=True)

    @cached_property
    def _response(self) -> LawResponse:
        return LawResponse(self._laws)

    @cached_property
    def _prior_rows(self) -> PriorRows:
        if self.prior is None:
            return PriorRows((), np.zeros(0), np.zeros(0))
        return self.prior.rows(self._laws.unknowns)

    def _move_to(self, q: Array) -> None:
        if self._q is not None and np.array_equal(q, self._q):
            return
        self._kinematics = Kinematics.at(self.robot, q, np.zeros(self.robot.nv))
        self._T = self._response.at(self._kinematics)
        self._size_of_T = np.abs(self._T[:, :-1])
        self._q = q.copy()
        self._seen.clear()

    def _rows_of(self, block: EquationBlock) -> Block:
        """Y T, the same with absolute terms, and b_Y + Y d_0 of one sensor's equations."""
        B = np.zeros((block.size, self._T.shape[1]))
        magnitude = np.zeros((block.size, self._T.shape[1] - 1))
        for term in block.terms:
            C = term.value(self._kinematics) if callable(term.value) else term.value
            B += C @ self._T[term.unknown.slice]
            magnitude += np.abs(C) @ self._size_of_T[term.unknown.slice]
        bias = 0.0 if block.bias is None else block.bias(self._kinematics)
        return B[:, :-1], magnitude, np.asarray(B[:, -1] + bias, dtype=np.float64)

    def _rows(self, layout: Layout) -> Rows:
        """Rows of all sensors and of the prior; a sensor's own are kept until it changes."""
        blocks: dict[str, tuple[AbstractSensor, EquationBlock]] = {}
        seen: dict[str, tuple[EquationBlock, Block]] = {}
        for sensor in layout.sensors:
            name = sensor.name
            planned = self._blocks.get(name)
            if planned is None or planned[0] is not sensor:
                (block,) = sensor.blocks(self._laws.unknowns)
                planned = sensor, block
            rows = self._seen.get(name)
            if rows is None or rows[0] is not planned[1]:
                rows = planned[1], self._rows_of(planned[1])
            blocks[name], seen[name] = planned, rows
        self._blocks, self._seen = blocks, seen
        columns = self._T.shape[1] - 1
        parts = [(np.zeros((0, columns)), np.zeros((0, columns)), np.zeros(0))]
        parts += [rows for _, rows in seen.values()]
        parts += [self._rows_of(block) for block in self._prior_rows.equations]
        B, magnitude, bias = (np.concatenate(part) for part in zip(*parts, strict=True))
        y = np.concatenate([np.nan_to_num(layout.constants), self._prior_rows.mean])
        return Rows.from_terms(B, magnitude, y - bias)

    def _whiten(self, layout: Layout) -> WhitenedRows:
        """Whitening of all readings, kept while the sensors stay."""
        if self._whitened is None or self._whitened[0] is not layout:
            prior = np.diag(self._prior_rows.std**2)
            noise = csc_array(block_diag([layout.covariance(), prior], format="csc"))
            self._whitened = layout, whiten(noise, np.ones(noise.shape[0], dtype=bool))
        return self._whitened[1]

    def _contradicts(self, layout: Layout, whitened: WhitenedRows, violation: Array) -> bool:
        """Tell whether statements that need no data contradict each other."""
        needs_data = np.zeros(whitened.exact.shape[1])
        needs_data[: layout.size] = np.isnan(layout.constants)
        stated = np.asarray(abs(whitened.exact) @ needs_data) == 0
        return bool((violation[stated] > CONTRADICTION).any())

    def look(self, layout: Layout, q: Array) -> Glance:
        """Say what ``layout`` determines at position ``q`` (nq,); the last answer is kept.

        Raises
        ------
        LayoutError
            if the factorisation does not converge.
        """
        last = self._last
        if last is None or last[0] is not layout or not np.array_equal(last[1], q):
            try:
                last = self._last = layout, q.copy(), self._look(layout, q)
            except np.linalg.LinAlgError as error:
                raise LayoutError(f"these sensors cannot be judged here: {error}") from None
        return last[2]

    def _look(self, layout: Layout, q: Array) -> Glance:
        self._move_to(q)
        rows = self._rows(layout)
        whitened = self._whiten(layout)
        found = solve_dense(rows, whitened)
        unknowns, T = self._laws.unknowns, self._T[:, :-1]
        torque, wrench = unknowns.columns("torque"), unknowns.columns("external_wrench")
        wanted = np.concatenate([torque, wrench.ravel()])
        spread, unseen = T[wanted] @ found.deviation, T[wanted] @ found.null
        reach = np.linalg.norm(T[wanted] * found.scale, axis=1)
        is_open = np.linalg.norm(unseen, axis=1) > OPEN * reach
        nv = self.robot.nv
        of_body = spread[nv:].reshape(*wrench.shape, -1)
        moved = np.where(is_open[nv:, None], unseen[nv:], 0.0)
        nullity = int(found.null.shape[1])
        return Glance(
            kinematics=self._kinematics,
            torque_std=np.linalg.norm(spread[:nv], axis=1),
            torque_open=is_open[:nv],
            wrench_cov=np.einsum("bik,bjk->bij", of_body, of_body),
            wrench_open=is_open[nv:].reshape(wrench.shape),
            wrench_unseen=moved.reshape(*wrench.shape, nullity),
            nullity=nullity,
            checks=len(rows.c) - (T.shape[1] - nullity),
            contradicts=self._contradicts(layout, whitened, found.violation),
        )
