"""Sensors found in robot files."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import dynsys
from dynsys.errors import LayoutError, ModelWarning
from experiments.example_robots import robot_path, robots_folder
from sensors import (
    Accelerometer,
    ForceTorque,
    Gyroscope,
    Imu,
    Layout,
    LoadCellPlate,
    MotorTorque,
    from_mjcf,
    from_urdf,
)
from sensors.mounting import offset, rpy_of
from tests.sensors.truth import Motion

URDF = """<robot name="r">
  <link name="base"/>
  <link name="arm"><inertial><mass value="2"/>
    <inertia ixx="0.02" iyy="0.03" izz="0.04" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="hand"><inertial><mass value="1"/>
    <inertia ixx="0.02" iyy="0.03" izz="0.04" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="arm"/></joint>
  <joint name="wrist" type="fixed"><parent link="arm"/><child link="hand"/>
    <origin xyz="0.1 0 0" rpy="0.4 0.5 0.6"/></joint>
  <sensor name="acc" type="accelerometer"><parent link="hand"/>
    <origin xyz="1 2 3" rpy="0.1 0.2 0.3"/></sensor>
  <sensor name="skin" type="three_axis_force_torque_contact"><parent link="hand"/></sensor>
  <gazebo reference="arm">
    <sensor name="imu1" type="imu"><pose>0 0 1 0 0 0.5</pose></sensor>
    <sensor name="eye" type="camera"/>
    <sensor name="bad" type="imu"><pose>0 0</pose></sensor>
  </gazebo>
  <gazebo reference="wrist">
    <sensor name="ft" type="force_torque"><force_torque><frame>parent</frame>
      <measure_direction>parent_to_child</measure_direction></force_torque></sensor>
    <sensor name="ft_again" type="force_torque"><force_torque><frame>parent</frame>
      <measure_direction>parent_to_child</measure_direction></force_torque></sensor>
  </gazebo>
  <gazebo reference="shoulder"><sensor name="ft2" type="force_torque"><force_torque>
      <frame>sensor</frame></force_torque><pose>0 0 0 0 0 1</pose></sensor></gazebo>
  <gazebo reference="elbow"><sensor name="lost" type="force_torque"/></gazebo>
</robot>"""


def test_urdf(tmp_path: Path) -> None:
    path = tmp_path / "r.urdf"
    path.write_text(URDF)
    robot = dynsys.load(path)
    with pytest.warns(ModelWarning) as caught:
        found = {sensor.name: sensor for sensor in from_urdf(path, robot)}
    assert set(found) == {"acc", "skin", "imu1", "ft", "ft2"}
    expected = Accelerometer("acc", "hand", xyz=(1, 2, 3), rpy=(0.1, 0.2, 0.3))
    assert found["acc"] == expected
    assert found["skin"] == LoadCellPlate("skin", "hand")
    assert found["imu1"] == Imu("imu1", "arm", xyz=(0, 0, 1), rpy=(0, 0, 0.5))
    assert found["ft2"] == ForceTorque("ft2", "shoulder", rpy=(0, 0, 1), measures="on_parent")
    text = "\n".join(str(item.message) for item in caught)
    for part in (
        "'eye': type 'camera'",
        "'bad'",
        "'ft' again",
        "'lost': the robot has no joint",
    ):
        assert part in text
    at_wrist = found["ft"]
    assert isinstance(at_wrist, ForceTorque) and at_wrist.measures == "on_child"
    turned = robot.frame("hand").transform.then(offset((0, 0, 0), at_wrist.rpy))
    np.testing.assert_allclose(turned.E, np.eye(3), atol=1e-12)  # the arm's axes


def test_roll_pitch_yaw_there_and_back() -> None:
    rng = np.random.default_rng(0)
    angles = [rng.uniform(-3, 3, 3) for _ in range(20)]
    for rpy in [*angles, (0.3, np.pi / 2, 0.4), (0.3, -np.pi / 2, 0.4)]:
        E = offset((0, 0, 0), rpy).E
        np.testing.assert_allclose(offset((0, 0, 0), rpy_of(E)).E, E, atol=1e-9)


@pytest.mark.skipif(robots_folder() is None, reason="example-robot-data is not installed")
def test_icub_has_its_six_force_torque_sensors() -> None:
    path = robot_path("icub_description/robots/icub.urdf")
    robot = dynsys.load(path, floating_base=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        found = from_urdf(path, robot)
    assert len(found) == 6 and all(isinstance(sensor, ForceTorque) for sensor in found)
    assert Layout(robot, found).size == 36


MJCF = """<mujoco><option gravity="0.5 0 -9.81"/><worldbody><body name="arm" pos="0 0 1">
  <joint name="shoulder" axis="0 1 0" pos="0.05 0 0" damping="0.3"/>
  <geom type="box" size=".1 .05 .02" pos=".1 0 0" mass="2"/>
  <site name="imu" pos=".1 .02 0" euler="10 20 30"/>
  <site pos="0 0 .1" euler="0 0 40"/>
  <body name="cell" pos=".2 0 0" euler="0 30 0">
    <geom type="box" size=".02 .03 .02" mass=".5"/><site name="cut" euler="50 0 0"/>
    <body name="hand" pos=".1 0 0"><joint name="wrist" axis="0 0 1"/>
      <geom type="box" size=".05 .02 .03" pos=".03 0 0" mass=".7"/>
      <site name="palm" pos="0 .01 0"/></body>
  </body></body></worldbody>
  <actuator><motor joint="shoulder"/></actuator>
  <sensor><accelerometer name="acc" site="imu" noise="0.1"/><gyro name="gyro" site="imu"/>
    <force name="cut_f" site="cut"/><torque name="cut_t" site="cut"/>
    <force name="palm_f" site="palm"/><torque name="palm_t" site="palm"/>
    <jointactuatorfrc name="motor" joint="shoulder"/>
    <framepos name="where" objtype="site" objname="imu"/></sensor></mujoco>"""


def test_mjcf_sensors_read_what_mujoco_simulates(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "arm.xml"
    path.write_text(MJCF)
    robot = dynsys.load(path)
    with pytest.warns(ModelWarning, match=r"'where': type 'framepos'"):
        found = from_mjcf(path, robot)
    assert [type(sensor) for sensor in found] == [
        Accelerometer,
        Gyroscope,
        *[ForceTorque] * 4,
        MotorTorque,
    ]
    assert found[0].std == 0.1
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    rng = np.random.default_rng(2)
    data.qpos[:], data.qvel[:], data.ctrl[:] = rng.normal(size=2), rng.normal(size=2), 0.7
    mujoco.mj_forward(model, data)
    q, qd, qdd = (np.array(x) for x in (data.qpos, data.qvel, data.qacc))
    motion = Motion(robot, q, qd, qdd, np.zeros((robot.n_bodies, 6)))
    for sensor in found:
        simulated = np.array(data.sensor(sensor.name).data)
        np.testing.assert_allclose(motion.reading(sensor), simulated, atol=1e-9)


def test_other_formats_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    path.write_text("<sdf/>")
    robot = dynsys.synthetic.chain(2)
    for reader in (from_urdf, from_mjcf):
        with pytest.raises(LayoutError, match="starts with"):
            reader(path, robot)
