"""Layouts of any rank, and states at which they are hardest: right angles.

An aligned robot has its joints along the axes of its bodies and its lengths on a grid, its
sensors are turned by right angles, its joints stand at multiples of a quarter turn: whole rows
cancel there. Layouts leave things open, state others twice, and lose some readings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

import dynsys
import problems
import sensors
from dynsys.model.body import Body
from dynsys.model.joints import JOINT_TYPES
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import KinematicTree
from dynsys.types import Array
from experiments.example_robots import load_quietly, robot_path
from experiments.trust.consistency.oracle import kinematics_at, reading_map
from experiments.trust.layouts_cases import KINDS, drawn_case, robot_named
from problems.robots import read_robot
from sensors.sensor import AbstractSensor

__all__ = ["COUNTS", "Case", "aligned_tree", "case_of", "tasks"]

COUNTS = {
    "aligned": 400,
    "aligned, drawn": 120,
    "any rank": 200,
    "drawn": 200,
    "arms": 64,
    "catalogue": 16,
}
"""Layouts of each kind; those that are drawn determine everything but for special states."""
QUARTER = np.pi / 2
FLIPS = [
    E
    for rows in ([0, 1, 2], [1, 2, 0], [2, 0, 1], [1, 0, 2], [0, 2, 1], [2, 1, 0])
    for signs in np.ndindex(2, 2, 2)
    if np.linalg.det(E := np.eye(3)[rows] * (1.0 - 2.0 * np.array(signs))) > 0
]
"""The 24 turns by right angles."""


@final
@dataclass(frozen=True, eq=False)
class Case:
    """A layout, a state, and readings (size,): NaN where there is none.

    ``aligned``: at right angles, where the exact state is meant, not its rounding.
    """

    kind: str
    name: str
    estimation: problems.Estimation
    q: Array
    qd: Array
    y: Array
    aligned: bool = False

    @property
    def rows(self) -> Array:
        """Readings, then what is believed before any."""
        return self.estimation.measured.pack(self.y, None, None)


def tasks(count: int) -> list[tuple[str, int]]:
    """So many layouts, of all kinds in proportion, as kind and number."""
    share = count / sum(COUNTS.values())
    return [(kind, k) for kind, n in COUNTS.items() for k in range(max(round(share * n), 1))]


def case_of(task: tuple[str, int]) -> Case:
    """The layout of a task."""
    kind, k = task
    rng = np.random.default_rng([list(COUNTS).index(kind), k])
    if kind == "aligned":
        robot = aligned_tree(2 + k % 4, k)
        return _measured(kind, robot, _any_sensors(robot, rng, True), rng, True)
    if kind == "aligned, drawn":
        drawn = drawn_case(KINDS[k % len(KINDS)], aligned_tree(3 + k % 3, k), k)
        straight = drawn.kind != "coupled joints"  # whose followers stand at any angle
        return _read(kind, drawn.name, drawn.estimation, rng, aligned=straight)
    if kind == "any rank":
        robot = dynsys.synthetic.random_tree(2 + k % 5, k)
        return _measured(kind, robot, _any_sensors(robot, rng, False), rng, False)
    if kind == "drawn":
        drawn = drawn_case(KINDS[k % len(KINDS)], robot_named(f"tree {k % 40}"), k)
        return _read(kind, drawn.name, drawn.estimation, rng, aligned=False)
    if kind == "arms":
        robot, some = _arm(rng)
        return _measured(kind, robot, some, rng, True)
    name = sensors.catalogue.names()[k % len(sensors.catalogue.names())]
    about = sensors.catalogue.about(name)
    model, floating = about["model"], about["floating_base"]
    is_file = model.endswith(".urdf")
    robot = (
        load_quietly(robot_path(model), floating)
        if is_file
        else read_robot(f"example:{model}", floating).robot
    )
    estimation = problems.Estimation(robot, sensors.catalogue.load(name, robot))
    return _read(kind, f"{name} {k}", estimation, rng, aligned=False)


def aligned_tree(n: int, seed: int) -> KinematicTree:
    """Random tree with axes along the axes of its bodies, any joints, lengths in quarters."""
    rng = np.random.default_rng(seed)
    bodies = []
    for i in range(n):
        parent = int(rng.integers(-1, i)) if i else -1
        kinds = [k for k in JOINT_TYPES if k != "fixed" and (k != "free" or parent < 0)]
        kind = str(rng.choice([*kinds, *["revolute"] * 4, *["prismatic"] * 2]))
        axis = np.eye(3)[int(rng.integers(3))]
        made: Any = JOINT_TYPES[kind]
        joint = made() if kind in ("spherical", "free") else made(axis)
        if kind == "helical":
            joint = made(axis, pitch=0.5 / np.pi)
        E = FLIPS[int(rng.integers(24))] if rng.random() < 0.5 else np.eye(3)
        place = Transform(E, rng.integers(-4, 5, 3) / 4.0 * (rng.random(3) < 0.5))
        com = rng.integers(-2, 3, 3) / 8.0
        inertia = Inertia(1.0 + int(rng.integers(4)), com, np.diag([1.0, 1.25, 1.5]) / 4.0)
        bodies.append(Body(f"body_{i + 1}", parent, joint, place, inertia))
    return KinematicTree(f"aligned_tree{n}_{seed}", bodies)


def _arm(rng: np.random.Generator) -> tuple[KinematicTree, list[AbstractSensor]]:
    """Two links at right angles whose tip is held at a point, its torques measured or not."""
    axes = np.eye(3)[rng.integers(3, size=4)]
    bodies = []
    for k, (name, at) in enumerate((("upper", np.zeros(3)), ("lower", axes[2]))):
        inertia = Inertia(1.0, 0.5 * axes[2 + k], np.diag([1.0, 1.25, 1.5]) / 4.0)
        joint = JOINT_TYPES["revolute"](axes[k])  # type: ignore[call-arg]
        bodies.append(Body(name, k - 1, joint, Transform(np.eye(3), at), inertia))
    robot = KinematicTree("arm", bodies)
    tip, std = tuple(axes[3].tolist()), float(rng.choice([0.0, 0.1]))
    some: list[AbstractSensor] = [
        sensors.ExternalWrench("free", "upper", value=0.0),
        sensors.PureForce("force", "lower", xyz=tip),
        sensors.RigidContact("held", "lower", xyz=tip, holds="point", std=std),
    ]
    if rng.random() < 0.5:
        some += [sensors.JointTorque(f"t {n}", n, std=std) for n in robot.joint_names]
    return robot, some


# ---- sensors ---------------------------------------------------------------------------------


def _any_sensors(
    robot: KinematicTree, rng: np.random.Generator, aligned: bool
) -> list[AbstractSensor]:
    """What is known of every body and joint, in any number."""
    found: list[AbstractSensor] = []

    def pose() -> dict[str, Any]:
        if aligned:
            xyz, rpy = rng.integers(-2, 3, 3) / 4.0, QUARTER * rng.integers(-1, 3, 3)
        else:
            xyz, rpy = rng.uniform(-0.3, 0.3, 3), rng.uniform(-1.5, 1.5, 3)
        return {"xyz": tuple(xyz.tolist()), "rpy": tuple(rpy.tolist())}

    def std() -> float:
        return 0.0 if rng.random() < 0.25 else float(10 ** rng.uniform(-2, 0))

    for name in robot.body_names:
        place = pose()
        match int(rng.choice(5, p=[0.55, 0.15, 0.1, 0.1, 0.1])):
            case 0:
                found.append(sensors.ExternalWrench(f"{name} free", name, value=0.0))
                if rng.random() < 0.15:
                    again = f"{name} again"
                    found.append(sensors.ExternalWrench(again, name, value=0.0, **place))
            case 1:
                at = place["xyz"]
                holds = str(rng.choice(["point", "pose"]))
                found.append(sensors.PureForce(f"{name} force", name, xyz=at))
                found.append(
                    sensors.RigidContact(f"{name} held", name, xyz=at, holds=holds, std=std())
                )
            case 2:
                found.append(sensors.ExternalWrench(f"{name} felt", name, **place, std=std()))
            case 3:
                found.append(sensors.LoadCellPlate(f"{name} plate", name, **place, std=std()))
        if rng.random() < 0.35:
            made: Any = (sensors.Accelerometer, sensors.Imu)[int(rng.integers(2))]
            found.append(made(f"{name} imu", name, **pose(), std=std() or 0.1))
    for name, body in zip(robot.joint_names, robot.bodies, strict=True):
        if rng.random() < 0.25:
            found.append(sensors.ForceTorque(f"{name} wrench", name, **pose(), std=std()))
        for made in (sensors.JointTorque, sensors.JointAcceleration):
            if body.joint.nv and rng.random() < 0.45:
                found.append(made(f"{name} {made.kind}", name, std=std()))
    return found


def _measured(
    kind: str,
    robot: KinematicTree,
    some: Sequence[AbstractSensor],
    rng: np.random.Generator,
    aligned: bool,
) -> Case:
    estimation = problems.Estimation(robot, sensors.Layout(robot, some))
    return _read(kind, robot.name, estimation, rng, aligned=aligned)


# ---- states and readings ---------------------------------------------------------------------


def _read(
    kind: str,
    name: str,
    estimation: problems.Estimation,
    rng: np.random.Generator,
    *,
    aligned: bool,
) -> Case:
    """Readings of a random motion that agree but for their noise; some are missing."""
    robot, measured = estimation.robot, estimation.measured
    q = _right_angles(robot, rng) if aligned else robot.random_configuration(rng)
    qd = rng.integers(-2, 3, robot.nv).astype(np.float64) * (rng.random() < 0.7)
    B, b = reading_map(measured, kinematics_at(robot, q, qd, aligned=aligned))
    constant = estimation.layout.constants
    B, b, stated = B[: len(constant)], b[: len(constant)], ~np.isnan(constant)
    # a motion that meets all statements: least change of a random one
    B = np.where(np.abs(B) > 1e-12, B, 0.0)
    z = np.asarray(rng.normal(size=B.shape[1]))
    left = (constant - b)[stated] - B[stated] @ z
    z = np.asarray(z + np.linalg.lstsq(B[stated], left, rcond=1e-11)[0])
    noise = np.sqrt(measured.variance[: len(b)]) * rng.normal(size=len(b))
    y = np.where(stated, constant, B @ z + b + noise)
    if rng.random() < 0.4:
        y[rng.random(len(y)) < 0.15] = np.nan
    return Case(kind, name, estimation, q, qd, y, aligned)


def _right_angles(robot: KinematicTree, rng: np.random.Generator) -> Array:
    """Turning joints at multiples of a quarter turn, sliding ones on the grid."""
    q = robot.neutral().copy()
    for body, where in zip(robot.bodies, robot.q_slices(), strict=True):
        slides = rng.integers(-4, 5, body.joint.nq) / 4.0
        q[where] = slides
        if body.joint.nq == body.joint.nv:
            turns = QUARTER * rng.integers(-3, 4, body.joint.nq)
            q[where] = np.where(body.joint.S[:3].any(axis=0), turns, slides)
    for where in robot.quaternion_slices:
        axis = np.eye(3)[int(rng.integers(3))]
        half = QUARTER * int(rng.integers(4)) / 2.0
        q[where] = [*(np.sin(half) * axis), np.cos(half)]
    return q
