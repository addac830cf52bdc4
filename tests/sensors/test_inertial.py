"""Inertial sensors and rigid contact, against positions differentiated twice."""

from __future__ import annotations

import numpy as np
import pytest

from dynsys import synthetic
from dynsys.model.spatial import Transform
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array
from sensors import Accelerometer, AngularAccelerometer, Gyroscope, Imu, RigidContact
from sensors.mounting import varying_term
from tests.robots import CHAIN
from tests.sensors.truth import OFFSET, RPY, TOLERANCE, XYZ, Motion, with_frames


@pytest.fixture(params=range(4))
def motion(request: pytest.FixtureRequest) -> Motion:
    tree = synthetic.random_tree(7, request.param)
    return Motion.random(with_frames(tree, tool=4, pedestal=-1), request.param)


def linear(motion: Motion, frame: str | int) -> Array:
    """Proper acceleration of the sensor's origin, in its coordinates."""
    acceleration = motion.second_rate(lambda q: motion.pose(q, frame, OFFSET).r)
    E = motion.pose(motion.q, frame, OFFSET).E
    return np.asarray(E @ (acceleration - motion.robot.gravity))


def angular(motion: Motion, frame: str | int) -> tuple[Array, Array]:
    """Angular velocity and acceleration, in the sensor's coordinates."""
    w, wd = motion.turning(lambda q: motion.pose(q, frame, OFFSET).E)
    E = motion.pose(motion.q, frame, OFFSET).E
    return E @ w, E @ wd


PLACES = (2, "tool", "pedestal", -1)


@pytest.mark.parametrize("frame", PLACES)
def test_accelerometer(motion: Motion, frame: str | int) -> None:
    sensor = Accelerometer("s", frame, xyz=XYZ, rpy=RPY)
    expected = linear(motion, frame)
    np.testing.assert_allclose(motion.reading(sensor), expected, atol=TOLERANCE * 10)


@pytest.mark.parametrize("frame", PLACES)
def test_gyroscope(motion: Motion, frame: str | int) -> None:
    reading = motion.reading(Gyroscope("s", frame, xyz=XYZ, rpy=RPY))
    np.testing.assert_allclose(reading, angular(motion, frame)[0], atol=TOLERANCE)


@pytest.mark.parametrize("frame", PLACES)
def test_angular_accelerometer(motion: Motion, frame: str | int) -> None:
    reading = motion.reading(AngularAccelerometer("s", frame, xyz=XYZ, rpy=RPY))
    np.testing.assert_allclose(reading, angular(motion, frame)[1], atol=TOLERANCE * 10)


@pytest.mark.parametrize("frame", PLACES)
def test_imu_is_its_parts(motion: Motion, frame: str | int) -> None:
    kinds = (Accelerometer, Gyroscope, AngularAccelerometer)
    parts = [motion.reading(kind("s", frame, xyz=XYZ, rpy=RPY)) for kind in kinds]
    six, nine = (
        motion.reading(Imu("s", frame, xyz=XYZ, rpy=RPY, angular=angular))
        for angular in (False, True)
    )
    np.testing.assert_allclose(nine, np.concatenate(parts), atol=1e-12)
    np.testing.assert_allclose(six, nine[:6], atol=1e-12)


def test_gyroscope_and_sensors_on_the_base_touch_no_unknown(motion: Motion) -> None:
    from dynsys.system.unknowns import UnknownLayout

    unknowns = UnknownLayout(motion.robot)
    for sensor in (Gyroscope("s", 2), Accelerometer("s", "pedestal"), Imu("s", -1)):
        assert sensor.on(unknowns).terms == ()


@pytest.mark.parametrize("holds", ["pose", "point"])
def test_rigid_contact(motion: Motion, holds: str) -> None:
    offset = Transform(np.eye(3), np.array(XYZ))
    acceleration = motion.second_rate(lambda q: motion.pose(q, "tool", offset).r)
    pose = motion.pose(motion.q, "tool", offset)
    _, wd = motion.turning(lambda q: motion.pose(q, "tool", offset).E)
    expected = np.concatenate([pose.E @ wd, pose.E @ acceleration])
    reading = motion.reading(RigidContact("c", "tool", xyz=XYZ, holds=holds))
    np.testing.assert_allclose(reading, expected[-len(reading) :], atol=TOLERANCE * 10)
    assert len(reading) == (6 if holds == "pose" else 3)


def test_the_pattern_of_a_term_is_where_it_is_not_zero() -> None:
    unknown = UnknownLayout(CHAIN).block("torque", 0)
    values = [np.array([[0.0, 1.0, 0.3, 0.0]]), np.array([[0.0, 1.0, 0.0, 1e-17]])]
    term = varying_term(
        (0, 1),  # type: ignore[arg-type]
        unknown,
        lambda state: values[state],  # type: ignore[index, call-overload]
        lambda state: np.ones((1, 4)),
    )
    assert np.asarray(term.pattern).tolist() == [[False, True, True, False]]
