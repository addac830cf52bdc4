"""Reports: what they collect."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynsys
import sensors
from problems import Estimation
from problems.command import demo
from problems.report import (
    Report,
    build_report,
    estimation_subject,
    read_subject,
    render,
    timing,
)
from problems.report.orders import orders_part
from problems.report.robot import robot_part
from problems.report.sparsity import saddle
from problems.report.timing import pinocchio_model
from tests.problems.report.report_page import Page


@pytest.mark.slow
def test_report_holds_what_the_problem_says(report: Report, arm: Estimation) -> None:
    assert report.verdict is not None and report.uncertainty is not None
    assert report.log is not None and report.orders is not None and report.timings is not None
    assert (report.equations, report.unknowns) == arm.system.shape
    assert report.entries == arm.system.nnz
    assert [j.joint for j in report.uncertainty.joints] == list(arm.robot.joint_names)
    assert [w.body for w in report.uncertainty.wrenches] == [arm.robot.body_names[-1]]


@pytest.mark.slow
def test_deviations_are_those_of_the_estimates(
    report: Report, arm: Estimation, arm_log: Path
) -> None:
    content = np.load(arm_log)
    e = arm.solve_batch(content["q"], content["qd"], content["y"], uncertainty="torque")
    expected = np.median(e.std.torque.array, axis=0)
    assert report.uncertainty is not None
    found = [joint.median for joint in report.uncertainty.joints]
    np.testing.assert_allclose(np.array(found, dtype=float), expected, rtol=1e-9)


@pytest.mark.slow
def test_samples_with_missing_readings_do_not_hide_the_others(
    arm: Estimation, arm_log: Path, tmp_path: Path
) -> None:
    content = dict(np.load(arm_log))
    content["y"][:6] = np.nan
    np.savez(tmp_path / "gaps.npz", **content)  # type: ignore[arg-type]
    subject = estimation_subject("arm", arm)
    found = build_report(subject, log=tmp_path / "gaps.npz", timed=False)
    assert found.uncertainty is not None and found.log is not None
    assert all(joint.missing == 0.1 for joint in found.uncertainty.joints)
    assert all("(open in 10%)" in joint.words for joint in found.uncertainty.joints)
    assert np.isnan(found.log.torques[0].value[:6]).all()
    assert np.isfinite(found.log.torques[0].value[6:]).all()
    assert Page(render(found)).text.count("open in 10%") >= 5


def test_estimates_without_noise_are_the_truth(report: Report) -> None:
    assert report.log is not None
    series = [*report.log.torques, *report.log.wrenches]
    assert len(report.log.torques) == 5 and len(report.log.wrenches) == 6
    for one in series:
        assert one.truth is not None and one.rmse is not None
        assert one.rmse < 1e-6
        assert one.inside == 1.0
        np.testing.assert_allclose(one.value, one.truth, atol=1e-6)


def test_sensors_sit_where_their_frames_are(arm: Estimation) -> None:
    part = robot_part(arm.robot, arm.layout)
    by_name = {sensor.name: sensor for sensor in part.sensors}
    tip = by_name["tip_<imu>"]
    assert tip.body == arm.robot.n_bodies - 1
    assert tip.position == part.bodies[-1].position
    assert tip.family == "inertial" and "m/s^2" in tip.noise
    assert by_name["base_ft"].body == 0
    assert part.statements == ["no external wrench, or a known one, on 4 bodies"]


def test_matrix_after_permutation_has_the_same_entries() -> None:
    subject = read_subject("synthetic:chain:3", "id")
    part = orders_part(subject)
    assert part.after is not None and part.shown
    for kind, (rows, columns) in part.before.entries.items():
        assert set(zip(rows, columns, strict=True)) == {
            (part.after.row_order[r], part.after.col_order[c])
            for r, c in zip(*part.after.entries[kind], strict=True)
        }
    assert sum(part.before.counts.values()) == subject.system.nnz
    labels = [f"{n} {p}" for n, parts in part.before.row_labels for p in parts]
    assert len(labels) == len(set(labels)) == subject.system.shape[0]


def test_symmetric_system_is_the_one_that_is_solved(arm: Estimation) -> None:
    found = saddle(arm)
    pattern = found.pattern.toarray()
    assert (pattern == pattern.T).all() and pattern.diagonal().all()
    n = arm.system.shape[0] + arm.system.shape[1]
    assert pattern.shape == (n, n)
    m = arm.layout.size
    D = arm.system.pattern().toarray()
    n_laws = arm.measured.laws.shape[0]
    np.testing.assert_array_equal(pattern[:m, m : m + D.shape[1]], D[n_laws:])
    np.testing.assert_array_equal(pattern[m + D.shape[1] :, m : m + D.shape[1]], D[:n_laws])
    assert sum(len(parts) for _, parts in found.labels) == n


def test_orders_of_least_squares_count_fill_and_operations(report: Report) -> None:
    assert report.orders is not None
    rows = {row.name: row for row in report.orders.rows}
    assert {"as assembled", "leaf to root", "minimum degree (SuperLU)"} <= set(rows)
    assert all(r.fill is None or r.fill >= 0 for r in rows.values())
    best = min((r for r in rows.values() if r.elimination), key=lambda r: r.elimination or 0)
    assert best.name == report.orders.shown
    ours = rows["compiled estimator, torques (ours)"]
    assert ours.executed is not None and best.elimination is not None
    assert ours.executed < best.elimination


def test_pinocchio_model_of_a_tree_gives_the_same_torques(arm: Estimation) -> None:
    pytest.importorskip("pinocchio", reason="Pinocchio is not installed")
    robot = arm.robot
    found = pinocchio_model(robot)
    assert found is not None
    pin, model, to = found
    q = robot.random_configuration(4)
    qd, qdd = np.random.default_rng(4).normal(size=(2, robot.nv))
    theirs = pin.rnea(model, model.createData(), *_pin(to, q, qd, qdd))
    np.testing.assert_allclose(
        to.tau_from_pin(theirs), dynsys.rnea(robot, q, qd, qdd), atol=1e-9
    )


def test_armature_of_a_free_base_keeps_its_order_in_pinocchio() -> None:
    pytest.importorskip("pinocchio", reason="Pinocchio is not installed")
    robot = dynsys.synthetic.humanoid30()
    robot = robot.with_armature(np.arange(1.0, robot.nv + 1.0))
    found = pinocchio_model(robot)
    assert found is not None
    pin, model, to = found
    q, qd, qdd = robot.neutral(), np.zeros(robot.nv), np.ones(robot.nv)
    theirs = pin.rnea(model, model.createData(), *_pin(to, q, qd, qdd))
    np.testing.assert_allclose(
        to.tau_from_pin(theirs), dynsys.rnea(robot, q, qd, qdd), atol=1e-9
    )


def test_a_peer_that_refuses_a_robot_breaks_no_report(
    arm: Estimation, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        def __getattr__(self, name: str) -> Any:
            raise ValueError("The 3d inertia\nshould be positive")

    monkeypatch.setitem(sys.modules, "pinocchio", Refusing())
    q = np.zeros((1, arm.robot.nq))
    (row,) = timing._peer(arm.robot, q, q, q)
    assert row.note == "left out: The 3d inertia should be positive"
    assert demo._pinocchio(arm.robot, []) == {}


def _pin(to: Any, q: Any, qd: Any, qdd: Any) -> tuple[Any, Any, Any]:
    return to.q_to_pin(q), to.v_to_pin(qd), to.v_to_pin(qdd)


@pytest.mark.slow
def test_dynamics_leaves_out_what_does_not_apply() -> None:
    found = build_report(read_subject("synthetic:chain:4", "fd"), timed=False)
    assert found.verdict is found.uncertainty is found.log is found.timings is None
    assert found.plan is not None and found.plan.operations > 0
    text = render(found)
    shown = re.findall(r'<h2 id="(\w+)"', text)
    assert shown == ["robot", "sparsity", "orders", "origin"]
    assert "ABA, the recursion" in text


def test_undetermined_problem_says_what_is_missing() -> None:
    robot = dynsys.synthetic.chain(3)
    layout = sensors.Layout(
        robot,
        [*sensors.all_joint_torques(robot), *sensors.zero_external_wrench_except(robot)][1:],
    )
    found = build_report(estimation_subject("chain", Estimation(robot, layout)), timed=False)
    text = render(found)
    assert "✗ no: under-determined" in text
    assert "measure" in text and "not determined" in text
    cards = text.partition('class="cards"')[2].partition("</dl>")[0]
    assert "2 of 3" in cards and "time per solve" not in cards and "operations" not in cards


@pytest.mark.finding("K-4")
def test_square_problem_without_any_order_has_a_page() -> None:
    robot = dynsys.synthetic.chain(3)
    first, second, _ = sensors.all_joint_torques(robot)
    again = sensors.JointTorque("again", first.joint)
    untouched = sensors.zero_external_wrench_except(robot)
    layout = sensors.Layout(robot, [first, second, again, *untouched])
    found = build_report(estimation_subject("chain", Estimation(robot, layout)), timed=False)
    assert found.orders is not None
    assert all(row.elimination is row.executed is None for row in found.orders.rows)
    text = render(found)
    assert "✗ no" in text and "operations per solve</dt>" not in text


@pytest.mark.finding("Z-E8")
def test_a_page_of_known_torques_and_unknown_contacts_is_made() -> None:
    """It ended with KeyError: 'torque'."""
    robot = dynsys.synthetic.chain(2)
    layout = sensors.Layout(robot, sensors.all_joint_torques(robot, std=0.1))
    subject = estimation_subject("arm", Estimation(robot, layout))
    page = render(build_report(subject, timed=False))
    assert "torques determined" in page and "2 of 2" in page
    assert "what is not: see below" in page


@pytest.mark.slow
def test_orders_are_listed_by_what_they_cost(report: Report) -> None:
    assert report.orders is not None
    costs = [row.elimination or 0 for row in report.orders.rows if row.executed is None]
    assert costs == sorted(costs) and len(set(costs)) > 1
