"""Energy, momentum, centre of mass and Coriolis matrix: sums over bodies, rates, peers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from numpy.testing import assert_allclose

from dynsys import KinematicTree, ModelError, interop, recursive, synthetic
from dynsys.model.joints import Revolute
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import Body
from dynsys.types import Array
from tests import oracles, strategies


def body_sums(robot: KinematicTree, q: Array, qd: Array) -> tuple[float, Array, Array]:
    """Mass, first moment (3,) and momentum (6,) about the base's origin, body by body."""
    mass, first, total = 0.0, np.zeros(3), np.zeros(6)
    for i, (T, body) in enumerate(zip(oracles.body_poses(robot, q), robot.bodies, strict=True)):
        R, inertia = T[:3, :3], body.inertia
        v = oracles.jacobian(robot, q, i) @ qd
        c = R @ inertia.com + T[:3, 3]
        p = inertia.mass * R @ (v[3:] + np.cross(v[:3], inertia.com))
        mass, first = mass + inertia.mass, first + inertia.mass * c
        total += np.concatenate([R @ inertia.about_com @ v[:3] + np.cross(c, p), p])
    return mass, first, total


@pytest.mark.slow
@given(strategies.states())
def test_sums_over_bodies(state: strategies.State) -> None:
    robot, q, qd, _, _ = state
    T, U = recursive.kinetic_energy(robot, q, qd), recursive.potential_energy(robot, q)
    assert_allclose(T, oracles.kinetic_energy(robot, q, qd), rtol=1e-11, atol=1e-11)
    assert_allclose(U, oracles.potential_energy(robot, q), rtol=1e-10, atol=1e-10)
    mass, first, total = body_sums(robot, q, qd)
    scale = 1 + np.abs(total).max()
    h = recursive.momentum(robot, q, qd)
    assert_allclose(h, total, atol=1e-11 * scale)
    assume(mass > 0)
    c = recursive.centre_of_mass(robot, q)
    assert_allclose(c, first / mass, atol=1e-12 * (1 + np.abs(c).max()))
    moved = np.concatenate([total[:3] - np.cross(first / mass, total[3:]), total[3:]])
    scale *= 1 + np.abs(c).max()
    assert_allclose(recursive.centroidal_momentum(robot, q, qd), moved, atol=1e-11 * scale)
    A = recursive.centroidal_momentum_matrix(robot, q)
    assert_allclose(A @ qd, moved, atol=1e-10 * scale)
    J = recursive.centre_of_mass_jacobian(robot, q)
    assert_allclose(mass * J @ qd, total[3:], atol=1e-10 * scale)


@pytest.mark.slow
@settings(max_examples=40)
@given(strategies.states(max_bodies=5))
def test_rates_along_the_motion(state: strategies.State) -> None:
    """Hdot = C + C^T, bias = dA/dt qd and J_c qd = dc/dt, by differences along integrate."""
    robot, q, qd, _, _ = state
    assume(robot.total_mass > 0)

    def rate(function: object) -> Array:
        def at(t: float) -> Array:
            return np.asarray(function(robot, robot.integrate(q, qd, t)))  # type: ignore[operator]

        return np.asarray(oracles.central_difference(at, 1e-3))

    C = recursive.coriolis_matrix(robot, q, qd)
    H_rate = rate(recursive.crba)
    scale = 1 + np.abs(C).max() + np.abs(recursive.crba(robot, q)).max()
    assert_allclose(C + C.T, H_rate, atol=1e-7 * scale)
    still = recursive.rnea(robot, q, 0 * qd, 0 * qd)
    bias = recursive.rnea(robot, q, qd, 0 * qd) - still
    assert_allclose(C @ qd, bias, atol=1e-10 * scale * (1 + np.abs(still).max()))
    A_rate = rate(recursive.centroidal_momentum_matrix)
    found = recursive.centroidal_momentum_bias(robot, q, qd)
    assert_allclose(found, A_rate @ qd, atol=1e-7 * (scale + np.abs(A_rate).max()))
    moved = rate(recursive.centre_of_mass)
    J = recursive.centre_of_mass_jacobian(robot, q)
    assert_allclose(J @ qd, moved, atol=1e-8 * (1 + np.abs(moved).max()))


@pytest.mark.slow
@settings(max_examples=40)
@given(strategies.states(max_bodies=5))
def test_power_and_momentum_balance(state: strategies.State) -> None:
    """Energy changes by the torques' power, momentum of a free robot by its weight."""
    robot, q, qd, qdd, _ = state
    power = oracles.power_by_differences(robot, q, qd, qdd)
    torque = recursive.rnea(robot, q, qd, qdd)
    scale = 1 + np.abs(torque).max()
    assert_allclose(torque @ qd, power, atol=1e-5 * scale * (1 + np.abs(qd).max()))


def test_momentum_of_a_free_robot_changes_by_its_weight() -> None:
    drawn = (
        synthetic.random_tree(6, k, joint_types=["free", "revolute", "spherical"])
        for k in range(99)
    )
    robot = next(r for r in drawn if r.joints[0].kind == "free" and (r.parent[1:] >= 0).all())
    rng = np.random.default_rng(3)
    q, qd = robot.random_configuration(rng), rng.normal(size=robot.nv)
    torque = rng.normal(size=robot.nv)
    torque[:6] = 0.0
    qdd = recursive.aba(robot, q, qd, torque)

    def ahead(t: float) -> tuple[Array, Array]:
        return robot.integrate(q, qd + 0.5 * t * qdd, t), qd + t * qdd

    def h(t: float) -> Array:
        return recursive.momentum(robot, *ahead(t))

    weight = robot.total_mass * robot.gravity
    moment = np.cross(recursive.centre_of_mass(robot, q), weight)
    found = oracles.central_difference(h, 1e-4)
    assert_allclose(found, np.concatenate([moment, weight]), atol=1e-6 * np.abs(weight).max())
    A, bias = (
        recursive.centroidal_momentum_matrix(robot, q),
        recursive.centroidal_momentum_bias(robot, q, qd),
    )
    expected = np.concatenate([np.zeros(3), weight])
    assert_allclose(A @ qdd + bias, expected, atol=1e-10 * np.abs(qdd).max() * np.abs(A).max())


def test_against_pinocchio() -> None:
    pin = pytest.importorskip("pinocchio")
    model = pin.buildSampleModelHumanoidRandom()
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        robot = interop.from_pinocchio(model)
    to = interop.PinocchioMap(robot, model)
    data, floating = model.createData(), model.nq > model.nv
    assert floating
    for _ in range(3):
        q, qd = robot.random_configuration(rng), rng.normal(size=robot.nv)
        p, v = to.q_to_pin(q), to.v_to_pin(qd)
        swap = [3, 4, 5, 0, 1, 2]  # linear part first
        close = {"rtol": 1e-9, "atol": 1e-9}
        rotors = 0.5 * float(robot.armature @ qd**2) - 0.5 * float(model.armature @ v**2)
        T = pin.computeKineticEnergy(model, data, p, v) + rotors
        assert_allclose(recursive.kinetic_energy(robot, q, qd), T, **close)
        U = pin.computePotentialEnergy(model, data, p)
        assert_allclose(recursive.potential_energy(robot, q), U, **close)
        c = pin.centerOfMass(model, data, p).copy()
        assert_allclose(recursive.centre_of_mass(robot, q), c, **close)
        pin.computeCentroidalMap(model, data, p)
        h = (data.Ag @ v)[swap]
        assert_allclose(recursive.centroidal_momentum(robot, q, qd), h, **close)
        A = recursive.centroidal_momentum_matrix(robot, q)
        each = np.array([A @ e for e in to.v_from_pin(np.eye(robot.nv))]).T
        assert_allclose(each, data.Ag[swap], **close)
        pin.computeCentroidalMapTimeVariation(model, data, p, v)
        bias = (data.dAg @ v)[swap]
        assert_allclose(recursive.centroidal_momentum_bias(robot, q, qd), bias, **close)
        C = pin.computeCoriolisMatrix(model, data, p, v)
        mine = recursive.coriolis_matrix(robot, q, qd)
        there = to.v_from_pin(np.eye(robot.nv))  # rows: their unit velocities in ours
        assert_allclose(there @ mine @ there.T, C, **close)
        q1 = robot.random_configuration(rng)
        way = to.v_to_pin(robot.difference(q, q1))
        assert_allclose(way, pin.difference(model, p, to.q_to_pin(q1)), **close)


def test_rotors_count_in_energy_only() -> None:
    robot = synthetic.chain(3)
    geared = robot.with_armature(np.array([1.0, 2.0, 3.0]))
    q, qd = np.zeros(3), np.ones(3)
    more = recursive.kinetic_energy(geared, q, qd) - recursive.kinetic_energy(robot, q, qd)
    assert_allclose(more, 3.0)
    h = recursive.momentum(robot, q, qd)
    assert_allclose(recursive.momentum(geared, q, qd), h)


def test_no_mass_no_centre() -> None:
    light = Body("light", -1, Revolute(), Transform.identity(), Inertia.zero(), armature=[1.0])
    robot = KinematicTree("weightless", [light])
    for asked in (recursive.centre_of_mass, recursive.centroidal_momentum_matrix):
        with pytest.raises(ModelError, match="'weightless' has no mass"):
            asked(robot, np.zeros(1))
    assert recursive.kinetic_energy(robot, [0.0], [2.0]) == 2.0
