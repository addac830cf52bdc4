"""Simulated logs: readings by plain evaluation, exact statements, noise, motion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

import dynsys
import problems
import sensors
from dynsys import DynsysError, LayoutError, StateError
from dynsys.simulation import ContactPoints, Drives, Record
from dynsys.simulation import Simulation as ContactSimulation
from problems.command.main import main as command_main
from problems.logs.samples import rates
from problems.logs.simulate import Recorded, Simulation, Trajectory
from problems.measured.simulated_readings import NearestMotion, TrueReadings
from problems.problem_file import load_problem
from tests.robots import CHAIN


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nao", "nao_slippery", "panda", "solo12"])
def test_readings_are_those_of_the_equations(name: str) -> None:
    problem = load_problem(f"catalogue:{name}")
    motion = Trajectory.random(problem.tree, 1.0, seed=1)
    simulation = Simulation(problem.sensors, motion, rate=20)
    _, q, qd, qdd, f = simulation.motion(0, 20)
    torque, y = simulation.readings.at(q, qd, qdd, f)
    for k in (0, 19):
        plain_torque, plain_y = simulation.readings.reference(q[k], qd[k], qdd[k], f[k])
        np.testing.assert_allclose(torque[k], plain_torque, rtol=0, atol=1e-10)
        np.testing.assert_allclose(y[k], plain_y, rtol=0, atol=1e-10)
    known = np.isfinite(problem.sensors.constants) & problem.sensors.exact
    expected = np.broadcast_to(problem.sensors.constants[known], y[:, known].shape)
    np.testing.assert_allclose(y[:, known], expected, atol=1e-8)


def test_rigid_contacts_and_loops_hold() -> None:
    robot = dynsys.synthetic.chain(4)
    layout = sensors.Layout(
        robot,
        [
            sensors.RigidContact("held", robot.body_names[3], holds="point"),
            *sensors.all_joint_torques(robot),
            *sensors.zero_external_wrench_except(robot, [robot.body_names[3]]),
        ],
    )
    simulation = Simulation(layout, Trajectory.random(robot, 1.0), rate=10)
    _, q, qd, qdd, f = simulation.motion(0, 10)
    y = simulation.readings.at(q, qd, qdd, f)[1]
    assert np.abs(y[:, layout.slice("held")]).max() < 1e-8


def test_what_cannot_hold_is_refused() -> None:
    robot = dynsys.synthetic.chain(1)
    name = robot.body_names[0]
    layout = sensors.Layout(
        robot,
        [
            sensors.ExternalWrench("a", name, value=0.0),
            sensors.LinearMeasurement("b", {"qdd": {robot.joint_names[0]: [1]}}, value=1.0),
            sensors.JointAcceleration("c", robot.joint_names[0], value=0.0),
            sensors.JointTorque("d", robot.joint_names[0], value=1e6),
        ],
    )
    with pytest.raises(DynsysError, match="no motion near this trajectory meets"):
        Simulation(layout, Trajectory.random(robot, 1.0), rate=10).rows(0, 10)


@pytest.mark.slow
def test_noise_has_the_stated_covariance() -> None:
    problem = load_problem("catalogue:nao_slippery")
    simulation = Simulation(problem.sensors, Trajectory.random(problem.tree, 2.0), rate=1000)
    _, q, qd, qdd, f = simulation.motion(0, 2000)
    truth = simulation.readings.at(q, qd, qdd, f)[1]
    rows = simulation.rows(0, 2000)
    columns = [c for g in simulation.groups() for c in g.columns]
    plate = problem.sensors.slice("l_sole_cells")
    where = [columns.index(label) for label in problem.sensors.labels[plate]]
    noise = rows[:, where] - truth[:, plate]
    expected = problem.sensors.covariances[0]
    normalised = np.einsum("ni,ij,nj->n", noise, np.linalg.inv(expected), noise)
    assert chi2.ppf(1e-4, 6000) < normalised.sum() < chi2.ppf(1 - 1e-4, 6000)


def test_the_same_seed_gives_the_same_log_and_parts_of_it_lost() -> None:
    problem = load_problem("catalogue:panda")
    motion = Trajectory.random(problem.tree, 1.0, seed=4)
    one, two = (Simulation(problem.sensors, motion, 100, seed, missing=0.1) for seed in (1, 1))
    np.testing.assert_array_equal(one.rows(0, 50), two.rows(0, 50))
    other = Simulation(problem.sensors, motion, 100, 2, missing=0.1).rows(0, 50)
    assert not np.array_equal(other, one.rows(0, 50))
    assert 0.05 < np.isnan(other[:, 15:]).mean() < 0.15


def test_any_stretch_of_a_motion_is_that_of_the_whole() -> None:
    problem = load_problem("catalogue:panda")
    simulation = Simulation(problem.sensors, Trajectory.random(problem.tree, 1.0), 1000)
    whole, part = simulation.motion(0, 600), simulation.motion(520, 590)
    for all_of_it, some in zip(whole, part, strict=True):
        np.testing.assert_allclose(some, all_of_it[520:590], rtol=1e-12, atol=1e-12)


def test_random_motions_stay_within_limits(humanoid: dynsys.KinematicTree) -> None:
    q, _, _ = Trajectory.random(humanoid, 20.0, seed=2).at(np.linspace(0, 20, 500))
    lower, upper = humanoid.position_limits
    joints = slice(humanoid.q_slice("root").stop, None)
    assert (q[:, joints] >= lower[joints] - 1e-12).all()
    assert (q[:, joints] <= upper[joints] + 1e-12).all()
    for row in q[::50]:
        humanoid.check_q(row)


def test_rates_are_those_of_integrate() -> None:
    kinds = ("free", "spherical", "planar", "cylindrical", "helical", "revolute")
    robot = dynsys.synthetic.random_tree(8, 3, joint_types=kinds)
    rng = np.random.default_rng(0)
    q0, v, a = robot.random_configuration(1), *rng.normal(size=(2, robot.nv))
    h = 1e-3
    q = [robot.integrate(q0, v * t + 0.5 * a * t * t, 1.0) for t in h * np.arange(-2.0, 3.0)]
    dq = (q[0] - 8 * q[1] + 8 * q[3] - q[4]) / (12 * h)
    ddq = (-q[0] + 16 * q[1] - 30 * q[2] + 16 * q[3] - q[4]) / (12 * h * h)
    _, qd, qdd = rates(robot, q[2][None], dq[None], ddq[None])
    np.testing.assert_allclose(qd[0], v, atol=1e-9)
    np.testing.assert_allclose(qdd[0], a, atol=1e-6)


def test_a_motion_through_positions_passes_them(humanoid: dynsys.KinematicTree) -> None:
    time = np.linspace(0, 1, 40)
    q, qd, _ = Trajectory.random(humanoid, 1.0, seed=2).at(time)
    again = Trajectory.through(humanoid, time, q)
    np.testing.assert_allclose(again.at(time)[0], q, atol=1e-12)
    np.testing.assert_allclose(again.at(time)[1], qd, atol=1e-3)
    with pytest.raises(DynsysError, match="ascending times"):
        Trajectory.through(humanoid, time[::-1], q)


# ---- statements with a standard deviation ----------------------------------------------------


def soft_layout(*more: sensors.AbstractSensor) -> sensors.Layout:
    robot = dynsys.synthetic.chain(4, generic=True)
    a, b, c, d = robot.body_names
    return sensors.Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.5),
            *sensors.all_joint_accelerations(robot, std=0.1),
            sensors.ExternalWrench(f"{a}/free", a, value=0.0),
            sensors.ExternalWrench(f"{b}/free", b, value=0.0, std=[0.2, 3.0]),
            sensors.ExternalWrench(f"{c}/free", c, value=0.0),
            sensors.RigidContact("tip", d, holds="point", std=0.05),
            *more,
        ],
    )


@pytest.mark.finding("item 5")
def test_statements_with_a_deviation_hold_up_to_it() -> None:
    layout = soft_layout()
    simulation = Simulation(layout, Trajectory.random(layout.robot, 1.0), rate=500)
    _, q, qd, qdd, f = simulation.motion(0, 500)
    assert not f[:, 0].any()
    spread = np.sqrt((f[:, 1] ** 2).mean(axis=0))
    np.testing.assert_allclose(spread, [0.2] * 3 + [3.0] * 3, rtol=0.2)
    tip = simulation.readings.at(q, qd, qdd, f)[1][:, layout.slice("tip")]
    np.testing.assert_allclose(np.sqrt((tip**2).mean(axis=0)), 0.05, rtol=0.2)
    y = simulation.readings.at(q, qd, qdd, f)[1] + simulation._errors(0, 500)[1]
    known = np.isfinite(layout.constants)
    np.testing.assert_allclose(y[:, known], 0.0, atol=1e-7)


def test_exact_statements_hold_beside_those_with_a_deviation() -> None:
    robot = dynsys.synthetic.chain(2, generic=True)
    first, last = robot.body_names
    layout = sensors.Layout(
        robot,
        [
            sensors.ExternalWrench("weak", last, value=0.0, std=1.0),
            sensors.PureForce("point", last, xyz=(0.1, 0.2, 0.3)),
            sensors.ExternalWrench("free", first, value=0.0),
        ],
    )
    simulation = Simulation(layout, Trajectory.random(robot, 1.0), rate=20)
    y = simulation.readings.at(*simulation.motion(0, 20)[1:])[1]
    np.testing.assert_allclose(y[:, layout.slice("point")], 0.0, atol=1e-8)
    assert 0.3 < np.sqrt((y[:, layout.slice("weak")][:, 3:] ** 2).mean()) < 2.0


def test_a_log_of_such_statements_is_consistent_with_them() -> None:
    layout = soft_layout()
    simulation = Simulation(layout, Trajectory.random(layout.robot, 1.0), rate=200)
    rows = simulation.rows(0, 200)
    columns = [c for group in simulation.groups() for c in group.columns]
    y = {
        name: rows[:, [columns.index(label) for label in layout.labels[layout.slice(name)]]]
        for name in layout.names
        if columns.count(layout.labels[layout.slice(name)][0])
    }
    nq, nv = layout.robot.nq, layout.robot.nv
    estimation = problems.Estimation(layout.robot, layout)
    found = estimation.solve_batch(rows[:, 1 : 1 + nq], rows[:, 1 + nq : 1 + nq + nv], y)
    dof = int(np.ravel(found.degrees_of_freedom)[0])
    total = float(np.sum(found.chi_square))
    assert dof > 0
    assert chi2.ppf(1e-4, 200 * dof) < total < chi2.ppf(1 - 1e-4, 200 * dof)


@pytest.mark.parametrize("by_steps", [False, True])
def test_statements_that_contradict_each_other_share_the_error(
    by_steps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot = dynsys.synthetic.chain(2)
    joint = robot.joint_names[1]
    layout = sensors.Layout(
        robot,
        [
            *sensors.zero_external_wrench_except(robot),
            sensors.JointAcceleration("low", joint, value=0.0, std=1.0),
            sensors.JointAcceleration("high", joint, value=3.0, std=2.0),
            sensors.JointAcceleration("first", robot.joint_names[0], value=1.0),
        ],
    )
    nearest = NearestMotion(TrueReadings(layout))
    if by_steps:
        monkeypatch.setitem(nearest.__dict__, "_kernel", None)
    q, qd, qdd = np.zeros((3, 1, 2))
    y = layout.constants[None].copy()
    qdd, _ = nearest.meet(q, qd, qdd, np.zeros((1, 12)), y)
    np.testing.assert_allclose(qdd, [[1.0, 3.0 / 5.0]], atol=1e-9)
    y[0, layout.slice("high")] = 100.0
    with pytest.raises(DynsysError, match="no motion near this trajectory meets"):
        nearest.meet(q, qd, qdd, np.zeros((1, 12)), y)


def standing_record(folder: Path) -> tuple[dynsys.KinematicTree, Record, Path]:
    """A centipede that falls 2 cm onto its feet, and the file of its record."""
    robot = dynsys.synthetic.centipede(1)
    legs = [name for name in robot.body_names if "_lower_leg_" in name]
    feet = ContactPoints(robot, legs, np.tile([0.0, 0.0, -0.08], (len(legs), 1)))
    sim = ContactSimulation(robot, feet, 1e-3, drives=Drives(robot, 10.0, 0.1))
    q = robot.neutral()
    q[2] = 0.1
    _, record = sim.run(sim.start(q), 150, lambda time: q)
    assert record.contacts.max() > 0
    return robot, record, record.save(folder / "record.npz")


def test_sensors_of_a_contact_simulation_are_solved_back(tmp_path: Path) -> None:
    robot, record, path = standing_record(tmp_path)
    legs = [name for name in robot.body_names if "_lower_leg_" in name]
    (tmp_path / "problem.yaml").write_text(
        f"""robot: synthetic:centipede:1
layout:
  sensors:
    - all_joint_accelerations: {{std: 1.0e-6}}
    - all_joint_torques: {{std: 1.0e-6}}
    - zero_external_wrench_except: [{", ".join(legs)}]
outputs: [torque]
"""
    )
    log, out = tmp_path / "log.npz", tmp_path / "out.npz"
    told = ["simulate", str(tmp_path / "problem.yaml"), "--trajectory", str(path)]
    assert command_main([*told, "-o", str(log)]) == 0
    assert (
        command_main(["solve", str(tmp_path / "problem.yaml"), str(log), "-o", str(out)]) == 0
    )
    with np.load(log) as made, np.load(out) as solved:
        np.testing.assert_allclose(made["time"], record.sample_time, atol=1e-12)
        np.testing.assert_allclose(made["q"], record.q, atol=1e-15)
        np.testing.assert_allclose(solved["torque"], record.torque, atol=1e-4)


def test_a_layout_that_denies_the_contacts_is_told(tmp_path: Path) -> None:
    robot, _, path = standing_record(tmp_path)
    nothing = sensors.Layout(
        robot,
        [*sensors.all_joint_torques(robot), *sensors.zero_external_wrench_except(robot)],
    )
    recorded = Recorded.read(robot, path)
    assert recorded is not None
    with pytest.raises(LayoutError, match=r"record denies: .*/no_contact' .* a wrench on body"):
        Simulation(nothing, recorded).motion(0, 150)
    legs = [name for name in robot.body_names if "_lower_leg_" in name]
    points = [sensors.PureForce(f"{leg}/point", leg) for leg in legs]  # 8 cm above the contact
    touched = sensors.Layout(
        robot, [*points, *sensors.zero_external_wrench_except(robot, legs)], quiet=True
    )
    with pytest.raises(LayoutError, match=r"/point' \(pure_force\) is missed by .* N m"):
        Simulation(touched, recorded).motion(0, 150)
    with pytest.raises(StateError, match="another robot"):
        Recorded.read(dynsys.synthetic.chain(3), path)


def test_random_motions_without_limits_swing_within_one() -> None:
    q = Trajectory.random(CHAIN, 30.0, seed=1).at(np.linspace(0, 30.0, 400))[0]
    assert 0.7 < np.abs(q).max() <= 1.0
