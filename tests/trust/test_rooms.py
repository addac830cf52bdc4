"""Hostile arguments to calls of the newest rooms: some of experiments.trust.rooms."""

from __future__ import annotations

import numpy as np
import pytest

import dynsys
from dynsys import ModelError, StateError
from dynsys.types import float_array
from experiments.trust.rooms.calls import CALLS
from experiments.trust.rooms.campaign import CHANGES, Call, judged, outcomes

SOME = [
    "kinetic_energy",
    "rnea",
    "inverse_inertia_times",
    "constrained impulse",
    "constrained restitution",
    "constrained gains",
    "constrained forward, steered",
    "BodyMotion rows",
    "operational kernel",
    "simulation state",
    "simulation wrench",
    "contact points",
    "drives",
    "solve_contacts",
    "to_pandas",
    "calibration correct",
]


@pytest.mark.parametrize("name", SOME)
@pytest.mark.finding("U-1", "U-5", "U-8")
def test_arguments_are_refused_or_mean_the_same(name: str) -> None:
    if name == "to_pandas":
        pytest.importorskip("pandas")
    found = list(outcomes({name: CALLS[name]}, repeat=1))
    assert found and not [one for one in found if one.failure]


def test_the_campaign_notices_what_it_looks_for() -> None:
    """A call that takes anything fails at every change that must be refused."""
    anything = Call(lambda x: 0.0, {"x": np.ones(2)})
    found = {change: judged("", anything, "x", change).failure for change in CHANGES}
    expected = {change for change, (kind, _) in CHANGES.items() if kind == "refused"}
    assert {change for change, failure in found.items() if failure} == expected
    crashes = Call(lambda x: x.sum(), {"x": np.ones(2)})
    assert "AttributeError" in judged("", crashes, "x", "list").failure
    other = Call(lambda x: np.asarray(x).strides[0], {"x": np.ones(2)})
    assert "other numbers" in judged("", other, "x", "strided").failure
    fades = Call(lambda x: np.asarray(x, np.float64) * 1e200, {"x": np.ones(2)})
    assert "not finite" in judged("", fades, "x", "huge").failure


@pytest.mark.parametrize(
    "given", ["1.5", ["1.5"], np.array(["1.5"]), np.zeros(2, "M8[s]"), [1j], b"1", {"a": 1.0}]
)
def test_what_is_no_number_is_no_array_of_numbers(given: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        float_array(given)  # type: ignore[arg-type]


def test_masks_of_rows_are_kept() -> None:
    rows = [np.ma.masked_array([1.0, 2.0], [False, True]), np.array([3.0, 4.0])]
    np.testing.assert_array_equal(float_array(rows), [[1.0, np.nan], [3.0, 4.0]])


def test_a_masked_wrench_is_not_used() -> None:
    robot = dynsys.synthetic.chain(2)
    wrench = np.ma.masked_array(np.ones(6), [False] * 5 + [True])
    for f_ext in ({robot.body_names[-1]: wrench}, np.ma.masked_array([wrench, wrench])):
        with pytest.raises(StateError, match="not finite"):
            dynsys.rnea(robot, [0, 0], [0, 0], [0, 0], f_ext)


def test_predictions_take_what_is_masked_as_missing() -> None:
    call = CALLS["predict"]()
    for change in ("masked", "nothing", "text"):
        assert not judged("predict", call, "y", change, 1).failure


@pytest.mark.finding("U-6")
def test_contact_points_are_rows() -> None:
    """(3, K) would be taken apart across its rows."""
    from dynsys.simulation import ContactPoints

    robot = dynsys.synthetic.chain(2)
    points = np.arange(6.0).reshape(3, 2)
    with pytest.raises(ModelError, match=r"\(2, 3\)"):
        ContactPoints(robot, robot.body_names, points)
    assert len(ContactPoints(robot, [])) == 0
