"""Problem 1 of [NORI] solved outright: inverse dynamics made triangular, from any shuffling.

    python -m experiments.triangularise [--json] [--quick] [--seed N]

Rows and columns of D of inverse dynamics are shuffled at random and an order is asked for
(triangular peeling): for every robot of example-robot-data, with a fixed and with a floating
base, and for chains and trees of up to 5000 bodies. The paper has a heuristic, up to 100.

Exit status 1 if an order is not triangular or has fill, takes 5 s or more, or if the time grows
faster than linearly. Seconds of the order are of the clock; building the system (its equations
and their worst-case pattern) is reported beside it. The exponent p of time ~ entries^p is
fitted to processor time, once for the shuffled system and once for the system as it was built:
the steps are the same, but in a shuffled system each looks at memory far away, the slower the
less of it fits into the processor's caches.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from dynsys.errors import ModelError
from dynsys.model import synthetic
from dynsys.model.tree import KinematicTree
from dynsys.plan.lu import symbolic_lu
from dynsys.plan.orders.orders import Pattern
from dynsys.plan.orders.peeling import Peeled
from experiments.example_robots import all_urdf_files, load_quietly, robot_path
from experiments.nori2017.counts import inverse_system, shuffled
from experiments.papers.paper_rows import Row
from problems import terminal

__all__ = ["Triangularised", "exponent", "holds", "main", "robots", "rows", "triangularise"]

SIZES, QUICK_SIZES = (10, 30, 100, 300, 1000, 2000, 5000), (10, 100, 1000)
SECONDS = 5.0
LARGEST_EXPONENT = {"as built": 1.15, "shuffled": 1.5}
"""Of linear time; shuffled, caches add up to 0.35. Quadratic time has 2."""
FITTED_FROM = 300
"""Bodies below which a call's constant cost would hide how its time grows."""
REPEATS = 5

FAMILIES: dict[str, Callable[[int], KinematicTree]] = {
    "chain": synthetic.chain,
    "chain, generic frames": lambda n: synthetic.chain(n, generic=True),
    "tree, branching 1.5": lambda n: synthetic.auto_tree(n, 1.5, 1.5, 1.0),
    "tree, branching 2": lambda n: synthetic.auto_tree(n, 2, 1.5, 1.0),
    "random tree, all joint types": lambda n: synthetic.random_tree(n, seed=n),
}


@final
@dataclass(frozen=True)
class Triangularised:
    """A shuffled system and what became of it.

    ``build_seconds`` is for equations and pattern, ``order_seconds`` for the order, both on the
    clock; ``processor_seconds`` for the order, shuffled and as built, the least of several.
    """

    name: str
    bodies: int
    unknowns: int
    entries: int
    is_triangular: bool
    fill: int
    build_seconds: float
    order_seconds: float
    processor_seconds: dict[str, float]


def triangularise(
    name: str, robot: KinematicTree, seed: int = 0, repeats: int = 1
) -> Triangularised:
    """Shuffle inverse dynamics and order it."""
    began = time.perf_counter()
    pattern = inverse_system(robot, net_wrench=False).pattern()
    build_seconds = time.perf_counter() - began
    mixed = shuffled(pattern, seed)
    began = time.perf_counter()
    order = Peeled().order(mixed)
    order_seconds = time.perf_counter() - began
    ordered = order.apply_pattern(mixed).tocoo()
    return Triangularised(
        name,
        robot.n_bodies,
        pattern.shape[1],
        pattern.nnz,
        bool((ordered.row >= ordered.col).all()),
        symbolic_lu(mixed, order).fill,
        build_seconds,
        order_seconds,
        {
            "shuffled": _processor_seconds(mixed, repeats),
            "as built": _processor_seconds(pattern, repeats),
        },
    )


def _processor_seconds(pattern: Pattern, repeats: int) -> float:
    """Least processor time of finding the order."""
    spent = []
    for _ in range(repeats):
        began = time.process_time()
        Peeled().order(pattern)
        spent.append(time.process_time() - began)
    return min(spent)


# ---- what is tried -------------------------------------------------------------------------


def robots(files: Sequence[str]) -> Iterator[tuple[str, KinematicTree | ModelError]]:
    """Robots of URDF files, base fixed and floating; an error where one cannot be read."""
    for file in files:
        for floating_base, base in ((False, "fixed"), (True, "floating")):
            name = f"{Path(file).stem}, {base} base"
            try:
                robot = load_quietly(robot_path(file), floating_base)
            except ModelError as error:
                yield name, error
            else:
                yield name, robot


def rows(quick: bool = False, seed: int = 0) -> list[Row]:
    """All numbers; the paper's fill is 0 up to 100 bodies."""
    triangularise("first call, which compiles", synthetic.chain(2))
    files = all_urdf_files()
    tried = files[:: len(files) // 5] if quick and files else files
    found: list[Row] = []
    for name, robot in terminal.progress(list(robots(tried)), "robots"):
        if isinstance(robot, ModelError):
            found.append(Row("robots", name, "not read", None, str(robot)))
        else:
            found += _as_rows("robots", triangularise(name, robot, seed))
    sizes = QUICK_SIZES if quick else SIZES
    each = [(family, n) for family in FAMILIES for n in sizes]
    timed: dict[str, list[Triangularised]] = {family: [] for family in FAMILIES}
    for family, n in terminal.progress(each, "chains and trees"):
        result = triangularise(f"{family}, {n} bodies", FAMILIES[family](n), seed, REPEATS)
        timed[family].append(result)
        found += _as_rows("chains and trees", result)
    if not quick:
        for family, results in timed.items():
            for how in LARGEST_EXPONENT:
                p = round(exponent(results, how), 3)
                found.append(Row("growth", family, f"exponent of time, {how}", None, p))
    return found


def _as_rows(table: str, result: Triangularised) -> list[Row]:
    published = result.bodies <= 100
    return [
        Row(table, result.name, "bodies", None, result.bodies),
        Row(table, result.name, "unknowns", None, result.unknowns),
        Row(table, result.name, "entries", None, result.entries),
        Row(table, result.name, "fill", 0 if published else None, result.fill),
        Row(table, result.name, "triangular", "yes" if published else None,
            "yes" if result.is_triangular else "no"),
        Row(table, result.name, "seconds to build", None, round(result.build_seconds, 4)),
        Row(table, result.name, "seconds to order", None, round(result.order_seconds, 5)),
    ]  # fmt: skip


def exponent(results: Sequence[Triangularised], how: str) -> float:
    """Slope p of log time over log entries, least squares over the larger systems."""
    larger = [result for result in results if result.bodies >= FITTED_FROM]
    x = np.log([result.entries for result in larger])
    y = np.log([result.processor_seconds[how] for result in larger])
    return float(np.polyfit(x, y, 1)[0])


def holds(found: Sequence[Row]) -> bool:
    """Whether every system became triangular without fill, in time, in linear time."""
    most: dict[str, float] = {"fill": 0, "seconds to order": SECONDS}
    most |= {f"exponent of time, {how}": p for how, p in LARGEST_EXPONENT.items()}
    limited = [row for row in found if row.quantity in most]
    triangular = all(row.ours == "yes" for row in found if row.quantity == "triangular")
    return (
        triangular
        and bool(limited)
        and all(row.number <= most[row.quantity] for row in limited)
    )


# ---- command line --------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; 0 if what it claims came out, else 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a list of rows as JSON")
    parser.add_argument("--quick", action="store_true", help="few robots and sizes")
    parser.add_argument("--seed", type=int, default=0, help="of the shuffling")
    options = parser.parse_args(argv)
    found = rows(options.quick, options.seed)
    if options.json:
        terminal.show_json([row.as_json() for row in found])
    else:
        _show(found)
    return 0 if holds(found) else 1


def _show(found: Sequence[Row]) -> None:
    columns = ("bodies", "unknowns", "entries", "fill", "triangular", "seconds to build",
               "seconds to order")  # fmt: skip
    by_name: dict[str, dict[str, str]] = {}
    for row in found:
        by_name.setdefault(row.row, {})[row.quantity] = str(row.ours)
    terminal.show_table(
        ("system", *columns),
        [
            (name, *(cells[column] for column in columns))
            for name, cells in by_name.items()
            if "fill" in cells
        ],
        right=columns,
    )
    for row in found:
        if row.quantity == "not read":
            terminal.show_line(f"{row.row} is no robot to try: {row.ours}")
        elif row.table == "growth":
            terminal.show_line(f"{row.row}: {row.quantity}: {row.ours}")
    systems = sum(row.quantity == "fill" for row in found)
    verdict = "holds for all" if holds(found) else "DOES NOT HOLD for all"
    terminal.show_line(f"triangular, no fill, below {SECONDS:g} s: {verdict} {systems} systems")


if __name__ == "__main__":
    sys.exit(main())
