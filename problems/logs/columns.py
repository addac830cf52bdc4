"""Logs as others write them: columns found by other names, in other units, orders and signs.

The ``log`` section of a problem file says where the names of :mod:`problems.logs.source` are:

    log:
      rate: 100                                  # Hz, where the log has no time
      joints: {panda_joint1: fer_joint1}         # ours: theirs, in every name that ends so
      columns:
        time: {from: stamp, unit: ns}
        q: {from: joints.q, unit: deg}
        effort.elbow: {from: i_3, unit: A, scale: 11.7}        # N m per ampere
        imu: {from: "acc[0:3]", unit: g, order: [1, 0, 2], sign: [1, 1, -1]}
        wrist: {from: [Fx, Fy, Fz], unit: N}                   # one column per number
        q.root: [{from: base_pos}, {from: base_quat, as: wxyz}]     # side by side

What is not named keeps its name. ``sign`` and ``order`` speak of the columns as they are
logged; then unit and scale apply. ``as`` says how a rotation is written: ``wxyz`` quaternions,
or ``rpy`` angles about fixed axes; ours are ``xyzw``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import final

import numpy as np
from scipy.spatial.transform import Rotation

from dynsys.errors import LogError, nearest_name
from dynsys.types import Array
from problems.logs.source import AbstractLog, some_names

__all__ = ["ROTATIONS", "UNITS", "Column", "Columns", "MappedLog"]

UNITS: Mapping[str, float] = MappingProxyType(
    {
        "rad": 1.0, "m": 1.0, "s": 1.0, "N": 1.0, "N m": 1.0, "A": 1.0,
        "rad/s": 1.0, "m/s": 1.0, "m/s^2": 1.0, "rad/s^2": 1.0,
        "deg": np.pi / 180, "deg/s": np.pi / 180, "deg/s^2": np.pi / 180, "rpm": np.pi / 30,
        "turns": 2 * np.pi,
        "cm": 1e-2, "mm": 1e-3, "mm/s": 1e-3, "ms": 1e-3, "us": 1e-6, "ns": 1e-9,
        "g": 9.80665, "mg": 9.80665e-3,
        "kN": 1e3, "mN": 1e-3, "kN m": 1e3, "mN m": 1e-3, "N mm": 1e-3, "N cm": 1e-2,
        "kgf": 9.80665, "mA": 1e-3,
    }
)  # fmt: skip
"""SI per unit; g and mg are accelerations, kgf a force."""
ROTATIONS = {"xyzw": 4, "wxyz": 4, "rpy": 3}
"""Ways to write a rotation, and the numbers of each."""
_PICKED = re.compile(r"(?P<name>.+)\[(?P<start>\d+)(?P<range>:(?P<stop>\d+))?\]")


@final
@dataclass(frozen=True)
class Column:
    """Numbers of a log and what makes them SI in our order; see the module.

    Parameters
    ----------
    source : name of the array in the log, or some of its columns: ``NAME[2]``, ``NAME[0:3]``.
    unit : one of :data:`UNITS`; empty: SI already.
    scale : further factor: N m/A of a motor, or what a unit does not say.
    sign : one factor per column, +1 or -1; empty: all +1.
    order : which logged column stands where; empty: as logged.
    rotation : how a rotation is written, one of :data:`ROTATIONS`; empty: it is none.
    """

    source: str
    unit: str = ""
    scale: float = 1.0
    sign: tuple[float, ...] = ()
    order: tuple[int, ...] = ()
    rotation: str = ""

    def __post_init__(self) -> None:
        if self.unit and self.unit not in UNITS:
            hint = nearest_name(self.unit, tuple(UNITS))
            raise LogError(f"unknown unit {self.unit!r}; use {', '.join(UNITS)}{hint}")
        if not np.isfinite(self.scale) or self.scale == 0:
            raise LogError(f"scale must be a number other than zero, got {self.scale:g}")
        if any(abs(sign) != 1 for sign in self.sign):
            raise LogError(f"sign must hold 1 and -1 only, got {list(self.sign)}")
        if self.rotation and self.rotation not in ROTATIONS:
            hint = nearest_name(self.rotation, tuple(ROTATIONS))
            raise LogError(f"a rotation is written as {', '.join(ROTATIONS)}{hint}")

    def find(self, log: AbstractLog) -> tuple[str, slice]:
        """Array of the log, and which of its columns."""
        name, part = self.source, slice(None)
        picked = _PICKED.fullmatch(self.source)
        if name not in log.widths and picked is not None:
            start = int(picked["start"])
            stop = int(picked["stop"]) if picked["range"] else start + 1
            name, part = picked["name"], slice(start, stop)
        if name not in log.widths:
            hint = nearest_name(name, tuple(log.widths))
            raise LogError(f"{log.path}: there is no {name!r}{hint or some_names(log)}")
        width = log.widths[name]
        if part.stop is not None and not part.start < part.stop <= width:
            raise LogError(
                f"{log.path}: {name!r} has columns 0..{width - 1}, no {self.source!r}"
            )
        return name, slice(part.start or 0, width if part.stop is None else part.stop)

    def width(self, log: AbstractLog, what: str) -> int:
        """Numbers per sample that come out; LogError unless sign, order, rotation fit."""
        _, part = self.find(log)
        logged = part.stop - part.start
        for key, given in (("sign", self.sign), ("order", self.order)):
            if given and len(given) != logged:
                raise LogError(
                    f"{log.path}: {what}: {key} has {len(given)} numbers, {self.source!r} has"
                    f" {logged} columns"
                )
        if self.order and sorted(self.order) != list(range(logged)):
            raise LogError(
                f"{log.path}: {what}: order must name each of the columns 0..{logged - 1} once,"
                f" got {list(self.order)}"
            )
        if self.rotation and logged != ROTATIONS[self.rotation]:
            raise LogError(
                f"{log.path}: {what}: a rotation written as {self.rotation} has"
                f" {ROTATIONS[self.rotation]} numbers, {self.source!r} has {logged}"
            )
        return 4 if self.rotation else logged

    def made(self, content: Mapping[str, Array], log: AbstractLog) -> Array:
        """The numbers (N, width) from what was read of the log."""
        name, part = self.find(log)
        x = content[name][:, part]
        if self.sign:
            x = x * np.array(self.sign)
        if self.order:
            x = x[:, list(self.order)]
        x = x * (UNITS.get(self.unit, 1.0) * self.scale)
        if self.rotation == "wxyz":
            x = x[:, [1, 2, 3, 0]]
        elif self.rotation == "rpy":
            known = np.isfinite(x).all(axis=1)
            turned = np.full((len(x), 4), np.nan)
            turned[known] = Rotation.from_euler("xyz", x[known]).as_quat()
            x = turned
        return x


@final
@dataclass(frozen=True)
class Columns:
    """Where a log has the numbers that problems ask for; see the module.

    Parameters
    ----------
    columns : our name to where its numbers are, side by side; to nothing if they are nowhere,
        whatever the log calls by that name.
    joints : our joint names to those of the log.
    rate : samples per second of a log without time.
    """

    columns: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    joints: Mapping[str, str] = field(default_factory=dict)
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.rate is not None and not 0 < self.rate < np.inf:
            raise LogError(f"rate must be positive (Hz), got {self.rate:g}")

    def __bool__(self) -> bool:
        return bool(self.columns or self.joints or self.rate)

    def applied(self, log: AbstractLog) -> AbstractLog:
        """The log under our names."""
        return MappedLog(log, self) if self else log


@final
class MappedLog(AbstractLog):
    """A log under the names, units and orders of :class:`Columns`."""

    def __init__(self, log: AbstractLog, given: Columns) -> None:
        self.path, self.n_samples, self._log = log.path, log.n_samples, log
        self._columns: dict[str, tuple[Column, ...]] = dict(given.columns)
        self._rate = given.rate
        renamed = {theirs: ours for ours, theirs in given.joints.items()}
        used, taken = set(), []
        for name in log.widths:
            quantity, _, rest = name.partition(".")
            joint, bracket, index = rest.partition("[")
            if joint in renamed:
                used.add(joint)
                ours = f"{quantity}.{renamed[joint]}{bracket}{index}"
                self._columns.setdefault(ours, (Column(name),))
                taken.append(name)
        for theirs in renamed:
            if theirs not in used:
                known = {n.partition(".")[2].partition("[")[0] for n in log.widths} - {""}
                hint = nearest_name(theirs, tuple(known))
                raise LogError(f"{log.path}: there is nothing of a joint {theirs!r}{hint}")
        for name in taken:  # it is of that joint, also where ours of the same name has nothing
            self._columns.setdefault(name, ())
        self.widths = dict(log.widths) | {
            name: sum(part.width(log, name) for part in parts)
            for name, parts in self._columns.items()
        }
        for name, parts in self._columns.items():
            if not parts:
                self.widths.pop(name)
        if self._rate is not None:
            if "time" in self.widths:
                raise LogError(f"{log.path}: the log has times of its own; leave out rate")
            self.widths["time"] = 1

    def source_of(self, name: str) -> str:
        """What the log itself calls the first of an array's numbers."""
        return self._columns[name][0].source if name in self._columns else name

    def sources(self, names: Iterable[str]) -> set[str]:
        """Arrays of the log itself that some of ours are made of."""
        parts = (part for name in names for part in self._columns.get(name, ()))
        return {part.find(self._log)[0] for part in parts}

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, Array]:
        sources = {name: self._columns.get(name, ()) for name in names}
        wanted = {part.find(self._log)[0] for parts in sources.values() for part in parts}
        made_here = self._rate is not None
        plain = {
            n for n, parts in sources.items() if not (parts or (made_here and n == "time"))
        }
        content = self._log.read(sorted(wanted | plain), start, stop)
        found = {name: content[name] for name in plain}
        for name, parts in sources.items():
            if parts:
                found[name] = np.hstack([part.made(content, self._log) for part in parts])
        if self._rate is not None and "time" in names:
            found["time"] = (np.arange(start, stop) / self._rate)[:, None]
        return found

    def close(self) -> None:
        self._log.close()
