"""What iDynTree's BERDY answers wrongly without a word, each done right or refused by name."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

import dynsys
import sensors
from dynsys import KinematicTree, LayoutError, synthetic
from problems import Estimation, Prior
from sensors import Layout
from tests.problems.estimation.estimation_cases import (
    FEET,
    dense,
    readings,
    relative,
    truth,
    values,
)


def layout_of(robot: KinematicTree, *without: str) -> Layout:
    wanted = [
        *sensors.all_joint_accelerations(robot, std=0.1),
        *(sensors.ExternalWrench(f"{n}/wrench", n, std=1.0) for n in robot.body_names),
    ]
    return Layout(robot, [s for s in wanted if s.name not in without])


def test_unknowns_that_are_not_determined_are_nan_and_named(humanoid) -> None:
    """BERDY: 534 of 563 unknowns determined, returns True, error 1.0."""
    problem = Estimation(
        humanoid, layout_of(humanoid, "l_hand/wrench", "neck_yaw/acceleration")
    )
    state = truth(problem, 0, FEET)
    e = problem.solve(state.q, state.qd, readings(problem, state))
    found = values(problem, e)
    known = ~np.isnan(found)
    assert not known.all() and not e.determined.external_wrench["l_hand"].any()
    assert np.abs(found - state.d)[known].max() < 1e-10 * np.abs(state.d).max()
    verdict = problem.verdict(search=False)
    assert verdict.status == "under-determined" and "l_hand" in str(verdict)


def test_no_prior_is_needed(humanoid) -> None:
    """BERDY: regularisation weight zero gives an error of 4.8."""
    problem = Estimation(humanoid, layout_of(humanoid), backend="superlu")
    state = truth(problem, 1, FEET)
    e = problem.solve(state.q, state.qd, readings(problem, state))
    assert relative(values(problem, e), state.d) < 1e-12


@pytest.mark.parametrize("std", [1e-8, 1.0, 1e8])
def test_constraints_hold_exactly_whatever_the_weights(humanoid, std) -> None:
    """BERDY: constraint weights of 1e10 and above give an error of 4.8."""
    problem = Estimation(
        humanoid, layout_of(humanoid), Prior(std={"torque": std, "qdd": 1.0}), "superlu"
    )
    state = truth(problem, 2, FEET)
    y = readings(problem, state)
    e = problem.solve(state.q, state.qd, y)
    found = values(problem, e)
    D, b = dynsys.LinearSystem(humanoid).assemble(state.q, state.qd)
    assert np.abs(D @ found + b).max() < 1e-9 * np.abs(found).max()
    assert relative(found, dense(problem, state.q, state.qd, y).d) < 1e-6


def test_noise_correlated_inside_a_sensor() -> None:
    """BERDY: right."""
    C = [[1.0, 0.5, 0.2], [0.5, 1.0, 0.3], [0.2, 0.3, 1.0]]
    _check_correlated(sensors.Accelerometer("tip", "link_4", covariance=C))


def test_noise_correlated_between_two_sensors() -> None:
    """BERDY: wrong by 15.6, because the pattern was analysed once at construction."""
    more = sensors.Accelerometer("tip", "link_4", std=1.0)
    cross = 0.4 * np.eye(3)
    _check_correlated(
        more,
        sensors.Accelerometer("near", "link_3", std=1.0),
        correlations=[("tip", "near", cross)],
    )


def _check_correlated(*more, correlations=()) -> None:
    robot = synthetic.chain(4)
    both = [*layout_of(robot).sensors, *sensors.all_joint_torques(robot, std=2.0), *more]
    for backend in ("auto", "superlu", "dense"):
        problem = Estimation(robot, Layout(robot, both, correlations), backend=backend)
        state = truth(problem, 3, robot.body_names)
        y = readings(problem, state)
        y = y + np.random.default_rng(0).normal(size=len(y))
        e = problem.solve(state.q, state.qd, y)
        assert relative(values(problem, e), dense(problem, state.q, state.qd, y).d) < 1e-9


URDF = """<robot name="arm">
  <link name="world"/>
  <link name="upper"><inertial><mass value="2"/><origin xyz="0 0 0.2"/>
    <inertia ixx="0.02" iyy="0.02" izz="0.004" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="ft_frame"><inertial><mass value="0.3"/>
    <inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="fore"><inertial><mass value="1"/><origin xyz="0 0 0.1"/>
    <inertia ixx="0.01" iyy="0.01" izz="0.002" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="tool"><inertial><mass value="0.5"/>
    <inertia ixx="0.002" iyy="0.002" izz="0.002" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="revolute"><parent link="world"/><child link="upper"/>
    <axis xyz="0 1 0"/><limit lower="-2" upper="2" effort="9" velocity="9"/></joint>
  <joint name="ft_joint" type="fixed"><parent link="upper"/><child link="ft_frame"/>
    <origin xyz="0 0 0.4"/></joint>
  <joint name="elbow" type="revolute"><parent link="ft_frame"/><child link="fore"/>
    <origin xyz="0 0 0.1"/><axis xyz="1 0 0"/>
    <limit lower="-2" upper="2" effort="9" velocity="9"/></joint>
  <joint name="tool_joint" type="fixed"><parent link="fore"/><child link="tool"/>
    <origin xyz="0 0 0.3"/></joint>
</robot>"""


@pytest.fixture
def arm(tmp_path: Path) -> KinematicTree:
    path = tmp_path / "arm.urdf"
    path.write_text(URDF)
    return dynsys.load(path)


def test_a_fixed_base_with_fixed_joints(arm) -> None:
    """BERDY: init fails."""
    problem = Estimation(arm, layout_of(arm))
    state = truth(problem, 0, arm.body_names)
    e = problem.solve(state.q, state.qd, readings(problem, state))
    assert relative(values(problem, e), state.d) < 1e-12


def test_an_inertial_unit_on_the_fixed_base(arm) -> None:
    """BERDY: init fails."""
    layout = Layout(arm, [*layout_of(arm).sensors, sensors.Imu("base", "world", std=0.1)])
    problem = Estimation(arm, layout)
    state = truth(problem, 0, arm.body_names)
    y = readings(problem, state)
    np.testing.assert_allclose(layout.unpack(y)["base"], [0, 0, 9.81, 0, 0, 0], atol=1e-12)
    e = problem.solve(state.q, state.qd, y)
    assert relative(values(problem, e), state.d) < 1e-12
    assert e.degrees_of_freedom == 6  # it checks that the base is still and upright
    y[layout.slice("base")] += 1.0
    assert problem.solve(state.q, state.qd, y).suspects[0].sensor == "base"


def test_force_torque_sensors_at_fixed_joints_stay(arm) -> None:
    """BERDY: lumping fixed joints drops the sensors that sit in them."""
    layout = Layout(
        arm,
        [
            *sensors.all_joint_accelerations(arm, std=0.1),
            *sensors.zero_external_wrench_except(arm, ["fore"]),
            sensors.ForceTorque("ft", "ft_joint", std=0.1),
        ],
    )
    problem = Estimation(arm, layout)
    assert problem.verdict(search=False).status == "well posed"
    state = truth(problem, 0, ["fore"])
    e = problem.solve(state.q, state.qd, readings(problem, state))
    assert relative(values(problem, e), state.d) < 1e-10


@pytest.mark.slow
def test_nothing_dangles_when_the_makers_are_gone(tmp_path) -> None:
    """BERDY: a model outlives its loader as garbage or a segmentation fault."""

    def build() -> Estimation:
        path = tmp_path / "arm.urdf"
        path.write_text(URDF)
        robot = dynsys.load(path)
        return Estimation(robot, layout_of(robot))

    problem = build()
    gc.collect()
    state = truth(problem, 0)
    e = problem.solve(state.q, state.qd, readings(problem, state))
    del problem
    gc.collect()
    assert np.isfinite(e.std.torque.array).all() and np.isfinite(e.torque["elbow"])


def test_readings_of_wrong_length_are_refused(humanoid) -> None:
    """BERDY: y one element too short is accepted."""
    problem = Estimation(humanoid, layout_of(humanoid), backend="superlu")
    state = truth(problem, 0)
    y = readings(problem, state)
    for wrong in (y[:-1], np.append(y, 0.0), y[None]):
        with pytest.raises(LayoutError, match="y must have shape"):
            problem.solve(state.q, state.qd, wrong)
    with pytest.raises(LayoutError, match="'l_hand/wrench' must have 6 numbers"):
        problem.solve(
            state.q, state.qd, problem.layout.unpack(y) | {"l_hand/wrench": [0.0] * 5}
        )
