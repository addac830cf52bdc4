"""Force sensors, against Newton's law for the points beyond them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dynsys
from dynsys import Contact, KinematicTree, synthetic
from dynsys.model.spatial import Transform
from dynsys.types import Array
from sensors import (
    ActionReaction,
    CentreOfMassAcceleration,
    CentroidalMomentumRate,
    ExternalWrench,
    FiveAxisPlate,
    ForceAlongDirection,
    ForceTorque,
    LoadCellPlate,
    PureForce,
    load_cell_sums,
)
from tests.sensors.truth import OFFSET, RPY, SIDE, TOLERANCE, XYZ, Motion, with_frames


def moved(wrench: Array, pose: Transform) -> Array:
    """Wrench in base coordinates about the base's origin, seen in a frame at ``pose``."""
    moment = wrench[:3] - np.cross(pose.r, wrench[3:])
    return np.concatenate([pose.E @ moment, pose.E @ wrench[3:]])


@pytest.fixture(params=range(3))
def motion(request: pytest.FixtureRequest) -> Motion:
    tree = synthetic.random_tree(6, request.param)
    return Motion.random(with_frames(tree, tool=4, sole=2, pedestal=-1), request.param)


@pytest.mark.parametrize("measures", ["on_child", "on_parent"])
def test_force_torque_at_a_joint(motion: Motion, measures: str) -> None:
    robot, body = motion.robot, 2
    beyond = motion.subtree(body)
    wrench = motion.momentum_rate(beyond, np.zeros(3), gravity=True)
    for i in beyond:
        wrench -= motion.kinematics.poses[i].force_back(motion.wrenches[i])
    expected = moved(wrench, motion.pose(motion.q, body, OFFSET))
    sign = 1 if measures == "on_child" else -1
    sensor = ForceTorque("s", robot.joint_names[body], xyz=XYZ, rpy=RPY, measures=measures)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(motion.reading(sensor), sign * expected, atol=1e-6 * scale)
    part = ForceTorque("s", robot.joint_names[body], xyz=XYZ, rpy=RPY, components=["fz", "tx"])
    np.testing.assert_allclose(motion.reading(part), expected[[5, 0]], atol=1e-6 * scale)


CUT = """<robot name="cut">
  <link name="base"/>
  <link name="arm"><inertial><origin xyz="0.1 0 0.02" rpy="0.1 0 0"/><mass value="2"/>
    <inertia ixx="0.02" iyy="0.03" izz="0.04" ixy="0.001" ixz="0" iyz="0"/></inertial></link>
  <link name="cell"><inertial><origin xyz="0 0.03 0"/><mass value="0.5"/>
    <inertia ixx="0.002" iyy="0.003" izz="0.004" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="plate"><inertial><origin xyz="0.02 0 0.1"/><mass value="0.7"/>
    <inertia ixx="0.002" iyy="0.003" izz="0.004" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="finger"><inertial><origin xyz="0.05 0 0"/><mass value="0.3"/>
    <inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="thumb"><inertial><origin xyz="0 0.05 0"/><mass value="0.2"/>
    <inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="arm"/>
    <origin xyz="0 0 0.5" rpy="0.3 0 0"/><axis xyz="0 1 0"/></joint>
  <joint name="cell_joint" type="TYPE"><parent link="arm"/><child link="cell"/>
    <origin xyz="0.3 0.1 0" rpy="0 0.5 0.2"/><axis xyz="0 0 1"/></joint>
  <joint name="plate_joint" type="fixed"><parent link="cell"/><child link="plate"/>
    <origin xyz="0 0.05 0.1" rpy="1 0 0"/></joint>
  <joint name="grip" type="continuous"><parent link="plate"/><child link="finger"/>
    <origin xyz="0.1 0 0" rpy="0 0 0.4"/><axis xyz="1 0 0"/></joint>
  <joint name="elbow" type="continuous"><parent link="arm"/><child link="thumb"/>
    <origin xyz="0.1 0.2 0"/><axis xyz="0 0 1"/></joint>
</robot>"""


@pytest.fixture
def cut(tmp_path: Path) -> tuple[KinematicTree, KinematicTree]:
    """Return the robot with a fixed joint folded, and the same with a hinge in its place."""
    robots = []
    for kind in ("fixed", "continuous"):
        path = tmp_path / f"{kind}.urdf"
        path.write_text(CUT.replace("TYPE", kind))
        robots.append(dynsys.load(path))
    return robots[0], robots[1]


@pytest.mark.parametrize("external", ["beyond", "before"])
@pytest.mark.parametrize("at", ["cell_joint", "cell"])
def test_force_torque_in_a_fixed_joint(
    cut: tuple[KinematicTree, KinematicTree], at: str, external: str
) -> None:
    folded, hinged = cut
    rng = np.random.default_rng(3)
    state = {name: rng.normal(size=(3,)) for name in ("shoulder", "grip", "elbow")}
    values = [np.zeros((3, r.nv)) for r in (folded, hinged)]
    for robot, value in zip((folded, hinged), values, strict=True):
        for name, numbers in state.items():
            value[:, robot.v_slice(name)] = numbers[:, None]
    loads = {name: rng.normal(size=6) for name in ("finger", "thumb")}
    touched = "cell" if external == "beyond" else "arm"
    loads[touched] = rng.normal(size=6)
    motions = []
    for robot, value in zip((folded, hinged), values, strict=True):
        wrenches = np.zeros((robot.n_bodies, 6))
        for name, wrench in loads.items():
            frame = robot.frame(name)
            wrenches[frame.body] += frame.transform.force_back(wrench)
        motions.append(Motion(robot, *value, wrenches))
    sensor = ForceTorque("s", at, xyz=XYZ, rpy=RPY, external=external)
    truth = ForceTorque("s", "cell_joint", xyz=XYZ, rpy=RPY)
    np.testing.assert_allclose(
        motions[0].reading(sensor), motions[1].reading(truth), atol=1e-12
    )


def test_wrenches_before_and_beyond_a_fixed_joint(
    cut: tuple[KinematicTree, KinematicTree],
) -> None:
    """Three contacts on one body: the sensor in it feels those beyond, whatever the others."""
    touch = [Contact("palm", "plate", XYZ), Contact("rim", "cell"), Contact("pad", "arm", XYZ)]
    folded, hinged = (robot.with_contacts(touch) for robot in cut)
    rng = np.random.default_rng(5)
    state = {name: rng.normal(size=3) for name in ("shoulder", "grip", "elbow")}
    loads = {name: rng.normal(size=6) for name in ("finger", "arm", "palm", "rim", "pad")}
    motions = []
    for robot in (folded, hinged):
        value = np.zeros((3, robot.nv))
        for name, numbers in state.items():
            value[:, robot.v_slice(name)] = numbers[:, None]
        wrenches = np.zeros((robot.n_bodies, 6))
        for name, wrench in loads.items():
            wrenches[robot.body_index(name)] = wrench
        motions.append(Motion(robot, *value, wrenches))
    for at in ("cell_joint", "plate_joint"):
        sensor = ForceTorque("s", at, xyz=XYZ, rpy=RPY, external="before")
        expected = motions[1].reading(sensor)
        np.testing.assert_allclose(motions[0].reading(sensor), expected, atol=1e-12)


def test_welds_of_a_folded_robot(cut: tuple[KinematicTree, KinematicTree]) -> None:
    robot = cut[0]
    weld = robot.welds["cell_joint"]
    assert weld is robot.welds["cell"]
    assert [robot.joint_names[j] for j in weld.children] == ["grip"]
    assert weld.inertia.mass == pytest.approx(1.2)
    assert robot.welds["plate"].inertia.mass == pytest.approx(0.7)
    assert robot.with_gravity((0, 0, 0)).welds["cell"] is weld
    assert "cell_joint" not in cut[1].welds


def test_force_torque_below_a_fixed_base_carries_the_whole_weight(tmp_path: Path) -> None:
    path = tmp_path / "stand.urdf"
    path.write_text(
        CUT.replace("TYPE", "fixed")
        .replace('<link name="base"/>', '<link name="floor"/><link name="base"/>')
        .replace(
            '<joint name="shoulder"',
            '<joint name="stand" type="fixed"><parent link="floor"/><child link="base"/>'
            "</joint>"
            '<joint name="shoulder"',
        )
    )
    robot = dynsys.load(path)
    still = np.zeros(robot.nv)
    motion = Motion(robot, still, still, still, np.zeros((robot.n_bodies, 6)))
    reading = motion.reading(ForceTorque("s", "stand"))
    np.testing.assert_allclose(reading[3:], [0, 0, 9.81 * robot.total_mass], atol=1e-9)


# ---- external wrenches -----------------------------------------------------------------------


def test_external_wrench_keeps_its_power(motion: Motion) -> None:
    """Moment and force of a moved wrench do the same work on every motion of the body."""
    sensor = ExternalWrench("s", "tool", xyz=XYZ, rpy=RPY)
    transform = SIDE.then(OFFSET)
    velocity = np.random.default_rng(0).normal(size=6)
    power = motion.reading(sensor) @ transform.motion(velocity)
    assert power == pytest.approx(motion.wrenches[4] @ velocity)


def test_plates_see_their_components(motion: Motion) -> None:
    whole = motion.reading(ExternalWrench("s", "tool", xyz=XYZ, rpy=RPY))
    plate = motion.reading(LoadCellPlate("s", "tool", xyz=XYZ, rpy=RPY))
    np.testing.assert_allclose(plate, whole[[0, 1, 5]])
    five = motion.reading(FiveAxisPlate("s", "tool", xyz=XYZ, rpy=RPY))
    np.testing.assert_allclose(five, whole[[0, 1, 3, 4, 5]])


@pytest.mark.parametrize("axes", ["world", "sole", -1])
def test_wrenches_in_other_axes(motion: Motion, axes: str | int) -> None:
    """Moment about the same point, in axes that do not turn with the body."""
    pose = motion.pose(motion.q, "tool", Transform(np.eye(3), np.array(XYZ)))
    told_in = motion.pose(motion.q, -1 if axes == "world" else axes).then(
        Transform(OFFSET.E, np.zeros(3))
    )
    force = motion.robot.frame("tool").transform.inverse().force_back(motion.wrenches[4])
    here = np.concatenate([force[:3] - np.cross(XYZ, force[3:]), force[3:]])
    turn = told_in.E @ pose.E.T
    expected = np.concatenate([turn @ here[:3], turn @ here[3:]])
    at = {"xyz": XYZ, "rpy": RPY, "axes": axes}
    np.testing.assert_allclose(motion.reading(ExternalWrench("s", "tool", **at)), expected)
    plate = motion.reading(LoadCellPlate("s", "tool", **at))
    np.testing.assert_allclose(plate, expected[[0, 1, 5]])
    part = ExternalWrench("s", "tool", components=["fy"], **at)
    np.testing.assert_allclose(motion.reading(part), expected[[4]])


def test_a_force_along_a_direction_of_the_world(motion: Motion) -> None:
    down = np.array([0.2, 0.1, -1.0])
    along = push(motion, 4, "tool", motion.pose(motion.q, "tool").E @ (3.0 * down))
    line = ForceAlongDirection("s", "tool", down, xyz=XYZ, axes="world")
    np.testing.assert_allclose(along.reading(line), 0, atol=1e-12)
    fixed = ForceAlongDirection("s", "tool", down, xyz=XYZ)
    assert np.abs(along.reading(fixed)).max() > 1e-3


def test_load_cells_sum_to_a_plate(motion: Motion) -> None:
    positions, forces = (
        np.array([[0.1, 0.05], [0.1, -0.05], [-0.1, 0.0]]),
        np.array([1, 2, 3.0]),
    )
    wrench = np.zeros(6)
    for (x, y), force in zip(positions, forces, strict=True):
        wrench[:3] += np.cross([x, y, 0.0], [0.0, 0.0, force])
        wrench[5] += force
    wrenches = motion.wrenches.copy()
    wrenches[4] = SIDE.force_back(wrench)
    on_cells = Motion(motion.robot, motion.q, motion.qd, motion.qdd, wrenches)
    reading = on_cells.reading(LoadCellPlate("s", "tool"))
    np.testing.assert_allclose(reading, load_cell_sums(positions) @ forces, atol=1e-12)
    with pytest.raises(ValueError, match="shape"):
        load_cell_sums([[1.0, 2.0, 3.0]])


def push(motion: Motion, body: int, frame: str, force: Array) -> Motion:
    """Return the motion with one force through the point XYZ of a frame."""
    wrenches = motion.wrenches.copy()
    wrench = np.concatenate([np.cross(XYZ, force), force])
    wrenches[body] = motion.robot.frame(frame).transform.force_back(wrench)
    return Motion(motion.robot, motion.q, motion.qd, motion.qdd, wrenches)


def test_pure_force_and_its_line(motion: Motion) -> None:
    direction = np.array([0.2, -1.0, 0.4])
    along = push(motion, 4, "tool", 3.0 * direction)
    askew = push(motion, 4, "tool", np.array([1.0, 2.0, 3.0]))
    point = PureForce("s", "tool", xyz=XYZ)
    line = ForceAlongDirection("s", "tool", direction, xyz=XYZ)
    np.testing.assert_allclose(along.reading(point), 0, atol=1e-12)
    np.testing.assert_allclose(askew.reading(point), 0, atol=1e-12)
    np.testing.assert_allclose(along.reading(line), 0, atol=1e-12)
    assert np.abs(askew.reading(line)[:3]).max() < 1e-12 < np.abs(askew.reading(line)).max()
    across = np.array([1.0, 2.0, 3.0]) - direction * (7 - 5.8) / (direction @ direction)
    across -= direction * (across @ direction) / (direction @ direction)
    assert np.linalg.norm(askew.reading(line)[3:]) == pytest.approx(np.linalg.norm(across))
    assert np.abs(motion.reading(point)).max() > 1e-3


def test_action_reaction(motion: Motion) -> None:
    """A force between two bodies through one point of space cancels."""
    force, place = np.array([1.0, -2.0, 0.5]), np.array([0.3, 0.4, 0.9])
    wrench = np.concatenate([np.cross(place, force), force])
    wrenches = motion.wrenches.copy()
    for body, sign in ((2, 1.0), (4, -1.0)):
        pose = motion.kinematics.poses[body]
        wrenches[body] = sign * moved(wrench, pose)
    pair = Motion(motion.robot, motion.q, motion.qd, motion.qdd, wrenches)
    sensor = ActionReaction("s", "tool", "sole")
    np.testing.assert_allclose(pair.reading(sensor), 0, atol=1e-12)
    assert np.abs(motion.reading(sensor)).max() > 1e-3


# ---- the robot as a whole --------------------------------------------------------------------


def test_centre_of_mass_acceleration(motion: Motion) -> None:
    robot = motion.robot
    rate = motion.momentum_rate(list(range(robot.n_bodies)), np.zeros(3), gravity=False)
    expected = rate[3:] / robot.total_mass
    reading = motion.reading(CentreOfMassAcceleration("s"))
    np.testing.assert_allclose(reading, expected, atol=TOLERANCE * 10)
    proper = motion.reading(CentreOfMassAcceleration("s", proper=True))
    np.testing.assert_allclose(proper, reading - robot.gravity, atol=1e-12)


@pytest.mark.parametrize("axes", [-1, "tool"])
def test_centroidal_momentum_rate(motion: Motion, axes: str | int) -> None:
    robot = motion.robot
    everything = list(range(robot.n_bodies))
    centre = motion.kinematics.centre_of_mass
    expected = motion.momentum_rate(everything, centre, gravity=False)
    E = motion.pose(motion.q, axes).E
    expected = np.concatenate([E @ expected[:3], E @ expected[3:]])
    reading = motion.reading(CentroidalMomentumRate("s", axes))
    np.testing.assert_allclose(reading, expected, atol=1e-6 * np.abs(expected).max())
