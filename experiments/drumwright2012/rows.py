"""[DRUM] reproduced: E. Drumwright, Theta(n^2) inversion of the inertia matrix, 2012.

    python -m experiments.drumwright2012 [--json] [--plot FOLDER] [--quick]

The paper's figures have no numbers beside them; what its text says of them stands in the
column "paper". Times are of this machine, one BLAS thread; ``--quick`` takes small sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
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
    TABLE_1,
    TABLE_2,
    TABLE_3,
    Table,
    evaluate,
    inverse_count,
    total,
)
from experiments.papers import paper_rows
from experiments.papers.paper_rows import Row, row
from experiments.peers.timing import cores

__all__ = ["Sizes", "figures", "main", "rows"]

TITLE = "Drumwright 2012: Theta(n^2) inverse inertia, centipedes"
NOTES = (
    "Table 1 reads as 13 multiplications per joint and column over all n^2 pairs for impulses,"
    " though section 5.2 starts a column at its own joint, and 19 over half of the pairs for"
    " velocities; our loops visit half in both passes: 12n^2 + .. instead of 22.5n^2 + ..",
    "Algorithms 1 and 2 as printed do not give M^-1: see dynsys/loops/drumwright.py.",
    "Section 6.3 resolves contacts by its reference 10, maximum dissipation, which is not among"
    " our papers: experiments/drumwright2012/contact_model.py says where its program is from."
    " The timed steps of figure 4 have Coulomb's law by projected Gauss-Seidel.",
    "Figure 2 sets the Theta(n^2) inverse against factorisations alone; the rows 'LAPACK"
    " inverse' finish the job.",
)


FEWER = "our loops visit half of the pairs in both passes, and one triangle of the inertias"
MACHINE = "a time, of another machine, compiler and LAPACK"


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
        self.impacts = (2, 4) if quick else (12, 40)
        self.models = (2, 0.02) if quick else (3, 2.0)
        self.walk = (3, 0.3) if quick else (12, 4.0)

    def steps(self, segments: int) -> int:
        """Timed steps of a centipede, three times over: a second or so, one of the largest."""
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
    """Totals of tables 1-3 as printed, against the sum of their rows."""
    half = Fraction(1, 2)
    printed: dict[str, tuple[Table, Callable[[int], Fraction], Callable[[int], Fraction]]] = {
        "table 1": (
            TABLE_1,
            lambda n: 45 * half * n**2 + 216 * n,
            lambda n: Fraction(26 * n**2 + 170 * n),
        ),
        "table 2": (
            TABLE_2,
            lambda n: half * n**3 + 7 * half * n**2 + 145 * n,
            lambda n: half * n**3 + 5 * half * n**2 + 100 * n - 13,
        ),
        "table 3": (
            TABLE_3,
            lambda n: 261 * half * n + 108,
            lambda n: Fraction(133 * n + 63),
        ),
    }
    out = []
    for table, (entries, multiplications, additions) in printed.items():
        for n in (10, 100):
            m, a = total(entries, n)
            out += [
                row(
                    table,
                    f"total, n = {n}",
                    "multiplications",
                    int(multiplications(n)),
                    int(m),
                    "given",
                ),
                row(table, f"total, n = {n}", "additions", int(additions(n)), int(a), "given"),
            ]
    return out


def executed_rows(sizes: Sizes) -> list[Row]:
    """Operations our loops execute: formula against instrumented runs, beside table 1."""
    out = []
    for n in sizes.counted:
        executed, error = drumwright_runs.executed_counts(n)
        for step, formula in inverse_count(n).items():
            where, count = f"{step}, n = {n}", executed[step].divisions_as_multiplications
            out.append(row("our formula", where, "executed", formula, executed[step], "ours"))
            m, a = (float(evaluate(part, n)) for part in TABLE_1[step])
            for what, paper, ours in (
                ("multiplications, d as m", m, count.multiplications),
                ("additions", a, count.additions),
            ):
                out.append(row("table 1", where, what, paper, ours, why=FEWER))
        out.append(row("table 1", f"n = {n}", "error of counted M^-1", None, error))
    return out


def algorithm_rows(sizes: Sizes) -> list[Row]:
    """What the printed algorithm gives, and what the global frame costs in digits."""
    robot = synthetic.chain(3)
    q = robot.random_configuration(0)
    H = drumwright_runs.inertia_matrix_of(robot, q)
    wrong = float(np.abs(drumwright_runs.as_printed(robot, q) @ H - np.eye(3)).max())
    out = [row("algorithm 1", "chain of 3, as printed", "largest of |M^-1 M - 1|", None, wrong)]
    for n in sizes.error:
        for name, error in drumwright_runs.frame_errors(n).items():
            out.append(row("algorithm 1", f"n = {n}, {name}", "relative error", None, error))
    return out


def figure_1_curves(n: int) -> dict[str, Fraction]:
    """Multiplications at n joints, by the tables' formulas."""
    return {
        "Cholesky factorisation": evaluate(TABLE_2["Cholesky (naive)"][0], n),
        "formation and Cholesky": total(TABLE_2, n)[0],
        "Theta(n^2)": total(TABLE_1, n)[0],
        "Theta(n^2), n processors": total(TABLE_3, n)[0],
    }


def figure_1_rows() -> list[Row]:
    """Figure 1: counts, and where the curves cross."""
    out = []
    for n in (10, 20, 50, 100):
        for name, value in figure_1_curves(n).items():
            out.append(row("figure 1", f"{name}, n = {n}", "multiplications", None, int(value)))
        count = sum(inverse_count(n).values(), OperationCount()).divisions_as_multiplications
        where = f"our loops, n = {n}"
        out.append(row("figure 1", where, "multiplications", None, count.multiplications))
    for other in ("Cholesky factorisation", "formation and Cholesky"):
        n = 1
        while figure_1_curves(n)["Theta(n^2)"] >= figure_1_curves(n)[other]:
            n += 1
        out.append(row("figure 1", f"Theta(n^2) below {other}", "from n =", None, n))
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
                near = ours is not None and 65 <= ours <= 260
                out.append(
                    row("figure 2", where, "from n =", 130, ours, holds=near, why=MACHINE)
                )
            else:
                out.append(row("figure 2", where, "from n =", None, ours))
    last = sizes.joints[-1]
    depth = drumwright_runs.mean_depth(drumwright_runs.branched(last))
    where, right = f"branched, n = {last}", abs(depth - 0.5) < 0.15
    out.append(row("section 6.1", where, "depth / n", "1/2 expected", depth, holds=right))
    return out


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
    few = f"four threads on {there} cores, the paper's had four (virtual ones)"
    for name, paper, slow, fast, why in (
        ("two threads over one", 34, one, two, MACHINE),
        ("four threads over two", 58, two, four, few if there < 4 else MACHINE),
        ("four threads over one", 117, one, four, few if there < 4 else MACHINE),
    ):
        gain = 100 * (slow[-1] / fast[-1] - 1)
        where, near = f"{name}, n = {sizes.threads[-1]}", paper / 2 <= gain <= 2 * paper
        out.append(row("figure 3", where, "percent faster", paper, gain, holds=near, why=why))
    out.append(row("figure 3", "cores of this machine", "number", None, there))
    return out


def figure_4_rows(sizes: Sizes) -> list[Row]:
    """Figure 4: CPU time of a centipede's simulation by the three routes and the Y-factor."""
    out = []
    for segments in sizes.segments:
        taken = {
            route: centipede_runs.step_seconds(segments, route, sizes.steps(segments))
            for route in ROUTES
        }
        for route, value in taken.items():
            where = f"{segments} segments, {route}"
            out.append(row("figure 4", where, "s per 1000 steps", None, 1e3 * value))
    where = f"{sizes.segments[-1]} segments"
    slower = "order of magnitude"  # the abstract
    for route in ("dense", "ltl"):
        ratio = taken[route] / taken["drumwright"]
        what, much = f"{route} / Theta(n^2)", ratio >= 10
        out.append(row("figure 4", where, what, slower, ratio, holds=much, why=MACHINE))
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
