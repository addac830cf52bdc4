"""Pictures of real measurements: what was measured, what the model and the identified one say.

Each takes what a part (:mod:`experiments.real_data.parts`) found, as arrays, and gives figures
by name of file. Measured is grey, the model as it came orange, identified blue in a 95 % band.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dynsys.types import Array

__all__ = ["PICTURES", "Drawn", "pictures_of"]

Drawn = Mapping[str, Any]
"""Arrays and names of one part, as :mod:`experiments.real_data.parts` gives them."""

MEASURED, MODEL, FOUND, ALARM = "#5b6470", "#e0913c", "#2f6db5", "#c0392b"
WIDE = 11.0
"""Inches."""


def _panels(count: int, columns: int, height: float = 2.1) -> tuple[Figure, list[Any]]:
    """Panels with a common axis of time; what is left over of the last row is hidden."""
    rows = -(-count // columns)
    figure = Figure(figsize=(WIDE, 0.9 + height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel().tolist()
    for k, panel in enumerate(axes):
        panel.grid(True, alpha=0.25)
        panel.tick_params(labelsize=8)
        panel.set_visible(k < count)
        last = k + columns >= count
        panel.tick_params(labelbottom=last)
        if last:
            panel.set_xlabel("time [s]", fontsize=9)
    return figure, axes[:count]


def _legend(
    figure: Figure,
    entries: Sequence[tuple[str, str]],
    band: str,
    shade: tuple[str, float] = (FOUND, 0.22),
) -> None:
    """One legend above all panels: colours and what they stand for, lines and a shade."""
    handles: list[Any] = [Line2D([], [], color=c, lw=1.8, label=text) for c, text in entries]
    handles.append(Patch(color=shade[0], alpha=shade[1], label=band))
    figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)


def _limits(panel: Any, *series: Array) -> None:
    """Limits of all but the wildest samples: a spike must not flatten the rest."""
    low = min(float(np.nanquantile(x, 0.002)) for x in series)
    high = max(float(np.nanquantile(x, 0.998)) for x in series)
    room = 0.1 * (high - low) + 1e-9
    panel.set_ylim(low - room, high + room)


def _rms(x: Array) -> float:
    return float(np.sqrt(np.nanmean(np.square(x))))


# ---- torques of arms -------------------------------------------------------------------------


def torques(drawn: Drawn) -> dict[str, Figure]:
    """Held-out torques of each arm: the URDF, and identified on the first half, with bands."""
    return {f"{name}_torques.png": _torques(name, one) for name, one in drawn.items()}


def _torques(name: str, one: Drawn) -> Figure:
    time, y, joints = one["time"], one["measured"], one["joints"]
    figure, panels = _panels(y.shape[1], 2)
    for k, panel in enumerate(panels):
        panel.fill_between(
            time, one["low"][:, k], one["high"][:, k], color=FOUND, alpha=0.22, lw=0
        )
        panel.plot(time, one["model"][:, k], color=MODEL, lw=0.9)
        panel.plot(time, y[:, k], color=MEASURED, lw=1.1)
        panel.plot(time, one["found"][:, k], color=FOUND, lw=0.9)
        _limits(panel, y[:, k], one["model"][:, k], one["low"][:, k], one["high"][:, k])
        inside = np.mean((y[:, k] >= one["low"][:, k]) & (y[:, k] <= one["high"][:, k]))
        panel.set_title(
            f"{joints[k]}: rms {_rms(y[:, k] - one['model'][:, k]):.2f} → "
            f"{_rms(y[:, k] - one['found'][:, k]):.2f} N m, {inside:.0%} in the band",
            fontsize=9,
        )
        panel.set_ylabel("torque [N m]", fontsize=9)
    said = f"identified on the {one['trained']:.0f} s before"
    _legend(
        figure,
        [(MEASURED, "measured"), (MODEL, f"{name} by its URDF"), (FOUND, said)],
        "95 % band",
    )
    return figure


# ---- contact ---------------------------------------------------------------------------------


def contact(drawn: Drawn) -> dict[str, Figure]:
    """Force felt where nothing touches; contacts found in the same log with pushes added."""
    return {
        "panda_false_force.png": _false_force(drawn),
        "panda_detection.png": _detection(drawn["detection"]),
    }


def _false_force(drawn: Drawn) -> Figure:
    time = drawn["time"]
    figure, panels = _panels(4, 1, 1.7)
    for key, colour in (("urdf", MODEL), ("identified", FOUND)):
        force = drawn[key]["force"]
        panels[0].plot(time, np.linalg.norm(force, axis=1), color=colour, lw=1.0)
        for k, panel in enumerate(panels[1:]):
            if key == "identified":
                reach = 1.96 * drawn[key]["std"][:, k]
                panel.fill_between(time, -reach, reach, color=FOUND, alpha=0.22, lw=0)
            panel.plot(time, force[:, k], color=colour, lw=1.0)
    panels[0].set_ylabel("|force| [N]", fontsize=9)
    every = [np.linalg.norm(drawn[key]["force"], axis=1) for key in ("urdf", "identified")]
    panels[0].set_yscale("log")
    panels[0].set_ylim(0.1, 2.0 * max(float(x.max()) for x in every))
    panels[0].set_xlim(time[0], time[-1])
    for k, (panel, axis) in enumerate(zip(panels[1:], "xyz", strict=True)):
        panel.set_ylabel(f"force {axis} [N]", fontsize=9)
        reach = 1.15 * float(np.quantile(np.abs(drawn["urdf"]["force"][:, k]), 0.97))
        panel.set_ylim(-reach, reach)
        panel.axhline(0.0, color="black", lw=0.6)
    means = [float(x.mean()) for x in every]
    blind = float(time[int(np.argmax(drawn["identified"]["std"].sum(axis=1)))])
    panels[0].set_title(
        f"Panda, free motion, held out: {means[0]:.1f} N on average are felt at the hand by the"
        f" URDF, {means[1]:.1f} N identified; at {blind:.1f} s the arm is nearly singular",
        fontsize=10,
    )
    band = "95 % band about no contact"
    _legend(figure, [(MODEL, "by the URDF"), (FOUND, "identified on the first half")], band)
    return figure


def _detection(one: Drawn) -> Figure:
    figure = Figure(figsize=(WIDE, 6.6), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=(1.15, 1.0))
    above, below = parts
    panel = above.subplots()
    time = one["time"]
    for k, (first, last) in enumerate(one["pushes"]):
        panel.axvspan(first, last, color=MODEL, alpha=0.25, lw=0, label="" if k else "push")
    panel.plot(time, one["free"], color=MEASURED, lw=0.9, label="free motion")
    panel.plot(time, one["pushed"], color=FOUND, lw=1.1, label="with pushes")
    panel.axhline(one["threshold"], color=ALARM, lw=1.1, ls="--", label="alarm")
    for k, (first, last) in enumerate(one["events"]):
        panel.plot(
            [first, max(last, first + 0.02)],
            [one["top"]] * 2,
            color=ALARM,
            lw=4,
            solid_capstyle="butt",
            label="" if k else "found",
        )
    panel.set_yscale("log")
    panel.set_ylim(max(0.3, float(np.min(one["free"]))), 2.0 * one["top"])
    panel.set_xlabel("time [s]", fontsize=9)
    panel.set_ylabel("chi-square of a sample", fontsize=9)
    panel.set_title(
        f"Panda's log, second half, pushes of {one['newton']:g} N for {one['seconds']:g} s at"
        f" the hand added; alarm at {one['per_hour']:g} false ones an hour, learnt before",
        fontsize=10,
    )
    panel.set_xlim(time[0], time[-1])
    panel.grid(True, alpha=0.25)
    panel.legend(loc="upper left", bbox_to_anchor=(1.005, 1.0), fontsize=8, frameon=False)
    _rates(below.subplots(1, 3), one)
    return figure


def _rates(panels: Any, one: Drawn) -> None:
    """Seen by size of push; the link named; false alarms promised and counted."""
    colours = {"beside the axis": FOUND, "on the axis": MODEL}
    seen, named, alarms = panels
    for place, rows in one["rows"].items():
        sizes = [r["newton"] for r in rows]
        colour = colours[place]
        seen.plot(sizes, [100 * r["seen"] for r in rows], "o-", color=colour, label=place, ms=4)
        right = [(r["newton"], r["link_right"], r["link_among"]) for r in rows if r["seen"]]
        at, first, among = (100 * np.array(x) for x in zip(*right, strict=True))
        named.plot(at / 100, first, "o-", color=colour, label=f"{place}: first", ms=4)
        named.plot(
            at / 100, among, "s:", color=colour, label=f"{place}: among those named", ms=4
        )
    observer = one["rows"]["beside the axis"]
    seen.plot(
        [r["newton"] for r in observer],
        [100 * r["momentum_observer"] for r in observer],
        "^--",
        color=MEASURED,
        label="momentum observer,\nwithout a promise",
        ms=4,
    )
    for panel, title in ((seen, "pushes seen [%]"), (named, "link named rightly [%]")):
        panel.set_xscale("log")
        ticks = [r["newton"] for r in observer]
        panel.set_xticks(ticks, [f"{x:g}" for x in ticks])
        panel.minorticks_off()
        panel.set_xlabel("push [N]", fontsize=9)
        panel.set_title(title, fontsize=10)
        panel.set_ylim(-4, 104)
        panel.legend(fontsize=7, loc="lower right")
    rows = one["alarms"]
    at = np.arange(len(rows))
    alarms.bar(at - 0.2, [r["promised"] for r in rows], 0.4, color=MEASURED, label="promised")
    alarms.bar(at + 0.2, [r["counted"] for r in rows], 0.4, color=FOUND, label="counted")
    words = [f"{r['per_hour']:g}/h\n{r['on'].replace(' half', '')}" for r in rows]
    alarms.set_xticks(at, words, fontsize=7)
    alarms.set_title("false alarms on the half held out", fontsize=10)
    alarms.legend(fontsize=7)
    for panel in panels:
        panel.grid(True, alpha=0.25)
        panel.tick_params(axis="y", labelsize=8)
        panel.set_axisbelow(True)


# ---- a person --------------------------------------------------------------------------------


def human(drawn: Drawn) -> dict[str, Figure]:
    """Force plate and accelerometer, each predicted without itself."""
    wrench = ("moment x", "moment y", "moment z", "force x", "force y", "force z")
    words = [
        (MEASURED, "measured"),
        (MODEL, "from motion alone"),
        (FOUND, "identified on the first half"),
    ]
    plate = _compared(drawn["time"], drawn["plate"], wrench, ["N m"] * 3 + ["N"] * 3, 3, words)
    chest = ("x", "y", "z")
    mounted = [
        (MEASURED, "measured"),
        (MODEL, "as mounted"),
        (FOUND, "aligned on the first half"),
    ]
    turned = _compared(drawn["time"], drawn["chest"], chest, ["m/s²"] * 3, 1, mounted)
    return {"human_plate.png": plate, "human_chest.png": turned}


def _compared(
    time: Array,
    series: Mapping[str, Array],
    names: Sequence[str],
    units: Sequence[str],
    columns: int,
    words: Sequence[tuple[str, str]],
) -> Figure:
    """Measured, before and after, side by side; the second half is held out."""
    figure, panels = _panels(len(names), columns)
    read, before, after = (series[key] for key in ("measured", "before", "after"))
    middle = len(time) // 2
    for k, panel in enumerate(panels):
        panel.axvspan(time[0], time[middle], color="black", alpha=0.05, lw=0)
        for colour, x in ((MODEL, before), (MEASURED, read), (FOUND, after)):
            panel.plot(time, x[:, k], color=colour, lw=1.0)
        off = [_rms((x - read)[middle:, k]) for x in (before, after)]
        panel.set_title(f"{names[k]}: rms {off[0]:.2f} → {off[1]:.2f} {units[k]}", fontsize=9)
        panel.set_ylabel(f"[{units[k]}]", fontsize=9)
        _limits(panel, read[:, k], before[:, k], after[:, k])
        panel.set_xlim(time[0], time[-1])
    _legend(figure, words, "first half, used for that", ("black", 0.05))
    return figure


# ---- a walking robot -------------------------------------------------------------------------


def icub(drawn: Drawn) -> dict[str, Figure]:
    """Vertical forces of the feet beside the weight, and what motion makes of it."""
    figure = Figure(figsize=(WIDE, 5.6), layout="constrained")
    axes = figure.subplots(2, len(drawn["logs"]), squeeze=False)
    for column, (name, one) in zip(axes.T, drawn["logs"].items(), strict=True):
        for panel in column:
            panel.grid(True, alpha=0.25)
            panel.tick_params(labelsize=8)
            panel.set_xlabel("time [s]", fontsize=9)
            panel.set_ylabel("vertical force [N]", fontsize=9)
        time, weight = one["time"], drawn["weight"]
        column[0].plot(time, one["left"], color=FOUND, lw=0.9, label="left foot")
        column[0].plot(time, one["right"], color=MODEL, lw=0.9, label="right foot")
        both = one["left"] + one["right"]
        column[0].plot(time, both, color=MEASURED, lw=1.1, label="both")
        column[0].axhline(weight, color="black", lw=0.9, ls="--", label="weight of the model")
        column[0].set_title(f"iCub, {name}: feet carry {both.mean():.1f} N", fontsize=10)
        column[0].set_ylim(min(0.0, float(np.min(one["left"]))) - 10, 1.6 * weight)
        column[1].plot(
            time, one["expected"], color=MODEL, lw=0.9, label="m (a + g) from motion"
        )
        column[1].plot(time, both, color=MEASURED, lw=1.1, label="measured, both feet")
        column[1].set_title(f"correlation {one['correlation']:.2f}: does not hold", fontsize=10)
        _limits(column[1], both, one["expected"])
        column[0].legend(fontsize=7, ncols=4, loc="upper center")
        column[1].legend(fontsize=7, ncols=2, loc="upper center")
        low, high = column[1].get_ylim()
        column[1].set_ylim(low, high + 0.15 * (high - low))
    return {"icub_feet.png": figure}


PICTURES: Mapping[str, Callable[[Drawn], dict[str, Figure]]] = {
    "arms": torques,
    "contact": contact,
    "human": human,
    "icub": icub,
}


def pictures_of(part: str, drawn: Drawn) -> dict[str, Figure]:
    """Figures of a part by name of file."""
    return PICTURES[part](drawn)
