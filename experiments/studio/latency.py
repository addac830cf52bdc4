"""How long studio takes to answer a change: the time from a message to the whole answer.

    python -m experiments.studio.latency                 table
    python -m experiments.studio.latency --repeats 50
    python -m experiments.studio.latency --json

Messages go over HTTP to a server in this process, as the page sends them: a sensor is added,
the posture is moved, the sensor is removed. Processor time is told too, which other work on the
machine does not change. What the page draws comes on top; the verdict over many postures is
worked out in another process and waited for by nobody.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from threading import Thread
from typing import Any

import numpy as np

from problems.problem_file import ProblemFile
from problems.studio.background import AbstractBackground, Done, Job, Tell
from problems.studio.files import Folder
from problems.studio.server import StudioServer
from problems.studio.session import Session
from problems.terminal import show_json, show_line, show_table
from problems.web import HEADER, AccessRules

__all__ = ["Latency", "main", "measure"]

ACCELERATIONS: dict[str, Any] = {
    "sensors": ["all_joint_accelerations", "all_joint_torques", "zero_external_wrench_except"]
}
CASES = (
    ("synthetic:chain:30", ACCELERATIONS, False),
    ("example:humanoid", "catalogue:nao", True),
    ("example:humanoid", ACCELERATIONS, True),
)


@dataclass(frozen=True)
class Latency:
    """Milliseconds of one kind of change: median and largest, and of processor time."""

    robot: str
    bodies: int
    readings: int
    change: str
    median: float
    most: float
    cpu: float


class _Nobody(AbstractBackground):
    """Drops jobs: what runs elsewhere is not measured here."""

    def submit(self, key: str, job: Job, done: Done, told: Tell | None = None) -> None:
        return

    def cancel(self, key: str) -> None:
        return

    def stop(self, key: str) -> None:
        """There is nothing to stop."""

    def close(self) -> None:
        return


def measure(repeats: int = 20) -> list[Latency]:
    """Latencies of all cases."""
    return [row for case in CASES for row in _case(*case, repeats=repeats)]


def _case(robot: str, layout: Any, floating: bool, *, repeats: int) -> list[Latency]:
    problem = ProblemFile(robot, layout, floating)
    with tempfile.TemporaryDirectory() as folder:
        session = Session("s", problem, Folder(folder), _Nobody())
        with StudioServer(AccessRules("127.0.0.1"), 0, lambda name: session) as server:
            thread = Thread(target=server.serve_forever, args=(0.02,))
            thread.start()
            try:
                return _changes(server, session, repeats)
            finally:
                server.shutdown()
                thread.join()


def _changes(server: StudioServer, session: Session, repeats: int) -> list[Latency]:
    connection = HTTPConnection("127.0.0.1", server.server_port)
    name = ""

    def send(action: str, **fields: Any) -> dict[str, Any]:
        body = json.dumps({"session": name, "action": action, **fields})
        headers = {"Content-Type": "application/json", HEADER: "1"}
        connection.request("POST", "/message", body, headers)
        answer = connection.getresponse()
        facts: dict[str, Any] = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(str(facts))
        return facts

    view = send("hello")
    name = view["session"]
    values = np.array(view["values"])
    added: list[str] = []
    steps: dict[str, Callable[[int], object]] = {
        "add a sensor": lambda k: added.append(
            send("add", kind="imu", place=session.robot.body_names[-1])["selected"]
        ),
        "move a joint": lambda k: send("pose", values=(values + 1e-3 * k).tolist()),
        "remove it": lambda k: send("remove", name=added.pop()),
    }
    times: dict[str, list[tuple[float, float]]] = {change: [] for change in steps}
    for k in range(repeats + 1):
        for change, step in steps.items():
            wall, cpu = time.perf_counter(), time.process_time()
            step(k)
            spent = time.perf_counter() - wall, time.process_time() - cpu
            if k:  # the first of each plans what later ones use
                times[change].append(spent)
    connection.close()
    return [_row(session, change, 1e3 * np.array(spent)) for change, spent in times.items()]


def _row(session: Session, change: str, spent: Any) -> Latency:
    return Latency(
        robot=session.robot.name,
        bodies=session.robot.n_bodies,
        readings=session.layout.size,
        change=change,
        median=round(float(np.median(spent[:, 0])), 1),
        most=round(float(spent[:, 0].max()), 1),
        cpu=round(float(np.median(spent[:, 1])), 1),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and show; 1 if a median is above 100 ms of processor time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20, help="of every change (20)")
    parser.add_argument("--json", action="store_true", help="write JSON instead of a table")
    args = parser.parse_args(arguments)
    rows = measure(max(args.repeats, 1))
    if args.json:
        show_json([asdict(row) for row in rows])
    else:
        columns = ("robot", "bodies", "readings", "change", "median ms", "largest ms", "cpu ms")
        numbers = columns[1:3] + columns[4:]
        show_table(columns, [tuple(map(str, asdict(r).values())) for r in rows], right=numbers)
        show_line("from a message to its answer over HTTP; cpu: server and client together")
    return 0 if all(row.cpu < 100 for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
