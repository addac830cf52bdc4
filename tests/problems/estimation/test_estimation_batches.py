"""Batches are their states; an answer depends on nothing that was solved before."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import sensors
from dynsys import KernelBuildError, LayoutError, StateError, synthetic
from problems import ContradictionError, Estimate, Estimation
from problems.estimation.posterior import AbstractPosterior
from tests.backends import COMPILED
from tests.problems.estimation.estimation_cases import (
    BACKENDS,
    FEET,
    forward_dynamics,
    generous,
    moving,
    noisy,
    on_force_sensors,
    readings,
    standing,
)
from tests.problems.estimation.test_compiled_estimation import over_determined, readings_of


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


# ---- batches through a kernel that is there already ------------------------------------------


def fast_and_careful() -> tuple[Estimation, Estimation]:
    """A problem whose kernel of torques is there, and one whose is not."""
    fast, careful = over_determined()[0], over_determined()[0]
    fast.solve_batch(*readings_of(fast, 2), outputs="torque")
    return fast, careful


@pytest.mark.parametrize("n", [40, 6000])  # kept as bytes, and in memory that is used again
def test_batches_by_rows_are_about_the_numbers_of_then(n: int) -> None:
    fast, careful = fast_and_careful()
    q, qd, y = readings_of(fast, n)
    expected = careful.solve_batch(q, qd, y, outputs="torque")
    kept = q.copy(), qd.copy(), y.copy()
    found = fast.solve_batch(q, qd, y, outputs="torque")
    assert found.method == COMPILED
    torque = found.torque.array.copy()
    for array in (q, qd, y):
        array[:] = 7.0
    for _ in range(3):  # other batches must not write where this one's states are
        fast.solve_batch(q, qd, y, outputs="torque")
    np.testing.assert_array_equal(found.torque.array, torque)
    travelled = pickle.loads(pickle.dumps(found))
    for e in (found, travelled):
        np.testing.assert_array_equal(e.torque.array, expected.torque.array)
        np.testing.assert_array_equal(e.std.qdd.array, expected.std.qdd.array)
        np.testing.assert_array_equal(e.chi_square, expected.chi_square)
        residual = expected.residual
        for name, value in e.residual.items():
            np.testing.assert_array_equal(value, residual[name])
        one = e.problem.solve(*(x[-1] for x in kept), uncertainty="acceleration")
        np.testing.assert_allclose(
            e.std.acceleration.array[-1], one.std.acceleration.array, rtol=1e-9
        )


def answer(problem: Estimation, state: list[np.ndarray]) -> object:
    """Torques of a batch to eight digits, or the words in which it is refused."""
    try:
        found = problem.solve_batch(*state, outputs="torque").torque.array
    except StateError as error:
        return str(error)
    return found.round(8).tolist()


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_number_that_is_not_there_is_seen_wherever_it_is(which: int) -> None:
    """Nothing scans the arrays of a batch for NaN: kernels do not answer such states."""
    fast, careful = fast_and_careful()
    state = readings_of(fast, 4)
    for column in range(state[which].shape[1]):
        for value in (np.nan, np.inf):
            broken = [x.copy() for x in state]
            broken[which][2, column] = value
            assert answer(fast, broken) == answer(careful, broken), (which, column)


def test_what_is_no_plain_array_takes_the_careful_way() -> None:
    fast, careful = fast_and_careful()
    q, qd, y = readings_of(fast, 10)
    masked = np.ma.array(y, mask=np.zeros(y.shape, dtype=bool))
    masked[3, 1] = np.ma.masked
    missing = y.copy()
    missing[3, 1] = np.nan
    expected = careful.solve_batch(q, qd, missing, outputs="torque")
    assert expected.method[3] != COMPILED
    for readings_given in (missing, masked):
        found = fast.solve_batch(q, qd, readings_given, outputs="torque")
        np.testing.assert_array_equal(found.torque.array, expected.torque.array)
        assert found.method == expected.method
    off = {fast.layout.names[0]: False}
    switched = fast.solve_batch(q, qd, y, outputs="torque", active=off)
    assert COMPILED not in switched.method
    with pytest.raises(LayoutError, match="y must have shape"):
        fast.solve_batch(q, qd, y[:, :-1], outputs="torque")
    with pytest.raises(StateError, match="is infinite"):
        fast.solve_batch(q, qd, np.full_like(y, np.inf), outputs="torque")
    with pytest.raises(StateError, match="threads"):
        fast.solve_batch(q, qd, y, outputs="torque", threads=1.0)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.finding("X-3")
def test_positions_that_no_answer_depends_on_are_named_in_batches_too(humanoid) -> None:
    problem = Estimation(humanoid, generous(humanoid), backend=COMPILED)
    q = np.array([humanoid.random_configuration(k) for k in range(10)])
    known = problem.layout.constants
    y = np.tile(np.where(np.isnan(known), 0.0, known), (10, 1))
    for _ in range(2):
        problem.solve_batch(q, np.zeros((10, humanoid.nv)), y, outputs="torque")
    q[2, 0] = np.nan  # where the base is
    with pytest.raises(StateError, match=r"state 2: q\[0\] .* is nan"):
        problem.solve_batch(q, np.zeros((10, humanoid.nv)), y, outputs="torque")


def test_exact_readings_that_contradict_each_other_are_named_in_batches_by_rows() -> None:
    robot = synthetic.chain(3)
    again = sensors.ExternalWrench("again", robot.body_names[-1], components=("fx",), value=0.0)
    untouched = sensors.zero_external_wrench_except(robot)
    known = sensors.all_joint_torques(robot, std=0.1)
    problem = Estimation(
        robot, sensors.Layout(robot, [*known, *untouched, again]), backend=COMPILED
    )
    q, qd, y = readings_of(problem, 5)
    for _ in range(2):
        assert problem.solve_batch(q, qd, y, outputs="torque").method == COMPILED
    y[2, -1] = 3.0
    with pytest.raises(ContradictionError, match="state 2"):
        problem.solve_batch(q, qd, y, outputs="torque")
