"""Time alignment: streams sampled at times of their own, brought to the times of the joints.

Linear interpolation between the two readings around each time. Where the gap between them is
wider than `WIDEST_GAP` median periods of the stream, and before the first and after the last
reading, the value is missing (NaN), never guessed. Between two rotations it takes the shorter
way: quaternions u and -u are one, and so are angles a turn apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import final

import numpy as np

from dynsys.errors import LogError
from dynsys.types import Array
from problems.logs.columns import UNITS, Columns
from problems.logs.source import AbstractLog, check_time
from problems.logs.tables import NpzLog

__all__ = ["WIDEST_GAP", "WITHIN", "WRAP", "AlignedLog", "Rotation", "Stream", "aligned_npz"]

WIDEST_GAP = 3.0
WRAP, WITHIN = 0.75, 1.25
"""Turns between neighbours that are no motion, but an angle that has come to the end of its
turn; turns within which such angles are, interpolated ones too."""
QUATERNION_ENDS = (4, 7)
"""Numbers of a joint's position that ends in a quaternion: spherical, free."""


@final
@dataclass(frozen=True)
class Rotation:
    """Columns of a stream that are a quaternion, or angles; ``turn``: a whole turn of these.

    With ``wraps`` they are angles of joints, which may turn by more than half a turn between
    readings, but not if they are logged within one turn.
    """

    columns: slice
    turn: float | None = None
    wraps: bool = False

    def nearer(self, before: Array, after: Array) -> None:
        """Write ``after`` (N, width) as the same rotations, the nearer way from ``before``."""
        a, b = before[:, self.columns], after[:, self.columns]
        if self.turn is None:
            after[:, self.columns] = np.where(np.sum(a * b, axis=1)[:, None] < 0, -b, b)
            return
        turns = (b - a) / self.turn
        if self.wraps:
            within = np.maximum(np.abs(a), np.abs(b)) < WITHIN * self.turn
            turns = np.where(within & (np.abs(turns) > WRAP), turns, 0.0)
        after[:, self.columns] = b - self.turn * np.round(turns)


@final
@dataclass(frozen=True, eq=False)
class Stream:
    """Readings of ``width`` numbers at times of their own."""

    time: Array
    """(n,) ascending; may be a memory map."""
    width: int
    rows: Callable[[int, int], Array]
    """Readings (stop - start, columns) of start : stop."""
    rotations: tuple[Rotation, ...] = ()
    part: slice = field(default_factory=lambda: slice(None))
    """Those of the columns that are the stream's ``width`` numbers."""

    @cached_property
    def widest_gap(self) -> float:
        """Seconds between two readings that are still interpolated."""
        steps = np.diff(self.time[: 1 << 20])
        return WIDEST_GAP * float(np.median(steps)) if len(steps) else 0.0

    def at(self, time: Array) -> Array:
        """Values (N, width) at ascending times (N,)."""
        out = np.full((len(time), self.width), np.nan)
        if not len(time) or not len(self.time):
            return out
        start = max(int(np.searchsorted(self.time, time[0], side="right")) - 1, 0)
        stop = min(int(np.searchsorted(self.time, time[-1], side="left")) + 1, len(self.time))
        own, rows = np.asarray(self.time[start:stop]), self.rows(start, stop)
        after = np.searchsorted(own, time, side="left")
        inside = (after < len(own)) & (time >= own[0])
        after = np.clip(after, 0, len(own) - 1)
        before = np.where(own[after] == time, after, np.maximum(after - 1, 0))
        gap = own[after] - own[before]
        usable = inside & (gap <= self.widest_gap)
        weight = np.where(gap > 0, (time - own[before]) / np.where(gap > 0, gap, 1.0), 0.0)
        earlier, later = rows[before], rows[after]
        for rotation in self.rotations:
            rotation.nearer(earlier, later)
        values = earlier + weight[:, None] * (later - earlier)
        out[usable] = values[usable, self.part]
        return out


@final
class AlignedLog(AbstractLog):
    """Streams interpolated at ``time``; ``inner`` holds what is sampled at ``time`` already.

    ``folder`` is a temporary one that holds the streams and goes with the log.
    """

    def __init__(
        self,
        path: Path,
        time: Array,
        streams: Mapping[str, Stream],
        inner: AbstractLog | None = None,
        folder: TemporaryDirectory[str] | None = None,
    ) -> None:
        check_time(time, lambda k: f"{path}, sample {k}")
        self.path, self._time, self._streams, self._inner = path, time, streams, inner
        self._folder = folder
        self.n_samples = len(time)
        own = {} if inner is None else dict(inner.widths)
        self.widths = own | {"time": 1} | {k: s.width for k, s in streams.items()}

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, Array]:
        time = np.asarray(self._time[start:stop], dtype=np.float64)
        found = {name: self._streams[name].at(time) for name in names if name in self._streams}
        if "time" in names:
            found["time"] = time[:, None]
        rest = [name for name in names if name not in found]
        if rest and self._inner is not None:
            found |= self._inner.read(rest, start, stop)
        return found

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()
        if self._folder is not None:
            self._folder.cleanup()


def aligned_npz(log: NpzLog, columns: Columns) -> AbstractLog:
    """Return the log itself, or aligned where arrays ``time.NAME`` give NAME its own times.

    ``columns`` tell which of the log's numbers are rotations, where their names do not.
    """
    own = [name for name in log.widths if name.startswith("time.")]
    named = [name.removeprefix("time.") for name in own]
    for name, length in log.lengths.items():
        if name not in named and name not in own and length != log.n_samples:
            raise LogError(
                f"{log.path}: array {name!r} has {length} samples, q has {log.n_samples};"
                f" make them equal, or add 'time.{name}' with its own times"
            )
    if not own:
        return log
    if "time" not in log.widths:
        raise LogError(f"{log.path}: {own[0]!r} is there, but 'time' is not; add it")
    streams: dict[str, Stream] = {}
    for key, name in zip(own, named, strict=True):
        if log.lengths.get(name) != log.lengths[key]:
            raise LogError(
                f"{log.path}: {key!r} has {log.lengths[key]} times, {name!r} has"
                f" {log.lengths.get(name, 0)} samples"
            )
        time = _whole(log, key)
        check_time(time, lambda k, key=key: f"{log.path}, {key}[{k}]")  # type: ignore[misc]
        streams[name] = Stream(
            time,
            log.widths[name],
            lambda start, stop, name=name: log.read([name], start, stop)[name],  # type: ignore[misc]
            tuple(_rotations(log, name, columns)),
        )
    return AlignedLog(log.path, _whole(log, "time"), streams, log)


def _rotations(log: NpzLog, name: str, columns: Columns) -> Iterator[Rotation]:
    """Rotations among the numbers of an array: of a joint with a quaternion, or by ``as``."""
    width = log.widths[name]
    if name.startswith("q.") and width in QUATERNION_ENDS:
        yield Rotation(slice(width - 4, width))
    if name.startswith("q.") and width == 1 and name not in columns.columns:
        yield Rotation(slice(0, 1), 2 * np.pi, wraps=True)
    pairs = ((ours, part) for ours, parts in columns.columns.items() for part in parts)
    for ours, part in pairs:
        source, where = part.find(log)
        turn = abs(2 * np.pi / (UNITS.get(part.unit, 1.0) * part.scale))
        if source == name and part.rotation:
            yield Rotation(where, turn if part.rotation == "rpy" else None)
        elif source == name and ours.startswith("q.") and where.stop - where.start == 1:
            yield Rotation(where, turn, wraps=True)


def _whole(log: NpzLog, name: str) -> Array:
    return log.read([name], 0, log.lengths[name])[name][:, 0]
