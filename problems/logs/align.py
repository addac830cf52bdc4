"""Time alignment: streams sampled at times of their own, brought to the times of the joints.

Linear interpolation between the two readings around each time. Where the gap between them is
wider than `WIDEST_GAP` median periods of the stream, and before the first and after the last
reading, the value is missing (NaN), never guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dynsys.types import Array

__all__ = ["Stream"]

WIDEST_GAP = 3.0


@final
@dataclass(frozen=True, eq=False)
class Stream:
    """Readings at times of their own.

    Parameters
    ----------
    time : (n,) ascending; may be a memory map.
    width : numbers per reading.
    rows : readings (stop - start, width) of start : stop.
    """

    time: Array
    width: int
    rows: Callable[[int, int], Array]

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
        values = rows[before] + weight[:, None] * (rows[after] - rows[before])
        out[usable] = values[usable]
        return out
