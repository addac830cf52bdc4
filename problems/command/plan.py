"""``dynsys plan``: the order of elimination of a problem, searched for, priced and saved.

With ``--campaign`` of many robots, problems and seeds, each result a file of a folder; with
``--plot`` pictures of D before and after permutation.
"""

from __future__ import annotations

import argparse
import colorsys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynsys.errors import ModelError, ReportError
from dynsys.plan.lu import symbolic_lu
from dynsys.plan.orders.orders import OrderingContext, PivotOrder
from dynsys.plan.orders.recursive_orders import LeafToRoot
from dynsys.plan.search.campaign import Campaign, CampaignTask, Outcome
from dynsys.plan.search.search import Progress, Search
from dynsys.resumable import written
from dynsys.system.linear_system import LinearSystem
from problems import terminal
from problems.command.arguments import (
    KINDS,
    add_names,
    add_numbers,
    add_robot,
    positive,
    robot_options,
    seconds,
    whole,
)
from problems.order_comparison import program_nanoseconds
from problems.planning import PlanRequest, plan_task, read_request

if TYPE_CHECKING:
    from dynsys.plan.plan import Plan

__all__ = ["EXAMPLES", "add_arguments", "draw_order", "draw_plan", "run"]

EXAMPLES = """\
  dynsys plan example:humanoid --floating-base -o fd.plan.json
  dynsys plan catalogue:panda --outputs torque,std.torque -o panda.plan.json
  dynsys plan synthetic:chain:8 --problem published:sie_friction --evaluations 9
  dynsys plan synthetic:chain:6 synthetic:chain:8 --campaign results --seeds 4 \\
      --problem published:sie_friction --evaluations 500 --workers 2"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "what", metavar="ROBOT|PROBLEM", nargs="+",
        help="a robot (file, example:..., synthetic:...), or a problem file (.yaml) or"
        " catalogue:NAME; several with --campaign",
    )  # fmt: skip
    parser.add_argument(
        "--problem", metavar="KIND", action="append",
        help=f"of a robot: {KINDS}; may be repeated with --campaign",
    )  # fmt: skip
    add_robot(parser)
    add_names(
        parser,
        "--outputs",
        "of an estimation: what its cost is stated for, such as torque (default), std.torque",
    )
    parser.add_argument(
        "--search-seconds", type=seconds, metavar="S", help="search an order for S seconds"
    )
    parser.add_argument(
        "--evaluations",
        type=positive,
        metavar="N",
        help="price N orders: repeatable for a seed",
    )
    add_numbers(parser, ("seed", whole, 0, "of the search"))
    parser.add_argument(
        "--seeds", type=positive, default=1, help="seeds per problem of a campaign"
    )
    add_numbers(parser, ("workers", positive, 1, "processes"))
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
    if args.campaign is not None:
        return _run_campaign(args)
    if len(args.what) > 1 or len(args.problem or ()) > 1 or args.seeds > 1:
        raise ModelError("several problems or seeds need --campaign FOLDER for their results")
    problem, options = (args.problem or ["fd"])[0], robot_options(args)
    request = read_request(args.what[0], problem, args.floating_base, **options)
    if args.plot is not None:
        request.require_square()
    plan, progress = _planned(request, args)
    if args.output is not None:
        plan.save(args.output)
    pictures = []
    if args.plot is not None:
        pictures = [str(path) for path in draw_plan(request.system, plan, args.plot)]
    told = _as_json(request, plan, progress)
    if args.json:
        terminal.show_json(told | {"pictures": pictures})
        return 0
    rows = {
        "robot": told["robot"],
        "problem": told["problem"],
        "method": f"{plan.method}: {plan.ordering}",
        "operations per solve": told["operations"],
        "- multiplications": told["multiplications"],
        "- additions": told["additions"],
        "- divisions": told["divisions"],
        "operations without search": told["constructive_operations"],
        "pivots safe by argument": told["pivots_by_argument"],
        "pivots safe by sampling": told["pivots_by_sampling"],
        "worst sampled pivot ratio": terminal.number(told["worst_sampled_ratio"]),
    }
    terminal.show_table(("", "plan"), [(name, str(value)) for name, value in rows.items()])
    if args.search_seconds or args.evaluations:
        before, after = told["constructive_operations"], told["operations"]
        if after >= before:
            terminal.show_line("no better order found than the one made without search")
    for file in ([args.output] if args.output is not None else []) + pictures:
        terminal.show_line(f"wrote {file}")
    return 0


def _planned(request: PlanRequest, args: argparse.Namespace) -> tuple[Plan, Progress | None]:
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
            measure=program_nanoseconds if args.objective == "time" else None,
            progress=progress,
        )
        plan = request.plan(search, args.outputs)
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
        "constructive_operations": plan.options.get("constructive", plan.operations.total),
        "evaluations": progress.evaluations if progress else 0,
        "pivots_by_argument": sum(p.safety == "argument" for p in plan.pivots),
        "pivots_by_sampling": len(plan.checked_pivots),
        "worst_sampled_ratio": min(sampled, default=None),
    }


# ---- many problems --------------------------------------------------------------------------


def _run_campaign(args: argparse.Namespace) -> int:
    """Run what is open, show all results; 1 if tasks failed or are still open."""
    if not args.evaluations:
        raise ModelError("a campaign needs --evaluations N, so that its results are repeatable")
    options = robot_options(args)
    tasks = tuple(
        CampaignTask(
            {
                "robot": robot,
                "problem": problem,
                "floating_base": args.floating_base,
                "seed": args.seed + k,
                "evaluations": args.evaluations,
                "content": content,
                **({"options": options} if options else {}),
            }
        )
        for robot in args.what
        for problem in (args.problem or ["fd"])
        for content in [read_request(robot, problem, args.floating_base, **options).content]
        for k in range(args.seeds)
    )
    campaign = Campaign(args.campaign, tasks)
    done = len(tasks) - len(campaign.open_tasks()) if args.campaign.is_dir() else 0
    with terminal.progress_bar("campaign") as start:
        advance = start(done, len(tasks))
        summary = campaign.run(
            plan_task,
            workers=args.workers,
            scheduler=args.scheduler,
            progress=lambda outcome: advance(1),
        )
    told = [_outcome_as_json(outcome) for outcome in campaign.outcomes()]
    if args.json:
        terminal.show_json({"summary": vars(summary), "results": told})
    else:
        columns = (
            "robot", "problem", "seed", "constructive [ops]", "found [ops]", "saved", "error",
        )  # fmt: skip
        terminal.show_table(columns, [_campaign_row(one) for one in told], right=columns[2:6])
        ended = "interrupted, run it again to go on" if summary.interrupted else "done"
        terminal.show_line(
            f"{ended}: {summary.before} known before, {summary.computed} computed,"
            f" {summary.open} open, {summary.failed} failed"
        )
    return 1 if summary.failed or summary.open else 0


def _outcome_as_json(outcome: Outcome) -> dict[str, Any]:
    result = dict(outcome.result or {})
    result.pop("order", None)
    return dict(outcome.task.payload) | result | {"error": outcome.error}


def _campaign_row(told: dict[str, Any]) -> list[str]:
    before, after = told.get("constructive"), told.get("found")
    saved = f"{1 - after / before:.1%}" if before and after else "-"
    names = [str(told[name]) for name in ("robot", "problem", "seed")]
    return [*names, str(before or "-"), str(after or "-"), saved, told["error"] or ""]


# ---- pictures of D: colour by quantity, lightness by body -----------------------------------

HUES = {
    "acceleration": (0.58, "acceleration a"),
    "net_wrench": (0.08, "net wrench f^B"),
    "joint_wrench": (0.33, "joint wrench f"),
    "torque": (0.0, "torque tau"),
    "external_wrench": (0.77, "external wrench f^x"),
    "qdd": (0.14, "joint acceleration qdd"),
}
FILL = (0.72, 0.72, 0.72)
STRIP = 0.02
"""Width of the strips that show bodies, as part of the picture."""


def draw_plan(system: LinearSystem, plan: Plan, folder: Path) -> list[Path]:
    """Picture of D in natural order and in that of a plan; returns the files written."""
    order = plan.order
    if not isinstance(order, PivotOrder):  # pairs: their order of scalars
        order = LeafToRoot().order(system.pattern(), OrderingContext.sampled(system, 8))
    return [draw_order(system, order, plan.ordering, folder / "plan.png")]


def draw_order(system: LinearSystem, order: PivotOrder, name: str, path: Path) -> Path:
    """Write the picture of one order; fill is grey."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    n_rows, n_cols = system.shape
    natural = PivotOrder(np.arange(n_rows), np.arange(n_cols))
    lu = symbolic_lu(system.pattern(), order)
    figure = Figure(figsize=(13, 7.2), layout=ConstrainedLayoutEngine(h_pad=0.12))
    left, right = figure.subplots(1, 2)
    _draw(left, system, natural, None)
    left.set_title(f"D as assembled: {system.nnz} entries", fontsize=10)
    filled = (lu.rows, lu.columns)
    _draw(right, system, order, filled)
    right.set_title(f"{name}: fill {lu.fill} (grey)", fontsize=10)
    figure.suptitle(f"{system.robot.name}: {n_rows} equations, {n_cols} unknowns", fontsize=11)
    _legends(figure, system)
    with written(path, ReportError) as part:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(part, dpi=150, format="png")
    return path


def colour(kind: str, body: int, n_bodies: int) -> tuple[float, float, float]:
    """Hue of the quantity; darker towards the last body."""
    lightness = 0.68 - 0.38 * (body / max(1, n_bodies - 1))
    return colorsys.hls_to_rgb(HUES[kind][0], lightness, 0.85)


def _draw(ax: Any, system: LinearSystem, order: PivotOrder, filled: Any) -> None:
    n_rows, n_cols = system.shape
    image = np.ones((n_rows, n_cols, 3))
    if filled is not None:
        image[filled[0], filled[1]] = FILL
    colours, bodies = np.zeros((n_cols, 3)), np.zeros(n_cols)
    for block in system.unknowns.blocks:
        colours[block.columns] = colour(block.kind, block.body, system.robot.n_bodies)
        bodies[block.columns] = block.body
    rows = np.concatenate([np.full(block.size, block.body) for block in system.equations])
    pattern = order.apply_pattern(system.pattern()).tocoo()
    image[pattern.row, pattern.col] = colours[order.col_order][pattern.col]
    # outlines would hide single entries: every entry is one square pixel of the image
    ax.imshow(image, interpolation="nearest", extent=(0, n_cols, n_rows, 0))
    bodies, rows = bodies[order.col_order], rows[order.row_order]
    width = max(2.0, STRIP * n_cols)
    strip = {"cmap": "viridis", "vmin": 0, "vmax": max(1, system.robot.n_bodies - 1)}
    box = {"aspect": "auto", "interpolation": "nearest", "clip_on": False}
    ax.imshow(bodies[None], extent=(0, n_cols, -0.5 * width, -1.5 * width), **strip, **box)
    ax.imshow(rows[:, None], extent=(-1.5 * width, -0.5 * width, n_rows, 0), **strip, **box)
    ax.set_xlim(-1.6 * width, n_cols)
    ax.set_ylim(n_rows, -1.6 * width)
    ax.set_aspect("equal")
    ax.set_xlabel("unknowns")
    ax.set_ylabel("equations")


def _legends(figure: Any, system: LinearSystem) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.patches import Patch

    kinds = {block.kind for block in system.unknowns.blocks}
    middle, n = system.robot.n_bodies // 2, system.robot.n_bodies
    patches = [
        Patch(color=colour(kind, middle, n), label=label)
        for kind, (_, label) in HUES.items()
        if kind in kinds
    ]
    patches.append(Patch(color=FILL, label="fill"))
    title = "column's quantity (darker: later body)"
    figure.legend(
        handles=patches, loc="outside lower center", ncol=len(patches), fontsize=8, title=title
    )
    bodies = ScalarMappable(Normalize(0, max(1, n - 1)), "viridis")
    bar = figure.colorbar(bodies, ax=figure.axes, shrink=0.6, pad=0.01)
    bar.set_label("body of the row / column (strips)")
    bar.ax.yaxis.get_major_locator().set_params(integer=True)
