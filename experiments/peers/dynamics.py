"""Ours, Pinocchio and CasADi C side by side: one run, one pinned core.

    python -m experiments.peers [--robots ur5 talos ...] [--quick] [--json FILE] [--plot FILE]

``--build`` compiles the C++ peers first (minutes, once; needs a compiler, Eigen's headers and,
for CasADi, the casadi package). Without it they take part if an earlier run has built them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from dynsys.types import Array
from experiments.peers.build import Builder, Compiler, GeneratedFunction, find_compilers
from experiments.peers.casadi import casadi_contenders
from experiments.peers.exact import exact_answers
from experiments.peers.ours import Ours
from experiments.peers.pinocchio import (
    NativeLoops,
    native_contenders,
    python_contenders,
    reference,
    wheel_contenders,
)
from experiments.peers.robots import ROBOTS, PeerRobot, States, peer_robot, robot_file
from experiments.peers.timing import (
    COLUMNS,
    ONE_LOOP,
    ONE_THREAD,
    TASKS,
    TWO_LOOPS,
    TWO_THREADS,
    Contender,
    Effort,
    Timing,
    command_line,
    cores,
    largest_difference,
    machine,
    pinned,
    sample,
    summary,
    write_json,
)
from problems.terminal import show_line, show_table

__all__ = ["Built", "RobotReport", "compare", "main", "plot", "results", "show"]

# ---- ratios, and the bars that they must clear ---------------------------------------------

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

    def column(self, name: str, task: str) -> Timing | None:
        """Timing in a column of :data:`~experiments.peers.timing.COLUMNS`."""
        who, mode = COLUMNS[name]
        return self.find(who, task, mode)

    def ratios(self, task: str) -> dict[str, float]:
        """How many times faster we are: the peers' time over ours, where both ran.

        Of medians, as in the table of times. "threads" is what two threads gain over one,
        "second core" what two loops over single states gain that share nothing: what the
        machine's second core was worth then.
        """
        pairs = {
            "one / wheel": ("Pinocchio wheel", "ours"),
            "one / c++": ("Pinocchio C++", "ours"),
            "one / casadi": ("CasADi C", "ours"),
            "batch / wheel": ("Pinocchio wheel, batch", "ours, batch"),
            "batch / c++": ("Pinocchio C++", "ours, batch"),
            "python": ("Pinocchio Python", "ours, Python"),
        }
        found = {
            name: (self.column(theirs, task), self.column(ours, task))
            for name, (theirs, ours) in pairs.items()
        }
        ratios = {
            name: peer.median_ns / own.median_ns
            for name, (peer, own) in found.items()
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
    "ours": "ours",
    "wheel": "Pinocchio wheel",
    "C++": "Pinocchio C++",
    "CasADi C": "CasADi C",
    "ours, batch": "ours, batch",
    "wheel, batch": "Pinocchio wheel, batch",
    "ours, 2 threads": "ours, two threads",
    "ours, Python": "ours, Python",
    "pin, Python": "Pinocchio Python",
}
"""Columns shown, with shorter names."""


def show(reports: Sequence[RobotReport]) -> None:
    """Write tables per task: medians (difference from Pinocchio), ratios, errors."""
    for task in TASKS:
        show_line(f"{task}: ns per state, medians (largest relative difference from Pinocchio)")
        columns = ["robot", "nv", *_TIMES]
        rows = [
            [r.name, str(r.nv), *(_cell(r.column(name, task)) for name in _TIMES.values())]
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
        found = [report.column(_TIMES[name], task) for name in shown]
        errors = [None if timing is None else timing.error for timing in found]
        if any(error is not None for error in errors):
            rows.append([report.name, *("-" if e is None else f"{e:.0e}" for e in errors)])
    if rows:
        show_line(f"{task}: largest relative error against extended precision")
        show_table(["robot", *shown], rows, right=shown)


def results(machine: Mapping[str, Any], reports: Sequence[RobotReport]) -> dict[str, Any]:
    """All timings, ratios and what they were measured on, for a JSON file."""
    robots = {
        report.name: {
            "nv": report.nv,
            "timings": [asdict(timing) for timing in report.timings],
            "ratios": {task: report.ratios(task) for task in TASKS},
            "required": {task: report.bars(task) for task in TASKS},
        }
        for report in reports
    }
    return {"machine": dict(machine), "robots": robots}


_SERIES = (
    ("Pinocchio, wheel's C++ loop", "Pinocchio wheel", "#b0b7c3"),
    ("Pinocchio, C++ build", "Pinocchio C++", "#7a8599"),
    ("CasADi C", "CasADi C", "#e0a458"),
    ("dynsys, one state", "ours", "#4c9f9b"),
    ("dynsys, batch", "ours, batch", "#1d6f72"),
)


def plot(path: Path, reports: Sequence[RobotReport]) -> None:
    """Draw ns per state, one panel per task, one group of bars per robot."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 2, figsize=(14, 8), sharex=True, layout="constrained")
    width = 0.8 / len(_SERIES)
    for panel, task in zip(panels.flat, TASKS, strict=True):
        for k, (label, column, colour) in enumerate(_SERIES):
            found = [(i, r.column(column, task)) for i, r in enumerate(reports)]
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


# ---- contenders and how they are measured --------------------------------------------------

USUAL = Effort(states=128, batch=4096)
QUICK = Effort(states=64, batch=1024, passes=11, seconds_per_run=5e-4)


@final
@dataclass(frozen=True)
class Built:
    """What was compiled for the peers; empty where there is no compiler."""

    loops: NativeLoops | None = None
    casadi_loop: Path | None = None
    casadi: Mapping[str, Sequence[GeneratedFunction]] = field(default_factory=dict)


def _say(line: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {line}", file=sys.stderr, flush=True)


def built_peers(
    compilers: Sequence[Compiler], robots: Sequence[PeerRobot], build: bool
) -> Built:
    """Compile, or find from an earlier run, what the C++ and CasADi columns need."""
    if not compilers:
        return Built()
    builder = Builder(compilers, build, _say)
    loops = builder.pinocchio_loops()
    casadi = {
        peer.name: builder.casadi_functions(peer.name, robot_file(peer.model))
        for peer in robots
    }
    return Built(
        None if loops is None else NativeLoops(loops),
        builder.casadi_loop() if any(casadi.values()) else None,
        casadi,
    )


def compare(peer: PeerRobot, built: Built, effort: Effort, core: int) -> RobotReport:
    """Time every contender on one robot, and compare its answers with the wheel's."""
    states = peer.states(max(effort.states, effort.batch))
    few, many = states[: effort.states], states[: effort.batch]
    ours = Ours(peer)
    answers = reference(peer, states)
    exact = exact_answers(peer.robot, few)
    single = [
        *wheel_contenders(peer, few, "one state"),
        *python_contenders(peer, few),
        *_built_contenders(peer, few, built),
        *ours.contenders(few, ("one state", "python")),
    ]
    batch = [*wheel_contenders(peer, many, "batch"), *ours.contenders(many, ("batch",))]
    # several calls per run: the first finds the caches full of the peer's data
    longer = replace(effort, seconds_per_run=5 * effort.seconds_per_run)
    with pinned([core]):
        times = _timed(single, effort) + _timed(batch, longer)
    theirs = [
        *wheel_contenders(peer, many, ONE_THREAD),
        *wheel_contenders(peer, many, TWO_THREADS, threads=2),
    ]
    modes = (ONE_THREAD, TWO_THREADS, ONE_LOOP, TWO_LOOPS)
    with pinned(sorted(cores())[:2]):
        # apart: threads of OpenMP keep their core busy for a while after their work is done
        twice = replace(longer, passes=2 * effort.passes)
        times += _timed(ours.contenders(many, modes), twice)
        times += _timed(theirs, effort)
        time.sleep(0.5)
    timings = [_judged(timed, answers, exact) for timed in times]
    return RobotReport(peer.name, peer.robot.nv, timings)


def _built_contenders(peer: PeerRobot, states: States, built: Built) -> list[Contender]:
    contenders = []
    if built.loops is not None:
        contenders += native_contenders(peer, states, built.loops)
    functions = built.casadi.get(peer.name)
    if built.casadi_loop is not None and functions:
        contenders += casadi_contenders(peer, states, built.casadi_loop, functions)
    return contenders


@final
@dataclass(frozen=True)
class _Timed:
    """A contender with its median and tenth percentile, ns per state, and gain by threads."""

    contender: Contender
    median: float
    low: float
    gain: float | None


def _timed(contenders: Sequence[Contender], effort: Effort) -> list[_Timed]:
    samples = sample(contenders, effort.passes, effort.seconds_per_run)
    gains: list[float | None] = []
    for k, contender in enumerate(contenders):
        alone = _ALONE.get(contender.mode)
        pair = alone and contenders[k - 1].mode == alone
        gains.append(float(np.median(samples[:, k - 1] / samples[:, k])) if pair else None)
    columns = zip(contenders, summary(samples), gains, strict=True)
    return [_Timed(contender, *times, gain) for contender, times, gain in columns]


_ALONE = {TWO_THREADS: ONE_THREAD, TWO_LOOPS: ONE_LOOP}


def _judged(timed: _Timed, answers: Mapping[str, Array], exact: Mapping[str, Array]) -> Timing:
    """Timing with the errors of all states that the contender has just computed."""
    contender = timed.contender
    result, task = contender.result(), contender.task
    error = None
    if task in exact:
        error = largest_difference(result[: len(exact[task])], exact[task])
    difference = largest_difference(result, answers[task][: contender.n_states])
    who, mode = contender.who, contender.mode
    return Timing(who, task, mode, timed.median, timed.low, difference, error, timed.gain)


def _machine(compilers: Sequence[Compiler], core: int, effort: Effort) -> dict[str, Any]:
    return {
        **machine(compilers, core),
        "states": {"one state": effort.states, "batch": effort.batch},
        "passes": effort.passes,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; see the module."""
    parser = command_line("peers", ROBOTS, __doc__)
    parser.add_argument("--build", action="store_true", help="compile the C++ peers first")
    options = parser.parse_args(arguments)
    effort = QUICK if options.quick else USUAL
    compilers = find_compilers()
    if options.build and not compilers:
        _say("--build needs clang or gcc on the path")
        return 2
    robots = [peer_robot(name) for name in options.robots]
    built = built_peers(compilers, robots, options.build)
    if built.loops is None:
        _say("no C++ build of Pinocchio: only the wheel takes part (see --build)")
    reports = []
    for peer in robots:
        _say(f"measuring {peer.name}")
        reports.append(compare(peer, built, effort, options.core))
    show(reports)
    if options.json:
        measured = _machine(compilers, options.core, effort)
        write_json(options.json, results(measured, reports), indent=2)
    if options.plot:
        plot(options.plot, reports)
    return 0
