"""Properties 1 and 2 of the paper: triangular forms of inverse and forward dynamics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import spsolve_triangular

from dynsys import KinematicTree, synthetic
from dynsys.plan.orders.recursive_orders import rnea_order
from dynsys.recursive.rnea import rnea
from tests import strategies
from tests.systems import inverse_system, known_values


@pytest.mark.slow
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
