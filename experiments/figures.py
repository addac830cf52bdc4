"""What figures of several experiments share: axes with labels, files, trees, patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynsys.model.expanded import depths
from dynsys.recursive.sparse_factors import support_mask
from dynsys.types import BoolArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_pattern", "draw_tree", "labelled_axes", "save"]


def labelled_axes(xlabel: str, ylabel: str) -> tuple[Figure, Any]:
    """Figure of one panel with a grid."""
    from matplotlib.figure import Figure  # measuring needs no package for pictures

    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(True, which="both", alpha=0.3)
    return figure, axes


def save(folder: Path, figures: Mapping[str, Figure], dpi: int = 120) -> list[Path]:
    """Write figures by file name into a folder and return their paths."""
    written = [folder / name for name in figures]
    for path, figure in zip(written, figures.values(), strict=True):
        figure.savefig(path, dpi=dpi)
    return written


# ---- drawings of connectivity graphs and of sparsity patterns ------------------------------


def draw_tree(axes: Any, parent: Sequence[int], names: Sequence[str] = ()) -> None:
    """Draw a tree, the base at the bottom, leaves side by side, parents in between."""
    n, depth = len(parent), depths(np.array(parent))
    children: dict[int, list[int]] = {}
    for i, p in enumerate(parent):
        children.setdefault(p, []).append(i)
    x = np.zeros(n)
    leaves = 0

    def place(i: int) -> float:
        nonlocal leaves
        below = [place(j) for j in children.get(i, [])]
        if not below:
            leaves += 1
            below = [float(leaves - 1)]
        middle = (below[0] + below[-1]) / 2
        if i >= 0:
            x[i] = middle
        return middle

    root = place(-1)
    for i, p in enumerate(parent):
        axes.plot([x[i], x[p] if p >= 0 else root], [depth[i], depth[i] - 1], "-", color="0.5")
    axes.plot(x, depth, "o", color="tab:blue", markersize=6)
    axes.plot([root], [0], "s", color="black", markersize=9)
    for i, name in enumerate(names):
        if name:
            offset = (6, -10 if i in children else 3)  # branches go up
            axes.annotate(
                name, (x[i], depth[i]), offset, textcoords="offset points", fontsize=8
            )
    axes.margins(0.12)
    axes.set_axis_off()


def draw_pattern(axes: Any, pattern: BoolArray, title: str) -> None:
    """Draw a pattern: dark squares where elements may be nonzero."""
    axes.imshow(pattern, cmap="Greys", vmin=0, vmax=1.6, interpolation="nearest")
    axes.set_title(f"{title}: {int(pattern.sum())} of {pattern.size}", fontsize=10)
    axes.set_xticks([])
    axes.set_yticks([])


def symmetric_pattern(parent: Sequence[int]) -> BoolArray:
    """Pattern of H (n, n) for an expanded parent array."""
    mask = support_mask(np.array(parent))
    both: BoolArray = mask | mask.T
    return both
