"""Every fix undone, one line each: do the tests that are named for it fail without it?

    python -m experiments.trust.undone [--only WORD ...] [--again] [--json FILE]

``undone.yaml`` says which line of a file is the fix, what stood there before, or might have,
and the tests. As for mutants (:mod:`experiments.trust.mutations`) nothing is written near the
sources: a forked process exchanges the code of the functions concerned and runs a test, which
another has run as they are. A FILE that exists is added to: what it holds is not done again as
long as file and change are the same; ``--again`` tries what did not fail once more. Exit status
1 if there is any.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import yaml

from experiments.trust import mutations

__all__ = ["Undone", "all_undone", "main", "swap"]

UNDONE = Path(__file__).with_name("undone.yaml")
RESULTS = mutations.ROOT / "docs/results/trust/undone.jsonl"
SECONDS = 300.0
"""Processor time of a test, with what it has to compile."""


@final
@dataclass(frozen=True)
class Undone:
    """A fix undone, ``after`` in the place of ``before`` in its file, and a test that fails."""

    of: str
    file: str
    before: str
    after: str
    test: str

    @property
    def id(self) -> str:
        """Of the file as it stands, the change, and the test."""
        text = (mutations.ROOT / self.file).read_text(encoding="utf-8")
        key = "\0".join((text, self.before, self.after, self.test))
        return hashlib.sha256(key.encode()).hexdigest()[:12]


def all_undone() -> Iterator[Undone]:
    """What ``undone.yaml`` holds, a fix and a test each."""
    for entry in yaml.safe_load(UNDONE.read_text(encoding="utf-8")):
        tests = entry.pop("tests")
        for test in tests:
            yield Undone(**entry, test=test)


def swap(one: Undone) -> int:
    """Undo a fix in this process; in how many places. ValueError if it stands not once."""
    text = (mutations.ROOT / one.file).read_text(encoding="utf-8")
    if text.count(one.before) != 1:
        raise ValueError(
            f"{one.file}: {one.before!r} stands there {text.count(one.before)} times"
        )
    old, new = (ast.parse(x) for x in (text, text.replace(one.before, one.after)))
    owners, others = (dict(mutations._owners(tree.body)) for tree in (old, new))
    changed = [k for k, node in others.items() if ast.unparse(node) != ast.unparse(owners[k])]
    module = importlib.import_module(one.file.removesuffix(".py").replace("/", "."))
    count, functions = 0, set()
    for name in changed:
        node = others[name]
        if isinstance(node, ast.Assign):
            value = ast.literal_eval(node.value)
            count += mutations._set_everywhere(module, name, value)
        else:
            functions.add(f"{one.file}::{name}")
    return count + (mutations._exchange({one.file: new}, functions) if functions else 0)


def tried(one: Undone, work: Path) -> dict[str, Any]:
    """What the test says with the fix, and without it."""
    status = _said(one, work, undo=False)
    if status == "passes":
        status = _said(one, work, undo=True)
    else:
        status = f"{status}, with the fix, too"
    return {"id": one.id, "of": one.of, "file": one.file, "test": one.test, "status": status}


def _said(one: Undone, work: Path, *, undo: bool) -> str:
    def run() -> list[Any]:
        places = swap(one) if undo else 1
        recorder = mutations._Recorder(calls=False)
        return [places, mutations._pytest([one.test], recorder)]

    places, status = mutations._forked(run, SECONDS, work / "cache", ["*"]) or (1, -1)
    if not places:
        return "not found in memory"
    others = {0: "passes", 1: "fails", -1: "no end, or the process died"}
    return others.get(status, f"pytest ended with {status}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Undo every fix; 1 if a test does not notice."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="words of the fix or its test")
    parser.add_argument("--again", action="store_true", help="try those that passed once more")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    os.chdir(mutations.ROOT)
    mutations._import_all()
    lines = options.json.read_text().splitlines() if options.json.exists() else []
    known: dict[str, Mapping[str, Any]] = {row["id"]: row for row in map(json.loads, lines)}
    rows: list[Mapping[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for one in all_undone():
            row = known.get(one.id)
            wanted = any(word in f"{one.of} {one.test}" for word in options.only or [""])
            if wanted and (row is None or (options.again and row["status"] != "fails")):
                row = tried(one, Path(folder))
                print(f"{row['status']:8} {row['of']}: {row['test']}", flush=True)
            if row is not None:
                rows.append(row)
                options.json.write_text("".join(json.dumps(x) + "\n" for x in rows))
    silent = [row for row in rows if row["status"] != "fails"]
    print(f"{len(rows) - len(silent)} of {len(rows)} tests fail without their fix")
    return int(bool(silent))


if __name__ == "__main__":
    raise SystemExit(main())
