"""The table of trust: docs/trust.md from the results of the campaigns and the findings.

    python -m experiments.trust.table [--check]

Reads docs/results/trust/*.json and *.jsonl, written by the campaigns
(:mod:`experiments.trust.campaigns`), the file experiments/trust/findings.yaml, and the history:
a commit that fixes a finding names its id, or the finding its ``commit``.
Exit status 1 with --check if docs/trust.md is not what would be written, or a finding has no
regression test.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from experiments.trust.consistency.encoder_noise import IMPROBABLE
from experiments.trust.consistency.study import outcomes_of
from experiments.trust.consistency.study import summary as summary_of
from experiments.trust.layouts import RIGHT, ROBOTS, drawn, fixed
from experiments.trust.mutations import explained, scores
from experiments.trust.realtime import allocation_free

__all__ = [
    "SECTIONS",
    "findings",
    "guards",
    "main",
    "row",
    "summary",
    "text_of",
    "without_test",
]

# ---- sections of the table of trust: what each campaign tried, and the worst it saw --------

Json = Mapping[str, Any]


def row(*cells: object) -> str:
    """Line of a Markdown table."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def summary(results: Mapping[str, Any]) -> list[str]:
    """One line per campaign: what was tried, how often, the worst of it."""
    lines = ["| campaign | tried | worst | unexplained failures | commit | processor minutes |"]
    lines.append("|---|---|---|---|---|---|")
    for name, result in results.items():
        if name in _DESCRIBED:
            run = results.get("runs", {}).get(name, {})
            about = (run.get(key, "-") for key in ("commit", "processor_minutes"))
            lines.append(row(name, *_DESCRIBED[name](result), *about))
    return lines


def _fuzz(result: Sequence[Json]) -> tuple[str, str, str]:
    cases = sum(one["cases"] for one in result)
    refused = sum(one["refused"] for one in result)
    areas = len({one["area"].removesuffix(", hostile") for one in result})
    failed = sum(len(one["failures"]) for one in result)
    tried = f"{cases} inputs to {areas} readers"
    return tried, f"{refused} refused by errors of dynsys", str(failed)


def _rooms(result: Sequence[Json]) -> tuple[str, str, str]:
    changes, refused = (sum(one[key] for one in result) for key in ("changes", "refused"))
    failed = sum(len(one["failures"]) for one in result)
    tried = f"{changes} hostile arguments to {len(result)} calls"
    return tried, f"{refused} refused by errors of dynsys", str(failed)


def _edges(result: Sequence[Json]) -> tuple[str, str, str]:
    named = sum(one["error"] is not None for one in result)
    errors = [one["true_error"] for one in result if one["true_error"] is not None]
    finite = [error for error in errors if math.isfinite(error)]
    largest = f"true error {max(finite, default=0.0):.1e}"
    worst = f"{largest} where the printed bound says so; {named} named errors"
    return f"{len(result)} questions", worst, str(sum(not one["covered"] for one in result))


def _agreement(result: Json) -> tuple[str, str, str]:
    worst, peer, quantity = max(
        (cell["difference"], peer, quantity)
        for peer, row in result["worst"].items()
        for quantity, cell in row.items()
    )
    states = f"{result['states']} states of {result['robots']} robots"
    tried = f"{result['comparisons']} comparisons, {states}"
    return tried, f"{worst:.1e} relative ({peer}, {quantity})", str(len(result["failures"]))


def _faults(result: Json) -> tuple[str, str, str]:
    lost = result["injected"] - result["survived"]
    skipped = [row["name"] for row in result["faults"] if row["skipped"]]
    tried = f"{result['injected']} injections of {len(result['faults']) - len(skipped)} faults"
    return tried, f"skipped: {', '.join(skipped)}" if skipped else "-", str(lost)


def _realtime(result: Json) -> tuple[str, str, str]:
    c = max(row["worst"] for row in result["C"]["compute_us"].values())
    python = max(row["worst"] for row in result["Python"]["compute_us"].values())
    ticks = result["C"]["ticks"] + result["Python"]["ticks"]
    failed = "0" if allocation_free(result) else "1"
    return f"{ticks} ticks at 1 kHz", f"{c:.0f} µs in C, {python:.0f} µs in Python", failed


def _supply(result: Json) -> tuple[str, str, str]:
    bad = [name for name, part in result.items() if not part["ok"]]
    return ", ".join(result), "-", str(len(bad))


def _adversarial(result: Sequence[Json]) -> tuple[str, str, str]:
    states, driven = (sum(one[key] for one in result) for key in ("states", "driven"))
    tried = f"{states} random states and {driven} driven to small pivots, {len(result)} layouts"
    shares = [
        sum(one[share] * one[key] for one in result) / max(total, 1)
        for share, key, total in (
            ("pivoting", "states", states),
            ("pivoting_driven", "driven", driven),
        )
    ]
    left = f"left to pivoting: {shares[0]:.2%}, driven {shares[1]:.1%}"
    worst = max(one["worst"] for one in result)
    return tried, f"{worst:.1e}; {left}", str(sum(one["silent"] for one in result))


def _held(result: Sequence[Json]) -> tuple[str, str, str]:
    compared, fallbacks = (sum(one[key] for one in result) for key in ("compared", "fallbacks"))
    rows = Counter(kind for one in result for kind in one["rows"])
    counts = ", ".join(f"{number} {kind}" for kind, number in rows.most_common())
    tried = f"{compared} comparisons, {len(result)} robots with constraints (rows of {counts})"
    worst = (
        f"{max(one['worst'] for one in result):.1e}; {fallbacks} states left to dense algebra"
    )
    return tried, worst, str(sum(len(one["failures"]) for one in result))


def _layouts(result: Sequence[Json]) -> tuple[str, str, str]:
    count = Counter(one["status"] for one in result)
    counts = ", ".join(f"{number} {status}" for status, number in count.most_common())
    worst = max((one["error"] for one in result if one["status"] == "compiled"), default=0.0)
    tried = f"{len(result)} of {len(fixed(20, ROBOTS) + drawn(300, ROBOTS))} layouts: {counts}"
    return tried, f"{RIGHT * worst:.1e}", str(count["wrong"])


def _mutations(result: Sequence[Json]) -> tuple[str, str, str]:
    count = Counter(one["status"] for one in result)
    told = sum(told for _, told, _ in scores(result).values())
    left = len(result) - count["killed"] - told
    tried = f"{len(result)} changes of meaning in {len(scores(result))} rooms"
    return tried, f"{count['killed']} noticed by a test, {told} explained", str(left)


def _undone(result: Sequence[Json]) -> tuple[str, str, str]:
    findings, failing = (
        {one["of"] for one in result},
        {t for o in result for t in o["failures"]},
    )
    silent = sum(one["status"] != "fails" for one in result)
    tried = f"fixes of {len(findings)} findings undone in {len(result)} places"
    return tried, f"{len(failing)} tests fail", str(silent)


def _consistency(result: Sequence[Json]) -> tuple[str, str, str]:
    facts = summary_of(outcomes_of(result))
    ranks = ", ".join(f"{number} {rank}" for rank, number in facts["ranks"].items())
    parts = []
    for name, one in facts["backends"].items():
        refused = f" ({one['refused']} refused)" if one["refused"] else ""
        parts.append(f"{name} {one['layouts']}{refused}")
    suspects = max(one["suspects"] for one in facts["backends"].values())
    worst = max(one["worst"] for one in facts["backends"].values())
    tried = (
        f"{facts['layouts']} layouts ({ranks}) against a dense oracle, on {', '.join(parts)}"
    )
    told = f"{worst:.0f} condition * spread * eps; suspects compared on {suspects} layouts"
    return tried, told, str(len(facts["differences"]))


def _estimator(result: Sequence[Json]) -> tuple[str, str, str]:
    count = Counter(one["status"] for one in result)
    counts = ", ".join(f"{number} {status}" for status, number in count.most_common())
    numbers, unknown = (sum(one[key] for one in result) for key in ("numbers", "open"))
    tried = f"{numbers} estimates ({unknown} of them open) of {len(result)} layouts ({counts})"
    worst = f"{max(one['error'] for one in result):.1e} off Newton and Euler in world axes"
    return tried, worst, str(sum(bool(one["differences"]) for one in result))


def _suspects(result: Sequence[Json]) -> tuple[str, str, str]:
    first, missed = (sum(one["place"] == k for one in result) for k in (1, 0))
    tried = f"{len(result)} layouts with one wrong sensor, ordinary, far too precise, or exact"
    worst = max(one["error"] for one in result)
    group = sum(one["group"] for one in result) / len(result)
    found = f"in the first group ({group:.1f} sensors in the mean) {first / len(result):.1%}"
    return tried, f"{found}; {worst:.1e}", str(missed)


def _encoder_noise(result: Json) -> tuple[str, str, str]:
    robots = result["robots"].values()
    numbers, solves = sum(one["numbers"] for one in robots), max(o["solves"] for o in robots)
    tried = f"scatter of {numbers} torques of {len(robots)} robots in {solves} noisy solves"
    ratios = [one["worst_ratio"] for one in robots]
    worst = f"{max(abs(ratio - 1) for ratio in ratios):.1%} off the deviation stated"
    return tried, worst, str(sum(one["p_value"] < IMPROBABLE for one in robots))


_DESCRIBED: Mapping[str, Callable[[Any], tuple[str, str, str]]] = {
    "fuzz": _fuzz,
    "rooms": _rooms,
    "edges": _edges,
    "encoder_noise": _encoder_noise,
    "agreement": _agreement,
    "faults": _faults,
    "held": _held,
    "realtime": _realtime,
    "supply": _supply,
    "adversarial": _adversarial,
    "layouts": _layouts,
    "mutations": _mutations,
    "undone": _undone,
    "consistency": _consistency,
    "estimator": _estimator,
    "suspects": _suspects,
}


def _agreement_section(result: Json) -> list[str]:
    quantities = ("inverse", "forward", "accelerometer", "gyroscope", "force", "torque")
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    lines = ["## Agreement with others", "", f"Largest relative difference; {versions}.", ""]
    lines += [row("peer", *quantities), "|---|" + "---|" * len(quantities)]
    for peer, found in result["worst"].items():
        cells = [f"{found[q]['difference']:.1e}" if q in found else "-" for q in quantities]
        lines.append(row(peer, *cells))
    lines += ["", *(f"- {who} cannot: {why}" for who, why in result["refused"].items())]
    return lines


def _faults_section(result: Json) -> list[str]:
    lines = ["## Faults injected", "", "| fault | injected | survived | what survived means |"]
    lines.append("|---|---|---|---|")
    for one in result["faults"]:
        meaning = one["meaning"] or f"skipped: {one['skipped']}"
        lines.append(row(one["fault"], one["injected"], one["survived"], meaning))
    return lines


def _realtime_section(result: Json) -> list[str]:
    lines = [
        "## Real-time loop",
        "",
        f"{result['seconds']:g} s at 1 kHz, each loop on one core, µs. A virtual machine with"
        " an ordinary kernel and other work beside: wake-ups and outliers of milliseconds are"
        f" its doing; the loop in C was preempted {result['C']['preempted']} times and had"
        f" {result['C']['page_faults']} page faults.",
        "",
        "| loop | | median | 99% | 99.99% | worst | malloc after warm-up |",
        "|---|---|---|---|---|---|---|",
    ]
    for way in ("Python", "C"):
        part = result[way]
        rows = {"wake-up": part["wake_up_us"], **part["compute_us"]}
        for name, times in rows.items():
            counted = part.get("allocations", {}).get(name)
            calls = f"{counted['malloc_calls']} in {counted['calls']} calls" if counted else ""
            if way == "C" and name != "wake-up":
                calls = f"{part['malloc_calls']} in the loop"
            cells = (times[key] for key in ("median", "p99", "p99_99", "worst"))
            lines.append(row(way, name, *cells, calls))
    return [*lines, "", "![latencies](results/trust/realtime.png)"]


def _mutations_section(result: Sequence[Json]) -> list[str]:
    lines = ["## Changes of meaning that tests must notice", ""]
    lines += ["| room | changes | noticed | explained |", "|---|---|---|---|"]
    for room, (killed, told, total) in scores(result).items():
        lines.append(row(f"`{room}`", total, killed, told))
    lines += ["", "| not noticed | change | why |", "|---|---|---|"]
    why = explained()
    for one in result:
        if one["status"] != "killed":
            place = f"`{one['file']}`, `{one['function']}`"
            change = f"`{one['before'][:60]}` to `{one['after'][:60]}`"
            lines.append(row(place, change, why.get(one["id"], f"open: {one['status']}")))
    return lines


SECTIONS: Mapping[str, Callable[[Any], list[str]]] = {
    "agreement": _agreement_section,
    "faults": _faults_section,
    "realtime": _realtime_section,
    "mutations": _mutations_section,
}

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "trust"
FINDINGS = Path(__file__).with_name("findings.yaml")
PAGE = ROOT / "docs" / "trust.md"


def findings() -> list[dict[str, Any]]:
    """Failures found, in the order of their ids."""
    found = yaml.safe_load(FINDINGS.read_text(encoding="utf-8")) if FINDINGS.exists() else []
    return sorted(found or [], key=lambda one: _natural(str(one["id"])))


@cache
def guards() -> dict[str, list[str]]:
    """Tests that are marked with a finding, by its id: ``file::name``."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if "mark.finding" not in text:
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                name = f"{file.relative_to(ROOT).as_posix()}::{node.name}"
                for one in _marks(node.decorator_list):
                    found.setdefault(one, []).append(name)
    return found


def _marks(decorators: Sequence[ast.expr]) -> list[str]:
    """Ids in decorators ``pytest.mark.finding(...)``, those of single parameters too."""
    calls = [
        node
        for decorator in decorators
        for node in ast.walk(decorator)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.finding"
    ]
    return [str(ast.literal_eval(id)) for call in calls for id in call.args]


def _natural(text: str) -> list[Any]:
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]


def without_test(found: Sequence[Json], marked: Mapping[str, Sequence[str]]) -> list[str]:
    """Ids of findings that no test is marked with."""
    return [str(one["id"]) for one in found if not marked.get(str(one["id"]))]


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
    lines = ["## Failures found", "", "| id | failure | fix | regression tests | commits |"]
    lines.append("|---|---|---|---|---|")
    for one in found:
        tests = ", ".join(f"`{test}`" for test in guards().get(str(one["id"]), ()))
        fixed = one.get("commit") or _fixed_by(str(one["id"]), commits)
        lines.append(row(one["id"], one["failure"], one.get("fix", "-"), tests or "-", fixed))
    return lines


def text_of(results: Json, found: Sequence[Json], commits: Sequence[tuple[str, str]]) -> str:
    """The page."""
    lines = [
        "# Trust: what could go wrong, tried on purpose",
        "",
        "Written by `python -m experiments.trust.table` from the results of the campaigns;",
        "`python -m experiments.trust` runs them.",
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
    missing = without_test(found, guards())
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
