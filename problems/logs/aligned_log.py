"""A log whose arrays have times of their own, offered as one on the times of the joints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import final

import numpy as np

from dynsys.types import Array
from problems.logs.align import Stream
from problems.logs.npz_log import NpzLog
from problems.logs.source import AbstractLog, LogError, check_time

__all__ = ["AlignedLog", "aligned_npz"]


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


def aligned_npz(log: NpzLog) -> AbstractLog:
    """Return the log itself, or aligned where arrays ``time.NAME`` give NAME its own times."""
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
        )
    return AlignedLog(log.path, _whole(log, "time"), streams, log)


def _whole(log: NpzLog, name: str) -> Array:
    return log.read([name], 0, log.lengths[name])[name][:, 0]
