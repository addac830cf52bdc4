"""Dynamics of robots that are held: against dense algebra, physics and each other."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dynsys
import problems
import sensors
from dynsys import (
    FrameConstraint,
    JointConstraint,
    KernelBuildError,
    KinematicTree,
    ModelError,
    PlanMismatchError,
    SingularSystemError,
    StateError,
    synthetic,
)
from dynsys.interop.functions import PlainFunction
from dynsys.model.constraints import MOTIONS, Constraint
from dynsys.model.spatial import Transform
from dynsys.plan.held.impulse import ImpulseSpec, impulse_program
from dynsys.plan.held.multipliers import HeldBy
from dynsys.plan.record import DynamicsSpec, guarded_dynamics
from dynsys.plan.symmetric import SymmetricStep
from dynsys.recursive.constraint_rows import dense_rows
from dynsys.types import Array, BoolArray
from experiments.constrained.robots import HELD_BY_HINGE, four_bar, stewart_platform
from problems import ContradictionError
from problems.constrained import DenseConstrained, dense_impulse
from tests import oracles, strategies
from tests.kernel.exported_c import COMPILERS, compile_and_check

FEET = [FrameConstraint("left", "left_leg_6"), FrameConstraint("right", "right_leg_6")]
HUMANOID = synthetic.humanoid30()
TIP = FrameConstraint(
    "tip", "link_3", components=("x", "y", "z"),
    placement=Transform(np.eye(3), np.array([0.2, -0.1, 0.3])),
)  # fmt: skip


def close(actual: Array, expected: Array, tolerance: float = 1e-9) -> None:
    scale = 1.0 + float(np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(actual, expected, atol=tolerance * scale, rtol=0)


def state(robot: KinematicTree, seed: int = 0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    return robot.random_configuration(rng), rng.normal(size=robot.nv), rng.normal(size=robot.nv)


# ---- random robots with random constraints, every joint type ---------------------------------


@st.composite
def held_robots(draw: st.DrawFn) -> tuple[KinematicTree, tuple[Constraint, ...], Array]:
    """A tree, some constraints whose rows are independent at some q, and that q."""
    robot = draw(strategies.trees(6, coupled=True))
    seed = draw(strategies.seeds)
    rng = np.random.default_rng(seed)
    constraints: list[Constraint] = []
    for k in range(draw(st.integers(1, 3))):
        frame = draw(st.integers(0, robot.n_bodies - 1))
        other = draw(st.one_of(st.none(), st.integers(0, robot.n_bodies - 1)))
        components = draw(
            st.lists(st.sampled_from(MOTIONS), unique=True, min_size=1, max_size=3)
        )
        constraints.append(
            FrameConstraint(
                f"held_{k}",
                frame,
                None if other == frame else other,
                components,
                draw(st.sampled_from(("frame", "other", "world"))),
                Transform(np.eye(3), rng.normal(size=3)),
                Transform(np.eye(3), rng.normal(size=3)) if draw(st.booleans()) else None,
            )
        )
    single = [
        name
        for name, body in zip(robot.joint_names, robot.bodies, strict=True)
        if body.joint.nv == 1 and body.coupling is None
    ]
    if len(single) > 1 and draw(st.booleans()):
        constraints.append(JointConstraint("gear", single[-1], single[0], (0.3, 0.7, 0.2)))
    return robot, tuple(constraints), robot.random_configuration(rng)


def by_dense_algebra(
    robot: KinematicTree,
    constraints: tuple[Constraint, ...],
    q: Array,
    qd: Array,
    given_: Array,
    known: BoolArray,
) -> tuple[Array, Array, Array] | None:
    """qdd, torque and J^T force from one bordered system; None where it is singular."""
    n, free = robot.nv, ~known
    rows = dense_rows(robot, constraints, q, qd)
    J, m = rows.J, len(rows.J)
    size = np.linalg.svd(J[:, free], compute_uv=False) if free.any() else np.zeros(1)
    if not free.any() or m > free.sum() or not size[-1] > 1e-3 * size[0]:
        return None
    H = oracles.mass_matrix(robot, q)
    bias = oracles.inverse_dynamics(robot, q, qd, np.zeros(n))
    D = np.zeros((2 * n + m, 2 * n + m))  # unknowns: qdd, torque, force
    D[:n, :n], D[:n, n : 2 * n], D[:n, 2 * n :] = H, -np.eye(n), -J.T
    D[n : n + m, :n] = J
    known_rows = np.arange(n + m, 2 * n + m)
    D[known_rows, np.where(known, np.arange(n), n + np.arange(n))] = 1.0
    d = np.linalg.solve(D, np.concatenate([-bias, -rows.drift, given_]))
    return d[:n], d[n : 2 * n], J.T @ d[2 * n :]


@settings(max_examples=30, deadline=None)
@given(drawn=held_robots(), data=st.data(), seed=strategies.seeds)
def test_forward_and_hybrid_dynamics(
    drawn: tuple[KinematicTree, tuple[Constraint, ...], Array], data: st.DataObject, seed: int
) -> None:
    robot, constraints, q = drawn
    known = np.zeros(robot.nv, dtype=bool)
    if data.draw(st.booleans()):
        leaders = [i for i, b in enumerate(robot.bodies) if b.coupling is None and b.joint.nv]
        known[robot.v_slices()[data.draw(st.sampled_from(leaders))]] = True
    rng = np.random.default_rng(seed)
    qd, given_ = rng.normal(size=(2, robot.nv))
    expected = by_dense_algebra(robot, constraints, q, qd, given_, known)
    assume(expected is not None)
    held = HeldBy(robot, constraints, known, np.zeros_like(known))
    names = ("qdd", "torque", "constraint_wrench")
    spec = DynamicsSpec(robot, known, "x", names, held=held)
    with np.errstate(all="ignore"):
        found = guarded_dynamics(spec).evaluate(np.concatenate([q, qd, given_])[None])[0]
    dense = np.concatenate(DenseConstrained(spec).answers(q, qd, given_))
    for answer in (found, dense):
        if not np.isfinite(answer).all():  # a rank that the samples did not promise
            assert answer is found
            continue
        qdd, torque, force = np.split(answer, [robot.nv, 2 * robot.nv])
        close(qdd, expected[0], 1e-7)
        close(torque, expected[1], 1e-7)
        J = dense_rows(robot, constraints, q, qd).J
        close(J.T @ force, expected[2], 1e-7)


@pytest.mark.parametrize("leader", [None, "link_2"])
@pytest.mark.parametrize("accelerated", [(), ("link_3",)])
@pytest.mark.finding("B-1")
def test_torques_of_tied_joints_go_on_to_the_bodies_that_carry_them(
    leader: str | None, accelerated: tuple[str, ...]
) -> None:
    """A joint amid a chain without armature: what ties it acts on its parent, too."""
    robot = synthetic.chain(5, generic=True)
    tie = JointConstraint("tie", "link_4", leader, (0.3, 0.7, 0.2))
    problem = problems.HybridDynamics(robot, accelerated, constraints=[tie])
    q = robot.random_configuration(0)
    qd, given_ = np.random.default_rng(0).normal(size=(2, 5))
    expected = by_dense_algebra(robot, (tie,), q, qd, given_, np.asarray(problem.known))
    assert expected is not None
    found = problem.solve(q, qd, given_)
    assert not found.fallback
    close(found.qdd, expected[0], 1e-10)
    close(found.torque, expected[1], 1e-10)
    forward = problems.ForwardDynamics(robot, constraints=[tie])
    assert forward.held is not None
    after = dense_impulse(forward.held, q, qd, np.zeros(1))[0]
    close(forward.impulse(q, qd).v, after, 1e-10)


@pytest.mark.finding("B-2")
def test_hybrid_dynamics_tells_the_wrench_on_a_base_whose_motion_is_known() -> None:
    robot = synthetic.humanoid30()
    hands = FrameConstraint("hold", "left_arm_6", "right_arm_6")
    problem = problems.HybridDynamics(robot, ["root"], constraints=[hands])
    q = robot.random_configuration(0)
    qd, given_ = np.random.default_rng(0).normal(size=(2, robot.nv))
    known = np.asarray(problem.known)
    expected = by_dense_algebra(robot, (hands,), q, qd, given_, known)
    assert expected is not None
    found = problem.solve(q, qd, given_)
    assert not found.fallback and found.residual < 1e-12
    close(found.torque, expected[1], 1e-9)


@pytest.mark.finding("B-3")
def test_a_base_that_no_constraint_reaches_is_named() -> None:
    humanoid = synthetic.humanoid30()
    hands = FrameConstraint("hold", "left_arm_6", "right_arm_6")
    inverse = problems.InverseDynamics(humanoid, constraints=[hands])
    q, still = humanoid.random_configuration(0), np.zeros(humanoid.nv)
    with pytest.raises(SingularSystemError, match="joint 'root' has no drive, and"):
        inverse.solve(q, still, still)


@pytest.mark.finding("B-3")
def test_rows_that_nothing_moves_are_not_moved_by_rounding() -> None:
    """J of such rows is what terms that cancel leave, about 1e-16, and no force helps."""
    robot = synthetic.chain(4, generic=True)
    tie = FrameConstraint("tie", "link_2", "link_3", ("rx", "x"), "world")
    alone = problems.HybridDynamics(robot, ["link_3"])
    held = problems.HybridDynamics(robot, ["link_3"], constraints=[tie])
    for seed in range(5):
        q, given_ = robot.random_configuration(seed), np.array([1.0, 2.0, 0.0, 3.0])
        found = held.solve(q, np.zeros(4), given_)
        close(found.qdd, alone.solve(q, np.zeros(4), given_).qdd, 1e-10)
        assert not found.constraint_wrench.array.any()
        with pytest.raises(ContradictionError, match="most along tie"):
            held.solve(q, np.zeros(4), np.ones(4))


@settings(max_examples=20, deadline=None)
@given(drawn=held_robots(), seed=strategies.seeds)
def test_impulses(
    drawn: tuple[KinematicTree, tuple[Constraint, ...], Array], seed: int
) -> None:
    robot, constraints, q = drawn
    known = np.zeros(robot.nv, dtype=bool)
    v = np.random.default_rng(seed).normal(size=robot.nv)
    assume(by_dense_algebra(robot, constraints, q, v, v, known) is not None)
    bounce = np.linspace(0, 1, len(constraints))
    held = HeldBy(robot, constraints, known, known)
    with np.errstate(all="ignore"):
        program = impulse_program(ImpulseSpec(held))
        found = program.evaluate(np.concatenate([q, v, bounce])[None])[0]
    after, impulse = dense_impulse(held, q, v, bounce)
    if np.isfinite(found).all():
        close(found[: robot.nv], after, 1e-7)
    rows = dense_rows(robot, constraints, q, v)
    each = np.repeat(bounce, [constraint.size for constraint in constraints])
    close(rows.J @ after, -each * rows.velocity, 1e-8)
    close(oracles.mass_matrix(robot, q) @ (after - v), rows.J.T @ impulse, 1e-8)


# ---- a biped on two feet ---------------------------------------------------------------------


def test_two_feet_through_every_door(tmp_path: Path) -> None:
    problem = problems.ForwardDynamics(HUMANOID, constraints=FEET)
    q, qd, torque = state(HUMANOID)
    slow = problems.ForwardDynamics(HUMANOID, "reference", FEET).solve(q, qd, torque)
    found = problem.solve(q, qd, torque)
    assert not found.fallback and found.residual < 1e-13
    close(found.qdd, slow.qdd)
    close(found.constraint_wrench["left"], slow.constraint_wrench["left"])
    rows = dense_rows(HUMANOID, FEET, q, qd)
    close(rows.J @ found.qdd, -rows.drift)
    # joint wrenches and accelerations belong to it: the torque is part of the joint's wrench
    S = HUMANOID.motion_subspace[6]
    at = HUMANOID.v_slice("left_leg_6")
    close(S.T @ found.joint_wrench["left_leg_6"], torque[at])
    # pushed, in batches, and by kernels that were handed the plan
    push = {"torso": [0, 0, 0, 3.0, 0, 0]}
    pushed = problem.solve(q, qd, torque, f_ext=push)
    expected = problems.ForwardDynamics(HUMANOID, "reference", FEET).solve(q, qd, torque, push)
    close(pushed.qdd, expected.qdd)
    states = [np.array([x, x]) for x in (q, qd, torque)]
    batch = problem.solve_batch(*states, f_ext=push)
    close(batch.qdd[1], expected.qdd)
    assert batch.constraint_wrench["right"].shape == (2, 6)
    close(batch.constraint_wrench["right"][1], expected.constraint_wrench["right"])
    plan = problem.plan()
    plan.save(tmp_path / "plan.json")
    kernel: Any = problem.compile(dynsys.Plan.load(tmp_path / "plan.json"))
    assert kernel.operations == plan.operations
    (qdd, force), finite = kernel.one(q, qd, torque)
    assert finite
    close(qdd, found.qdd)
    close(force, found.constraint_wrench.array)
    out = np.empty(HUMANOID.nv), np.empty(12)
    problem.solve(q, qd, torque, out=out)
    close(out[1], force)
    copy = pickle.loads(pickle.dumps(problem)).solve(q, qd, torque)
    close(copy.qdd, found.qdd)


def test_inverse_dynamics_gives_back_what_forward_dynamics_got() -> None:
    forward = problems.ForwardDynamics(HUMANOID, constraints=FEET)
    inverse = problems.InverseDynamics(HUMANOID, constraints=FEET)
    q, qd, torque = state(HUMANOID, 1)
    torque[:6] = 0.0
    moved = forward.solve(q, qd, torque)
    found = inverse.solve(q, qd, moved.qdd)
    slow = problems.InverseDynamics(HUMANOID, "reference", FEET).solve(q, qd, moved.qdd)
    close(found.torque, slow.torque)
    close(found.constraint_wrench.array, slow.constraint_wrench.array)
    # other torques, smaller forces, the same motion
    again = forward.solve(q, qd, found.torque)
    close(again.qdd, moved.qdd)
    assert np.linalg.norm(found.constraint_wrench.array) <= np.linalg.norm(
        moved.constraint_wrench.array
    )
    assert not found.torque[:6].any() and found.residual < 1e-12


def test_inverse_dynamics_that_nothing_carries() -> None:
    one_point = [FrameConstraint("toe", "left_leg_6", components=("x", "y", "z"))]
    problem = problems.InverseDynamics(HUMANOID, constraints=one_point)
    assert problem.verdict().uncarried == ("root",)
    q, qd, qdd = state(HUMANOID)
    with pytest.raises(SingularSystemError, match="'root' has no drive"):
        problem.solve(q, qd, qdd)


def test_passive_joints_of_a_loop() -> None:
    case = four_bar()
    problem = problems.InverseDynamics(
        case.robot, constraints=case.constraints, undriven=["coupler", "rocker"]
    )
    forward = problems.ForwardDynamics(case.robot, constraints=case.constraints)
    q = forward.close(np.array([0.2, -0.1, 0.1]))
    v = forward.impulse(q, np.ones(3)).v
    moved = forward.solve(q, v, np.array([2.0, 0.0, 0.0]))
    found = problem.solve(q, v, moved.qdd)
    close(found.torque, np.array([2.0, 0.0, 0.0]), 1e-12)
    close(found.constraint_wrench["loop"], moved.constraint_wrench["loop"], 1e-12)
    assert problem.verdict().undetermined == {"loop": ("fy",)}


# ---- redundant rows, lost ranks, contradictions ----------------------------------------------


def test_five_directions_of_a_hinge_move_like_a_point_in_the_plane() -> None:
    """The closure that pinocchio#2729 asks for: three of its rows are redundant here."""
    point, hinge = four_bar(), four_bar(HELD_BY_HINGE)
    problem = problems.ForwardDynamics(hinge.robot, constraints=hinge.constraints)
    simple = problems.ForwardDynamics(point.robot, constraints=point.constraints)
    assert len(problem.held.redundant) == 3 and len(simple.held.redundant) == 1  # type: ignore[union-attr]
    q = simple.close(np.array([0.3, 0.2, -0.1]))
    v = simple.impulse(q, np.ones(3)).v
    torque = np.array([1.0, 2.0, 3.0])
    one, other = problem.solve(q, v, torque), simple.solve(q, v, torque)
    assert not one.fallback
    close(one.qdd, other.qdd, 1e-12)
    close(one.constraint_wrench["loop"], other.constraint_wrench["loop"], 1e-12)


def twice_held() -> problems.ForwardDynamics:
    """Two constraints that say the same of the tip, in other axes."""
    again = replace(TIP, name="again", axes="world")
    return problems.ForwardDynamics(synthetic.chain(4, generic=True), constraints=[TIP, again])


def test_redundant_rows_share_the_smallest_forces() -> None:
    problem = twice_held()
    robot = problem.robot
    q, qd, torque = state(robot)
    qd = problem.impulse(q, qd).v
    found = problem.solve(q, qd, torque)
    assert not found.fallback
    once = problems.ForwardDynamics(robot, constraints=[TIP]).solve(q, qd, torque)
    close(found.qdd, once.qdd)
    E = dynsys.forward_kinematics(robot, q, "link_3").E
    close(found.constraint_wrench["tip"], once.constraint_wrench["tip"] / 2)
    close(found.constraint_wrench["again"][3:], E.T @ once.constraint_wrench["tip"][3:] / 2)
    verdict = problem.verdict()
    assert not verdict and verdict.redundant == 3 and verdict.rank == 3
    assert verdict.directions == (
        "an internal wrench between 'tip', 'again', 3 independent ways",
    )
    assert "accelerations are determined" in str(verdict) and verdict.to_json()["rows"] == 6


def test_rows_that_contradict_are_named() -> None:
    problem = twice_held()
    q, qd, torque = state(problem.robot)
    qd = problem.impulse(q, qd).v
    moves = np.array([0, 0, 0, 0, 0, 1.0])
    with pytest.raises(ContradictionError, match=r"(tip|again)\.fz.*problem\.impulse"):
        problem.solve(q, qd, torque, target=moves)
    rows = [np.array([x, x]) for x in (q, qd, torque)]
    with pytest.raises(ContradictionError, match="state 0"):
        problem.solve_batch(*rows, target=moves)


@pytest.mark.finding("W3")
def test_a_rank_that_is_lost_at_a_state() -> None:
    """A stretched planar arm held at its tip cannot move along itself."""
    robot = synthetic.chain(2)
    at = Transform(np.eye(3), np.array([0.2, 0.0, 0.0]))
    tip = FrameConstraint("tip", "link_2", components=("x", "y"), placement=at)
    problem = problems.ForwardDynamics(robot, constraints=[tip])
    verdict = problem.verdict()
    torque = np.array([1.0, 2.0])
    found = problem.solve(np.zeros(2), np.zeros(2), torque)
    assert found.fallback and verdict.rank_drops
    assert "every wrench is determined at almost every configuration" in str(verdict)
    rows = dense_rows(robot, [tip], np.zeros(2), np.zeros(2))
    H = dynsys.crba(robot, np.zeros(2))
    free = np.linalg.solve(
        H, torque - dynsys.rnea(robot, np.zeros(2), np.zeros(2), np.zeros(2))
    )
    force = np.linalg.pinv(rows.J @ np.linalg.solve(H, rows.J.T), rcond=1e-9) @ -(rows.J @ free)
    close(found.constraint_wrench.array, force)
    close(found.qdd, free + np.linalg.solve(H, rows.J.T @ force))
    near = problem.solve(np.array([0.0, 1e-2]), np.zeros(2), torque)
    assert not near.fallback
    # in axes of the world a tip that flies by is pulled along the arm, which cannot follow
    fixed = replace(tip, axes="world", components=("x", "z"))
    problem = problems.ForwardDynamics(robot, constraints=[fixed])
    with pytest.raises(ContradictionError, match=r"tip\.fx"):
        problem.solve(np.zeros(2), np.array([1.0, 0.0]), torque)


# ---- steering, impulses, closing -------------------------------------------------------------


def test_gains_and_targets() -> None:
    case = stewart_platform()
    robot, held = case.robot, case.constraints
    problem = problems.ForwardDynamics(robot, constraints=held)
    rng = np.random.default_rng(2)
    q, qd = 0.02 * rng.normal(size=(2, robot.nv))
    torque, target = rng.normal(size=robot.nv), rng.normal(size=15)
    gains = {"ball_2": (100.0, 20.0)}
    found = problem.solve(q, qd, torque, gains=gains, target=target)
    rows = dense_rows(robot, held, q, qd)
    wanted = target.copy()
    wanted[3:6] -= 100 * rows.error[3:6] + 20 * rows.velocity[3:6]
    close(rows.J @ found.qdd + rows.drift, wanted)
    slow = problems.ForwardDynamics(robot, "reference", held)
    close(found.qdd, slow.solve(q, qd, torque, gains=gains, target=target).qdd)
    for bad in ({"ball_9": (1, 1)}, (1.0,), (-1.0, 0.0), (np.nan, 0.0)):
        with pytest.raises(StateError, match=r"constraint|ball_9"):
            problem.solve(q, qd, torque, gains=bad)
    with pytest.raises(StateError, match="15 rows"):
        problem.solve(q, qd, torque, target=np.zeros(3))
    with pytest.raises(ModelError, match="nothing holds"):
        problems.ForwardDynamics(robot).solve(q, qd, torque, gains=(1, 1))


@pytest.mark.finding("B-8")
def test_verdicts_name_the_torques_that_go_with_open_forces() -> None:
    """Those of joints whose acceleration is known; what cancels changes none of them."""
    robot = synthetic.humanoid30()
    legs = [name for name in robot.joint_names if "leg" in name]
    feet = [FrameConstraint(side, f"{side}_leg_6") for side in ("left", "right")]
    hybrid = problems.HybridDynamics(robot, legs, constraints=feet).verdict()
    assert set(hybrid.undetermined) == {"left", "right", *(f"torque of {one}" for one in legs)}
    twice = [FrameConstraint(name, "left_leg_6") for name in ("a", "b")]
    inverse = problems.InverseDynamics(robot, constraints=twice).verdict()
    assert set(inverse.undetermined) == {"a", "b"}  # both feet are one: every torque is known
    forward = problems.ForwardDynamics(robot, constraints=twice).verdict()
    assert set(forward.undetermined) == {"a", "b"}


@pytest.mark.parametrize("steering", [{"gains": (100.0, 20.0)}, {"target": np.ones(6)}])
@pytest.mark.finding("B-7")
def test_inverse_dynamics_is_given_what_gains_and_targets_steer(steering: Any) -> None:
    robot = synthetic.humanoid30()
    foot = FrameConstraint("foot", "left_leg_6")
    inverse = problems.InverseDynamics(robot, constraints=[foot])
    everything = problems.HybridDynamics(robot, robot.joint_names, constraints=[foot])
    q, still = robot.random_configuration(0), np.zeros(robot.nv)
    for problem in (inverse, everything):
        with pytest.raises(StateError, match="steer accelerations, all of which are given"):
            problem.solve(q, still, still, **steering)
        with pytest.raises(StateError, match="steer accelerations, all of which are given"):
            problem.solve_batch([q], [still], [still], **steering)


def test_impulses_by_name() -> None:
    case = four_bar()
    problem = problems.ForwardDynamics(case.robot, constraints=case.constraints)
    q = problem.close(np.array([0.1, 0.0, 0.0]))
    v = np.array([1.0, -0.3, 0.5])
    hit = problem.impulse(q, v)
    rows = dense_rows(case.robot, case.constraints, q, hit.v)
    assert np.abs(rows.velocity).max() < 1e-14
    H = dynsys.crba(case.robot, q)
    close(H @ (hit.v - v), rows.J.T @ hit.impulse["loop"][3:], 1e-12)
    assert hit.v @ H @ hit.v < v @ H @ v
    bounced = problem.impulse(q, v, restitution={"loop": 1.0}).v
    assert bounced @ H @ bounced == pytest.approx(v @ H @ v, rel=1e-12)  # nothing is lost
    many = problem.impulse([q, q], [v, v], 0.5)
    assert many.v.shape == (2, 3) and many.impulse["loop"].shape == (2, 6)
    for bad in (2.0, {"door": 0.1}):
        with pytest.raises(StateError, match="from 0 to 1"):
            problem.impulse(q, v, bad)
    inverse = problems.InverseDynamics(case.robot, constraints=case.constraints)
    with pytest.raises(ModelError, match="ask ForwardDynamics"):
        inverse.impulse(q, v)


def test_loops_that_cannot_close() -> None:
    far = FrameConstraint(
        "far", "link_2", other_placement=Transform(np.eye(3), 50 * np.ones(3))
    )
    problem = problems.ForwardDynamics(synthetic.chain(2), constraints=[far])
    with pytest.raises(StateError, match="closes constraint 'far'"):
        problem.close(np.zeros(2))


# ---- plans, exports, other inputs ------------------------------------------------------------


def test_the_order_of_rows_is_executed_or_refused() -> None:
    problem = problems.ForwardDynamics(synthetic.chain(5, generic=True), constraints=[TIP])
    plan = problem.plan()
    turned = (*plan.steps[:-3], *plan.steps[-3:][::-1])
    other = problem.plan(steps=turned)
    kernel: Any = problem.compile(other)
    assert kernel.operations == other.operations and other.digest != plan.digest
    q, qd, torque = state(problem.robot)
    close(kernel.one(q, qd, torque)[0][0], problem.solve(q, qd, torque).qdd)
    assert plan.checked_pivots[0].name.startswith("mobility along 'tip.")
    for steps in (plan.steps[:-1], (plan.steps[-1], *plan.steps[:-1])):
        with pytest.raises(PlanMismatchError, match="rows of its constraints"):
            problem.plan(steps=steps)
    elsewhere = problems.ForwardDynamics(
        problem.robot, constraints=[replace(TIP, frame="link_4")]
    )
    with pytest.raises(PlanMismatchError, match=r"constraint 'tip'|equation"):
        elsewhere.compile(plan)
    # a redundant row in a kept one's place is solved with it, not dropped
    redundant = (*plan.steps[:-1], SymmetricStep("redundant", plan.steps[-1].body))
    assert problem.plan(steps=redundant).operations != plan.operations


@pytest.mark.skipif(not COMPILERS, reason="no C compiler")
def test_exported_c(tmp_path: Path) -> None:
    case = four_bar(HELD_BY_HINGE)
    problem = problems.ForwardDynamics(case.robot, constraints=case.constraints)
    problem.export_c(tmp_path, name="four_bar", steered=True)
    compile_and_check(tmp_path, "four_bar")
    header = (tmp_path / "four_bar.h").read_text()
    assert "loop.fz" in header and "loop.stiffness" in header


def test_constraints_of_sensor_layouts_say_the_same() -> None:
    robot = synthetic.chain(5, generic=True)
    given_ = [
        sensors.RigidContact("tip", frame="link_5", xyz=(0.1, 0.2, 0.3), holds="point"),
        sensors.MimicConstraint("gear", joint="link_2", leader="link_1", ratio=0.5),
    ]
    own = [
        FrameConstraint("tip", "link_5", components=("x", "y", "z"),
                        placement=Transform(np.eye(3), np.array([0.1, 0.2, 0.3]))),
        JointConstraint("gear", "link_2", "link_1", (0.0, 0.5), is_placed=False),
    ]  # fmt: skip
    q, qd, torque = state(robot)
    one, other = (
        problems.ForwardDynamics(robot, constraints=held).solve(q, qd, torque)
        for held in (given_, own)
    )
    close(one.qdd, other.qdd, 0)
    assert one.constraint_wrench["gear"].shape == (1,)
    loop = sensors.LoopClosure("loop", frame_a=-1, frame_b="link_5", components=("x", "y"))
    found = problems.ForwardDynamics(robot, constraints=[loop]).constraints[0]
    assert (found.frame, found.other, found.axes) == ("link_5", -1, "other")


def base_seen_from_the_tip(robot: KinematicTree, q: Array) -> Array:
    """Origin of the base in the tip's x and y."""
    tip = dynsys.forward_kinematics(robot, q, robot.body_names[-1])
    return np.asarray((tip.E @ -tip.r)[:2], np.float64)


BASE_IN_TIP = sensors.LoopClosure("line", "link_4", -1, components=("x", "y"), axes="a")


@pytest.mark.finding("F1")
@pytest.mark.parametrize("backend", ["llvm", "reference"])
def test_loops_hold_the_base_as_they_say_it(backend: Any) -> None:
    robot = synthetic.chain(4, generic=True)
    held = [BASE_IN_TIP]
    fd = problems.ForwardDynamics(robot, backend=backend, constraints=held)
    q, qd, torque = state(robot)
    solution = fd.solve(q, qd, torque)
    assert solution.residual < 1e-9
    wrench = np.zeros((4, 6))  # on the base acts the constraint's; its opposite on the tip
    tip = dynsys.forward_kinematics(robot, q, "link_4")
    push = solution.constraint_wrench["line"][3:]  # at the base, in tip axes
    wrench[3] = -np.array([*np.cross(tip.E @ -tip.r, push), *push])
    free = problems.ForwardDynamics(robot).solve(q, qd, torque, f_ext=wrench)
    close(free.qdd, solution.qdd)
    hybrid = problems.HybridDynamics(robot, ["link_1"], constraints=held)
    given_ = np.array([solution.qdd[0], *torque[1:]])
    close(hybrid.solve(q, qd, given_).qdd, solution.qdd)
    close(fd.solve_batch(q[None], qd[None], torque[None]).qdd[0], solution.qdd)

    def second_rate(qdd: Array, h: float = 1e-4) -> Array:
        before, now, after = (
            base_seen_from_the_tip(robot, q + qd * t + qdd * t * t / 2) for t in (-h, 0.0, h)
        )
        return np.asarray((after - 2 * now + before) / h**2)

    np.testing.assert_allclose(second_rate(solution.qdd), 0, atol=1e-5)
    after, h = fd.impulse(q, qd).v, 1e-6
    ways = [base_seen_from_the_tip(robot, q + after * t) for t in (-h, h)]
    np.testing.assert_allclose((ways[1] - ways[0]) / (2 * h), 0, atol=1e-8)
    np.testing.assert_allclose(base_seen_from_the_tip(robot, fd.close(q)), 0, atol=1e-9)


@pytest.mark.finding("F1")
def test_estimates_hold_a_loop_of_the_base_as_its_sensor_does() -> None:
    robot = synthetic.chain(4, generic=True)
    q, qd = robot.random_configuration(0), np.ones(4)
    plain = [
        *sensors.all_joint_accelerations(robot, std=0.1),
        *sensors.zero_external_wrench_except(robot),
    ]
    layout = sensors.Layout(robot, plain)
    stated = problems.Estimation(robot, sensors.Layout(robot, [*plain, BASE_IN_TIP]))
    held = problems.Estimation(robot, layout, constraints=[BASE_IN_TIP])
    e, other = (est.solve(q, qd, np.zeros(est.layout.size)) for est in (stated, held))
    close(other.qdd.array, e.qdd.array)
    close(other.std.qdd.array, e.std.qdd.array)


@pytest.mark.finding("F1")
def test_a_complete_loop_may_name_its_ends_either_way() -> None:
    robot = synthetic.chain(7, generic=True)
    q, qd, torque = state(robot)
    one, other = (
        problems.ForwardDynamics(robot, constraints=[sensors.LoopClosure("weld", *ends)])
        for ends in ((-1, "link_7"), ("link_7", -1))
    )
    q = one.close(q)
    close(other.close(q), q)
    qd = one.impulse(q, qd).v
    close(other.impulse(q, qd).v, qd)
    close(other.solve(q, qd, torque).qdd, one.solve(q, qd, torque).qdd, 1e-7)


@pytest.mark.finding("F1")
def test_sensors_that_say_something_else_are_no_constraints() -> None:
    robot = synthetic.chain(5, generic=True)

    def fd(held: Any) -> problems.ForwardDynamics:
        return problems.ForwardDynamics(robot, constraints=[held])

    for components in (("z",), ("x", "y", "rz")):
        slides = sensors.RigidContact("ice", "link_5", components=components)
        with pytest.raises(ModelError, match=r"'ice'.*velocity is.*axes='world'"):
            fd(slides)
        fd(replace(slides, axes="world"))
    for components in (("rx", "ry", "z"), ("x", "y", "z"), MOTIONS):
        fd(sensors.RigidContact("foot", "link_5", components=components))
    for noisy in (
        sensors.RigidContact("foot", "link_5", std=0.1),
        sensors.LoopClosure("loop", -1, "link_5", covariance=np.eye(6)),
        sensors.MimicConstraint("gear", "link_2", "link_1", std=0.1),
    ):
        with pytest.raises(ModelError, match=f"'{noisy.name}' has noise"):
            fd(noisy)


@pytest.mark.finding("F5")
@pytest.mark.parametrize("backend", ["llvm", "reference"])
def test_a_coupling_without_an_offset_pulls_to_none(backend: Any) -> None:
    robot = synthetic.chain(3)
    gear = sensors.MimicConstraint("gear", "link_3", "link_1", ratio=1.0)
    fd = problems.ForwardDynamics(robot, backend=backend, constraints=[gear])
    q, zero = np.array([0.2, 0.1, 0.9]), np.zeros(3)
    np.testing.assert_array_equal(fd.close(q), q)
    for qd in (zero, np.array([0.3, 0.0, 0.5])):
        qdd = fd.solve(q, qd, zero, gains=(100.0, 20.0)).qdd
        assert qdd[2] - qdd[0] == pytest.approx(-20.0 * (qd[2] - qd[0]), abs=1e-9)
    placed = [JointConstraint("gear", "link_3", "link_1", (0.7, 1.0))]
    known = problems.ForwardDynamics(robot, backend=backend, constraints=placed)
    close(known.close(q), q)
    stands = JointConstraint("s", "link_3", "link_1", is_placed=False).with_locked(
        robot, {"link_1": 0.2}
    )
    assert stands is not None and str(stands) == "'s' holds joint 'link_3' where it is"


def test_what_constraints_do_not_have() -> None:
    problem = problems.ForwardDynamics(synthetic.chain(4, generic=True), constraints=[TIP])
    q, qd, torque = state(problem.robot)
    with pytest.raises(KernelBuildError, match="without constraints"):
        problem.derivatives(q, qd, torque)
    with pytest.raises(KernelBuildError, match="without constraints"):
        problem.vjp(q, qd, torque, np.ones(4))
    with pytest.raises(KernelBuildError, match="other tools"):
        PlainFunction(problem)
    with pytest.raises(KernelBuildError, match=r"solution\.residual"):
        problem.solve(q, qd, torque).trust()
    with pytest.raises(KernelBuildError, match="use llvm"):
        problem.compile(backend="loops")
    with pytest.raises(KernelBuildError, match="constraint_wrench"):
        problem.compile(outputs=["dqdd_dq"])
    with pytest.raises(StateError, match="out: expected 2 arrays"):
        problem.solve(q, qd, torque, out=np.empty(4))
    with pytest.raises(ModelError, match=r"no constraint 'tpi'.*'tip'"):
        problem.solve(q, qd, torque).constraint_wrench["tpi"]
    for bad in ("urdf", 3):
        with pytest.raises(ModelError, match="a list, or 'file'"):
            problems.ForwardDynamics(problem.robot, constraints=bad)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="undriven must list"):
        problems.InverseDynamics(problem.robot, undriven="link_1")
    with pytest.raises(ModelError, match="nothing holds"):
        problems.ForwardDynamics(problem.robot).verdict()


@pytest.mark.parametrize("first", ["torque", "qdd", "constraint_wrench", "residual"])
@pytest.mark.parametrize("kind", ["fd", "id", "hybrid"])
def test_a_solution_keeps_what_it_was_given(kind: str, first: str) -> None:
    """Whatever is looked at first, and whatever becomes of the caller's arrays meanwhile."""
    robot = synthetic.chain(5)
    held = [FrameConstraint("tip", robot.body_names[-1], components=("x", "z"))]
    problem: Any = {
        "fd": lambda **more: problems.ForwardDynamics(robot, constraints=held, **more),
        "id": lambda **more: problems.InverseDynamics(robot, constraints=held, **more),
        "hybrid": lambda **more: problems.HybridDynamics(
            robot, robot.joint_names[:2], constraints=held, **more
        ),
    }[kind]
    rng = np.random.default_rng(1)
    q, qd, given = rng.normal(size=(3, 5))
    expected = problem(backend="reference").solve(q, qd, given)
    state = q.copy(), qd.copy(), given.copy()
    solution = problem().solve(*state)
    for array in state:
        array[:] = np.nan
    getattr(solution, first)
    for name in ("torque", "qdd"):
        np.testing.assert_allclose(getattr(solution, name), getattr(expected, name), atol=1e-9)
    forces = solution.constraint_wrench.array
    np.testing.assert_allclose(forces, expected.constraint_wrench.array, atol=1e-9)
    found, wanted = solution.acceleration.array, expected.acceleration.array
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    assert solution.residual == pytest.approx(expected.residual, abs=1e-12)
