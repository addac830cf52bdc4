"""``dynsys info``: bodies, joints, masses and limits of a robot."""

from __future__ import annotations

import argparse

__all__ = ["add_arguments", "run"]


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
    from problems import info, terminal
    from problems.robots import read_robot

    description = info.describe(read_robot(args.robot, args.floating_base))
    if args.json:
        terminal.show_json(description.to_json())
    else:
        info.show(description)
    return 0
