"""Directions that no sensor sees, in words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from scipy.linalg import qr

from dynsys.model.spatial import Transform
from dynsys.system.unknowns import UnknownBlock
from dynsys.types import Array
from problems.verdict.sight import Sight
from sensors.parameters import AXES
from sensors.placement import Mount

if TYPE_CHECKING:
    from problems.estimation.estimation import Estimation

__all__ = ["Direction", "Part", "describe", "directions"]

SMALL = 1e-7
_COMPONENTS = re.compile(rf" \(((?:{'|'.join(AXES)})(?:, (?:{'|'.join(AXES)}))*)\)")
MOTIONS = ("wdx", "wdy", "wdz", "ax", "ay", "az")


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
class Direction:
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


def directions(sight: Sight) -> tuple[Direction, ...]:
    """All directions that are not seen at a state, each with as few quantities as possible."""
    null = sight.rank.null
    if not null.shape[1]:
        return ()
    null = _sparse_basis(null / sight.rank.scale[:, None]) * sight.rank.scale[:, None]
    unseen = sight.problem.measured.response.at(sight.kinematics, null)[:, :-1]
    return tuple(_direction(sight, d) for d in unseen.T)


def _sparse_basis(basis: Array) -> Array:
    """Basis of the same space, each vector one at an entry where the others are zero."""
    _, _, order = qr(basis.T, mode="economic", pivoting=True)
    pivots = order[: basis.shape[1]]
    sparse = np.linalg.solve(basis[pivots].T, basis.T).T
    return np.where(np.abs(sparse) > SMALL, sparse, 0.0)


def _direction(sight: Sight, d: Array) -> Direction:
    unknowns = sight.problem.system.unknowns
    largest = np.abs(d).max()
    open_parts = [
        block
        for block in unknowns.blocks
        if block.kind in ("qdd", "external_wrench")
        and np.abs(d[block.slice]).max() > SMALL * largest
    ]
    moved = [block for block in open_parts if block.kind == "qdd"]
    pushed = [block for block in open_parts if block.kind == "external_wrench"]
    d = d / max(np.abs(d[block.slice]).max() for block in open_parts)
    parts = _parts(unknowns.blocks, d)
    if not moved and len(pushed) == 1 and _is_free(sight, pushed[0], d):
        return Direction(f"{_alone(pushed[0], d)} is seen by no sensor", parts)
    if not moved and 1 <= len(pushed) <= 2:
        words = _internal(sight, d, pushed)
    else:
        words = _together(moved, pushed)
    return Direction(f"{words} {_tail(parts)}", parts)


def _parts(blocks: tuple[UnknownBlock, ...], d: Array) -> tuple[Part, ...]:
    parts = []
    for block in blocks:
        if block.kind not in ("qdd", "external_wrench", "torque"):
            continue
        for k, amount in enumerate(d[block.slice].tolist()):
            if abs(amount) > 1e-6:
                component = AXES[k] if block.kind == "external_wrench" else ""
                if block.kind != "external_wrench" and block.size > 1:
                    component = f"[{k}]"
                parts.append(Part(block.kind, block.name, component, amount))
    return tuple(sorted(parts, key=lambda part: -abs(part.amount)))


def _tail(parts: tuple[Part, ...]) -> str:
    torques = list(dict.fromkeys(p.name for p in parts if p.quantity == "torque"))
    if not torques:
        return "is seen by no sensor"
    names = ", ".join(map(repr, torques[:4]))
    more = f" and {len(torques) - 4} more" if len(torques) > 4 else ""
    joints = "joint" if len(torques) == 1 else "joints"
    return f"is seen by no sensor; it changes the torque of {joints} {names}{more}"


def _together(moved: list[UnknownBlock], pushed: list[UnknownBlock]) -> str:
    """Plain list of what moves together."""
    names = [f"the acceleration of joint {block.name!r}" for block in moved[:4]]
    names += [f"the external wrench on {block.name!r}" for block in pushed[:4]]
    left = len(moved) + len(pushed) - len(names)
    listed = " and ".join(names) + (f" and {left} more" if left else "")
    single = len(moved) + len(pushed) == 1
    return f"a change of {listed}" if single else f"a change of {listed} together"


# ---- forces between two bodies, or a body and the base ---------------------------------------


def _internal(sight: Sight, d: Array, pushed: list[UnknownBlock]) -> str:
    """Wrench on one body that another one, or the base, takes up."""
    poses = sight.kinematics.poses
    wrenches = [_to_base(poses[block.body], d[block.slice]) for block in pushed]
    first = wrenches[0]
    size = float(np.abs(first).max())
    if len(pushed) == 2:
        if np.abs(first + wrenches[1]).max() > 1e-6 * size:
            return _together([], pushed)
        between = (pushed[0].name, pushed[1].name)
        mounts = [_mounts(sight.problem, block.body) for block in pushed]
    else:
        between = (pushed[0].name, "the base")
        mounts = [_mounts(sight.problem, pushed[0].body), _at_base(sight.problem)]
    start, force, moment = "a pair of opposite", first[3:], first[:3]
    who = f"{between[0]!r} and {between[1]!r}".replace("'the base'", "the base")
    if np.linalg.norm(force) < 1e-6 * size:
        return f"{start} torques on {who}"
    point = np.cross(force, moment) / (force @ force)
    if abs(force @ moment) > 1e-6 * size * np.linalg.norm(force):
        return f"{start} wrenches (a force and a torque about it) on {who}"
    where = _line(sight, force / np.linalg.norm(force), point, mounts)
    return f"{start} forces on {who}{where}"


def _is_free(sight: Sight, block: UnknownBlock, d: Array) -> bool:
    """Tell whether a wrench on one body is a component of it, or has no base to push at."""
    floats = sight.problem.robot.joints[0].nv == 6
    return floats or int((np.abs(d[block.slice]) > 1e-6).sum()) == 1


def _alone(block: UnknownBlock, d: Array) -> str:
    """External wrench on one body, named by its components."""
    names = [AXES[k] for k in np.flatnonzero(np.abs(d[block.slice]) > 1e-6)]
    return f"the external wrench on {block.name!r} ({', '.join(names)})"


def _to_base(pose: Transform, wrench: Array) -> Array:
    """Wrench in base coordinates about the base's origin, from body coordinates."""
    return np.asarray(pose.matrix().T @ wrench, dtype=np.float64)


def _mounts(problem: Estimation, body: int) -> list[tuple[str, Mount]]:
    """Named places on a body: the frames of its sensors, then the body itself."""
    robot = problem.robot
    found = {robot.body_names[body]: Mount.of(robot, body)}
    for sensor in problem.layout.sensors:
        frame = getattr(sensor, "frame", None)
        if frame is not None and robot.frame(frame).body == body:
            pose = (getattr(sensor, "xyz", (0.0,) * 3), getattr(sensor, "rpy", (0.0,) * 3))
            found[f"{frame}"] = Mount.of(robot, frame, *pose)
    return list(reversed(found.items()))


def _at_base(problem: Estimation) -> list[tuple[str, Mount]]:
    """Named places where the base holds the robot: its first joints."""
    robot = problem.robot
    roots = [i for i, parent in enumerate(robot.parent.tolist()) if parent < 0]
    return [(robot.joint_names[i], Mount.of(robot, i)) for i in roots]


def _line(
    sight: Sight,
    along: Array,
    point: Array,
    mounts: list[list[tuple[str, Mount]]],
) -> str:
    """Say which line it is: through two origins, or where two planes z = 0 meet."""
    kin = sight.kinematics
    for name_a, a in mounts[0]:
        for name_b, b in mounts[1]:
            poses = [mount.pose(kin) for mount in (a, b)]
            if all(
                np.linalg.norm(np.cross(np.asarray(p.r) - point, along)) < 1e-6 for p in poses
            ):
                return f", along the line joining {name_a} and {name_b},"
    for name_a, a in mounts[0]:
        for name_b, b in mounts[1]:
            poses = [mount.pose(kin) for mount in (a, b)]
            normals = [np.asarray(p.E, dtype=np.float64)[2] for p in poses]
            inside = [
                abs(n @ along) < 1e-6 and abs(n @ (np.asarray(p.r) - point)) < 1e-6
                for n, p in zip(normals, poses, strict=True)
            ]
            if all(inside) and np.linalg.norm(np.cross(*normals)) < 1e-6:
                return f", in the common plane (x, y) of {name_a} and {name_b},"
            if all(inside):
                return (
                    f", along the line in which the planes (x, y) of {name_a} and"
                    f" {name_b} meet,"
                )
    return ", along one line,"


def describe(found: tuple[Direction, ...], limit: int = 6) -> list[str]:
    """Sentences, the first ``limit``, and how many more there are.

    Those that differ only in the components they name, or not at all, are joined.
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
    return [*lines[:limit], *([f"and {len(lines) - limit} more"] if len(lines) > limit else [])]
