"""``dynsys info``: what a robot is made of, as a table or as JSON."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from dynsys.model.tree import Body, KinematicTree
from dynsys.types import ArrayLike
from problems import terminal
from problems.command.arguments import add_robot, robot_options
from problems.robots import NamedRobot, read_robot
from problems.terminal import number

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
  dynsys info arm.urdf
  dynsys info example:humanoid --floating-base
  dynsys info synthetic:random_tree:8:seed=3 --json"""

COLUMNS = (
    "#", "body", "parent", "joint", "type", "mass [kg]", "range [rad|m]", "effort [Nm|N]",
)  # fmt: skip
RIGHT = ("#", "parent", "mass [kg]", "effort [Nm|N]")
DROPPABLE = ("effort [Nm|N]", "range [rad|m]", "type")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "robot",
        metavar="ROBOT",
        help="a robot file (.urdf, .xml, .xacro), example:humanoid, or synthetic:NAME[:ARGUMENT"
        "...] such as synthetic:humanoid30, synthetic:chain:10, synthetic:random_tree:8:seed=3",
    )
    free = 'let the root link move freely: six freedoms more, joint "root"'
    add_robot(parser, free)


def run(args: argparse.Namespace) -> int:
    """Describe the robot."""
    told = _describe(read_robot(args.robot, args.floating_base, **robot_options(args)))
    if args.json:
        terminal.show_json(told)
        return 0
    frames = len(told["frames"])
    terminal.show_line(
        f"{told['name']}: {told['n_bodies']} bodies, nq {told['nq']}, nv {told['nv']},"
        f" {told['total_mass']:.4g} kg, {frames} further frame{'' if frames == 1 else 's'}"
    )
    terminal.show_line()
    rows = [_cells(body) for body in told["bodies"]]
    terminal.show_table(COLUMNS, rows, right=RIGHT, droppable=DROPPABLE)
    if told["notes"] or told["constraints"]:
        terminal.show_line()
    for held in told["constraints"]:
        terminal.show_line(f"constraint: {held['words']}")
    for note in told["notes"]:
        terminal.show_line(f"note: {note}")
    return 0


def _describe(named: NamedRobot) -> dict[str, Any]:
    """Sizes, masses, joints with limits, and the further frames with their body."""
    robot = named.robot
    frames = {
        name: robot.body_names[frame.body] if frame.body >= 0 else "base"
        for name, frame in robot.frames.items()
        if name not in robot.body_names
    }
    return {
        "name": robot.name,
        "n_bodies": robot.n_bodies,
        "nq": robot.nq,
        "nv": robot.nv,
        "total_mass": robot.total_mass,
        "gravity": robot.gravity.tolist(),
        "bodies": [_body(robot, i, body) for i, body in enumerate(robot.bodies)],
        "frames": frames,
        "constraints": [{"name": c.name, "words": str(c)} for c in robot.constraints],
        "notes": list(named.notes),
    }


def _body(robot: KinematicTree, i: int, body: Body) -> dict[str, Any]:
    """One body with its joint. None in a limit: unlimited."""
    coupling = body.coupling
    return {
        "number": i,
        "body": body.name,
        "parent": body.parent,
        "joint": robot.joint_names[i],
        "type": body.joint.kind,
        "follows": None if coupling is None else robot.joint_names[coupling.leader],
        "mass": float(body.inertia.mass),
        "lower": _finite(body.lower, body.joint.nq),
        "upper": _finite(body.upper, body.joint.nq),
        "effort_limit": _finite(body.effort_limit, body.joint.nv),
        "velocity_limit": _finite(body.velocity_limit, body.joint.nv),
    }


def _finite(values: ArrayLike | None, size: int) -> list[float | None]:
    full = np.broadcast_to(np.asarray(np.inf if values is None else values, float), size)
    return [float(x) if np.isfinite(x) else None for x in full]


def _cells(body: dict[str, Any]) -> tuple[str, ...]:
    pairs = zip(body["lower"], body["upper"], strict=True)
    limited = [(a, b) for a, b in pairs if a is not None or b is not None]
    efforts = [number(x, 3) for x in body["effort_limit"] if x is not None]
    follows = f", follows {body['follows']}" if body["follows"] is not None else ""
    return (
        str(body["number"]),
        body["body"],
        str(body["parent"]) if body["parent"] >= 0 else "base",
        body["joint"],
        body["type"] + follows,
        f"{body['mass']:.3f}",
        ", ".join(f"{number(a, 3)}..{number(b, 3)}" for a, b in limited) or "-",
        ", ".join(efforts) or "-",
    )
