"""Sensors found in robot files."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import dynsys
from dynsys import LayoutError, ModelWarning
from dynsys.types import Array
from experiments.example_robots import robot_path, robots_folder
from sensors import (
    AbstractSensor,
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
    assert set(found) == {"acc", "skin", "imu1", "ft", "ft_again", "ft2"}
    expected = Accelerometer("acc", "hand", xyz=(1, 2, 3), rpy=(0.1, 0.2, 0.3))
    assert found["acc"] == expected
    assert found["skin"] == LoadCellPlate("skin", "hand")
    assert found["imu1"] == Imu("imu1", "arm", xyz=(0, 0, 1), rpy=(0, 0, 0.5))
    assert found["ft2"] == ForceTorque("ft2", "shoulder", rpy=(0, 0, 1), measures="on_parent")
    text = "\n".join(str(item.message) for item in caught)
    for part in (
        "'eye': type 'camera'",
        "'bad'",
        "'ft_again': reads the same as 'ft' at the same place; both are kept",
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


@pytest.mark.parametrize("lock", [{}, {"cell": 0.4}])
@pytest.mark.finding("Y-35")
def test_sensors_in_a_weld_whose_body_has_the_name_of_a_joint(
    tmp_path: Path, lock: dict[str, float]
) -> None:
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "arm.xml"
    path.write_text(MJCF.replace('"shoulder"', '"cell"'))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        robot = dynsys.load(path, lock=lock)
        found = [s for s in from_mjcf(path, robot) if isinstance(s, ForceTorque)]
        again = dynsys.load(robot.to_urdf(tmp_path / "again.urdf"))
    assert again.joint_names == robot.joint_names
    model = mujoco.MjModel.from_xml_path(str(path))
    model.dof_damping[:] = 0.0
    data = mujoco.MjData(model)
    moving = slice(len(lock), 2)
    data.qpos[: len(lock)] = list(lock.values())
    data.qpos[moving], data.qvel[moving], data.qacc[moving] = 0.3, -0.8, 1.7
    mujoco.mj_inverse(model, data)
    data.qfrc_applied[:] = data.qfrc_inverse
    mujoco.mj_forward(model, data)
    q, qd, qdd = (np.array(x)[moving] for x in (data.qpos, data.qvel, data.qacc))
    motion = Motion(robot, q, qd, qdd, np.zeros((robot.n_bodies, 6)))
    assert len(found) == 4
    for sensor in found:
        simulated = np.array(data.sensor(sensor.name).data)
        np.testing.assert_allclose(motion.reading(sensor), simulated, atol=1e-9)


def text_of(*values: Array) -> str:
    return " ".join(f"{x:.6f}" for x in np.ravel(values))


def random_mjcf(rng: np.random.Generator) -> str:
    """Bodies with up to two joints each, anywhere on them; a sensor of each kind on each."""
    parents = [-1, *(int(rng.integers(0, i)) for i in range(1, int(rng.integers(2, 6))))]
    joints, sensors = 0, ""

    def body(i: int) -> str:
        nonlocal joints, sensors
        text = f'<body name="b{i}" pos="{text_of(rng.uniform(-0.3, 0.3, 3))}"'
        text += f' quat="{text_of(rng.normal(size=4))}">'
        for _ in range(int(rng.integers(i == 0, 3))):
            kind, axis = rng.choice(["hinge", "slide"]), text_of(rng.normal(size=3))
            pos, ref = text_of(rng.uniform(-0.2, 0.2, 3)), text_of(rng.uniform(-0.5, 0.5))
            text += f'<joint name="j{joints}" type="{kind}" axis="{axis}" pos="{pos}"'
            text, joints = text + f' ref="{ref}"/>', joints + 1
        at, turned = text_of(rng.uniform(-0.1, 0.1, 3)), text_of(rng.normal(size=4))
        text += f'<inertial pos="{at}" mass="2" diaginertia="0.02 0.025 0.03"/>'
        text += f'<site name="s{i}" pos="{at}" quat="{turned}"/>'
        kinds = ("accelerometer", "gyro", "force", "torque")
        sensors += "".join(f'<{kind} name="{kind}{i}" site="s{i}"/>' for kind in kinds)
        return text + "".join(body(k) for k, p in enumerate(parents) if p == i) + "</body>"

    return f"<mujoco><worldbody>{body(0)}</worldbody><sensor>{sensors}</sensor></mujoco>"


@pytest.mark.finding("F2")
@pytest.mark.parametrize("seed", range(12))
def test_sensors_of_robots_with_locked_joints_read_what_mujoco_simulates(
    tmp_path: Path, seed: int
) -> None:
    mujoco = pytest.importorskip("mujoco")
    rng, path = np.random.default_rng(seed), tmp_path / "any.xml"
    path.write_text(random_mjcf(rng))
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    names = [model.joint(j).name for j in range(model.njnt)]
    lock = {name: float(rng.uniform(-0.5, 0.5)) for name in names[1:] if rng.random() < 0.5}
    robot = dynsys.load(path, lock=lock)
    moving = [j for j, name in enumerate(names) if name not in lock]
    data.qpos[:] = [lock.get(name, 0.3) for name in names]
    data.qvel[moving], data.qacc[moving] = rng.normal(size=(2, len(moving)))
    mujoco.mj_inverse(model, data)
    data.qfrc_applied[:] = data.qfrc_inverse
    mujoco.mj_forward(model, data)
    q, qd, qdd = (np.array(x)[moving] for x in (data.qpos, data.qvel, data.qacc))
    motion = Motion(robot, q, qd, qdd, np.zeros((robot.n_bodies, 6)))
    found = from_mjcf(path, robot)
    assert len(found) == model.nsensor
    for sensor in found:
        simulated = np.array(data.sensor(sensor.name).data)
        np.testing.assert_allclose(motion.reading(sensor), simulated, atol=1e-9)


@pytest.mark.finding("F2")
def test_a_force_sensor_on_the_world_is_left_out_by_name(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    path = tmp_path / "arm.xml"
    there = '<worldbody><site name="floor"/>'
    text = MJCF.replace("<worldbody>", there).replace('site="palm"', 'site="floor"')
    path.write_text(text)
    with pytest.warns(ModelWarning, match="'palm_f', 'palm_t': it sits on 'world', which has"):
        found = from_mjcf(path, dynsys.load(path))
    assert "palm_f" not in [sensor.name for sensor in found]


@pytest.mark.finding("Y-34")
def test_what_mujoco_does_to_readings_is_named(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    changes = {'cutoff="2"': "clipped at its cutoff"}
    if hasattr(mujoco.MjModel.from_xml_string("<mujoco/>"), "sensor_delay"):
        changes['delay="0.01" nsample="9"'] = "delayed"
    for change, said in changes.items():
        path = tmp_path / "arm.xml"
        path.write_text(MJCF.replace('name="gyro"', f'name="gyro" {change}'))
        robot = dynsys.load(path)
        with pytest.warns(ModelWarning, match=rf"sensor 'gyro': its readings are {said}"):
            found = from_mjcf(path, robot)
        assert len(found) == 7


def test_other_formats_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    path.write_text("<sdf/>")
    robot = dynsys.synthetic.chain(2)
    for reader in (from_urdf, from_mjcf):
        with pytest.raises(LayoutError, match="starts with"):
            reader(path, robot)


# ---- which elements are one device -----------------------------------------------------------

TWO_LINKS = URDF[: URDF.index("  <sensor")]
POSE = '<origin xyz="1 2 3" rpy="0 0 3.141592653589793"/>'
UP = "<force_torque><measure_direction>parent_to_child</measure_direction></force_torque>"
GAZEBO_POSE = "<pose>1 2 3.0000000001 0 0 -3.141592653589793</pose>"


def imported(folder: Path, text: str) -> tuple[list[AbstractSensor], list[str]]:
    path = folder / "r.urdf"
    path.write_text(f"{TWO_LINKS}{text}</robot>")
    robot = dynsys.load(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        found = from_urdf(path, robot)
    Layout(robot, found)  # names are unique, whatever the file calls them
    return found, [str(item.message) for item in caught]


def own(name: str, kind: str, inside: str = POSE) -> str:
    at = "joint" if kind == "force_torque" else "link"
    place = "wrist" if at == "joint" else "hand"
    return f'<sensor name="{name}" type="{kind}"><parent {at}="{place}"/>{inside}</sensor>'


def gazebo(name: str, kind: str, inside: str = GAZEBO_POSE) -> str:
    place = "wrist" if kind == "force_torque" else "hand"
    sensor = f'<sensor name="{name}" type="{kind}">{inside}</sensor>'
    return f'<gazebo reference="{place}">{sensor}</gazebo>'


@pytest.mark.finding("item 11")
def test_a_sensor_and_its_twin_in_gazebo_are_one_device(tmp_path: Path) -> None:
    text = own("a", "accelerometer") + own("a", "gyroscope") + gazebo("a", "imu")
    found, said = imported(tmp_path, text)
    assert [(s.name, type(s)) for s in found] == [
        ("a", Accelerometer),
        ("a/gyroscope", Gyroscope),
    ]
    assert said and "'a': described twice; read once" in said[0]


def test_an_accelerometer_that_is_an_imu_in_gazebo_is_read_as_the_imu(tmp_path: Path) -> None:
    found, _ = imported(tmp_path, own("a", "accelerometer") + gazebo("a", "imu"))
    assert [(s.name, type(s)) for s in found] == [("a", Imu)]


def test_twins_may_have_two_names_but_each_sensor_has_one_twin(tmp_path: Path) -> None:
    text = own("a", "imu") + own("b", "imu") + gazebo("c", "imu")
    found, said = imported(tmp_path, text)
    assert [s.name for s in found] == ["a", "b"]
    assert any("'b': reads the same as 'a' at the same place; both are kept" in s for s in said)
    found, _ = imported(tmp_path, own("a", "imu") + gazebo("b", "imu") + gazebo("c", "imu"))
    assert [s.name for s in found] == ["a", "c"]


@pytest.mark.finding("item 11")
def test_sensors_of_one_name_at_two_places_are_two(tmp_path: Path) -> None:
    moved = '<origin xyz="1 2 3.001" rpy="0 0 3.141592653589793"/>'
    text = own("a", "imu") + own("a", "imu", moved) + own("a", "imu", "")
    found, _ = imported(tmp_path, text)
    assert [s.name for s in found] == ["a", "a/imu", "a/imu2"]
    turned = '<origin xyz="1 2 3" rpy="0 0 3.14"/>'
    found, _ = imported(tmp_path, own("a", "imu") + own("a", "imu", turned))
    assert [s.name for s in found] == ["a", "a/imu"]
    found, _ = imported(
        tmp_path, own("a", "force_torque", "") + gazebo("b", "force_torque", UP)
    )
    assert [s.name for s in found] == ["a", "b"]


def test_a_twin_at_another_pose_is_named_and_left_out(tmp_path: Path) -> None:
    cell = "<force_torque><frame>sensor</frame></force_torque>"
    text = own("ft", "force_torque", cell + POSE) + gazebo("ft", "force_torque", cell)
    found, said = imported(tmp_path, text)
    assert [s.name for s in found] == ["ft"] and found[0].xyz == (1, 2, 3)  # type: ignore[attr-defined]
    assert any("'ft': described for Gazebo at another pose" in line for line in said)


@pytest.mark.finding("item 5")
def test_deviations_of_gazebo_are_read(tmp_path: Path) -> None:
    def noise(tag: str, std: float) -> str:
        axes = (f"<{a}><noise><stddev>{std}</stddev></noise></{a}>" for a in "xyz")
        return f"<{tag}>{''.join(axes)}</{tag}>"

    both = noise("angular_velocity", 0.1) + noise("linear_acceleration", 0.2)
    text = own("a", "gyroscope") + gazebo("a", "imu", f"<imu>{both}</imu>")
    old = "<accel><stddev>0.4</stddev></accel><rate><stddev>0.5</stddev></rate>"
    text += gazebo("old", "imu", f"<imu><noise>{old}</noise></imu>")
    wrench = noise("force", 3.0) + noise("torque", 0.3)
    text += gazebo("ft", "force_torque", f"<force_torque>{wrench}</force_torque>")
    half = f"<imu>{noise('angular_velocity', 0.1)}</imu>"
    text += gazebo("half", "imu", half)
    found, said = imported(tmp_path, text.replace(POSE, ""))
    stds = {s.name: s.std for s in found}
    assert stds["a"] == (0.2, 0.2, 0.2, 0.1, 0.1, 0.1)
    assert stds["old"] == (0.4, 0.4, 0.4, 0.5, 0.5, 0.5)
    assert stds["ft"] == (0.3, 0.3, 0.3, 3.0, 3.0, 3.0)
    assert stds["half"] is None
    assert any("'half': its <stddev> is not read" in line for line in said)


def test_poses_of_gazebo_in_degrees(tmp_path: Path) -> None:
    found, _ = imported(
        tmp_path, gazebo("a", "imu", '<pose degrees="true">0 0 0 0 0 90</pose>')
    )
    assert found[0] == Imu("a", "hand", rpy=(0, 0, np.pi / 2))
    away = gazebo("a", "imu", '<pose relative_to="arm">0 0 0 0 0 0</pose>')
    found, said = imported(tmp_path, away)
    assert not found and "relative to the link" in said[0]


def test_one_warning_per_kind_and_one_broken_sensor_breaks_no_other(tmp_path: Path) -> None:
    cameras = "".join(gazebo(f"eye{k}", "camera") for k in range(30))
    xacro = own("left", "imu", '<origin xyz="${x} 0 0"/>') + own("a", "imu")
    found, said = imported(tmp_path, cameras + xacro)
    assert [s.name for s in found] == ["a"]
    assert len(said) == 2
    assert any("sensors 'eye0', 'eye1'" in s and "22 more: type 'camera'" in s for s in said)
    assert any("'left': attribute xyz='${x}' is not a number" in s for s in said)


PASSIVE = """<mujoco><option {fluid}/><worldbody><body name="a" pos="0 0 1" {first}>
  <joint name="j" axis="0 1 0" {joint}/><geom size=".1" mass="2" pos=".3 0 0"/>
  <body name="b" pos=".5 0 0" {body}><joint name="k" axis="0 1 0"/>
    <geom size=".1" mass="1" pos=".2 0 0"/></body></body></worldbody>
  <tendon><fixed {tendon}><joint joint="j" coef="1"/></fixed></tendon>
  <actuator><motor joint="j"/><motor joint="k"/></actuator>
  <sensor><jointactuatorfrc name="force" joint="{sensed}"/></sensor></mujoco>"""


@pytest.mark.parametrize(
    ("stated", "feels"),
    [
        ({}, ""),
        ({"body": 'gravcomp="0.8"'}, "gravity compensation"),
        ({"body": 'gravcomp="0.8"', "joint": 'actuatorgravcomp="true"'}, ""),
        ({"first": 'gravcomp="1"', "sensed": "k"}, ""),
        ({"joint": 'stiffness="1"'}, "a spring"),
        ({"fluid": 'density="100" viscosity="1"'}, "a fluid"),
        ({"tendon": 'stiffness="1"'}, "tendons"),
    ],
)
@pytest.mark.finding("item 11")
def test_actuator_forces_are_read_where_they_are_all_that_drives(
    tmp_path: Path, stated: dict[str, str], feels: str
) -> None:
    mujoco = pytest.importorskip("mujoco")
    empty = dict.fromkeys(("fluid", "joint", "first", "body", "tendon"), "") | {"sensed": "j"}
    path = tmp_path / "arm.xml"
    path.write_text(PASSIVE.format(**empty | stated))
    robot = dynsys.load(path)
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.ctrl[:] = (0.3, 0.2), (0.5, 0.1), 0.7
    mujoco.mj_forward(model, data)
    state = [np.array(x) for x in (data.qpos, data.qvel, data.qacc)]
    motion = Motion(robot, *state, np.zeros((robot.n_bodies, 6)))
    agrees = np.allclose(
        motion.reading(MotorTorque("m", stated.get("sensed", "j"), 1.0)), data.sensordata
    )
    assert agrees == (not feels)  # MuJoCo itself says which forces count
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        found = from_mjcf(path, robot)
    assert len(found) == (0 if feels else 1)
    assert any(f"its joint feels {feels}" in str(w.message) for w in caught) == bool(feels)


TIED = """<mujoco><option><flag {flag}/></option><worldbody><body pos="0 0 1">
  <joint name="j" axis="0 1 0"/><geom size=".1" mass="2" pos=".3 0 0"/>
  <body pos=".5 0 0" {body}><joint name="k" axis="0 1 0" {joint}/>
    <geom size=".1" mass="1" pos=".2 0 0"/></body></body></worldbody>
  <equality><joint joint1="k" joint2="j" polycoef="0.1 -0.7 0 0 0" solref="-1e9 -1e6"
    solimp=".9999 .9999 .001"/></equality>
  <actuator><motor joint="j"/>{motor}</actuator>
  <sensor><jointactuatorfrc name="on j" joint="j"/><jointactuatorfrc name="on k" joint="k"/>
  </sensor></mujoco>"""


@pytest.mark.finding("F3")
@pytest.mark.parametrize("mimic", ["couple", "independent"])
@pytest.mark.parametrize("friction", ["ignore", "file"])
@pytest.mark.parametrize(
    ("stated", "left"),
    [
        ({}, ""),
        ({"joint": 'armature="0.3"'}, ""),
        ({"motor": '<motor joint="k"/>'}, "either"),
        ({"joint": 'damping="0.5"'}, "ignore"),
        ({"joint": 'frictionloss="0.4"'}, "ignore"),
        ({"joint": 'stiffness="2"'}, "either"),
        ({"joint": 'actuatorgravcomp="true"', "body": 'gravcomp="0.8"'}, "either"),
        ({"flag": 'equality="disable"'}, "nothing"),
    ],
)
def test_actuator_forces_of_joints_tied_by_an_equality(
    tmp_path: Path, stated: dict[str, str], left: str, mimic: str, friction: str
) -> None:
    """Kept exactly where what they say here is what MuJoCo reads."""
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "tied.xml"
    path.write_text(
        TIED.format(**dict.fromkeys(("flag", "body", "joint", "motor"), "") | stated)
    )
    robot = dynsys.load(path, mimic=mimic, friction=friction)  # type: ignore[arg-type]
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.ctrl[:] = (0.3, 0.1 - 0.7 * 0.3), (0.5, -0.7 * 0.5), 0.7
    mujoco.mj_forward(model, data)
    state = (np.array(x)[: robot.nv] for x in (data.qpos, data.qvel, data.qacc))
    motion = Motion(robot, *state, np.zeros((robot.n_bodies, 6)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        found = {sensor.name: sensor for sensor in from_mjcf(path, robot)}
    kept = {"on j", "on k"} if left == "nothing" else set()
    if mimic == "couple" and left not in ("either", friction):
        kept.add("on j")
    assert set(found) == kept
    assert all(
        any(f"'{name}'" in str(w.message) for w in caught) for name in {"on j", "on k"} - kept
    )
    for k, joint in enumerate("jk"):
        body = robot.bodies[k]
        taken = (0.0, 0.0) if friction == "file" else (body.damping, body.friction)
        viscous, coulomb = (0.0 if x is None else float(np.sum(x)) for x in taken)
        plain = MotorTorque("m", joint, 1.0, viscous=viscous, coulomb=coulomb)
        read = motion.reading(found.get(f"on {joint}", plain))
        agrees = np.allclose(read, data.sensordata[k], rtol=2e-3, atol=2e-3)
        assert agrees == (f"on {joint}" in kept)  # MuJoCo itself says whose force counts
