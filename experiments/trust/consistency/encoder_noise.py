"""Standard deviations with encoder noise against the scatter of noisy solves.

    python -m experiments.trust.consistency.encoder_noise [--solves N] [--motions N]
                                                          [--robots NAME ...] [--json F]

At each of some random motions positions, velocities and readings get noise of the stated size,
many times; every noisy set is solved. The standard deviation of the torques found so stands
beside the one that ``est.solve(q, qd, y).std.torque`` states. Within statistics: the ratio
minus one, in units of 1 / sqrt(2 (solves - 1)), is a normal number of deviation one, to which
curvature adds (the stated deviation is of first order). ``p`` bounds the probability that the
largest of so many numbers, dependent or not, is as far out. ``without`` is what the stated
deviation would be without the noise of encoders, as a part of it. Exit status 1 if p is below
1e-3 for a robot.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import ndtr

import problems
import sensors
from dynsys.types import Array
from experiments.example_robots import load_quietly, robot_path
from problems.estimation.sensitivity import random_motions
from problems.problem_file import load_problem
from sensors import Layout

DEMO = Path(__file__).parents[3] / "problems" / "data" / "humanoid.yaml"
NOISE: dict[str, Any] = {"position_std": 5e-3, "velocity_std": 0.1}
"""Large, so that they count beside the sensors: rad, rad/s."""
IMPROBABLE = 1e-3
"""Value of p below which a scatter is not the one that was stated."""


def estimations() -> dict[str, problems.Estimation]:
    """The three robots, with square and redundant layouts."""
    panda = load_quietly(robot_path("panda_description/urdf/panda.urdf"), False)
    solo = load_quietly(robot_path("solo_description/robots/solo12.urdf"), True)
    base, *_ = solo.body_names
    feet = [name for name in solo.body_names if name.endswith("LOWER_LEG")]
    demo = load_problem(DEMO).estimation
    layouts = {
        "panda": Layout(
            panda,
            [
                *sensors.all_joint_accelerations(panda, std=0.05),
                *sensors.all_joint_torques(panda, std=0.2),
                *sensors.zero_external_wrench_except(panda),
            ],
            **NOISE,
        ),
        "solo12": Layout(
            solo,
            [
                *sensors.all_joint_accelerations(solo, std=0.1, free=False),
                *sensors.all_joint_torques(solo, std=0.05, exclude=("root",)),
                sensors.JointTorque("root/torque", "root", value=0.0, std=1e-3),
                sensors.Imu("imu", base, angular=True, std=(0.05, 0.01, 0.5)),
                *(sensors.PureForce(f"{foot}/point", foot) for foot in feet),
                *sensors.zero_external_wrench_except(solo, feet),
            ],
            quiet=True,
            **NOISE,
        ),
        "demo humanoid": Layout(
            demo.robot, demo.layout.sensors, demo.layout.correlations, quiet=True, **NOISE
        ),
    }
    return {name: problems.Estimation(made.robot, made) for name, made in layouts.items()}


def scatter(
    problem: problems.Estimation, state: tuple[Array, Array, Array], n: int, seed: int
) -> tuple[Array, Array, Array]:
    """Stated deviations, those of n noisy solves, those stated without encoders: (nv,) each."""
    (q, qd, y), robot, layout = state, problem.robot, problem.layout
    rng = np.random.default_rng(seed)
    turns = layout.position_std * rng.normal(size=(n, robot.nv))
    positions = np.array([robot.integrate(q, v, 1.0) for v in turns])
    velocities = qd + layout.velocity_std * rng.normal(size=(n, robot.nv))
    C = layout.covariance().toarray()
    values, axes = np.linalg.eigh(C)
    noise = rng.normal(size=(n, layout.size)) * np.sqrt(np.maximum(values, 0.0)) @ axes.T
    found = problem.solve_batch(positions, velocities, y + noise, outputs=("torque",))
    plain = problems.Estimation(robot, Layout(robot, layout.sensors, layout.correlations))
    return (
        problem.solve(q, qd, y).std.torque.array,
        found.torque.array.std(axis=0, ddof=1),
        plain.solve(q, qd, y).std.torque.array,
    )


def study(problem: problems.Estimation, motions: int, solves: int) -> dict[str, Any]:
    """Ratios of all torques at all motions."""
    stated: list[Array] = []
    found: list[Array] = []
    without: list[Array] = []
    for k, state in enumerate(zip(*random_motions(problem, motions, 0), strict=True)):
        for kept, part in zip(
            (stated, found, without), scatter(problem, state, solves, k), strict=True
        ):
            kept.append(part)
    s, f, w = (np.array(x) for x in (stated, found, without))
    counts = s > 1e-6 * s.max()  # what is stated exactly has no deviation
    z = (f[counts] / s[counts] - 1.0) * np.sqrt(2.0 * (solves - 1))
    return {
        "layout": f"{problem.layout.size} rows, {problem.verdict(search=False).checks} spare",
        "numbers": int(counts.sum()),
        "solves": solves,
        "mean_ratio": float((f[counts] / s[counts]).mean()),
        "worst_ratio": float((f[counts] / s[counts])[np.argmax(np.abs(z))]),
        "rms_z": float(np.sqrt((z**2).mean())),
        "largest_z": float(np.abs(z).max()),
        "p_value": min(1.0, 2.0 * len(z) * float(ndtr(-np.abs(z).max()))),
        "without": float((w[counts] / s[counts]).mean()),
        "least_without": float((w[counts] / s[counts]).min()),
    }


def main(arguments: list[str] | None = None) -> int:
    """Show the table, write the results; 1 if some scatter is not the one that was stated."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--solves", type=int, default=10_000)
    parser.add_argument("--motions", type=int, default=5)
    parser.add_argument("--robots", nargs="+", metavar="NAME", help="of the three")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(arguments)
    results = {}
    columns = ("robot", "layout", "numbers", "mean ratio", "rms z", "largest z", "p", "without")
    table = Table(*columns)
    for name, problem in estimations().items():
        if name not in (args.robots or [name]):
            continue
        row = results[name] = study(problem, args.motions, args.solves)
        table.add_row(
            name,
            row["layout"],
            str(row["numbers"]),
            f"{row['mean_ratio']:.4f}",
            f"{row['rms_z']:.2f}",
            f"{row['largest_z']:.2f}",
            f"{row['p_value']:.2f}",
            f"{row['without']:.2f} ({row['least_without']:.2f})",
        )
    Console().print(table)
    if args.json:
        args.json.write_text(json.dumps({"noise": NOISE, "robots": results}, indent=1) + "\n")
    return int(any(row["p_value"] < IMPROBABLE for row in results.values()))


if __name__ == "__main__":
    raise SystemExit(main())
