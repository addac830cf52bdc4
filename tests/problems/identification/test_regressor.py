"""Regressors beside Pinocchio's, beside the laws themselves, and their kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dynsys
import sensors
from dynsys import KinematicTree, LayoutError, ModelError
from dynsys.model.body import Coupling
from dynsys.model.joints import Free
from dynsys.model.parameters import BODY_PARAMETERS
from experiments.example_robots import ROBOTS
from experiments.identification import changed, mixed_layout, regressor_error, torque_layout
from problems import Identification
from problems.identification import regressor as module
from sensors import Layout
from tests.problems.identification.identification_cases import random_states, readings

pytest.importorskip("pinocchio")

FRICTION = ("viscous", "coulomb", "armature", "offset")
SMALL = [r for r in ROBOTS if not r[0].startswith(("talos", "icub", "pr2", "baxter", "tiago"))]


@pytest.mark.parametrize(("path", "floating"), SMALL)
def test_joint_torques_beside_pinocchio(path: str, floating: bool) -> None:
    assert regressor_error(path, floating) <= 1e-12


def _trees() -> list[tuple[KinematicTree, Layout]]:
    trees = []
    for seed in range(6):
        robot = dynsys.synthetic.random_tree(5, seed=seed)
        trees.append((robot, mixed_layout(robot, seed, contact=seed % 2 == 1)))
    return trees


@pytest.mark.parametrize("case", range(6))
def test_any_layout_beside_the_laws(case: int) -> None:
    robot, layout = _trees()[case]
    ident = Identification(robot, layout)
    truth = changed(robot, case)
    states = random_states(robot, 4, case)
    rows = ident.sought.rows(*states, plain=True)
    theta = [truth.parameters.get(name, 0.0) for name in ident.parameters]
    f_ext = np.zeros((4, robot.n_bodies, 6))
    x = np.random.default_rng(case).normal(size=(4, len(ident.sought.regressor.contacts), 6))
    f_ext[:, list(ident.sought.regressor.contacts)] = x
    expected = readings(layout, truth, states, f_ext)
    found = rows.theta @ theta + rows.known
    found = found + (rows.contact @ x.reshape(4, -1, 1))[..., 0]
    assert np.abs(found - expected).max() <= 1e-11 * np.abs(expected).max()


def test_what_is_not_sought_has_the_value_of_the_model() -> None:
    robot = changed(dynsys.synthetic.random_tree(5, seed=8), 3)
    layout = mixed_layout(robot, 1)
    body = robot.body_names[3]
    ident = Identification(
        robot, layout, inertia=[body], friction=False, rotor=False, offset=False
    )
    assert ident.parameters == tuple(f"{body}.{kind}" for kind in BODY_PARAMETERS)
    states = random_states(robot, 3, 0)
    rows = ident.sought.rows(*states, plain=True)
    found = rows.theta @ [robot.parameters[name] for name in ident.parameters] + rows.known
    expected = readings(layout, robot, states)
    assert np.abs(found - expected).max() <= 1e-11 * np.abs(expected).max()


def test_kernel_one_batch_and_plain_arithmetic_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = dynsys.synthetic.random_tree(3, seed=2, joint_types=("revolute", "prismatic"))
    sought = Identification(robot, mixed_layout(robot, 2, contact=True)).sought
    states = random_states(robot, 5, 1)
    batch, plain = sought.regressor.batch(*states), sought.regressor
    for k, state in enumerate(zip(*states, strict=True)):
        one, at = plain.one(*state), plain.at(*state)
        for name in ("theta", "contact", "known"):
            twin = getattr(at, name)
            scale = max(np.abs(twin).max(), 1.0)
            assert np.abs(getattr(one, name) - twin).max() <= 1e-13 * scale
            assert np.abs(getattr(batch, name)[k] - twin).max() <= 1e-13 * scale
    monkeypatch.setattr(module, "WHOLE", 0)  # kernels that write nonzeros only
    few = Identification(robot, sought.layout).sought.regressor.batch(*states)
    monkeypatch.setattr(module, "LARGEST", 0)  # no kernel at all
    none = Identification(robot, sought.layout).sought.regressor.batch(*states)
    assert np.abs(none.theta - batch.theta).max() <= 1e-13 * np.abs(batch.theta).max()
    assert np.array_equal(few.theta, batch.theta) and np.array_equal(few.contact, batch.contact)


@pytest.mark.parametrize("contact", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_rows_on_their_own_parameters_are_the_same_rows(whole, contact, monkeypatch) -> None:
    monkeypatch.setattr(module, "WHOLE", module.WHOLE if whole else 0)
    robot = dynsys.synthetic.random_tree(4, seed=2, joint_types=("revolute", "prismatic"))
    layout = mixed_layout(robot, 2, contact=contact)
    torques = [s.name for s in layout.sensors if isinstance(s, sensors.JointTorque)]
    gain = [] if contact else torques[-1:]
    ident = Identification(robot, layout, sensor_offset=torques, sensor_gain=gain)
    sought, states = ident.sought, random_states(robot, 5, 1)
    about = sought.model * np.linspace(0.9, 1.1, sought.size) + 0.1
    rows = sought.regressor.each(*states)  # gains and offsets by hand
    count = rows.theta.shape[-1]
    inner = rows.theta @ about[:count] + rows.known
    expected = inner.copy()
    for row in sought.gains:
        expected[:, row] *= about[-1]
    expected[:, list(sought.offsets)] += about[count : count + len(sought.offsets)]
    for plain in (True, False):
        blocks = sought.blocks(*states, plain=plain, about=about)
        found = blocks.whole(sought.size)
        assert np.abs(found.theta @ about + found.known - expected).max() <= 1e-11
        assert all(found.theta[:, k, -1] == pytest.approx(inner[:, k]) for k in sought.gains)
        assert np.abs(found.contact - rows.contact).max(initial=0.0) <= 1e-12
        one = sought.rows(*(x[2] for x in states), plain=plain, about=about)
        assert np.abs(one.theta - found.theta[2]).max() <= 1e-12
    assert sum(map(len, blocks.columns)) < 0.7 * found.theta[0].size


def test_joints_that_follow_others_count_at_their_leader() -> None:
    plain = dynsys.synthetic.chain(3)
    bodies = list(plain.bodies)
    bodies[2] = replace(bodies[2], coupling=Coupling(0, -0.5, 0.1))
    robot = KinematicTree("coupled", bodies)
    names = [f"{joint}.{kind}" for joint in robot.joint_names for kind in FRICTION]
    rng = np.random.default_rng(1)
    truth = robot.with_parameters({n: rng.uniform(0.1, 1.0) for n in names})
    layout = Layout(robot, [sensors.JointTorque(n, n, std=1.0) for n in robot.joint_names[:2]])
    ident = Identification(robot, layout)
    q, qd, qdd = random_states(robot, 1, 4)
    values = np.array([truth.parameters[n] for n in ident.parameters])
    found = ident.regressor(q[0], qd[0], qdd[0]) @ values
    expected = dynsys.rnea(truth.with_friction(False), q[0], qd[0], qdd[0])
    expected = expected + truth.friction_torque(qd[0])
    assert np.abs(found - expected).max() <= 1e-12 * np.abs(expected).max()


def test_asymmetric_friction_and_sensor_offsets_have_columns_of_their_own() -> None:
    robot = dynsys.synthetic.chain(2)
    layout = torque_layout(robot)
    ident = Identification(
        robot, layout, inertia=False, rotor=False, offset=False,
        asymmetric=True, sensor_offset=True,
    )  # fmt: skip
    names = ident.parameters
    joint, sensor = robot.joint_names[0], layout.names[0]
    R = ident.regressor([0.1, 0.2], [3.0, -3.0], [0.0, 0.0])
    by_name = dict(zip(names, R.T, strict=True))
    assert by_name[f"{joint}.coulomb"][0] == pytest.approx(1.0, abs=1e-4)
    assert by_name[f"{joint}.coulomb_minus"][0] == pytest.approx(0.0, abs=1e-4)
    other = robot.joint_names[1]
    assert by_name[f"{other}.coulomb"][1] == pytest.approx(0.0, abs=1e-4)
    assert by_name[f"{other}.coulomb_minus"][1] == pytest.approx(-1.0, abs=1e-4)
    assert by_name[f"{sensor}.offset"].tolist() == [1.0, 0.0]


def test_sensors_that_hold_inertias_themselves_are_refused_by_name() -> None:
    robot = dynsys.synthetic.random_tree(4, seed=2)
    layout = Layout(robot, [sensors.CentreOfMassAcceleration("centre", std=0.1)])
    with pytest.raises(LayoutError, match=r"centre.*no linear function"):
        Identification(robot, layout)
    with pytest.raises(ModelError, match="no body 'nobody'"):
        Identification(robot, torque_layout(robot), inertia=["nobody"])


def test_a_floating_base_has_no_friction() -> None:
    robot = dynsys.synthetic.humanoid30()
    free = [
        n for n, j in zip(robot.joint_names, robot.joints, strict=True) if isinstance(j, Free)
    ]
    ident = Identification(robot, torque_layout(robot), inertia=False)
    assert not [name for name in ident.parameters if name.rpartition(".")[0] in free]
