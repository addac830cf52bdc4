"""A small version of the derivatives' experiment: answers agree, operations are as stated."""

from __future__ import annotations

import pytest

from dynsys import synthetic
from tests.robots import robots_folder

pytest.importorskip("pinocchio")

from experiments import derivatives

needs_robots = pytest.mark.skipif(robots_folder() is None, reason="needs example-robot-data")


@needs_robots
def test_times_have_answers_that_agree() -> None:
    rows = derivatives.beside_pinocchio("allegro", turns=1)
    assert [row["task"] for row in rows] == ["ID", "FD"]
    assert all(row["difference"] <= derivatives.AGREE and row["one"] > 0 for row in rows)


def test_operations_grow_with_pairs() -> None:
    """The recursion; accumulation, which takes fewer on short chains, is kept there."""
    short, *long = (
        derivatives.operations(derivatives.both(synthetic.chain(n))["ID"]) for n in (4, 8, 16)
    )
    assert (short, long) == (864, [4874, 14737])
