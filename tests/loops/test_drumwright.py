"""M^-1 and M^-1 R: all methods against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import dynsys
from dynsys import (
    InverseInertia,
    KinematicTree,
    ModelError,
    SingularSystemError,
    StateError,
    inverse_inertia,
    inverse_inertia_times,
    synthetic,
)
from dynsys.loops import drumwright
from dynsys.loops.drumwright import Freedoms
from dynsys.loops.flat import flat_robot
from dynsys.loops.inverse_inertia import Method, Sizes, choose
from dynsys.loops.tree_state import TreeState
from dynsys.model.joints import Revolute
from dynsys.model.tree import Body
from tests import oracles
from tests.strategies import seeds, trees

METHODS: tuple[Method, ...] = ("drumwright", "ltdl", "dense", "auto")


# ---- the inverse -------------------------------------------------------------------------


@pytest.mark.slow
@given(robot=trees(max_bodies=8), seed=seeds, columns=st.integers(0, 5))
@settings(deadline=None, max_examples=40)
def test_all_methods_agree_with_dense_algebra(
    robot: KinematicTree, seed: int, columns: int
) -> None:
    q = robot.random_configuration(seed)
    exact = np.linalg.inv(oracles.mass_matrix(robot, q))
    R = np.random.default_rng(seed).normal(size=(robot.nv, columns))
    R[::2, ::2] = 0.0
    scale = float(np.abs(exact).max(initial=1.0))
    for method in METHODS:
        found = inverse_inertia(robot, q, method)
        assert_allclose(found, exact, atol=1e-10 * scale)
        assert_allclose(found, found.T, atol=1e-12 * scale)
        times = inverse_inertia_times(robot, q, R, method)
        assert_allclose(times, exact @ R, atol=1e-9 * scale)


@pytest.mark.slow
@pytest.mark.parametrize(
    "robot",
    [
        synthetic.chain(70),
        synthetic.humanoid30(),
        synthetic.centipede(8),
        synthetic.balanced_tree(6),
        synthetic.humanoid30().with_armature(np.linspace(0.0, 0.2, 30)),
    ],
    ids=lambda robot: robot.name,
)
def test_blocks_and_threads_change_nothing(robot: KinematicTree) -> None:
    q = robot.random_configuration(3)
    H = dynsys.recursive.crba(robot, q)
    exact = np.linalg.inv(H)
    scale = float(np.abs(exact).max())
    R = np.random.default_rng(0).normal(size=(robot.nv, 2 * drumwright.BLOCK + 5))
    for threads in (1, 2, 3):
        found = inverse_inertia(robot, q, "drumwright", threads)
        assert_allclose(found, exact, atol=1e-10 * scale)
        times = inverse_inertia_times(robot, q, R, "drumwright", threads)
        assert_allclose(times, np.linalg.solve(H, R), atol=1e-9 * scale)


def test_the_floating_base_may_be_inverted_at_once_or_freedom_by_freedom() -> None:
    robot = synthetic.humanoid30()
    state = TreeState(robot, robot.random_configuration(1))
    freedoms = Freedoms.at(state)
    assert drumwright.floating_base(state.tree)
    once, singly = (drumwright.inverse(freedoms, base) for base in (True, False))
    assert_allclose(once, singly, atol=1e-12 * np.abs(once).max())


def test_two_robots_on_one_base_have_no_floating_base() -> None:
    free = synthetic.humanoid30().bodies[0]
    other = Body("second", -1, Revolute(), inertia=free.inertia)
    two = KinematicTree("two", [free, other])
    assert not drumwright.floating_base(flat_robot(two).tree)


def test_a_vector_gives_a_vector_and_leaves_its_input_alone() -> None:
    robot = synthetic.chain(5)
    q, r = robot.random_configuration(0), np.arange(5.0)
    for method in METHODS:
        x = inverse_inertia_times(robot, q, r, method)
        assert x.shape == (5,)
        assert_allclose(dynsys.recursive.crba(robot, q) @ x, np.arange(5.0), atol=1e-10)
    assert r.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_far_from_the_origin_digits_are_kept() -> None:
    robot = synthetic.humanoid30()
    q = robot.random_configuration(2)
    near = inverse_inertia(robot, q, "drumwright")
    q[:3] = 1e5
    assert_allclose(inverse_inertia(robot, q, "drumwright"), near, atol=1e-9)


def test_auto_follows_size_and_shape() -> None:
    assert choose(Sizes.of(synthetic.chain(300)), 300, inverse=True) == "drumwright"
    assert choose(Sizes.of(synthetic.chain(7)), 1, inverse=False) == "dense"
    assert choose(Sizes.of(synthetic.balanced_tree(6)), 63, inverse=True) == "ltdl"


# ---- failures ----------------------------------------------------------------------------


@given(
    robot=trees(max_bodies=5, joint_types=("revolute", "prismatic"), coupled=True), seed=seeds
)
@settings(deadline=None, max_examples=40)
def test_coupled_joints_take_the_dense_way(robot: KinematicTree, seed: int) -> None:
    q = robot.random_configuration(seed)
    exact = np.linalg.inv(oracles.mass_matrix(robot, q))
    scale = float(np.abs(exact).max(initial=1.0))
    assert_allclose(inverse_inertia(robot, q), exact, atol=1e-9 * scale)
    if robot.is_coupled:
        with pytest.raises(ModelError, match="dense"):
            inverse_inertia(robot, q, "drumwright")


@pytest.mark.parametrize("method", ["drumwright", "ltdl"])
def test_a_joint_without_inertia_is_named(method: Method) -> None:
    rod = synthetic.chain(2).bodies
    robot = KinematicTree("broken", [*rod, Body("tip", 1, Revolute(), joint_name="wrist")])
    with pytest.raises(SingularSystemError, match="wrist"):
        inverse_inertia(robot, np.zeros(3), method)
    with pytest.raises(SingularSystemError, match="broken"):
        inverse_inertia(robot, np.zeros(3), "dense")


def test_bad_arguments_are_refused() -> None:
    robot = synthetic.chain(3)
    q = robot.neutral()
    with pytest.raises(ModelError, match="did you mean 'drumwright'"):
        inverse_inertia(robot, q, "drumwrigth")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="threads"):
        InverseInertia(robot, threads=0)
    with pytest.raises(StateError, match="3 rows"):
        inverse_inertia_times(robot, q, np.ones(4))
    with pytest.raises(StateError, match=r"R\[1, 0\] is nan"):
        inverse_inertia_times(robot, q, np.array([1.0, np.nan, 0.0]))
    with pytest.raises(StateError, match="shape"):
        inverse_inertia(robot, q[:-1])
