"""``est.solve`` by machine code, from the first call on: what it says, computes and costs."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from timeit import repeat

import numpy as np
import pytest

import sensors
from dynsys import LayoutError, StateError, synthetic
from dynsys.kernel.taking import taking_kernel
from dynsys.types import Array
from problems import ContradictionError, Estimate, Estimation, Prior
from problems.estimation.compiled import HANDFUL
from problems.measured.measured_system import QUANTITIES
from problems.robots import read_robot
from sensors import AbstractSensor, Layout
from tests.backends import COMPILED, needs_loops
from tests.problems.estimation.estimation_cases import (
    FEET,
    generous,
    moving,
    readings,
    standing,
)

ROBOT = synthetic.chain(3)
TIP = ROBOT.body_names[-1]
JOINTS = [
    *sensors.all_joint_torques(ROBOT, std=0.1),
    *sensors.all_joint_accelerations(ROBOT, std=0.2),
]


def problem_of(
    *more: AbstractSensor, touched: tuple[str, ...] = (), **options: object
) -> Estimation:
    untouched = sensors.zero_external_wrench_except(ROBOT, touched)
    return Estimation(ROBOT, Layout(ROBOT, [*JOINTS, *untouched, *more]), **options)  # type: ignore[arg-type]


def correlated() -> Estimation:
    own = [sensors.Accelerometer("a", TIP, std=0.2), sensors.Accelerometer("b", TIP, std=0.3)]
    untouched = sensors.zero_external_wrench_except(ROBOT)
    pairs = [("a", "b", 0.03 * np.eye(3))]
    return Estimation(ROBOT, Layout(ROBOT, [*JOINTS, *untouched, *own], correlations=pairs))


def square() -> Estimation:
    untouched = sensors.zero_external_wrench_except(ROBOT)
    return Estimation(ROBOT, Layout(ROBOT, [*JOINTS[:3], *untouched]))


def with_prior() -> Estimation:
    prior = Prior({"external_wrench": 3.0}, {})
    return problem_of(touched=(TIP,), prior=prior)


def undetermined() -> Estimation:
    return problem_of(touched=(TIP,))


def repeated() -> Estimation:
    return problem_of(sensors.ExternalWrench("again", TIP, components=("fx",), value=0.0))


def state_of(problem: Estimation, seed: int = 0) -> tuple[Array, Array, Array]:
    """A random state and readings that disagree."""
    rng = np.random.default_rng(seed)
    q, qd = rng.normal(size=(2, ROBOT.nv))
    known = problem.layout.constants
    return q, qd, np.where(np.isnan(known), rng.normal(size=len(known)), known)


def assert_same(e: Estimate, expected: Estimate) -> None:
    for kind in QUANTITIES:
        value = expected.values[kind].array
        close = 1e-9 * (1 + np.nanmax(np.abs(value), initial=0.0))
        np.testing.assert_allclose(e.values[kind].array, value, atol=close)
        std = expected.std[kind].array
        np.testing.assert_allclose(e.std[kind].array, std, rtol=1e-7, atol=1e-9)
        np.testing.assert_array_equal(e.determined[kind].array, expected.determined[kind].array)
    np.testing.assert_allclose(e.chi_square, expected.chi_square, rtol=1e-7, atol=1e-9)
    assert e.degrees_of_freedom == expected.degrees_of_freedom
    for name, residual in expected.residual.items():
        np.testing.assert_allclose(e.residual[name], residual, rtol=1e-6, atol=1e-7)
    assert [s.sensor for s in e.suspects] == [s.sensor for s in expected.suspects]  # type: ignore[union-attr]


# ---- what it says ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "method"),
    [
        (problem_of, COMPILED),
        (square, COMPILED),
        (correlated, COMPILED),
        (with_prior, COMPILED),
        (undetermined, "dense"),
        (repeated, COMPILED),
    ],
)
@pytest.mark.parametrize("slow", ["superlu", "dense"])
def test_the_default_says_what_the_general_path_says(
    problem: Callable[[], Estimation], method: str, slow: str
) -> None:
    fast = problem()
    state = state_of(fast)
    e = fast.solve(*state)
    assert_same(e, replace(fast, backend=slow).solve(*state))  # type: ignore[arg-type]
    assert e.method == method


def test_missing_readings_and_switches_go_to_the_general_path() -> None:
    problem = problem_of()
    general = replace(problem, backend="superlu")
    q, qd, y = state_of(problem)
    off = {problem.layout.names[1]: False}
    switched = problem.solve(q, qd, y, active=off)
    assert_same(switched, general.solve(q, qd, y, active=off))
    y[0] = np.nan
    e = problem.solve(q, qd, y)
    assert_same(e, general.solve(q, qd, y))
    assert COMPILED not in (e.method, switched.method)


def test_exact_readings_that_contradict_each_other_are_an_error_at_once() -> None:
    problem = repeated()
    q, qd, y = state_of(problem)
    y[problem.layout.slice("again")] = 1.0
    with pytest.raises(ContradictionError, match=r"again\.fx"):
        problem.solve(q, qd, y)


@pytest.mark.parametrize("backend", ["auto", COMPILED])
def test_exact_readings_of_no_unknown_are_looked_at(backend: str) -> None:
    gyro = sensors.Gyroscope("gyro", TIP, std=0.0)
    problem = problem_of(gyro, backend=backend)
    q, qd, y = state_of(problem)
    y[problem.layout.slice("gyro")] = 7.0
    with pytest.raises(ContradictionError, match="gyro"):
        problem.solve(q, qd, y)
    with pytest.raises(StateError, match="gyro"):
        problem.solve_batch(*(np.array([x] * 300) for x in (q, qd, y)))


def test_a_state_that_a_kernel_cannot_answer_is_solved_by_the_estimator() -> None:
    problem = problem_of()
    state = state_of(problem)
    problem._compiled.calls["qdd"] = lambda *arrays: False
    e = problem.solve(*state)
    assert e.method == COMPILED
    np.testing.assert_allclose(
        e.qdd.array, replace(problem, backend="superlu").solve(*state).qdd.array, atol=1e-10
    )
    assert e.method == "dense"
    assert_same(e, replace(problem, backend="dense").solve(*state))


def test_what_is_wrong_is_said_when_it_is_called() -> None:
    problem = problem_of()
    q, qd, y = state_of(problem)
    for bad in (np.nan, np.inf, 1e200):
        with pytest.raises(StateError):
            problem.solve(q, np.full(3, bad), y)
    with pytest.raises(StateError, match="infinite"):
        problem.solve(q, qd, np.where(y == y[0], np.inf, y))
    with pytest.raises(LayoutError, match="shape"):
        problem.solve(q, qd, y[:-1])
    with pytest.raises(StateError, match="shape"):
        problem.solve(q[:2], qd, y)
    with pytest.raises(LayoutError, match="no sensor"):
        problem.solve(q, qd, {"nothing": 1.0})


def test_numbers_of_any_kind_are_taken() -> None:
    problem = problem_of()
    y = np.zeros(problem.layout.size)
    expected = problem.solve(np.array([1.0, 2.0, 3.0]), np.zeros(3), y).torque.array
    for q in ([1, 2, 3], np.array([1, 2, 3]), np.array([1, 2, 3], dtype=np.float32)):
        for given in (y, y.tolist(), problem.layout.unpack(y)):
            found = problem.solve(q, [0, 0, 0], given).torque.array
            np.testing.assert_array_equal(found, expected)


# ---- what it computes, and when --------------------------------------------------------------


def kernels_in(folder: Path) -> int:
    return len(list(folder.rglob("*.kernel")))


def test_quantities_nobody_reads_are_neither_compiled_nor_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path))
    problem = problem_of()
    e = problem.solve(*state_of(problem))
    before = kernels_in(tmp_path)
    _ = e.external_wrench[TIP]
    assert kernels_in(tmp_path) == before + 1
    _ = e.torque.array
    assert kernels_in(tmp_path) == before + 2


def test_late_questions_are_about_the_numbers_of_then() -> None:
    problem = problem_of()
    state = state_of(problem)
    expected = replace(problem, backend="dense").solve(*[x.copy() for x in state])
    e = problem.solve(*state)
    for x in state:
        x[:] = 7.0
    assert_same(e, expected)


def test_deviations_are_compiled_after_a_handful_of_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path))
    problem = problem_of(sensors.Accelerometer("handful", TIP, std=0.123))
    state = state_of(problem)
    expected = replace(problem, backend="dense").solve(*state).std.qdd.array
    for _ in range(HANDFUL):
        np.testing.assert_allclose(problem.solve(*state).std.qdd.array, expected, rtol=1e-9)
    before = kernels_in(tmp_path)
    np.testing.assert_allclose(problem.solve(*state).std.qdd.array, expected, rtol=1e-9)
    assert kernels_in(tmp_path) == before + 1


def test_deviations_named_in_the_call_come_with_their_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path))
    problem = problem_of()
    e = problem.solve(*state_of(problem), uncertainty=["torque", "external_wrench"])
    before = kernels_in(tmp_path)
    _ = e.torque.array, e.external_wrench[TIP], e.std.torque.array, e.std.external_wrench[TIP]
    assert kernels_in(tmp_path) == before > 0
    assert_same(e, replace(problem, backend="dense").solve(*state_of(problem)))


def test_estimates_travel_before_and_after_they_are_asked() -> None:
    problem = problem_of()
    e = problem.solve(*state_of(problem))
    untouched = pickle.loads(pickle.dumps(e))
    _ = e.torque.array
    for other in (untouched, pickle.loads(pickle.dumps(e))):
        np.testing.assert_array_equal(other.torque.array, e.torque.array)
        np.testing.assert_allclose(other.std.qdd.array, e.std.qdd.array, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("missing", [False, True])
def test_deviations_at_frames_of_a_batch_are_not_solved_state_by_state(
    missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot = read_robot("example:humanoid", floating_base=True).robot
    layout = generous(robot)
    problem = Estimation(robot, layout)
    state = moving(problem, *standing(robot, 0, FEET))
    n = 300
    y = readings(problem, state) + np.random.default_rng(0).normal(size=(n, layout.size))
    y = np.where(np.isnan(layout.constants), y, layout.constants)
    y[::3, layout.slice("head")] = np.nan if missing else 0.0
    q, qd = np.tile(state.q, (n, 1)), np.tile(state.qd, (n, 1))
    general = replace(problem, backend="dense")
    expected = [general.solve(q[k], qd[k], y[k]).std.external_wrench["l_sole"] for k in (0, 1)]
    asked: list[Array] = []
    posterior = Estimation.posterior
    monkeypatch.setattr(
        Estimation, "posterior", lambda self, *s: (asked.append(s[0]), posterior(self, *s))[1]
    )
    e = problem.solve_batch(q, qd, y, outputs=["torque"])
    found = e.std.external_wrench["l_sole"]
    np.testing.assert_allclose(found[:2], expected, rtol=1e-8)
    np.testing.assert_allclose(found[3:], np.tile(found[:3], (n // 3 - 1, 1)), rtol=1e-9)
    assert len(asked) < n // 20


# ---- what it costs ---------------------------------------------------------------------------


def best(work: Callable[[], object]) -> float:
    return min(repeat(work, number=20, repeat=200))


@needs_loops
def test_a_call_costs_little_more_than_the_kernel() -> None:
    """Beside one concatenation of the same arrays (0.6 us): measured 3 to 4 of them."""
    problem = problem_of()
    q, qd, y = state_of(problem)
    kernel, by_name = problem.compile(outputs=("torque",)), problem.layout.unpack(y)
    _ = problem.solve(q, qd, y).torque.array, problem.solve(q, qd, by_name)
    copy = best(lambda: np.concatenate((q, qd, y)))
    one = best(lambda: kernel.one(q, qd, y))
    assert best(lambda: problem.solve(q, qd, y).torque.array) < one + 7 * copy
    named = best(lambda: problem.solve(q, qd, by_name).torque.array)
    assert named < one + 30 * copy


def test_what_is_taken_in_is_copied_or_refused() -> None:
    kernel = taking_kernel((("a", 5), ("b", 2)), [slice(1, 5)])
    a, b, packed = np.array([9.0, 0, 0, 0, 1]), np.array([-1.0, 2.0]), np.empty(7)
    assert kernel.fast(a, b, packed) is True
    np.testing.assert_array_equal(packed, [9, 0, 0, 0, 1, -1, 2])
    for bad in (np.nan, np.inf, -1e80):
        assert kernel.fast(a, np.array([1.0, bad]), packed) is False
    assert kernel.fast(np.array([9.0, 0, 0, 0, 1.1]), b, packed) is False
    assert kernel.fast(a, b[:1], packed) is None
    assert kernel.fast(a, b.astype(np.float32), packed) is None


@needs_loops
def test_an_open_layout_goes_to_the_reduced_system_in_the_end(monkeypatch) -> None:
    monkeypatch.setattr("problems.estimation.estimation.FEW", 2)
    problem = undetermined()
    slow = replace(problem, backend="dense")
    rng, known = np.random.default_rng(0), problem.layout.constants
    y = np.where(np.isnan(known), rng.normal(size=len(known)), known)
    y[0] = np.nan  # missing readings, too
    methods = []
    for k in range(4):
        state = ROBOT.random_configuration(k), rng.normal(size=3), y
        found, expected = (p.solve(*state, uncertainty="torque") for p in (problem, slow))
        methods.append(found.method)
        for of in (lambda e: e, lambda e: e.std):
            for name in QUANTITIES:
                np.testing.assert_allclose(
                    getattr(of(found), name).array,
                    getattr(of(expected), name).array,
                    rtol=1e-8,
                    atol=1e-9,
                )
        assert found.degrees_of_freedom == expected.degrees_of_freedom
        np.testing.assert_allclose(found.chi_square, expected.chi_square, rtol=1e-8, atol=1e-9)
        assert np.isnan(found.external_wrench[TIP]).any()
    assert methods == ["dense", "dense", "reduced", "reduced"]


@pytest.mark.filterwarnings("error")
def test_equations_that_overflow_are_said_once_and_in_words() -> None:
    """NumPy warned beside the error."""
    robot = synthetic.chain(3)
    problem = Estimation(robot, Layout(robot, sensors.all_joint_torques(robot, std=0.1)))
    with pytest.raises(StateError, match="at this state overflow float64; check the units"):
        problem.solve(np.ones(3), np.full(3, 1e200), np.zeros(3))
