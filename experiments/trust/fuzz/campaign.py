"""Coverage-guided fuzzing of every reader of files.

    python -m experiments.trust.fuzz [--seconds 60] [--seed 0] [--areas NAME ...]
                                     [--keep FOLDER] [--json FILE]

Mutants of valid files are read and used; a mutant that reaches a line of dynsys not seen before
joins the files to mutate. Allowed are an answer or an error below DynsysError, within
SECONDS_LIMIT and MEMORY_LIMIT. The hostile files of :mod:`experiments.trust.fuzz.hostile` come
first. FILE has a line for each area; exit status 1 if anything failed. ``--keep`` keeps the
files that fail.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from experiments.trust.faults_common import own_cache
from experiments.trust.fuzz.hostile import hostile
from experiments.trust.fuzz.targets import TARGETS, Target
from experiments.trust.fuzz.worker import Outcome, Worker

__all__ = ["Campaign", "fuzz_area", "main", "run_hostile"]


@final
@dataclass
class Campaign:
    """Counts of one area, and one example of every different failure."""

    area: str
    cases: int = 0
    read: int = 0
    refused: int = 0
    lines: set[tuple[str, int]] = field(default_factory=set)
    failures: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def count(self, outcome: Outcome, name: str, content: bytes | None) -> None:
        """Add one case."""
        self.cases += 1
        self.read += outcome.kind == "read"
        self.refused += outcome.kind == "refused"
        key = (outcome.kind, outcome.where)
        if outcome.is_failure and key in self.failures:
            self.failures[key]["times"] += 1
        elif outcome.is_failure:
            self.failures[key] = {
                "kind": outcome.kind,
                "where": outcome.where,
                "message": outcome.message,
                "case": name,
                "times": 1,
                "content": content,
            }

    def record(self) -> dict[str, Any]:
        """One line of the report."""
        failures = [
            {k: v for k, v in f.items() if k != "content"} for f in self.failures.values()
        ]
        return {
            "area": self.area,
            "cases": self.cases,
            "read": self.read,
            "refused": self.refused,
            "lines_covered": len(self.lines),
            "failures": failures,
        }


def fuzz_area(area: str, *, seed: int, seconds: float = 1e9, cases: int = 10**9) -> Campaign:
    """Fuzz one reader until time or number of cases is used up."""
    target: Target = TARGETS[area]
    rng = random.Random(f"{area} {seed}")
    campaign, worker = Campaign(area), Worker(target.check)
    corpus = list(target.seeds())
    waiting = list(corpus)
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="dynsys-fuzz-") as folder:
        path = Path(folder) / f"case{target.ending}"
        try:
            while campaign.cases < cases and time.monotonic() < end:
                content = (
                    waiting.pop()
                    if waiting
                    else target.mutation(rng.choice(corpus), corpus, rng)[: 2**20]
                )
                path.write_bytes(content)
                outcome = worker.run(path)
                if not outcome.lines <= campaign.lines:
                    campaign.lines |= outcome.lines
                    corpus.append(content)
                campaign.count(outcome, f"mutant {campaign.cases}", content)
        finally:
            worker.stop()
    return campaign


def run_hostile(area: str) -> Campaign:
    """Run the hostile files of one area."""
    campaign = Campaign(f"{area}, hostile")
    worker = Worker(TARGETS[area].check, coverage=False)
    try:
        for name, make in hostile(area).items():
            with tempfile.TemporaryDirectory(prefix="dynsys-fuzz-") as folder:
                campaign.count(worker.run(make(Path(folder))), name, None)
    finally:
        worker.stop()
    return campaign


def main() -> int:
    """Fuzz all areas and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for all areas together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--areas", nargs="*", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--keep", type=Path, help="folder for the files that fail")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dynsys-fuzz-") as cache, own_cache(Path(cache)):
        return _fuzz_all(options)


def _fuzz_all(options: argparse.Namespace) -> int:
    failed, lines = 0, []
    for area in options.areas:
        share = options.seconds / len(options.areas)
        for campaign in (run_hostile(area), fuzz_area(area, seed=options.seed, seconds=share)):
            failed += len(campaign.failures)
            record = campaign.record()
            lines.append(json.dumps(record) + "\n")
            print(_row(record), end="", flush=True)
            if options.json:
                options.json.write_text("".join(lines), encoding="utf-8")
            if options.keep:
                _keep(campaign, options.keep)
    return 1 if failed else 0


def _row(record: dict[str, Any]) -> str:
    text = "{area:18} {cases:8} cases {read:7} read {refused:7} refused".format(**record)
    lines = [f"{text} {len(record['failures']):3} failures\n"]
    for failure in record["failures"]:
        lines.append("    {kind} {where} ({times}x, {case}): {message}\n".format(**failure))
    return "".join(lines)


def _keep(campaign: Campaign, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for k, failure in enumerate(campaign.failures.values()):
        if failure["content"] is not None:
            ending = TARGETS[campaign.area].ending
            (folder / f"{campaign.area}_{k}{ending}").write_bytes(failure["content"])
