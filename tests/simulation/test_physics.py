"""Simulation against what physics says: momentum, energy, falls, slopes, limits, closures."""

from __future__ import annotations

import pickle
import re
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose

import dynsys
from dynsys import (
    Contact,
    FrameConstraint,
    JointConstraint,
    KinematicTree,
    ModelError,
    SingularSystemError,
    StateError,
    synthetic,
)
from dynsys.errors import SimulationWarning
from dynsys.loops.flat import flat_robot
from dynsys.model.joints import Free, Prismatic, Revolute
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import Body, Frame, Shape
from dynsys.recursive import aba, crba, rnea
from dynsys.recursive.constraint_rows import dense_rows
from dynsys.simulation import Closure, ContactPoints, Drives, Ground, Simulation
from dynsys.simulation.motion import bias_forces, bodies_of, fill_inertia, motion_of, move
from problems import ForwardDynamics
from tests.problems.estimation.test_several_wrenches import FOUR_BAR
from tests.strategies import seeds, trees

G = 9.81


def box(mass: float = 1.0, offset: tuple[float, float, float] = (0, 0, 0)) -> KinematicTree:
    """Return a free box 0.2 x 0.2 x 0.1, its origin away from its centre by -offset."""
    inertia = synthetic.box_inertia(mass, (0.2, 0.2, 0.1), offset)
    return KinematicTree("box", [Body("box", -1, Free(), inertia=inertia)])


def corners(robot: KinematicTree, body: str = "box") -> ContactPoints:
    four = [(x, y, -0.05) for x in (-0.1, 0.1) for y in (-0.1, 0.1)]
    return ContactPoints(robot, [body] * 4, four)


def limp(seed: int, bodies: int = 6) -> KinematicTree:
    """Return a random tree on a free root."""
    tree = synthetic.random_tree(bodies, seed)
    root = Body(
        "root", -1, Free(), inertia=synthetic.box_inertia(2.0, (0.3, 0.2, 0.1), (0, 0, 0))
    )
    below = [
        Body(b.name, b.parent + 1, b.joint, b.placement, b.inertia, b.joint_name)
        for b in tree.bodies
    ]
    return KinematicTree("limp", [root, *below])


# ---- the compiled motion against the recursions ---------------------------------------------


@given(robot=trees(max_bodies=6), seed=seeds)
@settings(deadline=None, max_examples=40)
def test_inertia_and_bias_are_those_of_the_recursions(robot: KinematicTree, seed: int) -> None:
    rng = np.random.default_rng(seed)
    flat = flat_robot(robot)
    bodies, H = bodies_of(flat), np.zeros((robot.nv, robot.nv))
    motion, q, v = (
        motion_of(bodies),
        robot.random_configuration(seed),
        rng.normal(size=robot.nv),
    )
    wrenches = rng.normal(size=(robot.n_bodies, 6))
    move(
        flat.model(np.zeros(robot.nv, dtype=bool)),
        flat.workspace(matrix=False),
        bodies,
        motion,
        q,
    )
    fill_inertia(bodies, motion, np.zeros(robot.nv), H)
    bias_forces(bodies, motion, v, wrenches)
    exact = crba(robot, q)
    assert_allclose(np.tril(H), np.tril(exact), atol=1e-11 * max(1.0, np.abs(exact).max()))
    plain = robot.with_friction(False)
    torque = rnea(plain, q, v, np.zeros(robot.nv), wrenches)
    assert_allclose(motion.bias, torque, atol=1e-10 * max(1.0, np.abs(torque).max()))


# ---- flight ---------------------------------------------------------------------------------


@pytest.mark.parametrize("integrator", ["midpoint", "semi_implicit"])
def test_a_spinning_body_keeps_its_momentum_for_ten_seconds(integrator: str) -> None:
    robot = box(offset=(0.02, 0.0, 0.01)).with_gravity((0, 0, 0))
    sim = Simulation(robot, dt=1e-3, integrator=integrator)  # type: ignore[arg-type]
    start = sim.start(robot.neutral(), [0.3, 10.0, 1.0, 2.0, 0.0, 0.0])
    end, _ = sim.run(start, 10_000)
    before, after = (
        dynsys.momentum(sim.robot, start.q, start.v),
        dynsys.momentum(sim.robot, end.q, end.v),
    )
    assert_allclose(after, before, atol=1e-12 * np.abs(before).max())


@pytest.mark.parametrize("seed", [0, 1])
def test_a_tumbling_tree_falls_as_its_momentum_says(seed: int) -> None:
    robot = limp(seed).with_gravity((0.5, 0.0, -9.0))
    sim = Simulation(robot, dt=1e-3)
    v = np.random.default_rng(seed).normal(size=robot.nv)
    start = sim.start(robot.random_configuration(seed), v)
    end, _ = sim.run(start, 1000)
    before, after, mass = (
        dynsys.momentum(sim.robot, start.q, start.v),
        dynsys.momentum(sim.robot, end.q, end.v),
        robot.total_mass,
    )
    pull = mass * robot.gravity
    assert_allclose(after[3:], before[3:] + pull * end.time, atol=1e-11 * np.abs(after).max())
    # the moment of gravity about the origin: that of the centre's parabola
    centre = dynsys.centre_of_mass(robot, start.q)
    way = centre * end.time + 0.5 * before[3:] / mass * end.time**2
    assert_allclose(
        after[:3], before[:3] + np.cross(way, pull), atol=1e-11 * np.abs(after).max()
    )


@pytest.mark.parametrize(("integrator", "order"), [("midpoint", 2), ("semi_implicit", 1)])
def test_energy_error_is_of_the_order_that_is_promised(integrator: str, order: int) -> None:
    robot, drift = limp(3), []
    v = np.random.default_rng(0).normal(size=robot.nv)
    for dt in (2e-3, 1e-3, 5e-4):
        sim = Simulation(robot, dt=dt, integrator=integrator)  # type: ignore[arg-type]
        start = sim.start(robot.random_configuration(0), v)
        end, _ = sim.run(start, round(0.2 / dt))
        drift.append(sim.energy(end) - sim.energy(start))
    for coarse, fine in pairwise(drift):
        assert 0.7 * 2**order < coarse / fine < 1.4 * 2**order


def test_samples_satisfy_the_equation_of_motion() -> None:
    robot = limp(1)
    sim = Simulation(
        robot, ContactPoints(robot, ["root"], [(0, 0, -0.1)]), 1e-3, Ground(height=-1.0)
    )
    q = robot.neutral()
    q[2] = -0.8
    given = np.random.default_rng(1).normal(size=robot.nv)
    given[:6] = 0.0
    _, record = sim.run(
        sim.start(q), 300, torque=given, wrenches={"root": [0.1, 0.2, 0.3, 1.0, 2.0, 3.0]}
    )
    assert record.contacts.any()
    for k in range(0, 300, 13):
        torque = rnea(robot, record.q[k], record.qd[k], record.qdd[k], record.wrench[k])
        assert_allclose(
            torque, record.torque[k], atol=1e-8 * max(1, np.abs(record.wrench[k]).max())
        )


# ---- falls ----------------------------------------------------------------------------------


def test_a_mass_on_a_vertical_slider_lands() -> None:
    inertia = Inertia(2.0, np.zeros(3), np.eye(3))
    body = Body("mass", -1, Prismatic(np.array([0.0, 0.0, 1.0])), inertia=inertia)
    robot = KinematicTree("slider", [body])
    sim = Simulation(robot, ContactPoints(robot, ["mass"], [(0.3, 0.1, 0.0)]), 1e-3)
    end, record = sim.run(sim.start([0.5]), 1000)
    assert_allclose(end.q, 0.0, atol=1e-9)
    assert_allclose(record.forces["mass"][-1], [0, 0, 2 * G], atol=1e-6)


@pytest.mark.parametrize("tilt", [0.0, 0.3])
def test_nothing_rebounds_without_restitution(tilt: float) -> None:
    robot = box()
    sim = Simulation(robot, corners(robot), 1e-3)
    state = sim.start([0, 0, 1.05, np.sin(tilt / 2), 0, 0, np.cos(tilt / 2)])
    heights, record = [], None
    for _ in range(200):
        state, record = sim.run(state, 5)
        heights.append(state.q[2])
    low = int(np.argmax(np.array(heights) < 0.15))
    risen = np.maximum.accumulate(heights[::-1])[::-1] - np.array(heights)
    assert risen[low:].max() < (1e-4 if tilt == 0 else 0.03)  # tilted: it rocks
    assert record is not None and record.penetration.max() < 1e-4
    assert_allclose(state.q[2], 0.05, atol=1e-4)
    assert np.abs(state.v).max() < 1e-6


@pytest.mark.parametrize("e", [0.5, 1.0])
def test_a_ball_rises_as_high_as_restitution_says(e: float) -> None:
    robot = box()
    ball = ContactPoints(robot, ["box"], radius=0.1)
    sim = Simulation(robot, ball, 1e-4, Ground(restitution=e))
    _, record = sim.run(sim.start([0, 0, 1.1, 0, 0, 0, 1]), 9500)
    height = record.q[:, 2] - 0.1
    hit = int(np.argmax(height < 1e-3))
    assert_allclose(height[hit + 100 : hit + 9000].max(), e**2, rtol=5e-3)


def test_what_was_driven_into_the_ground_comes_out_slowly_and_stays() -> None:
    robot = box()
    sim = Simulation(robot, corners(robot), 1e-3)
    state, record = sim.run(sim.start([0, 0, 0.04, 0, 0, 0, 1]), 400)
    assert record.penetration[0] > 9e-3 and record.penetration[-1] < 1.1e-4
    assert record.qd[:, 5].max() < 1e-9  # without ever having a speed
    assert_allclose(state.v, 0.0, atol=1e-9)


# ---- slopes, weights, mass ratios -----------------------------------------------------------


@pytest.mark.parametrize("mu", [0.3, 0.8])
@pytest.mark.parametrize("part", [0.98, 1.02])
def test_an_incline_holds_up_to_the_angle_of_friction(mu: float, part: float) -> None:
    slope = part * np.arctan(mu)
    normal = (np.sin(slope), 0.0, np.cos(slope))
    robot = box()
    sim = Simulation(robot, corners(robot), 1e-3, Ground(friction=mu, normal=normal))
    turn = [0.0, np.sin(slope / 2), 0.0, np.cos(slope / 2)]
    end, record = sim.run(sim.start([*(0.05 * np.array(normal)), *turn]), 500)
    pull = G * (np.sin(slope) - mu * np.cos(slope))
    assert_allclose(end.v[3], max(0.0, pull) * 0.5, atol=1e-7)
    weight = sum(record.forces.values())
    if part < 1:
        assert_allclose(weight[-1], [0, 0, G], atol=1e-6)


@pytest.mark.parametrize("ratio", [1e-4, 1.0, 1e4])
def test_mass_ratios_do_not_matter(ratio: float) -> None:
    """A box carries another one on a slider: the ground carries both, in every step."""
    inertia = synthetic.box_inertia(1.0, (0.2, 0.2, 0.1), (0, 0, 0))
    upper = synthetic.box_inertia(ratio, (0.1, 0.1, 0.1), (0, 0, 0.2))
    robot = KinematicTree(
        "stack",
        [
            Body("box", -1, Free(), inertia=inertia),
            Body(
                "top", 0, Prismatic(np.array([0, 0, 1.0])), inertia=upper, lower=0.0, upper=1.0
            ),
        ],
    )
    sim = Simulation(robot, corners(robot), 1e-3)
    end, record = sim.run(sim.start([0, 0, 0.05, 0, 0, 0, 1, 0.01]), 500)
    assert record.converged.all() and record.sweeps.max() == 0
    weight = sum(record.forces.values())[-1]
    assert_allclose(weight[2], (1 + ratio) * G, rtol=1e-6)
    assert_allclose(end.q[7], 0.0, atol=1e-7)


def test_a_heavy_robot_on_light_feet_stands() -> None:
    robot = synthetic.centipede(2)
    light = {
        f"{body}.{what}": 1e-4 * robot.parameters[f"{body}.{what}"]
        for body in robot.body_names
        if "_lower_leg_" in body
        for what in ("mass", "mx", "my", "mz", "Ixx", "Ixy", "Ixz", "Iyy", "Iyz", "Izz")
    }
    robot = robot.with_parameters(light)
    legs = [name for name in robot.body_names if "_lower_leg_" in name]
    feet = ContactPoints(robot, legs, np.tile([0.0, 0.0, -0.08], (len(legs), 1)))
    sim = Simulation(robot, feet, 1e-3, drives=Drives(robot, 50.0, 0.5))
    q = robot.neutral()
    q[robot.q_slice("root")][2] = 0.08
    _, record = sim.run(sim.start(q), 1500, lambda time: q)
    assert record.converged.all()
    weight = sum(record.forces.values())[-1]
    assert_allclose(weight, [0, 0, robot.total_mass * G], atol=1e-6 * robot.total_mass * G)


def test_impulses_that_do_not_converge_are_told() -> None:
    robot = box()
    sim = Simulation(robot, corners(robot), 1e-3, solver="gauss_seidel", sweeps=1)
    with pytest.warns(SimulationWarning, match="did not converge, the first at t = "):
        _, record = sim.run(sim.start([0, 0, 0.05, 0.1, 0, 0, 0.99**0.5]), 300)
    assert not record.converged.all() and record.residual[~record.converged].max() > 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim = Simulation(robot, corners(robot), 1e-3)
        sim.run(sim.start([0, 0, 0.05, 0.1, 0, 0, 0.99**0.5]), 300)


# ---- contact points -------------------------------------------------------------------------


def test_contact_points_of_a_frame_are_where_the_frame_is() -> None:
    turned = Transform(np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]]), np.array([0.0, 0, -0.3]))
    inertia = synthetic.box_inertia(1.0, (0.1, 0.1, 0.1), (0, 0, 0))
    robot = KinematicTree(
        "leg", [Body("body", -1, Free(), inertia=inertia)], {"foot": Frame(0, turned)}
    )
    points = ContactPoints(robot, ["foot", "body"], [(0.1, 0.0, 0.0), (0.1, 0.0, 0.0)])
    assert_allclose(points.point, [[0.0, 0.1, -0.3], [0.1, 0.0, 0.0]], atol=1e-15)
    assert points.names == ("foot", "body")
    foot = ContactPoints(robot, ["foot"])
    sim = Simulation(robot, foot, 1e-3)
    end, _ = sim.run(sim.start([0, 0, 0.4, 0, 0, 0, 1]), 400)
    assert_allclose(end.q[2], 0.3, atol=1e-6)


def test_a_disc_rolls_stands_and_lies() -> None:
    inertia = Inertia(1.0, np.zeros(3), np.diag([0.01, 0.01, 0.02]))
    robot = KinematicTree("wheel", [Body("wheel", -1, Free(), inertia=inertia)])
    rim = [(0, 0, 1, 1, 0, 0, phase) for phase in (0.0, 2 * np.pi / 3, -2 * np.pi / 3)]
    points = ContactPoints(robot, ["wheel"] * 3, radius=0.2, rims=rim)
    sim = Simulation(robot, points, 1e-3)
    flat, record = sim.run(sim.start([0, 0, 0, 0, 0, 0, 1]), 200)
    assert_allclose(flat.q[2], 0.0, atol=1e-6)
    assert record.contacts[-1] == 3
    upright = [0, 0, 0.2, np.sin(np.pi / 4), 0, 0, np.cos(np.pi / 4)]
    rolled, record = sim.run(sim.start(upright, [0, 0, 5.0, -1.0, 0, 0]), 500)
    axis = dynsys.momentum(sim.robot, rolled.q, rolled.v)
    assert_allclose(rolled.q[2], 0.2, atol=2e-4)
    assert_allclose(abs(rolled.q[0]), 0.5, rtol=1e-3)  # 1 m/s, no slip
    assert_allclose(abs(axis[3]), 1.0, rtol=1e-3)


def test_bad_points_and_grounds_are_refused() -> None:
    robot = box()
    with pytest.raises(ModelError, match="need a name each"):
        ContactPoints(robot, ["box"], names=["a", "b"])
    with pytest.raises(ModelError, match=r"points \(2, 3\)"):
        ContactPoints(robot, ["box", "box"], [(0, 0, 0)])
    with pytest.raises(ModelError, match="finite"):
        ContactPoints(robot, ["box"], [(0, 0, np.nan)])
    with pytest.raises(ModelError, match="negative"):
        ContactPoints(robot, ["box"], radius=-1.0)
    with pytest.raises(ModelError, match="normal"):
        Ground(normal=(0, 0, 0))
    with pytest.raises(ModelError, match="restitution"):
        Ground(restitution=1.5)
    with pytest.raises(ModelError, match="another object"):
        Simulation(box(), corners(robot), 1e-3)


# ---- joints: drives, limits, effort, damping, friction --------------------------------------


def pendulum(**stated: float) -> KinematicTree:
    inertia = Inertia(1.0, np.array([0.0, 0.0, -0.5]), 0.01 * np.eye(3))
    joint = Revolute(np.array([0.0, 1.0, 0.0]))
    return KinematicTree("pendulum", [Body("rod", -1, joint, inertia=inertia, **stated)])


def test_drives_without_a_target_weigh_nothing() -> None:
    robot = pendulum()
    free = Simulation(robot, dt=1e-3)
    idle = Simulation(robot, dt=1e-3, drives=Drives(robot, 1e3, 1e2))
    one, two = (sim.run(sim.start([0.7]), 300)[0] for sim in (free, idle))
    assert_allclose(two.q, one.q, atol=1e-14)


def test_torques_and_controllers_move_as_forward_dynamics_says() -> None:
    robot = synthetic.chain(3)
    sim = Simulation(robot, dt=1e-5)
    q, v, torque = np.array([0.2, 0.4, -0.3]), np.array([0.5, 0.1, 0.2]), np.array([1.0, 2, -1])
    exact = aba(robot, q, v, torque)
    given, _ = sim.run(sim.start(q, v), 1, torque=torque)
    asked, record = sim.run(
        sim.start(q, v), 1, controller=lambda state: 0.5 * torque, torque=0.5 * torque
    )
    assert_allclose((given.v - v) / 1e-5, exact, rtol=1e-3, atol=1e-3)
    assert_allclose(asked.v, given.v, atol=1e-15)
    assert_allclose(record.torque[0], torque)


def test_wrenches_act_at_their_frames() -> None:
    robot = synthetic.chain(2)
    at = Frame(1, Transform(np.eye(3), np.array([0.1, 0.2, 0.3])))
    robot = KinematicTree(robot.name, robot.bodies, {"tip": at}, robot.gravity)
    sim, q = Simulation(robot, dt=1e-5), np.array([0.3, 0.2])
    push = np.array([1.0, -2.0, 0.5, 3.0, 4.0, -5.0])
    body = np.zeros((2, 6))
    body[1] = at.transform.force_back(push)
    exact = aba(robot, q, np.zeros(2), np.zeros(2), body)
    end, record = sim.run(sim.start(q), 1, wrenches={"tip": push})
    assert_allclose(end.v / 1e-5, exact, rtol=1e-4)
    assert_allclose(record.wrench[0, 1], body[1])
    with pytest.raises(StateError, match="6 finite numbers"):
        sim.run(sim.start(q), 1, wrenches={"tip": [1.0]})


def test_limits_of_the_file_hold() -> None:
    robot = pendulum(lower=-0.4, upper=0.6)
    sim = Simulation(robot, dt=1e-3)
    end, record = sim.run(sim.start([0.5], [3.0]), 3000)
    assert record.q.max() < 0.6 + 5e-3 and record.q.min() > -0.4 - 5e-3
    assert abs(end.q[0]) < 0.4
    sim = Simulation(robot, dt=1e-3, limits=False)
    beyond, _ = sim.run(sim.start([0.5], [3.0]), 200)
    assert beyond.q[0] > 0.6


def test_effort_limits_cut_torques_and_drives() -> None:
    robot = pendulum(effort_limit=2.0)
    sim = Simulation(robot, dt=1e-3, drives=Drives(robot, 1e3, 10.0))
    _, record = sim.run(sim.start([0.0]), 200, lambda time: np.array([1.5]))
    assert_allclose(record.torque.max(), 2.0, atol=1e-12)
    _, record = sim.run(sim.start([0.0]), 2, torque=[50.0])
    assert_allclose(record.torque, 2.0)
    with pytest.warns(SimulationWarning, match="limits of joints rod are zero"):
        Simulation(pendulum(effort_limit=0.0))


def test_damping_decays_and_dry_friction_holds() -> None:
    flat = pendulum(damping=0.3).with_gravity((0, 0, 0)).with_friction()
    sim = Simulation(flat, dt=1e-2)
    end, record = sim.run(sim.start([0.0], [2.0]), 100)
    assert_allclose(end.v, 2.0 * np.exp(-0.3 / 0.26), rtol=1e-4)
    assert_allclose(record.friction_work.sum(), 0.5 * 0.26 * (end.v[0] ** 2 - 4), rtol=1e-3)
    stuck = pendulum(friction=3.0).with_friction(smoothing=1e-6)
    sim = Simulation(stuck, dt=1e-3)
    end, _ = sim.run(sim.start([0.6]), 1000)  # 1 kg on 0.5 m: 2.77 N m at 0.6 rad
    assert_allclose(end.q, 0.6, atol=2e-6)
    end, _ = sim.run(sim.start([0.7]), 1000)  # 3.16 N m
    assert abs(end.q[0] - 0.7) > 0.01
    kept = pendulum(friction=3.0, damping=1.0)  # not part of its equations
    sim = Simulation(kept, dt=1e-3)
    free, _ = sim.run(sim.start([0.6]), 100)
    assert abs(free.q[0] - 0.6) > 0.05


# ---- closures -------------------------------------------------------------------------------


def test_two_boxes_held_together_fly_as_one() -> None:
    inertia = synthetic.box_inertia(1.0, (0.2, 0.2, 0.2), (0, 0, 0))
    frames = {
        "right": Frame(0, Transform(np.eye(3), np.array([0.1, 0, 0]))),
        "left": Frame(1, Transform(np.eye(3), np.array([-0.1, 0, 0]))),
    }
    bodies = [Body(name, -1, Free(), inertia=inertia) for name in ("one", "two")]
    robot = KinematicTree("pair", bodies, frames, gravity=(0, 0, 0))
    sim = Simulation(robot, dt=1e-3, closures=[Closure("glue", "right", "left")])
    twist = np.array([0.5, 1.0, 2.0, 0.0, 0.0, 0.0])
    other = np.concatenate([twist[:3], np.cross(twist[:3], [0.2, 0, 0])])
    q = [0, 0, 0, 0, 0, 0, 1, 0.2, 0, 0, 0, 0, 0, 1]
    start = sim.start(q, np.concatenate([twist, other]))
    end, record = sim.run(start, 2000)
    whole = synthetic.box_inertia(2.0, (0.4, 0.2, 0.2), (0.1, 0, 0))
    single = KinematicTree("bar", [Body("bar", -1, Free(), inertia=whole)], gravity=(0, 0, 0))
    alone = Simulation(single, dt=1e-3)
    bar, _ = alone.run(alone.start(q[:7], twist), 2000)
    assert_allclose(end.q[:7], bar.q, atol=2e-4)
    assert_allclose(
        dynsys.momentum(sim.robot, end.q, end.v),
        dynsys.momentum(sim.robot, start.q, start.v),
        atol=1e-6,
    )
    poses = [dynsys.forward_kinematics(robot, end.q, name) for name in ("right", "left")]
    assert_allclose(poses[0].r, poses[1].r, atol=1e-10)
    # centripetal force on a half: m w^2 0.1 m, at the start
    assert_allclose(record.closure_wrenches["glue"][0, 3], 0.1 * (1.0 + 4.0), rtol=1e-3)


def test_a_four_bar_stays_closed_and_keeps_its_energy() -> None:
    joint = Revolute(np.array([0.0, 1.0, 0.0]))
    rod = Inertia(1.0, np.array([0.5, 0.0, 0.0]), np.diag([1e-3, 0.083, 0.083]))
    ahead = Transform(np.eye(3), np.array([1.0, 0.0, 0.0]))
    bodies = [
        Body("crank", -1, joint, inertia=rod),
        Body("coupler", 0, joint, ahead, rod),
        Body("rocker", -1, joint, ahead, rod),
    ]
    frames = {"end": Frame(1, ahead), "head": Frame(2, ahead)}
    robot = KinematicTree("four bar", bodies, frames)
    closure = Closure("pin", "end", "head", ("fx", "fz"))
    sim = Simulation(robot, dt=1e-3, closures=[closure])
    angle = -1.2  # a parallelogram
    start = sim.start([angle, -angle, angle])
    end, record = sim.run(start, 2000)
    ends = [dynsys.forward_kinematics(robot, end.q, name).r for name in ("end", "head")]
    assert_allclose(ends[0], ends[1], atol=1e-10)
    assert abs(sim.energy(end) - sim.energy(start)) < 2e-4 * np.ptp(record.energy) + 1e-3
    with pytest.raises(StateError, match="apart by"):
        sim.start([0.0, 0.3, 0.0])


@pytest.mark.finding("U-7")
def test_loops_of_a_file_hold(tmp_path: Path) -> None:
    """A MuJoCo connect: moves as constrained forward dynamics says, of first order."""
    path = tmp_path / "four_bar.xml"
    path.write_text(FOUR_BAR)
    robot = dynsys.load(path)
    problem = ForwardDynamics(robot, constraints="file")
    start, steps = problem.close([0.3, 0.1, 0.0]), 400
    q, v, h = start, np.zeros(3), 0.1 / steps
    for _ in range(steps):  # of second order
        half = v + 0.5 * h * problem.solve(q, v, np.zeros(3), gains=(1e4, 200.0)).qdd
        middle = q + 0.5 * h * v
        v = v + h * problem.solve(middle, half, np.zeros(3), gains=(1e4, 200.0)).qdd
        q = q + h * half
    error = []
    for dt in (1e-3, 5e-4):
        sim = Simulation(robot, dt=dt)
        state, record = sim.run(sim.start(start), round(0.1 / dt))
        error.append(float(np.abs(state.q - q).max()))
        open_by = dense_rows(robot, robot.constraints, state.q, v).error
        assert record.converged.all() and np.abs(open_by).max() < 1e-6
    assert error[0] < 2e-4 and error[1] < 0.7 * error[0]
    k = len(record) // 2
    wrench = problem.solve(record.q[k], record.qd[k], np.zeros(3)).constraint_wrench["pin"]
    np.testing.assert_allclose(record.closure_wrenches["pin"][k], wrench, atol=0.05)
    with pytest.raises(StateError, match=r"'pin'.*apart.*problem.close"):
        Simulation(robot).start([0.3, 0.1, 0.0])
    assert not Simulation(robot, constraints=()).closures


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (
            JointConstraint("c", "link_2", "link_1"),
            "'c' ties joint 'link_2'.*lock joint 'link_1'",
        ),
        (JointConstraint("c", "link_2", None, (0.1,)), "lock joint 'link_2'"),
        (FrameConstraint("c", "link_2"), "does not say where .*other_placement"),
        (FrameConstraint("c", "link_2", -1, ("x",), "world"), "'c'.*give axes='frame'"),
    ],
)
def test_constraints_that_a_simulation_cannot_hold(held: object, message: str) -> None:
    robot = synthetic.chain(2).with_constraints([held])  # type: ignore[list-item]
    with pytest.raises(ModelError, match=message):
        Simulation(robot)
    Simulation(robot, constraints=())


@pytest.mark.parametrize("leader", ["link_1", None])
@pytest.mark.finding("Z-E5")
def test_the_way_out_of_a_tied_joint_is_one(leader: str | None) -> None:
    """Words said mimic='couple', for which the simulation said mimic='independent'."""
    robot = synthetic.chain(3).with_constraints([JointConstraint("c", "link_2", leader)])
    for _ in range(2 if leader else 1):  # the leader, then the joint that stands with it
        with pytest.raises(ModelError, match="lock joint") as refused:
            Simulation(robot)
        said = re.search(r"with_locked\(\{'(\w+)': position\}\)", str(refused.value))
        assert said is not None
        robot = robot.with_locked({said[1]: 0.0})
    assert Simulation(robot).robot.nv == (1 if leader else 2)


def test_contacts_of_one_body_have_their_own_wrenches() -> None:
    """Two points of one foot, each a contact: together they are what the foot feels."""
    tree = synthetic.centipede(1)
    foot, other = (name for name in tree.body_names if "_lower_leg_" in name)
    edges = [Contact(f"edge_{y:+}", foot, (0.0, y, -0.08)) for y in (0.02, -0.02)]
    robot = tree.with_contacts(edges)
    far = np.array([[0, 0.02, -0.08], [0, -0.02, -0.08]])
    at_edges = np.concatenate([np.zeros((2, 3)), far])
    names = [*(edge.name for edge in edges), other, other]
    samples = []
    for of, points in (
        (robot, ContactPoints(robot, names, at_edges)),
        (tree, ContactPoints(tree, [foot, foot, other, other], np.concatenate([far, far]))),
    ):
        sim = Simulation(of, points, drives=Drives(of, 50.0, 0.5))
        q = of.neutral()
        q[of.q_slice("root")][2] = 0.08
        _, record = sim.run(sim.start(q), 300, target=lambda time, q=q: q)
        samples.append(record.wrench[-1])
    mine, whole = samples
    i = tree.body_index(foot)
    assert not mine[i].any() and np.abs(whole[i][3:]).max() > 1.0
    total = sum(robot.bodies[k].placement.force_back(mine[k]) for k in (-2, -1))
    np.testing.assert_allclose(total, whole[i], atol=1e-8)


def test_closures_that_cannot_be_are_refused() -> None:
    robot = synthetic.chain(2)
    with pytest.raises(ModelError, match="two bodies"):
        Simulation(robot, closures=[Closure("a", "link_1", "link_1")])
    with pytest.raises(ModelError, match="no direction 'up'"):
        Closure("a", "link_1", "link_2", ("up",))
    with pytest.raises(ModelError, match="contacts alone"):
        Simulation(robot, route="dense", closures=[Closure("a", "link_1", "link_2")])


def flying_box(axis: int, angle: float) -> tuple[KinematicTree, np.ndarray]:
    """A box and its configuration turned about an axis."""
    inertia = Inertia(1.0, np.zeros(3), np.diag([1.0, 1.25, 1.5]))
    base = {"base": Frame(-1, Transform.identity())}
    robot = KinematicTree("box", [Body("box", -1, Free(), inertia=inertia)], frames=base)
    q = robot.neutral().copy()
    q[robot.quaternion_slices[0]] = [*(np.sin(angle / 2) * np.eye(3)[axis]), np.cos(angle / 2)]
    return robot, q


@pytest.mark.parametrize("rows", [("tx", "ty", "tz"), ("tx", "ty")])
def test_half_a_turn_is_not_closed(rows: tuple[str, ...]) -> None:
    """The sine of half a turn is zero."""
    robot, q = flying_box(0, np.pi)
    with pytest.raises(StateError, match=r"apart by 3\.14"):
        Simulation(robot, closures=[Closure("held", "box", "base", rows)]).start(q)


@pytest.mark.parametrize("angle", [0.0, 2.0, np.pi])
def test_a_hinge_is_put_right_at_any_angle(angle: float) -> None:
    """A tilt of the hinge's axis is seen at half a turn about it, too."""
    robot, q = flying_box(2, angle)
    hinge = Closure("hinge", "box", "base", ("tx", "ty", "fx", "fy", "fz"))
    sim = Simulation(robot.with_gravity(np.zeros(3)), closures=[hinge])
    tilted = robot.integrate(q, np.array([6e-5, 3e-5, 0.0, 0.0, 0.0, 0.0]), 1.0)
    state, _ = sim.run(sim.start(tilted), 3)
    up = dynsys.forward_kinematics(robot, state.q, "box").E[2]
    assert_allclose(up, [0.0, 0.0, 1.0], atol=1e-8)


@pytest.mark.finding("U-2")
def test_states_of_another_shape_are_no_states_of_this_robot() -> None:
    """Compiled code would read beyond their ends."""
    sim = Simulation(synthetic.chain(3))
    good = sim.start(np.zeros(3))
    for change in ({"q": good.q[:2]}, {"v": good.v[:2]}, {"others": np.ones(5)}):
        with pytest.raises(StateError):
            sim.run(replace(good, **change), 1)
        with pytest.raises(StateError):
            sim.step(replace(good, **change))
    with pytest.raises(StateError, match="link_2"):
        sim.energy(replace(good, v=np.array([0.0, np.nan, 0.0])))


@pytest.mark.parametrize("integrator", ["midpoint", "semi_implicit"])
def test_samples_are_of_the_time_that_is_said(integrator: str) -> None:
    """A mass in free fall has the speed g t at the time of its sample."""
    inertia = Inertia(2.0, np.zeros(3), np.eye(3))
    robot = KinematicTree("mass", [Body("mass", -1, Prismatic([0, 0, 1]), inertia=inertia)])
    sim = Simulation(robot, dt=0.01, integrator=integrator)  # type: ignore[arg-type]
    _, record = sim.run(sim.start([0.0]), 20)
    off = 0.0 if integrator == "midpoint" else 9.81 * sim.dt
    assert_allclose(record.qd[:, 0], -9.81 * record.sample_time, atol=1e-12 + off)
    half = 0.5 * sim.dt if integrator == "midpoint" else 0.0
    assert_allclose(record.sample_time, record.time + half, rtol=1e-14)


def test_a_body_without_inertia_is_named() -> None:
    joint = Revolute(np.array([0.0, 1.0, 0.0]))
    robot = KinematicTree("thin", [Body("thread", -1, joint, joint_name="hinge")])
    sim = Simulation(robot)
    with pytest.raises(SingularSystemError, match="'hinge'"):
        sim.run(sim.start([0.0]), 1)


# ---- shapes of model files ------------------------------------------------------------------

SHAPES = """
<mujoco><worldbody>
  <geom name="floor" type="plane" size="1 1 1"/>
  <body name="ball" pos="0 0 1"><freejoint/>
    <geom name="ball" type="sphere" size="0.1"/></body>
  <body name="pill" pos="1 0 1"><freejoint/>
    <geom name="pill" type="capsule" size="0.1 0.3" euler="0 90 0"/></body>
  <body name="crate" pos="2 0 1" euler="10 20 0"><freejoint/>
    <geom name="crate" type="box" size="0.1 0.2 0.3"/></body>
  <body name="can" pos="3 0 1" euler="60 0 0"><freejoint/>
    <geom name="can" type="cylinder" size="0.2 0.1"/></body>
  <body name="ghost" pos="4 0 1"><freejoint/>
    <geom type="sphere" size="0.1" contype="0" conaffinity="0"/>
    <geom name="egg" type="ellipsoid" size="0.1 0.1 0.2"/></body>
</worldbody></mujoco>
"""


def test_shapes_of_a_model_file_come_to_rest_on_the_plane(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    (tmp_path / "shapes.xml").write_text(SHAPES)
    robot = dynsys.load(tmp_path / "shapes.xml")
    points = ContactPoints.of_shapes(robot)
    assert len(points) == 1 + 2 + 8 + 6
    sim = Simulation(robot, points, 1e-3, Ground(friction=0.5))
    q = robot.neutral()
    for k, name in enumerate(("ball", "pill", "crate", "can", "ghost")):
        q[7 * k : 7 * k + 3] = [k, 0.0, 1.0]
        turn = {"crate": [0.1, 0.2, 0.05], "can": [0.9, 0.0, 0.0]}.get(name, [0.0] * 3)
        q[7 * k : 7 * k + 7] = robot.integrate(
            q, np.r_[np.zeros(6 * k), turn, np.zeros(3 + 24 - 6 * k)], 1.0
        )[7 * k : 7 * k + 7]
    end, record = sim.run(sim.start(q), 4000)
    assert record.converged.all()
    mass = [body.inertia.mass for body in robot.bodies]
    for k, (name, rest) in enumerate(
        {"ball": [0.1], "pill": [0.1], "crate": [0.1, 0.2, 0.3], "can": [0.1, 0.2]}.items()
    ):
        height = end.q[7 * k + 2]
        assert min(abs(height - r) for r in rest) < 2e-4, (name, height)
        push = sum(
            f[-100:, 2].mean() for key, f in record.forces.items() if key.startswith(name)
        )
        assert_allclose(push, mass[k] * G, rtol=1e-4)
    with pytest.raises(ModelError, match="'egg' of 'ghost' is a ellipsoid"):
        ContactPoints.of_shapes(robot, ["ghost"])
    with pytest.raises(ModelError, match="did you mean 'crate'"):
        ContactPoints.of_shapes(robot, ["crat"])


def test_shapes_of_urdf_files_are_read_written_and_locked(tmp_path: Path) -> None:
    inertia = '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    inertial = f'<inertial><mass value="1"/>{inertia}</inertial>'
    can, ball = '<cylinder radius="0.1" length="0.4"/>', '<sphere radius="0.05"/>'
    at = '<origin xyz="0.1 0.2 0.3" rpy="0.1 0.2 0.3"/>'
    text = f"""<robot name="r"><link name="base"/><link name="arm">{inertial}
      <collision>{at}<geometry><box size="0.2 0.4 0.6"/></geometry></collision>
      <collision name="end"><geometry>{can}</geometry></collision>
      <collision><geometry><mesh filename="arm.stl"/></geometry></collision>
      <collision><geometry><sphere radius="many"/></geometry></collision></link>
      <link name="tip"><collision>{at}<geometry>{ball}</geometry></collision></link>
      <joint name="j" type="continuous"><parent link="base"/><child link="arm"/>
        <origin xyz="0 0 1"/><axis xyz="0 0 1"/></joint>
      <joint name="f" type="fixed"><parent link="arm"/><child link="tip"/>
        <origin xyz="1 0 0"/></joint></robot>"""
    (tmp_path / "r.urdf").write_text(text)
    with pytest.warns(
        dynsys.ModelWarning, match="cannot be understood are left out, of links: arm"
    ):
        robot = dynsys.load(tmp_path / "r.urdf")
    kinds = [(s.name, s.kind, s.size) for s in robot.shapes]
    assert kinds == [
        ("arm", "box", (0.1, 0.2, 0.3)),
        ("end", "cylinder", (0.1, 0.2)),
        ("arm[1]", "mesh", ()),
        ("tip", "sphere", (0.05,)),
    ]
    assert_allclose(robot.shapes[3].transform.r, [1.1, 0.2, 0.3])
    assert pickle.loads(pickle.dumps(robot)).shapes[3].name == "tip"
    with pytest.warns(dynsys.ModelWarning, match=r"files or unknown \(mesh\)"):
        again = dynsys.load(robot.to_urdf(tmp_path / "again.urdf"))
    for one, two in zip([s for s in robot.shapes if s.size], again.shapes, strict=True):
        assert (one.name, one.kind) == (two.name, two.kind)
        assert_allclose(one.size, two.size, atol=1e-15)
        assert_allclose(one.transform.E, two.transform.E, atol=1e-12)
        assert_allclose(one.transform.r, two.transform.r, atol=1e-12)
    whole = synthetic.chain(3)
    whole = KinematicTree(
        "c", whole.bodies, shapes=[Shape("s", "sphere", 2, Transform.identity(), (0.1,))]
    )
    q = np.array([0.3, 0.5, 0.2])
    held = whole.with_locked({whole.joint_names[1]: 0.5, whole.joint_names[2]: 0.2})
    seen = [
        dynsys.forward_kinematics(r, x, b).r
        + dynsys.forward_kinematics(r, x, b).E.T @ r.shapes[0].transform.r
        for r, x, b in ((whole, q, 2), (held, q[:1], 0))
    ]
    assert held.shapes[0].body == 0
    assert_allclose(seen[1], seen[0], atol=1e-12)
