"""What the recursion of [CK] executes, step by step, and what counts as the paper's claim."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynsys
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
from experiments.featherstone2005.axial_screws import ScrewRobot

pytestmark = pytest.mark.finding("P10")


def test_the_counted_recursion_finds_lambda() -> None:
    parent, tips = star(3, 7)
    robot = ScrewRobot(parent, base_frames=False, seed=3)
    tree, q = robot.tree(), robot.q()
    H = dynsys.recursive.crba(tree, q)[6:, 6:]  # the base stands
    J = np.vstack([TIP.matrix() @ dynsys.jacobian(tree, q, tip)[:, 6:] for tip in tips])
    exact = np.linalg.inv(J @ np.linalg.solve(H, J.T))
    found, _ = recursion(robot, tips)
    assert_allclose(found, exact, atol=1e-9 * np.abs(exact).max())


def test_sums_of_powers_foretell_a_star_that_was_not_counted() -> None:
    parent, tips = star(7, 10)
    n = TRUNK + 70
    counts = recursion(ScrewRobot(parent, base_frames=False), tips)[1]
    values = terms_of(n, 7, 10)
    for step, count in counts.items():
        assert growth()[step].at(values) == pytest.approx(count.total, rel=1e-12)


def test_every_power_of_the_claim_is_there_and_no_other() -> None:
    rows = {row.quantity: row for row in chang_khatib.growth_rows() if row.lines}
    assert len(rows) == 8 and all(row.agrees for row in rows.values())
    assert rows["operations, step 6"].ours == "504m^3 - 2m"
    powers = growth()["all steps"].powers
    assert {"nm", "m^3"} <= powers and not powers & {"n^2", "n^3", "n^2m", "nm^2"}
    assert growth()["step 4"].leads("nm") and not growth()["step 4"].leads("m^3")


def test_a_step_that_grows_faster_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    quadratic = Growth(("nm", "n", "n^2"), [Fraction(1)] * 3)
    monkeypatch.setattr(
        chang_khatib, "growth", lambda: {**growth(), "step 3": quadratic}, raising=True
    )
    refuted = [row.quantity for row in chang_khatib.growth_rows() if row.agrees is False]
    assert refuted == ["operations, step 3"]


def test_times_of_this_machine_decide_no_claim() -> None:
    """A millisecond is held against operations and the cycles of the paper's processor."""
    first, *steps = chang_khatib.counted_rows(humanoid24())
    assert first.basis == "claim" and first.agrees and "266000" in first.within
    assert first.ours == sum(int(row.number) for row in steps)
    assert all(row.paper is None for row in steps)
