"""[DRUM] reproduced: E. Drumwright, Theta(n^2) inversion of the inertia matrix, 2012.

    python -m experiments.drumwright2012 [--json] [--plot FOLDER] [--quick]

The paper's figures have no numbers beside them; what its text says of them stands in the
column "paper". Times are of this machine, one BLAS thread; ``--quick`` takes small sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import get_args

import numpy as np

from dynsys.model import synthetic
from dynsys.simulation import ROUTES, Integrator
from experiments.counting import OperationCount
from experiments.drumwright2012 import centipedes as centipede_runs
from experiments.drumwright2012 import contact_model
from experiments.drumwright2012 import runs as drumwright_runs
from experiments.drumwright2012.counts import (
    TABLES,
    Polynomial,
    evaluate,
    inverse_count,
    polynomial,
    text,
    through,
)
from experiments.drumwright2012.printed import (
    COMPLETE,
    FROM_ITS_JOINT,
    algorithm_1,
    executed,
)
from experiments.papers import paper_rows
from experiments.papers.paper_rows import Row, row
from experiments.peers.timing import cores

__all__ = ["Sizes", "figures", "main", "rows"]

TITLE = "Drumwright 2012: Theta(n^2) inverse inertia, centipedes"
NOTES = (
    "Tables 1-3 are executed as printed, on scalars that count; what the paper leaves open is"
    " read as experiments/drumwright2012/printed.py says. Our loops visit half of the pairs in"
    " both passes.",
    "Algorithms 1 and 2 as printed do not give M^-1: see dynsys/loops/drumwright.py.",
    "Section 6.3 resolves contacts by its reference 10, maximum dissipation, which is not among"
    " our papers: experiments/drumwright2012/contact_model.py says where its program is from."
    " Figure 4 is timed with it, and with Coulomb's law by projected Gauss-Seidel.",
    "Figure 2 sets the Theta(n^2) inverse against factorisations alone; the rows 'LAPACK"
    " inverse' finish the job.",
)

COUNTS: Sequence[tuple[str, Callable[[OperationCount], int]]] = (
    (
        "multiplications, d and s as m",
        lambda c: c.multiplications + c.divisions + c.square_roots,
    ),
    ("additions", lambda c: c.additions),
)
SUM_OF_SIX = "a sum of six products has 5 additions, as it has in the 107n of the inertias;"
PAIRS = "lines 7-9 go over all pairs; it is line 5 that section 5.2 starts at a column's joint"
WHY = {
    ("spatial axes", 1): "R u has 6, R p + x has 9, their product 3",
    ("isolated inertias", 0): "R J R^T has 54, R c + x 9, m r 3, its product with r 12;"
    " printed are six more",
    ("articulated inertias", 0): "I s has 36, s I s 6, the quotient 6, the product 36; divided"
    " after the product 114, of which the print lacks the 6 of s I s",
    ("impulse propagation", 1): f"{SUM_OF_SIX} 13 with 6",
    ("velocity updates", 0): PAIRS,
    ("velocity updates", 1): PAIRS,
    ("I s vectors", 1): f"{SUM_OF_SIX} printed are those of four products of 3 x 3 with 3,"
    " not added up",
    ("elements of M", 0): "n(n + 1)/2 elements of 6 products; printed are n^2/2",
    ("elements of M", 1): "n(n + 1)/2 elements of 5 sums; printed are n^2/2",
    ("Cholesky (naive)", 0): "the sum of an element ends at its column, n^3/6 in all",
    ("Cholesky (naive)", 1): "the sum of an element ends at its column, n^3/6 in all",
    ("total", 0): "the sum of the rows above as executed",
    ("total", 1): "the sum of the rows above as executed",
}
"""Why what is executed is not what is printed, by row and column of :data:`COUNTS`."""


class Sizes:
    """How large and how long the measurements are."""

    def __init__(self, quick: bool) -> None:
        self.quick = quick
        self.joints = (
            [10, 20, 40] if quick else [10, 20, 50, 100, 150, 200, 300, 500, 700, 1000]
        )
        self.threads = [40, 80] if quick else [50, 100, 200, 300, 500, 700, 1000]
        self.passes = 1 if quick else 11
        self.segments = [2, 4] if quick else [2, 5, 10, 25, 50, 100, 175, 250]
        self.counted = [3, 8] if quick else [3, 10, 30]
        self.error = [10, 40] if quick else [10, 100, 300, 1000]
        self.run = (3, 20) if quick else (100, 1000)
        self.stopped = (2, 10) if quick else (25, 1000)
        self.impacts = (2, 4) if quick else (12, 40)
        self.models = (2, 0.02) if quick else (3, 2.0)
        self.walk = (3, 0.3) if quick else (12, 4.0)

    def steps(self, segments: int) -> int:
        """Timed steps of a centipede, five times over: a second or so, one of the largest."""
        return 2 if self.quick else max(1, 400 // segments)


def rows(quick: bool = False) -> list[Row]:
    """All numbers of the paper, beside ours."""
    sizes = Sizes(quick)
    return [
        *table_rows(),
        *executed_rows(sizes),
        *algorithm_rows(sizes),
        *figure_1_rows(),
        *figure_2_rows(sizes),
        *figure_3_rows(sizes),
        *figure_4_rows(sizes),
        *inertia_rows(sizes),
        *model_rows(sizes),
        *motion_rows(sizes),
    ]


# ---- counts ------------------------------------------------------------------------------


def table_rows() -> list[Row]:
    """Tables 1-3: every cell as printed, and as executed; line 5 as it is meant, too."""
    out = []
    for table, printed in TABLES.items():
        for step, (*cells, line) in printed.items():
            for column, (what, of) in enumerate(COUNTS):
                found = _executed(table, step, of)
                same = polynomial(cells[column]) == found
                ours, why = (cells[column], "") if same else (text(found), WHY[step, column])
                told = table, step, what, cells[column], ours
                out.append(row(*told, why=why, lines=line))
    for step in (FROM_ITS_JOINT, COMPLETE):
        for what, of in COUNTS:
            ours = text(_executed("line 5", step, of))
            out.append(row("table 1", f"impulse propagation, {step}", what, None, ours))
    return out


@cache
def _executed(table: str, step: str, of: Callable[[OperationCount], int]) -> Polynomial:
    return through(lambda n: of(executed(n)[table][step]))


def executed_rows(sizes: Sizes) -> list[Row]:
    """Operations our loops execute: formula against instrumented runs."""
    out = []
    for n in sizes.counted:
        counted, error = drumwright_runs.executed_counts(n)
        for step, formula in inverse_count(n).items():
            where = f"{step}, n = {n}"
            out.append(row("our formula", where, "executed", formula, counted[step], "ours"))
        out.append(row("our formula", f"n = {n}", "error of counted M^-1", None, error))
    return out


def algorithm_rows(sizes: Sizes) -> list[Row]:
    """What the printed algorithm gives, and what the global frame costs in digits."""
    robot = synthetic.chain(3)
    q = robot.random_configuration(0)
    H = drumwright_runs.inertia_matrix_of(robot, q)
    out = []
    for complete, where in ((False, "as printed"), (True, f"line 5 {COMPLETE}")):
        wrong = float(np.abs(algorithm_1(robot, q, complete) @ H - np.eye(3)).max())
        what = "largest of |M^-1 M - 1|"
        out.append(row("algorithm 1", f"chain of 3, {where}", what, None, wrong))
    for n in sizes.error:
        for name, error in drumwright_runs.frame_errors(n).items():
            out.append(row("algorithm 1", f"n = {n}, {name}", "relative error", None, error))
    return out


CHOLESKY, FORMED = "Cholesky factorisation", "formation and Cholesky"
THETA, OURS = "Theta(n^2)", "our loops"


def figure_1_curves(n: int, as_printed: bool = True) -> dict[str, Fraction]:
    """Multiplications at n joints, by the printed tables or by those executed.

    All of them with axes and isolated inertias, but for the factorisation alone.
    """

    def of(table: str, step: str = "total") -> Fraction:
        if as_printed:
            return evaluate(polynomial(TABLES[table][step][0]), n)
        return evaluate(_executed(table, step, COUNTS[0][1]), n)

    return {
        CHOLESKY: of("table 2", "Cholesky (naive)"),
        FORMED: of("table 2"),
        THETA: of("table 1"),
        "Theta(n^2), n processors": of("table 3"),
    }


def our_multiplications(n: int) -> int:
    """Those of our loops for M^-1, divisions as well, axes and isolated inertias with them."""
    count = sum(inverse_count(n).values(), OperationCount())
    return count.divisions_as_multiplications.multiplications


def figure_1_rows() -> list[Row]:
    """Figure 1: executed counts, and where the curves cross, of the paper's formulas too."""

    def curves(n: int, as_printed: bool = False) -> dict[str, Fraction]:
        return {**figure_1_curves(n, as_printed), OURS: Fraction(our_multiplications(n))}

    out = []
    for n in (10, 20, 50, 100):
        found = curves(n)
        for name, value in found.items():
            where = f"{name}, n = {n}"
            out.append(row("figure 1", where, "multiplications executed", None, round(value)))
        where, what = f"n = {n}, axes and inertias in both", "our loops / algorithm as printed"
        out.append(row("figure 1", where, what, None, float(found[OURS] / found[THETA])))
    for name, as_printed in ((THETA, True), (THETA, False), (OURS, False)):
        for other in (CHOLESKY, FORMED):
            n = 1
            while curves(n, as_printed)[name] >= curves(n, as_printed)[other]:
                n += 1
            how = "by the printed formulas" if as_printed else "as executed"
            out.append(row("figure 1", f"{name} below {other}, {how}", "from n =", None, n))
    return out


# ---- times -------------------------------------------------------------------------------


def _time_rows(
    figure: str, unit: str, sizes: Sequence[int], measured: Sequence[Mapping[str, float]]
) -> list[Row]:
    """A row per size and algorithm, of seconds measured."""
    return [
        row(figure, f"{name}, n = {n}", unit, None, 1e3 * value)
        for n, times in zip(sizes, measured, strict=True)
        for name, value in times.items()
    ]


def figure_2_rows(sizes: Sizes) -> list[Row]:
    """Figure 2: one thread, chains (and branched bodies for LTL)."""
    measured = [drumwright_runs.inverse_times(n, sizes.passes) for n in sizes.joints]
    out = _time_rows("figure 2", "CPU ms", sizes.joints, measured)
    fast = [times["Theta(n^2) inverse"] for times in measured]
    for name in measured[0]:
        if name != "Theta(n^2) inverse":
            found = drumwright_runs.crossing(sizes.joints, [t[name] for t in measured], fast)
            where = f"Theta(n^2) inverse faster than {name}"
            ours = None if found is None else round(found)  # None: not within these sizes
            if name == "LAPACK Cholesky":
                out += _crossing_rows(where, ours, sizes)
            else:
                out.append(row("figure 2", where, "from n =", None, ours))
    last = sizes.joints[-1]
    depth = drumwright_runs.mean_depth(drumwright_runs.branched(last))
    told = "section 6.1", f"branched, n = {last}", "depth / n", "expected depth n/2", depth
    right = abs(depth - 0.5) < 0.15
    out.append(row(*told, holds=right, lines=186, within="0.15 of n, one tree drawn"))
    return out


def _crossing_rows(where: str, ours: int | None, sizes: Sizes) -> list[Row]:
    """Where the inverse gets faster than LAPACK, and how fast each of the two multiplies."""
    n = max(k for k in sizes.joints if k <= (ours or k))
    rates = drumwright_runs.rates(n, max(sizes.passes, 31))
    equal = _equal_speed()
    why = (
        f"LAPACK multiplies {rates[0] / rates[1]:.1f} times as fast as our loops (n = {n});"
        f" at equal speed the operations executed cross at n = {equal}"
    )
    told = "figure 2", where, "from n =", 130, ours
    near = ours is not None and 65 <= ours <= 260
    out = [row(*told, holds=near, why=why, lines=217, within="a factor of two")]
    what = "multiplications per ns"
    for name, rate in (("LAPACK's factor", rates[0]), ("Theta(n^2), both passes", rates[1])):
        out.append(row("figure 2", f"{name}, n = {n}", what, None, 1e-9 * rate))
    return out


def _equal_speed() -> int:
    """Joints from which our loops multiply less than formation and Cholesky factorisation."""
    n = 1
    while our_multiplications(n) >= figure_1_curves(n, as_printed=False)[FORMED]:
        n += 1
    return n


def figure_3_rows(sizes: Sizes) -> list[Row]:
    """Figure 3: threads, on as many cores as there are; four of them share two if need be."""
    measured = [drumwright_runs.thread_times(n, sizes.passes) for n in sizes.threads]
    out = _time_rows("figure 3", "ms", sizes.threads, measured)
    names = (drumwright_runs.ONE, drumwright_runs.TWO, drumwright_runs.FOUR, "LAPACK Cholesky")
    one, two, four, lapack = ([times[name] for times in measured] for name in names)
    for name, slow, fast in (
        ("Theta(n^2), 1 thread, faster than LAPACK Cholesky", lapack, one),
        ("Theta(n^2), 2 threads, faster than LAPACK Cholesky", lapack, two),
        ("Theta(n^2), 4 threads, faster than LAPACK Cholesky", lapack, four),
        ("2 threads faster than 1", one, two),
    ):
        found = drumwright_runs.crossing(sizes.threads, slow, fast)
        out.append(row("figure 3", name, "from n =", None, found and round(found)))
    there = len(cores())
    why = f"threads on {there} cores, on the wall; the paper's machine had two, four virtual"
    for name, paper, slow, fast in (
        ("two threads over one", 34, one, two),
        ("four threads over two", 58, two, four),
        ("four threads over one", 117, one, four),
    ):
        gain = 100 * (slow[-1] / fast[-1] - 1)
        told = "figure 3", f"{name}, n = {sizes.threads[-1]}", "percent faster", paper, gain
        near = paper / 2 <= gain <= 2 * paper
        out.append(row(*told, holds=near, why=why, lines=215, within="a factor of two"))
    out.append(row("figure 3", "cores of this machine", "number", None, there))
    return out


def figure_4_rows(sizes: Sizes) -> list[Row]:
    """Figure 4: CPU time of a centipede's simulation by the three routes and the Y-factor.

    Its impulses by maximum dissipation, the paper's own, and by projected Gauss-Seidel.
    """
    out = []
    for segments in sizes.segments:
        parts = contact_model.step_parts(segments, min(sizes.passes, 7))
        sweeps = centipede_runs.step_seconds(segments, sizes.steps(segments))
        models = {contact_model.DISSIPATION: parts.step, contact_model.SWEEPS: sweeps}
        for model, taken in models.items():
            for route, value in taken.items():
                where = f"{segments} segments, {model}, {route}"
                out.append(row("figure 4", where, "s per 1000 steps", None, 1e3 * value))
        for route in ROUTES:
            where = f"{segments} segments, {contact_model.DISSIPATION}, {route}"
            share = parts.inertia[route] / parts.step[route]
            out.append(row("figure 4", where, "J M^-1 J^T / step", None, share))
        where = f"{segments} segments, {contact_model.DISSIPATION}"
        out.append(row("figure 4", where, "ms of impulses", None, 1e3 * parts.impulses))
    segments, steps = sizes.stopped
    count = contact_model.stopped(segments, steps)
    where = f"{segments} segments, {steps} steps"
    out.append(row("figure 4", where, "steps that stop all contacts", None, count))
    for model, taken in models.items():
        where = f"{sizes.segments[-1]} segments, {model}"
        share = parts.inertia["drumwright"] / taken["drumwright"]
        for route in ("dense", "ltl"):
            ratio = taken[route] / taken["drumwright"]
            alone = parts.inertia[route] / parts.inertia["drumwright"]
            why = (
                f"J M^-1 J^T alone is {alone:.1f} times faster, but {share:.0%} of a step by"
                " Theta(n^2): the rest dilutes it"
            )
            told = "figure 4", where, f"{route} / Theta(n^2)", "order of magnitude", ratio
            within = "10 and more"
            out.append(row(*told, holds=ratio >= 10, why=why, lines=9, within=within))
    return out


def inertia_rows(sizes: Sizes) -> list[Row]:
    """J M^-1 J^T alone by all four routes, the same call of each: [OSI]'s beside figure 4's."""
    out, table = [], "figure 4, J M^-1 J^T"
    for segments in sizes.segments:
        taken, errors = centipede_runs.inertia_seconds(segments, min(sizes.passes, 3))
        for route in ROUTES:
            where = f"{segments} segments, {route}"
            out.append(row(table, where, "ms per state", None, 1e3 * taken[route]))
        worst = max(errors.values())
        out.append(row(table, f"{segments} segments", "largest error", None, worst))
        for route in ("drumwright", "ltl", "dense"):
            times = taken[route] / taken["y_factor"]
            out.append(row(table, f"{segments} segments", f"{route} / y_factor", None, times))
    return out


def model_rows(sizes: Sizes) -> list[Row]:
    """The contact model of the paper's reference 10 beside Coulomb's law, same contacts."""
    out = []
    for speed in (0.0, 1.0):
        found = contact_model.compare(*sizes.impacts, speed)
        at = f"{sizes.impacts[0]} segments hit the floor at {speed:g} m/s along it"
        for name in contact_model.MODELS:
            where = f"{at}, {name}"
            for what, values in (
                ("kinetic energy / Gauss-Seidel's, mean", found.energy),
                ("the same, largest", found.most),
                ("friction off the slip's opposite, degrees", found.beside),
                ("feet's velocities - Gauss-Seidel's, m/s", found.slip),
                ("feet still approach by, m/s", found.approach),
            ):
                out.append(row("section 6.3", where, what, None, values[name]))
            taken = 1e3 * found.seconds[name]
            out.append(row("section 6.3", where, "ms per problem", None, taken))
    segments, duration = sizes.models
    for name in contact_model.MODELS:
        walk = contact_model.walked(segments, name, duration)
        where = f"{segments} segments walk {duration:g} s, {name}"
        out += [
            row("section 6.3", where, "way, m", None, walk.way),
            row("section 6.3", where, "deepest foot, m", None, walk.depth),
            row("section 6.3", where, "ms per step, impulses alone", None, 1e3 * walk.seconds),
        ]
    return out


def motion_rows(sizes: Sizes) -> list[Row]:
    """Energy and penetration: the paper's explicit Euler, a walk, and free flight."""
    segments, steps = sizes.run
    record = centipede_runs.paper_run(segments, steps)
    where = f"{segments} segments, {steps} steps of 1e-5 s, explicit"
    out = [
        row("section 6.3", where, "energy drift, J", None, float(record.drift[-1])),
        row("section 6.3", where, "energy, J", None, float(record.energy[0])),
        row(
            "section 6.3",
            where,
            "largest penetration, m",
            None,
            float(record.penetration.max()),
        ),
        row("section 6.3", where, "feet pushing, largest", None, int(record.contacts.max())),
    ]
    segments, duration = sizes.walk
    walk = centipede_runs.walk(segments, duration)
    where = f"{segments} segments, {duration:g} s walk, midpoint, 1e-3 s"
    out += [
        row("section 6.3", where, "way, m", None, walk.distance),
        row("section 6.3", where, "energy drift, J", None, float(walk.record.drift[-1])),
        row(
            "section 6.3", where, "work of drives, J", None, float(walk.record.drive_work.sum())
        ),
        row(
            "section 6.3",
            where,
            "work of contacts, J",
            None,
            float(walk.record.contact_work.sum()),
        ),
        row("section 6.3", where, "penetration, m", None, float(walk.record.penetration.max())),
        row(
            "section 6.3",
            where,
            "Newton steps of the solver, mean",
            None,
            float(np.mean(walk.record.steps)),
        ),
    ]
    for integrator in get_args(Integrator):
        for dt in (1e-3, 1e-4) if sizes.quick else (1e-3, 1e-4, 1e-5):
            drift = centipede_runs.flight_drift(dt, integrator)
            where = f"limp in free flight, 0.02 s, {integrator}, dt = {dt:g}"
            out.append(row("section 6.3", where, "relative energy drift", None, drift))
    return out


def figures(folder: Path, quick: bool = False) -> list[Path]:
    """Write figures 1-4 and the walk as PNG files and return their paths."""
    from experiments.drumwright2012 import figures as drumwright2012_figures

    return drumwright2012_figures.write(folder, Sizes(quick))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment from the command line."""
    return paper_rows.main_of_measurements(TITLE, rows, figures, NOTES, argv)
