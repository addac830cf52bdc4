"""Runs the blocks of a Markdown page in order, in one session, as a reader would.

python   executed, names kept from block to block
yaml     written to the file that its first line names, as in ``# problem.yaml``
bash     ``dynsys ...`` through the command line, status 0; any other line through bash
text     for reading only
"""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from problems.command import main as cli
from tests.processes import LIMIT

ROOT = Path(__file__).parents[1]
LANGUAGES = {"python", "yaml", "bash", "text", "{toctree}"}
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```", re.M | re.S)


def blocks(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = BLOCK.findall(text)
    return found


def run_python(body: str, page: str, names: dict[str, object]) -> object:
    """Run a block or cell; returns the value of its last line, what a notebook shows."""
    shown: object = None
    for node in ast.parse(body, page).body:
        if isinstance(node, ast.Expr):
            line = ast.Expression(node.value)
            shown = eval(compile(line, page, "eval", dont_inherit=True), names)
            _check_comment(shown, body.splitlines()[(node.end_lineno or 1) - 1], page)
        else:
            exec(compile(ast.Module([node], []), page, "exec", dont_inherit=True), names)
            shown = None
    return shown


def _check_comment(shown: object, line: str, page: str) -> None:
    """A comment behind words is these words, up to dots; behind True or False it may be."""
    said = line.partition("  # ")[2].partition("...")[0].rstrip(" ,")
    if isinstance(shown, str):
        assert said in shown, f"{page}: {line!r}, but it is {shown!r}"
    elif isinstance(shown, bool) and said.startswith(("True", "False")):
        assert said.startswith(str(shown)), f"{page}: {line!r}, but it is {shown}"


def run_page_apart(page: Path, folder: Path) -> None:
    """Run a page in a process of its own: it registers kinds and methods that stay there."""
    code = (
        "import pathlib, pytest, sys; from tests.markdown_blocks import run_page;"
        "run_page(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), pytest.MonkeyPatch())"
    )
    command = [sys.executable, "-c", code, str(page), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr


def run_page(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Run a page in an empty folder beside the packages; returns the names it defined."""
    (folder / "dynsys").symlink_to(ROOT / "dynsys")
    monkeypatch.chdir(folder)
    names: dict[str, object] = {"__name__": "page"}
    for language, body in blocks(page.read_text(encoding="utf-8")):
        assert language in LANGUAGES, f"{page.name}: a block of unknown language {language!r}"
        if language == "python":
            try:
                run_python(body, page.name, names)
            except ModuleNotFoundError as error:
                if error.name not in ("pinocchio", "mujoco", "matplotlib", "torch"):
                    raise
        elif language == "yaml":
            name = re.match(r"# (\S+\.yaml)\n", body)
            assert name, f"{page.name}: the first line of a yaml block names its file"
            Path(name[1]).write_text(body, encoding="utf-8")
        elif language == "bash":
            for line in body.splitlines():
                _run_line(line)
    return names


def _run_line(line: str) -> None:
    words = shlex.split(line, comments=True)
    if words[0] == "dynsys":
        assert cli.main(words[1:]) == 0, line
    elif shutil.which(words[0]):
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, timeout=LIMIT
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    else:
        assert words[0] in ("cc", "./controller/selftest"), line
