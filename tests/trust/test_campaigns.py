"""Campaigns by one command: whole or absent, of one code, known by its commit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.trust import campaigns
from experiments.trust.campaigns import CAMPAIGNS, FILE, Campaign, code_digest, run_open
from experiments.trust.table import _DESCRIBED

ADDS = "import sys; open(sys.argv[1], 'a').write('{}\\n')"
"""A campaign that adds a line to its file."""
DIES = "import sys; sys.exit(3)"


def one(*codes: str, keeps: bool = False) -> dict[str, Campaign]:
    return {"small": Campaign([["-c", code, FILE] for code in codes], keeps=keeps)}


def test_the_command_runs_what_the_page_has() -> None:
    assert set(_DESCRIBED) == set(CAMPAIGNS)


def test_a_campaign_is_done_once_for_each_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (results := tmp_path / "results").mkdir()
    for _ in range(2):
        runs = run_open(one(ADDS, ADDS), results, tmp_path)
        assert (results / "small.jsonl").read_text() == "{}\n{}\n"
    assert runs == json.loads((results / "runs.json").read_text())
    assert runs["small"]["code"] == code_digest() and runs["small"]["status"] == 0
    run_open(one(ADDS), results, tmp_path, again=True)
    assert (results / "small.jsonl").read_text() == "{}\n"
    monkeypatch.setattr(campaigns, "code_digest", lambda: "other")
    run_open(one(ADDS), results, tmp_path)
    assert (results / "small.jsonl").read_text() == "{}\n", "rows of two codes are mixed"
    monkeypatch.setattr(campaigns, "code_digest", lambda: "third")
    run_open(one(ADDS, keeps=True), results, tmp_path)
    assert (results / "small.jsonl").read_text() == "{}\n{}\n"


def test_a_campaign_that_dies_has_no_result_and_goes_on(tmp_path: Path) -> None:
    (results := tmp_path / "results").mkdir()
    with pytest.raises(RuntimeError, match="small ended with status 3"):
        run_open(one(ADDS, DIES), results, tmp_path)
    assert not list(results.iterdir())
    run_open(one(ADDS), results, tmp_path)
    assert (results / "small.jsonl").read_text() == "{}\n{}\n"


def test_code_that_changes_meanwhile_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (results := tmp_path / "results").mkdir()
    (source := tmp_path / "source").write_text("first")
    monkeypatch.setattr(campaigns, "code_digest", source.read_text)
    edits = f"{ADDS}; open({str(source)!r}, 'w').write('second')"
    with pytest.raises(RuntimeError, match="changed while small ran"):
        run_open(one(edits), results, tmp_path)
    assert not list(results.iterdir())
