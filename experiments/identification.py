"""Identification measured: regressors, ranks, deviations that hold, real robots, speed.

    python -m experiments.identification                           all of it, some minutes
    python -m experiments.identification --only ranks deviations --json FILE
    python -m experiments.identification --data ../shared/data     the real logs too

regressor    joint torques beside pin.computeJointTorqueRegressor: error and time, by robot;
             what it takes to write as many numbers to the same memory
ranks        what 50 random trees with random layouts see, beside a dense SVD of blocks that
             are carried from the tips to the root
deviations   200 simulated logs, noise white and correlated in time: errors within 2 deviations
real         bags of a UR10 and a Panda: fit on the first half, rms per joint on the second,
             95 % bands; seconds of the command
design       the worst expected deviation of a designed motion beside random ones
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dynsys
import sensors
from dynsys.interop import PinocchioMap, from_pinocchio
from dynsys.model.parameters import BODY_PARAMETERS, inertial_values
from dynsys.model.spatial import cross_force, cross_motion, skew
from dynsys.model.tree import KinematicTree
from dynsys.recursive.kinematics import transforms
from dynsys.types import Array
from experiments.example_robots import ROBOTS, pinocchio_model_of, robot_path
from problems import Identification
from problems.identification.excitation import design
from problems.identification.physical import pseudo_inertia
from problems.identification.seen import generic_states
from problems.logs.simulate import Trajectory
from problems.terminal import progress, show_line, show_table
from sensors import Layout

__all__ = [
    "carried_up",
    "changed",
    "correlated",
    "dense_rank",
    "main",
    "mixed_layout",
    "motion",
    "regressor_error",
    "torque_layout",
]

THEIR_ORDER = [0, 1, 2, 3, 4, 5, 7, 6, 8, 9]
"""Ixx Ixy Iyy Ixz Iyz Izz of Pinocchio in our order Ixx Ixy Ixz Iyy Iyz Izz."""
TIMED = ("ur10_robot.urdf", "panda.urdf", "solo12.urdf", "anymal.urdf", "talos_full_v2.urdf")
LOGS = {
    "ur10": ("ur_description/urdf/ur10_robot.urdf", "ur10_bags", 10.0, ""),
    "panda": ("panda_description/urdf/panda.urdf", "panda_bag", 5.0, "fer"),
}
REFERENCE = {
    "ur10": [3.71, 3.03, 1.95, 0.89, 0.48, 1.80],
    "panda": [0.32, 0.82, 0.97, 0.27, 0.12, 0.08, 0.07],
}
"""Least squares by others, rms on the second half, N m."""


# ---- robots, layouts, logs ------------------------------------------------------------------


def torque_layout(robot: KinematicTree, std: float = 0.1) -> Layout:
    """A torque sensor at every joint."""
    return Layout(robot, sensors.all_joint_torques(robot, std=std))


def mixed_layout(robot: KinematicTree, seed: int, contact: bool = False) -> Layout:
    """Some torques, some force/torque sensors, an inertial unit; perhaps a touched body."""
    rng = np.random.default_rng(seed)
    joints = [n for n, b in zip(robot.joint_names, robot.bodies, strict=True) if b.joint.nv]
    some = [n for n in joints if rng.random() < 0.6] or joints[:1]
    found: list[sensors.AbstractSensor] = [
        sensors.JointTorque(f"torque {n}", n, std=0.1) for n in some
    ]
    for n in rng.permutation(robot.joint_names)[:2]:
        found.append(sensors.ForceTorque(f"ft {n}", str(n), std=[0.1, 1.0]))
    found.append(sensors.Imu("imu", robot.body_names[-1], std=0.1))
    if contact:
        last = robot.body_names[-1]
        found.append(sensors.ExternalWrench("sole", last, components=("tx", "fz"), std=0.5))
    return Layout(robot, found)


def changed(robot: KinematicTree, seed: int, size: float = 0.3) -> KinematicTree:
    """The same robot with other inertias, friction, rotors and offsets."""
    rng = np.random.default_rng(seed)
    values: dict[str, float] = {}
    for i, body in enumerate(robot.bodies):
        ten = inertial_values(body.inertia) * float(np.exp(size * rng.normal()))
        for kind, x in zip(BODY_PARAMETERS, ten, strict=True):
            values[f"{body.name}.{kind}"] = float(x)
        if robot.joints[i].nv == 1 and body.coupling is None:
            joint = robot.joint_names[i]
            values[f"{joint}.viscous"] = rng.uniform(0.2, 1.0)
            values[f"{joint}.coulomb"] = rng.uniform(0.2, 1.0)
            values[f"{joint}.armature"] = rng.uniform(0.01, 0.05)
            values[f"{joint}.offset"] = 0.3 * rng.normal()
    return robot.with_parameters(values)


def motion(
    robot: KinematicTree, span: float, rate: float, seed: int
) -> tuple[Array, Array, Array]:
    """A smooth random motion of so many seconds: q, qd, qdd, a row for each sample."""
    times = np.arange(round(span * rate)) / rate
    return Trajectory.random(robot, span, seed=seed).at(times)


def correlated(rng: np.random.Generator, shape: tuple[int, int], memory: float) -> Array:
    """Noise of unit deviation whose correlation falls by ``memory`` from sample to sample."""
    noise = rng.normal(size=shape)
    out = np.empty(shape)
    out[0] = noise[0]
    for t in range(1, len(out)):
        out[t] = memory * out[t - 1] + np.sqrt(1 - memory**2) * noise[t]
    return out


# ---- regressor ------------------------------------------------------------------------------


def _torques(path: str, floating: bool) -> tuple[Identification, Any]:
    """Joint torques on the inertias of a robot, and the same robot in Pinocchio."""
    model = pinocchio_model_of(robot_path(path), floating)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = from_pinocchio(model)
    own = [n for n, b in zip(robot.joint_names, robot.bodies, strict=True) if b.joint.nv]
    layout = Layout(robot, [sensors.JointTorque(f"t {n}", n, std=1.0) for n in own])
    ident = Identification(robot, layout, friction=False, rotor=False, offset=False)
    return ident, model


def regressor_error(path: str, floating: bool, states: int = 3) -> float:
    """Largest difference of the joint torque regressor to Pinocchio's, by its largest entry."""
    import pinocchio as pin

    ident, model = _torques(path, floating)
    robot, names, worst = ident.robot, [str(n) for n in model.names], 0.0
    pairs = PinocchioMap(robot, model)
    change = pairs.v_to_pin(
        np.eye(robot.nv)
    )  # rows: v_theirs of unit v; torque = change theirs
    rng = np.random.default_rng(5)
    for _ in range(states):
        q, (qd, qdd) = robot.random_configuration(rng), rng.normal(size=(2, robot.nv))
        given = pairs.q_to_pin(q), pairs.v_to_pin(qd), pairs.v_to_pin(qdd)
        theirs = change @ pin.computeJointTorqueRegressor(model, model.createData(), *given)
        ours = ident.sought.regressor.at(q, qd, qdd).theta
        for i, joint in enumerate(robot.joint_names):
            k = 10 * (names.index("root_joint" if joint == "root" else joint) - 1)
            off = ours[:, 10 * i : 10 * i + 10] - theirs[:, k : k + 10][:, THEIR_ORDER]
            worst = max(worst, float(np.abs(off).max() / max(1.0, np.abs(theirs).max())))
    return worst


def _best(call: Callable[[], object], count: int, repeats: int = 40) -> float:
    """Shortest time of a call, microseconds."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter() - start) / count)
    return 1e6 * best


def _fill(arrays: Sequence[Array]) -> None:
    for array in arrays:
        array.fill(1.0)


def _regressor_time(path: str, floating: bool) -> dict[str, float]:
    """Microseconds of Pinocchio's call, of the kernel's, and of a state in a batch.

    And of writing the numbers of a state to the same memory, whatever they are: no batch takes
    less.
    """
    import pinocchio as pin

    ident, model = _torques(path, floating)
    robot, kernel = ident.robot, ident.sought.regressor.kernel
    n, rng = 256, np.random.default_rng(0)
    q = np.array([robot.random_configuration(rng) for _ in range(n)])
    qd, qdd = rng.normal(size=(2, n, robot.nv))
    one = [np.empty(size) for _, size in kernel.signature.outputs]
    many = [np.empty((n, size)) for _, size in kernel.signature.outputs]
    data, pairs = model.createData(), PinocchioMap(robot, model)
    given = pairs.q_to_pin(q[0]), pairs.v_to_pin(qd[0]), pairs.v_to_pin(qdd[0])
    return {
        "pinocchio": _best(lambda: pin.computeJointTorqueRegressor(model, data, *given), 100),
        "one": _best(lambda: kernel.one(q[0], qd[0], qdd[0], out=one), 100),
        "batch": _best(lambda: kernel.batch(q, qd, qdd, out=many), 4) / n,
        "write": _best(lambda: _fill(many), 4) / n,
        "bytes": sum(x.nbytes for x in many) / n,
    }


def regressor() -> list[dict[str, Any]]:
    """All robots beside Pinocchio."""
    rows = []
    for path, floating in progress(ROBOTS, "regressor"):
        row: dict[str, Any] = {
            "robot": Path(path).stem,
            "error": regressor_error(path, floating),
        }
        if Path(path).name in TIMED:
            row |= _regressor_time(path, floating)
        rows.append(row)
    show_table(
        ("robot", "error", "pinocchio us", "one us", "times", "batch us", "times ", "write us"),
        [
            (
                r["robot"],
                f"{r['error']:.1e}",
                *(
                    (
                        f"{r['pinocchio']:.2f}",
                        f"{r['one']:.2f}",
                        f"{r['pinocchio'] / r['one']:.1f}",
                        f"{r['batch']:.3f}",
                        f"{r['pinocchio'] / r['batch']:.1f}",
                        f"{r['write']:.3f}",
                    )
                    if "one" in r
                    else ("",) * 6
                ),
            )
            for r in rows
        ],
    )
    return rows


# ---- ranks ----------------------------------------------------------------------------------


def carried_up(robot: KinematicTree, q: Array, qd: Array, qdd: Array) -> Array:
    """Joint wrenches (n_bodies, 6, 10 n_bodies) by unit parameter: blocks carried tip to root.

    The slow twin of the regressor, which carries rows from root to tip.
    """
    n, X = robot.n_bodies, transforms(robot, q)
    a: list[Array] = []
    v: list[Array] = []
    F = np.zeros((n, 6, 10 * n))
    gravity = np.concatenate([np.zeros(3), -robot.gravity])
    for i, (parent, where) in enumerate(zip(robot.parent, robot.v_slices(), strict=True)):
        S = robot.motion_subspace[i]
        v.append(X[i].motion(np.zeros(6) if parent < 0 else v[parent]) + S @ qd[where])
        a.append(X[i].motion(gravity if parent < 0 else a[parent]) + S @ qdd[where])
        a[i] = a[i] + cross_motion(v[i], S @ qd[where])
        for k in range(10):
            M = _spatial_inertia(np.eye(10)[k])
            F[i, :, 10 * i + k] = M @ a[i] + cross_force(v[i], M @ v[i])
    for i in reversed(range(n)):
        if robot.parent[i] >= 0:
            F[robot.parent[i]] += X[i].matrix().T @ F[i]
    return F


def _spatial_inertia(ten: Array) -> Array:
    """The 6 x 6 matrix that is linear in the ten parameters of a body."""
    h, about = skew(ten[1:4]), np.zeros((3, 3))
    about[np.triu_indices(3)] = ten[4:]
    about = about + np.triu(about, 1).T
    return np.block([[about, h], [h.T, ten[0] * np.eye(3)]])


def dense_rank(layout: Layout, states: Sequence[Array]) -> int:
    """Rank of torque and force/torque rows on the inertias of all bodies, by one SVD."""
    robot, blocks = layout.robot, []
    for state in zip(*states, strict=True):
        F = carried_up(robot, *state)
        for sensor in layout.sensors:
            if isinstance(sensor, sensors.JointTorque):
                i = robot.joint_index(sensor.joint)
                blocks.append(robot.motion_subspace[i].T @ F[i])
            elif isinstance(sensor, sensors.ForceTorque):
                blocks.append(F[robot.joint_index(sensor.at)])
    A = np.concatenate(blocks)
    size = np.linalg.norm(A, axis=0)
    singular = np.linalg.svd(A[:, size > 0] / size[size > 0], compute_uv=False)
    return int((singular > 1e-10 * singular[0]).sum())


def ranks(count: int = 50) -> dict[str, Any]:
    """Random trees and layouts: rank of the verdict and of a dense SVD."""
    equal, seen = 0, []
    for seed in progress(range(count), "ranks"):
        robot = dynsys.synthetic.random_tree(2 + seed % 7, seed=seed)
        layout = mixed_layout(robot, seed)
        ident = Identification(robot, layout, friction=False, rotor=False, offset=False)
        states = generic_states(ident.sought)
        found = ident.verdict().rank
        equal += found == dense_rank(layout, (states.q, states.qd, states.qdd))
        seen.append(found / len(ident.parameters))
    show_line(f"ranks equal to a dense SVD: {equal} of {count}; seen {np.mean(seen):.0%}")
    return {"cases": count, "equal": equal}


# ---- deviations ------------------------------------------------------------------------------


def deviations(count: int = 200) -> list[dict[str, Any]]:
    """Simulated logs of 10 s at 100 Hz: how many errors are within 2 deviations."""
    rows = []
    arms = []
    for seed in range(4):
        robot = dynsys.synthetic.random_tree(4, seed=seed, joint_types=("revolute",))
        arms.append(Identification(robot, torque_layout(robot)))
    memories = (0.0, 0.8, 0.95)
    for memory in memories:
        inside = []
        for case in progress(range(-(-count // len(memories))), f"noise, memory {memory}"):
            arm = arms[case % len(arms)]
            robot, truth = arm.robot, changed(arm.robot, 1000 + case)
            states = motion(robot, 10.0, 100.0, case)
            rows_of = arm.sought.rows(*states)
            true = np.array([truth.parameters[name] for name in arm.parameters])
            y = rows_of.theta @ true + rows_of.known
            rng = np.random.default_rng([case, int(100 * memory)])
            y = y + 0.05 * y.std(axis=0) * correlated(rng, y.shape, memory)
            fit = arm.fit(*states, y)
            off = np.abs(fit.theta - true) / np.array(list(fit.std.values()))
            inside.append(off <= 2)
        share = float(np.mean(inside))
        rows.append({"memory": memory, "logs": len(inside), "within_2": share})
        show_line(
            f"noise that keeps {memory:g} of itself from sample to sample: {share:.1%} of"
            f" {np.size(inside)} parameters within 2 deviations, {len(inside)} logs"
        )
    return rows


# ---- real robots -----------------------------------------------------------------------------


def problem_text(name: str) -> str:
    """The problem file of a bag of ``../shared/data``."""
    path, _, cutoff, joints = LOGS[name]
    text = f"robot: {robot_path(path)}\n"
    if joints:
        text += "lock: {panda_finger_joint1: 0, panda_finger_joint2: 0}\n"
    text += "layout:\n  sensors:\n    - all_joint_torques: {std: 1.0}\nlog:\n"
    text += f"  differentiate: {{method: butterworth, cutoff: {cutoff}, readings: true}}\n"
    if joints:
        pairs = ", ".join(f"panda_joint{k}: {joints}_joint{k}" for k in range(1, 8))
        text += f"  joints: {{{pairs}}}\n"
    return text


def real(folder: Path) -> list[dict[str, Any]]:
    """The bags by the command, as a user runs it: held-out rms per joint."""
    rows = []
    for name, (_, bag, *_) in LOGS.items():
        with tempfile.TemporaryDirectory() as place:
            problem, found = Path(place) / f"{name}.yaml", Path(place) / "found.json"
            problem.write_text(problem_text(name))
            log = next((folder / bag).glob("*.db3"))
            command = [sys.executable, "-W", "ignore", "-m", "dynsys", "identify", str(problem)]
            command += [str(log), "--hold-out", "0.5", "--json", "-o", str(found)]
            spent, used = [], []
            for _ in range(2):  # with a kernel to compile, and without
                start, before = time.perf_counter(), _processor_time()
                answer = subprocess.run(command, capture_output=True, text=True, check=True)
                spent.append(time.perf_counter() - start)
                used.append(_processor_time() - before)
            told = json.loads(answer.stdout)
        trial = next(t for k, t in told["trials"].items() if k.startswith("held out"))
        values = {n: p["value"] for n, p in told["parameters"].items()}
        bodies = dict.fromkeys(n.rpartition(".")[0] for n in values if n.endswith(".mass"))
        least = min(
            float(np.linalg.eigvalsh(pseudo_inertia(_ten(values, body)))[0]) for body in bodies
        )
        row = {
            "robot": name,
            "model": [t["model"] for t in trial.values()],
            "held_out": [t["fit"] for t in trial.values()],
            "reference": REFERENCE[name],
            "inside_band": [t["inside_band"] for t in trial.values()],
            "rank": told["rank"],
            "least_pseudo_inertia": least,
            "seconds": spent,
            "processor_seconds": used,
        }
        rows.append(row)
        show_line(
            f"{name}: rank {told['rank']} of {len(values)}, least eigenvalue of a"
            f" pseudo-inertia {least:.1e}; the command {spent[0]:.1f} s, again {spent[1]:.1f} s"
            f" (processor {used[0]:.1f} s, {used[1]:.1f} s)"
        )
        show_table(
            ("joint", "model", "held out", "reference", "in band"),
            [
                (str(k + 1), f"{m:.2f}", f"{h:.3f}", f"{r:.2f}", f"{i:.0%}")
                for k, (m, h, r, i) in enumerate(
                    zip(
                        row["model"],
                        row["held_out"],
                        row["reference"],
                        row["inside_band"],
                        strict=True,
                    )
                )
            ],
        )
    return rows


def _processor_time() -> float:
    """Seconds of processor time that child processes have used: other work does not count."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _ten(values: dict[str, float], body: str) -> Array:
    return np.array([values[f"{body}.{kind}"] for kind in BODY_PARAMETERS])


# ---- design ----------------------------------------------------------------------------------


def designed() -> dict[str, Any]:
    """A motion of 20 s for the UR10."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = dynsys.load(robot_path(LOGS["ur10"][0]))
    found = design(Identification(robot, torque_layout(robot, std=1.0)).sought, 20.0)
    show_line(
        f"UR10, 20 s: worst base parameter {found.worst:.3g} natural sizes by data alone; 20"
        f" random motions: best {min(found.random):.3g}, median {np.median(found.random):.3g}"
    )
    return {"worst": found.worst, "random": list(found.random)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts: dict[str, Callable[[], Any]] = {
        "regressor": regressor,
        "ranks": ranks,
        "deviations": deviations,
        "design": designed,
    }
    parser.add_argument("--only", nargs="+", choices=[*parts, "real"], default=[*parts, "real"])
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="where the real logs are")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there")
    options = parser.parse_args(arguments)
    found = {name: part() for name, part in parts.items() if name in options.only}
    if "real" in options.only and options.data is not None:
        found["real"] = real(options.data)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
