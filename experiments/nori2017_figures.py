"""Figures 1 and 2 of [NORI] as PNG files, each by both ways of counting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from dynsys.ordering.operations import aba_operations
from experiments.nori2017_counts import (
    chain,
    forward_operations,
    load_cell_operations,
    matrix_aba_counts,
)
from experiments.nori2017_sweeps import figure_1, figure_2, sizes, states

__all__ = ["write"]


def write(folder: Path, quick: bool) -> list[Path]:
    """Write both figures and return their paths."""
    written = []
    for name, figure in (
        ("figure1_forward_dynamics.png", _forward(quick)),
        ("figure2_load_cells.png", _load_cells(quick)),
    ):
        figure.savefig(folder / name, dpi=120)
        written.append(folder / name)
    return written


def _forward(quick: bool) -> Figure:
    at = list(sizes(quick)[0])
    found = [figure_1(n, states(n, quick)) for n in at]
    figure, axes = _axes("forward dynamics of a serial chain")
    for column, (ax, how) in enumerate(zip(axes, ("published", "true"), strict=True)):
        lu = [getattr(plain, how).total for plain, _ in found]
        permuted = [getattr(p, how).total for _, p in found]
        matrix = [matrix_aba_counts(chain(n), 1, corrected=bool(column)).total for n in at]
        ax.plot(at, lu, "s-", label="LU", color="C3", markersize=3)
        ax.plot(at, matrix, "^-", label="matrix ABA", color="C1", markersize=3)
        ax.plot(at, permuted, "d-", label="permuted LU", color="C2", markersize=3)
        ax.plot(at, [aba_operations(n).total for n in at], "k--", label="ABA, closed form")
        ours = [forward_operations(n).total for n in at]
        ax.plot(at, ours, "o-", label="ours, executed", color="C0", markersize=3)
        ax.legend()
    return figure


def _load_cells(quick: bool) -> Figure:
    at = list(sizes(quick)[1])
    found = [figure_2(n, states(n, quick)) for n in at]
    figure, axes = _axes("torques from load cells at both ends of a serial chain")
    for ax, how in zip(axes, ("published", "true"), strict=True):
        lu = [getattr(plain, how).total for plain, _ in found]
        permuted = [getattr(p, how).total for _, p in found]
        ax.plot(at, lu, "s-", label="LU", color="C3", markersize=3)
        ax.plot(at, permuted, "d-", label="permuted LU", color="C2", markersize=3)
        ours = [load_cell_operations(n).total for n in at]
        ax.plot(at, ours, "o-", label="ours, executed", color="C0", markersize=3)
        ax.legend()
    return figure


def _axes(title: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    figure.suptitle(title)
    for ax, how in zip(axes, ("LU by the published rules", "as executed"), strict=True):
        ax.set_title(how, fontsize=10)
        ax.set_xlabel("bodies N")
        ax.set_yscale("log")
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(ScalarFormatter())
        ax.set_xticks([2, 5, 10, 20, 30, 60, 100])
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.grid(True, which="both", alpha=0.3)
    axes[0].set_ylabel("additions + multiplications")
    return figure, axes
