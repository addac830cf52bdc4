"""Batches: late questions are about the states of the call, and memory is never shared."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dynsys import synthetic
from dynsys.kernel.stream import LINE, TOGETHER, copy, stream
from dynsys.types import Array
from problems import AbstractDynamics, ForwardDynamics, HybridDynamics, InverseDynamics, warm
from problems.problem import Backend
from problems.warm import WarmMemory
from tests.processes import LIMIT

Copying = Callable[[Array, Array], bool]
ROBOT = synthetic.random_tree(4, 2, joint_types=["revolute", "free", "spherical"])


def make(kind: str, backend: Backend = "auto") -> AbstractDynamics:
    if kind == "hybrid":
        return HybridDynamics(ROBOT, ROBOT.joint_names[:2], backend)
    return {"inverse": InverseDynamics, "forward": ForwardDynamics}[kind](ROBOT, backend)


def states(n: int, seed: int = 0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    q = np.array([ROBOT.random_configuration(rng) for _ in range(n)])
    return q, rng.normal(size=(n, ROBOT.nv)), rng.normal(size=(n, ROBOT.nv))


@pytest.fixture(params=["bytes", "warm memory", "streamed"])
def copied(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make batches of any size go one way."""
    way: str = request.param
    monkeypatch.setattr(warm, "FEWEST", 10**9 if way == "bytes" else 0)
    monkeypatch.setattr(warm, "STREAMED", 0 if way == "streamed" else 10**9)
    return way


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize("kind", ["inverse", "forward", "hybrid"])
def test_late_questions_are_about_the_states_of_the_call(kind: str) -> None:
    problem, given = make(kind), states(7)
    one_by_one = [problem.solve(*(x[k] for x in given)) for k in range(7)]
    solution = problem.solve_batch(*given)
    for x in given:
        x[...] = 0.5  # also its quaternions
    others = [problem.solve_batch(*states(7, seed)) for seed in range(1, 4)]
    for k, alone in enumerate(one_by_one):
        for name in ("torque", "qdd"):
            assert_allclose(getattr(solution, name)[k], getattr(alone, name), rtol=1e-9)
        for name in ("acceleration", "joint_wrench", "external_wrench"):
            found = getattr(solution, name).array[k]
            assert_allclose(found, getattr(alone, name).array, rtol=1e-8, atol=1e-9)
    assert np.max(solution.residual) < 1e-12
    assert len(others) == 3


@pytest.mark.usefixtures("copied")
def test_what_somebody_looks_at_is_not_written_again() -> None:
    problem, given = make("inverse"), states(6)
    expected = problem.solve_batch(*given).torque.copy()
    solutions = [problem.solve_batch(*given) for _ in range(4)]
    part = problem.solve_batch(*given).torque[2:4, ::2]
    known = problem.solve_batch(*given).qdd
    lasting = memoryview(problem.solve_batch(*given).torque)
    for seed in range(1, 6):
        problem.solve_batch(*states(6, seed))
    for solution in solutions:
        assert_array_equal(solution.torque, expected)
        assert_array_equal(solution.qdd, given[2])
    assert_array_equal(part, expected[2:4, ::2])
    assert_array_equal(known, given[2])
    assert_array_equal(np.asarray(lasting), expected)


def test_threads_do_not_get_the_same_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "FEWEST", 0)
    problem = make("inverse")
    given = {seed: states(20, seed) for seed in range(4)}
    expected = {seed: problem.solve_batch(*x).torque.copy() for seed, x in given.items()}
    wrong: list[int] = []

    def work(seed: int) -> None:
        for _ in range(200):
            solution = problem.solve_batch(*given[seed])
            same = np.array_equal(solution.torque, expected[seed])
            if not (same and np.array_equal(solution.qdd, given[seed][2])):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()
    assert not wrong


def test_memory_is_used_again_and_not_hoarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "FEWEST", 0)
    problem, given = make("forward"), states(50)
    seen = {problem.solve_batch(*given).qdd.ctypes.data for _ in range(20)}
    assert len(seen) == 1
    memory = WarmMemory()
    held = [memory.empty((10, 10)) for _ in range(3 * warm.PIECES)]
    assert len(memory._pieces) <= warm.PIECES
    assert len({x.ctypes.data for x in held}) == len(held)
    monkeypatch.setattr(warm, "MOST", 250)
    memory = WarmMemory()
    held = [memory.empty((10, 10)) for _ in range(5)]
    assert sum(map(len, memory._pieces)) <= 250
    assert memory.empty((20, 20)).size == 400  # more than is remembered
    assert sum(map(len, memory._pieces)) <= 250


@pytest.mark.parametrize("backend", ["auto", "loops", "reference"])
def test_batches_in_any_form_agree(backend: Backend) -> None:
    problem, (q, qd, given) = make("forward", backend), states(5)
    first = problem.solve_batch(q, qd, given)
    expected, late = first.qdd, first.acceleration.array
    wide = [np.repeat(x, 2, axis=1)[:, ::2] for x in (q, qd, given)]
    far: list[Array] = [np.repeat(x, 3, axis=0)[::3] for x in (q, qd, given)]
    turned: list[Array] = [np.asfortranarray(x) for x in (q, qd, given)]
    for form in (wide, far, turned, [x.tolist() for x in (q, qd, given)]):
        solution = problem.solve_batch(*form)
        assert_allclose(solution.qdd, expected, rtol=1e-12)
        assert_array_equal(solution.torque, given)
        assert_allclose(solution.acceleration.array, late, rtol=1e-9, atol=1e-9)
    assert_allclose(problem.solve_batch(q, qd, given, threads=2).qdd, expected, rtol=1e-12)


@pytest.mark.parametrize("size", [0, 1, LINE, LINE * TOGETHER, 3 * LINE * TOGETHER + 5, 1000])
@pytest.mark.parametrize("write", [copy, stream])
def test_streams_copy_everything_from_and_to_anywhere(size: int, write: Copying) -> None:
    source, room = np.arange(size + 3.0), np.full(size + 32, -1.0)
    for a, b in itertools.product(range(3), range(LINE + 1)):
        room[...] = -1.0
        assert write(room[b : b + size], source[a : a + size])
        assert_array_equal(room[b : b + size], source[a : a + size])
        assert (room[:b] == -1).all()
        assert (room[b + size :] == -1).all()
    rows = np.arange(40.0).reshape(8, 5)
    forms: list[Callable[[Array], Array]] = [
        lambda x: x[::2],
        lambda x: x[:, ::2],
        np.transpose,
    ]
    for form in forms:
        target = np.empty(form(rows).shape)
        assert write(target, form(rows))
        assert_array_equal(target, form(rows))


@pytest.mark.parametrize("write", [copy, stream])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_streams_see_a_number_that_is_not_finite_wherever_it_is(
    write: Copying, value: float
) -> None:
    size = 2 * LINE * TOGETHER + 5
    memory = np.empty(size + LINE)
    start = -(memory.ctypes.data // 8) % LINE
    for k in range(size):
        source = np.full(size, 1e300)
        assert write(memory[start : start + size], source)
        source[k] = value
        assert not write(memory[start : start + size], source)
        assert_array_equal(memory[start : start + size], source)
        assert not write(memory[start : start + size][::2], np.full(len(source[::2]), value))
