"""Time per solve of a report: one state and batches, beside RNEA, ABA and Pinocchio."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dynsys.errors import DynsysError
from dynsys.kernel.kernel import AbstractKernel
from dynsys.model.tree import KinematicTree
from dynsys.types import Array
from problems.dynamics import ForwardDynamics, InverseDynamics
from problems.estimation.compiled import CompiledEstimator
from problems.estimation.estimate import Quantity
from problems.estimation.estimation import Estimation
from problems.problem import AbstractDynamics
from problems.report.pinocchio_peer import pinocchio_model
from problems.report.subject import Subject

__all__ = ["UNCERTAIN", "TimingPart", "TimingRow", "timing_part"]

UNCERTAIN: tuple[Quantity, ...] = ("torque", "external_wrench")
"""Quantities whose standard deviations a report shows."""
STATES, ROUNDS, SECONDS = 512, 5, 0.02


@final
@dataclass(frozen=True)
class TimingRow:
    """Microseconds per state: one at a time from Python, and in a batch; None: not measured."""

    name: str
    one: float | None
    batch: float | None
    note: str = ""


@final
@dataclass(frozen=True)
class TimingPart:
    """Rows, ours first; how they were measured, in words."""

    rows: list[TimingRow]
    how: str


def timing_part(subject: Subject) -> TimingPart:
    """Measure the problem of the report and its classical twins on random states."""
    robot = subject.robot
    rng = np.random.default_rng(0)
    q = np.array([robot.random_configuration(rng) for _ in range(STATES)])
    qd, qdd = rng.normal(size=(2, STATES, robot.nv))
    rows: list[TimingRow] = []
    if subject.estimation is not None:
        rows += _estimator(subject.estimation, q, qd)
    elif subject.dynamics is not None:
        rows.append(_dynamics(f"{subject.question}, compiled", subject.dynamics, q, qd, qdd))
    twins: list[tuple[str, AbstractDynamics]] = [
        ("inverse dynamics (what RNEA computes), compiled", InverseDynamics(robot)),
        ("forward dynamics (what ABA computes), compiled", ForwardDynamics(robot)),
    ]
    for name, twin in twins:
        if type(twin) is not type(subject.dynamics):
            rows.append(_dynamics(name, twin, q, qd, qdd))
    rows += _pinocchio(robot, q, qd, qdd)
    how = (
        f"Microseconds per state, best of {ROUNDS} rounds; one: single calls from Python, call"
        f" overhead included; batch: {STATES} states per call on one core. Estimates are"
        " those of all quantities of all bodies and joints"
    )
    return TimingPart(rows, how)


def _best(call: Callable[[int], object], per_call: int = 1, seconds: float = SECONDS) -> float:
    """Microseconds per state, best of some rounds."""
    call(0)
    best = np.inf
    for _ in range(ROUNDS):
        calls, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds:
            call(calls % STATES)
            calls += 1
        best = min(best, spent / (calls * per_call))
    return float(best * 1e6)


def _kernel(name: str, kernel: AbstractKernel, *inputs: Array) -> TimingRow:
    states = list(zip(*inputs, strict=True))
    out = [row.copy() for row in kernel.one(*states[0])[0]]
    one = _best(lambda k: kernel.one(*states[k], out=out))
    batch = _best(lambda k: kernel.batch(*inputs), STATES)
    return TimingRow(name, one, batch)


def _dynamics(
    name: str, problem: AbstractDynamics, q: Array, qd: Array, third: Array
) -> TimingRow:
    try:
        return _kernel(name, problem.compile(), q, qd, third)
    except DynsysError as error:
        return TimingRow(name, None, None, str(error))


def _estimator(estimation: Estimation, q: Array, qd: Array) -> list[TimingRow]:
    layout = estimation.layout
    y = np.where(np.isnan(layout.constants), 0.0, layout.constants)
    rows = []
    name = "estimate with standard deviations, compiled"
    if estimation.prior is None:
        try:
            kernel = CompiledEstimator(estimation.robot, layout).kernel(UNCERTAIN)
            rows.append(_kernel(name, kernel, q, qd, np.tile(y, (STATES, 1))))
        except DynsysError as error:
            rows.append(TimingRow(name, None, None, str(error).split(": ", 1)[-1]))
    try:
        method = estimation.solve(q[0], qd[0], y).method
        one = _best(lambda k: estimation.solve(q[k], qd[k], y).torque.array, seconds=0.05)
    except DynsysError as error:
        return [*rows, TimingRow("estimate, reference path", None, None, str(error))]
    rows.append(TimingRow(f"estimate, reference path ({method})", one, None))
    return rows


def _pinocchio(robot: KinematicTree, q: Array, qd: Array, qdd: Array) -> list[TimingRow]:
    found = pinocchio_model(robot)
    if found is None:
        return []
    pin, model, conversion = found
    data: Any = model.createData()
    p, v, a = conversion.q_to_pin(q), conversion.v_to_pin(qd), conversion.v_to_pin(qdd)
    name = f"Pinocchio {pin.__version__}"
    rnea = _best(lambda k: pin.rnea(model, data, p[k], v[k], a[k]))
    aba = _best(lambda k: pin.aba(model, data, p[k], v[k], a[k]))
    return [
        TimingRow(f"{name}, rnea from Python", rnea, None),
        TimingRow(f"{name}, aba from Python", aba, None),
    ]
