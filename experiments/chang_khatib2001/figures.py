"""Figures of [CK] as PNG files: the humanoid's tree and blocks, and times over n and m."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from dynsys.operational.methods.chang_khatib import plan_recursion
from experiments import figures as paper_figures
from experiments.chang_khatib2001.runs import (
    HANDS,
    box_motion,
    humanoid24,
    linear_fit,
    points_times,
    scaling,
)
from experiments.figures import draw_pattern, draw_tree, labelled_axes

__all__ = ["write"]

TIME = "CPU ms for Lambda^-1, kinematics included"


def write(folder: Path, quick: bool) -> list[Path]:
    """Write all figures into a folder and return their paths."""
    figures = {
        "figure4_recursion.png": _recursion(),
        "figure6_box.png": _box(quick),
        "time_over_links.png": _over_links(quick),
        "time_over_points.png": _over_points(quick),
    }
    return paper_figures.save(folder, figures)


def _recursion() -> Figure:
    robot = humanoid24()
    bodies = sorted(robot.body_index(hand) for hand in HANDS)
    blocks = np.zeros((24, 24), dtype=bool)
    for i, j in plan_recursion(robot.parent, bodies).place:
        blocks[i, j] = True
    figure = Figure(figsize=(10, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_tree(left, robot.parent.tolist())
    left.set_title("24 links, two operational points at the tips", fontsize=10)
    draw_pattern(right, blocks, "blocks of Omega computed in steps 3 and 4")
    return figure


def _box(quick: bool) -> Figure:
    motion = box_motion(quick)
    figure = Figure(figsize=(7, 6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    top.plot(motion.time, motion.height, label="box")
    top.plot(motion.time, motion.wanted, "k--", label="cubic spline")
    top.set_ylabel("height [m]")
    top.legend(fontsize=8)
    bottom.plot(motion.time, 1e3 * motion.error, label="error of height [mm]")
    bottom.plot(motion.time, motion.posture, label="largest joint motion [rad]")
    bottom.set_xlabel("time [s]")
    bottom.legend(fontsize=8)
    return figure


def _over_links(quick: bool) -> Figure:
    figure, axes = labelled_axes("links n, two operational points", TIME)
    found = scaling(quick)
    for name, times in found.times.items():
        slope, _, fit = linear_fit(found.sizes, times)
        label = f"{name}: {1e6 * slope:.2f} µs per link, R^2 = {fit:.4f}"
        axes.loglog(found.sizes, [1e3 * t for t in times], ".-", label=label)
    axes.loglog(found.sizes, [1e3 * t for t in found.dense], "k.-", label="dense, O(n^3)")
    axes.legend(fontsize=8)
    return figure


def _over_points(quick: bool) -> Figure:
    figure, axes = labelled_axes("operational points m, leaves of a balanced tree", TIME)
    for name, times in points_times(quick).items():
        style = "k--" if name == "auto" else ".-"
        axes.loglog(list(times), [1e3 * t for t in times.values()], style, label=name)
    axes.legend(fontsize=8)
    return figure
