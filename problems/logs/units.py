"""Are the numbers of a log in SI, angles in rad, quaternions x y z w? Looks that cost nothing.

A wrong unit gives numbers that are impossible for the robot: joints far outside their limits, a
base upside down, gravity of 1 instead of 9.81, a sample every million seconds, velocities that
are not the slopes of the positions. :func:`doubtful_units` says so in words, with the entry of
a problem file's ``log`` section that would put it right (:mod:`problems.logs.columns`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.spatial.transform import Rotation

from dynsys.model.joints import Free
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, BoolArray
from problems.labels import own_joints
from problems.logs.columns import UNITS, MappedLog
from problems.logs.samples import SampleReader, Samples
from sensors import Accelerometer, Imu, Layout

__all__ = ["NEAR", "doubtful_units", "times_wrong"]

LOOKED, STRETCHES = 512, 4
"""Samples of a stretch, and stretches, that are looked at."""
SLOWEST = 0.4
"""Longest time between samples, s, that a log of a moving robot has."""
BEYOND, MOSTLY = 0.2, 0.05
"""Joints may leave their limits by so much, rad, in so many of the samples."""
STILL = 0.05
"""Speed, rad/s or m/s, below which a robot is at rest."""
NEAR = 1.25
"""Factor within which a number is what it should be."""
TOLD = 4.0
"""Times more squares that one explanation leaves than another that is told from it."""
UNLIKE, ALIKE = 0.3, 0.03
"""Part of its square by which a velocity is missed by one that it is not, and by itself."""


def doubtful_units(reader: SampleReader) -> tuple[str, ...]:
    """What seems to be in other units than a log's should be, a sentence each."""
    n = reader.log.n_samples
    starts = np.linspace(0, max(n - LOOKED, 0), STRETCHES).astype(np.intp)
    stretches = [reader.read(k, min(k + LOOKED, n)) for k in sorted(set(starts.tolist()))]
    robot = reader.robot
    motion = [*_time(stretches)] if "time" in reader.log.widths else []
    motion += _joints(reader, stretches)
    return (
        *motion,
        *([] if motion else _slopes(robot, stretches, reader.logged_velocities)),
        *([] if motion else _turning(robot, stretches, reader.logged_velocities)),
        *_quaternions(robot, stretches),
        *_gravity(reader.layout, stretches),
    )


def _entry(name: str, unit: str) -> str:
    return f"log: {{columns: {{{name}: {{from: {name}, unit: {unit}}}}}}}"


def _time(stretches: Sequence[Samples]) -> Iterator[str]:
    steps = np.concatenate([np.diff(x.time) for x in stretches])
    period = float(np.median(steps)) if len(steps) else 0.0
    if period > SLOWEST:
        unit = "ns" if period > 3e4 else "us" if period > 300.0 else "ms"
        rate = f"{1 / (period * UNITS[unit]):.4g} Hz"
        yield (
            f"time: a sample every {period:.4g} s; in {unit} that would be {rate}:"
            f" {_entry('time', unit)}"
        )


def _angles(robot: KinematicTree) -> Iterator[tuple[str, int]]:
    """Joints of one angle, and where it stands in q."""
    for i in own_joints(robot):
        joint = robot.joints[i]
        if joint.nq == 1 and joint.nv == 1 and joint.S[:3].any():
            yield robot.joint_names[i], robot.q_slices()[i].start


def _position_entry(reader: SampleReader, joint: str) -> str:
    """The entry that makes positions degrees: one array of all joints, or columns like its."""
    log = reader.log
    (name, *_) = reader.positions[reader.robot.joint_index(joint)].names
    source = log.source_of(name) if isinstance(log, MappedLog) else name
    more = "" if name == "q" else ", and so on"
    return f"log: {{columns: {{{name}: {{from: {source}, unit: deg}}{more}}}}}"


def _joints(reader: SampleReader, stretches: Sequence[Samples]) -> Iterator[str]:
    """Angles outside their limits, or many turns; in degrees they would be fine."""
    robot = reader.robot
    q = np.concatenate([x.q for x in stretches])
    low, high = (np.asarray(x) for x in robot.position_limits)
    limited = np.isfinite(low) | np.isfinite(high)
    low, high = (
        np.where(np.isfinite(x), x, d) for x, d in ((low, -4 * np.pi), (high, 4 * np.pi))
    )
    q = q[np.isfinite(q).all(axis=1)]
    outside = (q < low - BEYOND) | (q > high + BEYOND)
    bad = [(name, k) for name, k in _angles(robot) if outside[:, k].mean() > MOSTLY]
    if not bad:
        return
    told = [name for name, k in bad if limited[k]] or [name for name, _ in bad]
    names = ", ".join(repr(name) for name in told[:3]) + (" ..." if len(told) > 3 else "")
    where = "outside their limits" if any(limited[k] for _, k in bad) else "beyond two turns"
    share = f"{100 * max(outside[:, k].mean() for _, k in bad):.0f} % of the samples"
    turned = q * UNITS["deg"]
    fine = all(
        ((turned[:, k] >= low[k] - BEYOND) & (turned[:, k] <= high[k] + BEYOND)).mean() > 0.99
        for _, k in bad
    )
    large = max(float(np.abs(q[:, k]).max()) for _, k in bad) > 2 * np.pi
    if fine and large:
        yield (
            f"q: {names} {where} in up to {share}; in degrees they are within:"
            f" {_position_entry(reader, told[0])}"
        )
    else:
        yield f"q: {names} {where} in up to {share}: another zero, sign or joint?"


def _slopes(
    robot: KinematicTree, stretches: Sequence[Samples], logged: Sequence[int]
) -> Iterator[str]:
    """Logged velocities beside the slopes of positions."""
    single = [i for i in logged if robot.joints[i].nq == 1 == robot.joints[i].nv]
    at_q = [robot.q_slices()[i].start for i in single]
    at_v = [robot.v_slices()[i].start for i in single]
    slopes, speeds = [], []
    for x in stretches:
        steps = np.diff(x.time)[:, None]
        slopes.append((np.diff(x.q[:, at_q], axis=0) / steps).ravel())
        speeds.append((0.5 * (x.qd[1:, at_v] + x.qd[:-1, at_v])).ravel())
    times = times_wrong(np.concatenate(speeds), np.concatenate(slopes))
    if times is None:
        return
    if unit := _unit(times, ("deg/s", "rpm")):
        yield f"qd: {1 / times:.3g} times the slopes of q; in {unit}? {_entry('qd', unit)}"
    elif _unit(1 / times, ("deg",)):
        yield f"q: its slopes are {times:.3g} times qd; in degrees? {_entry('q', 'deg')}"
    else:
        yield f"qd: the slopes of q are {times:.3g} times what is logged: units, or sign?"


def _turning(
    robot: KinematicTree, stretches: Sequence[Samples], logged: Sequence[int]
) -> Iterator[str]:
    """Logged velocities of floating bases beside how these turn from sample to sample."""
    for i in (i for i in logged if isinstance(robot.joints[i], Free)):
        pose, speed = robot.q_slices()[i], robot.v_slices()[i]
        turns, speeds, places = [], [], []
        for x in stretches:
            v = 0.5 * (x.qd[1:, speed] + x.qd[:-1, speed])
            steps = np.diff(x.time)
            known = np.asarray(np.isfinite(x.q[:, pose]).all(axis=1))
            known = known[1:] & known[:-1] & np.isfinite(v).all(axis=1)
            u = x.q[:, pose][:, 3:]
            here, there = (Rotation.from_quat(part[known]) for part in (u[:-1], u[1:]))
            turns.append((here.inv() * there).as_rotvec() / steps[known, None])
            speeds.append(v[known])
            places.append(here.as_quat())
        turn, v = np.concatenate(turns), np.concatenate(speeds)
        size = float(np.sum(turn**2))
        if len(turn) < 8 or size < len(turn) * STILL**2:
            continue
        to_body = Rotation.from_quat(np.concatenate(places)).inv()
        written = {
            "": v[:, :3],
            "its linear part is first": v[:, 3:],
            "it is in axes of the world": to_body.apply(v[:, :3]),
            "its linear part is first and all in axes of the world": to_body.apply(v[:, 3:]),
        }
        missed = {words: float(np.sum((w - turn) ** 2)) / size for words, w in written.items()}
        likely = min(missed, key=lambda words: missed[words])
        if missed[""] > UNLIKE and missed[likely] < ALIKE:
            name = robot.joint_names[i]
            yield (
                f"qd: the base {name!r} turns as if {likely}; ours is angular part first, in"
                f" axes of the body: give qd by joint without qd.{name}, and it is made of q"
            )


def _quaternions(robot: KinematicTree, stretches: Sequence[Samples]) -> Iterator[str]:
    """Bases upside down that would stand upright with the real part first."""
    for i in own_joints(robot):
        if not isinstance(robot.joints[i], Free) or robot.parent[i] >= 0:
            continue
        place = robot.q_slices()[i]
        u = np.concatenate([x.q[:, place][:, 3:] for x in stretches])
        up, up_if_first = (1 - 2 * (v[0] ** 2 + v[1] ** 2) for v in (u.T, np.roll(u, -1, 1).T))
        if np.nanmedian(up) < 0.0 and np.nanmedian(up_if_first) > 0.7:
            name = robot.joint_names[i]
            entry = f"{{q.{name}: [{{from: POSITION}}, {{from: QUATERNION, as: wxyz}}]}}"
            yield (
                f"q: the base {name!r} is upside down, and upright if its quaternions have the"
                f" real part first: log: {{columns: {entry}}}"
            )


def _gravity(layout: Layout, stretches: Sequence[Samples]) -> Iterator[str]:
    """Accelerometers that feel another gravity at rest."""
    g = float(np.linalg.norm(layout.robot.gravity))
    for sensor in layout:
        if not isinstance(sensor, Accelerometer | Imu) or g == 0.0:
            continue
        start = layout.slice(sensor.name).start
        sizes = np.concatenate([_at_rest(x, start) for x in stretches])
        sizes = sizes[np.isfinite(sizes)]
        if not len(sizes):
            continue
        felt = float(np.median(sizes))
        for unit in ("g", "mg"):
            if 1 / NEAR < felt * UNITS[unit] / g < NEAR:
                entry = _entry(sensor.name, unit)
                if isinstance(sensor, Imu):  # gyroscope and all beside it keep their unit
                    name, stop = sensor.name, layout.slice(sensor.name).stop - start
                    parts = (
                        f'{{from: "{name}[0:3]", unit: {unit}}}, {{from: "{name}[3:{stop}]"}}'
                    )
                    entry = f"log: {{columns: {{{name}: [{parts}]}}}}"
                yield (
                    f"{sensor.name}: feels {felt:.3g} of gravity's {g:.3g} m/s^2 at rest; in"
                    f" {unit}? {entry}"
                )
                break
        else:
            if felt < 0.1 * g and _rests(stretches):
                yield (
                    f"{sensor.name}: feels {felt:.3g} of gravity's {g:.3g} m/s^2 at rest; is"
                    " gravity taken out of its readings?"
                )


def _still(x: Samples) -> BoolArray:
    return np.asarray((np.abs(x.qd) < STILL).all(axis=1))


def _rests(stretches: Sequence[Samples]) -> bool:
    return any(_still(x).any() for x in stretches)


def _at_rest(x: Samples, start: int) -> Array:
    """Sizes of accelerations while the robot rests; at all times if it never does."""
    some = _still(x)
    y = x.y[some] if some.any() else x.y
    return np.asarray(np.linalg.norm(y[:, start : start + 3], axis=1))


# ---- factors -------------------------------------------------------------------------------


def times_wrong(given: Array, expected: Array) -> float | None:
    """Factor by which numbers (N,) or (N, k) would have to be larger to be what is expected.

    None if they are about right, no multiple of it, or off by constants as well: a factor is
    told from an offset by numbers that change, or by several columns that share it.
    """
    known = np.isfinite(given) & np.isfinite(expected)
    a, b = given[known], expected[known]
    size_a, size_b, product = float(a @ a), float(b @ b), float(a @ b)
    if len(a) < 8 or size_a == 0.0 or size_b == 0.0:
        return None
    if abs(product) < 0.9 * np.sqrt(size_a * size_b):
        return None
    off, there = (x.reshape(len(given), -1) for x in (given - expected, known))
    by_column = [off[there[:, k], k] for k in range(off.shape[1]) if there[:, k].any()]
    left_by_offsets = sum(len(x) * float(x.var()) for x in by_column)
    left = min(size_a, size_b) - product**2 / max(size_a, size_b)
    if left > left_by_offsets * (TOLD if len(by_column) > 1 else 1.0 / TOLD):
        return None
    times = product / size_a
    return None if 1 / NEAR < times < NEAR else times


def _unit(times: float, units: Sequence[str]) -> str:
    """The unit whose factor this is, '' if none is."""
    return next((u for u in units if abs(np.log(abs(times) / UNITS[u])) < np.log(NEAR)), "")
