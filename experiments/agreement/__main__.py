"""Agreement with Pinocchio on real robots: the algorithms and the problems without a kernel.

    python -m experiments.agreement [--states 100] [--robots NAME ...] [--json FILE]

Differences are the largest entry of the difference relative to the largest entry of
Pinocchio's answer, over all states. Forward dynamics is judged twice: qdd itself, and the
torque that the difference of the two qdd stands for, |H (qdd - qdd')| / |torque|, which does
not suffer from the conditioning of H. Kernels are compared, with sensors and with more
programs than Pinocchio, by ``experiments.trust.agreement``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
from rich.console import Console
from rich.progress import track
from rich.table import Table

import dynsys
import problems
from dynsys.interop import PinocchioMap
from dynsys.model.tree import KinematicTree
from dynsys.types import Array
from experiments.example_robots import ROBOTS, load_quietly, pinocchio_model_of, robot_path

COLUMNS = (
    "mass",
    "rnea",
    "crba",
    "jacobian",
    "aba",
    "aba torque",
    "ID",
    "FD",
    "FD torque",
    "hybrid torque",
)
LIMIT = 1e-9

Solvers = tuple[problems.InverseDynamics, problems.ForwardDynamics, problems.HybridDynamics]


def relative(x: Array, reference: Array) -> float:
    """Largest difference relative to the largest reference entry."""
    return float(np.abs(x - reference).max(initial=0.0) / max(np.abs(reference).max(), 1e-300))


def compare(path: Path, floating: bool, states: int, seed: int = 0) -> dict[str, float]:
    """Largest relative differences over random states, by column."""
    robot, model = load_quietly(path, floating), pinocchio_model_of(path, floating)
    to, data = PinocchioMap(robot, model), model.createData()
    rng = np.random.default_rng(seed)
    legs = [name for k, name in enumerate(robot.joint_names) if k % 2]
    solvers = (
        problems.InverseDynamics(robot, backend="reference"),
        problems.ForwardDynamics(robot, backend="reference"),
        problems.HybridDynamics(robot, legs, backend="reference"),
    )
    worst = dict.fromkeys(COLUMNS, 0.0)
    mass = np.array(pin.computeTotalMass(model))
    worst["mass"] = relative(np.array(robot.total_mass), mass)
    for _ in range(states):
        q = robot.random_configuration(rng)
        qd, qdd = rng.normal(size=(2, robot.nv))
        found = _one_state(robot, model, data, to, (q, qd, qdd), solvers)
        for name, value in found:
            worst[name] = float(np.maximum(worst[name], value))  # NaN stays
    return worst


def _one_state(
    robot: KinematicTree,
    model: Any,
    data: Any,
    to: PinocchioMap,
    state: tuple[Array, Array, Array],
    solvers: Solvers,
) -> Iterator[tuple[str, float]]:
    q, qd, qdd = state
    pin_state = (to.q_to_pin(q), to.v_to_pin(qd))
    torque = to.tau_from_pin(pin.rnea(model, data, *pin_state, to.v_to_pin(qdd)))
    yield "rnea", relative(dynsys.rnea(robot, q, qd, qdd), torque)
    upper = pin.crba(model, data, pin_state[0])
    H_pin = np.triu(upper) + np.triu(upper, 1).T
    order = to.v_from_pin(np.arange(model.nv, dtype=np.float64)).astype(int)
    H = dynsys.crba(robot, q)
    yield "crba", relative(H, H_pin[np.ix_(order, order)])
    yield "jacobian", _jacobian_difference(robot, model, data, order, q, pin_state[0])
    accelerations = to.v_from_pin(pin.aba(model, data, *pin_state, to.tau_to_pin(torque)))

    def of_torque(x: Array) -> float:
        return float(np.abs(H @ (x - accelerations)).max() / np.abs(torque).max())

    ours = dynsys.aba(robot, q, qd, torque)
    yield "aba", relative(ours, accelerations)
    yield "aba torque", of_torque(ours)
    inverse, forward, hybrid = solvers
    yield "ID", relative(inverse.solve(q, qd, qdd).torque, torque)
    got = forward.solve(q, qd, torque).qdd
    yield "FD", relative(got, accelerations)
    yield "FD torque", of_torque(got)
    mixed = hybrid.solve(q, qd, np.where(hybrid.known, qdd, torque))
    difference = dynsys.rnea(robot, q, qd, mixed.qdd) - torque
    own = np.abs(mixed.torque - torque)[hybrid.known].max(initial=0.0)
    other = np.abs(difference)[~hybrid.known].max(initial=0.0)
    yield "hybrid torque", max(own, other) / float(np.abs(torque).max())


def _jacobian_difference(
    robot: KinematicTree, model: Any, data: Any, order: Array, q: Array, q_pin: Array
) -> float:
    """Body Jacobians of all joints, Pinocchio's rows (linear first) put in our order."""
    worst = 0.0
    pin.computeJointJacobians(model, data, q_pin)
    for body, joint in enumerate(robot.joint_names):
        number = model.getJointId("root_joint" if joint == "root" else joint)
        J = pin.getJointJacobian(model, data, number, pin.ReferenceFrame.LOCAL)
        J = np.vstack([J[3:], J[:3]])[:, order]
        worst = float(np.maximum(worst, relative(dynsys.jacobian(robot, q, body), J)))
    return worst


def table(rows: dict[str, dict[str, float]]) -> Table:
    """One robot per line; what lies above the limit stands out."""
    out = Table(title=f"largest relative difference from Pinocchio {pin.__version__}")
    out.add_column("robot")
    for name in COLUMNS:
        out.add_column(name, justify="right")
    for robot, row in rows.items():
        cells = [
            f"{row[name]:.0e}" if row[name] <= LIMIT else f"[bold]{row[name]:.0e}[/]"
            for name in COLUMNS
        ]
        out.add_row(robot, *cells)
    return out


def main() -> None:
    """Run the comparison and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--states", type=int, default=100)
    parser.add_argument("--robots", nargs="*", help="file names without .urdf; default: all")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chosen = [
        (path, floating)
        for path, floating in ROBOTS
        if not options.robots or Path(path).stem in options.robots
    ]
    console = Console(width=180)
    rows = {}
    for path, floating in track(chosen, "robots", console=Console(stderr=True)):
        rows[Path(path).stem] = compare(robot_path(path), floating, options.states)
    console.print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
