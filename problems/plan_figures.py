"""Pictures of D before and after permutation: colour by quantity, lightness by body."""

from __future__ import annotations

import colorsys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynsys.plan.lu import symbolic_lu
from dynsys.plan.orders.orders import PivotOrder
from dynsys.plan.orders.recursive_orders import LeafToRoot
from dynsys.system.linear_system import LinearSystem
from dynsys.types import Array

if TYPE_CHECKING:
    from dynsys.plan.plan import Plan

__all__ = ["draw_order", "draw_plan"]

HUES = {
    "acceleration": (0.58, "acceleration a"),
    "net_wrench": (0.08, "net wrench f^B"),
    "joint_wrench": (0.33, "joint wrench f"),
    "torque": (0.0, "torque tau"),
    "external_wrench": (0.77, "external wrench f^x"),
    "qdd": (0.14, "joint acceleration qdd"),
}
FILL = (0.72, 0.72, 0.72)
STRIP = 0.02
"""Width of the strips that show bodies, as part of the picture."""


def draw_plan(system: LinearSystem, plan: Plan, folder: Path) -> list[Path]:
    """Picture of D in natural order and in that of a plan; returns the files written."""
    from dynsys.plan.orders.orders import OrderingContext

    order = plan.order
    if order is None:  # symmetric pairs: their order of scalars
        order = LeafToRoot().order(system.pattern(), OrderingContext.sampled(system, 8))
    return [draw_order(system, order, plan.ordering, folder / "plan.png")]


def draw_order(system: LinearSystem, order: PivotOrder, name: str, path: Path) -> Path:
    """Write the picture of one order; fill is grey."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    path.parent.mkdir(parents=True, exist_ok=True)
    n_rows, n_cols = system.shape
    natural = PivotOrder(np.arange(n_rows), np.arange(n_cols))
    lu = symbolic_lu(system.pattern(), order)
    figure = Figure(figsize=(13, 7.2), layout=ConstrainedLayoutEngine(h_pad=0.12))
    left, right = figure.subplots(1, 2)
    _draw(left, system, natural, None)
    left.set_title(f"D as assembled: {system.nnz} entries", fontsize=10)
    filled = (lu.rows, lu.columns)
    _draw(right, system, order, filled)
    right.set_title(f"{name}: fill {lu.fill} (grey)", fontsize=10)
    figure.suptitle(f"{system.robot.name}: {n_rows} equations, {n_cols} unknowns", fontsize=11)
    _legends(figure, system)
    figure.savefig(path, dpi=150)
    return path


def colour(kind: str, body: int, n_bodies: int) -> tuple[float, float, float]:
    """Hue of the quantity; darker towards the last body."""
    lightness = 0.68 - 0.38 * (body / max(1, n_bodies - 1))
    return colorsys.hls_to_rgb(HUES[kind][0], lightness, 0.85)


def _draw(ax: Any, system: LinearSystem, order: PivotOrder, filled: Any) -> None:
    n_rows, n_cols = system.shape
    image = np.ones((n_rows, n_cols, 3))
    if filled is not None:
        image[filled[0], filled[1]] = FILL
    pattern = order.apply_pattern(system.pattern()).tocoo()
    image[pattern.row, pattern.col] = _column_colours(system)[order.col_order][pattern.col]
    # outlines would hide single entries: every entry is one square pixel of the image
    ax.imshow(image, interpolation="nearest", extent=(0, n_cols, n_rows, 0))
    bodies = _column_bodies(system)[order.col_order]
    rows = _row_bodies(system)[order.row_order]
    width = max(2.0, STRIP * n_cols)
    strip = {"cmap": "viridis", "vmin": 0, "vmax": max(1, system.robot.n_bodies - 1)}
    box = {"aspect": "auto", "interpolation": "nearest", "clip_on": False}
    ax.imshow(bodies[None], extent=(0, n_cols, -0.5 * width, -1.5 * width), **strip, **box)
    ax.imshow(rows[:, None], extent=(-1.5 * width, -0.5 * width, n_rows, 0), **strip, **box)
    ax.set_xlim(-1.6 * width, n_cols)
    ax.set_ylim(n_rows, -1.6 * width)
    ax.set_aspect("equal")
    ax.set_xlabel("unknowns")
    ax.set_ylabel("equations")


def _legends(figure: Any, system: LinearSystem) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.patches import Patch

    kinds = {block.kind for block in system.unknowns.blocks}
    middle, n = system.robot.n_bodies // 2, system.robot.n_bodies
    patches = [
        Patch(color=colour(kind, middle, n), label=label)
        for kind, (_, label) in HUES.items()
        if kind in kinds
    ]
    patches.append(Patch(color=FILL, label="fill"))
    title = "column's quantity (darker: later body)"
    figure.legend(
        handles=patches, loc="outside lower center", ncol=len(patches), fontsize=8, title=title
    )
    bodies = ScalarMappable(Normalize(0, max(1, n - 1)), "viridis")
    bar = figure.colorbar(bodies, ax=figure.axes, shrink=0.6, pad=0.01)
    bar.set_label("body of the row / column (strips)")
    bar.ax.yaxis.get_major_locator().set_params(integer=True)


def _column_colours(system: LinearSystem) -> Array:
    n = system.robot.n_bodies
    out = np.zeros((system.shape[1], 3))
    for block in system.unknowns.blocks:
        out[block.columns] = colour(block.kind, block.body, n)
    return out


def _column_bodies(system: LinearSystem) -> Array:
    out = np.zeros(system.shape[1])
    for block in system.unknowns.blocks:
        out[block.columns] = block.body
    return out


def _row_bodies(system: LinearSystem) -> Array:
    return np.concatenate(
        [np.full(block.size, float(block.body)) for block in system.equations]
    )
