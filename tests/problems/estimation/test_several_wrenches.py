"""Several external wrenches on one body, wrenches in axes of the world, closed loops."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import dynsys
import sensors
from dynsys import (
    Contact,
    FrameConstraint,
    JointConstraint,
    KinematicTree,
    LayoutError,
    forward_kinematics,
    synthetic,
)
from dynsys.errors import LayoutWarning
from dynsys.model.constraints import MOTIONS
from dynsys.model.spatial import Transform, rotation_from_rpy
from dynsys.types import Array
from problems import Estimation, ForwardDynamics
from problems.measured.simulated_readings import TrueReadings
from sensors import ExternalWrench, ForceTorque, Layout, PureForce, zero_external_wrench_except
from tests.kernel.exported_c import compile_and_check, needs_compiler
from tests.oracles import inverse_dynamics
from tests.sensors.test_forces import CUT

HEEL = Contact("heel", 4, (-0.1, 0.05, -0.1), (0.2, 0.0, 0.1))
TYPES = ("revolute", "prismatic", "spherical", "revolute")
TOE = Contact("toe", 4, (0.2, 0.0, -0.1))


def standing(seed: int) -> tuple[KinematicTree, Layout]:
    """A tree that touches the ground with two points of one body.

    Torques tell the sum of the forces; a scale under the toe its share along z of the world, a
    slippery heel that it has none along x and y.
    """
    tree = synthetic.random_tree(6, seed, joint_types=TYPES)
    robot = tree.with_contacts([HEEL, TOE])
    layout = Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.3),
            *sensors.all_joint_accelerations(robot, std=0.5, free=True),
            *zero_external_wrench_except(robot, ["heel", "toe"]),
            PureForce("heel/point", "heel"),
            PureForce("toe/point", "toe"),
            ExternalWrench("slippery", "heel", ["fx", "fy"], value=0.0, axes="world"),
            ExternalWrench("scale", "toe", ["fx", "fy", "fz"], axes="world", std=2.0),
        ],
    )
    return tree, layout


class Stance:
    """Motion and forces of :func:`standing`: torques by the oracle for the whole body."""

    def __init__(self, tree: KinematicTree, robot: KinematicTree, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.q = tree.random_configuration(rng)
        self.qd, self.qdd = rng.normal(size=(2, tree.nv))
        self.wrenches, total = np.zeros((robot.n_bodies, 6)), np.zeros((tree.n_bodies, 6))
        for name, push in (("heel", [0.0, 0.0, 30.0]), ("toe", 20 * rng.normal(size=3))):
            i = robot.body_index(name)
            self.wrenches[i, 3:] = forward_kinematics(robot, self.q, name).E @ push
            total[4] += robot.bodies[i].placement.force_back(self.wrenches[i])
        self.toe = np.asarray(push)
        self.torque = inverse_dynamics(tree, self.q, self.qd, self.qdd, total)

    def readings(self, layout: Layout) -> dict[str, Array]:
        y = {"scale": self.toe}
        for joint, v in zip(layout.robot.joint_names, layout.robot.v_slices(), strict=True):
            if v.stop > v.start:
                y[f"{joint}/torque"] = self.torque[v]
                y[f"{joint}/acceleration"] = self.qdd[v]
        needed = {s.name for s in layout if s.constant(1) is None}
        return {name: y[name] for name in layout.names if name in needed}


@pytest.mark.parametrize("seed", range(4))
def test_two_contacts_of_one_body_are_told_apart(seed: int) -> None:
    """What Newton's law gives for the whole body is found again, point by point."""
    tree, layout = standing(seed)
    stance = Stance(tree, layout.robot, seed)
    est = Estimation(tree, layout)  # the contacts are the layout's
    assert est.robot.body_names == layout.robot.body_names
    assert est.verdict(samples=3).nullity == 0
    y, scale = stance.readings(layout), float(np.abs(stance.torque).max() + 30)
    e = est.solve(stance.q, stance.qd, y)
    many = est.solve_batch(
        np.tile(stance.q, (300, 1)),
        np.tile(stance.qd, (300, 1)),
        {name: np.tile(value, (300, 1)) for name, value in y.items()},
        outputs=["torque", "external_wrench"],
    )
    np.testing.assert_allclose(e.torque.array, stance.torque, atol=1e-9 * scale)
    for name in ("heel", "toe"):
        expected = stance.wrenches[layout.robot.body_index(name)]
        np.testing.assert_allclose(e.external_wrench[name], expected, atol=1e-8 * scale)
        found = many.external_wrench[name]
        np.testing.assert_allclose(found[[0, 299]], [expected] * 2, atol=1e-8 * scale)
    assert not e.external_wrench[tree.body_names[4]].any()


@pytest.mark.parametrize("seed", range(2))
def test_values_and_deviations_are_those_of_dense_least_squares(seed: int) -> None:
    """Minimise over all unknowns with the laws and exact rows as constraints, by dense KKT."""
    tree, layout = standing(seed)
    est, rng = Estimation(tree, layout), np.random.default_rng(seed)
    stance = Stance(tree, layout.robot, seed)
    y = layout.pack(stance.readings(layout))
    noisy = ~layout.exact
    y[noisy] += rng.normal(size=noisy.sum()) * layout.std[noisy]
    system = est.system
    D, b = (np.asarray(x.toarray() if hasattr(x, "toarray") else x)
            for x in system.assemble(stance.q, stance.qd, y))  # fmt: skip
    is_noisy = np.zeros(len(b), dtype=bool)
    is_noisy[system.measured_rows[noisy]] = True
    A, a = D[is_noisy] / layout.std[noisy, None], -b[is_noisy] / layout.std[noisy]
    C, c = D[~is_noisy], -b[~is_noisy]
    start = np.linalg.lstsq(C, c, rcond=None)[0]
    null = np.linalg.svd(C)[2][np.linalg.matrix_rank(C) :].T
    solve = null @ np.linalg.pinv(A @ null)
    d, cov = start + solve @ (a - A @ start), solve @ solve.T
    e = est.solve(stance.q, stance.qd, y, uncertainty=["torque", "external_wrench"])
    for name in ("heel", "toe", tree.body_names[4]):
        block = system.unknowns.block("external_wrench", layout.robot.body_index(name))
        scale = np.abs(d).max()
        np.testing.assert_allclose(e.external_wrench[name], d[block.slice], atol=1e-9 * scale)
        deviations = np.sqrt(np.maximum(np.diag(cov)[block.slice], 0))
        np.testing.assert_allclose(e.std.external_wrench[name], deviations, atol=1e-6)
    places = system.unknowns.columns("torque")
    np.testing.assert_allclose(e.std.torque.array, np.sqrt(np.diag(cov)[places]), atol=1e-6)


def test_the_verdict_names_contacts() -> None:
    tree, layout = standing(0)
    apart = ("scale", "slippery")
    sum_of_both = ForceTorque("ft", tree.joint_names[4], std=1.0)
    left = [*(s for s in layout if s.name not in apart), sum_of_both]
    words = str(Estimation(tree, layout.with_sensors(left)).verdict(samples=3))
    assert "a pair of opposite forces on 'heel' and 'toe', along the line joining" in words
    assert "external wrench: heel" in words and "/contact/added_ft" not in words


def test_a_wrench_before_and_one_beyond_a_force_torque_sensor(tmp_path: Path) -> None:
    path = tmp_path / "cut.urdf"
    path.write_text(CUT.replace("TYPE", "fixed"))
    touch = [Contact("palm", "plate", (0.1, 0, 0)), Contact("pad", "arm", (0.2, 0.1, 0))]
    robot = dynsys.load(path).with_contacts(touch)
    assert robot.body_index("palm") != robot.body_index("pad") != robot.body_index("arm")
    layout = Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.1),
            *sensors.all_joint_accelerations(robot, std=0.1),
            *zero_external_wrench_except(robot, ["palm", "pad"]),
            ForceTorque("ft", "cell_joint", std=0.1),
            sensors.ForceAlongDirection("pad/line", "pad", (1.0, 0.0, 1.0), axes="world"),
        ],
    )
    rng = np.random.default_rng(0)
    q, qd, qdd = rng.normal(size=(3, robot.nv))
    wrenches = np.zeros((robot.n_bodies, 6))
    palm, pad = robot.body_index("palm"), robot.body_index("pad")
    wrenches[palm] = rng.normal(size=6)
    wrenches[pad, 3:] = forward_kinematics(robot, q, "pad").E @ [7.0, 0.0, 7.0]
    y = TrueReadings(layout).reference(q, qd, qdd, wrenches)[1]
    e = Estimation(robot, layout).solve(q, qd, y)
    np.testing.assert_allclose(e.external_wrench.array, wrenches, atol=1e-9)
    np.testing.assert_allclose(e.qdd.array, qdd, atol=1e-9)


@needs_compiler
def test_c_source_has_contacts(tmp_path: Path) -> None:
    tree, layout = standing(1)
    est = Estimation(tree, layout)
    files = est.export_c(tmp_path, outputs=["external_wrench"], name="stance")
    assert any(path.name == "stance.c" for path in files)
    compile_and_check(tmp_path, "stance")


# ---- loops ---------------------------------------------------------------------------------


def random_loop(robot: KinematicTree, rng: np.random.Generator) -> FrameConstraint:
    a, b = rng.choice(robot.n_bodies, 2, replace=False).tolist()
    held = rng.choice(MOTIONS, rng.integers(1, 7), replace=False).tolist()
    places = [
        Transform(rotation_from_rpy(rng.uniform(-1, 1, 3)), rng.uniform(-0.3, 0.3, 3))
        for _ in range(2)
    ]
    other: int | None = rng.choice([b, -1, None])  # type: ignore[list-item]
    axes = str(rng.choice(["frame", "other", "world"]))
    there = places[1] if rng.random() < 0.7 or other is not None else None
    return FrameConstraint("loop", a, other, held, axes, places[0], there)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [0, 1, 2, 4, 6, 7, 11])
def test_constraints_hold_in_estimates_as_in_forward_dynamics(seed: int) -> None:
    """Torques known, one loop or contact of any directions: the same qdd and wrench."""
    rng = np.random.default_rng(seed)
    robot = synthetic.random_tree(5, seed, joint_types=TYPES)
    held = random_loop(robot, rng)
    q, (qd, torque) = robot.random_configuration(rng), rng.normal(size=(2, robot.nv))
    dynamics = ForwardDynamics(robot, constraints=[held])
    if dynamics.verdict(samples=2).directions:
        pytest.skip("a force of this loop is not determined")
    solution = dynamics.solve(q, qd, torque)
    layout = Layout(
        robot, [*sensors.all_joint_torques(robot, std=0.1), *zero_external_wrench_except(robot)]
    )
    est = Estimation(robot, layout, constraints=[held])
    pairs = zip(robot.joint_names, robot.v_slices(), strict=True)
    y = {f"{joint}/torque": torque[v] for joint, v in pairs}
    e = est.solve(q, qd, y)
    scale = 1 + np.abs(solution.qdd).max()
    np.testing.assert_allclose(e.qdd.array, solution.qdd, atol=1e-7 * scale)
    own, other = held.ends(robot)
    E = forward_kinematics(robot, q, own.body).then(own.transform).E
    R = E
    if held.axes == "world":
        R = np.eye(3)
    elif held.axes == "other":
        R = (forward_kinematics(robot, q, other.body).then(other.transform).E
             if other.body >= 0 else other.transform.E)  # fmt: skip
    turn = R @ E.T
    found = e.external_wrench["loop"]
    told = np.concatenate([turn @ found[:3], turn @ found[3:]])
    expected = np.asarray(solution.constraint_wrench["loop"])
    np.testing.assert_allclose(told, expected, atol=1e-6 * (1 + np.abs(expected).max()))


FOUR_BAR = """<mujoco model="four_bar"><worldbody>
  <body name="crank"><joint name="crank" axis="0 1 0"/>
    <inertial pos="0.15 0 0.2" mass="1" diaginertia="0.02 0.02 0.02"/>
    <body name="coupler" pos="0.3 0 0.4"><joint name="coupler" axis="0 1 0"/>
      <inertial pos="0.3 0 0.15" mass="2" diaginertia="0.05 0.05 0.05"/></body></body>
  <body name="rocker" pos="1 0 0"><joint name="rocker" axis="0 1 0"/>
    <inertial pos="-0.05 0 0.35" mass="1.5" diaginertia="0.05 0.05 0.05"/></body>
</worldbody><equality>
  <connect name="pin" body1="coupler" body2="rocker" anchor="0.6 0 0.3"/>
</equality></mujoco>"""


@pytest.fixture
def four_bar(tmp_path: Path) -> KinematicTree:
    path = tmp_path / "four_bar.xml"
    path.write_text(FOUR_BAR)
    return dynsys.load(path)


def torques(robot: KinematicTree) -> Layout:
    sensed = sensors.all_joint_torques(robot, std=0.1)
    return Layout(robot, [*sensed, *zero_external_wrench_except(robot)])


def test_loops_of_a_file_are_exact_rows(four_bar: KinematicTree) -> None:
    layout = torques(four_bar)
    with pytest.warns(
        LayoutWarning, match=r"held by constraints pin of its file.*constraints="
    ):
        Estimation(four_bar, layout)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Estimation(four_bar, layout, constraints=())
        est = Estimation(four_bar, layout, constraints="file")
    dynamics = ForwardDynamics(four_bar, constraints="file")
    q = dynamics.close([0.3, 0.1, 0.0])
    qd, torque = dynamics.impulse(q, np.ones(3)).v, np.array([1.0, 2.0, 3.0])
    solution = dynamics.solve(q, qd, torque)
    e = est.solve(q, qd, dict(zip(layout.names, torque, strict=False)))
    np.testing.assert_allclose(e.qdd.array, solution.qdd, atol=1e-9)
    pin = np.asarray(solution.constraint_wrench["pin"])
    np.testing.assert_allclose(e.external_wrench["pin"][[3, 5]], pin[[3, 5]], atol=1e-9)
    assert np.isnan(e.external_wrench["pin"][4])  # across the plane nothing moves
    verdict = str(est.verdict(samples=4))
    assert "'pin' and 'pin/other', through pin and pin/other, which are at one place" in verdict
    assert "external wrench: pin (fy), pin/other (fy)" in verdict  # where the loop is closed
    held = layout.with_constraints(four_bar.constraints)
    assert held.with_constraints(four_bar.constraints).names == held.names


def test_what_an_estimate_cannot_hold_is_refused() -> None:
    robot = synthetic.chain(3)
    tie = JointConstraint("tie", robot.joint_names[1], robot.joint_names[0])
    with pytest.raises(LayoutError, match=r"'tie' ties joint 'link_2' to 'link_1'.*mimic"):
        Estimation(robot, torques(robot), constraints=[tie])
    with pytest.raises(LayoutError, match=r"'still' ties joint .*lock"):
        still = JointConstraint("still", robot.joint_names[1], None, (0.3,))
        Estimation(robot, torques(robot), constraints=[still])


@pytest.mark.parametrize("link", ["arm", "cell", "plate"])
def test_a_sensor_in_a_weld_feels_loops_that_hold_links_beyond_it(
    tmp_path: Path, link: str
) -> None:
    path = tmp_path / "cut.urdf"
    path.write_text(CUT.replace("TYPE", "fixed"))
    robot = dynsys.load(path)
    robot = robot.with_constraints([FrameConstraint("loop", link, "finger", ("x",))])
    cell = ForceTorque("ft", "cell_joint", std=1.0)
    layout = Layout(robot, [cell, *zero_external_wrench_except(robot)])
    held = Estimation(robot, layout, constraints="file").robot
    beyond = held.welds["cell_joint"].children
    assert (held.body_index("loop") in beyond) is (link != "arm")
