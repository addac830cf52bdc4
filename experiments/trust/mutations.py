"""Tests that cannot fail: small changes of meaning in every room, and the tests that notice.

    python -m experiments.trust.mutations [--count 7] [--only ROOM ...] [--again] [--slow]
                                          [--mutants ID ...] [--tests FILE ...]
                                          [--record SECONDS] [--json FILE]

A mutant is one function with one change: a comparison, a sign, a constant, ``any`` for ``all``,
a check left out. Nothing is written anywhere near the sources: a process that has imported the
packages forks, the child exchanges the code of that function in memory and runs the tests that
call it, the fastest first; of what was compiled before, nothing is used that the change might
concern. Which tests call it is recorded once per file of tests (``--work``): in a child that
runs them, every function begins by saying its name. A mutant that no test notices has survived:
it is killed by a test, or explained in ``survivors.yaml``.

``--count`` mutants per room are drawn, always the same ones as long as their functions stand as
they are. A FILE that exists is added to, and what it holds of functions that are gone is left
out at the end; ``--again`` tries those that survived once more, by the tests of all rooms: with
``--record 200`` by more than the first ones of a file, with ``--slow`` by those that are marked
so, with ``--tests`` by whole files. A function whose work is kept on the disk (a compiled
recursion) is called by more tests than is recorded.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import gc
import hashlib
import importlib
import json
import os
import pkgutil
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, final

import yaml

from dynsys.jit import Loop

__all__ = ["Mutant", "drawn", "explained", "main", "mutants_of", "scores", "swap"]

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs/results/trust/mutations.jsonl"
EXPLAINED = Path(__file__).with_name("survivors.yaml")
PACKAGES = ("dynsys", "sensors", "problems")
MORE_TESTS: Mapping[str, tuple[str, ...]] = {
    "dynsys": (
        "tests/test_jit.py",
        "tests/test_resumable.py",
        "tests/test_sources.py",
        "tests/test_verbs.py",
        "tests/model/test_interop.py",
        "tests/plan/test_campaign.py",
        "tests/problems/logs/test_log_jobs.py",
        "tests/trust/test_faults.py",
    ),
    "dynsys/kernel": ("tests/problems/test_batches.py",),
    "dynsys/loops": ("tests/recursive", "tests/operational"),
    "dynsys/system": ("tests/plan/test_lu.py",),
    "problems": ("tests/trust/test_estimate_trust.py", "tests/problems/logs/test_log_jobs.py"),
    "problems/measured": ("tests/problems/estimation", "tests/problems/verdict"),
}
"""Tests of a room beside those in the folder of its name."""
FIRST, MOST_SECONDS = 20, 30.0
"""Tests tried at first; seconds of the others that are tried then."""


# ---- what is changed ------------------------------------------------------------------------

OPPOSITE: Mapping[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div,
    ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
BOUNDARY: Mapping[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
TWINS = ("any all", "min max", "minimum maximum", "argmin argmax", "nanmin nanmax", "sin cos")
RENAMED = {a: b for pair in TWINS for a, b in (pair.split(), pair.split()[::-1])}


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    """Other meanings of a node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        whole = any(isinstance(getattr(x, "value", None), int) for x in node.comparators)
        table = BOUNDARY if whole and type(node.ops[0]) in BOUNDARY else OPPOSITE
        yield _with(node, ops=[table[type(node.ops[0])]()])
    elif isinstance(node, ast.BinOp) and type(node.op) in OPPOSITE and not _is_text(node):
        yield _with(node, op=OPPOSITE[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield _with(node, op=OPPOSITE[type(node.op)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        yield node.operand
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in RENAMED:
            yield _with(node, func=_with(node.func, attr=RENAMED[node.func.attr]))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in RENAMED:
            yield _with(node, func=_with(node.func, id=RENAMED[node.func.id]))
        elif node.func.id == "abs":
            yield node.args[0]
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        if not isinstance(node.value, bool):
            yield _with(node, value=_other(node.value))
    elif isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise):
        yield _with(node, test=ast.Constant(False))


def _is_text(node: ast.BinOp) -> bool:
    parts = (node.left, node.right)
    texts = [isinstance(getattr(x, "value", None), str) for x in parts]
    return any(texts) or any(isinstance(x, (ast.JoinedStr, ast.List)) for x in parts)


def _other(value: float) -> float:
    if isinstance(value, int):
        return value + 1
    return value * 1e4 if 0 < abs(value) < 1e-3 else value * 1.5 if value else 1.0


def _with(node: Any, **fields: Any) -> Any:
    other = deepcopy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


SILENT = (ast.Raise, ast.JoinedStr, ast.Assert, ast.arguments, ast.AnnAssign)
"""What is not changed: messages, signatures, annotations."""
APART = ("__repr__", "__str__", "__hash__")


@final
@dataclass(frozen=True)
class Mutant:
    """One change: ``number`` of those in its function (or constant), as text before and after.

    ``id`` is of the file, the function as it stands, and the change.
    """

    id: str
    room: str
    file: str
    function: str
    line: int
    number: int
    before: str
    after: str


def mutants_of(file: Path) -> list[Mutant]:
    """All mutants of a file."""
    path = file.relative_to(ROOT).as_posix()
    room = "/".join(path.split("/")[:2]) if path.count("/") > 1 else path.split("/")[0]
    room = "sensors" if room.startswith("sensors") else room
    found = []
    for name, owner in _owners(ast.parse(file.read_text(encoding="utf-8")).body):
        text = ast.unparse(owner)
        for number, (node, other) in enumerate(_sites(owner)):
            before, after = (ast.unparse(x).splitlines()[0] for x in (node, other))
            key = "\0".join((path, name, text, str(number), before, after))
            digest = hashlib.sha256(key.encode()).hexdigest()[:12]
            line = getattr(node, "lineno", 0)
            found.append(Mutant(digest, room, path, name, line, number, before, after))
    return found


def _owners(body: Sequence[ast.stmt], within: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Functions outside of all others, by their qualified names; constants of a module."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _owners(node.body, f"{within}{node.name}.")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if node.name not in APART:
                yield within + node.name, node
        elif isinstance(node, ast.Assign) and not within:
            target = node.targets[0]
            if isinstance(target, ast.Name) and isinstance(node.value, ast.Constant):
                yield target.id, node


def _sites(owner: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Nodes of a function with what they become, in the order of the source."""
    body = getattr(owner, "body", [getattr(owner, "value", owner)])
    waiting = list(reversed(body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, SILENT):
            continue
        for other in _changes(node):
            yield node, other
        waiting += reversed(list(ast.iter_child_nodes(node)))


def _every() -> Iterator[Mutant]:
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            yield from mutants_of(file)


def drawn(count: int, only: Sequence[str] = ()) -> list[Mutant]:
    """``count`` mutants of every room, at most one of a function."""
    by_room: dict[str, list[Mutant]] = {}
    for mutant in _every():
        by_room.setdefault(mutant.room, []).append(mutant)
    chosen = []
    for room in sorted(by_room):
        functions: dict[tuple[str, str], Mutant] = {}
        for mutant in sorted(by_room[room], key=lambda mutant: mutant.id):
            functions.setdefault((mutant.file, mutant.function), mutant)
        if not only or room in only:
            chosen += list(functions.values())[:count]
    return chosen


# ---- in memory ------------------------------------------------------------------------------

SAY = "_say_that_it_is_called"


def swap(mutant: Mutant) -> int:
    """Exchange the code of the function, or the constant, in this process; how many places."""
    tree = ast.parse((ROOT / mutant.file).read_text(encoding="utf-8"))
    owner = dict(_owners(tree.body))[mutant.function]
    node, other = list(_sites(owner))[mutant.number]
    _Replace(node, ast.copy_location(other, node)).visit(owner)
    ast.fix_missing_locations(tree)
    if isinstance(owner, ast.Assign):
        return _swap_constant(mutant, ast.literal_eval(owner.value))
    count = _exchange({mutant.file: tree}, {f"{mutant.file}::{mutant.function}"})
    module = sys.modules[mutant.file.removesuffix(".py").replace("/", ".")]
    for node in tree.body:  # constants that it has made when its module was imported
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if ast.unparse(node.value) == f"{mutant.function}()":
                _set_everywhere(module, node.targets[0].id, getattr(module, mutant.function)())
    return count


def _exchange(trees: Mapping[str, ast.Module], wanted: set[str]) -> int:
    """Give the functions ``wanted``, as file::name, their code in the trees; how many.

    Functions that they have returned, if these can be told apart by their names, too.
    """
    codes = {
        f"{file}::{code.co_qualname}": code
        for file, tree in trees.items()
        for code in _all_codes(compile(tree, str(ROOT / file), "exec"))
    }
    found = [
        (function, name)
        for function in gc.get_objects()
        if type(function) is FunctionType
        and (name := _name_of(function)).split(".<locals>")[0] in wanted
        and not name.endswith(">")  # lambdas and comprehensions share their names
        and name in codes
    ]
    for function, name in found:
        if function.__code__.co_freevars == codes[name].co_freevars:
            function.__code__ = codes[name]
    return len(found)


def _watch(called: set[str]) -> None:
    """Let every function of the packages add its name to ``called``, in this process.

    Loops, whose code becomes machine code, are seen where they are called from Python.
    """
    trees, wanted = {}, set()
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            path = file.relative_to(ROOT).as_posix()
            trees[path] = ast.parse(file.read_text(encoding="utf-8"))
            for name, owner in _owners(trees[path].body):
                if isinstance(owner, ast.FunctionDef):
                    said = ast.parse(f"{SAY}({path + '::' + name!r})").body[0]
                    owner.body.insert(0, said)
                    wanted.add(f"{path}::{name}")
            ast.fix_missing_locations(trees[path])
    loops = [one for one in gc.get_objects() if type(one) is Loop]
    setattr(builtins, SAY, called.add)
    _exchange(trees, wanted - {_name_of(loop.source) for loop in loops})
    run = Loop.__call__

    def seen(loop: Loop[Any, Any], *arguments: Any, **named: Any) -> Any:
        called.add(_name_of(loop.source))
        return run(loop, *arguments, **named)

    setattr(Loop, "__call__", seen)  # noqa: B010


def _name_of(function: Any) -> str:
    """File and qualified name of a function of ours."""
    code = function.__code__
    return f"{code.co_filename.removeprefix(f'{ROOT}/')}::{code.co_qualname}"


def _swap_constant(mutant: Mutant, value: object) -> int:
    module = sys.modules[mutant.file.removesuffix(".py").replace("/", ".")]
    return _set_everywhere(module, mutant.function, value)


def _set_everywhere(module: ModuleType, name: str, value: object) -> int:
    """Give a constant of a module another value there and wherever it was imported."""
    old, count = getattr(module, name), 0
    for other in list(sys.modules.values()):
        if getattr(other, "__dict__", {}).get(name) is old:
            setattr(other, name, value)
            count += 1
    return count


class _Replace(ast.NodeTransformer):
    def __init__(self, node: ast.AST, other: ast.AST) -> None:
        self.node, self.other = node, other

    def visit(self, node: ast.AST) -> ast.AST:
        return self.other if node is self.node else self.generic_visit(node)


def _all_codes(code: CodeType) -> Iterator[CodeType]:
    """Code objects of a module, outer ones last: a name stands for the outermost."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_codes(constant)
    yield code


# ---- tests, in forked processes -------------------------------------------------------------


@final
class _Recorder:
    """Plugin of pytest: calls and seconds of every test that passes, those that fail."""

    def __init__(self, *, calls: bool, longest: float = 0.0) -> None:
        self.calls = calls
        self.longest = longest
        self.tests: dict[str, dict[str, Any]] = {}
        self.failures: list[str] = []
        self._called: set[str] = set()
        self._begin = time.process_time()
        if calls:
            _watch(self._called)

    def pytest_runtest_setup(self, item: Any) -> None:
        if self.calls and time.process_time() - self._begin > self.longest:
            item.session.shouldstop = "what is recorded is enough"

    def pytest_runtest_logstart(self) -> None:
        self._called.clear()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failures.append(report.nodeid)
        if report.when == "call" and report.passed:
            self.tests[report.nodeid] = {"seconds": report.duration}
        if report.when == "teardown" and report.nodeid in self.tests:
            self.tests[report.nodeid]["functions"] = sorted(self._called)


def _pytest(
    tests: Sequence[str], recorder: _Recorder, marked: str = "", *, whole: bool = False
) -> int:
    """Run tests, up to the first that fails unless ``whole``; the status of pytest."""
    import pytest

    options = ["-q", "-m", marked, "-p", "no:cacheprovider", "-p", "no:xdist"]
    options += [] if whole else ["-x"]
    return int(pytest.main([*options, "--rootdir", str(ROOT), *tests], plugins=[recorder]))


def _forked(
    work: Callable[[], object],
    seconds: float,
    warm: Path | None = None,
    without: Sequence[str] = (),
) -> Any:
    """What ``work`` returns in a child of this process; None where it dies or takes long.

    ``seconds`` are of its processor: on a busy machine it may take twenty times as long. Its
    cache begins with what is in ``warm``, but for some names; ``warm`` stays as it is.
    """
    with tempfile.TemporaryDirectory(dir=warm.parent if warm else None) as folder:
        answer = Path(folder) / "answer.json"
        if warm is not None and warm.exists():
            kept = shutil.ignore_patterns(*without)
            shutil.copytree(warm, f"{folder}/cache", ignore=kept, copy_function=os.link)
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
                signal.alarm(int(20.0 * seconds) + 60)  # also if nobody waits for it any more
                silent = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):
                    os.dup2(silent, stream)
                os.environ["DYNSYS_CACHE"] = f"{folder}/cache"
                answer.write_text(json.dumps(work()))
            finally:
                os._exit(0)
        end = time.monotonic() + 20.0 * seconds
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > end:
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                break
            time.sleep(0.05)
        return json.loads(answer.read_text()) if answer.exists() else None


def _files_of(room: str) -> list[Path]:
    """Files of tests of a room."""
    folder = ROOT / "tests" / room.removeprefix("dynsys/")
    places = sorted(folder.glob("test_*.py")) if room != "dynsys" else []
    for name in MORE_TESTS.get(room, ()):
        place = ROOT / name
        places += sorted(place.glob("test_*.py")) if place.is_dir() else [place]
    return [place for place in dict.fromkeys(places) if place.is_file()]


@final
@dataclass(frozen=True)
class _How:
    """Folder of what is recorded, tests by their mark, processor time to record a file.

    ``everywhere``: tests of all rooms, not only those of the mutant's own; ``files``: all tests
    of these, no others.
    """

    work: Path
    marked: str = "not slow"
    longest: float = 20.0
    everywhere: bool = False
    files: Sequence[str] = ()


def _recorded(file: Path, how: _How) -> dict[str, dict[str, Any]]:
    """Tests of a file: seconds and calls of each, recorded once."""
    key = f"{how.marked} {how.longest:g} {file.read_text(encoding='utf-8')}"
    kept = how.work / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    if not kept.exists():

        def run() -> dict[str, Any]:
            os.environ["DYNSYS_CACHE"] = str(how.work / "cache")
            recorder = _Recorder(calls=True, longest=how.longest)
            _pytest([str(file)], recorder, how.marked, whole=True)
            named = {name.partition("::")[2]: told for name, told in recorder.tests.items()}
            return {f"{file}::{name}": told for name, told in named.items()}

        found = _forked(run, 10.0 * how.longest)
        if found is None:  # ended from outside: nothing is known of these tests
            return {}
        kept.write_text(json.dumps(found))
    tests: dict[str, dict[str, Any]] = json.loads(kept.read_text())
    return tests


def _tests_of(mutant: Mutant, how: _How) -> list[tuple[float, str]]:
    """Tests that call the function, the fastest first.

    Of a constant, and of a loop that runs as machine code, where no call is seen: tests that
    call something of its file, or of its room.
    """
    if how.files:
        return [(60.0, name) for name in how.files]
    tests: dict[str, dict[str, Any]] = {}
    files = [*_files_of(mutant.room), ROOT / mutant.file]  # its examples
    if how.everywhere:
        files += [f for f in sorted((ROOT / "tests").rglob("test_*.py")) if f not in files]
    for file in files:
        tests |= _recorded(file, how)
    wide = mutant.function.isupper() or "jit import" in (ROOT / mutant.file).read_text()
    for wanted in (f"{mutant.file}::{mutant.function}", f"{mutant.file}::", f"{mutant.room}/"):
        found = [
            (told["seconds"], name)
            for name, told in tests.items()
            if any(function.startswith(wanted) for function in told.get("functions", ()))
        ]
        if found or not wide:
            return sorted(found)
    return []


def _concerned(mutant: Mutant) -> list[str]:
    """Names in the cache that a change might concern: all, or kernels, of what is recorded."""
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    if "jit import" in text:
        return ["*"]
    records = mutant.file.startswith("dynsys/") or "dynsys.program" in text
    return ["*.kernel"] if records else []


def _tried(mutant: Mutant, how: _How) -> dict[str, Any]:
    """What the tests say of a mutant."""
    begin, tests = time.monotonic(), _tests_of(mutant, how)
    told: dict[str, Any] = {**asdict(mutant), "tests": 0, "by": None}
    later, seconds = list[str](), 0.0
    for cost, name in tests[FIRST:]:
        seconds += cost
        later += [name] if seconds < MOST_SECONDS else []
    status = "survived" if tests else "not called by a test"
    for some in ([name for _, name in tests[:FIRST]], later):
        if not some or status == "killed":
            continue

        def run(some: list[str] = some) -> list[Any]:
            places, recorder = swap(mutant), _Recorder(calls=False)
            return [places, _pytest(some, recorder), recorder.failures]

        limit = 60.0 + 10.0 * sum(cost for cost, name in tests if name in some)
        answer = _forked(run, limit, how.work / "cache", _concerned(mutant))
        told["tests"] += len(some)
        if answer is None:
            status, told["by"] = "killed", "no end, or the process died"
        elif answer[0] == 0:
            status = "not found in memory"
        elif answer[1] in (1, 2):
            status, told["by"] = "killed", (answer[2] or ["collection"])[0]
        elif answer[1]:
            status = f"not tried: pytest ended with status {answer[1]}"
    return told | {"status": status, "seconds": round(time.monotonic() - begin, 1)}


# ---- the whole ------------------------------------------------------------------------------


def explained() -> dict[str, str]:
    """Why a mutant may survive, by its id."""
    found = yaml.safe_load(EXPLAINED.read_text(encoding="utf-8")) if EXPLAINED.exists() else {}
    return dict(found or {})


def scores(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, int, int]]:
    """Mutants of every room: killed, explained, all."""
    why = explained()
    found: dict[str, Counter[str]] = {}
    for row in rows:
        count = found.setdefault(row["room"], Counter())
        killed = row["status"] == "killed"
        count["killed" if killed else "told" if row["id"] in why else "alive"] += 1
    return {room: (c["killed"], c["told"], c.total()) for room, c in sorted(found.items())}


def _import_all() -> None:
    for package in PACKAGES:
        module = importlib.import_module(package)
        for found in pkgutil.walk_packages(module.__path__, f"{package}."):
            with suppress(ImportError):
                importlib.import_module(found.name)


def _known(file: Path) -> dict[str, dict[str, Any]]:
    lines = file.read_text().splitlines() if file.exists() else []
    return {row["id"]: row for row in map(json.loads, lines)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Try every mutant; 1 if one survived that is not explained."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=7, help="mutants of a room")
    parser.add_argument("--only", nargs="*", default=[], help="rooms, such as problems/logs")
    parser.add_argument("--mutants", nargs="*", default=[], metavar="ID", help="only these")
    parser.add_argument(
        "--tests", nargs="*", default=[], metavar="FILE", help="by all of these"
    )
    parser.add_argument("--again", action="store_true", help="try survivors once more")
    parser.add_argument("--slow", action="store_true", help="by tests that are marked so")
    parser.add_argument("--json", type=Path, default=RESULTS)
    longest = "processor time to record the calls of one file of tests"
    parser.add_argument("--record", type=float, default=20.0, metavar="SECONDS", help=longest)
    default = Path(tempfile.gettempdir()) / "dynsys-mutations"
    parser.add_argument("--work", type=Path, default=default, help="calls of tests, recorded")
    options = parser.parse_args(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    marked = "slow" if options.slow else "not slow"
    how = _How(options.work, marked, options.record, options.again, options.tests)
    os.chdir(ROOT)
    _import_all()
    known, mutants = _known(options.json), drawn(options.count, options.only)
    mutants = [m for m in mutants if not options.mutants or m.id in options.mutants]
    why = explained()
    for k, mutant in enumerate(mutants, start=1):
        row = known.get(mutant.id)
        again = (options.again or options.tests) and mutant.id not in why
        if row is None or (again and row["status"] != "killed"):
            row = _tried(mutant, how)
            known[mutant.id] = row
            current = known.values()
            options.json.write_text("".join(json.dumps(one) + "\n" for one in current))
        told = f"{row['file']}:{row['line']}  {row['before'][:60]}  ->  {row['after'][:60]}"
        print(f"{k}/{len(mutants)} {row['status']:9} {told}", flush=True)
    rows = [known[mutant.id] for mutant in mutants]
    if not options.only and not options.mutants:  # of earlier draws, what stands as it did
        standing = {mutant.id for mutant in _every()}
        rows = [row for row in known.values() if row["id"] in standing]
        options.json.write_text("".join(json.dumps(row) + "\n" for row in rows))
    alive = 0
    for room, (killed, told_of, total) in scores(rows).items():
        alive += total - killed - told_of
        print(f"{room:24} {killed} of {total} killed, {told_of} explained")
    return int(alive > 0)


if __name__ == "__main__":
    raise SystemExit(main())
