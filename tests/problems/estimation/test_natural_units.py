"""What is open, and in which words, does not depend on how large or heavy a robot is.

An angular acceleration and a moment are compared in natural units of the robot
(:func:`dynsys.system.size.natural_units`): millimetres and milligrams, or a crane, are judged
as a robot of one metre and one kilogram is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import problems
import sensors
from dynsys import KinematicTree, LinearSystem
from dynsys.model.body import Body
from dynsys.model.joints import Prismatic, Revolute
from dynsys.model.spatial import Inertia, Transform
from dynsys.system.size import natural_units
from dynsys.types import Array
from sensors import AbstractSensor

X, Y, Z = np.eye(3)
SCALES = [(1e-3, 1e-6), (1.0, 1.0), (100.0, 1e5), (1e4, 1e9)]
"""Metres and kilograms of a link."""


def crane(length: float, mass: float) -> KinematicTree:
    """A mast that turns, a jib that tilts, a hook that slides along it."""
    inertia = Inertia(mass, 0.5 * length * X, mass * length**2 * np.diag([0.1, 0.2, 0.3]))
    joints = [Revolute(Z), Revolute(Y), Prismatic(X)]
    bodies = [
        Body(name, k - 1, joint, Transform(np.eye(3), min(k, 1) * length * X), inertia)
        for k, (name, joint) in enumerate(zip(("mast", "jib", "hook"), joints, strict=True))
    ]
    return KinematicTree("crane", bodies)


def seen(robot: KinematicTree, *joints: str) -> list[AbstractSensor]:
    """Nothing touches mast and jib; accelerations of some joints are measured."""
    free = [sensors.ExternalWrench(f"{name} free", name, value=0.0) for name in ("mast", "jib")]
    return [*free, *(sensors.JointAcceleration(f"{j} qdd", j, std=0.01) for j in joints)]


def verdict_words(robot: KinematicTree, some: list[AbstractSensor]) -> tuple[str, ...]:
    verdict = problems.Estimation(robot, sensors.Layout(robot, some)).verdict(search=False)
    return *verdict.open_words, *(one.words for one in verdict.directions)


def of_forces(length: float, mass: float) -> tuple[problems.Estimation, Array]:
    """The moment on the hook is unseen; a posture."""
    robot = crane(length, mass)
    force = sensors.ExternalWrench("hook", "hook", components=("fx", "fy", "fz"), std=mass)
    layout = sensors.Layout(robot, [*seen(robot, *robot.joint_names), force])
    return problems.Estimation(robot, layout), np.array([0.3, 0.4, 0.5 * length])


@pytest.mark.parametrize(("length", "mass"), SCALES)
@pytest.mark.finding("Y-2")
def test_torques_that_an_unseen_moment_changes_are_open(length: float, mass: float) -> None:
    """Those of the crane were 'determined', with a deviation."""
    est, q = of_forces(length, mass)
    e = est.solve(q, np.zeros(3), np.zeros(est.layout.size))
    assert e.determined.torque.array.tolist() == [False, False, True]
    assert np.isnan(e.torque.array).tolist() == [True, True, False]


def test_batches_of_a_crane_are_answered_as_its_states_are() -> None:
    est, q = of_forces(100.0, 1e5)
    y = 1e4 * np.arange(2.0 * est.layout.size).reshape(2, -1) * np.isnan(est.layout.constants)
    found = est.reduced.solve(*np.array([[q, q], [0 * q, q]]), y, ("torque",), ("torque",))
    assert found.answered.all()
    for k, qd in enumerate((0 * q, q)):
        e = est.solve(q, qd, y[k])
        for name, one in (("torque", e.torque), ("std_torque", e.std.torque)):
            np.testing.assert_allclose(found.arrays[name][k], one.array, rtol=1e-12)


@pytest.mark.parametrize("missing", ["jib", "hook"])
def test_the_verdict_is_that_of_a_robot_of_one_metre(missing: str) -> None:
    """Of the crane it ended with ValueError; of the small one the torque was left out."""

    def said(length: float, mass: float) -> tuple[str, ...]:
        robot = crane(length, mass)
        joints = [name for name in robot.joint_names if name != missing]
        free = sensors.ExternalWrench("hook free", "hook", value=0.0)
        return verdict_words(robot, [*seen(robot, *joints), free])

    usual = said(1.0, 1.0)
    assert any(f"torque: {missing}" in line for line in usual)
    assert all(said(*scale) == usual for scale in SCALES)


def test_natural_units_are_those_of_mass_and_length() -> None:
    def units(length: float, mass: float) -> dict[str, list[float]]:
        system = LinearSystem(crane(length, mass))
        at = system.unknowns.columns
        places = {"qdd": at("qdd"), "wrench": at("external_wrench")[0, [0, 3]]}
        found = dict(zip(system.open_columns.tolist(), natural_units(system), strict=True))
        return {kind: [float(found[k]) for k in some] for kind, some in places.items()}

    one, large = units(1.0, 1.0), units(2.0, 64.0)
    assert one["qdd"][:2] == large["qdd"][:2] == [1.0, 1.0]
    assert large["qdd"][2] == 2 * one["qdd"][2]
    assert [b / a for a, b in zip(one["wrench"], large["wrench"], strict=True)] == [
        256.0,
        128.0,
    ]
    massless = [replace(body, inertia=Inertia.zero()) for body in crane(1.0, 1.0).bodies]
    system = LinearSystem(KinematicTree("massless", massless))
    assert (natural_units(system) == 1.0).all()
