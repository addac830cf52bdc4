"""Where a report comes from: versions, fingerprints, date, the command that makes it again."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import final

from dynsys.plan.fingerprint import fingerprint_problem, fingerprint_robot
from problems.report.subject import Subject

__all__ = ["Provenance", "provenance"]

PACKAGES = ("dynsys", "numpy", "scipy", "llvmlite", "scikit-sparse", "pin")


@final
@dataclass(frozen=True)
class Provenance:
    """Date (UTC), versions by package, machine, fingerprints (SHA-256), command."""

    date: str
    versions: dict[str, str]
    machine: str
    fingerprints: dict[str, str]
    command: str


def provenance(subject: Subject, command: Sequence[str]) -> Provenance:
    """State of this moment and machine."""
    prints = {
        "robot": fingerprint_robot(subject.robot).digest,
        "problem": fingerprint_problem(subject.question, subject.system).digest,
    }
    if subject.layout is not None:
        prints["layout"] = subject.layout.fingerprint()
    return Provenance(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        versions={"python": platform.python_version()} | _versions(),
        machine=f"{platform.system()} {platform.machine()}, {_processor()}",
        fingerprints=prints,
        command=shlex.join(command),
    )


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = (line.split(":", 1)[1].strip() for line in file if "model name" in line)
            return next(names, platform.processor() or "unknown processor")
    except OSError:
        return platform.processor() or "unknown processor"
