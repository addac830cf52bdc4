"""Directions that no sensor sees, in words.

A direction is a change of accelerations and external wrenches, with all that follows from it,
which no reading notices. Where it is a force between two bodies, or between a body and the
base, the words say along which line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.linalg import qr

from dynsys.system.unknowns import UnknownBlock
from dynsys.types import Array, BoolArray
from problems.labels import and_more
from problems.measured.measured_system import MeasuredSystem
from problems.verdict.posture import PostureRank
from sensors.mounting import Mount
from sensors.parameters import AXES

__all__ = [
    "Part",
    "UnseenDirection",
    "component_names",
    "describe",
    "sparse_basis",
    "unseen_directions",
]

SMALL, TOLD = 1e-7, 1e-6
"""Parts of the largest change, in natural units, that count as one, and that are told of."""
_COMPONENTS = re.compile(rf" \(((?:{'|'.join(AXES)})(?:, (?:{'|'.join(AXES)}))*)\)")
SEVERAL = 3
"""Parts of which one sentence speaks together."""
_SAME = (
    (
        re.compile(
            rf"the external wrench on ('.*') \((?:(?:{'|'.join(AXES)})(?:, )?){{6}}\) is.*"
        ),
        "all six components of the external wrenches on",
    ),
    (
        re.compile(r"a change of the acceleration of joint ('[^']*') is seen by no sensor;.*"),
        "the accelerations of joints",
    ),
)
_ACCELERATIONS = ("wdx", "wdy", "wdz", "ax", "ay", "az")


def component_names(kind: str, size: int) -> list[str]:
    """Names of the components of a quantity, or of a law; the empty one of a single number."""
    if size == 1:
        return [""]
    if size == 6 and kind == "acceleration":
        return list(_ACCELERATIONS)
    if size == 6 and (kind.endswith("_wrench") or kind == "balance"):
        return list(AXES)
    return [f"[{k}]" for k in range(size)]


@final
@dataclass(frozen=True)
class Part:
    """One component of a quantity that moves along a direction, by how much."""

    quantity: str
    name: str
    component: str
    amount: float

    def __str__(self) -> str:
        of = f" {self.component}" if self.component else ""
        return f"{_WORDS[self.quantity]} {self.name!r}{of} {self.amount:+.3g}"


_WORDS = {
    "torque": "torque of joint",
    "qdd": "acceleration of joint",
    "acceleration": "acceleration of body",
    "joint_wrench": "wrench through joint",
    "external_wrench": "external wrench on",
    "net_wrench": "net wrench on",
}


@final
@dataclass(frozen=True)
class UnseenDirection:
    """A combination of quantities that can change without any sensor noticing.

    Attributes
    ----------
    words : what it is, in a sentence.
    parts : components of accelerations of joints, external wrenches and torques that move
        together, largest first; the largest is one.
    """

    words: str
    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return self.words


def unseen_directions(posture: PostureRank) -> tuple[UnseenDirection, ...]:
    """All directions that are not seen at a posture, each with few quantities."""
    null, scale = posture.rank.null, posture.rank.scale[:, None]
    if not null.shape[1]:
        return ()
    sparse = sparse_basis(null / scale)
    sparse = np.where(np.abs(sparse) > SMALL, sparse, 0.0) * scale
    return tuple(_direction(posture, d) for d in (posture.reduced.T @ sparse).T)


def sparse_basis(basis: Array) -> Array:
    """Basis of the same space, each vector one at an entry where the others are zero."""
    _, _, order = qr(basis.T, mode="economic", pivoting=True)
    pivots = order[: basis.shape[1]]
    return np.asarray(np.linalg.solve(basis[pivots].T, basis.T).T)


def _direction(posture: PostureRank, d: Array) -> UnseenDirection:
    unknowns = posture.measured.whole.unknowns
    natural = np.abs(d) / np.where(posture.reach > 0, posture.reach, 1.0)
    opened = [block for block in unknowns.blocks if block.kind in ("qdd", "external_wrench")]
    largest = max(natural[block.slice].max() for block in opened)
    open_parts = [block for block in opened if natural[block.slice].max() > SMALL * largest]
    moved = [block for block in open_parts if block.kind == "qdd"]
    pushed = [block for block in open_parts if block.kind == "external_wrench"]
    d = d / max(np.abs(d[block.slice]).max() for block in open_parts)
    parts = _parts(unknowns.blocks, d, natural > TOLD * largest)
    if not moved and len(pushed) == 1 and _is_free(posture, pushed[0], d):
        return UnseenDirection(f"{_alone(pushed[0], d)} is seen by no sensor", parts)
    if not moved and 1 <= len(pushed) <= 2:
        words = _internal(posture, d, pushed)
    else:
        words = _together(moved, pushed)
    return UnseenDirection(f"{words} {_tail(parts)}", parts)


def _parts(blocks: tuple[UnknownBlock, ...], d: Array, told: BoolArray) -> tuple[Part, ...]:
    parts = []
    for block in blocks:
        if block.kind not in ("qdd", "external_wrench", "torque"):
            continue
        names = component_names(block.kind, block.size)
        amounts = zip(names, d[block.slice].tolist(), told[block.slice].tolist(), strict=True)
        for component, amount, is_told in amounts:
            if is_told:
                parts.append(Part(block.kind, block.name, component, amount))
    return tuple(sorted(parts, key=lambda part: -abs(part.amount)))


def _tail(parts: tuple[Part, ...]) -> str:
    torques = list(dict.fromkeys(p.name for p in parts if p.quantity == "torque"))
    if not torques:
        return "is seen by no sensor"
    joints = "joint" if len(torques) == 1 else "joints"
    names = and_more([repr(name) for name in torques], 4)
    return f"is seen by no sensor; it changes the torque of {joints} {names}"


def _together(moved: list[UnknownBlock], pushed: list[UnknownBlock]) -> str:
    """Plain list of what moves together."""
    names = [f"the acceleration of joint {block.name!r}" for block in moved[:4]]
    names += [f"the external wrench on {block.name!r}" for block in pushed[:4]]
    left = len(moved) + len(pushed) - len(names)
    listed = " and ".join(names) + (f" and {left} more" if left else "")
    single = len(moved) + len(pushed) == 1
    return f"a change of {listed}" if single else f"a change of {listed} together"


# ---- forces between two bodies, or a body and the base ---------------------------------------


def _internal(posture: PostureRank, d: Array, pushed: list[UnknownBlock]) -> str:
    """Wrench on one body that another one, or the base, takes up."""
    poses = posture.kinematics.poses  # X^T takes a wrench to base coordinates
    wrenches = [poses[block.body].matrix().T @ d[block.slice] for block in pushed]
    first = wrenches[0]
    size = float(np.abs(first).max())
    if len(pushed) == 2:
        if np.abs(first + wrenches[1]).max() > 1e-6 * size:
            return _together([], pushed)
        between = (pushed[0].name, pushed[1].name)
        mounts = [_mounts(posture.measured, block.body) for block in pushed]
    else:
        between = (pushed[0].name, "the base")
        mounts = [_mounts(posture.measured, pushed[0].body), _at_base(posture.measured)]
    start, force, moment = "a pair of opposite", first[3:], first[:3]
    who = f"{between[0]!r} and {between[1]!r}".replace("'the base'", "the base")
    if np.linalg.norm(force) < 1e-6 * size:
        return f"{start} torques on {who}"
    point = np.cross(force, moment) / (force @ force)
    if abs(force @ moment) > 1e-6 * size * np.linalg.norm(force):
        return f"{start} wrenches (a force and a torque about it) on {who}"
    where = _line(posture, force / np.linalg.norm(force), point, mounts)
    return f"{start} forces on {who}{where}"


def _is_free(posture: PostureRank, block: UnknownBlock, d: Array) -> bool:
    """Tell whether a wrench on one body is a component of it, or has no base to push at."""
    floats = posture.measured.robot.joints[0].nv == 6
    return floats or int((np.abs(d[block.slice]) > 1e-6).sum()) == 1


def _alone(block: UnknownBlock, d: Array) -> str:
    """External wrench on one body, named by its components."""
    names = [AXES[k] for k in np.flatnonzero(np.abs(d[block.slice]) > 1e-6)]
    return f"the external wrench on {block.name!r} ({', '.join(names)})"


def _mounts(measured: MeasuredSystem, body: int) -> list[tuple[str, Mount]]:
    """Named places on a body: the frames of its sensors, then the body itself."""
    robot = measured.robot
    found = {robot.body_names[body]: Mount.of(robot, body)}
    for sensor in measured.layout.sensors:
        frame = getattr(sensor, "frame", None)
        if frame is not None and robot.frame(frame).body == body:
            pose = (getattr(sensor, "xyz", (0.0,) * 3), getattr(sensor, "rpy", (0.0,) * 3))
            found[f"{frame}"] = Mount.of(robot, frame, *pose)
    return list(reversed(found.items()))


def _at_base(measured: MeasuredSystem) -> list[tuple[str, Mount]]:
    """Named places where the base holds the robot: its first joints."""
    robot = measured.robot
    roots = [i for i, parent in enumerate(robot.parent.tolist()) if parent < 0]
    return [(robot.joint_names[i], Mount.of(robot, i)) for i in roots]


def _line(
    posture: PostureRank,
    along: Array,
    point: Array,
    mounts: list[list[tuple[str, Mount]]],
) -> str:
    """Say which line it is: through two origins, or where two planes z = 0 meet."""
    pairs = [
        (f"{name_a} and {name_b}", [mount.pose(posture.kinematics) for mount in (a, b)])
        for name_a, a in mounts[0]
        for name_b, b in mounts[1]
    ]
    for names, poses in pairs:
        arms = [np.asarray(pose.r) - point for pose in poses]
        if all(np.linalg.norm(np.cross(arm, along)) < 1e-6 for arm in arms):
            if np.linalg.norm(arms[0] - arms[1]) < 1e-6:
                return f", through {names}, which are at one place,"
            return f", along the line joining {names},"
    for names, poses in pairs:
        normals = [np.asarray(pose.E, dtype=np.float64)[2] for pose in poses]
        if all(
            abs(n @ along) < 1e-6 and abs(n @ (np.asarray(pose.r) - point)) < 1e-6
            for n, pose in zip(normals, poses, strict=True)
        ):
            if np.linalg.norm(np.cross(*normals)) < 1e-6:
                return f", in the common plane (x, y) of {names},"
            return f", along the line in which the planes (x, y) of {names} meet,"
    return ", along one line,"


def describe(found: tuple[UnseenDirection, ...], limit: int = 6) -> list[str]:
    """Sentences, the first ``limit``, and how many more there are.

    Those that differ only in the components they name, or not at all, are joined; so are those
    that say the same of several bodies or joints.
    """
    joined: dict[str, list[str]] = {}
    for direction in found:
        named = _COMPONENTS.search(direction.words)
        key = _COMPONENTS.sub("{}", direction.words)
        joined.setdefault(key, []).append(named.group(1) if named else "")
    lines = []
    for text, components in joined.items():
        unique = dict.fromkeys(c for group in components for c in group.split(", "))
        line = text.replace("{}", f" ({', '.join(unique)})")
        several = len(components) > 1 and "{}" not in text
        lines.append(f"{line} ({len(components)} independent ways)" if several else line)
    lines = _of_several(lines)
    return [*lines[:limit], *([f"and {len(lines) - limit} more"] if len(lines) > limit else [])]


def _of_several(lines: Sequence[str]) -> list[str]:
    """Sentences, those that say the same of at least ``SEVERAL`` parts as one, first."""
    left, joined = list(lines), []
    for pattern, start in _SAME:
        names = [match.group(1) for line in left if (match := pattern.fullmatch(line))]
        if len(names) >= SEVERAL:
            left = [line for line in left if not pattern.fullmatch(line)]
            joined.append(f"{start} {and_more(names, 8)} are seen by no sensor")
    return joined + left
