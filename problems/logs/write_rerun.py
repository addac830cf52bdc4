"""Recordings of rerun (.rrd): every number of a log over the timeline ``time``.

Entities are the groups and their columns, ``/torque/l_knee``; deviations are beside what they
belong to, ``/torque/l_knee/std``, so that one plot shows both. Missing values are left out.
Written with the package rerun-sdk; a recording has its own identity, so that two of the same
rows differ in some bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from dynsys.errors import LogError
from dynsys.types import Array

__all__ = ["entity_of", "write_recording"]


def entity_of(column: str) -> str:
    """Path of the entity of a column: ``std.torque.knee[1]`` is ``/torque/knee/1/std``.

    >>> entity_of("std.torque.l_knee"), entity_of("external_wrench.l_sole.fz")
    ('/torque/l_knee/std', '/external_wrench/l_sole/fz')
    """
    rest = column.removeprefix("std.")
    parts = [re.sub(r"[^\w-]", "_", part) for part in re.findall(r"[^.\[\]/]+", rest)]
    return "/" + "/".join(parts + (["std"] if rest != column else []))


def write_recording(
    path: Path, groups: Sequence[tuple[str, Sequence[str]]], chunks: Iterable[Array]
) -> None:
    """Write rows, column by column."""
    import rerun as rr

    names = [column for _, columns in groups for column in columns]
    if "time" not in names:
        raise LogError("a recording needs a time for every sample; add time to the log")
    stream = rr.RecordingStream("dynsys")
    stream.save(str(path))
    for rows in chunks:
        time = np.asarray(rows[:, names.index("time")])
        for k, name in enumerate(names):
            known = np.isfinite(rows[:, k])
            if name != "time" and known.any():
                rr.send_columns(
                    entity_of(name),
                    indexes=[rr.TimeColumn("time", duration=time[known])],
                    columns=rr.Scalars.columns(scalars=np.asarray(rows[known, k])),
                    recording=stream,
                )
    stream.flush()
    stream.disconnect()
