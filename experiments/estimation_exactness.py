"""Are estimates right? Truth, a dense oracle, and the scatter of noisy solves.

    python -m experiments.estimation_exactness [--quick] [--json]

- Square layouts of real robots, readings without noise: every torque, acceleration and wrench
  is the truth, to 1e-10 of the largest of its kind, at 1000 states. Where conditioning forbids
  that (icub's forward dynamics), to 10 times the error of ABA at the same states.
- More readings than needed, with noise: every unknown equals that of dense constrained least
  squares to 1e-9, every standard deviation of a torque the dense one to 1e-8.
- 10 000 solves at one state with fresh noise: the sample variances of all torques lie where
  chi-square variables of their stated variances lie, and so does the sum of the chi-squares of
  the readings. Two-sided tail probabilities must exceed one in a million.

The compiled estimator answers, as it does for logs and batches. Exit status 1 if a bound is
broken.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import final

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.stats import chi2

import dynsys
from dynsys.errors import ModelWarning
from dynsys.model.tree import KinematicTree
from dynsys.types import Array
from experiments.example_robots import load_quietly, robot_path
from problems import Estimation, InverseDynamics
from problems.logs.simulate import Simulation, Trajectory
from problems.measured.measured_system import QUANTITIES
from problems.measured.simulated_readings import TrueReadings
from problems.problem_file import load_problem
from problems.terminal import show_table
from sensors import AbstractSensor, ExternalWrench, JointAcceleration, JointTorque, Layout

__all__ = ["Check", "dense_posterior", "main", "measure"]

# ---- dense constrained least squares by the null-space method: the obvious twin ------------
#     minimise |W (Y d + b - y)|   subject to   E d + e = 0,   E: laws and rows without noise
#
#     d = d_0 + Z x,   E d_0 = -e,   E Z = 0;   covariance of d:  Z ((WYZ)^T WYZ)^-1 Z^T
#
# Nothing of the estimator's own algebra is used but the assembled equations.


def dense_posterior(problem: Estimation, q: Array, qd: Array, y: Array) -> tuple[Array, Array]:
    """Unknowns d (n,) and a factor F (n, k) of their covariance F F^T."""
    A, b = problem.system.assemble(q, qd)
    rows, n_laws = A.toarray(), problem.measured.laws.shape[0]
    b = b.copy()
    b[n_laws:] -= y
    noisy = np.concatenate([np.zeros(n_laws, bool), ~problem.layout.exact])
    start, free = _constrained(rows[~noisy], b[~noisy])
    R = problem.layout.covariance().toarray()[np.ix_(noisy[n_laws:], noisy[n_laws:])]
    root = np.linalg.cholesky(R)
    J = solve_triangular(root, rows[noisy] @ free, lower=True)
    misfit = solve_triangular(root, rows[noisy] @ start + b[noisy], lower=True)
    Q, T = np.linalg.qr(J)
    d = start - free @ solve_triangular(T, Q.T @ misfit)
    return d, np.asarray(solve_triangular(T, free.T, trans="T").T)


def _constrained(E: Array, e: Array) -> tuple[Array, Array]:
    """A solution of E d + e = 0, and an orthonormal basis of all d with E d = 0."""
    scale = 1.0 / np.linalg.norm(E, axis=1)
    Q, T = qr((scale[:, None] * E).T)
    m = len(E)
    start = -Q[:, :m] @ solve_triangular(T[:m], scale * e, trans="T")
    start -= Q[:, :m] @ solve_triangular(T[:m], scale * (E @ start + e), trans="T")
    return start, np.asarray(Q[:, m:])


SQUARE = (
    ("ur_description/urdf/ur5_robot.urdf", False),
    ("panda_description/urdf/panda.urdf", False),
    ("solo_description/robots/solo12.urdf", True),
    ("icub_description/robots/icub_reduced.urdf", True),
    ("talos_data/robots/talos_reduced.urdf", True),
)
"""Robots with as many readings as needed: file, floating base."""
OVER_DETERMINED = ("solo12", "nao_slippery", "icub")
"""Layouts of the catalogue with more."""
OUTPUTS = (*QUANTITIES, "chi_square")
TRUTH, DENSE, DEVIATION, CHANCE = 1e-10, 1e-9, 1e-8, 1e-6


@final
@dataclass(frozen=True)
class Check:
    """One figure beside its bound; ``least`` tells that it must be above, not below."""

    question: str
    robot: str
    what: str
    states: int
    figure: float
    bound: float
    least: bool = False

    @property
    def holds(self) -> bool:
        """Whether the figure is within its bound."""
        return self.figure >= self.bound if self.least else self.figure <= self.bound


# ---- square layouts --------------------------------------------------------------------------


def _square_layout(robot: KinematicTree, question: str) -> Layout:
    """All external wrenches, and all joint accelerations (ID) or torques (FD)."""
    sensors: list[AbstractSensor] = [
        ExternalWrench(f"wrench {body}", body, std=1.0) for body in robot.body_names
    ]
    for name, body in zip(robot.joint_names, robot.bodies, strict=True):
        if body.joint.nv and body.coupling is None:
            kind = JointAcceleration if question == "ID" else JointTorque
            sensors.append(kind(f"{question} {name}", name, std=1.0))
    return Layout(robot, sensors)


def _truth_recovered(robot: KinematicTree, question: str, states: int) -> Check:
    layout = _square_layout(robot, question)
    rng = np.random.default_rng(0)
    q = np.array([robot.random_configuration(rng) for _ in range(states)])
    qd, qdd = rng.uniform(-1, 1, (2, states, robot.nv))
    f = rng.uniform(-10, 10, (states, robot.n_bodies, 6))
    y = TrueReadings(layout).at(q, qd, qdd, f)[1]
    truth = InverseDynamics(robot).solve_batch(q, qd, qdd, f_ext=f)
    expected = {"torque": truth.torque, "qdd": qdd, "external_wrench": f}
    expected["acceleration"] = truth.acceleration.array
    expected["joint_wrench"] = truth.joint_wrench.array
    found = Estimation(robot, layout, backend="llvm").solve_batch(q, qd, y)
    worst = _largest([_relative(found.values[k].array, expected[k]) for k in QUANTITIES])
    what, bound = "error", TRUTH
    if question == "FD" and worst > TRUTH:
        rows = zip(q, qd, truth.torque, f, strict=True)
        by_aba = np.array([dynsys.recursive.aba(robot, *state) for state in rows])
        what, bound = "error, ABA's x 10", 10 * _relative(by_aba, qdd)
    return Check(f"truth, {question} as estimation", robot.name, what, states, worst, bound)


def _relative(found: Array, expected: Array) -> float:
    """Largest error at a state beside the largest value of its kind there."""
    flat = (len(expected), -1)
    errors = np.abs(found - expected).reshape(flat).max(axis=1)
    return float((errors / np.abs(expected).reshape(flat).max(axis=1)).max())


def _largest(errors: Sequence[float]) -> float:
    """Largest error; NaN, which no bound holds for, where any is."""
    return float(np.max(errors))


# ---- more readings than needed ---------------------------------------------------------------


def _log(problem: Estimation, states: int) -> tuple[Array, Array, Array]:
    """States of a random motion and what the sensors read there without noise."""
    trajectory = Trajectory.random(problem.robot, states / 2.0, seed=3)
    simulation = Simulation(problem.layout, trajectory, rate=2.0)
    _, q, qd, qdd, f = simulation.motion(0, states)
    return q, qd, simulation.readings.at(q, qd, qdd, f)[1]


def _with_noise(layout: Layout, y: Array, seed: int) -> Array:
    """Readings (N, rows) with noise of the stated covariance; exact rows as they are."""
    noisy = np.flatnonzero(~layout.exact)
    root = np.linalg.cholesky(layout.covariance().toarray()[np.ix_(noisy, noisy)])
    out = y.copy()
    out[:, noisy] += np.random.default_rng(seed).normal(size=(len(y), len(noisy))) @ root.T
    known = np.isfinite(layout.constants)
    out[:, known] = layout.constants[known]
    return out


def _as_dense(name: str, problem: Estimation, states: int) -> Iterator[Check]:
    q, qd, y = _log(problem, states)
    y = _with_noise(problem.layout, y, 1)
    found = problem.solve_batch(q, qd, y, uncertainty="torque", outputs=OUTPUTS)
    unknowns = problem.system.unknowns
    errors, deviations = [], []
    for k in range(states):
        d, factor = dense_posterior(problem, q[k], qd[k], y[k])
        for kind in QUANTITIES:
            expected = d[unknowns.columns(kind)]
            errors.append(_relative(found.values[kind].array[[k]], expected[None]))
        std = np.linalg.norm(factor[unknowns.columns("torque")], axis=1)
        deviations.append(_relative(found.std.torque.array[[k]], std[None]))
    yield Check("dense oracle", name, "error", states, _largest(errors), DENSE)
    worst = _largest(deviations)
    yield Check("dense oracle", name, "std of torques", states, worst, DEVIATION)


def _scatter(name: str, problem: Estimation, solves: int) -> Iterator[Check]:
    q, qd, y = (np.repeat(x[-1:], solves, axis=0) for x in _log(problem, 3))
    readings = _with_noise(problem.layout, y, 2)
    found = problem.solve_batch(q, qd, readings, uncertainty="torque", outputs=OUTPUTS)
    stated = found.std.torque.array[0] ** 2
    uncertain = stated > 0
    torque = found.torque.array[:, uncertain]
    ratios = (solves - 1) * torque.var(axis=0, ddof=1) / stated[uncertain]
    smallest = np.min([_chance(float(r), solves - 1) for r in ratios])
    count = int(uncertain.sum())
    what = f"variances of {count} torques"
    # the smallest of several chances is that much smaller by chance
    chance = float(np.minimum(1.0, smallest * count))
    yield Check("scatter", name, what, solves, chance, CHANCE, True)
    total = float(np.sum(found.chi_square))
    dof = int(np.sum(found.degrees_of_freedom))
    yield Check(
        "scatter", name, "sum of chi-squares", solves, _chance(total, dof), CHANCE, True
    )


def _chance(value: float, dof: int) -> float:
    """Two-sided tail probability of a chi-square variable."""
    return float(2 * np.minimum(chi2.sf(value, dof), chi2.cdf(value, dof)))


# ---- all of it -------------------------------------------------------------------------------


def measure(
    square: Sequence[tuple[str, bool]],
    layouts: Sequence[str],
    *,
    states: int = 1000,
    dense_states: int = 10,
    solves: int = 10_000,
) -> Iterator[Check]:
    """All checks of robots (file, floating base) and layouts of the catalogue."""
    for file, floating in square:
        robot = load_quietly(robot_path(file), floating)
        for question in ("ID", "FD"):
            yield _truth_recovered(robot, question, states)
    for name in layouts:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelWarning)
            stored = load_problem(f"catalogue:{name}")
            problem = Estimation(stored.tree, stored.sensors, backend="llvm")
        yield from _as_dense(name, problem, dense_states)
        yield from _scatter(name, problem, solves)


def _show(checks: Sequence[Check]) -> None:
    columns = ("question", "robot", "what", "states", "figure", "bound", "holds")
    rows = [
        (
            c.question,
            c.robot,
            c.what,
            str(c.states),
            f"{c.figure:.1e}",
            f"{'>=' if c.least else '<='} {c.bound:.0e}",
            "yes" if c.holds else "NO",
        )
        for c in checks
    ]
    show_table(columns, rows, right=("states", "figure", "bound"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print all checks; 0 if every one holds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two robots, fewer states")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    if options.quick:
        found = measure(SQUARE[:2], OVER_DETERMINED[:1], states=200, dense_states=2)
    else:
        found = measure(SQUARE, OVER_DETERMINED)
    checks = list(found)
    if options.json:
        print(json.dumps([asdict(c) | {"holds": c.holds} for c in checks], indent=2))
    else:
        _show(checks)
    return 0 if all(c.holds for c in checks) else 1


if __name__ == "__main__":
    raise SystemExit(main())
