"""Environments of their own: lower bounds, installed wheels, commands without a network."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

__all__ = [
    "COMMANDS",
    "SMOKE",
    "WATCH",
    "lowest",
    "offline",
    "offline_command",
    "pythons",
    "wheels",
]

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
    "tests/problems/estimation/test_missing_readings.py",
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
        tools = ["pytest>=8.2", "hypothesis>=6.100", "jsonschema>=4.20"]
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
                pool.submit(_installed, version, python, file, root, folder)
                for version, python in pythons().items()
                for file in files
            ]
            rows = [one.result() for one in running]
    return {"ok": not any(row["problem"] for row in rows), "installs": rows}


def _installed(
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
