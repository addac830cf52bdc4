"""operational_space: every method, every kind of coordinate, against the oracles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dynsys import (
    BodyMotion,
    CentreOfMass,
    KinematicTree,
    ModelError,
    OperationalSpace,
    RelativeMotion,
    SingularSystemError,
    StateError,
    operational_space,
    synthetic,
)
from dynsys.model.expanded import expanded_parent
from dynsys.model.joints import Revolute
from dynsys.model.spatial import Transform
from dynsys.model.tree import Body, Frame
from dynsys.operational.method import method_names
from dynsys.operational.methods.rjk import needed_blocks
from dynsys.operational.methods.y_factor import lambda_inverse
from dynsys.operational.sparse_jacobian import yd_factors
from dynsys.operational.tasks import AbstractTask
from dynsys.program.graph import Graph
from dynsys.recursive.crba import crba_scalars
from dynsys.recursive.kinematics import transforms
from dynsys.recursive.sparse_factors import ltdl_scalars
from dynsys.types import Array
from tests import oracles
from tests.strategies import seeds, trees

SPARSE = sorted(set(method_names()) - {"dense", "auto"})


@st.composite
def task_lists(draw: st.DrawFn, robot: KinematicTree) -> list[str | int | AbstractTask]:
    body = st.integers(0, robot.n_bodies - 1)
    kinds = st.one_of(
        body,
        body.map(lambda i: robot.body_names[i]),
        st.builds(RelativeMotion, body, st.integers(-1, robot.n_bodies - 1)),
        st.builds(BodyMotion, body, st.just(np.eye(6)[3:])),
        st.just(CentreOfMass()),
    )
    return draw(st.lists(kinds, min_size=1, max_size=4))


def expected_inverse(robot: KinematicTree, q: Array, J: Array) -> Array:
    return np.asarray(J @ np.linalg.solve(oracles.mass_matrix(robot, q), J.T))


@pytest.mark.slow
@given(data=st.data(), robot=trees(max_bodies=7), seed=seeds)
@settings(deadline=None)
def test_all_methods_agree_with_dense_algebra(
    data: st.DataObject, robot: KinematicTree, seed: int
) -> None:
    tasks, q = data.draw(task_lists(robot)), robot.random_configuration(seed)
    reference = operational_space(robot, q, tasks, method="dense")
    exact = expected_inverse(robot, q, reference.J)
    scale = max(1.0, float(np.abs(exact).max()))
    assert_allclose(reference.Lambda_inv, exact, atol=1e-10 * scale)
    for method in SPARSE:
        found = operational_space(robot, q, tasks, method=method)
        assert_allclose(found.J, reference.J, atol=1e-12)
        assert_allclose(found.Lambda_inv, exact, atol=1e-10 * scale)
        assert_allclose(found.Lambda_inv, found.Lambda_inv.T, atol=1e-12 * scale)


@pytest.mark.slow
@given(robot=trees(max_bodies=6), seed=seeds)
def test_jacobians_are_those_of_the_bodies(robot: KinematicTree, seed: int) -> None:
    q, last = robot.random_configuration(seed), robot.n_bodies - 1
    poses = oracles.body_poses(robot, q)
    J = [oracles.jacobian(robot, q, i) for i in range(robot.n_bodies)]
    found = operational_space(robot, q, [last, RelativeMotion(last, 0), CentreOfMass()]).J
    assert_allclose(found[:6], J[last], atol=1e-12)
    X = oracles.motion_matrix(np.linalg.inv(poses[0]) @ poses[last])
    assert_allclose(found[6:12], J[last] - X @ J[0], atol=1e-11)
    momentum = np.zeros((3, robot.nv))
    for i, body in enumerate(robot.bodies):
        point = J[i][3:] - oracles.skew_matrix(body.inertia.com) @ J[i][:3]
        momentum += body.inertia.mass * poses[i][:3, :3] @ point
    assert_allclose(found[12:], momentum / robot.total_mass, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("method", method_names())
def test_identities_of_operational_space(method: str) -> None:
    robot = synthetic.asimo()
    q, rng = robot.random_configuration(5), np.random.default_rng(0)
    tasks = ["left_leg_6", RelativeMotion("left_arm_7", "right_arm_7"), CentreOfMass()]
    x = operational_space(robot, q, tasks, method=method)
    H = oracles.mass_matrix(robot, q)
    assert_allclose(x.Lambda @ x.Lambda_inv, np.eye(15), atol=1e-9)
    assert_allclose(x.J @ x.Jbar, np.eye(15), atol=1e-9)
    assert_allclose(x.Jbar, np.linalg.solve(H, x.J.T @ x.Lambda), atol=1e-9)
    assert_allclose(x.N @ x.N, x.N, atol=1e-8)
    torque = x.N.T @ rng.normal(size=robot.nv)  # accelerates no coordinate
    assert_allclose(x.J @ np.linalg.solve(H, torque), 0.0, atol=1e-9)


def test_common_joints_do_not_enter_relative_motion() -> None:
    robot = synthetic.asimo()
    task = RelativeMotion("left_arm_7", "left_arm_3")
    J = operational_space(robot, robot.random_configuration(0), task).J
    moving = [robot.v_slice(f"left_arm_{k}").start for k in (4, 5, 6, 7)]
    assert np.flatnonzero(np.abs(J).max(axis=0)).tolist() == moving


def test_the_centre_of_mass_of_a_free_robot_sees_its_whole_mass() -> None:
    robot = synthetic.humanoid30()
    x = operational_space(robot, robot.random_configuration(2), CentreOfMass())
    assert_allclose(x.Lambda, robot.total_mass * np.eye(3), atol=1e-9)
    assert x.names == ("centre of mass x", "centre of mass y", "centre of mass z")


def test_frames_may_be_named() -> None:
    arm = synthetic.chain(7)
    tool = Frame(6, Transform(np.eye(3), np.array([0.0, 0.1, 0.2])))
    robot = KinematicTree("arm", arm.bodies, {"tool": tool})
    q = robot.random_configuration(0)
    x = operational_space(robot, q, "tool")
    J = tool.transform.matrix() @ oracles.jacobian(robot, q, 6)
    assert_allclose(x.J, J, atol=1e-12)
    assert_allclose(x.Lambda_inv, expected_inverse(robot, q, J), atol=1e-9)


def test_an_operational_space_is_analysed_once_for_many_states() -> None:
    robot = synthetic.humanoid30()
    space = OperationalSpace(robot, ["left_leg_6", "right_leg_6"], "rjk")
    for seed in range(3):
        q = robot.random_configuration(seed)
        once = operational_space(robot, q, ["left_leg_6", "right_leg_6"])
        assert_allclose(space.at(q).Lambda_inv, once.Lambda_inv, atol=1e-10)


def test_the_same_source_records_an_expression_graph() -> None:
    robot = synthetic.balanced_tree(3)
    space = OperationalSpace(robot, [3, RelativeMotion(4, 5)]).space
    graph, parent = Graph(), expanded_parent(robot)
    q_nodes = graph.inputs(robot.nq)
    L, diag = ltdl_scalars(crba_scalars(robot, q_nodes), parent)
    J = space.jacobian_scalars(transforms(robot, q_nodes))
    Yd, YD = yd_factors(J, L, diag, space.supports, parent)
    program = graph.program(list(lambda_inverse(YD, Yd, space.supports).ravel()))
    q = robot.random_configuration(1)
    exact = operational_space(robot, q, [3, RelativeMotion(4, 5)]).Lambda_inv
    assert_allclose(program.evaluate(q), exact.ravel(), atol=1e-10 * np.abs(exact).max())


# ---- failures ----------------------------------------------------------------------------


def test_a_singular_space_names_its_coordinates() -> None:
    x = operational_space(synthetic.chain(3), np.zeros(3), "link_3")
    assert x.Lambda_inv.shape == (6, 6)
    for quantity in ("Lambda", "Jbar", "N"):
        with pytest.raises(SingularSystemError, match=r"6 coordinates, 3 freedoms.*'link_3'"):
            getattr(x, quantity)


def test_bodies_that_cannot_be_moved_are_allowed_until_inverted() -> None:
    robot = synthetic.chain(7)
    x = operational_space(robot, robot.random_configuration(0), [-1, RelativeMotion(6, 6)])
    assert not x.Lambda_inv.any()
    with pytest.raises(SingularSystemError):
        _ = x.Lambda


@pytest.mark.parametrize("method", ["y_factor", "rjk", "chang_khatib", "pv_osimr"])
def test_a_joint_without_inertia_is_named(method: str) -> None:
    rod = synthetic.chain(2).bodies
    robot = KinematicTree("broken", [*rod, Body("tip", 1, Revolute(), joint_name="wrist")])
    with pytest.raises(SingularSystemError, match="wrist"):
        operational_space(robot, np.zeros(3), "tip", method=method)


def test_unknown_names_are_refused() -> None:
    robot = synthetic.humanoid30()
    q = robot.neutral()
    with pytest.raises(ModelError, match="did you mean 'left_leg_6'"):
        operational_space(robot, q, "left_leg6")
    with pytest.raises(ModelError, match=r"did you mean 'y_factor'.*rjk"):
        operational_space(robot, q, "torso", method="yfactor")
    with pytest.raises(ModelError, match="at least one"):
        operational_space(robot, q, [])
    with pytest.raises(ModelError, match=r"\(k, 6\)"):
        operational_space(robot, q, BodyMotion("torso", np.ones((2, 3))))
    with pytest.raises(StateError, match="shape"):
        operational_space(robot, q[:-1], "torso")


@pytest.mark.slow
@given(
    robot=trees(max_bodies=5, joint_types=("revolute", "prismatic"), coupled=True), seed=seeds
)
def test_coupled_joints_take_the_dense_way(robot: KinematicTree, seed: int) -> None:
    q, tip = robot.random_configuration(seed), robot.n_bodies - 1
    J = oracles.jacobian(robot, q, tip)
    found = operational_space(robot, q, tip, method="dense")
    assert_allclose(found.J, J, atol=1e-12)
    exact = expected_inverse(robot, q, J)
    assert_allclose(found.Lambda_inv, exact, atol=1e-9 * max(1.0, np.abs(exact).max()))
    if robot.is_coupled:
        with pytest.raises(ModelError, match="dense"):
            operational_space(robot, q, tip, method="y_factor")


# ---- need --------------------------------------------------------------------------------


def test_printed_need_loses_blocks_below_the_diagonal() -> None:
    parent = [-1, 0, 1, 2, 0]  # a long branch numbered before a short one
    assert needed_blocks(parent, [3, 4], as_printed=True) == [
        *((0, 0), (1, 1), (2, 2), (3, 3), (3, 4), (4, 4))
    ]
    assert needed_blocks(parent, [3, 4]) == sorted(
        [*((0, 0), (0, 1), (0, 2), (1, 1), (2, 2), (3, 3), (3, 4), (4, 4))]
    )
