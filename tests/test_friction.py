"""Friction and offsets in the equations: every way to solve them has the same law of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import dynsys
import problems
import sensors
from dynsys import KinematicTree, LinearSystem
from dynsys.errors import NoOrderError
from dynsys.loops import LoopKernel
from dynsys.model.joints import Fixed
from dynsys.model.parameters import joint_parameter_names
from dynsys.plan.fingerprint import fingerprint_robot
from dynsys.plan.lu_program import lu_estimator
from dynsys.plan.record import DynamicsSpec, dynamics_program
from dynsys.plan.recursion import recursion_estimator
from dynsys.plan.saddle_program import EstimatorSpec, saddle_estimator
from dynsys.program.program import Program
from dynsys.recursive import aba, rnea
from dynsys.types import Array
from problems.measured.simulated_readings import TrueReadings
from sensors import Layout
from tests import strategies
from tests.kernel.exported_c import call, compile_and_check, needs_compiler
from tests.problems.estimation.estimation_cases import BACKENDS

CLOSE = {"rtol": 1e-8, "atol": 1e-8}


def rough(tree: KinematicTree, seed: int) -> KinematicTree:
    """The robot with friction of every kind at every freedom, followers too."""
    rng = np.random.default_rng(seed)
    values = {}
    for body in tree.bodies:
        kinds = ["viscous", "coulomb", "offset", *(["coulomb_minus"] * rng.integers(2))]
        for kind in kinds:
            for name in joint_parameter_names(body, kind):
                values[name] = float(rng.uniform(0.0, 2.0))
    return tree.with_parameters(values).with_friction(smoothing=0.3)


def resistance(tree: KinematicTree, qd: Array) -> Array:
    """The law, joint by joint as the model's docstring has it."""
    out = np.zeros(tree.nv)
    for body, place in zip(tree.bodies, tree.v_slices(), strict=True):
        ratio = 1.0 if body.coupling is None else body.coupling.ratio
        for k in range(body.joint.nv):
            v = ratio * qd[place.start + k]
            s = v / np.sqrt(v**2 + 0.3**2)
            viscous, plus = np.ravel(body.damping)[k], np.ravel(body.friction)[k]
            minus = plus if body.friction_minus is None else np.ravel(body.friction_minus)[k]
            dry = plus * (s + s * s) / 2 + minus * (s - s * s) / 2
            out[place.start + k] += ratio * (viscous * v + dry + np.ravel(body.offset)[k])
    return out


def evaluated(program: Program, *inputs: Array) -> Array:
    return np.asarray(program.evaluate(np.concatenate(inputs)[None]))[0]


@given(strategies.trees(max_bodies=5, coupled=True), strategies.seeds, st.data())
@settings(max_examples=25, phases=[Phase.explicit, Phase.generate])
@pytest.mark.finding("tests that cannot fail")
def test_dynamics_of_every_kind_agree(
    tree: KinematicTree, seed: int, data: st.DataObject
) -> None:
    robot = rough(tree, seed)
    q, qd, qdd = data.draw(strategies.motions(robot))
    nv, names = robot.nv, ("torque", "qdd")
    torque = rnea(tree, q, qd, qdd) + resistance(robot, qd)
    assert_allclose(rnea(robot, q, qd, qdd), torque, **CLOSE)
    assert_allclose(aba(robot, q, qd, torque), qdd, **CLOSE)
    moving = [i for i, joint in enumerate(robot.joints) if not isinstance(joint, Fixed)]
    leading = [i for i in moving if robot.bodies[i].coupling is None]
    some = np.zeros(nv, dtype=bool)
    some[robot.v_slices()[leading[seed % len(leading)]]] = True
    for known in (np.ones(nv, dtype=bool), np.zeros(nv, dtype=bool), some):
        third = np.where(known, qdd, torque)
        (tau, acc), finite = LoopKernel(robot, known, "x", names).one(q, qd, third)
        assert finite
        program = dynamics_program(DynamicsSpec(robot, known, "x", names))
        for found in (np.concatenate([tau, acc]), evaluated(program, q, qd, third)):
            assert_allclose(found[:nv], torque, **CLOSE)
            assert_allclose(found[nv:], qdd, **CLOSE)
            assert_allclose(found[:nv][~known], torque[~known], rtol=0, atol=0)
    accelerated = [robot.joint_names[i] for i in leading if some[robot.v_slices()[i]].all()]
    hybrid = problems.HybridDynamics(robot, accelerated, backend="reference")
    solution = hybrid.solve(q, qd, np.where(some, qdd, torque))
    assert_allclose(solution.torque, torque, **CLOSE)
    assert_allclose(solution.qdd, qdd, **CLOSE)
    assert solution.residual < 1e-12


@given(strategies.trees(max_bodies=4), strategies.seeds, st.booleans())
@settings(max_examples=8, phases=[Phase.explicit, Phase.generate])
def test_estimators_of_every_kind_agree(tree: KinematicTree, seed: int, by_qdd: bool) -> None:
    robot, rng = rough(tree, seed), np.random.default_rng(seed)
    q, qd = robot.random_configuration(rng), rng.normal(size=robot.nv)
    qdd = rng.normal(size=robot.nv)
    torque = rnea(tree, q, qd, qdd) + resistance(robot, qd)
    give = sensors.all_joint_accelerations if by_qdd else sensors.all_joint_torques
    joints = [*give(robot, std=0.1)]
    layout = Layout(robot, [*joints, *sensors.zero_external_wrench_except(robot)])
    y = layout.pack(
        {s.name: (qdd if by_qdd else torque)[robot.v_slice(s.joint)] for s in joints}
    )
    spec = EstimatorSpec(
        robot,
        layout.equations(LinearSystem(robot).unknowns),
        layout.covariance(),
        ("torque", "qdd"),
    )
    answered = 0
    for planned in (saddle_estimator, lu_estimator, recursion_estimator):
        try:
            program = planned(spec).program
        except NoOrderError:
            continue
        answered += 1
        found = evaluated(program, q, qd, y)
        if np.isfinite(found).all():
            assert_allclose(found, np.concatenate([torque, qdd]), **CLOSE)
    assume(answered > 0)
    for backend in BACKENDS:
        e = problems.Estimation(robot, layout, backend=backend).solve(q, qd, y)  # type: ignore[arg-type]
        assert_allclose(e.torque, torque, **CLOSE)
        assert_allclose(e.qdd, qdd, **CLOSE)


# ---- machine code, C, readings ---------------------------------------------------------------


@pytest.fixture(scope="module")
def arm() -> KinematicTree:
    return rough(dynsys.synthetic.random_tree(5, seed=2), 3)


@pytest.fixture(scope="module")
def states(arm: KinematicTree) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(0)
    q = np.array([arm.random_configuration(rng) for _ in range(9)])
    qd, qdd = rng.normal(size=(2, 9, arm.nv))
    plain = arm.with_friction(False)
    torque = np.array([rnea(plain, *x) + resistance(arm, x[1]) for x in zip(q, qd, qdd)])  # noqa: B905
    return q, qd, qdd, torque


def test_machine_code_and_verbs(
    arm: KinematicTree, states: tuple[Array, Array, Array, Array]
) -> None:
    q, qd, qdd, torque = states
    for _ in range(3):  # the recursion, then machine code
        assert_allclose(dynsys.rnea(arm, q[0], qd[0], qdd[0]), torque[0], **CLOSE)
        assert_allclose(dynsys.aba(arm, q[0], qd[0], torque[0]), qdd[0], **CLOSE)
        assert_allclose(dynsys.rnea(arm, q, qd, qdd), torque, **CLOSE)
        assert_allclose(dynsys.aba(arm, q, qd, torque), qdd, **CLOSE)
    inverse, forward = problems.InverseDynamics(arm), problems.ForwardDynamics(arm)
    assert_allclose(inverse.solve_batch(q, qd, qdd).torque, torque, **CLOSE)
    assert_allclose(forward.solve_batch(q, qd, torque).qdd, qdd, **CLOSE)
    solution = inverse.solve(q[0], qd[0], qdd[0])
    assert solution.residual < 1e-14
    assert solution.trust().backward_error < 1e-14
    plain = problems.InverseDynamics(arm.with_friction(False))
    assert_allclose(plain.solve(q[0], qd[0], qdd[0]).torque + resistance(arm, qd[0]), torque[0])


@pytest.mark.slow
@pytest.mark.parametrize("smoothing", [1e-9, 1e-12])
@pytest.mark.finding("Z-A1")
def test_code_keeps_the_friction_of_every_joint_however_suddenly_it_sets_in(
    smoothing: float,
) -> None:
    tree = dynsys.synthetic.chain(24)
    values = {name: 1.0 for b in tree.bodies for name in joint_parameter_names(b, "coulomb")}
    robot = tree.with_parameters(values).with_friction(smoothing=smoothing)
    inverse = DynamicsSpec(robot, np.ones(24, dtype=bool), "qdd", ("torque",))
    motors = [
        sensors.MotorTorque(f"m{j}", j, gear_ratio=1.0, coulomb=1.0, smoothing=smoothing)
        for j in tree.joint_names
    ]
    program = dynamics_program(inverse)
    readings = TrueReadings(Layout(tree, motors))._program()
    rng, nothing = np.random.default_rng(0), np.zeros(6 * robot.n_bodies)
    for speed in (1.0, smoothing):
        for _ in range(12):
            q, qd = robot.random_configuration(rng), speed * rng.normal(size=24)
            torque = rnea(robot, q, qd, qd)
            assert_allclose(evaluated(program, q, qd, qd), torque, **CLOSE)
            assert_allclose(evaluated(readings, q, qd, qd, nothing)[24:], torque, **CLOSE)


def test_readings_hold_it_and_estimates_give_it_back(
    arm: KinematicTree, states: tuple[Array, Array, Array, Array]
) -> None:
    q, qd, qdd, torque = states
    tip = arm.body_names[-1]
    layout = Layout(
        arm,
        [
            *sensors.all_joint_torques(arm, std=0.1),
            *sensors.all_joint_accelerations(arm, std=0.1),
            sensors.ForceTorque("ft", arm.joint_names[-1], std=0.1),
            sensors.ExternalWrench("push", tip, std=1.0),
            *sensors.zero_external_wrench_except(arm, [tip]),
        ],
    )
    nothing = np.zeros((len(q), arm.n_bodies, 6))
    readings = TrueReadings(layout)
    given, y = readings.at(q, qd, qdd, nothing)
    assert_allclose(given, torque, **CLOSE)
    for k in (0, 5):
        assert_allclose(readings.reference(q[k], qd[k], qdd[k], nothing[k])[1], y[k], **CLOSE)
    for backend in ("llvm", *BACKENDS):
        e = problems.Estimation(arm, layout, backend=backend).solve_batch(q, qd, y)  # type: ignore[arg-type]
        assert_allclose(e.torque, torque, rtol=1e-6, atol=1e-6)
        assert max(float(np.max(np.abs(r))) for r in e.residual.values()) < 1e-6


@needs_compiler
def test_exported_c(
    arm: KinematicTree, states: tuple[Array, Array, Array, Array], tmp_path: Path
) -> None:
    q, qd, qdd, torque = states
    for kind, third, answer in (("Inverse", qdd, torque), ("Forward", torque, qdd)):
        problem = getattr(problems, f"{kind}Dynamics")(arm)
        problem.export_c(tmp_path / kind, name="f")
        compile_and_check(tmp_path / kind, "f")
        kernel = problem.compile()
        found = call(tmp_path / kind, "f", kernel.signature, np.hstack([q, qd, third]))
        names = [name for name, _ in kernel.signature.outputs]
        wanted = "torque" if kind == "Inverse" else "qdd"
        where = names.index(wanted) * arm.nv
        assert_allclose(found[:, where : where + arm.nv], answer, **CLOSE)


# ---- robots, files, sensors ------------------------------------------------------------------


def test_friction_is_part_of_the_fingerprint_where_it_is_on() -> None:
    plain = dynsys.synthetic.chain(3)
    stated = plain.with_parameters({"link_2.viscous": 0.5})
    prints = [
        fingerprint_robot(robot).digest
        for robot in (
            stated,
            stated.with_friction(smoothing=0.02),
            plain.with_parameters({"link_2.viscous": 0.6}),
            plain.with_parameters({"link_3.viscous": 0.5}),
            plain,
        )
    ]
    assert len(set(prints)) == 5
    assert fingerprint_robot(stated.with_friction(False)).digest == prints[-1]
    layout = Layout(stated, sensors.all_joint_torques(stated))
    with pytest.raises(dynsys.LayoutError):
        problems.Estimation(plain, layout)


def test_a_motor_does_not_count_friction_twice() -> None:
    robot = dynsys.synthetic.chain(2).with_parameters({"link_1.viscous": 0.5})
    motor = sensors.MotorTorque("m", "link_1", gear_ratio=1.0, viscous=0.5)
    with pytest.raises(dynsys.LayoutError, match="must not count twice"):
        problems.Estimation(robot, Layout(robot, [motor]))
    other = sensors.MotorTorque("m", "link_2", gear_ratio=1.0, viscous=0.5)
    problems.Estimation(robot, Layout(robot, [other]))


ARM = """<mujoco><option integrator="Euler"/><worldbody>
<body name="a" pos="0 0 1"><joint name="j" axis="0 1 0" damping="0.7" {loss}/>
<geom type="box" size="0.1 0.2 0.3" mass="2" pos="0.1 0 0.2"/>
<body name="b" pos="0.3 0 0"><joint name="k" type="slide" axis="1 0 1" damping="1.3"/>
<geom type="box" size="0.1 0.1 0.3" mass="1"/></body></body></worldbody></mujoco>"""


def test_damping_of_a_file_is_that_of_mujoco(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    (tmp_path / "arm.xml").write_text(ARM.format(loss=""))
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "arm.xml"))
    data = mujoco.MjData(model)
    robot = dynsys.load(tmp_path / "arm.xml", friction="file")
    rng = np.random.default_rng(1)
    for _ in range(5):
        data.qpos, data.qvel, data.qacc = rng.normal(size=(3, 2))
        mujoco.mj_inverse(model, data)
        found = rnea(robot, data.qpos, data.qvel, data.qacc)
        assert_allclose(found, data.qfrc_inverse, rtol=1e-9, atol=1e-9)
    with pytest.warns(dynsys.ModelWarning, match="load with friction='file'"):
        ignored = dynsys.load(tmp_path / "arm.xml")
    assert ignored.joint_friction is None
    (tmp_path / "dry.xml").write_text(ARM.format(loss='frictionloss="0.4"'))
    dry = dynsys.load(tmp_path / "dry.xml", friction="file")
    assert dry.parameters["j.coulomb"] == 0.4
    assert_allclose(dry.friction_torque(np.array([5.0, 0.0])), [3.5 + 0.4, 0.0], atol=1e-5)
    with pytest.raises(dynsys.ModelError, match="friction must be one of ignore, file"):
        dynsys.load(tmp_path / "dry.xml", friction="on")  # type: ignore[arg-type]
