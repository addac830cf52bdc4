"""Where samples come from and estimates go: pipes, UDP, WebSocket, or a log at its own pace.

Each function serves a session until its source ends, ``stop`` is set or the time is over. Who
reads too slowly: a pipe holds the samples back (none is lost, they get late); datagrams and
messages of WebSocket that cannot be sent at once are left out and counted (``unsent``).
Garbage is collected when we say so: never while a sample waits.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import perf_counter, sleep, time_ns
from typing import Any

import numpy as np

from dynsys.distribution import install
from dynsys.errors import LogError, RefusedError
from dynsys.types import Array
from problems.live.session import MOST_BYTES, LiveSession
from problems.logs.samples import Samples
from problems.web import host_problem

__all__ = [
    "Stop",
    "lines_of",
    "require_websockets",
    "serve_pipe",
    "serve_replay",
    "serve_udp",
    "serve_websocket",
    "without_pauses",
    "write_records",
]

COLLECT_EVERY = 2000
"""Samples between two collections of young garbage."""
POLL = 0.2
"""Seconds after which a source that is silent is left to look at the clock."""
SPIN = 2e-4
"""Seconds before a sample of a replay is due that are not slept: sleep wakes up late."""
RECEIVE_BUFFER = 4 * 2**20
WAITING = 256
"""Records that wait for a slow WebSocket before its further ones are left out."""


class Stop:
    """Says when to end: asked to, or after some seconds."""

    def __init__(self, seconds: float | None = None) -> None:
        self._end = None if seconds is None else perf_counter() + seconds
        self.is_asked = False

    def __bool__(self) -> bool:
        return self.is_asked or (self._end is not None and perf_counter() > self._end)


@contextmanager
def without_pauses() -> Iterator[None]:
    """Collect and set aside all garbage there is, then none but by :func:`_tidy`."""
    gc.collect()
    gc.freeze()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
        gc.unfreeze()


def _tidy(session: LiveSession) -> None:
    """Collect what little has come since, between two samples."""
    if session.counts.samples % COLLECT_EVERY == 0:
        gc.collect(1)


# ---- pipes ----------------------------------------------------------------------------------


def lines_of(
    source: int, stop: Stop, idle: Callable[[], None] = lambda: None
) -> Iterator[tuple[bytes | None, float]]:
    """Lines of a file descriptor and when they were read; None for one beyond the limit.

    ``idle`` is called while none comes.
    """
    rest, skipping = b"", False
    while not stop:
        if not select.select([source], [], [], POLL)[0]:
            idle()
            continue
        chunk = os.read(source, 2**16)
        arrived = perf_counter()
        if not chunk:
            if rest.strip() and not skipping:
                yield rest, arrived
            return
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if skipping:
                skipping = False
            elif line.strip():
                yield line, arrived
        if len(rest) > MOST_BYTES:
            if not skipping:
                yield None, arrived
            rest, skipping = b"", True


def serve_pipe(session: LiveSession, stop: Stop, source: int = 0, sink: int = 1) -> None:
    """Samples from a file descriptor, a line each; records to another."""
    write_records(sink, [json.dumps(session.hello())])
    with without_pauses():
        for line, arrived in lines_of(source, stop, session.idle):
            if line is None or len(line) > MOST_BYTES:
                records = [session.refuse(f"a line of more than {MOST_BYTES} bytes")]
            else:
                records = session.answer(line, arrived)
            write_records(sink, records)
            session.delivered(arrived)
            _tidy(session)


def write_records(sink: int, records: Sequence[str]) -> None:
    """Write lines to a file descriptor, all of them."""
    data = memoryview("".join(f"{record}\n" for record in records).encode())
    while data:
        data = data[os.write(sink, data) :]


# ---- a log at its own pace ------------------------------------------------------------------


def serve_replay(
    session: LiveSession,
    stop: Stop,
    samples: Samples,
    speed: float,
    send: Callable[[list[str]], None],
) -> None:
    """Samples of a log as lines of JSON, each when it is due; latency counts from then.

    ``speed`` 2 is twice as fast, 0 without waiting. A line is made before it is due.
    """
    lines = _lines_ahead(session, samples)
    send([json.dumps(session.hello())])
    with without_pauses():
        begin, first = perf_counter() + 0.05, float(samples.time[0])
        for line, time in lines:
            due = begin + (time - first) / speed if speed else perf_counter()
            while (left := due - perf_counter()) > 0:
                if left > POLL:
                    session.idle()
                if left > SPIN:
                    sleep(left - SPIN if left < POLL else POLL)
                if stop:
                    return
            send(session.answer(line, due))
            session.delivered(due)
            _tidy(session)
            if stop:
                return


def _lines_ahead(session: LiveSession, samples: Samples) -> Iterator[tuple[str, float]]:
    """One line after the other, each made before the one before it is asked for."""
    layout = session.decoder.layout
    read = [s for s in layout.names if layout[s].constant(1) is None]

    def line(k: int) -> tuple[str, float]:
        given: dict[str, Any] = {
            "seq": k,
            "time": float(samples.time[k]),
            "q": _plain(samples.q[k]),
            "qd": _plain(samples.qd[k]),
        }
        for name in read:
            given[name] = _plain(samples.y[k, layout.slice(name)])
        return json.dumps(given), given["time"]

    ready = line(0) if len(samples.time) else None
    for k in range(len(samples.time)):
        assert ready is not None
        current, ready = ready, (line(k + 1) if k + 1 < len(samples.time) else None)
        yield current


def _plain(x: Array) -> list[Any]:
    values = x.tolist()
    return values if np.isfinite(x).all() else [v if np.isfinite(v) else None for v in values]


# ---- UDP ------------------------------------------------------------------------------------

TIMESTAMPS = getattr(socket, "SO_TIMESTAMPNS", 35)
DROPS = getattr(socket, "SO_RXQ_OVFL", 40)


def serve_udp(
    session: LiveSession,
    stop: Stop,
    address: tuple[str, int],
    ready: Callable[[int], None] | None = None,
) -> None:
    """A sample in every datagram; records go back to whoever sent it.

    Where the system tells, latency counts from when the datagram came to this machine, and
    those that it threw away, since we were too slow, are counted as lost.
    """
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as door:
        try:
            door.bind(address)
        except OSError as error:
            raise RefusedError(f"{address[0]}:{address[1]}: {error.strerror}") from None
        door.settimeout(POLL)
        door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        if sys.platform == "linux":
            for option in (TIMESTAMPS, DROPS):
                with suppress(OSError):
                    door.setsockopt(socket.SOL_SOCKET, option, 1)
        if ready is not None:
            ready(door.getsockname()[1])
        greeted: dict[Any, None] = {}
        with without_pauses():
            while not stop:
                try:
                    data, notes, _, sender = door.recvmsg(2**16, 256)
                except TimeoutError:
                    session.idle()
                    continue
                except OSError:  # an answer that nobody wanted, reported late
                    continue
                arrived = _arrival(session, notes)
                records = []
                if sender not in greeted:
                    if len(greeted) > WAITING:
                        greeted.clear()
                    greeted[sender] = None
                    records.append(json.dumps(session.hello()))
                records += session.answer(data, arrived)
                for record in records:
                    try:
                        door.sendto(record.encode(), socket.MSG_DONTWAIT, sender)
                    except OSError:
                        session.counts.unsent += 1
                session.delivered(arrived)
                _tidy(session)


def _arrival(session: LiveSession, notes: list[tuple[int, int, bytes]]) -> float:
    """When a datagram came, on our clock; counts those thrown away before it."""
    now = perf_counter()
    for level, kind, data in notes:
        if level == socket.SOL_SOCKET and kind == DROPS and len(data) == 4:
            session.dropped(struct.unpack("=I", data)[0])
        elif level == socket.SOL_SOCKET and kind == TIMESTAMPS and len(data) == 16:
            seconds, nanoseconds = struct.unpack("=qq", data)
            waited = (time_ns() - (seconds * 1_000_000_000 + nanoseconds)) * 1e-9
            now -= min(max(waited, 0.0), 60.0)
    return now


# ---- WebSocket ------------------------------------------------------------------------------


def require_websockets() -> None:
    """LogError says what to install where the package is missing."""
    try:
        from websockets.asyncio import server  # noqa: F401
    except ModuleNotFoundError:
        raise LogError(
            f"WebSocket needs the Python package websockets; run: {install('live')}"
        ) from None


def serve_websocket(
    session: LiveSession,
    stop: Stop,
    address: tuple[str, int],
    origins: Sequence[str] = (),
    ready: Callable[[int], None] | None = None,
    replayed: tuple[Samples, float] | None = None,
) -> None:
    """A sample in every message; records go to everybody who is connected.

    Pages of other sites are refused by their Origin, and by the Host that they call us, since
    a name of their own may lead here. ``ready`` is told the port. ``replayed``: samples come
    from a log, at some speed, and everybody listens.
    """
    require_websockets()
    asyncio.run(_WebSocketDoor(session, stop, origins).serve(address, ready, replayed))


class _WebSocketDoor:
    """Everybody who is connected, each with records that wait to be sent."""

    def __init__(self, session: LiveSession, stop: Stop, origins: Sequence[str]) -> None:
        self._session, self._stop, self._origins = session, stop, origins
        self._queues: set[asyncio.Queue[str]] = set()

    async def serve(
        self,
        address: tuple[str, int],
        ready: Callable[[int], None] | None,
        replayed: tuple[Samples, float] | None,
    ) -> None:
        from websockets.asyncio.server import serve

        self._replayed = replayed is not None
        allowed: list[Any] = [None, *self._origins]
        try:
            door = await serve(
                self._talk,
                *address,
                origins=allowed,
                process_request=_host_check(address[0]),
                max_size=MOST_BYTES,
                compression=None,
            )
        except OSError as error:
            raise RefusedError(f"{address[0]}:{address[1]}: {error.strerror}") from None
        async with door:
            if ready is not None:
                ready(next(iter(door.sockets)).getsockname()[1])
            with without_pauses():
                if replayed is not None:
                    await self._replay(*replayed)
                else:
                    while not self._stop:
                        await asyncio.sleep(POLL / 4)
                        self._session.idle()
            self._send([json.dumps(self._session.summary())])
            await asyncio.sleep(POLL / 2)

    async def _talk(self, client: Any) -> None:
        from websockets.exceptions import ConnectionClosed

        queue: asyncio.Queue[str] = asyncio.Queue(WAITING)
        queue.put_nowait(json.dumps(self._session.hello()))
        self._queues.add(queue)
        sender = asyncio.create_task(_send_all(client, queue))
        try:
            async for message in client:
                arrived = perf_counter()
                if self._replayed:
                    continue  # samples come from the log
                self._send(self._session.answer(message, arrived))
                self._session.delivered(arrived)
                _tidy(self._session)
        except ConnectionClosed:
            pass
        finally:
            self._queues.discard(queue)
            sender.cancel()

    def _send(self, records: list[str]) -> None:
        for queue in self._queues:
            for record in records:
                try:
                    queue.put_nowait(record)
                except asyncio.QueueFull:
                    self._session.counts.unsent += 1

    async def _replay(self, samples: Samples, speed: float) -> None:
        """The same as :func:`serve_replay`, letting others run while it waits."""
        begin, first = perf_counter() + 0.05, float(samples.time[0])
        for line, time in _lines_ahead(self._session, samples):
            due = begin + (time - first) / speed if speed else perf_counter()
            await asyncio.sleep(max(due - perf_counter(), 0.0))
            self._send(self._session.answer(line, due))
            self._session.delivered(due)
            _tidy(self._session)
            if self._stop:
                return


def _host_check(host: str) -> Callable[[Any, Any], Any]:
    """Refuses who calls a server bound to ``host`` by a name that is not this machine's."""

    def check(connection: Any, request: Any) -> Any:
        problem = host_problem(host, request.headers.get_all("Host"))
        return connection.respond(403, f"{problem}\n") if problem else None

    return check


async def _send_all(client: Any, queue: asyncio.Queue[str]) -> None:
    from websockets.exceptions import ConnectionClosed

    with suppress(ConnectionClosed):
        while True:
            await client.send(await queue.get())
