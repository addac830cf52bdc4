"""Laws and readings filled in by machine code are those that Python fills in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynsys
import sensors
from dynsys.cholmod import has_cholmod
from dynsys.system.equations import Kinematics
from dynsys.system.unknowns import UnknownLayout
from problems import Estimation, Prior
from problems.estimation import assembly
from problems.estimation.assembly import Assembly
from problems.estimation.factors import CholmodFactors, SuperLUFactors
from problems.identification.regressor import Regressor
from problems.measured.simulated_readings import TrueReadings
from sensors import SensorRows
from tests.problems.estimation.estimation_cases import small


@pytest.mark.parametrize("prior", [None, Prior({"qdd": 2.0}, {"qdd": 0.3})])
def test_compiled_values_are_those_of_the_equations(
    prior: Prior | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "PATIENCE", 1)
    measured = replace(small(), prior=prior).measured
    filled = Assembly(measured)
    rng = np.random.default_rng(0)
    for _ in range(3):  # by Python, then by machine code
        q, qd = rng.normal(size=(2, measured.robot.nv))
        data, b = filled.at(q, qd)
        expected = measured.whole.values(Kinematics.at(measured.robot, q, qd))
        np.testing.assert_allclose(data, expected[0], rtol=1e-14, atol=1e-15)
        np.testing.assert_allclose(b, expected[1], rtol=1e-13, atol=1e-13)
    assert "_call" in vars(filled) and filled._call is not None


def test_estimates_do_not_change_when_code_takes_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(assembly, "PATIENCE", 1)
    problem = replace(small(), backend="superlu")
    rng = np.random.default_rng(1)
    q, qd, y = *rng.normal(size=(2, 3)), rng.normal(size=problem.layout.size)
    known = problem.layout.constants
    y = np.where(np.isnan(known), y, known)
    first, second = problem.solve(q, qd, y), problem.solve(q, qd, y)
    np.testing.assert_allclose(second.torque.array, first.torque.array, rtol=1e-12)
    expected = Estimation(problem.robot, problem.layout, backend="dense").solve(q, qd, y)
    np.testing.assert_allclose(second.torque.array, expected.torque.array, rtol=1e-9)


@pytest.mark.skipif(not has_cholmod(), reason="CHOLMOD is not installed")
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_small_and_large_right_hand_sides_lose_no_digits(scale: float) -> None:
    """Refinement stops where rounding begins, whatever the units."""
    problem = small()
    system = problem.measured.saddle()
    rng = np.random.default_rng(2)
    data, b = problem.measured.whole.values(
        Kinematics.at(problem.robot, *rng.normal(size=(2, 3)))
    )
    (D, _), (Y, _) = problem.measured.parts(data, b)
    K = system.at(D.data, Y.data, np.ones(Y.shape[0], dtype=bool)).matrix
    right = scale * rng.normal(size=K.shape[0])
    cholmod, superlu = CholmodFactors(system.signs), SuperLUFactors()
    assert cholmod.factor(K) and superlu.factor(K)
    by_cholmod, by_superlu = cholmod.solve(right), superlu.solve(right)
    np.testing.assert_allclose(by_cholmod, by_superlu, rtol=1e-9, atol=1e-13 * scale)


@pytest.mark.parametrize("factor", [3.0, 1.0 + 1e-9])
@pytest.mark.finding("Y-4")
def test_kernels_are_of_what_sensors_compute_and_not_of_their_names(
    factor: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A class of the user, or another version of ours, may say something else tomorrow."""
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path / "kernels"))
    robot = dynsys.synthetic.chain(2)
    rows = sensors.JointTorque.rows

    def found() -> list[np.ndarray]:
        layout = sensors.Layout(robot, sensors.all_joint_torques(robot, std=0.1))
        q, qd, qdd = np.ones((3, 1, 2))
        measured = Estimation(robot, layout).measured
        regressor = Regressor(robot, layout, ())
        entries, _ = Assembly(measured, patience=0).at(q[0], qd[0])
        expected, _ = measured.whole.values(Kinematics.at(robot, q[0], qd[0]))
        np.testing.assert_allclose(entries, expected, rtol=1e-12, atol=1e-14)
        return [
            TrueReadings(layout).at(q, qd, qdd, np.zeros((1, 2, 6)))[1][0],
            regressor.kernel.one(q[0], qd[0], qdd[0])[0][2],
        ]

    def scaled(sensor: sensors.JointTorque, unknowns: UnknownLayout) -> SensorRows:
        said = rows(sensor, unknowns)
        terms = [replace(t, value=lambda kin, t=t: factor * t.at(kin)) for t in said.terms]
        return replace(said, terms=tuple(terms))

    before = found()
    monkeypatch.setattr(sensors.JointTorque, "rows", scaled)
    for now, then in zip(found(), before, strict=True):
        np.testing.assert_allclose(now, factor * then, rtol=1e-12)
        assert np.abs(now).max() > 0.1
