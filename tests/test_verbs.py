"""rnea, aba, crba and jacobian as users call them, against the recursions they stand for."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import dynsys
from dynsys import (
    KinematicTree,
    ModelError,
    SingularSystemError,
    StateError,
    recursive,
    synthetic,
    verbs,
)
from dynsys.model.joints import JOINT_TYPES
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import Body
from dynsys.types import Array
from tests import strategies

LIMITS = ("MOST_OPERATIONS", "MOST_MATRIX", "MOST_JACOBIAN")


@contextmanager
def by(way: str) -> Iterator[None]:
    """Let one way answer from the first call: straight-line code, the loops, the recursion."""
    with ExitStack() as stack:
        if way == "recursion":
            no_code = patch.object(verbs._Machine, "code_for", lambda *_: None)
            stack.enter_context(no_code)
        stack.enter_context(patch.object(verbs, "FEW", 0))
        for name in LIMITS:
            stack.enter_context(patch.object(verbs, name, 0 if way == "loops" else 10**9))
        yield


def code(robot: KinematicTree, verb: str, about: Any = False) -> Any:
    return robot._kept[verb, about]._code


def close(found: Array, expected: Array, tolerance: float) -> None:
    assert found.dtype == np.float64
    assert_allclose(found, expected, rtol=0, atol=tolerance * (1 + np.abs(expected).max()))


def fresh(robot: KinematicTree) -> KinematicTree:
    """Return the same robot, of which nothing is kept."""
    copy: KinematicTree = pickle.loads(pickle.dumps(robot))
    return copy


def moving(robot: KinematicTree, n: int, seed: int = 0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    q = np.array([robot.random_configuration(rng) for _ in range(n)])
    return q, rng.normal(size=(n, robot.nv)), rng.normal(size=(n, robot.nv))


EVERY_JOINT = synthetic.random_tree(len(JOINT_TYPES), 4, joint_types=list(JOINT_TYPES))


def agrees(state: strategies.State, way: str) -> None:
    robot, q, qd, qdd, f_ext = state
    condition = float(np.linalg.cond(recursive.crba(robot, q)))
    assume(condition < 1e8)
    with by(way):
        tolerance = 1e-10 + 1e-14 * condition
        for _ in range(2):  # through the checks, then the fast way
            torque = dynsys.rnea(robot, q, qd, qdd, f_ext)
            close(torque, recursive.rnea(robot, q, qd, qdd, f_ext), 1e-10)
            found = dynsys.aba(robot, q, qd, torque, f_ext)
            close(found, recursive.aba(robot, q, qd, torque, f_ext), tolerance)
            close(dynsys.crba(robot, q), recursive.crba(robot, q), 1e-10)
            body = robot.body_names[-1]
            close(dynsys.jacobian(robot, q, body), recursive.jacobian(robot, q, body), 1e-10)
    for verb, about in (("rnea", f_ext is not None), ("crba", False), ("jacobian", body)):
        name = type(code(robot, verb, about)).__name__
        assert name.startswith("Loop") == (way == "loops")
    assert code(robot, "aba", f_ext is not None) is not None


@pytest.mark.slow
@settings(max_examples=8)
@given(strategies.states(max_bodies=4))
def test_straight_line_code_agrees_with_the_recursions(state: strategies.State) -> None:
    agrees(state, "straight line")


@pytest.mark.slow
@settings(max_examples=40)
@given(strategies.states(max_bodies=7))
def test_loops_agree_with_the_recursions(state: strategies.State) -> None:
    agrees(state, "loops")


@pytest.mark.parametrize("way", ["straight line", "loops", "recursion"])
def test_a_batch_is_its_states_one_by_one(way: str) -> None:
    robot = fresh(EVERY_JOINT)
    q, qd, x = moving(robot, 5)
    rng = np.random.default_rng(1)
    each = rng.normal(size=(5, robot.n_bodies, 6))
    last = robot.body_names[-1]
    pushes = {last: rng.normal(size=(5, 6)), robot.body_names[0]: np.arange(6.0)}
    with by(way):
        for verb in (dynsys.rnea, dynsys.aba):
            twin = getattr(recursive, verb.__name__)
            for f_ext in (None, each[0], each, pushes):
                found = verb(robot, q, qd, x, f_ext)
                for k in range(5):
                    mine = f_ext
                    if f_ext is each:
                        mine = each[k]
                    elif isinstance(f_ext, dict):
                        mine = {last: pushes[last][k], robot.body_names[0]: np.arange(6.0)}
                    close(found[k], twin(robot, q[k], qd[k], x[k], mine), 1e-9)
            assert (code(robot, verb.__name__) is not None) == (way != "recursion")
        H, J = dynsys.crba(robot, q), dynsys.jacobian(robot, q, last)
    assert H.shape == (5, robot.nv, robot.nv)
    assert J.shape == (5, 6, robot.nv)
    for k in range(5):
        close(H[k], recursive.crba(robot, q[k]), 1e-10)
        close(J[k], recursive.jacobian(robot, q[k], last), 1e-10)


def test_empty_batches_and_lists() -> None:
    robot = synthetic.chain(3)
    none = np.zeros((0, 3))
    assert dynsys.rnea(robot, none, none, none).shape == (0, 3)
    assert dynsys.crba(robot, none).shape == (0, 3, 3)
    for _ in range(3):
        torque = dynsys.rnea(robot, [0, 1, 2], (0, 0, 0), np.arange(3))
    close(torque, recursive.rnea(robot, [0, 1, 2], np.zeros(3), np.arange(3.0)), 1e-12)
    wide = np.arange(12.0).reshape(3, 4)[:, 1]  # not contiguous
    close(dynsys.crba(robot, wide), recursive.crba(robot, wide), 1e-12)


# ---- what is wrong with a state is said as by the recursions ---------------------------------


@pytest.mark.parametrize("way", ["recursion", "straight line", "loops"])
def test_errors_are_those_of_the_recursions(way: str) -> None:
    robot = fresh(EVERY_JOINT)
    q, qd, x = moving(robot, 3)
    where = next(iter(robot.quaternion_slices))
    bad = {"short": (q[0, :-1], qd[0], x[0]), "long": (q[0], qd[0], np.zeros(robot.nv + 1))}
    for k, name in enumerate(("q", "qd", "qdd")):
        wrong = [q[0].copy(), qd[0].copy(), x[0].copy()]
        wrong[k][-1] = np.nan if k else np.inf
        bad[f"not finite {name}"] = (wrong[0], wrong[1], wrong[2])
    longer = q[0].copy()
    longer[where] *= 1.1
    bad["quaternion"] = (longer, qd[0], x[0])
    with by(way):
        dynsys.rnea(robot, q[0], qd[0], x[0])
        for state in bad.values():
            with pytest.raises(StateError) as expected:
                recursive.rnea(robot, *state)
            with pytest.raises(StateError) as found:
                dynsys.rnea(robot, *state)
            assert str(found.value) == str(expected.value)
        for asks in (dynsys.crba, lambda r, q: dynsys.jacobian(r, q, 0)):
            asks(robot, q[0])  # machine code is there: it must notice
            for wrong_q in (bad["quaternion"][0], bad["not finite q"][0], q[0, :-1]):
                with pytest.raises(StateError, match="q"):
                    asks(robot, wrong_q)
        some = q.copy()
        some[1] = longer
        with pytest.raises(StateError, match=r"state 1: q: the quaternion of joint"):
            dynsys.rnea(robot, some, qd, x)
        some = x.copy()
        some[2, 0] = np.nan
        with pytest.raises(StateError, match=r"state 2: torque\[0\].*is nan"):
            dynsys.aba(robot, q, qd, some)


def test_states_and_batches_do_not_mix() -> None:
    robot = synthetic.chain(3)
    q, qd, x = moving(robot, 4)
    for wrong in ((q, qd[0], x), (q[0], qd, x), (q[0], qd[0], x), (q, qd, x[0])):
        with pytest.raises(StateError, match=r"is a batch of states, \w+ is not"):
            dynsys.rnea(robot, *wrong)
    with pytest.raises(StateError, match="qd has 3 states, but q has 4"):
        dynsys.aba(robot, q, qd[:3], x)
    with pytest.raises(StateError, match=r"f_ext .*shape \(3, 6\)"):
        dynsys.rnea(robot, q[0], qd[0], x[0], np.zeros((4, 3, 6)))
    with pytest.raises(StateError, match=r"f_ext must have shape \(4, 3, 6\)"):
        dynsys.rnea(robot, q, qd, x, np.zeros((2, 3, 6)))
    with pytest.raises(StateError, match="not numeric"):
        dynsys.crba(robot, [[0.0], [1.0, 2.0]])
    with pytest.raises(ModelError, match="did you mean 'link_3'"):
        dynsys.jacobian(robot, q, "link3")


def test_a_robot_without_inertia_is_named_every_time() -> None:
    massless = Body("tip", -1, JOINT_TYPES["revolute"]([0.0, 0.0, 1.0]), Transform.identity(),
                    Inertia.zero())  # fmt: skip
    robot = KinematicTree("weightless", [massless])
    for _ in range(3):
        with pytest.raises(SingularSystemError, match="'tip'"):
            dynsys.aba(robot, [0.0], [0.0], [1.0])
    with pytest.raises(SingularSystemError, match=r"state 0: .*'tip'"):
        dynsys.aba(robot, [[0.0]], [[0.0]], [[1.0]])


# ---- when machine code is made, and what it leaves behind ------------------------------------


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.usefixtures("empty_cache")
def test_the_second_call_compiles_and_the_disk_remembers() -> None:
    robot = synthetic.chain(2)
    q, qd, qdd = (row[0] for row in moving(robot, 1))
    dynsys.rnea(robot, q, qd, qdd)
    assert code(robot, "rnea") is None
    dynsys.rnea(robot, q, qd, qdd)
    assert code(robot, "rnea") is not None
    again = fresh(robot)
    dynsys.rnea(again, q, qd, qdd)
    assert code(again, "rnea") is not None
    other = synthetic.chain(3)
    q, qd, qdd = moving(other, verbs.FEW + 1)
    dynsys.rnea(other, q[:5], qd[:5], qdd[:5])
    assert code(other, "rnea") is None
    dynsys.crba(other, q)
    assert code(other, "crba") is not None


@pytest.mark.usefixtures("empty_cache")
def test_going_over_all_bodies_does_not_compile_all_of_them() -> None:
    robot = synthetic.chain(4)
    q = robot.random_configuration(0)
    with patch.object(verbs, "BODIES", 1):
        for _ in range(3):
            for body in range(4):
                close(
                    dynsys.jacobian(robot, q, body), recursive.jacobian(robot, q, body), 1e-12
                )
        compiled = [body for body in range(4) if code(robot, "jacobian", body) is not None]
        assert compiled == [0]
        robot._kept["jacobian"][2] = 1e6  # the recursion has taken longer than a compilation
        dynsys.jacobian(robot, q, 2)
        assert code(robot, "jacobian", 2) is not None
        dynsys.jacobian(robot, q, 3)
        assert code(robot, "jacobian", 3) is None


def test_results_are_new_arrays_and_the_robot_can_go() -> None:
    robot = synthetic.chain(3)
    q, qd, x = (row[0] for row in moving(robot, 1))
    before = q.copy()
    asked = ((dynsys.rnea, qd, x), (dynsys.aba, qd, x), (dynsys.crba,), (dynsys.jacobian, 2))
    for verb, *more in asked:
        answers = [verb(robot, q, *more) for _ in range(4)]  # type: ignore[operator]
        kept = answers[-2].copy()
        answers[-1][...] = np.nan
        assert_array_equal(answers[-2], kept)
        assert not any(np.shares_memory(x, y) for x in answers for y in answers if x is not y)
    assert_array_equal(q, before)
    assert "_kept" not in fresh(robot).__dict__
    gone = weakref.ref(robot)
    del robot
    gc.collect()
    assert gone() is None


@pytest.mark.slow
@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_large_robots_take_the_loops(seed: int) -> None:
    robot = synthetic.random_tree(120, seed)
    assert robot.nv > verbs.MOST_JACOBIAN
    q, qd, x = (row[0] for row in moving(robot, 1, seed))
    body = robot.n_bodies - 1
    for _ in range(2):
        torque = dynsys.rnea(robot, q, 0.1 * qd, x)
        J = dynsys.jacobian(robot, q, body)
        H = dynsys.crba(robot, q)
    close(torque, recursive.rnea(robot, q, 0.1 * qd, x), 1e-11)
    close(J, recursive.jacobian(robot, q, body), 1e-11)
    close(H, recursive.crba(robot, q), 1e-11)
    for verb, about in (("rnea", False), ("crba", False), ("jacobian", body)):
        assert type(code(robot, verb, about)).__name__.startswith("Loop")


@pytest.mark.parametrize("room", [0.0, 1e-9])
@pytest.mark.finding("Y-1")
def test_limits_that_leave_no_room_do_not_make_code_for_one_posture(room: float) -> None:
    free = synthetic.random_tree(4, seed=3, joint_types=("revolute", "prismatic", "planar"))
    narrow = [
        replace(body, lower=np.zeros(body.joint.nq), upper=np.full(body.joint.nq, room))
        for body in free.bodies
    ]
    robot = KinematicTree("narrow", narrow)
    rng = np.random.default_rng(0)
    q = robot.random_configuration(rng, limited=False)
    assert np.abs(q).min() > 100 * room
    qd, x = rng.normal(size=(2, robot.nv))
    with by("straight-line"):
        close(dynsys.rnea(robot, q, qd, x), recursive.rnea(robot, q, qd, x), 1e-12)
        close(dynsys.aba(robot, q, qd, x), recursive.aba(robot, q, qd, x), 1e-12)
        close(dynsys.crba(robot, q), recursive.crba(robot, q), 1e-12)
        close(dynsys.jacobian(robot, q, 3), recursive.jacobian(robot, q, 3), 1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.finding("Z-E9")
def test_what_overflows_is_said_once_and_in_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """NumPy warned beside the error, and aba found no inertia in bodies that have some."""
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path / "empty"))  # no machine code at first
    robot, fast = synthetic.chain(3), np.full(3, 1e200)
    for verb in (dynsys.rnea, dynsys.aba):
        with pytest.raises(StateError, match=f"{verb.__name__} at this state overflows"):
            verb(robot, np.ones(3), fast, np.zeros(3))


def test_recursions_that_overflow_are_errors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path / "empty"))  # no machine code at first
    with pytest.raises(StateError, match="rnea at this state overflows float64"):
        dynsys.rnea(synthetic.chain(2), np.zeros(2), np.full(2, 1e200), np.zeros(2))
