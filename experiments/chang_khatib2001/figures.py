"""Figures of [CK] as PNG files: tree and blocks, the box, and times over n and m."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from dynsys.loops.tree_state import TreeState
from dynsys.operational.methods.chang_khatib import plan_recursion
from dynsys.types import Array
from experiments import figures as paper_figures
from experiments.chang_khatib2001.box import PutDown, put_down
from experiments.chang_khatib2001.runs import (
    HANDS,
    humanoid24,
    linear_fit,
    points_times,
    scaling,
)
from experiments.figures import draw_pattern, draw_tree, labelled_axes

__all__ = ["draw_sequence", "write"]

TIME = "CPU ms for Lambda^-1, kinematics included"


def write(folder: Path, quick: bool) -> list[Path]:
    """Write all figures into a folder and return their paths."""
    figures = {
        "figure4_recursion.png": _recursion(),
        "figure5_sequence.png": draw_sequence(put_down(quick)),
        "figure6_box.png": _plots(put_down(quick)),
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


def draw_sequence(motion: PutDown, pictures: int = 5) -> Figure:
    """Robot and box at equal intervals ([CK] figure 5)."""
    figure = Figure(figsize=(3.0 * pictures, 3.4))
    last = len(motion.time) - 1
    chosen = np.linspace(0, np.searchsorted(motion.time, motion.task.lowering), pictures - 1)
    for k, sample in enumerate([*chosen.astype(int), last]):
        axes: Any = figure.add_axes(
            (k / pictures, 0.0, 1 / pictures, 1.0), projection="3d", computed_zorder=False
        )
        _draw(axes, motion, motion.record.q[sample], motion.floor[sample, 5])
        axes.set_title(f"t = {motion.time[sample]:.2f} s", fontsize=10, y=0.92)
    return figure


def _draw(axes: Any, motion: PutDown, q: Array, carried: float) -> None:
    scene, ground = motion.scene, motion.simulation.ground.height
    places = {name: scene.together.frame(name) for name in HANDS}
    poses = TreeState(scene.together, q).poses
    r = poses.r
    tips = {h: r[f.body] + poses.E[f.body].T @ f.transform.r for h, f in places.items()}
    x, y = np.meshgrid([-0.3, 1.2], [-0.6, 0.6])
    axes.plot_surface(x, y, np.full_like(x, ground), color="0.88", shade=False, zorder=0)
    corners = scene.corners @ poses.E[-1] + r[-1]
    faces = [[0, 1, 3, 2], [4, 5, 7, 6], [0, 1, 5, 4], [2, 3, 7, 6], [0, 2, 6, 4], [1, 3, 7, 5]]
    colour = "tab:orange" if carried < 1e-9 else "tab:red"  # red: the floor carries some
    axes.add_collection3d(
        Poly3DCollection(corners[faces], facecolor=colour, edgecolor="k", alpha=0.45, zorder=1)
    )
    trunk = np.vstack([[0.0, 0.0, ground], r[:10]])
    axes.plot(*trunk.T, "o-", color="0.25", linewidth=5, markersize=5, zorder=2)
    for first, hand, side in ((10, HANDS[0], "tab:blue"), (17, HANDS[1], "tab:green")):
        arm = np.vstack([r[9], r[first : first + 7], tips[hand]])
        axes.plot(*arm.T, "o-", color=side, linewidth=3, markersize=3, zorder=3)
    top = ground + 1.6
    axes.set(xlim=(-0.3, 1.2), ylim=(-0.6, 0.6), zlim=(ground, top))
    axes.set_box_aspect((1.5, 1.2, 1.6), zoom=1.1)
    axes.view_init(elev=12, azim=-68)
    axes.set_axis_off()


def _plots(motion: PutDown) -> Figure:
    """Way of the box, what the hands press, who carries its weight ([CK] figure 6)."""
    figure = Figure(figsize=(7, 8), layout="constrained")
    way, inside, weight = figure.subplots(3, 1, sharex=True)
    time = motion.time
    for k, name in ((0, "x"), (2, "z")):
        way.plot(time, motion.place[:, k], label=f"box, {name}")
    way.plot(time, motion.wanted, "k--", linewidth=1, label="cubic spline")
    way.set_ylabel("position [m]")
    inside.plot(time, -motion.internal[:, 4], label="half the hands' difference, along y")
    inside.plot(time, -motion.commanded[:, 4], "k--", linewidth=1, label="commanded")
    inside.set_ylim(-10, 45)
    inside.set_ylabel("internal force [N]")
    weight.plot(time, motion.wrenches[:, :, 5].sum(axis=0), label="hands")
    weight.plot(time, motion.floor[:, 5], label="floor")
    weight.axhline(9.81 * motion.scene.box.total_mass, color="0.6", linewidth=1, label="weight")
    weight.set_ylim(-25, 75)
    weight.set_ylabel("upwards on the box [N]")
    weight.set_xlabel("time [s]; peaks where a corner strikes are cut")
    for axes in (way, inside, weight):
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3)
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
