"""What the studio shows at once: a glance at the sensors, shapes, postures."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import dynsys
import sensors
from dynsys import KinematicTree, StateError
from dynsys.model.joints import Revolute, Spherical
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import Body, Coupling
from problems import Estimation, Prior
from problems.studio import posture, shapes
from problems.studio.contacts import contact_frames
from problems.studio.glance import GlanceKeeper
from problems.studio.view import estimate_facts, glance_facts
from tests.robots import CHAIN

# ---- glance ----------------------------------------------------------------------------------


SOLES = ("l_sole", "r_sole")


def layouts(robot: KinematicTree) -> list[sensors.Layout]:
    nao = sensors.catalogue.load("nao", robot)
    more = [*nao.sensors, sensors.JointTorque("extra", "l_hip_yaw", std=0.2)]
    return [nao, sensors.Layout(robot, more), sensors.Layout(robot, nao.sensors[2:])]


def test_glance_is_what_the_estimator_says(humanoid: KinematicTree) -> None:
    onlooker = GlanceKeeper(humanoid, declared=SOLES)
    for seed, layout in enumerate(layouts(humanoid)):
        assert set(SOLES) <= set(contact_frames(layout, SOLES))
        q = humanoid.random_configuration(seed)
        seen = onlooker.look(layout, q)
        readings = {
            s.name: np.zeros(layout.sizes[s.name]) for s in layout if s.constant(1) is None
        }
        estimate = Estimation(humanoid, layout, backend="dense").solve(
            q, np.zeros(humanoid.nv), readings
        )
        torque = np.asarray(estimate.std.torque)
        wrench = np.array([estimate.std.external_wrench[frame] for frame in seen.frames])
        np.testing.assert_array_equal(seen.torque_open, np.isnan(torque))
        np.testing.assert_array_equal(seen.wrench_open, np.isnan(wrench))
        known, felt = ~seen.torque_open, ~seen.wrench_open
        np.testing.assert_allclose(seen.torque_std[known], torque[known], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(seen.wrench_std[felt], wrench[felt], rtol=1e-7, atol=1e-9)


def test_what_is_kept_changes_nothing(humanoid: KinematicTree) -> None:
    used = GlanceKeeper(humanoid)
    q = humanoid.random_configuration(5)
    for layout in layouts(humanoid):
        for position in (q, humanoid.neutral(), q):
            again, fresh = (
                used.look(layout, position),
                GlanceKeeper(humanoid).look(layout, position),
            )
            assert again.nullity == fresh.nullity and again.checks == fresh.checks
            np.testing.assert_allclose(again.torque_std, fresh.torque_std, rtol=1e-9)


def test_a_prior_counts_and_contradictions_are_told() -> None:
    robot = dynsys.synthetic.chain(2)
    layout = sensors.Layout(robot, sensors.zero_external_wrench_except(robot))
    q = robot.random_configuration(0)
    assert GlanceKeeper(robot).look(layout, q).nullity == 2
    with_prior = GlanceKeeper(robot, Prior({"qdd": 10.0})).look(layout, q)
    assert with_prior.is_complete and not with_prior.contradicts
    twice = [sensors.JointTorque(str(x), "link_1", value=x) for x in (0.0, 1.0)]
    contradictory = sensors.Layout(robot, [*layout.sensors, *twice])
    assert GlanceKeeper(robot).look(contradictory, q).contradicts


def told(limits: tuple[float | None, ...], hand_std: float) -> list[str]:
    """What is coarse on an arm of 100 N whose torques are known to 1 N m."""
    chain = dynsys.synthetic.chain(3)
    bodies = [
        replace(body, effort_limit=None if limit is None else [limit])
        for body, limit in zip(chain.bodies, limits, strict=True)
    ]
    robot = KinematicTree("arm", bodies, gravity=[0.0, 0.0, -100.0 / chain.total_mass])
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=1.0),
            sensors.ExternalWrench("hand", "link_3", std=hand_std),
            *sensors.zero_external_wrench_except(robot, ["link_3"]),
        ],
    )
    facts = glance_facts(robot, GlanceKeeper(robot).look(layout, robot.neutral()))
    assert facts["complete"]
    assert ("Everything is determined at this posture, but coarsely" in facts["words"]) == bool(
        facts["coarse"]
    )
    return [one["words"] for one in facts["coarse"]]


@pytest.mark.finding("Q-20")
def test_what_is_determined_but_coarse_beside_what_the_robot_carries_is_told() -> None:
    assert told((11.0, 11.0, 11.0), 9.0) == []
    torque, force = told((11.0, 9.0, 11.0), 11.0)  # worst first
    assert torque == "torque of link_2 ± 1 N m (its limit is 9)"
    assert force.startswith("force at link_3 ± 11 N (the robot weighs 100)")
    # where no limit is stated: the largest torque of gravity, which is less towards the tip
    (base,), (tip,) = told((None, 11.0, 11.0), 9.0), told((11.0, 11.0, None), 9.0)
    for joint, words in (("link_1", base), ("link_3", tip)):
        assert words.startswith(f"torque of {joint} ± 1 N m (no limit stated; gravity takes ")
    assert float(base.split()[-1].strip(")")) > 2 * float(tip.split()[-1].strip(")"))


@pytest.mark.finding("Q-23")
@pytest.mark.parametrize("axis", [(0.0, 0.0, 1.0), (0.6, 0.0, 0.8)])
def test_a_drive_that_carries_nothing_and_has_no_limit_is_never_known_finely(
    axis: tuple[float, float, float],
) -> None:
    """A wheel: gravity takes nothing of it, or what rounding leaves."""
    wheel = Inertia(1.0, 0.1 * np.array(axis), 0.01 * np.eye(3))
    robot = KinematicTree("wheel", [Body("wheel", -1, Revolute(axis), inertia=wheel)])
    untouched = sensors.zero_external_wrench_except(robot)
    for std, words in ((1e-6, ["± 1e-06 N m (no limit stated; gravity takes 0)"]), (0.0, [])):
        layout = sensors.Layout(robot, [sensors.JointTorque("t", "wheel", std=std), *untouched])
        facts = glance_facts(robot, GlanceKeeper(robot).look(layout, np.array([0.3])))
        assert facts["complete"]
        assert [one["words"].partition("wheel ")[2] for one in facts["coarse"]] == words


def test_unseen_forces_point_where_no_sensor_looks(humanoid: KinematicTree) -> None:
    """On two load-cell soles, equal and opposite forces on the feet stay unseen."""
    layout = sensors.catalogue.load("nao", humanoid)
    q = humanoid.random_configuration(1)
    seen = GlanceKeeper(humanoid).look(layout, q)
    feet = [humanoid.body_index(name) for name in ("l_foot", "r_foot")]
    forces = [
        np.asarray(dynsys.forward_kinematics(humanoid, q, seen.frames[i]).E).T
        @ seen.wrench_unseen[i, 3:, 0]
        for i in feet
    ]
    assert np.linalg.norm(forces[0]) > 0
    np.testing.assert_allclose(forces[0], -forces[1], atol=1e-7 * np.abs(forces[0]).max())


# ---- shapes and postures ---------------------------------------------------------------------


ROBOTS = ("humanoid30", "asimo", "chain", "random_tree")


@pytest.mark.parametrize("name", ROBOTS)
def test_every_body_can_be_drawn(name: str) -> None:
    build = getattr(dynsys.synthetic, name)
    robot = build(*{"chain": (4,), "random_tree": (12, 3)}.get(name, ()))
    scene = shapes.scene(robot)
    json.dumps(scene, allow_nan=False)
    for body in scene["bodies"]:
        assert body["balls"] and all(ball[3] > 0 for ball in body["balls"])


def test_the_last_link_is_drawn_as_a_box_of_its_inertia() -> None:
    """m/3 times the squares of half its sides: 12 by 8 by 3 cm; without mass there is none."""
    mass, half = 0.3, np.array([0.06, 0.04, 0.015])
    moments = np.diag(mass / 3 * (half @ half - half**2))
    box = Inertia(mass, np.array([0.0, 0.0, 0.5]), moments)
    placed = Transform(np.eye(3), np.array([0.0, 0.0, 0.5]))
    for inertia, corners in ((box, 4), (Inertia(0.0, np.zeros(3), np.zeros((3, 3))), 0)):
        arm = Body("arm", -1, Revolute([1, 0, 0]), inertia=box)
        hand = Body("hand", 0, Revolute([1, 0, 0]), placed, inertia, armature=[0.1])
        balls = shapes.scene(KinematicTree("one", [arm, hand]))["bodies"][1]["balls"][1:]
        assert len(balls) == corners
        if corners:
            ends = np.array([[np.add(b[:3], b[3]), np.subtract(b[:3], b[3])] for b in balls])
            sides = ends.max(axis=(0, 1)) - ends.min(axis=(0, 1))
            np.testing.assert_allclose(sides, 2 * half, atol=1e-3)


def test_a_joint_that_follows_another_has_no_freedom_of_its_own() -> None:
    leader, other = Body("a", -1, Revolute([0, 0, 1])), Body("c", 0, Revolute([0, 1, 0]))
    follower = Body("b", 0, Revolute([0, 0, 1]), coupling=Coupling(0, 2.0, 0.0))
    robot = KinematicTree("gripper", [leader, follower, other])
    found = [body["freedoms"] for body in shapes.scene(robot)["bodies"]]
    assert found == [1, 0, 1] and sum(found) == robot.nv


@pytest.mark.parametrize("seed", range(3))
def test_sliders_and_positions_are_the_same_posture(seed: int) -> None:
    robot = dynsys.synthetic.random_tree(
        8, seed, joint_types=("revolute", "prismatic", "spherical", "free", "planar")
    )
    q = robot.random_configuration(seed)
    again = posture.from_sliders(robot, posture.to_sliders(robot, q))
    for body in robot.body_names:
        here = dynsys.forward_kinematics(robot, q, body)
        there = dynsys.forward_kinematics(robot, again, body)
        np.testing.assert_allclose(here.E, there.E, atol=1e-9)
        np.testing.assert_allclose(here.r, there.r, atol=1e-9)
    robot.check_q(posture.first_posture(robot))
    with pytest.raises(StateError, match="sliders"):
        posture.from_sliders(robot, [0.0])


def test_masses_of_a_scene_have_four_digits() -> None:
    robot = CHAIN.with_parameters({"link_1.mass": 1.23456789}, physical=False)
    assert shapes.scene(robot)["bodies"][0]["mass"] == 1.2346


def test_the_torque_shown_of_a_ball_joint_is_its_largest() -> None:
    bodies = [Body("a", -1, Spherical(), inertia=CHAIN.bodies[0].inertia)]
    robot = KinematicTree("ball", bodies)
    own = [sensors.ExternalWrench("free", "a", value=0.0)]
    layout = sensors.Layout(robot, [*own, *sensors.all_joint_torques(robot, std=0.1)])
    e = Estimation(robot, layout).solve(
        robot.neutral(), np.zeros(3), {layout.names[1]: [1, -7, 2]}
    )
    glance = GlanceKeeper(robot).look(layout, robot.neutral())
    assert estimate_facts(e, glance)["torques"] == pytest.approx([7.0])
