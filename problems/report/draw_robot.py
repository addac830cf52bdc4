"""Pictures of a robot: its skeleton from two sides, with sensors or uncertainty."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from problems.report.markup import count, number, symbol, text
from problems.report.robot_part import BodyPart, RobotPart, SensorPart
from problems.report.uncertainty_part import JointDeviation

__all__ = [
    "skeletons",
    "tree",
]

HEIGHT, WIDEST, MARGIN = 460.0, 480.0, 34.0


def skeletons(robot: RobotPart, deviations: Sequence[JointDeviation] = ()) -> list[str]:
    """Two views of the robot at its posture, from the front and from the side.

    With ``deviations`` the joints are discs whose area grows with the torque's deviation.
    """
    points = np.array([body.position for body in robot.bodies])
    up = int(np.argmax(np.abs(robot.gravity)))
    across = [k for k in (1, 0, 2) if k != up]
    sign = -1.0 if robot.gravity[up] > 0 else 1.0
    words = ("from the front", "from the side")
    return [
        _view(robot, points, (axis, up), sign, word, deviations)
        for axis, word in zip(across, words, strict=True)
    ]


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


# ----------------------------------------------------------------------
# Picture of a robot's tree, a row per body, with its sensors or with bars of uncertainty.

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
    parts = [_head(left, start, width, deviations, bool(robot.sensors)), _stripes(len(bodies))]
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
    return (
        f'<div class="scroll"><svg class="tree" viewBox="0 0 {width:.0f} {height:.0f}"'
        f' style="min-width:{min(width, 720):.0f}px;max-width:{width:.0f}px" role="img"'
        f' aria-label="{text(label)}">{"".join(parts)}</svg></div>'
    )


def _order(bodies: Sequence[BodyPart]) -> list[int]:
    """Bodies depth first: every branch in one piece."""
    children: Mapping[int, list[int]] = defaultdict(list)
    for i, body in enumerate(bodies):
        children[body.parent].append(i)
    found: list[int] = []
    waiting = list(reversed(children[-1]))
    while waiting:
        body_number = waiting.pop()
        found.append(body_number)
        waiting += reversed(children[body_number])
    return found


def _head(
    left: float,
    start: float,
    width: float,
    deviations: Sequence[JointDeviation] | None,
    has_sensors: bool,
) -> str:
    words = (
        "sensors, standard deviations"
        if deviations is None
        else "standard deviation of the torque (or force)"
    )
    if deviations is None and not has_sensors:
        words = ""
    return (
        f'<text class="head" x="6" y="{ROW * 0.65}">body</text>'
        f'<text class="head" x="{left:.0f}" y="{ROW * 0.65}">joint</text>'
        f'<text class="head" x="{start:.0f}" y="{ROW * 0.65}">{words}</text>'
        f'<path class="rule" d="M0 {ROW}H{width:.0f}"/>'
    )


def _stripes(n: int) -> str:
    rows = (ROW * (k + 1) for k in range(0, n, 2))
    return "".join(
        f'<rect class="stripe" x="0" y="{y:.1f}" width="100%" height="{ROW}"/>' for y in rows
    )


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
