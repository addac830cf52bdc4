"""What the standard deviation of an estimated torque is made of: sensors, and which encoders.

    std^2 = readings + sum over freedoms j of (d torque / d q_j  position_std_j)^2
                     + sum over freedoms j of (d torque / d qd_j velocity_std_j)^2

at random motions that what the layout states exactly allows, loops closed; shares are of the
variances summed over them. The noise of q and qd is followed to first order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dynsys.recursive.constraint_rows import dense_rows
from dynsys.types import Array
from problems.estimation.derivatives import EstimateDerivatives
from problems.labels import entry_names
from problems.measured.simulated_readings import NearestMotion, TrueReadings

if TYPE_CHECKING:
    from problems.estimation.estimation import Estimation

__all__ = ["TorqueSensitivity", "random_motions", "torque_sensitivities"]

SPEED = 1.0
"""Velocities of the motions, rad/s and m/s."""
NAMED = 3
"""Encoders that the words about a torque name."""
LEAST = 0.02
"""Shares that the words leave out."""


@final
@dataclass(frozen=True)
class TorqueSensitivity:
    """Where the deviation of one torque comes from.

    Attributes
    ----------
    joint : name of the freedom.
    std : standard deviation, root mean square over the motions.
    readings : part of the variance that the sensors' noise makes.
    position, velocity : parts that the noise of each joint's position and velocity makes, by
        freedom; those above zero, the largest first.
    """

    joint: str
    std: float
    readings: float
    position: dict[str, float]
    velocity: dict[str, float]

    @property
    def words(self) -> str:
        """Shares in percent, the largest first."""
        parts = [(share, f"position of {name}") for name, share in self.position.items()]
        parts += [(share, f"velocity of {name}") for name, share in self.velocity.items()]
        parts = [part for part in sorted(parts, reverse=True) if part[0] >= LEAST][:NAMED]
        parts = sorted([*parts, (self.readings, "sensors")], reverse=True)
        return ", ".join(f"{100 * share:.0f} % {what}" for share, what in parts)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "joint": self.joint,
            "std": self.std,
            "readings": self.readings,
            "position": self.position,
            "velocity": self.velocity,
        }


def random_motions(problem: Estimation, count: int, seed: int) -> tuple[Array, Array, Array]:
    """q, qd and noiseless readings (count, ...) of motions that meet what the layout states.

    Its loops are closed and stay so, J qd = 0, where any such posture is found.
    """
    robot, layout = problem.robot, problem.layout
    rng = np.random.default_rng(seed)
    first = 1 if layout.loops else 0  # the first of closed postures is not a random one
    q = np.array(layout.configurations(first + count, rng)[first:])
    qd, qdd = SPEED * rng.normal(size=(2, count, robot.nv))
    for k in range(count if layout.loops else 0):
        rows = dense_rows(robot, layout.loops, q[k], qd[k])
        qd[k] -= np.linalg.lstsq(rows.J, rows.velocity, rcond=1e-9)[0]
    f = np.zeros((count, 6 * robot.n_bodies))
    readings = TrueReadings(layout)
    stated = np.tile(np.where(np.isnan(layout.constants), 0.0, layout.constants), (count, 1))
    qdd, f = NearestMotion(readings).meet(q, qd, qdd, f, stated)
    _, y = readings.at(q, qd, qdd, f.reshape(count, -1, 6))
    return q, qd, np.where(np.isnan(layout.constants), y, layout.constants)


def torque_sensitivities(
    problem: Estimation, samples: int, seed: int
) -> tuple[TorqueSensitivity, ...]:
    """Of every torque that is determined, in the order of the freedoms."""
    robot, layout, nv = problem.robot, problem.layout, problem.robot.nv
    columns = problem.system.unknowns.columns("torque")
    own, by_q, by_qd = np.zeros(nv), np.zeros((nv, nv)), np.zeros((nv, nv))
    for q, qd, y in zip(*random_motions(problem, samples, seed), strict=True):
        rows = problem.measured.pack(y, None, None)
        posterior = problem.posterior(q, qd, rows)
        known = posterior.determined(np.eye(nv), columns)
        J: EstimateDerivatives = problem.derivatives(q, qd, y)
        own += np.where(known, np.diag(posterior.covariance(columns)), np.nan)
        by_q += (J.torque.q * layout.position_std) ** 2
        by_qd += (J.torque.qd * layout.velocity_std) ** 2
    names = entry_names(robot)["qd"]
    found = []
    for k, name in enumerate(names):
        total = float(own[k] + by_q[k].sum() + by_qd[k].sum())
        if not total > 0:
            continue
        shares = [
            {names[j]: float(part[k, j] / total) for j in np.argsort(-part[k]) if part[k, j]}
            for part in (by_q, by_qd)
        ]
        std = float(np.sqrt(total / samples))
        found.append(TorqueSensitivity(name, std, float(own[k] / total), *shares))
    return tuple(found)
