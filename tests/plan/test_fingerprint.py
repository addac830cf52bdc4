"""Fingerprints of robots are those of their data, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from dynsys import synthetic
from dynsys.model.spatial import Inertia
from dynsys.model.tree import Body
from dynsys.plan.fingerprint import canonical_bytes, fingerprint_robot
from tests.plan.systems import changed


def test_fingerprints_are_those_of_the_data() -> None:
    assert fingerprint_robot(synthetic.chain(3)) == fingerprint_robot(synthetic.chain(3))
    assert canonical_bytes(-0.0) == canonical_bytes(0.0)
    assert canonical_bytes(np.array([-0.0])) == canonical_bytes(np.array([0.0]))
    assert canonical_bytes(["ab", "c"]) != canonical_bytes(["a", "bc"])
    assert canonical_bytes({"a": 1, "b": 2}) == canonical_bytes({"b": 2, "a": 1})
    assert canonical_bytes(2**70) != canonical_bytes(2**71)
    with pytest.raises(TypeError, match="canonical form"):
        canonical_bytes(object())


def test_a_difference_in_the_last_bit_shows() -> None:
    robot = synthetic.chain(3)
    inertia = robot.bodies[1].inertia
    heavier = Inertia(np.nextafter(inertia.mass, 9.0), inertia.com, inertia.about_com)
    other = changed(robot, 1, inertia=heavier)
    old, new = fingerprint_robot(robot), fingerprint_robot(other)
    assert old.digest != new.digest
    assert new.differences(old) == ["body 'link_2': inertia has changed"]


def test_bodies_alone_make_the_robot() -> None:
    """A body's limits are no part of the dynamics."""
    robot = synthetic.chain(2)
    body: Body = robot.bodies[0]
    limited = changed(robot, 0, lower=[-1.0], upper=[1.0])
    assert body.lower is None
    assert fingerprint_robot(limited).digest == fingerprint_robot(robot).digest
