"""Outputs of one joint, body or frame: kernels and C give what the estimate says there."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynsys
import sensors
from dynsys import KernelBuildError, LayoutError, ModelError
from dynsys.system.parts import array_name
from problems import Estimation, InverseDynamics
from tests.processes import LIMIT

URDF = """<robot name="leg"><link name="base"/>{links}
  <joint name="hip" type="revolute"><parent link="base"/><child link="thigh"/>
    <axis xyz="0 1 0"/><limit lower="-2" upper="2" effort="9" velocity="9"/></joint>
  <joint name="knee" type="revolute"><parent link="thigh"/><child link="shank"/>
    <origin xyz="0.4 0 0"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" effort="9" velocity="9"/></joint>
  <joint name="ankle" type="fixed"><parent link="shank"/><child link="sole-plate"/>
    <origin xyz="0.3 0.1 -0.2" rpy="0.3 -0.5 0.7"/></joint>
  <link name="sole-plate"/></robot>"""
LINK = """<link name="{}"><inertial><origin xyz="0.2 0 0.1"/><mass value="2"/>
  <inertia ixx="0.02" ixy="0.001" ixz="0" iyy="0.04" iyz="0" izz="0.03"/></inertial></link>"""
PARTS = ("external_wrench.sole-plate", "acceleration.sole-plate", "joint_wrench.sole-plate")
NAMES = (*PARTS, "external_wrench.shank", "joint_wrench.knee", "torque.knee", "qdd.hip")


@pytest.fixture(params=["more readings than unknowns", "as many, noise that cancels"])
def leg(request: pytest.FixtureRequest, tmp_path: Path) -> Estimation:
    links = "".join(map(LINK.format, ("thigh", "shank")))
    (tmp_path / "leg.urdf").write_text(URDF.format(links=links))
    robot = dynsys.load(tmp_path / "leg.urdf")
    given = [
        *sensors.all_joint_accelerations(robot, std=0.2),
        *sensors.zero_external_wrench_except(robot, ["sole-plate"]),
        sensors.ExternalWrench("plate", "shank", std=[0.1, 0.2, 0.3, 1.0, 2.0, 3.0]),
    ]
    if request.param.startswith("more"):
        given += sensors.all_joint_torques(robot, std=0.4)
        given.append(sensors.ForceTorque("hip_ft", "hip", std=0.5))
    return Estimation(robot, sensors.Layout(robot, given))


def asked(estimation: Estimation) -> tuple[list[str], tuple[np.ndarray, ...]]:
    rng = np.random.default_rng(3)
    y = rng.normal(size=estimation.layout.size)
    fixed = estimation.layout.constants
    inputs = rng.normal(size=2), rng.normal(size=2), np.where(np.isnan(fixed), y, fixed)
    return [*NAMES, *(f"std.{name}" for name in NAMES)], inputs


def test_kernels_have_parts_by_the_names_of_the_estimate(leg: Estimation) -> None:
    names, inputs = asked(leg)
    e = leg.solve(*inputs)
    for backend in ("llvm", "reference"):
        answers, finite = leg.compile(outputs=names, backend=backend).one(*inputs)
        assert finite
        for name, found in zip(names, answers, strict=True):
            kind, _, part = name.removeprefix("std.").partition(".")
            wanted = (e.std if name.startswith("std.") else e.values)[kind][part]
            np.testing.assert_allclose(found, np.ravel(wanted), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("backend", ["auto", "llvm"])
@pytest.mark.parametrize("missing", [0, 200])
def test_batches_have_deviations_of_parts(leg: Estimation, backend: str, missing: int) -> None:
    """Of a body and of a frame, by the kernel, and where readings are missing."""
    parts = [*PARTS, "external_wrench.shank"]
    rng = np.random.default_rng(4)
    y = np.where(np.isnan(leg.layout.constants), rng.normal(), leg.layout.constants)
    q, qd, y = rng.normal(size=(300, 2)), rng.normal(size=(300, 2)), np.tile(y, (300, 1))
    lost = leg.layout.slice("plate" if len(leg.layout) < 8 else "hip_ft")
    y[:missing, lost.start] = np.nan
    e = replace(leg, backend=backend).solve_batch(q, qd, y, uncertainty=["torque", *parts])
    for k in (0, 150, 299):
        one = replace(leg, backend="dense").solve(q[k], qd[k], y[k])
        for name in parts:
            kind, _, part = name.partition(".")
            np.testing.assert_allclose(
                e.std[kind][part][k], one.std[kind][part], rtol=1e-7, atol=1e-9
            )
        np.testing.assert_allclose(e.std.torque.array[k], one.std.torque.array, atol=1e-9)
    with pytest.raises(LayoutError, match="external_wrench"):
        leg.solve_batch(q, qd, y, uncertainty=["external_wrenc.shank"])
    with pytest.raises(ModelError, match="shan"):
        replace(leg, backend=backend).solve_batch(q, qd, y, uncertainty="joint_wrench.shan")


def test_a_frame_that_moved_is_another_question(leg: Estimation) -> None:
    """The robot's fingerprint knows bodies, not frames: a cached kernel would be wrong."""
    robot = leg.robot
    elsewhere = {**robot.frames, "sole-plate": robot.frames["thigh"]}
    other = dynsys.KinematicTree(robot.name, robot.bodies, elsewhere, welds=robot.welds)
    moved = Estimation(other, sensors.Layout(other, leg.layout.sensors))
    name = ["external_wrench.sole-plate"]
    assert leg.estimator_spec(name).fingerprint != moved.estimator_spec(name).fingerprint


def test_parts_cost_less_than_the_whole_and_plans_of_them_run(leg: Estimation) -> None:
    whole = leg.plan(outputs=("external_wrench", "torque")).operations.total
    plan = leg.plan(outputs=("torque.knee", "std.external_wrench.sole-plate"))
    assert leg.plan(outputs=("external_wrench.shank", "torque.knee")).operations.total < whole
    kernel = leg.compile(plan, outputs=("torque.knee", "std.external_wrench.sole-plate"))
    assert kernel.operations == plan.operations


def test_parts_in_c(leg: Estimation, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    names, _ = asked(leg)
    leg.export_c(tmp_path / "c", outputs=names)
    text = (tmp_path / "c" / "estimation.h").read_text()
    assert "std_external_wrench_sole_plate" in text and '"sole-plate.tx"' in text
    build = "cc -O2 estimation.c estimation_selftest.c -lm -o selftest && ./selftest"
    done = subprocess.run(
        build,
        shell=True,
        cwd=tmp_path / "c",
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    assert f"ok {array_name('external_wrench.sole-plate')}" in done.stdout


@pytest.mark.finding("W-2")
def test_wrenches_through_a_fixed_joint_are_not_those_of_the_body(leg: Estimation) -> None:
    """The name of a fixed joint was answered by the wrench of the knee, moved there."""
    _, inputs = asked(leg)
    e, sol = leg.solve(*inputs), InverseDynamics(leg.robot).solve(*inputs[:2], np.zeros(2))
    for ask in (
        lambda: e.joint_wrench["ankle"],
        lambda: sol.joint_wrench["ankle"],
        lambda: leg.compile(outputs=["joint_wrench.ankle"]),
    ):
        with pytest.raises(ModelError, match=r"'ankle' is a fixed .*'knee'.*'sole-plate'"):
            ask()


def test_parts_that_are_not_there_are_named(leg: Estimation) -> None:
    with pytest.raises(ModelError, match="sole-plate"):
        leg.compile(outputs=["external_wrench.sole-plat"])
    with pytest.raises(ModelError, match="fixed to the base"):
        leg.compile(outputs=["std.external_wrench.base"])
    with pytest.raises(ModelError, match="kne"):
        leg.compile(outputs=["torque.kne"])
    with pytest.raises(KernelBuildError, match="residual"):
        leg.compile(outputs=["residual.plate"])
