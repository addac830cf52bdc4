"""Properties 1 and 2 of the paper: triangular forms of inverse and forward dynamics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import spsolve_triangular

from dynsys.errors import ModelError
from dynsys.model import synthetic
from dynsys.model.tree import Body, Coupling, KinematicTree
from dynsys.plan.orders.recursive_orders import aba_factors, aba_order, rnea_order
from dynsys.recursive.aba import aba
from dynsys.recursive.rnea import rnea
from dynsys.system.equations import Kinematics
from dynsys.system.linear_system import LinearSystem
from tests import strategies
from tests.systems import forward_system, inverse_system, known_values


@settings(max_examples=50)
@given(robot=strategies.trees(max_bodies=10, coupled=True), net_wrench=st.booleans())
def test_property_1_on_the_worst_case_pattern(robot: KinematicTree, net_wrench: bool) -> None:
    system = inverse_system(robot, net_wrench=net_wrench)
    row_order, col_order = rnea_order(system)
    n = system.shape[0]
    np.testing.assert_array_equal(np.sort(row_order), np.arange(n))
    np.testing.assert_array_equal(np.sort(col_order), np.arange(n))
    permuted = system.pattern().toarray()[row_order][:, col_order]
    assert not np.triu(permuted, 1).any()
    D, _ = system.assemble(robot.neutral(), np.zeros(robot.nv))
    diagonal = D.toarray()[row_order][:, col_order].diagonal()
    np.testing.assert_array_equal(np.abs(diagonal), 1.0)


def test_order_of_a_chain_is_the_papers() -> None:
    """[NORI] eq. (10): f^x_1, qdd_1, f^x_2, qdd_2, a_1, a_2, f_2, tau_2, f_1, tau_1."""
    system = inverse_system(synthetic.chain(2))
    blocks = [str(system.unknowns.at(int(k)).kind) for k in rnea_order(system)[1]]
    sequence = [kind for i, kind in enumerate(blocks) if i == 0 or kind != blocks[i - 1]]
    assert sequence == [
        *("external_wrench", "qdd", "external_wrench", "qdd", "acceleration"),
        *("joint_wrench", "torque", "joint_wrench", "torque"),
    ]


def test_forward_substitution_is_rnea() -> None:
    robot = synthetic.humanoid30()
    rng = np.random.default_rng(2)
    q = robot.random_configuration(rng)
    qd, qdd = rng.normal(size=(2, robot.nv))
    system = inverse_system(robot)
    row_order, col_order = rnea_order(system)
    D, b = system.assemble(q, qd, known_values(system, "known_qdd", qdd))
    L = D.tocsr()[row_order][:, col_order]
    d = np.zeros(system.shape[1])
    d[col_order] = spsolve_triangular(L.tocsr(), -b[row_order], lower=True)
    expected = rnea(robot, q, qd, qdd)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        d[system.unknowns.columns("torque")], expected, rtol=0, atol=1e-12 * scale
    )


@settings(max_examples=40)
@given(robot=strategies.trees(max_bodies=8), data=st.data(), net_wrench=st.booleans())
def test_property_2(robot: KinematicTree, data: st.DataObject, net_wrench: bool) -> None:
    """W^L D W^R is lower triangular, and its forward substitution gives ABA's qdd."""
    q, qd, torque = data.draw(strategies.motions(robot))
    system = forward_system(robot, net_wrench=net_wrench)
    D, b = system.assemble(q, qd, known_values(system, "known_torque", torque))
    factors = aba_factors(system, Kinematics.at(robot, q, qd))
    row_order, col_order = aba_order(system)
    T = factors.triangular(D).toarray()[row_order][:, col_order]
    size = abs(factors.left_product()) @ abs(D) @ abs(factors.right)
    assert np.abs(np.triu(T, 1)).max() <= 1e-12 * np.abs(size).max()
    np.testing.assert_allclose(np.abs(T.diagonal()), 1.0, atol=1e-9)
    qdd = factors.solve(system, D, b)[system.unknowns.columns("qdd")]
    expected = aba(robot, q, qd, torque)
    np.testing.assert_allclose(qdd, expected, rtol=1e-9, atol=1e-9 * (1 + abs(expected).max()))


def test_the_printed_right_hand_side_is_not_the_solution() -> None:
    """[NORI] Property 2 leaves b unchanged; W^L has to multiply it as well."""
    robot = synthetic.chain(3)
    system = forward_system(robot)
    q, qd = robot.random_configuration(0), np.ones(3)
    D, b = system.assemble(q, qd, np.zeros(21))
    factors = aba_factors(system, Kinematics.at(robot, q, qd))
    T = factors.triangular(D).toarray()
    columns = system.unknowns.columns("qdd")
    expected = aba(robot, q, qd, np.zeros(3))
    printed = np.linalg.solve(T, -b)[columns]
    ours = np.linalg.solve(T, -(factors.left_product() @ b))[columns]
    assert np.abs(printed - expected).max() > 1e-3
    np.testing.assert_allclose(ours, expected, rtol=1e-9)


def test_coupled_joints_have_no_articulated_factors() -> None:
    bodies = list(synthetic.chain(2).bodies)
    last = bodies[1]
    bodies[1] = Body(
        last.name, 0, last.joint, last.placement, last.inertia, coupling=Coupling(0, 2, 0)
    )
    robot = KinematicTree("mimic", bodies)
    system = LinearSystem(robot)
    with pytest.raises(ModelError, match="coupled"):
        aba_factors(system, Kinematics.at(robot, np.zeros(1), np.zeros(1)))
