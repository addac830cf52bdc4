"""Robots and states of the real-time loops."""

from __future__ import annotations

import numpy as np

import dynsys
from dynsys.model.tree import KinematicTree
from dynsys.types import Array
from experiments.example_robots import load_quietly, robot_path
from problems.robots import read_robot

__all__ = ["N_STATES", "robot_of", "states_of"]

N_STATES = 256


def robot_of(name: str) -> KinematicTree:
    """The bundled humanoid, a synthetic chain (``chain6``), or talos."""
    if name == "humanoid":
        return read_robot("example:humanoid", floating_base=True).robot
    if name.startswith("chain"):
        return dynsys.synthetic.chain(int(name.removeprefix("chain")))
    return load_quietly(robot_path("talos_data/robots/talos_full_v2.urdf"), True)


def states_of(robot: KinematicTree) -> list[tuple[Array, Array, Array]]:
    """States (q, qd, third) that loops go round."""
    rng = np.random.default_rng(0)
    return [
        (robot.random_configuration(rng), rng.normal(size=robot.nv), rng.normal(size=robot.nv))
        for _ in range(N_STATES)
    ]
