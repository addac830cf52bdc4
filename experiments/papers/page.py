"""Every table and figure of the five papers with its state, written as ``docs/papers.md``.

    python -m experiments.papers [--take NAME=FILE ...] [--check]

What a paper has is listed here by hand; its state is found from the rows of the experiment that
reproduces it, kept in ``docs/results``. A value of a paper names the lines of its text that it
stands on (:mod:`experiments.papers.citations`). To measure anew and keep that:

    python -m experiments.drumwright2012 --json > FILE
    python -m experiments.papers --take drumwright2012=FILE

``--check`` writes nothing; status 1 if the page is not what the results say.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

from experiments import performance_page
from experiments.papers.paper_rows import Basis, Row, differing, tally

__all__ = ["PAPERS", "Item", "Paper", "main", "page", "rows_of"]

PAGE = performance_page.ROOT / "docs" / "papers.md"
_APART = {"figure": "read off", "scripts": "its scripts"}


@final
@dataclass(frozen=True)
class Item:
    """A table, figure, algorithm or claim of a paper, and where it is reproduced.

    ``tables`` : names of the tables in the experiment's rows that are about it.
    ``tests`` : ``file::name`` of tests that show it.
    ``picture`` : file that ``--plot`` writes.
    ``show`` : quantities of ours to quote, those of the last row of that quantity.
    ``note`` : what else is to say.
    """

    name: str
    what: str
    tables: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    picture: str = ""
    show: tuple[str, ...] = ()
    note: str = ""


@final
@dataclass(frozen=True)
class Paper:
    """One paper: its experiment is the module ``experiments.NAME``.

    ``why`` is the reason of differences that no row explains itself.
    """

    name: str
    key: str
    title: str
    items: tuple[Item, ...]
    why: str = "not explained"


THEORY = "tests/recursive/test_sparse_theory.py::"
FACTORS = "tests/recursive/test_sparse_factors.py::"
SPARSE = "tests/operational/test_sparse_algorithms.py::"
SPACE = "tests/operational/test_operational_space.py::"
METHODS = "tests/operational/test_methods.py::"
FEATHERSTONE = "tests/experiments/test_featherstone.py::"
BOX = "tests/experiments/test_box.py::"
DRUM = "tests/experiments/test_drumwright.py::"
LOOPS = "tests/loops/test_drumwright.py::"
RECURSIVE_ORDERS = "tests/plan/test_recursive_orders.py::"
NORI_ROWS = "tests/experiments/test_nori2017.py::"
PRODUCTS = SPARSE + "test_products_and_factors_are_those_of_dense_matrices"
EXECUTED = SPARSE + "test_sparse_formulas_are_what_is_executed"

BIS = Paper(
    "featherstone2005",
    "BIS",
    "R. Featherstone, Efficient factorization of the joint-space inertia matrix, 2005",
    (
        Item(
            "Section 2",
            "LTL is about as accurate as Cholesky",
            ("section 2",),
            (FACTORS + "test_factors_multiply_back_and_keep_the_pattern",),
        ),
        Item(
            "Figure 1, eq. 4",
            "a tree, and the pattern of its H and L",
            ("eq. 4",),
            picture="figure1_patterns.png",
        ),
        Item("Figure 2", "expanding joints of several freedoms", ("figure 2",)),
        Item(
            "Figure 3",
            "the factorisation in place: regions of row k",
            tests=(FACTORS + "test_source_and_machine_code_are_one_algorithm",),
        ),
        Item(
            "Section 3",
            "LTL is a permuted Cholesky factorisation; nested, bordered, no fill-in (eq. 7)",
            tests=(
                THEORY + "test_ltl_is_a_reordered_cholesky_factorisation",
                THEORY + "test_any_inertia_matrix_is_nested_bordered_block_diagonal",
                THEORY + "test_the_matrix_of_equation_7",
            ),
        ),
        Item("Table 1", "cost of factors, solves and products", ("table 1",)),
        Item(
            "Section 4.1, eq. 10 to 13",
            "bounds of D1 and D2; costs go about as density squared (alpha^2)",
            tests=(
                THEORY + "test_bounds_of_the_sums",
                THEORY + "test_the_rule_of_thumb_of_density",
            ),
        ),
        Item(
            "Table 2, figure 4", "closed forms of D1 and D2 for four topologies", ("table 2",)
        ),
        Item(
            "Figure 5",
            "cost of LTDL over n by topology; ratios quoted in section 4.2",
            ("section 4.2",),
            picture="figure5_factorisation_cost.png",
        ),
        Item(
            "Section 4.2, beta law",
            "side branches cost beta and beta^2 of the chain's D1 and D2",
            tests=(THEORY + "test_side_branches_cost_beta_and_beta_squared",),
        ),
        Item("Eq. 17", "nodes that are no Denavit-Hartenberg ones", ("eq. 17",)),
        Item(
            "Figure 6, section 6",
            "the humanoid of 30 freedoms: its sums, and what H and its factors cost",
            ("section 6",),
            (FEATHERSTONE + "test_screw_arithmetic_executes_the_cost_models",),
            "figure6_humanoid.png",
        ),
        Item(
            "Figure 7",
            "forward dynamics by CRBA and by ABA",
            ("figure 7",),
            picture="figure7_forward_dynamics.png",
        ),
    ),
)

OSI = Paper(
    "featherstone2010",
    "OSI",
    "R. Featherstone, Exploiting sparsity in operational-space dynamics, 2010",
    (
        Item(
            "Figure 1", "a tree and its connectivity graph", note="the tree of [BIS] figure 1"
        ),
        Item("Figure 2", "patterns of H and L", picture="figure2_patterns.png"),
        Item("Figures 3 and 4", "expanded parents and b_e", ("figure 4",)),
        Item("Figures 5 to 7", "J x, J^T x, sparse products", tests=(PRODUCTS, EXECUTED)),
        Item("Figures 8 to 10", "Y, Yd and YD, Lambda^-1 = Y Y^T", tests=(PRODUCTS, EXECUTED)),
        Item(
            "Section 7",
            "the innovations factorisation is LTDL",
            tests=(THEORY + "test_innovations_factorisation_is_ltdl",),
        ),
        Item(
            "Table 1",
            "cost formulas, sparse and dense",
            tests=(EXECUTED, SPARSE + "test_dense_formulas_are_what_is_executed"),
        ),
        Item(
            "Table 2, figures 11 and 12",
            "ASIMO, hands and feet: costs",
            ("table 2", "section 9"),
            picture="figure12_operations.png",
        ),
        Item(
            "Figure 13, eq. 39 and 40",
            "the factorisation against RJK on ASIMO",
            ("eq. 39", "eq. 40", "appendix B"),
            picture="figure13_rjk.png",
        ),
        Item(
            "Table 3",
            "cost ratios of seven robots and spaces; here run times of machine code too",
            ("table 3",),
            (FEATHERSTONE + "test_machine_code_of_table_3_executes_what_is_counted",),
            "table3_cost_ratios.png",
        ),
        Item(
            "Figures 14 and 15",
            "the RJK recursion, and which blocks it needs",
            tests=(
                SPACE + "test_all_methods_agree_with_dense_algebra",
                SPACE + "test_printed_need_loses_blocks_below_the_diagonal",
            ),
            note="**figure 15 as printed loses blocks below the diagonal**",
        ),
        Item("Table 4", "cost of every component of the recursion", ("table 4",)),
        Item(
            "Appendix A",
            "factors with the pattern of a tree are a group",
            ("appendix A",),
            (THEORY + "test_factors_of_a_tree_are_a_group",),
        ),
    ),
)

CK = Paper(
    "chang_khatib2001",
    "CK",
    "K.-S. Chang and O. Khatib, Recursive operational-space inertia, 2001",
    (
        Item("Figures 1 and 3", "a branching robot; notation", note="illustrations"),
        Item(
            "Table 1, figure 4",
            "the recursion, and how its steps grow: O(n m + m^3) in operations counted",
            ("section 3.3",),
            (
                METHODS + "test_tips_and_interior_bodies_in_any_number",
                METHODS + "test_every_block_comes_after_its_source_and_once",
                METHODS + "test_blocks_grow_with_n_times_m",
            ),
            "figure4_recursion.png",
            ("operations, step 4", "operations, step 6", "operations, all steps"),
            "times of the dense route grow with less than n^3 up to n = 2000",
        ),
        Item(
            "Figure 2, section 4",
            "a humanoid of 24 links, Lambda in less than 1 ms, a servo of 300 Hz",
            ("section 4",),
            (BOX + "test_the_augmented_object_has_the_inertia_of_the_closed_chain",),
            show=(
                "operations of Lambda",
                "error against dense",
                "hands' wrenches - commanded, N, N m",
            ),
            note="a processor of today decides neither, so operations are counted; 300 Hz is"
            " how long torques are held",
        ),
        Item(
            "Figure 5",
            "two hands put a box on the floor, the posture kept as far as that goes",
            ("figure 5",),
            (BOX + "test_box_and_grasps_are_as_commanded_at_an_instant",),
            "figure5_sequence.png",
            ("posture moves, rad",),
        ),
        Item(
            "Figure 6",
            "the box's cubic spline; here also the force between the hands, and the floor's",
            ("figure 6",),
            (
                BOX + "test_the_box_follows_its_spline_and_is_pressed_as_commanded",
                BOX + "test_the_floor_has_the_weight_in_the_end_and_nothing_comes_from_nowhere",
            ),
            "figure6_box.png",
            (
                "height - cubic spline in the air, m",
                "internal wrench - commanded in the air, 300 Hz, N, N m",
                "floor carries / weight - 1, at the end",
                "momentum of the box - hands - floor - weight, N, N m",
            ),
        ),
    ),
)

DRUMWRIGHT = Paper(
    "drumwright2012",
    "DRUM",
    "E. Drumwright, Theta(n^2) inversion of the generalized inertia matrix, 2012",
    (
        Item(
            "Algorithms 1 and 2",
            "M^-1 times a matrix, fixed and floating base",
            ("algorithm 1",),
            (
                DRUM + "test_the_printed_algorithm_is_not_the_inverse",
                LOOPS + "test_all_methods_agree_with_dense_algebra",
                LOOPS + "test_the_floating_base_may_be_inverted_at_once_or_freedom_by_freedom",
            ),
            note="**as printed they do not give M^-1**: line 5 lacks Y_i",
        ),
        Item(
            "Table 1",
            "operations of the inversion",
            ("table 1", "our formula"),
            (
                DRUM + "test_tables_are_executed_as_printed",
                DRUM + "test_executed_operations_are_those_of_the_formulas",
            ),
            note="executed as printed; frames of links, which the paper leaves open, are read"
            " so that 24n and 57n can come out",
        ),
        Item(
            "Table 2",
            "operations of CRBA and Cholesky, global frame",
            ("table 2",),
            (
                DRUM + "test_tables_are_executed_as_printed",
                DRUM + "test_what_is_counted_for_table_2_is_the_inertia_matrix_and_its_factor",
            ),
        ),
        Item(
            "Table 3",
            "operations on n processors",
            ("table 3",),
            (DRUM + "test_tables_are_executed_as_printed",),
        ),
        Item(
            "Figure 1",
            "multiplications over n",
            ("figure 1",),
            (DRUM + "test_figure_1_counts_axes_and_inertias_on_both_sides",),
            "figure1_multiplications.png",
            ("our loops / algorithm as printed",),
        ),
        Item(
            "Figure 2, section 6.1",
            "times on one thread",
            ("figure 2", "section 6.1"),
            picture="figure2_inversion.png",
        ),
        Item(
            "Figure 3",
            "times on one, two and four threads",
            ("figure 3",),
            (LOOPS + "test_blocks_and_threads_change_nothing",),
            "figure3_threads.png",
            ("number",),
        ),
        Item(
            "Figure 4",
            "centipedes, maximum dissipation and Gauss-Seidel, contact inertia by three routes;"
            " here [OSI]'s Y-factor as a fourth",
            ("figure 4", "figure 4, J M^-1 J^T"),
            (
                DRUM + "test_four_routes_to_the_inertia_of_contacts_agree",
                DRUM + "test_a_step_by_maximum_dissipation_is_the_same_by_every_route",
            ),
            "figure4_centipedes.png",
            ("drumwright / y_factor", "ltl / y_factor", "dense / y_factor"),
        ),
        Item(
            "Section 6.3",
            "explicit Euler; contacts by maximum dissipation, here by Coulomb's law too",
            ("section 6.3",),
            (
                DRUM
                + "test_maximum_dissipation_leaves_the_least_energy_and_lets_no_foot_approach",
                DRUM + "test_both_models_agree_on_what_sticks_and_on_a_point_mass",
            ),
            "centipede_walk.png",
        ),
    ),
)

FORWARD, CELLS = "figure 1, forward dynamics", "figure 2, load cells"
NORI = Paper(
    "nori2017",
    "NORI",
    "F. Nori, Sparse LU factorisation of dynamics, 2017",
    (
        Item("Abstract", "fewer operations than the articulated-body algorithm", ("abstract",)),
        Item(
            "Property 1, problem 1",
            "inverse dynamics is triangular in some order",
            ("triangularisation of inverse dynamics",),
            (RECURSIVE_ORDERS + "test_property_1_on_the_worst_case_pattern",),
        ),
        Item(
            "Property 2",
            "the articulated-body algorithm as factors of D",
            tests=("tests/experiments/test_nori2017_aba_factors.py::test_property_2",),
        ),
        Item(
            "Figure 1",
            "cost of forward dynamics of a chain",
            (FORWARD, "branched, forward dynamics"),
            picture="figure1_forward_dynamics.png",
            note="script `ABA/serial/compare/main.m`",
        ),
        Item(
            "Figure 2",
            "cost of torques from load cells",
            (CELLS, "published sets"),
            picture="figure2_load_cells.png",
            note="script `SIE/compare/main.m`",
        ),
        Item(
            "Property 3",
            "two feet in some pose do not determine the torques where H_f is singular",
            ("Property 3",),
            (NORI_ROWS + "test_three_components_of_each_foot_are_too_few_at_some_pose",),
            note="**the condition is not needed**: with R = 1 a regular H_f is singular too",
        ),
        Item(
            "Remark 5, slippery floor",
            "a humanoid on two feet with four load cells each, or all but the torsion",
            ("Remark 5",),
        ),
        Item(
            "Remark 3",
            "UMFPACK finds the triangular order up to N = 100",
            ("remark 3",),
            (NORI_ROWS + "test_umfpack_finds_the_triangular_order",),
        ),
        Item(
            "Remark 4",
            "one order, found offline, serves every state",
            ("remark 4",),
            (NORI_ROWS + "test_one_order_found_at_one_state_serves_others",),
        ),
        Item("Problem 2", "orders searched offline", ("search", "search, all orders tried")),
    ),
)

PAPERS = (BIS, OSI, CK, DRUMWRIGHT, NORI)


# ---- rows that were kept -------------------------------------------------------------------


def kept_of(paper: Paper, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the page needs: rows with a number of the paper, those quoted, how many others."""
    quoted = {quantity for item in paper.items for quantity in item.show}
    kept: list[dict[str, Any]] = []
    others: dict[str, int] = {}
    for one in rows:
        if one["paper"] is not None or one["quantity"] in quoted:
            kept.append({key: value for key, value in one.items() if value not in (None, "")})
        else:
            others[one["table"]] = others.get(one["table"], 0) + 1
    return {"rows": kept, "others": others}


def rows_of(paper: Paper) -> tuple[list[Row], dict[str, int], dict[str, Any]]:
    """Rows of an experiment as kept, numbers of others by table, and what measured them."""
    found = performance_page.load(paper.name)
    if found is None:
        raise FileNotFoundError(
            f"docs/results has no {paper.name}.json: python -m experiments.{paper.name} --json"
            f" > FILE, then python -m experiments.papers --take {paper.name}=FILE"
        )
    data = found["data"]
    rows = [Row(**{"paper": None, "ours": None, **one}) for one in data["rows"]]
    return rows, data["others"], found["measured"]


# ---- the page ------------------------------------------------------------------------------


def page() -> str:
    """``docs/papers.md``."""
    told = [(paper, *rows_of(paper)) for paper in PAPERS]
    refuted = [line for paper, rows, _, _ in told for line in _claims_refuted(paper, rows)]
    lines = [
        "# The papers, table by table",
        "",
        "Every table and figure of the papers that dynsys is made from, and whether it comes"
        " out. Written by `python -m experiments.papers` from the rows of the experiments; what"
        " does not hold stands first. A number counts as **reproduced** only where the paper"
        " prints it (each row names the lines of its text), our code computed it without the"
        " paper's, and all its digits are the same. What was typed from a paper is **given**;"
        " values read off a curve or printed by a paper's scripts are counted apart. Lines are"
        " those of the papers' texts in `../shared/papers`, where a checkout has them.",
        "",
        "## What papers claim and does not hold",
        "",
        "| paper | where | the paper says | on line | here | why |",
        "|---|---|---|---|---|---|",
        *refuted,
        "",
        "## Numbers that do not come out",
        "",
        "| paper | where | rows | printed | on line | here | why |",
        "|---|---|---|---|---|---|---|",
        *(line for paper, rows, _, _ in told for line in _disagreements(paper, rows)),
        "",
        "Printed algorithms that do not do what they say: [DRUM] algorithms 1 and 2 (M^-1 comes"
        " out wrong, line 5 lacks a term) and [OSI] figure 15 (blocks below the diagonal are"
        " lost; the cost ratio 1.277 of table 3 counts without them, 1.314 with them).",
        "",
        "## How many",
        "",
        "| paper | reproduced | refuted | claims hold | claims refuted | off figures, close |"
        " of its scripts, alike | given |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
        *(_count_line(paper, rows) for paper, rows, _, _ in told),
        "",
        "Claims that compare speeds or costs are of other machines: they pass within what is"
        " said here, no closer.",
        "",
        *_tolerances(told),
    ]
    for paper, rows, others, measured in told:
        lines += ["", f"## [{paper.key}] {paper.title}", ""]
        lines += ["| what | shows | state | reproduced by |", "|---|---|---|---|"]
        states = [(item, _state(item, rows, others)) for item in paper.items]
        states.sort(key=lambda pair: not pair[1].startswith("**differs"))
        for item, state in states:
            lines.append(f"| {item.name} | {item.what} | {state} | {_where(item)} |")
        lines += [
            "",
            f"`python -m experiments.{paper.name}`, pictures with `--plot FOLDER`. *Measured"
            f" {measured['date']}, commit {measured['commit']}, on {measured['processor']}.*",
        ]
    return "\n".join(lines) + "\n"


def _cells(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |"


def _claims_refuted(paper: Paper, rows: Sequence[Row]) -> Iterator[str]:
    """A line per claim that does not hold, each with its reason."""
    for one in differing(rows):
        if one.basis == "claim":
            where = f"{one.table}: {one.row}, {one.quantity}"
            why = one.why or paper.why
            yield _cells(f"[{paper.key}]", where, one.paper, one.lines, _number(one.ours), why)


def _count_line(paper: Paper, rows: Sequence[Row]) -> str:
    (same, of), (held, claims) = tally(rows), tally(rows, "claim")
    near, read = tally(rows, "figure")
    alike, printed = tally(rows, "scripts")
    counts = (same, of - same, held, claims - held)
    apart = (f"{near} of {read}" if read else "-", f"{alike} of {printed}" if printed else "-")
    return _cells(f"[{paper.key}]", *counts, *apart, tally(rows, "given")[1])


def _tolerances(told: Sequence[tuple[Paper, Sequence[Row], object, object]]) -> Iterator[str]:
    """What still passes: a line per row, one for rows of a table that say the same."""
    for paper, rows, _, _ in told:
        groups: dict[tuple[object, ...], list[Row]] = {}
        for one in rows:
            if one.within:
                alone = one.row if isinstance(one.ours, str) else ""
                of = (one.basis,) if one.basis in _APART else (one.quantity, one.paper, alone)
                groups.setdefault((one.table, one.within, *of), []).append(one)
        for several in groups.values():
            yield f"- [{paper.key}] {_passing(several)}; passes within {several[0].within}"


def _passing(several: Sequence[Row]) -> str:
    one = several[0]
    if one.basis in _APART:
        return f"{one.table}: {len(several)} numbers, {_APART[one.basis]}"
    if len(several) == 1:
        return f"{one.table}: {one.row}, {one.quantity}: {one.paper}, here {_number(one.ours)}"
    where, here = (
        f"{one.table}: {len(several)} rows, {one.quantity}",
        [r.number for r in several],
    )
    return f"{where}: {one.paper}, here {_number(min(here))} to {_number(max(here))}"


def _disagreements(paper: Paper, rows: Sequence[Row]) -> Iterator[str]:
    """A line per table, basis and reason: how many rows, and the one farthest off."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for one in differing(rows):
        if one.basis != "claim":
            groups.setdefault((one.table, one.basis, one.why or paper.why), []).append(one)
    for (table, basis, why), several in groups.items():
        worst = max(several, key=_distance)
        of = f" ({_APART[basis]})" if basis in _APART else ""
        where = f"{table}{of}: {worst.row}, {worst.quantity}"
        printed, line, here = worst.paper, worst.lines or "-", _number(worst.ours)
        yield _cells(f"[{paper.key}]", where, len(several), printed, line, here, why)


def _distance(row: Row) -> float:
    if isinstance(row.paper, str) or isinstance(row.ours, str) or not row.paper:
        return 0.0
    return abs(row.number / float(row.paper) - 1)


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _state(item: Item, rows: Sequence[Row], others: dict[str, int]) -> str:
    """In words: what came out as printed, what did not, what is ours alone."""
    mine = [one for one in rows if one.table in item.tables]
    judged = [one for one in mine if one.agrees is not None]
    parts = []
    bases: tuple[tuple[Basis, str], ...] = (
        ("paper", "numbers reproduced"),
        ("figure", "read off the figure"),
        ("scripts", "printed by the paper's scripts"),
        ("given", "given"),
        ("claim", "claims hold"),
        ("ours", "formulas of ours executed"),
    )
    for basis, words in bases:
        same, count = tally(judged, basis)
        if count:
            parts.append(f"{same} of {count} {words}")
    for quantity in item.show:
        values = [one for one in mine if one.quantity == quantity]
        if values:
            parts.append(f"{quantity}: {_number(values[-1].ours)}")
    more = sum(others.get(table, 0) for table in item.tables)
    parts += [f"{more} numbers of ours"] * (more > 0)
    parts += [item.note] * bool(item.note)
    if not item.tables and item.tests:
        parts.insert(0, "shown by tests")
    elif not parts:
        parts = ["drawn"]
    return "**differs**: " * bool(differing(mine)) + "; ".join(parts)


def _where(item: Item) -> str:
    tests = [f"`{test.rpartition('::')[2]}`" for test in item.tests]
    named = [*tests, *([f"`{item.picture}`"] if item.picture else [])]
    return ", ".join(named) or ("rows" if item.tables else "-")


def main(argv: Sequence[str] | None = None) -> int:
    """Keep results, write the page, or check it."""
    parser = argparse.ArgumentParser(prog="python -m experiments.papers", description=__doc__)
    parser.add_argument("--take", nargs="+", metavar="NAME=FILE", default=[])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(argv)
    named = {paper.name: paper for paper in PAPERS}
    for given in options.take:
        name, _, file = given.partition("=")
        if name not in named or not Path(file).is_file():
            parser.error(f"--take {given}: NAME is one of {', '.join(named)}, FILE is there")
        performance_page.take(name, Path(file), partial(kept_of, named[name]))
    text = page()
    if options.check:
        return 0 if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0
