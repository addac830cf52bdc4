"""What a log is: named arrays of equal length, read a stretch at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from dynsys.errors import DynsysError
from dynsys.types import Array

__all__ = ["AbstractLog", "LogError", "check_time", "missing_library"]


class LogError(DynsysError):
    """A log cannot be read, lacks data, or does not fit the robot."""


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        f" run: pip install 'dynsys[{extra}]'"
    )
