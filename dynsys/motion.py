"""Energy, momentum, centre of mass and Coriolis matrix as users call them.

One state or a batch, fast when repeated: like :func:`dynsys.rnea`, the recursions of
:mod:`dynsys.recursive` answer a robot's first call and give way to machine code on the second
(:mod:`dynsys.verbs`). Base axes; angular part first; energy in J, momentum in kg m^2/s and
kg m/s. Of all but the energies and C, rotors (armature) are no part: see
:mod:`dynsys.recursive.momentum`.

Every function takes q (nq,) and, where it names it, qd (nv,); a leading axis N on each of them
for N states, which the answer then has too. StateError if a vector has a wrong length or a
value that is not finite, or only some have a leading axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from dynsys import recursive
from dynsys.errors import KernelBuildError
from dynsys.kernel.calls import AbstractCompiledKernel
from dynsys.kernel.quantities import SUMS, Quantity, quantity_kernel
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, ArrayLike
from dynsys.verbs import Build, Refusal, Verb, answer_with

__all__ = [
    "centre_of_mass",
    "centre_of_mass_jacobian",
    "centroidal_momentum",
    "centroidal_momentum_bias",
    "centroidal_momentum_matrix",
    "coriolis_matrix",
    "kinetic_energy",
    "momentum",
    "potential_energy",
]

MOST_FREEDOMS, MOST_SQUARE = 200, 64
"""Freedoms up to which code is specialised, and for C (nv, nv). Beyond, recursions answer."""


def kinetic_energy(robot: KinematicTree, q: ArrayLike, qd: ArrayLike) -> float | Array:
    """T = 1/2 qd^T H qd, rotors included; (N,) for a batch.

    Examples
    --------
    >>> import dynsys, numpy as np
    >>> robot = dynsys.synthetic.chain(3)
    >>> q, qd = np.zeros(3), np.ones(3)
    >>> H = dynsys.crba(robot, q)
    >>> bool(np.isclose(dynsys.kinetic_energy(robot, q, qd), qd @ H @ qd / 2))
    True
    """
    found: float | Array = _answer("kinetic_energy", robot, (q, qd))[()]
    return found


def potential_energy(robot: KinematicTree, q: ArrayLike) -> float | Array:
    """U = -sum m_i g . c_i, zero with all mass at the base's origin; (N,) for a batch.

    Examples
    --------
    >>> import dynsys, numpy as np
    >>> robot = dynsys.synthetic.chain(3)
    >>> hanging, c = np.zeros(3), dynsys.centre_of_mass(robot, np.zeros(3))
    >>> weight = robot.total_mass * 9.81
    >>> bool(np.isclose(dynsys.potential_energy(robot, hanging), weight * c[2]))
    True
    """
    found: float | Array = _answer("potential_energy", robot, (q,))[()]
    return found


def momentum(robot: KinematicTree, q: ArrayLike, qd: ArrayLike) -> Array:
    """h (6,) = sum over bodies of X^T I v: angular about the base's origin, linear.

    Its rate is the wrench of everything that acts on the robot from outside.

    Examples
    --------
    >>> import dynsys, numpy as np
    >>> robot = dynsys.synthetic.chain(3)
    >>> dynsys.momentum(robot, np.zeros((5, 3)), np.ones((5, 3))).shape
    (5, 6)
    """
    return _answer("momentum", robot, (q, qd))


def centroidal_momentum(robot: KinematicTree, q: ArrayLike, qd: ArrayLike) -> Array:
    """h_c (6,): angular about the centre of mass, linear = total mass times its velocity."""
    return _answer("centroidal_momentum", robot, (q, qd))


def centroidal_momentum_matrix(robot: KinematicTree, q: ArrayLike) -> Array:
    """A (6, nv) with h_c = A qd.

    Examples
    --------
    >>> import dynsys, numpy as np
    >>> robot = dynsys.synthetic.humanoid30()
    >>> q, qd = robot.neutral(), np.ones(30)
    >>> h = dynsys.centroidal_momentum_matrix(robot, q) @ qd
    >>> bool(np.allclose(h, dynsys.centroidal_momentum(robot, q, qd)))
    True
    """
    return _answer("centroidal_momentum_matrix", robot, (q,))


def centroidal_momentum_bias(robot: KinematicTree, q: ArrayLike, qd: ArrayLike) -> Array:
    """dA/dt qd (6,): the rate of h_c is A qdd + dA/dt qd."""
    return _answer("centroidal_momentum_bias", robot, (q, qd))


def centre_of_mass(robot: KinematicTree, q: ArrayLike) -> Array:
    """c (3,) = sum m_i c_i / sum m_i.

    Raises
    ------
    ModelError
        if the robot has no mass.
    """
    return _answer("centre_of_mass", robot, (q,))


def centre_of_mass_jacobian(robot: KinematicTree, q: ArrayLike) -> Array:
    """(3, nv): dc/dt = J_c qd."""
    return _answer("centre_of_mass_jacobian", robot, (q,))


def coriolis_matrix(robot: KinematicTree, q: ArrayLike, qd: ArrayLike) -> Array:
    """C (nv, nv) with torque = H qdd + C qd + gravity and Hdot = C + C^T.

    Hdot - 2 C is skew. Friction is no part of C.

    Examples
    --------
    >>> import dynsys, numpy as np
    >>> robot = dynsys.synthetic.chain(3)
    >>> q, qd, still = np.ones(3), np.arange(3.0), np.zeros(3)
    >>> bias = dynsys.rnea(robot, q, qd, still) - dynsys.rnea(robot, q, still, still)
    >>> bool(np.allclose(dynsys.coriolis_matrix(robot, q, qd) @ qd, bias))
    True
    """
    return _answer("coriolis_matrix", robot, (q, qd))


# ---- one way for all of them --------------------------------------------------------------


def _build(quantity: Quantity) -> Build:
    def build(robot: KinematicTree, _: bool, program: Refusal | None) -> AbstractCompiledKernel:
        shape = SUMS[quantity].shape(robot)
        most = MOST_SQUARE if shape == (robot.nv, robot.nv) else MOST_FREEDOMS
        if robot.nv > most:
            raise KernelBuildError(f"{quantity} of {robot.nv} freedoms is left to recursions")
        return quantity_kernel(robot, quantity, (), program=program)

    return build


def _verb(quantity: Quantity, recursion: Callable[..., Array]) -> Verb:
    asked = SUMS[quantity]
    return Verb(quantity, asked.inputs, recursion, _build(quantity), asked.shape)


_VERBS: dict[str, Verb] = {
    "kinetic_energy": _verb("kinetic_energy", recursive.kinetic_energy),
    "potential_energy": _verb("potential_energy", recursive.potential_energy),
    "momentum": _verb("momentum", recursive.momentum),
    "centroidal_momentum": _verb("centroidal_momentum", recursive.centroidal_momentum),
    "centroidal_momentum_matrix": _verb(
        "centroidal_momentum_matrix", recursive.centroidal_momentum_matrix
    ),
    "centroidal_momentum_bias": _verb(
        "centroidal_momentum_bias", recursive.centroidal_momentum_bias
    ),
    "centre_of_mass": _verb("centre_of_mass", recursive.centre_of_mass),
    "centre_of_mass_jacobian": _verb(
        "centre_of_mass_jacobian", recursive.centre_of_mass_jacobian
    ),
    "coriolis_matrix": _verb("coriolis_matrix", recursive.coriolis_matrix),
}


def _answer(quantity: str, robot: KinematicTree, given: Sequence[ArrayLike]) -> Array:
    verb = _VERBS[quantity]
    if (code := robot._kept.get((quantity, False))) is not None:
        shape = verb.shape(robot)
        out = np.empty(prod(shape))
        if code.fast(*given, out):
            return out.reshape(shape)
    return answer_with(verb, robot, given)
