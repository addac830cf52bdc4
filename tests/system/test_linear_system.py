"""Pattern, assembly and meaning of D and b, against the dense oracles and crba."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array

from dynsys import KinematicTree, LinearSystem, ModelError, StateError, synthetic
from dynsys.model.joints import Fixed, Revolute
from dynsys.model.tree import Body
from dynsys.recursive.crba import crba
from dynsys.recursive.rnea import rnea
from dynsys.system.diagnosis import describe_singularity, null_vector
from dynsys.system.equations import EquationBlock, Kinematics, Term
from dynsys.system.laws import known
from dynsys.types import Array
from problems import ForwardDynamics
from tests import oracles, strategies
from tests.robots import CHAIN
from tests.systems import forward_system, inverse_system, known_values


def solve(system: LinearSystem, q: Array, qd: Array, y: Array) -> Array:
    D, b = system.assemble(q, qd, y)
    return np.linalg.solve(D.toarray(), -b)


def test_sizes_and_names_of_a_chain() -> None:
    robot = synthetic.chain(4)
    system = LinearSystem(robot)
    assert system.shape == (13 * 4, 20 * 4)
    assert LinearSystem(robot, net_wrench=True).shape == (19 * 4, 26 * 4)
    assert inverse_system(robot).shape == (80, 80)
    kinds = [(block.kind, block.size) for block in system.unknowns.blocks[:3]]
    assert kinds == [("acceleration", 6), ("joint_wrench", 6), ("torque", 1)]
    assert [block.kind for block in system.equations[:3]] == [
        "acceleration",
        "balance",
        "torque",
    ]
    name = robot.joint_names[2]
    assert str(system.unknowns.block("qdd", 2)) == f"acceleration of joint {name!r}"
    for block in system.unknowns.blocks:
        assert all(system.unknowns.at(int(column)) is block for column in block.columns)


def test_dual_partners_pair_rows_with_columns_symmetrically() -> None:
    """Rows ordered as their partners give a symmetric matrix on (a, f, qdd)."""
    robot = synthetic.random_tree(7, 1).with_armature(np.ones(synthetic.random_tree(7, 1).nv))
    system = LinearSystem(robot)
    q = robot.random_configuration(0)
    D = system.assemble(q, np.zeros(robot.nv))[0].toarray()
    rows = np.concatenate([system.rows(block) for block in system.equations])
    columns = np.concatenate([block.dual.columns for block in system.equations if block.dual])
    square = D[np.ix_(rows, columns)]
    np.testing.assert_array_equal(square, square.T)


def test_every_row_of_a_square_system_has_its_own_partner() -> None:
    for system in (forward_system(synthetic.asimo()), inverse_system(synthetic.asimo())):
        partners = [block.dual for block in system.equations if block.dual is not None]
        columns = np.concatenate([block.columns for block in partners])
        np.testing.assert_array_equal(np.sort(columns), np.arange(system.shape[1]))


@pytest.mark.parametrize("n", [2, 5, 12])
def test_nonzeros_of_the_papers_chain(n: int) -> None:
    """The scripts behind [NORI] count 94 N - 44 (peers, 5.1); numerically too."""
    system = forward_system(synthetic.auto_tree(n, 1, 1.5, 0.9), net_wrench=True)
    assert system.shape == (26 * n, 26 * n)
    assert system.nnz == 94 * n - 44
    rng = np.random.default_rng(n)
    D, _ = system.assemble(rng.uniform(0, 10, n), rng.uniform(0, 1, n))
    assert np.count_nonzero(D.toarray()) == 94 * n - 44


@settings(max_examples=30)
@given(robot=strategies.trees(max_bodies=6, coupled=True), seed=strategies.seeds)
def test_pattern_covers_every_state(robot: KinematicTree, seed: int) -> None:
    """Forty states of each of thirty robots, special ones among them.

    The blocks themselves, not the assembled D: that never leaves its pattern by construction.
    """
    system = LinearSystem(robot)
    terms = [term for block in system.equations for term in block.terms if not term.is_constant]
    rng = np.random.default_rng(seed)
    for k in range(40):
        special = robot.neutral() if k == 0 else strategies.quarter_turns(robot, rng)
        q = robot.random_configuration(rng) if k % 2 else special
        kinematics = Kinematics.at(robot, q, np.zeros(robot.nv))
        for term in terms:
            assert callable(term.value)
            assert not term.value(kinematics)[~term.pattern].any()


def test_pattern_has_no_entry_that_is_always_zero_in_generic_frames() -> None:
    robot = synthetic.random_tree(8, 5)
    system = inverse_system(robot)
    data, _ = system.values(
        Kinematics.at(robot, robot.random_configuration(1), np.ones(robot.nv))
    )
    assert np.count_nonzero(data) == system.nnz


@settings(max_examples=40)
@given(robot=strategies.trees(coupled=True), data=st.data(), net_wrench=st.booleans())
def test_inverse_dynamics_satisfies_the_laws(
    robot: KinematicTree, data: st.DataObject, net_wrench: bool
) -> None:
    """D d + b = 0 solved densely gives rnea's torque, for every joint type and coupling."""
    q, qd, qdd = data.draw(strategies.motions(robot))
    system = inverse_system(robot, net_wrench=net_wrench)
    d = solve(system, q, qd, known_values(system, "known_qdd", qdd))
    torque = d[system.unknowns.columns("torque")]
    expected = rnea(robot, q, qd, qdd)
    np.testing.assert_allclose(torque, expected, rtol=1e-9, atol=1e-9 * _scale(expected))
    np.testing.assert_allclose(d[system.unknowns.columns("qdd")], qdd)


def _own(system: LinearSystem) -> list[int]:
    return [block.body for block in system.equations if block.kind == "torque"]


def _scale(x: Array) -> float:
    return 1.0 + float(np.abs(x).max())


@settings(max_examples=20)
@given(robot=strategies.trees(max_bodies=6), seed=strategies.seeds)
def test_net_wrench_variant_has_the_same_solution(robot: KinematicTree, seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, qd = robot.random_configuration(rng), rng.normal(size=robot.nv)
    plain, with_net = inverse_system(robot), inverse_system(robot, net_wrench=True)
    y = rng.normal(size=len(plain.measured_rows))
    d, d_net = solve(plain, q, qd, y), solve(with_net, q, qd, y)
    for kind in ("acceleration", "joint_wrench", "external_wrench", "torque", "qdd"):
        one, two = plain.unknowns.columns(kind), with_net.unknowns.columns(kind)
        np.testing.assert_allclose(d[one], d_net[two], rtol=1e-9, atol=1e-9 * _scale(d))


@settings(max_examples=30)
@given(
    robot=strategies.trees(max_bodies=6, coupled=True), seed=strategies.seeds, net=st.booleans()
)
def test_hand_order_leaves_the_mass_matrix(robot: KinematicTree, seed: int, net: bool) -> None:
    """Schur complement of the torque rows and qdd columns is H, armature included."""
    system = forward_system(robot, net_wrench=net)
    q = robot.random_configuration(seed)
    D = system.assemble(q, np.zeros(robot.nv))[0].toarray()
    columns = system.unknowns.columns("qdd")
    rows = np.zeros(robot.nv, dtype=np.intp)
    for i in _own(system):
        rows[robot.v_slices()[i]] = system.rows(
            system.equation(f"torque({robot.joint_names[i]})")
        )
    other_rows = np.setdiff1d(np.arange(system.shape[0]), rows)
    other_columns = np.setdiff1d(np.arange(system.shape[1]), columns)
    K, L = D[np.ix_(other_rows, other_columns)], D[np.ix_(other_rows, columns)]
    M, N = D[np.ix_(rows, other_columns)], D[np.ix_(rows, columns)]
    H = crba(robot, q)
    schur = N - M @ np.linalg.solve(K, L)
    np.testing.assert_allclose(schur, H, rtol=1e-10, atol=1e-10 * _scale(H))
    if not robot.is_coupled:
        np.testing.assert_allclose(schur, oracles.mass_matrix(robot, q), atol=1e-9 * _scale(H))


class Traced:
    """A scalar that only knows arithmetic, sine and cosine, as a graph node does."""

    def __init__(self, value: float) -> None:
        self.value = value

    def sin(self) -> Traced:
        return Traced(math.sin(self.value))

    def cos(self) -> Traced:
        return Traced(math.cos(self.value))

    def __neg__(self) -> Traced:
        return Traced(-self.value)

    def __add__(self, other: Traced | float) -> Traced:
        return Traced(self.value + number(other))

    def __sub__(self, other: Traced | float) -> Traced:
        return Traced(self.value - number(other))

    def __mul__(self, other: Traced | float) -> Traced:
        return Traced(self.value * number(other))

    def __rsub__(self, other: float) -> Traced:
        return Traced(other - self.value)

    __radd__ = __add__
    __rmul__ = __mul__


def number(x: Traced | float) -> float:
    return x.value if isinstance(x, Traced) else float(x)


@settings(max_examples=20)
@given(robot=strategies.trees(max_bodies=5, coupled=True), seed=strategies.seeds)
def test_values_over_any_scalar(robot: KinematicTree, seed: int) -> None:
    """The same source runs on numbers, on long doubles and on opaque objects."""
    rng = np.random.default_rng(seed)
    q, qd = robot.random_configuration(rng), rng.normal(size=robot.nv)
    system = inverse_system(robot)
    data, b = system.values(Kinematics.at(robot, q, qd))
    long = system.values(
        Kinematics.at(robot, q.astype(np.longdouble), qd.astype(np.longdouble))
    )
    np.testing.assert_allclose(long[0].astype(float), data, atol=1e-12)
    np.testing.assert_allclose(long[1].astype(float), b, rtol=1e-10, atol=1e-10 * _scale(b))
    traced = [np.array([Traced(x) for x in v.tolist()], dtype=object) for v in (q, qd)]
    opaque = system.values(Kinematics.at(robot, *traced))
    np.testing.assert_allclose([number(x) for x in opaque[0]], data, atol=1e-12)
    np.testing.assert_allclose(
        [number(x) for x in opaque[1]], b, rtol=1e-10, atol=1e-10 * _scale(b)
    )


def test_terms_on_one_unknown_add_up() -> None:
    robot = synthetic.chain(2)
    system = LinearSystem(robot)
    qdd = system.unknowns.block("qdd", 0)
    one = Term.constant(qdd, np.array([[1.5]]))
    moving = Term(qdd, np.array([[True]]), lambda kin: np.array([[2.0]]) + 0 * kin.qd[:1])
    extra = EquationBlock("twice", "measurement", 0, 1, (one, moving, one), measured=True)
    D, b = system.with_equations([extra]).assemble([0, 0], [0, 0], [7.0])
    assert D.toarray()[-1, qdd.start] == 5.0
    assert b[-1] == -7.0


def test_wrong_equations_are_refused() -> None:
    system = LinearSystem(synthetic.chain(2))
    block = known(system.unknowns, "acceleration", 1)
    with pytest.raises(ValueError, match="names must be unique"):
        system.with_equations([block, block])
    with pytest.raises(ValueError, match="shape"):
        EquationBlock("bad", "bad", 0, 2, block.terms)
    with pytest.raises(KeyError, match="did you mean"):
        system.equation("acceleraton(link_1)")


def test_unknowns_that_do_not_exist_are_named() -> None:
    bodies = [Body("arm", -1, Revolute()), Body("plate", 0, Fixed(), joint_name="weld")]
    system = LinearSystem(KinematicTree("welded", bodies))
    with pytest.raises(ModelError, match="net_wrench=True"):
        system.unknowns.block("net_wrench", 0)
    with pytest.raises(ModelError, match=r"torque of joint 'weld' .* no freedom"):
        system.unknowns.block("torque", 1)


def test_bad_states_are_refused() -> None:
    system = inverse_system(synthetic.chain(2))
    with pytest.raises(StateError, match="q of robot"):
        system.assemble([0.0], [0.0, 0.0])
    with pytest.raises(StateError, match="14 finite numbers"):
        system.assemble([0.0, 0.0], [0.0, 0.0], [1.0])


def test_null_vectors_have_a_largest_entry_of_one() -> None:
    """Whatever the scales of the columns: what is open is told in parts of it."""
    D = np.array([[1.0, 2e-6, 0.0], [0.0, 4e-6, 5e3], [1.0, 6e-6, 5e3]])
    found = null_vector(csc_array(D))
    assert found is not None and np.abs(found).max() == pytest.approx(1.0)
    np.testing.assert_allclose(D @ found, 0.0, atol=1e-9)
    assert null_vector(csc_array(D + np.eye(3))) is None


def test_what_a_null_vector_moves_is_asked_in_parts_of_it() -> None:
    """Sizes do not matter, and neither does rounding beside the joint that moves."""
    system = ForwardDynamics(CHAIN).system
    x = np.zeros(system.unknowns.size)
    where = [block.slice for block in system.unknowns.blocks if block.kind == "qdd"]
    x[where[0]], x[where[1]] = 1.0, 1e-9
    for size in (1e-7, 1.0, 1e7):
        assert "joint 'link_1' is" in describe_singularity(system, size * x)
