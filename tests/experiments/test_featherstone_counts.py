"""Operation counts of [BIS] and [CK]: what is executed, and the formulas that fit it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose

import dynsys
from dynsys import (
    ModelError,
    mul_L,
    mul_LT,
    solve_L,
    solve_LT,
    solve_ltdl,
    solve_ltl,
    synthetic,
)
from dynsys.model.expanded import expanded_parent
from dynsys.recursive.sparse_factors import ltdl_in_situ, ltl_in_situ, support_mask, tree_sums
from dynsys.types import IntArray
from experiments.chang_khatib2001 import rows as chang_khatib
from experiments.chang_khatib2001.counts import (
    TIP,
    TRUNK,
    Growth,
    growth,
    recursion,
    star,
    terms_of,
)
from experiments.chang_khatib2001.runs import humanoid24
from experiments.counting import OperationCount, Tally, exact_fit, written_out
from experiments.featherstone2005.axial_screws import ScrewRobot
from experiments.featherstone2005.counts import (
    crba_count,
    crba_sums,
    dh_nodes,
    factor_count,
    product_count,
    solve_count,
    subtree_sizes,
    triangular_solve_count,
    unbranched_sums,
)
from experiments.featherstone2005.rows import TOPOLOGIES, parents_of
from tests.recursive.trees import parents, random_factor, random_inertia


@pytest.mark.slow
@given(parent=parents(max_size=8))
@settings(max_examples=30)
def test_formulas_are_what_is_executed(parent: IntArray) -> None:
    rng, sums = np.random.default_rng(0), tree_sums(parent)
    for unit, factorise in ((False, ltl_in_situ), (True, ltdl_in_situ)):
        tally = Tally()
        factorise(tally.scalars(random_inertia(parent, rng)), parent)
        assert tally.count == factor_count(sums, unit=unit)
        for operation, formula in (
            (mul_L, product_count),
            (mul_LT, product_count),
            (solve_L, triangular_solve_count),
            (solve_LT, triangular_solve_count),
        ):
            tally = Tally()
            L, x = (
                tally.scalars(random_factor(parent, rng)),
                tally.scalars(np.ones(len(parent))),
            )
            operation(L, parent, x, unit=unit)
            assert tally.count == formula(sums, unit=unit)
    for unit in (False, True):
        tally = Tally()
        L, x = (
            tally.scalars(random_factor(parent, rng)),
            tally.scalars(np.ones((len(parent), 2))),
        )
        if unit:
            solve_ltdl(L, tally.scalars(np.ones(len(parent))), parent, x)
        else:
            solve_ltl(L, parent, x)
        assert tally.count == 2 * solve_count(sums, unit=unit)


@given(parent=parents())
def test_sums_count_the_pattern(parent: IntArray) -> None:
    sums, mask = tree_sums(parent), support_mask(parent)
    assert sums.n + sums.D1 == mask.sum()
    assert sums.nonzeros == (mask | mask.T).sum()
    assert sums.D0 == (parent >= 0).sum()
    assert subtree_sizes(parent).tolist() == mask.sum(axis=0).tolist()


@given(parent=parents())
def test_dh_and_other_nodes_share_the_sums(parent: IntArray) -> None:
    split, sums = crba_sums(parent), tree_sums(parent)
    assert split.D0a + split.D0b == sums.D0  # [BIS] after eq. (19)
    assert split.D1a + split.D1b == sums.D1
    children = np.bincount(parent + 1, minlength=len(parent) + 1)
    assert (~dh_nodes(parent)).sum() == np.maximum(0, children - 1).sum()  # [BIS] eq. (17)


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_topologies_of_table_2_are_those_of_the_synthetic_robots(name: str) -> None:
    make = {
        "unbranched": synthetic.chain,
        "short side branches": synthetic.side_branches,
        "balanced tree": synthetic.balanced_tree,
        "spanning grid": synthetic.spanning_grid,
    }[name]
    for m in range(1, 6):
        assert tree_sums(parents_of(name, m)) == tree_sums(expanded_parent(make(m)))


def test_sums_of_chains() -> None:
    for n in (1, 2, 7):
        assert unbranched_sums(n) == tree_sums(parents_of("unbranched", n))
    with pytest.raises(ModelError, match=">= 1"):
        unbranched_sums(0)


def test_a_formula_fits_every_count_or_is_refused() -> None:
    sizes = range(1, 8)
    terms = [[n**3, n, 1] for n in sizes]
    found = exact_fit(terms, [(n**3 - n) // 6 for n in sizes])
    assert written_out(["n^3", "n", ""], found) == "(n^3 - n)/6"
    assert written_out(["n", ""], [Fraction(-1), Fraction(3)]) == "- n + 3"
    with pytest.raises(ValueError, match="fit every count"):
        exact_fit(terms, [n**4 for n in sizes])
    with pytest.raises(ValueError, match="2 samples leave coefficient 2 of 3 open"):
        exact_fit(terms[:2], [0, 1])


def test_counts_of_the_humanoid() -> None:
    robot = synthetic.humanoid30()
    sums = tree_sums(expanded_parent(robot))
    assert (sums.D1, sums.D2, sums.nonzeros) == (219, 1039, 468)
    factor = factor_count(sums, unit=True)
    assert str(factor.divisions_as_multiplications) == "1258m + 1039a"
    back = solve_count(sums, unit=True)
    assert str(back.divisions_as_multiplications) == "468m + 438a"
    crba = crba_count(crba_sums(robot.parent, floating_base=True))
    assert str(crba) == "2475m + 2124a"


def test_counting_scalars_compute_and_count() -> None:
    tally = Tally()
    x, y = tally.scalars([9.0, 2.0])
    value = (2 - np.sqrt(x) * y + 1) / y - (1 / y) + (-x)
    assert float(value) == pytest.approx(-11.0)
    assert tally.count == OperationCount(1, 4, 2, 1)
    assert tally.count.total == 8
    assert str(OperationCount()) == "0"
    assert 2 * OperationCount(1, 2) - OperationCount(1, 1) == OperationCount(1, 3)
    assert float(np.sum(np.array([x, y]) * y)) == 22.0
    assert repr(x) == "Counted(9.0)"


# ---- [CK]: what the recursion executes, step by step --------------------------------------


@pytest.mark.finding("P10")
def test_the_counted_recursion_finds_lambda() -> None:
    parent, tips = star(3, 7)
    robot = ScrewRobot(parent, base_frames=False, seed=3)
    tree, q = robot.tree(), robot.q()
    H = dynsys.recursive.crba(tree, q)[6:, 6:]  # the base stands
    J = np.vstack([TIP.matrix() @ dynsys.jacobian(tree, q, tip)[:, 6:] for tip in tips])
    exact = np.linalg.inv(J @ np.linalg.solve(H, J.T))
    found, _ = recursion(robot, tips)
    assert_allclose(found, exact, atol=1e-9 * np.abs(exact).max())


@pytest.mark.finding("P10")
def test_sums_of_powers_foretell_a_star_that_was_not_counted() -> None:
    parent, tips = star(7, 10)
    n = TRUNK + 70
    counts = recursion(ScrewRobot(parent, base_frames=False), tips)[1]
    values = terms_of(n, 7, 10)
    for step, count in counts.items():
        assert growth()[step].at(values) == pytest.approx(count.total, rel=1e-12)


@pytest.mark.finding("P10")
def test_every_power_of_the_claim_is_there_and_no_other() -> None:
    rows = {row.quantity: row for row in chang_khatib.growth_rows() if row.lines}
    assert len(rows) == 8 and all(row.agrees for row in rows.values())
    assert rows["operations, step 6"].ours == "504m^3 - 2m"
    powers = growth()["all steps"].powers
    assert {"nm", "m^3"} <= powers and not powers & {"n^2", "n^3", "n^2m", "nm^2"}
    assert growth()["step 4"].leads("nm") and not growth()["step 4"].leads("m^3")


@pytest.mark.finding("P10")
def test_a_step_that_grows_faster_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    quadratic = Growth(("nm", "n", "n^2"), [Fraction(1)] * 3)
    monkeypatch.setattr(
        chang_khatib, "growth", lambda: {**growth(), "step 3": quadratic}, raising=True
    )
    refuted = [row.quantity for row in chang_khatib.growth_rows() if row.agrees is False]
    assert refuted == ["operations, step 3"]


@pytest.mark.finding("P10")
def test_times_of_this_machine_decide_no_claim() -> None:
    """A millisecond is held against operations and the cycles of the paper's processor."""
    first, *steps = chang_khatib.counted_rows(humanoid24())
    assert first.basis == "claim" and first.agrees and "266000" in first.within
    assert first.ours == sum(int(row.number) for row in steps)
    assert all(row.paper is None for row in steps)
