"""Problems as functions of plain vectors: derivatives by q itself, products, second order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings

import dynsys
import sensors
from dynsys import (
    DynsysError,
    KernelBuildError,
    KinematicTree,
    ModelError,
    StateError,
    synthetic,
)
from dynsys.interop.functions import PlainFunction, imported, lower_triangle
from dynsys.plan.record import DynamicsSpec, watched_dynamics
from dynsys.program.graph import Graph
from dynsys.program.guards import guarded
from dynsys.types import Array
from problems import Estimation, ForwardDynamics, InverseDynamics
from tests import strategies
from tests.interop.cases import (
    check_derivatives,
    estimation,
    expected,
    expected_estimate,
    states,
    three_problems,
    tree,
)

STEP = 2.0**-8


def split(f: PlainFunction, J: Array) -> list[Array]:
    ends = np.cumsum(list(f.inputs.values()))[:-1]
    return np.split(J.reshape(f.size, -1), ends, axis=1)


def differences(f: PlainFunction, x: Array) -> Array:
    """J (nv, inputs) of the value program: fourth order, extended precision."""
    program, _ = f._recorded(())
    columns = []
    for unit in np.eye(len(x)):
        at = [x + step * STEP * unit for step in (-2, -1, 1, 2)]
        a, b, c, d = program.evaluate(np.array(at, dtype=np.longdouble))[:, : f.size]
        columns.append((a - 8 * b + 8 * c - d) / (12 * STEP))
    return np.array(columns, dtype=float).T


@settings(max_examples=6, phases=[Phase.explicit, Phase.generate])
@given(robot=strategies.trees(4, coupled=True), seed=strategies.seeds)
def test_every_joint_type_against_differences(robot: KinematicTree, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for problem in three_problems(robot)[:2]:
        f = PlainFunction(problem)
        q, qd, third = (x[0] for x in states(robot, 1, seed))
        for where in robot.quaternion_slices:
            q[where] *= rng.uniform(0.5, 2.0)
        x = np.concatenate([q, qd, third])
        program, _ = f._recorded(tuple(f.inputs))
        J = program.evaluate(x)[f.size : f.size * (1 + len(x))].reshape(f.size, -1)
        D = differences(f, x)
        assert np.abs(J - D).max() <= 1e-7 * (1 + np.abs(D).max())


@pytest.mark.parametrize("kind", range(3))
def test_kernels_are_what_problems_say(kind: int) -> None:
    problem = three_problems(tree())[kind]
    f, want = PlainFunction(problem), expected(problem)
    (answer,), _ = f.value.one(*want.inputs)
    assert np.abs(answer - want.answer).max() <= 1e-12 * np.abs(want.answer).max()
    (again, J), _ = f.jacobian(tuple(f.inputs)).one(*want.inputs)
    assert np.abs(again - want.answer).max() <= 1e-12 * np.abs(want.answer).max()
    check_derivatives(problem, split(f, J), want)
    # some of the inputs only
    (_, some), _ = f.jacobian(("qd",)).one(*want.inputs)
    assert np.allclose(some.reshape(f.size, -1), want.by[1], rtol=0, atol=1e-11)
    # J^T w, and H against differences of it
    w = np.random.default_rng(1).normal(size=f.size)
    gradient, _ = f.gradient.one(*want.inputs, w)
    assert np.allclose(np.concatenate(gradient), J.reshape(f.size, -1).T @ w, rtol=1e-11)
    x = np.concatenate(want.inputs)
    ends = np.cumsum(list(f.inputs.values()))[:-1]

    def at(x: Array) -> Array:
        return np.concatenate(f.gradient.one(*np.split(x, ends), w)[0])

    units = np.eye(len(x))
    slopes = np.array([(at(x + 1e-5 * u) - at(x - 1e-5 * u)) / 2e-5 for u in units])
    (lower,), _ = f.hessian.one(*want.inputs, w)
    assert np.abs(lower[lower_triangle(len(x))] - slopes).max() <= 1e-6 * np.abs(slopes).max()


def test_zeros_of_a_tree_are_known() -> None:
    f = PlainFunction(InverseDynamics(synthetic.centipede(2)))
    nonzero = f.jacobian(("qdd",)).nonzero
    assert nonzero is not None
    H = dynsys.crba(f.robot, f.robot.random_configuration(0))
    pattern = nonzero[f.size :].reshape(f.size, f.size)
    assert pattern[H != 0].all()
    assert pattern.sum() < 0.6 * pattern.size


def test_guards_reach_every_output() -> None:
    """A pivot that almost vanishes: no number of a derivative may look like an answer."""
    graph = Graph()
    x = graph.inputs(1)
    program = graph.program([x[0] + 1, x[0] * 2, 1 / x[0]])
    with np.errstate(invalid="ignore"):
        watched = guarded(program, (), "float64", [10.0], every=True)
        found = watched.evaluate(np.array([[1.0], [1e-3]]))
    assert np.array_equal(found[0], [2.0, 2.0])
    assert np.isnan(found[1]).all()


def test_watched_pivots_are_few() -> None:
    robot = tree()
    known = np.zeros(robot.nv, dtype=bool)
    program, limits = watched_dynamics(DynamicsSpec(robot, known, "torque", ("qdd",)))
    assert len(program.outputs) == robot.nv + len(limits)


@pytest.mark.parametrize("quantity", ["torque", "qdd"])
def test_estimators_are_what_the_estimation_says(quantity: str) -> None:
    est = estimation()
    f, want = PlainFunction(est, answer=quantity), expected_estimate(est, quantity)
    (answer,), _ = f.value.one(*want.inputs)
    assert np.abs(answer - want.answer).max() <= 1e-11 * (1 + np.abs(want.answer).max())
    (_, J), finite = f.jacobian(tuple(f.inputs)).one(*want.inputs)
    assert finite
    check_derivatives(est, split(f, J), want)
    w = np.random.default_rng(1).normal(size=f.size)
    gradient, _ = f.gradient.one(*want.inputs, w)
    assert np.allclose(np.concatenate(gradient), J.reshape(f.size, -1).T @ w, atol=1e-11)
    longer = [want.inputs[0].copy(), *want.inputs[1:]]
    for where in est.robot.quaternion_slices:
        longer[0][where] *= 1.7
    assert np.allclose(f.value.one(*longer)[0][0], want.answer, atol=1e-11)
    q, qd, y = want.inputs
    y[0] = np.nan
    assert not f.value.one(q, qd, y)[1] and not f.gradient.one(q, qd, y, w)[1]


def test_estimators_of_parameters() -> None:
    est = estimation()
    robot, name = est.robot, f"{est.robot.body_names[-1]}.mass"
    f, want = PlainFunction(est, parameters=[name]), expected_estimate(est)
    (_, J), _ = f.jacobian(("parameters",)).one(*want.inputs, [robot.parameters[name]])
    exact = est.derivatives(*want.inputs, parameters=[name]).torque.parameters
    assert np.abs(J - exact.ravel()).max() <= 1e-10 * (1 + np.abs(exact).max())


def test_what_is_refused() -> None:
    robot = synthetic.chain(2)
    problem = InverseDynamics(robot)
    with pytest.raises(KernelBuildError, match="problem of dynamics"):
        PlainFunction(robot)  # type: ignore[arg-type]
    layout = sensors.Layout(robot, sensors.all_joint_accelerations(robot, std=0.1))
    with pytest.raises(KernelBuildError, match="not determined: torque"):
        PlainFunction(Estimation(robot, layout))
    with pytest.raises(KernelBuildError, match="leave out wrenches"):
        PlainFunction(estimation(), wrenches=True)
    with pytest.raises(KernelBuildError, match="answers 'torque', not 'qdd'"):
        PlainFunction(problem, answer="qdd")
    tip = sensors.RigidContact("tip", "link_2")
    with pytest.raises(KernelBuildError, match="held by constraints"):
        PlainFunction(ForwardDynamics(robot, constraints=[tip]))
    with pytest.raises(KernelBuildError, match="float16"):
        PlainFunction(problem, dtype="float16")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="link_9"):
        PlainFunction(problem, parameters=["link_9.mass"])
    f = PlainFunction(problem)
    with pytest.raises(StateError, match="3 arguments, got 1"):
        f.check_count([1])
    with pytest.raises(StateError, match="qd: expected shape"):
        f.common_shape([(2,), (3,), (2,)], ["float64"] * 3)
    with pytest.raises(StateError, match="do not fit"):
        f.common_shape([(2, 2), (3, 2), (2,)], ["float64"] * 3)
    with pytest.raises(StateError, match="real numbers"):
        f.common_shape([(2,)] * 3, ["complex128"] * 3)
    with pytest.raises(StateError, match="convert"):
        PlainFunction(problem, dtype="float32").common_shape([(2,)] * 3, ["float64"] * 3)
    with pytest.raises(DynsysError, match="no_such_tool is not installed: pip install"):
        imported("no_such_tool")
