"""Supply and surface: dependencies, lower bounds, wheels, no network at run time.

    python -m experiments.trust.supply --table     writes docs/dependencies.md
    python -m experiments.trust.supply --lowest    tests with the lower bounds of pyproject.toml
    python -m experiments.trust.supply --wheels    sdist and wheel, installed and run elsewhere
    python -m experiments.trust.supply --offline   every command without a network
    ... --json FILE                                what was found; an existing file is added to

Exit status 1 if a dependency has no reason, a test fails, an installed wheel lacks a file, or a
command wants a network.
"""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, final

import yaml

from experiments.trust import supply_runs

__all__ = ["Dependency", "dependencies", "lower_bounds", "main", "table_text"]

ROOT = Path(__file__).parents[2]
REASONS = Path(__file__).with_name("reasons.yaml")
TABLE = ROOT / "docs" / "dependencies.md"
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*([^;]*)")


@final
@dataclass(frozen=True)
class Dependency:
    """A line of pyproject.toml: who needs which versions of what, and why."""

    name: str
    versions: str
    groups: tuple[str, ...]
    reason: str


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _requirements(project: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Name, versions, and the extra ("" for what is always installed)."""
    groups = {"": project["project"]["dependencies"]}
    groups |= project["project"].get("optional-dependencies", {})
    groups["build"] = project["build-system"]["requires"]
    for group, lines in groups.items():
        for line in lines:
            found = _REQUIREMENT.match(line)
            if found and found[1] != project["project"]["name"]:
                yield found[1], found[2].strip(), group


def dependencies(project: dict[str, Any] | None = None) -> list[Dependency]:
    """Everything pyproject.toml asks for, once each; what has no reason has an empty one."""
    reasons = {
        name.lower(): reason for name, reason in yaml.safe_load(REASONS.read_text()).items()
    }
    found: dict[str, Dependency] = {}
    for name, versions, group in _requirements(project or _project()):
        before = found.get(name)
        groups = (*before.groups, group) if before else (group,)
        found[name] = Dependency(name, versions, groups, reasons.get(name.lower(), ""))
    return list(found.values())


def lower_bounds(project: dict[str, Any] | None = None) -> dict[str, str]:
    """Lowest allowed version of everything that is always installed."""
    bounds = {}
    for name, versions, group in _requirements(project or _project()):
        lowest = re.search(r">=\s*([0-9.]+)", versions)
        if group == "" and lowest:
            bounds[name] = lowest[1]
    return bounds


# ---- the table -------------------------------------------------------------------------------


UNSAID = {"casadi": "LGPL-3.0-or-later", "cvxopt": "GPL-3.0-or-later"}
"""Licences of packages whose metadata do not name them; from their licence files."""


def _licence(name: str, info: metadata.PackageMetadata) -> str:
    def first(field: str) -> str:
        return str(next(iter(info.get_all(field) or []), ""))

    text = UNSAID.get(name) or first("License-Expression")
    if not text:
        classifiers = [
            line.rsplit(" :: ", 1)[-1]
            for line in info.get_all("Classifier") or []
            if line.startswith("License ::")
        ]
        text = ", ".join(classifiers) or first("License").strip().split("\n")[0]
    return text[:60] or "see the package"


def _installed(name: str) -> tuple[str, str, str]:
    """Version, size and licence of what is installed here."""
    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return "-", "-", "-"
    sizes = []
    for file in package.files or []:
        path = Path(str(file.locate()))
        if path.is_file():
            sizes.append(path.stat().st_size)
    return package.version, f"{sum(sizes) / 2**20:.1f}", _licence(name, package.metadata)


def table_text(listed: Sequence[Dependency]) -> str:
    """The table in Markdown, what is always installed first."""
    lines = [
        "# Dependencies",
        "",
        "Written by `python -m experiments.trust.supply --table` from `pyproject.toml`, the",
        "installed packages and `experiments/trust/reasons.yaml`. Sizes are those of the",
        "installed files; what no extra names is always installed.",
        "",
        "| package | versions | extras | what for | tried | MiB | licence |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in sorted(listed, key=lambda d: ("" not in d.groups, d.name.lower())):
        version, size, licence = _installed(one.name)
        extras = ", ".join(group for group in one.groups if group)
        cells = (one.name, one.versions, extras, one.reason, version, size, licence)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _write_table() -> dict[str, Any]:
    listed = dependencies()
    missing = [one.name for one in listed if not one.reason]
    if not missing:
        TABLE.parent.mkdir(exist_ok=True)
        TABLE.write_text(table_text(listed), encoding="utf-8")
    return {"dependencies": len(listed), "without_reason": missing, "ok": not missing}


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked for; see the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("table", "lowest", "wheels", "offline"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path, help="for environments; a temporary one")
    options = parser.parse_args(arguments)
    known = options.json is not None and options.json.exists()
    report: dict[str, Any] = json.loads(options.json.read_text()) if known else {}
    if options.table:
        report["table"] = _write_table()
    if options.lowest:
        report["lowest"] = supply_runs.lowest(ROOT, lower_bounds(), options.folder)
    if options.wheels:
        report["wheels"] = supply_runs.wheels(ROOT, options.folder)
    if options.offline:
        report["offline"] = supply_runs.offline(ROOT)
    print(json.dumps(report, indent=1))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if all(part["ok"] for part in report.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
