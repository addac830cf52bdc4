"""Concurrency and faults, tried on purpose: threads, forks, kill -9, disks, clocks, Dask, soak.

    python -m experiments.trust.faults [--only WORD ...] [--json]

Every fault is injected many times into real work in processes of its own; an outcome says how
often the work survived: right answers or an error of dynsys, nothing half-written, and a next
run that goes on. A kill counts only where it hits a process at work. A FILE that exists is
added to. Exit status 1 if any did not survive.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.trust import faults_disk, faults_processes
from experiments.trust import faults_processes as faults_soak
from experiments.trust.faults_common import Outcome, Skipped

__all__ = ["FAULTS", "inject", "main"]

FAULTS: Mapping[str, Callable[[Path], Outcome]] = {
    "threads": faults_processes.shared_by_threads,
    "fork": faults_processes.forked,
    "spawn": faults_processes.spawned,
    "kill_plan": faults_processes.killed_plan_search,
    "kill_compile": faults_processes.killed_compilations,
    "kill_cache": faults_processes.killed_cache_writers,
    "kill_log": faults_processes.killed_log_processing,
    "full_disk_cache": faults_disk.full_disk_for_cache,
    "full_disk_output": faults_disk.full_disk_for_output,
    "read_only_cache": faults_disk.read_only_cache,
    "clock": faults_disk.clock_jumps,
    "dask_worker": faults_processes.killed_workers,
    "dask_scheduler": faults_processes.killed_scheduler,
    "soak": faults_soak.soak,
}


def inject(name: str, **options: Any) -> Outcome:
    """Inject one fault in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return FAULTS[name](Path(folder), **options)
        except Skipped as reason:
            return Outcome(name, 0, 0, "", str(reason))


def main(arguments: Sequence[str] | None = None) -> int:
    """Inject the faults one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=FAULTS, help="by default: all")
    parser.add_argument("--json", nargs="?", const="-", help="file, or nothing for stdout")
    parser.add_argument("--soak-states", type=float, default=1e8)
    options = parser.parse_args(arguments)
    file = Path(options.json) if options.json and options.json != "-" else None
    rows = _known(file)
    for name in options.only or FAULTS:
        begin = time.monotonic()
        more = {"states": options.soak_states} if name == "soak" else {}
        outcome = inject(name, **more)
        seconds = round(time.monotonic() - begin, 1)
        rows[name] = {"name": name, **asdict(outcome), "seconds": seconds}
        if file is not None:
            file.write_text(_text(rows))
        if options.json != "-":
            said = outcome.meaning or outcome.skipped
            print(f"{_verdict(outcome):9} {outcome.fault}: {said}", flush=True)
    if options.json == "-":
        print(_text(rows), end="")
    return int(any(row["injected"] != row["survived"] for row in rows.values()))


def _known(file: Path | None) -> dict[str, dict[str, Any]]:
    """Outcomes of an earlier run, so that faults can be injected one by one."""
    if file is None or not file.exists():
        return {}
    return {row["name"]: row for row in json.loads(file.read_text())["faults"]}


def _text(rows: Mapping[str, Mapping[str, Any]]) -> str:
    ordered = [rows[name] for name in FAULTS if name in rows]
    report = {
        "faults": ordered,
        "injected": sum(row["injected"] for row in ordered),
        "survived": sum(row["survived"] for row in ordered),
    }
    return json.dumps(report, indent=1) + "\n"


def _verdict(outcome: Outcome) -> str:
    if outcome.skipped:
        return "skipped"
    return f"{outcome.survived}/{outcome.injected}" if outcome.ok else "FAILED"


if __name__ == "__main__":
    raise SystemExit(main())
