"""JAX: jit, vmap onto batches, derivatives forward and reverse, parameters, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dynsys import StateError, synthetic
from dynsys.interop import jax_function
from problems import ForwardDynamics, InverseDynamics
from tests.interop.cases import (
    PARAMETERS,
    check_derivatives,
    estimation,
    expected,
    expected_estimate,
    states,
    three_problems,
    tree,
)

jax = pytest.importorskip("jax", reason="needs the extra 'jax'")


@pytest.fixture(autouse=True)
def in_float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("kind", range(3))
def test_answers_and_derivatives_are_the_problems(kind: int) -> None:
    problem = three_problems(tree())[kind]
    f, want = jax_function(problem), expected(problem)
    assert np.abs(f(*want.inputs) - want.answer).max() <= 1e-12 * np.abs(want.answer).max()
    for way in (jax.jacfwd, jax.jacrev):
        found = [np.asarray(J) for J in way(f, argnums=(0, 1, 2))(*want.inputs)]
        check_derivatives(problem, found, want)


def test_estimators_too() -> None:
    est = estimation()
    f, want = jax_function(est), expected_estimate(est)
    assert np.abs(f(*want.inputs) - want.answer).max() <= 1e-11 * np.abs(want.answer).max()
    found = [np.asarray(J) for J in jax.jacrev(f, argnums=(0, 1, 2))(*want.inputs)]
    check_derivatives(est, found, want)
    many = jax.vmap(f, in_axes=(None, None, 0))(
        *want.inputs[:2], np.tile(want.inputs[2], (3, 1))
    )
    assert np.abs(many - want.answer).max() <= 1e-11 * np.abs(want.answer).max()


def test_a_quaternion_of_any_length_is_taken_as_normalised() -> None:
    problem = InverseDynamics(tree())
    f, want = jax_function(problem), expected(problem)
    q, *rest = want.inputs
    for where in problem.robot.quaternion_slices:
        q[where] *= 1.7
    assert np.abs(f(q, *rest) - want.answer).max() <= 1e-12 * np.abs(want.answer).max()
    assert np.isnan(f(0 * q, *rest)).any()


def test_vmap_and_leading_axes_are_batches() -> None:
    problem = ForwardDynamics(tree())
    f = jax_function(problem)
    q, qd, torque = states(problem.robot, 70)
    want = problem.solve_batch(q, qd, torque).qdd
    J = problem.derivatives_batch(q, qd, torque)
    size = np.abs(want).max()
    for found in (f(q, qd, torque), jax.jit(jax.vmap(f))(q, qd, torque)):
        assert np.abs(found - want).max() <= 1e-11 * size
    # what is not mapped, or has fewer axes, is the same for all
    rows = jax.vmap(f, in_axes=(0, None, None))(q, qd[0], torque[0])
    assert np.abs(rows - f(q, qd[0], torque[0])).max() <= 1e-11 * np.abs(rows).max()
    stacked = jax.vmap(jax.vmap(f))(*(x.reshape(7, 10, -1) for x in (q, qd, torque)))
    assert np.abs(stacked.reshape(70, -1) - want).max() <= 1e-11 * size
    assert f(q[:0], qd[:0], torque[:0]).shape == (0, problem.robot.nv)

    def loss(qd: Any, q: Any, torque: Any) -> Any:
        return (f(q, qd, torque) ** 2).sum()

    gradient = jax.jit(jax.grad(loss))(qd, q, torque)
    exact = 2 * np.einsum("nij,ni->nj", J.qd, want)
    assert np.abs(gradient - exact).max() <= 1e-9 * np.abs(exact).max()


def test_parameters_and_wrenches_are_variables() -> None:
    robot = synthetic.chain(3)
    problem = InverseDynamics(robot)
    f = jax_function(problem, wrenches=True, parameters=PARAMETERS)
    values = np.array([robot.parameters[name] for name in PARAMETERS]) + 0.3
    q, qd, qdd = (x[0] for x in states(robot, 1))
    wrenches = np.random.default_rng(0).normal(size=18)
    outputs = ["torque", "dtorque_df_ext", "dtorque_dparameters"]
    kernel = problem.compile(outputs=outputs, wrenches=True, parameters=PARAMETERS)
    (torque, by_wrench, by_value), _ = kernel.one(q, qd, qdd, wrenches, values)
    assert np.allclose(f(q, qd, qdd, wrenches, values), torque, rtol=1e-12)
    found = jax.jacrev(f, argnums=(3, 4))(q, qd, qdd, wrenches, values)
    for got, exact in zip(found, (by_wrench, by_value), strict=True):
        assert np.allclose(np.ravel(got), exact, rtol=1e-10, atol=1e-12)


def test_second_derivatives() -> None:
    """Forward over reverse and reverse over reverse, of a scalar, against slopes."""
    problem = InverseDynamics(tree())
    f, want = jax_function(problem), expected(problem)
    sizes = np.cumsum([len(x) for x in want.inputs])[:-1]

    def scalar(x: Any) -> Any:
        y = f(*jax.numpy.split(x, sizes))
        return (y**2).sum() / 2 + y[0]

    x = jax.numpy.concatenate(want.inputs)
    gradient = jax.jit(jax.grad(scalar))
    slopes = np.array(
        [(gradient(x + 1e-5 * u) - gradient(x - 1e-5 * u)) / 2e-5 for u in np.eye(len(x))]
    )
    found = jax.jit(jax.hessian(scalar))(x)
    assert np.abs(found - slopes).max() <= 1e-6 * np.abs(slopes).max()
    again = jax.jacrev(jax.grad(scalar))(x)
    assert np.abs(found - again).max() <= 1e-10 * np.abs(slopes).max()
    rows = jax.vmap(jax.hessian(scalar))(jax.numpy.stack([x, x + 0.01]))
    assert np.abs(rows[0] - found).max() <= 1e-10 * np.abs(slopes).max()
    with pytest.raises(ValueError, match="cannot be differentiated"):
        jax.jacfwd(jax.hessian(scalar))(x)


def test_float32_is_used_knowingly() -> None:
    problem = InverseDynamics(synthetic.chain(3))
    want = expected(problem)
    plain, small = jax_function(problem), jax_function(problem, dtype="float32")
    with pytest.raises(StateError, match="convert"):
        small(*want.inputs)
    with jax.enable_x64(False):
        with pytest.raises(StateError, match="jax_enable_x64"):
            plain(*want.inputs)
        found = small(*(x.astype(np.float32) for x in want.inputs))
        assert found.dtype == np.float32
    assert np.abs(found - want.answer).max() <= 1e-4 * np.abs(want.answer).max()


def test_wrong_arguments_are_named() -> None:
    problem = InverseDynamics(synthetic.chain(2))
    f = jax_function(problem)
    with pytest.raises(StateError, match="3 arguments, got 2"):
        f(np.ones(2), np.ones(2))
    with pytest.raises(StateError, match="qdd: expected shape"):
        f(np.ones(2), np.ones(2), np.ones(3))
    assert np.isnan(f(np.ones(2), np.full(2, np.nan), np.ones(2))).any()


@pytest.mark.finding("U-10")
def test_masks_and_byte_orders_are_not_passed_over() -> None:
    """JAX itself takes what lies in memory."""
    robot = synthetic.chain(2)
    f, x = jax_function(InverseDynamics(robot)), np.array([0.3, -0.5])
    want = np.asarray(f(x, x, x))
    np.testing.assert_allclose(np.asarray(f(x, x.astype(">f8"), x)), want, rtol=1e-14)
    masked = np.ma.masked_array(x, [False, True])
    assert np.isnan(np.asarray(f(x, masked, x))).any()
