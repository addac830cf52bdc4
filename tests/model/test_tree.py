"""KinematicTree: names and places, coupling, states at the boundary, immutability."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import dynsys
from dynsys import KinematicTree, ModelError, StateError
from dynsys.model.joints import Fixed, Free, Planar, Prismatic, Revolute, Spherical
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.synthetic import cloud_inertia
from dynsys.model.tree import Body, Coupling, Frame
from tests import oracles, strategies

UNIT = Inertia(1.0, np.zeros(3), np.eye(3))


def arm(**changes: object) -> KinematicTree:
    """Return base -> shoulder -> elbow, with changes to the elbow."""
    elbow = {"name": "elbow", "parent": 0, "joint": Revolute(), "inertia": UNIT, **changes}
    return KinematicTree(
        "arm", [Body("shoulder", -1, Spherical(), inertia=UNIT), Body(**elbow)]
    )  # type: ignore[arg-type]


# ---- names and places ---------------------------------------------------------------------


def test_places_follow_the_order_of_the_bodies() -> None:
    bodies = [
        Body("torso", -1, Free(), joint_name="root"),
        Body("plate", 0, Fixed()),
        Body("ball", 1, Spherical()),
        Body("rail", 1, Prismatic()),
    ]
    robot = KinematicTree("places", bodies)
    assert (robot.n_bodies, robot.nq, robot.nv) == (4, 12, 10)
    assert robot.joint_names == ("root", "plate", "ball", "rail")
    assert robot.q_slice("root") == slice(0, 7)
    assert robot.v_slice("root") == slice(0, 6)
    assert robot.q_slice("plate") == slice(7, 7)
    assert (robot.q_slice("ball"), robot.v_slice("ball")) == (slice(7, 11), slice(6, 9))
    assert (robot.q_slice("rail"), robot.v_slice("rail")) == (slice(11, 12), slice(9, 10))
    assert robot.children == ((1,), (2, 3), (), ())
    assert robot.support(3) == (0, 1, 3)
    assert repr(robot) == "KinematicTree('places', n_bodies=4, nq=12, nv=10)"


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(
        ModelError, match="robot 'arm' has no joint 'elbo'; did you mean 'elbow'"
    ):
        arm().v_slice("elbo")
    with pytest.raises(ModelError, match="no body or frame 'shulder'; did you mean 'shoulder'"):
        arm().body_index("shulder")
    with pytest.raises(ModelError, match=r"has bodies 0\.\.1, no body 2"):
        arm().frame(2)


def test_frames_are_found_by_name_and_number() -> None:
    tip = Frame(1, Transform(np.eye(3), np.array([0.0, 0.0, 0.3])))
    robot = KinematicTree("arm", arm().bodies, frames={"tip": tip})
    assert robot.frame("tip") is tip
    assert robot.body_index("tip") == robot.body_index("elbow") == robot.body_index(1) == 1
    assert robot.frame(-1).body == -1


@pytest.mark.slow
@given(strategies.trees(coupled=True))
def test_places_cover_q_and_v_without_overlap(robot: KinematicTree) -> None:
    own = [i for i, body in enumerate(robot.bodies) if body.coupling is None]
    for places, size in ((robot.q_slices(), robot.nq), (robot.v_slices(), robot.nv)):
        taken = [k for i in own for k in range(places[i].start, places[i].stop)]
        assert taken == list(range(size))
    for i, body in enumerate(robot.bodies):
        if body.coupling is not None:
            assert robot.v_slices()[i] == robot.v_slices()[body.coupling.leader]


# ---- kinematics of the whole tree ---------------------------------------------------------


@pytest.mark.slow
@given(strategies.trees(coupled=True), st.data())
def test_joint_transforms_are_the_oracles_poses(
    robot: KinematicTree, data: st.DataObject
) -> None:
    q, _, _ = data.draw(strategies.motions(robot))
    poses = oracles.body_poses(robot, q)
    for i, parent in enumerate(robot.parent):
        above = poses[parent] if parent >= 0 else np.eye(4)
        expected = oracles.motion_matrix(np.linalg.inv(above) @ poses[i])
        assert_allclose(robot.joint_transform(i, q).matrix(), expected, atol=1e-12)


@pytest.mark.slow
@given(strategies.trees(coupled=True), st.data())
def test_pattern_covers_every_transform(robot: KinematicTree, data: st.DataObject) -> None:
    q, _, _ = data.draw(strategies.motions(robot))
    for i, pattern in enumerate(robot.transform_pattern):
        X = np.asarray(robot.joint_transform(i, q).matrix())
        assert not X[~pattern].any(), robot.bodies[i].joint


def coupled_arm() -> KinematicTree:
    bodies = [
        Body("a", -1, Revolute(), inertia=UNIT, armature=0.1),
        Body("b", 0, Prismatic(), inertia=UNIT, armature=[0.2], coupling=Coupling(0, 3.0, 0.5)),
        Body("c", 1, Revolute(), inertia=UNIT),
    ]
    return KinematicTree("coupled", bodies)


def test_coupled_joint_shares_its_leaders_freedom() -> None:
    robot = coupled_arm()
    assert robot.is_coupled
    assert not arm().is_coupled
    assert (robot.nq, robot.nv) == (2, 2)
    assert robot.v_slice("b") == robot.v_slice("a") == slice(0, 1)
    assert robot.v_slice("c") == slice(1, 2)
    assert_allclose(robot.joint_position(1, np.array([0.2, 0.0])), [1.1])
    assert_allclose(robot.motion_subspace[1][:, 0], [0, 0, 0, 0, 0, 3.0])
    assert_allclose(robot.armature, [0.1 + 9.0 * 0.2, 0.0])


@pytest.mark.finding("F6")
def test_armature_of_coupled_joints_is_written_as_it_is_read() -> None:
    robot, q, v = coupled_arm(), np.array([0.3, -0.2]), np.array([0.7, 1.1])
    same = robot.with_armature(robot.armature)
    assert_allclose(same.armature, robot.armature)
    assert_allclose(dynsys.crba(same, q), dynsys.crba(robot, q))
    other = robot.with_armature([0.05, 0.3])
    assert_allclose(other.armature, [0.05, 0.3])
    none = np.zeros(2)
    change = dynsys.rnea(other, q, none, v) - dynsys.rnea(robot, q, none, v)
    assert_allclose(change, (other.armature - robot.armature) * v, atol=1e-12)
    assert not robot.with_armature(none).armature.any()


# ---- data per freedom -----------------------------------------------------------------------


def test_data_per_freedom_is_gathered_with_defaults() -> None:
    robot = arm(damping=2.0, effort_limit=[5.0], lower=[-1.0], upper=[2.0])
    assert_allclose(robot.damping, [0, 0, 0, 2.0])
    assert_allclose(robot.friction, np.zeros(4))
    assert_allclose(robot.effort_limit, [np.inf, np.inf, np.inf, 5.0])
    lower, upper = robot.position_limits
    assert_allclose(lower, [-np.inf] * 4 + [-1.0])
    assert_allclose(upper, [np.inf] * 4 + [2.0])
    q = np.array([robot.random_configuration(seed)[4] for seed in range(50)])
    assert ((q >= -1.0) & (q <= 2.0)).all()


def test_random_configuration_is_reproducible() -> None:
    one, other = arm().random_configuration(3), arm().random_configuration(3)
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one, arm().random_configuration(4))


def test_variants_keep_everything_else() -> None:
    robot = arm(damping=2.0)
    moon = robot.with_gravity((0.0, 0.0, -1.62))
    assert_allclose(moon.gravity, [0, 0, -1.62])
    geared = robot.with_armature([0.0, 0.0, 0.0, 0.7])
    assert_allclose(geared.armature, [0, 0, 0, 0.7])
    assert_allclose(robot.armature, np.zeros(4))
    for variant in (moon, geared):
        assert variant.body_names == robot.body_names
        assert_allclose(variant.damping, robot.damping)
    with pytest.raises(StateError, match="armature of robot 'arm' must have shape"):
        robot.with_armature([1.0])


# ---- states at the boundary -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("q", "message"),
    [
        (np.zeros(4), "q of robot 'arm' must have shape (5,), got (4,)"),
        (np.zeros((5, 1)), "q of robot 'arm' must have shape (5,), got (5, 1)"),
        ([0, 0, 0, 1, np.nan], "q[4] of robot 'arm' (joint 'elbow') is nan"),
        ([np.inf, 0, 0, 1, 0], "q[0] of robot 'arm' (joint 'shoulder') is inf"),
        (np.zeros(5), "quaternion of joint 'shoulder' (x, y, z, w at 0:4) has norm 0"),
        (["a", "b"], "q of robot 'arm' is not numeric"),
    ],
)
def test_bad_positions_are_named(q: object, message: str) -> None:
    with pytest.raises(StateError, match=re.escape(message)):
        arm().check_q(q)  # type: ignore[arg-type]


def test_bad_velocities_are_named() -> None:
    with pytest.raises(
        StateError, match=r"qd of robot 'arm' must have shape \(4,\), got \(5,\)"
    ):
        arm().check_v(np.zeros(5), "qd")
    with pytest.raises(
        StateError, match=r"torque\[3\] of robot 'arm' \(joint 'elbow'\) is nan"
    ):
        arm().check_v([0, 0, 0, np.nan], "torque")


def test_good_states_come_back_as_floats() -> None:
    assert arm().check_q([0, 0, 0, 1, 2]).dtype == np.float64
    assert arm().check_v([1, 2, 3, 4], "qd").tolist() == [1.0, 2.0, 3.0, 4.0]


def test_integration_refuses_bad_steps() -> None:
    robot = arm()
    with pytest.raises(StateError, match="dt must be a finite number"):
        robot.integrate(robot.neutral(), np.zeros(4), np.nan)
    with pytest.raises(StateError, match="v of robot 'arm'"):
        robot.integrate(robot.neutral(), np.zeros(3), 0.1)


@pytest.mark.slow
@given(strategies.trees(coupled=True), strategies.seeds)
def test_integration_there_and_back(robot: KinematicTree, seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, v = robot.random_configuration(rng), rng.normal(size=robot.nv)
    there = robot.integrate(q, v, 0.7)
    robot.check_q(there)
    back = robot.integrate(there, v, -0.7)
    for here, again in zip(
        oracles.body_poses(robot, q), oracles.body_poses(robot, back), strict=True
    ):
        assert_allclose(again, here, atol=1e-11)


# ---- immutability ---------------------------------------------------------------------------


def test_attributes_cannot_be_replaced() -> None:
    robot = arm()
    with pytest.raises(FrozenInstanceError):
        robot.name = "leg"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        robot.bodies[0].parent = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        robot.frames["tip"] = Frame(0, Transform.identity())  # type: ignore[index]


def test_arrays_are_read_only() -> None:
    robot = arm(armature=np.ones(3), joint=Planar(), lower=np.zeros(3), upper=np.ones(3))
    body = robot.bodies[1]
    arrays = [
        robot.parent,
        robot.gravity,
        robot.armature,
        robot.damping,
        *robot.position_limits,
        *robot.motion_subspace,
        *robot.transform_pattern,
        body.placement.E,
        body.placement.r,
        body.inertia.com,
        body.inertia.about_com,
        body.armature,
        body.lower,
        body.joint.axis,  # type: ignore[attr-defined]
    ]
    for array in arrays:
        assert isinstance(array, np.ndarray)
        assert not array.flags.writeable


def test_the_callers_arrays_stay_its_own() -> None:
    com, gravity, offset = np.zeros(3), np.array([0.0, 0.0, -9.81]), np.zeros(3)
    body = Body("b", -1, Revolute(), Transform(np.eye(3), offset), Inertia(1.0, com, np.eye(3)))
    robot = KinematicTree("mine", [body], gravity=gravity)
    com[0] = gravity[0] = offset[0] = 5.0
    assert not robot.bodies[0].inertia.com.any()
    assert not robot.bodies[0].placement.r.any()
    assert robot.gravity[0] == 0.0


def test_plain_lists_are_good_enough() -> None:
    placement = Transform([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [0, 0, 1])  # type: ignore[arg-type]
    inertia = cloud_inertia(np.random.default_rng(0))
    plain = Inertia(inertia.mass, inertia.com.tolist(), inertia.about_com.tolist())
    robot = KinematicTree("plain", [Body("b", -1, Revolute(), placement, plain)])
    assert_allclose(robot.bodies[0].inertia.matrix(), inertia.matrix())
    assert_allclose(robot.joint_transform(0, np.zeros(1)).r, [0, 0, 1])
