"""Kernels of single quantities against NumPy: all robots, one state and batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynsys import (
    KernelBuildError,
    KinematicTree,
    ModelError,
    SingularSystemError,
    forward_kinematics,
    ltdl,
    operational_space,
    specialise,
    synthetic,
)
from dynsys.kernel import quantities
from dynsys.kernel.cache import KernelCache
from dynsys.kernel.kernel import Kernel
from dynsys.kernel.llvm.ltdl import ltdl_computation
from dynsys.kernel.llvm.matrix_tails import own_supports
from dynsys.kernel.quantities import Quantity, quantity_computation
from dynsys.model.expanded import expanded_parent
from dynsys.model.spatial import Transform
from dynsys.model.tree import Coupling, Frame
from dynsys.recursive.common_frame import articulated_freedoms, composite_freedoms
from dynsys.recursive.crba import crba
from dynsys.recursive.inverse import (
    inertia_from_composites,
    inverse_from_articulated,
    operational_inverse,
)
from dynsys.recursive.jacobian import jacobian
from dynsys.types import Array
from tests.kernel.quantities import TOLERANCE, close, square, states

ROBOTS: dict[str, Callable[[], KinematicTree]] = {
    "chain3": lambda: synthetic.chain(3),
    "chain17": lambda: synthetic.chain(17, generic=True),
    "chain21": lambda: synthetic.chain(21),
    "humanoid30": synthetic.humanoid30,
    "balanced": lambda: synthetic.balanced_tree(4),
    "mixed joints": lambda: synthetic.random_tree(14, 3),
    "scattered": lambda: synthetic.random_tree(23, 5, ["revolute", "prismatic", "spherical"]),
}


@pytest.fixture(scope="module", params=sorted(ROBOTS))
def robot(request: pytest.FixtureRequest) -> KinematicTree:
    return ROBOTS[request.param]()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> KernelCache:
    return KernelCache(tmp_path_factory.mktemp("kernels"))


def evaluated(kernel: Kernel, q: Array) -> Array:
    """The matrix of every state, one by one and in a batch: both must agree."""
    (rows,), finite = kernel.batch(q)
    single = np.array([kernel.one(x)[0][0] for x in q])
    assert finite
    close(rows, single, 1e-12)
    return square(single)


@pytest.mark.slow
def test_inertia(robot: KinematicTree, cache: KernelCache) -> None:
    q = states(robot)
    H = evaluated(specialise(robot, "inertia", cache=cache), q)
    close(H, np.array([crba(robot, x) for x in q]))
    np.testing.assert_array_equal(H, H.transpose(0, 2, 1))
    supports = own_supports(expanded_parent(robot))
    for i in range(robot.nv):
        for j in set(range(i)) - supports[i]:
            assert not H[:, i, j].any()


@pytest.mark.slow
def test_inverse_inertia(robot: KinematicTree, cache: KernelCache) -> None:
    q = states(robot)
    inverse = evaluated(specialise(robot, "inverse_inertia", cache=cache), q)
    H = np.array([crba(robot, x) for x in q])
    expected = np.linalg.inv(H)
    close(inverse, expected, 1e-15 * float(np.linalg.cond(H).max()) + TOLERANCE)
    np.testing.assert_array_equal(inverse, inverse.transpose(0, 2, 1))


@pytest.mark.slow
def test_ltdl(robot: KinematicTree, cache: KernelCache) -> None:
    kernel = specialise(robot, "ltdl", cache=cache)
    H = np.array([crba(robot, x) for x in states(robot)])
    (rows, diagonals), finite = kernel.batch(H.reshape(len(H), -1))
    assert finite
    for matrix, row, diagonal in zip(H, rows, diagonals, strict=True):
        L, diag = ltdl(matrix, expanded_parent(robot))
        close(square(row), L)
        close(diagonal, diag)
        (single, _), _ = kernel.one(np.ravel(matrix))
        np.testing.assert_array_equal(single, row)


@pytest.mark.slow
def test_operational_space_inverse(robot: KinematicTree, cache: KernelCache) -> None:
    bodies: list[str | int] = [robot.body_names[-1], robot.body_names[0], robot.n_bodies // 2]
    check_operational_space(robot, bodies, cache)


@pytest.mark.slow
def test_operational_space_of_one_body(cache: KernelCache) -> None:
    check_operational_space(synthetic.chain(17, generic=True), [12], cache)


def check_operational_space(
    robot: KinematicTree, bodies: list[str | int], cache: KernelCache
) -> None:
    kernel = specialise(robot, "operational_space_inverse", bodies=bodies, cache=cache)
    q = states(robot)
    expected = [operational_space(robot, x, bodies, method="dense").Lambda_inv for x in q]
    close(evaluated(kernel, q), np.array(expected), 1e-9)


@pytest.mark.slow
def test_operational_space_of_frames_and_of_the_base(cache: KernelCache) -> None:
    plain = synthetic.humanoid30()
    shift = Transform(np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]]), np.array([0.1, 0.2, 0.3]))
    tool = Frame(plain.body_index("left_arm_6"), shift)
    robot = KinematicTree(
        plain.name, plain.bodies, frames={"tool": tool, "table": Frame(-1, shift)}
    )
    bodies = ["tool", "table", "right_leg_6", "left_arm_6"]
    q = states(robot)
    kernel = specialise(robot, "operational_space_inverse", bodies=bodies, cache=cache)
    expected = []
    for x in q:
        J = np.vstack(
            [
                np.zeros((6, robot.nv)) if name == "table" else jacobian(robot, x, name)
                for name in bodies
            ]
        )
        expected.append(J @ np.linalg.solve(crba(robot, x), J.T))
    close(evaluated(kernel, q), np.array(expected))


@pytest.mark.slow
def test_jacobian_and_pose(robot: KinematicTree, cache: KernelCache) -> None:
    body = robot.body_names[-1]
    J = specialise(robot, "jacobian", body, cache=cache)
    pose = specialise(robot, "pose", body, cache=cache)
    for q in states(robot, 3):
        close(J.one(q)[0][0].reshape(6, -1), jacobian(robot, q, body))
        X = forward_kinematics(robot, q, body)
        close(pose.one(q)[0][0], np.concatenate([np.ravel(X.E), X.r]))


def test_twins_of_the_tails_agree_with_dense_algebra(robot: KinematicTree) -> None:
    q = states(robot, 1)[0]
    bodies, _ = articulated_freedoms(robot, q)
    H = crba(robot, q)
    close(inertia_from_composites(composite_freedoms(robot, q), expanded_parent(robot)), H)
    tolerance = 1e-15 * float(np.linalg.cond(H)) + TOLERANCE
    inverse: Array = inverse_from_articulated(bodies, expanded_parent(robot))
    close(inverse @ H, np.eye(robot.nv), tolerance)
    x = np.random.default_rng(0).normal(size=(6, 2))
    last = own_supports(expanded_parent(robot))[-1]
    J = np.zeros((2, robot.nv))
    J[:, sorted(last)] = x.T @ bodies.motion[:, sorted(last)]
    expected: Array = J @ np.linalg.solve(H, J.T)
    close(operational_inverse(bodies, x, [last, last]), expected, tolerance)


# ---- failures --------------------------------------------------------------------------------


def test_quaternion_without_unit_norm_is_not_answered(cache: KernelCache) -> None:
    robot = synthetic.humanoid30()
    q = states(robot, 1)[0]
    q[robot.quaternion_slices[0]] *= 1.1
    for quantity in ("inertia", "inverse_inertia"):
        kernel = specialise(robot, quantity, cache=cache)
        assert not kernel.one(q)[1]
        assert not kernel.batch(q[None])[1]


def test_inverse_names_the_joint_without_inertia(cache: KernelCache) -> None:
    robot = synthetic.chain(20)
    last = robot.bodies[-1]
    weightless = replace(last, inertia=type(last.inertia).zero())
    bad = KinematicTree("weightless", [*robot.bodies[:-1], weightless])
    with pytest.raises(SingularSystemError, match=robot.joint_names[-1]):
        specialise(bad, "inverse_inertia", cache=cache)


def test_coupled_joints(cache: KernelCache) -> None:
    plain = synthetic.chain(4)
    follower = replace(plain.bodies[3], coupling=Coupling(1, 2.0, 0.1))
    robot = KinematicTree("coupled", [*plain.bodies[:3], follower])
    q = states(robot)
    H = evaluated(specialise(robot, "inertia", cache=cache), q)
    close(H, np.array([crba(robot, x) for x in q]))
    with pytest.raises(ModelError, match="mimic"):
        specialise(robot, "inverse_inertia", cache=cache)


@pytest.mark.parametrize(
    ("quantity", "bodies", "message"),
    [
        ("mass", (), "no quantity"),
        ("pose", (), "name the one body"),
        ("operational_space_inverse", (), "bodies="),
    ],
)
def test_what_cannot_be_specialised(
    quantity: Quantity, bodies: tuple[str, ...], message: str
) -> None:
    with pytest.raises(KernelBuildError, match=message):
        specialise(synthetic.chain(3), quantity, bodies=bodies)
    with pytest.raises(KernelBuildError, match="float16"):
        specialise(synthetic.chain(3), "inertia", dtype="float16")


def test_ltdl_of_a_very_large_tree_points_to_the_loops() -> None:
    with pytest.raises(KernelBuildError, match=r"dynsys\.ltdl"):
        ltdl_computation(np.arange(-1, 199), 4)


@pytest.mark.slow
def test_second_kernel_comes_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot, cache = synthetic.chain(18), KernelCache(tmp_path)
    first = specialise(robot, "inverse_inertia", cache=cache)
    monkeypatch.setattr(quantities, "quantity_computation", None)
    second = specialise(robot, "inverse_inertia", cache=cache)
    q = states(robot)
    np.testing.assert_array_equal(first.batch(q)[0][0], second.batch(q)[0][0])
    monkeypatch.setattr(quantities, "quantity_computation", quantity_computation)
    longer = specialise(robot, "operational_space_inverse", bodies=[4, 17], cache=cache)
    assert longer.signature.n_outputs == 144


@pytest.mark.slow
def test_operational_space_watches_quaternions_of_a_second_tree(cache: KernelCache) -> None:
    arm, floating = synthetic.chain(4), synthetic.humanoid30()
    moved = [
        replace(body, parent=body.parent + arm.n_bodies if body.parent >= 0 else -1)
        for body in floating.bodies
    ]
    robot = KinematicTree("both", [*arm.bodies, *moved])
    bodies = ["left_arm_6", "right_leg_6"]
    kernel = specialise(robot, "operational_space_inverse", bodies=bodies, cache=cache)
    q = states(robot)
    expected = [operational_space(robot, x, bodies, method="dense").Lambda_inv for x in q]
    close(evaluated(kernel, q), np.array(expected))
    q[:, robot.quaternion_slices[0]] *= 0.9
    assert not kernel.one(q[0])[1]
    assert not kernel.batch(q)[1]


def test_frames_of_one_name_at_two_places_have_two_kernels(cache: KernelCache) -> None:
    arm, q = synthetic.chain(3), np.array([0.1, 0.2, 0.3])
    for k in range(2):
        tool = Frame(2, Transform(np.eye(3), np.array([0.0, 0.1 * k, 0.0])))
        robot = KinematicTree("arm", arm.bodies, {"tool": tool})
        (J,), _ = specialise(robot, "jacobian", "tool", cache=cache).one(q)
        np.testing.assert_allclose(J, jacobian(robot, q, "tool").ravel(), atol=1e-12)
