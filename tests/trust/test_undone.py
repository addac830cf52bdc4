"""Fixes that are undone stand where they are said to stand, and a test that passes is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from experiments.trust import mutations, undone
from experiments.trust.undone import Undone, all_undone, swap


def test_every_fix_stands_once_and_has_its_tests() -> None:
    ids = set()
    for one in all_undone():
        text = (mutations.ROOT / one.file).read_text(encoding="utf-8")
        assert text.count(one.before) == 1 and one.before != one.after, one
        compile(text.replace(one.before, one.after), one.file, "exec")
        file, _, name = one.test.partition("::")
        source = (mutations.ROOT / file).read_text(encoding="utf-8")
        assert f"def {name.partition('[')[0]}(" in source, one
        ids.add(one.id)
    assert len(ids) == len(list(all_undone()))


def test_every_test_of_the_table_of_items_is_tried() -> None:
    """But those that hold no single line of a fix, or many tests."""
    apart = {
        "tests/problems/command/test_every_command.py::test_every_command_and_log_format",
        "tests/trust/test_survivors.py",
    }
    folder = Path(undone.__file__).parent
    items = yaml.safe_load((folder / "items.yaml").read_text(encoding="utf-8"))
    named = {test for item in items for test in item["tests"]}
    tried = {one.test.partition("[")[0] for one in all_undone()}
    assert named - tried == apart


def test_a_fix_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="stands there 0 times"):
        swap(Undone("x", "dynsys/types.py", "no such line", "", ""))


@pytest.mark.slow
def test_a_test_that_does_not_notice_is_told(tmp_path: Path) -> None:
    found = undone.UNDONE.read_text(encoding="utf-8")
    entries = [e for e in yaml.safe_load(found) if e["of"] == "T-9"]
    deaf = entries[0] | {
        "tests": ["tests/trust/test_newest_rooms.py::test_an_alarm_has_a_threshold"]
    }
    listed, out = tmp_path / "undone.yaml", tmp_path / "rows.jsonl"
    listed.write_text(yaml.safe_dump([*entries, deaf]))
    code = (
        "import sys; from pathlib import Path; from experiments.trust import undone;"
        f"undone.UNDONE = Path({str(listed)!r});"
        f"sys.exit(undone.main(['--json', {str(out)!r}]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=mutations.ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.splitlines()[-1] == "1 of 2 tests fail without their fix"
    assert out.read_text().count('"status": "fails"') == 1
