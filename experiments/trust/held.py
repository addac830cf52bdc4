"""Constrained dynamics against one dense bordered system: contacts, loops, tied joints.

    python -m experiments.trust.held [--cases 400] [--seed 0] --json FILE

    [ H  -1  -J^T ] [ qdd    ]   [ -C     ]
    [ J   0   0   ] [ torque ] = [ -drift ]      and of each freedom qdd or torque is known
    [   known     ] [ force  ]   [ given  ]

Random trees with every kind of joint, fixed and floating, some with armature, and robots of
files; frames held or tied to each other, joints that stand or follow others, some of it said
twice; forward, hybrid and inverse dynamics and impacts, under random external wrenches, at
random postures and at multiples of a quarter turn; one state by machine code, and a batch.

J and drift are the library's, and judged by differences: J qd is the slope of what joints are
tied by, drift that of J qd. H and C are of RNEA, which campaign ``agreement`` judges. Rows that
others imply must be answered with the smallest forces, rows that contradict must be refused.
Differences are judged beside LIMIT plus what rounding costs, 1e3 condition * eps. FILE has a
line for each case; exit status 1 if one has a failure.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

import numpy as np

import dynsys
import problems
from dynsys.errors import ContradictionError, ModelError, SingularSystemError
from dynsys.model.constraints import (
    MOTIONS,
    Axes,
    Constraint,
    FrameConstraint,
    JointConstraint,
)
from dynsys.model.spatial import Transform
from dynsys.model.synthetic import random_rotation
from dynsys.model.tree import KinematicTree
from dynsys.recursive.constraint_rows import dense_rows
from dynsys.types import Array
from experiments.agreement.robots import floating
from experiments.example_robots import load_quietly, robot_path
from experiments.trust.faults_common import own_cache

__all__ = ["LIMIT", "Case", "bordered", "judged", "main"]

LIMIT = 1e-9
"""Relative difference that is no rounding, of well conditioned systems."""
INDEPENDENT, IMPLIED = 1e-6, 1e-11
"""Singular values of rows, in parts of the largest, that surely count and surely do not."""
MISSED, MET = 1e-4, 1e-9
"""Rows that others imply surely contradict them, or surely do not, by so much relatively."""
DRAWS = 20
AXES: tuple[Axes, ...] = ("frame", "world", "other")
REAL = (
    ("panda_description/urdf/panda.urdf", False),
    ("solo_description/robots/solo12.urdf", True),
)
Problem = problems.ForwardDynamics | problems.HybridDynamics | problems.InverseDynamics
State = tuple[Array, Array, Array, Array]
"""q, qd, what is given, external wrenches."""


# ---- the oracle ------------------------------------------------------------------------------


class Answer(NamedTuple):
    """qdd, torque, J^T force; ``rows`` are independent, imply each other, or contradict."""

    rows: Literal["independent", "implied", "contradict", "unclear"]
    qdd: Array
    torque: Array
    carried: Array
    condition: float


def bordered(problem: Problem, state: State) -> Answer:
    """Answer of the bordered system, with the smallest forces of those that are possible."""
    robot, (q, qd, given, f_ext) = problem.robot, state
    held, known, n = problem._require_constraints(), np.asarray(problem.known), robot.nv
    J, drift, *_ = dense_rows(robot, held.constraints, q, qd)
    bias = dynsys.rnea(robot, q, qd, np.zeros(n), f_ext)
    H = np.column_stack([dynsys.rnea(robot, q, qd, e, f_ext) - bias for e in np.eye(n)])
    if known.all():  # J_U^T force = torque_U of the freedoms U without a drive
        torque, U = H @ given + bias, held.undriven
        found, _, inverse, condition = _range_of(J[:, U].T, J)
        force = inverse @ torque[U]
        missed = J[:, U].T @ force - torque[U]
        rows = _rows(found, missed, 1.0 + np.abs(torque).max(initial=0.0))
        return Answer(rows, given, torque - J.T @ force, J.T @ force, condition**2)
    free = ~known
    found, basis, inverse, condition = _range_of(J[:, free], J)
    kept = basis.T @ J  # independent combinations of the rows
    m = len(kept)
    D = np.zeros((2 * n + m, 2 * n + m))
    D[:n, :n], D[:n, n : 2 * n], D[:n, 2 * n :] = H, -np.eye(n), -kept.T
    D[n : n + m, :n] = kept
    D[np.arange(n + m, 2 * n + m), np.where(known, np.arange(n), n + np.arange(n))] = 1.0
    right = np.concatenate([-bias, -basis.T @ drift, given])
    rows_of, columns = np.abs(D).max(axis=1), np.abs(D).max(axis=0)
    scaled = D / rows_of[:, None] / columns
    d = np.linalg.solve(scaled, right / rows_of) / columns
    qdd = d[:n]
    force = inverse.T @ (kept.T @ d[2 * n :])[free]  # the smallest with the same J_free^T force
    torque = np.where(known, H @ qdd + bias - J.T @ force, given)
    missed = J @ qdd + drift
    size = 1.0 + np.abs(J).max() * np.abs(qdd).max() + np.abs(drift).max(initial=0.0)
    condition = max(float(np.linalg.cond(scaled)), condition)
    return Answer(_rows(found, missed, size), qdd, torque, J.T @ force, condition)


def _range_of(A: Array, J: Array) -> tuple[str, Array, Array, float]:
    """Whether rows of A, of a part of J, are independent; basis, inverse and condition."""
    if not A.size:
        return "independent", np.zeros((len(A), 0)), np.zeros(A.shape[::-1]), 1.0
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    size = np.linalg.norm(J, 2)
    counts = s > INDEPENDENT * size
    r = int(counts.sum())
    clear = not (s[~counts] > IMPLIED * size).any()
    found = "unclear" if not clear else "independent" if r == len(A) else "implied"
    inverse = (Vt[:r].T / s[:r]) @ U[:, :r].T
    return found, U[:, :r], inverse, float(size / s[r - 1]) if r else 1.0


def _rows(found: str, missed: Array, size: float) -> Any:
    part = float(np.abs(missed).max(initial=0.0)) / size
    if found != "implied":
        return found
    return "contradict" if part > MISSED else "implied" if part < MET else "unclear"


def _slope_off(problem: Problem, state: State) -> float:
    """Largest difference of drift from the slope of J qd, and of J qd from that of a tie."""
    robot, (q, qd, *_), h = problem.robot, state, 1e-5
    constraints = problem._require_constraints().constraints
    rows, ahead, behind = (
        dense_rows(robot, constraints, robot.integrate(q, qd, step), qd)
        for step in (0.0, h, -h)
    )
    size = 1.0 + np.abs(rows.J).max(initial=0.0) * (1.0 + np.abs(qd).max()) ** 2
    off = np.abs((ahead.velocity - behind.velocity) / (2 * h) - rows.drift)
    tied = np.concatenate(
        [np.full(c.size, isinstance(c, JointConstraint)) for c in constraints]
    )
    moved = np.abs((ahead.error - behind.error) / (2 * h) - rows.velocity) * tied
    return float(max(off.max(initial=0.0), moved.max(initial=0.0)) / size)


# ---- cases -----------------------------------------------------------------------------------


def _robot(rng: np.random.Generator) -> KinematicTree:
    kind = int(rng.integers(10))
    if kind == 0:
        path, floats = REAL[int(rng.integers(len(REAL)))]
        return load_quietly(robot_path(path), floats)
    if kind == 1:
        return dynsys.synthetic.humanoid30()
    if kind == 2:
        return dynsys.synthetic.chain(int(rng.integers(3, 9)), generic=True)
    n, seed = int(rng.integers(2, 9)), int(rng.integers(2**31))
    robot = dynsys.synthetic.random_tree(
        n, seed, ["revolute", "prismatic"] if kind < 5 else None
    )
    if kind == 9:
        bodies = [
            replace(b, armature=np.full(b.joint.nv, 0.1)) if rng.random() < 0.5 else b
            for b in robot.bodies
        ]
        robot = KinematicTree(robot.name, bodies, gravity=robot.gravity)
    return floating(robot) if rng.random() < 0.4 else robot


def _constraints(robot: KinematicTree, rng: np.random.Generator) -> list[Constraint]:
    single = [
        name
        for name, body in zip(robot.joint_names, robot.bodies, strict=True)
        if body.joint.nv == 1 and body.coupling is None
    ]
    found: list[Constraint] = []
    for k in range(int(rng.integers(1, 2 + min(3, robot.nv // 3)))):
        if single and rng.random() < 0.5:
            follower, *leaders = rng.permutation(single).tolist()
            leader = leaders[0] if leaders and rng.random() < 0.7 else None
            law = tuple(rng.normal(size=3).tolist())
            found.append(JointConstraint(f"tied {k}", follower, leader, law))
            continue
        frame, other = rng.integers(robot.n_bodies, size=2).tolist()
        components = rng.permutation(MOTIONS)[: int(rng.integers(1, min(6, robot.nv) + 1))]
        tied = other != frame and rng.random() < 0.5
        axes = AXES[int(rng.integers(3 if tied else 2))]
        here, there = (Transform(random_rotation(rng), rng.normal(size=3)) for _ in range(2))
        to = other if tied else None
        found.append(
            FrameConstraint(f"held {k}", frame, to, components.tolist(), axes, here, there)
        )
    if rng.random() < 0.15:
        found.append(replace(found[0], name="said twice"))
    return found


def _problem(robot: KinematicTree, rng: np.random.Generator) -> Problem:
    constraints, kind = _constraints(robot, rng), int(rng.integers(5))
    if kind < 2:
        return problems.ForwardDynamics(robot, constraints=constraints)
    if kind == 2:
        return problems.InverseDynamics(robot, constraints=constraints)
    movable = [n for n, b in zip(robot.joint_names, robot.bodies, strict=True) if b.joint.nv]
    some = [name for name in movable if rng.random() < 0.3] or movable[:1]
    return problems.HybridDynamics(robot, some, constraints=constraints)


def _states(robot: KinematicTree, rng: np.random.Generator) -> Iterator[State]:
    turns = 0.5 * np.pi * rng.integers(-2, 3, size=robot.nv)
    for q in (
        robot.random_configuration(rng),
        robot.random_configuration(rng),
        robot.integrate(robot.neutral(), turns, 1.0),
    ):
        qd, given = rng.normal(size=(2, robot.nv))
        yield q, qd, given, rng.normal(size=(robot.n_bodies, 6)) * rng.integers(2)


# ---- judging ---------------------------------------------------------------------------------


@final
@dataclass
class Case:
    """What was seen of one robot with constraints."""

    seed: int
    robot: str = ""
    kind: str = ""
    constraints: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    fallbacks: int = 0
    compared: int = 0
    worst: float = 0.0
    failures: list[str] = field(default_factory=list)

    def compare(self, what: str, found: Array, expected: Array, condition: float) -> None:
        """Note a difference, in parts of the largest entry and one."""
        size = 1.0 + float(np.abs(expected).max(initial=0.0))
        off = float(np.abs(np.asarray(found) - expected).max(initial=0.0)) / size
        allowed = LIMIT + 1e3 * condition * float(np.finfo(float).eps)
        self.compared += 1
        if not off <= allowed:
            self.failures.append(f"{what}: off by {off:.2g}, condition {condition:.2g}")
        else:
            self.worst = max(self.worst, off)


def judged(seed: int) -> Case:
    """Answers of one robot with constraints beside the oracle's."""
    rng, case = np.random.default_rng(seed), Case(seed)
    robot = _robot(rng)
    for _ in range(DRAWS):  # rows of most are independent, of every fourth as they come
        try:
            problem = _problem(robot, rng)
        except ModelError:  # a tie that is none, such as of a joint to itself
            continue
        states = list(_states(robot, rng))
        answers = [bordered(problem, state) for state in states]
        if seed % 4 == 0 or all(answer.rows == "independent" for answer in answers):
            break
    else:
        return case
    case.robot, case.kind = robot.name, type(problem).__name__
    case.constraints = [type(c).__name__ for c in problem._require_constraints().constraints]
    case.rows = [answer.rows for answer in answers]
    for state, expected in zip(states, answers, strict=True):
        if not (off := _slope_off(problem, state)) < 1e-6:
            case.failures.append(f"slopes of rows: off by {off:.2g}")
        _one(case, problem, state, expected)
    _batch(case, problem, states, answers)
    if isinstance(problem, problems.ForwardDynamics):
        for q, qd, *_ in states:
            _impact(case, problem, q, qd)
    return case


def _one(case: Case, problem: Problem, state: State, expected: Answer) -> None:
    """One state by machine code, or what stands in for it."""
    q, qd, given, f_ext = state
    try:
        found = problem.solve(q, qd, given, f_ext=f_ext)
    except (SingularSystemError, ContradictionError) as error:
        if expected.rows in ("independent", "implied") and expected.condition < 1e8:
            case.failures.append(f"refused, rows {expected.rows}: {error}")
        return
    if expected.rows == "contradict":
        case.failures.append("rows that contradict were answered")
    if expected.rows in ("contradict", "unclear"):
        return
    case.fallbacks += bool(found.fallback)
    J = dense_rows(problem.robot, problem._require_constraints().constraints, q, qd).J
    force = found.constraint_wrench.array
    answered = {"qdd": found.qdd, "torque": found.torque, "carried": J.T @ force}
    for name, here in answered.items():
        case.compare(name, here, getattr(expected, name), expected.condition)


def _batch(
    case: Case, problem: Problem, states: Sequence[State], answers: Sequence[Answer]
) -> None:
    """All states at once: as one by one."""
    pairs = zip(states, answers, strict=True)
    sound = [(x, a.condition) for x, a in pairs if a.rows == "independent"]
    if not sound:
        return
    q, qd, given, f_ext = (np.array([x[k] for x, _ in sound]) for k in range(4))
    many = problem.solve_batch(q, qd, given, f_ext=f_ext)
    for k, (x, condition) in enumerate(sound):
        one = problem.solve(*x[:3], f_ext=x[3])
        case.compare("batch, qdd", many.qdd[k], one.qdd, condition)
        case.compare("batch, torque", many.torque[k], one.torque, condition)


def _impact(case: Case, problem: problems.ForwardDynamics, q: Array, v: Array) -> None:
    """H (v+ - v) = J^T impulse,  J v+ = 0."""
    robot = problem.robot
    J = dense_rows(robot, problem._require_constraints().constraints, q, v).J
    found, *_ = _range_of(J, J)
    if found != "independent":
        return
    H = dynsys.crba(robot, q)
    through = np.linalg.solve(H, J.T)
    after = v - through @ np.linalg.solve(J @ through, J @ v)
    condition = float(np.linalg.cond(H) * np.linalg.cond(J @ through))
    case.compare("impact", problem.impulse(q, v).v, after, condition)


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge random cases; 1 if one has a failure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="a line for each case; goes on where it is")
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    if options.json and options.json.exists():
        rows = [json.loads(line) for line in options.json.read_text().splitlines()]
    done = {row["seed"] for row in rows}
    with tempfile.TemporaryDirectory() as cache, own_cache(Path(cache)):
        for seed in range(options.seed, options.seed + options.cases):
            if seed in done:
                continue
            rows.append(vars(judged(seed)))
            line = json.dumps(rows[-1])
            if options.json:
                with options.json.open("a") as file:
                    file.write(line + "\n")
            if rows[-1]["failures"]:
                print(line, flush=True)
    return 1 if any(row["failures"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
