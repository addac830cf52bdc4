"""The floor plan: rooms import downwards only, and the names that other programs call stay."""

from __future__ import annotations

import argparse
import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from problems.command import main as command

ROOT = Path(__file__).parents[1]
FLOORS = {
    "dynsys": (
        "distribution errors types lazy private_folder resumable sources jit cholmod superlu"
        " notebook",
        "model",
        "recursive",
        "system",
        "program",
        "plan",
        "kernel",
        "loops",
        "verbs motion",
        "operational",
        "simulation",
        "interop",
        "__init__",
        "__main__",
    ),
    "problems": (
        "terminal robots inputs labels visuals warm correlation web",
        "reference solution derivatives products constrained held_verdict problem dynamics"
        " trust",
        "measured",
        "verdict",
        "estimation",
        "placement",
        "identification",
        "detection",
        "logs",
        "problem_file",
        "planning order_comparison",
        "log_jobs",
        "report",
        "studio",
        "live view",
        "command",
        "__init__",
    ),
}
"""Rooms from the ground up; single files that may import each other share a floor."""
DOORS = {("dynsys/__main__.py", "problems.command.main.main")}
"""Imports upwards, each explained where it stands."""
MOST_FILES = 25


def floor_of(package: str) -> dict[str, int]:
    return {room: k for k, rooms in enumerate(FLOORS[package]) for room in rooms.split()}


def imports(path: Path) -> Iterator[str]:
    """Everything a file imports, inside functions and for types only too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(name: str, floors: dict[str, int]) -> str:
    """Room of a dotted name; what the package itself offers comes from its ``__init__``."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in floors else "__init__"


@pytest.mark.slow
@pytest.mark.parametrize("package", FLOORS)
def test_rooms_import_downwards(package: str) -> None:
    floors = floor_of(package)
    unknown, upwards = [], []
    for path in sorted((ROOT / package).rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        room = path.relative_to(ROOT).with_suffix("").parts[1]
        if room not in floors:
            unknown.append(where)
            continue
        for name in imports(path):
            if name.split(".")[0] != package or (where, name) in DOORS:
                continue
            there = room_of(name, floors)
            shared = floors[there] == floors[room] and "/" not in where.split("/", 1)[1]
            if there != room and not shared and floors[there] >= floors[room]:
                upwards.append(f"{where} imports {name}")
    assert not unknown
    assert not upwards


def test_no_folder_is_a_bag() -> None:
    folders: dict[str, int] = {}
    for top in ("dynsys", "sensors", "problems", "experiments", "tests", "docs"):
        for path in (ROOT / top).rglob("*.py"):
            folder = path.parent.relative_to(ROOT).as_posix()
            folders[folder] = folders.get(folder, 0) + 1
    assert {folder: n for folder, n in folders.items() if n > MOST_FILES} == {}


# ---- names that other programs call --------------------------------------------------------

PUBLIC = yaml.safe_load((Path(__file__).parent / "public_names.yaml").read_text())
ALIASES = {"dynsys.synthetic": "dynsys.model.synthetic"}


@pytest.mark.parametrize("module", PUBLIC["modules"])
def test_public_names_of_modules(module: str) -> None:
    offered = importlib.import_module(ALIASES.get(module, module))
    assert sorted(offered.__all__) == sorted(PUBLIC["modules"][module])
    assert not [name for name in offered.__all__ if not hasattr(offered, name)]


@pytest.mark.parametrize("package", FLOORS)
def test_names_load_from_where_types_say(package: str) -> None:
    """The table of lazy names, and what type checkers read instead of it."""
    offered = importlib.import_module(package)
    (typed,) = (
        node
        for node in ast.parse((ROOT / package / "__init__.py").read_text()).body
        if isinstance(node, ast.If)
    )
    names = [
        (f"{node.module}", alias.name)
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert sorted(name for _, name in names) == sorted(offered.__all__)
    for module, name in names:
        found = getattr(importlib.import_module(module), name)
        assert getattr(offered, name) is found
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = offered.no_such_name


@pytest.mark.parametrize("name", PUBLIC["classes"])
def test_public_names_of_classes(name: str) -> None:
    module, _, cls = name.rpartition(".")
    offered = getattr(importlib.import_module(module), cls)
    there = {*dir(offered), *getattr(offered, "__annotations__", ())}
    assert not set(PUBLIC["classes"][name]) - there


def test_commands_and_their_options() -> None:
    parser = command.command_parser()
    action = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    assert set(action.choices) == set(PUBLIC["commands"])
    for name, sub in action.choices.items():
        words = {word for a in sub._actions for word in a.option_strings or [a.dest]}
        assert not set(PUBLIC["commands"][name]) - words, name
