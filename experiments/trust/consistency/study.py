"""Estimates on every backend against a dense oracle: 1000 layouts of any rank.

    python -m experiments.trust.consistency [--count 1000] [--jobs 1] [--json FILE]

Each layout (:mod:`experiments.trust.consistency.cases`: random trees with every kind of joint,
aligned robots at right angles, exact rows stated twice, catalogues) is solved at one state by
every backend and compared with the truth (:mod:`experiments.trust.consistency.oracle`): values,
deviations, what is determined, chi-square, degrees of freedom, what some sensors explain of
these, contradictions. Machine code is three of the backends (``llvm``: the estimator, one
state; ``batch``: many; ``reduced``: many, where readings are missing), some seconds for each
layout. FILE has a line for each layout; one that exists is added to, and what it holds is not
done again. Exit status 1 if there is a difference beyond rounding.

What is beyond rounding: an error of more than ``LOST`` * condition * spread * eps of the size
of an estimate, with the condition number that a verdict prints, exact rows before others, and
the ratio of the largest to the smallest deviation of a reading for what noisy ones tell: rows
of unit noise are that much worse scaled than rows of unit size, and without the ratio some
layouts seem to lose two or three digits. Estimators promise deviations to 1e-10 of the largest
of a quantity, and their variances are judged by that.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, final

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from dynsys.cholmod import has_cholmod
from dynsys.errors import ContradictionError, KernelBuildError
from dynsys.plan.estimator_spec import ACCURATE_DEVIATION
from dynsys.plan.saddle_program import PRECISE
from dynsys.system.equations import Kinematics
from dynsys.types import Array
from experiments.trust.consistency.cases import COUNTS, Case, case_of, tasks
from experiments.trust.consistency.oracle import Truth, kinematics_at, truth_at
from experiments.trust.faults_common import own_cache
from problems.estimation.consistency import Checks
from problems.estimation.estimate import Estimate
from problems.measured.measured_system import QUANTITIES, Quantity
from problems.measured.reduced import noise_spread, rank_of

__all__ = [
    "BACKENDS",
    "COMPILED",
    "SOLVERS",
    "Outcome",
    "compared",
    "main",
    "outcomes_of",
    "rows_of",
    "summary",
    "table",
]

SOLVERS = ("dense", "superlu", *(["cholmod"] if has_cholmod() else []))
COMPILED = ("llvm", "batch", "reduced")
BACKENDS = (*SOLVERS, *COMPILED)
REFUSED = "refused"
"""In place of a method: no machine code for this layout, in words."""
LOST = 1e2
"""Times condition * spread * eps: what is beyond rounding."""
PROMISED = 2 * ACCURATE_DEVIATION * PRECISE
"""Part of the largest variance of a quantity: what estimators promise of variances."""
EPS = float(np.finfo(np.float64).eps)


@final
@dataclass(frozen=True)
class Outcome:
    """What became of a layout on a backend, and the method that it says has answered.

    ``error`` is the largest error of a value or variance, in parts of its size, over condition
    * spread * eps; ``condition`` is that of the verdict, the spread in it; ``suspects`` the
    sensors whose part was compared; ``differences`` says what differs.
    """

    kind: str
    number: int
    backend: str
    rank: str
    method: str = ""
    error: float = 0.0
    condition: float = 1.0
    suspects: int = 0
    differences: tuple[str, ...] = ()


# ---- one layout ------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Asked:
    """A case with its truth, and the sizes (n,) of all unknowns and their deviations there.

    ``condition`` is the verdict's, with the ratio of deviations for what noisy rows tell;
    ``suspected`` counts the sensors whose part was compared; ``without`` has the truths that
    were asked for without one of them, as they serve every backend.
    """

    case: Case
    truth: Truth
    size: Array
    std_size: Array
    condition: float
    kinematics: Kinematics
    suspected: Counter[str] = field(default_factory=Counter)
    without: dict[str, Truth] = field(default_factory=dict)

    @staticmethod
    def of(case: Case) -> Asked:
        estimation = case.estimation
        measured = estimation.measured
        kinematics = kinematics_at(estimation.robot, case.q, case.qd, aligned=case.aligned)
        truth = truth_at(measured, kinematics, case.rows)
        present = ~np.isnan(case.rows)
        here = Kinematics.at(estimation.robot, case.q, case.qd)
        reduced = measured.reduced(here, np.where(present, case.rows, 0.0))
        rank = rank_of(reduced.B[present], reduced.B_size[present])
        # rounding of one entry of z may reach all others, in natural units
        sizes = []
        for numbers in (truth.d, truth.std):
            z = numbers[measured.laws.open_columns] / measured.units
            sizes.append(reduced.T_size @ rank.scale * np.max(np.abs(z) / rank.scale))
        size = sizes[0] + reduced.response_size[:, -1]
        spread = noise_spread(measured.variance[present])
        condition = reduced.condition(measured.whitened(present), spread)
        return Asked(case, truth, size, sizes[1], condition, kinematics)

    def truth_without(self, sensor: str) -> Truth:
        """What would be true if a sensor had not been read."""
        if sensor not in self.without:
            rows = self.case.rows.copy()
            rows[self.case.estimation.layout.slice(sensor)] = np.nan
            measured = self.case.estimation.measured
            self.without[sensor] = truth_at(measured, self.kinematics, rows)
        return self.without[sensor]


Check = Callable[[Asked, Estimate], Iterator[str]]


def compared(task: tuple[str, int], backends: Sequence[str] = BACKENDS) -> list[Outcome]:
    """One layout on some backends, with a cache of its own."""
    with (
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory() as folder,
        own_cache(Path(folder)),
    ):
        warnings.simplefilter("ignore")
        asked = Asked.of(case_of(task))
        return [_outcome(asked, task[1], backend) for backend in backends]


def _outcome(asked: Asked, number: int, backend: str) -> Outcome:
    """Compare one backend."""
    case, truth = asked.case, asked.truth
    rank = "contradicts" if truth.contradicts else "open" if _open(truth) else "determined"
    facts: dict[str, Any] = {
        "kind": case.kind,
        "number": number,
        "backend": backend,
        "rank": rank,
        "condition": asked.condition,
    }
    if truth.doubtful:
        return Outcome(**{**facts, "rank": "doubtful"})
    asked.suspected.clear()
    error, method = 0.0, ""
    try:
        e = _estimate(case, backend)
        method = _method(e)
        differences = [] if not truth.contradicts else ["a contradiction is not told"]
        if not truth.contradicts:
            error = _error(asked, e)
            differences = [text for check in CHECKS for text in check(asked, e)]
            if error > LOST:
                differences.append(f"values or variances are off by {error:.1e}")
    except ContradictionError as raised:
        differences = [] if truth.contradicts else [str(raised)]
    except KernelBuildError:
        method, differences = REFUSED, []
    return Outcome(
        **facts,
        method=method,
        error=error,
        suspects=asked.suspected.total(),
        differences=tuple(differences),
    )


def _open(truth: Truth) -> bool:
    return not truth.determined.all()


def _estimate(case: Case, backend: str) -> Estimate:
    """The estimate of a backend; ``batch`` and ``reduced`` answer many equal states."""
    by = {"batch": "llvm", "reduced": "auto"}.get(backend, backend)
    own: Any = replace(case.estimation, backend=by)  # type: ignore[arg-type]
    if backend not in ("batch", "reduced"):
        e: Estimate = own.solve(case.q, case.qd, case.y)
        _ = e.torque.array
        return e
    n = 256
    q, qd, y = (np.tile(x, (n, 1)) for x in (case.q, case.qd, case.y))
    if backend == "reduced":  # no estimator is compiled where readings are missing
        y[0, np.argmax(own.measured.variance[: own.layout.size] > 0)] = np.nan
    outputs = (*QUANTITIES, "chi_square")
    batch: Estimate = own.solve_batch(q, qd, y, outputs=outputs, uncertainty=QUANTITIES)
    return batch


# ---- what is compared ------------------------------------------------------------------------


def _arrays(e: Estimate) -> Iterator[tuple[Quantity, Array, Array, Array]]:
    """Quantity, values, deviations and truth values, of the last state of a batch."""
    for kind in QUANTITIES:
        values, stds, flags = (
            np.ravel(group[kind].array[-1] if e.shape else group[kind].array)
            for group in (e.values, e.std, e.determined)
        )
        yield kind, values, stds, flags


def _method(e: Estimate) -> str:
    return e.method if isinstance(e.method, str) else e.method[-1]


def _error(asked: Asked, e: Estimate) -> float:
    """Largest error of a value or variance, in parts of its size, over condition.

    Of a variance by an estimator's code, what is beyond its promise.
    """
    worst, columns = 0.0, asked.case.estimation.system.unknowns.columns
    for kind, values, stds, _ in _arrays(e):
        where = columns(kind).ravel()
        known = asked.truth.determined[where] & np.isfinite(values)
        promised = PROMISED if _method(e) == "llvm" else 0.0
        for found, truth, size, part in (
            (values, asked.truth.d[where], asked.size[where], 0.0),
            (stds**2, asked.truth.std[where] ** 2, asked.std_size[where] ** 2, promised),
        ):
            off = np.abs(found - truth)[known] - part * truth[known].max(initial=0.0)
            off = np.maximum(off, 0.0) / np.where(size > 0, size, 1.0)[known]
            worst = max(worst, float(off.max(initial=0.0)))
    return worst / (asked.condition * EPS)


def _determined(asked: Asked, e: Estimate) -> Iterator[str]:
    columns = asked.case.estimation.system.unknowns.columns
    for kind, values, stds, flags in _arrays(e):
        truth = asked.truth.determined[columns(kind).ravel()]
        if (flags.astype(bool) != truth).any():
            yield f"{kind}: {int((flags > truth).sum())} falsely determined of {len(truth)}"
        if (np.isnan(values) | np.isnan(stds))[truth].any():
            yield f"{kind}: NaN where determined"


def _agreement(asked: Asked, e: Estimate) -> Iterator[str]:
    truth = asked.truth
    dof = int(np.ravel(e.degrees_of_freedom)[-1])
    chi_square = float(np.ravel(e.chi_square)[-1])
    if dof != truth.degrees_of_freedom:
        yield f"degrees of freedom {dof}, not {truth.degrees_of_freedom}"
    if not abs(chi_square - truth.chi_square) <= _allowed(asked, truth.chi_square):
        yield f"chi-square {chi_square:.6g}, not {truth.chi_square:.6g}"


def _allowed(asked: Asked, chi_square: float) -> float:
    """What rounding may do to a chi-square."""
    noisy = [float(v) for v in asked.case.estimation.measured.variance if v]
    least = min(noisy, default=1.0) ** 0.5
    rounding = LOST * EPS * asked.condition * float(asked.size.max()) / least
    return float(1e-8 * chi_square + 2 * rounding * chi_square**0.5 + rounding**2 + 1e-12)


SUSPECTED = 3
"""Sensors of a layout whose part in the chi-square is compared."""


def _suspects(asked: Asked, e: Estimate) -> Iterator[str]:
    """What a sensor explains is what the truth loses without its rows, and so is the rank.

    Exact readings that others repeat are wrong together with these: no truth without one.
    """
    case, truth = asked.case, asked.truth
    if e.problem.backend != "dense" and not e.shape:
        return
    measured, layout = case.estimation.measured, case.estimation.layout
    found = _checks(case, e)
    if found is None:
        return
    exact = ~np.isnan(case.rows) & (measured.variance == 0)
    rows = measured.reduced(Kinematics.at(case.estimation.robot, case.q, case.qd))
    fixed = rank_of(rows.B[exact], rows.B_size[exact])
    repeats = fixed.seen.shape[1] < exact.sum()
    names = [n for n in layout.names if not (repeats and exact[layout.slice(n)].any())]
    for name in names[:: max(len(names) // SUSPECTED, 1)]:
        other = asked.truth_without(name)
        if other.doubtful or other.contradicts:
            continue
        asked.suspected[name] += 1
        s = found.names.index(name)
        rank = truth.degrees_of_freedom - other.degrees_of_freedom
        drop, told = truth.chi_square - other.chi_square, float(found.drop[-1, s])
        if found.rank[-1, s] != rank:
            yield f"{name} explains {found.rank[-1, s]} degrees of freedom, not {rank}"
        elif not abs(told - drop) <= 2 * _allowed(asked, truth.chi_square):
            yield f"{name} explains {told:.6g} of the chi-square, not {drop:.6g}"


def _checks(case: Case, e: Estimate) -> Checks | None:
    """What sensors explain, by the estimator or by batches; None if these do not answer."""
    if not e.shape:
        return e.problem.checks(case.q, case.qd, case.rows)
    found: list[Checks] = []
    q, qd, rows = (np.tile(x, (2, 1)) for x in (case.q, case.qd, case.rows))
    e.problem.reduced.solve(q, qd, rows, (), judge=lambda _, checks: found.append(checks))
    return found[-1] if found and len(found[-1].drop) else None


CHECKS: tuple[Check, ...] = (_determined, _agreement, _suspects)
"""What is compared besides numbers."""


# ---- the study -------------------------------------------------------------------------------


def _outcomes(jobs: int, some: Sequence[tuple[str, int]]) -> Iterator[list[Outcome]]:
    if jobs == 1:
        yield from map(compared, some)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        yield from pool.map(compared, some, chunksize=4)


def rows_of(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """What docs/results/trust keeps: a row for each layout, its backends in it."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for one in outcomes:
        about = {"kind": one.kind, "number": one.number, "rank": one.rank}
        about |= {"condition": float(f"{one.condition:.3g}"), "backends": {}}
        row = rows.setdefault((one.kind, one.number), about)
        told: list[Any] = [one.method, float(f"{one.error:.3g}"), one.suspects]
        row["backends"][one.backend] = [*told, *one.differences]
    return list(rows.values())


def outcomes_of(rows: Sequence[Mapping[str, Any]]) -> list[Outcome]:
    """The outcomes that rows hold."""
    return [
        Outcome(
            row["kind"],
            row["number"],
            backend,
            row["rank"],
            told[0],
            told[1],
            row["condition"],
            told[2],
            tuple(told[3:]),
        )
        for row in rows
        for backend, told in row["backends"].items()
    ]


def table(outcomes: Sequence[Outcome]) -> Table:
    """Counts by kind and backend."""
    ranks = ("determined", "open", "contradicts", "doubtful")
    shown = Table("kind", "backend", *ranks, "differences", "worst, condition spread eps")
    for kind, backend in dict.fromkeys((one.kind, one.backend) for one in outcomes):
        some = [one for one in outcomes if (one.kind, one.backend) == (kind, backend)]
        count = Counter(one.rank for one in some)
        differing = sum(bool(one.differences) for one in some)
        worst = max(one.error for one in some)
        cells = [str(count[rank]) for rank in ranks]
        shown.add_row(kind, backend, *cells, str(differing), f"{worst:.1f}")
    return shown


def summary(outcomes: Sequence[Outcome]) -> Mapping[str, Any]:
    """Counts, the worst of each backend, all differences."""
    by_backend = {}
    for backend in dict.fromkeys(one.backend for one in outcomes):
        some = [one for one in outcomes if one.backend == backend]
        by_backend[backend] = {
            "layouts": len(some),
            "refused": sum(one.method == REFUSED for one in some),
            "suspects": sum(one.suspects > 0 for one in some),
            "worst": max(one.error for one in some),
        }
    layouts = {(one.kind, one.number): one for one in outcomes}
    return {
        "layouts": len(layouts),
        "kinds": dict(Counter(one.kind for one in layouts.values())),
        "ranks": dict(Counter(one.rank for one in layouts.values())),
        "backends": by_backend,
        "differences": [asdict(one) for one in outcomes if one.differences],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    outcomes: list[Outcome] = []
    if options.json and options.json.exists():
        lines = options.json.read_text(encoding="utf-8").splitlines()
        outcomes = outcomes_of([json.loads(line) for line in lines])
    done = {(one.kind, one.number) for one in outcomes}
    # some of every kind, however few there is time for
    some = sorted((task for task in tasks(options.count) if task not in done), key=_in_turn)
    for found in track(_outcomes(options.jobs, some), "layouts", total=len(some)):
        outcomes += found
        if options.json:
            text = "".join(json.dumps(row) + "\n" for row in rows_of(outcomes))
            options.json.write_text(text, encoding="utf-8")
    console = Console()
    console.print(table(outcomes))
    for one in outcomes:
        for text in one.differences:
            console.print(f"{one.kind} {one.number}, {one.backend}: {text}")
    return int(any(one.differences for one in outcomes))


def _in_turn(task: tuple[str, int]) -> float:
    """Place of a task among those of all kinds, mixed in proportion."""
    return task[1] / COUNTS[task[0]]
