"""Synthetic robots: the numbers the papers state about them, names, determinism, bad input."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynsys import KinematicTree, ModelError, synthetic
from dynsys.model.expanded import depths, expanded_parent
from tests import oracles

MAKERS: dict[str, Callable[[], KinematicTree]] = {
    "chain": lambda: synthetic.chain(7),
    "generic chain": lambda: synthetic.chain(7, generic=True, seed=2),
    "humanoid30": synthetic.humanoid30,
    "asimo": synthetic.asimo,
    "centipede": lambda: synthetic.centipede(3),
    "balanced_tree": lambda: synthetic.balanced_tree(4),
    "side_branches": lambda: synthetic.side_branches(5),
    "spanning_grid": lambda: synthetic.spanning_grid(4),
    "auto_tree": lambda: synthetic.auto_tree(9, 1.5, 1.5, 0.9),
    "random_tree": lambda: synthetic.random_tree(12, 5),
}


def counts(parent: np.ndarray) -> tuple[int, int, int]:
    """Return D0, D1, D2 of [BIS] eqs. (15), (8), (9)."""
    d = depths(parent)
    return int(np.minimum(1, d - 1).sum()), int((d - 1).sum()), int((d * (d - 1) // 2).sum())


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_robot_is_deterministic_and_its_inertia_definite(
    make: Callable[[], KinematicTree],
) -> None:
    robot, again = make(), make()
    assert robot.body_names == again.body_names
    for one, other in zip(robot.bodies, again.bodies, strict=True):
        np.testing.assert_array_equal(one.placement.E, other.placement.E)
        np.testing.assert_array_equal(one.inertia.matrix(), other.inertia.matrix())
        assert np.linalg.eigvalsh(one.inertia.matrix())[0] > 0
    H = oracles.mass_matrix(robot, robot.random_configuration(0))
    assert np.linalg.eigvalsh(H)[0] > 0


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_inertia_has_the_sparsity_of_the_expanded_graph(
    make: Callable[[], KinematicTree],
) -> None:
    robot = make()
    parent = expanded_parent(robot)
    allowed = np.zeros((robot.nv, robot.nv), dtype=bool)
    for i in range(robot.nv):
        j = i
        while j >= 0:
            allowed[i, j] = allowed[j, i] = True
            j = parent[j]
    H = oracles.mass_matrix(robot, robot.random_configuration(0))
    assert not H[~allowed].any()
    assert np.count_nonzero(allowed) == 2 * counts(parent)[1] + robot.nv


def test_chain_counts_and_aligned_frames() -> None:
    robot, n = synthetic.chain(12), 12
    assert (robot.n_bodies, robot.nq, robot.nv) == (n, n, n)
    assert robot.body_names[:2] == ("link_1", "link_2")
    assert counts(robot.parent) == (n - 1, (n * n - n) // 2, (n**3 - n) // 6)
    for body in robot.bodies:
        assert set(np.unique(body.placement.E)) <= {-1.0, 0.0, 1.0}
    twist = [body.placement.E[1, 2] for body in robot.bodies[:6]]
    assert twist == [1.0, 0.0, -1.0, 1.0, 0.0, -1.0]


def test_generic_chain_has_no_constant_zero_and_depends_on_its_seed() -> None:
    one, other = synthetic.chain(5, generic=True), synthetic.chain(5, generic=True, seed=1)
    assert all(np.count_nonzero(body.placement.E) == 9 for body in one.bodies)
    assert all(body.placement.r.all() for body in one.bodies)
    assert not np.array_equal(one.bodies[0].placement.E, other.bodies[0].placement.E)


def test_humanoid30_has_the_numbers_of_the_paper() -> None:
    robot = synthetic.humanoid30()
    assert (robot.n_bodies, robot.nq, robot.nv) == (25, 31, 30)
    assert counts(robot.parent)[:2] == (24, 84)
    assert counts(expanded_parent(robot))[1:] == (219, 1039)
    assert robot.v_slice("root") == slice(0, 6)
    assert robot.body_index("left_leg_6") == 6
    assert len(robot.children[0]) == 4


def test_asimo_has_the_numbers_of_the_paper() -> None:
    robot = synthetic.asimo()
    assert (robot.n_bodies, robot.nv) == (35, 40)
    parent = expanded_parent(robot)
    _, d1, d2 = counts(parent)
    assert d1 + robot.nv == 374  # nonzeros of L
    assert 2 * d1 + robot.nv == 708  # nonzeros of H
    assert (d1, d2) == (334, 1779)  # divisions, multiplications of LTDL, table 2
    assert depths(parent).max() == 14
    assert int((robot.parent >= 0).sum()) == 34
    # J of hands (last arm links) and feet has 312 nonzeros
    ends = ["left_leg_6", "right_leg_6", "left_arm_7", "right_arm_7"]
    last = [robot.v_slice(name).start for name in ends]
    assert sum(6 * int(depths(parent)[k]) for k in last) == 312


def test_asimo_hands_have_two_fingers_side_by_side() -> None:
    robot = synthetic.asimo()
    for side in ("left", "right"):
        hand = robot.body_index(f"{side}_arm_7")
        assert [robot.body_names[i] for i in robot.children[hand]] == [
            f"{side}_finger_1",
            f"{side}_finger_2",
        ]
        leg = robot.body_index(f"{side}_leg_1")
        assert robot.body_names[robot.parent[leg]] == "waist"


@pytest.mark.parametrize("segments", [1, 2, 30])
def test_centipede_counts(segments: int) -> None:
    robot = synthetic.centipede(segments)
    assert (robot.n_bodies, robot.nv) == (5 * segments, 9 * segments + 5)
    assert robot.joint_names[0] == "root"
    k = segments
    assert robot.joints[robot.joint_index(f"left_upper_leg_{k}")].kind == "spherical"
    assert robot.joints[robot.joint_index(f"right_lower_leg_{k}")].kind == "revolute"
    foot = robot.support(robot.body_index(f"right_lower_leg_{k}"))
    expected = [f"segment_{i}" for i in range(1, k + 1)]
    assert [robot.body_names[i] for i in foot] == [
        *expected,
        f"right_upper_leg_{k}",
        f"right_lower_leg_{k}",
    ]


@pytest.mark.parametrize("m", range(1, 9))
def test_side_branches_match_table_2(m: int) -> None:
    robot = synthetic.side_branches(m)
    assert robot.n_bodies == 2 * m
    assert counts(robot.parent) == (2 * m - 1, m * m, (2 * m**3 + 3 * m**2 + m) // 6)


@pytest.mark.parametrize("m", range(1, 8))
def test_balanced_tree_matches_table_2(m: int) -> None:
    robot = synthetic.balanced_tree(m)
    d1 = sum(i * 2**i for i in range(1, m))
    d2 = sum(i * (i + 1) * 2 ** (i - 1) for i in range(1, m))
    assert robot.n_bodies == 2**m - 1
    assert counts(robot.parent) == (robot.n_bodies - 1, d1, d2)


@pytest.mark.parametrize("m", range(1, 9))
def test_spanning_grid_matches_table_2(m: int) -> None:
    robot = synthetic.spanning_grid(m)
    d2 = (7 * m**4 - 6 * m**3 - m**2) // 12
    assert robot.n_bodies == m * m
    assert counts(robot.parent) == (m * m - 1, m**3 - m**2, d2)


def test_published_cost_ratios_of_the_shapes() -> None:
    def cost(d1: int, d2: int) -> int:
        return d1 + 2 * d2

    def dense(n: int) -> int:
        return cost((n * n - n) // 2, (n**3 - n) // 6)

    tree = counts(synthetic.balanced_tree(4).parent)[1:]
    grid = counts(synthetic.spanning_grid(4).parent)[1:]
    assert_allclose(dense(15) / cost(*tree), 7.8, atol=0.05)
    assert_allclose(dense(16) / cost(*grid), 5.3, atol=0.05)


def test_auto_tree_is_the_described_chain_of_tubes() -> None:
    robot = synthetic.auto_tree(4, skew=1.5, taper=0.9)
    assert robot.parent.tolist() == [-1, 0, 1, 2]
    np.testing.assert_array_equal(robot.gravity, [0.0, -9.81, 0.0])
    third = robot.bodies[2]
    length, mass = 0.9**2, 0.9**6
    assert_allclose(third.inertia.mass, mass)
    assert_allclose(third.inertia.com, [length / 2, 0.0, 0.0])
    expected = mass * length**2 * np.diag([0.0025, 1.015 / 12, 1.015 / 12])
    assert_allclose(third.inertia.about_com, expected)
    assert_allclose(third.placement.r, [0.9, 0.0, 0.0])  # at the end of link 2
    c, s = np.cos(1.5), np.sin(1.5)
    assert_allclose(third.placement.E, [[1, 0, 0], [0, c, s], [0, -s, c]])
    np.testing.assert_array_equal(robot.bodies[0].placement.r, np.zeros(3))
    np.testing.assert_array_equal(robot.bodies[0].placement.E, np.eye(3))


@pytest.mark.parametrize(
    ("branching", "expected"),
    [(1, [0, 1, 2, 3, 4, 5, 6]), (1.5, [0, 1, 2, 2, 3, 4, 4]), (2, [0, 1, 1, 2, 2, 3, 3])],
)
def test_auto_tree_parents_follow_the_formula(branching: float, expected: list[int]) -> None:
    robot = synthetic.auto_tree(7, branching)
    assert (robot.parent + 1).tolist() == expected


@pytest.mark.parametrize("branching", [1, 1.1, 1.5, 2, 2.7, 3])
def test_auto_tree_is_a_tree_for_any_branching(branching: float) -> None:
    assert synthetic.auto_tree(60, branching).parent[0] == -1
    assert (synthetic.auto_tree(60, branching).parent[1:] >= 0).all()


def test_random_tree_draws_every_kind_and_free_only_on_the_base() -> None:
    seen = set()
    for seed in range(30):
        robot = synthetic.random_tree(10, seed)
        seen |= {joint.kind for joint in robot.joints}
        for parent, joint in zip(robot.parent, robot.joints, strict=True):
            assert joint.kind != "free" or parent < 0
    everything = {"revolute", "prismatic", "helical", "cylindrical", "planar", "spherical"}
    assert seen == everything | {"free"}


def test_random_tree_keeps_to_the_kinds_asked_for() -> None:
    robot = synthetic.random_tree(40, 1, joint_types=["fixed", "prismatic", "free"])
    assert {joint.kind for joint in robot.joints} == {"fixed", "prismatic", "free"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: synthetic.chain(0), "chain: n must be a whole number >= 1, got 0"),
        (lambda: synthetic.chain(2.5), "chain: n must be a whole number"),
        (lambda: synthetic.centipede(-1), "centipede: segments must be"),
        (lambda: synthetic.balanced_tree(0), "balanced_tree: m must be"),
        (lambda: synthetic.side_branches(True), "side_branches: m must be"),
        (lambda: synthetic.spanning_grid("3"), "spanning_grid: m must be"),
        (lambda: synthetic.auto_tree(3, 0.5), "branching must be a number >= 1"),
        (lambda: synthetic.auto_tree(3, taper=0), "taper must be > 0"),
        (lambda: synthetic.auto_tree(3, skew=np.nan), "skew finite"),
        (lambda: synthetic.random_tree(3, 0, ["rubber"]), "unknown joint type 'rubber'; known"),
        (lambda: synthetic.random_tree(3, 0, []), "joint_types is empty"),
    ],
)
def test_bad_arguments_are_named(make: Callable[[], KinematicTree], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make()
