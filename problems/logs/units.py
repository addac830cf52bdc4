"""Are the numbers of a log in SI, angles in rad, quaternions x y z w? Looks that cost nothing.

A wrong unit gives numbers that are impossible for the robot: joints far outside their limits, a
base upside down, gravity of 1 instead of 9.81, a sample every million seconds, velocities that
are not the slopes of the positions. :func:`doubtful_units` says so in words, with the entry of
a problem file's ``log`` section that would put it right (:mod:`problems.logs.columns`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.spatial.transform import Rotation

from dynsys.model.joints import Free
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, BoolArray
from problems.labels import moved_by, own_joints
from problems.logs.align import WIDEST_GAP, WRAP
from problems.logs.columns import UNITS, MappedLog
from problems.logs.faults import jumps
from problems.logs.samples import SampleReader, Samples, continuous_positions
from problems.measured.multiples import NEAR, times_wrong
from sensors import Accelerometer, Imu, JointAcceleration, Layout

__all__ = ["doubtful_units"]

LOOKED, STRETCHES = 512, 4
"""Samples of a stretch, and stretches, that are looked at."""
SLOWEST = 0.4
"""Longest time between samples, s, that a log of a moving robot has."""
BEYOND, MOSTLY = 0.2, 0.05
"""Joints may leave their limits by so much, rad, in so many of the samples."""
ONE_WAY = 0.9
"""Part of its whole way by which a joint that turns on and on gets on."""
STILL = 0.05
"""Speed, rad/s or m/s, below which a robot is at rest."""
MOVES, STUCK = 0.05, 0.01
"""Motion, rad or m, from which velocities are judged; the part of it that is none."""
TOLD, DRIFT = 4.0, 2.0
"""Size of integrals, in those of noise, from which they tell; factor they still may have."""
ALIKE = 0.5
"""Correlation below which velocities are not those of the positions."""
UNLIKE, LIKE = 0.3, 0.03
"""Part of its square by which a velocity is missed by one that it is not, and by itself."""
ASKEW, BETTER = 0.003, 0.1
"""Part of its square by which a base's way is missed in axes turned by 3 degrees; and the part
of that by which other axes must miss it to be the right ones."""


def doubtful_units(reader: SampleReader) -> tuple[str, ...]:
    """What seems to be in other units than a log's should be, a sentence each."""
    n = reader.log.n_samples
    starts = np.linspace(0, max(n - LOOKED, 0), STRETCHES).astype(np.intp)
    stretches = [reader.read(k, min(k + LOOKED, n)) for k in sorted(set(starts.tolist()))]
    robot = reader.robot
    motion = [*_time(stretches)] if "time" in reader.log.widths else []
    motion += _joints(reader, stretches)
    motion = motion or [*_slopes(reader, stretches)]
    return (
        *motion,
        *([] if motion else _bases(robot, stretches, reader.logged_velocities)),
        *([] if motion else _accelerations(reader, stretches)),
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


def _motion_entry(
    reader: SampleReader, quantity: str, joint: int, unit: str, all_joints: bool
) -> str:
    """The entry that makes q or qd of a joint, or of all, have a unit; columns like its."""
    log, sources = reader.log, reader.positions if quantity == "q" else reader.velocities
    source, own = sources[joint], f"{quantity}.{reader.robot.joint_names[joint]}"
    (name, *_) = source.names
    theirs = log.source_of(name) if isinstance(log, MappedLog) else name
    if source.part is None:
        more = ", and so on" if all_joints and len(sources) > 1 else ""
        return f"log: {{columns: {{{name}: {{from: {theirs}, unit: {unit}}}{more}}}}}"
    if all_joints:
        return f"log: {{columns: {{{name}: {{from: {theirs}, unit: {unit}}}}}}}"
    part = f'"{theirs}[{source.part.start}]"'
    return f"log: {{columns: {{{own}: {{from: {part}, unit: {unit}}}}}}}"


def _joints(reader: SampleReader, stretches: Sequence[Samples]) -> Iterator[str]:
    """Angles outside their limits, or many turns to and fro; in degrees they would be fine."""
    robot = reader.robot
    q = np.concatenate([x.q for x in stretches])
    low, high = (np.asarray(x) for x in robot.position_limits)
    limited = np.isfinite(low) | np.isfinite(high)
    low, high = (
        np.where(np.isfinite(x), x, d) for x, d in ((low, -4 * np.pi), (high, 4 * np.pi))
    )
    q = q[np.isfinite(q).all(axis=1)]
    outside = (q < low - BEYOND) | (q > high + BEYOND)
    found = [(name, k) for name, k in _angles(robot) if outside[:, k].mean() > MOSTLY]
    bad = [(name, k) for name, k in found if limited[k]] or [
        (name, k) for name, k in found if not _may_turn(reader, name, stretches)
    ]
    if not bad:
        return
    names = ", ".join(repr(name) for name, _ in bad[:3]) + (" ..." if len(bad) > 3 else "")
    where = "outside their limits" if limited[bad[0][1]] else "beyond two turns"
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
            f" {_motion_entry(reader, 'q', robot.joint_index(bad[0][0]), 'deg', True)}"
        )
    else:
        yield f"q: {names} {where} in up to {share}: another zero, sign or joint?"


def _may_turn(reader: SampleReader, name: str, stretches: Sequence[Samples]) -> bool:
    """True of a joint without limits whose angles, however large, say nothing of their unit.

    A wheel turns on and on: its logged velocities are the slopes of its angles or, without
    them, its angles go one way. Neither faster than the robot's file allows, nor with jumps of
    360 from sample to sample.
    """
    robot = reader.robot
    joint = robot.joint_index(name)
    pairs = _motion_of(robot, joint, stretches)
    (fastest,) = robot.velocity_limit[robot.v_slices()[joint]]
    time, first = np.unique(np.concatenate([t for t, _, _ in pairs]), return_index=True)
    x = np.concatenate([x for _, x, _ in pairs])[first]
    time, x = time[np.isfinite(x)], x[np.isfinite(x)]
    jumped = np.concatenate([np.abs(np.diff(x)) for _, x, _ in pairs])
    if (np.abs(jumped - 360.0) < 360.0 * (1 - WRAP)).any():
        return False
    steps, periods = np.diff(x[::8]), np.diff(time[::8])  # noise of encoders hardly matters
    if (np.abs(steps) > fastest * periods).sum() > MOSTLY * len(steps):
        return False
    if joint in reader.velocities:
        return not _misfit(*_moved(pairs, 0))[0]
    return float(abs(steps.sum())) >= ONE_WAY * float(np.abs(steps).sum())


def _slopes(reader: SampleReader, stretches: Sequence[Samples]) -> Iterator[str]:
    """Logged velocities beside the motion of the positions, joint by joint."""
    robot = reader.robot
    found: dict[str, list[tuple[int, float]]] = {}
    for i in reader.logged_velocities:
        if robot.joints[i].nq == 1 == robot.joints[i].nv:
            path, travel = _moved(_motion_of(robot, i, stretches), 0)
            if max(_span(path), _span(travel)) > MOVES:
                what, times = _misfit(path, travel)
                found.setdefault(what, []).append((i, times))
    judged = sum(map(len, found.values()))
    for what, joints in found.items():
        first, times = joints[0][0], float(np.median([t for _, t in joints]))
        all_do = len(joints) == judged
        names = [repr(robot.joint_names[i]) for i, _ in joints]
        of = "" if all_do else f" of {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}"
        if what in ("deg/s", "rpm"):
            entry = _motion_entry(reader, "qd", first, what, all_do)
            yield f"qd{of}: {1 / times:.3g} times the slopes of q; in {what}? {entry}"
        elif what == "deg":
            entry = _motion_entry(reader, "q", first, what, all_do)
            yield f"q{of}: its slopes are {times:.3g} times qd; in degrees? {entry}"
        elif what == "factor":
            off = f"{times:.3g} times what is logged"
            yield f"qd{of}: the slopes of q are {off}: units, or sign?"
        elif what:
            yield what.format(of=of)


def _accelerations(reader: SampleReader, stretches: Sequence[Samples]) -> Iterator[str]:
    """Accelerations of joints that are logged beside the changes of their velocities.

    Offsets are theirs to have; what hardly moves, or is mostly noise, is not judged.
    """
    robot, layout = reader.robot, reader.layout
    found: dict[str, list[tuple[str, float]]] = {}
    for sensor in layout:
        if not isinstance(sensor, JointAcceleration) or sensor.constant(1) is not None:
            continue
        row = layout.slice(sensor.name)
        joint, ratio = moved_by(robot, robot.joint_index(sensor.joint))
        freedoms = robot.v_slices()[joint]
        given = sensor.name in reader.readings or joint in reader.given_accelerations
        if not given or freedoms.stop - freedoms.start != 1:
            continue
        pairs = [
            (x.time, ratio * x.qd[:, freedoms.start], x.y[:, row.start]) for x in stretches
        ]
        path, travel = _moved(pairs, 1)
        size = float(np.sqrt(np.mean(travel**2))) if len(travel) else 0.0
        if max(_span(path), _span(travel)) > MOVES and size > TOLD * _drift(pairs):
            times = times_wrong(travel, path)
            if times is not None and not 1 / DRIFT < times < DRIFT:
                unit = _unit(times, ("deg/s^2",)) if times > 0 else ""
                found.setdefault(unit, []).append((sensor.name, times))
    for unit, sensors in found.items():
        names, times = [name for name, _ in sensors], float(np.median([t for _, t in sensors]))
        of = f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''}"
        if unit:
            entry = _entry(names[0], unit)
            yield f"{of}: {1 / times:.3g} times the slopes of qd; in {unit}? {entry}"
        else:
            off = f"{times:.3g} times what is logged"
            yield f"{of}: the slopes of qd are {off}: units, or sign?"


def _drift(pairs: Sequence[tuple[Array, Array, Array]]) -> float:
    """Size that integrals of rates about their straight lines have of white noise alone."""
    longest = max(len(time) for time, _, _ in pairs)
    steps = np.concatenate([np.diff(time) for time, _, _ in pairs])
    changes = np.concatenate([np.diff(rate[np.isfinite(rate)]) for _, _, rate in pairs])
    noise = float(np.sqrt(np.mean(changes**2) / 2)) if len(changes) else np.inf
    return noise * float(np.median(steps)) * float(np.sqrt(longest / 15))


def _motion_of(
    robot: KinematicTree, joint: int, stretches: Sequence[Samples]
) -> list[tuple[Array, Array, Array]]:
    """Times, positions and velocities of a joint, stretch by stretch."""
    at_q, at_v = robot.q_slices()[joint].start, robot.v_slices()[joint].start
    return [
        (x.time, continuous_positions(robot, x.q)[:, at_q], x.qd[:, at_v]) for x in stretches
    ]


def _moved(pairs: Sequence[tuple[Array, Array, Array]], degree: int) -> tuple[Array, Array]:
    """Numbers, and the integrals of their rates, each about its polynomial of a low degree.

    Noise and steps of encoders, which fill slopes, hardly matter to these. ``pairs`` are times,
    numbers and rates of stretches.
    """
    paths, travels = [np.zeros(0)], [np.zeros(0)]
    for time, x, rate in pairs:
        known = np.isfinite(x) & np.isfinite(rate)
        x, rate, time = x[known], rate[known], time[known]
        steps = np.diff(time)
        cuts = (steps > WIDEST_GAP * np.median(steps)) | jumps(time, x) if len(steps) else steps
        for piece in np.split(np.arange(len(x)), np.flatnonzero(cuts) + 1):
            if len(piece) > degree:
                t = time[piece] - time[piece].mean()
                travel = cumulative_trapezoid(rate[piece], t, initial=0)
                both = np.column_stack([x[piece], travel])
                V = t[:, None] ** np.arange(degree + 1)
                both = both - V @ np.linalg.lstsq(V, both, rcond=None)[0]
                paths.append(both[:, 0])
                travels.append(both[:, 1])
    return np.concatenate(paths), np.concatenate(travels)


def _span(x: Array) -> float:
    return float(np.ptp(x)) if len(x) else 0.0


def _misfit(path: Array, travel: Array) -> tuple[str, float]:
    """What is wrong with velocities: their unit, ``factor``, or a sentence; '' if nothing."""
    if _span(travel) < STUCK * _span(path):
        return "qd{of}: stands still while q moves", 0.0
    if _span(path) < STUCK * _span(travel):
        return "q{of}: stands still while qd says that it moves: a stuck encoder?", 0.0
    times = times_wrong(travel, path)
    if times is not None:
        unit = _unit(times, ("deg/s", "rpm")) or ("deg" if _unit(1 / times, ("deg",)) else "")
        return (unit if times > 0 and unit else "factor"), times
    alike = float(path @ travel) / float(np.linalg.norm(path) * np.linalg.norm(travel))
    if alike < ALIKE and min(_span(path), _span(travel)) > MOVES:
        return "qd{of}: not the slopes of q: another joint's, or another clock?", 0.0
    return "", 0.0


def _bases(
    robot: KinematicTree, stretches: Sequence[Samples], logged: Sequence[int]
) -> tuple[str, ...]:
    """Floating bases that turn, or else move, otherwise than is logged."""
    turning = tuple(_turning(robot, stretches, logged))
    return turning or tuple(_travelling(robot, stretches, logged))


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
        if missed[""] > UNLIKE and missed[likely] < LIKE:
            yield _base_entry(robot.joint_names[i], f"turns as if {likely}")


def _base_entry(name: str, how: str) -> str:
    return (
        f"qd: the base {name!r} {how}; ours is angular part first, in axes of the body: give qd"
        f" by joint without qd.{name}, and it is made of q"
    )


def _travelling(
    robot: KinematicTree, stretches: Sequence[Samples], logged: Sequence[int]
) -> Iterator[str]:
    """Logged velocities of floating bases beside the ways that these make: dp/dt = R v."""
    for i in (i for i in logged if isinstance(robot.joints[i], Free)):
        pose, speed = robot.q_slices()[i], robot.v_slices()[i]
        moved: dict[str, list[Array]] = {}
        ways: list[Array] = []
        for x in stretches:
            known = np.isfinite(np.hstack([x.q[:, pose], x.qd[:, speed]])).all(axis=1)
            time, q, v = x.time[known], x.q[known, pose], x.qd[known, speed]
            to_world = Rotation.from_quat(q[:, 3:])
            written = {
                "": to_world.apply(v[:, 3:]),
                "its linear part is in axes of the world": v[:, 3:],
                "its linear part is first": to_world.apply(v[:, :3]),
                "its linear part is first and in axes of the world": v[:, :3],
            }
            for words, rates in written.items():
                pairs = [_moved([(time, q[:, k], rates[:, k])], 0) for k in range(3)]
                moved.setdefault(words, []).extend(way - travel for way, travel in pairs)
            ways += [way for way, _ in pairs]
        size = float(sum(way @ way for way in ways))
        if max(map(_span, ways), default=0.0) < MOVES:
            continue
        missed = {words: sum(off @ off for off in offs) / size for words, offs in moved.items()}
        likely = min(missed, key=lambda words: missed[words])
        if missed[""] > ASKEW and missed[likely] < BETTER * missed[""]:
            yield _base_entry(robot.joint_names[i], f"moves as if {likely}")


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


def _unit(times: float, units: Sequence[str]) -> str:
    """The unit whose factor this is, '' if none is."""
    return next((u for u in units if abs(np.log(abs(times) / UNITS[u])) < np.log(NEAR)), "")
