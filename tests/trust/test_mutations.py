"""Mutants: found, exchanged in memory, noticed by a test that calls them, never written."""

from __future__ import annotations

import json
import weakref
from dataclasses import asdict
from pathlib import Path

import pytest

from dynsys import resumable
from dynsys.kernel import cache
from experiments.trust import mutations
from experiments.trust.mutations import (
    ROOT,
    Mutant,
    _forked,
    _How,
    _tried,
    mutants_of,
    scores,
    swap,
)

LIMITS = ROOT / "problems/estimation/consistency.py"


def mutant(file: Path, function: str, after: str) -> Mutant:
    (found,) = (m for m in mutants_of(file) if (m.function, m.after) == (function, after))
    return found


def test_changes_are_of_meaning_and_have_names_that_last() -> None:
    found = mutants_of(LIMITS)
    assert len({m.id for m in found}) == len(found)
    assert [m.id for m in mutants_of(LIMITS)] == [m.id for m in found]
    assert all(m.before != m.after for m in found)
    assert {m.room for m in found} == {"problems/estimation"}


def test_code_is_exchanged_in_a_child_only() -> None:
    seal = mutant(ROOT / "dynsys/resumable.py", "seal", "9")
    data = b"x" * 300
    gone = weakref.proxy(Path.cwd)  # asked for its class it raises: other tests leave such

    def work() -> list[object]:
        return [swap(seal), resumable.seal(data).hex()]

    places, other = _forked(work, 60.0)
    assert places == 1 and gone is not None
    assert other != resumable.seal(data).hex()


def test_constants_are_exchanged_wherever_they_were_imported() -> None:
    stale = mutant(ROOT / "dynsys/kernel/cache.py", "STALE_SECONDS", "5400.0")

    def work() -> list[object]:
        return [swap(stale), cache.STALE_SECONDS]

    assert _forked(work, 60.0) == [1, 5400.0]
    assert cache.STALE_SECONDS == 3600.0


@pytest.mark.slow
@pytest.mark.trust
def test_tests_that_call_it_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is noticed is killed; the one that is not, or is not called, is said so."""
    tests = tmp_path / "test_small.py"
    tests.write_text(
        "from dynsys.resumable import seal\n\n"
        "def test_seal():\n    assert seal(b'x').hex().startswith('f91b')\n"
    )
    monkeypatch.setattr(mutations, "_files_of", lambda room: [tests])
    noticed = mutant(ROOT / "dynsys/resumable.py", "seal", "9")
    gone = weakref.proxy(Path.cwd)  # asked for its class it raises: other tests leave such
    told = _tried(noticed, _How(tmp_path))
    assert gone is not None and (told["status"], told["tests"]) == ("killed", 1)
    assert told["by"].endswith("::test_seal")
    elsewhere = next(m for m in mutants_of(ROOT / "dynsys/resumable.py") if m.line > 200)
    assert _tried(elsewhere, _How(tmp_path))["status"] == "not called by a test"


@pytest.mark.parametrize(
    ("file", "forgotten"),
    [
        ("dynsys/plan/record.py", ["*.kernel"]),
        ("problems/identification/regressor.py", ["*.kernel"]),
        ("problems/logs/smoother.py", ["*"]),
        ("problems/verdict/words.py", []),
    ],
)
def test_what_was_compiled_before_a_change_is_not_used(file: str, forgotten: list[str]) -> None:
    """Programs are recorded in other rooms than dynsys too."""
    assert mutations._concerned(mutants_of(ROOT / file)[0]) == forgotten


def test_rows_are_kept_as_long_as_their_functions_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing, file = next(mutations._every()), tmp_path / "rows.jsonl"
    rows = [{**asdict(standing), "id": name, "status": "killed"} for name in (standing.id, "x")]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(mutations, "drawn", lambda *drawn: [])
    monkeypatch.setattr(mutations, "_import_all", lambda: None)
    assert mutations.main(["--json", str(file), "--work", str(tmp_path)]) == 0
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == [standing.id]


def test_scores_count_by_room() -> None:
    rows = [
        {"id": str(k), "room": "a", "status": status}
        for k, status in enumerate(["killed", "killed", "survived"])
    ]
    assert scores(rows) == {"a": (2, 0, 3)}
