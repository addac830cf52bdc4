"""What the experiments measured, kept small in ``docs/results`` with machine, date, commit."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.peer_machine import machine

__all__ = ["KNOWN", "RESULTS", "ROOT", "load", "take"]

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
SERIES = {
    "ours": ("ours", "one state"),
    "ours, batch": ("ours", "batch"),
    "ours, one thread": ("ours", "one thread"),
    "ours, two threads": ("ours", "two threads"),
    "ours, two loops": ("ours", "two loops"),
    "ours, Python": ("ours", "python"),
    "Pinocchio C++": ("pinocchio c++", "one state"),
    "Pinocchio wheel": ("pinocchio wheel", "one state"),
    "Pinocchio wheel, batch": ("pinocchio wheel", "batch"),
    "Pinocchio Python": ("pinocchio python", "python"),
    "CasADi C": ("casadi", "one state"),
}
"""Columns kept of experiments.peers: contender's name begins with, mode."""


def take(name: str, file: Path) -> Path:
    """Keep what an experiment wrote to ``file`` as the result ``name``; returns the path."""
    given = json.loads(file.read_text(encoding="utf-8"))
    here = {key: machine((), 0)[key] for key in ("processor", "python")}
    there = here | (given.get("machine", {}) if isinstance(given, dict) else {})
    measured = {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(file.stat().st_mtime)),
        "commit": _commit_before(file.stat().st_mtime),
        "processor": there["processor"],
        "python": there["python"],
        "packages": there.get("packages", {}),
        "compilers": there.get("compilers", []),
    }
    condensed = KNOWN[name](given)
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"measured": measured, "data": condensed}, indent=1) + "\n")
    return path


def load(name: str) -> dict[str, Any] | None:
    """Result ``name``, or None if it was not taken yet."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _commit_before(moment: float) -> str:
    """Last commit before the file was written: what was measured is that, or a bit more."""
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%h", f"--until={until}"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


# ---- what is kept of each ------------------------------------------------------------------


def _peers(given: Any) -> Any:
    kept: dict[str, Any] = {}
    for robot, about in given["robots"].items():
        tasks: dict[str, dict[str, Any]] = {}
        for timing in about["timings"]:
            for column, (who, mode) in SERIES.items():
                if not timing["who"].startswith(who) or timing["mode"] != mode:
                    continue
                cells = tasks.setdefault(timing["task"], {})
                if column not in cells or timing["median_ns"] < cells[column]["ns"]:
                    cells[column] = {
                        "ns": round(timing["median_ns"], 1),
                        "error": timing["error"],
                    }
                    if timing.get("gain") is not None:
                        cells[column]["gain"] = round(timing["gain"], 3)
        kept[robot] = {"nv": about["nv"], "tasks": tasks}
    return kept


def _operational(given: Any) -> Any:
    kept = []
    for found in given["comparisons"]:
        ours, *theirs = found["routes"]
        best = min(theirs, key=lambda route: route["median_ns"])
        kept.append(
            {
                "robot": found["robot"],
                "nv": found["nv"],
                "task": found["task"],
                "ours_ns": round(ours["median_ns"], 1),
                "ours_error": ours["error"],
                "best": best["who"],
                "best_ns": round(best["median_ns"], 1),
                "best_error": best["error"],
            }
        )
    return kept


def _as_given(given: Any) -> Any:
    return given


KNOWN: dict[str, Callable[[Any], Any]] = {
    "peers": _peers,
    "operational": _operational,
    "estimation": _as_given,
    "long_log": _as_given,
    "start_up": _as_given,
}
"""Results by name, and what is kept of the JSON that their experiment writes."""
