"""Does a log have samples that no robot gives? Looks that cost nothing, and need no model.

Placeholders for missing positions (-999, or zeros before the first message) are jumps that no
joint makes; a sensor that has died goes on with its last reading while the robot moves; one
with another clock has no reading at the times of the positions. Where readings check each other
they contradict the model; where nothing checks them, only this tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dynsys.types import Array, BoolArray
from problems.labels import own_joints
from problems.logs.samples import SampleReader, Samples, continuous_positions
from sensors import ExternalWrench, FiveAxisPlate, LoadCellPlate

__all__ = ["jumps", "seeming_faults"]

LOOKED, STRETCHES = 512, 40
"""Samples of a stretch, and stretches, that are looked at."""
FAR, FAST = 0.2, 10.0
"""Smallest jump, rad or m, and its speed, rad/s or m/s."""
FASTER = 30.0
"""A jump is so many times faster than its joint mostly is."""
PLATES = (ExternalWrench, LoadCellPlate, FiveAxisPlate)
LONG, MOVED = 20, 0.1
"""A sensor is stuck after so many samples of one reading while a joint moves, rad or m."""


def seeming_faults(reader: SampleReader) -> tuple[str, ...]:
    """What no robot gives, a sentence each; all samples are looked at, of a long log some."""
    n, starts = reader.log.n_samples, range(0, reader.log.n_samples, LOOKED)
    most = np.linspace(0, len(starts) - 1, min(len(starts), STRETCHES)).astype(np.intp)
    stretches = [reader.read(k, min(k + LOOKED, n)) for k in (starts[j] for j in most)]
    looks = (_jumps, _stuck, _absent)
    return tuple(words for look in looks for words in look(reader, stretches))


def jumps(time: Array, x: Array) -> BoolArray:
    """True (N - 1,) where the positions x (N,) of a joint jump between samples."""
    with np.errstate(invalid="ignore"):
        steps = np.abs(np.diff(x))
        speeds = steps / np.diff(time)
        usual = np.nanquantile(speeds, 0.9) if np.isfinite(speeds).any() else 0.0
        return np.asarray((steps > FAR) & (speeds > max(FAST, FASTER * usual)))


def _jumps(reader: SampleReader, stretches: Sequence[Samples]) -> Iterator[str]:
    robot, names, first = reader.robot, [], ""
    moved = [continuous_positions(robot, x.q) for x in stretches]
    for i in own_joints(robot):
        if robot.joints[i].nq != 1:
            continue
        k = robot.q_slices()[i].start
        for x, q in zip(stretches, moved, strict=True):
            found = np.flatnonzero(jumps(x.time, q[:, k]))
            if len(found):
                size = np.abs(np.diff(q[:, k])[found])  # a placeholder leaves turns in angles
                at = found[np.argmax(size > 0.5 * size.max())]
                a, b = q[at : at + 2, k]
                first = first or f"from {a:.4g} to {b:.4g} at {x.time[at + 1]:.6g} s"
                names.append(repr(robot.joint_names[i]))
                break
    if names:
        yield (
            f"q of {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}: jumps {first}: a"
            " placeholder for a missing value? Write NaN, or leave these samples out"
        )


def _stuck(reader: SampleReader, stretches: Sequence[Samples]) -> Iterator[str]:
    """Sensors that read the same to the last digit while the robot moves.

    Zero is no fault of what reads other numbers, too, or a single one, nor of a plate that
    nothing stands on: so reads what is not loaded.
    """
    layout = reader.layout
    for sensor in layout:
        if sensor.name not in reader.readings or sensor.constant(1) is not None:
            continue
        place, count, since = layout.slice(sensor.name), 0, float("nan")
        may_rest = layout.sizes[sensor.name] == 1 or isinstance(sensor, PLATES)
        may_rest |= any(np.nan_to_num(x.y[:, place]).any() for x in stretches)
        for x in stretches:
            y = x.y[:, place]
            for run in _same(y):
                loaded = y[run.start].any() or not may_rest
                if loaded and np.ptp(x.q[run], axis=0).max(initial=0.0) > MOVED:
                    since = float(x.time[run.start]) if not count else since
                    count += run.stop - run.start
        if count:
            looked = sum(len(x.time) for x in stretches)
            yield (
                f"{sensor.name}: reads the same while the robot moves, {count} of {looked}"
                f" samples looked at, from {since:.6g} s on: is it stuck?"
            )


def _absent(reader: SampleReader, stretches: Sequence[Samples]) -> Iterator[str]:
    """Sensors that the log has, but no reading of, at the times of its positions."""
    for sensor in reader.layout:
        place = reader.layout.slice(sensor.name)
        if sensor.name not in reader.readings or sensor.constant(1) is not None:
            continue
        if all(np.isnan(x.y[:, place]).all() for x in stretches):
            looked = sum(len(x.time) for x in stretches)
            yield (
                f"{sensor.name}: no reading in any of the {looked} samples looked at: has it"
                " another clock than the positions?"
            )


def _same(y: Array) -> Iterator[slice]:
    """Long runs of samples that are one and the same."""
    same = np.concatenate([[False], (y[1:] == y[:-1]).all(axis=1), [False]])
    edges = np.flatnonzero(np.diff(same.astype(np.int8)))
    for start, stop in edges.reshape(-1, 2).tolist():
        if stop - start >= LONG:
            yield slice(start, stop + 1)
