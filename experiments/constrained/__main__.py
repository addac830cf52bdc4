"""Table of constrained forward dynamics beside ``pin.constraintDynamics`` and MuJoCo.

    python -m experiments.constrained [--robots NAME ...] [--states N] [--no-time]

Every state satisfies the constraints in position and velocity. Differences are the largest over
the states, relative to the largest entry. Times are those of the calls that a user writes in
Python, one state after the other, medians of interleaved passes, in microseconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

import problems
from dynsys.recursive.constraint_rows import dense_rows
from dynsys.types import Array
from experiments.constrained.peers import Mujoco, Pinocchio, UnphysicalInertia
from experiments.constrained.robots import CASES, FILES, Case
from experiments.example_robots import pinocchio_model_of, robot_path

__all__ = ["Row", "compare", "main", "states_of"]

PASSES, CALLS = 9, 400


@final
@dataclass(frozen=True)
class Row:
    """One robot: sizes, differences, and times in microseconds (NaN where not measured)."""

    name: str
    nv: int
    rows: int
    redundant: int
    pin_qdd: float
    pin_wrench: float
    mujoco_qdd: float
    mujoco_torque: float
    ours: float
    pin: float

    def __str__(self) -> str:
        ratio = f"{self.pin / self.ours:6.1f}" if self.ours > 0 else "      "
        wrench = "-" if np.isnan(self.pin_wrench) else f"{self.pin_wrench:.0e}"
        return (
            f"{self.name:18}{self.nv:4}{self.rows:5}{self.redundant:5}"
            f"  {self.pin_qdd:.0e}{wrench:>7}  {self.mujoco_qdd:.0e}  {self.mujoco_torque:.0e}"
            f"{self.ours:9.2f}{self.pin:8.2f}{ratio}"
        )


HEADER = (
    f"{'robot':18}{'nv':>4}{'rows':>5}{'red.':>5}  {'pin qdd, wrench':15}"
    f"{'mujoco qdd, J^T f':>19}{'ours us':>8}{'pin us':>8}  ratio"
)


def states_of(
    case: Case, problem: problems.ForwardDynamics, count: int, seed: int
) -> list[tuple[Array, Array, Array]]:
    """States (q, qd, torque) at which the constraints hold in position and velocity."""
    robot, rng = case.robot, np.random.default_rng(seed)
    found: list[tuple[Array, Array, Array]] = []
    while len(found) < count:
        step = case.spread * rng.normal(size=robot.nv)
        q = problem.close(robot.integrate(robot.neutral(), step, 1.0))
        qd = problem.impulse(q, rng.normal(size=robot.nv)).v
        found.append((q, qd, 5 * rng.normal(size=robot.nv)))
    return found


def _far(ours: Array, theirs: Array) -> float:
    return float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-300))


def compare(name: str, count: int = 5, timed: bool = True, seed: int = 0) -> Row:
    """Compare one robot of :data:`CASES` with both peers."""
    case = CASES[name]()
    robot, held = case.robot, case.constraints
    problem = problems.ForwardDynamics(robot, constraints=held)
    redundant = problem.verdict().redundant
    model = None
    if name in FILES:
        path, floating = FILES[name]
        model = pinocchio_model_of(robot_path(path), floating)
    pin = Pinocchio(case, model, redundant > 0)
    differences: list[tuple[float, ...]] = []
    states = states_of(case, problem, count, seed)
    for q, qd, torque in states:
        ours = problem.solve(q, qd, torque)
        qdd, wrenches = pin.solve(q, qd, torque)
        apart = [
            _far(ours.constraint_wrench[constraint.name], wrench)
            for constraint, wrench in zip(held, wrenches, strict=True)
        ]
        wrench = np.nan if redundant else max(apart)
        beside = _from_mujoco(case, problem, (q, qd, torque))
        differences.append((_far(ours.qdd, qdd), wrench, *beside))
    worst = np.max(differences, axis=0).tolist()
    times = _times(problem, pin, states) if timed else [np.nan, np.nan]
    return Row(name, robot.nv, sum(c.size for c in held), redundant, *worst, *times)


def _from_mujoco(
    case: Case, problem: problems.ForwardDynamics, state: tuple[Array, Array, Array]
) -> tuple[float, float]:
    """Differences of qdd and of constraint torques; NaN where MuJoCo refuses the file."""
    q, qd, torque = state
    try:
        soft, force = Mujoco(case, q).solve(q, qd, torque)
    except UnphysicalInertia:
        return np.nan, np.nan
    rows = dense_rows(case.robot, case.constraints, q, qd)
    moved = problem.solve(q, qd, torque, target=rows.J @ soft + rows.drift)
    acting = rows.J.T @ moved.constraint_wrench.array
    return _far(moved.qdd, soft), _far(acting, force)


def _times(
    problem: problems.ForwardDynamics, pin: Pinocchio, states: Sequence[Any]
) -> list[float]:
    """Microseconds of a call, ours and theirs, each with its own arrays."""
    theirs = [pin.inputs(*state) for state in states]
    passes: list[tuple[float, float]] = []
    for _ in range(PASSES):
        passes.append((_microseconds(problem.solve, states), _microseconds(pin.call, theirs)))
    return [float(x) for x in np.median(passes, axis=0)]


def _microseconds(call: Callable[..., object], states: Sequence[Any]) -> float:
    start = time.perf_counter()
    for _ in range(CALLS // len(states)):
        for state in states:
            call(*state)
    return (time.perf_counter() - start) / (CALLS // len(states) * len(states)) * 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--states", type=int, default=5)
    parser.add_argument("--no-time", action="store_true")
    asked = parser.parse_args()
    print(HEADER)
    for name in asked.robots:
        print(compare(name, asked.states, not asked.no_time), flush=True)


if __name__ == "__main__":
    main()
