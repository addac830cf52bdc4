"""Pivots of an order: safe by argument or by sampling, named in words of the robot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from dynsys import KinematicTree, SingularSystemError, synthetic
from dynsys.model.joints import Revolute
from dynsys.model.spatial import Inertia
from dynsys.model.tree import Body
from dynsys.plan.orders.markowitz import Markowitz
from dynsys.plan.orders.orders import OrderingContext, PivotOrder
from dynsys.plan.orders.recursive_orders import LeafToRoot, RootToLeaf
from dynsys.plan.pivots import pivot_safety, planned_pivots, sampled_ratios
from tests import strategies
from tests.plan.systems import load_cell_system
from tests.systems import forward_system


@settings(max_examples=30)
@given(robot=strategies.trees(max_bodies=6, coupled=True))
def test_leaf_to_root_is_safe_by_argument(robot: KinematicTree) -> None:
    """Every joint inertia is argued, and positive at every sampled state."""
    system = forward_system(robot)
    context = OrderingContext.sampled(system, 4)
    order = LeafToRoot().order(system.pattern(), context)
    pivots = planned_pivots(system, order, context)
    assert all(pivot.safety == "argument" for pivot in pivots)
    assert len(pivots) <= robot.nv
    assert all(pivot.ratio is not None and pivot.ratio > 1e-9 for pivot in pivots)


def test_load_cells_are_safe_by_sampling_only() -> None:
    system = load_cell_system(synthetic.chain(6))
    context = OrderingContext.sampled(system, 16)
    order = RootToLeaf(leftovers=Markowitz(threshold=0.01)).order(system.pattern(), context)
    pivots = planned_pivots(system, order, context)
    assert 0 < sum(pivot.safety == "sampling" for pivot in pivots) <= 5
    assert all((pivot.ratio or 0.0) >= 0.01 for pivot in pivots)


def test_markowitz_keeps_its_threshold_at_all_sampled_states() -> None:
    system = forward_system(synthetic.chain(4, generic=True))
    context = OrderingContext.sampled(system, 24)
    assert context.values is not None
    order = Markowitz(threshold=0.05).order(system.pattern(), context)
    assert sampled_ratios(system, order, context.values).min() >= 0.05


def test_laws_out_of_order_are_no_argument() -> None:
    """qdd taken before the laws of the body it moves: the pivot is armature alone."""
    robot = synthetic.chain(2)
    bodies = [replace(body, armature=[0.1]) for body in robot.bodies]
    system = forward_system(KinematicTree("geared", bodies))
    order = LeafToRoot().order(system.pattern(), OrderingContext(system))
    rows, cols = order.row_order.tolist(), order.col_order.tolist()
    qdd = int(system.unknowns.block("qdd", 0).columns[0])
    k = cols.index(qdd)
    early = [k, *(i for i in range(len(rows)) if i != k)]
    swapped = PivotOrder([rows[i] for i in early], [cols[i] for i in early])
    safety = [pivot.safety for pivot in planned_pivots(system, swapped)]
    assert "sampling" in safety


def test_pivots_are_named_in_words_of_the_robot() -> None:
    system = forward_system(synthetic.humanoid30())
    order = LeafToRoot().order(system.pattern(), OrderingContext(system))
    names = [pivot.name for pivot in planned_pivots(system, order)]
    assert names[-1].startswith("acceleration of joint 'root', freedom 5, from equation")


def test_pivots_that_vanish_everywhere_are_named() -> None:
    """Without rotors the acceleration of a joint is not in its torque law until fill comes."""
    system = forward_system(synthetic.chain(2))
    order = LeafToRoot().order(system.pattern(), OrderingContext(system))
    values = OrderingContext.sampled(system, 4).values
    assert values is not None
    pivot = int(system.unknowns.block("qdd", 0).columns[0])
    start, stop = system.indptr[pivot : pivot + 2]
    values[:, start:stop] = 0.0
    with pytest.raises(SingularSystemError, match="acceleration of joint 'link_1'"):
        sampled_ratios(system, order, values)


@pytest.mark.parametrize(("own", "safety"), [(1e-6, "argument"), (1e-12, "sampling")])
def test_rounding_of_an_inertia_is_no_argument(own: float, safety: str) -> None:
    """A rod about its own axis, which carries a link that has inertia about it."""
    inertia = np.diag([own, 1.0, 1.0])
    rod = Body("rod", -1, Revolute([1, 0, 0]), inertia=Inertia(1.0, np.zeros(3), inertia))
    link = Body("link", 0, Revolute([0, 0, 1]), inertia=Inertia(1.0, np.zeros(3), np.eye(3)))
    found = pivot_safety(KinematicTree("drill", [rod, link]), np.zeros(2, dtype=bool))
    assert [pivot.safe_by for pivot in found] == [safety, "argument"]
    assert found[0].worst_share > 0.5
