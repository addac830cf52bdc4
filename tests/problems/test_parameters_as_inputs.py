"""Kernels with parameters of the robot as a further input: those of the robot that has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from numpy.testing import assert_allclose

import dynsys
import problems
import sensors
from dynsys import KernelBuildError, KinematicTree, ModelError
from dynsys.plan.record import DynamicsSpec, dynamics_program
from dynsys.recursive import aba, rnea
from dynsys.types import Array
from sensors import Layout
from tests import strategies
from tests.kernel.exported_c import COMPILERS, call, compile_and_check, needs_compiler

CLOSE = {"rtol": 1e-8, "atol": 1e-8}


def changed(robot: KinematicTree, seed: int) -> dict[str, float]:
    """Other values of some parameters of every kind, physical."""
    rng = np.random.default_rng(seed)
    names = [*robot.parameters, *(f"{joint}.coulomb_minus" for joint in robot.joint_names)]
    names = [n for n in names if rng.random() < 0.4]
    values = {}
    for name in names:
        try:
            at = robot.parameter(name)
        except ModelError:  # coulomb_minus of a joint of several freedoms
            continue
        before = at.value(robot.bodies)
        massless = not at.of_joint and robot.bodies[at.body].inertia.mass == 0
        if not massless:
            values[name] = before + 0.01 * max(abs(before), 0.01) * float(rng.uniform())
    return values


@given(strategies.trees(max_bodies=5, coupled=True), strategies.seeds)
@settings(max_examples=30, phases=[Phase.explicit, Phase.generate], deadline=None)
def test_dynamics_of_every_kind(tree: KinematicTree, seed: int) -> None:
    values = changed(tree, seed)
    assume(values)
    other = tree.with_parameters(values, physical=False)
    rng = np.random.default_rng(seed)
    q, qd, qdd = tree.random_configuration(rng), *rng.normal(size=(2, tree.nv))
    torque = rnea(other, q, qd, qdd)
    p = np.array([*values.values()])
    for known in (np.ones(tree.nv, dtype=bool), np.zeros(tree.nv, dtype=bool)):
        outputs = ("torque", "qdd", "joint_wrench")
        spec = DynamicsSpec(tree, known, "x", outputs, parameters=tuple(values))
        third = np.where(known, qdd, torque)
        found = dynamics_program(spec).evaluate(np.concatenate([q, qd, third, p])[None])[0]
        assert_allclose(found[: tree.nv], torque, **CLOSE)
        assert_allclose(found[tree.nv : 2 * tree.nv], qdd, rtol=1e-6, atol=1e-6)
        plain = DynamicsSpec(other, np.ones(tree.nv, dtype=bool), "x", ("joint_wrench",))
        wrench = dynamics_program(plain).evaluate(np.concatenate([q, qd, qdd])[None])[0]
        assert_allclose(found[2 * tree.nv :], wrench, rtol=1e-6, atol=1e-6)


PAYLOAD = ("link_4.mass", "link_4.mx", "link_4.Izz", "link_2.viscous", "link_1.armature")


@pytest.fixture(scope="module")
def arm() -> KinematicTree:
    return dynsys.synthetic.chain(4)


def states(robot: KinematicTree) -> tuple[Array, ...]:
    rng = np.random.default_rng(0)
    nominal = np.array([robot.parameters[name] for name in PAYLOAD])
    q, qd, third = rng.normal(size=(3, 9, robot.nv))
    return q, qd, third, nominal + 0.05 * rng.uniform(size=(9, len(PAYLOAD)))


@pytest.mark.parametrize("kind", ["Inverse", "Forward", "Hybrid"])
def test_kernels(arm: KinematicTree, kind: str) -> None:
    more = (arm.joint_names[:2],) if kind == "Hybrid" else ()
    make = getattr(problems, f"{kind}Dynamics")
    kernel = make(arm, *more).compile(parameters=PAYLOAD)
    assert kernel.signature.inputs[-1] == ("parameters", 5)
    q, qd, third, p = states(arm)
    batch, finite = kernel.batch(q, qd, third, p)
    assert finite
    for k in range(len(q)):
        heavy = arm.with_parameters(dict(zip(PAYLOAD, p[k], strict=True)), physical=False)
        expected, _ = make(heavy, *more).compile(backend="reference").one(q[k], qd[k], third[k])
        one, finite = kernel.one(q[k], qd[k], third[k], p[k])
        assert finite
        for found, answer in zip(
            (one, [x[k] for x in batch]), (expected, expected), strict=True
        ):
            for x, y in zip(found, answer, strict=True):
                assert_allclose(x, y, **CLOSE)


@pytest.mark.parametrize("redundant", [False, True])
def test_estimators(arm: KinematicTree, redundant: bool, tmp_path: Path) -> None:
    extra = [
        sensors.Imu("imu", "link_2", std=0.1),
        *sensors.all_joint_accelerations(arm, std=0.1),
    ]
    layout = Layout(
        arm,
        [
            *sensors.all_joint_torques(arm, std=0.1),
            *(extra if redundant else []),
            *sensors.zero_external_wrench_except(arm),
        ],
    )
    est = problems.Estimation(arm, layout)
    asked = {"outputs": ["qdd", "torque", "joint_wrench"]}
    asked |= {"uncertainty": ["qdd"]} if redundant else {}
    kernel = est.compile(parameters=PAYLOAD, **asked)
    q, qd, _, p = states(arm)
    rng, noisy = np.random.default_rng(1), np.asarray(layout.covariance().diagonal()) > 0
    y = rng.normal(size=(9, layout.size)) * noisy
    batch, finite = kernel.batch(q, qd, y, p)
    assert finite
    for k in range(3):
        heavy = arm.with_parameters(dict(zip(PAYLOAD, p[k], strict=True)), physical=False)
        same = Layout(heavy, layout.sensors)
        reference = problems.Estimation(heavy, same).compile(backend="reference", **asked)
        expected, _ = reference.one(q[k], qd[k], y[k])
        one, _ = kernel.one(q[k], qd[k], y[k], p[k])
        for x, many, answer in zip(one, batch, expected, strict=True):
            assert_allclose(x, answer, rtol=1e-6, atol=1e-6)
            assert_allclose(many[k], answer, rtol=1e-6, atol=1e-6)
    if redundant and COMPILERS:
        est.export_c(tmp_path, name="f", parameters=PAYLOAD)
        compile_and_check(tmp_path, "f")


def test_sensors_that_weigh_bodies_themselves_are_refused(arm: KinematicTree) -> None:
    com = sensors.CentreOfMassAcceleration("com", std=0.1)
    torques = sensors.all_joint_torques(arm, std=0.1)
    layout = Layout(arm, [*torques, com, *sensors.zero_external_wrench_except(arm)])
    est = problems.Estimation(arm, layout)
    with pytest.raises(KernelBuildError, match="sensor 'com' depends on masses"):
        est.compile(parameters=["link_4.mass"])
    est.compile(parameters=["link_4.viscous"])


@needs_compiler
def test_exported_c(arm: KinematicTree, tmp_path: Path) -> None:
    problem = problems.ForwardDynamics(arm)
    problem.export_c(tmp_path, name="f", parameters=PAYLOAD)
    compile_and_check(tmp_path, "f")
    kernel = problem.compile(parameters=PAYLOAD)
    inputs = states(arm)
    found = call(tmp_path, "f", kernel.signature, np.hstack(inputs))
    for k, (q, qd, torque, p) in enumerate(zip(*inputs, strict=True)):
        heavy = arm.with_parameters(dict(zip(PAYLOAD, p, strict=True)), physical=False)
        assert_allclose(found[k], aba(heavy, q, qd, torque), **CLOSE)
    assert "link_4.mass" in (tmp_path / "f.h").read_text()


def test_parameters_cost_little_and_none_costs_nothing(arm: KinematicTree) -> None:
    problem = problems.InverseDynamics(arm)
    plain, open_ = problem.compile(), problem.compile(parameters=["link_4.mass"])
    assert problem.compile(parameters=()).operations == plain.operations  # type: ignore[attr-defined]
    assert open_.operations.total < 1.2 * plain.operations.total  # type: ignore[attr-defined]


def test_what_is_no_parameter_is_named(arm: KinematicTree) -> None:
    problem = problems.InverseDynamics(arm)
    with pytest.raises(ModelError, match="did you mean 'link_4"):
        problem.compile(parameters=["link_4.mas"])
    with pytest.raises(ModelError, match="is named twice"):
        problem.compile(parameters=["link_4.mass", "link_4.mass"])
    with pytest.raises(ModelError, match="a list of names"):
        problem.compile(parameters="link_4.mass")
    with pytest.raises(KernelBuildError, match="use llvm"):
        problem.compile(backend="loops", parameters=["link_4.mass"])
