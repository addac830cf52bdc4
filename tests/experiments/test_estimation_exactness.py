"""Exactness in small, and that a wrong answer is seen."""

from __future__ import annotations

import numpy as np
import pytest

import sensors
from dynsys import synthetic
from experiments import estimation_exactness
from experiments.estimation_exactness import Check, dense_posterior, measure
from problems import Estimation


@pytest.mark.slow
@pytest.mark.trust
def test_truth_dense_oracle_and_scatter() -> None:
    checks = list(
        measure(
            [("ur_description/urdf/ur5_robot.urdf", False)],
            ["solo12"],
            states=20,
            dense_states=1,
            solves=2000,
        )
    )
    assert {c.question.split(",")[0] for c in checks} == {"truth", "dense oracle", "scatter"}
    assert [c for c in checks if not c.holds] == []


def test_a_broken_bound_shows() -> None:
    assert not Check("truth", "arm", "error", 1, 2e-10, 1e-10).holds
    assert not Check("scatter", "arm", "variances", 1, 1e-7, 1e-6, least=True).holds
    for least in (False, True):
        nothing = estimation_exactness._largest([1e-12, np.nan])
        assert not Check("truth", "arm", "error", 1, nothing, 1e-10, least).holds


def test_dense_posterior_is_the_mean_of_equal_readings() -> None:
    robot = synthetic.chain(1)
    joint = robot.joint_names[0]
    layout = sensors.Layout(
        robot,
        [
            sensors.JointTorque("a", joint, std=1.0),
            sensors.JointTorque("b", joint, std=2.0),
            *sensors.zero_external_wrench_except(robot),
        ],
    )
    problem = Estimation(robot, layout)
    y = np.concatenate([[1.0, 2.0], np.zeros(6)])
    d, factor = dense_posterior(problem, np.zeros(1), np.zeros(1), y)
    torque = problem.system.unknowns.columns("torque")
    np.testing.assert_allclose(d[torque], (1.0 / 1 + 2.0 / 4) / (1 + 1 / 4))
    np.testing.assert_allclose(np.linalg.norm(factor[torque]), (1 + 1 / 4) ** -0.5)
