"""A walking centipede ([DRUM] section 6.3): its feet, how it stands, and its gait."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dynsys.model.tree import KinematicTree
from dynsys.simulation.contacts import ContactPoints
from dynsys.types import Array, IntArray

__all__ = ["Gait", "feet", "standing"]

LEG_LENGTH = 0.08
"""From the knee to the foot, m: :func:`dynsys.synthetic.centipede`."""


def feet(robot: KinematicTree) -> ContactPoints:
    """Tips of all lower legs."""
    legs = [name for name in robot.body_names if "_lower_leg_" in name]
    return ContactPoints(robot, legs, np.tile([0.0, 0.0, -LEG_LENGTH], (len(legs), 1)))


def standing(robot: KinematicTree) -> Array:
    """Position q (nq,) with all feet on the plane z = 0, legs vertical."""
    q = robot.neutral()
    q[robot.q_slice("root")][2] = LEG_LENGTH
    return q


@final
@dataclass(frozen=True)
class Gait:
    """A wave of steps that runs along the body; sides half a period apart.

    In stance (``duty`` of a period) a leg sweeps back by 2 ``sweep`` (rad) about the vertical,
    then it is lifted by ``lift`` (rad) and carried forward. Legs of neighbouring segments are
    ``wave`` periods apart. The amplitude grows over the first period.
    """

    robot: KinematicTree
    frequency: float = 1.5
    sweep: float = 0.35
    lift: float = 0.35
    wave: float = 0.125
    duty: float = 0.65

    def __call__(self, time: float) -> Array:
        """Position q (nq,) for the drives at a time."""
        q = self._rest.copy()
        segments = self.robot.n_bodies // 5
        grown = min(1.0, time * self.frequency)
        for side, sign in ((0, 1.0), (1, -1.0)):
            shift = 0.5 * side + self.wave * np.arange(segments)
            phase = (time * self.frequency + shift) % 1.0
            swing = np.clip((phase - self.duty) / (1 - self.duty), 0.0, 1.0)
            reach = np.where(
                phase < self.duty, 1 - 2 * phase / self.duty, -np.cos(np.pi * swing)
            )
            yaw = -sign * grown * self.sweep * reach
            roll = sign * grown * self.lift * np.sin(np.pi * swing)
            q[self._hips[side]] = _turned(yaw, roll)
        return q

    @cached_property
    def _rest(self) -> Array:
        return standing(self.robot)

    @cached_property
    def _hips(self) -> tuple[IntArray, ...]:
        """Places (segments, 4) of each side's hip quaternions in q."""
        starts = np.array([q.start for q in self.robot.q_slices()], dtype=np.intp)
        return tuple(starts[1 + 2 * side :: 5, None] + np.arange(4) for side in (0, 1))


def _turned(yaw: Array, roll: Array) -> Array:
    """Quaternions (k, 4) of a turn about z by yaw, then about the turned x by roll."""
    cz, sz, cx, sx = np.cos(yaw / 2), np.sin(yaw / 2), np.cos(roll / 2), np.sin(roll / 2)
    return np.column_stack([cz * sx, sz * sx, sz * cx, cz * cx])
