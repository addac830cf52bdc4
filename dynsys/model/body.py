"""What a robot is made of: bodies with their joints, named frames, couplings, folded joints.

A :class:`Body` is one link with the joint that carries it. The checks of this file say what
bodies and frames must satisfy to form a tree; every failure names the body and the way out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal, NamedTuple, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import ModelError
from dynsys.model.joints import AbstractJoint, Fixed
from dynsys.model.spatial import Inertia, Transform, matrix_pattern
from dynsys.types import Array, ArrayLike, BoolArray, float_array

__all__ = [
    "Body",
    "Coupling",
    "Frame",
    "Shape",
    "Weld",
    "check_frames",
    "check_gravity",
    "check_joint_data",
    "check_tree",
    "inertia_defect",
    "read_only",
]

TRIANGLE_TOLERANCE = 1e-3
"""What the rounding of published digits explains, relative to the largest principal moment: an
excess over the sum of the others, or a moment below zero."""

MILLIMETRE = 1e-3
"""Radius of gyration next to which 1e-9 of a moment is rounding: point masses in real files."""

_Scalar = TypeVar("_Scalar", bound=np.generic)
_JOINT_VECTORS = {
    "armature": "nv",
    "damping": "nv",
    "friction": "nv",
    "friction_minus": "nv",
    "offset": "nv",
    "effort_limit": "nv",
    "velocity_limit": "nv",
    "lower": "nq",
    "upper": "nq",
}
"""What a body states about its joint, and the joint's number that is its length."""
_SIGNED = ("lower", "upper", "offset")
_UNPHYSICAL = ("armature", "damping", "friction", "friction_minus")
"""Of these, what may be negative; and what may be in a tree that need not be physical."""


@final
@dataclass(frozen=True, eq=False)
class Frame:
    """A named frame fixed to a body (-1: the base); ``transform`` goes body -> frame.

    ``link`` is the link of the robot's file that holds it; empty where that is not known.
    """

    body: int
    transform: Transform
    link: str = ""


@final
@dataclass(frozen=True, eq=False)
class Shape:
    """A shape that a body (-1: the base) touches others with; ``transform`` goes body -> shape.

    ``size`` of a sphere: radius; of a box: half its sides; of a cylinder or capsule along z:
    radius, half its length (a capsule's without its caps). Shapes of another ``kind``, meshes
    above all, are kept by name only.
    """

    name: str
    kind: str
    body: int
    transform: Transform
    size: tuple[float, ...] = ()


@final
@dataclass(frozen=True)
class Coupling:
    """Mimic joint: position = ratio * (position of joint ``leader``) + offset."""

    leader: int
    ratio: float
    offset: float


@final
@dataclass(frozen=True, eq=False)
class Body:
    """One body with the joint that carries it: what builders and readers hand to a tree.

    ``placement`` goes from the parent body to the joint's frame. Per-freedom vectors (nv,):
    ``armature`` (reflected rotor inertia), ``damping``, ``friction``, ``friction_minus`` (dry
    friction at negative speed; None for the same), ``offset`` (constant torque that the drive
    spends), ``effort_limit``, ``velocity_limit``; per-coordinate vectors (nq,): ``lower``,
    ``upper``. None means zero, respectively unlimited. Arrays are copied and become read-only.
    """

    name: str
    parent: int
    joint: AbstractJoint
    placement: Transform = field(default_factory=Transform.identity)
    inertia: Inertia = field(default_factory=Inertia.zero)
    joint_name: str = ""
    armature: ArrayLike | None = None
    damping: ArrayLike | None = None
    friction: ArrayLike | None = None
    effort_limit: ArrayLike | None = None
    velocity_limit: ArrayLike | None = None
    lower: ArrayLike | None = None
    upper: ArrayLike | None = None
    coupling: Coupling | None = None
    friction_minus: ArrayLike | None = None
    offset: ArrayLike | None = None

    def __post_init__(self) -> None:
        place, inertia = self.placement, self.inertia
        E, r = self._own("placement.E", place.E), self._own("placement.r", place.r)
        com, about = self._own("com", inertia.com), self._own("about_com", inertia.about_com)
        object.__setattr__(self, "placement", Transform(E, r))
        object.__setattr__(self, "inertia", Inertia(inertia.mass, com, about))
        for key in _JOINT_VECTORS:
            if (value := getattr(self, key)) is not None:
                object.__setattr__(self, key, self._own(key, value))

    def __reduce__(self) -> tuple[type[Body], tuple[object, ...]]:
        return Body, tuple(getattr(self, entry.name) for entry in fields(self))

    def motion_subspace(self) -> Array:
        """S (6, nv) of the joint, scaled by the ratio where the joint is coupled."""
        return self.joint.S * (1.0 if self.coupling is None else self.coupling.ratio)

    def transform_pattern(self) -> BoolArray:
        """Worst-case nonzeros (6, 6) of the transform parent -> body, over all q."""
        E_joint, r_joint = self.joint.pattern()
        E_place, r_place = self.placement.E != 0, self.placement.r != 0
        return matrix_pattern(E_joint @ E_place, r_place | (E_place.T @ r_joint))

    def _own(self, what: str, value: ArrayLike) -> Array:
        try:
            return read_only(np.array(float_array(value)))
        except (TypeError, ValueError) as error:
            raise ModelError(f"body {self.name!r}: {what} is not numeric: {error}") from None


@final
@dataclass(frozen=True, eq=False)
class Weld:
    """A fixed joint that a reader folded away, and all that hangs beyond it.

    A sensor in a fixed joint feels the links beyond it. Folding adds their inertia to the body
    that carries them; a weld remembers the part beyond the joint.

    Parameters
    ----------
    joint, link : names of the fixed joint and of the link it carries.
    body : number of the body both of its links are part of (-1: the base).
    transform : body -> frame of the carried link.
    parent_transform : body -> frame of the link that carries it.
    inertia : of the carried link and everything welded to it, in body coordinates.
    children : bodies whose joints hang on that part.
    parent : name of the link that carries it.
    """

    joint: str
    link: str
    body: int
    transform: Transform
    parent_transform: Transform
    inertia: Inertia
    children: tuple[int, ...]
    parent: str = ""


def read_only(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Make an array immutable and return it."""
    array.setflags(write=False)
    return array


# ---- what bodies must satisfy ------------------------------------------------------------


class InertiaDefect(NamedTuple):
    """What is wrong with an inertia, and how bad it is.

    "fatal": wrong shape, not finite, negative mass, not symmetric. "indefinite": a negative
    principal moment, beyond the digits of published numbers. "odd": no mass distribution has
    it, yet the equations of motion stay sound: the triangle inequality is broken.
    """

    reason: str
    kind: Literal["fatal", "indefinite", "odd"]


def inertia_defect(inertia: Inertia) -> InertiaDefect | None:
    """Return what is wrong with an inertia, or None."""
    reason = _impossible(inertia)
    if reason is not None:
        return InertiaDefect(reason, "fatal")
    about = np.asarray(inertia.about_com)
    scale = float(np.abs(about).max(initial=0.0))
    moments = np.linalg.eigvalsh(about)
    rounding = 1e-9 * (scale + inertia.mass * MILLIMETRE**2)
    if moments[0] < -rounding:
        kind: Literal["indefinite", "odd"]
        kind = "indefinite" if moments[0] < -TRIANGLE_TOLERANCE * scale else "odd"
        reason = (
            f"rotational inertia is not positive definite (principal moment {moments[0]:.3g})"
        )
        return InertiaDefect(reason, kind)
    if moments[2] > (moments[0] + moments[1]) * (1 + TRIANGLE_TOLERANCE) + rounding:
        listed = ", ".join(f"{m:.4g}" for m in moments)
        return InertiaDefect(f"principal moments {listed} break the triangle inequality", "odd")
    return None


def _impossible(inertia: Inertia) -> str | None:
    about = np.asarray(inertia.about_com)
    if np.shape(inertia.com) != (3,) or about.shape != (3, 3):
        return "centre of mass must be 3 numbers and rotational inertia 3 x 3"
    if not (np.isfinite(inertia.mass) and np.isfinite(inertia.com).all()):
        return f"mass {inertia.mass} or centre of mass {inertia.com.tolist()} not finite"
    if not np.isfinite(about).all():
        return "rotational inertia has entries that are not finite"
    if inertia.mass < 0:
        return f"negative mass {inertia.mass:g} kg"
    scale = float(np.abs(about).max(initial=0.0))
    if np.abs(about - about.T).max(initial=0.0) > 1e-9 * scale:
        return "rotational inertia is not symmetric"
    return None


def check_tree(name: str, bodies: Sequence[Body], *, physical: bool) -> None:
    """Raise ModelError unless the bodies form a valid tree (see KinematicTree)."""
    _check_names(name, bodies)
    for i, body in enumerate(bodies):
        where = f"robot {name!r}, body {body.name!r}"
        if not -1 <= body.parent < i:
            raise ModelError(
                f"{where}: parent {body.parent} must be -1 (the base) or a body before it"
                f" (0..{i - 1}); a loop or a wrong order"
            )
        if not isinstance(body.joint, AbstractJoint):
            raise ModelError(f"{where}: joint must be a joint model, got {body.joint!r}")
        _check_placement(where, body.placement)
        check_joint_data(where, body, physical=physical)
        _check_coupling(where, i, bodies)
        defect = inertia_defect(body.inertia)
        if defect is not None and (physical or defect.kind == "fatal"):
            way_out = "" if defect.kind == "fatal" else "; physical=False accepts it"
            raise ModelError(f"{where}: {defect.reason}{way_out}")


def check_gravity(name: str, gravity: ArrayLike) -> Array:
    """Return gravity as an array (3,) of its own; ModelError unless 3 finite numbers."""
    try:
        vector = np.array(float_array(gravity))
    except (TypeError, ValueError):
        vector = np.array([])
    if vector.shape != (3,) or not np.isfinite(vector).all():
        raise ModelError(f"robot {name!r}: gravity must be 3 finite numbers, got {gravity!r}")
    return vector


def check_frames(name: str, bodies: Sequence[Body], frames: Mapping[str, Frame]) -> None:
    """Raise ModelError unless every further frame sits on a body or on the base."""
    for key, frame in frames.items():
        if not -1 <= frame.body < len(bodies):
            raise ModelError(
                f"robot {name!r}: frame {key!r} sits on body {frame.body}; bodies are"
                f" 0..{len(bodies) - 1}, -1 is the base"
            )
        _check_placement(f"robot {name!r}, frame {key!r}", frame.transform)


def _check_names(name: str, bodies: Sequence[Body]) -> None:
    if not bodies:
        raise ModelError(f"robot {name!r} has no moving body; give a floating base or a joint")
    for what, names in (
        ("body", [b.name for b in bodies]),
        ("joint", [b.joint_name or b.name for b in bodies]),
    ):
        repeated = (
            sorted({n for n in names if names.count(n) > 1})
            if len(names) > len(set(names))
            else []
        )
        if repeated:
            raise ModelError(f"robot {name!r}: {what} name {repeated[0]!r} is used twice")


def _check_placement(where: str, placement: Transform) -> None:
    E, r = np.asarray(placement.E), np.asarray(placement.r)
    if E.shape != (3, 3) or r.shape != (3,):
        raise ModelError(f"{where}: placement must hold E (3, 3) and r (3,)")
    if not (np.isfinite(E).all() and np.isfinite(r).all()):
        raise ModelError(f"{where}: placement has entries that are not finite")
    if np.abs(E @ E.T - np.eye(3)).max() > 1e-9 or np.linalg.det(E) < 0:
        raise ModelError(f"{where}: the rotation of its placement is not a rotation matrix")


def check_joint_data(where: str, body: Body, *, physical: bool) -> None:
    """Raise ModelError unless all that a body states about its joint makes sense."""
    for key, count in _JOINT_VECTORS.items():
        value, size = getattr(body, key), getattr(body.joint, count)
        if value is None:
            continue
        array = np.asarray(value, dtype=np.float64)
        if array.shape not in ((), (size,)) or np.isnan(array).any():
            raise ModelError(f"{where}: {key} must be {size} numbers, got {value!r}")
        free = key in _SIGNED or (key in _UNPHYSICAL and not physical)
        if not free and (array < 0).any():
            raise ModelError(f"{where}: {key} must not be negative, got {value!r}")
    if body.lower is not None and body.upper is not None:
        if (np.asarray(body.lower) > np.asarray(body.upper)).any():
            raise ModelError(f"{where}: lower limit {body.lower} above upper {body.upper}")


def _check_coupling(where: str, i: int, bodies: Sequence[Body]) -> None:
    coupling = bodies[i].coupling
    if coupling is None:
        return
    if not 0 <= coupling.leader < len(bodies) or coupling.leader == i:
        raise ModelError(f"{where}: its joint follows joint {coupling.leader}, which is none")
    leader, follower = bodies[coupling.leader], bodies[i]
    if leader.coupling is not None:
        raise ModelError(
            f"{where}: its joint follows {leader.name!r}, which follows another joint itself;"
            " couple both to the same leader"
        )
    one = (leader.joint.nq, leader.joint.nv, follower.joint.nq, follower.joint.nv)
    if isinstance(follower.joint, Fixed) or one != (1, 1, 1, 1):
        raise ModelError(f"{where}: only joints of one freedom can be coupled")
    if not (np.isfinite(coupling.ratio) and np.isfinite(coupling.offset)):
        raise ModelError(f"{where}: coupling ratio and offset must be finite")
