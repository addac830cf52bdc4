"""``dynsys demo``: a humanoid's dynamics through D, against the recursive algorithms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter
from typing import Any, TypeAlias, final

import numpy as np

from dynsys.model.tree import KinematicTree
from dynsys.recursive import aba, rnea
from dynsys.types import Array
from problems.forward import ForwardDynamics
from problems.hybrid import HybridDynamics
from problems.inverse import InverseDynamics
from problems.problem import AbstractDynamics
from problems.robots import read_robot
from problems.solution import Solution
from problems.terminal import progress, show_line, show_table

__all__ = ["DemoResult", "DemoRow", "run", "show"]

Answer: TypeAlias = tuple[Array, ...]
"""What is compared: torques, accelerations, or some of both, each relative to its largest."""

REPEATS = 100
AGREEMENT = 1e-9
"""Largest relative difference that counts as the same answer."""


@final
@dataclass(frozen=True)
class DemoRow:
    """One problem: size of its system, agreement with its recursive twin, time per state."""

    problem: str
    twin: str
    unknowns: int
    nonzeros: int
    difference: float
    residual: float
    operations: int
    microseconds: float
    sparse_lu_microseconds: float


@final
@dataclass(frozen=True)
class DemoResult:
    """All problems over the same random states of one robot."""

    robot: str
    n_bodies: int
    nv: int
    total_mass: float
    states: int
    seed: int
    rows: list[DemoRow]

    @property
    def agrees(self) -> bool:
        """True if every problem gives the answer of its recursive twin."""
        return all(max(row.difference, row.residual) < AGREEMENT for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return {**asdict(self), "agrees": self.agrees}


@final
@dataclass(frozen=True, eq=False)
class _State:
    """A random state with accelerations and the torques that cause them."""

    q: Array
    qd: Array
    qdd: Array
    torque: Array


@final
@dataclass(frozen=True, eq=False)
class _Case:
    """A problem, and how it and its twin answer at a state."""

    problem: AbstractDynamics
    name: str
    twin: str
    solve: Callable[[_State], tuple[Solution, Answer]]
    solve_by_lu: Callable[[_State], object]
    solve_twin: Callable[[_State], Answer]


def run(states: int = 20, seed: int = 0) -> DemoResult:
    """Solve inverse, forward and hybrid dynamics of the bundled humanoid at random states."""
    robot = read_robot("example:humanoid", floating_base=True).robot
    sample = list(_random_states(robot, states, seed))
    cases = (_inverse(robot), _forward(robot), _hybrid(robot))
    rows = [_measure(case, sample) for case in cases]
    return DemoResult(
        robot=robot.name,
        n_bodies=robot.n_bodies,
        nv=robot.nv,
        total_mass=robot.total_mass,
        states=states,
        seed=seed,
        rows=rows,
    )


def _random_states(robot: KinematicTree, states: int, seed: int) -> Iterator[_State]:
    rng = np.random.default_rng(seed)
    for _ in range(states):
        q = robot.random_configuration(rng)
        qd, qdd = rng.normal(size=(2, robot.nv))
        yield _State(q, qd, qdd, rnea(robot, q, qd, qdd))


def _inverse(robot: KinematicTree) -> _Case:
    problem = InverseDynamics(robot)

    def solve(s: _State) -> tuple[Solution, Answer]:
        solution = problem.solve(s.q, s.qd, s.qdd)
        return solution, (solution.torque,)

    reference = InverseDynamics(robot, backend="reference")
    return _Case(
        problem,
        "inverse",
        "rnea",
        solve,
        lambda s: reference.solve(s.q, s.qd, s.qdd),
        lambda s: (rnea(robot, s.q, s.qd, s.qdd),),
    )


def _forward(robot: KinematicTree) -> _Case:
    problem = ForwardDynamics(robot)

    def solve(s: _State) -> tuple[Solution, Answer]:
        solution = problem.solve(s.q, s.qd, s.torque)
        return solution, (solution.qdd,)

    reference = ForwardDynamics(robot, backend="reference")
    return _Case(
        problem,
        "forward",
        "aba",
        solve,
        lambda s: reference.solve(s.q, s.qd, s.torque),
        lambda s: (aba(robot, s.q, s.qd, s.torque),),
    )


def _hybrid(robot: KinematicTree) -> _Case:
    """Legs accelerate as told, all other joints and the floating base feel their torque."""
    legs = [n for n in robot.joint_names if any(w in n for w in ("hip", "knee", "ankle"))]
    problem = HybridDynamics(robot, legs)
    told = np.zeros(robot.nv, dtype=bool)
    for name in legs:
        told[robot.v_slice(name)] = True

    def solve(s: _State) -> tuple[Solution, Answer]:
        solution = problem.solve(s.q, s.qd, np.where(told, s.qdd, s.torque))
        return solution, (solution.torque[told], solution.qdd[~told])

    def twin(s: _State) -> Answer:
        torque, qdd = rnea(robot, s.q, s.qd, s.qdd), aba(robot, s.q, s.qd, s.torque)
        return torque[told], qdd[~told]

    reference = HybridDynamics(robot, legs, backend="reference")
    return _Case(
        problem,
        "hybrid",
        "rnea + aba",
        solve,
        lambda s: reference.solve(s.q, s.qd, np.where(told, s.qdd, s.torque)),
        twin,
    )


def _relative_difference(x: Array, reference: Array) -> float:
    return float(np.abs(x - reference).max() / np.abs(reference).max())


def _seconds(solve: Callable[[_State], object], state: _State, repeats: int) -> float:
    """Seconds per call when the same state is solved again and again, as a controller does."""
    start = perf_counter()
    for _ in range(repeats):
        solve(state)
    return (perf_counter() - start) / repeats


def _measure(case: _Case, sample: list[_State]) -> DemoRow:
    case.solve(sample[0])  # planned and compiled once, before the clock starts
    case.solve_by_lu(sample[0])
    difference = residual = 0.0
    seconds, lu_seconds = [], []
    for state in progress(sample, case.name):
        solution, answer = case.solve(state)
        seconds.append(_seconds(case.solve, state, REPEATS))
        lu_seconds.append(_seconds(case.solve_by_lu, state, 1))
        reference = case.solve_twin(state)
        difference = max(difference, *map(_relative_difference, answer, reference))
        residual = max(residual, float(solution.residual))
    system = case.problem.system
    return DemoRow(
        problem=case.name,
        twin=case.twin,
        unknowns=system.shape[1],
        nonzeros=system.nnz,
        difference=difference,
        residual=residual,
        operations=case.problem.plan().operations.total,
        microseconds=1e6 * median(seconds),
        sparse_lu_microseconds=1e6 * median(lu_seconds),
    )


# ---- on the terminal ----------------------------------------------------------------------

COLUMNS = (
    "problem",
    "size",
    "twin",
    "difference",
    "residual",
    "operations",
    "solve [us]",
    "LU [us]",
)

LEGEND = (
    "size:       unknowns of D; twin: the recursive algorithm it is compared with.",
    "difference: largest over the states, relative to the largest value.",
    "residual:   backward error of the solve.",
    "operations: exact number executed per solve by the kernel compiled for this robot.",
    "solve:      time of one call from Python with that kernel; LU: assemble D(q) d + b = 0",
    "            and factorise it with SuperLU, the readable reference backend.",
)


def show(result: DemoResult) -> None:
    """Write the table with a line that says how to read it."""
    show_line(
        f"{result.robot} on a floating base: {result.n_bodies} bodies, nv {result.nv},"
        f" {result.total_mass:.4g} kg; {result.states} random states"
    )
    show_line()
    rows = [
        (
            row.problem,
            str(row.unknowns),
            row.twin,
            f"{row.difference:.1e}",
            f"{row.residual:.1e}",
            str(row.operations),
            f"{row.microseconds:.2f}",
            f"{row.sparse_lu_microseconds:.0f}",
        )
        for row in result.rows
    ]
    show_table(COLUMNS, rows, right=[c for c in COLUMNS if c not in ("problem", "twin")])
    show_line()
    for line in LEGEND:
        show_line(line)
    verdict = "same answers" if result.agrees else "THE ANSWERS DIFFER"
    show_line(f"{verdict} (limit {AGREEMENT:g})")
