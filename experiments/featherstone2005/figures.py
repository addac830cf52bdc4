"""Figures 1, 5, 6 and 7 of [BIS] as PNG files."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from dynsys.model import synthetic
from dynsys.model.expanded import expanded_parent
from experiments import figures as paper_figures
from experiments.featherstone2005 import rows as ours
from experiments.figures import draw_pattern, draw_tree, labelled_axes, symmetric_pattern

__all__ = ["write"]


def write(folder: Path) -> list[Path]:
    """Write all figures into a folder and return their paths."""
    robot = synthetic.humanoid30()
    patterns = Figure(figsize=(10, 4), layout="constrained")
    axes = patterns.subplots(1, 3)
    draw_tree(axes[0], ours.TREE_1, [str(i + 1) for i in range(7)])
    axes[0].set_title("tree 1", fontsize=10)
    draw_pattern(axes[1], symmetric_pattern(ours.TREE_1), "H of tree 1")
    draw_pattern(
        axes[2], symmetric_pattern(expanded_parent(robot).tolist()), "H of the humanoid"
    )
    graph = Figure(figsize=(5, 5), layout="constrained")
    draw_tree(graph.subplots(), robot.parent.tolist(), ["torso"])
    figures = {
        "figure1_patterns.png": patterns,
        "figure5_factorisation_cost.png": _figure_5(),
        "figure6_humanoid.png": graph,
        "figure7_forward_dynamics.png": _figure_7(),
    }
    return paper_figures.save(folder, figures)


def _figure_5() -> Figure:
    figure, axes = labelled_axes("n", "operations of LTDL, D1 + 2 D2")
    for name in ours.TOPOLOGIES:
        trees = [parent for _, parent in ours.trees(name) if len(parent) >= 2]
        cost = [ours.operations(parent) for parent in trees]
        axes.loglog([len(parent) for parent in trees], cost, ".-", markersize=3, label=name)
    axes.legend()
    return figure


def _figure_7() -> Figure:
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.subplots()
    counts, labels = ours.forward_dynamics_counts(), []
    parts = ("C by RNEA", "H by CRBA", "LTDL", "back-substitution")
    for k, (robot, method) in enumerate(
        (r, m) for r in ("chain", "humanoid") for m in ("via ABA", "via CRBA")
    ):
        labels.append(f"{robot}, {method}")
        if method == "via ABA":
            total = counts[robot][method].total
            axes.barh(k, total, color="tab:gray", label="ABA" if k == 0 else None)
            axes.text(total + 150, k, str(counts[robot][method]), va="center", fontsize=8)
            continue
        left = 0
        for colour, part in zip(("C0", "C1", "C2", "C3"), parts, strict=True):
            size = counts[robot][part].total
            axes.barh(k, size, left=left, color=colour, label=part if k == 1 else None)
            left += size
        axes.text(left + 150, k, str(counts[robot][method]), va="center", fontsize=8)
    axes.set_yticks(range(4), labels)
    axes.set_xlim(0, 34000)
    axes.set_xlabel("operations, a = m")
    axes.legend(fontsize=8, loc="lower right")
    return figure
