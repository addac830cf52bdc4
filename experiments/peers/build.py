"""Builds the peers that need a compiler; each product is kept and reused while unchanged."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import final

__all__ = ["Builder", "Compiler", "GeneratedFunction", "find_compilers"]

SOURCES = Path(__file__).with_name("cpp")
OPTIMISED = ("-O3", "-march=native", "-DNDEBUG", "-w", "-fPIC", "-shared")
CASADI_TASKS = ("rnea", "aba", "crba", "minverse")


@final
@dataclass(frozen=True)
class Compiler:
    """A C and a C++ compiler of one make; ``version`` is the first line they print."""

    c: str
    cxx: str
    version: str


@final
@dataclass(frozen=True)
class GeneratedFunction:
    """One of ``CASADI_TASKS``, generated and compiled."""

    task: str
    compiler: Compiler
    library: Path


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _version_of(program: str) -> str | None:
    if shutil.which(program) is None:
        return None
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return answer.stdout.splitlines()[0] if answer.returncode == 0 and answer.stdout else None


def find_compilers() -> list[Compiler]:
    """Newest clang, then gcc, of those on the path. Pinocchio is fastest with clang."""
    names = {
        path.name
        for folder in os.get_exec_path()
        if Path(folder).is_dir()
        for path in Path(folder).glob("clang++*")
        if re.fullmatch(r"clang\+\+(-\d+)?", path.name)
    }
    clangs = _working([(name.replace("++", ""), name) for name in names])
    newest = sorted(clangs, key=_number, reverse=True)[:1]
    return newest + _working([("gcc", "g++")])


def _working(pairs: Sequence[tuple[str, str]]) -> list[Compiler]:
    return [
        Compiler(c, cxx, version)
        for c, cxx in pairs
        if (version := _version_of(cxx)) and _version_of(c)
    ]


def _number(compiler: Compiler) -> int:
    number = re.search(r"version (\d+)", compiler.version)
    return int(number.group(1)) if number else 0


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dynsys" / "peers"


@final
class Builder:
    """Compiles what is asked for, or finds it in ``folder`` from an earlier run.

    Parameters
    ----------
    compilers : at least one, see :func:`find_compilers`. The first compiles the C++; CasADi's C
        is compiled by all, since none is the fastest on every function.
    build : False compiles nothing that takes long, only looks for what an earlier run left.
    say : called with one line before each long step.
    folder : where products are kept; the user's cache folder by default.
    """

    def __init__(
        self,
        compilers: Sequence[Compiler],
        build: bool,
        say: Callable[[str], None],
        folder: Path | None = None,
    ) -> None:
        self._compilers = tuple(compilers)
        self._compiler = self._compilers[0]
        self._build = build
        self._say = say
        self._folder = folder or _cache_folder()
        self._folder.mkdir(parents=True, exist_ok=True)

    def pinocchio_loops(self) -> Path | None:
        """Shared library of Pinocchio's algorithms, or None where it may not be built."""
        return self._pinocchio_library("pinocchio_loops.cpp")

    def operational_loops(self) -> Path | None:
        """Shared library of Pinocchio's routes to Lambda^-1; None as above."""
        return self._pinocchio_library("operational_loops.cpp")

    def task_loops(self) -> Path | None:
        """Shared library of Pinocchio's route to a task controller; None as above."""
        return self._pinocchio_library("task_loops.cpp")

    def casadi_generator(self) -> Path | None:
        """Program that writes C through CasADi, or None where it may not be built."""
        spec = util.find_spec("casadi")
        if spec is None or spec.origin is None:
            return None
        casadi = str(Path(spec.origin).parent)
        flags = ["-std=c++17", "-O1", "-DNDEBUG", "-w", f"-I{casadi}/include"]
        libraries = [f"-L{casadi}", "-lcasadi", f"-Wl,-rpath,{casadi}"]
        return self._from_headers(
            "casadi_generate.cpp", [*flags, *_pinocchio_includes(), *libraries], "exe"
        )

    def casadi_loop(self) -> Path:
        """Shared library that loops over states through a generated function."""
        source = SOURCES / "casadi_loop.c"
        flags = ["-std=c99", *OPTIMISED]
        target = self._folder / f"casadi_loop-{self._key(flags, source.read_text())}.so"
        return self._compiled(target, self._compiler.c, [str(source)], flags)

    def casadi_functions(self, name: str, robot_text: str) -> list[GeneratedFunction]:
        """Generated functions of a robot by every compiler; none without a generator."""
        generator = self.casadi_generator()
        if generator is None:
            return []
        key = self._key([generator.name], robot_text)
        folder = self._folder / f"casadi-{name}-{key}"
        functions = [
            GeneratedFunction(task, compiler, folder / f"{task}-{_digest(compiler.version)}.so")
            for compiler in self._compilers
            for task in CASADI_TASKS
        ]
        if not self._build:
            return [function for function in functions if function.library.exists()]
        if not (folder / "done").exists():
            self._say(f"{name}: CasADi writes C")
            self._generate(generator, robot_text, folder)
        for function in functions:
            if not function.library.exists():
                self._say(f"{name}: {function.compiler.c} compiles CasADi's {function.task}")
            sources, flags = [str(folder / f"{function.task}.c")], [*OPTIMISED, "-lm"]
            self._compiled(function.library, function.compiler.c, sources, flags)
        return functions

    # ---- steps ---------------------------------------------------------------------------

    def _pinocchio_library(self, source: str) -> Path | None:
        flags = ["-std=c++17", *OPTIMISED, "-fvisibility=hidden", *_pinocchio_includes()]
        return self._from_headers(source, flags, "so")

    def _from_headers(self, source: str, flags: Sequence[str], suffix: str) -> Path | None:
        headers = sorted(SOURCES.glob("*.hpp"))
        text = "".join(path.read_text() for path in [SOURCES / source, *headers])
        key = self._key(flags, text, "pin", "casadi")
        target = self._folder / f"{Path(source).stem}-{key}.{suffix}"
        if not target.exists():
            if not self._build:
                return None
            if not _eigen().is_dir():
                raise RuntimeError(
                    "Eigen's headers are missing; pip install cmeel-eigen==3.4.1"
                )
            self._say(f"compiling {source} with {self._compiler.version}: takes minutes")
        return self._compiled(target, self._compiler.cxx, [str(SOURCES / source)], flags)

    def _key(self, flags: Sequence[str], content: str, *packages: str) -> str:
        versions = [f"{package} {_version(package)}" for package in packages]
        return _digest(self._compiler.version, *flags, *versions, content)

    def _compiled(
        self, target: Path, program: str, sources: Sequence[str], flags: Sequence[str]
    ) -> Path:
        """Compile into a temporary name and move it: a killed build leaves no half product."""
        if target.exists():
            return target
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            product = Path(scratch) / target.name
            _run([program, *sources, *flags, "-o", str(product)])
            product.replace(target)
        return target

    def _generate(self, generator: Path, robot_text: str, folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            robot, written = Path(scratch) / "robot.txt", Path(scratch) / "written"
            robot.write_text(robot_text)
            written.mkdir()
            _run([str(generator), str(robot), str(written)])
            (written / "done").touch()
            shutil.rmtree(folder, ignore_errors=True)
            written.rename(folder)


def _run(command: Sequence[str]) -> None:
    """Run at low priority; RuntimeError carries the end of what the program said."""
    done = subprocess.run(["nice", *command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{(done.stderr or done.stdout)[-2000:]}")


def _pinocchio_prefix() -> Path:
    """Folder of the wheel's headers and data."""
    spec = util.find_spec("pinocchio")
    if spec is None or spec.origin is None:
        raise RuntimeError("pinocchio is not installed; pip install pin")
    return next(path for path in Path(spec.origin).parents if path.name == "cmeel.prefix")


def _eigen() -> Path:
    return _pinocchio_prefix() / "include" / "eigen3"


def _pinocchio_includes() -> list[str]:
    return [f"-I{_pinocchio_prefix() / 'include'}", f"-I{_eigen()}"]
