"""Compiled estimators against dense constrained least squares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dynsys
from dynsys import KernelBuildError, KinematicTree, LinearSystem
from dynsys.kernel.build import estimation_kernel
from dynsys.kernel.cache import KernelCache
from dynsys.plan.estimator import estimator_program
from dynsys.plan.estimator_spec import ESTIMATES, EstimatorSpec
from dynsys.plan.saddle_program import _Place
from dynsys.system.equations import EquationBlock, Term
from dynsys.system.laws import known, known_inputs
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array
from tests.plan.saddle_layouts import linear, noise, rich_layout, state_of
from tests.plan.saddle_oracle import Posterior, posterior
from tests.strategies import seeds, trees

QUICK = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


def by_name(spec: EstimatorSpec, values: Array) -> dict[str, Array]:
    """Outputs of the program by name."""
    cuts = np.cumsum([size for _, size in spec.signature.outputs])[:-1]
    names = [name for name, _ in spec.signature.outputs]
    return dict(zip(names, np.split(values, cuts), strict=True))


def assert_same(
    got: dict[str, Array], truth: Posterior, spec: EstimatorSpec, tolerance: float
) -> None:
    for name in spec.outputs:
        want = truth.residual if name == "residual" else truth.d[spec.columns(name)]
        scale = max(1.0, float(np.abs(truth.d).max()))
        np.testing.assert_allclose(got[name], want, rtol=0, atol=tolerance * scale)
    for name in spec.uncertainty:
        variance = np.diag(truth.covariance)[spec.columns(name)]
        want = np.sqrt(np.maximum(variance, 0))
        np.testing.assert_allclose(got[f"std_{name}"], want, rtol=1e-8, atol=1e-8)


def answers(
    spec: EstimatorSpec, rng: np.random.Generator
) -> tuple[dict[str, Array], Posterior]:
    """What the program and dense least squares say of a random state."""
    robot, equations = spec.robot, spec.equations
    state = state_of(robot, equations, rng)
    values = estimator_program(spec).evaluate(np.concatenate(state))
    truth = posterior(robot, equations, np.asarray(spec.covariance), state)
    return by_name(spec, values), truth


def assert_right(
    spec: EstimatorSpec, rng: np.random.Generator, tolerance: float = 1e-9
) -> dict[str, Array]:
    """The program's answer at a random state, once it is known to be the dense one."""
    got, truth = answers(spec, rng)
    assert_same(got, truth, spec, tolerance)
    return got


@pytest.mark.slow
@QUICK
@given(trees(max_bodies=6, coupled=True), seeds)
def test_estimates_are_those_of_dense_least_squares(robot: KinematicTree, seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = rich_layout(robot, rng)
    R = noise(blocks, rng)
    spec = EstimatorSpec(robot, tuple(blocks), R, (*ESTIMATES, "residual"), ("torque", "qdd"))
    got, truth = answers(spec, rng)
    assert_same(got, truth, spec, 1e-9 * max(1, truth.condition / 1e3))


@pytest.mark.slow
def test_correlated_noise_and_all_uncertainties() -> None:
    robot = dynsys.synthetic.chain(4)
    rng = np.random.default_rng(2)
    blocks = rich_layout(robot, rng)
    size = sum(block.size for block in blocks)
    G = rng.normal(size=(size, size)) * (rng.random((size, size)) < 0.01) + np.eye(size)
    R = G @ G.T
    assert_right(EstimatorSpec(robot, tuple(blocks), R, ESTIMATES, ESTIMATES), rng)


@pytest.mark.parametrize("accelerated", [{0, 1, 2, 3, 4}, set(), {1, 3}])
def test_square_layouts_are_exact(accelerated: set[int]) -> None:
    robot = dynsys.synthetic.random_tree(5, seed=3)
    unknowns = LinearSystem(robot).unknowns
    blocks = known_inputs(unknowns, accelerated)
    rng = np.random.default_rng(0)
    R = noise(blocks, rng)
    spec = EstimatorSpec(robot, blocks, R, ESTIMATES)
    assert spec.is_square
    program = estimator_program(spec)
    system = LinearSystem(robot).with_equations(blocks)
    for _ in range(20):
        q, qd, y = state_of(robot, blocks, rng)
        D, b = system.assemble(q, qd, y)
        d = np.linalg.solve(D.toarray(), -b)
        got = program.evaluate(np.concatenate([q, qd, y]))
        want = np.concatenate([d[spec.columns(name)] for name in ESTIMATES])
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-10 * np.abs(want).max())


def test_forward_dynamics_divides_once_per_freedom() -> None:
    robot = dynsys.synthetic.chain(8)
    blocks = known_inputs(LinearSystem(robot).unknowns, set())
    size = sum(block.size for block in blocks)
    spec = EstimatorSpec(robot, blocks, np.eye(size), ("qdd",))
    assert estimator_program(spec).count()["div"] <= robot.nv


@pytest.mark.slow
def test_inverse_dynamics_never_divides() -> None:
    robot = dynsys.synthetic.humanoid30()
    blocks = known_inputs(LinearSystem(robot).unknowns, set(range(robot.n_bodies)))
    size = sum(block.size for block in blocks)
    program = estimator_program(EstimatorSpec(robot, blocks, np.eye(size), ("torque",)))
    assert program.count()["div"] == 0


def motion_and_wrenches_but_the_last(unknowns: UnknownLayout) -> list[EquationBlock]:
    """All joint accelerations, and the external wrenches of all bodies but the last."""
    n = unknowns.robot.n_bodies
    blocks = [known(unknowns, "qdd", i) for i in range(n)]
    return blocks + [known(unknowns, "external_wrench", i) for i in range(n - 1)]


def test_exact_and_noisy_rows_together() -> None:
    """Most wrenches known to be zero, one hand unknown, seen by a wrench sensor."""
    robot = dynsys.synthetic.chain(5)
    unknowns, rng = LinearSystem(robot).unknowns, np.random.default_rng(4)
    blocks = motion_and_wrenches_but_the_last(unknowns)
    blocks += [known(unknowns, "joint_wrench", 2), known(unknowns, "torque", 1)]
    blocks.append(linear(unknowns, "imu", "acceleration", 3, rng.normal(size=(3, 6))))
    R = noise(blocks, rng)
    R[5:29] = 0
    uncertain = ("torque", "external_wrench")
    assert_right(EstimatorSpec(robot, tuple(blocks), R, ESTIMATES, uncertain), rng)


def test_exactly_known_quantities_have_no_deviation() -> None:
    """Torques of two joints are exact, though no row names them: their sum and difference."""
    robot = dynsys.synthetic.chain(4)
    unknowns = LinearSystem(robot).unknowns
    rng = np.random.default_rng(4)
    blocks = list(known_inputs(unknowns, {0, 1, 2, 3}))
    terms = [
        Term.constant(unknowns.block("torque", 1), np.array([[1.0], [1.0]])),
        Term.constant(unknowns.block("torque", 2), np.array([[0.7], [-0.3]])),
    ]
    blocks.append(EquationBlock("two", "two", 1, 2, tuple(terms), None, True))
    R = noise(blocks, rng)
    R[-2:] = 0
    spec = EstimatorSpec(robot, tuple(blocks), R, ("torque",), ("torque",))
    got = assert_right(spec, rng)
    np.testing.assert_array_equal(got["std_torque"][1:3], 0)


@pytest.mark.slow
def test_the_variance_of_a_sum_has_every_covariance_twice() -> None:
    """var(w^T x) = w^T V w, by the entries of V on one side of its diagonal."""
    root = np.random.default_rng(0).normal(size=(4, 4))
    V, w = root @ root.T, np.array([-2.0, 0.0, 0.5, 1.0])
    sum_of = _Place(((3, 1.0), (0, -2.0), (2, 0.5)), 0, -1)
    entries = sum_of.pairs
    assert len(entries) == 6
    found = sum(factor * V[u, v] for (u, v), factor in entries.items())
    np.testing.assert_allclose(found, w @ V @ w)


def test_contact_force_from_torques_alone() -> None:
    """An unknown wrench at the tip is found from seven joint torques, base to tip."""
    robot = dynsys.synthetic.random_tree(7, seed=1, joint_types=("revolute",))
    tip = 6
    unknowns = LinearSystem(robot).unknowns
    rng = np.random.default_rng(4)
    blocks = [known(unknowns, "qdd", i) for i in range(7)]
    blocks += [known(unknowns, "torque", i) for i in range(7)]
    blocks += [known(unknowns, "external_wrench", i) for i in range(7) if i != tip]
    plate = np.eye(6)[[0, 1, 2, 3]]
    blocks.append(linear(unknowns, "plate", "external_wrench", tip, plate))
    blocks.append(linear(unknowns, "ft", "joint_wrench", tip, np.eye(6)[[4, 5]]))
    R = noise(blocks, rng)
    assert_right(EstimatorSpec(robot, tuple(blocks), R, ESTIMATES, ("external_wrench",)), rng)


def test_wrench_measured_on_the_parents_side_of_a_joint() -> None:
    """A sensor that cuts the parent sees X^T f: exact, although X has no constant pivot."""
    robot = dynsys.synthetic.chain(5)
    unknowns, rng = LinearSystem(robot).unknowns, np.random.default_rng(4)
    blocks = motion_and_wrenches_but_the_last(unknowns)
    pattern = robot.transform_pattern[2].T
    term = Term(unknowns.block("joint_wrench", 2), pattern, lambda kin: kin.X_up[2].T)
    blocks.append(EquationBlock("cut", "cut", 1, 6, (term,), None, True))
    R = noise(blocks, rng)
    spec = EstimatorSpec(robot, tuple(blocks), R, ESTIMATES)
    assert spec.is_square
    for _ in range(5):
        assert_right(spec, rng, 1e-10)


def test_bad_quaternions_give_nan() -> None:
    robot = dynsys.synthetic.random_tree(2, seed=0, joint_types=("spherical",))
    blocks = known_inputs(LinearSystem(robot).unknowns, {0, 1})
    size = sum(block.size for block in blocks)
    program = estimator_program(EstimatorSpec(robot, blocks, np.eye(size), ("torque",)))
    q, qd, y = state_of(robot, blocks, np.random.default_rng(0))
    assert np.isfinite(program.evaluate(np.concatenate([q, qd, y]))).all()
    for where in robot.quaternion_slices:
        q[where] *= 1.1
    assert robot.quaternion_slices
    with np.errstate(invalid="ignore"):
        assert not np.isfinite(program.evaluate(np.concatenate([q, qd, y]))).all()


def test_measured_accelerations_reach_up_the_chain() -> None:
    """The acceleration of the tip is exact, those of the joints below it are noisy."""
    robot = dynsys.synthetic.chain(4)
    unknowns = LinearSystem(robot).unknowns
    rng = np.random.default_rng(3)
    blocks = list(known_inputs(unknowns, set(range(4))))
    blocks.append(linear(unknowns, "tip", "acceleration", 3, rng.normal(size=(2, 6))))
    R = noise(blocks, rng)
    R[-2:] = 0
    assert_right(
        EstimatorSpec(robot, tuple(blocks), R, (*ESTIMATES, "residual"), ("qdd",)), rng
    )


@pytest.mark.slow
def test_zero_weight_is_a_missing_row() -> None:
    robot = dynsys.synthetic.chain(4)
    rng = np.random.default_rng(6)
    blocks = rich_layout(robot, rng)
    unknowns = LinearSystem(robot).unknowns
    blocks += [linear(unknowns, "more", "joint_wrench", 3, np.eye(6))]
    blocks += [linear(unknowns, "again", "joint_wrench", 1, np.eye(6))]
    R = noise(blocks, rng)
    place, names = {}, []
    start = 0
    for block in blocks:
        place[block.name] = slice(start, start + block.size)
        start += block.size
        names.append(block.name)
    here = place["again"]
    R[here.start, here.start + 1] = R[here.start + 1, here.start] = 0.1 * np.sqrt(
        R[here.start, here.start] * R[here.start + 1, here.start + 1]
    )
    switchable = [name for name in names if "external" in name or "again" in name]
    spec = EstimatorSpec(
        robot, tuple(blocks), R, ESTIMATES, ("torque",), switchable=tuple(switchable)
    )
    program = estimator_program(spec)
    q, qd, y = state_of(robot, blocks, rng)
    missing: Sequence[Sequence[int]] = (
        [],
        range(place[switchable[-2]].start, place[switchable[-2]].stop),
        [here.start],
        range(here.start, here.stop),
    )
    for rows in missing:
        weight = np.ones(len(y))
        weight[list(rows)] = 0
        values = program.evaluate(np.concatenate([q, qd, y, weight]))
        truth = posterior(robot, blocks, R, (q, qd, y), weight > 0)
        assert_same(by_name(spec, values), truth, spec, 1e-9)


def test_undetermined_unknowns_are_named() -> None:
    robot = dynsys.synthetic.chain(3)
    unknowns = LinearSystem(robot).unknowns
    blocks = tuple(known(unknowns, "external_wrench", i) for i in range(3))
    blocks += tuple(known(unknowns, "qdd", i) for i in range(2))
    with pytest.raises(KernelBuildError, match=robot.joint_names[2]):
        estimator_program(EstimatorSpec(robot, blocks, np.eye(20), ("torque",)))


def test_bad_questions_are_refused() -> None:
    robot = dynsys.synthetic.chain(2)
    blocks = known_inputs(LinearSystem(robot).unknowns, {0, 1})
    with pytest.raises(KernelBuildError, match="none of torque"):
        EstimatorSpec(robot, blocks, np.eye(14), ("torqe",))
    with pytest.raises(KernelBuildError, match="14 rows"):
        EstimatorSpec(robot, blocks, np.eye(13), ("torque",))
    with pytest.raises(KernelBuildError, match="no sensor"):
        EstimatorSpec(robot, blocks, np.eye(14), ("torque",), switchable=("nothing",))
    with pytest.raises(KernelBuildError, match="at least one"):
        EstimatorSpec(robot, blocks, np.eye(14), ())


@pytest.mark.slow
@settings(max_examples=3, deadline=None)
@given(st.just(dynsys.synthetic.random_tree(4, seed=8)), seeds)
def test_kernel_is_its_program(robot: KinematicTree, seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = rich_layout(robot, rng)
    R = noise(blocks, rng)
    spec = EstimatorSpec(robot, tuple(blocks), R, ESTIMATES, ("torque",))
    kernel = estimation_kernel(spec, cache=KernelCache(None))
    states = [state_of(robot, blocks, rng) for _ in range(9)]
    columns = [np.array(column) for column in zip(*states, strict=True)]
    answers, finite = kernel.batch(*columns)
    assert finite
    want = estimator_program(spec).evaluate(np.hstack(columns))
    np.testing.assert_allclose(np.hstack(answers), want, rtol=1e-9, atol=1e-9)


def test_cache_knows_equal_questions() -> None:
    robot = dynsys.synthetic.chain(2)
    unknowns = LinearSystem(robot).unknowns
    blocks = known_inputs(unknowns, {0, 1})
    same = known_inputs(LinearSystem(dynsys.synthetic.chain(2)).unknowns, {0, 1})
    first = EstimatorSpec(robot, blocks, np.eye(14), ("torque",))
    again = EstimatorSpec(dynsys.synthetic.chain(2), same, np.eye(14), ("torque",))
    other = EstimatorSpec(robot, blocks, 2 * np.eye(14), ("torque",))
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint != other.fingerprint
