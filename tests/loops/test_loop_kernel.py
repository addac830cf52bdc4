"""Loops against the recursions they are: any robot, any mix of known accelerations."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dynsys
from dynsys import KernelBuildError, KinematicTree, ModelError, StateError, synthetic
from dynsys.loops import LoopInertiaMatrix, LoopKernel, crba, prefer_loops
from dynsys.loops.loop_kernel import estimated_operations
from dynsys.plan.record import DynamicsSpec, body_quantities, dynamics_program
from dynsys.types import Array, BoolArray
from tests import strategies
from tests.processes import LIMIT

OUTPUTS = ("torque", "qdd", "acceleration", "joint_wrench")
slow = settings(deadline=None, max_examples=60)


def close(actual: Array, expected: Array, tolerance: float = 1e-10) -> None:
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


def by_joint(robot: KinematicTree, choose: list[bool]) -> BoolArray:
    known = np.zeros(robot.nv, dtype=bool)
    for v, chosen, body in zip(robot.v_slices(), choose, robot.bodies, strict=True):
        if body.coupling is None:
            known[v] = chosen
    return known


def state(robot: KinematicTree, seed: int = 0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    q = robot.random_configuration(rng)
    return q, rng.normal(size=robot.nv), rng.normal(size=robot.nv)


@pytest.mark.slow
@slow
@given(data=st.data(), coupled=st.booleans())
def test_all_outputs_for_any_mix_of_known_accelerations(
    data: st.DataObject, coupled: bool
) -> None:
    robot = data.draw(strategies.trees(max_bodies=9, coupled=coupled))
    q, qd, qdd = data.draw(strategies.motions(robot))
    choose = data.draw(
        st.one_of(
            st.just([True] * robot.n_bodies),
            st.just([False] * robot.n_bodies),
            st.lists(st.booleans(), min_size=robot.n_bodies, max_size=robot.n_bodies),
        )
    )
    known = by_joint(robot, choose)
    f_ext = np.random.default_rng(1).normal(size=(robot.n_bodies, 6))
    torque = dynsys.recursive.rnea(robot, q, qd, qdd, f_ext)
    bodies = body_quantities(robot, q, qd, qdd, f_ext)
    condition = np.linalg.cond(dynsys.recursive.crba(robot, q))
    assume(condition < 1e8)
    kernel = LoopKernel(robot, known, "given", OUTPUTS, wrenches=True)
    results, finite = kernel.one(q, qd, np.where(known, qdd, torque), f_ext.ravel())
    assert finite
    tolerance = 1e-10 if known.all() else 1e-10 + 1e-14 * float(condition)
    close(results[0], torque, tolerance)
    close(results[1], qdd, tolerance)
    close(results[2], bodies["acceleration"].ravel(), tolerance)
    close(results[3], bodies["joint_wrench"].ravel(), tolerance)


@pytest.mark.slow
@slow
@given(data=st.data(), coupled=st.booleans())
def test_inertia_matrix(data: st.DataObject, coupled: bool) -> None:
    robot = data.draw(strategies.trees(max_bodies=9, coupled=coupled))
    q, _, _ = data.draw(strategies.motions(robot))
    close(crba(robot, q), dynsys.recursive.crba(robot, q), 1e-12)


@pytest.mark.slow
@slow
@given(data=st.data())
def test_forward_dynamics_agrees_with_the_recursion(data: st.DataObject) -> None:
    robot = data.draw(strategies.trees(max_bodies=12))
    q, qd, torque = data.draw(strategies.motions(robot))
    expected = dynsys.recursive.aba(robot, q, qd, torque)
    kernel = LoopKernel(robot, np.zeros(robot.nv, dtype=bool), "torque", ("qdd",))
    (qdd,), finite = kernel.one(q, qd, torque)
    assert finite
    condition = float(np.linalg.cond(dynsys.recursive.crba(robot, q)))
    close(qdd, expected, 1e-10 + 1e-14 * condition)


@pytest.mark.slow
@pytest.mark.parametrize(
    "robot",
    [
        synthetic.chain(1000),
        synthetic.random_tree(2000, 5, joint_types=["revolute"]),
        synthetic.random_tree(
            300, 7, joint_types=["revolute", "prismatic", "spherical", "planar"]
        ),
    ],
    ids=["chain 1000", "tree 2000", "mixed tree 300"],
)
def test_large_robots(robot: KinematicTree) -> None:
    q, qd, qdd = state(robot)
    qd *= 0.1
    everything = np.ones(robot.nv, dtype=bool)
    (torque,), finite = LoopKernel(robot, everything, "qdd", ("torque",)).one(q, qd, qdd)
    assert finite
    close(torque, dynsys.recursive.rnea(robot, q, qd, qdd), 1e-12)
    (found,), finite = LoopKernel(robot, ~everything, "torque", ("qdd",)).one(q, qd, torque)
    assert finite
    reference = dynsys.recursive.aba(robot, q, qd, torque)
    own_error = float(np.abs(reference - qdd).max())  # what rounding does to the recursion
    np.testing.assert_allclose(found, reference, rtol=0, atol=1e-10 + 10 * own_error)


@pytest.mark.slow
def test_batch_equals_single_states_in_any_layout() -> None:
    robot = synthetic.random_tree(12, 3, joint_types=["revolute", "free", "helical"])
    states = [state(robot, seed) for seed in range(7)]
    q, qd, given_ = (np.array(column) for column in zip(*states, strict=True))
    kernel = LoopKernel(robot, np.zeros(robot.nv, dtype=bool), "given", ("qdd", "torque"))
    (expected, torque), _ = kernel.batch(q, qd, given_)
    for k, one in enumerate(states):
        np.testing.assert_array_equal(kernel.one(*one)[0][0], expected[k])
    np.testing.assert_array_equal(torque, given_)
    wide = np.zeros((7, 2 * robot.nv))
    strided = wide[:, ::2]
    strided[...] = qd
    strided.setflags(write=False)
    out = (np.zeros((robot.nv, 7)).T, np.zeros((7, robot.nv), dtype=np.float32))
    for threads in (1, 3, 20):
        results, finite = kernel.batch(
            np.asfortranarray(q), strided, given_, out=out, threads=threads
        )
        assert finite and results[0] is out[0]
        np.testing.assert_array_equal(out[0], expected)
    overlapping, _ = kernel.batch(q, qd, given_, out=(given_.copy(), given_))
    np.testing.assert_array_equal(overlapping[0], expected)


def test_no_states() -> None:
    robot = synthetic.chain(3)
    kernel = LoopKernel(robot, np.ones(3, dtype=bool), "qdd", ("torque",))
    (torque,), finite = kernel.batch(*[np.zeros((0, 3))] * 3, threads=4)
    assert torque.shape == (0, 3) and finite


def test_workspaces_keep_nothing_from_one_state_to_the_next() -> None:
    robot = synthetic.random_tree(15, 2)
    q, qd, torque = state(robot)
    kernel = LoopKernel(robot, np.zeros(robot.nv, dtype=bool), "given", OUTPUTS)
    before, finite = kernel.one(q, qd, torque)
    assert finite
    for bad in (np.nan, np.inf):
        for k in range(3):
            inputs = [q.copy(), qd.copy(), torque.copy()]
            inputs[k][:] = bad
            assert not kernel.one(*inputs)[1]
    after, finite = kernel.one(q, qd, torque)
    assert finite
    for x, y in zip(before, after, strict=True):
        np.testing.assert_array_equal(x, y)


def test_many_turns_cost_no_more_than_their_rounding() -> None:
    robot = synthetic.chain(6)
    q, qd, qdd = state(robot)
    kernel = LoopKernel(robot, np.ones(6, dtype=bool), "qdd", ("torque",))
    for turns in (0.0, 1e3, 1e6, -1e9):
        angles = q + 2 * np.pi * turns
        tolerance = 1e-13 + 1e-14 * abs(turns)
        expected = dynsys.recursive.rnea(robot, angles, qd, qdd)
        close(kernel.one(angles, qd, qdd)[0][0], expected, tolerance)


def test_single_precision_outputs() -> None:
    robot = synthetic.chain(5)
    q, qd, qdd = (x.astype(np.float32) for x in state(robot))
    kernel = LoopKernel(robot, np.ones(5, dtype=bool), "qdd", ("torque",), dtype="float32")
    (torque,), _ = kernel.one(q, qd, qdd)
    assert torque.dtype == np.float32
    close(torque, dynsys.recursive.rnea(robot, q, qd, qdd), 1e-6)


def test_signature_is_that_of_the_straight_line_program() -> None:
    robot = synthetic.random_tree(4, 1)
    known = np.ones(robot.nv, dtype=bool)
    kernel = LoopKernel(robot, known, "qdd", ("joint_wrench", "torque"), wrenches=True)
    names = [
        ("q", robot.nq),
        ("qd", robot.nv),
        ("qdd", robot.nv),
        ("f_ext", 6 * robot.n_bodies),
    ]
    assert list(kernel.signature.inputs) == names
    assert kernel.signature.outputs == (("joint_wrench", 24), ("torque", robot.nv))
    assert LoopInertiaMatrix(robot).signature.outputs == (("H", robot.nv**2),)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("kind", ["spherical", "free"])
def test_quaternion_without_unit_norm_is_not_answered(kind: str, known: bool) -> None:
    robot = synthetic.random_tree(3, 2, joint_types=["revolute", kind])
    assert kind in [joint.kind for joint in robot.joints]
    q, qd, given = state(robot)
    kernel = LoopKernel(robot, np.full(robot.nv, known), "given", ("torque", "qdd"))
    assert kernel.one(q, qd, given)[1]
    for factor, answered in ((1 + 5e-7, True), (1 + 2e-6, False), (1.5, False), (0.0, False)):
        scaled = q.copy()
        scaled[robot.quaternion_slices[0]] *= factor
        assert kernel.one(scaled, qd, given)[1] == answered
        rows = [np.stack([x, x]) for x in (q, qd, given)]
        rows[0][1] = scaled
        (first, second), finite = kernel.batch(*rows)
        assert finite == answered
        assert np.isfinite(first[0]).all() and np.isfinite(second[0]).all()


def test_wrong_arguments_are_named() -> None:
    robot = synthetic.chain(3)
    good = np.zeros(3)
    kernel = LoopKernel(robot, np.ones(3, dtype=bool), "qdd", ("torque",))
    with pytest.raises(StateError, match=r"qd: expected shape \(3\), got \(2,\)"):
        kernel.one(good, np.zeros(2), good)
    with pytest.raises(StateError, match="expected 3 arguments"):
        kernel.one(good, good)
    with pytest.raises(StateError, match="qdd: expected an array of real numbers"):
        kernel.one(good, good, ["a", "b", "c"])
    with pytest.raises(StateError, match="as many rows"):
        kernel.batch(np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((1, 3)))
    with pytest.raises(StateError, match="out, torque: expected a float array"):
        kernel.one(good, good, good, out=(np.zeros(4),))
    read_only = np.zeros(3)
    read_only.setflags(write=False)
    with pytest.raises(StateError, match="read-only"):
        kernel.one(good, good, good, out=(read_only,))
    with pytest.raises(StateError, match="out: expected 1 arrays"):
        kernel.one(good, good, good, out=())


def test_wrong_requests_are_named() -> None:
    robot = synthetic.random_tree(3, 0, joint_types=["spherical"])
    mixed = np.ones(robot.nv, dtype=bool)
    mixed[1] = False
    with pytest.raises(ModelError, match="freedoms of one joint go together"):
        LoopKernel(robot, mixed, "given", ("torque",))
    with pytest.raises(KernelBuildError, match="unknown outputs"):
        LoopKernel(robot, mixed, "given", ("power",))
    with pytest.raises(KernelBuildError, match="booleans"):
        LoopKernel(robot, np.ones(2, dtype=bool), "given", ("torque",))
    with pytest.raises(KernelBuildError, match="dtype"):
        LoopKernel(robot, np.ones(robot.nv, dtype=bool), "qdd", ("torque",), dtype="float16")


def test_arrays_that_fit_are_used_as_they_are() -> None:
    robot = synthetic.chain(3)
    kernel = LoopKernel(robot, np.zeros(3, dtype=bool), "torque", ("qdd",))
    q, qd, torque = state(robot)
    (expected,), _ = kernel.one(list(q), list(qd), list(torque))
    qdd = torque.copy()
    assert kernel.fast(q, qd, qdd, qdd) is True  # inputs are read before outputs are written
    np.testing.assert_array_equal(qdd, expected)
    fixed = np.zeros(3)
    fixed.setflags(write=False)
    unfit = (np.zeros(2), np.zeros(3, np.float32), fixed, [0.0] * 3)
    assert all(kernel.fast(q, qd, torque, out) is None for out in unfit)
    assert kernel.fast(q, qd, qdd) is None
    assert kernel.fast(list(q), qd, torque, qdd) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_no_answer_depends_on_must_be_finite(bad: float) -> None:
    robot = synthetic.random_tree(4, 1, joint_types=["free", "revolute"])
    free = next(k for k, joint in enumerate(robot.joints) if joint.nq == 7)
    assert robot.parent[free] == -1
    q, qd, given = (np.array([x, x]) for x in state(robot))
    q[1, robot.q_slices()[free].start] = bad
    for known in (True, False):
        kernel = LoopKernel(robot, np.full(robot.nv, known), "given", ("torque", "qdd"))
        answers, finite = kernel.batch(q, qd, given)
        assert not finite
        assert [all(np.isfinite(x[k]).all() for x in answers) for k in (0, 1)] == [True, False]


# ---- which robots get loops ---------------------------------------------------------------


def test_usual_robots_get_straight_line_code_and_large_ones_loops() -> None:
    assert not prefer_loops(synthetic.humanoid30())
    assert not prefer_loops(synthetic.chain(100))
    assert prefer_loops(synthetic.chain(300))
    assert prefer_loops(synthetic.chain(10), limit=1000)


@pytest.mark.slow
@pytest.mark.parametrize(
    "robot", [synthetic.chain(20), synthetic.humanoid30(), synthetic.random_tree(12, 1)]
)
def test_estimate_is_within_a_factor_of_two(robot: KinematicTree) -> None:
    spec = DynamicsSpec(robot, np.zeros(robot.nv, dtype=bool), "torque", ("qdd",))
    program = dynamics_program(spec)
    assert 0.5 < len(program.op) / estimated_operations(robot) < 2


@pytest.mark.slow
def test_import_loads_no_compiler() -> None:
    code = "import dynsys.loops, sys; sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT)
