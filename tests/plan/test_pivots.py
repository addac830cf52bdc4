"""Pivots of an order: safe by argument or by sampling, named in words of the robot."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from dynsys.errors import SingularSystemError
from dynsys.model import synthetic
from dynsys.model.tree import KinematicTree
from dynsys.plan.orders.markowitz import Markowitz
from dynsys.plan.orders.orders import OrderingContext, PivotOrder
from dynsys.plan.orders.recursive_orders import LeafToRoot, RootToLeaf
from dynsys.plan.pivots import planned_pivots, sampled_ratios
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
