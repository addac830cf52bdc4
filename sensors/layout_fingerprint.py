"""A layout as a number: equal exactly if robot, equations and noise are equal."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from dynsys.plan.fingerprint import fingerprint_robot
from dynsys.types import ArrayLike

if TYPE_CHECKING:
    from sensors.layout import Layout

__all__ = ["layout_fingerprint"]


def layout_fingerprint(layout: Layout) -> str:
    """SHA-256 (hex) of robot, frames, folded links, sensors and their noise."""
    robot = layout.robot
    digest = hashlib.sha256(b"dynsys layout 1" + fingerprint_robot(robot).digest.encode())
    for frame in robot.frames.values():
        digest.update(_bytes(frame.body, frame.transform.E, frame.transform.r))
    for weld in robot.welds.values():
        digest.update(_bytes(weld.body, weld.inertia.matrix(), weld.children))
    for sensor in layout.sensors:
        digest.update(repr(sensor).encode())
    for first, second, matrix in layout.correlations:
        digest.update(f"{first}\0{second}\0".encode() + _bytes(matrix))
    return digest.hexdigest()


def _bytes(*arrays: ArrayLike) -> bytes:
    parts = [np.ravel(np.asarray(array, dtype=np.float64)) for array in arrays]
    return np.concatenate(parts).astype("<f8").tobytes()
