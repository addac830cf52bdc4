"""``dynsys init``: a commented problem file for a robot, with the sensors of its model."""

from __future__ import annotations

import argparse
import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml

from dynsys.errors import LayoutError, ModelWarning
from dynsys.model.constraints import FrameConstraint
from dynsys.model.readers.xml_input import read_xml
from dynsys.model.tree import KinematicTree
from dynsys.resumable import written
from problems import terminal
from problems.command.arguments import add_flags, add_robot, robot_options
from problems.problem_file import load_problem
from problems.robots import read_robot
from problems.verdict.repairs import FEET, point_feet
from sensors import AbstractSensor, JointTorque, MotorTorque, from_mjcf, from_urdf
from sensors.files import sensor_record

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
  dynsys init arm.urdf
  dynsys init quadruped.urdf --floating-base -o walking.yaml"""

HANDS = re.compile(r"hand|tool|tcp|gripper|ee_|_ee|effector|flange", re.I)
DEVICES = re.compile(r"(^|_)(ft|imu|sensor|camera|optical)", re.I)
TOOLS = re.compile(
    r"grip_site|grasp|tcp|tool|eef|effector|flange|(^|_)ee(_link|_frame)?$", re.I
)
"""Of the frames of a hand those that mark where it holds things."""
MOST_TOUCHED = 8
"""Frames that a file proposes as places of contact at the most."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("robot", metavar="ROBOT", help="a robot file (.urdf, .xml, .xacro)")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="",
        help="default: ROBOT.yaml beside it",
    )
    add_robot(parser, "the robot stands on nothing: its root link moves freely")
    add_flags(parser, overwrite="replace the file if there is one")


def run(args: argparse.Namespace) -> int:
    """Write the file, read it back, and say what its sensors determine."""
    if not Path(args.robot).is_file():
        raise LayoutError(f"{args.robot}: no such file; init starts from a robot file")
    path = Path(args.output or Path(args.robot).with_suffix(".yaml"))
    if path.exists() and not args.overwrite:
        raise LayoutError(f"{path}: is there already; --overwrite replaces it, or name another")
    robot = read_robot(args.robot, args.floating_base, **robot_options(args)).robot
    found = _sensors_of(args.robot, robot)
    touched = _touched(robot)
    text = _content(args, path, robot, found, touched)
    with written(path, LayoutError) as part:
        part.write_text(text, encoding="utf-8")
    problem = load_problem(path)
    verdict, notes = problem.estimation.verdict(search=False), problem.notes
    if args.json:
        told = {"file": str(path), "sensors": [s.name for s in found], "touched": touched}
        terminal.show_json(told | {"verdict": verdict.to_json(), "notes": list(notes)})
        return 0
    for note in notes:
        terminal.show_line(f"note: {note}")
    what = f"with {len(found)} sensors of the model" if found else "(the model has no sensors)"
    terminal.show_line(f"wrote {path} {what}; every line of it is yours to change")
    terminal.show_line(verdict.headline)
    if not verdict.is_well_posed:
        blind = [k.replace("_", " ") for k, names in verdict.undetermined.items() if names]
        torques = "" if "torque" in blind else "all torques are determined; "
        terminal.show_prose(f"{torques}not determined everywhere: {', '.join(blind)}")
    terminal.show_line(f"next: dynsys check {path}, dynsys studio {path}")
    terminal.show_line(f"without a log: dynsys simulate {path} -o log.npz")
    return 0


def _sensors_of(file: str, robot: KinematicTree) -> list[AbstractSensor]:
    """Sensors that the model file describes; what it says of others is dropped here."""
    read = from_mjcf if read_xml(file).tag == "mujoco" else from_urdf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return list(read(file, robot))


def _touched(robot: KinematicTree) -> list[str]:
    """Frames that may be touched: feet and hands by their names, else the ends of the tree.

    Of a hand with fingers the palm: what the fingers hold is one contact at the tool.
    """
    leaves = [i for i, children in enumerate(robot.children) if not children]
    outer: dict[int, list[str]] = {}
    for name, frame in robot.frames.items():
        if frame.body >= 0:
            outer.setdefault(frame.body, []).append(name)
    chosen: list[str] = []
    for pattern in (FEET, HANDS):
        for body, names in outer.items():
            by_name = [name for name in names if pattern.search(name)]
            bodies = {robot.frame(c).body for c in chosen}
            above = bodies.intersection(robot.support(body))
            if by_name and not (body in bodies if pattern is FEET else above):
                tools = [name for name in by_name if pattern is HANDS and TOOLS.search(name)]
                chosen.append(_farthest(robot, tools or by_name))
    ends = [_farthest(robot, outer[i]) for i in leaves]
    return (chosen or ends)[:MOST_TOUCHED]


def _farthest(robot: KinematicTree, names: Sequence[str]) -> str:
    """Of frames of one body the one farthest from its joint; those of devices come last."""

    def distance(name: str) -> tuple[bool, float]:
        return not DEVICES.search(name), float(np.linalg.norm(robot.frame(name).transform.r))

    return max(names, key=distance)


def _content(
    args: argparse.Namespace,
    path: Path,
    robot: KinematicTree,
    found: Sequence[AbstractSensor],
    touched: Sequence[str],
) -> str:
    """The file: one section after the other, each with what it means."""
    free = [name for name, j in zip(robot.joint_names, robot.joints, strict=True) if j.nv == 6]
    read = [s.joint for s in found if isinstance(s, JointTorque | MotorTorque)]
    unread = [name for name in robot.joint_names if name not in (*free, *read)]
    apart = [*free, *dict.fromkeys(name for name in read if name not in free)]
    torques: dict[str, object] = {"std": 0.5, **({"exclude": apart} if apart else {})}
    beside = os.path.relpath(Path(args.robot).resolve(), path.parent.resolve())
    floating = "floating" if args.floating_base else "fixed"
    lines = [
        f"# Which torques, forces and accelerations of {robot.name} its sensors determine:",
        f"#   dynsys check {path.name}            what is determined, and what would repair it",
        f"#   dynsys simulate {path.name} -o log.npz   a log to try it with, or your own:",
        f"#   dynsys solve {path.name} log.npz -o estimates.csv",
        f"#   dynsys view {path.name} log.npz         the same in a browser",
        f"robot: {_value(beside)}",
        f"base: {floating}                # fixed, or floating: the root link moves freely",
    ]
    if args.friction:
        lines.append(
            "friction: file             # damping and dry friction as the robot has them"
        )
    if robot.constraints and all(isinstance(c, FrameConstraint) for c in robot.constraints):
        lines.append("constraints: file          # the loops and contacts of the robot's file")
    if args.lock:
        lines.append(f"lock: {_value(dict(args.lock))}")
    elif fingers := _fingers(robot, touched):
        still = ", ".join(f"{_value(name)}: 0.0" for name in fingers)
        lines.append(f"# lock: {{{still}}}   # fingers that do not move: fewer unknowns")
    lines += ["layout:", "  sensors:"]
    if found:
        lines.append("    # described in the model; std is the standard deviation of the noise")
        lines += [f"    - {_value(_with_std(sensor))}" for sensor in found]
    else:
        root = robot.body_names[0]
        lines += ["    # the model describes no sensor; take away the # of those you have"]
        imu = f"{{kind: imu, name: imu, frame: {_value(root)}, std: [0.1, 0.01]}}"
        lines.append(f"    {'-' if free else '# -'} {imu}")
        wrist = robot.joint_names[robot.frame(touched[0]).body]
        at = f"name: ft, at: {_value(wrist)}, std: [0.05, 0.5]"
        lines.append(f"    # - {{kind: force_torque, {at}}}")
    lines += [
        "    # encoders, differentiated twice: noisy (rad/s^2, m/s^2)",
        "    - all_joint_accelerations: {std: 1.0, free: false}",
        *(f"    - {_value(_undriven(name))}    # the base has no drive" for name in free),
        *_torques(torques if unread else {}),
        "    # nothing else touches the robot: name every frame that may be touched",
        f"    - zero_external_wrench_except: {_value(list(touched))}",
        *_points(touched),
        "# what 'dynsys solve' writes, by name; std. is the standard deviation",
        "outputs:",
        *(f"  - {name}" for name in ("torque", "std.torque")),
        *(f"  - {std}external_wrench.{name}" for name in touched for std in ("", "std.")),
        "  - p_value              # how well the readings agree: below 0.01 they do not",
        "# log:                    # how columns of your logs are called, if not as above",
        "#   columns: {imu: {from: acc, unit: g}}",
        "#   differentiate: {method: polynomial, window: 0.1}      # s",
    ]
    return "\n".join(lines) + "\n"


def _torques(group: dict[str, object]) -> list[str]:
    """Lines of torque sensors in the joints of which the model has none; {}: of no joint."""
    if not group:
        return []
    words = "    # torque sensors or motor currents (N m, N); # in front if there are none"
    return [words, f"    - all_joint_torques: {_value(group)}"]


def _points(touched: Sequence[str]) -> list[str]:
    """Lines that say of many feet that they are points: nobody walks on four flat ones."""
    points = [sensor_record(point) for point in point_feet(touched)]
    if not points:
        return []
    lines = ["    # feet that are points feel a force and no moment; # in front of flat ones"]
    return [*lines, *(f"    - {_value(point)}" for point in points)]


def _undriven(joint: str) -> dict[str, object]:
    """That the free joint of a floating base has no drive, as files write it."""
    return {"kind": "joint_torque", "name": f"{joint}/no_drive", "joint": joint, "value": 0.0}


def _fingers(robot: KinematicTree, touched: Sequence[str]) -> list[str]:
    """Joints of one freedom beyond the bodies of the frames that may be touched."""
    held = {robot.frame(name).body for name in touched}
    return [
        name
        for i, (name, joint) in enumerate(zip(robot.joint_names, robot.joints, strict=True))
        if joint.nv == 1 and i not in held and held.intersection(robot.support(i))
    ]


def _with_std(sensor: AbstractSensor) -> dict[str, object]:
    """A sensor as files write it; without a deviation it gets one to be corrected."""
    record = sensor_record(sensor)
    stated = sensor.std is not None or sensor.covariance is not None
    if stated or record.get("value") is not None:
        return record
    if record["kind"] != "force_torque":
        return record | {"std": 0.1}
    turning = {str(c).startswith("t") for c in record.get("components", ("tx", "fx"))}
    return record | {
        "std": [0.05, 0.5] if len(turning) > 1 else 0.05 if True in turning else 0.5
    }


def _value(content: object) -> str:
    """A value on one line of YAML."""
    listed: str = yaml.safe_dump(
        [content], default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True
    )
    return listed.strip()[1:-1]
