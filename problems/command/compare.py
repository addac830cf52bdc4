"""``dynsys compare``: orders of elimination side by side, beside RNEA, ABA and CRBA + LTDL."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from problems.command.arguments import positive, whole

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("robot", metavar="ROBOT", help="a robot, as for 'dynsys info'")
    parser.add_argument(
        "--problem", default="fd", metavar="KIND",
        help="id, fd (default), hybrid:JOINT,..., published:NAME or a layout file",
    )  # fmt: skip
    parser.add_argument("--floating-base", action="store_true", help="free root link")
    parser.add_argument(
        "--states", type=positive, default=16, help="sampled states (default 16)"
    )
    parser.add_argument("--seed", type=whole, default=0, help="of the states (default 0)")
    parser.add_argument("--no-time", action="store_true", help="do not compile and measure")
    parser.add_argument(
        "--plot", metavar="FOLDER", type=Path, help="pictures of D under every order"
    )


def run(args: argparse.Namespace) -> int:
    """Show the table."""
    from problems import terminal
    from problems.planning import compare, read_request

    request = read_request(args.robot, args.problem, args.floating_base)
    rows = compare(request, states=args.states, seed=args.seed, timed=not args.no_time)
    pictures: list[str] = []
    if args.plot is not None:
        from problems.command.plan import draw_order

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
    _show(request.name, request.system, rows)
    for picture in pictures:
        terminal.show_line(f"wrote {picture}")
    return 0


def _show(name: str, system: Any, rows: Any) -> None:
    from problems.terminal import number, show_line, show_prose, show_table

    show_line(
        f"{system.robot.name}, {name}: {system.shape[1]} unknowns, {system.nnz} entries of D"
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
        " textbook LU and published rules: elimination and substitution alone"
    )


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)
