"""The log bundled for ``dynsys demo``: a humanoid bends its knees while its hand is pushed.

    y = Y d + b + noise,    d from inverse dynamics of the motion and the wrenches below

Both feet carry the weight (the least wrenches that hold the free base); a push of 40 N, half
a second long, meets the right hand. ``python -m problems.command.demo_log`` writes the file
again: the numbers are a function of this module, the bundled problem and the seed alone.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np

from dynsys.model.tree import KinematicTree
from dynsys.recursive import rnea
from dynsys.recursive.jacobian import jacobian
from dynsys.types import Array
from problems.logs.simulate import Trajectory
from problems.measured.simulated_readings import TrueReadings
from problems.problem_file import ProblemFile, load_problem

__all__ = ["bundled", "demo_log", "demo_problem"]

SECONDS, RATE, SEED = 4.0, 100.0, 7
THIGH = SHANK = 0.38
PUSH = (0.0, 0.0, 0.0, -30.0, 20.0, -17.0)
"""Wrench (tx ty tz fx fy fz) on the right hand at its height, N m and N, hand coordinates."""
FEET, PUSHED = ("l_foot", "r_foot"), "r_hand"
LEAST = np.tile([10.0, 10.0, 10.0, 100.0, 100.0, 100.0], 2)
"""Sizes (N m, N) in which the wrenches on the feet are as small as possible."""


def bundled(name: str) -> Path:
    """Path of a file that comes with the package."""
    return Path(str(resources.files("problems") / "data" / name))


def demo_problem() -> ProblemFile:
    """Humanoid with force/torque sensors, inertial units, torque sensors and encoders."""
    return load_problem(bundled("humanoid.yaml"))


def demo_log(problem: ProblemFile) -> dict[str, Array]:
    """Arrays of the log by name: time, q, qd, readings, and the truth."""
    robot, layout = problem.tree, problem.sensors
    time = np.arange(round(SECONDS * RATE)) / RATE
    q, qd, qdd = Trajectory.through(robot, time, _positions(robot, time)).at(time)
    f_ext = _wrenches(robot, time, q, qd, qdd)
    torque, y = TrueReadings(layout).at(q, qd, qdd, f_ext)
    rng = np.random.default_rng(SEED)
    std = np.sqrt(layout.covariance().diagonal())
    y = y + std * rng.normal(size=y.shape)
    content = {"time": time, "q": q, "qd": qd}
    for sensor in layout:
        if sensor.constant(1) is None:
            content[sensor.name] = y[:, layout.slice(sensor.name)].astype(np.float32)
    content |= {"truth.torque": torque.astype(np.float32)}
    content |= {"truth.qdd": qdd.astype(np.float32)}
    for body in (*FEET, "l_hand", PUSHED):
        wrench = f_ext[:, robot.body_index(body)]
        content[f"truth.external_wrench.{body}"] = wrench.astype(np.float32)
    return content


def _positions(robot: KinematicTree, time: Array) -> Array:
    """Positions (N, nq): two knee bends, weight shifted, arms swinging, a look around."""
    q = np.tile(robot.neutral(), (len(time), 1))
    phase = 2 * np.pi * time / SECONDS
    knee = 0.25 + 0.45 * (1 - np.cos(2 * phase))
    hip = -np.arctan2(SHANK * np.sin(knee), THIGH + SHANK * np.cos(knee))
    lean = 0.09 * np.sin(phase)
    angles = {
        "hip_pitch": hip,
        "knee": knee,
        "ankle_pitch": -(hip + knee),
        "hip_roll": lean,
        "ankle_roll": -lean,
        "elbow": -0.7 + 0.3 * np.cos(phase),
    }
    for name, angle in angles.items():
        for side in ("l", "r"):
            _put(robot, q, f"{side}_{name}", angle)
    for side, sign in (("l", 1.0), ("r", -1.0)):
        swing = 0.45 * np.sin(2 * phase)
        _put(robot, q, f"{side}_shoulder_pitch", -0.35 + sign * swing)
        _put(robot, q, f"{side}_shoulder_roll", sign * (0.25 + 0.1 * np.sin(phase)))
    _put(robot, q, "waist_yaw", 0.15 * np.sin(phase))
    _put(robot, q, "waist_pitch", 0.12 * (1 - np.cos(2 * phase)))
    _put(robot, q, "neck_yaw", 0.5 * np.sin(phase))
    leg = THIGH * np.cos(hip) + SHANK * np.cos(hip + knee)
    q[:, robot.q_slice("root").start + 1] = -leg * np.sin(lean)
    q[:, robot.q_slice("root").start + 2] = leg * np.cos(lean)
    return q


def _put(robot: KinematicTree, q: Array, joint: str, angle: Array) -> None:
    """Angle of a joint, kept within its limits."""
    where = robot.q_slice(joint)
    lower, upper = (bound[where] for bound in robot.position_limits)
    q[:, where] = np.clip(angle[:, None], lower, upper)


def _wrenches(robot: KinematicTree, time: Array, q: Array, qd: Array, qdd: Array) -> Array:
    """External wrenches (N, n_bodies, 6): the push, and feet that leave the base untouched.

    tau_root - J_root^T f = 0, split between the feet by the least squares of f / LEAST
    """
    f_ext = np.zeros((len(time), robot.n_bodies, 6))
    height = np.exp(-(((time - 2.4) / 0.28) ** 2))
    f_ext[:, robot.body_index(PUSHED)] = height[:, None] * np.array(PUSH)
    base = robot.v_slice("root")
    for k in range(len(time)):
        missing = rnea(robot, q[k], qd[k], qdd[k], f_ext[k])[base]
        J = np.vstack([jacobian(robot, q[k], foot)[:, base] for foot in FEET])
        least, *_ = np.linalg.lstsq((LEAST[:, None] * J).T, missing, rcond=None)
        for foot, wrench in zip(FEET, (LEAST * least).reshape(2, 6), strict=True):
            f_ext[k, robot.body_index(foot)] = wrench
    return f_ext


if __name__ == "__main__":
    np.savez_compressed(bundled("humanoid_log.npz"), **demo_log(demo_problem()))  # type: ignore[arg-type]
