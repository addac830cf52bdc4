"""[DRUM] and [CK]: counts exact, small versions of the measurements run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dynsys.errors import ModelError
from dynsys.model import synthetic
from dynsys.simulation import ROUTES
from experiments import calibrate
from experiments.chang_khatib2001 import rows as chang_khatib2001
from experiments.chang_khatib2001 import runs as chang_khatib_runs
from experiments.drumwright2012 import centipedes, contact_model
from experiments.drumwright2012 import rows as drumwright2012
from experiments.drumwright2012 import runs as drumwright_runs
from experiments.drumwright2012.counts import TABLE_1, TABLE_2, TABLE_3, inverse_count, total
from experiments.papers.paper_rows import differing, tally


@pytest.mark.slow
def test_executed_operations_are_those_of_the_formulas() -> None:
    for n in (1, 2, 7):
        executed, error = drumwright_runs.executed_counts(n)
        assert executed == inverse_count(n)
        assert error < 1e-13


@pytest.mark.slow
def test_the_printed_algorithm_is_not_the_inverse() -> None:
    robot = synthetic.chain(3)
    q = robot.random_configuration(0)
    H = drumwright_runs.inertia_matrix_of(robot, q)
    assert np.abs(drumwright_runs.as_printed(robot, q) @ H - np.eye(3)).max() > 1e-3


def test_figure_1_crosses_where_the_formulas_do() -> None:
    found = {r.row: r.ours for r in drumwright2012.figure_1_rows() if r.quantity == "from n ="}
    assert found == {
        "Theta(n^2) below Cholesky factorisation": 53,
        "Theta(n^2) below formation and Cholesky": 42,
    }


def test_printed_totals() -> None:
    """Sums of printed rows say that the print is consistent: no number of ours comes out."""
    rows = drumwright2012.table_rows()
    assert all(entry.agrees for entry in rows) and tally(rows) == (0, 0)


def test_operations_that_are_not_those_of_table_1_are_said_to_differ() -> None:
    """They were strings, which nothing compared."""
    rows = drumwright2012.executed_rows(drumwright2012.Sizes(quick=True))
    assert tally(rows) == (0, 12) and len(differing(rows)) == 12
    assert all(entry.why for entry in differing(rows))


def test_lapack_is_not_judged_by_what_it_overwrote() -> None:
    """Its error came out as 0.99999."""
    assert max(drumwright_runs.frame_errors(10).values()) < 1e-12


def test_branched_bodies_are_half_as_deep() -> None:
    robot = drumwright_runs.branched(400)
    assert 0.4 < drumwright_runs.mean_depth(robot) < 0.6
    assert max(len(children) for children in robot.children) <= 2


def test_crossings_are_interpolated() -> None:
    sizes = [1, 10, 100]
    assert drumwright_runs.crossing(sizes, [1, 1, 1], [10, 1 + 1e-12, 0.1]) == pytest.approx(10)
    assert drumwright_runs.crossing(sizes, [1, 1, 1], [9, 9, 9]) is None
    assert drumwright_runs.crossing(sizes, [1, 1, 1], [0.5, 0.5, 0.5]) == 1


def test_one_outlier_does_not_move_a_crossing() -> None:
    sizes, slow = [1, 10, 100, 1000, 10000], [1.0] * 5
    assert drumwright_runs.crossing(sizes, slow, [9, 4, 0.25, 0.1, 1.1]) == pytest.approx(
        10**1.5
    )


@pytest.mark.slow
def test_humanoid_has_24_links_and_all_methods_agree_on_it() -> None:
    rows = chang_khatib2001.humanoid_rows(quick=True)
    assert [r.ours for r in rows if r.quantity == "links n"] == [24]
    errors = [r.ours for r in rows if r.quantity == "error against dense"]
    assert len(errors) == 5
    assert all(isinstance(e, float) and e < 1e-10 for e in errors)


def test_linear_fit_of_a_line() -> None:
    slope, exponent, fit = chang_khatib_runs.linear_fit([10, 20, 40, 80], [1.0, 2.0, 4.0, 8.0])
    assert (slope, exponent, fit) == pytest.approx((0.1, 1.0, 1.0))


@pytest.mark.slow
@pytest.mark.parametrize("experiment", [drumwright2012, chang_khatib2001])
def test_command_line_prints_rows_and_writes_figures(
    experiment: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--quick", "--json", "--plot", str(tmp_path)]
    assert experiment.main(arguments) == 0  # type: ignore[attr-defined]
    rows = json.loads(capsys.readouterr().out)
    assert {tuple(row)[:5] for row in rows} == {("table", "row", "quantity", "paper", "ours")}
    assert len(list(tmp_path.glob("*.png"))) >= 3


def test_units_are_recovered_from_exact_times() -> None:
    units = {"a": {"call": 2.0, "n": 0.5}, "b": {"call": 1.0, "n": 1.0}}
    cases: list[calibrate.Case] = []
    for n in (1.0, 2.0, 3.0, 10.0):
        counts = {m: {"call": 1.0, "n": n} for m in units}
        cases.append((counts, {m: u["call"] + u["n"] * n for m, u in units.items()}))
    assert calibrate.fit(cases) == units
    assert calibrate.loss(cases, units) == (1.0, 1.0)


# ---- counts ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 10, 77])
def test_printed_totals_are_the_sums_of_their_rows(n: int) -> None:
    assert [2 * x for x in total(TABLE_1, n)] == [45 * n**2 + 432 * n, 52 * n**2 + 340 * n]
    cubic = n**3 + 7 * n**2 + 290 * n, n**3 + 5 * n**2 + 200 * n - 26
    assert [2 * x for x in total(TABLE_2, n)] == list(cubic)
    assert [2 * x for x in total(TABLE_3, n)] == [261 * n + 216, 266 * n + 126]


def test_counts_need_a_joint() -> None:
    with pytest.raises(ModelError, match="at least one joint"):
        inverse_count(0)


# ---- the contact model of [DRUM]'s reference 10 ------------------------------------------


@pytest.mark.slow
def test_maximum_dissipation_leaves_the_least_energy_and_lets_no_foot_approach() -> None:
    found = contact_model.compare(2, 8, 1.0)
    his, sweeps = contact_model.DISSIPATION, contact_model.SWEEPS
    assert found.most[his] < 1 + 1e-9  # Coulomb's answer is one that it may take
    assert found.energy[his] < 1 - 1e-5
    assert max(found.approach.values()) < 1e-7
    assert found.beside[his] > 1 > 1e-3 > found.beside[sweeps]
    assert found.slip[contact_model.NEWTON] < 1e-6


def test_both_models_agree_on_what_sticks_and_on_a_point_mass() -> None:
    A, stick, slide = np.eye(3) / 2, np.array([-1.0, 0.3, 0.2]), np.array([-1.0, 3.0, 4.0])
    for b, exact in ((stick, -2 * stick), (slide, [2.0, -2 * 0.8 * 0.6, -2 * 0.8 * 0.8])):
        for model in contact_model.MODELS.values():
            np.testing.assert_allclose(model(A, b, 0.8), exact, atol=1e-6)
    assert not contact_model.maximum_dissipation(A, np.zeros(3), 0.8).any()


@pytest.mark.finding("P9")
def test_a_centipede_that_stands_is_stopped_by_maximum_dissipation_as_by_coulomb() -> None:
    """Figure 4 had no step by the paper's own method."""
    stepping = contact_model.Stepping(2, 1e-5, contact_model.DISSIPATION, explicit=True)
    problem, _, b = stepping.problem(*stepping.start(), 0.0)
    x = contact_model.maximum_dissipation(problem.A, b, 0.8)
    assert len(x) == 12 and np.abs(problem.A @ x + b).max() < 1e-9 * np.abs(b).max()
    assert (np.hypot(x[1::3], x[2::3]) <= 0.8 * x[::3]).all()
    coulomb = contact_model.newton(problem.A, b, 0.8)
    np.testing.assert_allclose(x, coulomb, atol=1e-6 * np.abs(x).max())


@pytest.mark.slow
@pytest.mark.finding("P9")
def test_a_step_by_maximum_dissipation_is_the_same_by_every_route() -> None:
    steppings = [
        contact_model.Stepping(2, 1e-5, contact_model.DISSIPATION, route, explicit=True)
        for route in ROUTES
    ]
    q, v = steppings[0].start()
    for _ in range(20):
        after = [stepping.step(q, v, 0.0) for stepping in steppings]
        for other in after[1:]:
            np.testing.assert_allclose(other[1], after[0][1], atol=1e-10)
        q, v = after[0]
    parts = contact_model.step_parts(2, 1)
    assert set(parts.step) == set(parts.inertia) == set(ROUTES) and parts.impulses > 0


@pytest.mark.slow
def test_four_routes_to_the_inertia_of_contacts_agree() -> None:
    times, errors = centipedes.inertia_seconds(3, 1)
    assert set(times) == set(errors) == set(ROUTES) and max(errors.values()) < 1e-12
