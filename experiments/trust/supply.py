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
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import yaml

__all__ = [
    "COMMANDS",
    "SMOKE",
    "WATCH",
    "Dependency",
    "dependencies",
    "lower_bounds",
    "lowest",
    "main",
    "offline",
    "offline_command",
    "pythons",
    "table_text",
    "wheels",
]

ROOT = Path(__file__).parents[2]
REASONS = Path(__file__).with_name("reasons.yaml")
TABLE = ROOT / "docs" / "dependencies.md"
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*([^;]*)")

# ---- environments of their own ------------------------------------------------------------

FAST_TESTS = (
    "tests/model/test_tree.py",
    "tests/kernel/test_kernel.py",
    "tests/problems/test_dynamics.py",
    "tests/loops/test_loop_kernel.py",
    "tests/plan/test_plan.py",
    "tests/plan/test_pivots.py",
    "tests/plan/test_fingerprint.py",
    "tests/sensors/test_layout.py",
    "tests/problems/estimation/test_estimation.py",
    "tests/problems/estimation/test_estimation_batches.py",
    "tests/problems/estimation/test_estimation_statistics.py",
    "tests/problems/estimation/test_calibration.py",
    "tests/system/test_linear_system.py",
)
SUPPORTED = ("3.11", "3.12", "3.13")

SMOKE = """
import numpy as np, dynsys, problems, sensors, sys
from problems.robots import read_robot
assert not dynsys.__file__.startswith(sys.argv[1]), dynsys.__file__
robot = read_robot("example:humanoid", floating_base=True).robot
q, v = robot.random_configuration(0), np.ones(robot.nv)
torque = problems.InverseDynamics(robot).solve(q, v, v).torque
assert np.allclose(problems.ForwardDynamics(robot).solve(q, v, torque).qdd, v)
assert np.allclose(torque, dynsys.rnea(robot, q, v, v))
layout = sensors.catalogue.load("nao", robot)
assert not problems.Estimation(robot, layout).verdict(search=False).is_well_posed
assert sensors.layout_schema()
"""

COMMANDS = (
    ("info", "example:humanoid", "--floating-base", "--json"),
    ("demo", "--states", "2", "--json"),
    ("doctor", "--json"),
    ("check", "catalogue:nao_slippery", "--json"),
    ("simulate", "catalogue:nao_slippery", "-o", "log.npz", "--duration", "0.05", "--json"),
    ("solve", "catalogue:nao_slippery", "log.npz", "-o", "out.npz", "--json"),
    ("plan", "synthetic:chain:3", "--json"),
    ("export", "synthetic:chain:3", "-o", "c", "--json"),
)


@contextlib.contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given.resolve()
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def _run(
    command: Sequence[str | Path], folder: Path, more: Mapping[str, str] | None = None
) -> tuple[bool, str]:
    """Whether a command succeeds, and the end of what it says; the repository is not seen."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | dict(more or {})
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True
    )
    said = (done.stdout + done.stderr).strip()
    return done.returncode == 0, "" if done.returncode == 0 else said[-1500:]


def pythons() -> dict[str, str]:
    """Interpreters of the supported versions found here, by version."""
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    roots = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"]
    for version in SUPPORTED:
        candidates = [p for root in roots for p in sorted(root.glob(f"{version}.*/bin/python"))]
        on_path = shutil.which(f"python{version}")
        candidates += [Path(on_path)] if on_path else []
        for candidate in candidates:
            if version not in found and _run([candidate, "-c", "import venv"], Path.cwd())[0]:
                found[version] = str(candidate)
    return {version: found[version] for version in SUPPORTED if version in found}


def _environment(python: str, folder: Path, install: Sequence[str | Path]) -> tuple[Path, str]:
    """Interpreter of a new environment with packages installed, and what went wrong."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    inside = folder / "bin" / "python"
    quiet = ["--quiet", "--no-compile", "--disable-pip-version-check"]
    return inside, _run([inside, "-m", "pip", "install", *quiet, *install], folder)[1]


# ---- lower bounds ----------------------------------------------------------------------------


def lowest(root: Path, bounds: Mapping[str, str], given: Path | None = None) -> dict[str, Any]:
    """Install exactly the lower bounds and run the fast tests."""
    pinned = [f"{name}=={version}" for name, version in bounds.items()]
    with _folder(given) as folder:
        tools = ["pytest>=8.2", "pytest-timeout>=2.3", "hypothesis>=6.100", "jsonschema>=4.20"]
        inside, wrong = _environment(sys.executable, folder / "lowest", [*pinned, *tools])
        if wrong:
            return {"ok": False, "bounds": dict(bounds), "install": wrong}
        cache = {"DYNSYS_CACHE": str(folder / "cache"), "PYTHONPATH": str(root)}
        passed, said = _run(
            [inside, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *FAST_TESTS],
            root,
            cache,
        )
    return {"ok": passed, "bounds": dict(bounds), "tests": list(FAST_TESTS), "said": said}


# ---- wheels ----------------------------------------------------------------------------------


def wheels(root: Path, given: Path | None = None) -> dict[str, Any]:
    """Build sdist and wheel from a copy, install each in clean environments, run them there."""
    with _folder(given) as folder:
        files, wrong = _build(root, folder)
        if wrong:
            return {"ok": False, "build": wrong}
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            running = [
                pool.submit(_run_installed, version, python, file, root, folder)
                for version, python in pythons().items()
                for file in files
            ]
            rows = [one.result() for one in running]
    return {"ok": not any(row["problem"] for row in rows), "installs": rows}


def _run_installed(
    version: str, python: str, file: Path, root: Path, folder: Path
) -> dict[str, str]:
    """Install a file in an environment of its own and run it there."""
    place = folder / f"{version}-{file.suffix.lstrip('.')}"
    inside, problem = _environment(python, place, [file])
    problem = problem or _smoke(inside, root, place)
    print(f"{version} {file.name}: {problem or 'works'}", file=sys.stderr, flush=True)
    shutil.rmtree(place)
    return {"python": version, "file": file.name, "problem": problem}


def _build(root: Path, folder: Path) -> tuple[list[Path], str]:
    """Sdist from a copy of the tree without hidden files, wheel from that sdist."""
    inside, wrong = _environment(sys.executable, folder / "build", ["build"])
    if wrong:
        return [], wrong
    source = folder / "source"
    shutil.rmtree(source, ignore_errors=True)
    left = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")
    shutil.copytree(root, source, ignore=left)
    out = folder / "dist"
    _, wrong = _run([inside, "-m", "build", "--outdir", out, source], folder)
    return sorted(out.glob("*.whl")) + sorted(out.glob("*.tar.gz")), wrong


def _smoke(inside: Path, root: Path, place: Path) -> str:
    """Use what is installed, outside the repository; what went wrong."""
    more = {"DYNSYS_CACHE": str(place / "cache")}
    passed, said = _run([inside, "-c", SMOKE, root], place, more)
    for command in COMMANDS:
        if passed:
            passed, said = _run([inside.with_name("dynsys"), *command], place, more)
            said = said and f"dynsys {' '.join(command)}: {said}"
    return said


# ---- no network ------------------------------------------------------------------------------

WATCH = """
import socket, sys
wanted = []
def refuse(name):
    def call(self, *given, **more):
        if getattr(self, "family", None) != socket.AF_UNIX:
            wanted.append([name, repr(given)])
            raise OSError("no network here")
        return original[name](self, *given, **more)
    return call
original = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex", "sendto")}
for name in original:
    setattr(socket.socket, name, refuse(name))
def resolve(*given, **more):
    wanted.append(["getaddrinfo", repr(given)])
    raise OSError("no network here")
socket.getaddrinfo = resolve
from problems.command.main import main
try:
    status = main(sys.argv[1:])
except SystemExit as end:
    status = end.code
sys.exit(17 if wanted else status)
"""


def offline_command(command: Sequence[str], folder: Path, root: Path) -> str:
    """Run a command that may not connect anywhere; why it failed, or nothing.

    Sockets are refused in Python; where the kernel lets us, there is no network at all.
    """
    bare = ["unshare", "--net"] if _can_unshare() else []
    more = {"PYTHONPATH": str(root)}
    return _run([*bare, sys.executable, "-c", WATCH, *command], folder, more)[1]


def _can_unshare() -> bool:
    tool = shutil.which("unshare")
    return tool is not None and subprocess.run([tool, "--net", "true"]).returncode == 0


def offline(root: Path, given: Path | None = None) -> dict[str, Any]:
    """Every command without a network."""
    with _folder(given) as folder:
        rows = {" ".join(c): offline_command(c, folder, root) for c in COMMANDS}
    return {
        "ok": not any(rows.values()),
        "network": "taken away" if _can_unshare() else "sockets refused",
        "commands": rows,
    }


class Dependency(NamedTuple):
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
        report["lowest"] = lowest(ROOT, lower_bounds(), options.folder)
    if options.wheels:
        report["wheels"] = wheels(ROOT, options.folder)
    if options.offline:
        report["offline"] = offline(ROOT)
    print(json.dumps(report, indent=1))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if all(part["ok"] for part in report.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
