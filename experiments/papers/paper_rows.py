"""A paper's numbers beside ours: rows, their comparison, and the command line around them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, final, get_args

from rich.console import Console
from rich.table import Table

from experiments.counting import OperationCount

__all__ = ["Basis", "Row", "differing", "main", "main_of_measurements", "row", "tally"]

Value = int | float | str | None
Basis: TypeAlias = Literal["paper", "figure", "scripts", "given", "claim", "ours"]
"""What a row compares.

``paper``: what the paper prints, and what our code computed without it. ``figure``: the same,
read off a curve. ``scripts``: the same, printed by the paper's published scripts and not by the
paper. ``given``: an input, a formula typed from the paper, or what follows from others of the
paper: it tells of the print, not of ours. ``claim``: words, or a time on another machine, that
``holds`` or not. ``ours``: both are ours. Only the first are counted as reproduced or refuted.
"""
CITED: Sequence[Basis] = ("paper", "given", "claim")
"""Rows on these bases name the lines of the paper's text that their value stands on."""


@final
@dataclass(frozen=True)
class Row:
    """One number: where it stands in the paper, what it is, its value there and here.

    ``holds`` : whether what the paper says in words came out, or a value of the paper that
    cannot be the same (read off a curve, of one random state) is near enough.
    ``why`` : the reason of a difference that is known.
    ``lines`` : of the paper's text where its value stands, "431" or "431-433".
    ``within`` : what still passes as the paper's claim, "a factor of two".
    """

    table: str
    row: str
    quantity: str
    paper: Value
    ours: Value
    basis: Basis = "paper"
    holds: bool | None = None
    why: str = ""
    lines: str = ""
    within: str = ""

    @property
    def agrees(self) -> bool | None:
        """Whether ours, at the digits the paper prints, is the paper's; None: no number.

        Raises
        ------
        TypeError
            If the paper has words where we have a number, and nobody says whether they hold.
        """
        if self.paper is None:
            return None
        if self.basis == "claim" or self.holds is not None:
            return self.holds
        if isinstance(self.paper, str) != isinstance(self.ours, str):
            raise TypeError(f"{self.row}, {self.quantity}: {self.paper!r} beside {self.ours!r}")
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
        """The fields by name."""
        return asdict(self)


def row(
    table: str,
    where: str,
    quantity: str,
    paper: Any,
    ours: Any,
    basis: Basis = "paper",
    *,
    holds: bool | None = None,
    why: str = "",
    lines: str | int = "",
    within: str = "",
) -> Row:
    """Row with operation counts written out, e.g. ``1258m + 1039a``."""
    basis = basis if holds is None else "claim"
    told = _plain(paper), _plain(ours)
    return Row(table, where, quantity, *told, basis, holds, why, str(lines), within)


def differing(rows: Sequence[Row]) -> list[Row]:
    """Rows that do not come out as the paper has them, on whatever basis."""
    return [entry for entry in rows if entry.agrees is False]


def tally(rows: Sequence[Row], basis: Basis = "paper") -> tuple[int, int]:
    """How many rows on that basis come out as the paper has them, and of how many."""
    counted = [e.agrees for e in rows if e.basis == basis and e.agrees is not None]
    return sum(map(bool, counted)), len(counted)


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

    Returns 0 if every row agrees with the paper or says why it does not, else 1.
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
    return 0 if all(entry.why for entry in differing(found)) else 1


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
    """What differs first, then everything, then how many of the paper's numbers come out."""
    console = Console()
    for entry in differing(rows):
        where = f"{entry.table}, {entry.row}, {entry.quantity}"
        console.print(f"differs: {where}: {entry.paper} in the paper, {entry.ours} here")
        console.print(f"         {entry.why or 'not explained'}")
    table = Table("table", "row", "quantity", "paper", "ours", "", title=title)
    for entry in rows:
        mark = {True: "[green]=[/]", False: "[red]differs[/]", None: ""}[entry.agrees]
        mark += f" ({entry.basis})" if mark and entry.basis != "paper" else ""
        shown = f"{entry.ours:.5g}" if isinstance(entry.ours, float) else str(entry.ours)
        paper = "" if entry.paper is None else str(entry.paper)
        table.add_row(entry.table, entry.row, entry.quantity, paper, shown, mark)
    console.print(table)
    same, compared = tally(rows)
    apart = {basis: "{} of {}".format(*tally(rows, basis)) for basis in get_args(Basis)}
    console.print(
        f"{same} of {compared} of the paper's own numbers come out as printed, found without"
        f" them; {len(differing(rows))} rows differ. Counted apart: {apart['figure']} read off"
        f" figures, {apart['scripts']} of the paper's scripts, {apart['claim']} claims in words"
        f" or of other machines, {apart['given']} that are inputs or follow from others of the"
        f" paper, {apart['ours']} of ours alone"
    )
    for note in notes:
        console.print(note)
