"""Where to put sensors: the set within a budget that determines the goals best.

How sets are compared, searched and proved best is in :mod:`problems.placement.search`; here is
what is asked and answered, the candidate file, and the picture of cost against certainty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from dynsys.distribution import install
from dynsys.errors import KernelBuildError, LayoutError
from dynsys.model.readers.xml_input import PathLike
from dynsys.model.tree import KinematicTree
from dynsys.resumable import written
from problems.measured.measured_system import MeasuredSystem
from problems.measured.prior import Prior
from problems.placement.search import ScoreBoard, Search, parse_goals
from problems.verdict.repairs import candidate_sensors
from sensors import AbstractSensor, Layout
from sensors.files import sensor_record
from sensors.yaml_input import Item, read_yaml

__all__ = [
    "Candidate",
    "CurvePoint",
    "Placement",
    "load_candidates",
    "place_sensors",
    "save_curve",
]

EVALUATIONS = 1500
"""Sets that branch and bound looks at, unless told otherwise."""


@final
@dataclass(frozen=True)
class Candidate:
    """A sensor that could be bought."""

    sensor: AbstractSensor
    cost: float = 1.0


@final
@dataclass(frozen=True)
class CurvePoint:
    """The best set found for a cost: names, open goals, and deviation of the goals."""

    cost: float
    sensors: tuple[str, ...]
    open_goals: int
    std: float


@final
@dataclass(frozen=True, eq=False)
class Placement:
    """Which sensors to add.

    Attributes
    ----------
    chosen : the candidates to take.
    cost : what they cost together.
    open_goals : independent combinations of the goals that stay undetermined.
    std : root mean square standard deviation of the goals, SI units; infinite if one is open.
    stds : the same by goal.
    least_open_goals, least_std : certified: no set within the budget does better.
    is_best : True if it is proved that no set within the budget is better.
    least_cost : certified: no cheaper set determines all goals (infinite if none does).
    curve : best sets found for growing cost.
    layout : the layout with the chosen sensors added.
    """

    chosen: tuple[Candidate, ...]
    cost: float
    open_goals: int
    std: float
    stds: Mapping[str, float]
    least_open_goals: int
    least_std: float
    is_best: bool
    least_cost: float
    curve: tuple[CurvePoint, ...]
    layout: Layout

    @property
    def determines_goals(self) -> bool:
        """True if every goal is determined."""
        return self.open_goals == 0

    def to_json(self) -> dict[str, Any]:
        """Return the placement as plain lists, mappings, numbers and strings."""

        def finite(x: float) -> float | None:
            return x if math.isfinite(x) else None

        return {
            "chosen": [
                {"cost": c.cost, "sensor": sensor_record(c.sensor)} for c in self.chosen
            ],
            "cost": self.cost,
            "determines_goals": self.determines_goals,
            "open_goals": self.open_goals,
            "std": finite(self.std),
            "stds": {name: finite(std) for name, std in self.stds.items()},
            "certified": {
                "is_best": self.is_best,
                "least_open_goals": self.least_open_goals,
                "least_std": finite(self.least_std),
                "least_cost": finite(self.least_cost),
            },
            "curve": [
                {
                    "cost": p.cost,
                    "sensors": list(p.sensors),
                    "open_goals": p.open_goals,
                    "std": finite(p.std),
                }
                for p in self.curve
            ],
        }


def place_sensors(
    robot: KinematicTree,
    layout: Layout,
    candidates: Sequence[Candidate | AbstractSensor] | None = None,
    *,
    prior: Prior | None = None,
    goal: str | Sequence[str] = "torque",
    budget: float | None = None,
    states: int = 3,
    seed: int = 0,
    evaluations: int = EVALUATIONS,
) -> Placement:
    """Choose sensors that determine the goals with least uncertainty within a budget.

    Parameters
    ----------
    layout : the sensors that are there already.
    candidates : sensors to choose from, with costs (1 without). None: every joint's torque,
        acceleration and wrench, every body's contact wrench and inertial unit, at the cost of
        one per row.
    prior : beliefs that count beside the sensors.
    goal : quantities that matter: ``torque``, ``torque.l_knee``, ``external_wrench.l_sole`` ...
    budget : most that the chosen may cost together; None: as little as determines all goals.
    states, seed : random states at which sets are compared.
    evaluations : sets that are looked at in the search for proof.

    Raises
    ------
    LayoutError
        if a candidate does not fit the robot, no candidate is left, or the budget is no
        amount.

    Examples
    --------
    >>> import dynsys, sensors, problems
    >>> robot = dynsys.synthetic.chain(2)
    >>> layout = sensors.Layout(robot, sensors.zero_external_wrench_except(robot))
    >>> shoulder, elbow = (sensors.JointTorque(f"{j}/torque", j) for j in robot.joint_names)
    >>> problems.place_sensors(robot, layout, [shoulder, elbow], budget=2).open_goals
    0
    """
    if budget is not None and not budget >= 0:
        raise LayoutError(f"the budget must be a number >= 0, got {budget!r}")
    robot = layout.touched(robot)
    offered = _offered(robot, layout, candidates)
    measured = MeasuredSystem(robot, _extended(layout, offered), prior)
    positions = layout.configurations(max(states, 1), seed)
    board = ScoreBoard(measured, parse_goals(measured, goal), len(layout), positions)
    search = Search(board, [c.cost for c in offered], evaluations)
    if budget is None:
        budget = search.cheapest_budget()
    first, curve = search.best(budget)
    bound, proved, chosen = search.prove(first, budget)
    if chosen != first:  # what costs no less than the best set is not on the way to it
        cheaper = [some for some in curve if search.cost(some) < search.cost(chosen)]
        curve = [*cheaper, chosen]
    score = board.score(chosen)
    taken = tuple(offered[c] for c in sorted(chosen))
    return Placement(
        chosen=taken,
        cost=search.cost(chosen),
        open_goals=score.open_goals,
        std=score.std,
        stds=board.stds(chosen),
        least_open_goals=bound.open_goals,
        least_std=bound.std,
        is_best=proved,
        least_cost=search.least_cost(),
        curve=tuple(_curve_point(search, board, offered, s) for s in curve),
        layout=_extended(layout, taken),
    )


def _extended(layout: Layout, added: Sequence[Candidate]) -> Layout:
    return layout.with_sensors([*layout.sensors, *(c.sensor for c in added)])


def _curve_point(
    search: Search, board: ScoreBoard, offered: Sequence[Candidate], chosen: frozenset[int]
) -> CurvePoint:
    names = tuple(offered[c].sensor.name for c in sorted(chosen))
    score = board.score(chosen)
    return CurvePoint(search.cost(chosen), names, score.open_goals, score.std)


def _offered(
    robot: KinematicTree,
    layout: Layout,
    candidates: Sequence[Candidate | AbstractSensor] | None,
) -> list[Candidate]:
    if candidates is None:
        measured = MeasuredSystem(robot, layout, None)
        offered = [
            Candidate(sensor, float(rows.size)) for sensor, rows in candidate_sensors(measured)
        ]
    else:
        offered = [c if isinstance(c, Candidate) else Candidate(c) for c in candidates]
    if not offered:
        raise LayoutError("placement: there are no candidates to choose from")
    for c in offered:
        if not (np.isfinite(c.cost) and c.cost > 0):
            raise LayoutError(f"placement: the cost of {c.sensor} must be positive: {c.cost}")
    return offered


# ---- candidate files: sensors as in a layout file, each with a cost --------------------------
#
# candidates:
#   - {cost: 3, kind: force_torque, name: l_ft, at: l_ankle_roll, std: [0.05, 1.0]}
#   - {cost: 1, all_joint_torques: {std: 0.5}}        # that cost for each of them


def load_candidates(path: PathLike, robot: KinematicTree) -> list[Candidate]:
    """Read a candidate file for a robot.

    Raises
    ------
    LayoutError
        naming file, line, what is wrong, and the nearest valid name.
    """
    root = read_yaml(path)
    sections = root.mapping("a candidate file")
    if set(sections) != {"candidates"}:
        raise root.error("a candidate file has one section, 'candidates'")
    found: list[Candidate] = []
    for item in sections["candidates"].listed("candidates"):
        cost, entry = 1.0, item
        if isinstance(item.value, dict) and "cost" in item.value:
            given = item.value["cost"]
            if isinstance(given.value, bool) or not isinstance(given.value, (int, float)):
                raise given.error(f"cost must be a number, got {given.plain()!r}")
            if not given.value > 0:
                raise given.error(f"cost must be positive, got {given.value}")
            cost = float(given.value)
            rest = {key: value for key, value in item.value.items() if key != "cost"}
            entry = Item(rest, item.file, item.line)
        one = Item({"sensors": Item([entry], item.file, item.line)}, item.file, item.line)
        found += [Candidate(sensor, cost) for sensor in Layout.read(one, robot)]
    return found


# ---- picture of what sensors cost against how well they determine the goals ------------------


def save_curve(placement: Placement, path: PathLike, *, unit: str = "SI units") -> None:
    """Write the trade-off curve as .png, .svg or .pdf: complete or not at all.

    ``unit`` : that of the goals' standard deviation.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise KernelBuildError(f"pictures need matplotlib; run: {install('plot')}") from None
    changes = _changes(placement)
    figure = Figure(figsize=(7.6, max(4.0, 0.15 * len(changes) + 1.0)), layout="constrained")
    axes = figure.add_subplot()
    known = [point for point in placement.curve if math.isfinite(point.std)]
    axes.plot([p.cost for p in known], [p.std for p in known], "o-", color="#1f6feb")
    axes.text(1.02, 1.0, "\n".join(changes), transform=axes.transAxes, va="top", fontsize=7)
    for point in placement.curve:
        if not math.isfinite(point.std):
            axes.axvline(point.cost, color="#d1242f", linewidth=0.8, linestyle=":")
    if math.isfinite(placement.least_std):
        axes.axhline(placement.least_std, color="0.5", linewidth=0.8, linestyle="--")
        axes.annotate(
            "no set within the budget is below this",
            (0.98, placement.least_std),
            (0, -2),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=7,
            color="0.4",
        )
    axes.set_xlabel("cost of added sensors (dotted: goals still undetermined)")
    axes.set_ylabel(f"rms standard deviation of the goals [{unit}]")
    axes.set_ylim(0.0, 1.15 * max((point.std for point in known), default=1.0))
    target = Path(path)
    try:
        with written(target, LayoutError) as part:
            figure.savefig(part, dpi=150, format=target.suffix.lstrip(".") or "png")
    except ValueError as error:  # of another ending
        raise LayoutError(f"{target}: cannot be written: {error}") from None


def _changes(placement: Placement) -> list[str]:
    """What every point adds (+) and leaves out (-) of the one before, a line each."""
    lines, before = [], set[str]()
    for point in placement.curve:
        now = set(point.sensors)
        signs = [f"  + {name}" for name in sorted(now - before)]
        signs += [f"  - {name}" for name in sorted(before - now)]
        lines += [f"cost {point.cost:g}:", *(signs or ["  as it is"])]
        before = now
    return lines
