"""``dynsys demo``: a humanoid from sensors to torques, with a report at the end."""

from __future__ import annotations

import argparse

from problems.command.arguments import positive, whole

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--states", type=positive, default=20, help="random states (default 20)"
    )
    parser.add_argument(
        "--seed", type=whole, default=0, help="of the random states (default 0)"
    )
    parser.add_argument(
        "--output",
        "-o",
        default="dynsys_demo.html",
        metavar="FILE",
        help="report to write, or its folder (default dynsys_demo.html here)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the tour; 1 if the answers disagree with their peers."""
    from problems import terminal
    from problems.command import demo_show
    from problems.command import demo_steps as demo

    if args.json:
        result = demo.run(states=args.states, seed=args.seed, output=args.output)
        terminal.show_json(result.to_json())
    else:
        result = demo.run(
            states=args.states, seed=args.seed, output=args.output, tell=demo_show.tell
        )
    return 0 if result.agrees else 1
