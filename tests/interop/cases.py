"""Problems, states and what their functions must answer."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

import sensors
from dynsys import KinematicTree, synthetic
from dynsys.types import Array
from problems import (
    AbstractDynamics,
    Estimation,
    ForwardDynamics,
    HybridDynamics,
    InverseDynamics,
)

PARAMETERS = ("link_2.mass", "link_1.viscous", "link_2.coulomb")


class Expected(NamedTuple):
    """Inputs of one state, the answer (nv,) and its derivatives by v, qd and what is given."""

    inputs: list[Array]
    answer: Array
    by: tuple[Array, Array, Array]


def tree() -> KinematicTree:
    """A helical joint with a planar and a spherical one behind it: q does not move as v."""
    return synthetic.random_tree(3, 56)


def three_problems(robot: KinematicTree) -> list[AbstractDynamics]:
    some = robot.joint_names[::2]
    return [InverseDynamics(robot), ForwardDynamics(robot), HybridDynamics(robot, some)]


def states(robot: KinematicTree, count: int, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    q = np.array([robot.random_configuration(rng) for _ in range(count)])
    return [q, *rng.normal(size=(2, count, robot.nv))]


def expected(problem: AbstractDynamics, seed: int = 0) -> Expected:
    """By ``solve`` and ``derivatives`` of the problem."""
    inputs = [x[0] for x in states(problem.robot, 1, seed)]
    solution, J = problem.solve(*inputs), problem.derivatives(*inputs)
    answer = np.where(problem.known, solution.torque, solution.qdd)
    return Expected(inputs, answer, (J.q, J.qd, getattr(J, problem.given)))


def estimation() -> Estimation:
    """More readings than needed, on joints of which q does not move as v."""
    robot = tree()
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_accelerations(robot, std=0.1),
            *sensors.all_joint_torques(robot, std=0.2),
            *sensors.zero_external_wrench_except(robot),
        ],
    )
    return Estimation(robot, layout)


def expected_estimate(problem: Estimation, quantity: str = "torque") -> Expected:
    """By the readable estimator; its derivatives by ``derivatives`` of the estimation."""
    q, qd, _ = (x[0] for x in states(problem.robot, 1))
    y = np.zeros(problem.layout.size)
    y[: 2 * problem.robot.nv] = np.random.default_rng(4).normal(size=2 * problem.robot.nv)
    J = getattr(problem.derivatives(q, qd, y), quantity)
    readable = replace(problem, backend="dense").solve(q, qd, y)
    answer = getattr(readable, quantity).array.ravel()
    size = len(answer)
    by = J.q.reshape(size, -1), J.qd.reshape(size, -1), J.y.reshape(size, -1)
    return Expected([q, qd, y], answer, by)


def check_derivatives(
    problem: AbstractDynamics | Estimation, found: list[Array], want: Expected
) -> None:
    """Derivatives (nv, size) by q, qd and what is given, to 1e-9 and better."""
    q = want.inputs[0]
    for got, exact in zip(
        [found[0] @ problem.robot.tangent(q), *found[1:]], want.by, strict=True
    ):
        assert np.abs(got - exact).max() <= 1e-11 * (1 + np.abs(exact).max())
    for where in problem.robot.quaternion_slices:  # nothing changes along a quaternion
        assert np.abs(found[0][:, where] @ q[where]).max() <= 1e-11 * np.abs(found[0]).max()
