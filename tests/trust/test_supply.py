"""Dependencies have reasons, package data is declared, commands need no network."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from experiments.trust.supply import (
    COMMANDS,
    ROOT,
    WATCH,
    dependencies,
    lower_bounds,
    offline_command,
    pythons,
    table_text,
)
from tests.processes import LIMIT


def test_every_dependency_has_a_reason() -> None:
    assert [one.name for one in dependencies() if not one.reason] == []


def test_a_dependency_without_a_reason_is_found() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project["project"]["dependencies"].append("left-pad>=1.0")
    assert [one.name for one in dependencies(project) if not one.reason] == ["left-pad"]
    assert lower_bounds(project)["left-pad"] == "1.0"


@pytest.mark.slow
def test_the_table_has_a_line_for_each() -> None:
    listed = dependencies()
    text = table_text(listed)
    assert all(f"| {one.name} |" in text for one in listed)
    assert "BSD" in next(line for line in text.splitlines() if line.startswith("| numpy |"))


def test_every_always_installed_package_has_a_lower_bound() -> None:
    needed = {one.name for one in dependencies() if "" in one.groups}
    assert set(lower_bounds()) == needed


@pytest.mark.finding("H-1")
def test_lower_bounds_fit_each_other() -> None:
    """H-1: numba 0.60 and 0.61 need llvmlite 0.43 and 0.44; no pip could install the bounds."""
    fast = tomllib.loads((ROOT / "pyproject.toml").read_text())
    fast["project"]["dependencies"] = fast["project"]["optional-dependencies"]["fast"]
    version = {k: tuple(map(int, v.split("."))) for k, v in lower_bounds(fast).items()}
    assert version["llvmlite"] >= (0, 45)
    assert version["numba"] >= (0, 62)


@pytest.mark.slow
@pytest.mark.finding("H-8")
def test_sparse_types_need_no_subscript_at_run_time() -> None:
    """H-8: with scipy 1.13, the lower bound, ``import dynsys`` raised TypeError."""
    text = """
import scipy.sparse as sparse
for kind in (sparse.csc_array, sparse.csr_array, sparse.coo_array):
    for base in kind.__mro__:
        if "__class_getitem__" in vars(base) and base.__module__.startswith("scipy"):
            del base.__class_getitem__
try:
    sparse.csc_array[float]
except TypeError:
    import problems, problems.command.main, problems.log_jobs, problems.placement.placement
else:
    raise SystemExit("still subscriptable: this test tests nothing")
"""
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 0, done.stderr[-500:]


@pytest.mark.finding("H-9")
def test_every_file_of_the_packages_is_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for package, patterns in project["tool"]["setuptools"]["package-data"].items():
        declared = {path for pattern in patterns for path in (ROOT / package).glob(pattern)}
        files = {
            path
            for path in (ROOT / package).rglob("*")
            if path.is_file() and path.suffix != ".py" and path.parent.name != "__pycache__"
        }
        assert sorted(files - declared) == []


def test_this_python_is_among_those_found() -> None:
    assert pythons()


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=pytest.mark.trust if command[0] == "demo" else [])
        for command in COMMANDS[:2]
    ],
    ids=lambda command: command[0],
)
def test_commands_need_no_network(command: tuple[str, ...], tmp_path: Path) -> None:
    assert offline_command(command, tmp_path, ROOT) == ""


def test_a_command_that_wants_a_network_is_found() -> None:
    wanting = """
def main(arguments):
    try:
        socket.create_connection(("10.0.0.1", 80))
    except OSError:
        pass
    return 0
"""
    text = WATCH.replace("from problems.command.main import main\n", wanting)
    assert subprocess.run([sys.executable, "-c", text], timeout=LIMIT).returncode == 17
