"""What no test noticed until changes of meaning showed it (experiments.trust.mutations)."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

import dynsys
import sensors
from dynsys.errors import ModelError, StateError, nearest_name
from dynsys.model import synthetic
from dynsys.model.body import Body
from dynsys.model.joints import Prismatic, Revolute, Spherical
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import KinematicTree
from dynsys.operational.methods.pv_osimr import compose_chains
from dynsys.operational.tasks import BodyMotion, CentreOfMass, Posture, TaskSpace
from dynsys.plan.orders.dulmage_mendelsohn import _augmented
from dynsys.simulation import Drives, Ground, Simulation, step
from dynsys.simulation.impulses import CLOSURE, CONTACT, _newton_step
from dynsys.system.diagnosis import describe_singularity, null_vector
from dynsys.system.equations import Kinematics
from dynsys.system.unknowns import UnknownLayout
from problems import Estimation, ForwardDynamics, InverseDynamics
from problems.command.arguments import joint_at
from problems.command.info import _cells
from problems.command.solve import _show
from problems.detection import Alarm, ContactDetector
from problems.detection.contacts import _checked, _nearest
from problems.labels import base_words, entry_names
from problems.logs.simulate import Trajectory
from problems.measured.reduced import rank_of
from problems.placement.placement import Candidate, place_sensors, save_curve
from problems.placement.search import Score, Search
from problems.report.estimates import (
    LEFT,
    RIGHT,
    WIDTH,
    _Frame,
    _wrench_deviations,
    around_zero,
)
from problems.report.orders import _symmetric
from problems.report.robot import MARGIN, BodyPart, _base, _ruler
from problems.studio import shapes
from problems.studio.background import _operations, _state
from problems.studio.glance import GlanceKeeper
from problems.studio.palette import with_usual_noise
from problems.studio.view import estimate_facts
from problems.verdict.repairs import MANY_FEET, point_feet
from problems.verdict.verdict import _repair_lines
from problems.verdict.words import _parts
from sensors.mounting import varying_term

NAN = float("nan")
CHAIN = synthetic.chain(2)


def torques_and_accelerations() -> Estimation:
    own = [
        *sensors.all_joint_torques(CHAIN, std=0.05),
        *sensors.all_joint_accelerations(CHAIN, std=0.05),
        *sensors.zero_external_wrench_except(CHAIN),
    ]
    return Estimation(CHAIN, sensors.Layout(CHAIN, own))


# ---- dynsys ----------------------------------------------------------------------------------


def test_one_name_is_proposed_the_nearest() -> None:
    assert nearest_name("elbow", ["elbow_1", "elbows", "knee"]) == "; did you mean 'elbows'?"
    assert nearest_name("elbow", ["knee"]) == ""


def test_a_search_for_a_path_may_meet_every_row() -> None:
    """Five rows on four columns in a chain: the last row's search visits all of them."""
    start = np.array([0, 2, 4, 6, 7, 8])
    cols = np.array([0, 1, 1, 2, 2, 3, 3, 0])
    found = _augmented.source(5, 4, start, cols)
    assert sorted(found.tolist()) == [-1, 0, 1, 2, 3]


def test_torque_of_drives() -> None:
    q, qd, target = np.array([0.1, 0.2]), np.array([0.5, -2.0]), np.array([0.4, 0.0])
    found = Drives(CHAIN, 3.0, 0.5).torque(q, qd, target, 0.1)
    np.testing.assert_allclose(found, 3.0 * (target - q) - (0.5 + 3.0 * 0.1) * qd)


def test_ground_without_slop_or_friction_is_ground() -> None:
    assert Ground(slop=0.0, friction=0.0, correction=0.0).slop == 0.0
    for wrong in ({"slop": -1e-9}, {"friction": -0.1}, {"correction": 1.1}, {"slop": NAN}):
        with pytest.raises(ModelError, match="must be >= 0"):
            Ground(**wrong)


def test_null_vectors_have_a_largest_entry_of_one() -> None:
    """Whatever the scales of the columns: what is open is told in parts of it."""
    D = np.array([[1.0, 2e-6, 0.0], [0.0, 4e-6, 5e3], [1.0, 6e-6, 5e3]])
    found = null_vector(csc_array(D))
    assert found is not None and np.abs(found).max() == pytest.approx(1.0)
    np.testing.assert_allclose(D @ found, 0.0, atol=1e-9)
    assert null_vector(csc_array(D + np.eye(3))) is None


def test_what_a_null_vector_moves_is_asked_in_parts_of_it() -> None:
    """Sizes do not matter, and neither does rounding beside the joint that moves."""
    system = ForwardDynamics(CHAIN).system
    x = np.zeros(system.unknowns.size)
    where = [block.slice for block in system.unknowns.blocks if block.kind == "qdd"]
    x[where[0]], x[where[1]] = 1.0, 1e-9
    for size in (1e-7, 1.0, 1e7):
        assert "joint 'link_1' is" in describe_singularity(system, size * x)


# ---- dynsys.operational ----------------------------------------------------------------------


def test_every_chain_is_composed_to_its_end() -> None:
    """Psi = L_1 L_2 ... L_k, omega = M_k + L_k^T omega L_k, of chains of two and three."""
    rng = np.random.default_rng(0)
    L, M = rng.normal(size=(2, 5, 6, 6))
    psi, omega = np.empty((2, 2, 6, 6))
    compose_chains.source(
        np.array([-1, 0]), np.array([0, 2, 5]), np.arange(5), L, M, psi, omega
    )
    np.testing.assert_allclose(psi[1], L[2] @ L[3] @ L[4], rtol=1e-12)
    inner = M[3] + L[3].T @ M[2] @ L[3]
    np.testing.assert_allclose(omega[1], M[4] + L[4].T @ inner @ L[4], rtol=1e-12)
    np.testing.assert_allclose(omega[0], M[1] + L[1].T @ M[0] @ L[1], rtol=1e-12)


def test_coordinates_of_one_unit_are_alike_within_a_task() -> None:
    """Three turns, three displacements, the centre of mass; every joint is of its own kind."""
    space = TaskSpace(CHAIN, [BodyMotion(CHAIN.body_names[1]), CentreOfMass(), Posture()])
    assert space.alike.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 4]


# ---- dynsys.simulation -----------------------------------------------------------------------


def test_dry_friction_may_differ_with_the_direction() -> None:
    """Of a slider of 2 kg: 1.5 N against +x, 2.5 N against -x; it is pushed by 2 N."""
    inertia = Inertia(2.0, np.zeros(3), np.eye(3))
    place = Transform(np.eye(3), np.zeros(3))
    robot = KinematicTree("slider", [Body("cart", -1, Prismatic([1, 0, 0]), place, inertia)])
    (joint,) = robot.joint_names
    dry = {f"{joint}.coulomb": 1.5, f"{joint}.coulomb_minus": 2.5}
    simulation = Simulation(robot.with_parameters(dry), None, 1e-2)
    for push, speed in ((2.0, 0.25), (-2.0, 0.0), (-3.0, -0.25)):
        end, _ = simulation.run(simulation.start(np.zeros(1)), 100, torque=np.array([push]))
        np.testing.assert_allclose(end.v, speed, atol=2e-2)  # it is smooth near rest


def test_the_first_body_is_a_body_where_loops_close() -> None:
    """Frames of two closures, on the first body and on the base; how far the second opens."""
    rng = np.random.default_rng(1)
    E, own = np.linalg.qr(rng.normal(size=(2, 1, 3, 3)))[0]
    motion = SimpleNamespace(E=E, r=rng.normal(size=(1, 3)))
    at = rng.normal(size=(2, 2, 3))
    setup = SimpleNamespace(
        closure_body=np.array([[-1, -1], [0, -1]]),
        closure_E=np.broadcast_to(own, (2, 2, 3, 3)),
        closure_r=at,
        closure_rows=np.ones((2, 6)),
        radius=(),
        limit=(),
        dry=(),
    )
    axes, origin = step.closure_frame.source(motion, setup, 1, 0)  # type: ignore[arg-type]
    np.testing.assert_allclose(axes, own[0] @ E[0])
    np.testing.assert_allclose(origin, motion.r[0] + E[0].T @ at[1, 0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, "closure_frame", step.closure_frame.source)
        opens = []
        for place in range(6, 12):
            given: Any = (motion, setup, np.zeros(0), CLOSURE, place, np.empty(3))
            opens.append(step._violation.source(*given))
    turn = axes @ own[0].T
    np.testing.assert_allclose(opens[:3], 0.5 * (turn - turn.T)[[1, 2, 0], [2, 0, 1]])
    np.testing.assert_allclose(opens[3:], axes @ (origin - at[1, 1]))


@pytest.mark.parametrize("left", [0.0, 1.0])
def test_impulses_that_are_not_found_are_told(left: float, monkeypatch: Any) -> None:
    def find(*given: Any) -> None:
        given[-1][2] = left

    monkeypatch.setattr(step, "find_impulses", find)
    rows = SimpleNamespace(offset=np.ones(1), J=np.zeros((1, 1)), blocks=None)
    numbers = np.full(20, 1e-9)
    setup = SimpleNamespace(numbers=numbers, newton_rows=0, sweeps=1)
    now = SimpleNamespace(scalars=np.zeros(30))
    x = np.zeros(1)
    step.settle.source(setup, rows, np.eye(1), x, x, now)  # type: ignore[arg-type]
    assert now.scalars[step.CONVERGED] == (left == 0.0)
    assert now.scalars[step.RESIDUAL] == left


def test_work_of_drives_that_yield_within_a_step() -> None:
    """A drive whose torque falls by added * change / dt works by what is left of it."""
    setup = SimpleNamespace(numbers=np.full(20, 0.1), damping=np.zeros(1), constant=np.zeros(1))
    now = SimpleNamespace(
        v=np.array([2.0]), change=np.array([1.0]), scalars=np.zeros(30), kept=np.zeros(0)
    )
    rows = SimpleNamespace(blocks=SimpleNamespace(kind=()))
    torque, added = np.array([7.0]), np.array([0.3])
    step._account.source(setup, now, rows, np.zeros(0), torque, added)  # type: ignore[arg-type]
    np.testing.assert_allclose(now.scalars[step.DRIVE_WORK], (0.1 * 7.0 - 0.3) * 2.5)


def test_impulse_on_a_free_tree_is_about_its_centre_of_mass() -> None:
    rng = np.random.default_rng(2)
    E = np.linalg.qr(rng.normal(size=(2, 3, 3)))[0]
    r, wrench, torque = rng.normal(size=(2, 3)), rng.normal(size=(2, 6)), rng.normal(size=6)
    origin, mass, centre = rng.normal(size=3), np.array([1.0, 3.0]), rng.normal(size=(2, 3))
    first_moment = mass[:, None] * (centre - origin)
    bodies = SimpleNamespace(tree=[0, 0], root=[0], first=[0, 6], S=np.eye(6))
    motion = SimpleNamespace(E=E, r=r, origin=origin, inertia=np.c_[mass, first_moment])
    now, out = SimpleNamespace(wrench=wrench), np.zeros((1, 6))
    step._tree_impulses.source(bodies, motion, now, torque, 0.1, out)  # type: ignore[arg-type]
    own = wrench + np.vstack([torque, np.zeros(6)])
    middle = mass @ centre / mass.sum()
    n, f = (np.einsum("ikj,ik->ij", E, part) for part in (own[:, :3], own[:, 3:]))
    turning = n + np.cross(r - middle, f)
    np.testing.assert_allclose(out[0], 0.1 * np.r_[turning.sum(axis=0), f.sum(axis=0)])


def test_a_step_of_newton_stays_at_a_contact_that_slides() -> None:
    """Friction 0.5 against the sliding velocity: impulses that are right are kept."""
    A = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.0]])
    right = np.array([1.0, 0.5 * 0.6, 0.5 * 0.8])
    u = np.array([0.0, -0.6, -0.8])
    blocks = SimpleNamespace(kind=[CONTACT], row=[0], limit=[0.5])
    x, G, g, order = right.copy(), np.zeros((3, 3)), np.zeros(3), np.zeros(3, np.intp)
    assert _newton_step.source(A, u - A @ x, blocks, u, x, G, g, order)  # type: ignore[arg-type]
    np.testing.assert_allclose(x, right, rtol=1e-12)


# ---- sensors ---------------------------------------------------------------------------------


def test_the_pattern_of_a_term_is_where_it_is_not_zero() -> None:
    unknown = UnknownLayout(CHAIN).block("torque", 0)
    values = [np.array([[0.0, 1.0, 0.3, 0.0]]), np.array([[0.0, 1.0, 0.0, 1e-17]])]
    term = varying_term(
        (0, 1),  # type: ignore[arg-type]
        unknown,
        lambda state: values[state],  # type: ignore[index, call-overload]
        lambda state: np.ones((1, 4)),
    )
    assert np.asarray(term.pattern).tolist() == [[False, True, True, False]]


# ---- problems --------------------------------------------------------------------------------


def test_freedoms_have_numbers_only_where_a_joint_has_several() -> None:
    bodies = [Body("a", -1, Revolute([0, 0, 1])), Body("b", 0, Spherical())]
    robot = KinematicTree("two", [*bodies, Body("c", 1, Revolute([0, 1, 0]))])
    a, b, c = robot.joint_names
    assert entry_names(robot)["qd"] == [a, f"{b}[0]", f"{b}[1]", f"{b}[2]", c]


def test_random_motions_without_limits_swing_within_one() -> None:
    q = Trajectory.random(CHAIN, 30.0, seed=1).at(np.linspace(0, 30.0, 400))[0]
    assert 0.7 < np.abs(q).max() <= 1.0


def test_limits_on_one_side_are_shown() -> None:
    body: dict[str, Any] = {"number": 1, "body": "b", "parent": -1, "joint": "j", "mass": 1.0}
    body |= {"type": "revolute", "follows": None, "effort_limit": [None]}
    assert "1.5" in _cells(body | {"lower": [None], "upper": [1.5]})[6]
    assert "-0.5" in _cells(body | {"lower": [-0.5], "upper": [None]})[6]
    assert _cells(body | {"lower": [None], "upper": [None]})[6] == "-"


def test_the_rate_of_a_resumed_job_counts_what_was_done(capsys: Any) -> None:
    done: Any = SimpleNamespace(
        n_samples=1000, resumed=600, seconds=2.0, missing_rows=0, failed=(), unused=()
    )
    told = {"differentiated": [], "sensors_without_data": [], "by": "llvm"}
    _show("out.npz", done, told)
    text = capsys.readouterr().out
    assert "(200 per s)" in text and "600 of them" in text


def test_a_joint_and_its_value() -> None:
    assert joint_at("a=b=0.5") == ("a=b", 0.5)
    for text in ("=0.5", "knee=", "knee=nan", "knee=inf", "knee"):
        with pytest.raises(argparse.ArgumentTypeError, match="JOINT=VALUE"):
            joint_at(text)


def test_a_wrench_that_is_open_has_six_components() -> None:
    problem = torques_and_accelerations()
    detector = ContactDetector(problem, Alarm(10.0, 1.0, 0.1, 1.0, 0.0))
    y = np.zeros(problem.layout.size)
    wrench, covariance = detector._wrench("link_1", np.ones(2), np.zeros(2), y)
    assert wrench.shape == (6,) and covariance.shape == (6, 6)
    assert np.isnan(wrench).all() and np.isnan(covariance).all()


def test_one_degree_of_freedom_checks() -> None:
    e: Any = SimpleNamespace(degrees_of_freedom=np.array([1, 0]), chi_square=np.ones(2))
    found, alarm = _checked(e), Alarm(10.0, 1.0, 0.1, 1.0, 0.0)
    seen = alarm.comparable(found.chi_square, found.degrees_of_freedom)
    np.testing.assert_array_equal(seen, [1.0, NAN])


@pytest.mark.parametrize("force", [(1.0, 0.0, 1.0), (0.3, -2.0, -0.7), (0.0, 5.0, 0.0)])
def test_where_an_oblique_force_meets_the_link(force: tuple[float, ...]) -> None:
    place, f = np.array([0.0, 0.0, 0.4]), np.array(force)
    wrench = np.concatenate([np.cross(place, f), f])
    assert _nearest(np.array([0.0, 0.0, 1.0]), wrench) == pytest.approx(0.4)


def test_estimates_without_exact_rows_have_a_bound() -> None:
    own: list[Any] = [
        *sensors.all_joint_torques(CHAIN, std=0.1),
        *sensors.all_joint_accelerations(CHAIN, std=0.1),
        *(sensors.ExternalWrench(f"{n} felt", n, std=0.2) for n in CHAIN.body_names),
    ]
    problem = Estimation(CHAIN, sensors.Layout(CHAIN, own), backend="dense")
    e = problem.solve(np.ones(2), np.ones(2), np.ones(problem.layout.size))
    assert e.trust().relative_error < 1e-10


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_what_is_open_does_not_depend_on_units(scale: float) -> None:
    rank = rank_of(np.array([[1.0, 0.0]]))
    size = np.ones((1, 2))
    assert not rank.is_open(scale * np.array([[1.0, 1e-10]]), scale * size)[0]
    assert rank.is_open(scale * np.array([[1.0, 1e-6]]), scale * size)[0]


# ---- placement -------------------------------------------------------------------------------


class Board:
    """Scores by how many of the wanted candidates are chosen."""

    def __init__(self, wanted: set[int]) -> None:
        self.wanted, self.evaluations = wanted, 0

    def score(self, chosen: frozenset[int]) -> Score:
        self.evaluations += 1
        return Score(0, 0, float(len(self.wanted - chosen)))


def searching(wanted: set[int], costs: list[float], evaluations: int) -> Search:
    board: Any = Board(wanted)
    return Search(board, costs, evaluations)


def test_sensors_are_exchanged_for_others_that_cost_no_more() -> None:
    assert searching({1}, [2.0, 1.0, 3.0], 0)._exchanged(frozenset({0})) == {1}
    assert searching({1}, [2.0, 2.0, 3.0], 0)._exchanged(frozenset({0})) == {1}
    assert searching({2}, [2.0, 1.0, 3.0], 0)._exchanged(frozenset({0})) == {0}


def test_a_proof_has_the_evaluations_that_are_left_to_it() -> None:
    """However many were made before it."""
    search = searching({0, 1}, [1.0, 1.0, 1.0], 50)
    search.board.evaluations = 40
    assert search.prove(frozenset({0}), 1.0)[1]


def test_sensors_are_placed_by_several_states() -> None:
    torque = sensors.JointTorque("t", CHAIN.joint_names[0], std=0.1)
    layout = sensors.Layout(
        CHAIN,
        [
            *sensors.zero_external_wrench_except(CHAIN),
            *sensors.all_joint_accelerations(CHAIN, std=1.0),
        ],
    )
    one, many = (place_sensors(CHAIN, layout, [torque], budget=1, states=n).std for n in (1, 5))
    assert many != pytest.approx(one, rel=1e-6)


def test_a_picture_is_high_enough_for_its_words(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    layout = sensors.Layout(CHAIN, sensors.zero_external_wrench_except(CHAIN))
    offers = [Candidate(sensors.JointTorque(f"t {j}", j), 1.0) for j in CHAIN.joint_names]
    save_curve(place_sensors(CHAIN, layout, offers), tmp_path / "curve.png")
    header = (tmp_path / "curve.png").read_bytes()[16:24]
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")
    assert height == round(width * 4.0 / 7.6)


# ---- report ----------------------------------------------------------------------------------


def test_the_base_is_joined_to_the_first_bodies_only() -> None:
    bodies = [
        BodyPart(n, parent, n, "revolute", 1, 1.0, 0, (x, 0.0, 1.0), (0.0, 0.0, 0.0))
        for n, parent, x in (("a", -1, 1.0), ("b", 0, 2.0), ("c", 1, 3.0))
    ]
    drawn = _base(bodies, lambda p: (10.0 * p[0], 10.0 * p[2]))
    assert 'd="M0.0 0.0L10.0 10.0"' in drawn


def test_the_ruler_ends_at_the_margin() -> None:
    drawn = _ruler(45.0, 300.0, 100.0)  # 2 m are 90 long
    x = 300.0 - MARGIN / 2 - 90.0
    assert f"M{x:.1f} 88.0v4h90.0v-4" in drawn and f'x="{x + 45.0:.1f}"' in drawn
    assert ">2 m<" in drawn


def test_samples_fill_the_width_of_a_picture() -> None:
    x = _Frame(np.array([5.0, 6.0, 9.0]), 0.0, 1.0, 0.0, 1.0).x
    wide = WIDTH - LEFT - RIGHT
    np.testing.assert_allclose(x, [LEFT, LEFT + wide / 4, LEFT + wide])
    assert around_zero(0.7) == [-0.5, 0.0, 0.5]


def test_deviations_of_a_wrench_that_is_mostly_open_are_left_out() -> None:
    std = np.full((4, 2, 6), 0.5)
    std[:3, 0, 0] = NAN  # open in three samples of four
    std[:1, 0, 1] = NAN
    first, _ = _wrench_deviations(torques_and_accelerations(), std)
    assert list(first.components.values())[:3] == [None, 0.5, 0.5]


@pytest.mark.slow
def test_orders_are_listed_by_what_they_cost() -> None:
    before: Any = None
    rows = _symmetric(torques_and_accelerations(), before).rows
    costs = [row.elimination for row in rows if row.executed is None]
    assert costs == sorted(costs) and len(set(costs)) > 1  # type: ignore[type-var]


# ---- studio ----------------------------------------------------------------------------------


def test_masses_of_a_scene_have_four_digits() -> None:
    robot = CHAIN.with_parameters({"link_1.mass": 1.23456789}, physical=False)
    assert shapes.scene(robot)["bodies"][0]["mass"] == 1.2346


def test_usual_noise_of_some_components() -> None:
    some = sensors.ExternalWrench("some", "link_1", components=("fx", "ty", "fz"))
    assert with_usual_noise(some).std == (0.5, 0.05, 0.5)


def test_operations_of_a_sparse_solve_are_those_of_its_factors() -> None:
    layout = sensors.Layout(
        CHAIN,
        [
            *sensors.all_joint_accelerations(CHAIN, std=0.5),
            *sensors.zero_external_wrench_except(CHAIN),
        ],
    )
    problem = Estimation(CHAIN, layout)
    (D, _), (Y, _) = problem.measured.at(Kinematics.at(CHAIN, *_state(problem)[:2]))
    present = np.ones(layout.size, dtype=bool)
    factors = splu(problem.measured.saddle().at(D.data, Y.data, present).matrix)
    L, U = factors.L.toarray() != 0, factors.U.toarray() != 0
    count = 2 * int(factors.L.nnz + factors.U.nnz)
    for k in range(len(L)):  # a division, and a product and a sum for each entry to the right
        count += int(L[k + 1 :, k].sum()) * (1 + 2 * int(U[k, k + 1 :].sum()))
    assert _operations(problem, "superlu") == count


def test_the_torque_shown_of_a_ball_joint_is_its_largest() -> None:
    bodies = [Body("a", -1, Spherical(), inertia=CHAIN.bodies[0].inertia)]
    robot = KinematicTree("ball", bodies)
    own = [sensors.ExternalWrench("free", "a", value=0.0)]
    layout = sensors.Layout(robot, [*own, *sensors.all_joint_torques(robot, std=0.1)])
    e = Estimation(robot, layout).solve(
        robot.neutral(), np.zeros(3), {layout.names[1]: [1, -7, 2]}
    )
    glance = GlanceKeeper(robot).look(layout, robot.neutral())
    assert estimate_facts(e, glance)["torques"] == pytest.approx([7.0])


# ---- verdict ---------------------------------------------------------------------------------


def test_what_moves_most_comes_first_whichever_way() -> None:
    unknowns = UnknownLayout(CHAIN)
    d = np.zeros(unknowns.size)
    d[unknowns.block("torque", 0).slice], d[unknowns.block("torque", 1).slice] = 1.0, -5.0
    assert [part.amount for part in _parts(unknowns.blocks, d, d != 0)] == [-5.0, 1.0]


def test_repairs_are_shown_whole() -> None:
    repair = SimpleNamespace(words="w", yaml="\n".join(f"line {k}" for k in range(9)))
    verdict: Any = SimpleNamespace(repairs=[repair])
    assert [line.strip() for line in _repair_lines(verdict)[-9:]] == repair.yaml.splitlines()


def test_a_robot_stands_on_a_free_joint_or_does_not() -> None:
    assert base_words(CHAIN) == "fixed base"
    assert base_words(synthetic.humanoid30()) == "floating base"


def test_equations_without_terms_have_no_residual() -> None:
    robot = KinematicTree("weightless", CHAIN.bodies, gravity=np.zeros(3))
    solution = InverseDynamics(robot).solve(*np.zeros((3, robot.nv)))
    assert solution.residual == 0.0


def test_recursions_that_overflow_are_errors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path / "empty"))  # no machine code at first
    with pytest.raises(StateError, match="rnea at this state overflows float64"):
        dynsys.rnea(synthetic.chain(2), np.zeros(2), np.full(2, 1e200), np.zeros(2))


def test_no_budget_buys_nothing() -> None:
    layout = sensors.Layout(CHAIN, sensors.zero_external_wrench_except(CHAIN, []))
    shoulder = sensors.JointTorque("shoulder", CHAIN.joint_names[0], std=0.1)
    assert place_sensors(CHAIN, layout, [shoulder], budget=0).chosen == ()


def test_feet_are_points_where_they_are_many() -> None:
    feet = [f"leg_{k}_foot" for k in range(MANY_FEET)]
    assert point_feet(feet[:-1]) == ()
    assert [sensor.frame for sensor in point_feet([*feet, "hand"])] == feet
