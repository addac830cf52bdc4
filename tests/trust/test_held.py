"""A fixed sample of the campaign of constrained dynamics, and that it can fail."""

from __future__ import annotations

import numpy as np
import pytest

from dynsys.plan.quadratic_form import QuadraticForm
from experiments.trust import held

SEEDS = (1, 2, 11, 16, 20, 24)
"""Forward and hybrid dynamics; rows independent, implied, contradicting."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_robots_that_are_held_agree_with_a_dense_system(seed: int) -> None:
    case = held.judged(seed)
    assert not case.failures
    assert case.compared or case.rows == ["contradict"] * 3


def test_the_sample_has_rows_of_every_kind() -> None:
    """Rows that others imply, or that contradict, are among what is asked."""
    rng = np.random.default_rng(0)
    kinds = set()
    for _ in range(60):
        problem = held._problem(held.dynsys.synthetic.chain(4, generic=True), rng)
        states = held._states(problem.robot, rng)
        kinds |= {held.bordered(problem, state).rows for state in states}
    assert kinds >= {"independent", "implied", "contradict"}


@pytest.mark.slow
def test_torques_that_are_lost_on_the_way_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a tie of joints does to the bodies that carry them, cleared as it was once (B-1)."""
    drive = QuadraticForm.drive

    def forgets(self: QuadraticForm, *given: object) -> None:
        drive(self, *given)
        self._driven.clear()

    monkeypatch.setattr(QuadraticForm, "drive", forgets)
    assert any(held.judged(seed).failures for seed in (22, 25, 38))
