"""Equations of sensors, their noise, and states with random readings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynsys import KinematicTree, LinearSystem
from dynsys.system.equations import EquationBlock, Term
from dynsys.system.laws import known, known_inputs
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array


def linear(unknowns: UnknownLayout, name: str, kind: str, body: int, C: Array) -> EquationBlock:
    unknown = unknowns.block(kind, body)  # type: ignore[arg-type]
    return EquationBlock(name, "linear", body, len(C), (Term.constant(unknown, C),), None, True)


def rich_layout(robot: KinematicTree, rng: np.random.Generator) -> list[EquationBlock]:
    """All accelerations and external wrenches, inertial sensors, wrenches and torques."""
    unknowns = LinearSystem(robot).unknowns
    blocks = list(known_inputs(unknowns, set(range(robot.n_bodies))))
    for i in range(robot.n_bodies):
        if rng.random() < 0.5:
            C = rng.normal(size=(3, 6))
            blocks.append(linear(unknowns, f"imu{i}", "acceleration", i, C))
        if rng.random() < 0.4:
            C = rng.normal(size=(6, 6))
            blocks.append(linear(unknowns, f"ft{i}", "joint_wrench", i, C))
        if i in unknowns.driven and rng.random() < 0.4:
            blocks.append(known(unknowns, "torque", i))
    return blocks


def noise(blocks: Sequence[EquationBlock], rng: np.random.Generator) -> Array:
    std = 10 ** rng.uniform(-1, 0, sum(block.size for block in blocks))
    return np.asarray(np.diag(std**2))


def state_of(
    robot: KinematicTree, blocks: Sequence[EquationBlock], rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    size = sum(block.size for block in blocks)
    q = robot.random_configuration(rng)
    return q, rng.normal(size=robot.nv), rng.normal(size=size)
