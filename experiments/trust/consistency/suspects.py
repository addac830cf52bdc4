"""Is the wrong sensor named? Random layouts, one sensor each made wrong.

    python -m experiments.trust.consistency.suspects [--count 400] [--json FILE]

A sensor of a random layout (:mod:`experiments.trust.layouts_cases`), noisy, far more precise
than all others, or exact, is wrong by 10 to 50 standard deviations of what the others can check
of it. Counted: how often it is the first suspect, or one that no data can tell from the first.
Checked beside: what a suspect is said to explain is what the chi-square loses when its readings
are taken away and everything is solved again, and so are the degrees of freedom. Exit status 1
if a culprit is not among the suspects at all, or a number is wrong.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import cast, final

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import problems
import sensors
from dynsys.system.equations import Kinematics
from dynsys.types import Array
from experiments.trust.layouts_cases import drawn_case, robot_named
from problems.estimation.consistency import Checks
from problems.measured.reduced import noise_axes

__all__ = ["Outcome", "main", "tried"]

KINDS = ("redundant", "exact rows", "correlated", "switchable", "frames", "linear rows")
CULPRITS = ("ordinary", "precise", "exact")
PRECISE = 1e-5
"""Part of its deviation that a precise sensor claims to have."""
SAME = 1e-6
"""Relative difference of two chi-squares that are equal."""
TREES = 24


@final
@dataclass(frozen=True)
class Outcome:
    """Was the culprit found?

    ``place`` of its group among the suspects, 1 the first, 0 none of them; ``group`` how many
    no data can tell apart from the first; ``error`` the largest relative difference to solving
    again without a suspect.
    """

    kind: str
    culprit: str
    name: str
    place: int
    group: int
    error: float


def tried(kind: str, culprit: str, seed: int) -> Outcome | None:
    """Make a sensor of a random layout wrong; None if others check no such sensor of it."""
    rng = np.random.default_rng([seed, KINDS.index(kind), CULPRITS.index(culprit)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimation = drawn_case(kind, robot_named(f"tree {seed % TREES}"), seed).estimation
    q = estimation.robot.random_configuration(rng)
    qd = rng.normal(size=estimation.robot.nv)
    variance = estimation.measured.variance
    for name in rng.permutation(list(estimation.layout.names)).tolist():
        place = estimation.layout.slice(name)
        if (culprit == "exact") != (not variance[place].any()):
            continue
        wrong = _precise(estimation, name) if culprit == "precise" else estimation
        y = _readings(wrong, q, qd, rng)
        fault = rng.normal(size=place.stop - place.start)
        faulty = _checks(wrong, q, qd, _changed(y, place, 1e6 * fault))
        drop = float(faulty.drop[0, estimation.layout.names.index(name)])
        if not drop > 1.0:
            continue  # nothing checks it, or not these components
        size = rng.uniform(10, 50)
        y = _changed(y, place, 1e6 * size / np.sqrt(drop) * fault)
        return _judged(wrong, (kind, culprit), str(name), (q, qd, y))
    return None


def _precise(estimation: problems.Estimation, name: str) -> problems.Estimation:
    """The estimation with one sensor that claims to be far more precise."""
    layout = estimation.layout
    covariance = (layout.covariances[layout.names.index(name)] * PRECISE**2).tolist()
    chosen = [
        replace(s, std=None, covariance=covariance) if s.name == name else s for s in layout
    ]
    return problems.Estimation(estimation.robot, sensors.Layout(estimation.robot, chosen))


def _readings(
    estimation: problems.Estimation, q: Array, qd: Array, rng: np.random.Generator
) -> Array:
    """Readings of a random motion, with noise."""
    reduced = estimation.measured.reduced(Kinematics.at(estimation.robot, q, qd))
    y = reduced.B @ rng.normal(size=reduced.B.shape[1]) - reduced.c
    noisy, _ = noise_axes(estimation.measured.covariance.toarray())
    return np.asarray(y + np.linalg.pinv(noisy) @ rng.normal(size=len(noisy)))


def _changed(y: Array, place: slice, by: Array) -> Array:
    out = y.copy()
    out[place] += by
    return out


def _checks(estimation: problems.Estimation, q: Array, qd: Array, y: Array) -> Checks:
    return estimation.checks(q, qd, estimation.measured.pack(y, None, None))


def _judged(
    estimation: problems.Estimation, kinds: tuple[str, str], name: str, at: tuple[Array, ...]
) -> Outcome:
    q, qd, y = at
    slow = replace(estimation, backend="dense")
    e = slow.solve(q, qd, y)
    found, error = cast("list[problems.Suspect]", e.suspects), 0.0
    for suspect in found[:3]:
        without = slow.solve(q, qd, y, active={suspect.sensor: False})
        lost = float(e.chi_square) - float(without.chi_square)
        dof = int(e.degrees_of_freedom) - int(without.degrees_of_freedom)
        if dof != suspect.degrees_of_freedom:
            error = np.inf
        error = max(error, abs(lost - suspect.explains) / float(e.chi_square))
    groups = list(dict.fromkeys(frozenset((s.sensor, *s.tied)) for s in found))
    place = next((k + 1 for k, group in enumerate(groups) if name in group), 0)
    robot = estimation.robot.name
    return Outcome(*kinds, f"{robot}: {name}", place, len(groups[0]) if groups else 0, error)


def table(outcomes: Sequence[Outcome]) -> Table:
    """Counts by kind of culprit."""
    shown = Table(
        "culprit", "layouts", "in the first group", "a suspect", "alone", "worst error"
    )
    for culprit in (*CULPRITS, "all"):
        some = [one for one in outcomes if culprit in (one.culprit, "all")]
        if some:
            shown.add_row(
                culprit,
                str(len(some)),
                f"{np.mean([one.place == 1 for one in some]):.1%}",
                f"{np.mean([one.place > 0 for one in some]):.1%}",
                f"{np.mean([one.group == 1 for one in some]):.0%}",
                f"{max(one.error for one in some):.1e}",
            )
    return shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    outcomes = []
    for k in track(range(options.count), "layouts"):
        kind, culprit = KINDS[k % len(KINDS)], CULPRITS[k // len(KINDS) % len(CULPRITS)]
        kind = "exact rows" if culprit == "exact" else kind
        if (outcome := tried(kind, culprit, k)) is not None:
            outcomes.append(outcome)
    if options.json:
        lines = [json.dumps(asdict(one)) for one in outcomes]
        options.json.write_text("\n".join(lines) + "\n", encoding="utf-8")
    Console().print(table(outcomes))
    bad = [one for one in outcomes if not one.place or one.error > SAME]
    for one in bad:
        Console().print(f"{one}")
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
