"""All campaigns of trust by one command, each with the code that it has judged.

    python -m experiments.trust [NAME ...] [--again] [--jobs 1]

A campaign works on a file of its own, build/trust/CODE/NAME, CODE being the digest of the
sources of the three packages: one that is killed goes on where it was, and what other code has
answered is never mixed in. When all its commands have ended, the file is its result in
docs/results/trust, and ``runs.json`` there says of which commit, when, in how many processor
minutes, and whether it found anything. Changes of meaning and fixes undone are known by the
function that they change, so those of functions that stand as they were are kept. What this
code has been judged by is not done once more unless ``--again`` asks for it. The page of trust
is written at the end. Exit status 1 if a campaign found something.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final

from dynsys.resumable import replacing
from experiments.trust import table

__all__ = ["CAMPAIGNS", "Campaign", "code_digest", "main", "run_open"]

PACKAGES = ("dynsys", "sensors", "problems")
ROOT = table.ROOT
FILE = "FILE"
"""Stands for the file of results in the arguments of a command."""
PICTURE = "PICTURE"
"""Stands for the picture beside it."""


@final
@dataclass(frozen=True)
class Campaign:
    """Commands that fill one file of results, each the arguments of a Python process.

    ``keeps`` : rows of the last result are taken over, as they are known by what they changed.
    ``alone`` : measures times, so that nothing else runs beside.
    """

    commands: Sequence[Sequence[str]]
    ending: str = ".jsonl"
    keeps: bool = False
    alone: bool = False


def _command(module: str, *arguments: str) -> list[str]:
    return ["-m", f"experiments.trust.{module}", *arguments, "--json", FILE]


def _one(*words: str, **settings: Any) -> Campaign:
    return Campaign([_command(*words)], **settings)


CAMPAIGNS: Mapping[str, Campaign] = {
    "adversarial": _one("adversarial_states", "--switchable", "4"),
    "agreement": _one("agreement", "--seconds", "240", ending=".json"),
    "consistency": _one("consistency", "--jobs", "2"),
    "edges": _one("edges"),
    "encoder_noise": _one("consistency.encoder_noise", ending=".json"),
    "estimator": _one("estimator"),
    "faults": _one("faults", ending=".json"),
    "fuzz": _one("fuzz", "--seconds", "600"),
    "held": _one("held"),
    "layouts": _one("layouts", "--resume"),
    "mutations": _one("mutations", keeps=True),
    "realtime": _one("realtime", "--png", PICTURE, ending=".json", alone=True),
    "rooms": _one("rooms"),
    "supply": _one("supply", "--table", "--lowest", "--wheels", "--offline", ending=".json"),
    "suspects": _one("consistency.suspects"),
    "undone": _one("undone", keeps=True),
}


def code_digest(root: Path = ROOT) -> str:
    """Digest of the sources of the three packages, as they lie in the work tree."""
    digest = hashlib.sha256()
    for path in sorted(p for package in PACKAGES for p in (root / package).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def run_open(
    campaigns: Mapping[str, Campaign],
    results: Path,
    work: Path,
    *,
    jobs: int = 1,
    again: bool = False,
) -> dict[str, Any]:
    """Run campaigns that have not judged this code, ``jobs`` at a time; what is known of all.

    results : their files, and ``runs.json``, which has a row for each campaign.
    work : folder of files that are not whole.
    """
    record, lock, code = results / "runs.json", threading.Lock(), code_digest()
    runs = _runs(record)
    wanted = [name for name in campaigns if again or runs.get(name, {}).get("code") != code]

    def run(name: str) -> None:
        print(f"{name} begins", flush=True)
        if again:
            _file(name, campaigns[name], work).unlink(missing_ok=True)
        told = _run(name, campaigns[name], results, work, fresh=again)
        found = "FOUND SOMETHING" if told["status"] else "nothing found"
        print(f"{name}: {found}, {told['processor_minutes']} processor minutes", flush=True)
        with lock:  # another process may have added its own meanwhile
            known = {**_runs(record), name: told}
            with replacing(record) as part:
                part.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")

    for at_a_time, alone in ((1, True), (jobs, False)):
        with ThreadPoolExecutor(at_a_time) as pool:
            some = [name for name in wanted if campaigns[name].alone == alone]
            for done in [pool.submit(run, name) for name in some]:
                done.result()
    return _runs(record)


def _runs(record: Path) -> dict[str, Any]:
    return dict(json.loads(record.read_text())) if record.exists() else {}


def _file(name: str, campaign: Campaign, work: Path) -> Path:
    return work / code_digest() / f"{name}{campaign.ending}"


def _run(
    name: str, campaign: Campaign, results: Path, work: Path, *, fresh: bool
) -> dict[str, Any]:
    """Run a campaign; its result is in ``results`` when all its commands have ended."""
    file = _file(name, campaign, work)
    picture, last = file.with_suffix(".png"), results / file.name
    file.parent.mkdir(parents=True, exist_ok=True)
    if campaign.keeps and not fresh and last.exists() and not file.exists():
        shutil.copy(last, file)
    places = {FILE: str(file), PICTURE: str(picture)}
    minutes, statuses = 0.0, []
    for arguments in campaign.commands:
        with file.with_suffix(".log").open("a", encoding="utf-8") as log:
            command = [sys.executable, *(places.get(word, word) for word in arguments)]
            process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        statuses.append(process.returncode)
        minutes += (used.ru_utime + used.ru_stime) / 60
        if process.returncode not in (0, 1) or not file.exists():
            told = f"{name} ended with status {process.returncode}"
            raise RuntimeError(f"{told}; see {log.name}, and run it again")
    if _file(name, campaign, work) != file:
        raise RuntimeError(f"the packages changed while {name} ran: run it again")
    for made in (file, picture):
        if made.exists():
            shutil.copy(made, results / made.name)
    return {
        "commit": _commit(),
        "code": file.parent.name,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "processor_minutes": round(minutes, 1),
        "status": max(statuses),
    }


def _commit() -> str:
    """Short hash of the commit; with a plus if the packages are not as it has them."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip()

    return git("rev-parse", "--short", "HEAD") + "+" * bool(git("status", "-s", *PACKAGES))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run campaigns, keep what they found and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CAMPAIGNS))
    parser.add_argument("--again", action="store_true", help="from the beginning")
    parser.add_argument("--jobs", type=int, default=1, help="campaigns at a time")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in CAMPAIGNS]
    if unknown:
        parser.error(f"no campaign {', '.join(unknown)}; there are {', '.join(CAMPAIGNS)}")
    some = {name: CAMPAIGNS[name] for name in options.names or CAMPAIGNS}
    runs = run_open(
        some, table.RESULTS, ROOT / "build/trust", jobs=options.jobs, again=options.again
    )
    return table.main([]) or int(any(runs[name]["status"] for name in some))
