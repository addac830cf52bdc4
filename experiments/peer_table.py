"""The comparison as numbers: ratios, the bars they must clear, tables, JSON and a figure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

from experiments.peer_timing import TASKS, TWO_LOOPS, TWO_THREADS, Timing
from problems.terminal import show_line, show_table

__all__ = ["RobotReport", "plot", "show", "write_json"]

BARS: dict[str, dict[str, float]] = {
    "ID": {"one / wheel": 5.0, "one / casadi": 1.5, "batch / wheel": 18.0, "threads": 1.7},
    "FD": {"one / wheel": 4.5, "one / casadi": 1.5, "batch / wheel": 18.0, "threads": 1.7},
    "CRBA": {"one / c++": 2.0},
    "Minverse": {"one / c++": 2.0},
}
GENERIC_BARS: dict[str, dict[str, float]] = {
    "ID": {"one / wheel": 4.0, "batch / wheel": 12.0},
    "FD": {"one / wheel": 3.5, "batch / wheel": 11.0},
}
"""What differs for chains with generic frames."""
COMMON_BARS = {"python": 1.0}
WITHOUT_BARS = ("chain30",)


@final
@dataclass(frozen=True)
class RobotReport:
    """All timings of one robot."""

    name: str
    nv: int
    timings: Sequence[Timing] = field(default_factory=tuple)

    def find(self, who: str, task: str, mode: str) -> Timing | None:
        """Fastest timing whose contender's name begins with ``who``."""
        found = [
            t
            for t in self.timings
            if t.who.startswith(who) and t.task == task and t.mode == mode
        ]
        return min(found, key=lambda t: t.median_ns, default=None)

    def ratios(self, task: str) -> dict[str, float]:
        """How many times faster we are: the peers' time over ours, where both ran.

        Of medians, as in the table of times. "threads" is what two threads gain over one,
        "second core" what two loops over single states gain that share nothing: what the
        machine's second core was worth then.
        """
        one, batch = (self.find("ours", task, mode) for mode in ("one state", "batch"))
        native = self.find("pinocchio c++", task, "one state")
        wheel = self.find("pinocchio wheel", task, "one state")
        pairs = {
            "one / wheel": (wheel, one),
            "one / c++": (native, one),
            "one / casadi": (self.find("casadi", task, "one state"), one),
            "batch / wheel": (self.find("pinocchio wheel", task, "batch"), batch),
            "batch / c++": (native, batch),
            "python": (
                self.find("pinocchio python", task, "python"),
                self.find("ours", task, "python"),
            ),
        }
        ratios = {
            name: peer.median_ns / own.median_ns
            for name, (peer, own) in pairs.items()
            if peer is not None and own is not None
        }
        for name, mode in (("threads", TWO_THREADS), ("second core", TWO_LOOPS)):
            together = self.find("ours", task, mode)
            if together is not None and together.gain is not None:
                ratios[name] = together.gain
        return ratios

    def bars(self, task: str) -> dict[str, float]:
        """Ratios that are required of this robot."""
        if self.name in WITHOUT_BARS:
            return {}
        generic = GENERIC_BARS.get(task, {}) if self.name.endswith("_generic") else {}
        return {**COMMON_BARS, **BARS[task], **generic}


def _cell(timing: Timing | None) -> str:
    return "-" if timing is None else f"{timing.median_ns:.0f} ({timing.difference:.0e})"


_TIMES = {
    "ours": ("ours", "one state"),
    "wheel": ("pinocchio wheel", "one state"),
    "C++": ("pinocchio c++", "one state"),
    "CasADi C": ("casadi", "one state"),
    "ours, batch": ("ours", "batch"),
    "wheel, batch": ("pinocchio wheel", "batch"),
    "ours, 2 threads": ("ours", "two threads"),
    "ours, Python": ("ours", "python"),
    "pin, Python": ("pinocchio python", "python"),
}


def show(reports: Sequence[RobotReport]) -> None:
    """Write tables per task: medians (difference from Pinocchio), ratios, errors."""
    for task in TASKS:
        show_line(f"{task}: ns per state, medians (largest relative difference from Pinocchio)")
        columns = ["robot", "nv", *_TIMES]
        rows = [
            [r.name, str(r.nv), *(_cell(r.find(w, task, m)) for w, m in _TIMES.values())]
            for r in reports
        ]
        show_table(columns, rows, right=columns[1:])
        _show_ratios(task, reports)
        _show_errors(task, reports)
        show_line()


def _show_ratios(task: str, reports: Sequence[RobotReport]) -> None:
    found = {r.name: r.ratios(task) for r in reports}
    names = list(dict.fromkeys(name for ratios in found.values() for name in ratios))
    if not names:
        return
    show_line(f"{task}: times faster than the peer (! below what is required)")
    rows = []
    for report in reports:
        bars, cells = report.bars(task), []
        for name in names:
            ratio = found[report.name].get(name)
            below = ratio is not None and ratio < bars.get(name, 0.0)
            cells.append("-" if ratio is None else f"{ratio:.2f}{'!' if below else ''}")
        rows.append([report.name, *cells])
    show_table(["robot", *names], rows, right=names)


def _show_errors(task: str, reports: Sequence[RobotReport]) -> None:
    """Write the errors against extended precision, where they were computed."""
    shown = [name for name in _TIMES if "Python" not in name and "threads" not in name]
    rows = []
    for report in reports:
        found = [report.find(who, task, mode) for who, mode in map(_TIMES.__getitem__, shown)]
        errors = [None if timing is None else timing.error for timing in found]
        if any(error is not None for error in errors):
            rows.append([report.name, *("-" if e is None else f"{e:.0e}" for e in errors)])
    if rows:
        show_line(f"{task}: largest relative error against extended precision")
        show_table(["robot", *shown], rows, right=shown)


def write_json(path: Path, machine: Mapping[str, Any], reports: Sequence[RobotReport]) -> None:
    """Write all timings, ratios and what they were measured on."""
    robots = {
        report.name: {
            "nv": report.nv,
            "timings": [asdict(timing) for timing in report.timings],
            "ratios": {task: report.ratios(task) for task in TASKS},
            "required": {task: report.bars(task) for task in TASKS},
        }
        for report in reports
    }
    path.write_text(json.dumps({"machine": dict(machine), "robots": robots}, indent=2) + "\n")


_SERIES = (
    ("Pinocchio, wheel's C++ loop", "pinocchio wheel", "one state", "#b0b7c3"),
    ("Pinocchio, C++ build", "pinocchio c++", "one state", "#7a8599"),
    ("CasADi C", "casadi", "one state", "#e0a458"),
    ("dynsys, one state", "ours", "one state", "#4c9f9b"),
    ("dynsys, batch", "ours", "batch", "#1d6f72"),
)


def plot(path: Path, reports: Sequence[RobotReport]) -> None:
    """Draw ns per state, one panel per task, one group of bars per robot."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 2, figsize=(14, 8), sharex=True, layout="constrained")
    width = 0.8 / len(_SERIES)
    for panel, task in zip(panels.flat, TASKS, strict=True):
        for k, (label, who, mode, colour) in enumerate(_SERIES):
            found = [(i, r.find(who, task, mode)) for i, r in enumerate(reports)]
            bars = [(i, t.median_ns) for i, t in found if t is not None]
            if bars:
                places = [i + (k - (len(_SERIES) - 1) / 2) * width for i, _ in bars]
                heights = [ns for _, ns in bars]
                panel.bar(places, heights, width, label=label, color=colour)
        panel.set_yscale("log")
        panel.set_title(task)
        panel.set_ylabel("ns per state")
        panel.set_xticks(range(len(reports)), [r.name for r in reports], rotation=30)
        panel.grid(axis="y", alpha=0.3)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
