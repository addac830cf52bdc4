"""``dynsys live``: estimates while the samples come."""

from __future__ import annotations

import argparse
import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from time import sleep
from typing import Any

from dynsys.errors import LogError
from problems.command.arguments import (
    add_host,
    add_names,
    add_numbers,
    add_plan,
    add_problem,
    port,
    seconds,
    web_host,
)
from problems.detection.contacts import ContactDetector
from problems.estimation.outputs import parse_outputs
from problems.live.channels import (
    POLL,
    Stop,
    require_websockets,
    serve_pipe,
    serve_replay,
    serve_udp,
    serve_websocket,
    write_records,
)
from problems.live.decode import SampleDecoder, causal
from problems.live.estimator import LiveEstimator
from problems.live.feed import PageFeed
from problems.live.foxglove import FoxgloveSource, require_foxglove
from problems.live.page_server import Setup
from problems.live.session import AlarmWatch, LiveSession
from problems.logs.samples import Samples
from problems.problem_file import ProblemFile, load_problem
from problems.terminal import show_line
from problems.web import AccessRules

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
  dynsys live problem.yaml --udp 9870
  my_robot | dynsys live problem.yaml -o estimates.jsonl
  dynsys live problem.yaml --udp 9870 --page 8070
  dynsys live problem.yaml --websocket 9871 --foxglove 8765
  dynsys live problem.yaml --replay log.npz --foxglove 8765 -o out.jsonl
  dynsys live problem.yaml --udp 9870 --free quiet.npz --false-alarms-per-hour 1

a sample is one line, datagram or message, its names those of a log:
  {"time": 0.001, "q": [...], "qd": [...], "l_ankle_ft": [...], "imu": [...]}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_problem(parser)
    way = parser.add_mutually_exclusive_group()
    way.add_argument(
        "--udp", metavar="PORT", type=port, help="a sample in every datagram; answers go back"
    )
    way.add_argument(
        "--websocket",
        metavar="PORT",
        type=port,
        help="a sample in every message; everybody connected hears the answers",
    )
    parser.add_argument(
        "--replay", metavar="LOG", default="", help="samples of a log, at the pace of its times"
    )
    add_numbers(parser, ("speed", seconds, 1.0, "of a replay, 2: twice as fast, 0: no waiting"))
    parser.add_argument(
        "--page",
        metavar="PORT",
        type=port,
        help="also serve a page for a browser: robot, estimates, alarms; it stays when samples"
        " have ended, until interrupted",
    )
    parser.add_argument(
        "--token",
        default="",
        help="letters and digits, 16 or more, that every page must know (beyond this machine:"
        " required)",
    )
    parser.add_argument(
        "--foxglove", metavar="PORT", type=port, help="also be a live source for Foxglove"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        default="",
        help="file of records (.jsonl) in place of standard output",
    )
    own = "in place of the problem's: torque, std.torque, external_wrench.FRAME ..."
    add_names(parser, "--outputs", own)
    add_plan(parser)
    parser.add_argument(
        "--free", metavar="LOG", default="", help="a log of free motion: learn the alarm there"
    )
    add_numbers(
        parser,
        ("false-alarms-per-hour", seconds, 1.0, "of an alarm learnt by --free"),
        ("deadline", seconds, 0.001, "seconds from a sample to its estimate"),
    )
    parser.add_argument(
        "--seconds", metavar="SECONDS", type=seconds, help="end after so long (default: never)"
    )
    add_host(parser)
    parser.add_argument(
        "--origin",
        metavar="URL",
        action="append",
        default=[],
        help="a site whose pages may connect by WebSocket; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    """Prepare, answer samples until they end, and say how it went."""
    web_host(args)
    if args.websocket is not None:
        require_websockets()  # before the work, not after it
    if args.foxglove is not None:
        require_foxglove()
    if args.page is not None:
        AccessRules(args.host, args.token)
    problem = load_problem(args.problem).with_plan(args.plan)
    outputs = parse_outputs(problem.estimation, tuple(args.outputs) or problem.outputs)
    estimator = LiveEstimator(problem.planned, outputs)
    replayed = _samples(problem, args.replay) if args.replay else None
    watch = AlarmWatch(_alarm(problem, args) if args.free else None)
    with ExitStack() as viewers:
        page = _page(args, problem, estimator, watch) if args.page is not None else None
        if page is not None:
            viewers.callback(page.close)
            say(f"page: {page.address}")
        say("preparing (the first time on this machine takes a minute at most) ...")
        took = estimator.prepare()
        session = LiveSession(SampleDecoder(problem), estimator, watch, args.deadline)
        say(f"{problem.tree.name} is ready: {_ways(took)} a sample")
        for name in estimator.slow:
            say(f"{name} has no compiled estimator: every sample takes the general path for it")
        if page is not None:
            page.say("waiting")
            session.viewers.append(page)
        if args.foxglove is not None:
            source = FoxgloveSource(session, args.host, args.foxglove)
            viewers.callback(source.close)
            session.viewers.append(source)
            say(f"Foxglove: open a connection to ws://{args.host}:{source.port}")
        with _stopping(args.seconds) as stop:
            with _sink(args.output) as sink, suppress(BrokenPipeError):
                _serve(args, session, stop, replayed, sink)
                if args.json:
                    write_records(sink, [json.dumps(session.summary())])
            if not args.json:
                _report(session)
            if page is not None:
                _stay(page, session, stop)
    return 0


def _page(
    args: argparse.Namespace, problem: ProblemFile, estimator: LiveEstimator, watch: AlarmWatch
) -> PageFeed:
    groups = tuple((o.group.name, o.group.columns) for o in estimator.outputs)
    return PageFeed(
        Setup(
            args.host, args.token, args.page, problem.tree, groups, args.deadline, watch.words
        )
    )


def _stay(page: PageFeed, session: LiveSession, stop: Stop) -> None:
    """Leave the page to those who look at it until asked to end."""
    page.end(session)
    if page.is_gone:
        say("the page ended by itself; start again, and report what it did before")
    elif not stop:
        say("the samples have ended; the page stays until Ctrl-C")
        while not stop:
            sleep(POLL)


@contextmanager
def _sink(path: str) -> Iterator[int]:
    """File descriptor for records."""
    try:
        if not path:
            yield 1
            return
        with open(path, "wb", buffering=0) as file:
            yield file.fileno()
    except OSError as error:
        where = path or "standard output"
        raise LogError(f"{where}: cannot be written: {error.strerror}") from None


def _serve(
    args: argparse.Namespace,
    session: LiveSession,
    stop: Stop,
    replayed: Samples | None,
    sink: int,
) -> None:
    address = (args.host, args.udp or args.websocket or 0)
    if args.websocket is not None:
        replay = None if replayed is None else (replayed, args.speed)

        def ready(at: int) -> None:
            say(f"WebSocket: ws://{args.host}:{at}  (Ctrl-C ends it)")

        serve_websocket(session, stop, address, args.origin, ready, replay)
    elif replayed is not None:
        if args.udp is not None:
            raise LogError("--replay is a source of its own: leave out --udp")
        serve_replay(session, stop, replayed, args.speed, partial(write_records, sink))
    elif args.udp is not None:
        serve_udp(
            session, stop, address, lambda at: say(f"UDP: {args.host}:{at}  (Ctrl-C ends it)")
        )
    else:
        if os.isatty(0):
            say("samples are read from standard input, a line of JSON each (Ctrl-D ends them)")
        serve_pipe(session, stop, 0, sink)


def say(text: str) -> None:
    """Write a line on stderr: stdout is for records."""
    show_line(f"dynsys live: {text}", error=True)


@contextmanager
def _stopping(limit: float | None) -> Iterator[Stop]:
    """End in order where the process is asked to end."""
    stop = Stop(limit)

    def asked(*_: object) -> None:
        stop.is_asked = True

    before = {s: signal.signal(s, asked) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)


def _samples(problem: ProblemFile, path: str) -> Samples:
    """A log as its samples would have come: what is made is made of those before, not after."""
    problem = replace(problem, differentiation=causal(problem.differentiation))
    found = problem.samples(path, allow_missing=True).with_motion()
    if not len(found.time):
        raise LogError(f"{path}: no sample has all positions and velocities")
    return found


def _alarm(problem: ProblemFile, args: argparse.Namespace) -> Any:
    free = _samples(problem, args.free)
    detector = ContactDetector.calibrated(
        problem.estimation, free.time, free.q, free.qd, free.y, args.false_alarms_per_hour
    )
    say(f"alarm at chi-square {detector.alarm}")
    return detector.alarm


def _ways(took: dict[str, float]) -> str:
    words = {
        "llvm": "complete",
        "numpy": "complete",
        "reduced": "with readings missing",
        "general": "general path",
    }
    return ", ".join(f"{1e6 * t:.0f} us {words[way]}" for way, t in took.items())


def _report(session: LiveSession) -> None:
    told = session.summary()
    latency = {k: "-" if v is None else f"{v:.0f} us" for k, v in told["latency_us"].items()}
    say(
        f"{told['samples']} samples in {told['seconds']:.1f} s: {told['estimated']} estimated"
        f" ({told['with_missing']} with readings missing), {told['refused']} refused,"
        f" {told['lost'] + told['dropped']} lost, {told['alarms']} alarms"
    )
    say(
        f"latency: median {latency['median']}, 99 % {latency['99 %']}, 99.9 %"
        f" {latency['99.9 %']}, largest {latency['largest']}; beyond the deadline of"
        f" {told['deadline_us']:.0f} us: {told['late']}"
    )
    if told["unsent"]:
        say(f"{told['unsent']} records were not read in time by those who listened")
