"""[DRUM] and [CK]: counts exact, small versions of the measurements run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dynsys import ModelError, synthetic
from dynsys.simulation import ROUTES
from experiments import calibrate
from experiments.chang_khatib2001 import rows as chang_khatib2001
from experiments.chang_khatib2001 import runs as chang_khatib_runs
from experiments.drumwright2012 import centipedes, contact_model, printed
from experiments.drumwright2012 import rows as drumwright2012
from experiments.drumwright2012 import runs as drumwright_runs
from experiments.drumwright2012.counts import TABLES, inverse_count, polynomial, text, through
from experiments.papers import citations
from experiments.papers import page as papers
from experiments.papers.paper_rows import Row, differing, tally


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
    assert np.abs(printed.algorithm_1(robot, q) @ H - np.eye(3)).max() > 1e-3
    assert np.abs(printed.algorithm_1(robot, q, complete=True) @ H - np.eye(3)).max() < 1e-13


def test_figure_1_crosses_where_the_formulas_do() -> None:
    found = {r.row: r.ours for r in drumwright2012.figure_1_rows() if r.quantity == "from n ="}
    assert found == {
        "Theta(n^2) below Cholesky factorisation, by the printed formulas": 53,
        "Theta(n^2) below formation and Cholesky, by the printed formulas": 42,
        "Theta(n^2) below Cholesky factorisation, as executed": 195,
        "Theta(n^2) below formation and Cholesky, as executed": 173,
        "our loops below Cholesky factorisation, as executed": 85,
        "our loops below formation and Cholesky, as executed": 58,
    }


@pytest.mark.finding("P7")
def test_figure_1_counts_axes_and_inertias_on_both_sides() -> None:
    """Our loops were 1924 at n = 10, without what the paper's 4410 begin with."""
    found = {r.row: r.ours for r in drumwright2012.figure_1_rows()}
    axes_and_inertias = 10 * (24 + 78)
    assert found["our loops, n = 10"] == 1924 + axes_and_inertias
    assert found["Theta(n^2), n = 10"] == 13 * 100 + 19 * 100 + 84 * 10 + axes_and_inertias


@pytest.mark.finding("P8")
def test_tables_are_executed_as_printed() -> None:
    """Operations of table 1 were compared with loops that do less, tables 2 and 3 summed."""
    rows = drumwright2012.table_rows()
    same = {
        (r.table, r.row, r.quantity.partition(",")[0], r.ours) for r in rows if r.agrees is True
    }
    for table, n, square in (("table 1", "n", "n^2"), ("table 3", "", "n")):
        assert {cell[1:] for cell in same if cell[0] == table} == {
            ("spatial axes", "multiplications", f"24{n}"),
            ("isolated inertias", "additions", f"57{n}"),
            ("articulated inertias", "additions", "107n"),
            ("impulse propagation", "multiplications", f"13{square}"),
        }
    assert {cell[1:] for cell in same if cell[0] == "table 2"} == {
        ("spatial axes", "multiplications", "24n"),
        ("isolated inertias", "additions", "57n"),
        ("composite inertias", "multiplications", "0"),
        ("composite inertias", "additions", "13n - 13"),
        ("I s vectors", "multiplications", "36n"),
    }
    assert tally(rows) == (13, 38) and all(one.why for one in differing(rows))
    found = {(r.table, r.row, r.quantity[0]): r.ours for r in rows}
    assert found["table 1", "velocity updates", "m"] == "19n^2"
    assert found["table 2", "Cholesky (naive)", "a"] == "n^3/6 - n/6"


@pytest.mark.finding("P8")
def test_what_is_counted_for_table_2_is_the_inertia_matrix_and_its_factor() -> None:
    robot = synthetic.chain(5)
    q, parent = robot.random_configuration(0), robot.parent
    links = printed.links_of(robot, q)
    s, inertias = [printed.axis(x) for x in links], [printed.isolated(x) for x in links]
    printed.composite(parent, inertias)
    whole = [inertia.matrix(np.array) for inertia in inertias]
    Is = [inertia @ axis for inertia, axis in zip(whole, s, strict=True)]
    M, H = printed.elements(parent, s, Is), drumwright_runs.inertia_matrix_of(robot, q)
    np.testing.assert_allclose(M.astype(float), np.tril(H), atol=1e-13)
    printed.cholesky(M)
    np.testing.assert_allclose(M.astype(float), np.linalg.cholesky(H), atol=1e-13)


def test_counts_are_read_and_written_as_the_paper_prints_them() -> None:
    for table in TABLES.values():
        for *cells, _ in table.values():
            for cell in cells:
                assert text(polynomial(cell)) == cell.replace("26n^2/2", "13n^2")
    assert through(lambda n: n * (n + 1) // 2) == polynomial("n^2/2 + n/2")
    with pytest.raises(ModelError, match="operations at n"):
        through(lambda n: 2**n)


# ---- what the paper says, and where ----------------------------------------------------------


def kept() -> list[Row]:
    return papers.rows_of(papers.DRUMWRIGHT)[0]


@pytest.mark.finding("P8")
def test_kept_tables_are_what_is_executed_now() -> None:
    now = [r for r in drumwright2012.table_rows() if r.paper is not None]
    assert [r for r in kept() if r.basis == "paper" and r.paper is not None] == now


@pytest.mark.finding("P8", "P12")
def test_every_value_stands_on_its_line_of_the_paper() -> None:
    said = citations.text_of("drumwright2012")
    if said is None:
        pytest.skip("../shared/papers is not there")
    assert not list(citations.uncited([*kept(), *drumwright2012.table_rows()], said))


@pytest.mark.finding("P12")
def test_claims_of_speed_say_what_passes_and_why_they_do_not() -> None:
    claims = [r for r in kept() if r.basis == "claim"]
    assert len(claims) == 9 and all(r.within and r.lines for r in claims)
    for one in differing(claims):
        assert any(word in one.why for word in ("times as fast", "times faster", "cores"))


@pytest.mark.finding("P-16")
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
@pytest.mark.trust
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


@pytest.mark.parametrize("table", TABLES)
def test_printed_totals_are_the_sums_of_their_rows(table: str) -> None:
    *rows, total = TABLES[table].values()
    for column in (0, 1):
        cells = [polynomial(str(row[column])) for row in rows]
        summed = tuple(sum(terms) for terms in zip(*cells, strict=True))
        assert summed == polynomial(str(total[column]))


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
