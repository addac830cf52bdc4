"""What the page of ``dynsys live`` is told, gathered where the estimates are made.

Of every sample, after it was answered, the smallest and largest value of each output are kept;
25 times a second they go to the page's process (:mod:`problems.live.page_server`), so that what
lasts one sample is seen. Nothing here waits: where that process does not keep up, the interval
gets longer.
"""

from __future__ import annotations

import math
import pickle
from contextlib import suppress
from multiprocessing import get_context
from socket import SO_SNDBUF, SOL_SOCKET, socketpair
from time import perf_counter
from typing import Any, final

import numpy as np

from dynsys.errors import RefusedError
from problems.live.page_server import RATE, Interval, Setup, serve
from problems.live.session import LiveSession

__all__ = ["PageFeed"]

PATIENCE = 120.0
"""Seconds that the page's process may take to begin."""
END_PATIENCE = 5.0
BUFFER = 2**20


@final
class PageFeed:
    """The page's process, and what it is told: a viewer of a session.

    Parameters
    ----------
    setup : robot, outputs, and where the page is served.

    Attributes
    ----------
    address : of the page.
    is_gone : the process ended by itself.

    Raises
    ------
    RefusedError
        if the port is taken, or the page may not be served there.
    """

    def __init__(self, setup: Setup) -> None:
        context = get_context("spawn")
        self._line, far_end = socketpair()
        self._process = context.Process(target=serve, args=(far_end, setup), daemon=True)
        self._process.start()
        far_end.close()
        self.is_gone = False
        self.address = self._begin()
        with suppress(OSError):
            self._line.setsockopt(SOL_SOCKET, SO_SNDBUF, BUFFER)
        self._line.setblocking(False)
        self._waiting = memoryview(b"")
        size = sum(len(columns) for _, columns in setup.groups)
        self._low, self._high = np.full(size, np.nan), np.full(size, np.nan)
        self._events: list[dict[str, Any]] = []
        self._refusal = ""
        self._next, self._first, self._last = 0.0, math.nan, -math.inf
        self._shown = -1
        self._begin_interval()

    def _begin(self) -> str:
        self._line.settimeout(PATIENCE)
        try:
            with self._line.makefile("r") as said:
                words = said.readline().strip()
        except TimeoutError:
            words = ""
        if not words.startswith("http"):
            self._process.kill()
            raise RefusedError(words.removeprefix("!") or "the page's process did not start")
        return words

    def _begin_interval(self) -> None:
        self._samples, self._p_low, self._p_high = 0, math.inf, -math.inf
        self._events, self._refusal = [], ""

    # ---- a session looks like this -------------------------------------------------------

    def show(self, time: float, session: LiveSession) -> None:
        """Take what was made of a sample; tell the page if it is time to."""
        if session.events:
            self._events += session.events
        if session.refusal:
            self._refusal = session.refusal
        else:
            row, p = session.estimator.row, session.estimator.p_value
            if time < self._last:  # a new start
                self._tell(session)
            if not self._samples:
                self._low[:], self._high[:] = row, row
                self._first = time
            else:
                np.fmin(self._low, row, out=self._low)
                np.fmax(self._high, row, out=self._high)
            self._samples += 1
            self._last = time
            if p < self._p_low:
                self._p_low = p
            if p > self._p_high:
                self._p_high = p
        if perf_counter() >= self._next:
            self._tell(session)

    def idle(self, session: LiveSession) -> None:
        """Tell the page what it was not told yet."""
        if self._shown != session.counts.samples and perf_counter() >= self._next:
            self._tell(session)

    def _tell(self, session: LiveSession) -> None:
        """Send the interval; where the page does not keep up, go on with it."""
        self._next = perf_counter() + 1.0 / RATE
        if self._waiting and not self._send():
            return
        counts, of = session.counts, session.latencies
        told = Interval(
            self._first,
            self._last,
            self._samples,
            self._low,
            self._high,
            session.estimator.row,
            self._p_low,
            self._p_high,
            session.decoder.q,
            session.watch.is_on,
            self._events,
            {**vars(counts), "lost": counts.lost + counts.dropped},
            (of.quantile(0.5), of.quantile(0.99)),
            self._refusal,
        )
        self._offer(told)
        self._shown = counts.samples
        self._begin_interval()

    # ---- to the other process ------------------------------------------------------------

    def say(self, state: str, **more: Any) -> None:
        """Put the page in a state: waiting, ended; may wait for it, so not between samples."""
        self._line.setblocking(True)
        self._line.settimeout(END_PATIENCE)
        self._send()
        self._offer((state, more))
        self._line.setblocking(False)

    def end(self, session: LiveSession) -> None:
        """Tell the rest, and that no more comes."""
        if self._shown != session.counts.samples:
            self._line.settimeout(END_PATIENCE)
            self._tell(session)
        self.say("ended")

    def close(self) -> None:
        """End the page's process."""
        self._line.close()
        self._process.join(END_PATIENCE)
        if self._process.is_alive():
            self._process.kill()

    def _offer(self, message: object) -> None:
        data = pickle.dumps(message, protocol=5)
        self._waiting = memoryview(len(data).to_bytes(4, "little") + data)
        self._send()

    def _send(self) -> bool:
        """Send what waits, as much as goes; True if that is all."""
        try:
            while self._waiting and not self.is_gone:
                self._waiting = self._waiting[self._line.send(self._waiting) :]
        except (BlockingIOError, TimeoutError):
            return False
        except OSError:
            self.is_gone, self._waiting = True, memoryview(b"")
        return True
