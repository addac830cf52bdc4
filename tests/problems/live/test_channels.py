"""Pipes, UDP, WebSocket, a log at its own pace: every sample is answered."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, perf_counter, sleep, time_ns
from typing import Any

import pytest

from dynsys.errors import RefusedError
from problems.live import channels
from problems.live.channels import (
    Stop,
    serve_pipe,
    serve_replay,
    serve_udp,
    serve_websocket,
)
from problems.live.session import MOST_BYTES, LiveSession
from problems.logs.samples import Samples
from problems.problem_file import ProblemFile
from tests.problems.live.live_cases import new_session, sample_of

Live = tuple[ProblemFile, Samples]
PATIENCE = 240.0
"""Seconds: machines may be busy."""


@pytest.fixture
def session(live: Live) -> LiveSession:
    return new_session(live[0], ("torque",))


def lines(live: Live, n: int) -> list[bytes]:
    return [json.dumps(sample_of(*live, k) | {"seq": k}).encode() for k in range(n)]


@contextmanager
def running(serve: Callable[[Stop], None]) -> Iterator[Stop]:
    """Serve in another thread until the block ends."""
    stop, errors = Stop(PATIENCE), []

    def body() -> None:
        try:
            serve(stop)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    try:
        yield stop
    finally:
        stop.is_asked = True
        thread.join(PATIENCE)
        assert not thread.is_alive() and not errors, errors


def wait_for(port: list[int]) -> None:
    """Until the server has said at which port it listens."""
    end = monotonic() + PATIENCE
    while not port:
        assert monotonic() < end
        sleep(0.01)


# ---- pipes ----------------------------------------------------------------------------------


def piped(session: LiveSession, data: bytes) -> list[dict[str, Any]]:
    """Records for what is written to a pipe, which is then closed."""
    (inside, source), (sink, outside) = os.pipe(), os.pipe()
    found: list[bytes] = []

    def write() -> None:
        with os.fdopen(source, "wb") as stream:
            stream.write(data)

    def read() -> None:
        with os.fdopen(sink, "rb") as stream:
            found.extend(stream)

    threads = [threading.Thread(target=target, daemon=True) for target in (write, read)]
    for thread in threads:
        thread.start()
    serve_pipe(session, Stop(PATIENCE), inside, outside)
    os.close(inside)
    os.close(outside)
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    return [json.loads(line) for line in found]


def test_every_line_of_a_pipe_is_answered(live: Live, session: LiveSession) -> None:
    good = lines(live, 50)
    data = b"\n".join(
        [*good[:20], b"garbage", b"", b"\r", *good[20:]]
    )  # no end of line at last
    records = piped(session, data)
    assert [r["type"] for r in records] == ["hello", *["estimate"] * 20, "refused",
                                            *["estimate"] * 30]  # fmt: skip
    assert [r["seq"] for r in records if r["type"] == "estimate"] == list(range(50))
    assert session.latencies.n == 51 and session.counts.lost == 0
    assert records[0]["takes"]["ft"] == 6


def test_a_line_without_end_is_refused_once(live: Live, session: LiveSession) -> None:
    (good,) = lines(live, 1)
    data = b"x" * (3 * MOST_BYTES) + b"\n" + good + b"\n"
    assert [r["type"] for r in piped(session, data)] == ["hello", "refused", "estimate"]


def test_garbage_is_not_collected_while_samples_come(live: Live, session: LiveSession) -> None:
    looks_on = LooksOn()
    session.viewers.append(looks_on)
    piped(session, b"\n".join(lines(live, 3)))
    assert looks_on.collecting == [False] * 3 and gc.isenabled()


class LooksOn:
    """A viewer that notes whether garbage is collected when it is shown something."""

    def __init__(self) -> None:
        self.collecting: list[bool] = []
        self.pauses, self.stop = 0, Stop(PATIENCE)

    def show(self, time: float, session: LiveSession) -> None:
        self.collecting.append(gc.isenabled())

    def idle(self, session: LiveSession) -> None:
        self.pauses += 1
        self.stop.is_asked = bool(self.collecting)


def test_viewers_are_told_of_pauses(live: Live, session: LiveSession) -> None:
    looks_on = LooksOn()
    session.viewers.append(looks_on)
    source, feed = os.pipe()
    found, sink = os.pipe()
    try:
        os.write(feed, lines(live, 1)[0] + b"\n")
        serve_pipe(session, looks_on.stop, source, sink)
    finally:
        for end in (source, feed, found, sink):
            os.close(end)
    assert len(looks_on.collecting) == 1 and looks_on.pauses >= 1


# ---- a log ----------------------------------------------------------------------------------


def test_a_log_is_replayed_at_its_own_pace(live: Live, session: LiveSession) -> None:
    _, samples = live
    told: list[dict[str, Any]] = []
    begin = monotonic()
    send = lambda records: told.extend(map(json.loads, records))  # noqa: E731
    serve_replay(session, Stop(PATIENCE), samples, 2.0, send)
    took, length = monotonic() - begin, float(samples.time[-1] - samples.time[0])
    assert took >= 0.5 * length
    assert [r["type"] for r in told] == ["hello", *["estimate"] * len(samples.time)]
    assert [r["seq"] for r in told[1:]] == list(range(len(samples.time)))
    assert session.counts.refused == 0 and session.latencies.n == len(samples.time)


def test_a_replay_stops_when_it_is_told(live: Live, session: LiveSession) -> None:
    _, samples = live
    stop = Stop(PATIENCE)

    def send(records: list[str]) -> None:
        stop.is_asked = session.counts.samples >= 5

    serve_replay(session, stop, samples, 0.0, send)
    assert session.counts.samples == 5


# ---- UDP ------------------------------------------------------------------------------------


def test_datagrams_are_answered_to_their_sender(live: Live, session: LiveSession) -> None:
    port: list[int] = []
    with running(lambda stop: serve_udp(session, stop, ("127.0.0.1", 0), port.append)):
        wait_for(port)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as robot:
            robot.settimeout(PATIENCE)
            robot.connect(("127.0.0.1", port[0]))
            records = []
            for line in (b"\x00" * 20_000, *lines(live, 30)):
                robot.send(line)
                records.append(json.loads(robot.recv(2**16)))
                if len(records) == 1:  # the first is greeted
                    records.append(json.loads(robot.recv(2**16)))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
            gone.connect(("127.0.0.1", port[0]))
            gone.send(b"{}")  # who sends and leaves
        end = monotonic() + PATIENCE
        while session.counts.samples < 32:
            assert monotonic() < end
            sleep(0.01)
    assert [r["type"] for r in records] == ["hello", "refused", *["estimate"] * 30]
    assert session.counts.lost == session.counts.dropped == 0
    assert 0 < session.latencies.quantile(0.5) < PATIENCE


def test_a_taken_port_is_refused_in_words(session: LiveSession) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as first:
        first.bind(("127.0.0.1", 0))
        with pytest.raises(RefusedError, match="in use"):
            serve_udp(session, Stop(1.0), first.getsockname())


def test_datagrams_thrown_away_are_counted(session: LiveSession) -> None:
    note = (socket.SOL_SOCKET, channels.DROPS, struct.pack("=I", 3))
    channels._arrival(session, [note])
    channels._arrival(session, [note])
    assert session.counts.dropped == 3


def test_what_a_datagram_waited_before_it_was_read_is_part_of_its_latency(
    session: LiveSession,
) -> None:
    stamp = struct.pack("=qq", *divmod(time_ns() - 500_000_000, 1_000_000_000))
    begin = perf_counter()
    note = (socket.SOL_SOCKET, channels.TIMESTAMPS, stamp)
    assert channels._arrival(session, [note]) < begin - 0.4
    of_another = (socket.IPPROTO_IP, channels.TIMESTAMPS, stamp)
    assert channels._arrival(session, [of_another]) >= begin


# ---- WebSocket ------------------------------------------------------------------------------


@contextmanager
def web(session: LiveSession, **options: Any) -> Iterator[str]:
    pytest.importorskip("websockets")
    port: list[int] = []
    with running(
        lambda stop: serve_websocket(
            session, stop, ("127.0.0.1", 0), ready=port.append, **options
        )
    ):
        wait_for(port)
        yield f"ws://127.0.0.1:{port[0]}"


def test_everybody_who_is_connected_hears_the_answers(live: Live, session: LiveSession) -> None:
    from websockets.sync.client import connect

    with web(session) as address, connect(address) as robot, connect(address) as listener:
        for line in (b"{", *lines(live, 20)):
            robot.send(line)
        for client in (robot, listener):
            types = [json.loads(client.recv(PATIENCE))["type"] for _ in range(22)]
            assert types == ["hello", "refused", *["estimate"] * 20]


def test_pages_of_other_sites_are_refused(session: LiveSession) -> None:
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect
    from websockets.typing import Origin

    with web(session, origins=["http://localhost:8000"]) as address:
        with pytest.raises(InvalidStatus, match="403"):
            connect(address, origin=Origin("http://evil.example"))
        connect(address, origin=Origin("http://localhost:8000")).close()


@pytest.mark.finding("L8")
def test_names_that_are_not_this_machines_are_refused(session: LiveSession) -> None:
    """A page may point a name of its own here (DNS rebinding): it was let in."""
    with web(session) as address:
        port = int(address.rpartition(":")[2])
        for host, status in (
            ("evil.example", 403),
            (f"evil.example:{port}", 403),
            (f"localhost:{port}", 101),
            (f"127.0.0.1:{port}", 101),
        ):
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
                client.sendall(
                    f"GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n"
                    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                    "Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n\r\n".encode()
                )
                assert int(client.recv(4096).split()[1]) == status, host


def test_who_reads_nothing_slows_nobody(
    live: Live, session: LiveSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages for a slow reader are left out and counted; the robot has all of its answers."""
    from websockets.sync.client import connect

    monkeypatch.setattr(channels, "WAITING", 8)
    n = 400
    big = new_session(live[0], ("torque", "std.torque", "acceleration", "joint_wrench", "qdd"))
    line = sample_of(*live, 0)
    with web(big) as address, connect(address) as robot:
        port = int(address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            key = "x3JJHMbDL1EzLkh9GBhXDw=="
            deaf.sendall(
                "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
                f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                "Sec-WebSocket-Version: 13\r\n\r\n".encode()
            )
            assert json.loads(robot.recv(PATIENCE))["type"] == "hello"
            for k in range(n):
                robot.send(json.dumps(line | {"time": float(k)}))
                assert json.loads(robot.recv(PATIENCE))["type"] == "estimate"
    assert big.counts.estimated == n


def test_a_robot_that_disconnects_may_come_back(live: Live, session: LiveSession) -> None:
    from websockets.sync.client import connect

    first, second = lines(live, 2)
    with web(session) as address:
        robot = connect(address)
        robot.send(first)
        robot.socket.close()  # without a word
        with connect(address) as again:
            assert json.loads(again.recv(PATIENCE))["type"] == "hello"
            again.send(second)
            assert json.loads(again.recv(PATIENCE))["type"] in ("estimate", "refused")


def test_listeners_of_a_replay(
    live: Live, session: LiveSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    websockets = pytest.importorskip("websockets")
    _, samples = live
    types: list[str] = []
    replay = channels._WebSocketDoor._replay

    async def replay_to_somebody(door: Any, *log: Any) -> None:
        while not door._queues:
            await asyncio.sleep(0.01)
        await replay(door, *log)

    monkeypatch.setattr(channels._WebSocketDoor, "_replay", replay_to_somebody)

    async def listen(address: str) -> None:
        async with websockets.connect(address) as client:
            async for message in client:
                types.append(json.loads(message)["type"])

    with web(session, replayed=(samples, 2.0)) as address:
        asyncio.run(asyncio.wait_for(listen(address), PATIENCE))
    assert types == ["hello", *["estimate"] * len(samples.time), "summary"]
