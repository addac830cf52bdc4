"""Estimation beside iDynTree: one run, one pinned core, errors beside the times.

    python -m experiments.estimation_peers [--robot icub_reduced] [--quick] [--json FILE]

Four questions on the same robot:

- ID as estimation: all joint accelerations and external wrenches, fixed base (square);
- FD as estimation: all joint torques and external wrenches, fixed base (square);
- whole body: 6 IMUs, the 6 FTs of the file, all joint accelerations and external wrenches, free
  base (over-determined), also with standard deviations of all torques, which BERDY has not;
- contacts: joint accelerations known, 6 FTs, an unknown wrench on each foot, shin and forearm,
  none elsewhere: what ExtWrenchesAndJointTorquesEstimator is made for.

Both are called from Python, state by state: ours as everybody calls it,
``est.solve(q, qd, y).torque.array``, which computes torques, BERDY as it is, which computes all
unknowns. Beside it ``kernel.one`` of the same torques; the batch column is one call of the
kernel of all unknowns for all states, which iDynTree has not. BERDY keeps the fixed joints of
the third case (41 links) because it loses the FTs otherwise; ours folds them (30 bodies) and
cuts bodies at the FTs.

Then every layout of the catalogue: the default call with packed readings and with readings by
name, beside ``kernel.one`` of its torques and beside the general path.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import final

import numpy as np

from dynsys.errors import KernelBuildError
from dynsys.kernel.build import estimation_kernel
from dynsys.kernel.kernel import Kernel
from dynsys.model.tree import KinematicTree
from dynsys.plan.estimator_spec import ESTIMATES, EstimatorSpec
from dynsys.recursive.rnea import rnea
from dynsys.system.linear_system import LinearSystem
from dynsys.types import Array
from experiments.example_robots import load_quietly, robot_path
from experiments.peers.idyntree import Berdy, ExternalWrenches, links_and_joints, quiet
from experiments.peers.timing import Contender, cores, measure, pinned, write_json
from problems import Estimation, InverseDynamics
from problems.estimation.assembly import PATIENCE
from problems.estimation.factors import general_backend
from problems.problem_file import load_problem
from problems.terminal import number, show_table
from sensors import (
    AbstractSensor,
    ExternalWrench,
    ForceTorque,
    Imu,
    JointAcceleration,
    JointTorque,
    Layout,
    catalogue,
)

__all__ = ["Comparison", "DefaultCall", "compare", "default_calls", "main"]

ROBOTS = {
    "icub_reduced": "icub_description/robots/icub_reduced.urdf",
    "icub": "icub_description/robots/icub.urdf",
}
FTS = tuple(f"{side}_{part}_ft_sensor" for side in "lr" for part in ("leg", "foot", "arm"))
CONTACTS = tuple(f"{side}_{part}" for side in "lr" for part in ("foot", "forearm", "lower_leg"))
STD = 1e3**-0.5
BARS = {
    "ID": (200, 300),
    "FD": (150, 300),
    "whole body": (60, 60),
    "whole body, std": (40, 10),
    "contacts": (6, 1),
}
"""How many times faster we must be: one state, batch."""


@final
@dataclass(frozen=True)
class Comparison:
    """Microseconds per state (medians) and largest relative errors; ``one_us`` by est.solve."""

    task: str
    peer: str
    peer_us: float
    peer_error: float
    one_us: float
    kernel_us: float
    batch_us: float
    error: float
    rows: int
    unknowns: int

    @property
    def ratios(self) -> tuple[float, float]:
        """How many times faster ours is: one state, batch."""
        return self.peer_us / self.one_us, self.peer_us / self.batch_us

    @property
    def passes(self) -> bool:
        """Whether both ratios reach their bars."""
        return all(r >= bar for r, bar in zip(self.ratios, BARS[self.task], strict=True))


# ---- ours ----------------------------------------------------------------------------------


@final
class Ours:
    """One layout at states whose truth is known, with exact data."""

    def __init__(self, layout: Layout, uncertainty: Sequence[str], n_states: int) -> None:
        robot, rng = layout.robot, np.random.default_rng(0)
        unknowns = LinearSystem(robot).unknowns
        equations = layout.equations(unknowns)
        self.layout = layout
        self.kernel: Kernel = estimation_kernel(
            EstimatorSpec(robot, equations, layout.covariance(), ESTIMATES, tuple(uncertainty))
        )
        touched = {
            name for name, exact in zip(layout.labels, layout.exact, strict=True) if not exact
        }
        free = {i for i in range(robot.n_bodies) if self._may_be_touched(i, touched)}
        states = [_truth(robot, rng, free) for _ in range(n_states)]
        system = LinearSystem(robot).with_equations(equations)
        rows = slice(LinearSystem(robot).shape[0], None)
        self.inputs = tuple(
            np.array(x)
            for x in zip(
                *((q, qd, _reading(system, rows, q, qd, d)) for q, qd, d in states),
                strict=True,
            )
        )
        order = np.concatenate([unknowns.columns(name).ravel() for name in ESTIMATES])
        self.truth = np.array([d[order] for *_, d in states])
        sizes = [size for _, size in self.kernel.signature.outputs]
        self.out = [np.empty((n_states, size)) for size in sizes]
        self.kernel.batch(*self.inputs, out=self.out)
        found = np.hstack(self.out[: len(ESTIMATES)])
        scale = np.abs(self.truth).max(axis=1)
        self.error = float((np.abs(found - self.truth).max(axis=1) / scale).max())
        self.problem = Estimation(robot, layout)
        self.uncertainty = tuple(uncertainty)
        self.torques = self.problem.compile(outputs=("torque",), uncertainty=self.uncertainty)
        self.rows = list(zip(*self.inputs, strict=True))
        called = np.array([self._asked(row) for row in self.rows])
        missed = np.abs(called - self.truth[:, : robot.nv]).max(axis=1) / scale
        self.error = max(self.error, float(missed.max()))

    def _may_be_touched(self, body: int, noisy: set[str]) -> bool:
        """Whether no exact row says that the body's external wrench is zero."""
        name = self.layout.robot.body_names[body]
        return f"fx {name}" not in self.layout.names or f"fx {name}.fx" in noisy

    def _asked(self, row: tuple[Array, ...]) -> Array:
        """Torques, and their deviations if wanted, as everybody asks for them."""
        if not self.uncertainty:
            return self.problem.solve(*row).torque.array
        e = self.problem.solve(*row, uncertainty="torque")
        _ = e.std.torque.array
        return e.torque.array

    def one(self, repeats: int) -> None:
        """Ask the problem state by state."""
        rows, solve, asked = self.rows, self.problem.solve, self._asked
        for _ in range(repeats):
            if self.uncertainty:
                for row in rows:
                    asked(row)
            else:
                for q, qd, y in rows:
                    _ = solve(q, qd, y).torque.array

    def by_kernel(self, repeats: int) -> None:
        """Call the kernel of the torques state by state."""
        one = self.torques.one
        for _ in range(repeats):
            for q, qd, y in self.rows:
                one(q, qd, y)

    def batch(self, repeats: int) -> None:
        """Call the kernel once for all states."""
        for _ in range(repeats):
            self.kernel.batch(*self.inputs, out=self.out)


def _truth(
    robot: KinematicTree, rng: np.random.Generator, touched: set[int]
) -> tuple[Array, Array, Array]:
    """q, qd and all unknowns d of a random motion under random wrenches, no root torque."""
    q, qd = robot.random_configuration(rng), rng.uniform(-1, 1, robot.nv)
    qdd, wrenches = rng.uniform(-1, 1, robot.nv), np.zeros((robot.n_bodies, 6))
    wrenches[sorted(touched)] = rng.uniform(-1, 1, (len(touched), 6))
    if robot.joints[0].kind == "free":
        wrenches[0] += rnea(robot, q, qd, qdd, wrenches)[:6]
    solution = InverseDynamics(robot, backend="reference").solve(q, qd, qdd, wrenches)
    unknowns = LinearSystem(robot).unknowns
    d = np.zeros(unknowns.size)
    d[unknowns.columns("torque")], d[unknowns.columns("qdd")] = solution.torque, qdd
    d[unknowns.columns("acceleration")] = solution.acceleration.array
    d[unknowns.columns("joint_wrench")] = solution.joint_wrench.array
    d[unknowns.columns("external_wrench")] = wrenches
    return q, qd, d


def _reading(system: LinearSystem, rows: slice, q: Array, qd: Array, d: Array) -> Array:
    D, b = system.assemble(q, qd)
    return np.asarray((D @ d + b)[rows])


def _layout(robot: KinematicTree, task: str, imu_links: Sequence[str]) -> Layout:
    joints = [
        name for name, j in zip(robot.joint_names, robot.joints, strict=True) if j.nv == 1
    ]
    touched = {robot.frame(name).body for name in CONTACTS}
    if task == "contacts":
        exact: list[AbstractSensor] = [JointAcceleration(f"qdd {j}", j, std=0) for j in joints]
        exact += [
            ExternalWrench(f"fx {name}", name, std=0)
            for i, name in enumerate(robot.body_names)
            if i not in touched
        ]
        return Layout(
            robot, exact + [ForceTorque(name, name, external="beyond", std=STD) for name in FTS]
        )
    sensors: list[AbstractSensor] = [
        ExternalWrench(f"fx {name}", name, std=STD) for name in robot.body_names
    ]
    if task == "FD":
        sensors += [JointTorque(f"torque {j}", j, std=STD) for j in joints]
    else:
        sensors += [JointAcceleration(f"qdd {j}", j, std=STD) for j in joints]
    if task.startswith("whole body"):
        sensors.append(JointTorque("no root torque", robot.joint_names[0], value=0.0))
        sensors += [Imu(f"imu {link}", link, std=STD) for link in imu_links]
        sensors += [ForceTorque(name, name, external="beyond", std=STD) for name in FTS]
    return Layout(robot, sensors)


# ---- the comparison ------------------------------------------------------------------------


def compare(name: str, passes: int, core: int, n_states: int = 256) -> list[Comparison]:
    """Time every spec; peers and ours run in turns."""
    path = str(robot_path(ROBOTS[name]))
    fixed, free = (load_quietly(path, base) for base in (False, True))
    with quiet():
        links, joints = links_and_joints(path)
        imus = links[:: max(1, len(links) // 6)][:6]
        berdy = {
            "ID": Berdy(path, joints, False, True, False),
            "FD": Berdy(path, joints, False, False, True),
            "whole body": Berdy(path, None, True, True, False, imus),
        }
        berdy["whole body, std"] = berdy["whole body"]
        cutter = ExternalWrenches(path, joints, CONTACTS)
    found = []
    for task in BARS:
        robot = free if task.startswith("whole body") else fixed
        uncertainty = ("torque",) if task.endswith("std") else ()
        ours = Ours(_layout(robot, task, imus), uncertainty, n_states)
        peer = cutter if task == "contacts" else berdy[task]
        runs: tuple[tuple[Callable[[int], None], int], ...] = (
            (peer.run, 32),
            (ours.one, n_states),
            (ours.by_kernel, n_states),
            (ours.batch, n_states),
        )
        contenders = [
            Contender("", task, "python", n, run, lambda: np.zeros(0)) for run, n in runs
        ]
        with pinned([core]):
            timed = measure(contenders, passes, 5e-3)
        theirs, one, kernel, batch = (median for median, _ in timed)
        found.append(
            Comparison(
                task,
                type(peer).__name__,
                theirs / 1e3,
                peer.error,
                one / 1e3,
                kernel / 1e3,
                batch / 1e3,
                ours.error,
                ours.layout.size,
                LinearSystem(robot).unknowns.size,
            )
        )
    return found


# ---- every layout of the catalogue -----------------------------------------------------------


@final
@dataclass(frozen=True)
class DefaultCall:
    """Microseconds of one state of a catalogue layout; ``kernel_us`` None where there is none.

    ``call_us`` and ``named_us`` are est.solve(q, qd, y).torque.array with packed readings and
    with readings by name, ``general_us`` the same by the general path.
    """

    name: str
    rows: int
    method: str
    call_us: float
    named_us: float
    kernel_us: float | None
    general_us: float
    error: float


def default_calls(passes: int, core: int) -> list[DefaultCall]:
    """The default call of every catalogue layout beside what it runs."""
    return [_default_call(name, passes, core) for name in catalogue.names()]


def _default_call(name: str, passes: int, core: int) -> DefaultCall:
    problem = load_problem(f"catalogue:{name}").estimation
    robot, layout, rng = problem.robot, problem.layout, np.random.default_rng(0)
    q, qd = robot.random_configuration(0), rng.uniform(-1, 1, robot.nv)
    known = layout.constants
    y = np.where(np.isnan(known), rng.uniform(-1, 1, len(known)), known)
    named = {k: v for k, v in layout.unpack(y).items() if layout[k].constant(1) is None}
    general = replace(problem, backend=general_backend())
    works: list[Callable[[], object]] = [
        lambda: problem.solve(q, qd, y).torque.array,
        lambda: problem.solve(q, qd, named).torque.array,
        lambda: general.solve(q, qd, y).torque.array,
    ]
    with suppress(KernelBuildError):
        kernel = problem.compile(outputs=("torque",))
        works.append(lambda: kernel.one(q, qd, y))
    for _ in range(PATIENCE + 1):  # until its matrices are filled by machine code
        expected = general.solve(q, qd, y).torque.array
    missed = np.abs(problem.solve(q, qd, y).torque.array - expected)

    def repeated(work: Callable[[], object]) -> Callable[[int], None]:
        def run(repeats: int) -> None:
            for _ in range(repeats):
                work()

        return run

    contenders = [
        Contender("", name, "python", 1, repeated(work), lambda: np.zeros(0)) for work in works
    ]
    with pinned([core]):
        timed = measure(contenders, passes, 5e-3)
    call, by_name, slow, *of_kernel = (median / 1e3 for median, _ in timed)
    return DefaultCall(
        name,
        layout.size,
        str(problem.solve(q, qd, y).method),
        call,
        by_name,
        of_kernel[0] if of_kernel else None,
        slow,
        float(np.nanmax(missed, initial=0.0) / np.nanmax(np.abs(expected), initial=1.0)),
    )


def _show_calls(calls: Sequence[DefaultCall]) -> None:
    columns = ("layout", "rows", "by", "est.solve us", "by name us", "kernel.one us")
    rows = [
        (
            c.name,
            str(c.rows),
            c.method,
            number(c.call_us),
            number(c.named_us),
            "-" if c.kernel_us is None else number(c.kernel_us),
            number(c.general_us),
            number(c.error, 2),
        )
        for c in calls
    ]
    rest = ("general path us", "error")
    show_table((*columns, *rest), rows, right=(columns[1], *columns[3:], *rest))


def _show(found: Sequence[Comparison]) -> None:
    times = ("peer us", "peer error", "est.solve us", "kernel.one us", "batch us", "error")
    columns = ("question", "peer", *times)
    rows = [
        (
            c.task,
            c.peer,
            number(c.peer_us),
            number(c.peer_error, 2),
            number(c.one_us),
            number(c.kernel_us),
            number(c.batch_us),
            number(c.error, 2),
            f"{c.ratios[0]:.0f} (bar {BARS[c.task][0]})",
            f"{c.ratios[1]:.0f} (bar {BARS[c.task][1]})",
        )
        for c in found
    ]
    ratios = ("times faster, one", "times faster, batch")
    show_table((*columns, *ratios), rows, right=(*columns[2:], *ratios))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; 0 if every bar is cleared."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", choices=list(ROBOTS), default="icub_reduced")
    parser.add_argument("--quick", action="store_true", help="fewer passes")
    parser.add_argument("--json", type=Path, help="write the numbers there")
    options = parser.parse_args(arguments)
    passes, core = 7 if options.quick else 41, max(cores())
    found = compare(options.robot, passes, core)
    _show(found)
    calls = default_calls(passes, core)
    _show_calls(calls)
    if options.json:
        kept = {"peers": [asdict(c) for c in found], "catalogue": [asdict(c) for c in calls]}
        write_json(options.json, kept)
    return 0 if all(c.passes for c in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
