"""Shuffled inverse dynamics and two workers against one, in small."""

from __future__ import annotations

import json

import pytest

from dynsys import synthetic
from dynsys.plan.search.price import SearchProblem
from experiments import search_workers, triangularise
from experiments.example_robots import ROBOTS, all_urdf_files
from experiments.nori2017.counts import chain, load_cell_system
from experiments.papers.paper_rows import Row

needs_robots = pytest.mark.skipif(not all_urdf_files(), reason="example-robot-data missing")


@pytest.mark.parametrize("family", sorted(triangularise.FAMILIES))
def test_shuffled_trees_become_triangular(family: str) -> None:
    for n in (1, 2, 7, 60):
        result = triangularise.triangularise(family, triangularise.FAMILIES[family](n), seed=n)
        assert result.is_triangular and result.fill == 0
        assert result.bodies == n


@needs_robots
def test_shuffled_robots_become_triangular() -> None:
    files = [file for file, _ in ROBOTS[::7]]
    tried = list(triangularise.robots(files))
    assert len(tried) == 2 * len(files)
    for name, robot in tried:
        assert not isinstance(robot, Exception), name
        result = triangularise.triangularise(name, robot)
        assert result.is_triangular and result.fill == 0


def test_exponent_is_that_of_a_power_law() -> None:
    base = triangularise.triangularise("chain", synthetic.chain(2))
    results = [
        triangularise.Triangularised(
            "", n, 20 * n, 80 * n, True, 0, 0.0, 0.0, {"as built": (80 * n) ** 1.5}
        )
        for n in (300, 1000, 5000)
    ]
    assert triangularise.exponent(results, "as built") == pytest.approx(1.5)
    assert base.processor_seconds["shuffled"] > 0


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        ("fill", 1),
        ("triangular", "no"),
        ("seconds to order", 5.1),
        ("exponent of time, as built", 1.2),
        ("exponent of time, shuffled", 1.9),
    ],
)
def test_triangular_claims_are_checked(quantity: str, value: float | str) -> None:
    good = [Row("", "", "fill", 0, 0), Row("", "", "exponent of time, as built", None, 1.0)]
    assert triangularise.holds(good)
    assert not triangularise.holds([*good, Row("", "", quantity, None, value)])
    assert not triangularise.holds([])


@pytest.mark.slow
@pytest.mark.trust
def test_workers_find_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    system = load_cell_system(chain(5, taper=1.0), net_wrench=False)
    problem = SearchProblem.of(system, ("torque",))
    one, two = (
        search_workers.timed_search(system, problem, 2500, 0, workers) for workers in (1, 2)
    )
    assert search_workers.same_result(one, two)
    assert one.evaluations == two.evaluations == 2500
    assert two.processor_seconds > 0
    other = search_workers.timed_search(system, problem, 2500, 1, 1)
    assert not search_workers.same_result(one, other)
    assert json.dumps(one.as_json())
