"""Every Python block of the README runs, in order, as a reader would type it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_python_blocks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
    assert len(blocks) >= 4
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert names["message"] == "q of robot 'humanoid' must have shape (36,), got (35,)"


def test_folders_of_the_layout_exist() -> None:
    layout = README.split("## Layout")[1]
    folders = re.findall(r"^    (\S+/)  ", layout, re.M)
    assert len(folders) >= 6
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []
