"""Orders are permutations with nonzero pivots, and inverse dynamics is always triangular."""

from __future__ import annotations

import subprocess
import sys
import time

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array

from dynsys import KinematicTree, StructurallySingularError, load, synthetic
from dynsys.errors import UnavailableOrdering
from dynsys.plan.lu import symbolic_lu
from dynsys.plan.orders.dulmage_mendelsohn import (
    BlockTriangular,
    block_triangular,
    coarse_decomposition,
    matching,
)
from dynsys.plan.orders.libraries import Cholmod, SuperLU, Umfpack, UmfpackLibrary
from dynsys.plan.orders.markowitz import Markowitz
from dynsys.plan.orders.orders import (
    AbstractOrdering,
    Natural,
    OrderingContext,
    Pattern,
    PivotOrder,
)
from dynsys.plan.orders.peeling import Peeled, peel
from dynsys.plan.orders.recursive_orders import LeafToRoot, NewtonEuler, RootToLeaf
from tests import strategies
from tests.plan.systems import load_cell_system, shuffled
from tests.robots import ROBOTS, robot_path
from tests.systems import forward_system, inverse_system

GENERAL: tuple[AbstractOrdering, ...] = (
    Markowitz("count"),
    Markowitz("flops"),
    Markowitz("fill", seed=3),
    Peeled(Markowitz()),
    BlockTriangular(Markowitz("fill")),
    SuperLU(),
    SuperLU("NATURAL"),
    Umfpack(),
    Umfpack(fixed_columns=True),
    Cholmod("amd"),
    Cholmod("metis"),
)
OF_ROBOTS: tuple[AbstractOrdering, ...] = (LeafToRoot(), RootToLeaf())


def order_or_skip(
    ordering: AbstractOrdering, pattern: Pattern, context: OrderingContext
) -> PivotOrder:
    try:
        return ordering.order(pattern, context)
    except UnavailableOrdering as error:
        pytest.skip(str(error))


def patterns(max_size: int = 7) -> st.SearchStrategy[Pattern]:
    def build(shape: tuple[int, int], seed: int, density: float) -> Pattern:
        rng = np.random.default_rng(seed)
        return csc_array(rng.random(shape) < density)

    sizes = st.tuples(st.integers(1, max_size), st.integers(1, max_size))
    return st.builds(build, sizes, st.integers(0, 2**31), st.sampled_from((0.2, 0.4, 0.7)))


# ---- problem 1: inverse dynamics ----------------------------------------------------------


@settings(max_examples=40)
@given(robot=strategies.trees(max_bodies=10, coupled=True), seed=strategies.seeds)
def test_shuffled_inverse_dynamics_is_triangularised(robot: KinematicTree, seed: int) -> None:
    pattern = shuffled(inverse_system(robot).pattern(), seed)
    order = Peeled().order(pattern)
    permuted = order.apply_pattern(pattern).toarray()
    assert not np.triu(permuted, 1).any()
    assert permuted.diagonal().all()
    assert symbolic_lu(pattern, order).fill == 0


@pytest.mark.parametrize(("path", "floating"), ROBOTS)
def test_real_robots_are_triangularised(path: str, floating: bool) -> None:
    robot = load(robot_path(path), floating_base=floating)
    pattern = shuffled(inverse_system(robot).pattern(), 1)
    symbolic = symbolic_lu(pattern, Peeled().order(pattern))
    assert symbolic.fill == 0
    assert symbolic.is_triangular


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_five_thousand_bodies(shape: str) -> None:
    robot = synthetic.chain(5000) if shape == "chain" else synthetic.random_tree(5000, 3)
    pattern = shuffled(inverse_system(robot).pattern(), 0)
    start = time.process_time()
    order = Peeled().order(pattern)
    took = time.process_time() - start
    assert symbolic_lu(pattern, order).fill == 0
    assert took < 30  # 0.06 s measured, compilation not counted


# ---- general orderings --------------------------------------------------------------------


@pytest.mark.parametrize("ordering", [*GENERAL, *OF_ROBOTS], ids=lambda o: o.name)
@pytest.mark.parametrize("kind", ["inverse", "forward", "load cells"])
def test_every_pivot_of_every_ordering_exists(ordering: AbstractOrdering, kind: str) -> None:
    robot = synthetic.chain(5, generic=True)
    make = {"inverse": inverse_system, "forward": forward_system}.get(kind, load_cell_system)
    system = make(robot)
    context = OrderingContext.sampled(system, 8)
    order = order_or_skip(ordering, system.pattern(), context)
    symbolic = symbolic_lu(system.pattern(), order)
    assert symbolic.n == system.shape[0]


def test_inverse_dynamics_is_triangular_in_the_order_of_the_paper() -> None:
    system = inverse_system(synthetic.humanoid30())
    order = NewtonEuler().order(system.pattern(), OrderingContext(system))
    assert symbolic_lu(system.pattern(), order).is_triangular


def test_an_order_of_the_robot_needs_the_robot() -> None:
    with pytest.raises(StructurallySingularError, match="OrderingContext"):
        LeafToRoot().order(csc_array(np.eye(2, dtype=bool)))


@settings(max_examples=20)
@given(robot=strategies.trees(max_bodies=8, coupled=True))
def test_leaf_to_root_eliminates_in_linear_space(robot: KinematicTree) -> None:
    """Fill of ABA: a 6 x 6 block and 12 entries per freedom and body, nothing across."""
    system = forward_system(robot)
    order = LeafToRoot().order(system.pattern(), OrderingContext(system))
    if not robot.is_coupled:
        bound = sum(6 * (6 + 2 * 6) + 6 * 36 for _ in robot.bodies)
        assert symbolic_lu(system.pattern(), order).fill <= bound


def test_leaf_to_root_grows_linearly() -> None:
    fills = []
    for n in (10, 20, 40):
        system = forward_system(synthetic.chain(n, generic=True))
        order = LeafToRoot().order(system.pattern(), OrderingContext(system))
        fills.append(symbolic_lu(system.pattern(), order).fill)
    assert fills[2] - fills[1] == 2 * (fills[1] - fills[0])


def test_known_root_accelerations_leave_nothing_to_eliminate() -> None:
    system = inverse_system(synthetic.humanoid30())
    order = LeafToRoot().order(system.pattern(), OrderingContext(system))
    assert symbolic_lu(system.pattern(), order).is_triangular


def test_the_same_seed_gives_the_same_order() -> None:
    system = load_cell_system(synthetic.chain(6))
    context = OrderingContext.sampled(system, 8)
    first, again, other = (
        Markowitz("fill", seed=seed).order(system.pattern(), context) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_markowitz_refuses_singular_systems() -> None:
    with pytest.raises(StructurallySingularError, match="no entry left"):
        Markowitz().order(csc_array(np.array([[1, 1], [0, 0]], dtype=bool)))
    with pytest.raises(StructurallySingularError, match="as many equations"):
        Markowitz().order(csc_array(np.ones((2, 3), dtype=bool)))
    with pytest.raises(StructurallySingularError, match="is zero when its turn comes"):
        Markowitz().complete(csc_array(np.eye(2, dtype=bool)), OrderingContext(), [(0, 1)])


def test_thresholds_keep_markowitz_from_small_pivots() -> None:
    """The entry of lowest count is 1e-6 of its row and column: only threshold 0 takes it."""
    A = np.array([[1e-6, 1.0, 0, 0], [1.0, 1, 1, 1], [0, 1, 2, 1], [0, 1, 1, 3]])
    pattern = csc_array(A != 0)
    context = OrderingContext(values=csc_array(A).data[None])
    careless = Markowitz(threshold=0.0).order(pattern, context)
    careful = Markowitz(threshold=0.1).order(pattern, context)
    assert (careless.row_order[0], careless.col_order[0]) == (0, 0)
    assert (careful.row_order[0], careful.col_order[0]) != (0, 0)


# ---- Dulmage-Mendelsohn -------------------------------------------------------------------


@settings(max_examples=200)
@given(pattern=patterns())
def test_matching_is_maximum(pattern: Pattern) -> None:
    column_of_row = matching(pattern)
    matched = np.flatnonzero(column_of_row >= 0)
    assert len(set(column_of_row[matched].tolist())) == len(matched)
    assert pattern.toarray()[matched, column_of_row[matched]].all()
    graph = nx.Graph()
    graph.add_nodes_from(range(pattern.shape[0]))
    coo = pattern.tocoo()
    graph.add_edges_from((int(r), -1 - int(c)) for r, c in zip(coo.row, coo.col, strict=True))
    expected = nx.bipartite.hopcroft_karp_matching(graph, top_nodes=range(pattern.shape[0]))
    assert len(matched) == len(expected) // 2


@settings(max_examples=200)
@given(pattern=patterns())
def test_coarse_parts_are_triangular(pattern: Pattern) -> None:
    parts = coarse_decomposition(pattern)
    A = pattern.toarray()
    rows, cols = zip(parts.under, parts.square, parts.over, strict=True)
    assert np.array_equal(np.sort(np.concatenate(rows)), np.arange(A.shape[0]))
    assert np.array_equal(np.sort(np.concatenate(cols)), np.arange(A.shape[1]))
    assert len(rows[0]) < len(cols[0]) or not len(cols[0])
    assert len(rows[1]) == len(cols[1])
    assert len(rows[2]) > len(cols[2]) or not len(rows[2])
    for above in range(3):
        for left in range(above):
            assert not A[rows[above]][:, cols[left]].any()
    dense = np.where(A, np.random.default_rng(0).normal(size=A.shape), 0.0)
    assert parts.structural_rank == np.linalg.matrix_rank(dense)


@settings(max_examples=200)
@given(pattern=patterns())
def test_block_triangular_form(pattern: Pattern) -> None:
    if pattern.shape[0] != pattern.shape[1] or (matching(pattern) < 0).any():
        with pytest.raises(StructurallySingularError):
            block_triangular(pattern)
        return
    blocks = block_triangular(pattern)
    A = pattern.toarray()
    for k, (rows, cols) in enumerate(blocks):
        assert A[rows, cols].all()
        for _, later in blocks[k + 1 :]:
            assert not A[rows][:, later].any()
        graph = nx.from_numpy_array(A[rows][:, cols], create_using=nx.DiGraph)
        assert nx.is_strongly_connected(graph)


@settings(max_examples=200)
@given(pattern=patterns())
def test_peeling_keeps_every_row_and_column_once(pattern: Pattern) -> None:
    found = peel(pattern)
    rows = np.concatenate([found.first.rows, found.core.rows, found.last.rows])
    cols = np.concatenate([found.first.cols, found.core.cols, found.last.cols])
    assert np.array_equal(np.sort(rows), np.arange(pattern.shape[0]))
    assert np.array_equal(np.sort(cols), np.arange(pattern.shape[1]))
    core = pattern.toarray()[found.core.rows][:, found.core.cols]
    assert not (core.sum(axis=0) == 1).any()
    assert not (core.sum(axis=1) == 1).any()


def test_two_unknowns_no_equation_tells_apart() -> None:
    A = csc_array(np.array([[1, 1, 0], [0, 0, 1]], dtype=bool))
    assert coarse_decomposition(A).under.cols.tolist() == [0, 1]


def test_orders_must_be_permutations() -> None:
    with pytest.raises(ValueError, match="col_order is not a permutation"):
        PivotOrder([0, 1], [0, 0])
    with pytest.raises(StructurallySingularError, match="always zero"):
        exchange = csc_array(np.array([[0, 1], [1, 0]], dtype=bool))
        symbolic_lu(exchange, Natural().order(exchange))


def test_the_system_is_asked_for_its_libraries_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers through a process of its own, some 20 ms each time."""
    there = UmfpackLibrary.find() is not None

    def started(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", started)
    assert (UmfpackLibrary.find() is not None) == there


def test_missing_libraries_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynsys.plan.orders.libraries.find_library", lambda name: None)
    monkeypatch.setattr("dynsys.plan.orders.libraries.find_spec", lambda name: None)
    with pytest.raises(UnavailableOrdering, match="pip install cvxopt"):
        Umfpack().order(csc_array(np.eye(2, dtype=bool)))
    monkeypatch.setitem(sys.modules, "sksparse", None)
    monkeypatch.setitem(sys.modules, "sksparse.cholmod", None)
    with pytest.raises(UnavailableOrdering, match="cholmod"):
        Cholmod().order(csc_array(np.eye(2, dtype=bool)))
