"""The readable estimator agrees with Newton, Euler and singular values: the study, small."""

from __future__ import annotations

import pytest

from dynsys.types import Array
from experiments.trust import estimator
from experiments.trust.consistency.cases import COUNTS
from experiments.trust.estimator import OWN, case_of, compared
from sensors import sensor_kinds

FEW = 5


@pytest.mark.parametrize("kind", [kind for kind in (*COUNTS, OWN) if kind != "catalogue"])
def test_estimates_are_those_of_newton_and_euler(kind: str) -> None:
    found = [compared((kind, k)) for k in range(FEW)]
    assert [one for one in found if one.differences] == []
    assert sum(one.numbers for one in found) > 100 and max(one.error for one in found) < 1e-10


def test_a_right_angle_beside_a_statement_is_no_contradiction() -> None:
    """Judged without what statements say, rounding was all that an exact row had."""
    assert compared(("aligned", 177)).differences == ()


def test_every_sensor_and_every_joint_is_asked() -> None:
    asked = [case_of((OWN, k)).estimation for k in range(60)]
    kinds = {type(sensor) for one in asked for sensor in one.layout.sensors}
    assert kinds == set(sensor_kinds().values())
    assert len({joint.kind for one in asked for joint in one.robot.joints}) == 7
    assert any(one.layout.correlations for one in asked)
    assert any(one.measured.prior for one in asked)


def test_noise_that_is_off_by_a_hundredth_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def louder(*arguments: object) -> Array:
        return 1.01 * right(*arguments)  # type: ignore[arg-type]

    right = estimator.covariance
    monkeypatch.setattr(estimator, "covariance", louder)
    told = " ".join(compared((OWN, 5)).differences)
    assert "chi-square" in told and "values or deviations are off" in told
