"""Long soak: many batch states, memory flat."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import numpy as np

import problems
from experiments.trust.faults_common import Outcome
from problems.robots import read_robot

__all__ = ["resident_bytes", "soak"]

BATCH = 20_000
ALLOWED = 4 * 2**20
"""Bytes by which memory may differ between the first and the last tenth of a soak."""


def resident_bytes() -> int:
    """Memory of this process."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


def soak(folder: Path, states: float = 1e8) -> Outcome:
    """Inverse and forward dynamics of the humanoid by turns, batches of fresh answers."""
    robot = read_robot("example:humanoid", floating_base=True).robot
    rng = np.random.default_rng(0)
    q = np.array([robot.random_configuration(rng) for _ in range(BATCH)])
    qd, qdd = rng.normal(size=(2, BATCH, robot.nv))
    inverse, forward = problems.InverseDynamics(robot), problems.ForwardDynamics(robot)
    expected: np.ndarray | None = None
    sizes: list[int] = []
    wrong = 0
    rounds = max(round(states / (2 * BATCH)), 10)
    begin = time.perf_counter()
    for k in range(-3, rounds):  # the first warm up
        torque = inverse.solve_batch(q, qd, qdd, threads=2).torque
        found = forward.solve_batch(q, qd, torque, threads=2).qdd
        expected = found if expected is None else expected
        wrong += not np.array_equal(found, expected)
        if k >= 0:
            sizes.append(resident_bytes())
    gc.collect()
    tenth = max(len(sizes) // 10, 1)
    growth = int(np.median(sizes[-tenth:]) - np.median(sizes[:tenth]))
    rate = rounds * 2 * BATCH / (time.perf_counter() - begin)
    meaning = (
        f"{rounds * 2 * BATCH:.3g} states, {rate / 1e6:.1f} million per second; memory"
        f" {sizes[0] / 2**20:.0f} MiB, change {growth / 2**20:+.2f} MiB; same bits every time"
    )
    bad = wrong > 0 or abs(growth) > ALLOWED
    return Outcome("soak", 1, int(not bad), meaning)
