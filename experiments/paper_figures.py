"""What the figures of several papers share: axes with labels, and files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

__all__ = ["labelled_axes", "save"]


def labelled_axes(xlabel: str, ylabel: str) -> tuple[Figure, Any]:
    """Figure of one panel with a grid."""
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
