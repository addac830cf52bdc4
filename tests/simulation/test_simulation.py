"""Simulation: physics of a step, energy, drives, and a walking centipede."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynsys
from dynsys import KinematicTree, ModelError, StateError, synthetic
from dynsys.model.joints import Free, Prismatic
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import Body, Frame
from dynsys.simulation import (
    ROUTES,
    Closure,
    ContactPoints,
    Drives,
    Ground,
    Simulation,
    solve_contacts,
)
from experiments.drumwright2012.centipedes import Gait, feet, standing
from tests.robots import CHAIN

G = 9.81


def brick() -> KinematicTree:
    """Return a box of 1 kg with its centre at the origin."""
    inertia = synthetic.box_inertia(1.0, (0.2, 0.2, 0.1), (0, 0, 0))
    return KinematicTree("brick", [Body("box", -1, Free(), inertia=inertia)])


def brick_on_corners(dt: float, friction: float) -> Simulation:
    robot = brick()
    corners = [(x, y, -0.05) for x in (-0.1, 0.1) for y in (-0.1, 0.1)]
    points = ContactPoints(robot, ["box"] * 4, corners)
    return Simulation(robot, points, dt, Ground(friction=friction))


AT_REST = [0.0, 0.0, 0.05, 0.0, 0.0, 0.0, 1.0]


def test_free_fall_of_a_box() -> None:
    sim = brick_on_corners(1e-3, 0.5)
    state, record = sim.run(sim.start([0, 0, 10.0, 0, 0, 0, 1]), 100)
    assert_allclose(state.v[5], -G * 0.1, rtol=1e-12)
    assert_allclose(state.q[2], 10 - 0.5 * G * 0.1**2, rtol=1e-12)
    assert not record.contacts.any() and max(record.penetration) == 0.0


def test_a_box_at_rest_stays_and_weighs_what_it_weighs() -> None:
    sim = brick_on_corners(1e-3, 0.5)
    state, record = sim.run(sim.start(AT_REST), 200)
    assert_allclose(state.v, 0.0, atol=1e-5)
    assert_allclose(state.q, AT_REST, atol=1e-6)
    assert_allclose(state.impulses[:, 0].sum(), G * 1e-3, rtol=1e-3)
    assert max(record.penetration) < 1e-6


@pytest.mark.parametrize("friction", [0.2, 0.6])
def test_a_sliding_box_decelerates_at_mu_g(friction: float) -> None:
    sim = brick_on_corners(1e-4, friction)
    start = sim.start(AT_REST, [0, 0, 0, 1.0, 0, 0])
    state, record = sim.run(start, 500)
    assert_allclose(state.v[3], 1.0 - friction * G * 0.05, rtol=1e-3)
    # what friction took is what the energy lost
    lost = 0.5 * (state.v[3] ** 2 - 1.0)
    assert_allclose(sum(record.contact_work), lost, rtol=1e-3)


def test_a_dropped_box_does_not_sink() -> None:
    sim = brick_on_corners(1e-3, 0.5)
    state, record = sim.run(sim.start([0, 0, 0.2, 0.1, 0.05, 0, 0.9875**0.5]), 600)
    assert max(record.penetration) < 1e-3
    assert abs(state.q[2] - 0.05) < 1e-3
    assert np.abs(state.v).max() < 1e-2


# ---- energy ------------------------------------------------------------------------------


def test_energy_is_that_of_the_inertia_matrix() -> None:
    robot = synthetic.random_tree(8, 3).with_gravity([0.3, -0.2, -9.0])
    sim = Simulation(robot, ContactPoints(robot, [], np.zeros((0, 3))), 1e-3)
    q, v = robot.random_configuration(0), np.random.default_rng(0).normal(size=robot.nv)
    moving, still = sim.energy(sim.start(q, v)), sim.energy(sim.start(q))
    assert_allclose(moving - still, 0.5 * v @ dynsys.recursive.crba(robot, q) @ v, rtol=1e-10)
    h = 1e-6  # dE/dq v = -v . torque of gravity
    ends = [sim.energy(sim.start(robot.integrate(q, v, s * h))) for s in (1, -1)]
    gravity = dynsys.recursive.rnea(robot, q, np.zeros(robot.nv), np.zeros(robot.nv))
    assert_allclose((ends[0] - ends[1]) / (2 * h), v @ gravity, rtol=1e-6)


@pytest.mark.parametrize("integrator", ["semi_implicit", "explicit"])
def test_energy_drift_is_of_first_order(integrator: str) -> None:
    robot = synthetic.centipede(2)
    spin, drift = np.random.default_rng(0).normal(size=robot.nv), []
    for dt in (1e-3, 1e-4):
        sim = Simulation(robot, feet(robot), dt, integrator=integrator)  # type: ignore[arg-type]
        q = standing(robot)
        q[2] = 5.0
        start = sim.start(q, spin)
        end, _ = sim.run(start, round(0.02 / dt))
        drift.append(sim.energy(end) - sim.energy(start))
        for where in robot.quaternion_slices:
            assert_allclose(np.linalg.norm(end.q[where]), 1.0, atol=1e-12)
    assert 8 < drift[0] / drift[1] < 12


def test_friction_of_joints_takes_the_energy_that_is_lost() -> None:
    names = ("viscous", "coulomb")
    values = {f"link_{k}.{name}": 0.02 for k in (1, 2, 3) for name in names}
    robot = synthetic.chain(3).with_parameters(values).with_friction(smoothing=0.1)
    sim = Simulation(robot, ContactPoints(robot, ["link_3"], [(0, 0, 50.0)]), 1e-4)
    _, record = sim.run(sim.start([0.3, 0.4, 0.5], [1.0, -2.0, 3.0]), 1000)
    lost = sum(record.friction_work)
    assert lost < -0.01
    assert abs(record.drift[-1]) < 0.03 * abs(lost)


# ---- centipede ---------------------------------------------------------------------------


@pytest.mark.slow
def test_a_centipede_walks_by_every_route() -> None:
    robot, ends = synthetic.centipede(3), []
    for route in ROUTES:
        drives = Drives(robot, 10.0, 0.1)
        sim = Simulation(robot, feet(robot), 1e-3, route=route, drives=drives)
        state, record = sim.run(sim.start(standing(robot)), 700, Gait(robot))
        ends.append(state.q)
        assert max(record.penetration) < 1e-4
        assert abs(record.drift[-1]) < 5e-3 * record.energy[0]
        assert abs(state.q[2] - 0.08) < 0.02
    assert ends[0][0] > 0.01
    assert_allclose(ends[1], ends[0], atol=1e-6)
    assert_allclose(ends[2], ends[0], atol=1e-6)


@pytest.mark.slow
def test_drives_hold_a_pose_against_gravity_at_any_gain() -> None:
    robot = synthetic.chain(3)
    wanted = np.array([0.3, -0.2, 0.5])
    for kp in (1e3, 1e7):
        none = ContactPoints(robot, [], np.zeros((0, 3)))
        sim = Simulation(robot, none, 1e-3, drives=Drives(robot, kp, 0.1 * kp))
        state, _ = sim.run(sim.start(np.zeros(3)), 3000, lambda time: wanted)
        assert_allclose(state.q, wanted, atol=50 / kp + 1e-6)


def test_drive_errors_of_ball_joints_are_rotation_vectors() -> None:
    robot = synthetic.random_tree(4, 0, ["spherical"])
    q, rng = robot.random_configuration(0), np.random.default_rng(1)
    turn = rng.uniform(-1.5, 1.5, robot.nv)
    drives = Drives(robot, 1.0, 0.0)
    target = robot.integrate(q, turn, 1.0)
    assert_allclose(drives.error(q, target), turn, atol=1e-12)
    assert_allclose(drives.error(q, -target), turn, atol=1e-12)
    assert_allclose(drives.error(q, q), 0.0, atol=1e-12)


# ---- failures ----------------------------------------------------------------------------


def test_bad_arguments_are_refused() -> None:
    robot = synthetic.centipede(1)
    with pytest.raises(ModelError, match="dt"):
        Simulation(robot, feet(robot), 0.0)
    with pytest.raises(ModelError, match="no integrator"):
        Simulation(robot, feet(robot), 1e-3, integrator="rk4")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="gains"):
        Drives(robot, -1.0, 0.0)


def test_an_explosion_is_reported() -> None:
    robot = synthetic.centipede(1)
    sim = Simulation(robot, feet(robot), 1.0)
    q = standing(robot)
    q[2] = 5.0
    with pytest.raises(StateError, match="shorten dt"):
        sim.run(sim.start(q, np.full(robot.nv, 1e160)), 5)


NAN = float("nan")


def test_torque_of_drives() -> None:
    q, qd, target = np.array([0.1, 0.2]), np.array([0.5, -2.0]), np.array([0.4, 0.0])
    found = Drives(CHAIN, 3.0, 0.5).torque(q, qd, target, 0.1)
    np.testing.assert_allclose(found, 3.0 * (target - q) - (0.5 + 3.0 * 0.1) * qd)


def test_ground_without_slop_or_friction_is_ground() -> None:
    assert Ground(slop=0.0, friction=0.0, correction=0.0).slop == 0.0
    for wrong in ({"slop": -1e-9}, {"friction": -0.1}, {"correction": 1.1}, {"slop": NAN}):
        with pytest.raises(ModelError, match="must be >= 0"):
            Ground(**wrong)


def cart() -> KinematicTree:
    """A slider of 2 kg along x."""
    inertia = Inertia(2.0, np.zeros(3), np.eye(3))
    place = Transform(np.eye(3), np.zeros(3))
    return KinematicTree("slider", [Body("cart", -1, Prismatic([1, 0, 0]), place, inertia)])


def test_dry_friction_may_differ_with_the_direction() -> None:
    """Of the cart: 1.5 N against +x, 2.5 N against -x; it is pushed by 2 N."""
    robot = cart()
    (joint,) = robot.joint_names
    dry = {f"{joint}.coulomb": 1.5, f"{joint}.coulomb_minus": 2.5}
    simulation = Simulation(robot.with_parameters(dry), None, 1e-2)
    for push, speed in ((2.0, 0.25), (-2.0, 0.0), (-3.0, -0.25)):
        end, _ = simulation.run(simulation.start(np.zeros(1)), 100, torque=np.array([push]))
        np.testing.assert_allclose(end.v, speed, atol=2e-2)  # it is smooth near rest


def test_of_several_closures_each_is_put_right() -> None:
    """Two boxes that are held to the base, each a little off in every direction."""
    names, inertia = ("first", "second"), Inertia(1.0, np.zeros(3), np.diag([1.0, 1.25, 1.5]))
    base = {"base": Frame(-1, Transform.identity())}
    bodies = [Body(name, -1, Free(), inertia=inertia) for name in names]
    robot = KinematicTree("boxes", bodies, frames=base, gravity=np.zeros(3))
    sim = Simulation(robot, closures=[Closure(name, name, "base") for name in names])
    off = 1e-5 * np.array([3.0, -2, 4, 1, 5, -3, -1, 4, 2, -5, 2, 3])
    state, _ = sim.run(sim.start(robot.integrate(robot.neutral(), off, 1.0)), 3)
    assert_allclose(robot.difference(robot.neutral(), state.q), 0.0, atol=1e-9)


@pytest.mark.parametrize("dt", [1e-3, 0.1])
def test_work_of_drives_that_yield_within_a_step(dt: float) -> None:
    """However stiff they are beside the step: it is the energy that a cart gains."""
    robot = cart()
    sim = Simulation(robot, dt=dt, drives=Drives(robot, 300.0, 20.0))
    _, record = sim.run(sim.start([0.0], [2.0]), 3, lambda time: np.array([0.4]))
    assert_allclose(record.drive_work[:-1], np.diff(record.energy), rtol=1e-9)


def test_wrenches_on_a_free_tree_change_its_momentum_about_its_centre_of_mass() -> None:
    """Also those of bodies far from its root, by as much as they turn it at half the step."""
    robot = synthetic.humanoid30().with_gravity(np.zeros(3))
    rng, dt = np.random.default_rng(2), 1e-3
    q, v = robot.random_configuration(rng), 0.1 * rng.normal(size=robot.nv)
    body = robot.body_names[-1]
    sim, push = Simulation(robot, dt=dt), rng.normal(size=6)
    torque = np.r_[rng.normal(size=6), np.zeros(robot.nv - 6)]
    end, record = sim.run(sim.start(q, v), 1, torque=torque, wrenches={body: push})
    before, after = (dynsys.centroidal_momentum(robot, *s) for s in ((q, v), (end.q, end.v)))
    middle, total = dynsys.centre_of_mass(robot, record.q[0]), np.zeros(6)
    for name, wrench in ((robot.body_names[0], torque[:6]), (body, push)):
        here = dynsys.forward_kinematics(robot, record.q[0], name)
        n, f = here.E.T @ wrench[:3], here.E.T @ wrench[3:]
        total += np.r_[n + np.cross(here.r - middle, f), f]
    assert_allclose(after - before, dt * total, rtol=1e-9)


def test_impulses_of_a_contact_that_slides_are_kept() -> None:
    """Friction 0.5 against the sliding velocity: impulses that are right are an answer."""
    A = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.0]])
    right = np.array([1.0, 0.5 * 0.6, 0.5 * 0.8])
    u = np.array([0.0, -0.6, -0.8])
    for start in (right, None):
        found = solve_contacts(A, u - A @ right, 0.5, start=start)
        assert found.converged and found.sweeps == 0
        assert_allclose(found.x, right, rtol=1e-9)
