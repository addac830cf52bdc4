"""Every fix undone: does a test that is marked with the finding fail without it?

    python -m experiments.trust.undone [--only WORD ...] [--again] [--json FILE]

``undone.yaml`` says what the fix of a finding is in a file, and what stood there before, or
might have; the tests are those marked with the finding. As for mutants
(:mod:`experiments.trust.mutations`) nothing is written near the sources: a forked process
exchanges the code of the functions concerned and runs the tests, which another has run as they
are. A FILE that exists is added to: what it holds is not done again as long as the functions
and the change are the same; ``--again`` tries what nobody noticed once more. Exit status 1 if a
fix is not where it was, or no test notices that it is gone.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, final

import yaml

from experiments.trust import mutations
from experiments.trust.table import guards

__all__ = ["Undone", "all_undone", "main", "swap"]

UNDONE = Path(__file__).with_name("undone.yaml")
RESULTS = mutations.ROOT / "docs/results/trust/undone.jsonl"
SECONDS = 600.0
"""Processor time of the tests of a finding, with what they have to compile."""


@final
@dataclass(frozen=True)
class Undone:
    """A fix undone, ``after`` in the place of ``before``, in its file or wherever it went."""

    of: str
    file: str
    before: str
    after: str

    @cached_property
    def place(self) -> tuple[str, str]:
        """The file that holds the fix, and its text without. ValueError if there is no one."""
        pattern = _anyhow(self.before)
        every = [
            path.relative_to(mutations.ROOT).as_posix()
            for package in mutations.PACKAGES
            for path in sorted((mutations.ROOT / package).rglob("*.py"))
        ]
        for files in ([self.file], every):
            texts = {file: _text(file) for file in files if (mutations.ROOT / file).exists()}
            found = [(file, one) for file in texts for one in pattern.finditer(texts[file])]
            if len(found) == 1:
                ((file, one),) = found
                text = texts[file]
                return file, text[: one.start()] + self.after.strip() + text[one.end() :]
        raise ValueError(f"{self.file}: {self.before!r} stands there {len(found)} times")

    @cached_property
    def changed(self) -> tuple[str, dict[str, ast.stmt], ast.Module]:
        """File, functions and constants that differ, by name, and the module without it."""
        file, without = self.place
        trees = [ast.parse(text) for text in (_text(file), without)]
        old, new = (dict(mutations._owners(tree.body)) for tree in trees)
        differ = {
            name: node
            for name, node in new.items()
            if ast.unparse(node) != _unparsed(old, name)
        }
        return file, differ, trees[1]

    @property
    def id(self) -> str:
        """Of the functions as they stand, and the change."""
        file, differ, _ = self.changed
        names = dict(mutations._owners(ast.parse(_text(file)).body))
        stand = [_unparsed(names, name) for name in differ]
        key = "\0".join((self.of, file, *stand, *map(ast.unparse, differ.values())))
        return hashlib.sha256(key.encode()).hexdigest()[:12]


def _text(file: str) -> str:
    return (mutations.ROOT / file).read_text(encoding="utf-8")


def _unparsed(owners: Mapping[str, ast.stmt], name: str) -> str:
    return ast.unparse(owners[name]) if name in owners else ""


def _anyhow(text: str) -> re.Pattern[str]:
    """The pattern of a piece of source, however it is broken into lines."""
    tokens = re.findall(r"\w+|[^\w\s]", text)
    pattern = re.escape(tokens[0])
    for one, other in pairwise(tokens):
        words = one[-1].isalnum() and other[0].isalnum()
        pattern += (r"\s+" if words else r"\s*") + re.escape(other)
    return re.compile(pattern)


def all_undone() -> list[Undone]:
    """What ``undone.yaml`` holds."""
    return [Undone(**entry) for entry in yaml.safe_load(UNDONE.read_text(encoding="utf-8"))]


def swap(one: Undone) -> int:
    """Undo a fix in this process; in how many places. ValueError if it is not there."""
    file, differ, tree = one.changed
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    count, functions = 0, set()
    for name, node in differ.items():
        if isinstance(node, ast.Assign):
            value = ast.literal_eval(node.value)
            count += mutations._set_everywhere(module, name, value)
        else:
            functions.add(f"{file}::{name}")
    return count + (mutations._exchange({file: tree}, functions) if functions else 0)


def _said(tests: Sequence[str], work: Path, without: Undone | None = None) -> dict[str, Any]:
    """What tests say with the fix, or without it, and which of them fail."""

    def run() -> list[Any]:
        places = swap(without) if without else 1
        recorder = mutations._Recorder(calls=False)
        return [places, mutations._pytest(tests, recorder, whole=True), recorder.failures]

    answer = mutations._forked(run, SECONDS, work / "cache", ["*"])
    places, status, failures = answer or (1, -1, [])
    if not places:
        return {"status": "not found in memory", "failures": []}
    others = {0: "passes", 1: "fails", -1: "no end, or the process died"}
    told = others.get(status, f"pytest ended with {status}")
    return {"status": told, "failures": sorted({name.partition("[")[0] for name in failures})}


@cache
def _with_fixes(tests: tuple[str, ...], work: Path) -> Mapping[str, Any]:
    """What tests say as everything stands: once, however many fixes they guard."""
    return _said(tests, work)


def tried(one: Undone, tests: Sequence[str], work: Path) -> dict[str, Any]:
    """What the tests of a finding say without the fix, if they pass with it."""
    found: Mapping[str, Any] = {"status": "no test has its mark", "failures": []}
    if tests:
        found = _with_fixes(tuple(tests), work)
        if found["status"] == "passes":
            found = _said(tests, work, one)
        else:
            found = {**found, "status": f"{found['status']}, with the fix, too"}
    return {"id": one.id, "of": one.of, "file": one.place[0], **found}


def deaf(rows: Sequence[Mapping[str, Any]], marked: Mapping[str, Sequence[str]]) -> list[str]:
    """Tests that are marked with findings of which a fix is undone, and never fail."""
    noticed = {test for row in rows for test in row["failures"]}
    return sorted({t for row in rows for t in marked.get(row["of"], ())} - noticed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Undo every fix; 1 if one is not there, or no test notices."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", nargs="*", default=[], help="words of the finding or its file"
    )
    parser.add_argument("--again", action="store_true", help="try those nobody noticed again")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    os.chdir(mutations.ROOT)
    mutations._import_all()
    lines = options.json.read_text().splitlines() if options.json.exists() else []
    known: dict[str, Mapping[str, Any]] = {row["id"]: row for row in map(json.loads, lines)}
    marked, rows = guards(), list[Mapping[str, Any]]()
    with tempfile.TemporaryDirectory() as folder:
        for one in all_undone():
            if not any(word in f"{one.of} {one.file}" for word in options.only or [""]):
                continue
            try:
                row = known.get(one.id)
            except ValueError as problem:
                row = {"id": "", "of": one.of, "file": one.file, "failures": []}
                row |= {"status": f"not there: {problem}"}
            if row is None or (options.again and row["id"] and row["status"] != "fails"):
                row = tried(one, marked.get(one.of, ()), Path(folder))
            print(f"{row['status']:8} {row['of']}: {', '.join(row['failures'])}", flush=True)
            rows.append(row)
            options.json.write_text("".join(json.dumps(x) + "\n" for x in rows))
    noticed = [row for row in rows if row["status"] == "fails"]
    print(f"{len(noticed)} of {len(rows)} fixes are missed by a test where they are undone")
    for test in deaf(rows, marked):
        print(f"fails for none of them: {test}")
    return int(len(noticed) < len(rows))


if __name__ == "__main__":
    raise SystemExit(main())
