"""Derivatives of estimates against differences of the general path, and encoder noise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import sensors
from dynsys import (
    FrameConstraint,
    KernelBuildError,
    KinematicTree,
    ModelError,
    StateError,
    synthetic,
)
from dynsys.model.spatial import Transform
from dynsys.recursive.constraint_rows import dense_rows
from dynsys.types import Array
from problems import EstimateDerivatives, Estimation, ForwardDynamics, InverseDynamics
from problems.estimation.derivatives import EstimatorSlopes
from problems.estimation.sensitivity import random_motions
from problems.measured.measured_system import QUANTITIES
from problems.report.estimates import uncertainty_part
from sensors import Layout
from tests.interop.cases import estimation
from tests.problems.estimation.estimation_cases import (
    FEET,
    forward_dynamics,
    generous,
    inverse_dynamics,
    noisy,
    on_force_sensors,
    readings,
    small,
    truth,
    values,
)

STEP = 1e-3


def slope(f: Callable[[float], Array]) -> Array:
    """Derivative at 0, fourth order."""
    at = [f(k * STEP) for k in (-2, -1, 1, 2)]
    return np.asarray((at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * STEP))


def whole(problem: Estimation, J: EstimateDerivatives, by: str) -> Array:
    """Derivatives of all unknowns, (n, variables)."""
    unknowns = problem.system.unknowns
    parts = {kind: getattr(getattr(J, kind), by) for kind in QUANTITIES}
    out = np.full((unknowns.size, parts["torque"].shape[-1]), np.nan)
    for kind, part in parts.items():
        out[unknowns.columns(kind)] = part
    return out


def compare(problem: Estimation, q: Array, qd: Array, y: Array, seed: int = 0) -> None:
    """Along random directions of q, qd and y; NaN in the same places as in the estimate."""
    rng, robot = np.random.default_rng(seed), problem.robot
    J = problem.derivatives(q, qd, y)

    def at(q: Array, qd: Array, y: Array) -> Array:
        return values(problem, problem.solve(q, qd, y))

    v = rng.normal(size=robot.nv)
    u = rng.normal(size=problem.layout.size) * ~problem.layout.exact
    expected = {
        "q": slope(lambda s: at(robot.integrate(q, v, s), qd, y)),
        "qd": slope(lambda s: at(q, qd + s * v, y)),
        "y": slope(lambda s: at(q, qd, y + s * u)),
    }
    for by, d in expected.items():
        found = whole(problem, J, by) @ (u if by == "y" else v)
        undetermined = np.isnan(d)
        assert np.array_equal(np.isnan(found), undetermined)
        scale = np.abs(d[~undetermined]).max()
        assert np.abs(found - d)[~undetermined].max() <= 1e-7 * scale, by


@pytest.mark.slow
@pytest.mark.parametrize(
    "layout", [inverse_dynamics, forward_dynamics, on_force_sensors, generous]
)
def test_humanoid(humanoid: KinematicTree, layout: Callable[[KinematicTree], Layout]) -> None:
    """Square layouts and one with far more than needed: exact rows, correlated noise."""
    problem = Estimation(humanoid, layout(humanoid), backend="superlu")
    state = truth(problem, 1, FEET)
    y = readings(problem, state)
    if layout is generous:  # far from agreement: multipliers count
        y = y + 3.0 * (noisy(problem, y, 2) - y)
    compare(problem, state.q, state.qd, y)


def test_every_joint_type() -> None:
    for seed in range(4):
        robot = synthetic.random_tree(5, seed).with_friction(True)
        layout = Layout(
            robot,
            [
                *sensors.all_joint_accelerations(robot, std=0.1),
                *sensors.all_joint_torques(robot, std=0.5),
                *sensors.zero_external_wrench_except(robot),
                sensors.Accelerometer("tip", robot.body_names[-1], std=0.2),
                sensors.Gyroscope("rate", robot.body_names[-1], std=0.1),
            ],
        )
        problem = Estimation(robot, layout, backend="superlu")
        state = truth(problem, seed)
        compare(problem, state.q, state.qd, noisy(problem, readings(problem, state), seed))


def test_missing_open_and_repeated() -> None:
    """Readings that are missing, that leave something open, or that repeat an exact one."""
    problem = small()
    state = truth(problem, 3, ["link_3"])
    y = noisy(problem, readings(problem, state), 1)
    gone = y.copy()
    gone[1] = np.nan
    compare(Estimation(problem.robot, problem.layout, backend="superlu"), *_at(state), gone)
    J = problem.derivatives(*_at(state), gone)
    assert not J.torque.y[:, 1].any() and J.torque.y[:, 0].any()

    robot = problem.robot
    few = Layout(robot, sensors.all_joint_accelerations(robot, std=0.1))
    blind = Estimation(robot, few, backend="dense")
    J = blind.derivatives(*_at(state), np.ones(3))
    assert np.isnan(J.torque.q).all() and np.isfinite(J.acceleration.q).all()
    compare(blind, *_at(state), np.ones(3))

    twice = Layout(
        robot,
        [
            *inverse_dynamics(robot).sensors,
            sensors.JointAcceleration("a", "link_1", std=0.0),
            sensors.JointAcceleration("b", "link_1", std=0.0),
        ],
    )
    repeated = Estimation(robot, twice, backend="dense")
    compare(repeated, *_at(state), readings(repeated, truth(repeated, 3)))


@pytest.mark.finding("F7")
@pytest.mark.parametrize("touched", [["link_3"], []], ids=["open", "square"])
@pytest.mark.parametrize("weak", [1e-3, 1e-4, 1e-5, 1e-7])
def test_what_is_determined_however_poorly_has_derivatives(
    weak: float, touched: list[str]
) -> None:
    """An acceleration seen a thousandth and less, beside a wrench that is open, or none."""
    robot, noise = synthetic.chain(3), {"position_std": 0.01, "velocity_std": 0.02}
    rows = {"qdd": {"link_1": [[1.0]], "link_2": [[weak]]}}
    told = [
        sensors.JointAcceleration("a", "link_1", std=0.1),
        sensors.LinearMeasurement("b", rows, std=0.1),
        sensors.JointAcceleration("c", "link_3", std=0.1),
        *sensors.zero_external_wrench_except(robot, touched),
    ]
    problem = Estimation(robot, Layout(robot, told, quiet=True))
    noisy = Estimation(robot, Layout(robot, told, quiet=True, **noise))  # type: ignore[arg-type]
    q, qd, y = (
        np.array([0.3, -0.5, 0.7]),
        np.array([0.2, 0.4, -0.6]),
        np.zeros(problem.layout.size),
    )
    y[:3] = 1.0, 1.0 + weak, 2.0
    compare(problem, q, qd, y)
    own, J, e = problem.solve(q, qd, y), problem.derivatives(q, qd, y), noisy.solve(q, qd, y)
    for kind in QUANTITIES:
        by_q, by_qd = getattr(J, kind).q * 0.01, getattr(J, kind).qd * 0.02
        more = (by_q**2).sum(axis=-1) + (by_qd**2).sum(axis=-1)
        expected = np.sqrt(own.std[kind].array ** 2 + more)
        assert np.array_equal(np.isfinite(expected), np.isfinite(getattr(e, kind).array))
        np.testing.assert_allclose(e.std[kind].array, expected, rtol=1e-6)


def _at(state: object) -> tuple[Array, Array]:
    return state.q, state.qd  # type: ignore[attr-defined]


def test_parameters() -> None:
    problem = small()
    robot, state = problem.robot, truth(small(), 2, ["link_3"])
    y = noisy(problem, readings(problem, state), 1)
    names = ["link_2.mass", "link_3.mx", "link_1.Ixy", "link_2.viscous", "link_1.armature"]
    J = problem.derivatives(*_at(state), y, parameters=names)
    for k, name in enumerate(names):

        def at(s: float, name: str = name) -> Array:
            value = robot.parameters[name] + s
            other = robot.with_parameters({name: value}, physical=False)
            layout = Layout(other, problem.layout.sensors, problem.layout.correlations)
            return values(problem, Estimation(other, layout, backend="superlu").solve(
                *_at(state), y
            ))  # fmt: skip

        expected = slope(at)
        found = whole(problem, J, "parameters")[:, k]
        assert np.abs(found - expected).max() <= 1e-7 * max(np.abs(expected).max(), 1e-3)
    assert problem.derivatives(*_at(state), y).torque.parameters.shape == (3, 0)
    with pytest.raises(ModelError, match="nothing"):
        problem.derivatives(*_at(state), y, parameters=["nothing"])
    weighed = Layout(
        robot, [*problem.layout.sensors, sensors.CentreOfMassAcceleration("com", std=0.1)]
    )
    with pytest.raises(KernelBuildError, match="'com' depends on masses"):
        Estimation(robot, weighed).derivatives(
            *_at(state), np.zeros(weighed.size), parameters=["link_2.mass"]
        )
    with pytest.raises(StateError, match="qd"):
        problem.derivatives(state.q, state.qd[:-1], y)


def test_inverse_dynamics_is_a_special_case() -> None:
    robot = synthetic.random_tree(4, 3)
    problem = Estimation(robot, inverse_dynamics(robot))
    state = truth(problem, 0)
    qdd = state.d[problem.system.unknowns.columns("qdd")]
    J = problem.derivatives(*_at(state), readings(problem, state))
    same = InverseDynamics(robot).derivatives(*_at(state), qdd)
    np.testing.assert_allclose(J.torque.q, same.q, atol=1e-9 * np.abs(same.q).max())
    np.testing.assert_allclose(J.torque.qd, same.qd, atol=1e-9 * np.abs(same.qd).max())
    by_qdd = J.torque.y[:, : robot.nv]
    np.testing.assert_allclose(by_qdd, same.qdd, atol=1e-9 * np.abs(same.qdd).max())


# ---- noise of encoders -----------------------------------------------------------------------


def noisy_chain(**noise: object) -> Estimation:
    robot = synthetic.chain(3)
    layout = Layout(
        robot,
        [
            *sensors.all_joint_accelerations(robot, std=0.1),
            *sensors.all_joint_torques(robot, std=0.5),
            *sensors.zero_external_wrench_except(robot),
        ],
        **noise,  # type: ignore[arg-type]
    )
    return Estimation(robot, layout)


def test_encoder_noise_is_in_every_deviation() -> None:
    """One state, batches, frames, every backend: readings' variance plus J Sigma J^T."""
    problem = noisy_chain(position_std={"link_1": 0.02, "link_3": 0.01}, velocity_std=0.05)
    exact = noisy_chain()
    layout, state = problem.layout, truth(problem, 3)
    y = readings(problem, state)
    J = problem.derivatives(*_at(state), y)
    expected = {}
    for kind in QUANTITIES:
        part, own = getattr(J, kind), exact.solve(*_at(state), y).std[kind].array
        more = (part.q * layout.position_std) ** 2 + (part.qd * layout.velocity_std) ** 2
        expected[kind] = np.sqrt(own**2 + more.sum(axis=-1))
        assert (expected[kind] > own).any() or kind == "external_wrench"  # exact
    rows = [np.array([x] * 300) for x in (*_at(state), y)]
    for backend in ("auto", "llvm", "superlu", "dense"):
        same = Estimation(problem.robot, layout, backend=backend)
        few, many = [x[:3] for x in rows], rows[: 3 if backend == "auto" else 0]
        answers = [same.solve(*_at(state), y), same.solve(*_at(state), y, uncertainty="all")]
        batches = [same.solve_batch(*few, uncertainty=("torque",))]
        batches += [same.solve_batch(*many, uncertainty=("torque",))] if many else []
        for kind in QUANTITIES:
            for e in answers:
                np.testing.assert_allclose(e.std[kind].array, expected[kind], atol=1e-9)
            for e in batches[:1]:
                np.testing.assert_allclose(e.std[kind].array[1], expected[kind], atol=1e-9)
        for e in batches:
            np.testing.assert_allclose(e.std.torque.array[2], expected["torque"], atol=1e-9)
    reference = problem.compile(backend="reference", uncertainty=("torque",))
    (_, std), _ = reference.one(*_at(state), y)
    np.testing.assert_allclose(std, expected["torque"], atol=1e-9)


def test_deviations_match_the_scatter_of_noisy_solves() -> None:
    """4000 solves with noise of everything; the experiment has 10^4 on real robots."""
    problem, n = noisy_chain(position_std=0.01, velocity_std=0.05), 4000
    robot, layout, state = problem.robot, problem.layout, truth(problem, 1)
    y, rng = readings(problem, state), np.random.default_rng(0)
    turns = layout.position_std * rng.normal(size=(n, robot.nv))
    q = np.array([robot.integrate(state.q, v, 1.0) for v in turns])
    qd = state.qd + layout.velocity_std * rng.normal(size=(n, robot.nv))
    found = problem.solve_batch(q, qd, y + layout.std * rng.normal(size=(n, layout.size)))
    std = problem.solve(*_at(state), y).std.torque.array
    without = noisy_chain().solve(*_at(state), y).std.torque.array
    ratio = found.torque.array.std(axis=0) / std
    assert np.abs(ratio - 1).max() < 4.5 / np.sqrt(2 * n)
    assert (std / without).max() > 1.5


def test_sensitivity_adds_up() -> None:
    problem = noisy_chain(position_std={"link_2": 0.05}, velocity_std=0.01)
    for part in problem.sensitivity(samples=3):
        total = part.readings + sum(part.position.values()) + sum(part.velocity.values())
        assert total == pytest.approx(1.0) and set(part.position) == {"link_2"}
        assert "position of link_2" in part.words and part.to_json()["std"] == part.std
    largest = max(noisy_chain().sensitivity(samples=2), key=lambda part: part.std)
    assert largest.words == "100 % sensors"


@pytest.mark.finding("F8")
def test_sensitivity_and_report_stand_where_exact_loops_are_closed() -> None:
    """Two links pinned at both ends: there are two postures, of one deviation each."""
    robot = synthetic.chain(2)
    pin = FrameConstraint(
        "pin",
        "link_2",
        components=("x", "y"),
        placement=Transform(np.eye(3), np.array([0.2, 0.0, 0.0])),
        other_placement=Transform(np.eye(3), np.array([0.25, 0.0, 0.27])),
    )
    told: list[sensors.AbstractSensor] = [sensors.JointTorque("tau", "link_2", std=0.1)]
    told += [sensors.ForceTorque("cell", "link_1", ("fx",), std=1.0)]
    told += sensors.zero_external_wrench_except(robot)
    est = Estimation(robot, Layout(robot, told, quiet=True), constraints=[pin])
    (q, _) = est.layout.configurations(2, 5)
    assert ForwardDynamics(robot, constraints=[pin]).close(q) == pytest.approx(q)
    expected = est.solve(q, np.zeros(2), np.zeros(est.layout.size)).std.torque.array
    found = est.sensitivity(samples=8)
    assert [part.std for part in found] == pytest.approx(expected)
    for joint, std in zip(uncertainty_part(est, None).joints, expected, strict=True):
        assert (joint.low, joint.high) == pytest.approx((std, std))


@pytest.mark.finding("F8", "Q-22")
@pytest.mark.parametrize("as_sensor", [True, False])
@pytest.mark.parametrize("ends", [("link_1", "link_5"), ("link_5", -1), (-1, "link_5")])
def test_random_motions_close_exact_loops_and_keep_them_closed(
    ends: tuple[str | int, str | int], as_sensor: bool
) -> None:
    robot = synthetic.chain(5, generic=True)
    loop = sensors.LoopClosure("pin", *ends, components=("x", "y"))
    told = [
        *sensors.all_joint_torques(robot, std=0.1),
        *sensors.zero_external_wrench_except(robot),
    ]
    layout = Layout(robot, [*told, loop] if as_sensor else told, quiet=True)
    est = Estimation(robot, layout, constraints=[] if as_sensor else [loop])
    for q, qd, _ in zip(*random_motions(est, 4, 0), strict=True):
        rows = dense_rows(robot, [loop.constraint], q, qd)
        np.testing.assert_allclose(rows.error, 0, atol=1e-8)
        np.testing.assert_allclose(rows.velocity, 0, atol=1e-10)
        assert np.linalg.norm(qd) > 0.1


@pytest.mark.finding("Q-22")
def test_what_is_held_anywhere_is_no_loop() -> None:
    robot = synthetic.chain(5, generic=True)
    still = FrameConstraint("tip", "link_5", components=("x", "y"))
    layout = Layout(robot, sensors.all_joint_torques(robot, std=0.1), quiet=True)
    assert not Estimation(robot, layout, constraints=[still]).layout.loops


def many_states(est: Estimation, n: int) -> tuple[Array, Array, Array]:
    """Motions and readings; readings of exact sensors are zero."""
    rng, robot = np.random.default_rng(6), est.robot
    q = np.array([robot.random_configuration(rng) for _ in range(n)])
    y = rng.normal(size=(n, est.layout.size)) * ~est.layout.exact
    return q, rng.normal(size=(n, robot.nv)), y


def test_many_states_are_those_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kernel, one by one where readings are missing, and all of a small batch."""
    est = estimation()
    q, qd, y = many_states(est, 70)
    y[3, 0] = np.nan
    asked, at = [], EstimatorSlopes.at
    monkeypatch.setattr(EstimatorSlopes, "at", lambda *x: asked.append(1) or at(*x))
    mass = f"{est.robot.body_names[-1]}.mass"
    J = est.derivatives_batch(q, qd, y, parameters=[mass])
    assert len(asked) <= 3  # the kernel did all others
    few = est.derivatives_batch(q[:4], qd[:4], y[:4], parameters=[mass])
    for k in (0, 3, 69):
        one = est.derivatives(q[k], qd[k], y[k], parameters=[mass])
        for quantity in ("torque", "qdd"):
            for by in ("q", "qd", "y", "parameters"):
                exact = getattr(getattr(one, quantity), by)
                found = getattr(getattr(J, quantity), by)
                assert found.shape == (70, *exact.shape)
                assert np.abs(found[k] - exact).max() <= 1e-9 * (1 + np.abs(exact).max())
                if k < 4:
                    assert np.array_equal(getattr(getattr(few, quantity), by)[k], exact)


def test_many_deviations_with_encoder_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    est = noisy_chain(position_std=0.01, velocity_std=0.05)
    q, qd, y = many_states(est, 300)
    y[5, 0] = np.nan
    found = est.solve_batch(q, qd, y).std.torque.array
    assert np.abs(found[5]).max() > 0
    asked: list[int] = []
    general = Estimation(est.robot, est.layout, backend="superlu")
    exact = [general.solve(q[k], qd[k], y[k]).std.torque.array for k in (0, 5, 299)]
    np.testing.assert_allclose(found[[0, 5, 299]], exact, rtol=1e-8)
    at = EstimatorSlopes.at
    monkeypatch.setattr(EstimatorSlopes, "at", lambda *x: asked.append(1) or at(*x))
    again = est.solve_batch(q, qd, y).std.torque.array
    assert len(asked) <= 3 and np.array_equal(again, found)  # the kernel did all others


@pytest.mark.finding("E-4")
def test_postures_with_more_or_fewer_zeros_follow_each_other() -> None:
    """Where something is open, a sum of sparse matrices keeps no zeros: patterns differ."""
    robot = synthetic.chain(3)
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_accelerations(robot, std=0.1),
            *sensors.zero_external_wrench_except(robot),
        ],
    )
    problem, off = Estimation(robot, layout), {"link_1/no_contact": False}
    y = np.where(np.isnan(layout.constants), 0.5, layout.constants)
    for q in ([0.0, 0.0, 0.0], [0.3, -0.4, 0.5], [0.0, 0.0, 0.0], [1.0, 0.0, 2.0]):
        J = problem.derivatives(q, [0.1, 0.2, 0.3], y, active=off).torque.q
        same = problem.derivatives(q, [0.1, 0.2, 0.3], y).torque.q
        assert np.isnan(J[0]).all()
        np.testing.assert_allclose(J[1:], same[1:], atol=1e-9)
