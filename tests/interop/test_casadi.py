"""CasADi: values, sparse Jacobian, gradient and Hessian, both ways of calling, IPOPT."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

from dynsys import KernelBuildError, synthetic
from dynsys.interop import casadi_function
from dynsys.interop.with_casadi import COMPILERS
from problems import AbstractDynamics, InverseDynamics
from tests.interop.cases import (
    PARAMETERS,
    check_derivatives,
    estimation,
    expected,
    expected_estimate,
    three_problems,
    tree,
)

casadi = pytest.importorskip("casadi", reason="needs the extra 'casadi'")
WAYS = ["callback", *(["library"] if any(map(shutil.which, COMPILERS)) else [])]


def variables(f: Any) -> list[Any]:
    return [casadi.MX.sym(f.name_in(k), f.size1_in(k)) for k in range(f.n_in())]


@pytest.mark.parametrize("through", WAYS)
@pytest.mark.parametrize("kind", range(3))
def test_answers_and_derivatives_are_the_problems(kind: int, through: Any) -> None:
    problem = three_problems(tree())[kind]
    f, want = casadi_function(problem, through=through), expected(problem)
    answer = f(*want.inputs).full().ravel()
    assert np.abs(answer - want.answer).max() <= 1e-12 * np.abs(want.answer).max()
    x = variables(f)
    y = f(*x)
    J = casadi.Function("J", x, [casadi.jacobian(y, each) for each in x])
    check_derivatives(problem, [block.full() for block in J(*want.inputs)], want)
    # along a direction, and against one
    t = [np.arange(1.0, 1 + each.numel()) for each in x]
    pushed = casadi.jtimes(y, casadi.vertcat(*x), np.concatenate(t))
    pulled = casadi.jtimes(y, casadi.vertcat(*x), np.arange(f.size1_out(0)), True)
    found = casadi.Function("p", x, [pushed, pulled])(*want.inputs)
    full = np.hstack([block.full() for block in J(*want.inputs)])
    assert np.allclose(found[0].full().ravel(), full @ np.concatenate(t), rtol=1e-9)
    assert np.allclose(found[1].full().ravel(), full.T @ np.arange(f.size1_out(0)), rtol=1e-9)


@pytest.mark.parametrize("through", WAYS)
def test_estimators_too(through: Any) -> None:
    est = estimation()
    f, want = casadi_function(est, hessian=False, through=through), expected_estimate(est)
    answer = f(*want.inputs).full().ravel()
    assert np.abs(answer - want.answer).max() <= 1e-11 * np.abs(want.answer).max()
    x = variables(f)
    J = casadi.Function("J", x, [casadi.jacobian(f(*x), each) for each in x])
    check_derivatives(est, [block.full() for block in J(*want.inputs)], want)


def curvature(problem: AbstractDynamics, through: Any) -> tuple[Any, Any, np.ndarray]:
    """Hessian and gradient of a nonlinear function of the answer, and a state."""
    f = casadi_function(problem, through=through)
    x = variables(f)
    y = f(*x)
    scalar = casadi.sumsqr(y) / 2 + casadi.dot(np.arange(f.size1_out(0)), y)
    H, gradient = casadi.hessian(scalar, casadi.vertcat(*x))
    point = np.concatenate(expected(problem).inputs)
    ends = np.cumsum([0, *(each.numel() for each in x)]).tolist()
    z = casadi.MX.sym("z", len(point))
    parts = casadi.vertsplit(z, ends)
    made = casadi.Function("made", x, [H, gradient])
    H, gradient = made(*parts)
    return casadi.Function("H", [z], [H]), casadi.Function("g", [z], [gradient]), point


@pytest.mark.parametrize("through", WAYS)
def test_hessian_is_the_slope_of_the_gradient(through: Any) -> None:
    for problem in three_problems(tree())[:2]:
        H, gradient, x = curvature(problem, through)
        units = np.eye(len(x))
        slopes = [
            (gradient(x + 1e-5 * u) - gradient(x - 1e-5 * u)).full().ravel() for u in units
        ]
        exact = np.array(slopes) / 2e-5
        assert np.abs(H(x).full() - exact).max() <= 1e-6 * np.abs(exact).max()


@pytest.mark.parametrize("through", WAYS)
def test_second_derivatives_can_be_left_out(through: Any) -> None:
    f = casadi_function(InverseDynamics(tree()), hessian=False, through=through)
    x = variables(f)
    scalar = casadi.sumsqr(f(*x))
    gradient = casadi.Function("g", x, [casadi.gradient(scalar, x[0])])
    assert np.isfinite(gradient(*expected(InverseDynamics(tree())).inputs).full()).all()
    with pytest.raises(RuntimeError):
        casadi.hessian(scalar, x[0])


@pytest.mark.parametrize("through", WAYS)
def test_sparsity_is_that_of_the_branches(through: Any) -> None:
    robot = tree()
    f = casadi_function(InverseDynamics(robot), through=through)
    J = f.jacobian()
    for k in range(3):
        assert J.sparsity_out(k).nnz() < 0.7 * J.numel_out(k)
        assert f.jac_sparsity(0, k).nnz() == J.sparsity_out(k).nnz()


def test_parameters_and_names() -> None:
    robot = synthetic.chain(3)
    f = casadi_function(InverseDynamics(robot), parameters=PARAMETERS, name="arm")
    assert f.name() == "arm"
    assert f.name_in() == ["q", "qd", "qdd", "parameters"]
    assert f.size1_in(3) == 3
    assert f.name_out() == ["torque"]
    # what is left out of a call by name is zero
    assert np.isfinite(f(q=[1, 2, 3], parameters=[1, 0, 0])["torque"].full()).all()


@pytest.mark.parametrize("through", WAYS)
def test_ipopt_finds_where_nothing_is_held(through: Any) -> None:
    """Rest of a chain under gravity: torque = 0 at qd = qdd = 0, by the exact Hessian."""
    robot = synthetic.chain(2)
    f = casadi_function(InverseDynamics(robot), through=through)
    q = casadi.MX.sym("q", 2)
    torque = f(q, 0, 0)
    options = {"ipopt.print_level": 0, "print_time": False, "ipopt.sb": "yes"}
    solver = casadi.nlpsol("s", "ipopt", {"x": q, "f": casadi.sumsqr(torque)}, options)
    found = solver(x0=[0.3, -0.2])
    assert solver.stats()["success"]
    assert float(found["f"]) < 1e-12
    held = InverseDynamics(robot).solve(found["x"].full().ravel(), [0, 0], [0, 0]).torque
    assert np.abs(held).max() < 1e-5


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = InverseDynamics(synthetic.chain(2))
    with pytest.raises(KernelBuildError, match="through"):
        casadi_function(problem, through="magic")  # type: ignore[arg-type]
    if "library" in WAYS:
        with pytest.raises(KernelBuildError, match="a name in C"):
            casadi_function(problem, name="2 arms", through="library")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(KernelBuildError, match="no C compiler"):
        casadi_function(problem, through="library")
    assert "Callback" in casadi_function(problem).class_name()
