"""Figures 1 and 2 of [NORI] as PNG files, each by both ways of counting."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from experiments import figures as paper_figures
from experiments.nori2017.notes import FIGURE_1, FIGURE_2
from experiments.nori2017.published import aba_operations
from experiments.papers.paper_rows import Row

__all__ = ["write"]

Line: TypeAlias = tuple[str, str, str]
"""What is drawn, its name in the legend, its style."""

LU, PERMUTED, OURS = "s-C3", "d-C2", "o-C0"
ABA = "ABA, closed form"
FORWARD: tuple[Sequence[Line], Sequence[Line]] = (
    (
        ("LU, published rules", "LU", LU),
        ("matrix ABA, published rules", "matrix ABA", "^-C1"),
        ("permuted LU, published rules", "permuted LU", PERMUTED),
        (ABA, ABA, "--k"),
        ("ours, executed", "ours, as executed", OURS),
    ),
    (
        ("LU, true", "LU", LU),
        ("permuted LU, true", "permuted LU", PERMUTED),
        ("matrix ABA, products counted", "matrix ABA without its inertias", "^-C1"),
        (ABA, ABA, "--k"),
        ("ours, executed", "ours, as executed", OURS),
    ),
)
LOAD_CELLS: tuple[Sequence[Line], Sequence[Line]] = (
    (
        ("LU, published rules", "LU", LU),
        ("permuted LU, published rules", "permuted LU", PERMUTED),
        ("ours, executed", "ours, as executed", OURS),
    ),
    (
        ("LU, true", "LU", LU),
        ("permuted LU, true", "permuted LU", PERMUTED),
        ("ours, executed", "ours, as executed", OURS),
    ),
)


def write(folder: Path, found: Sequence[Row]) -> list[Path]:
    """Draw both figures from the rows of the experiment and return their paths."""
    forward = [row for row in found if row.table == FIGURE_1]
    cells = [row for row in found if row.table == FIGURE_2]
    ends = "Torques from load cells at both ends of a serial chain"
    figures = {
        "figure1_forward_dynamics.png": _figure(
            "Forward dynamics of a serial chain", forward, FORWARD
        ),
        "figure2_load_cells.png": _figure(ends, cells, LOAD_CELLS),
    }
    return paper_figures.save(folder, figures, dpi=130)


def _figure(title: str, found: Sequence[Row], lines: Sequence[Sequence[Line]]) -> Figure:
    figure, axes = _axes(title)
    value = {(int(row.row[4:]), row.quantity): row for row in found}
    at = sorted({n for n, _ in value})
    for ax, drawn in zip(axes, lines, strict=True):
        for what, label, style in drawn:
            total = [
                aba_operations(n).total if what == ABA
                else value[n, f"{what}, additions"].number
                + value[n, f"{what}, multiplications"].number
                for n in at
            ]  # fmt: skip
            ax.plot(at, total, style, label=label, markersize=3.5, linewidth=1.3)
        ax.legend(loc="upper left", fontsize=9)
    return figure


def _axes(title: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(11, 5), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    figure.suptitle(title)
    titles = ("LU counted by the published rules", "LU counted as executed")
    for ax, how in zip(axes, titles, strict=True):
        ax.set_title(how, fontsize=10)
        ax.set_xlabel("bodies N")
        ax.set_yscale("log")
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(ScalarFormatter())
        ax.set_xticks([2, 5, 10, 20, 30, 60, 100])
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.yaxis.set_tick_params(labelleft=True)
        ax.grid(True, which="major", alpha=0.4)
        ax.grid(True, which="minor", alpha=0.15)
    axes[0].set_ylabel("additions + multiplications per solve")
    return figure, axes
