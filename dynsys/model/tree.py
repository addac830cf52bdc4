"""KinematicTree: the immutable model every algorithm reads.

Bodies are numbered so that a parent precedes its children; joint i connects body i to its
parent and shares its number. Base is -1 in ``parent``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import final

import numpy as np

from dynsys.errors import ModelError, StateError
from dynsys.model.body import Body, Coupling, Frame, read_only
from dynsys.model.checks import check_frames, check_tree, nearest_name
from dynsys.model.joints import AbstractJoint, Free, Spherical
from dynsys.model.spatial import MassMoments, Transform, matrix_pattern
from dynsys.model.welds import Weld
from dynsys.types import Array, ArrayLike, BoolArray, IntArray, ScalarArray

__all__ = ["STANDARD_GRAVITY", "Body", "Coupling", "Frame", "KinematicTree"]

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
        try:
            vector = np.array(gravity, dtype=np.float64)
        except (TypeError, ValueError):
            vector = np.array([])
        if vector.shape != (3,) or not np.isfinite(vector).all():
            raise ModelError(
                f"robot {name!r}: gravity must be 3 finite numbers, got {gravity!r}"
            )
        read_only(vector)
        set_field = object.__setattr__
        set_field(self, "name", name)
        set_field(self, "bodies", tuple(bodies))
        set_field(self, "gravity", vector)
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
        return tuple(body.joint_name or body.name for body in self.bodies)

    @cached_property
    def joints(self) -> tuple[AbstractJoint, ...]:
        """Joint models, by number."""
        return tuple(body.joint for body in self.bodies)

    @cached_property
    def parent(self) -> IntArray:
        """Parent of each body, -1 for the base (read-only)."""
        parent = np.array([body.parent for body in self.bodies], dtype=np.intp)
        parent.setflags(write=False)
        return parent

    @cached_property
    def nq(self) -> int:
        """Length of q."""
        return sum(b.joint.nq for b in self.bodies if b.coupling is None)

    @cached_property
    def nv(self) -> int:
        """Length of qd, qdd and torque."""
        return sum(b.joint.nv for b in self.bodies if b.coupling is None)

    @cached_property
    def _slices(self) -> tuple[tuple[slice, slice], ...]:
        slices: list[tuple[slice, slice]] = []
        iq = iv = 0
        for body in self.bodies:
            if body.coupling is not None:
                slices.append((slice(0, 0), slice(0, 0)))
                continue
            slices.append((slice(iq, iq + body.joint.nq), slice(iv, iv + body.joint.nv)))
            iq, iv = iq + body.joint.nq, iv + body.joint.nv
        for i, body in enumerate(self.bodies):
            if body.coupling is not None:
                slices[i] = slices[body.coupling.leader]
        return tuple(slices)

    @cached_property
    def _columns(self) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        return tuple(q for q, _ in self._slices), tuple(v for _, v in self._slices)

    def q_slices(self) -> tuple[slice, ...]:
        """Where each joint sits in q, by number; a coupled joint shares its leader's place."""
        return self._columns[0]

    def v_slices(self) -> tuple[slice, ...]:
        """Where each joint sits in qd, qdd and torque, by number."""
        return self._columns[1]

    def q_slice(self, joint: str) -> slice:
        """Where the named joint sits in q."""
        return self._slices[self.joint_index(joint)][0]

    def v_slice(self, joint: str) -> slice:
        """Where the named joint sits in qd, qdd and torque."""
        return self._slices[self.joint_index(joint)][1]

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
        return tuple(
            read_only(b.joint.S * (1.0 if b.coupling is None else b.coupling.ratio))
            for b in self.bodies
        )

    @cached_property
    def moments(self) -> tuple[MassMoments, ...]:
        """Moments of each body's mass about its origin."""
        return tuple(body.inertia.moments() for body in self.bodies)

    def joint_position(self, i: int, q: ScalarArray) -> ScalarArray:
        """Position (nq_i,) of joint i within q (nq,)."""
        position = q[self._slices[i][0]]
        coupling = self.bodies[i].coupling
        return position if coupling is None else coupling.ratio * position + coupling.offset

    def joint_transform(self, i: int, q: ScalarArray) -> Transform:
        """Transform parent -> body i at q (nq,), scalars of any kind."""
        body = self.bodies[i]
        return body.placement.then(body.joint.transform(self.joint_position(i, q)))

    @cached_property
    def transform_pattern(self) -> tuple[BoolArray, ...]:
        """Worst-case nonzeros (6, 6) of each transform parent -> body, over all q."""
        patterns = []
        for body in self.bodies:
            E_joint, r_joint = body.joint.pattern()
            E_place, r_place = body.placement.E != 0, body.placement.r != 0
            pattern = matrix_pattern(E_joint @ E_place, r_place | (E_place.T @ r_joint))
            patterns.append(read_only(pattern))
        return tuple(patterns)

    def _per_freedom(self, values: Sequence[ArrayLike | None], default: float) -> Array:
        out = np.full(self.nv, default)
        for (_, v), body, value in zip(self._slices, self.bodies, values, strict=True):
            if value is not None and body.coupling is None:
                out[v] = value
        out.setflags(write=False)
        return out

    @cached_property
    def armature(self) -> Array:
        """Rotor inertia (nv,) reflected at each freedom; a coupled one counts at its leader."""
        out = self._per_freedom([b.armature for b in self.bodies], 0.0).copy()
        for (_, v), body in zip(self._slices, self.bodies, strict=True):
            if body.coupling is not None and body.armature is not None:
                out[v] += body.coupling.ratio**2 * np.asarray(body.armature)
        out.setflags(write=False)
        return out

    @cached_property
    def damping(self) -> Array:
        """Viscous friction (nv,) as the file states it. Not part of the equations of motion."""
        return self._per_freedom([b.damping for b in self.bodies], 0.0)

    @cached_property
    def friction(self) -> Array:
        """Dry friction (nv,) as the file states it. Not part of the equations of motion."""
        return self._per_freedom([b.friction for b in self.bodies], 0.0)

    @cached_property
    def effort_limit(self) -> Array:
        """Largest torque or force (nv,); inf where there is none."""
        return self._per_freedom([b.effort_limit for b in self.bodies], np.inf)

    @cached_property
    def velocity_limit(self) -> Array:
        """Largest speed (nv,); inf where there is none."""
        return self._per_freedom([b.velocity_limit for b in self.bodies], np.inf)

    @cached_property
    def position_limits(self) -> tuple[Array, Array]:
        """Lower and upper limit (nq,) of q; +-inf where there is none."""
        lower, upper = np.full(self.nq, -np.inf), np.full(self.nq, np.inf)
        for (q, _), body in zip(self._slices, self.bodies, strict=True):
            if body.coupling is None:
                lower[q] = -np.inf if body.lower is None else body.lower
                upper[q] = np.inf if body.upper is None else body.upper
        lower.setflags(write=False)
        upper.setflags(write=False)
        return lower, upper

    @cached_property
    def total_mass(self) -> float:
        """Mass of all bodies, kg."""
        return float(sum(body.inertia.mass for body in self.bodies))

    # ---- configurations ------------------------------------------------------------------

    def neutral(self) -> Array:
        """Return the q (nq,) at which every joint's two frames coincide."""
        q = np.zeros(self.nq)
        for (where, _), body in zip(self._slices, self.bodies, strict=True):
            if body.coupling is None:
                q[where] = body.joint.neutral()
        return q

    def random_configuration(self, seed: int | np.random.Generator | None = None) -> Array:
        """Random q (nq,) within the joint limits; +-pi and +-1 m where there are none."""
        rng = np.random.default_rng(seed)
        lower, upper = self.position_limits
        q = np.zeros(self.nq)
        for (where, _), body in zip(self._slices, self.bodies, strict=True):
            if body.coupling is None:
                q[where] = body.joint.random(rng, lower[where], upper[where])
        return q

    def integrate(self, q: ArrayLike, v: ArrayLike, dt: float) -> Array:
        """Return q (nq,) after moving at constant velocity v (nv,) for time dt."""
        start = self.check_q(q)
        velocity = self.check_v(v, "v")
        if not np.isfinite(dt):
            raise StateError(f"dt must be a finite number of seconds, got {dt}")
        out = np.zeros(self.nq)
        for (iq, iv), body in zip(self._slices, self.bodies, strict=True):
            if body.coupling is None:
                out[iq] = body.joint.integrate(start[iq], velocity[iv], dt)
        return out

    # ---- checks at the boundary ----------------------------------------------------------

    @cached_property
    def _quaternions(self) -> tuple[tuple[str, slice], ...]:
        found = []
        for (where, _), body, name in zip(
            self._slices, self.bodies, self.joint_names, strict=True
        ):
            if isinstance(body.joint, (Spherical, Free)):
                found.append((name, slice(where.stop - 4, where.stop)))
        return tuple(found)

    @property
    def quaternion_slices(self) -> tuple[slice, ...]:
        """Where unit quaternions sit in q."""
        return tuple(where for _, where in self._quaternions)

    def check_q(self, q: ArrayLike) -> Array:
        """Return q as float64 (nq,); StateError names what is wrong with it."""
        out = self._check(q, self.nq, "q", 0)
        for name, where in self._quaternions:
            norm = float(np.linalg.norm(out[where]))
            if abs(norm - 1.0) > 1e-6:
                raise StateError(
                    f"q: the quaternion of joint {name!r} (x, y, z, w at {where.start}:"
                    f"{where.stop}) has norm {norm:.9g}; divide it by its norm"
                )
        return out

    def check_v(self, v: ArrayLike, what: str) -> Array:
        """Return v as float64 (nv,); StateError names ``what`` and the joint that is wrong."""
        return self._check(v, self.nv, what, 1)

    def _check(self, x: ArrayLike, size: int, what: str, which: int) -> Array:
        try:
            out = np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise StateError(f"{what} of robot {self.name!r} is not numeric: {error}") from None
        if out.shape != (size,):
            raise StateError(
                f"{what} of robot {self.name!r} must have shape ({size},), got {out.shape}"
            )
        if not np.isfinite(out).all():
            k = int(np.flatnonzero(~np.isfinite(out))[0])
            joint = next(
                name
                for name, places in zip(self.joint_names, self._slices, strict=True)
                if places[which].start <= k < places[which].stop
            )
            raise StateError(
                f"{what}[{k}] of robot {self.name!r} (joint {joint!r}) is {out[k]}"
            )
        return out

    # ---- variants ------------------------------------------------------------------------

    def with_gravity(self, gravity: ArrayLike) -> KinematicTree:
        """Return the same robot under another gravity (3,), base coordinates, m/s^2."""
        return self._with(self.bodies, gravity)

    def with_armature(self, armature: ArrayLike) -> KinematicTree:
        """Return the same robot with rotor inertias (nv,) at its freedoms."""
        values = self.check_v(armature, "armature")
        bodies = [
            replace(b, armature=values[v]) if b.coupling is None else b
            for b, (_, v) in zip(self.bodies, self._slices, strict=True)
        ]
        return self._with(bodies, self.gravity)

    def _with(self, bodies: Sequence[Body], gravity: ArrayLike) -> KinematicTree:
        return KinematicTree(self.name, bodies, self.frames, gravity, self.physical, self.welds)
