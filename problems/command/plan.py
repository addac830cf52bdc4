"""``dynsys plan``: the order of elimination of a problem, searched for, priced and saved."""

from __future__ import annotations

import argparse
import colorsys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynsys.plan.lu import symbolic_lu
from dynsys.plan.orders.orders import PivotOrder
from dynsys.plan.orders.recursive_orders import LeafToRoot
from dynsys.system.linear_system import LinearSystem
from dynsys.types import Array
from problems.command.arguments import positive, seconds, whole

if TYPE_CHECKING:
    from dynsys.plan.plan import Plan
    from dynsys.plan.search.search import Progress
    from problems.planning import PlanRequest

__all__ = [
    "add_arguments",
    "draw_order",
    "draw_plan",
    "run",
]


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
        from problems.command.plan_campaign import run_campaign

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
        pass

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
    from problems.planning import program_nanoseconds

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


# ----------------------------------------------------------------------
# Pictures of D before and after permutation: colour by quantity, lightness by body.

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
    from dynsys.plan.orders.orders import OrderingContext

    order = plan.order
    if order is None:  # symmetric pairs: their order of scalars
        order = LeafToRoot().order(system.pattern(), OrderingContext.sampled(system, 8))
    return [draw_order(system, order, plan.ordering, folder / "plan.png")]


def draw_order(system: LinearSystem, order: PivotOrder, name: str, path: Path) -> Path:
    """Write the picture of one order; fill is grey."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    path.parent.mkdir(parents=True, exist_ok=True)
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
    figure.savefig(path, dpi=150)
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
    pattern = order.apply_pattern(system.pattern()).tocoo()
    image[pattern.row, pattern.col] = _column_colours(system)[order.col_order][pattern.col]
    # outlines would hide single entries: every entry is one square pixel of the image
    ax.imshow(image, interpolation="nearest", extent=(0, n_cols, n_rows, 0))
    bodies = _column_bodies(system)[order.col_order]
    rows = _row_bodies(system)[order.row_order]
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


def _column_colours(system: LinearSystem) -> Array:
    n = system.robot.n_bodies
    out = np.zeros((system.shape[1], 3))
    for block in system.unknowns.blocks:
        out[block.columns] = colour(block.kind, block.body, n)
    return out


def _column_bodies(system: LinearSystem) -> Array:
    out = np.zeros(system.shape[1])
    for block in system.unknowns.blocks:
        out[block.columns] = block.body
    return out


def _row_bodies(system: LinearSystem) -> Array:
    return np.concatenate(
        [np.full(block.size, float(block.body)) for block in system.equations]
    )
