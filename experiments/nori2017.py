"""[NORI] reproduced: dynamics by sparse LU with offline permutations, 2017.

    python -m experiments.nori2017 [--json] [--quick] [--plot FOLDER]

The paper prints figures, no tables. The values in the column "paper" are those its published
scripts give (one random state per N, run under Octave) and its closed form of ABA.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from dynsys.ordering import Peeled, PivotOrder, symbolic_lu
from dynsys.ordering.operations import aba_operations
from dynsys.ordering.search import Search
from experiments import nori2017_posedness as posedness
from experiments import nori2017_search as searches
from experiments.nori2017_counts import (
    chain,
    forward_operations,
    forward_system,
    inverse_system,
    load_cell_operations,
    lu_counts,
    matrix_aba_counts,
    permuted_lu,
)
from experiments.nori2017_notes import FIGURE_1, FIGURE_2, holds, notes
from experiments.nori2017_scripts import (
    SCRIPT_BRANCHED,
    SCRIPT_CELLS_LU,
    SCRIPT_CELLS_PERMUTED,
    SCRIPT_LU,
    SCRIPT_MATRIX_ABA,
    SCRIPT_PERMUTED,
    SCRIPT_PERMUTED_TRUE,
)
from experiments.nori2017_sweeps import figure_1, figure_2, sizes, states
from experiments.paper_rows import Row

__all__ = ["figures", "main", "rows"]

TITLE = "Nori 2017: dynamics by sparse LU factorisation"


def rows(quick: bool = False) -> list[Row]:
    """All numbers, beside those of the scripts."""
    return [
        *figure_1_rows(quick),
        *figure_2_rows(quick),
        *branched_rows(quick),
        *triangular_rows(quick),
        *posedness_rows(quick),
        *search_rows(quick),
    ]


# ---- figures 1 and 2 -----------------------------------------------------------------------


def figure_1_rows(quick: bool) -> list[Row]:
    """Forward dynamics of a serial chain."""
    found = []
    for n in sizes(quick)[0]:
        lu, permuted = figure_1(n, states(n, quick))
        robot, count = chain(n), min(2, states(n, quick))
        aba, ours = aba_operations(n), forward_operations(n)
        matrix = matrix_aba_counts(robot, count, corrected=False)
        corrected = matrix_aba_counts(robot, count, corrected=True)
        a, m, c = SCRIPT_MATRIX_ABA.get(n, (None, None, None))
        closed = (205 * n - 248, 224 * n - 259)
        found += [
            *_pair(FIGURE_1, n, "ABA, closed form", closed, aba.additions, aba.multiplications),
            *_means(FIGURE_1, n, "matrix ABA, published rules", (a, m), matrix),
            *_means(FIGURE_1, n, "matrix ABA, products counted", (a, c), corrected),
            *_means(FIGURE_1, n, "LU, published rules", SCRIPT_LU.get(n), lu.published),
            *_means(FIGURE_1, n, "LU, true", None, lu.true),
            *_means(
                FIGURE_1, n, "permuted LU, published rules", SCRIPT_PERMUTED.get(n),
                permuted.published,
            ),
            *_means(
                FIGURE_1, n, "permuted LU, true", SCRIPT_PERMUTED_TRUE.get(n), permuted.true
            ),
            *_pair(
                FIGURE_1, n, "ours, executed", None, ours.additions,
                ours.multiplications + ours.divisions,
            ),
            Row(
                FIGURE_1, f"N = {n}", "ours with external wrenches, executed, total", None,
                forward_operations(n, wrenches=True).total,
            ),
            Row(FIGURE_1, f"N = {n}", "ours / ABA", None, ours.total / aba.total),
        ]  # fmt: skip
    return found


def figure_2_rows(quick: bool) -> list[Row]:
    """Torques from load cells at both ends of a serial chain."""
    found = []
    for n in sizes(quick)[1]:
        lu, permuted = figure_2(n, states(n, quick))
        ours = load_cell_operations(n)
        found += [
            *_means(FIGURE_2, n, "LU, published rules", SCRIPT_CELLS_LU.get(n), lu.published),
            *_means(FIGURE_2, n, "LU, true", None, lu.true),
            *_means(
                FIGURE_2, n, "permuted LU, published rules", SCRIPT_CELLS_PERMUTED.get(n),
                permuted.published,
            ),
            *_means(FIGURE_2, n, "permuted LU, true", None, permuted.true),
            *_pair(
                FIGURE_2, n, "ours, executed", None, ours.additions,
                ours.multiplications + ours.divisions,
            ),
            Row(
                FIGURE_2, f"N = {n}", "ours, all unknowns, executed, total", None,
                load_cell_operations(n, everything=True).total,
            ),
            Row(
                FIGURE_2, f"N = {n}", "permuted LU, true / ours", None,
                permuted.true.total / ours.total,
            ),
        ]  # fmt: skip
    return found


def _means(
    table: str, n: int, what: str, paper: tuple[int | None, ...] | None, mean: object
) -> list[Row]:
    a, m = mean.additions, mean.multiplications  # type: ignore[attr-defined]
    return _pair(table, n, what, paper, round(a, 1), round(m, 1))


def _pair(
    table: str, n: int, what: str, paper: tuple[int | None, ...] | None, a: float, m: float
) -> list[Row]:
    first, second = paper or (None, None)
    return [
        Row(table, f"N = {n}", f"{what}, additions", first, a),
        Row(table, f"N = {n}", f"{what}, multiplications", second, m),
    ]


# ---- branched, triangular, posedness, search -----------------------------------------------


def branched_rows(quick: bool) -> list[Row]:
    """Forward dynamics of a tree, branching factor 1.5."""
    found, table = [], "branched, forward dynamics"
    for n in (10,) if quick else (10, 20, 30):
        permuted = lu_counts(forward_system(chain(n, 1.5)), permuted_lu(), states(n, quick))
        ours = forward_operations(n, 1.5)
        entries, a, m = SCRIPT_BRANCHED[n]
        where = f"N = {n}"
        elimination = permuted.true_elimination
        found += [
            Row(table, where, "permuted LU, entries of L + U", entries, permuted.entries),
            *_pair(
                table, n, "permuted LU, true elimination", (a, m),
                round(elimination.additions, 1), round(elimination.multiplications, 1),
            ),
            *_pair(
                table, n, "ours, executed", None, ours.additions,
                ours.multiplications + ours.divisions,
            ),
        ]  # fmt: skip
    return found


def triangular_rows(quick: bool) -> list[Row]:
    """Inverse dynamics from shuffled rows and columns: fill 0; the paper stops at 100."""
    found, table = [], "triangularisation of inverse dynamics"
    for n in (10, 100) if quick else (10, 30, 100, 1000, 5000):
        pattern = inverse_system(chain(n, 1.5)).pattern()
        rng = np.random.default_rng(n)
        shuffled = PivotOrder(*(rng.permutation(k) for k in pattern.shape)).apply_pattern(
            pattern
        )
        start = time.perf_counter()
        order = Peeled().order(shuffled)
        seconds = time.perf_counter() - start
        lu = symbolic_lu(shuffled, order)
        paper = 0 if n <= 100 else None
        where = f"N = {n}, bf 1.5, shuffled"
        found.append(Row(table, where, "fill", paper, lu.fill))
        found.append(Row(table, where, "triangular", "yes" if n <= 100 else None,
                         "yes" if lu.is_triangular else "no"))  # fmt: skip
        found.append(Row(table, where, "seconds", None, round(seconds, 4)))
    return found


def posedness_rows(quick: bool) -> list[Row]:
    """Property 3, Remark 5 and the ranks of the published sets."""
    found = []
    for name, components, paper in (
        ("four load cells per foot", posedness.PLATE, "singular for some pose"),
        ("slippery floor", posedness.SLIPPERY, "solvable"),
    ):
        columns, ranks = posedness.feet_ranks(components)
        verdict = "full rank at 200 poses" if ranks == {columns} else "singular at 200 poses"
        found.append(Row("Property 3", name, "[H, X* H]", paper, verdict))
    expected = {"autoSensSIE": 1, "autoSensSIEfriction": 0, "autoSensSIEfriction_fy": 1}
    for n in (6,) if quick else (6, 8, 12):
        for name, missing in posedness.published_ranks(n).items():
            worst = max(missing)
            found.append(
                Row("published sets", f"{name}, N = {n}", "26N - rank", expected[name], worst)
            )
    if not quick:
        for name, components, verdict in (
            ("four load cells per foot", posedness.PLATE, "ill-posed"),
            ("slippery floor", posedness.SLIPPERY, "well-posed"),
        ):
            missing = posedness.humanoid_on_feet(components)
            ours = "well-posed" if missing == {0} else "ill-posed"
            found.append(
                Row("Remark 5", f"humanoid on two feet, {name}", "torques", verdict, ours)
            )
    return found


def search_rows(quick: bool) -> list[Row]:
    """Operations that the search saves on the best constructive order of the scalar LU."""
    found = []
    search = Search(evaluations=1600 if quick else 32000, seed=0)
    for name, system in searches.systems(quick).items():
        result = searches.improve(name, system, search)
        found.append(
            Row("search", name, "constructive order, executed", None, result.constructive)
        )
        found.append(Row("search", name, "found, executed", None, result.found))
        found.append(Row("search", name, "saved", None, round(result.saved, 4)))
    for proof in searches.prove(quick):
        table = "search, all orders tried"
        found.append(
            Row(table, proof.name, "constructive order, estimate", None, proof.constructive)
        )
        found.append(Row(table, proof.name, "least of all orders", None, proof.least))
    return found


def figures(folder: Path, quick: bool = False) -> list[Path]:
    """Write figures 1 and 2 as PNG files and return their paths."""
    from experiments import nori2017_figures

    return nori2017_figures.write(folder, quick)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; 0 if what it claims came out, else 1."""
    parser = argparse.ArgumentParser(description=TITLE)
    parser.add_argument("--json", action="store_true", help="print a list of rows as JSON")
    parser.add_argument("--quick", action="store_true", help="few sizes and states: seconds")
    parser.add_argument("--plot", metavar="FOLDER", type=Path, help="write the figures as PNG")
    options = parser.parse_args(argv)
    found = rows(options.quick)
    if options.plot is not None:
        options.plot.mkdir(parents=True, exist_ok=True)
        figures(options.plot, options.quick)
    if options.json:
        print(json.dumps([row.as_json() for row in found], indent=1))
    else:
        _show(found)
    return 0 if holds(found) else 1


def _show(found: Sequence[Row]) -> None:
    console, table = (
        Console(),
        Table("table", "row", "quantity", "scripts", "ours", title=TITLE),
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
