"""[NORI] in its quick version: ABA exactly, LU within 15%, ours below; accuracy of ours."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynsys
from dynsys.errors import LayoutError
from dynsys.plan.orders.libraries import UmfpackLibrary
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
)
from experiments.nori2017.notes import FIGURE_1, PROOFS, SEARCH, holds, notes
from experiments.nori2017.posedness import PLATE, SLIPPERY, feet_ranks, published_ranks
from experiments.nori2017.published import aba_operations
from experiments.nori2017.rows import (
    SCRIPT_CELLS_PERMUTED,
    SCRIPT_PERMUTED,
    feet_rows,
    published_set_rows,
)
from experiments.nori2017.search import mixed_system
from experiments.papers.paper_rows import Row
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
    assert holds([Row(FIGURE_1, "N = 20", quantity, 100, 114.9)])
    assert not holds([Row(FIGURE_1, "N = 20", quantity, 100, 115.1)])


@pytest.mark.slow
def test_rows_do_not_depend_on_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [(feet_rows, ()), (published_set_rows, (4,))]
    monkeypatch.setattr(nori2017, "jobs", lambda quick: few)
    alone = nori2017.rows(workers=1)
    assert len(alone) == 5 and nori2017.rows(workers=2) == alone


@pytest.mark.slow
@umfpack
def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nori2017.main(["--quick", "--json", "--plot", str(tmp_path)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {tuple(row)[:5] for row in rows} == {("table", "row", "quantity", "paper", "ours")}
    assert len(list(tmp_path.glob("*.png"))) == 2
    found = [Row(**row) for row in rows]
    aba = [row for row in found if row.quantity.startswith("ABA, closed form")]
    assert aba and all(row.agrees for row in aba)
    assert any("do not hold" in note for note in notes(found))
