"""Lambda^-1, M^-1 and LTDL beside Pinocchio: one run, one pinned core, errors beside times.

    python -m experiments.operational_peers [--robots talos icub] [--quick] [--json FILE]
                                            [--plot FILE] [--core N]

Operational frames are the two hands and the two feet. Both sides get the same states, frames
and (for LTDL) inertia matrices; a loop in machine code goes over them one state at a time.
Pinocchio is compiled from the wheel's headers (minutes, once; kept for later runs) with every
route it has to Lambda^-1. Exit status: 0 all bounds hold, or there is no compiler and nothing
is compared; 1 a bound is broken; 2 bad arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from dynsys.kernel.kernel import Kernel, as_machine_code
from dynsys.kernel.quantities import specialise
from dynsys.types import Array
from experiments.peers.build import Builder, find_compilers
from experiments.peers.exact import Exact, exact_matrices, product_error, residual, scaled_error
from experiments.peers.pinocchio import LAMBDA, LTDL, MINVERSE, SpaceLoops, pinocchio_contenders
from experiments.peers.robots import PeerRobot, peer_robot
from experiments.peers.timing import (
    Contender,
    Effort,
    StateLoop,
    command_line,
    machine,
    measure,
    pinned,
    write_json,
)
from problems.terminal import show_table

__all__ = ["FRAMES", "Comparison", "Route", "compare", "main"]

FRAMES = {
    "talos": (
        "left_sole_link",
        "right_sole_link",
        "gripper_left_base_link",
        "gripper_right_base_link",
    ),
    "icub": ("l_sole", "r_sole", "l_hand", "r_hand"),
}
BARS = {LAMBDA: 2.5, MINVERSE: 2.0, LTDL: 2.0}
"""How many times faster than the fastest of Pinocchio's routes ours must be."""
LARGEST_ERROR = 1e-10
"""Of our answers."""
LEAST_KEPT = 1e-5
"""States at which a joint keeps less of its inertia are not taken: float64 cannot do there."""
SAME_QUESTION = 1e-6
"""Of Pinocchio's: the largest for which we believe that it was asked the same. On icub its
routes through articulated bodies lose nine digits or so."""
OURS = "ours"
USUAL = Effort(states=64, batch=8)
QUICK = Effort(states=16, batch=4, passes=5, seconds_per_run=3e-4)
"""``batch`` counts matrices here: H and its factors of all fit in the second-level cache."""


@final
@dataclass(frozen=True)
class Route:
    """Median and tenth percentile, ns per state, of one way, and its largest error.

    ``error``: of Lambda^-1 per element, scaled by its diagonal, against extended precision; of
    M^-1 the residual M^-1 M - 1, scaled; of LTDL the product of the factors less H.
    """

    who: str
    task: str
    median_ns: float
    p10_ns: float
    error: float


@final
@dataclass(frozen=True)
class Comparison:
    """All routes to one quantity of one robot, ours first."""

    robot: str
    nv: int
    task: str
    routes: Sequence[Route]

    @property
    def best(self) -> Route:
        """Pinocchio's fastest route."""
        return min(self.routes[1:], key=lambda route: route.median_ns)

    @property
    def ratio(self) -> float:
        """How many times faster ours is than Pinocchio's fastest route, by medians."""
        return self.best.median_ns / self.routes[0].median_ns

    @property
    def holds(self) -> bool:
        """Whether ours is right and fast enough, and every other route answers the same."""
        ours, *others = self.routes
        same = all(route.error <= SAME_QUESTION for route in others)
        return same and ours.error <= LARGEST_ERROR and self.ratio >= BARS[self.task]


def our_contenders(peer: PeerRobot, q: Array, H: Array) -> list[Contender]:
    """Kernels specialised to the robot, at states q (n, nq) and matrices H (k, nv, nv)."""
    robot, nv, frames = peer.robot, peer.robot.nv, FRAMES[peer.name]
    rows = 6 * len(frames)
    L, diag = np.zeros((len(H), nv * nv)), np.zeros((len(H), nv))

    def product() -> Array:
        factor = L.reshape(-1, nv, nv)
        return np.asarray((factor.transpose(0, 2, 1) * diag[:, None, :]) @ factor)

    operational = specialise(robot, "operational_space_inverse", bodies=frames)
    factors = _loop(specialise(robot, "ltdl"), [H.reshape(len(H), -1), L, diag])
    return [
        _of_states(LAMBDA, operational, q, rows),
        _of_states(MINVERSE, specialise(robot, "inverse_inertia"), q, nv),
        Contender(OURS, LTDL, "one state", len(H), factors, product),
    ]


def _of_states(task: str, kernel: Kernel, q: Array, size: int) -> Contender:
    out = np.zeros((len(q), size * size))
    run = _loop(kernel, [q, out])
    return Contender(OURS, task, "one state", len(q), run, lambda: out.reshape(-1, size, size))


def _loop(kernel: Kernel, arrays: Sequence[Array]) -> Callable[[int], None]:
    loop = StateLoop(as_machine_code(kernel, "timing").address, arrays)

    def run(repeats: int, kept: Kernel = kernel) -> None:  # the code lives as long as it does
        loop(repeats)

    return run


def compare(peer: PeerRobot, library: Path, effort: Effort, core: int) -> list[Comparison]:
    """Time every route of both libraries in turn, and judge its answers."""
    frames, drawn = FRAMES[peer.name], peer.states(effort.states).q
    exact = exact_matrices(peer.robot, frames, drawn)
    good = np.asarray(exact.kept > LEAST_KEPT)
    q, exact = drawn[good], exact.of(good)
    H = exact.H[: effort.batch].astype(np.float64)
    contenders = [
        *our_contenders(peer, q, H),
        *pinocchio_contenders(peer, SpaceLoops(library, peer, frames), q, H),
    ]
    with pinned([core]):
        times = measure(contenders, effort.passes, effort.seconds_per_run)
    routes = [
        Route(c.who, c.task, median, low, _error(c.task, c.result(), exact))
        for c, (median, low) in zip(contenders, times, strict=True)
    ]
    return [
        Comparison(peer.name, peer.robot.nv, task, [r for r in routes if r.task == task])
        for task in BARS
    ]


def _error(task: str, found: Array, exact: Exact) -> float:
    if task == LAMBDA:
        return scaled_error(found, exact.Lambda_inv)
    if task == MINVERSE:
        return residual(found, exact.H)
    return product_error(found, exact.H[: len(found)].astype(np.float64))


# ---- tables, figure, command line --------------------------------------------------------


def _show(found: Sequence[Comparison]) -> None:
    columns = ("robot", "quantity", "by", "median ns", "p10 ns", "error", "ours is faster")
    rows = []
    for c in found:
        for route in c.routes:
            times = f"{route.median_ns / c.routes[0].median_ns:.2f} times"
            bar = f"{times} (bar {BARS[c.task]:g}{'' if c.holds else ', broken'})"
            cells = (f"{route.median_ns:.0f}", f"{route.p10_ns:.0f}", f"{route.error:.0e}")
            faster = "" if route.who == OURS else bar if route is c.best else times
            rows.append((f"{c.robot} ({c.nv})", c.task, route.who, *cells, faster))
    show_table(columns, rows, right=columns[3:])


def _plot(path: Path, found: Sequence[Comparison]) -> None:
    """Draw ns per state of every route, one panel per robot and quantity."""
    from matplotlib.figure import Figure

    robots = list(dict.fromkeys(c.robot for c in found))
    figure = Figure(figsize=(13, 1.2 + 2.6 * len(robots)), layout="constrained")
    panels = figure.subplots(len(robots), len(BARS), squeeze=False)
    for c, panel in zip(found, panels.flat, strict=True):
        routes = list(reversed(c.routes))
        colours = ["#1d6f72" if route.who == OURS else "#b0b7c3" for route in routes]
        bars = panel.barh(
            [route.who for route in routes], [r.median_ns for r in routes], color=colours
        )
        panel.bar_label(bars, [f"{r.median_ns:.0f}" for r in routes], padding=3, fontsize=8)
        panel.margins(x=0.16)
        panel.set_title(f"{c.robot}: {c.task}, {c.ratio:.1f} times faster", fontsize=10)
        panel.set_xlabel("ns per state, one core")
        panel.tick_params(labelsize=8)
    figure.savefig(path, dpi=130)


def _results(about: dict[str, Any], found: Sequence[Comparison]) -> dict[str, Any]:
    comparisons = [
        {
            **asdict(c),
            "frames": FRAMES[c.robot],
            "best": c.best.who,
            "ratio": c.ratio,
            "required": BARS[c.task],
            "largest_error": LARGEST_ERROR,
            "holds": c.holds,
        }
        for c in found
    ]
    return {"machine": about, "comparisons": comparisons}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; see the module."""
    options = command_line("operational_peers", list(FRAMES)).parse_args(arguments)
    compilers = find_compilers()
    library = Builder(compilers, True, _say).operational_loops() if compilers else None
    if library is None:
        _say("skipped: comparing with Pinocchio's C++ needs clang or gcc on the path")
        return 0
    effort = QUICK if options.quick else USUAL
    found: list[Comparison] = []
    for name in options.robots:
        _say(f"measuring {name}")
        found += compare(peer_robot(name), library, effort, options.core)
    _show(found)
    if options.json:
        spent = asdict(effort)
        spent["matrices"] = spent.pop("batch")
        about = {**machine(compilers, options.core), "effort": spent}
        write_json(options.json, _results(about, found))
    if options.plot:
        _plot(options.plot, found)
    return 0 if all(c.holds for c in found) else 1


if __name__ == "__main__":
    sys.exit(main())
