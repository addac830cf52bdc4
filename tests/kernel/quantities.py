"""States of a robot, and matrices that a kernel answers with."""

from __future__ import annotations

import numpy as np

from dynsys import KinematicTree
from dynsys.types import Array

TOLERANCE = 1e-10


def states(robot: KinematicTree, count: int = 7) -> Array:
    rng = np.random.default_rng(1)
    return np.array([robot.random_configuration(rng) for _ in range(count)])


def square(rows: Array) -> Array:
    size = int(np.sqrt(rows.shape[-1]))
    return rows.reshape(*rows.shape[:-1], size, size)


def close(actual: Array, expected: Array, tolerance: float = TOLERANCE) -> None:
    scale = float(np.abs(expected).max())
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)
