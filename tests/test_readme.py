"""README and front page: blocks run, commands parse, folders of the layout exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from problems.command import main as cli
from tests.markdown_blocks import ROOT, blocks, run_page

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(language == "python" for language, _ in blocks(README)) >= 4
    names = run_page(ROOT / "README.md", tmp_path, monkeypatch)
    assert names["message"] == "q of robot 'humanoid' must have shape (36,), got (35,)"


def test_commands_of_the_table_parse() -> None:
    lines = re.findall(r"`dynsys ([^`]+)`", COMMANDS)
    assert len(lines) >= 12
    for line in lines:
        cli.command_parser().parse_args(shlex.split(line))


def test_every_command_is_in_the_table() -> None:
    named = {line.split()[0] for line in re.findall(r"`dynsys ([^`]+)`", COMMANDS)}
    commands = re.findall(r"^    (\w+) ", cli.command_parser().format_help(), re.M)
    assert len(commands) >= 12
    assert set(commands) <= named


def test_folders_of_the_layout_exist() -> None:
    layout = README.split("## Layout")[1]
    folders = re.findall(r"^    (\S+/)  ", layout, re.M)
    assert len(folders) >= 6
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []
