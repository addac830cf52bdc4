"""KinematicTree: the immutable model every algorithm reads.

Bodies are numbered so that a parent precedes its children; joint i connects body i to its
parent and shares its number. Base is -1 in ``parent``. In q and in qd, qdd and torque the
joints follow each other by number; a coupled (mimic) joint shares the place of its leader.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy as np

from dynsys.errors import ModelError, StateError, nearest_name
from dynsys.model.body import (
    Body,
    Coupling,
    Frame,
    Shape,
    Weld,
    check_frames,
    check_gravity,
    check_tree,
    read_only,
)
from dynsys.model.contacts import Contact, contacts_of, with_contacts
from dynsys.model.joints import AbstractJoint, Free, Spherical, between, random_quaternion
from dynsys.model.locked import weld_joints
from dynsys.model.moving import (
    UNIT,
    difference,
    integrate,
    position_rate,
    velocity_from_rate,
)
from dynsys.model.parameters import (
    FRICTION,
    SMOOTHING,
    JointFriction,
    Parameter,
    find_parameter,
    joint_friction,
    parameter_values,
    with_values,
)
from dynsys.model.spatial import MassMoments, Transform
from dynsys.notebook import facts, folded, table
from dynsys.types import Array, ArrayLike, BoolArray, IntArray, ScalarArray, float_array

if TYPE_CHECKING:
    from dynsys.model.constraints import Constraint  # it needs this file for its types

__all__ = [
    "STANDARD_GRAVITY",
    "Body",
    "Coupling",
    "Frame",
    "KinematicTree",
    "Mechanism",
    "Shape",
    "Weld",
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
    physical : False accepts inertias that no mass distribution has: principal moments that
        break the triangle inequality or are negative.
    welds : fixed joints that were folded away, by name, for sensors that sit in one.
    smoothing : speed (rad/s, m/s) below which dry friction fades where friction and offsets of
        the joints are part of the equations of motion; None where they are not.
    constraints : what its file says holds it (:mod:`dynsys.model.constraints`): used by the
        problems that ask for ``constraints="file"``, no part of any other equation.
    shapes : what its bodies may touch others with; no part of the equations of motion.

    Raises
    ------
    ModelError
        naming the body and what is wrong with it.
    """

    name: str
    bodies: tuple[Body, ...]
    frames: Mapping[str, Frame]
    gravity: Array
    physical: bool
    welds: Mapping[str, Weld]
    smoothing: float | None
    constraints: tuple[Constraint, ...]
    shapes: tuple[Shape, ...]

    def __init__(
        self,
        name: str,
        bodies: Sequence[Body],
        frames: Mapping[str, Frame] | None = None,
        gravity: ArrayLike = STANDARD_GRAVITY,
        physical: bool = True,
        welds: Mapping[str, Weld] | None = None,
        smoothing: float | None = None,
        constraints: Sequence[Constraint] = (),
        shapes: Sequence[Shape] = (),
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "name", name)
        set_field(self, "bodies", tuple(bodies))
        set_field(self, "gravity", read_only(check_gravity(name, gravity)))
        set_field(self, "physical", physical)
        set_field(self, "welds", MappingProxyType(dict(welds or {})))
        set_field(self, "smoothing", smoothing)
        set_field(self, "constraints", tuple(constraints))
        set_field(self, "shapes", tuple(shapes))
        check_tree(name, self.bodies, physical=physical)
        if smoothing is not None and not 0 < smoothing < np.inf:
            raise ModelError(
                f"robot {name!r}: dry friction must fade below some positive speed (smoothing),"
                f" got {smoothing!r}"
            )
        check_frames(name, self.bodies, frames or {})
        own = {
            b.name: Frame(i, Transform.identity(), b.name) for i, b in enumerate(self.bodies)
        }
        set_field(self, "frames", MappingProxyType({**(frames or {}), **own}))

    def __repr__(self) -> str:
        sizes = f"n_bodies={self.n_bodies}, nq={self.nq}, nv={self.nv}"
        return f"KinematicTree({self.name!r}, {sizes})"

    def _repr_html_(self) -> str:
        low, high = self.position_limits
        rows = [
            (joint, body.joint.kind, "base" if p < 0 else self.body_names[p], body.name,
             ", ".join(f"{a:.3g} to {b:.3g}" for a, b in zip(low[s], high[s], strict=True)))
            for joint, body, p, s in zip(
                self.joint_names, self.bodies, self.parent, self.q_slices(), strict=True)
        ]  # fmt: skip
        about = [
            ("bodies", self.n_bodies),
            ("freedoms", f"{self.nv} (q has {self.nq} numbers)"),
        ]
        about += [("mass", f"{self.total_mass:.4g} kg"), ("frames", len(self.frames))]
        header = ("joint", "kind", "parent", "body", "limits")
        return facts(f"robot {self.name!r}", about) + folded("joints", table(header, rows))

    def __reduce__(self) -> tuple[type[KinematicTree], tuple[object, ...]]:
        more = {k: frame for k, frame in self.frames.items() if k not in self.body_names}
        entries = (self.name, self.bodies, more, self.gravity, self.physical)
        own = (dict(self.welds), self.smoothing, self.constraints, self.shapes)
        return KinematicTree, (*entries, *own)

    @cached_property
    def _kept(self) -> dict[object, Any]:
        """What algorithms keep about this robot to be fast the next time; not pickled."""
        return {}

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
        return tuple(body.joint_name or body.name for body in self.bodies)

    @cached_property
    def joints(self) -> tuple[AbstractJoint, ...]:
        """Joint models, by number."""
        return tuple(body.joint for body in self.bodies)

    @cached_property
    def parent(self) -> IntArray:
        """Parent of each body, -1 for the base (read-only)."""
        return read_only(np.array([body.parent for body in self.bodies], dtype=np.intp))

    @cached_property
    def _leading(self) -> dict[int, tuple[Body, slice, slice]]:
        """Body and its places in q and in qd, of every joint that follows no other."""
        leading = {}
        nq = nv = 0
        for i, body in enumerate(self.bodies):
            if body.coupling is None:
                q, v = slice(nq, nq + body.joint.nq), slice(nv, nv + body.joint.nv)
                leading[i] = (body, q, v)
                nq, nv = q.stop, v.stop
        return leading

    @cached_property
    def _slices(self) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """Places of every joint in q and in qd."""
        leaders = [b.coupling.leader if b.coupling else i for i, b in enumerate(self.bodies)]
        places = [self._leading[i] for i in leaders]
        return tuple(q for _, q, _ in places), tuple(v for _, _, v in places)

    @cached_property
    def nq(self) -> int:
        """Length of q."""
        return sum(body.joint.nq for body, _, _ in self._leading.values())

    @cached_property
    def nv(self) -> int:
        """Length of qd, qdd and torque."""
        return sum(body.joint.nv for body, _, _ in self._leading.values())

    def q_slices(self) -> tuple[slice, ...]:
        """Where each joint sits in q, by number; a coupled joint shares its leader's place."""
        return self._slices[0]

    def v_slices(self) -> tuple[slice, ...]:
        """Where each joint sits in qd, qdd and torque, by number."""
        return self._slices[1]

    def q_slice(self, joint: str) -> slice:
        """Where the named joint sits in q."""
        return self._slices[0][self.joint_index(joint)]

    def v_slice(self, joint: str) -> slice:
        """Where the named joint sits in qd, qdd and torque."""
        return self._slices[1][self.joint_index(joint)]

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

    def joint_frame(self, name: str | int) -> Frame:
        """Frame at which the wrench through a body's joint is told: a joint, body or frame.

        ModelError for a fixed joint within a body: the wrench through it is another one.
        """
        if isinstance(name, str) and name in self._joint_number:
            return self.frame(self._joint_number[name])
        weld = self.welds.get(name) if isinstance(name, str) else None
        if weld is not None and weld.joint == name != weld.link:
            own = repr(self.joint_names[weld.body]) if weld.body >= 0 else "none"
            raise ModelError(
                f"robot {self.name!r}: {name!r} is a fixed joint within a body, whose joint"
                f" wrench is that of {own}; name that, or link {weld.link!r} to have it told"
                " there; the wrench through the fixed joint is what a force_torque sensor in it"
                " reads"
            )
        return self.frame(name)

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
        position = q[self._slices[0][i]]
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
        out = self._stated("armature", 0.0).copy()
        for body, v in zip(self.bodies, self._slices[1], strict=True):
            if body.coupling is not None and body.armature is not None:
                out[v] += body.coupling.ratio**2 * np.asarray(body.armature)
        return read_only(out)

    @cached_property
    def damping(self) -> Array:
        """Viscous friction (nv,) as the file states it; that of joints that follow is not
        in it, but in :meth:`friction_torque`.
        """
        return self._stated("damping", 0.0)

    @cached_property
    def friction(self) -> Array:
        """Dry friction (nv,) as the file states it; that of joints that follow is not
        in it, but in :meth:`friction_torque`.
        """
        return self._stated("friction", 0.0)

    @cached_property
    def joint_friction(self) -> JointFriction | None:
        """Friction and offset of all joints; None where they are no part of the equations."""
        if self.smoothing is None:
            return None
        return joint_friction(self.bodies, self._slices[1], self.smoothing)

    def friction_torque(self, qd: ScalarArray) -> ScalarArray:
        """Torque (nv,) that the drives spend on friction and offsets at qd, any scalars.

        The law is in :mod:`dynsys.model.parameters`; zero unless :meth:`with_friction` or
        ``load(friction="file")`` asked for it.
        """
        return 0 * qd if self.joint_friction is None else self.joint_friction.torque(qd)

    @cached_property
    def effort_limit(self) -> Array:
        """Largest torque or force (nv,); inf where there is none."""
        return self._stated("effort_limit", np.inf)

    @cached_property
    def velocity_limit(self) -> Array:
        """Largest speed (nv,); inf where there is none."""
        return self._stated("velocity_limit", np.inf)

    @cached_property
    def position_limits(self) -> tuple[Array, Array]:
        """Lower and upper limit (nq,) of q; +-inf where there is none."""
        return self._stated("lower", -np.inf, "nq"), self._stated("upper", np.inf, "nq")

    def _stated(self, what: str, default: float, size: str = "nv") -> Array:
        """What the bodies state under a name of :class:`Body`: (nv,) or, on demand, (nq,)."""
        parts = []
        for body, _, _ in self._leading.values():
            value = getattr(body, what)
            shape = (getattr(body.joint, size),)
            parts.append(np.broadcast_to(default if value is None else value, shape))
        return read_only(np.concatenate(parts))

    @cached_property
    def parameters(self) -> Mapping[str, float]:
        """All parameters by name (read-only): see :mod:`dynsys.model.parameters`."""
        return MappingProxyType(parameter_values(self.bodies))

    @cached_property
    def total_mass(self) -> float:
        """Mass of all bodies, kg."""
        return float(sum(body.inertia.mass for body in self.bodies))

    # ---- configurations ------------------------------------------------------------------

    def neutral(self) -> Array:
        """Return the q (nq,) at which every joint's two frames coincide."""
        return np.concatenate([body.joint.neutral() for body, _, _ in self._leading.values()])

    def random_configuration(
        self, seed: int | np.random.Generator | None = None, *, limited: bool = True
    ) -> Array:
        """Random q (nq,) within the joint limits; +-pi and +-1 m where there are none.

        ``limited=False`` has no limits anywhere: what is the same at such positions, which
        limits that leave little or no room would make the same too, is so at every q.
        """
        rng, (low, high) = np.random.default_rng(seed), self._random_range[limited]
        q, start = np.empty(self.nq), 0
        for where in self.quaternion_slices:
            q[start : where.start] = rng.uniform(
                low[start : where.start], high[start : where.start]
            )
            q[where], start = random_quaternion(rng), where.stop
        q[start:] = rng.uniform(low[start:], high[start:])
        return q

    @cached_property
    def _random_range(self) -> dict[bool, tuple[Array, Array]]:
        """Least and largest random positions (nq,), limited or not; any for quaternions."""
        reach = np.ones(self.nq)
        for body, q, _ in self._leading.values():
            reach[q.start : q.start + len(body.joint.reach)] = body.joint.reach
        return {True: between(*self.position_limits, reach), False: (-reach, reach)}

    def integrate(self, q: ArrayLike, v: ArrayLike, dt: float) -> Array:
        """Return q (nq,) after moving at constant velocity v (nv,) for time dt; rows too."""
        return integrate(self, q, v, dt)

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """Return the v (nv,) with ``integrate(q0, v, 1)`` = q1; (N, nv) for rows of both.

        It undoes integrate for turns below pi; of two ways round, the shorter one is taken
        where a joint turns by a quaternion or in a plane. Other angles count whole turns.

        Examples
        --------
        >>> import dynsys, numpy as np
        >>> robot = dynsys.synthetic.random_tree(5, seed=2, joint_types=["free", "spherical"])
        >>> q0, q1 = (robot.random_configuration(seed) for seed in (0, 1))
        >>> v = robot.difference(q0, q1)
        >>> bool(np.abs(robot.difference(robot.integrate(q0, v, 1.0), q1)).max() < 1e-12)
        True
        """
        return difference(self, q0, q1)

    def position_rate(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Return dq/dt (nq,) at velocity v (nv,), of quaternions too; (N, nq) for rows."""
        return position_rate(self, q, v)

    def velocity_from_rate(self, q: ArrayLike, rate: ArrayLike) -> Array:
        """Return the velocity v (nv,) that moves q at dq/dt = ``rate`` (nq,); rows too.

        What would only stretch a quaternion is left out: its norm stays one.
        """
        return velocity_from_rate(self, q, rate)

    def tangent(self, q: ScalarArray) -> ScalarArray:
        """T (nq, nv), derivative of ``integrate(q, v, 1)`` by v at v = 0; any scalars."""
        T = np.zeros((self.nq, self.nv), dtype=q.dtype)
        for body, place, freedoms in self._leading.values():
            T[place, freedoms] = body.joint.tangent(q[place])
        return T

    # ---- checks at the boundary ----------------------------------------------------------

    @cached_property
    def _quaternions(self) -> dict[str, slice]:
        """Where the quaternion of each joint that has one sits in q, by the joint's name."""
        return {
            self.joint_names[i]: slice(q.stop - 4, q.stop)
            for i, (body, q, _) in self._leading.items()
            if isinstance(body.joint, (Spherical, Free))
        }

    @property
    def quaternion_slices(self) -> tuple[slice, ...]:
        """Where unit quaternions sit in q."""
        return tuple(self._quaternions.values())

    def check_q(self, q: ArrayLike, what: str = "q") -> Array:
        """Return q as float64 (nq,), finite, its quaternions of norm one; else StateError."""
        out = self._checked(q, what, self.nq, self._slices[0])
        for joint, where in self._quaternions.items():
            norm = float(np.linalg.norm(out[where]))
            if abs(norm - 1.0) > UNIT:
                raise StateError(
                    f"{what}: the quaternion of joint {joint!r} (x, y, z, w at {where.start}:"
                    f"{where.stop}) has norm {norm:.9g}; divide it by its norm"
                )
        return out

    def check_v(self, v: ArrayLike, what: str) -> Array:
        """Return v as float64 (nv,); StateError names ``what`` and the joint that is wrong."""
        return self._checked(v, what, self.nv, self._slices[1])

    def _checked(self, x: ArrayLike, what: str, size: int, places: Sequence[slice]) -> Array:
        try:
            out = float_array(x)
        except (TypeError, ValueError) as error:
            raise StateError(f"{what} of robot {self.name!r} is not numeric: {error}") from None
        if out.shape != (size,):
            raise StateError(
                f"{what} of robot {self.name!r} must have shape ({size},), got {out.shape}"
            )
        if not np.isfinite(out).all():
            k = int(np.flatnonzero(~np.isfinite(out))[0])
            of_joint = zip(self.joint_names, places, strict=True)
            joint = next(joint for joint, place in of_joint if place.start <= k < place.stop)
            raise StateError(
                f"{what}[{k}] of robot {self.name!r} (joint {joint!r}) is {out[k]}"
            )
        return out

    # ---- variants ------------------------------------------------------------------------

    def with_gravity(self, gravity: ArrayLike) -> KinematicTree:
        """Return the same robot under another gravity (3,), base coordinates, m/s^2."""
        return self._with(gravity=gravity)

    def with_armature(self, armature: ArrayLike) -> KinematicTree:
        """Return the same robot with rotor inertias (nv,) at its freedoms, and no others.

        A freedom's is all that it feels (:attr:`armature`): joints that follow it have none.
        """
        values = self.check_v(armature, "armature")
        bodies = [
            replace(b, armature=values[v] if b.coupling is None else None)
            for b, v in zip(self.bodies, self._slices[1], strict=True)
        ]
        return self._with(bodies=bodies)

    def with_friction(self, on: bool = True, smoothing: float = SMOOTHING) -> KinematicTree:
        """Return the same robot with or without friction and offsets in its equations.

        The torque of a joint is then what its drive gives; see :meth:`friction_torque`.
        ``smoothing`` is the speed (rad/s, m/s) below which dry friction fades.
        """
        return self._with(smoothing=smoothing if on else None)

    def with_locked(self, positions: Mapping[str, ArrayLike]) -> KinematicTree:
        """Return the robot with some joints welded at a position (rad, m), by name.

        Bodies on them, and on joints that follow them, become parts of the bodies that carry
        them; their frames stay, and a weld of the joint's name, for sensors that sit there.
        Constraints between parts of one body are left out.

        Raises
        ------
        ModelError
            naming a joint that does not exist or follows another one, or what is no position.

        Examples
        --------
        >>> import dynsys
        >>> robot = dynsys.synthetic.chain(3)
        >>> robot.with_locked({"link_2": 0.3}).joint_names
        ('link_1', 'link_3')
        """
        bodies, frames, welds, shapes = weld_joints(self, positions)
        constraints = [
            left
            for held in self.constraints
            if (left := held.with_locked(self, positions)) is not None
        ]
        changed = {"bodies": bodies, "frames": frames, "welds": welds, "shapes": shapes}
        locked = self._with(**changed, constraints=())
        return locked._with(constraints=[c for c in constraints if not c.is_welded(locked)])

    def with_constraints(self, constraints: Sequence[Constraint]) -> KinematicTree:
        """Return the same robot held by other constraints where ``"file"`` is asked for."""
        return self._with(constraints=constraints)

    @cached_property
    def contacts(self) -> tuple[Contact, ...]:
        """Places with an external wrench of their own: see :meth:`with_contacts`."""
        return contacts_of(self)

    def with_contacts(self, contacts: Iterable[Contact | str]) -> KinematicTree:
        """Return the robot with further places that are touched, each with its own wrench.

        A contact is a body without mass, welded to the link that it touches: ``f_ext``,
        ``external_wrench`` and sensors know it by its name; q, qd and torque stay as they are.

        Parameters
        ----------
        contacts : names of frames, or contacts anywhere on a link; those there are stay.

        Raises
        ------
        ModelError
            naming the contact: its name is taken, or its link is not clear.

        Examples
        --------
        >>> import dynsys
        >>> robot = dynsys.synthetic.chain(2)
        >>> tip = dynsys.Contact("tip", "link_2", xyz=(0.3, 0.0, 0.0))
        >>> touched = robot.with_contacts([tip])
        >>> touched.body_names, touched.nv
        (('link_1', 'link_2', 'tip'), 2)
        >>> dynsys.rnea(touched, [0, 0], [0, 0], [0, 0], {"tip": [0, 0, 0, 0, 0, 5]}).shape
        (2,)
        """
        bodies, welds = with_contacts(self, contacts)
        return self if len(bodies) == self.n_bodies else self._with(bodies=bodies, welds=welds)

    def to_urdf(self, path: str | os.PathLike[str]) -> Path:
        """Write the robot to a URDF file and return its path; see dynsys.model.writers.urdf.

        ``load(path, mimic="couple", friction="file")`` reads it back with the same dynamics.
        """
        from dynsys.model.writers.urdf import write_urdf  # it needs this file for its types

        return write_urdf(self, path)

    def parameter(self, name: str) -> Parameter:
        """Where the named parameter is; ModelError names the nearest one."""
        return find_parameter(self.name, self.bodies, self.frames, name)

    def with_parameters(
        self, values: Mapping[str, float], *, physical: bool | None = None
    ) -> KinematicTree:
        """Return the same robot with some of its parameters changed.

        The ten of a body are independent: another ``BODY.mass`` alone leaves its first moment,
        so that the mass comes or goes at the body's origin. It is the body itself that changes,
        not the parts welded to it. Friction or an offset among the values makes friction part
        of the equations of motion (:meth:`with_friction`).

        Parameters
        ----------
        values : by name, as :attr:`parameters` has them; ``JOINT.coulomb_minus`` may be added.
        physical : False accepts what no robot has: see :class:`KinematicTree`; negative
            friction and rotor inertia too. None for the robot's own.

        Raises
        ------
        ModelError
            naming the parameter and the nearest one, or the body and what is wrong with it.

        Examples
        --------
        >>> import dynsys
        >>> robot = dynsys.synthetic.chain(2)
        >>> heavy = robot.with_parameters({"link_1.mass": 3.0, "link_2.viscous": 0.5})
        >>> heavy.parameters["link_1.mass"], heavy.friction_torque(np.ones(2)).tolist()
        (3.0, [0.0, 0.5])
        """
        found = {self.parameter(name): float(value) for name, value in values.items()}
        smoothing = self.smoothing
        if smoothing is None and any(at.kind in FRICTION for at in found):
            smoothing = SMOOTHING
        try:
            bodies = with_values(self.bodies, found)
        except ModelError as error:
            raise ModelError(f"robot {self.name!r}, {error}") from None
        physical = self.physical if physical is None else physical
        return self._with(bodies=bodies, physical=physical, smoothing=smoothing)

    def _with(self, **changed: Any) -> KinematicTree:
        entries = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return KinematicTree(**(entries | changed))


class Mechanism(Protocol):
    """What the recursions ask of a robot; see KinematicTree for the meaning of each name.

    They also run on a robot with other link frames and regrouped masses.
    """

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

    def friction_torque(self, qd: ScalarArray) -> ScalarArray: ...

    def joint_transform(self, i: int, q: ScalarArray) -> Transform: ...
