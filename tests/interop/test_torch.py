"""PyTorch: autograd both ways, batches, torch.func, refusals; where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dynsys import StateError, synthetic
from dynsys.interop import torch_function
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

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test TORCH=1")
jacrev = torch.func.jacrev


@pytest.mark.parametrize("kind", range(3))
def test_answers_and_derivatives_are_the_problems(kind: int) -> None:
    problem = three_problems(tree())[kind]
    f, want = torch_function(problem), expected(problem)
    inputs = [torch.tensor(x, requires_grad=True) for x in want.inputs]
    answer = f(*inputs)
    assert (
        np.abs(answer.detach().numpy() - want.answer).max() <= 1e-12 * np.abs(want.answer).max()
    )
    found = torch.autograd.functional.jacobian(f, tuple(inputs))
    check_derivatives(problem, [J.numpy() for J in found], want)
    for way in (torch.func.jacfwd, torch.func.jacrev):
        found = way(f, argnums=(0, 1, 2))(*(x.detach() for x in inputs))
        check_derivatives(problem, [J.numpy() for J in found], want)


def test_estimators_too() -> None:
    est = estimation()
    f, want = torch_function(est), expected_estimate(est)
    inputs = [torch.tensor(x) for x in want.inputs]
    assert np.abs(f(*inputs).numpy() - want.answer).max() <= 1e-11 * np.abs(want.answer).max()
    found = jacrev(f, argnums=(0, 1, 2))(*inputs)
    check_derivatives(est, [J.numpy() for J in found], want)


def test_gradcheck() -> None:
    problem = ForwardDynamics(tree())
    f = torch_function(problem)
    inputs = [torch.tensor(x, requires_grad=True) for x in states(problem.robot, 3)]
    assert torch.autograd.gradcheck(f, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, [x[:2].detach().requires_grad_() for x in inputs])
    one = [inputs[0], inputs[1][0].detach().requires_grad_(), inputs[2]]
    assert torch.autograd.gradcheck(f, one)  # leading axes broadcast


def test_second_derivatives_of_torch_func() -> None:
    problem = InverseDynamics(tree())
    f = torch_function(problem)
    state = tuple(torch.tensor(x[0]) for x in states(problem.robot, 1))

    def scalar(*x: Any) -> Any:
        return f(*x).square().sum()

    both = [
        way(scalar, argnums=(0, 1))(*state)
        for way in (torch.func.hessian, lambda g, argnums: jacrev(jacrev(g, argnums), argnums))
    ]
    (forward, reverse), jacobian = both, torch.autograd.functional.hessian(scalar, state)
    for i in range(2):
        for j in range(2):
            assert torch.allclose(forward[i][j], jacobian[i][j], rtol=1e-10)
            assert torch.allclose(reverse[i][j], jacobian[i][j], rtol=1e-10)
    with pytest.raises(StateError, match="third derivatives"):
        jacrev(jacrev(jacrev(scalar, 1), 1), 1)(*state)


def test_vmap_is_a_batch() -> None:
    problem = InverseDynamics(tree())
    f = torch_function(problem)
    q, qd, qdd = (torch.tensor(x) for x in states(problem.robot, 70))
    want = problem.solve_batch(q.numpy(), qd.numpy(), qdd.numpy()).torque
    for found in (f(q, qd, qdd), torch.func.vmap(f)(q, qd, qdd)):
        assert np.abs(found.numpy() - want).max() <= 1e-11 * np.abs(want).max()
    rows = torch.func.vmap(f, in_dims=(0, None, None))(q, qd[0], qdd[0])
    assert torch.equal(rows, f(q, qd[0], qdd[0]))
    each = torch.func.vmap(torch.func.jacrev(f, argnums=1))(q, qd, qdd)
    exact = problem.derivatives_batch(q.numpy(), qd.numpy(), qdd.numpy()).qd
    assert np.abs(each.numpy() - exact).max() <= 1e-11 * np.abs(exact).max()
    assert f(q[:0], qd[:0], qdd[:0]).shape == (0, problem.robot.nv)


def test_only_what_needs_a_gradient_gets_one() -> None:
    robot = synthetic.chain(3)
    f = torch_function(InverseDynamics(robot), parameters=PARAMETERS)
    state = [torch.tensor(x) for x in states(robot, 20)]
    start = np.array([robot.parameters[name] for name in PARAMETERS])
    values = torch.tensor(start, requires_grad=True)
    f(*state, values).square().sum().backward()
    assert values.grad.shape == (3,)
    assert all(x.grad is None for x in state)
    assert torch.autograd.gradcheck(lambda p: f(*state, p), (values,))


def test_wrong_arguments_are_named() -> None:
    f = torch_function(InverseDynamics(synthetic.chain(2)))
    x = torch.ones(2)
    assert f(x, x, x).dtype == torch.float64  # float32 is taken as float64
    with pytest.raises(StateError, match="3 arguments"):
        f(x, x)
    with pytest.raises(StateError, match="qd: expected shape"):
        f(x, torch.ones(3), x)
    with pytest.raises(StateError, match="real numbers"):
        f(x, x, x.to(torch.complex128))
    with pytest.raises(StateError, match="on meta"):
        f(x, x, x.to("meta"))
    small = torch_function(InverseDynamics(synthetic.chain(2)), dtype="float32")
    assert small(x, x, x).dtype == torch.float32
    with pytest.raises(StateError, match="convert"):
        small(x, x, x.double())
