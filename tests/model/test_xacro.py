"""Robots written with xacro's macros: expanded where the package is there, else said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import dynsys
import sensors
from dynsys import ModelError

ARM = """<?xml version="1.0"?>
<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:property name="mass" value="1.5"/>
  <xacro:macro name="rod" params="name length">
    <link name="${name}">
      <inertial>
        <origin xyz="0 0 ${length / 2}"/>
        <mass value="${mass}"/>
        <inertia ixx="${mass * length**2 / 12}" iyy="${mass * length**2 / 12}" izz="0.001"
                 ixy="0" ixz="0" iyz="0"/>
      </inertial>
    </link>
  </xacro:macro>
  <link name="base"/>
  <xacro:rod name="upper" length="0.4"/>
  <joint name="shoulder" type="continuous">
    <parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
  </joint>
  <sensor name="imu" type="imu"><parent link="upper"/></sensor>
</robot>
"""


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    path = tmp_path / "arm.urdf.xacro"
    path.write_text(ARM)
    return path


def test_a_xacro_file_is_expanded(arm: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("xacro")
    robot = dynsys.load(arm)
    assert robot.body_names == ("upper",)
    assert robot.parameters["upper.mass"] == 1.5
    at_rest = dynsys.rnea(robot, [0.5], [0.0], [0.0])
    assert at_rest[0] == pytest.approx(-1.5 * 9.81 * 0.2 * 0.479425538604203)
    (imu,) = sensors.from_urdf(arm, robot)  # of the same file, once more
    assert imu.name == "imu"
    assert capfd.readouterr() == ("", "")


def test_what_xacro_cannot_expand_is_said(arm: Path) -> None:
    pytest.importorskip("xacro")
    arm.write_text(ARM.replace("${mass}", "${weight}"))
    with pytest.raises(ModelError, match=r"arm\.urdf\.xacro: xacro cannot expand it: .*weight"):
        dynsys.load(arm)
    arm.write_text(
        ARM.replace("<xacro:rod", '<xacro:include filename="$(find nowhere)/a"/><xacro:rod')
    )
    with pytest.raises(ModelError, match="xacro cannot expand it"):
        dynsys.load(arm)
    arm.write_text(ARM.replace('<child link="upper"/>', '<child link="lower"/>'))
    with pytest.raises(ModelError, match=r"xacro \(expanded\), line \d+, .*lower"):
        dynsys.load(arm)


def test_without_the_package_the_message_says_what_to_install(
    arm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xacro", None)
    with pytest.raises(
        ModelError, match=r"needs the package xacro \(pip install '.*\[xacro\]'\)"
    ):
        dynsys.load(arm)
