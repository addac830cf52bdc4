"""What search is worth: every ordering, randomised restarts and ours on the same systems.

    python -m experiments.search_benchmark [--quick] [--only TEXT ...] [--restarts N]
        [--seconds S] [--redundant-seconds S] [--ranked N] [--json FILE] [--text FILE]

Square systems (laws, and as many measurements as are needed; torques wanted), operations of the
whole executed program: orderings of libraries, Markowitz's variants, N randomised Markowitz
restarts (ties, noise and weights drawn, at most S seconds), and ours in the time these took.
Orders whose pivots fall below 1e-3 of their row and column at sampled states are put in
brackets: nobody should run them. ``Spearman`` is that of the price that the search counts and
of the operations executed, among the best N distinct orders of the restarts. On ``mixed panda``
it is low because the best differ by less than a hundredth, and for a third of them recording
finds four merges less than the price does: rounding of extended precision hides equal values
at one of its dozen states. In redundant layouts (panda) it is low where doubtful pivots must be
watched closely, a twentieth of the operations: that is decided by errors at 256 states, which
the price does not know. What a search keeps is decided by executing it.

Redundant layouts of the catalogue: the order of the rule, restarts of the rule with noise and
other roots (compiled, priced by values: hundreds a minute), and ours in the same time;
operations, and nanoseconds of the kernels before and after. Times depend on what else the
machine does; ratios within a row do not.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, final

import numpy as np
from scipy.stats import spearmanr

from dynsys.errors import DynsysError, PlanOrderError
from dynsys.kernel.build import build_kernel
from dynsys.model.tree import KinematicTree
from dynsys.plan.estimator_spec import EstimatorSpec, failures
from dynsys.plan.operations import program_operations
from dynsys.plan.orders.dulmage_mendelsohn import BlockTriangular
from dynsys.plan.orders.libraries import library_orderings
from dynsys.plan.orders.markowitz import Markowitz
from dynsys.plan.orders.orders import AbstractOrdering, OrderingContext, PivotOrder
from dynsys.plan.orders.recursive_orders import LeafToRoot, RootToLeaf
from dynsys.plan.orders.restarts import Weights, body_levels
from dynsys.plan.saddle_program import saddle_estimator
from dynsys.plan.saddle_program import saddle_program as executed_saddle
from dynsys.plan.search.price import SearchProblem
from dynsys.plan.search.saddle_price import SaddleProblem
from dynsys.plan.search.saddle_search import drawn_rule, search_saddle
from dynsys.plan.search.search import Search, search_order
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.system.linear_system import LinearSystem
from experiments.example_robots import load_quietly, robot_path
from experiments.nori2017.counts import chain, load_cell_system
from experiments.nori2017.search import mixed_system
from experiments.peers.timing import write_json
from problems import Estimation, terminal
from problems.estimation.compiled import CompiledEstimator, EstimatorOutputs
from problems.problem_file import load_problem
from sensors import ExternalWrench, ForceTorque, JointAcceleration, Layout

__all__ = [
    "RESULTS",
    "Redundant",
    "Square",
    "kept",
    "main",
    "redundant",
    "square",
    "square_systems",
    "table",
]

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
SAFE = 1e-3
BODIES = (4, 6, 8, 10, 12, 16, 20)
ROBOTS = {
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "panda": "panda_description/urdf/panda.urdf",
}
CATALOGUE = ("panda", "solo12", "anymal", "nao_slippery", "human", "icub", "talos")
EXECUTED = 5
"""Restarts, the cheapest first, whose digits are looked at."""


@final
@dataclass
class Square:
    """Operations by method, None where it has no order; ``unsafe`` names those in brackets."""

    name: str
    equations: int
    operations: dict[str, int | None]
    unsafe: list[str]
    restarts: int
    seconds: float
    spearman: float
    ranked: int

    @property
    def restarted(self) -> float:
        """What the restarts found, infinity if nothing."""
        found = next(x for m, x in self.operations.items() if m.endswith(" restarts"))
        return np.inf if found is None else found

    @property
    def best(self) -> int:
        """Least operations of any safe order."""
        return min(x for m, x in self.operations.items() if x and m not in self.unsafe)


@final
@dataclass
class Redundant:
    """Operations before, by restarts and by ours; (one, batch) nanoseconds before and after."""

    name: str
    bodies: int
    readings: int
    before: int
    restarted: int
    found: int
    restarts: int
    seconds: float
    before_ns: tuple[float, float]
    found_ns: tuple[float, float]
    spearman: float = 0.0
    ranked: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    taken: str = ""  # when the nanoseconds were


# ---- square systems --------------------------------------------------------------------------


def textbook_system(robot: KinematicTree) -> LinearSystem:
    """Force-torque sensor at the last joint, accelerations known, a wrench at the tool open."""
    names, joints = robot.body_names, robot.joint_names
    layout = Layout(
        robot,
        [
            *(ExternalWrench(f"{b}/wrench", b) for b in names[:-1]),
            *(JointAcceleration(f"{j}/acceleration", j) for j in joints),
            ForceTorque("wrist", joints[-1]),
        ],
    )
    laws = LinearSystem(robot)
    return laws.with_equations(layout.equations(laws.unknowns))


def square_systems() -> dict[str, Callable[[], LinearSystem]]:
    """Systems by name, made when they are wanted."""

    def loaded(name: str) -> KinematicTree:
        return load_quietly(robot_path(ROBOTS[name]), floating=False)

    found: dict[str, Callable[[], LinearSystem]] = {}
    for n in BODIES:
        found[f"load cells {n}"] = lambda n=n: load_cell_system(  # type: ignore[misc]
            chain(n, taper=1.0), net_wrench=False
        )
    found["mixed panda"] = lambda: mixed_system(loaded("panda"))
    found["textbook ur5"] = lambda: textbook_system(loaded("ur5"))
    return found


def square(
    name: str, system: LinearSystem, restarts: int, seconds: float, ranked: int
) -> Square:
    """One row."""
    problem = SearchProblem.of(system, ("torque",))
    context = OrderingContext(system, problem.values)
    operations: dict[str, int | None] = {}
    unsafe: list[str] = []
    for ordering in _orderings():
        operations[ordering.name] = None
        with suppress(DynsysError):
            order = ordering.order(problem.pattern, context)
            operations[ordering.name] = problem.exact(order).total
            if problem.safety(order) < SAFE:
                unsafe.append(ordering.name)
    problem.restarts.drawn(np.random.default_rng(0), SAFE)  # compiled from here
    problem.counted(Markowitz("count").order(problem.pattern, context))
    found, done, spent = _restarted(problem, restarts, seconds)
    best = sorted(found, key=found.__getitem__)[:ranked]
    exact = [problem.exact(order).total for order in best]
    rho = spearmanr([found[order] for order in best], exact).statistic if len(best) > 2 else 1.0
    operations[f"{done} restarts"] = min(exact, default=None)
    ours = search_order(problem, Search(seconds=spent), system)
    operations["ours"] = ours.best.operations.total
    return Square(name, system.shape[0], operations, unsafe, done, spent, float(rho), len(best))


def _orderings() -> list[AbstractOrdering]:
    variants = [Markowitz(cost) for cost in ("count", "flops", "fill")]
    return [*library_orderings(), *map(BlockTriangular, variants), RootToLeaf(), LeafToRoot()]


def _restarted(
    problem: SearchProblem, count: int, seconds: float
) -> tuple[dict[PivotOrder, int], int, float]:
    """Safe orders of randomised restarts with their prices, how many were made, how long."""
    rng, found = np.random.default_rng(0), {}
    start, done = time.perf_counter(), 0
    while done < count and time.perf_counter() - start < seconds:
        order = problem.restarts.order(Weights.drawn(rng, SAFE), rng)
        done += 1
        cost = None if order is None else problem.counted(order, SAFE)[0]
        if order is not None and cost is not None and problem.safety(order, SAFE):
            found[order] = cost
    return found, done, time.perf_counter() - start


# ---- redundant layouts -----------------------------------------------------------------------


def catalogue_spec(name: str) -> EstimatorSpec:
    """Torques of a layout of the catalogue."""
    layout = load_problem(f"catalogue:{name}").sensors
    compiled = CompiledEstimator.of(Estimation(layout.robot, layout))
    return compiled.spec(EstimatorOutputs.of(("torque",), ()))


def redundant(name: str, spec: EstimatorSpec, seconds: float, ranked: int) -> Redundant:
    """One row: rule, restarts of it, ours, each of the latter two in the given time."""
    start = saddle_estimator(spec)
    problem = SaddleProblem.of(spec, start.order)
    problem.price(problem.pivots(start.order))  # compiled from here
    least, before = failures(start.program, spec), program_operations(start.program).total
    drawn, done = _restarted_rule(problem, spec, seconds)
    best = sorted(drawn, key=drawn.__getitem__)[:ranked]
    exact: dict[tuple[tuple[int, int], ...], int] = {}
    restarted, tried = before, 0
    for pivots in best:
        try:
            program = executed_saddle(spec, problem.order(pivots))
        except PlanOrderError:  # a pivot that only rounding keeps from being zero
            continue
        exact[pivots] = program_operations(program).total
        if exact[pivots] < restarted and tried < EXECUTED:
            tried += 1
            if failures(program, spec) <= least:
                restarted = exact[pivots]
    rho = spearmanr([drawn[p] for p in exact], list(exact.values())).statistic
    found = search_saddle(spec, start, Search(seconds=seconds))
    return Redundant(
        name,
        spec.robot.n_bodies,
        spec.n_rows,
        before,
        restarted,
        program_operations(found.program).total,
        done,
        seconds,
        *_both_nanoseconds(start.program, found.program, spec),
        float(rho),
        len(exact),
        {"before": least, "after": failures(found.program, spec)},
        date.today().isoformat(),
    )


def _restarted_rule(
    problem: SaddleProblem, spec: EstimatorSpec, seconds: float
) -> tuple[dict[tuple[tuple[int, int], ...], int], int]:
    """Distinct orders of randomised restarts of the rule, with their prices; how many made."""
    rng, levels = np.random.default_rng(0), body_levels(spec.robot)
    found: dict[tuple[tuple[int, int], ...], int] = {}
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        made = problem.constructed(drawn_rule(problem, levels, rng))
        done += 1
        if made is not None:
            found[tuple(made[0])] = made[1].operations
    return found, done


def _both_nanoseconds(
    before: Program, after: Program, spec: EstimatorSpec
) -> tuple[tuple[float, float], tuple[float, float]]:
    """(one state, batch) nanoseconds of two programs, measured in turns."""
    kernels = [
        build_kernel(p, Signature((("x", p.n_inputs),), (("out", len(p.outputs)),)))
        for p in (before, after)
    ]
    states = np.ascontiguousarray(spec.samples(256, 1).astype(np.float64))
    best = np.full((2, 2), np.inf)
    for _ in range(25):
        for k, kernel in enumerate(kernels):
            began = time.perf_counter()
            for _ in range(100):
                kernel.one(states[0])
            one = time.perf_counter()
            kernel.batch(states)
            batch = time.perf_counter()
            now = [(one - began) / 100, (batch - one) / len(states)]
            best[k] = np.minimum(best[k], now)
    (a, b), (c, d) = (best * 1e9).tolist()
    return (a, b), (c, d)


# ---- the table -------------------------------------------------------------------------------


def table(squares: Sequence[Square], redundants: Sequence[Redundant]) -> Iterator[str]:
    """Lines of the text."""
    yield "Square systems: operations of the executed program; in brackets: pivots below 1e-3."
    for s in squares:
        yield ""
        yield (
            f"{s.name} ({s.equations} equations, {s.restarts} restarts in {s.seconds:.0f} s;"
            f" Spearman {s.spearman:.3f} among {s.ranked})"
        )
        for method, x in s.operations.items():
            told = "-" if x is None else f"({x})" if method in s.unsafe else str(x)
            gap = "" if x is None else f"{100 * (x / s.best - 1):+7.1f} %"
            yield f"  {method:42}{told:>9}{gap:>11}"
    if redundants:
        yield ""
        yield "Redundant layouts of the catalogue, torques: operations, ns one state / batch."
    for r in redundants:
        yield ""
        yield f"{r.name} ({r.bodies} bodies, {r.readings} readings, {r.seconds:.0f} s each)"
        one, batch = r.before_ns
        yield f"  {'rule':42}{r.before:>9}   {one:8.0f} / {batch:6.0f} ns"
        yield f"  {f'{r.restarts} restarts of the rule':42}{r.restarted:>9}"
        one, batch = r.found_ns
        yield f"  {'ours':42}{r.found:>9}   {one:8.0f} / {batch:6.0f} ns"
        yield (
            f"  Spearman {r.spearman:.3f} among {r.ranked};"
            f" states of 256 without all digits: {r.failures}"
        )
        if r.taken:
            yield f"  nanoseconds taken {r.taken}"


def kept(path: Path | None) -> tuple[dict[str, Square], dict[str, Redundant]]:
    """Rows of earlier runs in the same file."""
    if path is None or not path.exists():
        return {}, {}
    data: Mapping[str, Any] = json.loads(path.read_text())
    return (
        {x["name"]: Square(**x) for x in data["square"]},
        {x["name"]: Redundant(**x) for x in data["redundant"]},
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is named; 0 if ours is nowhere above the restarts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="load cells 4 only")
    parser.add_argument("--only", nargs="*", default=[], help="names that contain one of these")
    parser.add_argument("--restarts", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60.0, help="most for the restarts")
    parser.add_argument("--redundant-seconds", type=float, default=60.0)
    parser.add_argument("--ranked", type=int, default=100)
    parser.add_argument("--json", type=Path, help="kept rows are read from it, all written")
    parser.add_argument("--text", type=Path)
    options = parser.parse_args(argv)
    squares, redundants = kept(options.json)

    def wanted(name: str) -> bool:
        if options.quick:
            return name == f"load cells {BODIES[0]}"
        return not options.only or any(text in name for text in options.only)

    made = {name: make for name, make in square_systems().items() if wanted(name)}
    names = [f"catalogue {name}" for name in CATALOGUE if wanted(f"catalogue {name}")]
    for name in terminal.progress([*made, *names], "systems"):
        if name in made:
            limits = options.restarts, options.seconds, options.ranked
            squares[name] = square(name, made[name](), *limits)
        else:
            spec = catalogue_spec(name.removeprefix("catalogue "))
            redundants[name] = redundant(name, spec, options.redundant_seconds, options.ranked)
        if options.json is not None:
            content = {
                "square": [asdict(s) for s in squares.values()],
                "redundant": [asdict(r) for r in redundants.values()],
            }
            write_json(options.json, content)
        lines = list(table(list(squares.values()), list(redundants.values())))
        if options.text is not None:
            options.text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for line in table(list(squares.values()), list(redundants.values())):
        terminal.show_line(line)
    lost = [s.name for s in squares.values() if (s.operations["ours"] or 0) > s.restarted]
    lost += [r.name for r in redundants.values() if r.found > r.restarted]
    if lost:
        terminal.show_line(f"restarts found less than ours on: {', '.join(lost)}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
