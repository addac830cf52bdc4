"""Picture of what sensors cost against how well they determine the goals."""

from __future__ import annotations

import math
import os
from pathlib import Path

from dynsys.errors import KernelBuildError, LayoutError
from dynsys.model.readers.xml_input import PathLike
from problems.placement import Placement

__all__ = ["save_curve"]


def save_curve(placement: Placement, path: PathLike, *, unit: str = "SI units") -> None:
    """Write the trade-off curve as .png, .svg or .pdf: complete or not at all.

    ``unit`` : that of the goals' standard deviation.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise KernelBuildError(
            "pictures need matplotlib; run: pip install 'dynsys[plot]'"
        ) from None
    changes = _changes(placement)
    figure = Figure(figsize=(7.6, max(4.0, 0.15 * len(changes) + 1.0)), layout="constrained")
    axes = figure.add_subplot()
    known = [point for point in placement.curve if math.isfinite(point.std)]
    axes.plot([p.cost for p in known], [p.std for p in known], "o-", color="#1f6feb")
    axes.text(1.02, 1.0, "\n".join(changes), transform=axes.transAxes, va="top", fontsize=7)
    for point in placement.curve:
        if not math.isfinite(point.std):
            axes.axvline(point.cost, color="#d1242f", linewidth=0.8, linestyle=":")
    if math.isfinite(placement.least_std):
        axes.axhline(placement.least_std, color="0.5", linewidth=0.8, linestyle="--")
        axes.annotate(
            "no set within the budget is below this",
            (0.98, placement.least_std),
            (0, -2),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=7,
            color="0.4",
        )
    axes.set_xlabel("cost of added sensors (dotted: goals still undetermined)")
    axes.set_ylabel(f"rms standard deviation of the goals [{unit}]")
    axes.set_ylim(0.0, 1.15 * max((point.std for point in known), default=1.0))
    target = Path(path)
    part = target.with_name(f".{os.getpid()}.{target.name}")
    try:
        figure.savefig(part, dpi=150, format=target.suffix.lstrip(".") or "png")
        os.replace(part, target)
    except (OSError, ValueError) as error:
        raise LayoutError(f"{target}: cannot be written: {error}") from None
    finally:
        part.unlink(missing_ok=True)


def _changes(placement: Placement) -> list[str]:
    """What every point adds (+) and leaves out (-) of the one before, a line each."""
    lines, before = [], set[str]()
    for point in placement.curve:
        now = set(point.sensors)
        signs = [f"  + {name}" for name in sorted(now - before)]
        signs += [f"  - {name}" for name in sorted(before - now)]
        lines += [f"cost {point.cost:g}:", *(signs or ["  as it is"])]
        before = now
    return lines
