"""[NORI] reproduced: dynamics by sparse LU with offline permutations, 2017.

    python -m experiments.nori2017 [--json] [--quick] [--plot FOLDER] [--workers N]

The paper has figures, no tables, and its text has words. The numbers beside figures 1 and 2
are those that its published scripts compute, at one random state per N; ours are means over
states. Exit status 1 if what this experiment claims does not come out (see ``holds``).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import Future, as_completed
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dynsys.resumable import executor
from experiments.nori2017.notes import holds, notes
from experiments.nori2017.rows import jobs
from experiments.papers.paper_rows import Row
from problems import terminal

__all__ = ["figures", "main", "rows"]

TITLE = "Nori 2017: dynamics by sparse LU factorisation"


def rows(quick: bool = False, workers: int = 1) -> list[Row]:
    """All numbers, beside those of the scripts, worked out by some processes."""
    work = jobs(quick)
    found: list[list[Row]] = [[] for _ in work]
    with terminal.progress_bar("experiments") as start, executor(workers) as pool:
        advance = start(0, len(work))
        if workers == 1:
            for index, (function, arguments) in enumerate(work):
                found[index] = function(*arguments)
                advance(1)
        else:
            # the longest are at the end: searches, and the largest of each figure
            futures: dict[Future[list[Row]], int] = {
                pool.submit(function, *arguments): index
                for index, (function, arguments) in reversed(list(enumerate(work)))
            }
            for future in as_completed(futures):
                found[futures[future]] = future.result()
                advance(1)
    return [row for rows_of_job in found for row in rows_of_job]


def figures(folder: Path, found: Sequence[Row]) -> list[Path]:
    """Write figures 1 and 2 as PNG files and return their paths."""
    from experiments.nori2017 import figures as nori2017_figures

    return nori2017_figures.write(folder, found)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; 0 if what it claims came out, else 1."""
    parser = argparse.ArgumentParser(description=TITLE)
    parser.add_argument("--json", action="store_true", help="print a list of rows as JSON")
    parser.add_argument("--quick", action="store_true", help="few sizes and states: seconds")
    parser.add_argument("--plot", metavar="FOLDER", type=Path, help="write the figures as PNG")
    parser.add_argument(
        "--workers", type=int, default=None, help="processes (default: all cores, --quick: 1)"
    )
    options = parser.parse_args(argv)
    workers = options.workers or (1 if options.quick else os.cpu_count() or 1)
    found = rows(options.quick, workers)
    if options.plot is not None:
        options.plot.mkdir(parents=True, exist_ok=True)
        figures(options.plot, found)
    if options.json:
        print(json.dumps([row.as_json() for row in found], indent=1))
    else:
        _show(found)
    return 0 if holds(found) else 1


def _show(found: Sequence[Row]) -> None:
    console, table = (
        Console(),
        Table("table", "row", "quantity", "paper or scripts", "ours", title=TITLE),
    )
    for row in found:
        ours = f"{row.ours:.5g}" if isinstance(row.ours, float) else str(row.ours)
        paper = "" if row.paper is None else str(row.paper)
        table.add_row(row.table, row.row, row.quantity, paper, ours)
    console.print(table)
    for note in notes(found):
        console.print(f"- {note}")


if __name__ == "__main__":
    sys.exit(main())
