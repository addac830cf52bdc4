"""The performance page and the table of the README, written from ``docs/results`` alone.

    python -m experiments.performance_page [--take NAME=FILE ...] [--check]

``--take peers=FILE`` keeps what an experiment wrote as a result first, with machine, date and
commit. Names, and the experiments that write their files:

    peers          python -m experiments.peers --json FILE
    operational    python -m experiments.operational_peers --json FILE
    estimation     python -m experiments.estimation_peers --json FILE
    start_up       python -m experiments.start_up --json FILE
    calls          python -m experiments.calls --json FILE
    long_log       python -m experiments.long_log --json > FILE

``--check`` writes nothing; status 1 if the page or the README is not what the results say.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.peers.timing import COLUMNS, machine

__all__ = ["KNOWN", "RESULTS", "ROOT", "load", "main", "page", "readme_table", "take"]

# ---- what the experiments measured, kept small in ``docs/results`` --------------------------

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"


def take(name: str, file: Path, keep: Callable[[Any], Any] | None = None) -> Path:
    """Keep what an experiment wrote to ``file`` as the result ``name``; returns the path.

    ``keep`` says what of it; by default what :data:`KNOWN` has by this name.
    """
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
    condensed = (keep or KNOWN[name])(given)
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


def _kept_of_peers(given: Any) -> Any:
    kept: dict[str, Any] = {}
    for robot, about in given["robots"].items():
        tasks: dict[str, dict[str, Any]] = {}
        for timing in about["timings"]:
            for column, (who, mode) in COLUMNS.items():
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


def _kept_of_operational(given: Any) -> Any:
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
    "peers": _kept_of_peers,
    "operational": _kept_of_operational,
    "estimation": _as_given,
    "long_log": _as_given,
    "start_up": _as_given,
    "threads": _as_given,
    "calls": _as_given,
}
"""Results by name, and what is kept of the JSON that their experiment writes."""
PAGE = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
BEGIN = "<!-- performance: written by python -m experiments.performance_page -->"
END = "<!-- end of performance -->"
TASKS = {
    "ID": "Inverse dynamics",
    "FD": "Forward dynamics",
    "CRBA": "Joint-space inertia H",
    "Minverse": "Its inverse",
}
CALLED = ("ID", "FD")
OWN = ("Ours, two threads, longer than ours, one thread",)
SAME = 1.02
"""Ratio of two times up to which they count as the same."""
PEERS = ("Pinocchio C++", "Pinocchio wheel", "CasADi C")
INTRODUCTION = """\
# Performance

Nanoseconds and microseconds per state, sines and cosines included, medians on one pinned core.
One state at a time, answers are written to one place, as in a control loop. Every answer was
checked against the peer's and, where a table says so, against extended precision. The page is
written from the files in `docs/results`, which the experiments wrote; no number on it is typed
by hand. On your machine:

```text
python -m experiments.peers --build --json peers.json
python -m experiments.performance_page --take peers=peers.json
```
"""
CAVEATS = """\
- **The first answer is slow**: code for one robot must be written and compiled once. For a
  robot that is used for a handful of states, a library that compiles nothing is done earlier.
- **Code grows with the robot**: above some hundred bodies dynsys changes to compiled loops,
  which are not specialised and have less of an advantage.
- **Matrices in a batch** are bound by memory: 4096 of them leave the caches, while one state
  at a time writes to one place. Hence batches of H that seem slower than one state.
- **Two threads** help batches of a millisecond and more; on a machine that does something else
  they can lose.
- **Steps with contact** take three times MuJoCo's ([simulate](howto/simulate.md)).
- **Not here**: collision of meshes; Pinocchio has it. Derivatives are measured on
  [a page of their own](howto/derivatives.md).
"""


def page() -> str:
    """Return the Markdown of the page."""
    parts = [INTRODUCTION]
    slower: dict[str, list[str]] = {}
    for name, write in SECTIONS.items():
        result = load(name)
        if result is not None:
            parts.append("\n".join(write(result["data"], slower)))
            parts.append(_stamp(result["measured"]))
    against_peers = [what for what in slower if what not in OWN]
    lost = [f"- {what}: {', '.join(where)}." for what, where in slower.items()]
    if not against_peers:
        lost.insert(0, "- In no comparison above was the median of a peer below ours.")
    parts += ["## Where it is slower", "\n".join(lost) + "\n" + CAVEATS]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def readme_table() -> str:
    """Return the table of the README: three robots, ours and the fastest peers."""
    result = load("peers")
    if result is None:
        return ""
    lines = [
        "| ns per state | ours | ours, batch | CasADi C | Pinocchio C++ |",
        "|---|--:|--:|--:|--:|",
    ]
    for robot in ("panda", "humanoid30", "talos"):
        about = result["data"].get(robot)
        for task in ("ID", "FD") if about else ():
            cells = about["tasks"][task]
            row = [_ns(cells, c) for c in ("ours", "ours, batch", "CasADi C", "Pinocchio C++")]
            label = f"{TASKS[task].lower()}, {robot} ({about['nv']} freedoms)"
            lines.append(f"| {label} | {' | '.join(row)} |")
    measured = result["measured"]
    lines += [
        "",
        f"{measured['processor']}, {measured['date']}, after commit {measured['commit']}.",
    ]
    return "\n".join(lines)


def _stamp(measured: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {v}" for name, v in measured["packages"].items())
    compilers = "; ".join(measured["compilers"])
    more = "".join(f", {text}" for text in (packages, compilers) if text)
    return (
        f"*Measured {measured['date']}, last commit before {measured['commit']}, on"
        f" {measured['processor']}, Python {measured['python']}{more}.*"
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    marks = ["---"] * left + ["--:"] * (len(columns) - left)
    lines = [f"| {' | '.join(row)} |" for row in (columns, marks, *rows)]
    return "\n".join(lines)


# ---- sections --------------------------------------------------------------------------------


def _peers(data: dict[str, Any], slower: dict[str, list[str]]) -> Iterator[str]:
    columns = ("ours", "ours, batch", *PEERS, "Pinocchio wheel, batch")
    yield "## Dynamics beside Pinocchio and CasADi\n"
    yield "Pinocchio C++ is compiled from its headers for this machine by the compilers named"
    yield "below; the wheel is what pip installs; CasADi C is code that it generates from"
    yield "Pinocchio's algorithms, compiled likewise. *Times faster*: fastest peer over ours.\n"
    for task, title in TASKS.items():
        rows = []
        for robot, about in data.items():
            cells = about["tasks"].get(task, {})
            one, batch = _faster(cells, "ours", PEERS), _faster(cells, "ours, batch", PEERS)
            rows.append(
                [f"{robot} ({about['nv']})", *(_ns(cells, c) for c in columns), one, batch]
            )
            _note_losses(slower, f"{task} of {robot}", cells)
        yield f"### {title} [ns per state]\n"
        header = ("robot (freedoms)", *columns, "times faster", "batch")
        yield _table(header, rows) + "\n"
        errors = [_errors(robot, about["tasks"].get(task, {})) for robot, about in data.items()]
        found = [row for row in errors if any(cell != "-" for cell in row[1:])]
        if found:
            yield "Largest relative error against extended precision:\n"
            yield _table(("robot", "ours", "ours, batch", "Pinocchio C++"), found) + "\n"
    yield "### From Python [ns per state]\n"
    called = ("ours, Python", "Pinocchio Python")
    rows = [
        [robot, *(_ns(about["tasks"].get(task, {}), c) for task in CALLED for c in called)]
        for robot, about in data.items()
    ]
    yield _table(("robot", *(f"{task}, {c}" for task in CALLED for c in called)), rows) + "\n"


def _threads(data: list[dict[str, Any]], slower: dict[str, list[str]]) -> Iterator[str]:
    yield "## With two threads\n"
    yield "Batches on one thread and on two, turn by turn; *times faster* is the median over"
    yield "the turns. One of less than a millisecond runs on one thread, whatever is asked.\n"
    rows = []
    for r in data:
        batch = f"{r['robot']}, {r['task']}, {r['states']} states"
        rows.append([batch, f"{r['one_thread_ms']:.2f}", f"{r['times_faster']:.2f}"])
        if r["times_faster"] * SAME < 1:
            what = f"{batch} ({1 / r['times_faster']:.2f} times)"
            slower.setdefault(OWN[0], []).append(what)
    yield _table(("batch", "one thread [ms]", "times faster"), rows) + "\n"


def _errors(robot: str, cells: dict[str, Any]) -> list[str]:
    found = [cells.get(c, {}).get("error") for c in ("ours", "ours, batch", "Pinocchio C++")]
    return [robot, *("-" if error is None else f"{error:.0e}" for error in found)]


def _ns(cells: dict[str, Any], column: str) -> str:
    return f"{cells[column]['ns']:.0f}" if column in cells else "-"


def _faster(cells: dict[str, Any], ours: str, peers: Sequence[str]) -> str:
    theirs = [cells[p]["ns"] for p in peers if p in cells]
    return f"{min(theirs) / cells[ours]['ns']:.1f}" if theirs and ours in cells else "-"


def _note_losses(slower: dict[str, list[str]], where: str, cells: dict[str, Any]) -> None:
    pairs = [("ours", p) for p in PEERS]
    pairs += [("ours, batch", "Pinocchio wheel, batch"), ("ours, Python", "Pinocchio Python")]
    for ours, peer in pairs:
        if ours in cells and peer in cells:
            ratio = cells[ours]["ns"] / cells[peer]["ns"]
            if ratio > SAME:
                what = f"{ours[0].upper()}{ours[1:]}, longer than {peer}"
                slower.setdefault(what, []).append(f"{where} ({ratio:.2f} times)")


def _operational(data: list[dict[str, Any]], slower: dict[str, list[str]]) -> Iterator[str]:
    yield "## Operational space beside Pinocchio\n"
    yield "Two hands and two feet. Pinocchio's is the fastest of every route that it has.\n"
    rows = []
    for r in data:
        ratio = r["best_ns"] / r["ours_ns"]
        errors = f"{r['ours_error']:.0e} / {r['best_error']:.0e}"
        rows.append(
            [f"{r['task']}, {r['robot']} ({r['nv']})", f"{r['ours_ns']:.0f}",
             f"{r['best_ns']:.0f}", r["best"], f"{ratio:.1f}", errors]
        )  # fmt: skip
        if ratio < 1:
            where = f"{r['task']} of {r['robot']} ({1 / ratio:.2f} times)"
            slower.setdefault("Operational space, longer than Pinocchio", []).append(where)
    columns = ("task, robot", "ours [ns]", "Pinocchio [ns]", "its route", "times faster")
    yield _table((*columns, "errors, ours / its"), rows) + "\n"


def _estimation(data: dict[str, Any], slower: dict[str, list[str]]) -> Iterator[str]:
    yield "## Estimation beside iDynTree\n"
    yield "The reduced iCub: inertial units, force/torque sensors, joint accelerations. BERDY"
    yield "is iDynTree's sparse estimator; it needs priors, so its answer is regularised, and"
    yield "its error is what they cost. Both are called from Python, one state at a time, ours"
    yield "as `est.solve(q, qd, y).torque.array`; beside it `kernel.one` of the same torques."
    yield "The batch is one call of the kernel of all unknowns for all states.\n"
    rows = []
    for r in data["peers"]:
        ratio = r["peer_us"] / r["one_us"]
        rows.append(
            [f"{r['task']} ({r['rows']} rows)", f"{r['one_us']:.1f}", f"{r['kernel_us']:.1f}",
             f"{r['batch_us']:.2f}",
             f"{r['peer_us']:.0f}", f"{ratio:.0f}", f"{r['error']:.0e}",
             f"{r['peer_error']:.0e}", r["peer"]]
        )  # fmt: skip
        if ratio < 1:
            where = f"{r['task']} ({1 / ratio:.2f} times)"
            slower.setdefault("Estimation, longer than iDynTree", []).append(where)
    columns = ("question", "ours [us]", "kernel.one [us]", "batch [us]", "peer [us]")
    rest = ("times faster", "our error", "peer's error", "peer")
    yield _table((*columns, *rest), rows) + "\n"
    yield "The same call for every layout of the catalogue: readings packed, and by name.\n"
    rows = [
        [f"{r['name']} ({r['rows']} rows)", f"{r['call_us']:.1f}", f"{r['named_us']:.1f}",
         "-" if r["kernel_us"] is None else f"{r['kernel_us']:.1f}", f"{r['general_us']:.0f}",
         r["method"]]
        for r in data["catalogue"]
    ]  # fmt: skip
    calls = ("layout", "est.solve [us]", "by name [us]", "kernel.one [us]")
    yield _table((*calls, "general path [us]", "by"), rows) + "\n"


def _long_log(data: dict[str, Any], slower: dict[str, list[str]]) -> Iterator[str]:
    yield "## Hours of logs\n"
    names = {
        "samples": "samples",
        "numbers_per_sample": "numbers per sample",
        "log_mib": "size of the log [MiB]",
        "simulated_per_second": "simulated [samples/s]",
        "solved_per_second": "solved, two workers [samples/s]",
        "solved_per_cpu_second": "solved per second of processor time [samples/s]",
        "dask_per_second": "on Dask, one worker killed midway [samples/s]",
        "peak_gib": "peak memory of all processes [GiB]",
        "peak_dask_gib": "the same on Dask [GiB]",
    }
    rows = [[text, f"{data[name]:.4g}"] for name, text in names.items() if name in data]
    rows.append(
        ["both outputs the same to the last byte", "yes" if data["same_bytes"] else "NO"]
    )
    yield _table(("humanoid at 1 kHz", ""), rows) + "\n"


def _start_up(data: list[dict[str, Any]], slower: dict[str, list[str]]) -> Iterator[str]:
    yield "## Until the first answer\n"
    rows = [
        [f"{r['problem']}, {r['robot']}", f"{r['first_s']:.1f}", f"{r['again_s']:.2f}"]
        for r in data
    ]
    yield _table(("problem, robot", "first time [s]", "from the cache [s]"), rows) + "\n"


def _calls(data: dict[str, Any], slower: dict[str, list[str]]) -> Iterator[str]:
    yield "## What you call\n"
    yield "The verbs beside the calls of Pinocchio's wheel, both from Python and in turns, in"
    yield "processor time. First and second call: on a machine that has never seen the robot.\n"
    rows = []
    for r in data["verbs"]:
        times = [f"{r[key]:.2g}" for key in ("ours_us", "pinocchio_us")]
        firsts = [f"{r[key]:.0f}" for key in ("first_ms", "second_ms")]
        rows.append([f"{r['verb']}, {r['robot']}", *times, f"{r['times']:.2f}", *firsts])
        if r["times"] > SAME:
            where = f"{r['verb']} of {r['robot']} ({r['times']:.2f} times)"
            slower.setdefault("Verbs, longer than Pinocchio Python", []).append(where)
    columns = ("verb, robot", "ours [us]", "Pinocchio [us]", "times", "first call [ms]")
    yield _table((*columns, "second [ms]"), rows) + "\n"
    yield "`solve_batch`, whose solution can be asked anything later, beside `kernel.batch`:\n"
    cells = {
        (r["robot"], r["problem"], r["states"]): f"{r['times']:.2f}" for r in data["batches"]
    }
    sizes = sorted({n for _, _, n in cells})
    kinds = list(dict.fromkeys((robot, problem) for robot, problem, _ in cells))
    rows = [[f"{k[1]}, {k[0]}", *(cells.get((*k, n), "-") for n in sizes)] for k in kinds]
    yield _table(("times as long, by states", *map(str, sizes)), rows) + "\n"
    first = data["first"]
    seconds = f"{first['first_s']:.1f} s from nothing, {first['again_s']:.2f} s from the cache"
    yield f"First forward dynamics of a tree of {first['bodies']} bodies: {seconds}.\n"


SECTIONS: dict[str, Callable[[Any, dict[str, list[str]]], Iterator[str]]] = {
    "peers": _peers,
    "threads": _threads,
    "operational": _operational,
    "estimation": _estimation,
    "long_log": _long_log,
    "start_up": _start_up,
    "calls": _calls,
}


def _with_table(readme: str) -> str:
    if BEGIN not in readme or END not in readme:
        raise SystemExit(f"README.md has no place for the table: {BEGIN} ... {END}")
    before, _, rest = readme.partition(BEGIN)
    return f"{before}{BEGIN}\n{readme_table()}\n{END}{rest.partition(END)[2]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Take results, write or check page and README."""
    parser = argparse.ArgumentParser(prog="python -m experiments.performance_page")
    parser.add_argument("--take", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    options = parser.parse_args(arguments)
    for given in options.take:
        name, equals, file = given.partition("=")
        if name not in KNOWN or not equals or not Path(file).is_file():
            parser.error(f"{given!r} is not NAME=FILE with NAME one of {', '.join(KNOWN)}")
        print(f"took {take(name, Path(file)).relative_to(ROOT)}")
    wanted = {PAGE: page(), README: _with_table(README.read_text(encoding="utf-8"))}
    stale = [
        path
        for path, text in wanted.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        if not options.check:
            path.write_text(wanted[path], encoding="utf-8")
        print(f"{'stale' if options.check else 'wrote'} {path.relative_to(ROOT)}")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
