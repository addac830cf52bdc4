"""The torque of tasks, closed loop: what is commanded is what forward dynamics gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import dynsys
from dynsys import (
    BodyMotion,
    CentreOfMass,
    KinematicTree,
    ModelError,
    OperationalSpace,
    Posture,
    RelativeMotion,
    SingularSystemError,
    StateError,
    operational_space,
    recursive,
    synthetic,
)
from dynsys.model.body import Coupling
from dynsys.model.spatial import Transform
from dynsys.model.tree import Frame
from dynsys.operational.hierarchy import Levels
from dynsys.types import Array
from tests import strategies

HANDS = ["left_arm_7", "right_arm_7"]
FEET = ["left_leg_6", "right_leg_6"]


def forward(
    robot: KinematicTree, q: Array, qd: Array, torque: Array, contacts: list[str] | None = None
) -> Array:
    """Acceleration qdd, contacts held: the dense system of dynamics and constraints."""
    H, C = recursive.crba(robot, q), recursive.rnea(robot, q, qd, np.zeros(robot.nv))
    if not contacts:
        return np.asarray(np.linalg.solve(H, torque - C))
    held = operational_space(robot, q, contacts, qd, "dense")
    c = len(held.J)
    K = np.block([[H, -held.J.T], [held.J, np.zeros((c, c))]])
    found = np.linalg.lstsq(K, np.concatenate([torque - C, -held.Jdot_qd]), rcond=None)[0]
    return np.asarray(found[: robot.nv])


def moving(robot: KinematicTree, seed: int = 0) -> tuple[Array, Array, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return robot.random_configuration(rng), rng.normal(size=robot.nv), rng


@pytest.mark.slow
@settings(max_examples=12)
@given(strategies.states(max_bodies=5), st.sampled_from(["pose", "position", "orientation"]))
def test_commanded_is_what_happens(state: strategies.State, part: str) -> None:
    robot, q, qd, posture, _ = state
    tip = BodyMotion(robot.n_bodies - 1, axes="world", coordinates=part)
    x = operational_space(robot, q, tip, qd)
    values = np.linalg.eigvalsh(x.Lambda_inv)
    assume(values[0] > 1e-6 * values[-1])
    wanted = np.arange(1.0, 1.0 + len(x.names))
    qdd = forward(robot, q, qd, x.torque(wanted, posture))
    scale = 1 + np.abs(x.J).max() * np.abs(qdd).max()
    assert_allclose(x.J @ qdd + x.Jdot_qd, wanted, atol=1e-9 * scale)
    # eq. 3, 4, 8, 11 of [OSI]
    assert_allclose(x.velocity, x.J @ qd, atol=1e-12 * scale)
    free = forward(robot, q, qd, 0 * qd)
    assert_allclose(x.beta, x.J @ free + x.Jdot_qd, atol=1e-8 * scale)
    F = x.Lambda @ wanted + x.mu + x.rho
    torque = x.J.T @ F + x.N.T @ posture
    size = 1 + np.abs(x.J).max() * np.abs(F).max()
    assert_allclose(x.torque(wanted, posture), torque, atol=1e-7 * size)


@pytest.mark.parametrize("contacts", [[], FEET[:1], FEET])
@pytest.mark.parametrize("actuated", [None, "joints"])
def test_closed_loop_in_contact_and_without_a_driven_base(
    contacts: list[str], actuated: str | None
) -> None:
    robot = synthetic.asimo()
    q, qd, rng = moving(robot)
    tasks = [*HANDS, CentreOfMass()] if contacts or actuated is None else HANDS
    x = operational_space(robot, q, tasks, qd, contacts=contacts, actuated=actuated)
    wanted, posture = rng.normal(size=len(x.names)), rng.normal(size=robot.nv)
    if actuated:
        posture[:6] = 0.0
    for given_ in (None, posture):
        torque = x.torque(wanted, given_)
        qdd = forward(robot, q, qd, torque, contacts)
        assert_allclose(x.J @ qdd + x.Jdot_qd, wanted, atol=1e-9)
        if actuated:
            assert not torque[:6].any()
    m = len(x.names)
    assert_allclose(x.J @ x.Jbar, np.eye(m), atol=1e-10)
    assert_allclose(x.Lambda @ x.Lambda_inv, np.eye(m), atol=1e-9)
    shift = forward(robot, q, qd, torque + x.N.T @ posture, contacts) - qdd
    assert_allclose(x.J @ shift, 0.0, atol=1e-9)
    # torques of eq. 11 with the projected Lambda, mu and rho do the same
    F = x.Lambda @ wanted + x.mu + x.rho
    free = forward(robot, q, qd, 0 * qd, contacts)
    assert_allclose(x.beta, x.J @ free + x.Jdot_qd, atol=1e-8)
    assert_allclose(F, x.Lambda @ (wanted - x.beta), atol=1e-8 * np.abs(F).max())
    if contacts:
        held = operational_space(robot, q, contacts, qd)
        forces = x.contact_forces(torque)
        H, C = recursive.crba(robot, q), recursive.rnea(robot, q, qd, 0 * qd)
        assert_allclose(H @ qdd + C, torque + held.J.T @ forces, atol=1e-8)
        assert_allclose(held.J @ x.Jbar, 0.0, atol=1e-10)


def test_redundant_contacts_are_held_all_the_same() -> None:
    robot = synthetic.asimo()
    q, qd, rng = moving(robot)
    twice = [*FEET, BodyMotion(FEET[0], coordinates="position")]
    kinds = {"contacts": twice, "actuated": "joints"}
    x = operational_space(robot, q, HANDS, qd, **kinds)  # type: ignore[arg-type]
    once = operational_space(robot, q, HANDS, qd, contacts=FEET, actuated="joints")
    wanted = rng.normal(size=12)
    assert_allclose(x.torque(wanted), once.torque(wanted), atol=1e-8)


def test_the_torque_is_smallest_in_the_metric_of_the_inverse_inertia() -> None:
    robot = synthetic.asimo()
    q, qd, rng = moving(robot)
    x = operational_space(robot, q, HANDS, qd, contacts=FEET, actuated="joints")
    H = recursive.crba(robot, q)
    torque = x.torque(rng.normal(size=12) + x.beta)  # no posture: the increment itself
    for _ in range(5):
        other = x.N.T @ np.concatenate([np.zeros(6), rng.normal(size=robot.nv - 6)])
        assert abs(torque @ np.linalg.solve(H, other)) < 1e-8 * np.linalg.norm(torque)


# ---- singular and redundant cases, by name ---------------------------------------------------


def test_a_straight_arm_is_singular_and_says_so() -> None:
    """Stretched: no torque accelerates the end of a planar arm along it."""
    robot = synthetic.chain(3)
    tip = BodyMotion("link_3", axes="world", coordinates=("linear x", "linear z"))
    q, qd = np.array([0.4, 0.0, 0.2]), np.array([0.3, -0.2, 0.1])
    x = operational_space(robot, q, tip, qd)
    with pytest.raises(SingularSystemError, match=r"mainly of 'link_3' linear .*damping"):
        x.torque(np.zeros(2))
    soft = operational_space(robot, q, tip, qd, damping=1e-4)
    (found,) = soft.damped
    assert found.share < 1e-12
    qdd = forward(robot, q, qd, soft.torque(np.ones(2)))
    moved = soft.J @ qdd + soft.Jdot_qd
    scale = np.full(2, np.sqrt(np.diagonal(soft.Lambda_inv).max()))  # of one unit
    left = (moved - 1.0) / scale
    values, vectors = np.linalg.eigh(soft.Lambda_inv / np.outer(scale, scale))
    assert values[0] < 1e-12
    assert vectors[:, 1] @ left == pytest.approx(0.0, abs=1e-9)


def test_damping_fades_in_and_is_reported() -> None:
    robot = synthetic.chain(5, generic=True)
    tip = BodyMotion("link_5", axes="world", coordinates="position")
    q, qd, rng = moving(robot, 4)
    sharp = operational_space(robot, q, tip, qd)
    scale = np.full(3, np.sqrt(np.diagonal(sharp.Lambda_inv).max()))  # of one unit
    values, vectors = np.linalg.eigh(sharp.Lambda_inv / np.outer(scale, scale))
    wanted = rng.normal(size=3)
    limit = 0.5 * (values[0] + values[1])  # damps one direction
    x = operational_space(robot, q, tip, qd, damping=float(limit))
    (found,) = x.damped
    assert found.level == 0
    assert found.mobility == pytest.approx(values[0])
    assert found.share == pytest.approx((values[0] / limit) ** 2)
    assert all(name.startswith("'link_5' linear") for name in found.coordinates)
    qdd = forward(robot, q, qd, x.torque(wanted))
    missed = (x.J @ qdd + x.Jdot_qd - wanted) / scale
    asked = (wanted - x.beta) / scale
    assert_allclose(vectors[:, 1:].T @ missed, 0.0, atol=1e-9 * np.abs(asked).max())
    left = (found.share - 1) * (vectors[:, 0] @ asked)
    assert vectors[:, 0] @ missed == pytest.approx(left, rel=1e-6)
    assert operational_space(robot, q, tip, qd, damping=float(values[0] / 2)).damped == ()
    with pytest.raises(ModelError, match="damping is the share"):
        operational_space(robot, q, tip, qd, damping=2.0)


def test_the_same_coordinate_twice_is_singular() -> None:
    robot = synthetic.asimo()
    q, qd, _ = moving(robot)
    x = operational_space(robot, q, [HANDS[0], HANDS[0]], qd)
    with pytest.raises(SingularSystemError, match="left_arm_7"):
        x.torque(np.zeros(12))


def test_a_free_robot_cannot_push_its_own_centre_of_mass() -> None:
    robot = synthetic.asimo()
    q, qd, _ = moving(robot)
    x = operational_space(robot, q, [*HANDS, CentreOfMass()], qd, actuated="joints")
    with pytest.raises(SingularSystemError, match="centre of mass"):
        x.torque(np.zeros(15))
    levels = [HANDS, [CentreOfMass()]]
    y = operational_space(robot, q, levels, qd, actuated="joints")
    wanted = np.ones(15)
    qdd = forward(robot, q, qd, y.torque(wanted))
    moved = y.J @ qdd + y.Jdot_qd
    assert_allclose(moved[:12], 1.0, atol=1e-9)
    assert_allclose(moved[12:], robot.gravity, atol=1e-9)  # it falls
    assert [d.share for d in y.damped] == [0.0] * 3
    assert {d.level for d in y.damped} == {1}


def test_earlier_levels_come_first() -> None:
    """A hand's pose, then a conflicting one, then the posture: each gets what is left."""
    robot = synthetic.chain(9, generic=True)
    q, qd, rng = moving(robot)
    tip, near = robot.body_names[-1], robot.body_names[5]
    x = operational_space(robot, q, [[tip], [near], [Posture()]], qd)
    wanted = rng.normal(size=len(x.names))
    qdd = forward(robot, q, qd, x.torque(wanted))
    moved = x.J @ qdd + x.Jdot_qd
    assert_allclose(moved[:6], wanted[:6], atol=1e-9)
    # the second level has three freedoms of its own; of all torques that leave the first
    # alone, ours brings it nearest in the metric of its mobility
    alone = operational_space(robot, q, [[tip], [near]], qd)
    same = forward(robot, q, qd, alone.torque(wanted[:12]))
    assert_allclose((x.J @ same + x.Jdot_qd)[:12], moved[:12], atol=1e-7)
    first = operational_space(robot, q, tip, qd)
    J, P = x.J[6:12], first.N
    H = recursive.crba(robot, q)
    S = J @ P @ np.linalg.solve(H, P.T @ J.T)
    missed = wanted[6:12] - moved[6:12]
    scale = np.sqrt(np.diagonal(J @ np.linalg.solve(H, J.T)).reshape(2, 3).max(axis=1))
    scale = np.repeat(scale, 3)  # of one unit each
    reachable = np.linalg.eigh(S / np.outer(scale, scale))
    basis = reachable[1][:, reachable[0] > 1e-9]
    assert basis.shape[1] == 3
    assert_allclose(basis.T @ (missed / scale), 0.0, atol=1e-8)
    assert {d.level for d in x.damped} == {1, 2}


def test_levels_that_agree_all_get_what_they_ask_for() -> None:
    robot = synthetic.asimo()
    q, qd, rng = moving(robot)
    qdd = rng.normal(size=robot.nv)
    x = operational_space(robot, q, [HANDS, [CentreOfMass()], [Posture()]], qd)
    torque = x.torque(x.J @ qdd + x.Jdot_qd)
    assert_allclose(torque, recursive.rnea(robot, q, qd, qdd), atol=1e-6)


def test_levels_of_a_matrix_with_an_inverse_are_one_solve() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(7, 9))
    M, b = A @ A.T, rng.normal(size=7)
    scale = np.sqrt(np.diagonal(M))
    levels = [slice(0, 2), slice(2, 5), slice(5, 7)]
    found = Levels(M, scale, levels, [str(k) for k in range(7)], None, lambda _: ValueError())
    assert_allclose(found.forces(b), np.linalg.solve(M, b), rtol=1e-9)
    assert found.damped == ()


# ---- what is wrong is named -----------------------------------------------------------


def test_errors() -> None:
    robot = synthetic.asimo()
    q, qd, _ = moving(robot)
    still = operational_space(robot, q, HANDS)
    for ask in (lambda: still.velocity, lambda: still.beta, lambda: still.torque(np.zeros(12))):
        with pytest.raises(StateError, match=r"depends on velocity"):
            ask()
    x = operational_space(robot, q, HANDS, qd, actuated="joints")
    with pytest.raises(StateError, match=r"acceleration must have shape \(12,\)"):
        x.torque(np.zeros(11))
    with pytest.raises(
        StateError, match=r"acceleration\[1\] \('left_arm_7' angular y\) is nan"
    ):
        x.torque([0, np.nan, *np.zeros(10)])
    with pytest.raises(StateError, match="not numeric"):
        x.torque("fast")
    with pytest.raises(StateError, match=r"posture\[0\] is 1.0, at a freedom without a drive"):
        x.torque(np.zeros(12), np.ones(robot.nv))
    with pytest.raises(StateError, match="posture"):
        x.torque(np.zeros(12), np.ones(3))
    with pytest.raises(ModelError, match="no joint 'elbow'"):
        OperationalSpace(robot, HANDS, actuated=["elbow"])
    with pytest.raises(ModelError, match="no joint with a drive"):
        OperationalSpace(robot, HANDS, actuated=[])
    with pytest.raises(ModelError, match="has no contacts"):
        x.contact_forces(np.zeros(robot.nv))
    with pytest.raises(StateError, match=r"qd\[0\]"):
        operational_space(robot, q, HANDS, np.full(robot.nv, np.nan))


def test_coupled_joints_are_taken_by_the_dense_method() -> None:
    arm = synthetic.chain(4, generic=True)
    bodies = list(arm.bodies)
    bodies[2] = replace(bodies[2], coupling=Coupling(0, 0.5, 0.1))
    robot = KinematicTree("coupled", bodies)
    q, qd, _ = moving(robot)
    tip = BodyMotion(robot.body_names[-1], coordinates=("linear x",))
    x = operational_space(robot, q, tip, qd)
    qdd = forward(robot, q, qd, x.torque([2.0]))
    assert_allclose(x.J @ qdd + x.Jdot_qd, [2.0], atol=1e-9)


def test_friction_is_overcome() -> None:
    robot = dynsys.synthetic.chain(7, generic=True).with_parameters(
        {"link_1.viscous": 0.5, "link_3.viscous": 0.2}
    )
    q, qd, rng = moving(robot)
    tip = RelativeMotion(robot.body_names[-1], -1)
    x = operational_space(robot, q, tip, qd)
    wanted = rng.normal(size=6)
    qdd = forward(robot, q, qd, x.torque(wanted))
    assert_allclose(x.J @ qdd + x.Jdot_qd, wanted, atol=1e-9)


@pytest.mark.parametrize(
    "method", ["auto", "y_factor", "chang_khatib", "pv_osimr", "rjk", "dense"]
)
@pytest.mark.finding("B-4")
def test_a_coordinate_that_nothing_moves_disturbs_no_other(method: str) -> None:
    """A point on a joint's axis, relative to the parent: recursions leave rounding there."""
    arm = synthetic.chain(6, generic=True)
    on_axis = Transform(np.eye(3), 0.1 * np.asarray(arm.joints[2].axis))
    robot = KinematicTree("arm", arm.bodies, {"tool": Frame(2, on_axis)})
    hand = BodyMotion("link_6", axes="world", coordinates="position")
    still = RelativeMotion("tool", "link_2", "world", ("linear x",))
    for seed in range(5):
        q, qd, _ = moving(robot, seed)
        with pytest.raises(SingularSystemError, match="'tool' relative to 'link_2' linear x"):
            operational_space(robot, q, [hand, still], qd, method).torque(np.ones(4))
        x = operational_space(robot, q, [hand, still], qd, method, damping=1e-4)
        qdd = forward(robot, q, qd, x.torque(np.ones(4)))
        assert_allclose((x.J @ qdd + x.Jdot_qd)[:3], 1.0, atol=1e-8)
        assert [(one.mobility, one.share) for one in x.damped] == [(0.0, 0.0)]


@pytest.mark.finding("B-10")
def test_a_posture_has_joints_of_their_own() -> None:
    """What was found for a follower was its leader's velocity, whatever the ratio."""
    arm = synthetic.chain(4, generic=True)
    follows = replace(arm.bodies[2], coupling=Coupling(0, 2.5, 0.3))
    robot = KinematicTree("arm", [*arm.bodies[:2], follows, arm.bodies[3]])
    q, qd, _ = moving(robot)
    with pytest.raises(ModelError, match=r"'link_3' of a posture .* follows 'link_1', name"):
        operational_space(robot, q, Posture(["link_3"]), qd)
    x = operational_space(robot, q, Posture(), qd)
    assert_allclose(x.velocity, qd, atol=1e-12)
