"""Property 2 of [NORI]: forward dynamics is triangular between products of sparse matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynsys import KinematicTree, LinearSystem, ModelError, synthetic
from dynsys.model.tree import Body, Coupling
from dynsys.plan.lu import symbolic_lu
from dynsys.plan.orders.orders import PivotOrder
from dynsys.recursive.aba import aba
from dynsys.system.equations import Kinematics
from experiments.nori2017.aba_factors import aba_factors, aba_order
from tests import strategies
from tests.systems import forward_system, known_values


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_order_alone_does_not_make_forward_dynamics_triangular() -> None:
    """As a pivot order of D itself it leaves the joint-space inertia as the last block."""
    system = forward_system(synthetic.humanoid30())
    order = PivotOrder(*aba_order(system))
    assert not symbolic_lu(system.pattern(), order).is_triangular


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
