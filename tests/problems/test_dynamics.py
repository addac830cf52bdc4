"""Inverse, forward and hybrid dynamics against rnea and aba; names, batches and errors."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynsys import KinematicTree, ModelError, synthetic
from dynsys.model.joints import Free, Revolute
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import Body, Coupling, Frame
from dynsys.recursive.aba import aba
from dynsys.recursive.rnea import rnea
from dynsys.types import Array
from problems import ForwardDynamics, HybridDynamics, InverseDynamics
from problems.problem import Backend
from tests import strategies
from tests.backends import BACKENDS, COMPILED
from tests.robots import CHAIN


def close(actual: Array, expected: Array, tolerance: float = 1e-9) -> None:
    scale = 1.0 + float(np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * scale)


def wrenches(robot: KinematicTree, seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=(robot.n_bodies, 6))


@settings(max_examples=50)
@given(robot=strategies.trees(coupled=True), data=st.data(), seed=strategies.seeds)
def test_inverse_and_forward_dynamics(
    robot: KinematicTree, data: st.DataObject, seed: int
) -> None:
    check_both_ways(robot, data, seed, "reference")


@pytest.mark.slow
@settings(max_examples=12)
@given(robot=strategies.trees(6, coupled=True), data=st.data(), seed=strategies.seeds)
def test_compiled_inverse_and_forward_dynamics(
    robot: KinematicTree, data: st.DataObject, seed: int
) -> None:
    check_both_ways(robot, data, seed, COMPILED)


@pytest.mark.parametrize("parents", [(-1, 0, -1), (-1, 0, 0), (-1, 0, 1)])
@pytest.mark.parametrize("leader", [1, 2])
def test_followers_on_the_same_and_on_other_branches(
    parents: tuple[int, ...], leader: int
) -> None:
    rng = np.random.default_rng(0)
    bodies = [
        Body(name, parent, Revolute(rng.normal(size=3)), inertia=synthetic.cloud_inertia(rng))
        for name, parent in zip("abc", parents, strict=True)
    ]
    follower = 3 - leader
    bodies[follower] = replace(bodies[follower], coupling=Coupling(leader, 0.5, 0.3))
    robot = KinematicTree("coupled", bodies)
    q, qd, qdd = rng.normal(size=(3, 2))
    torque = rnea(robot, q, qd, qdd)
    for backend in ("reference", COMPILED):
        close(ForwardDynamics(robot, backend).solve(q, qd, torque).qdd, qdd)  # type: ignore[arg-type]


def check_both_ways(
    robot: KinematicTree, data: st.DataObject, seed: int, backend: Backend
) -> None:
    q, qd, qdd = data.draw(strategies.motions(robot))
    f_ext = wrenches(robot, seed)
    inverse = InverseDynamics(robot, backend).solve(q, qd, qdd, f_ext)
    close(inverse.torque, rnea(robot, q, qd, qdd, f_ext))
    close(inverse.qdd, qdd)
    forward = ForwardDynamics(robot, backend).solve(q, qd, inverse.torque, f_ext)
    close(forward.qdd, aba(robot, q, qd, inverse.torque, f_ext))
    close(forward.qdd, qdd)
    close(forward.acceleration.array, inverse.acceleration.array)
    close(forward.joint_wrench.array, inverse.joint_wrench.array)
    close(forward.external_wrench.array, f_ext)
    assert max(inverse.residual, forward.residual) < 1e-14


@settings(max_examples=30)
@given(robot=strategies.trees(coupled=True), data=st.data())
def test_hybrid_dynamics_agrees_with_both(robot: KinematicTree, data: st.DataObject) -> None:
    check_hybrid(robot, data, "reference")


@pytest.mark.slow
@settings(max_examples=12)
@given(robot=strategies.trees(max_bodies=6, coupled=True), data=st.data())
def test_compiled_hybrid_dynamics(robot: KinematicTree, data: st.DataObject) -> None:
    check_hybrid(robot, data, COMPILED)


def check_hybrid(robot: KinematicTree, data: st.DataObject, backend: Backend) -> None:
    q, qd, qdd = data.draw(strategies.motions(robot))
    torque = rnea(robot, q, qd, qdd)
    own = [
        name
        for name, body in zip(robot.joint_names, robot.bodies, strict=True)
        if body.coupling is None
    ]
    named = data.draw(st.lists(st.sampled_from(own), unique=True))
    known = torque.copy()
    for name in named:
        known[robot.v_slice(name)] = qdd[robot.v_slice(name)]
    solution = HybridDynamics(robot, named, backend).solve(q, qd, known)
    close(solution.qdd, qdd)
    close(solution.torque, torque)


@pytest.mark.slow
@pytest.mark.parametrize(
    "robot", [synthetic.asimo(), synthetic.humanoid30()], ids=["asimo", "h30"]
)
def test_humanoids(robot: KinematicTree) -> None:
    rng = np.random.default_rng(0)
    inverse, forward = InverseDynamics(robot), ForwardDynamics(robot)
    for _ in range(5):
        q = robot.random_configuration(rng)
        qd, qdd = rng.normal(size=(2, robot.nv))
        solution = inverse.solve(q, qd, qdd)
        close(solution.torque, rnea(robot, q, qd, qdd))
        close(forward.solve(q, qd, solution.torque).qdd, qdd)


def test_solution_by_name() -> None:
    tool = Transform(np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]]), np.array([0.1, 0.2, 0.3]))
    plain = synthetic.chain(3)
    bodies = [replace(b, joint_name=f"joint_{i}") for i, b in enumerate(plain.bodies)]
    frames = {"tool": Frame(2, tool), "wall": Frame(-1, tool)}
    robot = KinematicTree("arm", bodies, frames)
    push = np.array([1.0, 2, 3, 4, 5, 6])
    solution = InverseDynamics(robot).solve(np.ones(3), np.ones(3), np.ones(3), {"tool": push})
    last = robot.body_names[2]
    np.testing.assert_allclose(solution.external_wrench["tool"], push)
    np.testing.assert_allclose(solution.external_wrench[last], tool.force_back(push))
    a = solution.acceleration[last]
    np.testing.assert_array_equal(a, solution.acceleration.array[2])
    np.testing.assert_allclose(solution.acceleration["tool"], tool.motion(a))
    f = solution.joint_wrench["joint_2"]
    np.testing.assert_array_equal(f, solution.joint_wrench[last])
    np.testing.assert_allclose(tool.force_back(solution.joint_wrench["tool"]), f)
    base = np.concatenate([np.zeros(3), -robot.gravity])
    np.testing.assert_allclose(solution.acceleration["wall"], tool.motion(base))
    assert list(solution.joint_wrench) == ["joint_0", "joint_1", "joint_2"]
    assert "tool" in solution.acceleration and "joint_0" not in solution.acceleration
    with pytest.raises(ModelError, match="did you mean"):
        solution.acceleration["tol"]
    with pytest.raises(ModelError, match="fixed to the base"):
        solution.external_wrench["wall"]


def test_accelerations_are_proper() -> None:
    """A free body without torque falls: its proper acceleration is zero."""
    robot = KinematicTree("ball", [Body("ball", -1, Free(), inertia=_ball())])
    solution = ForwardDynamics(robot).solve(robot.neutral(), np.zeros(6), np.zeros(6))
    np.testing.assert_allclose(solution.acceleration["ball"], 0.0, atol=1e-12)
    np.testing.assert_allclose(solution.qdd, [0, 0, 0, *robot.gravity], atol=1e-12)


def _ball() -> Inertia:
    return Inertia(2.0, np.array([0.1, 0.0, 0.2]), 0.05 * np.eye(3))


@pytest.mark.slow
def test_batch_is_the_states_one_by_one() -> None:
    robot = synthetic.random_tree(6, 4)
    rng = np.random.default_rng(1)
    q = np.array([robot.random_configuration(rng) for _ in range(4)])
    qd, torque = rng.normal(size=(2, 4, robot.nv))
    name = robot.body_names[3]
    f_ext = {name: rng.normal(size=(4, 6)), robot.body_names[0]: np.ones(6)}
    problem = ForwardDynamics(robot)
    batch = problem.solve_batch(q, qd, torque, f_ext)
    assert batch.acceleration.array.shape == (4, robot.n_bodies, 6)
    for k in range(4):
        one = problem.solve(
            q[k], qd[k], torque[k], {name: f_ext[name][k], robot.body_names[0]: np.ones(6)}
        )
        close(batch.qdd[k], one.qdd, 1e-13)
        close(batch.joint_wrench[name][k], one.joint_wrench[name], 1e-13)
        assert batch.residual[k] < 1e-14  # type: ignore[index]
    fixed = wrenches(robot, 0)
    both = (
        problem.solve_batch(q, qd, torque, fixed),
        problem.solve_batch(q, qd, torque, np.broadcast_to(fixed, (4, *fixed.shape))),
    )
    np.testing.assert_array_equal(both[0].qdd, both[1].qdd)


@pytest.mark.finding("K-3")
def test_answers_may_replace_what_they_come_from() -> None:
    robot = synthetic.chain(4)
    q, qd, third = np.random.default_rng(0).normal(size=(3, 5, 4))
    for problem in (InverseDynamics(robot), ForwardDynamics(robot)):
        expected = problem.solve_batch(q, qd, third)
        for k in range(2):
            batch = [q.copy(), qd.copy(), third.copy()]
            one = [x[0].copy() for x in batch]
            many = problem.solve_batch(*batch, out=batch[1 + k])
            single = problem.solve(*one, out=one[1 + k])
            assert np.all(np.asarray(many.residual) < 1e-12) and single.residual < 1e-12
            close(many.torque, expected.torque)
            close(single.qdd, expected.qdd[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_answers_of_kernels_may_overlap_what_they_come_from(backend: Backend) -> None:
    robot = synthetic.chain(3)
    kernel = InverseDynamics(robot).compile(backend=backend)
    q, qd, qdd = np.random.default_rng(0).normal(size=(3, 5, 3))
    (expected,), _ = kernel.batch(q, qd, qdd)
    memory = np.concatenate([qdd, np.zeros((1, 3))])
    (torque,), _ = kernel.batch(q, qd, memory[:-1], out=[memory[1:]])
    np.testing.assert_array_equal(torque, expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_kernels_say_what_they_compute(backend: Backend) -> None:
    kernel = InverseDynamics(synthetic.chain(2)).compile(backend=backend, wrenches=True)
    assert "(q (2), qd (2), qdd (2), f_ext (12) -> torque (2); float64)" in repr(kernel)


@pytest.mark.parametrize("backend", BACKENDS)
def test_batch_of_no_states(backend: Backend) -> None:
    problem = ForwardDynamics(synthetic.chain(2), backend)
    none = np.zeros((0, 2))
    for f_ext in (None, {"link_1": np.ones(6)}, np.zeros((0, 2, 6))):
        solution = problem.solve_batch(none, none, none, f_ext, threads=2)
        assert solution.qdd.shape == (0, 2)
        assert solution.joint_wrench["link_2"].shape == (0, 6)
        assert np.shape(solution.residual) == (0,)


def test_header_of_exported_c_names_every_entry(tmp_path: Path) -> None:
    robot = synthetic.random_tree(6, 3)
    problem = HybridDynamics(robot, robot.joint_names[:2])
    files = problem.export_c(tmp_path, outputs=["joint_wrench", "acceleration"], wrenches=True)
    header = next(f for f in files if f.suffix == ".h").read_text()
    sizes = re.findall(r"^ \* (?:in |out) \w+ +(\d+) x", header, re.MULTILINE)
    names = re.findall(r"^ \*       \[\d+\] .+$", header, re.MULTILINE)
    assert len(names) == sum(map(int, sizes)) == robot.nq + 2 * robot.nv + 18 * robot.n_bodies


def test_trust_of_no_states_can_be_shown() -> None:
    problem = InverseDynamics(synthetic.chain(2))
    none = np.zeros((0, 2))
    assert "backward error" in str(problem.solve_batch(none, none, none).trust())


@pytest.mark.parametrize(
    ("problem", "third"),
    [
        (InverseDynamics(synthetic.chain(2)), "qdd"),
        (ForwardDynamics(synthetic.chain(2)), "torque"),
        (HybridDynamics(synthetic.chain(2), ["link_1"]), "known"),
    ],
    ids=["inverse", "forward", "hybrid"],
)
def test_third_argument_has_a_name_of_its_own(
    problem: InverseDynamics | ForwardDynamics | HybridDynamics, third: str
) -> None:
    q, qd, values = np.random.default_rng(0).normal(size=(3, 2))
    expected = problem.solve(q, qd, values)
    by_name = problem.solve(q, qd, **{third: values})
    many = problem.solve_batch(q[None], qd[None], **{third: values[None]})
    for found in (by_name.torque, many.torque[0]):
        np.testing.assert_allclose(found, expected.torque, rtol=1e-12)
    for found in (by_name.qdd, many.qdd[0]):
        np.testing.assert_allclose(found, expected.qdd, rtol=1e-12)
    for method in (problem.solve, problem.solve_batch):
        assert list(inspect.signature(method).parameters)[:4] == ["q", "qd", third, "f_ext"]
        assert "f_ext" in (inspect.getdoc(method) or "")


def test_equations_without_terms_have_no_residual() -> None:
    robot = KinematicTree("weightless", CHAIN.bodies, gravity=np.zeros(3))
    solution = InverseDynamics(robot).solve(*np.zeros((3, robot.nv)))
    assert solution.residual == 0.0
