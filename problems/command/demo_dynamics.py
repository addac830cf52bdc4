"""The humanoid's dynamics through D, against RNEA, ABA and, where installed, Pinocchio."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any, TypeAlias, final

import numpy as np

from dynsys.model.tree import KinematicTree
from dynsys.recursive import aba, rnea
from dynsys.types import Array
from problems.dynamics import ForwardDynamics, HybridDynamics, InverseDynamics
from problems.problem import AbstractDynamics
from problems.report.timing import pinocchio_model
from problems.solution import Solution
from problems.terminal import progress

__all__ = ["AGREEMENT", "DemoRow", "compare_dynamics"]

Answer: TypeAlias = tuple[Array, ...]
"""What is compared: torques, accelerations, or some of both, each relative to its largest."""

REPEATS = 100
AGREEMENT = 1e-9
"""Largest relative difference that counts as the same answer."""


@final
@dataclass(frozen=True)
class DemoRow:
    """One problem: size of its system, agreement with its twins, time per state; None: none."""

    problem: str
    twin: str
    unknowns: int
    nonzeros: int
    difference: float
    residual: float
    operations: int
    microseconds: float
    sparse_lu_microseconds: float
    pinocchio_microseconds: float | None = None
    pinocchio_difference: float | None = None

    @property
    def agrees(self) -> bool:
        """True if the answer is that of the recursive twin, and Pinocchio's."""
        found = (self.difference, self.residual, self.pinocchio_difference or 0.0)
        return all(x < AGREEMENT for x in found)  # false for NaN, too


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


def compare_dynamics(robot: KinematicTree, states: int = 20, seed: int = 0) -> list[DemoRow]:
    """Solve inverse, forward and hybrid dynamics at random states, and ask the others."""
    sample = list(_random_states(robot, states, seed))
    cases = (_inverse(robot), _forward(robot), _hybrid(robot))
    peers = _pinocchio(robot, sample)
    return [_measure(case, sample, peers.get(case.name)) for case in cases]


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


def _seconds(solve: Callable[[Any], object], state: Any, repeats: int) -> float:
    """Seconds per call when the same state is solved again and again, as a controller does."""
    start = perf_counter()
    for _ in range(repeats):
        solve(state)
    return (perf_counter() - start) / repeats


def _pinocchio(
    robot: KinematicTree, sample: list[_State]
) -> dict[str, tuple[float, list[Array]]]:
    """Microseconds per call and answers of Pinocchio's RNEA and ABA; empty without it."""
    found = pinocchio_model(robot)
    if found is None:
        return {}
    pin, model, to = found
    data: Any = model.createData()
    answers: dict[str, tuple[float, list[Array]]] = {}
    states = [(to.q_to_pin(s.q), to.v_to_pin(s.qd)) for s in sample]
    accelerations = [to.v_to_pin(s.qdd) for s in sample]
    torques = [to.tau_to_pin(s.torque) for s in sample]

    def ask(algorithm: Any, given: list[Array]) -> tuple[float, list[Any]]:
        inputs = [(*state, third) for state, third in zip(states, given, strict=True)]
        results = [np.array(algorithm(model, data, *one)) for one in inputs]
        spent = [_seconds(lambda x: algorithm(model, data, *x), one, REPEATS) for one in inputs]
        return 1e6 * median(spent), results

    microseconds, found_torques = ask(pin.rnea, accelerations)
    answers["inverse"] = microseconds, [to.tau_from_pin(x) for x in found_torques]
    microseconds, found_accelerations = ask(pin.aba, torques)
    answers["forward"] = microseconds, [to.v_from_pin(x) for x in found_accelerations]
    return answers


def _measure(
    case: _Case, sample: list[_State], peer: tuple[float, list[Array]] | None
) -> DemoRow:
    case.solve(sample[0])  # planned and compiled once, before the clock starts
    case.solve_by_lu(sample[0])
    difference = residual = 0.0
    seconds, lu_seconds = [], []
    peer_difference = None if peer is None else 0.0
    for k, state in enumerate(progress(sample, f"{case.name} dynamics")):
        solution, answer = case.solve(state)
        if peer is not None and peer_difference is not None:
            one = _relative_difference(answer[0], peer[1][k])
            peer_difference = float(np.maximum(peer_difference, one))  # keeps NaN
        seconds.append(_seconds(case.solve, state, REPEATS))
        lu_seconds.append(_seconds(case.solve_by_lu, state, 1))
        reference = case.solve_twin(state)
        found = map(_relative_difference, answer, reference)
        difference = float(np.max([difference, *found]))
        residual = float(np.maximum(residual, solution.residual))
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
        pinocchio_microseconds=None if peer is None else peer[0],
        pinocchio_difference=peer_difference,
    )
