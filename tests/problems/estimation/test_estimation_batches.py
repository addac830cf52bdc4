"""Batches are their states; an answer depends on nothing that was solved before."""

from __future__ import annotations

import numpy as np
import pytest

from dynsys.errors import KernelBuildError, LayoutError, StateError
from dynsys.model import synthetic
from problems import Estimation
from problems.estimation.estimate import Estimate
from problems.estimation.posterior import AbstractPosterior
from tests.problems.estimation.estimation_cases import FEET, moving, noisy, readings, standing
from tests.problems.estimation.estimation_layouts import (
    BACKENDS,
    forward_dynamics,
    generous,
    on_force_sensors,
)


def test_a_batch_is_its_states(humanoid) -> None:
    problem = Estimation(humanoid, generous(humanoid), backend="superlu")
    states = [moving(problem, *standing(humanoid, k, FEET)) for k in range(3)]
    y = np.array([noisy(problem, readings(problem, s), k) for k, s in enumerate(states)])
    on = np.array([True, False, True])
    q, qd = np.array([s.q for s in states]), np.array([s.qd for s in states])
    e = problem.solve_batch(
        q, qd, problem.layout.unpack(y), uncertainty=["torque"], active={"l_plate": on}
    )
    assert e.torque["l_knee"].shape == (3,) and e.external_wrench["l_sole"].shape == (3, 6)
    for k, state in enumerate(states):
        one = problem.solve(state.q, state.qd, y[k], active={"l_plate": bool(on[k])})
        np.testing.assert_array_equal(e.torque.array[k], one.torque.array)
        np.testing.assert_allclose(e.std.torque.array[k], one.std.torque.array, rtol=1e-12)
        np.testing.assert_allclose(e.std.qdd["l_knee"][k], one.std.qdd["l_knee"], rtol=1e-9)
        assert e.chi_square[k] == one.chi_square and e.p_value[k] == one.p_value
        for name, residual in e.residual.items():
            np.testing.assert_allclose(residual[k], one.residual[name], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layout", [generous, on_force_sensors])
def test_answers_do_not_depend_on_what_was_solved_before(humanoid, layout, backend) -> None:
    problem = Estimation(humanoid, layout(humanoid), backend=backend)
    states = [moving(problem, *standing(humanoid, k, FEET)) for k in range(3)]
    alone = Estimation(humanoid, layout(humanoid), backend=backend)
    last = states[-1]
    found = [problem.solve(s.q, s.qd, readings(problem, s)) for s in states][-1]
    again = alone.solve(last.q, last.qd, readings(alone, last))
    for kind in ("torque", "external_wrench"):
        np.testing.assert_array_equal(found.std[kind].array, again.std[kind].array)
        np.testing.assert_array_equal(getattr(found, kind).array, getattr(again, kind).array)


def test_an_estimate_stays_right_after_others_are_made(humanoid) -> None:
    problem = Estimation(humanoid, generous(humanoid), backend="superlu")
    states = [moving(problem, *standing(humanoid, k, FEET)) for k in range(2)]
    first = problem.solve(states[0].q, states[0].qd, readings(problem, states[0]))
    problem.solve(states[1].q, states[1].qd, readings(problem, states[1]))
    again = problem.solve(states[0].q, states[0].qd, readings(problem, states[0]))
    np.testing.assert_allclose(first.std.torque.array, again.std.torque.array, rtol=1e-10)


def test_quantities_from_elsewhere_leave_the_rest_to_the_posterior(humanoid) -> None:
    problem = Estimation(humanoid, generous(humanoid), backend="superlu")
    state = moving(problem, *standing(humanoid, 0, FEET))
    rows = problem.measured.pack(readings(problem, state), None, None)
    solved: list[int] = []

    def posterior_of(k: int) -> AbstractPosterior:
        solved.append(k)
        return problem.posterior(state.q, state.qd, rows)

    e = Estimate(problem, posterior_of, None, "kernel").keep({"torque": np.arange(35.0)})
    assert e.torque["root"].tolist() == [0, 1, 2, 3, 4, 5] and not solved
    assert e.degrees_of_freedom > 0 and e.p_value == pytest.approx(1)
    np.testing.assert_allclose(e.qdd.array, state.d[problem.system.unknowns.columns("qdd")])
    assert solved == [0]


def test_arguments_of_a_small_batch_are_checked_like_those_of_a_large_one() -> None:
    robot = synthetic.chain(3)
    problem = Estimation(robot, forward_dynamics(robot))
    state = np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((2, problem.layout.size))
    with pytest.raises(LayoutError, match=r"outputs: no quantity 'torqe'.*did you mean"):
        problem.solve_batch(*state, outputs=["torqe"])
    with pytest.raises(StateError, match="threads must be a whole number >= 1, got 0"):
        problem.solve_batch(*state, threads=0)
    assert problem.solve_batch(*state, outputs="torque").torque.array.shape == (2, 3)


def test_a_single_name_stands_for_a_list_of_one() -> None:
    robot = synthetic.chain(3)
    problem = Estimation(robot, forward_dynamics(robot))
    one, many = (problem.compile(outputs=x) for x in ("qdd", ["qdd"]))
    assert one.signature == many.signature
    with pytest.raises(KernelBuildError, match="no kernels of dtype 'float16'"):
        problem.compile(dtype="float16")
