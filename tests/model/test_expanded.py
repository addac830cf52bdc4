"""The expanded graph: figure 4 of [OSI], fixed joints skipped, coupled robots refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynsys import KinematicTree, ModelError, synthetic
from dynsys.model.expanded import depths, expanded_parent, last_freedom
from dynsys.model.joints import Fixed, Free, Revolute, Spherical
from dynsys.model.tree import Body, Coupling
from tests import oracles, strategies


def figure_4(parent: list[int], sizes: list[int]) -> list[int]:
    """Return lambda_e by the loops of [OSI] figure 4, 1-based as printed; no zero sizes."""
    n, N = sum(sizes), len(sizes)
    lambda_e = [i - 1 for i in range(n + 1)]
    where = [0] * (N + 1)
    for i in range(1, N + 1):
        where[i] = where[i - 1] + sizes[i - 1]
    for i in range(1, N + 1):
        lambda_e[where[i - 1] + 1] = where[parent[i - 1]]
    return lambda_e[1:]


def test_three_freedoms_become_a_chain_of_three() -> None:
    # joint 2 of 4 has three freedoms; bodies 2 and 3 sit on body 1, body 4 on body 2
    joints, parents = (Revolute(), Spherical(), Revolute(), Revolute()), (-1, 0, 0, 1)
    bodies = [Body(f"b{i}", p, j) for i, (p, j) in enumerate(zip(parents, joints, strict=True))]
    robot = KinematicTree("figure 3", bodies)
    assert expanded_parent(robot).tolist() == [-1, 0, 1, 2, 0, 3]
    assert last_freedom(robot).tolist() == [0, 3, 4, 5]


moving = tuple(kind for kind in strategies.ALL_KINDS if kind != "fixed")


@pytest.mark.slow
@given(strategies.trees(max_bodies=12, joint_types=moving))
def test_agrees_with_figure_4(robot: KinematicTree) -> None:
    expected = figure_4((robot.parent + 1).tolist(), [joint.nv for joint in robot.joints])
    assert (expanded_parent(robot) + 1).tolist() == expected


@pytest.mark.slow
@given(strategies.trees(max_bodies=12))
def test_freedoms_above_are_those_of_the_supporting_bodies(robot: KinematicTree) -> None:
    parent, last = expanded_parent(robot), last_freedom(robot)
    owner = oracles.freedom_owners(robot)
    assert parent.shape == (robot.nv,) and len(owner) == robot.nv
    assert ((parent >= -1) & (parent < np.arange(robot.nv))).all()
    for body in range(robot.n_bodies):
        path, k = [], int(last[body])
        while k >= 0:
            path.append(k)
            k = int(parent[k])
        supporting = robot.support(body)
        assert sorted(path) == [k for k in range(robot.nv) if owner[k] in supporting]


@pytest.mark.slow
@given(strategies.trees(max_bodies=6), st.data())
def test_inertia_vanishes_off_the_graph(robot: KinematicTree, data: st.DataObject) -> None:
    q, _, _ = data.draw(strategies.motions(robot))
    parent, H = expanded_parent(robot), oracles.mass_matrix(robot, q)
    for i in range(robot.nv):
        above, k = set(), i
        while k >= 0:
            above.add(k)
            k = int(parent[k])
        assert not any(H[i, j] for j in range(i) if j not in above)


def test_fixed_joints_are_skipped() -> None:
    bodies = [
        Body("welded_to_base", -1, Fixed()),
        Body("floating", 0, Free()),
        Body("welded", 1, Fixed()),
        Body("welded_again", 2, Fixed()),
        Body("arm", 3, Revolute()),
        Body("other", 0, Revolute()),
    ]
    robot = KinematicTree("welded", bodies)
    assert expanded_parent(robot).tolist() == [-1, 0, 1, 2, 3, 4, 5, -1]
    assert last_freedom(robot).tolist() == [-1, 5, 5, 5, 6, 7]


def test_chain_of_single_freedoms_is_its_own_expansion() -> None:
    robot = synthetic.chain(6)
    np.testing.assert_array_equal(expanded_parent(robot), robot.parent)
    assert depths(robot.parent).tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("function", [expanded_parent, last_freedom])
def test_coupled_robot_is_refused_by_name(function: object) -> None:
    bodies = [
        Body("a", -1, Revolute()),
        Body("b", 0, Revolute(), joint_name="follower", coupling=Coupling(0, 2.0, 0.0)),
    ]
    robot = KinematicTree("gripper", bodies)
    with pytest.raises(ModelError, match=r"'gripper': joint 'follower' .*no tree sparsity"):
        function(robot)  # type: ignore[operator]
