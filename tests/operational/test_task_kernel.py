"""One kernel for an operational space against the dense algebra; C compiled and tested."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynsys import (
    BodyMotion,
    CentreOfMass,
    KernelBuildError,
    KinematicTree,
    OperationalSpace,
    Posture,
    RelativeMotion,
    SingularSystemError,
    StateError,
    synthetic,
)
from dynsys.kernel.cache import KernelCache
from dynsys.model.joints import JOINT_TYPES, Free, Revolute
from dynsys.model.spatial import Transform
from dynsys.model.synthetic import cloud_inertia, random_rotation
from dynsys.model.tree import Body, Frame
from dynsys.operational.task_kernel import OUTPUTS
from dynsys.types import Array
from experiments.peers.build import find_compilers
from tests.operational.test_control import moving
from tests.processes import LIMIT


def chain_of(kinds: Sequence[str]) -> list[Body]:
    """Bodies on joints of these kinds, one after the other."""
    rng = np.random.default_rng(len(kinds))
    bodies: list[Body] = []
    for k, kind in enumerate(kinds):
        way = Transform(random_rotation(rng), rng.uniform(-0.5, 0.5, 3))
        joint = JOINT_TYPES[kind]()
        bodies.append(Body(f"{kind}_{k}", k - 1, joint, way, cloud_inertia(rng)))
    return bodies


KINDS = ("revolute", "cylindrical", "spherical", "prismatic", "planar", "helical")
TREE = KinematicTree("every joint", chain_of(KINDS))
LEAF, INNER = TREE.body_names[-1], TREE.body_names[1]


def agrees(space: OperationalSpace, states: int = 2) -> None:
    """Compare every output of the kernel with the dense algebra at some states, and a batch."""
    robot, has_contacts = space.robot, space.contacts is not None
    outputs = [name for name in OUTPUTS if has_contacts or name != "contact_forces"]
    kernel = space.compile(outputs)
    rng = np.random.default_rng(1)
    rows: list[tuple[Array, ...]] = []
    for _ in range(states):
        q, qd = robot.random_configuration(rng), rng.normal(size=robot.nv)
        wanted, posture = rng.normal(size=space.space.m), rng.normal(size=robot.nv)
        posture[space.undriven] = 0.0
        rows.append((q, qd, wanted, posture))
        answers, finite = kernel.one(*rows[-1])
        assert finite
        x = space.at(q, qd)
        torque = x.torque(wanted, posture)
        expected: dict[str, Any] = {"torque": torque}
        if has_contacts:
            expected["contact_forces"] = x.contact_forces(torque)
        for name, answer in zip(outputs, answers, strict=True):
            exact = np.ravel(expected.get(name, getattr(x, name, None)))
            loss = 1e-10 + 1e-12 * np.linalg.cond(x.Lambda_inv)
            atol = loss * (1e-3 + np.abs(exact).max())
            assert_allclose(answer, exact, atol=atol, err_msg=name)
    batch, finite = kernel.batch(*(np.array(column) for column in zip(*rows, strict=True)))
    assert finite
    for answer, one in zip(batch, answers, strict=True):
        assert_allclose(answer[-1], one, atol=1e-9 * (1e-3 + np.abs(one).max()))


def crawler() -> KinematicTree:
    """Return a free body with three limbs of three joints: limb_0_1 to limb_2_3."""
    rng = np.random.default_rng(0)
    bodies = [Body("trunk", -1, Free(), Transform.identity(), cloud_inertia(rng))]
    for limb in range(3):
        for k in range(3):
            parent = 0 if k == 0 else len(bodies) - 1
            way = Transform(random_rotation(rng), rng.uniform(-0.5, 0.5, 3))
            joint, inertia = Revolute(rng.normal(size=3)), cloud_inertia(rng)
            bodies.append(Body(f"limb_{limb}_{k + 1}", parent, joint, way, inertia))
    return KinematicTree("crawler", bodies)


CRAWLER = crawler()
HAND = BodyMotion("limb_0_3", axes="world", coordinates="position")
GROUND = [BodyMotion(f"limb_{k}_3", coordinates="position") for k in (1, 2)]
CASES: dict[str, tuple[KinematicTree, Any, dict[str, Any]]] = {
    "axes": (TREE, [BodyMotion(LEAF, axes=INNER, coordinates="position")], {}),
    "relative": (TREE, [RelativeMotion(LEAF, INNER, "world", "orientation")], {}),
    "centre of mass": (TREE, [CentreOfMass(), Posture(TREE.joint_names[1])], {}),
    "levels": (CRAWLER, [["limb_0_3"], [CentreOfMass()]], {}),
    "contacts": (CRAWLER, [HAND, Posture("limb_2_1")], {"contacts": GROUND[:1]}),
    "free base": (CRAWLER, [HAND], {"actuated": "joints"}),
    "standing": (CRAWLER, [HAND, CentreOfMass()], {"contacts": GROUND, "actuated": "joints"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_output_is_that_of_the_dense_algebra(case: str) -> None:
    robot, tasks, more = CASES[case]
    agrees(OperationalSpace(robot, tasks, **more))


def test_torque_is_fast_from_the_second_call_and_falls_back() -> None:
    robot = synthetic.chain(3)
    tip = BodyMotion(robot.body_names[-1], axes="world", coordinates=("linear x", "linear z"))
    space = OperationalSpace(robot, tip)
    q, qd, rng = moving(robot, 1)
    wanted, posture = rng.normal(size=2), rng.normal(size=3)
    expected = space.at(q, qd).torque(wanted, posture)
    for _ in range(3):
        assert_allclose(space.torque(q, qd, wanted, posture), expected, atol=1e-9)
    assert_allclose(space.torque(q, qd, wanted), space.at(q, qd).torque(wanted), atol=1e-9)
    with pytest.raises(SingularSystemError, match="linear"):
        space.torque(np.zeros(3), qd, wanted)  # stretched
    with pytest.raises(StateError, match=r"q\[0\]"):
        space.torque([np.nan, 0, 0], qd, wanted)
    soft = OperationalSpace(robot, tip, damping=1e-3)
    for _ in range(3):
        assert np.isfinite(soft.torque(np.zeros(3), qd, wanted)).all()


@pytest.mark.finding("B-6")
def test_damping_is_the_same_by_machine_code() -> None:
    """Near a singularity the kernel leaves the state to what damps; elsewhere it answers."""
    robot = synthetic.chain(3)
    tip = BodyMotion(robot.body_names[-1], axes="world", coordinates=("linear x", "linear z"))
    space = OperationalSpace(robot, tip, damping=1e-3)
    kernel = space.compile(("torque",))
    qd, wanted, posture = np.zeros(3), np.array([1.0, 2.0]), np.zeros(3)
    damped = []
    for bend in (1e-4, 1e-3, 3e-3, 1e-2, 0.03, 0.1, 0.3, 1.0):
        q = np.array([0.4, bend, -0.5 * bend])
        x = space.at(q, qd)
        expected = x.torque(wanted)
        for _ in range(3):
            assert_allclose(space.torque(q, qd, wanted), expected, atol=1e-8)
        damped.append(bool(x.damped))
        assert not (damped[-1] and kernel.one(q, qd, wanted, posture)[1])
    assert damped[0] and not damped[-1]
    assert kernel.one(q, qd, wanted, posture)[1]


@pytest.mark.filterwarnings("error")
@pytest.mark.finding("B-5")
def test_coordinates_that_nothing_moves_are_not_moved_by_machine_code() -> None:
    """Their pivots are rounding, and usually are: no measure of what a pivot should be."""
    robot = synthetic.chain(5, generic=True)
    qd = np.ones(5)
    for k in range(2, 6):
        fixed = RelativeMotion(f"link_{k}", f"link_{k - 1}", "world", "position")
        space = OperationalSpace(robot, fixed)
        for seed in range(4):
            with pytest.raises(SingularSystemError, match="relative to"):
                space.torque(robot.random_configuration(seed), qd, np.ones(3))
    bodies = [Body("base", -1, Free(), inertia=cloud_inertia(np.random.default_rng(0)))]
    bodies += [replace(body, parent=body.parent + 1) for body in robot.bodies[:3]]
    floating = KinematicTree("floating", bodies)
    q, rng = floating.random_configuration(0), np.random.default_rng(0)
    qd, wanted = rng.normal(size=9), rng.normal(size=1)
    contacts = [RelativeMotion("link_1", "base", "link_1", "position"), "base"]
    held = OperationalSpace(floating, Posture("link_3"), contacts=contacts, actuated="joints")
    for _ in range(3):
        assert_allclose(held.torque(q, qd, wanted), held.at(q, qd).torque(wanted), atol=1e-8)


def test_undriven_freedoms_are_watched_by_the_fast_way_too() -> None:
    robot = synthetic.chain(3)
    tip = BodyMotion(robot.body_names[-1], axes="world", coordinates=("linear x",))
    space = OperationalSpace(robot, tip, actuated=robot.joint_names[1:])
    q, qd, _ = moving(robot, 1)
    for _ in range(3):
        torque = space.torque(q, qd, [1.0])
        assert torque[0] == 0.0
    with pytest.raises(StateError, match=r"posture\[0\] is 1.0, at a freedom without a drive"):
        space.torque(q, qd, [1.0], np.ones(3))


def test_what_cannot_be_compiled_says_why_and_is_answered_all_the_same() -> None:
    robot = synthetic.chain(4)
    space = OperationalSpace(robot, [[robot.body_names[-1]], [Posture()]], damping=1e-3)
    with pytest.raises(KernelBuildError, match="give the last level as posture torque"):
        space.compile()
    q, qd, _ = moving(robot)
    for _ in range(3):
        assert np.isfinite(space.torque(q, qd, np.zeros(10))).all()
    fine = OperationalSpace(robot, BodyMotion(robot.body_names[-1], coordinates=("linear x",)))
    with pytest.raises(KernelBuildError, match="no output 'lambda': J, velocity"):
        fine.compile(("lambda",))
    with pytest.raises(KernelBuildError, match="name some outputs"):
        fine.compile(())
    with pytest.raises(KernelBuildError, match="has no contacts"):
        fine.compile(("contact_forces",))


def test_other_tasks_other_kernels(tmp_path: Path) -> None:
    """The cache tells frames of one name at different places, rows and axes apart."""
    cache, arm = KernelCache(tmp_path), synthetic.chain(3, generic=True)
    q = arm.random_configuration(0)
    for k in range(3):
        tool = Frame(2, Transform(np.eye(3), np.array([0.0, 0.1 * k, 1e-9])))
        robot = KinematicTree("arm", arm.bodies, {"tool": tool})
        for task in (
            BodyMotion("tool"),
            BodyMotion("tool", axes="world"),
            BodyMotion("tool", np.full((1, 6), 1.0 + 1e-12 * k)),
        ):
            space = OperationalSpace(robot, task, "dense")
            (J,), _ = space.compile(("J",), cache=cache).one(q)
            assert_allclose(J, space.at(q).J.ravel(), rtol=0, atol=1e-14)


@pytest.mark.slow
def test_c_export_passes_its_own_test(tmp_path: Path) -> None:
    compilers = find_compilers()
    if not compilers:
        pytest.skip("no C compiler")
    robot = synthetic.chain(5, generic=True)
    tip = BodyMotion(robot.body_names[-1], axes="world", coordinates="position")
    files = OperationalSpace(robot, tip).export_c(tmp_path, name="reach")
    assert {path.name for path in files} >= {"reach.c", "reach.h", "reach_selftest.c"}
    program = tmp_path / "test"
    sources = [str(tmp_path / "reach.c"), str(tmp_path / "reach_selftest.c")]
    subprocess.run(
        ["gcc", "-O1", "-o", str(program), *sources, "-lm"], check=True, timeout=LIMIT
    )
    subprocess.run([str(program)], check=True, timeout=LIMIT)
