"""Picture of a robot's tree, a row per body, with its sensors or with bars of uncertainty."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from problems.report.markup import number, symbol, text
from problems.report.robot_part import BodyPart, RobotPart, SensorPart
from problems.report.uncertainty_part import JointDeviation

__all__ = ["tree"]

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
