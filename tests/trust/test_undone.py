"""Fixes that are undone are found however they are written, and what nobody notices is told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from experiments.trust import undone
from experiments.trust.mutations import ROOT
from experiments.trust.table import guards
from experiments.trust.undone import Undone, all_undone, deaf, swap, tried
from tests.processes import LIMIT


def test_fixes_are_of_findings_that_tests_are_marked_with() -> None:
    assert {one.of for one in all_undone()} <= set(guards())


def test_a_fix_is_found_in_whatever_lines_and_file_it_stands() -> None:
    file, line = "dynsys/types.py", 'if array.dtype.kind == "c":'
    text = (ROOT / file).read_text()
    broken = line.replace(" ", "\n    ")
    for one in (
        Undone("x", file, line, "if False:"),
        Undone("x", file, broken, "if False:"),
        Undone("x", "dynsys/errors.py", line, "if False:"),
        Undone("x", "dynsys/gone.py", line, "if False:"),
    ):
        assert one.place == (file, text.replace(line, "if False:"))


def test_a_fix_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="stands there 0 times"):
        swap(Undone("x", "dynsys/types.py", "no such line", ""))


def test_tests_that_never_fail_are_named() -> None:
    rows = [{"of": "a", "failures": ["t"]}, {"of": "a", "failures": []}]
    assert deaf(rows, {"a": ["t", "u"], "b": ["v"]}) == ["u"]


@pytest.mark.parametrize("status", ["passes", "fails"])
def test_what_tests_say_with_the_fixes_is_asked_once(
    status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[Undone | None] = []

    def said(tests: Sequence[str], work: Path, without: Undone | None = None) -> dict[str, Any]:
        runs.append(without)
        return {"status": "fails" if without else status, "failures": ["t"]}

    monkeypatch.setattr(undone, "_said", said)
    fixes = [one for one in all_undone() if one.of == "item 5"]
    told = [tried(one, ["t"], tmp_path)["status"] for one in fixes]
    assert len(told) > 1 and set(told) == {
        "fails" if status == "passes" else "fails, with the fix, too"
    }
    assert runs == [None, *(fixes if status == "passes" else [])]


@pytest.mark.slow
@pytest.mark.trust
def test_what_no_test_notices_is_told(tmp_path: Path) -> None:
    entries = [e for e in yaml.safe_load(undone.UNDONE.read_text()) if e["of"] == "T-9"]
    listed, out = tmp_path / "undone.yaml", tmp_path / "rows.jsonl"
    gone = entries[0] | {"before": "no such line"}
    listed.write_text(yaml.safe_dump([*entries, gone]))
    code = (
        "import sys; from pathlib import Path; from experiments.trust import undone;"
        f"undone.UNDONE = Path({str(listed)!r});"
        f"sys.exit(undone.main(['--json', {str(out)!r}]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT
    )
    assert ran.returncode == 1, ran.stderr
    told = [json.loads(line)["status"] for line in out.read_text().splitlines()]
    assert told == ["fails"] * len(entries) + [told[-1]]
    assert told[-1].startswith("not there")
