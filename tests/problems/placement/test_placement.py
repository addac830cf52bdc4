"""Placement: the best set by exhaustion, certified bounds, and the biped's smallest repair."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import dynsys
import problems
import sensors
from dynsys import LayoutError
from dynsys.types import Array
from problems import Candidate, place_sensors
from problems.command.main import main
from problems.placement import search
from problems.placement.placement import load_candidates, save_curve
from problems.placement.search import Score, Search
from problems.problem_file import load_problem
from problems.verdict.repairs import usual_groups
from sensors.files import sensor_record
from tests.robots import CHAIN


def rms_std(layout: sensors.Layout, states: int, seed: int) -> float:
    """Deviation of the torques by the estimator itself, at the states placement uses."""
    robot, rng = layout.robot, np.random.default_rng(seed)
    est = problems.Estimation(robot, layout)
    y = np.nan_to_num(layout.constants)
    squares = []
    for _ in range(states):
        q = robot.random_configuration(rng)
        std = est.solve(q, np.zeros(robot.nv), y).std.torque.array
        squares.append(np.mean(std**2) if np.isfinite(std).all() else np.inf)
    return float(np.sqrt(np.mean(squares)))


def arm() -> tuple[sensors.Layout, list[Candidate]]:
    robot = dynsys.synthetic.random_tree(4, 5, joint_types=("revolute",))
    tip = robot.body_names[-1]
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_accelerations(robot, std=0.3),
            *sensors.zero_external_wrench_except(robot, [tip]),
        ],
    )
    offers = [Candidate(s, 1.0) for s in sensors.all_joint_torques(robot, std=0.4)]
    offers += [
        Candidate(sensors.ForceTorque("ft", robot.joint_names[-1], std=0.5), 3.0),
        Candidate(sensors.ExternalWrench("glove", tip, std=1.0), 2.0),
        Candidate(sensors.PureForce("point", tip, std=0.1), 1.0),
    ]
    return layout, offers


@pytest.mark.slow
@pytest.mark.parametrize("budget", [1.0, 2.0, 3.0, 4.0])
def test_the_result_is_the_best_of_all_sets(budget: float) -> None:
    layout, offers = arm()
    result = place_sensors(layout.robot, layout, offers, budget=budget, states=2, seed=1)
    best = np.inf
    for size in range(len(offers) + 1):
        for chosen in itertools.combinations(offers, size):
            if sum(c.cost for c in chosen) <= budget:
                added = sensors.Layout(layout.robot, [*layout, *(c.sensor for c in chosen)])
                best = min(best, rms_std(added, 2, 1))
    assert result.is_best
    assert result.cost <= budget
    np.testing.assert_allclose(result.std, best, rtol=1e-6)
    np.testing.assert_allclose(result.least_std, best, rtol=1e-6)


@pytest.mark.finding("Y-31")
def test_a_better_set_that_the_proof_meets_is_the_answer() -> None:
    """Where greedy steps and exchanges end at another: against all sets."""
    robot = dynsys.synthetic.random_tree(3, seed=6)
    first, _, last = robot.joint_names
    layout = sensors.Layout(
        robot,
        [
            *sensors.zero_external_wrench_except(robot, [robot.body_names[-1]]),
            sensors.JointTorque("known", first, std=0.1),
        ],
    )
    motions = zip(robot.joint_names, (0.1, 0.3, 0.05), (1.0, 2.0, 3.0), strict=True)
    offers = [
        Candidate(sensors.JointAcceleration(f"{joint}/qdd", joint, std=std), cost)
        for joint, std, cost in motions
    ]
    offers += [
        Candidate(sensors.ForceTorque("ft", last, std=(0.02, 0.2)), 3.0),
        Candidate(sensors.JointTorque("torque", robot.joint_names[1], std=0.2), 1.0),
    ]
    result = place_sensors(robot, layout, offers, budget=6.0, states=2, seed=1)
    best = min(
        rms_std(sensors.Layout(robot, [*layout, *(c.sensor for c in chosen)]), 2, 1)
        for size in range(len(offers) + 1)
        for chosen in itertools.combinations(offers, size)
        if sum(c.cost for c in chosen) <= 6.0
    )
    assert result.is_best and result.curve[-1].std == result.std
    np.testing.assert_allclose(result.std, best, rtol=1e-6)


def test_no_sensor_is_bought_for_rounding() -> None:
    before = Score(0, 0, 0.05)
    assert not Score(0, 0, np.nextafter(0.05, 0.0)).beats(before)
    assert Score(0, 0, 0.0499).beats(before) and before.beats(Score(1, 0, np.inf))


def test_bounds_hold_when_there_is_no_time_for_proof() -> None:
    layout, offers = arm()
    kept = {"budget": 4.0, "states": 2, "seed": 1}
    best = place_sensors(layout.robot, layout, offers, **kept)  # type: ignore[arg-type]
    hasty = place_sensors(layout.robot, layout, offers, evaluations=0, **kept)  # type: ignore[arg-type]
    assert not hasty.is_best
    assert hasty.least_std <= best.std <= hasty.std * (1 + 1e-9)
    # greedy steps alone: every sensor that is bought helps, until everything is determined
    stds = [point.std for point in hasty.curve]
    assert len(stds) > 2 and all(
        after < before for before, after in itertools.pairwise(stds[1:])
    )
    assert hasty.open_goals == 0 and hasty.std == stds[-1] < 3 * best.std


@pytest.mark.slow
def test_the_bipeds_smallest_repair_is_as_small_as_the_verdicts() -> None:
    problem = load_problem("catalogue:nao")
    result = place_sensors(problem.tree, problem.sensors, states=2)
    assert (result.cost, result.least_cost, result.open_goals) == (1.0, 1.0, 0)
    verdict = problem.estimation.verdict(samples=4, search=False)
    assert len(result.chosen) == 1
    assert result.cost == verdict.repairs[0].rows and len(verdict.repairs[0].sensors) == 1
    assert not any(isinstance(s, sensors.ExternalWrench) for s in verdict.repairs[0].sensors)
    assert problems.Estimation(problem.tree, result.layout).verdict(samples=3, search=False)


def test_goals_that_no_candidate_can_determine() -> None:
    robot = dynsys.synthetic.chain(2)
    layout = sensors.Layout(robot, [])
    offer = [sensors.JointTorque("t", robot.joint_names[0])]
    result = place_sensors(robot, layout, offer, goal=f"torque.{robot.joint_names[1]}")
    assert result.open_goals == 1
    assert np.isinf(result.std) and np.isinf(result.least_cost)
    done = place_sensors(robot, layout, offer, goal=f"torque.{robot.joint_names[0]}", budget=1)
    np.testing.assert_allclose(done.std, 1.0)


def test_bad_input_is_refused(tmp_path: Path) -> None:
    robot = dynsys.synthetic.chain(2)
    layout = sensors.Layout(robot, [])
    offer = sensors.JointTorque("t", robot.joint_names[0])
    with pytest.raises(LayoutError, match="no candidates"):
        place_sensors(robot, layout, [])
    with pytest.raises(LayoutError, match="must be positive"):
        place_sensors(robot, layout, [Candidate(offer, 0.0)])
    with pytest.raises(LayoutError, match="did you mean 'torque'"):
        place_sensors(robot, layout, [offer], goal="torqe")
    file = tmp_path / "c.yaml"
    file.write_text("candidates:\n  - {cost: -1, kind: imu, name: x, frame: y}\n")
    with pytest.raises(LayoutError, match=r"line 2: cost must be positive"):
        load_candidates(file, robot)
    for cost in ("true", "cheap", "[1]"):
        file.write_text(f"candidates:\n  - {{cost: {cost}, kind: imu, name: x, frame: y}}\n")
        with pytest.raises(LayoutError, match=r"line 2: cost must be a number, got"):
            load_candidates(file, robot)
    file.write_text("candidates:\n  - {cost: 2, all_joint_torques: {std: 1}}\n")
    assert [c.cost for c in load_candidates(file, robot)] == [2.0, 2.0]


def test_the_curve_becomes_a_picture(tmp_path: Path) -> None:
    layout, offers = arm()
    result = place_sensors(layout.robot, layout, offers, budget=3.0, states=1)
    assert [p.cost for p in result.curve] == sorted(p.cost for p in result.curve)
    save_curve(result, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(LayoutError, match="cannot be written"):
        save_curve(result, tmp_path / "curve.what")


@pytest.mark.parametrize("budget", [float("nan"), -1.0])
def test_a_budget_that_is_no_amount_is_refused(budget: float) -> None:
    layout, candidates = arm()
    with pytest.raises(LayoutError, match="the budget must be a number >= 0"):
        place_sensors(layout.robot, layout, candidates, budget=budget)


@pytest.mark.finding("Z-E6")
def test_nothing_is_placed_where_exact_readings_say_all() -> None:
    """LAPACK was asked about no unknowns: 'unexpected array size'."""
    robot = dynsys.synthetic.chain(2)
    exact = [
        *sensors.all_joint_accelerations(robot, std=0.0),
        *(sensors.ExternalWrench(f"air {name}", name, std=0.0) for name in robot.body_names),
    ]
    found = place_sensors(robot, sensors.Layout(robot, exact))
    assert (found.chosen, found.cost, found.open_goals, found.std) == ((), 0.0, 0, 0.0)


HELD = """\
robot: synthetic:chain:3
constraints:
  - {name: pin, frame: link_3, components: [x, y, z]}
layout:
  sensors:
    - all_joint_accelerations: {std: 0.1}
"""


@pytest.mark.finding("Z-W2")
def test_what_is_offered_a_file_with_constraints_accepts(tmp_path: Path) -> None:
    """The contact of a constraint is a frame of the estimate, but none that a layout names."""
    path, goal = tmp_path / "held.yaml", "external_wrench.pin"
    path.write_text(HELD)
    problem = load_problem(path)
    found = place_sensors(problem.tree, problem.sensors, goal=goal, budget=30, evaluations=0)
    lines = [sensor_record(c.sensor) for c in found.chosen]
    for repair in problem.estimation.verdict(search=False, samples=4).repairs:
        lines += yaml.safe_load(repair.yaml)
    assert found.determines_goals and len(lines) > 8
    named = {str(line.get("name")): line for line in lines}
    path.write_text(HELD + "".join(f"    - {json.dumps(x)}\n" for x in named.values()))
    assert load_problem(path).estimation.verdict(search=False, samples=4).is_well_posed
    shop = tmp_path / "shop.yaml"
    shop.write_text("candidates:\n  - {kind: external_wrench, name: x, frame: pin, std: 1}\n")
    assert main(["place", str(path), "--candidates", str(shop)]) == 2
    whole = HELD.replace("link_3, comp", "link_3, other: link_1, comp")
    path.write_text(whole.replace("[x, y, z]", "[x, y, z, rx, ry, rz]"))  # nothing is free
    groups = usual_groups(load_problem(path).estimation.measured)
    untouched = next(group for group in groups if "zero_external" in group.yaml)
    frames = [getattr(sensor, "frame", None) for sensor in untouched.sensors]
    assert frames == ["link_1", "link_2", "link_3"]


@pytest.mark.finding("Z-W4")
def test_loops_are_closed_where_sets_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "held.yaml", []
    path.write_text(HELD.replace("link_3, components: [x, y, z]", "link_3, other: link_1"))
    layout = load_problem(path).sensors
    assert layout.loops

    def noted(measured: object, goals: object, q: Array, *more: object) -> object:
        seen.append(q)
        return state_at(measured, goals, q, *more)

    state_at = search._State.at
    monkeypatch.setattr(search._State, "at", staticmethod(noted))
    place_sensors(layout.robot, layout, goal="qdd", budget=0)
    np.testing.assert_array_equal(seen, layout.configurations(3, 0))


@pytest.mark.finding("Z-W3")
def test_beliefs_count_in_what_is_known(tmp_path: Path, capsys) -> None:
    """A problem whose prior determines all needs nothing, and knows it as well as solve."""
    path = tmp_path / "believed.yaml"
    path.write_text(
        "robot: synthetic:chain:2\nprior: {std: {torque: 2.0, qdd: 1.0}}\n"
        "layout: {sensors: [zero_external_wrench_except]}\n"
    )
    assert main(["place", str(path), "--states", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    problem = load_problem(path)
    q = problem.sensors.configurations(1, 0)[0]
    e = problem.estimation.solve(q, np.zeros(2), problem.sensors.constants)
    rms = np.sqrt(np.mean(np.square(e.std.torque.array)))
    assert told["chosen"] == [] and told["std"] == pytest.approx(rms, rel=1e-6)


class Board:
    """Scores of sets, smaller is better."""

    def __init__(self, value: Callable[[frozenset[int]], float]) -> None:
        self.value, self.evaluations = value, 0

    def score(self, chosen: frozenset[int]) -> Score:
        self.evaluations += 1
        return Score(0, 0, self.value(chosen))


@pytest.mark.parametrize(
    ("costs", "found"), [((1, 1, 1), {1, 2}), ((1.5, 1, 1.5), {1, 2}), ((1, 1, 1.5), {0, 1})]
)
def test_sensors_are_exchanged_for_others_that_cost_no_more(
    costs: tuple[float, ...], found: set[int]
) -> None:
    """The first tells most by itself; the others together tell all."""
    left = {(): 10.0, (0,): 2.0, (1,): 6.0, (2,): 7.0, (0, 1): 1.0, (0, 2): 1.5}
    board: Any = Board(lambda chosen: left.get(tuple(sorted(chosen)), 0.0))
    assert Search(board, list(costs), 0).best(2.5)[0] == found


def test_a_proof_has_the_evaluations_that_are_left_to_it() -> None:
    """However many were made before it."""
    board: Any = Board(lambda chosen: float(len({0, 1} - chosen)))
    search = Search(board, [1.0, 1.0, 1.0], 50)
    board.evaluations = 40
    assert search.prove(frozenset({0}), 1.0)[1]


def test_sensors_are_placed_by_several_states() -> None:
    torque = sensors.JointTorque("t", CHAIN.joint_names[0], std=0.1)
    layout = sensors.Layout(
        CHAIN,
        [
            *sensors.zero_external_wrench_except(CHAIN),
            *sensors.all_joint_accelerations(CHAIN, std=1.0),
        ],
    )
    one, many = (place_sensors(CHAIN, layout, [torque], budget=1, states=n).std for n in (1, 5))
    assert many != pytest.approx(one, rel=1e-6)


def test_a_picture_is_high_enough_for_its_words(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    layout = sensors.Layout(CHAIN, sensors.zero_external_wrench_except(CHAIN))
    offers = [Candidate(sensors.JointTorque(f"t {j}", j), 1.0) for j in CHAIN.joint_names]
    save_curve(place_sensors(CHAIN, layout, offers), tmp_path / "curve.png")
    header = (tmp_path / "curve.png").read_bytes()[16:24]
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")
    assert height == round(width * 4.0 / 7.6)


def test_no_budget_buys_nothing() -> None:
    layout = sensors.Layout(CHAIN, sensors.zero_external_wrench_except(CHAIN, []))
    shoulder = sensors.JointTorque("shoulder", CHAIN.joint_names[0], std=0.1)
    assert place_sensors(CHAIN, layout, [shoulder], budget=0).chosen == ()
