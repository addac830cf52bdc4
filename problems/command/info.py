"""``dynsys info``: what a robot is made of, as a table or as JSON."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np

from dynsys.model.tree import Body, KinematicTree
from dynsys.types import ArrayLike
from problems.robots import NamedRobot
from problems.terminal import number, show_line, show_table

__all__ = [
    "BodyRow",
    "Description",
    "add_arguments",
    "describe",
    "run",
    "show",
]


@final
@dataclass(frozen=True)
class BodyRow:
    """One body with its joint. None in a limit: unlimited."""

    number: int
    body: str
    parent: int
    joint: str
    type: str
    follows: str | None
    mass: float
    lower: list[float | None]
    upper: list[float | None]
    effort_limit: list[float | None]
    velocity_limit: list[float | None]


@final
@dataclass(frozen=True)
class Description:
    """All that ``dynsys info`` tells; ``frames`` maps the further frames to their body."""

    name: str
    n_bodies: int
    nq: int
    nv: int
    total_mass: float
    gravity: list[float]
    bodies: list[BodyRow]
    frames: dict[str, str]
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return the description as plain JSON values."""
        return asdict(self)


def describe(named: NamedRobot) -> Description:
    """Return sizes, masses, joints with limits and frames of a robot."""
    robot = named.robot
    frames = {
        name: robot.body_names[frame.body] if frame.body >= 0 else "base"
        for name, frame in robot.frames.items()
        if name not in robot.body_names
    }
    return Description(
        name=robot.name,
        n_bodies=robot.n_bodies,
        nq=robot.nq,
        nv=robot.nv,
        total_mass=robot.total_mass,
        gravity=robot.gravity.tolist(),
        bodies=[_row(robot, i, body) for i, body in enumerate(robot.bodies)],
        frames=frames,
        notes=list(named.notes),
    )


def _row(robot: KinematicTree, i: int, body: Body) -> BodyRow:
    coupling = body.coupling
    return BodyRow(
        number=i,
        body=body.name,
        parent=body.parent,
        joint=robot.joint_names[i],
        type=body.joint.kind,
        follows=None if coupling is None else robot.joint_names[coupling.leader],
        mass=float(body.inertia.mass),
        lower=_finite(body.lower, body.joint.nq),
        upper=_finite(body.upper, body.joint.nq),
        effort_limit=_finite(body.effort_limit, body.joint.nv),
        velocity_limit=_finite(body.velocity_limit, body.joint.nv),
    )


def _finite(values: ArrayLike | None, size: int) -> list[float | None]:
    full = np.broadcast_to(np.asarray(np.inf if values is None else values, float), size)
    return [float(x) if np.isfinite(x) else None for x in full]


# ---- on the terminal ----------------------------------------------------------------------

COLUMNS = (
    "#",
    "body",
    "parent",
    "joint",
    "type",
    "mass [kg]",
    "range [rad|m]",
    "effort [Nm|N]",
)
RIGHT = ("#", "parent", "mass [kg]", "effort [Nm|N]")
DROPPABLE = ("effort [Nm|N]", "range [rad|m]", "type")


def show(description: Description) -> None:
    """Write the description as a headline, a table of the tree and the reader's notes."""
    d = description
    show_line(
        f"{d.name}: {d.n_bodies} bodies, nq {d.nq}, nv {d.nv}, {d.total_mass:.4g} kg,"
        f" {len(d.frames)} further frame{'' if len(d.frames) == 1 else 's'}"
    )
    show_line()
    rows = [
        (
            str(row.number),
            row.body,
            str(row.parent) if row.parent >= 0 else "base",
            row.joint,
            row.type if row.follows is None else f"{row.type}, follows {row.follows}",
            f"{row.mass:.3f}",
            _range(row),
            ", ".join(number(x, 3) for x in row.effort_limit if x is not None) or "-",
        )
        for row in d.bodies
    ]
    show_table(COLUMNS, rows, right=RIGHT, droppable=DROPPABLE)
    if d.notes:
        show_line()
    for note in d.notes:
        show_line(f"note: {note}")


def _range(row: BodyRow) -> str:
    pairs = zip(row.lower, row.upper, strict=True)
    limited = [(a, b) for a, b in pairs if a is not None or b is not None]
    return ", ".join(f"{number(a, 3)}..{number(b, 3)}" for a, b in limited) or "-"


# ----------------------------------------------------------------------
# ``dynsys info``: bodies, joints, masses and limits of a robot.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "robot",
        metavar="ROBOT",
        help="a robot file (.urdf, .xml), example:humanoid, or synthetic:NAME[:ARGUMENT...]"
        " such as synthetic:humanoid30, synthetic:chain:10, synthetic:random_tree:8:seed=3",
    )
    parser.add_argument(
        "--floating-base",
        action="store_true",
        help='let the root link move freely: six freedoms more, joint "root"',
    )


def run(args: argparse.Namespace) -> int:
    """Describe the robot."""
    from problems import terminal
    from problems.robots import read_robot

    description = describe(read_robot(args.robot, args.floating_base))
    if args.json:
        terminal.show_json(description.to_json())
    else:
        show(description)
    return 0
