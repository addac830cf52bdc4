"""Figures 1-4 of [DRUM] and a walking centipede as PNG files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dynsys.simulation import ROUTES, SimulationState
from experiments import figures as paper_figures
from experiments.drumwright2012 import centipedes as centipede_runs
from experiments.drumwright2012 import contact_model
from experiments.drumwright2012 import runs as drumwright_runs
from experiments.drumwright2012.rows import Sizes, figure_1_curves, our_multiplications
from experiments.figures import labelled_axes

__all__ = ["draw_walk", "write"]


def write(folder: Path, sizes: Sizes) -> list[Path]:
    """Write all figures into a folder and return their paths."""
    alone = [drumwright_runs.inverse_times(n, sizes.passes) for n in sizes.joints]
    shared = [drumwright_runs.thread_times(n, sizes.passes) for n in sizes.threads]
    figures = {
        "figure1_multiplications.png": _figure_1(),
        "figure2_inversion.png": _times("CPU ms", sizes.joints, alone),
        "figure3_threads.png": _times("ms on the wall", sizes.threads, shared),
        "figure4_centipedes.png": _figure_4(sizes),
        "figure4_inertia.png": _inertias(sizes),
        "centipede_walk.png": draw_walk(centipede_runs.walk(*sizes.walk)),
        "centipede_energy.png": _energy(centipede_runs.walk(*sizes.walk)),
    }
    return paper_figures.save(folder, figures)


def _figure_1() -> Figure:
    figure, axes = labelled_axes("joints n", "multiplications")
    n = list(range(1, 101))
    for name in figure_1_curves(1):
        axes.plot(n, [float(figure_1_curves(k)[name]) for k in n], label=name)
    executed = [float(figure_1_curves(k, as_printed=False)["Theta(n^2)"]) for k in n]
    axes.plot(n, executed, "--", label="Theta(n^2), as executed")
    axes.plot(n, [our_multiplications(k) for k in n], "k:", label="executed by our loops")
    axes.legend()
    return figure


def _times(unit: str, sizes: Sequence[int], measured: Sequence[Mapping[str, float]]) -> Figure:
    """Figures 2 and 3: a curve per algorithm, seconds over the number of joints."""
    figure, axes = labelled_axes("joints n", f"{unit} per state, kinematics included")
    for name in measured[0]:
        axes.loglog(sizes, [1e3 * times[name] for times in measured], ".-", label=name)
    axes.legend()
    return figure


def _figure_4(sizes: Sizes) -> Figure:
    figure, axes = labelled_axes("body segments", "CPU s per 1000 steps")
    labels = {
        "y_factor": "Y-factor",
        "drumwright": "Theta(n^2)",
        "dense": "LAPACK Cholesky, back-substitution",
        "ltl": "branch-induced sparsity, back-substitution",
    }
    for route in ROUTES:
        times = [
            1e3 * contact_model.step_parts(k, min(sizes.passes, 7)).step[route]
            for k in sizes.segments
        ]
        axes.loglog(sizes.segments, times, ".-", label=labels[route])
    axes.legend()
    return figure


def _inertias(sizes: Sizes) -> Figure:
    figure, axes = labelled_axes("body segments", "CPU ms for J M^-1 J^T of all feet")
    for route in ROUTES:
        taken = [
            centipede_runs.inertia_seconds(k, min(sizes.passes, 3))[0][route]
            for k in sizes.segments
        ]
        axes.loglog(sizes.segments, [1e3 * t for t in taken], ".-", label=route)
    axes.legend()
    return figure


def draw_walk(walk: centipede_runs.Walk) -> Figure:
    """Snapshots of a walk, feet on the ground in red, on common axes."""
    count, width, band, margin = len(walk.states), 10.0, 2.1, 0.5  # inches
    height = band * count + margin
    figure = Figure(figsize=(width, height))
    clouds = [walk.points(state) for state in walk.states]
    low = np.min([points.min(axis=0) for points in clouds], axis=0) - 0.03
    high = np.max([points.max(axis=0) for points in clouds], axis=0) + 0.03
    for k, (state, points) in enumerate(zip(walk.states, clouds, strict=True)):
        side = width / height  # square axes, overlapping: what they show is a band
        middle = 1 - ((k + 0.5) * band + 0.6 * margin) / height
        axes: Any = figure.add_axes((0.0, middle - side / 2, 1.0, side), projection="3d")
        axes.patch.set_alpha(0.0)
        _draw_body(axes, walk, state, points)
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(0.0, high[2]))
        axes.set_box_aspect((high[0] - low[0], high[1] - low[1], high[2]), zoom=0.86)
        axes.view_init(elev=25, azim=-80)
        axes.tick_params(labelsize=7)
        axes.set_yticks([-0.1, 0.1])
        axes.set_zticks([0.0, 0.08])
        title = f"t = {state.time:.2f} s, head at x = {state.q[0]:.2f} m"
        figure.text(0.66, middle + 0.32 * band / height, title, fontsize=10)
    return figure


def _draw_body(
    axes: Any, walk: centipede_runs.Walk, state: SimulationState, points: np.ndarray[Any, Any]
) -> None:
    n = walk.simulation.robot.n_bodies
    spine = points[[*range(0, n, 5), -1]]
    body = {"color": "saddlebrown", "linewidth": 5, "solid_capstyle": "round"}
    axes.plot(*spine.T, "-", clip_on=False, **body)
    for leg in range(2 * n // 5):
        segment, side = divmod(leg, 2)
        upper = 5 * segment + 1 + 2 * side
        way = points[[upper, upper + 1, n + leg]]
        axes.plot(*way.T, "-", color="tab:olive", linewidth=1.5, clip_on=False)
        if state.impulses[leg, 0] > 0:
            axes.plot(*way[-1:].T, "o", color="tab:red", markersize=3, clip_on=False)
    trace = walk.states[0].q[0], state.q[0]
    axes.plot(trace, [0.0, 0.0], [0.0, 0.0], ":", color="gray")


def _energy(walk: centipede_runs.Walk) -> Figure:
    record = walk.record
    figure = Figure(figsize=(7, 6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    top.plot(record.time, np.array(record.energy) - record.energy[0], label="energy")
    top.plot(record.time, np.cumsum(record.drive_work), label="work of drives")
    top.plot(record.time, np.cumsum(record.contact_work), label="work of contacts")
    top.plot(record.time[1:], record.drift, "k", label="drift")
    top.set_ylabel("since the start [J]")
    top.legend(fontsize=8)
    bottom.plot(record.time, 1e6 * np.array(record.penetration))
    bottom.set_ylabel("largest penetration [µm]")
    bottom.set_xlabel("time [s]")
    return figure
