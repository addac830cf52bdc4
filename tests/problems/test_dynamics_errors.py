"""What problems of dynamics refuse, and the words they do it in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynsys import (
    KernelBuildError,
    KinematicTree,
    ModelError,
    SingularSystemError,
    StateError,
    synthetic,
)
from dynsys.model.joints import Free, Revolute, Spherical
from dynsys.model.spatial import Inertia
from dynsys.model.tree import Body, Coupling
from dynsys.recursive.rnea import rnea
from problems import ForwardDynamics, HybridDynamics, InverseDynamics
from problems.inputs import ascending_times
from problems.problem import Backend
from tests.backends import BACKENDS

BALL = Inertia(2.0, np.array([0.1, 0.0, 0.2]), 0.05 * np.eye(3))


def test_batches_of_wrong_shape_are_refused() -> None:
    robot = synthetic.chain(2)
    problem = InverseDynamics(robot)
    two, three = np.zeros((2, 2)), np.zeros((3, 2))
    with pytest.raises(StateError, match=r"shape \(N, 2\)"):
        problem.solve_batch(np.zeros(2), two, two)
    with pytest.raises(StateError, match="qdd has 3 states, but q has 2"):
        problem.solve_batch(two, two, three)
    bad = two.copy()
    bad[1, 0] = np.nan
    with pytest.raises(StateError, match="state 1: qd"):
        problem.solve_batch(two, bad, two)
    with pytest.raises(StateError, match=r"shape \(2, 2, 6\)"):
        problem.solve_batch(two, two, two, np.zeros((3, 2, 6)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_quaternion_without_unit_norm_is_named_in_a_batch(backend: Backend) -> None:
    robot = synthetic.random_tree(3, 2, joint_types=["revolute", "spherical"])
    q = np.array([robot.random_configuration(k) for k in range(3)])
    q[1, robot.quaternion_slices[0]] *= 1.5
    zero = np.zeros((3, robot.nv))
    for problem in (InverseDynamics(robot, backend), ForwardDynamics(robot, backend)):
        with pytest.raises(
            StateError, match=r"state 1: q: the quaternion of joint .* norm 1.5"
        ):
            problem.solve_batch(q, zero, zero)


@pytest.mark.parametrize("backend", BACKENDS)
def test_wrong_arguments_of_kernels_are_named(backend: Backend) -> None:
    kernel = InverseDynamics(synthetic.chain(2)).compile(backend=backend)
    x, rows = np.zeros(2), np.zeros((3, 2))
    with pytest.raises(StateError, match=r"expected 3 arguments \['q', 'qd', 'qdd'\], got 2"):
        kernel.one(x, x)
    with pytest.raises(StateError, match=r"as many rows, got {'q': 3, 'qd': 2, 'qdd': 3}"):
        kernel.batch(rows, rows[:2], rows)
    for out in (np.zeros(3), np.zeros(2, dtype=int), [0.0, 0.0]):
        with pytest.raises(StateError, match="out, torque: expected a float array"):
            kernel.one(x, x, x, out=[out])  # type: ignore[list-item]
    with pytest.raises(StateError, match=r"out, torque: expected .* shape \(3, 2\)"):
        kernel.batch(rows, rows, rows, out=[np.zeros((4, 2))])
    fixed = np.zeros(2)
    fixed.setflags(write=False)
    with pytest.raises(StateError, match="read-only"):
        kernel.one(x, x, x, out=[fixed])
    for threads in (0, -1, 1.5, "2", None):
        with pytest.raises(StateError, match=r"threads must be a whole number >= 1, got"):
            kernel.batch(rows, rows, rows, threads=threads)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.finding("K-9")
def test_an_output_too_many_is_not_taken_for_an_input(backend: Backend) -> None:
    kernel = InverseDynamics(synthetic.chain(2)).compile(backend=backend)
    x, rows = np.ones(2), np.ones((3, 2))
    with pytest.raises(StateError, match=r"expected 3 arguments \['q', 'qd', 'qdd'\], got 2"):
        kernel.one(x, x, out=[x.copy(), x.copy()])
    with pytest.raises(StateError, match=r"expected 3 arguments \['q', 'qd', 'qdd'\], got 2"):
        kernel.batch(rows, rows, out=[rows.copy(), rows.copy()])
    with pytest.raises(StateError, match=r"expected 3 arguments .* got 4"):
        kernel.one(x, x, x, x.copy(), out=[])


def test_bad_states_are_named() -> None:
    problem = ForwardDynamics(synthetic.chain(2))
    with pytest.raises(StateError, match=r"torque of robot 'chain2' must have shape \(2,\)"):
        problem.solve([0, 0], [0, 0], [0, 0, 0])
    with pytest.raises(StateError, match=r"q\[1\] of robot 'chain2'"):
        problem.solve([0, np.nan], [0, 0], [0, 0])
    with pytest.raises(StateError, match="f_ext"):
        problem.solve([0, 0], [0, 0], [0, 0], np.zeros((3, 6)))
    rows = np.zeros((4, 2))
    for text in ("heavy", {"link_1": "heavy"}):
        with pytest.raises(StateError, match=r"f_ext.* is not numeric: .*'heavy'"):
            problem.solve([0, 0], [0, 0], [0, 0], text)
        with pytest.raises(StateError, match=r"f_ext.* is not numeric: .*'heavy'"):
            problem.solve_batch(rows, rows, rows, text)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.finding("K-8")
def test_numbers_that_no_answer_depends_on_are_named_too(backend: Backend, bad: float) -> None:
    """Where a floating base is, and how an arm is turned about the vertical."""
    arm = KinematicTree("arm", [Body("link", -1, Revolute(), inertia=BALL)])
    base = KinematicTree("boat", [Body("hull", -1, Free(), inertia=BALL)])
    for robot in (arm, base):
        rows = np.array([robot.neutral()] * 3)
        rows[1, 0] = bad
        zero = np.zeros((3, robot.nv))
        for problem in (InverseDynamics(robot, backend), ForwardDynamics(robot, backend)):
            with pytest.raises(StateError, match=rf"^q\[0\] of robot .* is {bad}"):
                problem.solve(rows[1], zero[1], zero[1])
            with pytest.raises(StateError, match=rf"state 1: q\[0\] .* is {bad}"):
                problem.solve_batch(rows, zero, zero)


@pytest.mark.parametrize("backend", BACKENDS)
def test_outputs_that_make_no_sense_are_named(backend: Backend) -> None:
    problem = InverseDynamics(synthetic.chain(2))
    with pytest.raises(KernelBuildError, match="output 'qdd' is an input here"):
        problem.compile(backend=backend, outputs=["torque", "qdd"])
    with pytest.raises(KernelBuildError, match="'torque' is asked for twice"):
        problem.compile(backend=backend, outputs=["torque", "torque"])
    with pytest.raises(KernelBuildError, match=r"outputs must list some of .* got 'torque'"):
        problem.compile(backend=backend, outputs="torque")


def test_the_file_of_a_plan_is_no_plan() -> None:
    with pytest.raises(KernelBuildError, match=r"got 'plan.json'; Plan.load reads its file"):
        ForwardDynamics(synthetic.chain(2)).compile("plan.json")


def test_hybrid_names_are_checked() -> None:
    robot = synthetic.chain(3)
    with pytest.raises(ModelError, match="no joint 'elbow'"):
        HybridDynamics(robot, ["elbow"])
    with pytest.raises(ModelError, match="list joint names"):
        HybridDynamics(robot, robot.joint_names[0])
    bodies = list(robot.bodies)
    bodies[2] = replace(bodies[2], coupling=Coupling(0, -1.0, 0.0))
    coupled = KinematicTree("mimic", bodies)
    with pytest.raises(ModelError, match=f"name {robot.joint_names[0]!r}"):
        HybridDynamics(coupled, [robot.joint_names[2]])


def with_massless_tip(**changes: object) -> KinematicTree:
    bodies = list(synthetic.chain(3).bodies)
    bodies.append(Body("tip", 2, Revolute(), inertia=Inertia.zero(), joint_name="wrist"))
    bodies[-1] = replace(bodies[-1], **changes)  # type: ignore[arg-type]
    return KinematicTree("arm", bodies)


def test_export_of_a_singular_system_names_the_joint(tmp_path: Path) -> None:
    with pytest.raises(SingularSystemError, match="acceleration of joint 'wrist' is not det"):
        ForwardDynamics(with_massless_tip()).export_c(tmp_path)


@pytest.mark.slow
def test_singular_system_names_the_joint() -> None:
    robot = with_massless_tip()
    state = (np.ones(4), np.ones(4), np.zeros(4))
    with pytest.raises(SingularSystemError, match="acceleration of joint 'wrist' is not det"):
        ForwardDynamics(robot).solve(*state)
    with pytest.raises(SingularSystemError, match=r"state 0: .* 'wrist'"):
        ForwardDynamics(robot).solve_batch(*(vector[None] for vector in state))
    assert InverseDynamics(robot).solve(*state).torque[3] == pytest.approx(0.0)
    assert HybridDynamics(robot, ["wrist"]).solve(*state).qdd[3] == 0.0
    for repaired in (with_massless_tip(armature=0.1), with_massless_tip(inertia=BALL)):
        assert ForwardDynamics(repaired).solve(*state).residual < 1e-14


def test_singular_to_rounding_names_both_joints() -> None:
    """Two joints about one axis with a massless link between: no pivot is exactly zero."""
    axis = Revolute(np.array([0.3, -0.5, 0.8]))
    bodies = [
        *synthetic.chain(3, generic=True).bodies,
        Body("ring", 2, axis, joint_name="inner"),
        Body("hand", 3, axis, inertia=BALL, joint_name="outer"),
    ]
    robot = KinematicTree("arm", bodies)
    with pytest.raises(SingularSystemError, match="joints 'inner', 'outer' are not determined"):
        ForwardDynamics(robot).solve(np.full(5, 0.7), np.ones(5), np.zeros(5))


def test_point_mass_on_a_ball_joint_is_singular() -> None:
    mass = Inertia(1.0, np.array([0.0, 0.0, 1.0]), np.zeros((3, 3)))
    robot = KinematicTree("pendulum", [Body("bob", -1, Spherical(), inertia=mass)])
    with pytest.raises(SingularSystemError, match="joint 'bob'"):
        ForwardDynamics(robot).solve(robot.neutral(), np.zeros(3), np.zeros(3))


def test_light_fingers_are_not_singular() -> None:
    """A link of a tenth of a milligram is small, not massless."""
    speck = Inertia(1e-7, np.array([0.0, 0.001, 0.0]), 1e-14 * np.eye(3))
    robot = with_massless_tip(inertia=speck)
    q, qdd = np.ones(4), np.arange(4.0)
    torque = rnea(robot, q, np.ones(4), qdd)
    solved = ForwardDynamics(robot).solve(q, np.ones(4), torque).qdd
    np.testing.assert_allclose(solved, qdd, rtol=1e-3, atol=4e-3)


INF = float("inf")
NAN = float("nan")


@pytest.mark.parametrize(
    ("time", "why"),
    [
        ([0.0, 1.0], "shape \\(3,\\)"),
        ([0.0, 2.0, 1.0], "sample 2 is 1 after 2"),
        ([0.0, 0.0, 1.0], "sample 1 is 0 after 0"),
        ([0.0, NAN, 1.0], "sample 1 is nan"),
        ([0.0, 1.0, INF], "sample 2 is inf"),
        ([-INF, 1.0, 2.0], "sample 0 is -inf"),
        (np.ma.masked_array([0.0, 1.0, 2.0], [0, 1, 0]), "sample 1 is nan"),
        ("abc", "not numeric"),
        (np.arange(3) * 1j, "complex"),
        (None, "shape"),
    ],
)
def test_times_ascend(time: Any, why: str) -> None:
    with pytest.raises(StateError, match=why):
        ascending_times(time, 3)
