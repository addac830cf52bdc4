"""What a log is: named arrays of equal length, read a stretch at a time.

| numbers            | one array        | or one column per number                         |
|--------------------|------------------|--------------------------------------------------|
| time, s            | ``time``         |                                                  |
| positions          | ``q`` (N, nq)    | ``q.JOINT``, or ``q.JOINT[k]`` where it has many |
| velocities         | ``qd`` (N, nv)   | ``qd.JOINT``                                     |
| accelerations      | ``qdd`` (N, nv)  | ``qdd.JOINT``                                    |
| joint torques      |                  | ``effort.JOINT``                                 |
| readings           | ``y`` (N, rows)  |                                                  |
| readings of one    | ``SENSOR``       | ``SENSOR.ROW``, rows as ``layout.labels``        |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, final

import numpy as np

from dynsys.distribution import install
from dynsys.errors import LogError
from dynsys.types import Array

__all__ = [
    "AbstractLog",
    "Source",
    "check_time",
    "missing_library",
    "some_names",
    "source_of",
]


class AbstractLog(ABC):
    """Samples of named arrays, each of some width; memory is that of the stretch read.

    Attributes
    ----------
    path : the file or folder.
    n_samples : number of samples.
    widths : numbers per sample of each array.
    """

    path: Path
    n_samples: int
    widths: Mapping[str, int]

    @abstractmethod
    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, Array]:
        """Arrays (stop - start, width) of samples start : stop, by name."""

    def close(self) -> None:
        """Let go of open files."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_time(time: Array, where: Callable[[int], str]) -> None:
    """Raise unless time (N,) is finite and ascends; ``where(k)`` names sample k."""
    bad = np.flatnonzero(~np.isfinite(time))
    if len(bad):
        raise LogError(f"{where(int(bad[0]))}: the time is {time[bad[0]]}")
    back = np.flatnonzero(np.diff(time) <= 0)
    if len(back):
        k = int(back[0]) + 1
        raise LogError(
            f"{where(k)}: time does not ascend ({time[k - 1]:.9g} s, then {time[k]:.9g} s);"
            " sort the log and drop repeated samples"
        )


def missing_library(path: Path, library: str, extra: str = "logs") -> LogError:
    """Return the error for a format whose optional library is not installed."""
    return LogError(
        f"{path}: this format needs the Python package {library}, which is not installed;"
        f" run: {install(extra)}"
    )


def some_names(log: AbstractLog) -> str:
    """End of a message about a name that a log lacks: some that it has, in its order."""
    names = list(log.widths)
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return f"; it has {', '.join(names[:12])}{more}"


# ---- names of the numbers in a log ----------------------------------------------------------


@final
@dataclass(frozen=True)
class Source:
    """Arrays of a log that, side by side, hold what is wanted, or a part of one array."""

    names: tuple[str, ...]
    part: slice | None = None

    def number(self, k: int) -> Source:
        """One of the numbers alone."""
        at = k if self.part is None else self.part.start + k
        return Source(self.names, slice(at, at + 1))


def source_of(
    widths: Mapping[str, int],
    whole: str,
    columns: Sequence[str],
    within: tuple[str, int, slice] | None = None,
) -> Source | None:
    """Where a log holds some numbers, None if it does not.

    Parameters
    ----------
    widths : arrays of the log and their widths.
    whole : name of the array that would hold them all.
    columns : names of the numbers, one by one.
    within : name and width of a larger array, and the place of the numbers in it.
    """
    if widths.get(whole) == len(columns):
        return Source((whole,))
    if columns and all(widths.get(name) == 1 for name in columns):
        return Source(tuple(columns))
    if within is not None and widths.get(within[0]) == within[1]:
        return Source((within[0],), within[2])
    return None
