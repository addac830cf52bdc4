"""Robots for tests, real ones and small ones that several rooms try; a motion of two joints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynsys import KinematicTree, synthetic
from dynsys.model.body import Body, Coupling
from dynsys.model.joints import Revolute
from dynsys.types import Array
from experiments.example_robots import ROBOTS, all_urdf_files, robot_path, robots_folder

__all__ = [
    "CHAIN",
    "REST",
    "ROBOTS",
    "TIME",
    "N",
    "all_urdf_files",
    "at",
    "coupled_with_friction",
    "motion",
    "robot_path",
    "robots_folder",
]


CHAIN = synthetic.chain(2)


def coupled_with_friction() -> KinematicTree:
    rng = np.random.default_rng(0)
    bodies = [
        Body(
            name,
            parent,
            Revolute(rng.normal(size=3)),
            inertia=synthetic.cloud_inertia(rng),
            friction=0.3,
            damping=0.2,
            armature=0.1,
        )
        for name, parent in zip("abcd", (-1, 0, 1, 0), strict=True)
    ]
    bodies[2] = replace(bodies[2], coupling=Coupling(0, 0.5, 0.3))
    bodies[3] = replace(bodies[3], coupling=Coupling(1, -1.5, 0.1))
    return KinematicTree("coupled", bodies).with_friction()


# ---- a motion of two joints, and arrays that are bad at one sample ---------------------------

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
