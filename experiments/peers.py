"""Ours, Pinocchio and CasADi C side by side: one run, one pinned core.

    python -m experiments.peers [--robots ur5 talos ...] [--quick] [--json FILE] [--plot FILE]

``--build`` compiles the C++ peers first (minutes, once; needs a compiler, Eigen's headers and,
for CasADi, the casadi package). Without it they take part if an earlier run has built them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from dynsys.types import Array
from experiments.peer_build import Builder, Compiler, GeneratedFunction, find_compilers
from experiments.peer_casadi import casadi_contenders
from experiments.peer_exact import exact_answers
from experiments.peer_machine import cores as _cores
from experiments.peer_machine import machine
from experiments.peer_ours import Ours
from experiments.peer_pinocchio import (
    NativeLoops,
    native_contenders,
    python_contenders,
    reference,
    wheel_contenders,
)
from experiments.peer_robots import ROBOTS, PeerRobot, States, peer_robot, robot_file
from experiments.peer_table import RobotReport, plot, show, write_json
from experiments.peer_timing import (
    ONE_LOOP,
    ONE_THREAD,
    TWO_LOOPS,
    TWO_THREADS,
    Contender,
    Timing,
    largest_difference,
    pinned,
    sample,
    summary,
)

__all__ = ["Effort", "compare", "main"]


@final
@dataclass(frozen=True)
class Effort:
    """How long to measure. States of one-state loops fit in the second-level cache."""

    states: int = 128
    batch: int = 4096
    passes: int = 61
    seconds_per_run: float = 1e-3


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
    with pinned(sorted(_cores())[:2]):
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


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.peers", description=__doc__)
    parser.add_argument("--robots", nargs="+", choices=ROBOTS, default=list(ROBOTS))
    parser.add_argument("--quick", action="store_true", help="fewer states and passes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a figure (PNG)")
    parser.add_argument("--build", action="store_true", help="compile the C++ peers first")
    parser.add_argument("--core", type=int, default=max(_cores()), help="core to run on")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; see the module."""
    options = _arguments(arguments)
    effort = QUICK if options.quick else Effort()
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
        write_json(options.json, _machine(compilers, options.core, effort), reports)
    if options.plot:
        plot(options.plot, reports)
    return 0


if __name__ == "__main__":
    sys.exit(main())
