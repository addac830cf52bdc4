"""At right angles rows cancel to rounding; what is left of them is no knowledge.

A row counts by the size of the terms it is a sum of (:mod:`dynsys.system.size`), in every way
to an answer: dense, sparse, compiled, in batches, in verdicts.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import dynsys
import problems
import sensors
from dynsys import KinematicTree, LinearSystem
from dynsys.cholmod import has_cholmod
from dynsys.model.body import Body
from dynsys.model.joints import Prismatic, Revolute
from dynsys.model.spatial import Inertia, Transform
from dynsys.system.equations import Kinematics
from dynsys.system.response import LawResponse
from dynsys.types import Array
from problems import ContradictionError
from problems.measured.measured_system import MeasuredSystem
from problems.measured.reduced import noise_axes
from problems.verdict.posture import PostureRank
from problems.verdict.repairs import repairs
from sensors import AbstractSensor

BACKENDS = ["auto", "dense", "superlu", *(["cholmod"] if has_cholmod() else [])]
X, Y, Z = np.eye(3)
QUARTER = np.pi / 2


def arm(axes: tuple[Array, Array], elbow: Array, tip: Array) -> KinematicTree:
    """Two links; the elbow in the first, the tip in the second."""

    def link(name: str, parent: int, axis: Array, at: Array, end: Array) -> Body:
        inertia = Inertia(1.0, 0.5 * end, np.diag([0.1, 0.2, 0.3]))
        return Body(name, parent, Revolute(axis), Transform(np.eye(3), at), inertia)

    bodies = [link("upper", -1, axes[0], np.zeros(3), elbow)]
    return KinematicTree("arm", [*bodies, link("lower", 0, axes[1], elbow, tip)])


def held(robot: KinematicTree, tip: Array, std: float = 0.0) -> list[AbstractSensor]:
    """The tip is held at a point by a pure force."""
    point = tuple(tip.tolist())
    return [
        sensors.ExternalWrench("free", "upper", value=0.0),
        sensors.PureForce("force", "lower", xyz=point),
        sensors.RigidContact("contact", "lower", xyz=point, holds="point", std=std),
    ]


def torques(robot: KinematicTree, std: float) -> list[AbstractSensor]:
    return [sensors.JointTorque(f"t {name}", name, std=std) for name in robot.joint_names]


def estimation(robot: KinematicTree, some: list[AbstractSensor], backend: str = "auto"):  # type: ignore[no-untyped-def]
    return problems.Estimation(robot, sensors.Layout(robot, some), backend=backend)


STRETCHED = np.array([0.0, -QUARTER])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("std", [0.0, 0.1])
def test_a_stretched_arm_without_torque_sensors_is_not_determined(
    backend: str, std: float
) -> None:
    """It answered (0, 0) with a deviation of zero, or of 1.6e15 where the contact has noise."""
    robot = arm((X, X), Y, Z)
    e = estimation(robot, held(robot, Z, std), backend).solve(STRETCHED, np.zeros(2), {})
    assert not e.determined.qdd.array.any()
    assert np.isnan(e.qdd.array).all() and np.isnan(e.std.qdd.array).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("std", [0.0, 0.1])
@pytest.mark.finding("item 0")
def test_a_stretched_arm_with_torque_sensors_answers(backend: str, std: float) -> None:
    """Exact torques were called a contradiction. The answer: the tip moves along the arm only.

    qdd_2 = -2 qdd_1, and H qdd + h = tau + J^T f with f across the arm unknown.
    """
    robot = arm((X, X), Y, Z)
    est = estimation(robot, held(robot, Z) + torques(robot, std), backend)
    tau = np.array([5.0, 1.0])
    e = est.solve(STRETCHED, np.zeros(2), dict(zip(["t upper", "t lower"], tau, strict=True)))
    H = dynsys.crba(robot, STRETCHED)
    h = dynsys.rnea(robot, STRETCHED, np.zeros(2), np.zeros(2))
    motion, arms = np.array([1.0, -2.0]), np.array([2.0, 1.0])  # J qdd = 2 qdd_1 + qdd_2
    speed, _ = np.linalg.solve(np.column_stack([H @ motion, -arms]), tau - h)
    np.testing.assert_allclose(e.qdd.array, speed * motion, rtol=1e-12)
    assert e.determined.torque.array.all()
    assert (e.std.qdd.array > 0).all() == (std > 0)


def snapped(robot: KinematicTree, q: Array) -> Kinematics:
    """Kinematics at multiples of a right angle without rounding."""
    exact = Kinematics.at(robot, q, np.zeros(robot.nv))
    X_up = tuple(Transform(np.round(X.E), np.round(X.r)) for X in exact.transforms)
    return Kinematics(robot, exact.qd, X_up, tuple(X.matrix() for X in X_up), exact.velocity)


@pytest.mark.finding("R-1", "item 0")
def test_arms_at_right_angles_see_what_they_see_without_rounding() -> None:
    """144 of these 1296 arms saw a direction that does not exist, or none that does."""
    axes, points = (X, Y, Z), (X, Y, Z)
    wrong = tried = 0
    for first, second, elbow, tip in product(axes, axes, points, points):
        robot = arm((first, second), elbow, tip)
        measured = MeasuredSystem(robot, sensors.Layout(robot, held(robot, tip)), None)
        for k in product(range(4), range(4)):
            q = QUARTER * np.array(k)
            B = measured.reduced(snapped(robot, q)).B
            expected = B.shape[1] - np.linalg.matrix_rank(B)
            found = measured.reduced(Kinematics.at(robot, q, np.zeros(2))).rank()
            wrong, tried = wrong + (found.nullity != expected), tried + 1
    assert (wrong, tried) == (0, 1296)


def test_a_batch_at_right_angles_is_answered_as_its_states_are() -> None:
    robot = arm((X, X), Y, Z)
    est = estimation(robot, held(robot, Z) + torques(robot, 0.1))
    q = QUARTER * np.array(list(product(range(4), range(4))) * 20)
    y = np.random.default_rng(0).normal(size=(len(q), est.layout.size))
    y[:, : est.layout.size - 2] = 0.0
    y[::3, -1] = np.nan
    answers = est.reduced.solve(q, 0 * q, y, ("qdd", "torque"), ("qdd",))
    assert answers.answered.mean() > 0.9
    slow = estimation(robot, held(robot, Z) + torques(robot, 0.1), "dense")
    for k in np.flatnonzero(answers.answered)[:48].tolist():
        e = slow.solve(q[k], 0 * q[k], y[k])
        for name, known in (("qdd", e.qdd), ("torque", e.torque), ("std_qdd", e.std.qdd)):
            np.testing.assert_allclose(
                answers.arrays[name][k], known.array, rtol=1e-9, atol=1e-9, err_msg=name
            )


@pytest.mark.finding("R-4")
def test_the_verdict_at_a_right_angle_tells_what_is_lost() -> None:
    robot = arm((X, X), Y, Z)
    across = sensors.ExternalWrench("across", "lower", components=("fx",), value=0.0)
    est = estimation(robot, [*held(robot, Z), across, *torques(robot, 0.1)])
    assert est.verdict(search=False).is_well_posed
    lost = PostureRank(est.measured, STRETCHED)
    assert lost.rank.nullity == 1  # the force along the arm
    weak = lost.unseen[est.measured.laws.unknowns.columns("external_wrench")[1]]
    np.testing.assert_allclose(np.abs(weak[3:, 0]) / np.abs(weak).max(), [0, 0, 1], atol=1e-12)
    (drop,) = est.verdict().rank_drops
    assert "lower = 1.57" in drop.where or "lower = -1.57" in drop.where


def test_what_is_next_to_a_right_angle_is_told_by_its_digits() -> None:
    """1e-12 of a row's size has four digits and is no knowledge, 1e-6 of it is."""
    robot = arm((X, X), Y, Z)
    est = estimation(robot, [*held(robot, Z), *torques(robot, 0.1)[:1]], "dense")
    for off, known in ((1e-15, False), (1e-13, False), (1e-12, False), (1e-6, True)):
        e = est.solve(STRETCHED + np.array([0.0, off]), np.zeros(2), {"t upper": 1.0})
        assert e.determined.qdd.array.tolist() == [known, known], off


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.finding("R-2", "item 7", "tests that cannot fail")
def test_one_unit_in_the_last_place_is_no_contradiction(backend: str) -> None:
    """An exact accelerometer on a slider across gravity reads 9.81, or the number beside it."""
    bodies = [Body("slider", -1, Prismatic(X), inertia=Inertia(1.0, np.zeros(3), np.eye(3)))]
    robot = KinematicTree("slider", bodies)
    some = [
        sensors.ExternalWrench("free", "slider", value=0.0),
        sensors.Accelerometer("imu", "slider", std=0.0),
        sensors.Accelerometer("fixed", -1, std=0.0),  # on the base: it sees no unknown
    ]
    est = estimation(robot, some, backend)

    def solved(imu: float, fixed: float) -> Array:
        y = {"imu": [2.0, 0.0, imu], "fixed": [0.0, 0.0, fixed]}
        return np.array(est.solve([0.3], [0.0], y).qdd.array)

    for one in (9.81, np.nextafter(9.81, 10.0), np.nextafter(9.81, 9.0), 9.81 + 1e-9):
        assert solved(one, 9.81) == solved(9.81, one) == pytest.approx([2.0])
    for one in (9.81 + 1e-6, 9.81 * (1 + 1e-4), 9.0):
        with pytest.raises(ContradictionError, match="imu"):
            solved(one, 9.81)
        with pytest.raises(ContradictionError, match="fixed"):
            solved(9.81, one)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rounding_of_a_reading_of_what_is_stated_is_no_contradiction(backend: str) -> None:
    """Nothing touches the link, and an exact sensor of its wrench reads 1e-17 N."""
    robot = dynsys.synthetic.chain(1)
    (link,) = robot.body_names
    some = [
        *torques(robot, 0.1),
        sensors.ExternalWrench("free", link, value=0.0),
        sensors.ExternalWrench("felt", link, xyz=(0.1, 0.2, 0.3), rpy=(1.0, 2.0, 3.0), std=0.0),
    ]
    est = estimation(robot, some, backend)

    def solved(felt: float) -> Array:
        y = {f"t {robot.joint_names[0]}": 1.0, "felt": [0.0] * 5 + [felt]}
        return np.array(est.solve([0.3], [0.0], y).qdd.array)

    for felt in (1e-17, 1e-12):
        assert solved(felt) == pytest.approx(solved(0.0))
    with pytest.raises(ContradictionError, match="felt"):
        solved(1e-6)


def test_sizes_bound_the_numbers_and_grow_with_the_length_of_a_chain() -> None:
    rng = np.random.default_rng(3)
    for n in (4, 30):
        robot = dynsys.synthetic.random_tree(n, 5)
        q, qd = robot.random_configuration(1), rng.normal(size=robot.nv)
        measured = MeasuredSystem(robot, sensors.Layout(robot, []), None)
        response: LawResponse = measured.response
        kin = Kinematics.at(robot, q, qd)
        numbers, sizes = np.abs(response.at(kin)), response.sizes.at(kin)
        assert (numbers <= sizes * (1 + 1e-12)).all()
    chain = dynsys.synthetic.chain(40)
    laws = MeasuredSystem(chain, sensors.Layout(chain, []), None).response
    kin = Kinematics.at(chain, chain.random_configuration(0), np.zeros(40))
    sizes = laws.sizes.at(kin)[laws.system.unknowns.columns("acceleration")[-1], :-1]
    assert sizes.max() == pytest.approx(max(1.0, kin.arms[1:].sum()), rel=1e-12)


# ---- thresholds, each with what falls on either side ---------------------------------------


@pytest.mark.finding("tests that cannot fail")
def test_a_repair_suffices_at_every_posture_not_at_one() -> None:
    """A force along the lower link turns the shoulder, but not where the arm is stretched."""
    robot = arm((X, X), Y, Z)
    along = sensors.ExternalWrench("cut", "lower", components=("tx", "ty", "tz", "fx", "fy"))
    layout = [
        *(sensors.JointAcceleration(f"a {name}", name, std=1.0) for name in robot.joint_names),
        sensors.ExternalWrench("free", "upper", value=0.0),
        replace(along, std=1.0),
    ]
    measured = estimation(robot, layout).measured
    bent, stretched = (PostureRank(measured, np.array([0.2, q])) for q in (0.3, -QUARTER))
    assert bent.rank.nullity == stretched.rank.nullity == 1

    def words(*postures: PostureRank) -> list[str]:
        return [repair.words for repair in repairs(postures)]

    shoulder = "measure the torque of joint 'upper'"
    assert shoulder in words(bent) and shoulder not in words(stretched)
    assert shoulder not in words(bent, stretched) and shoulder not in words(stretched, bent)
    assert words(bent, stretched)


@pytest.mark.finding("tests that cannot fail")
def test_a_posture_that_sees_less_is_a_rank_drop_not_the_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    robot = arm((X, X), Y, Z)
    across = sensors.ExternalWrench("across", "lower", components=("fx",), value=0.0)
    est = estimation(robot, [*held(robot, Z), across, *torques(robot, 0.1)])
    drawn = iter([np.array([0.1, 0.4]), STRETCHED, *np.linspace(0.1, 1.2, 8).reshape(4, 2)])
    monkeypatch.setattr(KinematicTree, "random_configuration", lambda *_: next(drawn).copy())
    verdict = est.verdict(samples=4, search=False)
    assert verdict.is_well_posed and verdict.nullity == 0
    (drop,) = verdict.rank_drops
    assert drop.where == "in a random posture" and drop.lost == 1


@pytest.mark.finding("tests that cannot fail")
def test_nearly_equal_noise_is_noise() -> None:
    """Two readings of correlation 1 - 1e-7 differ by little noise, not by none."""
    for gap, unit, none in ((1e-7, 2, 0), (1e-12, 2, 0), (0.0, 1, 1)):
        noisy, exact = noise_axes(np.array([[1.0, 1.0 - gap], [1.0 - gap, 1.0]]))
        assert (len(noisy), len(exact)) == (unit, none)
    robot = arm((X, X), Y, Z)
    twice = [sensors.JointAcceleration(f"twice {k}", "upper", std=1.0) for k in range(2)]
    free = [
        sensors.ExternalWrench(f"{name} free", name, value=0.0) for name in robot.body_names
    ]
    rest = sensors.JointAcceleration("rest", "lower", std=1.0)
    layout = sensors.Layout(
        robot, [*twice, rest, *free], [("twice 0", "twice 1", [[1.0 - 1e-7]])]
    )
    y = {"twice 0": 1.0, "twice 1": 1.001, "rest": 0.0}
    for backend in BACKENDS:
        e = problems.Estimation(robot, layout, backend=backend).solve(STRETCHED, [0, 0], y)
        assert e.degrees_of_freedom == 1
        assert e.chi_square == pytest.approx(0.001**2 / 2e-7, rel=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("extra", [0, 1, 2])
@pytest.mark.finding("tests that cannot fail")
def test_degrees_of_freedom_where_something_is_open(backend: str, extra: int) -> None:
    """So many torque sensors more than one on a joint check each other; the arm stays open."""
    robot = arm((X, X), Y, Z)
    again = [sensors.JointTorque(f"t {k}", "upper", std=0.5) for k in range(1 + extra)]
    e = estimation(robot, [*held(robot, Z), *again], backend).solve(
        STRETCHED, np.zeros(2), {f"t {k}": float(k) for k in range(1 + extra)}
    )
    assert not e.determined.qdd.array.any() and e.determined.torque.array.tolist() == [
        True,
        False,
    ]
    assert e.degrees_of_freedom == extra
    spread = np.arange(1 + extra) - extra / 2
    assert e.chi_square == pytest.approx(float(spread @ spread) / 0.25, abs=1e-12)
    assert e.std.torque.array[0] == pytest.approx(0.5 / np.sqrt(1 + extra))


@pytest.mark.finding("R-3", "item 6")
def test_the_condition_number_tells_what_rounding_costs() -> None:
    """At an angle a from stretched the contact sees qdd by sin a, the torques the force by it.

    Their product is what is lost; errors stay below condition * eps of the size of the force.
    """
    robot = arm((X, X), Y, Z)
    across = sensors.ExternalWrench("across", "lower", components=("fx",), value=0.0)
    est = estimation(robot, [*held(robot, Z), across, *torques(robot, 0.1)], "dense")
    before = 1.0
    for angle in (1e-1, 1e-2, 1e-3, 1e-4):
        q = STRETCHED + np.array([0.3, angle])
        condition = PostureRank(est.measured, q).condition
        assert 0.05 / angle**2 < condition < 50 / angle**2 and condition > 10 * before
        before = condition
        e = est.solve(q, np.zeros(2), {"t upper": 5.0, "t lower": 1.0})
        error, size = e.trust().error["external_wrench"], np.abs(e.external_wrench.array).max()
        assert error.max() <= 100 * condition * np.finfo(float).eps * size
    text = str(est.verdict(search=False))
    assert "rounding moves estimates by up to about" in text


def test_sizes_of_a_robot_with_friction() -> None:
    """Friction is a bias of the torque law, one number per freedom; singular states have it."""
    plain = dynsys.synthetic.chain(4)
    robot = plain.with_parameters({f"{joint}.coulomb": 0.5 for joint in plain.joint_names})
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.1),
            *sensors.all_joint_accelerations(robot, std=0.1),
            *sensors.zero_external_wrench_except(robot, ["link_4"]),
        ],
    )
    problem = problems.Estimation(robot, layout, backend="dense")
    q, qd = np.full(4, 0.3), np.full(4, 0.2)
    y = layout.pack(
        {f"{joint}/torque": 0.1 for joint in robot.joint_names}
        | {f"{joint}/acceleration": 0.2 for joint in robot.joint_names}
    )
    assert np.isfinite(problem.solve(q, qd, y).torque.array).all()
    sizes = problem.measured.response.sizes.at(Kinematics.at(robot, q, qd))
    torques = problem.measured.laws.unknowns.columns("torque")
    without = LawResponse(LinearSystem(plain)).sizes.at(Kinematics.at(plain, q, qd))
    more = sizes[torques, -1] - without[torques, -1]
    np.testing.assert_allclose(more, 0.5 * 0.2 / np.hypot(0.2, 0.01), rtol=1e-9)
