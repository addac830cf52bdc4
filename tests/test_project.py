"""Rules of the project that a reader relies on and no tool checks."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments import make_humanoid
from tests.processes import LIMIT

ROOT = Path(__file__).parents[1]
PACKAGES = ("dynsys", "sensors", "problems")
MAY_IMPORT = {
    "dynsys": {"dynsys"},
    "sensors": {"dynsys", "sensors"},
    "problems": {"dynsys", "sensors", "problems"},
}
WRITERS = {
    "problems/terminal.py",
    "problems/command/completion.py",
    "problems/command/doctor.py",
    "problems/command/main.py",
}
LIMITED = ("subprocess.run", "socket.create_connection", "urllib.request.urlopen")
"""Calls of tests that say after how many seconds they give up."""
STARTS = ROOT / "tests" / "processes.py"
"""The one file of the tests that starts processes which run beside them."""
ENTRY = ROOT / "dynsys" / "__main__.py"
"""Runs the command line, which is in problems: the one file that imports upwards."""
CITATION = re.compile(r"(?<![\w\])])\[([A-Z][A-Z0-9]+)\]")


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            yield node.module or ""


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_imports_run_one_way(package: str) -> None:
    wrong = []
    for path in sources(package):
        if path == ENTRY:
            continue
        for name in imported(ast.parse(path.read_text())):
            top = name.split(".")[0]
            if top in {*PACKAGES, "experiments", "tests"} - MAY_IMPORT[package]:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong


def prose(path: Path) -> str:
    """Comments and strings of a source that may cite; brackets in its code are lists."""
    if not CITATION.search(path.read_text()):
        return ""
    with path.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    words = (tokenize.COMMENT, tokenize.STRING)
    return "\n".join(token.string for token in tokens if token.type in words)


def test_every_citation_key_is_in_the_reference_table() -> None:
    references = (ROOT / "docs" / "theory.md").read_text()
    table = set(re.findall(r"^\| \[([A-Z0-9]+)\]", references, re.M))
    used = {
        (key, str(path.relative_to(ROOT)))
        for path in sources(*PACKAGES, "experiments", "tests")
        for key in CITATION.findall(prose(path))
    }
    assert {key for key, _ in used} & {"NORI", "RBDA"}
    assert not {(key, where) for key, where in used if key not in table}


@pytest.mark.slow
def test_library_code_does_not_write() -> None:
    wrong = []
    for path in sources(*PACKAGES):
        if str(path.relative_to(ROOT)) in WRITERS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {
                "print",
                "sys.stdout.write",
                "sys.stderr.write",
            }:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong


def test_no_paths_of_one_machine() -> None:
    pattern = re.compile(r"/(home|root|work|Users)/|/tmp/")
    files = [*sources(*PACKAGES, "experiments"), ROOT / "README.md", ROOT / "Makefile"]
    wrong = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in files
        for line in path.read_text().splitlines()
        if pattern.search(line)
    ]
    assert not wrong


def has_no_limit(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    if name in LIMITED or name.endswith(".communicate"):
        return "timeout" not in {option.arg for option in call.keywords}
    return name.endswith((".join", ".wait")) and not (call.args or call.keywords)


def test_tests_wait_for_nothing_without_a_limit() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"
        for path in sources("tests")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and (
            has_no_limit(node)
            or (ast.unparse(node.func) == "subprocess.Popen" and path != STARTS)
        )
    ]
    assert not wrong


@pytest.mark.parametrize("path", sources("experiments"), ids=lambda path: path.stem)
def test_experiments_import_without_side_effects(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = path.relative_to(ROOT).with_suffix("").parts
    importlib.import_module(".".join(parts).removesuffix(".__init__"))
    assert capsys.readouterr().out == ""


def test_bundled_humanoid_is_what_its_script_writes() -> None:
    stored = ROOT / "dynsys" / "model" / "data" / "humanoid.urdf"
    assert stored.read_text() == make_humanoid.humanoid()


def test_ci_runs_exactly_make_test() -> None:
    commands = (ROOT / ".ci" / "run").read_text().splitlines()
    assert commands[-1] == "exec make test"
    plan = subprocess.run(
        ["make", "-n", "test"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT,
    )
    for tool in ("ruff check", "ruff format", "mypy", "pytest"):
        assert tool in plan.stdout
