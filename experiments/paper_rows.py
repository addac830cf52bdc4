"""A paper's numbers beside ours: rows, their comparison, and the command line around them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from rich.console import Console
from rich.table import Table

from experiments.counting import OperationCount

__all__ = ["Row", "main", "main_of_measurements", "row"]

Value = int | float | str | None


@final
@dataclass(frozen=True)
class Row:
    """One number: where it stands in the paper, what it is, its value there and here."""

    table: str
    row: str
    quantity: str
    paper: Value
    ours: Value

    @property
    def agrees(self) -> bool | None:
        """Whether ours, at the digits the paper prints, is the paper's; None: no number."""
        if self.paper is None or (
            isinstance(self.paper, str) and not isinstance(self.ours, str)
        ):
            return None
        if isinstance(self.paper, float) and isinstance(self.ours, (int, float)):
            digits = len(str(self.paper).partition(".")[2])
            return abs(self.ours - self.paper) <= 0.5 * 10.0**-digits * (1 + 1e-9)
        return self.paper == self.ours

    @property
    def number(self) -> float:
        """Ours as a number.

        Raises
        ------
        TypeError
            If there is none.
        """
        if self.ours is None:
            raise TypeError(f"{self.table}, {self.row}, {self.quantity}: no number of ours")
        return float(self.ours)

    def as_json(self) -> dict[str, Value]:
        """The five fields by name."""
        return asdict(self)


def row(table: str, where: str, quantity: str, paper: Any, ours: Any) -> Row:
    """Row with operation counts written out, e.g. ``1258m + 1039a``."""
    return Row(table, where, quantity, _plain(paper), _plain(ours))


def _plain(value: Any) -> Value:
    if isinstance(value, OperationCount):
        return str(value)
    return value if value is None or isinstance(value, (int, float, str)) else str(value)


def main(
    title: str,
    rows: Callable[[], list[Row]],
    plot: Callable[[Path], list[Path]],
    notes: Sequence[str] = (),
    argv: Sequence[str] | None = None,
) -> int:
    """Command line of an experiment: readable table, ``--json``, ``--plot FOLDER``.

    Returns 0 if every row agrees with the paper, else 1.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--json", action="store_true", help="print a list of rows as JSON")
    parser.add_argument("--plot", metavar="FOLDER", type=Path, help="write the figures as PNG")
    options = parser.parse_args(argv)
    found = rows()
    if options.json:
        print(json.dumps([entry.as_json() for entry in found], indent=1))
    else:
        _show(title, found, notes)
    if options.plot is not None:
        options.plot.mkdir(parents=True, exist_ok=True)
        written = plot(options.plot)
        if not options.json:
            Console().print("\n".join(f"wrote {path}" for path in written))
    return 0 if all(entry.agrees is not False for entry in found) else 1


def main_of_measurements(
    title: str,
    rows: Callable[[bool], list[Row]],
    plot: Callable[[Path, bool], list[Path]],
    notes: Sequence[str] = (),
    argv: Sequence[str] | None = None,
) -> int:
    """As :func:`main`, of an experiment that takes long; ``--quick`` is handed to both."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--quick", action="store_true")
    options, rest = parser.parse_known_args(argv)
    quick = bool(options.quick)
    return main(title, lambda: rows(quick), lambda folder: plot(folder, quick), notes, rest)


def _show(title: str, rows: Sequence[Row], notes: Sequence[str]) -> None:
    table = Table("table", "row", "quantity", "paper", "ours", "", title=title)
    for entry in rows:
        mark = {True: "[green]=[/]", False: "[red]differs[/]", None: ""}[entry.agrees]
        shown = f"{entry.ours:.5g}" if isinstance(entry.ours, float) else str(entry.ours)
        paper = "" if entry.paper is None else str(entry.paper)
        table.add_row(entry.table, entry.row, entry.quantity, paper, shown, mark)
    console = Console()
    console.print(table)
    compared = [entry for entry in rows if entry.agrees is not None]
    same = sum(bool(entry.agrees) for entry in compared)
    console.print(f"{same} of {len(compared)} of the paper's numbers come out as printed")
    for note in notes:
        console.print(note)
