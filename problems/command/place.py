"""``dynsys place``: which sensors to add."""

from __future__ import annotations

import argparse

import yaml

from dynsys.model.tree import KinematicTree
from problems import terminal
from problems.command.arguments import add_names, add_numbers, add_problem, positive, whole
from problems.placement.placement import Placement, load_candidates, place_sensors, save_curve
from problems.problem_file import load_problem
from sensors.files import sensor_record

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
  dynsys place catalogue:nao        the least that determines all torques
  dynsys place catalogue:nao --budget 2 --picture curve.png
  dynsys place problem.yaml --candidates shop.yaml --goal torque.l_knee"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_problem(parser)
    parser.add_argument(
        "--candidates",
        metavar="FILE",
        help="YAML list of sensors as in a layout, each with cost: (1 without); by default"
        " any torque, acceleration, wrench or inertial unit at the cost of one per row",
    )
    known = "what is to be known: torque, torque.JOINT, external_wrench.FRAME ... (torque)"
    add_names(parser, "--goal", known, "torque")
    parser.add_argument(
        "--budget", type=float, help="most to spend; by default what determines the goals"
    )
    parser.add_argument("--picture", metavar="FILE", help="trade-off curve as .png, .svg, .pdf")
    add_numbers(
        parser,
        ("states", positive, 3, "random postures"),
        ("seed", whole, 0, "of the postures"),
    )


def run(args: argparse.Namespace) -> int:
    """Show the sensors to add; 1 if the goals stay undetermined."""
    problem = load_problem(args.problem)
    own = problem.sensors.written_on
    candidates = load_candidates(args.candidates, own) if args.candidates else None
    placement = place_sensors(
        problem.tree,
        problem.sensors,
        candidates,
        prior=problem.prior,
        goal=args.goal,
        budget=args.budget,
        states=args.states,
        seed=args.seed,
    )
    unit = _unit(problem.tree, args.goal)
    if args.picture:
        save_curve(placement, args.picture, unit=unit)
    if args.json:
        terminal.show_json(placement.to_json())
    else:
        _show(placement, unit, args.states)
    return 0 if placement.determines_goals else 1


def _unit(robot: KinematicTree, goals: list[str]) -> str:
    """Unit of the goals' deviations: N m if all are torques of turning joints, else SI."""
    driven = [joint for joint in robot.joints if joint.kind != "free"]
    turning = all(joint.S[:3].any(axis=0).all() for joint in driven)
    torques = all(name.split(".")[0] == "torque" for name in goals)
    return "N m" if turning and torques else "SI units"


def _show(placement: Placement, unit: str, states: int) -> None:
    where = f"at the {states} random postures" if states > 1 else "at the random posture"
    if not placement.chosen:
        terminal.show_line("nothing to add")
    else:
        terminal.show_line(f"add, at a cost of {placement.cost:g}:")
    for candidate in placement.chosen:
        record = yaml.safe_dump(
            sensor_record(candidate.sensor),
            sort_keys=False,
            default_flow_style=True,
            width=1000,
        )
        terminal.show_line(f"  - {record.strip()}")
    if placement.determines_goals:
        terminal.show_line(f"rms standard deviation of the goals: {placement.std:.4g} {unit}")
    else:
        terminal.show_line(
            f"{placement.open_goals} combinations of the goals stay undetermined"
        )
    if placement.is_best:
        terminal.show_line(f"proved: no set within the budget is better {where}")
    else:
        terminal.show_line(
            f"certified: no set within the budget is below {placement.least_std:.4g} {unit}"
            f" {where}"
        )
    if placement.determines_goals:
        terminal.show_line(
            f"certified: determining the goals costs at least {placement.least_cost:g}"
        )
    terminal.show_table(
        ("cost", "open goals", f"rms std [{unit}]", "sensors"),
        [
            (f"{p.cost:g}", str(p.open_goals), terminal.number(p.std), ", ".join(p.sensors))
            for p in placement.curve
        ],
        right=("cost", "open goals", f"rms std [{unit}]"),
    )
