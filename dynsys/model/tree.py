"""KinematicTree: the immutable model every algorithm reads.

Bodies are numbered so that a parent precedes its children; joint i connects body i to its
parent and shares its number. Base is -1 in ``parent``.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Protocol, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import ModelError, StateError
from dynsys.model.joints import AbstractJoint, Fixed, Free, Spherical
from dynsys.model.spatial import Inertia, MassMoments, Transform, matrix_pattern
from dynsys.types import Array, ArrayLike, BoolArray, IntArray, ScalarArray

__all__ = [
    "STANDARD_GRAVITY",
    "Body",
    "Coupling",
    "Frame",
    "JointPlaces",
    "KinematicTree",
    "Mechanism",
    "Weld",
    "WeldRecorder",
    "check_frames",
    "check_gravity",
    "check_position",
    "check_tree",
    "check_velocity",
    "inertia_defect",
    "nearest_name",
    "read_only",
]

STANDARD_GRAVITY = (0.0, 0.0, -9.81)


@final
@dataclass(frozen=True, eq=False, repr=False)
class KinematicTree:
    """A robot: bodies in parent-first order, named frames, gravity. Immutable and validated.

    Parameters
    ----------
    name : name of the robot.
    bodies : bodies, each after its parent.
    frames : further named frames; every body's own frame is known by the body's name.
    gravity : acceleration of gravity (3,) in base coordinates, m/s^2.
    physical : False accepts inertias that no mass distribution has (triangle inequality).
    welds : fixed joints that were folded away, by name, for sensors that sit in one.

    Raises
    ------
    ModelError
        naming the body and what is wrong with it.
    """

    name: str
    bodies: tuple[Body, ...]
    frames: Mapping[str, Frame] = field(default_factory=dict)
    gravity: Array = field(default_factory=lambda: np.array(STANDARD_GRAVITY))
    physical: bool = True
    welds: Mapping[str, Weld] = field(default_factory=dict)

    def __init__(
        self,
        name: str,
        bodies: Sequence[Body],
        frames: Mapping[str, Frame] | None = None,
        gravity: ArrayLike = STANDARD_GRAVITY,
        physical: bool = True,
        welds: Mapping[str, Weld] | None = None,
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "name", name)
        set_field(self, "bodies", tuple(bodies))
        set_field(self, "gravity", read_only(check_gravity(name, gravity)))
        set_field(self, "physical", physical)
        set_field(self, "welds", MappingProxyType(dict(welds or {})))
        check_tree(name, self.bodies, physical=physical)
        check_frames(name, self.bodies, frames or {})
        own = {b.name: Frame(i, Transform.identity()) for i, b in enumerate(self.bodies)}
        set_field(self, "frames", MappingProxyType({**(frames or {}), **own}))

    def __repr__(self) -> str:
        sizes = f"n_bodies={self.n_bodies}, nq={self.nq}, nv={self.nv}"
        return f"KinematicTree({self.name!r}, {sizes})"

    def __reduce__(self) -> tuple[type[KinematicTree], tuple[object, ...]]:
        more = {k: frame for k, frame in self.frames.items() if k not in self.body_names}
        welds = dict(self.welds)
        entries = (self.name, self.bodies, more, self.gravity, self.physical, welds)
        return KinematicTree, entries

    # ---- names and sizes -----------------------------------------------------------------

    @property
    def n_bodies(self) -> int:
        """Number of bodies, the base not counted."""
        return len(self.bodies)

    @cached_property
    def body_names(self) -> tuple[str, ...]:
        """Names of the bodies, by number."""
        return tuple(body.name for body in self.bodies)

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints, by the number of the body they carry."""
        return self._places.joint_names

    @cached_property
    def joints(self) -> tuple[AbstractJoint, ...]:
        """Joint models, by number."""
        return tuple(body.joint for body in self.bodies)

    @cached_property
    def parent(self) -> IntArray:
        """Parent of each body, -1 for the base (read-only)."""
        return read_only(np.array([body.parent for body in self.bodies], dtype=np.intp))

    @cached_property
    def _places(self) -> JointPlaces:
        return JointPlaces(self.bodies)

    @cached_property
    def nq(self) -> int:
        """Length of q."""
        return self._places.nq

    @cached_property
    def nv(self) -> int:
        """Length of qd, qdd and torque."""
        return self._places.nv

    def q_slices(self) -> tuple[slice, ...]:
        """Where each joint sits in q, by number; a coupled joint shares its leader's place."""
        return self._places.q

    def v_slices(self) -> tuple[slice, ...]:
        """Where each joint sits in qd, qdd and torque, by number."""
        return self._places.v

    def q_slice(self, joint: str) -> slice:
        """Where the named joint sits in q."""
        return self._places.q[self.joint_index(joint)]

    def v_slice(self, joint: str) -> slice:
        """Where the named joint sits in qd, qdd and torque."""
        return self._places.v[self.joint_index(joint)]

    @cached_property
    def _joint_number(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.joint_names)}

    def joint_index(self, joint: str) -> int:
        """Number of the named joint."""
        if joint not in self._joint_number:
            hint = nearest_name(joint, self.joint_names)
            raise ModelError(f"robot {self.name!r} has no joint {joint!r}{hint}")
        return self._joint_number[joint]

    def body_index(self, body: str | int) -> int:
        """Number of a body given by name or number; a folded link answers with its body."""
        return self.frame(body).body

    def frame(self, name: str | int) -> Frame:
        """Frame by name, or a body's own frame by number."""
        if isinstance(name, (int, np.integer)):
            if not -1 <= name < self.n_bodies:
                raise ModelError(
                    f"robot {self.name!r} has bodies 0..{self.n_bodies - 1}, no body {name}"
                )
            return Frame(int(name), Transform.identity())
        if name not in self.frames:
            hint = nearest_name(name, tuple(self.frames))
            raise ModelError(f"robot {self.name!r} has no body or frame {name!r}{hint}")
        return self.frames[name]

    # ---- topology ------------------------------------------------------------------------

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of each body: mu(i) of the papers."""
        children: list[list[int]] = [[] for _ in self.bodies]
        for i, p in enumerate(self.parent):
            if p >= 0:
                children[p].append(i)
        return tuple(map(tuple, children))

    def support(self, body: int) -> tuple[int, ...]:
        """Bodies on the way from the base to ``body``, inclusive: kappa(i) of the papers."""
        path: list[int] = []
        while body >= 0:
            path.append(body)
            body = int(self.parent[body])
        return tuple(reversed(path))

    @cached_property
    def is_coupled(self) -> bool:
        """True if some joint follows another one (mimic): H then loses its tree sparsity."""
        return any(body.coupling is not None for body in self.bodies)

    # ---- per-joint data as the algorithms want it ----------------------------------------

    @cached_property
    def motion_subspace(self) -> tuple[Array, ...]:
        """S (6, nv) of each joint; scaled by the ratio where the joint is coupled."""
        return tuple(read_only(body.motion_subspace()) for body in self.bodies)

    @cached_property
    def moments(self) -> tuple[MassMoments, ...]:
        """Moments of each body's mass about its origin."""
        return tuple(body.inertia.moments() for body in self.bodies)

    def joint_position(self, i: int, q: ScalarArray) -> ScalarArray:
        """Position (nq_i,) of joint i within q (nq,)."""
        position = q[self._places.q[i]]
        coupling = self.bodies[i].coupling
        return position if coupling is None else coupling.ratio * position + coupling.offset

    def joint_transform(self, i: int, q: ScalarArray) -> Transform:
        """Transform parent -> body i at q (nq,), scalars of any kind."""
        body = self.bodies[i]
        return body.placement.then(body.joint.transform(self.joint_position(i, q)))

    @cached_property
    def transform_pattern(self) -> tuple[BoolArray, ...]:
        """Worst-case nonzeros (6, 6) of each transform parent -> body, over all q."""
        return tuple(read_only(body.transform_pattern()) for body in self.bodies)

    @cached_property
    def armature(self) -> Array:
        """Rotor inertia (nv,) reflected at each freedom; a coupled one counts at its leader."""
        return self._places.armature()

    @cached_property
    def damping(self) -> Array:
        """Viscous friction (nv,) as the file states it. Not part of the equations of motion."""
        return self._places.stated("damping", 0.0)

    @cached_property
    def friction(self) -> Array:
        """Dry friction (nv,) as the file states it. Not part of the equations of motion."""
        return self._places.stated("friction", 0.0)

    @cached_property
    def effort_limit(self) -> Array:
        """Largest torque or force (nv,); inf where there is none."""
        return self._places.stated("effort_limit", np.inf)

    @cached_property
    def velocity_limit(self) -> Array:
        """Largest speed (nv,); inf where there is none."""
        return self._places.stated("velocity_limit", np.inf)

    @cached_property
    def position_limits(self) -> tuple[Array, Array]:
        """Lower and upper limit (nq,) of q; +-inf where there is none."""
        return self._places.position_limits()

    @cached_property
    def total_mass(self) -> float:
        """Mass of all bodies, kg."""
        return float(sum(body.inertia.mass for body in self.bodies))

    # ---- configurations ------------------------------------------------------------------

    def neutral(self) -> Array:
        """Return the q (nq,) at which every joint's two frames coincide."""
        return self._places.neutral()

    def random_configuration(self, seed: int | np.random.Generator | None = None) -> Array:
        """Random q (nq,) within the joint limits; +-pi and +-1 m where there are none."""
        return self._places.random(np.random.default_rng(seed), *self.position_limits)

    def integrate(self, q: ArrayLike, v: ArrayLike, dt: float) -> Array:
        """Return q (nq,) after moving at constant velocity v (nv,) for time dt."""
        start = self.check_q(q)
        velocity = self.check_v(v, "v")
        if not np.isfinite(dt):
            raise StateError(f"dt must be a finite number of seconds, got {dt}")
        return self._places.integrate(start, velocity, dt)

    # ---- checks at the boundary ----------------------------------------------------------

    @property
    def quaternion_slices(self) -> tuple[slice, ...]:
        """Where unit quaternions sit in q."""
        return tuple(where for _, where in self._places.quaternions)

    def check_q(self, q: ArrayLike) -> Array:
        """Return q as float64 (nq,); StateError names what is wrong with it."""
        return check_position(self.name, self._places, q)

    def check_v(self, v: ArrayLike, what: str) -> Array:
        """Return v as float64 (nv,); StateError names ``what`` and the joint that is wrong."""
        return check_velocity(self.name, self._places, v, what)

    # ---- variants ------------------------------------------------------------------------

    def with_gravity(self, gravity: ArrayLike) -> KinematicTree:
        """Return the same robot under another gravity (3,), base coordinates, m/s^2."""
        return self._with(self.bodies, gravity)

    def with_armature(self, armature: ArrayLike) -> KinematicTree:
        """Return the same robot with rotor inertias (nv,) at its freedoms."""
        values = self.check_v(armature, "armature")
        bodies = [
            replace(b, armature=values[v]) if b.coupling is None else b
            for b, v in zip(self.bodies, self._places.v, strict=True)
        ]
        return self._with(bodies, self.gravity)

    def _with(self, bodies: Sequence[Body], gravity: ArrayLike) -> KinematicTree:
        return KinematicTree(self.name, bodies, self.frames, gravity, self.physical, self.welds)


# ----------------------------------------------------------------------
# What a tree is made of: bodies with their joints, named frames, couplings of joints.

_PER_JOINT_VECTORS = (
    "armature",
    "damping",
    "friction",
    "effort_limit",
    "velocity_limit",
    "lower",
    "upper",
)
_Scalar = TypeVar("_Scalar", bound=np.generic)


@final
@dataclass(frozen=True, eq=False)
class Frame:
    """A named frame fixed to a body (-1: the base); ``transform`` goes body -> frame."""

    body: int
    transform: Transform


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
    ``armature`` (reflected rotor inertia), ``damping``, ``friction``, ``effort_limit``,
    ``velocity_limit``; per-coordinate vectors (nq,): ``lower``, ``upper``. None means zero,
    respectively unlimited. Arrays are copied and become read-only.
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

    def __post_init__(self) -> None:
        place, inertia = self.placement, self.inertia
        E, r = self._own("placement.E", place.E), self._own("placement.r", place.r)
        com, about = self._own("com", inertia.com), self._own("about_com", inertia.about_com)
        object.__setattr__(self, "placement", Transform(E, r))
        object.__setattr__(self, "inertia", Inertia(inertia.mass, com, about))
        for key in _PER_JOINT_VECTORS:
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
            return read_only(np.array(value, dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise ModelError(f"body {self.name!r}: {what} is not numeric: {error}") from None


def read_only(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Make an array immutable and return it."""
    array.setflags(write=False)
    return array


# ----------------------------------------------------------------------
# JointPlaces: where joints sit in q and qd, and what their bodies state, by place.


@final
class JointPlaces:
    """Places of a tree's joints in q (nq,) and in qd, qdd and torque (nv,).

    Attributes
    ----------
    nq, nv : length of q, and of qd, qdd and torque.
    q, v : place of each joint, by number; a coupled joint shares its leader's.
    joint_names : by number.
    independent : body and its two places, of every joint that follows no other.
    """

    def __init__(self, bodies: Sequence[Body]) -> None:
        self.bodies = bodies
        self.joint_names = tuple(body.joint_name or body.name for body in bodies)
        self.nq = self.nv = 0
        independent = {}
        for i, body in enumerate(bodies):
            if body.coupling is None:
                q, v = self.nq + body.joint.nq, self.nv + body.joint.nv
                independent[i] = (body, slice(self.nq, q), slice(self.nv, v))
                self.nq, self.nv = q, v
        leaders = [i if b.coupling is None else b.coupling.leader for i, b in enumerate(bodies)]
        self.q = tuple(independent[i][1] for i in leaders)
        self.v = tuple(independent[i][2] for i in leaders)
        self.independent = tuple(independent.values())

    @cached_property
    def quaternions(self) -> tuple[tuple[str, slice], ...]:
        """Joints that turn by a unit quaternion, and its place in q."""
        return tuple(
            (body.joint_name or body.name, slice(q.stop - 4, q.stop))
            for body, q, _ in self.independent
            if isinstance(body.joint, (Spherical, Free))
        )

    # ---- what bodies state ---------------------------------------------------------------

    def stated(self, what: str, default: float) -> Array:
        """Per-freedom data (nv,) of the bodies, ``what`` being its name in :class:`Body`."""
        out = np.full(self.nv, default)
        for body, _, v in self.independent:
            value = getattr(body, what)
            if value is not None:
                out[v] = value
        return read_only(out)

    def armature(self) -> Array:
        """Rotor inertia (nv,); that of a coupled joint counts at its leader."""
        out = self.stated("armature", 0.0).copy()
        for body, v in zip(self.bodies, self.v, strict=True):
            if body.coupling is not None and body.armature is not None:
                out[v] += body.coupling.ratio**2 * np.asarray(body.armature)
        return read_only(out)

    def position_limits(self) -> tuple[Array, Array]:
        """Lower and upper limit (nq,); +-inf where there is none."""
        lower, upper = np.full(self.nq, -np.inf), np.full(self.nq, np.inf)
        for body, q, _ in self.independent:
            lower[q] = -np.inf if body.lower is None else body.lower
            upper[q] = np.inf if body.upper is None else body.upper
        return read_only(lower), read_only(upper)

    # ---- configurations ------------------------------------------------------------------

    def neutral(self) -> Array:
        """Return the q (nq,) at which every joint's two frames coincide."""
        out = np.zeros(self.nq)
        for body, q, _ in self.independent:
            out[q] = body.joint.neutral()
        return out

    def random(self, rng: np.random.Generator, lower: Array, upper: Array) -> Array:
        """Random q (nq,) between the limits (nq,)."""
        out = np.zeros(self.nq)
        for body, q, _ in self.independent:
            out[q] = body.joint.random(rng, lower[q], upper[q])
        return out

    def integrate(self, start: Array, velocity: Array, dt: float) -> Array:
        """Return q (nq,) after moving from ``start`` at constant velocity (nv,) for dt."""
        out = np.zeros(self.nq)
        for body, q, v in self.independent:
            out[q] = body.joint.integrate(start[q], velocity[v], dt)
        return out


# ----------------------------------------------------------------------
# What an algorithm may ask of a robot: KinematicTree has it, and so have its rewritings.
#
# The engine runs the same recursions on a mechanism with other link frames and regrouped
# masses;
# this protocol is all that they share.


class Mechanism(Protocol):
    """Bodies in parent-first order; see KinematicTree for the meaning of each name."""

    @property
    def n_bodies(self) -> int: ...

    @property
    def nv(self) -> int: ...

    @property
    def parent(self) -> IntArray: ...

    @property
    def motion_subspace(self) -> tuple[Array, ...]: ...

    @property
    def moments(self) -> tuple[MassMoments, ...]: ...

    @property
    def armature(self) -> Array: ...

    @property
    def gravity(self) -> Array: ...

    def v_slices(self) -> tuple[slice, ...]: ...

    def joint_transform(self, i: int, q: ScalarArray) -> Transform: ...


# ----------------------------------------------------------------------
# Fixed joints that readers fold away, kept for whoever cuts the robot there.
#
# A sensor in a fixed joint feels the links beyond it. Folding adds their inertia to the body
# that
# carries them; a :class:`Weld` remembers the part beyond the joint.


@final
@dataclass(frozen=True, eq=False)
class Weld:
    """A folded fixed joint within ``body`` (-1: the base), and all that hangs beyond it.

    Parameters
    ----------
    joint, link : names of the fixed joint and of the link it carries.
    body : number of the body both of its links are part of.
    transform : body -> frame of the carried link.
    parent_transform : body -> frame of the link that carries it.
    inertia : of the carried link and everything welded to it, in body coordinates.
    children : bodies whose joints hang on that part.
    """

    joint: str
    link: str
    body: int
    transform: Transform
    parent_transform: Transform
    inertia: Inertia
    children: tuple[int, ...]


@final
class WeldRecorder:
    """Collects folded links while a robot is assembled, parents before children."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}
        self._folded: dict[str, Weld] = {}
        self._hanging: dict[str, list[int]] = {}

    def fold(
        self,
        link: str,
        *,
        joint: str,
        parent: str,
        body: int,
        transform: Transform,
        parent_transform: Transform,
        inertia: Inertia,
    ) -> None:
        """Remember a link welded to ``parent``; ``inertia`` in its own coordinates."""
        self._parent[link] = parent
        seen = inertia.seen_from(transform)
        self._folded[link] = Weld(joint, link, body, transform, parent_transform, seen, ())

    def hang(self, body: int, link: str) -> None:
        """Remember that the joint of ``body`` sits on ``link``."""
        self._hanging.setdefault(link, []).append(body)

    def welds(self) -> dict[str, Weld]:
        """Welds by the name of their fixed joint and, where that is free, of their link."""
        inertia = {link: weld.inertia for link, weld in self._folded.items()}
        children = {link: list(self._hanging.get(link, ())) for link in self._folded}
        for link in reversed(self._folded):
            parent = self._parent[link]
            if parent in self._folded:
                inertia[parent] = inertia[parent].plus(inertia[link])
                children[parent].extend(children[link])
        found = {
            weld.joint: replace(
                weld, inertia=inertia[link], children=tuple(sorted(children[link]))
            )
            for link, weld in self._folded.items()
        }
        return found | _by_link(found)


def _by_link(found: Mapping[str, Weld]) -> dict[str, Weld]:
    return {weld.link: weld for weld in found.values() if weld.link not in found}


# ----------------------------------------------------------------------
# What a robot must satisfy; every failure names the body and the way out.

TRIANGLE_TOLERANCE = 1e-3
"""Relative excess of a principal moment over the sum of the others that rounding explains."""

MILLIMETRE = 1e-3
"""Radius of gyration next to which 1e-9 of a moment is rounding: point masses in real files."""


MAX_COMPARED = 2000
"""Names that are compared with a wrong one, which takes some microseconds each."""


def nearest_name(name: str, known: Sequence[str]) -> str:
    """Return ``; did you mean 'x'?`` or the empty string."""
    close = difflib.get_close_matches(str(name)[:80], known[:MAX_COMPARED], n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def inertia_defect(inertia: Inertia) -> tuple[str, bool] | None:
    """Return what is wrong with an inertia and whether it is fatal, or None.

    Fatal: wrong shape, not finite, negative mass, not symmetric, indefinite. Not fatal by
    itself: principal moments that break the triangle inequality, which no mass distribution
    does.
    """
    about = np.asarray(inertia.about_com)
    if np.shape(inertia.com) != (3,) or about.shape != (3, 3):
        return "centre of mass must be 3 numbers and rotational inertia 3 x 3", True
    if not (np.isfinite(inertia.mass) and np.isfinite(inertia.com).all()):
        return f"mass {inertia.mass} or centre of mass {inertia.com.tolist()} not finite", True
    if not np.isfinite(about).all():
        return "rotational inertia has entries that are not finite", True
    if inertia.mass < 0:
        return f"negative mass {inertia.mass:g} kg", True
    scale = float(np.abs(about).max(initial=0.0))
    if np.abs(about - about.T).max(initial=0.0) > 1e-9 * scale:
        return "rotational inertia is not symmetric", True
    moments = np.linalg.eigvalsh(about)
    rounding = 1e-9 * (scale + inertia.mass * MILLIMETRE**2)
    if moments[0] < -rounding:
        return (
            f"rotational inertia is not positive definite (principal moment {moments[0]:.3g})",
            True,
        )
    if moments[2] > (moments[0] + moments[1]) * (1 + TRIANGLE_TOLERANCE) + rounding:
        listed = ", ".join(f"{m:.4g}" for m in moments)
        return f"principal moments {listed} break the triangle inequality", False
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
        _check_joint_data(where, body)
        _check_coupling(where, i, bodies)
        defect = inertia_defect(body.inertia)
        if defect is not None and (physical or defect[1]):
            raise ModelError(f"{where}: {defect[0]}")


def check_gravity(name: str, gravity: ArrayLike) -> Array:
    """Return gravity as an array (3,) of its own; ModelError unless 3 finite numbers."""
    try:
        vector = np.array(gravity, dtype=np.float64)
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


def _check_joint_data(where: str, body: Body) -> None:
    for key, size in (
        ("armature", body.joint.nv),
        ("damping", body.joint.nv),
        ("friction", body.joint.nv),
        ("effort_limit", body.joint.nv),
        ("velocity_limit", body.joint.nv),
        ("lower", body.joint.nq),
        ("upper", body.joint.nq),
    ):
        value = getattr(body, key)
        if value is None:
            continue
        array = np.asarray(value, dtype=np.float64)
        if array.shape not in ((), (size,)) or np.isnan(array).any():
            raise ModelError(f"{where}: {key} must be {size} numbers, got {value!r}")
        if key not in ("lower", "upper") and (array < 0).any():
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


# ----------------------------------------------------------------------
# Checks of a robot's q and of its vectors per freedom; a failure names the joint.

UNIT = 1e-6
"""Distance of a quaternion's norm from one that is accepted."""


def check_position(robot: str, joints: JointPlaces, q: ArrayLike) -> Array:
    """Return q as float64 (nq,), finite, its quaternions of norm one."""
    out = _checked(robot, q, "q", joints.nq, joints.joint_names, joints.q)
    for joint, where in joints.quaternions:
        norm = float(np.linalg.norm(out[where]))
        if abs(norm - 1.0) > UNIT:
            raise StateError(
                f"q: the quaternion of joint {joint!r} (x, y, z, w at {where.start}:"
                f"{where.stop}) has norm {norm:.9g}; divide it by its norm"
            )
    return out


def check_velocity(robot: str, joints: JointPlaces, v: ArrayLike, what: str) -> Array:
    """Return v as float64 (nv,), finite; ``what`` it is: qd, qdd, torque or the like."""
    return _checked(robot, v, what, joints.nv, joints.joint_names, joints.v)


def _checked(
    robot: str,
    x: ArrayLike,
    what: str,
    size: int,
    joints: Sequence[str],
    places: Sequence[slice],
) -> Array:
    try:
        out = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise StateError(f"{what} of robot {robot!r} is not numeric: {error}") from None
    if out.shape != (size,):
        raise StateError(
            f"{what} of robot {robot!r} must have shape ({size},), got {out.shape}"
        )
    if not np.isfinite(out).all():
        k = int(np.flatnonzero(~np.isfinite(out))[0])
        of_joint = zip(joints, places, strict=True)
        joint = next(joint for joint, place in of_joint if place.start <= k < place.stop)
        raise StateError(f"{what}[{k}] of robot {robot!r} (joint {joint!r}) is {out[k]}")
    return out
