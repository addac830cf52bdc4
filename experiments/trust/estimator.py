"""The readable estimator against Newton, Euler and singular values: layouts of any rank.

    python -m experiments.trust.estimator [--count 1000] [--own 400] [--jobs 1] [--json FILE]
                                          [--backend dense]

Layouts of the consistency campaign (:mod:`experiments.trust.consistency.cases`), and as many
of its own as ``--own`` says: random trees with every kind of joint, rotors, friction, a
force/torque sensor within a body, sensors of every kind in any number, exact ones among them,
correlated noise, covariances without full rank, beliefs, missing readings. Each is solved at a
random state and compared with :mod:`experiments.trust.newton_euler`, which shares no code with
the library: values, deviations, what is determined, chi-square, degrees of freedom,
contradictions. (The consistency campaign compares all backends, with equations as the library
assembles them.) FILE has a line for each layout. Exit status 1 if one differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, final

import numpy as np
from rich.console import Console
from rich.progress import track

import dynsys
import problems
import sensors
from dynsys.errors import ContradictionError
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import Frame, KinematicTree, Weld
from dynsys.types import Array
from experiments.trust.consistency import cases
from experiments.trust.newton_euler import World, covariance, minimum, prior_rows, reading
from sensors.sensor import AbstractSensor

__all__ = ["OWN", "Outcome", "Rows", "case_of", "compared", "main", "rows_of"]

OWN = "every sensor"
"""The kind of the layouts drawn here."""
KINDS = ("torque", "qdd", "acceleration", "joint_wrench", "external_wrench")
CONTRADICTS = 1e-8
LIMIT = 1e-11
"""Part of the largest number of a quantity that rounding may move, where rows see everything
evenly and are met; where they see s of the most, in so many parts of s, and as often as the
residual has deviations."""


@final
@dataclass(frozen=True)
class Outcome:
    """What became of a layout.

    ``error`` is the largest difference of a value or deviation, in parts of the largest of its
    quantity (or of one); ``even`` tells how evenly rows see; ``numbers`` and ``open`` count the
    quantities compared; ``differences`` says what differs.
    """

    kind: str
    number: int
    status: str
    error: float = 0.0
    even: float = 1.0
    numbers: int = 0
    open: int = 0
    differences: tuple[str, ...] = ()


# ---- what the oracle says of a layout --------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """All that is read or believed: rows on (z, 1), numbers y and their covariance."""

    rows: Array
    y: Array
    covariance: Array


def rows_of(estimation: problems.Estimation, world: World, y: Array | None = None) -> Rows:
    """Readings, zero if None, then beliefs."""
    parts = {sensor.name: reading(sensor, world) for sensor in estimation.layout.sensors}
    seen = np.vstack(list(parts.values()))
    believed, mean, std = prior_rows(estimation.measured.prior, world)
    noise = np.zeros((len(seen) + len(mean),) * 2)
    sizes = {name: len(rows) for name, rows in parts.items()}
    noise[: len(seen), : len(seen)] = covariance(estimation.layout, sizes)
    noise[len(seen) :, len(seen) :] = np.diag(std**2)
    y = np.zeros(len(seen)) if y is None else y
    return Rows(np.vstack([seen, believed]), np.concatenate([y, mean]), noise)


def compared(task: tuple[str, int], backend: str = "dense") -> Outcome:
    """Compare the estimate of one layout."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = case_of(task)
        world = World(case.estimation.robot, case.q, case.qd)
        told = rows_of(case.estimation, world, case.y)
        there = ~np.isnan(told.y)
        noise = told.covariance[np.ix_(there, there)]
        truth = minimum(told.rows[there], told.y[there], noise)
        if truth.doubtful:
            return Outcome(*task, "doubtful", even=truth.even)
        contradicts = truth.contradiction > CONTRADICTS
        given: Any = replace(case.estimation, backend=backend)  # type: ignore[arg-type]
        try:
            e = given.solve(case.q, case.qd, case.y)
            _ = e.torque.array
        except ContradictionError as raised:
            differences = () if contradicts else (str(raised),)
            return Outcome(*task, "contradicts", even=truth.even, differences=differences)
        if contradicts:
            return Outcome(*task, "contradicts", differences=("it is not told",))
    found: list[str] = []
    if e.degrees_of_freedom != truth.degrees_of_freedom:
        found.append(f"degrees of freedom {e.degrees_of_freedom}")
    limit = LIMIT / truth.even * (1.0 + truth.chi_square**0.5)
    numbers = unknown = 0
    error = 0.0
    if abs(e.chi_square - truth.chi_square) > limit * (1.0 + truth.chi_square):
        found.append(f"chi-square {e.chi_square}, not {truth.chi_square}")
    for kind in KINDS:
        T = world.quantity(kind)
        known = truth.determined(T)
        numbers, unknown = numbers + len(known), unknown + int((~known).sum())
        if (np.ravel(e.determined[kind].array) != known).any():
            found.append(f"{kind}: something else is determined")
            continue
        values = T[:, :-1] @ truth.z + T[:, -1]
        deviations = np.linalg.norm(T[:, :-1] @ truth.deviation, axis=1)
        for theirs, ours in ((e.values, values), (e.std, deviations)):
            off = np.abs(np.ravel(theirs[kind].array) - ours)[known]
            largest = np.abs(ours[known]).max(initial=1.0)
            error = max(error, float(off.max(initial=0.0) / largest))
    if not error <= limit:
        found.append(f"values or deviations are off by {error:.1e}")
    status = "open" if unknown else "determined"
    return Outcome(*task, status, error, truth.even, numbers, unknown, tuple(found))


# ---- layouts of sensors of every kind --------------------------------------------------------


def case_of(task: tuple[str, int]) -> cases.Case:
    """The layout of a task."""
    kind, k = task
    return _drawn(k) if kind == OWN else cases.case_of(task)


def _drawn(k: int) -> cases.Case:
    rng = np.random.default_rng([77, k])
    robot = _robot(rng, 2 + k % 6, k)
    some = _sensors(robot, rng)
    layout = sensors.Layout(robot, some, _correlations(some, rng))
    believed = problems.Prior({"external_wrench": 10.0, "qdd": 5.0}, {"qdd": 0.3})
    estimation = problems.Estimation(robot, layout, believed if rng.random() < 0.2 else None)
    q, qd = robot.random_configuration(rng), rng.normal(size=robot.nv)
    told = rows_of(estimation, World(robot, q, qd))
    size = layout.size
    # a motion that meets all statements, as well as they can be met
    B, b, stated = told.rows[:size, :-1], told.rows[:size, -1], ~np.isnan(layout.constants)
    z = np.asarray(rng.normal(size=B.shape[1]))
    left = (layout.constants - b)[stated] - B[stated] @ z
    z = np.asarray(z + np.linalg.lstsq(B[stated], left, rcond=1e-11)[0])
    values, axes = np.linalg.eigh(told.covariance[:size, :size])
    stds = np.sqrt(np.where(values > 1e-12 * values.max(initial=0.0), values, 0.0))
    noise = axes @ (stds * rng.normal(size=size))
    y = np.where(stated, layout.constants, B @ z + b + noise)
    if rng.random() < 0.4:
        y[rng.random(size) < 0.15] = np.nan
    return cases.Case(OWN, robot.name, estimation, q, qd, y)


def _robot(rng: np.random.Generator, n: int, seed: int) -> KinematicTree:
    """Random tree with rotors, friction, frames, and a fixed joint within its first body."""
    tree = dynsys.synthetic.random_tree(n, seed)
    bodies = [
        replace(
            body,
            armature=rng.uniform(0, 0.2, body.joint.nv),
            damping=rng.uniform(0, 0.5, body.joint.nv),
            friction=rng.uniform(0, 0.5, body.joint.nv),
        )
        for body in tree.bodies
    ]
    side = Transform(cases.FLIPS[int(rng.integers(24))], rng.uniform(-0.2, 0.2, 3))
    names = {"tool": Frame(n - 1, side), "sole": Frame(0, side), "wall": Frame(-1, side)}
    part = Inertia(0.1, rng.uniform(-0.1, 0.1, 3), 0.001 * np.eye(3))
    children = tuple(int(j) for j in np.flatnonzero(tree.parent == 0))
    weld = Weld("seam", "plate", 0, side, Transform.identity(), part, children)
    gravity = (1.0, -2.0, -9.0)
    welds = {"seam": weld, "plate": weld}
    robot = KinematicTree(f"tree {seed}", bodies, names, gravity, welds=welds)
    return robot.with_friction() if rng.random() < 0.5 else robot


def _sensors(robot: KinematicTree, rng: np.random.Generator) -> list[AbstractSensor]:
    """Statements of most bodies, and any number of sensors of every kind."""
    joints = [n for n, b in zip(robot.joint_names, robot.bodies, strict=True) if b.joint.nv]
    frames = [*robot.body_names, "tool", "sole"]
    has_friction = robot.joint_friction is not None

    def pose() -> dict[str, Any]:
        xyz, rpy = rng.uniform(-0.3, 0.3, 3), rng.uniform(-1.5, 1.5, 3)
        return {"xyz": tuple(xyz.tolist()), "rpy": tuple(rpy.tolist())}

    def some(words: Sequence[str]) -> tuple[str, ...]:
        chosen = rng.random(len(words)) < 0.6
        return tuple(w for w, c in zip(words, chosen, strict=True) if c) or (words[-1],)

    def any_of(words: Sequence[Any]) -> Any:
        return words[int(rng.integers(len(words)))]

    def sensor(name: str, std: dict[str, Any]) -> AbstractSensor | None:
        frame, joint, at = any_of(frames), any_of(joints), pose()
        axes = any_of(["frame", "world", "wall"])
        motions = some(("rx", "ry", "rz", "x", "y", "z"))
        pair = {"frame_a": any_of(["wall", robot.body_names[-1]]), "frame_b": "sole"}
        match int(rng.integers(18)):
            case 0:
                return sensors.JointTorque(name, joint, **std)
            case 1:
                return sensors.JointAcceleration(name, joint, **std)
            case 2:
                loss: dict[str, Any] = {"viscous": 0.1, "coulomb": 0.2}
                loss = {} if has_friction else loss
                return sensors.MotorTorque(name, joint, 50.0, rotor_inertia=1e-4, **loss, **std)
            case 3:
                return sensors.MotorAcceleration(name, joint, -3.0, **std)
            case 4:
                kinds = {robot.bodies[robot.joint_index(j)].joint.nv: j for j in joints}
                other = kinds[robot.bodies[robot.joint_index(joint)].joint.nv]
                return (
                    sensors.MimicConstraint(name, joint, other, -2.0)
                    if other != joint
                    else None
                )
            case 5:
                return sensors.Accelerometer(name, frame, **at, **std)
            case 6:
                if rng.random() < 0.3:
                    return sensors.Gyroscope(name, frame, **at, **std)
                return sensors.AngularAccelerometer(name, frame, **at, **std)
            case 7:
                return sensors.Imu(name, frame, angular=bool(rng.random() < 0.5), **at, **std)
            case 8 | 9:
                where = any_of([joint, "seam"])
                side = any_of(["on_child", "on_parent"])
                cut: dict[str, Any] = {"external": "beyond"} if where == "seam" else {}
                of = some(("tx", "ty", "tz", "fx", "fy", "fz"))
                return sensors.ForceTorque(name, where, of, measures=side, **cut, **at, **std)
            case 10:
                of = some(("tx", "ty", "tz", "fx", "fy", "fz"))
                return sensors.ExternalWrench(name, frame, of, **at, axes=axes, **std)
            case 11:
                return sensors.LoadCellPlate(name, frame, **at, axes=axes, **_covariance(rng))
            case 12:
                return sensors.FiveAxisPlate(name, frame, **at, axes=axes, **std)
            case 13:
                return sensors.ForceAlongDirection(name, frame, (1.0, 2.0, 3.0), axes=axes)
            case 14:
                told = any_of(["frame", "world"])
                return sensors.RigidContact(
                    name, frame, at["xyz"], "pose", motions, told, **std
                )
            case 15:
                told = any_of(["a", "b", "world"])
                if pair["frame_a"] == robot.body_names[0]:
                    return None
                return sensors.LoopClosure(name, **pair, components=motions, axes=told, **std)
            case 16:
                if robot.n_bodies == 1 or rng.random() < 0.5:
                    return sensors.CentroidalMomentumRate(name, any_of([-1, frame]), **std)
                return sensors.ActionReaction(name, "tool", "sole")
            case _:
                rows = {"torque": {joint: 1.0}} if _single(robot, joint) else {}
                push = rng.normal(size=(1, 6)).tolist()
                coefficients = {"net_wrench": {frame: push}, **rows}
                return sensors.LinearMeasurement(name, coefficients, bias=0.3, **std)

    found: list[AbstractSensor] = []
    for body in robot.body_names[1:]:
        if rng.random() < 0.75:
            found.append(sensors.ExternalWrench(f"{body} free", body, value=0.0))
    found += [
        sensors.PureForce("felt", "sole"),
        sensors.CentreOfMassAcceleration("com", std=1.0),
    ]
    for k in range(2 + int(rng.integers(3 * robot.n_bodies))):
        std = 0.0 if rng.random() < 0.25 else float(10 ** rng.uniform(-2, 0))
        one = sensor(f"sensor {k}", {"std": std})
        found += [] if one is None else [one]
    return found


def _single(robot: KinematicTree, joint: str) -> bool:
    return robot.bodies[robot.joint_index(joint)].joint.nv == 1


def _covariance(rng: np.random.Generator) -> dict[str, Any]:
    """Noise of two or four load cells under a plate: two leave one sum without noise."""
    cells = rng.uniform(-0.2, 0.2, (int(rng.choice([2, 4])), 2))
    M = sensors.load_cell_sums(cells.tolist())
    return {"covariance": 0.3**2 * M @ M.T}


def _correlations(
    some: Sequence[AbstractSensor], rng: np.random.Generator
) -> list[tuple[str, str, Any]]:
    """Noise that two sensors share: part of it, or all, and a row without noise is left."""
    one_row = [
        sensor
        for sensor in some
        if isinstance(sensor, sensors.LinearMeasurement)
        and sensor.std
        and sensor.name != "felt"
    ]
    if len(one_row) < 2:
        return []
    stds = [float(np.asarray(sensor.std)) for sensor in one_row[:2]]
    share = float(rng.choice([0.6, 1.0])) * stds[0] * stds[1]
    return [(one_row[0].name, one_row[1].name, [[share]])]


# ---- the study -------------------------------------------------------------------------------


def tasks(count: int, own: int) -> list[tuple[str, int]]:
    """So many layouts of the consistency campaign, and so many of this one."""
    return [*(cases.tasks(count) if count else []), *((OWN, k) for k in range(own))]


def _outcomes(jobs: int, some: Sequence[tuple[str, int]], backend: str) -> Iterator[Outcome]:
    one = partial(compared, backend=backend)
    if jobs == 1:
        yield from map(one, some)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        yield from pool.map(one, some, chunksize=4)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--own", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--backend", default="dense")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    some = tasks(options.count, options.own)
    found = list(
        track(_outcomes(options.jobs, some, options.backend), "layouts", total=len(some))
    )
    if options.json:
        text = "".join(json.dumps(asdict(one)) + "\n" for one in found)
        options.json.write_text(text, encoding="utf-8")
    console = Console()
    for kind in dict.fromkeys(one.kind for one in found):
        of_kind = [one for one in found if one.kind == kind]
        counts = ", ".join(f"{n} {s}" for s, n in Counter(o.status for o in of_kind).items())
        numbers, unknown = sum(o.numbers for o in of_kind), sum(o.open for o in of_kind)
        worst = max(o.error for o in of_kind)
        console.print(
            f"{kind}: {counts}; {numbers} numbers, {unknown} open; off by {worst:.1e}"
        )
    for one in found:
        for text in one.differences:
            console.print(f"{one.kind} {one.number}: {text}")
    return int(any(one.differences for one in found))


if __name__ == "__main__":
    sys.exit(main())
