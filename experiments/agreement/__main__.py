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
from importlib import metadata
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import dynsys
import problems
from dynsys.model.tree import KinematicTree
from dynsys.types import Array
from experiments.agreement.peers import Pinocchio, State, differences
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


def compare(path: Path, floating: bool, states: int, seed: int = 0) -> dict[str, float]:
    """Largest relative differences over random states, by column."""
    robot = load_quietly(path, floating)
    peer = Pinocchio(robot, pinocchio_model_of(path, floating), ())
    rng = np.random.default_rng(seed)
    legs = [name for k, name in enumerate(robot.joint_names) if k % 2]
    solvers = (
        problems.InverseDynamics(robot, backend="reference"),
        problems.ForwardDynamics(robot, backend="reference"),
        problems.HybridDynamics(robot, legs, backend="reference"),
    )
    worst = dict.fromkeys(COLUMNS, 0.0)
    worst["mass"] = _relative(np.array([robot.total_mass]), np.array([peer.mass]))
    for _ in range(states):
        q = robot.random_configuration(rng)
        qd, qdd = rng.normal(size=(2, robot.nv))
        state = State(q, qd, qdd, np.zeros((robot.n_bodies, 6)))
        for name, value in _one_state(robot, peer, state, solvers):
            worst[name] = float(np.maximum(worst[name], value))  # NaN stays
    return worst


def _relative(ours: Array, reference: Array) -> float:
    return float(differences(ours[None], reference[None])[0])


def _one_state(
    robot: KinematicTree, peer: Pinocchio, state: State, solvers: Solvers
) -> Iterator[tuple[str, float]]:
    q, qd, qdd = state.q, state.qd, state.qdd
    answers = peer.answers(state)
    torque, accelerations = answers["inverse"], answers["forward"]
    H = dynsys.recursive.crba(robot, q)

    def of_torque(x: Array) -> float:
        return float(np.abs(H @ (x - accelerations)).max() / np.abs(torque).max())

    yield "rnea", _relative(dynsys.recursive.rnea(robot, q, qd, qdd), torque)
    yield "crba", _relative(H, peer.inertia(q))
    jacobians = np.array(
        [dynsys.recursive.jacobian(robot, q, body) for body in range(robot.n_bodies)]
    )
    yield "jacobian", float(differences(jacobians, peer.jacobians(q)).max())
    ours = dynsys.recursive.aba(robot, q, qd, torque)
    yield "aba", _relative(ours, accelerations)
    yield "aba torque", of_torque(ours)
    inverse, forward, hybrid = solvers
    yield "ID", _relative(inverse.solve(q, qd, qdd).torque, torque)
    got = forward.solve(q, qd, torque).qdd
    yield "FD", _relative(got, accelerations)
    yield "FD torque", of_torque(got)
    mixed = hybrid.solve(q, qd, np.where(hybrid.known, qdd, torque))
    difference = dynsys.recursive.rnea(robot, q, qd, mixed.qdd) - torque
    own = np.abs(mixed.torque - torque)[hybrid.known].max(initial=0.0)
    other = np.abs(difference)[~hybrid.known].max(initial=0.0)
    yield "hybrid torque", max(own, other) / float(np.abs(torque).max())


def table(rows: dict[str, dict[str, float]]) -> Table:
    """One robot per line; what lies above the limit stands out."""
    version = metadata.version("pin")
    out = Table(title=f"largest relative difference from Pinocchio {version}")
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
