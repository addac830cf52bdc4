"""JointPlaces: where joints sit in q and qd, and what their bodies state, by place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import final

import numpy as np

from dynsys.model.body import Body, read_only
from dynsys.model.joints import Free, Spherical
from dynsys.types import Array

__all__ = ["JointPlaces"]


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
