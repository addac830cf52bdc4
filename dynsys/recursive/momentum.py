"""Energy, momentum and centre of mass: sums over bodies, gathered towards the base. O(n).

    T = 1/2 sum v_i . I_i v_i + 1/2 sum armature qd^2 = 1/2 qd^T H qd
    U = -sum m_i g . c_i                                       zero with all mass at the base
    h = sum X_i^T I_i v_i  (angular, linear)                   about the base's origin
    h_c = h moved to the centre of mass c,                     h_c = A(q) qd

Base axes, angular part first. A is the centroidal momentum matrix (Orin, Goswami, Lee,
Autonomous Robots 2013): its columns are the momenta Ic_k S_k of composite bodies ([RBDA]
section 6.2). Its bias dA/dt qd is what the wrenches of qdd = 0 without gravity add up to.
Rotors (armature) count in T and H; in h they do not: joint-space inertia has no place in space.
Scalars of any kind.
"""

from __future__ import annotations

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.spatial import Transform, cross
from dynsys.model.tree import KinematicTree, Mechanism
from dynsys.recursive.crba import Composite
from dynsys.recursive.kinematics import poses, transforms, velocities
from dynsys.recursive.rnea import net_wrenches
from dynsys.types import Array, ArrayLike, ScalarArray

__all__ = [
    "bias_scalars",
    "centre_jacobian_scalars",
    "centre_of_mass",
    "centre_of_mass_jacobian",
    "centre_of_mass_scalars",
    "centroidal_momentum",
    "centroidal_momentum_bias",
    "centroidal_momentum_matrix",
    "centroidal_scalars",
    "kinetic_energy",
    "kinetic_scalars",
    "matrix_scalars",
    "momentum",
    "momentum_scalars",
    "potential_energy",
    "potential_scalars",
    "require_mass",
]


def kinetic_energy(robot: KinematicTree, q: ArrayLike, qd: ArrayLike) -> Array:
    """T (): 1/2 qd^T H qd, J."""
    return np.asarray(kinetic_scalars(robot, robot.check_q(q), robot.check_v(qd, "qd")))


def potential_energy(robot: KinematicTree, q: ArrayLike) -> Array:
    """U (): of gravity, zero with all mass at the base's origin, J."""
    return np.asarray(potential_scalars(robot, robot.check_q(q)))


def momentum(robot: KinematicTree, q: ArrayLike, qd: ArrayLike) -> Array:
    """h (6,) about the base's origin."""
    return momentum_scalars(robot, robot.check_q(q), robot.check_v(qd, "qd"))


def centroidal_momentum(robot: KinematicTree, q: ArrayLike, qd: ArrayLike) -> Array:
    """h_c (6,) about the centre of mass."""
    require_mass(robot)
    return centroidal_scalars(robot, robot.check_q(q), robot.check_v(qd, "qd"))


def centroidal_momentum_matrix(robot: KinematicTree, q: ArrayLike) -> Array:
    """A (6, nv) with h_c = A qd."""
    require_mass(robot)
    return matrix_scalars(robot, robot.check_q(q))


def centroidal_momentum_bias(robot: KinematicTree, q: ArrayLike, qd: ArrayLike) -> Array:
    """dA/dt qd (6,): rate of h_c at qdd = 0."""
    require_mass(robot)
    return bias_scalars(
        robot.with_gravity(np.zeros(3)), robot.check_q(q), robot.check_v(qd, "qd")
    )


def centre_of_mass(robot: KinematicTree, q: ArrayLike) -> Array:
    """c (3,), base coordinates."""
    require_mass(robot)
    return centre_of_mass_scalars(robot, robot.check_q(q))


def centre_of_mass_jacobian(robot: KinematicTree, q: ArrayLike) -> Array:
    """(3, nv): velocity of the centre of mass per qd, base axes."""
    require_mass(robot)
    return centre_jacobian_scalars(robot, robot.check_q(q))


def require_mass(robot: KinematicTree) -> None:
    """Refuse robots without mass."""
    if robot.total_mass <= 0:
        raise ModelError(f"robot {robot.name!r} has no mass, hence no centre of mass")


# ---- over scalars of any kind -------------------------------------------------------------


def kinetic_scalars(robot: Mechanism, q: ScalarArray, qd: ScalarArray) -> ScalarArray:
    """T (); see :func:`kinetic_energy`."""
    twice = robot.armature @ (qd * qd)
    for moments, v in zip(
        robot.moments, velocities(robot, transforms(robot, q), qd), strict=True
    ):
        twice = twice + v @ Composite.of(moments).times(v)
    return np.asarray(twice / 2)


def potential_scalars(robot: Mechanism, q: ScalarArray) -> ScalarArray:
    """U (); see :func:`potential_energy`."""
    return np.asarray(-(robot.gravity @ _whole(robot, transforms(robot, q)).h))


def momentum_scalars(robot: Mechanism, q: ScalarArray, qd: ScalarArray) -> ScalarArray:
    """h (6,); see :func:`momentum`."""
    X_up = transforms(robot, q)
    of_bodies = [
        Composite.of(moments).times(v)
        for moments, v in zip(robot.moments, velocities(robot, X_up, qd), strict=True)
    ]
    return _gathered(robot, X_up, of_bodies)


def centroidal_scalars(robot: Mechanism, q: ScalarArray, qd: ScalarArray) -> ScalarArray:
    """h_c (6,); see :func:`centroidal_momentum`."""
    return _about(centre_of_mass_scalars(robot, q), momentum_scalars(robot, q, qd))


def matrix_scalars(robot: Mechanism, q: ScalarArray) -> ScalarArray:
    """A (6, nv); see :func:`centroidal_momentum_matrix`."""
    X_up = transforms(robot, q)
    where, composite = poses(robot, X_up), _composites(robot, X_up)
    c = _centre(_sum_of_roots(robot, X_up, composite))
    A = np.zeros((6, robot.nv), dtype=q.dtype)
    for i, freedoms in enumerate(robot.v_slices()):
        for k, s in zip(
            range(freedoms.start, freedoms.stop), robot.motion_subspace[i].T, strict=True
        ):
            A[:, k] = A[:, k] + _about(c, where[i].force_back(composite[i].times(s)))
    return A


def centre_jacobian_scalars(robot: Mechanism, q: ScalarArray) -> ScalarArray:
    """(3, nv); see :func:`centre_of_mass_jacobian`."""
    mass = sum(moments.mass for moments in robot.moments)
    return matrix_scalars(robot, q)[3:] / mass


def bias_scalars(robot: Mechanism, q: ScalarArray, qd: ScalarArray) -> ScalarArray:
    """dA/dt qd (6,) of a robot without gravity; see :func:`centroidal_momentum_bias`."""
    X_up = transforms(robot, q)
    net = _gathered(robot, X_up, net_wrenches(robot, X_up, qd, None))
    return _about(_centre(_whole(robot, X_up)), net)


def centre_of_mass_scalars(robot: Mechanism, q: ScalarArray) -> ScalarArray:
    """c (3,); see :func:`centre_of_mass`."""
    return _centre(_whole(robot, transforms(robot, q)))


def _whole(robot: Mechanism, X_up: list[Transform]) -> Composite:
    """All bodies as one, about the base's origin."""
    return _sum_of_roots(robot, X_up, _composites(robot, X_up))


def _composites(robot: Mechanism, X_up: list[Transform]) -> list[Composite]:
    """Every body with all that it carries, about its origin."""
    composite = [Composite.of(moments) for moments in robot.moments]
    for i in reversed(range(robot.n_bodies)):
        if (parent := int(robot.parent[i])) >= 0:
            composite[parent] = composite[parent].plus(composite[i].seen_by_parent(X_up[i]))
    return composite


def _sum_of_roots(
    robot: Mechanism, X_up: list[Transform], composite: list[Composite]
) -> Composite:
    whole = Composite(0.0, np.zeros(3), np.zeros((3, 3)))
    for i in np.flatnonzero(robot.parent < 0):
        whole = whole.plus(composite[i].seen_by_parent(X_up[i]))
    return whole


def _centre(whole: Composite) -> ScalarArray:
    return whole.h / whole.mass


def _gathered(
    robot: Mechanism, X_up: list[Transform], of_bodies: list[ScalarArray]
) -> ScalarArray:
    """Sum (6,) of wrenches or momenta of bodies, about the base's origin."""
    total: ScalarArray = np.zeros(6)
    for i in reversed(range(robot.n_bodies)):
        back = X_up[i].force_back(of_bodies[i])
        if (parent := int(robot.parent[i])) >= 0:
            of_bodies[parent] = of_bodies[parent] + back
        else:
            total = total + back
    return total


def _about(c: ScalarArray, wrench: ScalarArray) -> ScalarArray:
    """A wrench or momentum (6,) about the point c instead of the origin."""
    return np.concatenate([wrench[:3] - cross(c, wrench[3:]), wrench[3:]])
