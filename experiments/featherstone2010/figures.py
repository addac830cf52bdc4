"""Figures 2, 11, 12, 13 and table 3 of [OSI] as PNG files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from dynsys.model.expanded import expanded_parent
from dynsys.recursive.sparse_factors import support_mask, tree_sums
from experiments import figures as paper_figures
from experiments.featherstone2005.counts import factor_count
from experiments.featherstone2010.counts import omega_count, propagator_count, rjk_transforms
from experiments.featherstone2010.kernels import time_ratio
from experiments.featherstone2010.rows import (
    TABLE_3,
    TREE_1,
    Variant,
    asimo,
    counts,
    h_and_c,
    ratio,
    timed,
)
from experiments.figures import draw_pattern, draw_tree, symmetric_pattern

__all__ = ["write"]


def write(folder: Path, quick: bool) -> list[Path]:
    """Write all figures into a folder and return their paths."""
    figures = {
        "figure2_patterns.png": _patterns(),
        "figure11_asimo.png": _graph(),
        "figure12_operations.png": _operations(),
        "figure13_rjk.png": _against_rjk(),
        "table3_cost_ratios.png": _ratios(quick),
    }
    return paper_figures.save(folder, figures)


def _patterns() -> Figure:
    robot, supports, _ = asimo()
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    axes = figure.subplots(1, 4, width_ratios=(1, 1, 1, 1))
    draw_pattern(axes[0], symmetric_pattern(TREE_1), "H of figure 1")
    draw_pattern(axes[1], support_mask(TREE_1), "L of figure 1")
    draw_pattern(axes[2], symmetric_pattern(expanded_parent(robot).tolist()), "H of ASIMO")
    draw_pattern(axes[3], supports.mask(robot.nv), "J of ASIMO")
    return figure


def _graph() -> Figure:
    figure = Figure(figsize=(6, 5), layout="constrained")
    variant = Variant()
    draw_tree(figure.subplots(), variant.parent, variant.names())
    return figure


def _operations() -> Figure:
    dense, sparse = counts()
    H, C = h_and_c()
    names = ("LTDL", "J x", "J^T x", "Y", "Lambda^-1", "Jbar LTDL", "N")
    labels = ("H, C", "LTDL", "J x", "J^T x", r"$J L^{-1}$", r"$Y Y^T$", r"$\bar J$", "N")
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    y = np.arange(len(labels))
    bars_dense = [(H + C).total, *(dense[name].total for name in names)]
    bars_sparse = [(H + C).total, *(sparse[name].total for name in names)]
    axes.barh(y - 0.2, bars_dense, 0.38, color="0.7", label="dense")
    axes.barh(y + 0.2, bars_sparse, 0.38, color="tab:blue", label="sparse")
    for k, (a, b) in enumerate(zip(bars_dense, bars_sparse, strict=True)):
        axes.text(a + 500, k - 0.2, str(a), va="center", fontsize=8)
        axes.text(b + 500, k + 0.2, str(b), va="center", fontsize=8)
    axes.set_yticks(y, labels)
    axes.invert_yaxis()
    axes.set_xlim(0, 92000)
    axes.set_xlabel("floating-point operations, ASIMO, hands and feet")
    axes.legend()
    return figure


def _against_rjk() -> Figure:
    robot, _, bodies = asimo()
    _, sparse = counts()
    moves = rjk_transforms(robot.parent, bodies)
    ltdl = factor_count(tree_sums(expanded_parent(robot)), unit=True).total
    bars = {
        "sparse factorisation": (
            ("H", h_and_c()[0].total),
            ("LTDL", ltdl),
            (r"$J L_d^{-1}$", sparse["Y"].total),
            (r"$Y_D Y_d^T$", sparse["Lambda^-1"].total),
        ),
        "RJK": (
            (r"$D^{-1}, \bar\tau$", propagator_count(robot.n_bodies, moves).total),
            (r"$\Omega$", omega_count(moves).total),
        ),
    }
    figure = Figure(figsize=(8, 2.6), layout="constrained")
    axes = figure.subplots()
    colour = 0
    for k, parts in enumerate(bars.values()):
        left = 0
        for label, size in parts:
            axes.barh(k, size, left=left, color=f"C{colour}")
            axes.text(
                left + size / 2, k, f"{label}\n{size}", ha="center", va="center", fontsize=8
            )
            left, colour = left + size, colour + 1
        axes.text(left + 300, k, str(left), va="center", fontsize=9)
    axes.set_yticks(range(2), list(bars))
    axes.set_xlim(0, 36000)
    axes.set_xlabel(r"operations for $\Lambda^{-1}$, ASIMO, hands and feet")
    return figure


def _ratios(quick: bool) -> Figure:
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    y = np.arange(len(TABLE_3))
    axes.barh(y - 0.25, [paper for *_, paper in TABLE_3], 0.24, color="0.7", label="paper")
    letter = [ratio(variant, space, as_printed=True) for _, space, variant, _ in TABLE_3]
    full = [ratio(variant, space) for _, space, variant, _ in TABLE_3]
    axes.barh(y, letter, 0.24, color="tab:blue", label="ours, figure 15 as printed")
    axes.barh(y + 0.25, full, 0.24, color="tab:orange", label="ours, all needed blocks")
    lines = TABLE_3[: 2 if quick else None]
    ran = [time_ratio(timed(variant, space, quick)) for _, space, variant, _ in lines]
    axes.plot(ran, y[: len(ran)], "k|", markersize=28, markeredgewidth=2, label="run time")
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks(y, [f"{robot}, {space}" for robot, space, *_ in TABLE_3])
    axes.invert_yaxis()
    axes.set_xlabel(
        "RJK / sparse factorisation, operations (bars) and run time of machine code"
    )
    axes.legend(fontsize=8, markerscale=0.4)
    return figure
