"""Numerical edges: does the error bound that a solution carries cover its true error?

    python -m experiments.trust.edges [--families NAME ...] [--json FILE]

Inverse, forward and hybrid dynamics at every edge of :mod:`edges_cases`, estimation at those of
:mod:`edges_estimation_cases`. The true error is that against 60 decimal digits. Each answer
must be covered by the bounds of ``trust()``, be refused by an error of ours, or be marked
undetermined. FILE has a line for each question; exit status 1 if any is uncovered.
"""

from __future__ import annotations

import argparse
import decimal
import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import problems
from dynsys.errors import DynsysError
from dynsys.types import Array, ScalarArray
from experiments.trust.edges_cases import FAMILIES, Edge, Verdict, edges
from experiments.trust.edges_estimation import ESTIMATION_FAMILIES, judge_estimation_edge
from experiments.trust.edges_oracle import exact_qdd, exact_torque
from problems.problem import AbstractDynamics
from problems.trust import Trust

__all__ = ["Verdict", "judge_edge"]


def judge_edge(family: str, edge: Edge) -> list[Verdict]:
    """Ask for inverse, forward and hybrid dynamics at an edge."""
    robot = edge.robot
    torque = edge.torque
    if torque is None:
        with np.errstate(all="ignore"):
            torque = _rounded(exact_torque(robot, edge.q, edge.qd, edge.qdd))
    half = robot.joint_names[::2]
    mask = np.zeros(robot.nv, dtype=bool)
    for name in half:
        mask[robot.v_slice(name)] = True
    questions: list[tuple[str, AbstractDynamics, Array]] = [
        ("ID", problems.InverseDynamics(robot), edge.qdd),
        ("FD", problems.ForwardDynamics(robot), torque),
    ]
    if edge.dtype == "float64" and robot.n_bodies < 50:
        hybrid = problems.HybridDynamics(robot, half)
        questions.append(("hybrid", hybrid, np.where(mask, edge.qdd, torque)))
    return [_judge(family, edge, *question) for question in questions]


def _judge(
    family: str, edge: Edge, task: str, problem: AbstractDynamics, given: Array
) -> Verdict:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torque, qdd, trust = _answer(edge, problem, given)
        except DynsysError as error:
            text = f"{type(error).__name__}: {str(error)[:120]}"
            return Verdict(family, edge.name, task, True, error=text)
        return _verdict(family, edge, task, (torque, qdd, trust), problem)


def _answer(edge: Edge, problem: AbstractDynamics, given: Array) -> tuple[Array, Array, Trust]:
    if edge.dtype == "float64":
        solution = problem._solve(edge.q, edge.qd, given, None)
        return solution.torque, solution.qdd, solution.trust()
    kernel = problem.compile(dtype=edge.dtype)
    (answer,), finite = kernel.one(edge.q, edge.qd, given)
    if not finite:
        raise DynsysError("the kernel says that its answer is not finite")
    answer = np.asarray(answer, dtype=np.float64)
    pair = (answer, given) if problem.answers == ("torque",) else (given, answer)
    return *pair, problem.trust((edge.q, edge.qd, None), *pair)


def _verdict(
    family: str,
    edge: Edge,
    task: str,
    answer: tuple[Array, Array, Trust],
    problem: AbstractDynamics,
) -> Verdict:
    torque, qdd, trust = answer
    bound = np.where(problem.known, trust.torque_error, trust.qdd_error)
    given = np.where(problem.known, qdd, torque)
    try:
        exact = _exact(edge, problem, given)
    except (decimal.DivisionByZero, decimal.InvalidOperation):
        unbounded = bool(np.isinf(trust.qdd_error).any())
        return Verdict(family, edge.name, task, unbounded, None, np.inf if unbounded else 0.0)
    errors = _rounded(abs(np.where(problem.known, torque, qdd) - exact))
    scale = max(float(np.max(np.abs(_rounded(exact)))), np.finfo(float).tiny)
    covered = bool((errors <= bound).all())
    return Verdict(
        family,
        edge.name,
        task,
        covered,
        float(errors.max()) / scale,
        float(bound.max()) / scale,
        float(np.max(trust.condition)),
    )


def _exact(edge: Edge, problem: AbstractDynamics, given: Array) -> ScalarArray:
    """What was asked for, exactly: torques of known freedoms, accelerations of the others."""
    known, robot = problem.known, edge.robot
    if known.all():
        return exact_torque(robot, edge.q, edge.qd, given)
    if not known.any():
        return exact_qdd(robot, edge.q, edge.qd, given)
    return _exact_hybrid(edge, known, given)


def _exact_hybrid(edge: Edge, known: Any, given: Array) -> ScalarArray:
    """H_uu qdd_u = torque_u - C_u by elimination in wide numbers, then the torques."""
    from experiments.trust.edges_oracle import wide

    robot, nv = edge.robot, edge.robot.nv
    unknown = np.flatnonzero(~known)
    qdd = wide(np.where(known, given, 0.0))
    columns = []
    weightless = robot.with_gravity(np.zeros(3))
    for column in unknown:
        unit = np.zeros(nv)
        unit[column] = 1.0
        columns.append(exact_torque(weightless, edge.q, np.zeros(nv), unit)[unknown])
    A = np.array(columns, dtype=object)
    bias = exact_torque(robot, edge.q, edge.qd, np.where(known, given, 0.0))
    b = wide(given)[unknown] - bias[unknown]
    for k in range(len(A)):
        for j in range(k + 1, len(A)):
            factor = A[j, k] / A[k, k]
            A[j] = A[j] - factor * A[k]
            b[j] = b[j] - factor * b[k]
    for k in reversed(range(len(A))):
        rest = sum((A[k, j] * b[j] for j in range(k + 1, len(A))), start=0.0 * b[k])
        b[k] = (b[k] - rest) / A[k, k]
    torque = bias.copy()
    for k, column in enumerate(unknown):
        qdd[column] = b[k]
        unit = np.zeros(nv)
        unit[column] = 1.0
        torque = torque + b[k] * exact_torque(weightless, edge.q, np.zeros(nv), unit)
    return np.where(known, torque, qdd)


def _rounded(x: ScalarArray) -> Array:
    return np.array([float(value) for value in x])


def main() -> int:
    """Judge all edges and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    every = [*FAMILIES, *ESTIMATION_FAMILIES]
    parser.add_argument("--families", nargs="*", default=every, choices=every)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    verdicts = []
    for verdict in _verdicts(options.families):
        verdicts.append(verdict)
        print(_row(verdict), flush=True)
    if options.json:
        text = "".join(json.dumps(vars(verdict)) + "\n" for verdict in verdicts)
        options.json.write_text(text, encoding="utf-8")
    return int(not all(verdict.covered for verdict in verdicts))


def _verdicts(families: Sequence[str]) -> Iterator[Verdict]:
    for family, edge in edges([name for name in families if name in FAMILIES]):
        yield from judge_edge(family, edge)
    for family in families:
        if family in ESTIMATION_FAMILIES:
            for case in ESTIMATION_FAMILIES[family]():
                yield judge_estimation_edge(family, case)


def _row(v: Verdict) -> str:
    shown = "covered" if v.covered else "UNCOVERED"
    numbers = " ".join(
        "       -" if x is None else f"{x:8.1e}" for x in (v.true_error, v.bound, v.condition)
    )
    return f"{v.case:42} {v.task:10} {numbers}  {v.error or shown}"


if __name__ == "__main__":
    sys.exit(main())
