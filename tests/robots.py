"""Robots for tests: real ones, and small ones that several rooms try."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynsys import KinematicTree, synthetic
from dynsys.model.body import Body, Coupling
from dynsys.model.joints import Revolute
from experiments.example_robots import ROBOTS, all_urdf_files, robot_path, robots_folder

__all__ = [
    "CHAIN",
    "ROBOTS",
    "all_urdf_files",
    "coupled_with_friction",
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
