"""Pictures of a robot: its skeleton from two sides, with sensors or uncertainty."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from problems.report.markup import count, number, symbol, text
from problems.report.robot_part import BodyPart, RobotPart, SensorPart
from problems.report.uncertainty_part import JointDeviation

__all__ = ["skeletons"]

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
