"""The table of trust: docs/trust.md from the results of the campaigns and the findings.

    python -m experiments.trust.table [--check]

Reads docs/results/trust/*.json and *.jsonl, written by the campaigns (``--json``), the file
experiments/trust/findings.yaml, and the history: a commit that fixes a finding names its id.
Exit status 1 with --check if docs/trust.md is not what would be written, or a finding has no
regression test.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from experiments.trust.table_sections import SECTIONS, row, summary

__all__ = ["findings", "main", "text_of", "without_test"]

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "trust"
FINDINGS = Path(__file__).with_name("findings.yaml")
PAGE = ROOT / "docs" / "trust.md"
Json = Mapping[str, Any]


def findings() -> list[dict[str, Any]]:
    """Failures found, in the order of their ids."""
    found = yaml.safe_load(FINDINGS.read_text(encoding="utf-8")) if FINDINGS.exists() else []
    return sorted(found or [], key=lambda one: _natural(str(one["id"])))


def _natural(text: str) -> list[Any]:
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]


def without_test(found: Sequence[Json]) -> list[str]:
    """Ids of findings whose regression test is not there."""
    missing = []
    for one in found:
        file, _, name = str(one.get("test", "")).partition("::")
        path = ROOT / file
        name = name.split("[")[0]
        if not file or not path.is_file() or (name and f"def {name}(" not in path.read_text()):
            missing.append(str(one["id"]))
    return missing


def _commits() -> list[tuple[str, str]]:
    """Short hash and message of every commit, newest first."""
    done = subprocess.run(
        ["git", "log", "--format=%h%x00%B%x01"], cwd=ROOT, capture_output=True, text=True
    )
    entries = [entry.strip() for entry in done.stdout.split("\x01") if entry.strip()]
    return [(entry.split("\0")[0], entry.split("\0")[1]) for entry in entries]


def _fixed_by(identity: str, commits: Sequence[tuple[str, str]]) -> str:
    word = re.compile(rf"(?<![\w-]){re.escape(identity)}(?![\w-])")
    found = [short for short, message in commits if word.search(message)]
    return ", ".join(reversed(found)) or "not committed yet"


def _results() -> dict[str, Any]:
    """Results by campaign; those of .jsonl files are lists."""
    found: dict[str, Any] = {}
    for path in sorted(RESULTS.glob("*.json*")):
        text = path.read_text(encoding="utf-8")
        lines = (
            [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else []
        )
        found[path.stem] = lines if path.suffix == ".jsonl" else json.loads(text)
    return found


def _findings_section(found: Sequence[Json], commits: Sequence[tuple[str, str]]) -> list[str]:
    lines = ["## Failures found", "", "| id | failure | fix | regression test | commits |"]
    lines.append("|---|---|---|---|---|")
    for one in found:
        test = f"`{one.get('test', '-')}`"
        fixed = _fixed_by(str(one["id"]), commits)
        lines.append(row(one["id"], one["failure"], one.get("fix", "-"), test, fixed))
    return lines


def text_of(results: Json, found: Sequence[Json], commits: Sequence[tuple[str, str]]) -> str:
    """The page."""
    lines = [
        "# Trust: what could go wrong, tried on purpose",
        "",
        "Written by `python -m experiments.trust.table` from the results of the campaigns in",
        "`experiments/trust`.",
        "",
        *summary(results),
        "",
        f"{len(found)} failures were found; each has a regression test (below).",
    ]
    for name, section in SECTIONS.items():
        if name in results:
            lines += ["", *section(results[name])]
    lines += ["", *_findings_section(found, commits)]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    found = findings()
    text = text_of(_results(), found, _commits())
    missing = without_test(found)
    if missing:
        print(f"no regression test: {', '.join(missing)}")
    if options.check:
        same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        if not same:
            print("docs/trust.md is old: run python -m experiments.trust.table")
        return int(bool(missing) or not same)
    PAGE.write_text(text, encoding="utf-8")
    return int(bool(missing))


if __name__ == "__main__":
    raise SystemExit(main())
