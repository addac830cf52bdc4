"""[NORI] in its quick version: remarks by UMFPACK, LU within 15%, ours at or below ABA."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import dynsys
from dynsys import LayoutError
from dynsys.plan.orders.libraries import Umfpack, UmfpackLibrary
from dynsys.plan.record import body_quantities
from dynsys.plan.recursion import recursion_estimator
from experiments.nori2017 import __main__ as nori2017
from experiments.nori2017.counts import (
    SEEN,
    chain,
    forward_operations,
    forward_system,
    load_cell_operations,
    load_cell_spec,
    load_cell_system,
    lu_counts,
    permuted_lu,
    reused_order,
    umfpack_triangular,
)
from experiments.nori2017.notes import ABSTRACT, FIGURE_1, PROOFS, SEARCH, holds, notes
from experiments.nori2017.posedness import (
    PLATE,
    SLIPPERY,
    feet_ranks,
    humanoid_on_feet,
    published_ranks,
    random_unseen,
    singular_poses,
)
from experiments.nori2017.published import aba_operations
from experiments.nori2017.rows import (
    SCRIPT_CELLS_PERMUTED,
    SCRIPT_PERMUTED,
    feet_rows,
    figure_1_rows,
    published_set_rows,
)
from experiments.nori2017.search import mixed_system
from experiments.papers import citations
from experiments.papers import page as papers
from experiments.papers.paper_rows import CITED, Row, differing, tally
from sensors import published

umfpack = pytest.mark.skipif(UmfpackLibrary.find() is None, reason="UMFPACK (cvxopt) missing")


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3, 5, 10, 30])
def test_forward_dynamics_is_at_or_below_aba(n: int) -> None:
    ours, aba = forward_operations(n), aba_operations(n)
    assert ours.additions <= aba.additions == 205 * n - 248
    assert ours.multiplications + ours.divisions <= aba.multiplications == 224 * n - 259


@pytest.mark.slow
@umfpack
@pytest.mark.parametrize("n", [5, 10])
def test_permuted_lu_counts_as_published(n: int) -> None:
    found = lu_counts(forward_system(chain(n)), permuted_lu(), 10, discount_units=True)
    additions, multiplications = SCRIPT_PERMUTED[n]
    assert_allclose(found.published.additions, additions, rtol=0.15)
    assert_allclose(found.published.multiplications, multiplications, rtol=0.15)


@pytest.mark.slow
@umfpack
@pytest.mark.parametrize("n", [8, 12])
def test_load_cells_are_twice_below_permuted_lu(n: int) -> None:
    found = lu_counts(load_cell_system(chain(n, taper=1.0)), permuted_lu(), 10)
    additions, multiplications = SCRIPT_CELLS_PERMUTED[n]
    assert_allclose(found.published.additions, additions, rtol=0.15)
    assert_allclose(found.published.multiplications, multiplications, rtol=0.15)
    assert found.true.total >= 2 * load_cell_operations(n).total
    assert found.true.total >= 2 * load_cell_operations(n, everything=True).total or n < 12


@pytest.mark.parametrize("n", [4, 5, 9])
def test_open_recursion_gives_all_unknowns(n: int) -> None:
    spec = load_cell_spec(n, everything=True)
    robot, rng = spec.robot, np.random.default_rng(n)
    q, qd, qdd = rng.uniform(0, 10, n), rng.normal(size=n), rng.normal(size=n)
    f_ext = rng.normal(size=(n, 6))
    bodies = body_quantities(robot, q, qd, qdd, f_ext)
    cell = bodies["joint_wrench"][0][list(SEEN)]
    y = np.concatenate([f_ext[:-1].ravel(), qdd[2 : n - 2], cell, f_ext[-1][list(SEEN)]])
    found = recursion_estimator(spec).program.evaluate(np.concatenate([q, qd, y]))
    torque = dynsys.rnea(robot, q, qd, qdd, f_ext)
    known = [torque, qdd, bodies["acceleration"], bodies["joint_wrench"], f_ext]
    expected = np.concatenate([np.ravel(x) for x in known])
    assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("n", [4, 6])
def test_load_cell_system_is_the_published_layout(n: int) -> None:
    robot = chain(n, taper=1.0)
    ours = load_cell_system(robot, net_wrench=False)
    laws = dynsys.LinearSystem(robot)
    theirs = laws.with_equations(published.sie_friction(robot).equations(laws.unknowns))
    q, qd = np.linspace(0, 1, n), np.ones(n)
    D, D_theirs = (system.assemble(q, qd)[0].toarray() for system in (ours, theirs))
    assert sorted(map(tuple, D)) == sorted(map(tuple, D_theirs))
    assert np.linalg.matrix_rank(D) == 20 * n
    with pytest.raises(LayoutError, match="at least 4 bodies"):
        published.sie_friction(chain(3))


def test_posedness_of_the_published_sets() -> None:
    assert feet_ranks(PLATE) == (6, {5})
    assert feet_ranks(SLIPPERY) == (2, {2})
    assert published_ranks(6, states=2) == {
        "autoSensSIE": {1},
        "autoSensSIEfriction": {0},
        "autoSensSIEfriction_fy": {1},
    }


@pytest.mark.finding("P5")
@settings(max_examples=60, deadline=None)
@given(entries=st.lists(st.integers(-3, 3), min_size=18, max_size=18), seed=st.integers(0, 99))
def test_three_components_of_each_foot_are_too_few_at_some_pose(
    entries: list[int], seed: int
) -> None:
    """Property 3, whatever H is: turned alike, det [H, X* H] = det(H_f)^2 det([p]x) = 0."""
    H = np.reshape(np.array(entries, dtype=float), (6, 3))
    parallel, _ = singular_poses(H, np.random.default_rng(seed))
    assert parallel


@pytest.mark.finding("P5")
@pytest.mark.parametrize("of_forces", [0, 1, 2, 3])
def test_random_poses_tell_how_much_of_the_forces_is_seen(of_forces: int) -> None:
    """Property 3's converse: regular at a pose needs H_f of rank 2 at least, 3 is enough."""
    rng = np.random.default_rng(of_forces)
    for _ in range(50):
        H = random_unseen(of_forces, rng)
        assert np.linalg.matrix_rank(H[3:]) == of_forces
        parallel, turned = singular_poses(H, rng)
        assert parallel and turned == (of_forces < 2)
    moments_known = np.vstack([np.zeros((3, 3)), np.eye(3)])  # H_f regular, yet always singular
    assert singular_poses(moments_known, rng) == (True, True)


def test_on_a_slippery_floor_parallel_soles_are_not_enough() -> None:
    assert humanoid_on_feet(SLIPPERY, states=1) == {0}
    assert humanoid_on_feet(SLIPPERY, soles_parallel=True) == {1}


@pytest.mark.finding("P3")
@umfpack
@pytest.mark.parametrize("branching", [1.0, 1.5])
def test_umfpack_finds_the_triangular_order(branching: float) -> None:
    """Remark 3: of inverse dynamics up to N = 100, as built and shuffled."""
    for n in (5, 20, 100):
        assert umfpack_triangular(n, branching, mixed=False)
        assert umfpack_triangular(n, branching, mixed=True)


@pytest.mark.finding("P2")
@umfpack
def test_one_order_found_at_one_state_serves_others() -> None:
    """Remark 4: at 30 states answers as by pivoting, at the cost of orders found anew."""
    forward = reused_order(forward_system(chain(10)), Umfpack(), "qdd", 30)
    cells = reused_order(load_cell_system(chain(8, taper=1.0)), Umfpack(), "torque", 30)
    for found in (forward, cells):
        assert found.error < 1e-8 and found.pivot > 1e-7
        assert found.executed < 1.1 * found.anew


@pytest.mark.finding("P4")
@umfpack
def test_fewer_operations_than_aba_is_refuted_on_the_page() -> None:
    found = [row for row in figure_1_rows(10, 3) if row.table == ABSTRACT]
    assert [row.agrees for row in found] == [False] and found[0].number > 2
    claims = papers.page().partition("## What papers claim")[2].partition("\n## ")[0]
    assert "| [NORI] | abstract: N = 10, forward dynamics" in claims


@pytest.mark.finding("P1")
def test_only_what_was_computed_counts_as_reproduced() -> None:
    """No row has a formula on both sides; numbers of the scripts are counted apart."""
    rows, _, _ = papers.rows_of(papers.NORI)
    assert not any("closed form" in row.quantity for row in rows)
    same, of = tally(rows)
    alike, printed = tally(rows, "scripts")
    assert 0 < same == of and printed == 58 and alike > 40
    for row in rows:
        if row.table in (papers.FORWARD, papers.CELLS):
            assert row.basis == "scripts" and row.within
        assert row.basis in (*CITED, "scripts") and (row.basis in CITED) == bool(row.lines)
    assert all(row.why for row in differing(rows))


@pytest.mark.finding("P1")
def test_what_is_cited_stands_on_its_line() -> None:
    text = citations.text_of(papers.NORI.name)
    if text is None:
        pytest.skip("the text of the paper is not here")
    assert list(citations.uncited(papers.rows_of(papers.NORI)[0], text)) == []


def test_mixed_system_is_regular() -> None:
    system = mixed_system(chain(6, 1.5, 1.0))
    D, _ = system.assemble(np.linspace(0.3, 2, 6), np.ones(6))
    assert system.shape[0] == system.shape[1]
    assert np.linalg.matrix_rank(D.toarray()) == system.shape[1]


def test_claims_are_checked() -> None:
    assert not holds([Row("figure 1", "N = 2", "ours / ABA", None, 1.2)])
    assert not holds([Row("", "N = 8", "permuted LU, true / ours", None, 1.9)])
    assert holds([Row("", "N = 5", "permuted LU, true / ours", None, 1.9)])
    optimal = [
        Row(PROOFS, name, quantity, None, 7)
        for name in "ab"
        for quantity in ("constructive order, estimate", "least of all orders")
    ]
    saved = Row(SEARCH, "cells", "saved", None, 0.07)
    repeated = Row(SEARCH, "cells", "same order from the same seed", None, "yes")
    assert holds([*optimal, saved, repeated])
    assert not holds([*optimal, Row(SEARCH, "cells", "saved", None, 0.0), repeated])
    assert not holds([*optimal, saved, dataclasses.replace(repeated, ours="no")])


@umfpack
def test_counts_by_the_published_rules_are_checked() -> None:
    quantity = "LU, published rules, additions"
    for ours, why, right in ((114.9, "why", True), (115.1, "why", False), (114.9, "", False)):
        one = Row(FIGURE_1, "N = 20", quantity, 100, ours, "scripts", False, why)
        assert holds([one]) == right


@pytest.mark.slow
@pytest.mark.trust
def test_rows_do_not_depend_on_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [(feet_rows, ()), (published_set_rows, (4,))]
    monkeypatch.setattr(nori2017, "jobs", lambda quick: few)
    alone = nori2017.rows(workers=1)
    assert len(alone) == 5 and nori2017.rows(workers=2) == alone


@pytest.mark.slow
@pytest.mark.trust
@umfpack
def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nori2017.main(["--quick", "--json", "--plot", str(tmp_path)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {tuple(row)[:5] for row in rows} == {("table", "row", "quantity", "paper", "ours")}
    assert len(list(tmp_path.glob("*.png"))) == 2
    found = [Row(**row) for row in rows]
    assert any("do not hold" in note for note in notes(found))
