"""A motion of two joints, and arrays that are bad at one sample."""

from __future__ import annotations

import numpy as np

from dynsys.types import Array

N = 150
TIME = np.arange(N) / 50.0
REST = np.zeros((N, 2))


def motion() -> tuple[Array, Array, Array]:
    phase = np.stack([2.0 * TIME, 3.0 * TIME + 1.0], axis=1)
    speed = np.array([2.0, 3.0])
    return np.sin(phase), speed * np.cos(phase), -(speed**2) * np.sin(phase)


def at(array: Array, value: float, sample: int = 7) -> Array:
    """The array with a value at one sample."""
    changed = np.array(array, dtype=np.float64)
    changed[sample, ...] = value
    return changed
