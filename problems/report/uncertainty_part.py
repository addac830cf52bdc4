"""Uncertainty of a report: standard deviations of torques and external wrenches by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.types import Array
from problems.estimation.estimation import Estimation
from problems.labels import WRENCH
from problems.logs.source import own_joints
from problems.report.log_part import SolvedLog, exact_below
from problems.report.timing_part import UNCERTAIN

__all__ = ["JointDeviation", "UncertaintyPart", "WrenchDeviation", "uncertainty_part"]

POSTURES = 12


@final
@dataclass(frozen=True)
class JointDeviation:
    """Deviation of one joint's torque over postures: median, 10% and 90%; zero: exact.

    None: not determined at most of them; ``missing`` is the part at which it is not. Of a
    joint with several freedoms: the largest.
    """

    joint: str
    body: int
    unit: str
    median: float | None
    low: float | None
    high: float | None
    missing: float = 0.0

    @property
    def words(self) -> str:
        """Median with its unit, or why there is none."""
        if self.median is None:
            return "not determined"
        if self.missing:
            return f"{self._size} (open in {max(100 * self.missing, 1):.0f}%)"
        return self._size

    @property
    def _size(self) -> str:
        assert self.median is not None
        if self.median == 0.0:
            return "exact"
        if self.median < 1e-3:
            return f"{1e3 * self.median:.2g} m{self.unit}"
        return f"{self.median:.2g} {self.unit}"


@final
@dataclass(frozen=True)
class WrenchDeviation:
    """Median deviations of an external wrench's six components, N m and N."""

    body: str
    components: dict[str, float | None]


@final
@dataclass(frozen=True)
class UncertaintyPart:
    """Deviations, and over which postures they were taken, in words."""

    over: str
    joints: list[JointDeviation]
    wrenches: list[WrenchDeviation]


def uncertainty_part(estimation: Estimation, solved: SolvedLog | None) -> UncertaintyPart:
    """Deviations along a solved log, or else at random postures at rest.

    They depend on the posture and the sensors, not on what the sensors read.
    """
    if solved is not None:
        stds, over = solved.stds, f"{len(solved.samples.time)} samples of the log"
    else:
        stds, over = _sampled(estimation), f"{POSTURES} random postures within the limits"
    return UncertaintyPart(
        over,
        _joints(estimation, stds["torque"]),
        _wrenches(estimation, stds["external_wrench"]),
    )


def _sampled(estimation: Estimation) -> dict[str, Array]:
    robot, layout = estimation.robot, estimation.layout
    rng = np.random.default_rng(0)
    q = np.array([robot.random_configuration(rng) for _ in range(POSTURES)])
    y = np.where(np.isnan(layout.constants), 0.0, layout.constants)
    e = estimation.solve_batch(
        q, np.zeros((POSTURES, robot.nv)), np.tile(y, (POSTURES, 1)), uncertainty=UNCERTAIN
    )
    return {"torque": e.std.torque.array, "external_wrench": e.std.external_wrench.array}


def _joints(estimation: Estimation, std: Array) -> list[JointDeviation]:
    robot, found = estimation.robot, []
    for i in own_joints(robot):
        if not robot.joints[i].nv:
            continue
        columns = std[:, robot.v_slices()[i]]
        unit = "N m" if np.any(robot.joints[i].S[:3]) else "N"
        largest = columns.max(axis=1)
        missing = float(np.isnan(largest).mean())
        name = robot.joint_names[i]
        if missing > 0.5:
            found.append(JointDeviation(name, i, unit, None, None, None, missing))
            continue
        largest = np.where(largest > exact_below(std), largest, 0.0 * largest)
        low, median, high = np.nanpercentile(largest, [10, 50, 90]).tolist()
        found.append(JointDeviation(name, i, unit, median, low, high, missing))
    return found


def _wrenches(estimation: Estimation, std: Array) -> list[WrenchDeviation]:
    """Bodies whose external wrench is not stated exactly."""
    found = []
    for i, body in enumerate(estimation.robot.body_names):
        columns = std[:, i]
        known = np.isfinite(columns)
        if known.any() and columns[known].max() <= exact_below(std):
            continue
        medians = [
            None if np.isnan(c).mean() > 0.5 else float(np.nanmedian(c)) for c in columns.T
        ]
        found.append(WrenchDeviation(body, dict(zip(WRENCH, medians, strict=True))))
    return found
