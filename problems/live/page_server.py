"""The page of ``dynsys live``, in a process of its own: who looks must not slow who measures.

The estimating process sends what happened in every interval of 40 ms (:class:`Interval`); here
it becomes poses, arrows and JSON, is kept for half a minute, and goes to every page that is
open as server-sent events:

| event   |                                                                             |
|---------|-----------------------------------------------------------------------------|
| hello   | robot, names and units of all outputs                                       |
| past    | smallest and largest value of every output in an interval; alarms           |
| now     | posture, torques, contact forces, counts and latency: the latest only       |

A page that opens late gets the half minute at once. Events are read with ``fetch``, since
``EventSource`` cannot carry the token and the header that other sites cannot send
(:mod:`problems.web`).
"""

from __future__ import annotations

import json
import math
import os
import pickle
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from socket import socket
from threading import Condition, Semaphore, Thread
from time import monotonic, sleep
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from dynsys.errors import DynsysError
from dynsys.model.tree import KinematicTree
from dynsys.recursive.kinematics import poses, transforms
from dynsys.types import Array
from problems.labels import joint_columns
from problems.studio import shapes
from problems.studio.view import EXACT, joint_unit, own_freedoms
from problems.web import AccessRules, PageHandler, PageServer, page_files

__all__ = [
    "FILES",
    "MOST_PAGES",
    "RATE",
    "Interval",
    "LivePage",
    "LiveServer",
    "Setup",
    "serve",
]

RATE = 25.0
"""Intervals per second."""
KEPT = 750
"""Intervals that are kept: half a minute."""
MOST_PAGES = 5
"""Pages open at a time; a browser has six connections to a server."""
SILENT = 1.0
"""Seconds without a sample after which the page says so."""
NICE = 19
"""How far the page steps behind the estimates."""
Facts: TypeAlias = dict[str, Any]

FILES = page_files(
    *(f"live/page/{name}" for name in ("index.html", "live.css", "live.js", "plots.js")),
    *(
        f"studio/page/{name}"
        for name in ("studio.css", "common.js", "picture.js", "solids.js", "icon.svg")
    ),
)


class Setup(NamedTuple):
    """What a page needs to know before any sample.

    Parameters
    ----------
    groups : every output's name and columns.
    alarm : what raises one, in words, and the p-value that does (None: another statistic).
    """

    host: str
    token: str
    port: int
    robot: KinematicTree
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    deadline: float
    alarm: tuple[str, float | None]


class Interval(NamedTuple):
    """What happened since the last one.

    Parameters
    ----------
    first, last : times of its first and last sample that was estimated.
    samples : estimated in it; if there are none, all arrays are of before.
    low, high, row : (columns,) smallest, largest and last value of every output.
    p_low, p_high : of p-values.
    events : alarms that began or ended.
    counts, latency : of the session so far; seconds, median and 99 %.
    refusal : why a sample of it was refused, the last one.
    """

    first: float
    last: float
    samples: int
    low: Array
    high: Array
    row: Array
    p_low: float
    p_high: float
    q: Array
    is_alarm: bool
    events: list[Facts]
    counts: Facts
    latency: tuple[float, float]
    refusal: str


# ---- numbers as JSON -------------------------------------------------------------------------


def _number(x: float, digits: int = 5) -> float | None:
    return float(f"{x:.{digits}g}") if math.isfinite(x) else None


def _numbers(values: Sequence[float]) -> list[float | None]:
    return [_number(x) for x in values]


def _event(name: str, facts: Facts) -> bytes:
    """A server-sent event; JSON has no line ends of its own."""
    return f"event: {name}\ndata: {json.dumps(facts, allow_nan=False)}\n\n".encode()


_UNITS = {
    "acceleration": {"w": "rad/s²", "a": "m/s²"},
    "joint_wrench": {"t": "N m", "f": "N"},
    "external_wrench": {"t": "N m", "f": "N"},
}


def _units(robot: KinematicTree, columns: Sequence[str]) -> list[str]:
    """Units of columns of the outputs; nothing for numbers without one."""
    of_joints: dict[str, str] = {}
    for i, where in own_freedoms(robot):
        unit = joint_unit(robot, i)
        of_joints |= dict.fromkeys(joint_columns(robot, "torque")[where], unit)
        rate = {"N m": "rad/s²", "N": "m/s²"}.get(unit, "")
        of_joints |= dict.fromkeys(joint_columns(robot, "qdd")[where], rate)

    def unit_of(column: str) -> str:
        kind, _, rest = column.removeprefix("std.").partition(".")
        if kind in _UNITS:
            return _UNITS[kind].get(rest.rpartition(".")[2][:1], "")
        return of_joints.get(column.removeprefix("std."), "")

    return [unit_of(column) for column in columns]


# ---- what pages are shown --------------------------------------------------------------------


@final
class LivePage:
    """What all pages show, kept as the events that tell it; threads wait for news."""

    def __init__(self, setup: Setup) -> None:
        self._robot = robot = setup.robot
        columns = [column for _, names in setup.groups for column in names]
        place = {column: k for k, column in enumerate(columns)}
        shown = [c for c in columns if c.removeprefix("std.") not in place or c[:4] != "std."]
        self._values = np.array([place[c] for c in shown], dtype=np.intp)
        self._stds = np.array([place.get(f"std.{c}", -1) for c in shown], dtype=np.intp)
        self._torques = _torque_places(robot, place)
        self._wrenches = {
            name.partition(".")[2]: [place[c] for c in names]
            for name, names in setup.groups
            if name.startswith("external_wrench.")
        }
        words, p_value = setup.alarm
        self._hello = _event(
            "hello",
            {
                "scene": shapes.scene(robot),
                "columns": shown,
                "units": _units(robot, shown),
                "banded": [bool(k >= 0) for k in self._stds],
                "deadline_us": _number(1e6 * setup.deadline),
                "alarm": {"words": words, "p_value": p_value},
            },
        )
        self._changed = Condition()
        self._past: deque[bytes] = deque(maxlen=KEPT)
        self._count = 0  # intervals so far, and which of them began anew
        self._time = -math.inf
        self._state, self._heard = "preparing", monotonic()
        self._now: Facts = self._standing(robot.neutral())

    # ---- what comes ----------------------------------------------------------------------

    def say(self, state: str, **more: Any) -> None:
        """Be in another state: preparing, waiting, live, ended."""
        with self._changed:
            self._state, self._heard = state, monotonic()
            self._now |= more
            self._changed.notify_all()

    def take(self, interval: Interval) -> None:
        """Show what happened in an interval."""
        now = {**self._now, "counts": interval.counts, "latency": _us(interval.latency)}
        if interval.refusal:
            now["refusal"] = interval.refusal
        if interval.samples:
            now |= self._posture(interval)
        past = self._interval(interval) if interval.samples or interval.events else b""
        with self._changed:
            if interval.samples and interval.last < self._time:  # a source that began anew
                self._past.clear()
            self._time = interval.last if interval.samples else self._time
            self._now, self._heard = now, monotonic()
            if interval.counts["samples"]:
                self._state = "live" if interval.counts["estimated"] else "refusing"
            if past:
                self._past.append(past)
                self._count += 1
            self._changed.notify_all()

    def _interval(self, x: Interval) -> bytes:
        stds = np.where(self._stds >= 0, x.high[self._stds], np.nan)
        return _event(
            "past",
            {
                "k": self._count,
                "n": x.samples,
                "t": [x.first, x.last] if x.samples else None,
                "low": _numbers(x.low[self._values].tolist()),
                "high": _numbers(x.high[self._values].tolist()),
                "std": _numbers(stds.tolist()),
                "p": [_number(x.p_low), _number(x.p_high)],
                "alarm": x.is_alarm,
                "events": [{k: _plain(v) for k, v in e.items()} for e in x.events],
            },
        )

    def _standing(self, q: Array) -> Facts:
        """The robot without any estimate."""
        placed = poses(self._robot, transforms(self._robot, q))
        return {
            "poses": [shapes.pose_numbers(pose) for pose in placed],
            "sensors": [],
            "glance": {"torques": [], "wrenches": []},
            "joints": [],
            "estimate": {"torques": [], "wrenches": []},
        }

    def _posture(self, x: Interval) -> Facts:
        robot = self._robot
        placed = poses(robot, transforms(robot, x.q))
        torques, values = [], []
        for i, at, at_std in self._torques:
            value = x.row[at]
            is_open = not np.isfinite(value).all()
            values.append(_number(float(value[np.argmax(np.abs(value))])))
            if at_std:
                std = float(x.row[at_std].max())
                torques.append(
                    {
                        "joint": robot.joint_names[i],
                        "body": i,
                        "open": is_open,
                        "std": None if is_open else _number(0.0 if std < EXACT else std),
                        "unit": joint_unit(robot, i),
                    }
                )
        return {
            "poses": [shapes.pose_numbers(pose) for pose in placed],
            "glance": {"torques": torques, "wrenches": []},
            "sensors": [],
            "joints": [i for i, _, _ in self._torques],
            "estimate": {"torques": values, "wrenches": self._arrows(placed, x.row)},
            "values": _numbers(x.row[self._values].tolist()),
            "stds": _numbers(np.where(self._stds >= 0, x.row[self._stds], np.nan).tolist()),
            "time": _number(x.last, 12),
        }

    def _arrows(self, placed: Sequence[Any], row: Array) -> list[Facts]:
        """Estimated contact wrenches in base axes, those that are not zero."""
        found = []
        for name, at in self._wrenches.items():
            wrench = row[at]
            known = np.nan_to_num(wrench)
            if np.abs(known).max() < EXACT:
                continue
            frame = self._robot.frame(name)
            pose = placed[frame.body].then(frame.transform)
            turn = np.asarray(pose.E, dtype=np.float64).T
            found.append(
                {
                    "frame": name,
                    "point": _numbers(np.asarray(pose.r, dtype=np.float64).tolist()),
                    "force": _numbers((turn @ known[3:]).tolist()),
                    "moment": _numbers((turn @ known[:3]).tolist()),
                    "whole": bool(np.isfinite(wrench).all()),
                }
            )
        return found

    # ---- what goes -----------------------------------------------------------------------

    def _latest(self) -> bytes:
        silent = monotonic() - self._heard
        state = "silent" if self._state == "live" and silent > SILENT else self._state
        return _event("now", {**self._now, "state": state, "silent": round(silent, 1)})

    def watch(self) -> Iterator[bytes]:
        """Events for a page: all that is kept, then news, at least one every second."""
        with self._changed:
            seen, told = self._count, b"".join((self._hello, *self._past, self._latest()))
        yield told
        while True:
            with self._changed:
                self._changed.wait(SILENT)
                new = min(self._count - seen, len(self._past))
                seen = self._count
                past = list(self._past)[len(self._past) - new :]
                told = b"".join((*past, self._latest()))
            yield told


def _torque_places(
    robot: KinematicTree, place: dict[str, int]
) -> list[tuple[int, list[int], list[int]]]:
    """Joints whose torque is an output, its columns, and those of its deviation if any."""
    names, found = joint_columns(robot, "torque"), []
    for i, where in own_freedoms(robot):
        at = [place.get(name, -1) for name in names[where]]
        at_std = [place.get(f"std.{name}", -1) for name in names[where]]
        if min(at) >= 0:
            found.append((i, at, at_std if min(at_std) >= 0 else []))
    return found


def _us(latency: tuple[float, float]) -> list[float | None]:
    return [_number(1e6 * x, 4) for x in latency]


def _plain(value: Any) -> Any:
    return _number(value, 12) if isinstance(value, float) else value


# ---- the server ------------------------------------------------------------------------------


@final
class LiveServer(PageServer):
    """Serves the page; every one that is open is told what happens."""

    def __init__(self, access: AccessRules, port: int, page: LivePage) -> None:
        self.page = page
        self.is_over = False
        self._room = Semaphore(MOST_PAGES)
        super().__init__(access, port, _Handler, "--page")

    def begin(self) -> bool:
        """Let one more page in, if there is room."""
        return self._room.acquire(blocking=False)

    def end(self) -> None:
        """Note that a page has gone."""
        self._room.release()


@final
class _Handler(PageHandler):
    """One connection."""

    server: LiveServer
    files = FILES
    door = "/events"

    def answer(self, body: bytes) -> None:
        if not self.server.begin():
            self.refuse(503, f"{MOST_PAGES} pages are open already; close one of them")
            return
        try:
            self.close_connection = True  # its end is the end of the connection
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_answer()
            for told in self.server.page.watch():
                self.wfile.write(told)
                self.wfile.flush()
                if self.server.is_over:
                    return
        finally:
            self.server.end()


# ---- the process -----------------------------------------------------------------------------


def serve(feed: socket, setup: Setup) -> None:
    """Serve the page until the feed ends: the other process.

    Its first line says the address, or after ``!`` why there is none. A message is its length
    in four bytes and a pickle (from the process that started this one, nobody else): an
    :class:`Interval`, or a state with more facts.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the estimating process says when to stop
    with suppress(OSError, AttributeError):
        os.nice(NICE)
    try:
        page = LivePage(setup)
        server = LiveServer(AccessRules(setup.host, setup.token), setup.port, page)
    except DynsysError as error:
        feed.sendall(f"!{error}\n".encode())
        return
    with server:
        feed.sendall(f"{server.address}\n".encode())
        thread = Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        with suppress(OSError, EOFError), feed.makefile("rb") as source:
            while len(head := source.read(4)) == 4:
                message = pickle.loads(source.read(int.from_bytes(head, "little")))
                if isinstance(message, Interval):
                    page.take(message)
                else:
                    state, more = message
                    page.say(state, **more)
        server.is_over = True
        page.say("ended")
        sleep(0.2)  # the pages hear of it
        server.shutdown()
