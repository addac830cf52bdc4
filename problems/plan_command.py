"""``dynsys plan``: the order of elimination of a problem, searched for, priced and saved."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from problems.argument_types import positive, seconds, whole

if TYPE_CHECKING:
    from dynsys.plan.plan import Plan
    from dynsys.plan.search.search import Progress
    from problems.planning import PlanRequest

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "what", metavar="ROBOT|PROBLEM", nargs="+",
        help="a robot (file, example:..., synthetic:...), or a problem file (.yaml) or"
        " catalogue:NAME; several with --campaign",
    )  # fmt: skip
    parser.add_argument(
        "--problem", metavar="KIND", action="append",
        help="of a robot: id, fd (default), hybrid:JOINT,JOINT..., published:NAME or a layout"
        " file; may be repeated with --campaign",
    )  # fmt: skip
    parser.add_argument("--floating-base", action="store_true", help="free root link")
    parser.add_argument(
        "--search-seconds", type=seconds, metavar="S", help="search an order for S seconds"
    )
    parser.add_argument(
        "--evaluations",
        type=positive,
        metavar="N",
        help="price N orders: repeatable for a seed",
    )
    parser.add_argument("--seed", type=whole, default=0, help="of the search (default 0)")
    parser.add_argument(
        "--seeds", type=positive, default=1, help="seeds per problem of a campaign"
    )
    parser.add_argument("--workers", type=positive, default=1, help="processes (default 1)")
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="Dask scheduler, or 'local' to start one here"
    )
    parser.add_argument(
        "--objective", choices=("operations", "time"), default="operations",
        help="what to minimise (default operations)",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="save the plan (JSON)"
    )
    parser.add_argument(
        "--plot", metavar="FOLDER", type=Path, help="pictures of D before and after permutation"
    )
    parser.add_argument(
        "--campaign", metavar="FOLDER", type=Path,
        help="search every problem of every robot with every seed; results are files in FOLDER,"
        " and a campaign that was interrupted goes on",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Plan, save, draw; or run a campaign (1 if tasks failed or are still open)."""
    from dynsys.errors import ModelError

    if args.campaign is not None:
        from problems.plan_campaign import run_campaign

        return run_campaign(args)
    if len(args.what) > 1 or len(args.problem or ()) > 1 or args.seeds > 1:
        raise ModelError("several problems or seeds need --campaign FOLDER for their results")
    from problems import terminal
    from problems.planning import read_request

    request = read_request(args.what[0], (args.problem or ["fd"])[0], args.floating_base)
    plan, progress = _planned(request, args)
    if args.output is not None:
        plan.save(args.output)
    pictures = []
    if args.plot is not None:
        from problems.plan_figures import draw_plan

        pictures = [str(path) for path in draw_plan(request.system, plan, args.plot)]
    if args.json:
        terminal.show_json(_as_json(request, plan, progress) | {"pictures": pictures})
    else:
        _show(request, plan, progress, args.output)
        for picture in pictures:
            terminal.show_line(f"wrote {picture}")
    return 0


def _planned(request: PlanRequest, args: argparse.Namespace) -> tuple[Plan, Progress | None]:
    from dynsys.plan.search.search import Search

    latest: list[Progress] = []
    with _bar(args) as update:

        def progress(now: Progress) -> None:
            latest[:] = [now]
            update(now)

        search = Search(
            seconds=args.search_seconds,
            evaluations=args.evaluations,
            seed=args.seed,
            workers=args.workers,
            scheduler=args.scheduler,
            objective=args.objective,
            progress=progress,
        )
        plan = request.plan(search)
    return plan, latest[0] if latest else None


@contextmanager
def _bar(args: argparse.Namespace) -> Iterator[Any]:
    """Bar with the best so far, on a terminal only."""
    import sys

    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(file=sys.stderr)
    columns = (
        TextColumn("searching"),
        BarColumn(),
        TextColumn("{task.fields[best]} operations, was {task.fields[before]}"),
        TimeElapsedColumn(),
        TextColumn("Ctrl-C keeps the best"),
    )
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        total = args.evaluations or args.search_seconds
        task = bar.add_task("", total=total, best="?", before="?")

        def update(now: Progress) -> None:
            done = now.evaluations if args.evaluations else now.seconds
            best, before = now.best.total, now.start.total
            bar.update(task, completed=done, best=best, before=before)

        yield update


def _as_json(request: PlanRequest, plan: Plan, progress: Progress | None) -> dict[str, Any]:
    sampled = [p.ratio for p in plan.pivots if p.safety == "sampling" and p.ratio is not None]
    return {
        "robot": request.robot.name,
        "problem": request.name,
        "method": plan.method,
        "ordering": plan.ordering,
        "multiplications": plan.operations.multiplications,
        "additions": plan.operations.additions,
        "divisions": plan.operations.divisions,
        "operations": plan.operations.total,
        "constructive_operations": progress.start.total if progress else plan.operations.total,
        "evaluations": progress.evaluations if progress else 0,
        "pivots_by_argument": sum(p.safety == "argument" for p in plan.pivots),
        "pivots_by_sampling": len(plan.checked_pivots),
        "worst_sampled_ratio": min(sampled, default=None),
    }


def _show(
    request: PlanRequest, plan: Plan, progress: Progress | None, output: Path | None
) -> None:
    from problems.terminal import number, show_line, show_table

    told = _as_json(request, plan, progress)
    rows = [
        ("robot", str(told["robot"])),
        ("problem", str(told["problem"])),
        ("method", f"{plan.method}: {plan.ordering}"),
        ("operations per solve", str(plan.operations.total)),
        ("- multiplications", str(plan.operations.multiplications)),
        ("- additions", str(plan.operations.additions)),
        ("- divisions", str(plan.operations.divisions)),
        ("best constructive order", f"{told['constructive_operations']} operations"),
        ("pivots safe by argument", str(told["pivots_by_argument"])),
        ("pivots safe by sampling", str(told["pivots_by_sampling"])),
        ("worst sampled pivot ratio", number(told["worst_sampled_ratio"])),
    ]
    show_table(("", "plan"), rows)
    if output is not None:
        show_line(f"wrote {output}")
