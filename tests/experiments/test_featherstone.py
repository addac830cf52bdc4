"""The experiments on [BIS] and [OSI]: every number as printed, and the pictures get written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynsys
from dynsys import operational_space, synthetic
from experiments.featherstone2005 import rows as featherstone2005
from experiments.featherstone2005.axial_screws import ScrewRobot
from experiments.featherstone2005.counts import crba_count, crba_sums
from experiments.featherstone2010 import kernels
from experiments.featherstone2010 import rows as featherstone2010
from experiments.featherstone2010.counts import omega_count, propagator_count, rjk_transforms
from experiments.featherstone2010.rows import Variant
from experiments.papers import paper_rows
from experiments.papers.paper_rows import Row, differing, row, tally


@pytest.mark.slow
@pytest.mark.trust
def test_every_number_of_2005_comes_out() -> None:
    rows = featherstone2005.rows()
    assert [row for row in rows if row.agrees is False and row.basis != "claim"] == []
    assert tally(rows) == (40, 40)
    values = {(row.row, row.quantity): row.ours for row in rows}
    assert values["humanoid", "via CRBA"] == "6476m + 5597a"
    assert values["chain", "via CRBA"] == "14555m + 11756a"
    assert sum(row.agrees is True for row in rows) >= 50


@pytest.mark.slow
@pytest.mark.trust
def test_every_number_of_2010_comes_out() -> None:
    rows = featherstone2010.rows(quick=True)
    assert tally(rows) == (47, 48)
    values = {(row.row, row.quantity): row.ours for row in rows}
    assert values["H, C", "formula"] == "7317m + 6219a"
    assert values["Omega", "blocks needed"] == 67
    letter = [row for row in rows if row.quantity == "cost ratio, figure 15 to the letter"]
    assert [(row.basis, row.agrees) for row in letter] == [("given", True)] * 7
    needed = [row for row in rows if row.quantity == "cost ratio"]
    assert [row.ours for row in needed[:6]] == [row.ours for row in letter[:6]]
    assert needed[6].ours == pytest.approx(1.3135, abs=1e-4)
    assert [row for row in differing(rows) if row.basis != "claim"] == needed[6:]


@pytest.mark.finding("P11")
def test_table_1_of_2005_has_products_and_solves_with_the_transpose() -> None:
    """Its formulas are those that fit what is executed, on every tree."""
    rows = {row.row: row for row in featherstone2005.table_1_rows()}
    assert len(rows) == 12 and all(row.agrees and row.basis == "paper" for row in rows.values())
    assert rows["L^T x, LTL"].ours == "n m + D1 (m + a)"
    assert rows["L^-T x, LTDL"].ours == "D1 (m + a)"


@pytest.mark.finding("P11")
def test_group_and_expanded_trees_of_2010_have_their_rows() -> None:
    for one in (*featherstone2010.group_rows(), *featherstone2010.expanded_rows()):
        assert one.agrees is True and one.ours == 100


@pytest.mark.parametrize("seed", range(5))
def test_screw_arithmetic_executes_the_cost_models(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parent = [-1, *(int(rng.integers(0, i)) for i in range(1, 9))]
    robot = ScrewRobot(parent, base_frames=True, seed=seed)
    H, count = robot.inertia_matrix()
    assert_allclose(H, dynsys.recursive.crba(robot.tree(), robot.q()), atol=1e-11)
    assert count == crba_count(crba_sums(parent, floating_base=True))
    robot = ScrewRobot(parent, base_frames=False, seed=seed)
    bodies = sorted(int(b) for b in rng.choice(len(parent), 3, replace=False))
    blocks, first, second = robot.omega(bodies)
    inverse = operational_space(robot.tree(), robot.q(), bodies, method="dense").Lambda_inv
    for a, i in enumerate(bodies):
        for b, j in enumerate(bodies[a:], start=a):
            block = inverse[6 * a : 6 * a + 6, 6 * b : 6 * b + 6]
            assert_allclose(blocks[i, j], block, atol=1e-9)
    moves = rjk_transforms(parent, bodies)
    assert first == propagator_count(len(parent), moves)
    assert second == omega_count(moves)


@pytest.mark.slow
def test_machine_code_of_table_3_executes_what_is_counted() -> None:
    """On a small robot: right, and few operations from the paper's cost model."""
    parent, bodies = (-1, 0, 1, 2, 0, 4, 5), (3, 6)
    found = kernels.timed(parent, bodies, 3)
    assert set(found) == {kernels.FACTORISATION, kernels.RJK, kernels.OURS}
    assert all(one.error < 1e-12 and one.ns > 0 for one in found.values())
    rjk, factorisation = found[kernels.RJK].operations, found[kernels.FACTORISATION].operations
    moves = rjk_transforms(parent, bodies)
    counted = (propagator_count(len(parent), moves) + omega_count(moves)).total
    assert rjk is not None and 0.8 < rjk / counted < 1.2
    assert factorisation is not None and factorisation < rjk


def test_asimo_of_table_3_is_the_synthetic_one() -> None:
    def shape(parent: list[int], root: int = -1) -> tuple[object, ...]:
        return tuple(
            sorted(shape(parent, i) for i, p in enumerate(parent) if p == root)  # type: ignore[type-var]
        )

    assert shape(Variant().parent) == shape(synthetic.asimo().parent.tolist())


@pytest.mark.slow
@pytest.mark.trust
@pytest.mark.parametrize("experiment", [featherstone2005, featherstone2010])
def test_command_line_prints_rows_and_writes_figures(
    experiment: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--quick"] if experiment is featherstone2010 else []
    assert experiment.main(["--json", "--plot", str(tmp_path), *more]) == 0  # type: ignore[attr-defined]
    rows = json.loads(capsys.readouterr().out)
    assert {tuple(row)[:5] for row in rows} == {("table", "row", "quantity", "paper", "ours")}
    assert len(list(tmp_path.glob("*.png"))) >= 4


def test_rows_agree_at_the_digits_of_the_paper() -> None:
    assert Row("", "", "", 7.8, 7.753).agrees is True
    assert Row("", "", "", 7.8, 7.86).agrees is False
    assert Row("", "", "", None, 1).agrees is None
    assert Row("", "", "", "1m", "2m").agrees is False


@pytest.mark.finding("P-15", "tests that cannot fail")
def test_only_numbers_found_without_the_paper_are_counted() -> None:
    """Inputs, sums of printed rows and our own numbers once counted as reproduced."""
    own = [row("t", "r", "q", 1, 1), row("t", "r", "q", 1, 2)]
    others = [row("t", "r", "q", 1, 1, "given"), row("t", "r", "q", 3, 3, "ours")]
    claim = row("t", "r", "q", "an order of magnitude", 3.0, holds=False, why="small sizes")
    assert tally([*own, *others, claim]) == (1, 2)
    assert differing([*own, *others, claim]) == [own[1], claim]
    with pytest.raises(TypeError, match="'faster' beside 3"):
        _ = row("t", "r", "q", "faster", 3.0).agrees


def test_what_differs_is_said_first_and_decides(capsys: pytest.CaptureFixture[str]) -> None:
    for why, status in (("", 1), ("known", 0)):
        rows = [row("t", "r", "q", 1, 1), row("t", "s", "q", 1, 2, why=why)]
        assert paper_rows.main("title", lambda rows=rows: rows, lambda _: [], (), []) == status
        said = capsys.readouterr().out
        assert said.startswith("differs: t, s, q: 1 in the paper, 2 here")
        assert "1 of 2 of the paper's own numbers" in said
