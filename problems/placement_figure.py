"""Picture of what sensors cost against how well they determine the goals."""

from __future__ import annotations

import math
import os
from pathlib import Path

from dynsys.errors import KernelBuildError, LayoutError
from dynsys.model.xml_input import PathLike
from problems.placement import Placement

__all__ = ["save_curve"]


def save_curve(placement: Placement, path: PathLike) -> None:
    """Write the trade-off curve as .png, .svg or .pdf: complete or not at all."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise KernelBuildError(
            "pictures need matplotlib; run: pip install 'dynsys[plot]'"
        ) from None
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    known = [point for point in placement.curve if math.isfinite(point.std)]
    axes.plot([p.cost for p in known], [p.std for p in known], "o-", color="#1f6feb")
    most = max((point.cost for point in placement.curve), default=0.0)
    for before, point in zip([None, *known[:-1]], known, strict=True):
        new = set(point.sensors) - set(before.sensors if before else ())
        late = 2 * point.cost > most
        axes.annotate(
            ", ".join(sorted(new)) or "as it is",
            (point.cost, point.std),
            xytext=(-4 if late else 4, 6),
            textcoords="offset points",
            ha="right" if late else "left",
            fontsize=7,
        )
    for point in placement.curve:
        if not math.isfinite(point.std):
            axes.axvline(point.cost, color="#d1242f", linewidth=0.8, linestyle=":")
    if math.isfinite(placement.least_std):
        axes.axhline(placement.least_std, color="0.5", linewidth=0.8, linestyle="--")
        axes.annotate(
            "no set within the budget is below this",
            (0.01, placement.least_std),
            xycoords=("axes fraction", "data"),
            ha="left",
            va="top",
            fontsize=7,
            color="0.4",
        )
    axes.set_xlabel("cost of added sensors (dotted: goals still undetermined)")
    axes.set_ylabel("rms standard deviation of the goals, SI units")
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
