"""The page of all tables and figures: whole, what the results say, and still true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from experiments.featherstone2005 import rows as featherstone2005
from experiments.featherstone2010 import rows as featherstone2010
from experiments.papers import citations
from experiments.papers import page as papers
from experiments.papers.paper_rows import CITED, Row, differing, row
from tests.markdown_blocks import ROOT

TABLES = {
    "featherstone2005": (7, 2),
    "featherstone2010": (15, 4),
    "chang_khatib2001": (6, 1),
    "drumwright2012": (4, 3),
    "nori2017": (2, 0),
}
"""Figures and tables that each paper has."""


def test_the_page_is_what_the_results_say() -> None:
    assert papers.main(["--check"]) == 0


def numbers(paper: papers.Paper, kind: str) -> set[int]:
    """Numbers of figures or tables that are listed, "figures 8 to 10" taken apart."""
    found: set[int] = set()
    for item in paper.items:
        for text in re.findall(rf"{kind}s? ([\d, toand]+)", item.name, re.IGNORECASE):
            ends = [int(n) for n in re.findall(r"\d+", text)]
            found |= set(range(ends[0], ends[-1] + 1)) if "to" in text else set(ends)
    return found


@pytest.mark.parametrize("paper", papers.PAPERS, ids=lambda paper: paper.name)
def test_every_table_and_figure_is_listed_with_a_state(paper: papers.Paper) -> None:
    figures, tables = TABLES[paper.name]
    assert numbers(paper, "figure") == set(range(1, figures + 1))
    assert numbers(paper, "table") == set(range(1, tables + 1))
    rows, others, _ = papers.rows_of(paper)
    listed = {table for item in paper.items for table in item.tables}
    assert {one.table for one in rows} | set(others) == listed
    for item in paper.items:
        assert item.tables or item.tests or item.picture or item.note


@pytest.mark.parametrize("paper", papers.PAPERS, ids=lambda paper: paper.name)
def test_the_tests_that_show_something_are_there(paper: papers.Paper) -> None:
    for file, _, name in (test.partition("::") for item in paper.items for test in item.tests):
        assert f"\ndef {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_a_value_that_stands_elsewhere_is_noticed() -> None:
    cross = citations.CROSS
    text = ["The cost is 1,258m + 1039a.", "Twelve joints: 7.8 times cheaper"]
    text += [f"{cross} {cross}", f"H = {cross}", cross]
    for value, lines, missing in (
        ("1258m + 1039a", "1", None),
        (7.8, "1-2", None),
        ("12 joints", "2", None),
        (7.8, "1", "7.8 of 7.8 not on line 1"),
        (1258, "2", "1258 of 1258 not on line 2"),
        ("three times", "2", "3 of 'three times'"),
        (7.8, "", "names no lines"),
        (3, "3-5", None),
        (4, "3-5", "4 of 4 not on line 3-5"),
        ("+", "1", "nothing in '+' can be looked for"),
    ):
        one = row("table", "row", "cost", value, value, lines=lines)
        told = list(citations.uncited([one], text))
        assert (told == []) if missing is None else (len(told) == 1 and missing in told[0])
    assert not list(citations.uncited([row("t", "r", "q", 5, 5, "scripts")], text))


@pytest.mark.parametrize("name", ["featherstone2005", "featherstone2010", "chang_khatib2001"])
def test_every_cited_value_stands_on_its_lines(name: str) -> None:
    text = citations.text_of(name)
    if text is None:
        pytest.skip("the texts of the papers are not part of the project")
    paper = next(one for one in papers.PAPERS if one.name == name)
    rows = papers.rows_of(paper)[0]
    assert list(citations.uncited(rows, text)) == []
    assert sum(one.paper is not None and one.basis in CITED for one in rows) > 10


def test_what_differs_is_told_first_with_its_reason() -> None:
    text = papers.page()
    first, rest = text.split("## [BIS]")
    for paper in papers.PAPERS:
        rows = papers.rows_of(paper)[0]
        for one in differing(rows):
            assert f"| [{paper.key}] | {one.table}" in first
            assert one.why or paper.why != "not explained"
            if one.basis == "claim":
                assert f" | {one.paper} | {one.lines} | " in first
    assert "**differs**" in rest and "**differs**" not in first


@pytest.mark.slow
def test_what_needs_no_clock_is_what_it_was() -> None:
    """Numbers beside the papers', computed again: the kept ones are those of this tree."""
    for paper, rows in (
        (papers.BIS, featherstone2005.rows()),
        (papers.OSI, featherstone2010.rows(quick=True)),
    ):
        now = {key(one): one.agrees for one in rows if exact(one)}
        kept = {key(one): one.agrees for one in papers.rows_of(paper)[0] if exact(one)}
        assert now == kept


def key(row: Row) -> tuple[object, ...]:
    return row.table, row.row, row.quantity, row.paper, row.ours


def exact(row: Row) -> bool:
    return row.paper is not None and row.basis != "claim"


def test_results_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(papers.performance_page, "RESULTS", tmp_path)
    monkeypatch.setattr(papers, "PAGE", tmp_path / "papers.md")
    monkeypatch.setattr(papers, "PAPERS", (papers.NORI,))
    found = {
        "table": papers.CELLS,
        "row": "N = 2",
        "quantity": "LU | fast",
        "paper": 3,
        "ours": 4,
        "lines": "12",
    }
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([found, {**found, "paper": None}]))
    with pytest.raises(FileNotFoundError, match="--take nori2017=FILE"):
        papers.main(["--check"])
    assert papers.main(["--take", f"nori2017={file}"]) == 0
    text = (tmp_path / "papers.md").read_text()
    assert "| [NORI] | figure 2, load cells: N = 2, LU / fast | 1 | 3 | 12 | 4 |" in text
    assert "**differs**: 0 of 1 numbers reproduced; 1 numbers of ours" in text
    with pytest.raises(SystemExit):
        papers.main(["--take", "nobody=there"])
