"""Fingerprints: digests of all that a plan depends on, part by part: a difference has a name.

Digests are SHA-256 over a canonical encoding of the data (numbers as doubles, minus zero as
zero); they are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, final

import numpy as np

from dynsys.errors import PlanMismatchError
from dynsys.model.constraints import Constraint, FrameConstraint
from dynsys.model.tree import Body, KinematicTree
from dynsys.system.linear_system import LinearSystem

__all__ = [
    "Fingerprint",
    "canonical_bytes",
    "constraint_content",
    "fingerprint_parts",
    "fingerprint_problem",
    "fingerprint_robot",
    "require_same",
]


@final
@dataclass(frozen=True)
class Fingerprint:
    """What is fingerprinted (``subject``, for messages), and the digest of each named part.

    Examples
    --------
    >>> old = fingerprint_parts("layout", {"sensor 'imu'": 1, "sensor 'ft'": 2})
    >>> new = fingerprint_parts("layout", {"sensor 'imu'": 1, "sensor 'ft'": 3})
    >>> new.differences(old)
    ["sensor 'ft' has changed"]
    """

    subject: str
    parts: Mapping[str, str]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all parts; the subject's name is no part of it."""
        return sha256(canonical_bytes(dict(self.parts))).hexdigest()

    def differences(self, other: Fingerprint) -> list[str]:
        """What of this differs from an earlier one, in words; empty if nothing does."""
        changed = [
            f"{part} has changed"
            for part, digest in self.parts.items()
            if other.parts.get(part, digest) != digest
        ]
        new = [f"{part} is new" for part in self.parts if part not in other.parts]
        gone = [f"{part} is gone" for part in other.parts if part not in self.parts]
        found = [*changed, *new, *gone]
        if not found and list(self.parts) != list(other.parts):
            found = ["the order of its parts has changed"]
        return found

    def since(self, other: Fingerprint, shown: int = 3) -> str:
        """The first of the differences from an earlier one, the others counted; or ''."""
        found = self.differences(other)
        more = f" and {len(found) - shown} more" if len(found) > shown else ""
        return "; ".join(found[:shown]) + more


def require_same(what: str, planned: Fingerprint | None, given: Fingerprint | None) -> None:
    """Make sure that the robot, problem or layout at hand is the one a plan was made for.

    Raises
    ------
    PlanMismatchError
        that says what differs.
    """
    if planned is None or given is None:
        there = "without sensors" if planned is None else f"with the {planned.subject}"
        here = "none is given" if given is None else f"the {given.subject} is given"
        raise PlanMismatchError(f"the plan was made {there}, but {here}; make a new plan")
    if what == "problem" and given.subject != planned.subject:
        raise PlanMismatchError(
            f"the plan was made for the {planned.subject}, not for the {given.subject}; make a"
            " plan of this problem"
        )
    if differences := given.since(planned):
        now = given.subject if given.subject != planned.subject else f"this {what}"
        raise PlanMismatchError(
            f"the plan was made for another {what}: {planned.subject} then, {now} now. Since"
            f" then {differences}. Make a new plan"
        )


def fingerprint_parts(subject: str, parts: Mapping[str, Any]) -> Fingerprint:
    """Fingerprint of any data given by named parts.

    Parts may be numbers, strings, arrays, dataclasses, and sequences and mappings of these.
    """
    digests = {name: sha256(canonical_bytes(data)).hexdigest() for name, data in parts.items()}
    return Fingerprint(subject, digests)


def fingerprint_robot(robot: KinematicTree) -> Fingerprint:
    """Fingerprint of all that the dynamics of a robot depend on, five parts per body.

    Limits and further frames do not enter the equations of motion and are left out, and so is
    the name of the robot; friction and offsets are a part where they enter.
    """
    parts: dict[str, Any] = {"gravity": robot.gravity}
    for i, body in enumerate(robot.bodies):
        parts |= _body_parts(robot, i, body)
    if robot.joint_friction is not None:
        parts["friction"] = robot.joint_friction
    return fingerprint_parts(f"robot {robot.name!r}", parts)


def _body_parts(robot: KinematicTree, i: int, body: Body) -> dict[str, Any]:
    whose = f"body {body.name!r}: "
    parent = robot.body_names[body.parent] if body.parent >= 0 else None
    inertia = body.inertia
    return {
        f"{whose}parent": [i, parent],
        f"{whose}joint": [robot.joint_names[i], body.joint.kind, body.joint, body.coupling],
        f"{whose}placement": [body.placement.E, body.placement.r],
        f"{whose}inertia": [inertia.mass, inertia.com, inertia.about_com],
        f"{whose}armature": np.zeros(body.joint.nv) if body.armature is None else body.armature,
    }


def fingerprint_problem(kind: str, system: LinearSystem) -> Fingerprint:
    """Fingerprint of a problem: its kind, its equations in their order, and their pattern.

    Constant coefficients are part of it, so that a sensor that has moved on its body shows.
    """
    parts: dict[str, Any] = {"kind of problem": kind, "unknowns": system.unknowns.net_wrench}
    for block in system.equations:
        terms = [
            [str(t.unknown), t.unknown.start, t.pattern, None if callable(t.value) else t.value]
            for t in block.terms
        ]
        parts[f"equation {block.name!r}"] = [block.kind, block.size, block.measured, terms]
    for held in system.unknowns.constraints:
        parts[f"constraint {held.name!r}"] = constraint_content(system.robot, held)
    return fingerprint_parts(f"problem {kind!r}", parts)


def constraint_content(robot: KinematicTree, held: Constraint) -> list[Any]:
    """All that the rows of a constraint depend on, the places of its frames included."""
    ends = held.ends(robot) if isinstance(held, FrameConstraint) else ()
    return [held, [[end.body, end.transform] for end in ends]]


def canonical_bytes(data: Any) -> bytes:
    """Encode data unambiguously: type, length and content of everything, mappings sorted.

    Raises
    ------
    TypeError
        for data that has no canonical form, such as functions.
    """
    if data is None or isinstance(data, (bool, np.bool_)):
        return _tagged(b"b", repr(None if data is None else bool(data)).encode())
    if isinstance(data, (int, np.integer)):
        exact = int(data)
        return _tagged(b"n", _double(exact) if abs(exact) < 2**53 else str(exact).encode())
    if isinstance(data, (float, np.floating)):
        return _tagged(b"n", _double(float(data)))
    if isinstance(data, str):
        return _tagged(b"s", data.encode("utf-8", "surrogatepass"))
    if isinstance(data, bytes):
        return _tagged(b"y", data)
    if isinstance(data, np.ndarray):
        shape = repr(data.shape).encode()
        return _tagged(b"a", shape + (data.astype("<f8") + 0.0).tobytes())
    if isinstance(data, Mapping):
        pairs = sorted((canonical_bytes(key), canonical_bytes(data[key])) for key in data)
        return _tagged(b"m", b"".join(key + value for key, value in pairs))
    if is_dataclass(data) and not isinstance(data, type):
        values = {field.name: getattr(data, field.name) for field in fields(data)}
        return _tagged(b"d", type(data).__name__.encode() + canonical_bytes(values))
    if isinstance(data, (list, tuple)):
        return _tagged(b"l", b"".join(canonical_bytes(item) for item in data))
    raise TypeError(f"a {type(data).__name__} has no canonical form for a fingerprint")


def _double(value: float) -> bytes:
    return np.array(value + 0.0, dtype="<f8").tobytes()


def _tagged(kind: bytes, content: bytes) -> bytes:
    return kind + len(content).to_bytes(8, "little") + content
