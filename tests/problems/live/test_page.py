"""The page of ``dynsys live``: what is gathered, what goes to pages, who may look."""

from __future__ import annotations

import json
import math
import pickle
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from io import StringIO
from multiprocessing import active_children
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import dynsys
import problems.web as web
from dynsys.errors import RefusedError
from dynsys.recursive.kinematics import poses, transforms
from problems.command.demo_log import bundled
from problems.live import page_server
from problems.live.feed import PageFeed
from problems.live.page_server import (
    FILES,
    MOST_PAGES,
    Interval,
    LivePage,
    LiveServer,
    Setup,
)
from problems.live.session import LiveSession
from problems.logs.samples import Samples
from problems.problem_file import ProblemFile, load_problem
from problems.studio.shapes import pose_numbers
from problems.web import HEADER, TOKEN_HEADER, AccessRules
from tests.problems.command.command_line import run
from tests.problems.live.live_cases import answered, new_session, sample_of
from tests.problems.live.test_live_command import live_started

Live = tuple[ProblemFile, Samples]
PATIENCE = 120.0
TOKEN = "letters0and1digits"
HOSTILE = '</script><b onclick="x()">&amp;\u2028'


def setup_of(session: LiveSession, port: int = 0, token: str = "") -> Setup:
    groups = tuple((o.group.name, o.group.columns) for o in session.estimator.outputs)
    robot = session.decoder.robot
    return Setup("127.0.0.1", token, port, robot, groups, 1e-3, session.watch.words)


@pytest.fixture(scope="module")
def session(live: Live) -> LiveSession:
    body = live[0].tree.body_names[-1]
    return new_session(live[0], ("torque", "std.torque", f"external_wrench.{body}", "p_value"))


class Recorded:
    """The line of a feed to its process, which answers at once: keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.is_full = False

    def makefile(self, mode: str) -> StringIO:
        return StringIO("http://nowhere\n")

    def close(self) -> None:
        pass

    settimeout = setblocking = setsockopt = lambda self, *_: None

    def send(self, data: memoryview) -> int:
        if self.is_full:
            raise BlockingIOError
        self.sent.append(pickle.loads(bytes(data[4:])))
        return len(data)


class Clock:
    """The clock of a feed: every interval is over, or none is."""

    is_due = True

    def __call__(self) -> float:
        return math.inf if self.is_due else -math.inf


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("problems.live.feed.perf_counter", made)
    return made


@pytest.fixture
def feed(
    session: LiveSession, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> tuple[PageFeed, Recorded]:
    """A feed without its process."""
    line = Recorded()
    monkeypatch.setattr("problems.live.feed.get_context", lambda _: _NoProcess())
    monkeypatch.setattr("problems.live.feed.socketpair", lambda: (line, Recorded()))
    return PageFeed(setup_of(session)), line


class _NoProcess:
    def Process(self, **_: Any) -> _NoProcess:
        return self

    def start(self) -> None:
        pass


# ---- what is gathered -----------------------------------------------------------------------


def test_what_lasts_one_sample_is_in_its_interval(
    live: Live, session: LiveSession, feed: tuple[PageFeed, Recorded], clock: Clock
) -> None:
    made, line = feed
    rows, p = [], []
    for k in range(10):
        given = sample_of(*live, k) | {"time": 50.0 + 0.001 * k}
        if k == 4:  # a contradiction for one sample
            given["imu"] = [1e3] * 6
        answered(session, given)
        rows.append(session.estimator.row.copy())
        p.append(session.estimator.p_value)
        clock.is_due = k == 9
        made.show(50.0 + 0.001 * k, session)
    (told,) = line.sent
    np.testing.assert_array_equal(told.low, np.min(rows, axis=0))
    np.testing.assert_array_equal(told.high, np.max(rows, axis=0))
    np.testing.assert_array_equal(told.row, rows[-1])
    np.testing.assert_array_equal(told.q, session.decoder.q)
    assert (told.first, told.last, told.samples) == (50.0, 50.009, 10)
    assert (told.p_low, told.p_high) == (min(p), max(p)) and told.p_low < 1e-9
    assert [e["state"] for e in told.events] == ["begins"]


def test_a_page_that_does_not_keep_up_gets_longer_intervals(
    live: Live, session: LiveSession, feed: tuple[PageFeed, Recorded]
) -> None:
    made, line = feed
    low = []
    for k in range(6):
        line.is_full = 0 < k < 5
        answered(session, sample_of(*live, k) | {"time": 60.0 + 0.001 * k})
        low.append(session.estimator.row.copy())
        made.show(60.0 + 0.001 * k, session)
    assert [told.samples for told in line.sent] == [1, 1, 4]
    np.testing.assert_array_equal(line.sent[-1].low, np.min(low[2:], axis=0))


def test_refusals_and_pauses_are_told(
    live: Live, session: LiveSession, feed: tuple[PageFeed, Recorded], clock: Clock
) -> None:
    made, line = feed
    clock.is_due = False
    answered(session, sample_of(*live, 0) | {"time": 70.0})
    made.show(70.0, session)
    answered(session, b"{")
    made.show(70.0, session)
    assert not line.sent
    clock.is_due = True
    made.idle(session)
    made.idle(session)  # nothing is new
    (told,) = line.sent
    assert told.samples == 1 and "no JSON" in told.refusal
    assert told.counts["refused"] == session.counts.refused


# ---- what pages are shown -------------------------------------------------------------------


def events(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for block in data.decode().split("\n\n")[:-1]:
        name, content = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(content.removeprefix("data: "))))
    return found


def interval(session: LiveSession, **other: Any) -> Interval:
    row = session.estimator.row
    plain = Interval(
        1.0, 1.04, 40, row - 1, row + 1, row.copy(), 0.1, 0.9, session.decoder.q.copy(), False,
        [], {"estimated": 40, "samples": 40}, (1e-4, 2e-4), "",
    )  # fmt: skip
    return plain._replace(**other)


@pytest.mark.finding("Z-F1")
def test_before_the_first_sample_the_page_waits(
    live: Live, feed: tuple[PageFeed, Recorded]
) -> None:
    """Z-F1: the first pause, of 0.2 s, made it say that samples are refused."""
    made, line = feed
    session = new_session(live[0], ("torque", "std.torque", "p_value"))
    page = LivePage(setup_of(session))
    page.say("waiting")
    made.idle(session)
    (told,) = line.sent
    page.take(told)
    (_, now) = events(next(page.watch()))[-1]
    assert now["state"] == "waiting" and now["counts"]["samples"] == 0
    assert answered(session, {"q": [0]})["type"] == "refused"
    made.show(0.0, session)
    page.take(line.sent[-1])
    assert events(next(page.watch()))[-1][1]["state"] == "refusing"


def test_a_page_that_opens_late_gets_all_that_is_kept(live: Live, session: LiveSession) -> None:
    answered(session, sample_of(*live, 0) | {"time": 80.0})
    page = LivePage(setup_of(session))
    (_, hello), (_, now) = events(next(page.watch()))
    assert now["state"] == "preparing" and len(now["poses"]) == live[0].tree.n_bodies
    page.say("waiting")
    alarm = {"type": "alarm", "state": "begins", "start": 2.0, "chi_square": np.inf}
    page.take(interval(session))
    page.take(interval(session, first=2.0, last=2.04, events=[alarm], is_alarm=True))
    told = events(next(page.watch()))
    assert [name for name, _ in told] == ["hello", "past", "past", "now"]
    (_, first), (_, second) = told[1:3]
    columns = hello["columns"]
    assert "p_value" in columns and not [c for c in columns if c.startswith("std.")]
    c = next(k for k, name in enumerate(columns) if name.startswith("torque."))
    at, std = (session.estimator.columns.index(f"{x}{columns[c]}") for x in ("", "std."))
    row = session.estimator.row
    assert hello["banded"][c] and hello["units"][c] in ("N m", "N", "N m, N")
    assert first["low"][c] == pytest.approx(row[at] - 1, rel=1e-4)
    assert first["high"][c] == pytest.approx(row[at] + 1, rel=1e-4)
    assert first["std"][c] == pytest.approx(row[std] + 1, rel=1e-4)  # the largest
    assert second["events"][0]["chi_square"] is None and second["k"] == first["k"] + 1
    now = told[3][1]
    assert now["state"] == "live" and now["latency"] == [100.0, 200.0]
    placed = poses(live[0].tree, transforms(live[0].tree, session.decoder.q))
    assert now["poses"] == [pose_numbers(pose) for pose in placed]
    page.take(interval(session, first=0.0, last=0.04))  # a new start
    assert [name for name, _ in events(next(page.watch()))] == ["hello", "past", "now"]


def test_arrows_are_the_wrenches_at_their_frames() -> None:
    problem = load_problem(bundled("humanoid.yaml"))
    robot = problem.tree
    groups = (
        ("external_wrench.l_sole", tuple(f"external_wrench.l_sole.{x}" for x in "abcdef")),
    )
    page = LivePage(Setup("127.0.0.1", "", 0, robot, groups, 1e-3, ("", None)))
    q, wrench = robot.random_configuration(3), np.array([1.0, 2.0, 3.0, 10.0, 20.0, 30.0])
    zeros, counts = np.zeros(6), {"estimated": 1, "samples": 1}
    x = Interval(0.0, 0.1, 1, zeros, zeros, wrench, 1, 1, q, False, [], counts, (0.0, 0.0), "")
    page.take(x)
    (arrow,) = events(next(page.watch()))[-1][1]["estimate"]["wrenches"]
    sole = dynsys.forward_kinematics(robot, q, "l_sole")
    turn = np.asarray(sole.E).T
    np.testing.assert_allclose(arrow["point"], np.asarray(sole.r), atol=1e-4)
    np.testing.assert_allclose(arrow["force"], turn @ wrench[3:], rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(arrow["moment"], turn @ wrench[:3], rtol=1e-4, atol=1e-3)


def test_hostile_names_stay_within_their_event(live: Live, session: LiveSession) -> None:
    groups = ((f"residual.{HOSTILE}\n\nevent: now\ndata: {{}}", (f"residual.{HOSTILE}\n\n",)),)
    page = LivePage(setup_of(session)._replace(groups=groups))
    told = events(next(page.watch()))
    assert [name for name, _ in told] == ["hello", "now"]
    assert told[0][1]["columns"] == [f"residual.{HOSTILE}\n\n"]


# ---- the server -----------------------------------------------------------------------------


@contextmanager
def serving(session: LiveSession, token: str = "") -> Iterator[LiveServer]:
    page = LivePage(setup_of(session))
    with LiveServer(AccessRules("127.0.0.1", token), 0, page) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.is_over = True
            server.shutdown()
            thread.join(PATIENCE)
            assert not thread.is_alive()


def opened(port: int, token: str = "", **headers: str) -> HTTPResponse:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    ours = {"Content-Type": "application/json", HEADER: "1", TOKEN_HEADER: token} | headers
    connection.request("POST", "/events", b"{}", {k: v for k, v in ours.items() if v})
    return connection.getresponse()


def heard(answer: HTTPResponse, wanted: str) -> dict[str, Any]:
    """The next event of a name."""
    while True:
        name = answer.readline().decode().strip().removeprefix("event: ")
        assert name, "the stream ended"
        facts: dict[str, Any] = json.loads(answer.readline().decode().removeprefix("data: "))
        answer.readline()
        if name == wanted:
            return facts


def test_pages_hear_what_happens_and_few_may_look(live: Live, session: LiveSession) -> None:
    answered(session, sample_of(*live, 0) | {"time": 90.0})
    with serving(session) as server:
        port = server.server_address[1]
        pages = [opened(port) for _ in range(MOST_PAGES)]
        for page in pages:
            assert page.status == 200
            assert page.getheader("Content-Type") == "text/event-stream"
            assert heard(page, "hello")["scene"]["name"] == live[0].tree.name
        refused = opened(port)
        assert refused.status == 503 and b"close one" in refused.read()
        server.page.take(interval(session, last=7.5))
        for page in pages:
            assert heard(page, "past")["t"][1] == 7.5
        pages[0].close()
        end = monotonic() + PATIENCE
        while (again := opened(port)).status == 503 and monotonic() < end:
            sleep(0.1)  # until the next event finds that nobody reads it
        assert again.status == 200
        for page in (*pages, again):
            page.close()


def test_silence_is_said(
    session: LiveSession, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(session, sample_of(*live, 0) | {"time": 95.0})
    monkeypatch.setattr(page_server, "SILENT", 0.05)
    now = 0.0
    monkeypatch.setattr(page_server, "monotonic", lambda: now)
    page = LivePage(setup_of(session))
    page.take(interval(session))
    watching = page.watch()
    assert events(next(watching))[-1][1]["state"] == "live"
    now = 0.04
    assert events(next(watching))[-1][1]["state"] == "live"
    now = 0.06
    assert events(next(watching))[-1][1]["state"] == "silent"
    page.say("ended")
    assert events(next(watching))[-1][1]["state"] == "ended"


def test_other_sites_and_pages_without_the_token_hear_nothing(session: LiveSession) -> None:
    with serving(session, TOKEN) as server:
        port = server.server_address[1]
        assert server.address.endswith(f"#token={TOKEN}")
        assert opened(port).status == 401
        assert opened(port, TOKEN[:-1] + "x").status == 401
        assert opened(port, TOKEN, Origin="http://evil.example").status == 403
        assert opened(port, TOKEN, **{"Sec-Fetch-Site": "cross-site"}).status == 403
        assert opened(port, TOKEN, **{HEADER: ""}).status == 403
        assert opened(port, TOKEN, Host="evil.example").status == 421
        good = opened(port, TOKEN)
        assert good.status == 200 and heard(good, "now")["state"] == "preparing"
        good.close()


def test_the_page_is_its_own_and_asks_nothing_of_the_network(session: LiveSession) -> None:
    with serving(session) as server:
        for path, (_, kind) in FILES.items():
            connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read().decode().replace("http://www.w3.org/2000/svg", "")
            assert answer.status == 200 and answer.getheader("Content-Type") == kind
            assert "default-src 'none'" in str(answer.getheader("Content-Security-Policy"))
            assert "http:" not in text and "https:" not in text and "innerHTML" not in text
            connection.close()


def test_a_page_that_does_not_read_is_let_go(
    live: Live, session: LiveSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(session, sample_of(*live, 0) | {"time": 99.0})
    monkeypatch.setattr(web, "REQUEST_SECONDS", 0.3)
    monkeypatch.setattr(page_server, "MOST_PAGES", 1)
    with serving(session) as server:
        address = ("127.0.0.1", server.server_address[1])
        sleeper = socket.create_connection(address, timeout=PATIENCE)
        sleeper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        head = f"POST /events HTTP/1.1\r\nHost: localhost\r\n{HEADER}: 1\r\n"
        head += "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        sleeper.sendall(head.encode())
        assert sleeper.recv(15) == b"HTTP/1.1 200 OK"
        end, waited = monotonic() + PATIENCE, 0
        while (other := opened(address[1])).status == 503:
            assert monotonic() < end
            event = {"type": "alarm", "words": "x" * 200_000}
            server.page.take(interval(session, events=[event]))
            waited += 1
            sleep(0.02)
        assert waited and other.status == 200
        other.close()
        sleeper.close()


# ---- the command ----------------------------------------------------------------------------


def test_a_log_is_shown_and_the_page_stays(live_files: tuple[Path, Path]) -> None:
    given = (live_files[0], "--outputs", "torque,std.torque", "--replay", live_files[1])
    with live_started(*given, "--page", 0, "--token", TOKEN) as child:
        assert child.stderr is not None and child.stdout is not None
        Thread(target=child.stdout.read, daemon=True).start()
        words = b""
        while b"the page stays" not in words:
            line = child.stderr.readline()
            assert line, words
            words += line
        address = words.decode().split("page: ")[1].split()[0]
        port = int(address.split(":")[2].split("/")[0])
        answer = opened(port, TOKEN)
        while (now := heard(answer, "now"))["state"] != "ended":
            pass
        child.send_signal(signal.SIGINT)
        rest = child.stderr.read()
    assert now["counts"]["lost"] == 0
    assert now["counts"]["samples"] == now["counts"]["estimated"] > 0
    assert child.returncode == 0 and b"Traceback" not in words + rest, words + rest
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=5).close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0", "--allow-network"], "--token"),
        (["--token", "short"], "at least 16"),
        ([], "choose another --page"),
    ],
)
def test_where_no_page_is_served(
    capsys: pytest.CaptureFixture[str],
    live_files: tuple[Path, Path],
    arguments: list[str],
    words: str,
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, _, err = run(
            capsys, "live", live_files[0], "--outputs", "torque", "--page", port, *arguments
        )
    assert status == 2 and words in err and "Traceback" not in err


@pytest.mark.usefixtures("clock")
def test_a_process_that_ends_is_noticed(live: Live, session: LiveSession) -> None:
    before = set(active_children())
    made = PageFeed(setup_of(session))
    (process,) = set(active_children()) - before
    try:
        assert made.address.startswith("http://127.0.0.1:")
        process.kill()
        process.join(PATIENCE)
        for k in range(3):
            answered(session, sample_of(*live, k) | {"time": 120.0 + k})
            made.show(120.0 + k, session)
        assert made.is_gone
    finally:
        made.close()


def test_a_feed_says_why_there_is_no_page(session: LiveSession) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(RefusedError, match="--page"):
            PageFeed(setup_of(session, taken.getsockname()[1]))
