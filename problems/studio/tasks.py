"""What takes longer than a glance: verdict over many postures, cost of a solve, suggestions.

Every task takes and returns plain lists, mappings, numbers and strings, so that it can run in
another process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from types import MappingProxyType
from typing import Any, TypeAlias, final

import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

from dynsys.errors import KernelBuildError
from dynsys.model.tree import KinematicTree
from dynsys.system.equations import Kinematics
from problems.estimation.estimation import Estimation
from problems.estimation.least_squares import KktAssembly
from problems.estimation.prior import Prior
from problems.placement.placement import place_sensors
from problems.problem_file import ProblemFile
from problems.verdict.words import describe
from sensors.files import sensor_record

__all__ = ["TASKS", "Job", "run_task"]

Facts: TypeAlias = dict[str, Any]
REPEATS = 5
"""Solves of which the quickest is told."""


@final
@dataclass(frozen=True)
class Job:
    """A task and the problem it is about.

    Parameters
    ----------
    task : a word of :data:`TASKS`.
    robot : as in a problem file; files with absolute paths.
    floating : True if the root link moves freely.
    layout : content of a layout file.
    prior : std and mean of a prior, or None.
    options : further arguments of the task.
    """

    task: str
    robot: str
    floating: bool
    layout: Facts
    prior: tuple[Facts, Facts] | None = None
    options: tuple[tuple[str, Any], ...] = ()


@lru_cache(maxsize=2)
def _robot(spec: str, floating: bool) -> KinematicTree:
    return ProblemFile(spec, {}, floating).tree


def _estimation(job: Job) -> Estimation:
    problem = ProblemFile(job.robot, job.layout, job.floating)
    problem.__dict__["tree"] = _robot(job.robot, job.floating)  # fills the cached property
    prior = None if job.prior is None else Prior(*job.prior)
    return Estimation(problem.tree, problem.sensors, prior)


def run_task(job: Job) -> Facts:
    """Do a job."""
    return TASKS[job.task](_estimation(job), **dict(job.options))


# ---- verdict and suggestions -----------------------------------------------------------------


def _verdict(problem: Estimation) -> Facts:
    """Verdict as ``dynsys check`` gives it, with the records of the repairs."""
    verdict = problem.verdict()
    return {
        "status": verdict.status,
        "well_posed": verdict.is_well_posed,
        "text": str(verdict),
        "unseen": describe(verdict.directions),
        "repairs": [
            {"words": r.words, "sensors": [sensor_record(s) for s in r.sensors]}
            for r in verdict.repairs
        ],
        "rank_drops": [
            {"where": drop.where, "lost": drop.lost, "q": drop.q.tolist()}
            for drop in verdict.rank_drops
        ],
        "condition": verdict.condition[1],
        "samples": verdict.samples,
    }


def _suggest(problem: Estimation, goal: str, budget: float) -> Facts:
    """Sensors to add within a budget of rows."""
    before = place_sensors(
        problem.robot, problem.layout, goal=goal, budget=0.0, states=1, evaluations=0
    )
    found = place_sensors(
        problem.robot, problem.layout, goal=goal, budget=budget, states=1, evaluations=50
    )
    return {
        "goal": goal,
        "budget": budget,
        "sensors": [sensor_record(c.sensor) for c in found.chosen],
        "cost": found.cost,
        "open_before": before.open_goals,
        "open_after": found.open_goals,
        "std_before": before.std if math.isfinite(before.std) else None,
        "std_after": found.std if math.isfinite(found.std) else None,
    }


# ---- cost ------------------------------------------------------------------------------------


def _state(problem: Estimation) -> tuple[Any, Any, Any]:
    robot = problem.robot
    y = np.nan_to_num(problem.layout.constants)
    return robot.random_configuration(0), np.zeros(robot.nv), y


def _best_microseconds(call: Callable[[], object], repeats: int) -> float:
    call()
    found = []
    for _ in range(repeats):
        begin = perf_counter()
        call()
        found.append(perf_counter() - begin)
    return 1e6 * min(found)


def _cost(problem: Estimation) -> Facts:
    """Operations and time of one solve by the library path, without compiled code."""
    q, qd, y = _state(problem)
    rows = problem.measured.pack(y, None, None)
    found = problem.posterior(q, qd, rows)
    time = _best_microseconds(lambda: problem.posterior(q, qd, rows), REPEATS)
    return {
        "method": found.method,
        "operations": _operations(problem, found.method),
        "microseconds": time,
        "unknowns": problem.system.shape[1],
        "readings": len(rows),
    }


def _operations(problem: Estimation, method: str) -> int:
    """Operations of factorising and solving once; dense: of its largest factorisation."""
    measured = problem.measured
    if method == "dense":
        return 2 * measured.covariance.shape[0] * measured.needed**2
    kinematics = Kinematics.at(problem.robot, *_state(problem)[:2])
    (D, _), (Y, _) = measured.at(kinematics)
    present = np.ones(Y.shape[0], dtype=bool)
    if Y.shape[0] == measured.needed:
        data, _ = problem.system.values(kinematics)
        system = problem.system
        K = csc_array((data, system.indices, system.indptr), shape=system.shape)
    else:
        assembly = KktAssembly(D, Y, measured.covariance)
        scales = assembly.scales(D.data, Y.data, present)
        K = assembly.matrix(D.data, Y.data, present, scales)
    factors = splu(K)
    below = np.diff(factors.L.tocsc().indptr) - 1
    right = np.diff(factors.U.tocsr().indptr) - 1
    elimination = int((below * (1 + 2 * right)).sum())
    return elimination + 2 * int(factors.L.nnz + factors.U.nnz)


def _compile(problem: Estimation) -> Facts:
    """Operations and time of one solve by machine code for this robot and layout."""
    q, qd, y = _state(problem)
    outputs = ("torque", "external_wrench")
    try:
        operations = problem.plan(outputs=outputs).operations
        begin = perf_counter()
        kernel = problem.compile(outputs=outputs)
        seconds = perf_counter() - begin
    except KernelBuildError as error:
        return {"refused": str(error)}
    return {
        "operations": operations.total,
        "microseconds": _best_microseconds(lambda: kernel.one(q, qd, y), 200),
        "seconds": seconds,
    }


TASKS: Mapping[str, Callable[..., Facts]] = MappingProxyType(
    {"cost": _cost, "verdict": _verdict, "suggest": _suggest, "compile": _compile}
)
"""Tasks by name."""
