"""Task forces level by level: M f = b for the first level, for others what is left of freedom.

With M (m, m) = Lambda^-1 and the levels' rows s_1, s_2, ... of it, each level moves only what
those before it leave open. P takes forces to those that accelerate no earlier level:

    S = (M P)_ss        f += P_:s S^-1 (b - M f)_s        P -= P_:s S^-1 (M P)_s:

a block elimination of M, so that where M has an inverse all levels get what they ask for,
f = M^-1 b. Where it has none, earlier levels do. In the dynamics this is the dynamically
consistent projection of Sentis and Khatib (IJHR 2005): torques N_k^T J_k^T f_k.

Damping. S is scaled by the free mobility of the coordinates, from the diagonal of J H^-1 J^T:
an eigenvalue is the share of it that is left to a direction, 1 with nothing in its way, 0 at a
singularity. With ``damping`` e, 1/s becomes s/e^2 below e, so that the share (s/e)^2 of the
acceleration asked for is delivered, which fades to nothing with forces that stay below 1/e.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, final

import numpy as np

from dynsys.errors import ModelError
from dynsys.types import Array, IntArray

__all__ = [
    "COMPARABLE",
    "SMALLEST",
    "Damped",
    "Levels",
    "check_damping",
    "leading_names",
    "mobility_scale",
]

SMALLEST = 1e-13
"""Eigenvalue of Lambda^-1, its diagonal scaled to ones, below which it has no inverse."""
COMPARABLE = 1e-12
"""Ratio of mobilities that different units and sizes of bodies may account for."""
LEAST = 1e-10
"""Share of free mobility below which rounding decides which way a direction moves."""


class Damped(NamedTuple):
    """A direction of a level that does not get all of the acceleration asked for.

    ``coordinates`` lead it; ``mobility`` is the share of free mobility left to it (see the
    module), ``share`` the part of the acceleration along it that is delivered.
    """

    level: int
    coordinates: tuple[str, ...]
    mobility: float
    share: float


def check_damping(damping: float | None) -> None:
    """Refuse what is no share of mobility."""
    if damping is not None and not 0 < damping < 1:
        raise ModelError(
            "damping is the share of free mobility below which directions are damped, a number"
            f" between 0 and 1 such as 1e-4, not {damping!r}"
        )


def mobility_scale(M: Array, alike: IntArray, natural: Array) -> Array:
    """Root of the mobility (m,) of coordinates, of a kind the largest; ``alike`` numbers kinds.

    Near a singularity a coordinate of its own has no mobility to be judged by; its siblings
    have, and where it has none of them, other coordinates, or ``natural`` (m,), what they have
    in natural units.
    """
    diagonal = np.maximum(np.diagonal(M), 0.0)
    largest = np.zeros(len(M))
    np.maximum.at(largest, alike, diagonal)
    least = COMPARABLE * np.maximum(diagonal.max(initial=0.0), natural)
    scale = np.maximum(largest[alike], least)
    return np.asarray(np.sqrt(np.where(scale > 0, scale, 1.0)))


def leading_names(direction: Array, names: Sequence[str]) -> tuple[str, ...]:
    """Names of the (at most three) coordinates that lead a direction (m,)."""
    size = np.abs(direction)
    largest = np.argsort(-size, kind="stable")[:3]
    return tuple(names[k] for k in largest if size[k] > 0.1 * size.max())


@final
class Levels:
    """The elimination of M (m, m) in the order of its levels; see the module.

    ``scale`` (m,) is the root of the mobility that the coordinates have with nothing in their
    way, see :func:`mobility_scale`.
    ``refuse(direction)`` is called with a singular direction (m,) of the first level where
    nothing is damped; later levels without damping give up what they cannot move.
    """

    def __init__(
        self,
        M: Array,
        scale: Array,
        levels: Sequence[slice],
        names: Sequence[str],
        damping: float | None,
        refuse: Callable[[Array], Exception],
    ) -> None:
        self._M, self._levels = M, levels
        self._steps: list[tuple[Array, Array]] = []  # P_:s and the (damped) inverse of S
        damped: list[Damped] = []
        P = np.eye(len(M))
        for number, s in enumerate(levels):
            MP = M @ P
            values, vectors = np.linalg.eigh(MP[s, s] / np.outer(scale[s], scale[s]))
            if number == 0 and damping is None and values[0] <= LEAST:
                direction = np.zeros(len(M))
                direction[s] = vectors[:, 0]
                raise refuse(direction)
            limit = LEAST if damping is None else damping
            low, moves = values < limit, values > LEAST
            # 1 / s, damped: s / limit^2; without damping nothing is left of low directions
            gain = 1 / np.where(low, 1.0, values)
            gain[low] = 0.0 if damping is None else np.maximum(values[low], 0.0) / limit**2
            for k in np.flatnonzero(low):
                mobility = max(float(values[k]), 0.0)
                leading = leading_names(vectors[:, k], names[s])
                damped.append(Damped(number, leading, mobility, float(mobility * gain[k])))
            inverse = (vectors * gain) @ vectors.T / np.outer(scale[s], scale[s])
            self._steps.append((P[:, s].copy(), inverse))
            exact = np.where(moves, 1 / np.where(moves, values, 1.0), 0.0)
            open_ = (vectors * exact) @ vectors.T / np.outer(scale[s], scale[s])
            P = P - P[:, s] @ open_ @ MP[s]
        self.damped = tuple(damped)

    def forces(self, b: Array) -> Array:
        """f (m,) for the accelerations b (m,) beyond those without forces."""
        f = np.zeros(len(b))
        for s, (P, inverse) in zip(self._levels, self._steps, strict=True):
            f = f + P @ (inverse @ (b - self._M @ f)[s])
        return f
