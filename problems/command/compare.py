"""``dynsys compare``: orders of elimination side by side, beside RNEA, ABA and CRBA + LTDL."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from problems import terminal
from problems.command.arguments import (
    KINDS,
    add_flags,
    add_numbers,
    add_robot,
    positive,
    robot_options,
    whole,
)
from problems.command.plan import draw_order
from problems.labels import base_words
from problems.order_comparison import Compared, compare
from problems.planning import PlanRequest, read_request
from problems.terminal import number, show_line, show_prose, show_table

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
  dynsys compare example:humanoid --problem fd
  dynsys compare synthetic:chain:8 --problem published:sie_friction --plot png
  dynsys compare arm.urdf --problem id --no-time --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("robot", metavar="ROBOT", help="a robot, as for 'dynsys info'")
    parser.add_argument("--problem", default="fd", metavar="KIND", help=KINDS)
    add_robot(parser)
    add_numbers(
        parser, ("states", positive, 16, "sampled states"), ("seed", whole, 0, "of the states")
    )
    add_flags(parser, no_time="do not compile and measure")
    parser.add_argument(
        "--plot", metavar="FOLDER", type=Path, help="pictures of D under every order"
    )


def run(args: argparse.Namespace) -> int:
    """Show the table."""
    options = robot_options(args)
    request = read_request(args.robot, args.problem, args.floating_base, **options)
    rows = compare(request, states=args.states, seed=args.seed, timed=not args.no_time)
    pictures: list[str] = []
    if args.plot is not None:
        for row in terminal.progress([r for r in rows if r.order is not None], "drawing"):
            name = "".join(c if c.isalnum() else "_" for c in row.name)
            path = args.plot / f"{name}.png"
            assert row.order is not None
            pictures.append(str(draw_order(request.system, row.order, row.name, path)))
    if args.json:
        told: dict[str, Any] = {
            "robot": request.robot.name,
            "problem": request.name,
            "unknowns": request.system.shape[1],
            "entries": request.system.nnz,
            "rows": [row.to_json() for row in rows],
            "pictures": pictures,
        }
        terminal.show_json(told)
        return 0
    _show(request, rows)
    for picture in pictures:
        terminal.show_line(f"wrote {picture}")
    return 0


def _show(request: PlanRequest, rows: list[Compared]) -> None:
    system = request.system
    show_line(
        f"{system.robot.name}, {base_words(system.robot)}, {request.name}: {system.shape[1]}"
        f" unknowns, {system.nnz} entries of D"
    )
    show_line()
    columns = (
        "order",
        "fill [entries]",
        "textbook LU [ops]",
        "published rules [ops]",
        "executed [ops]",
        "worst pivot",
        "time [ns/state]",
    )
    table = [
        (
            row.name,
            _count(row.fill),
            _count(row.textbook),
            _count(row.published),
            _count(row.executed),
            number(row.safety, 2),
            number(row.nanoseconds, 4),
        )
        for row in rows
    ]
    droppable = (columns[3], columns[1], columns[2], columns[5])
    show_table(columns, table, right=columns[1:], droppable=droppable)
    show_line()
    for row in rows:
        if row.note:
            show_prose(f"{row.name}: {row.note}")
    show_prose(
        "executed: operations of the whole simplified computation, entries of D and b included;"
        " textbook LU and published rules: elimination and substitution alone; time: of the"
        " processor, the least of some rounds, a batch of 256 states"
    )


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)
