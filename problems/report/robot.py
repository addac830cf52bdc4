"""The robot of a report: its tree, where its bodies are, where its sensors sit.

:func:`robot_part` collects it; two pictures show it, the skeleton from two sides and the tree
with a row per body, with the sensors or with the uncertainty of the torques.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.tree import KinematicTree
from dynsys.system.equations import Kinematics
from dynsys.types import Array
from problems.report.markup import (
    count,
    figure,
    listed,
    number,
    picture,
    symbol,
    symbol_legend,
    text,
)
from sensors import AbstractSensor, Layout
from sensors.mounting import Mount

__all__ = ["JointDeviation", "RobotPart", "robot_part", "robot_section", "skeletons", "tree"]

FAMILIES = {
    "inertial": "inertial unit, accelerometer or gyroscope",
    "force": "force/torque sensor in the structure",
    "external": "external wrench: plate, load cells, known force",
    "torque": "joint torque",
    "encoder": "joint acceleration (encoder)",
    "other": "other measurement",
}
"""Kinds of symbols, in words."""

_FAMILY = {
    kind: family
    for family, kinds in {
        "inertial": "imu accelerometer gyroscope angular_accelerometer",
        "force": "force_torque",
        "external": "external_wrench load_cell_plate five_axis_plate pure_force"
        " force_along_direction",
        "torque": "joint_torque motor_torque",
        "encoder": "joint_acceleration motor_acceleration",
    }.items()
    for kind in kinds.split()
}


@final
@dataclass(frozen=True)
class BodyPart:
    """One body: its place in the tree; its origin and centre of mass (m, base coordinates)."""

    name: str
    parent: int
    joint: str
    joint_kind: str
    freedoms: int
    mass: float
    depth: int
    position: tuple[float, float, float]
    centre: tuple[float, float, float]


@final
@dataclass(frozen=True)
class SensorPart:
    """One sensor: body -1 where it belongs to the robot as a whole; position in m."""

    name: str
    kind: str
    family: str
    body: int
    position: tuple[float, float, float] | None
    readings: int
    noise: str


@final
@dataclass(frozen=True)
class RobotPart:
    """Tree, masses, sensors; ``statements`` are exact knowledge, in words."""

    name: str
    n_bodies: int
    nq: int
    nv: int
    mass: float
    gravity: tuple[float, float, float]
    posture: str
    bodies: list[BodyPart]
    sensors: list[SensorPart]
    statements: list[str]


def robot_part(
    robot: KinematicTree, layout: Layout | None, q: Array | None = None, posture: str = ""
) -> RobotPart:
    """Describe a robot at a posture; by default the neutral one, within the joint limits."""
    if q is None:
        lower, upper = robot.position_limits
        q, posture = np.clip(robot.neutral(), lower, upper), "neutral posture"
    kin = Kinematics.at(robot, q, np.zeros(robot.nv))
    depth: list[int] = []
    bodies = []
    for i, body in enumerate(robot.bodies):
        depth.append(0 if body.parent < 0 else depth[body.parent] + 1)
        freedoms = body.joint.nv if body.coupling is None else 0
        kind = body.joint.kind if body.coupling is None else f"{body.joint.kind}, coupled"
        bodies.append(
            BodyPart(
                body.name, body.parent, robot.joint_names[i], kind, freedoms,
                float(body.inertia.mass), depth[-1], _point(kin.poses[i].r),
                _point(kin.poses[i].point(body.inertia.com)),
            )
        )  # fmt: skip
    measuring = [s for s in layout or () if s.constant(1) is None]
    return RobotPart(
        robot.name, robot.n_bodies, robot.nq, robot.nv, robot.total_mass,
        _point(robot.gravity), posture, bodies,
        [_sensor(layout, sensor, kin) for sensor in measuring if layout is not None],
        [] if layout is None else _statements(layout),
    )  # fmt: skip


def _point(r: Any) -> tuple[float, float, float]:
    x, y, z = np.asarray(r, dtype=np.float64).tolist()
    return x, y, z


def _sensor(layout: Layout, sensor: AbstractSensor, kin: Kinematics) -> SensorPart:
    robot, place = layout.robot, layout.slice(sensor.name)
    std = np.sqrt(layout.covariance().diagonal()[place])
    body, position = _place(robot, sensor, kin)
    return SensorPart(
        sensor.name, sensor.kind, _FAMILY.get(sensor.kind, "other"), body, position,
        layout.sizes[sensor.name], _noise(std, layout.units[place]),
    )  # fmt: skip


def _noise(std: Array, units: tuple[str, ...]) -> str:
    """Standard deviations by unit, each once: ``0.1 N m, 1 N``."""
    parts: dict[str, None] = {}
    for value, unit in zip(std.tolist(), units, strict=True):
        parts[f"{value:.3g} {unit}" if value else "exact"] = None
    return ", ".join(parts)


def _place(
    robot: KinematicTree, sensor: AbstractSensor, kin: Kinematics
) -> tuple[int, tuple[float, float, float] | None]:
    """Body and point (base coordinates) of a sensor; -1 and None: the robot as a whole."""
    frame = getattr(sensor, "frame", None)
    joint = getattr(sensor, "joint", getattr(sensor, "at", None))
    xyz = getattr(sensor, "xyz", (0.0, 0.0, 0.0))
    if frame is None and joint in robot.joint_names:
        frame = robot.joint_index(str(joint))
    elif frame is None and joint is not None:
        frame = robot.frame(str(joint)).body if joint not in robot.frames else str(joint)
    if frame is None:
        return -1, None
    try:
        mount = Mount.of(robot, frame, xyz)
    except ModelError:
        return -1, None
    return mount.body, _point(mount.pose(kin).r)


def _statements(layout: Layout) -> list[str]:
    """Exact knowledge of a layout, one line per kind."""
    kinds = Counter(s.kind for s in layout if s.constant(1) is not None)
    words = {
        "external_wrench": "no external wrench, or a known one, on {} {bodies}",
        "joint_torque": "known torque of {} {joints} (a free base has none)",
        "joint_acceleration": "known acceleration of {} {joints}",
        "rigid_contact": "{} rigid {contacts}",
    }
    found = []
    for kind, n in kinds.items():
        line = words.get(kind, "{} statement(s) of kind " + kind)
        for one, more in (("body", "bodies"), ("joint", "joints"), ("contact", "contacts")):
            line = line.replace(f"{{{more}}}", one if n == 1 else more)
        found.append(line.format(n))
    return found


# ---- section -----------------------------------------------------------------------------


def robot_section(r: RobotPart) -> str:
    """Skeleton and tree with the sensors, exact knowledge in words."""
    families = {s.family for s in r.sensors}
    words = [(family, w) for family, w in FAMILIES.items() if family in families]
    hint = " Symbols are where the sensors sit; point at one for its noise." if words else ""
    sensors = ""
    if r.sensors:
        readings = count(sum(s.readings for s in r.sensors))
        sensors = f" {count(len(r.sensors))} sensors give {readings} readings per sample."
    parts = [
        f"<p>{count(r.n_bodies)} bodies, {count(r.nv)} freedoms, {number(r.mass, 4)} kg."
        f"{sensors}</p>",
        figure(
            skeletons(r) + symbol_legend(words),
            f"Skeleton in the {text(r.posture)}; lines join the origins of the bodies, circles"
            f" are joints.{hint}",
        ),
        figure(
            tree(r, label=f"tree of {r.n_bodies} bodies with joints and sensors"),
            "The tree, from the base outwards, with joints"
            + (" and sensors." if words else "."), "tall",
        ),
    ]  # fmt: skip
    if r.statements:
        parts.append(f"<p>Known without a sensor:</p>{listed(map(text, r.statements))}")
    whole = [s for s in r.sensors if s.body < 0]
    if whole:
        names = ", ".join(f"{text(s.name)} ({text(s.kind)})" for s in whole)
        parts.append(f"<p>On the robot as a whole: {names}.</p>")
    return "".join(parts)


# ---- skeleton from two sides -------------------------------------------------------------


@final
@dataclass(frozen=True)
class JointDeviation:
    """Deviation of one joint's torque over postures: median, 10% and 90%; zero: exact.

    None: not determined at most of them; ``missing`` is the part at which it is not. Of a
    joint with several freedoms: the largest.
    """

    joint: str
    body: int
    unit: str
    median: float | None
    low: float | None
    high: float | None
    missing: float = 0.0

    @property
    def words(self) -> str:
        """Median with its unit, or why there is none."""
        if self.median is None:
            return "not determined"
        small = 0.0 < self.median < 1e-3
        size = f"{1e3 * self.median:.2g} m" if small else f"{self.median:.2g} "
        words = f"{size}{self.unit}" if self.median else "exact"
        return f"{words} (open in {max(100 * self.missing, 1):.0f}%)" if self.missing else words


HEIGHT, WIDEST, MARGIN = 460.0, 480.0, 34.0


def skeletons(robot: RobotPart, deviations: Sequence[JointDeviation] = ()) -> str:
    """Two views of the robot at its posture, from the front and from the side.

    With ``deviations`` the joints are discs whose area grows with the torque's deviation.
    """
    points = np.array([body.position for body in robot.bodies])
    up = int(np.argmax(np.abs(robot.gravity)))
    across = [k for k in (1, 0, 2) if k != up]
    sign = -1.0 if robot.gravity[up] > 0 else 1.0
    views = (
        _view(robot, points, (axis, up), sign, word, deviations)
        for axis, word in zip(across, ("from the front", "from the side"), strict=True)
    )
    return f'<div class="views">{"".join(views)}</div>'


def _view(
    robot: RobotPart,
    points: Any,
    axes: tuple[int, int],
    sign: float,
    word: str,
    deviations: Sequence[JointDeviation],
) -> str:
    sensors = [s for s in robot.sensors if s.position is not None]
    ends = [_end(body) for body in robot.bodies]
    ends += [(0.0, 0.0, 0.0)] if _fixed(robot.bodies) else []
    everything = np.array([*points, *ends, *(s.position for s in sensors)])[:, axes]
    low, high = everything.min(axis=0), everything.max(axis=0)
    span = np.maximum(high - low, 0.15 * max(float((high - low).max()), 1e-3))
    scale = min((HEIGHT - 2 * MARGIN) / span[1], (WIDEST - 2 * MARGIN) / span[0])
    width = span[0] * scale + 2 * MARGIN
    height = span[1] * scale + 2 * MARGIN
    middle = (low + high) / 2

    def place(point: Any) -> tuple[float, float]:
        x = width / 2 + (1.0 if axes[0] != 1 else -1.0) * (point[axes[0]] - middle[0]) * scale
        return float(x), float(height / 2 - sign * (point[axes[1]] - middle[1]) * scale)

    parts = [_links(robot.bodies, place), _base(robot.bodies, place)]
    parts.append(_joints(robot, place, deviations))
    if not deviations:
        parts.append(_symbols(sensors, place))
    parts.append(_ruler(scale, width, height))
    what = "joints sized by uncertainty" if deviations else f"{count(len(sensors))} sensors"
    title = f"{robot.name} {word}, {robot.posture}: {len(robot.bodies)} bodies, {what}"
    return (
        f'<svg class="skeleton" viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:'
        f'{width:.0f}px" role="img" aria-label="{text(title)}">{"".join(parts)}'
        f'<text class="view" x="{width / 2:.0f}" y="16">{word}</text></svg>'
    )


def _links(bodies: Sequence[BodyPart], place: Any) -> str:
    """Lines from parents to children; of the last bodies, past their centres of mass."""
    pairs = [(bodies[b.parent].position, b.position) for b in bodies if b.parent >= 0]
    parents = {body.parent for body in bodies}
    pairs += [(b.position, _end(b)) for i, b in enumerate(bodies) if i not in parents]
    lines = []
    for start, end in pairs:
        (x1, y1), (x2, y2) = place(start), place(end)
        lines.append(f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}")
    return f'<path class="link" d="{"".join(lines)}"/>'


def _fixed(bodies: Sequence[BodyPart]) -> bool:
    """True if the robot is bolted to the base."""
    return any(body.parent < 0 and body.freedoms < 6 for body in bodies)


def _base(bodies: Sequence[BodyPart], place: Any) -> str:
    """Where a robot is bolted down: a hatched line, joined to its first bodies."""
    if not _fixed(bodies):
        return ""
    x, y = place((0.0, 0.0, 0.0))
    roots = [place(body.position) for body in bodies if body.parent < 0]
    lines = "".join(f"M{x:.1f} {y:.1f}L{a:.1f} {b:.1f}" for a, b in roots)
    hatch = "".join(f"M{x + k:.1f} {y:.1f}l-6 7" for k in (-12, -4, 4, 12))
    return (
        f'<path class="link" d="{lines}"/>'
        f'<path class="axis" d="M{x - 16:.1f} {y:.1f}h32{hatch}"><title>base</title></path>'
    )


def _end(body: BodyPart) -> tuple[float, float, float]:
    """Point as far beyond the centre of mass as that is from the origin."""
    x, y, z = (2 * c - p for c, p in zip(body.centre, body.position, strict=True))
    return x, y, z


def _joints(robot: RobotPart, place: Any, deviations: Sequence[JointDeviation]) -> str:
    by_body = {d.body: d for d in deviations}
    largest = max((d.median or 0.0 for d in deviations), default=0.0) or 1.0
    parts = []
    for i, body in enumerate(robot.bodies):
        x, y = place(body.position)
        d = by_body.get(i)
        if d is None:
            parts.append(
                f'<circle class="joint" cx="{x:.1f}" cy="{y:.1f}" r="2.6"><title>'
                f"{text(body.joint)} ({text(body.joint_kind)}), body {text(body.name)},"
                f" {number(body.mass)} kg</title></circle>"
            )
        elif d.median is None:
            parts.append(
                f'<path class="open" d="M{x - 5:.1f} {y - 5:.1f}l10 10m0-10l-10 10"><title>'
                f"{text(d.joint)}: not determined</title></path>"
            )
        else:
            radius = 2.0 + 12.0 * (d.median / largest) ** 0.5
            parts.append(
                f'<circle class="disc" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"><title>'
                f"{text(d.joint)}: {text(d.words)}</title></circle>"
            )
    return "".join(parts)


def _symbols(sensors: Sequence[SensorPart], place: Any) -> str:
    """One symbol for all sensors of a family at a point; families side by side."""
    groups: dict[tuple[int, int], dict[str, list[SensorPart]]] = defaultdict(dict)
    for sensor in sensors:
        x, y = place(sensor.position)
        found = groups[round(x / 8), round(y / 8)]
        found.setdefault(sensor.family, []).append(sensor)
    parts = []
    for families in groups.values():
        x, y = place(next(iter(families.values()))[0].position)
        others = [family for family in families if family != "encoder"]
        if "encoder" in families and not others:
            others = ["encoder"]
        for k, family in enumerate(others):
            names = [
                f"{s.name}: {s.kind.replace('_', ' ')}, {s.noise}" for s in families[family]
            ]
            if family == "torque" and "encoder" in families:
                names += [f"{s.name}: {s.noise}" for s in families["encoder"]]
            at = x + 12.0 * (k - (len(others) - 1) / 2)
            parts.append(symbol(family, at, y, "; ".join(names)))
    return "".join(parts)


def _ruler(scale: float, width: float, height: float) -> str:
    """Bar of a round length."""
    length = 10.0 ** np.floor(np.log10(90.0 / scale))
    length = max(length * k for k in (1, 2, 5) if length * k * scale <= 90.0 or k == 1)
    x, y = width - MARGIN / 2 - length * scale, height - 8
    return (
        f'<path class="axis" d="M{x:.1f} {y - 4:.1f}v4h{length * scale:.1f}v-4"/>'
        f'<text class="ruler" x="{x + length * scale / 2:.1f}" y="{y - 6:.1f}">'
        f"{length:g} m</text>"
    )


# ---- tree, a row per body ----------------------------------------------------------------


ROW, INDENT, DEEPEST = 21.0, 13.0, 13
"""Height of a row, indent per level, levels until indents shrink."""
LETTER = 6.8
"""About the width of a letter."""
JOINT_SENSORS = ("torque", "encoder")
"""Families whose sensors are named by their joint."""


def tree(
    robot: RobotPart, deviations: Sequence[JointDeviation] | None = None, label: str = ""
) -> str:
    """The tree, a row per body: names, then sensors or bars of deviations."""
    bodies, last = robot.bodies, _order(robot.bodies)
    rows = {body: k for k, body in enumerate(last)}
    deepest = max(body.depth for body in bodies)
    indent = INDENT * min(1.0, DEEPEST / max(deepest, 1))
    left = 14.0 + indent * deepest + 7.0 * max(len(b.name) for b in bodies) + 10.0
    joint_width = 7.0 * max(len(b.joint) for b in bodies) + 14.0
    start = left + joint_width
    sensors, end = _tree_sensors(robot, rows, start)
    width = max(980.0, start + 330.0, 0.0 if deviations is not None else end)
    height = ROW * (len(bodies) + 1) + 6.0
    words = "sensors, standard deviations" if robot.sensors else ""
    if deviations is not None:
        words = "standard deviation of the torque (or force)"
    parts = [
        f'<text class="head" x="6" y="{ROW * 0.65}">body</text>'
        f'<text class="head" x="{left:.0f}" y="{ROW * 0.65}">joint</text>'
        f'<text class="head" x="{start:.0f}" y="{ROW * 0.65}">{words}</text>'
        f'<path class="rule" d="M0 {ROW}H{width:.0f}"/>'
    ]
    parts += [
        f'<rect class="stripe" x="0" y="{ROW * (k + 1):.1f}" width="100%" height="{ROW}"/>'
        for k in range(0, len(bodies), 2)
    ]
    for i, body in enumerate(bodies):
        y = ROW * (rows[i] + 1.5)
        x = 10.0 + indent * body.depth
        if body.parent >= 0:
            px, py = x - indent, ROW * (rows[body.parent] + 1.5)
            parts.append(f'<path class="branch" d="M{px:.1f} {py + 4:.1f}V{y:.1f}H{x:.1f}"/>')
        parts.append(_row(body, x, y, left))
    if deviations is None:
        parts.append(sensors)
    else:
        parts.append(_bars(deviations, rows, start, width))
    return picture("tree", width, height, parts, label, least=min(width, 720))


def _order(bodies: Sequence[BodyPart]) -> list[int]:
    """Bodies depth first: every branch in one piece."""
    children: Mapping[int, list[int]] = defaultdict(list)
    for i, body in enumerate(bodies):
        children[body.parent].append(i)
    found: list[int] = []
    waiting = children[-1][::-1]
    while waiting:
        found.append(waiting.pop())
        waiting += reversed(children[found[-1]])
    return found


def _row(body: BodyPart, x: float, y: float, left: float) -> str:
    return (
        f"<g><title>body {text(body.name)}: {number(body.mass)} kg; joint"
        f" {text(body.joint)} ({text(body.joint_kind)}), {body.freedoms} freedom(s)</title>"
        f'<circle class="node" cx="{x:.1f}" cy="{y:.1f}" r="3.4"/>'
        f'<text x="{x + 8:.1f}" y="{y + 4:.1f}">{text(body.name)}</text>'
        f'<text class="quiet" x="{left:.1f}" y="{y + 4:.1f}">{text(body.joint)}</text></g>'
    )


def _tree_sensors(robot: RobotPart, rows: Mapping[int, int], start: float) -> tuple[str, float]:
    """Symbol, name (where it is not the joint's) and noise of sensors; where they end."""
    by_body: dict[int, list[SensorPart]] = defaultdict(list)
    for sensor in robot.sensors:
        if sensor.body >= 0:
            by_body[sensor.body].append(sensor)
    parts, end = [], start
    for body, sensors in by_body.items():
        x, y = start + 6.0, ROW * (rows[body] + 1.5)
        for sensor in sorted(sensors, key=lambda s: s.family not in JOINT_SENSORS):
            words = f"{sensor.kind.replace('_', ' ')}, {sensor.noise}"
            parts.append(symbol(sensor.family, x, y, f"{sensor.name}: {words}"))
            x += 10.0
            if sensor.family not in JOINT_SENSORS:
                parts.append(f'<text x="{x:.1f}" y="{y + 4:.1f}">{text(sensor.name)}</text>')
                x += LETTER * len(sensor.name) + 6.0
            parts.append(
                f'<text class="quiet" x="{x:.1f}" y="{y + 4:.1f}">{text(sensor.noise)}</text>'
            )
            x += LETTER * len(sensor.noise) + 16.0
        end = max(end, x)
    return "".join(parts), end


def _bars(
    deviations: Sequence[JointDeviation], rows: Mapping[int, int], start: float, width: float
) -> str:
    """A bar to the median, a whisker from 10% to 90%, the number beside it."""
    letters = max(len(d.words) for d in deviations)
    room = width - start - LETTER * letters - 16.0
    largest = max((d.high or 0.0 for d in deviations), default=0.0) or 1.0
    parts = []
    for d in deviations:
        y = ROW * (rows[d.body] + 1.5)
        if d.median is None or d.low is None or d.high is None:
            parts.append(
                f'<rect class="hatched" x="{start:.1f}" y="{y - 6:.1f}" width="{room:.1f}"'
                f' height="12"/><text x="{start + room + 6:.1f}" y="{y + 4:.1f}">not'
                " determined</text>"
            )
            continue
        end, low, high = (start + room * v / largest for v in (d.median, d.low, d.high))
        whisker = (
            f"M{low:.1f} {y:.1f}H{high:.1f}M{low:.1f} {y - 3:.1f}v6M{high:.1f} {y - 3:.1f}v6"
        )
        words = d.words
        parts.append(
            f"<g><title>{text(d.joint)}: {text(words)}; 10% {number(d.low)}, 90%"
            f' {number(d.high)} {d.unit}</title><rect class="bar" x="{start:.1f}"'
            f' y="{y - 6:.1f}" width="{max(end - start, 0.8):.1f}" height="12"/>'
            f'<path class="whisker" d="{whisker}"/>'
            f'<text x="{high + 7:.1f}" y="{y + 4:.1f}">{text(words)}</text></g>'
        )
    return "".join(parts)
