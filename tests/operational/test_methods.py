"""Chang-Khatib, PV-OSIMr and auto: plans, complexity, choice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dynsys import KinematicTree, OperationalSpace, operational_space, synthetic
from dynsys.operational.methods import auto
from dynsys.operational.methods.auto import UNITS, choose, features
from dynsys.operational.methods.chang_khatib import plan_recursion
from dynsys.operational.methods.pv_osimr import compose_chains, reduce_tree
from dynsys.operational.sparse_jacobian import ancestor
from tests import oracles
from tests.recursive.trees import parents
from tests.strategies import seeds, trees

RECURSIVE = ("chang_khatib", "pv_osimr", "auto")


@pytest.mark.slow
@given(robot=trees(max_bodies=10), seed=seeds, data=st.data())
@settings(deadline=None, max_examples=40)
def test_tips_and_interior_bodies_in_any_number(
    robot: KinematicTree, seed: int, data: st.DataObject
) -> None:
    body = st.integers(0, robot.n_bodies - 1)
    bodies = data.draw(st.lists(body, min_size=1, max_size=6))
    q = robot.random_configuration(seed)
    J = np.vstack([oracles.jacobian(robot, q, i) for i in bodies])
    exact = J @ np.linalg.solve(oracles.mass_matrix(robot, q), J.T)
    scale = max(1.0, float(np.abs(exact).max()))
    for method in RECURSIVE:
        found = operational_space(robot, q, bodies, method=method).Lambda_inv
        assert_allclose(found, exact, atol=1e-10 * scale)


# ---- plans -------------------------------------------------------------------------------


@given(parent=parents(max_size=20), data=st.data())
def test_every_block_comes_after_its_source_and_once(
    parent: np.ndarray[tuple[int], np.dtype[np.intp]], data: st.DataObject
) -> None:
    body = st.integers(0, len(parent) - 1)
    bodies = sorted(data.draw(st.sets(body, min_size=1, max_size=6)))
    plan = plan_recursion(parent, bodies)
    sources = np.where(plan.source < -1, -2 - plan.source, plan.source)
    assert (sources < np.arange(len(sources))).all()
    assert len(plan.place) == len(plan.body)
    for i in bodies:
        for j in bodies:
            joined = ancestor(parent, i, j) >= 0
            assert (plan.find(i, j) != -1) == joined
    assert len(plan.body) <= 2 * len(parent) * len(bodies)


def test_blocks_grow_with_n_times_m() -> None:
    for n in (30, 300):
        chain = list(range(-1, n - 1))
        assert len(plan_recursion(chain, [n - 1]).body) == n
        assert len(plan_recursion(chain, [n // 2, n - 1]).body) == n + n - 1 - n // 2


@given(parent=parents(max_size=20), data=st.data())
def test_the_reduced_tree_has_fewer_than_two_bodies_per_operational_one(
    parent: np.ndarray[tuple[int], np.dtype[np.intp]], data: st.DataObject
) -> None:
    body = st.integers(0, len(parent) - 1)
    bodies = data.draw(st.lists(body, min_size=1, max_size=6))
    tree = reduce_tree(parent, bodies)
    assert set(bodies) <= set(tree.place)
    assert len(tree.body) < 2 * len(set(bodies))
    ways = {i for b in bodies for i in _way(parent.tolist(), b)}
    assert sorted(tree.chain.tolist()) == sorted(ways)


def _way(parent: list[int], body: int) -> list[int]:
    way = []
    while body >= 0:
        way.append(body)
        body = parent[body]
    return way


# ---- auto --------------------------------------------------------------------------------


@pytest.mark.slow
def test_auto_chooses_a_method_and_gives_its_answers() -> None:
    robot = synthetic.asimo()
    q, bodies = robot.random_configuration(0), ["left_leg_6", "right_arm_7"]
    space = OperationalSpace(robot, bodies, "auto")
    assert isinstance(space.method, auto.Method)
    assert space.method.chosen in UNITS
    x, exact = space.at(q), operational_space(robot, q, bodies, method="dense")
    for name in ("Lambda_inv", "Lambda", "J", "Jbar", "N"):
        expected = getattr(exact, name)
        assert_allclose(getattr(x, name), expected, atol=1e-9 * np.abs(expected).max())


@given(
    robot=trees(max_bodies=5, joint_types=("revolute", "prismatic"), coupled=True), seed=seeds
)
@settings(deadline=None, max_examples=40)
def test_auto_takes_coupled_joints(robot: KinematicTree, seed: int) -> None:
    q, tip = robot.random_configuration(seed), robot.n_bodies - 1
    exact = operational_space(robot, q, tip, method="dense").Lambda_inv
    found = operational_space(robot, q, tip, method="auto").Lambda_inv
    assert_allclose(found, exact, atol=1e-10 * max(1.0, float(np.abs(exact).max())))


def test_a_long_chain_is_left_to_a_recursion() -> None:
    long = OperationalSpace(synthetic.chain(300), [299]).space
    assert choose(long) in ("chang_khatib", "pv_osimr")
    assert set(features(long)) == set(UNITS)


def test_every_chain_is_composed_to_its_end() -> None:
    """Psi = L_1 L_2 ... L_k, omega = M_k + L_k^T omega L_k, of chains of two and three."""
    rng = np.random.default_rng(0)
    L, M = rng.normal(size=(2, 5, 6, 6))
    psi, omega = np.empty((2, 2, 6, 6))
    compose_chains.source(
        np.array([-1, 0]), np.array([0, 2, 5]), np.arange(5), L, M, psi, omega
    )
    np.testing.assert_allclose(psi[1], L[2] @ L[3] @ L[4], rtol=1e-12)
    inner = M[3] + L[3].T @ M[2] @ L[3]
    np.testing.assert_allclose(omega[1], M[4] + L[4].T @ inner @ L[4], rtol=1e-12)
    np.testing.assert_allclose(omega[0], M[1] + L[1].T @ M[0] @ L[1], rtol=1e-12)
