"""Tasks of a robot in contact, moved by some of its freedoms only.

Contacts hold Jc qdd + Jcdot qd = 0 by forces; with Lambda_c = (Jc H^-1 Jc^T)^-1 their
dynamically consistent projection is N_c = 1 - H^-1 Jc^T Lambda_c Jc, and A = N_c H^-1 takes
torques to accelerations. Freedoms u without a drive (a floating base) bear no torque. Of all
torques that accelerate the tasks as asked, the one smallest in the metric of H^-1 is

    torque = H (A J^T f + E_u^T g)             zero at u for      g = -H_uu^-1 (J N_c)_u^T f
    Lambda^-1 = J A J^T - (J N_c)_u H_uu^-1 (J N_c)_u^T

With no contacts and every freedom driven this is J^T f and [OSI] eq. 7; with contacts alone
Khatib, Sentis, Park, Warren (2004), with a free base alone the same as Sentis, Park, Khatib
(TRO 2010). Redundant contacts are held all the same, by the pseudo-inverse. Dense, O(n^3).
"""

from __future__ import annotations

from typing import final

import numpy as np

from dynsys.operational.hierarchy import SMALLEST, mobility_scale
from dynsys.types import Array, IntArray

__all__ = ["Projection"]


@final
class Projection:
    """What the module says, at one q: H (nv, nv), J (m, nv), Jc (c, nv), undriven u.

    ``alike`` (m,) numbers kinds of coordinates, ``natural`` (m,) and ``natural_c`` (c,) are
    natural mobilities, see :func:`mobility_scale`.

    ``free_scale`` (m,) is the root of the coordinates' mobility with every freedom driven and
    no contacts: what is left of it, or lost to rounding, is judged by that.
    """

    def __init__(
        self,
        H: Array,
        J: Array,
        Jc: Array,
        undriven: IntArray,
        alike: IntArray,
        natural: Array,
        natural_c: Array,
    ) -> None:
        self._H, self._J, self._Jc, self._u = H, J, Jc, undriven
        self._factor = np.linalg.cholesky(H)
        self.Lambda_c = _pseudo_inverse(Jc @ self.solve(Jc.T), natural_c)
        self._M_tc = J @ self.solve(Jc.T)
        self._base = J[:, undriven] - self._M_tc @ self.Lambda_c @ Jc[:, undriven]
        inertia = H[np.ix_(undriven, undriven)]
        self._passive = np.linalg.solve(inertia, self._base.T)  # H_uu^-1 (J N_c)_u^T
        free = J @ self.solve(J.T)
        self.free_scale = mobility_scale(free, alike, natural)
        held = self._M_tc @ self.Lambda_c @ self._M_tc.T
        M = free - held - self._base @ self._passive
        self.Lambda_inv = np.asarray(0.5 * (M + M.T))

    def solve(self, b: Array) -> Array:
        """H^-1 b."""
        return np.asarray(np.linalg.solve(self._factor.T, np.linalg.solve(self._factor, b)))

    def torque(self, f: Array) -> Array:
        """Torque (nv,) or (nv, k) of task forces f (m,) or (m, k), zero without a drive."""
        held = self._Jc.T @ (self.Lambda_c @ (self._M_tc.T @ f))
        out = self._J.T @ f - held - self._H[:, self._u] @ (self._passive @ f)
        out[self._u] = 0.0
        return np.asarray(out)

    def moved(self, torque: Array) -> Array:
        """A torque: acceleration (nv,) or (nv, k) that contacts leave of a torque's."""
        free = self.solve(torque)
        return np.asarray(free - self.solve(self._Jc.T @ (self.Lambda_c @ (self._Jc @ free))))

    def held(self, qdd: Array, Jcdot_qd: Array) -> tuple[Array, Array]:
        """Acceleration in contact from the one without, and the contact forces that make it."""
        forces = -self.Lambda_c @ (self._Jc @ qdd + Jcdot_qd)
        return np.asarray(qdd + self.solve(self._Jc.T @ forces)), np.asarray(forces)


def _pseudo_inverse(M: Array, natural: Array) -> Array:
    """Inverse of a symmetric positive semidefinite matrix where it has one."""
    scale = mobility_scale(M, np.arange(len(M)), natural)
    values, vectors = np.linalg.eigh(M / np.outer(scale, scale))
    kept = values > SMALLEST * max(1, len(M)) * 10
    gain = np.where(kept, 1 / np.where(kept, values, 1.0), 0.0)
    return np.asarray((vectors * gain) @ vectors.T / np.outer(scale, scale))
