"""Identification from nonsense: refused in words, never fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dynsys
import sensors
from dynsys import LayoutError, ModelError, StateError
from problems import Identification
from problems.identification.excitation import design
from problems.identification.fit import Fit
from tests.robots import CHAIN, at, motion

INF = float("inf")
NAN = float("nan")
TORQUES = sensors.Layout(CHAIN, sensors.all_joint_torques(CHAIN, std=0.05))


@pytest.mark.parametrize(
    ("choices", "why"),
    [
        ({"inertia": 3}, "list of body names, got 3"),
        ({"inertia": None}, "list of body names, got None"),
        ({"inertia": ["link_1", "link_1"]}, "'link_1' is asked for twice"),
        ({"contacts": "link_1"}, "list of body names, got 'link_1'"),
        ({"contacts": ["link_9"]}, "no body 'link_9'"),
        ({"friction": ["nothing"]}, "no joint 'nothing'"),
        (dict.fromkeys(("inertia", "friction", "rotor", "offset"), False), "no parameter"),
    ],
)
def test_parameters_that_are_none(choices: dict[str, Any], why: str) -> None:
    with pytest.raises(ModelError, match=why):
        Identification(CHAIN, TORQUES, **choices)


def test_what_an_identification_is_made_of() -> None:
    with pytest.raises(LayoutError, match="got 'panda'"):
        Identification("panda", TORQUES)  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match="without sensors"):
        Identification(CHAIN, sensors.Layout(CHAIN, []))


@pytest.fixture(scope="module")
def fitted() -> Fit:
    q, qd, qdd = motion()
    torque = np.asarray(dynsys.rnea(CHAIN, q, qd, qdd))
    y = torque + np.random.default_rng(0).normal(scale=0.05, size=torque.shape)
    return Identification(CHAIN, TORQUES).fit(q, qd, qdd, y)


Q, QD, QDD = motion()
Y = np.asarray(dynsys.rnea(CHAIN, Q, QD, QDD))


@pytest.mark.parametrize(
    ("log", "choices", "why"),
    [
        (("q", QD, QDD, Y), {}, "q is not numeric"),
        ((Q, QD, QDD, "y"), {}, "y is not numeric"),
        ((Q, QD, QDD, 1j * Y), {}, "complex"),
        ((Q[:0], QD[:0], QDD[:0], Y[:0]), {}, "no sample"),
        ((Q, at(QD, NAN), QDD, Y), {}, "sample 7: qd"),
        ((np.ma.masked_array(Q, at(0.0 * Q, 1.0) > 0), QD, QDD, Y), {}, "sample 7: q"),
        ((Q, QD, QDD, at(Y, INF)), {}, "infinite"),
        ((Q, QD, QDD, NAN * Y), {}, "nothing to fit to"),
        ((Q, QD, QDD, None), {}, "nothing to fit to"),
        ((Q, QD, QDD, 1e200 * Y), {}, "overflow"),
        ((Q, at(QD, 1e200), QDD, Y), {}, "sample 7: .*overflow"),
        ((Q[:3], QD[:3], QDD[:3], Y[:3]), {}, "leave nothing to tell their noise"),
        ((Q, QD, QDD, Y), {"noise": "estimat"}, "noise must be one of estimate, layout"),
        ((Q, QD, QDD, Y), {"huber": 0.0}, "huber"),
        ((Q, QD, QDD, Y), {"huber": NAN}, "huber"),
        ((Q, QD, QDD, Y), {"huber": "4"}, "huber"),
        ((Q, QD, QDD, Y), {"sizes": {"link_1.mass": "1"}}, "size of link_1.mass"),
        ((Q, QD, QDD, Y), {"sizes": [1.0]}, "by names of parameters"),
    ],
)
@pytest.mark.finding("T-6", "T-7")
def test_fits_to_nonsense(log: tuple[Any, ...], choices: dict[str, Any], why: str) -> None:
    with np.errstate(all="ignore"), pytest.raises((StateError, ModelError), match=why):
        Identification(CHAIN, TORQUES).fit(*log, **choices)


@pytest.mark.finding("T-5")
def test_what_was_not_compared_has_no_error(fitted: Fit) -> None:
    """An rms of zero would say that readings which are not there are met exactly."""
    found = fitted.validate(Q, QD, QDD, np.where([True, False], NAN, Y))
    assert np.isnan([found.after[0], found.before[0], found.inside[0]]).all()
    assert np.isfinite([found.after[1], found.before[1], found.inside[1]]).all()


def test_predictions_and_payloads_of_nonsense(fitted: Fit) -> None:
    with np.errstate(all="ignore"), pytest.raises(StateError, match=r"sample 7: .*overflow"):
        fitted.predict(Q, at(QD, 1e200), QDD)
    with np.errstate(all="ignore"), pytest.raises(StateError, match="overflow"):
        Identification(CHAIN, TORQUES).regressor_batch(Q, 1e200 * QD, QDD)
    with pytest.raises(ModelError, match="two fits"):
        fitted.payload("other", "link_2")  # type: ignore[arg-type]


@pytest.mark.finding("T-8")
def test_half_a_motion_is_no_motion() -> None:
    with pytest.raises(StateError, match="all three, or none"):
        Identification(CHAIN, TORQUES).verdict(Q)


@pytest.mark.parametrize("seconds", ["2", NAN, INF, 0.0, -1.0])
def test_motions_take_seconds(seconds: Any) -> None:
    with pytest.raises(StateError, match="takes some seconds"):
        design(Identification(CHAIN, TORQUES).sought, seconds)
