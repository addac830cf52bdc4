"""Products with derivatives of dynamics: against matrices, differences; batches, C, errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from dynsys import KinematicTree, ModelError, SingularSystemError, StateError, synthetic
from dynsys.plan.record import DynamicsSpec, dynamics_program
from dynsys.types import Array
from problems import ForwardDynamics, InverseDynamics
from tests import strategies
from tests.kernel.exported_c import call, compile_and_check, needs_compiler
from tests.problems.test_derivatives import (
    STEP,
    close,
    kinds_of_knowledge,
    state_of,
    three_problems,
)


def moved(robot: KinematicTree, state: Array, direction: Array, step: float) -> Array:
    """Inputs after a step along a direction of all variables."""
    nq, nv = robot.nq, robot.nv
    q = robot.integrate(state[:nq], direction[:nv], step)
    return np.concatenate([q, state[nq:] + step * direction[nv:]])


@settings(max_examples=10, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(robot=strategies.trees(4, coupled=True), seed=strategies.seeds)
def test_every_joint_type_against_matrices_and_differences(
    robot: KinematicTree, seed: int
) -> None:
    """J v and J^T w from the matrices, second order from differences of J^T w."""
    robot = robot.with_friction(True)
    names = tuple(x for x in robot.parameters if x.endswith((".mass", ".mx", ".viscous")))[:4]
    for given_name, known in kinds_of_knowledge(robot, seed).items():

        def spec(
            *outputs: str, given_name: str = given_name, known: Array = known
        ) -> DynamicsSpec:
            return DynamicsSpec(robot, known, given_name, outputs, True, parameters=names)

        asked = spec("jvp", "vjp", "hvp")
        samples = asked.samples(1, seed % 1000)[0].astype(float)
        n, nv = sum(asked.variables.values()), robot.nv
        state, weight, direction = np.split(samples, [-n - nv, -n])
        found = dynamics_program(asked).evaluate(samples.astype(np.longdouble))
        jvp, vjp, hvp = np.split(found.astype(float), [nv, nv + n])
        answer = {"qdd": "torque", "torque": "qdd"}.get(given_name, "unknown")
        matrices = spec(*(f"d{answer}_d{name}" for name in asked.variables))
        parts = dynamics_program(matrices).evaluate(state.astype(np.longdouble)).astype(float)
        cuts = np.cumsum([nv * size for size in asked.variables.values()])[:-1]
        J = np.hstack([part.reshape(nv, -1) for part in np.split(parts, cuts)])
        close(jvp, J @ direction, 1e-9)
        close(vjp, weight @ J, 1e-9)
        gradient = dynamics_program(spec("vjp"))
        at = np.array(
            [
                np.concatenate([moved(robot, state, direction, k * STEP), weight])
                for k in (-2, -1, 1, 2)
            ]
        )
        f = gradient.evaluate(at.astype(np.longdouble))
        close(hvp, ((f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * STEP)).astype(float), 1e-7)


def test_hessians_are_symmetric_where_freedoms_commute() -> None:
    robot = synthetic.chain(3)
    q, qd, third, _ = state_of(robot, 4)
    for problem in three_problems(robot):
        weight = np.array([1.0, -2.0, 0.5])
        rows = [problem.hvp(q, qd, third, weight, unit).all for unit in np.eye(9)]
        close(np.array(rows), np.array(rows).T, 1e-11)
        assert np.abs(rows).max() > 1


def test_calls_of_every_kind() -> None:
    """Vectors, mappings and gradients as directions; batches; wrenches and parameters."""
    robot = synthetic.random_tree(3, 2).with_friction(True)
    nv, rng = robot.nv, np.random.default_rng(6)
    q, qd, third, wrenches = state_of(robot, 1)
    weight, direction = rng.normal(size=nv), rng.normal(size=3 * nv)
    name = next(x for x in robot.parameters if x.endswith(".mass"))
    for problem in three_problems(robot):
        J = problem.derivatives(q, qd, third)
        wide = np.hstack([J.q, J.qd, getattr(J, problem.given)])
        by_name = dict(zip(("q", "qd", problem.given), direction.reshape(3, nv), strict=True))
        out = np.full(nv, np.nan)
        assert problem.jvp(q, qd, third, direction, out=out) is out
        close(out, wide @ direction, 1e-10)
        np.testing.assert_array_equal(problem.jvp(q, qd, third, by_name), out)
        np.testing.assert_array_equal(
            problem.jvp(q.tolist(), qd, third, direction.tolist()), out
        )
        gradient = problem.vjp(q, qd, third, weight)
        close(gradient.all, weight @ wide, 1e-10)
        np.testing.assert_array_equal(getattr(gradient, problem.given), gradient.all[2 * nv :])
        close(problem.jvp(q, qd, third, gradient), wide @ (weight @ wide), 1e-10)
        with pytest.raises(AttributeError, match=f"by q, qd, {problem.given}; not f_ext"):
            _ = gradient.f_ext
        second = problem.hvp(q, qd, third, weight, {"qd": by_name["qd"]})

        rows = [np.array([x, x + 0.0]) for x in (q, qd, third)]
        close(problem.jvp_batch(*rows, direction)[1], out, 1e-12)
        close(problem.vjp_batch(*rows, [weight] * 2).qd[1], gradient.qd, 1e-12)
        many = problem.hvp_batch(*rows, [weight] * 2, {"qd": [by_name["qd"]] * 2}, threads=2)
        close(many.q[1], second.q, 1e-12)

        all_of_them = problem.vjp(q, qd, third, weight, wrenches, parameters=[name])
        assert all_of_them.f_ext.shape == (robot.n_bodies, 6)
        assert all_of_them.parameters.shape == (1,)
        along = {"f_ext": wrenches, "parameters": [1.0]}
        change = problem.jvp(q, qd, third, along, wrenches, parameters=[name])
        slope = (all_of_them.f_ext * wrenches).sum() + all_of_them.parameters[0]
        close(weight @ change, slope, 1e-10)
        heavier = {name: 1.5 * robot.parameters[name]}
        other = type(problem).__reduce__(problem)[1]
        twin = type(problem)(robot.with_parameters(heavier, physical=False), *other[1:])
        close(
            problem.jvp(q, qd, third, {"q": weight}, parameters=heavier),
            twin.jvp(q, qd, third, {"q": weight}),
            1e-10,
        )
        listed = problem.vjp_batch(*rows, [weight] * 2, [wrenches] * 2, parameters=[name])
        close(listed.f_ext[1], all_of_them.f_ext, 1e-12)


def test_large_robots_have_products_too() -> None:
    """Derivatives of robots that are solved by loops come as products all the same."""
    robot = synthetic.chain(12)
    q, qd, third, _ = state_of(robot, 1)
    weight = np.ones(12)
    for kind in (InverseDynamics, ForwardDynamics):
        fast, slow = kind(robot), kind(robot, backend="loops")
        close(slow.vjp(q, qd, third, weight).all, fast.vjp(q, qd, third, weight).all, 1e-12)


def test_bad_input_is_named() -> None:
    robot = synthetic.random_tree(3, 1)
    q, qd, third, _ = state_of(robot, 1)
    nv, problem = robot.nv, InverseDynamics(robot)
    with pytest.raises(StateError, match="weight"):
        problem.vjp(q, qd, third, np.ones(nv + 1))
    with pytest.raises(StateError, match=r"direction of q, qd, qdd must have shape"):
        problem.jvp(q, qd, third, np.ones(nv))
    with pytest.raises(StateError, match="variables are q, qd, qdd; not 'torque'"):
        problem.jvp(q, qd, third, {"torque": np.ones(nv)})
    with pytest.raises(StateError, match="direction of qd has a value that is not finite"):
        problem.jvp(q, qd, third, {"qd": np.full(nv, np.inf)})
    with pytest.raises(StateError, match="direction of q is not numeric"):
        problem.hvp(q, qd, third, np.ones(nv), {"q": "fast"})
    with pytest.raises(StateError, match="out"):
        problem.vjp(q, qd, third, np.ones(nv), out=np.zeros(2))
    with pytest.raises(StateError, match="state 1: weight"):
        problem.vjp_batch([q, q], [qd, qd], [third, third], [qd, np.full(nv, np.nan)])
    with pytest.raises(ModelError, match="nothing"):
        problem.vjp(q, qd, third, np.ones(nv), parameters=["nothing"])
    with pytest.raises(ModelError, match="list of names"):
        problem.vjp(q, qd, third, np.ones(nv), parameters="mass")
    with pytest.raises(SingularSystemError, match="too large for numbers"):
        problem.vjp(q, 1e300 * np.ones(nv), third, np.ones(nv))


@needs_compiler
def test_exported_c_has_them(tmp_path: Path) -> None:
    robot = synthetic.random_tree(3, 4)
    problem, outputs = ForwardDynamics(robot), ("qdd", "jvp", "vjp", "hvp")
    problem.export_c(tmp_path, outputs=outputs, wrenches=True)
    compile_and_check(tmp_path, "forwarddynamics")
    spec = DynamicsSpec(robot, problem.known, problem.given, outputs, True)
    x = spec.samples(1, 3).astype(float)
    (found,) = call(tmp_path, "forwarddynamics", spec.signature, x)
    expected = dynamics_program(spec).evaluate(x.astype(np.longdouble))[0].astype(float)
    close(found, expected, 1e-10)
    header = (tmp_path / "forwarddynamics.h").read_text()
    assert f"qd of {robot.joint_names[0]}" in header and "weight" in header
