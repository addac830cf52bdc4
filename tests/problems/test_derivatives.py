"""Derivatives of dynamics: differences, Pinocchio, dense twins; names, batches and errors."""

from __future__ import annotations

import copy
import inspect
import pickle
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import Phase, given, settings

import dynsys
from dynsys import KernelBuildError, KinematicTree, SingularSystemError, StateError, synthetic
from dynsys.kernel import build
from dynsys.kernel.llvm.computation import MatrixProgram
from dynsys.kernel.llvm.pair_tail import PairTail
from dynsys.kernel.llvm.solve_tail import SolveTail
from dynsys.plan.derivatives import Way, dense_derivatives, ways_to_record
from dynsys.plan.operations import program_operations
from dynsys.plan.record import SAMPLES, DynamicsSpec, _recorded_dynamics, dynamics_program
from dynsys.types import Array, BoolArray
from experiments.example_robots import load_quietly, pinocchio_model_of
from problems import AbstractDynamics, ForwardDynamics, HybridDynamics, InverseDynamics
from tests import strategies
from tests.kernel.exported_c import call, compile_and_check, needs_compiler
from tests.robots import CHAIN, ROBOTS, coupled_with_friction, robot_path

STEP = 2.0**-10
LARGE = {"tiago", "pr2", "g1", "icub", "romeo", "simple", "talos"}
"""More than 24 freedoms; derivatives of the forward dynamics of icub agree to 3e-9 only."""
SMALL = [given for given in ROBOTS if given[0].split("_")[0] not in LARGE]


def state_of(robot: KinematicTree, seed: int) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    qd, third = rng.normal(size=(2, robot.nv))
    return robot.random_configuration(rng), qd, third, rng.normal(size=(robot.n_bodies, 6))


def differences(robot: KinematicTree, known: BoolArray, state: tuple[Array, ...]) -> Array:
    """Answer by q, qd and what is given (3, nv, nv): fourth order, extended precision."""
    q, qd, third, wrenches = state
    outputs = ("torque", "qdd")
    program = dynamics_program(DynamicsSpec(robot, known, "x", outputs, wrenches=True))

    x = [q, qd, third]
    states = []
    for kind in range(3):
        for unit in np.eye(robot.nv):
            for step in (-2 * STEP, -STEP, STEP, 2 * STEP):
                moved = [robot.integrate(q, unit, step), qd + step * unit, third + step * unit]
                at = (*x[:kind], moved[kind], *x[kind + 1 :], wrenches.ravel())
                states.append(np.concatenate(at))
    found = program.evaluate(np.array(states, dtype=np.longdouble))
    torque, qdd = found.reshape(3, robot.nv, 4, 2, robot.nv).transpose(3, 2, 0, 4, 1)
    f = np.where(known[:, None], torque, qdd)
    return np.asarray((f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * STEP), dtype=float)


def kinds_of_knowledge(robot: KinematicTree, seed: int) -> dict[str, BoolArray]:
    """Freedoms whose qdd is known: all, none, those of some joints."""
    rng, nv = np.random.default_rng(seed), robot.nv
    some = np.zeros(nv, dtype=bool)
    for freedoms in robot.v_slices():
        some[freedoms] = rng.random() < 0.5
    return {"qdd": np.ones(nv, dtype=bool), "torque": np.zeros(nv, dtype=bool), "known": some}


def close(found: Array, expected: Array, tolerance: float) -> None:
    scale = 1.0 + float(np.abs(expected).max(initial=0.0))
    assert np.abs(found - expected).max(initial=0.0) <= tolerance * scale


@settings(max_examples=12, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(robot=strategies.trees(3, coupled=True), seed=strategies.seeds)
def test_every_joint_type_against_differences(robot: KinematicTree, seed: int) -> None:
    """Programs of all three problems, and their dense twin, with wrenches that act."""
    state = state_of(robot, seed)
    q, qd, third, wrenches = state
    for given_name, known in kinds_of_knowledge(robot, seed).items():
        spec = DynamicsSpec(robot, known, given_name, ("derivatives",), wrenches=True)
        x = np.concatenate([q, qd, third, wrenches.ravel()]).astype(np.longdouble)
        found = dynamics_program(spec).evaluate(x).astype(float)
        expected = differences(robot, known, state).ravel()
        close(found, expected, 1e-7)
        asked = DynamicsSpec(robot, known, "x", ("qdd",), wrenches=True)
        qdd = dynamics_program(asked).evaluate(x).astype(float)
        close(dense_derivatives(robot, q, qd, qdd, known, wrenches), found, 1e-9)


@settings(max_examples=5, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(robot=strategies.trees(5, coupled=True), seed=strategies.seeds)
def test_every_way_of_recording(robot: KinematicTree, seed: int) -> None:
    """The recursion, forward and reverse accumulation: the same numbers, wrenches too."""
    known = np.ones(robot.nv, dtype=bool)
    spec = DynamicsSpec(robot, known, "qdd", ("derivatives", "dtorque_df_ext"), wrenches=True)
    x = np.concatenate([part.ravel() for part in state_of(robot, seed)])
    expected, *others = (
        _recorded_dynamics(spec, (), "all", spec.samples(SAMPLES, 0), way).evaluate(x)
        for way in get_args(Way)
    )
    for found in others:
        close(found, expected, 1e-12)


def test_fewest_operations_of_small_robots() -> None:
    """Accumulation wins on hyq's legs, in a user's kernel; the recursion elsewhere."""
    for path, ways, at_most in (
        ("hyq_description/robots/hyq_no_sensors.urdf", 3, 2450),
        # 3009 to 3017 by the random states that tell which values are equal
        ("allegro_hand_description/urdf/allegro_right_hand.urdf", 3, 3017),
        ("panda_description/urdf/panda.urdf", 1, 5169),
    ):
        robot = load_quietly(robot_path(path), False)
        spec = spec_of(InverseDynamics(robot), "derivatives")
        assert len(ways_to_record(robot, spec.known)) == ways
        assert program_operations(dynamics_program(spec)).total <= at_most
        if "hyq" in path:
            both = InverseDynamics(robot).compile(outputs=("dtorque_dq", "dtorque_dqd"))
            assert both.operations is not None and both.operations.total <= 2248  # plain: 2248
    assert ways_to_record(robot, np.zeros(robot.nv, dtype=bool)) == ("recursion",)


@pytest.mark.parametrize("kind", strategies.ALL_KINDS)
def test_tangents_are_those_of_integrate(kind: str) -> None:
    rng = np.random.default_rng(3)
    robot = synthetic.random_tree(1, 0)
    while robot.joints[-1].kind != kind and kind != "fixed":
        robot = synthetic.random_tree(1, int(rng.integers(1 << 30)))
    q = robot.random_configuration(rng)
    h = 1e-6
    for unit, column in zip(np.eye(robot.nv), robot.tangent(q).T, strict=True):
        difference = robot.integrate(q, unit, h) - robot.integrate(q, unit, -h)
        np.testing.assert_allclose(column, difference / (2 * h), atol=1e-9)


class BesidePinocchio:
    """A robot without armature, in both packages and at one state."""

    def __init__(self, path: str, floating: bool) -> None:
        robot = load_quietly(robot_path(path), floating)
        self.model = pinocchio_model_of(robot_path(path), floating)
        self.model.armature[:] = 0.0
        self.order = dynsys.interop.PinocchioMap(robot, self.model)
        self.q, qd, self.third, _ = state_of(robot, 5)
        self.x = np.concatenate([self.q, qd, self.third])
        self.there = (self.order.q_to_pin(self.q), self.order.v_to_pin(qd))
        self.T = np.array([self.order.v_to_pin(e) for e in np.eye(robot.nv)]).T
        has_armature = robot.armature.any()
        self.robot = robot.with_armature(np.zeros(robot.nv)) if has_armature else robot

    def ours(self, kind: type[AbstractDynamics]) -> Array:
        """Derivatives of the answer with respect to q, qd and the third input."""
        program = dynamics_program(spec_of(kind(self.robot), "derivatives"))
        return program.evaluate(self.x).reshape(3, self.robot.nv, self.robot.nv)


@pytest.mark.parametrize(("path", "floating"), ROBOTS, ids=lambda x: str(x).split("_")[0])
def test_against_pinocchio(path: str, floating: bool) -> None:
    pin = pytest.importorskip("pinocchio")
    both = BesidePinocchio(path, floating)
    T, third = both.T, both.order.v_to_pin(both.third)
    data = both.model.createData()
    theirs = pin.computeRNEADerivatives(both.model, data, *both.there, third)
    ours = both.ours(InverseDynamics)
    for a, b in zip(ours[:2], theirs[:2], strict=True):
        close(a, T.T @ b @ T, 1e-9)
    close(ours[2], dynsys.crba(both.robot, both.q), 1e-9)


@pytest.mark.parametrize(("path", "floating"), SMALL, ids=lambda x: str(x).split("_")[0])
def test_forward_dynamics_against_pinocchio(path: str, floating: bool) -> None:
    pin = pytest.importorskip("pinocchio")
    both = BesidePinocchio(path, floating)
    T, third = both.T, both.order.tau_to_pin(both.third)
    data = both.model.createData()
    theirs = pin.computeABADerivatives(both.model, data, *both.there, third)
    ours = both.ours(ForwardDynamics)
    for a, b in zip(ours[:2], theirs[:2], strict=True):
        close(a, np.linalg.pinv(T) @ b @ T, 1e-9)
    close(ours[2], np.linalg.inv(dynsys.crba(both.robot, both.q)), 1e-9)


def spec_of(problem: AbstractDynamics, *outputs: str) -> DynamicsSpec:
    """What kernels of a problem are asked for."""
    return DynamicsSpec(problem.robot, problem.known, problem.given, outputs)


def three_problems(robot: KinematicTree) -> list[AbstractDynamics]:
    some = [name for name in robot.joint_names if name != "root"][::2]
    return [InverseDynamics(robot), ForwardDynamics(robot), HybridDynamics(robot, some)]


def test_calls_of_every_kind() -> None:
    """One state, batches, wrenches, arrays that code cannot use: all the same numbers."""
    robot = synthetic.random_tree(4, 2).with_friction(True)
    q, qd, third, wrenches = state_of(robot, 1)
    for problem in three_problems(robot):
        J = problem.derivatives(q, qd, third)
        given_name = problem.given
        assert J.q.shape == J.qd.shape == getattr(J, given_name).shape == (robot.nv,) * 2
        expected = differences(robot, problem.known, (q, qd, third, 0 * wrenches))
        for part, matrix in zip(expected, (J.q, J.qd, getattr(J, given_name)), strict=True):
            close(matrix, part, 1e-7)
        listed = problem.derivatives(q.tolist(), qd.tolist(), third.tolist())
        np.testing.assert_array_equal(listed.q, J.q)
        rows = problem.derivatives_batch(*(np.array([x] * 5) for x in (q, qd, third)))
        assert rows.q.shape == (5, robot.nv, robot.nv)
        close(rows.qd[3], J.qd, 1e-12)
        pushed = problem.derivatives(q, qd, third, wrenches)
        expected = differences(robot, problem.known, (q, qd, third, wrenches))
        close(pushed.q, expected[0], 1e-7)
        by_name = {name: wrenches[k] for k, name in enumerate(robot.body_names)}
        np.testing.assert_array_equal(problem.derivatives(q, qd, third, by_name).q, pushed.q)
        many = problem.derivatives_batch([q, q], [qd, qd], [third, third], [wrenches] * 2)
        close(many.q[1], pushed.q, 1e-12)
        out = np.full(3 * robot.nv**2, np.nan)
        assert problem.derivatives(q, qd, third, out=out).q.base is not None
        np.testing.assert_array_equal(out.reshape(3, robot.nv, -1)[1], J.qd)
        other = {"qdd", "torque", "known"} - {given_name}
        for name in other:
            with pytest.raises(AttributeError, match=f"by q, qd and {given_name}"):
                getattr(J, name)
        for twin in (copy.copy(J), pickle.loads(pickle.dumps(J))):
            np.testing.assert_array_equal(twin.q, J.q)


@pytest.mark.parametrize("backend", ["reference", "loops"])
def test_backends_without_a_kernel_answer_too(backend: str) -> None:
    robot = synthetic.chain(4)
    q, qd, third, _ = state_of(robot, 1)
    for kind in (InverseDynamics, ForwardDynamics):
        slow = kind(robot, backend=backend)  # type: ignore[arg-type]
        fast = kind(robot).derivatives(q, qd, third)
        close(slow.derivatives(q, qd, third).q, fast.q, 1e-10)
        close(slow.derivatives_batch([q], [qd], [third]).qd[0], fast.qd, 1e-10)
        with pytest.raises(KernelBuildError, match="no derivatives; use llvm"):
            slow.compile(outputs=["derivatives"])


def test_bad_states_are_named() -> None:
    robot = synthetic.random_tree(3, 1)
    q, qd, third, _ = state_of(robot, 1)
    problem = InverseDynamics(robot)
    with pytest.raises(StateError, match="qd"):
        problem.derivatives(q, qd[:-1], third)
    bad = third.copy()
    bad[0] = np.nan
    with pytest.raises(StateError, match="qdd"):
        problem.derivatives(q, qd, bad)
    with pytest.raises(StateError, match="qdd"):
        problem.derivatives_batch([q, q], [qd, qd], [third, bad])
    with pytest.raises(StateError, match="out"):
        problem.derivatives(q, qd, third, out=np.zeros(3))
    with pytest.raises(KernelBuildError, match="dtorque_dq"):
        problem.compile(outputs=["dqdd_dq"])
    with pytest.raises(KernelBuildError, match="dtorque_dq"):
        problem.compile(outputs=["dtorque_df_ext"])  # no wrenches among the inputs


def test_joints_without_inertia_are_named() -> None:
    robot = synthetic.chain(2)
    light = {name: 0.0 for name in robot.parameters if name.startswith(robot.body_names[-1])}
    robot = robot.with_parameters(light, physical=False)
    q, qd, third, _ = state_of(robot, 0)
    with pytest.raises(SingularSystemError, match=robot.joint_names[-1]):
        ForwardDynamics(robot).derivatives(q, qd, third)


def test_named_outputs_wrenches_and_parameters() -> None:
    """Torque and qdd are linear in wrenches and, inverse dynamics, in parameters."""
    robot = synthetic.random_tree(4, 7).with_friction(True)
    names = [name for name in robot.parameters if name.endswith((".mass", ".mx", ".viscous"))]
    values = np.array([robot.parameters[name] for name in names])
    q, qd, third, wrenches = state_of(robot, 2)
    for problem in three_problems(robot):
        answer = {"qdd": "torque", "torque": "qdd", "known": "unknown"}[problem.given]
        variables = ("q", "qd", problem.given, "f_ext", "parameters")
        outputs = [*problem.answers, *(f"d{answer}_d{name}" for name in variables)]
        kernel = problem.compile(outputs=outputs, wrenches=True, parameters=names)
        state = [q, qd, third, wrenches.ravel(), values]
        found = dict(zip(outputs, kernel.one(*state)[0], strict=True))
        J = problem.derivatives(q, qd, third, wrenches)
        close(found[f"d{answer}_dq"].reshape(J.q.shape), J.q, 1e-11)
        plain = problem.compile(wrenches=True, parameters=names)

        def at(k: int, x: Array) -> Array:
            found = plain.one(*state[:k], x, *state[k + 1 :])[0]  # noqa: B023
            return np.where(problem.known, found[0], found[-1])  # noqa: B023

        for k, name in ((3, "f_ext"), (4, "parameters")):
            for j in range(0, len(state[k]), 5):
                h = 1e-5
                up, down = state[k].copy(), state[k].copy()
                up[j] += h
                down[j] -= h
                slope = (at(k, up) - at(k, down)) / (2 * h)
                column = found[f"d{answer}_d{name}"].reshape(robot.nv, -1)[:, j]
                close(column, slope, 1e-6)


@needs_compiler
def test_exported_c_has_them(tmp_path: Path) -> None:
    robot = synthetic.random_tree(3, 4)
    problem = ForwardDynamics(robot)
    outputs = ["qdd", "dqdd_dq", "dqdd_dqd", "dqdd_dtorque"]
    problem.export_c(tmp_path, outputs=outputs)
    compile_and_check(tmp_path, "forwarddynamics")
    q, qd, third, _ = state_of(robot, 3)
    signature = spec_of(problem, *outputs).signature
    (found,) = call(tmp_path, "forwarddynamics", signature, np.array([[*q, *qd, *third]]))
    J = problem.derivatives(q, qd, third)
    matrices = found[robot.nv :].reshape(3, robot.nv, robot.nv)
    for ours, matrix in zip(matrices, (J.q, J.qd, J.torque), strict=True):
        close(ours, matrix, 1e-11)


@pytest.mark.slow
def test_large_robots_are_solved_by_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops over factors of H in place of straight-line code: one state, batches, float32."""
    monkeypatch.setattr(build, "FEWEST_FREEDOMS", 16)
    robot = synthetic.random_tree(12, 3)
    problem, state = ForwardDynamics(robot), state_of(robot, 2)[:3]
    spec = spec_of(problem, "derivatives")
    made = build.dynamics_computation(spec)
    assert isinstance(made, MatrixProgram) and isinstance(made.tail, SolveTail)
    x = np.concatenate(state).astype(np.longdouble)
    straight = dynamics_program(spec)
    expected = straight.evaluate(x).astype(float)
    close(made.evaluate(x).astype(float), expected, 1e-15)
    kernel = build.build_kernel(made, spec.signature)
    (found,), finite = kernel.one(*state)
    assert finite
    close(found, expected, 1e-10)
    (rows,), finite = kernel.batch(*(np.array([part] * 19) for part in state))
    assert finite
    close(rows[18], found, 1e-12)
    single = build.build_kernel(made, spec.signature, dtype="float32")
    close(single.one(*(part.astype(np.float32) for part in state))[0][0], expected, 1e-2)
    wrong = state[0].copy()
    wrong[robot.quaternion_slices[0]] *= 2.0
    assert not kernel.one(wrong, *state[1:])[1]  # NaN says that this is no configuration
    assert kernel.operations is not None
    # lanes of overlapping blocks and masks counted: 1.54 times on vectors of 512 bits
    assert kernel.operations.total < 1.6 * sum(straight.count().values())
    many = problem.derivatives_batch(*(np.array([part] * 300) for part in state))
    for all_of_them in (problem.derivatives(*state), many):
        for ours, matrix in zip(
            (all_of_them.q, all_of_them.qd, all_of_them.torque),
            expected.reshape(3, robot.nv, robot.nv),
            strict=True,
        ):
            close(ours[-1] if ours.ndim == 3 else ours, matrix, 1e-10)


@pytest.mark.parametrize("seed", [2, 5, 11])
def test_freedoms_side_by_side(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joints of every kind, wrenches, rotors and friction: lanes, sums and pairs."""
    monkeypatch.setattr(build, "FEWEST_SUPPORTS", 0)
    robot = synthetic.random_tree(9, seed)
    rng = np.random.default_rng(seed)
    robot = robot.with_armature(rng.uniform(0.1, 1.0, robot.nv))
    name = next(x for x in robot.parameters if x.endswith("viscous"))
    robot = robot.with_parameters({name: 0.7, name.replace("viscous", "coulomb"): 0.3})
    assert robot.nv >= 16 and max(len(range(*v.indices(99))) for v in robot.v_slices()) > 1
    known = np.ones(robot.nv, dtype=bool)
    q, qd, qdd, wrenches = state_of(robot, seed)
    for acting in (None, wrenches):
        spec = DynamicsSpec(robot, known, "qdd", ("derivatives",), acting is not None)
        made = build.dynamics_computation(spec)
        assert isinstance(made, MatrixProgram) and isinstance(made.tail, PairTail)
        inputs = [q, qd, qdd] if acting is None else [q, qd, qdd, acting.ravel()]
        expected = dense_derivatives(robot, q, qd, qdd, known, acting)
        close(made.evaluate(np.concatenate(inputs)), expected, 1e-12)
        kernel = build.build_kernel(made, spec.signature)
        close(kernel.one(*inputs)[0][0], expected, 1e-12)
        rows, finite = kernel.batch(*(np.tile(x, (19, 1)) for x in inputs))
        assert finite
        close(rows[0], np.tile(expected, (19, 1)), 1e-12)


def test_lanes_refuse_what_straight_line_code_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quaternion that is none and a number that is none make an answer not finite."""
    robot = synthetic.humanoid30()
    spec = spec_of(InverseDynamics(robot), "derivatives")
    assert build.by_pairs(spec)
    kernel = build.build_kernel(build.dynamics_computation(spec), spec.signature)
    q, qd, qdd, _ = state_of(robot, 3)
    assert kernel.one(q, qd, qdd)[1]
    for place in range(robot.nq):
        bad = q.copy()
        bad[place] = np.nan
        assert not kernel.one(bad, qd, qdd)[1], place
    for where in robot.quaternion_slices:
        bad = q.copy()
        bad[where] *= 1.1
        assert not kernel.one(bad, qd, qdd)[1]
    for k in range(robot.nv):
        bad = qd.copy()
        bad[k] = np.inf
        assert not kernel.one(q, bad, qdd)[1] and not kernel.one(q, qd, bad)[1]


def test_machine_code_that_takes_the_place_of_a_method_looks_like_it() -> None:
    problem = InverseDynamics(synthetic.chain(2))
    before = inspect.signature(problem.derivatives)
    problem.derivatives(*np.ones((3, 2)))
    assert "derivatives" in vars(problem)  # from now on it is a built-in
    after = inspect.signature(problem.derivatives)
    told = [(x.name, x.kind, x.default) for x in before.parameters.values()]
    assert [(x.name, x.kind, x.default) for x in after.parameters.values()] == told
    assert problem.derivatives.__name__ == "derivatives"
    assert inspect.getdoc(problem.derivatives) == inspect.getdoc(InverseDynamics.derivatives)


@pytest.mark.finding("Q-21")
def test_no_machine_code_makes_objects_of_interpreters_it_was_not_tried_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = np.ones((3, 2))
    told = []
    for version in ((3, 13, 0), (3, 14, 0)):
        monkeypatch.setattr(sys, "version_info", version)
        problem = InverseDynamics(synthetic.chain(2))
        told.append([problem.derivatives(*state).qd for _ in range(2)])
        assert inspect.isbuiltin(problem.derivatives) == (version < (3, 14))
    np.testing.assert_array_equal(*told)


@pytest.mark.parametrize("backend", ["llvm", "reference"])
@pytest.mark.parametrize("kind", [InverseDynamics, ForwardDynamics])
def test_derivatives_of_coupled_joints_with_friction(kind: Any, backend: str) -> None:
    robot = coupled_with_friction()
    problem = kind(robot, backend)
    state = np.random.default_rng(1).normal(size=(3, robot.nv))
    J = problem.derivatives(*state)
    answer = "torque" if kind is InverseDynamics else "qdd"
    for k, found in enumerate((J.q, J.qd, J.qdd if answer == "torque" else J.torque)):
        for freedom in range(robot.nv):
            step = np.zeros_like(state)
            step[k, freedom] = 1e-6
            ends = [getattr(problem.solve(*(state + s)), answer) for s in (step, -step)]
            np.testing.assert_allclose(found[:, freedom], (ends[0] - ends[1]) / 2e-6, atol=1e-6)


def test_derivatives_are_not_written_where_nothing_may_be() -> None:
    out = np.zeros(12)
    out.setflags(write=False)
    with pytest.raises(StateError, match="read-only"):
        InverseDynamics(CHAIN).derivatives([0, 0], [0, 0], [0, 0], out=out)
