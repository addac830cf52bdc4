"""dynsys init: a problem file that reads back, from any robot file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dynsys
from problems.problem_file import load_problem
from sensors import JointTorque, MotorTorque
from tests.model.test_urdf_refusals import joint, link
from tests.problems.command.command_line import run, run_json

SENSORS = """
<sensor name="wrist" type="force_torque"><parent joint="j"/></sensor>
<sensor name="imu: left" type="imu"><parent link="a"/></sensor>
"""


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    path = tmp_path / "arm.urdf"
    body = link("base") + link("a") + joint("j", "base", "a") + SENSORS
    path.write_text(f'<robot name="arm">{body}</robot>')
    return path


def test_the_file_holds_what_the_model_has_and_reads_back(
    arm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = run(capsys, "init", str(arm))
    assert status == 0
    assert "2 sensors of the model" in out and "next: dynsys check" in out
    problem = load_problem(arm.with_suffix(".yaml"))
    assert {"wrist", "imu: left"} <= set(problem.sensors.names)
    assert problem.tree.n_bodies == 1
    assert problem.estimation.verdict(search=False).is_well_posed
    before = arm.with_suffix(".yaml").read_text()
    status, _, err = run(capsys, "init", str(arm))
    assert status == 2 and "--overwrite" in err
    assert arm.with_suffix(".yaml").read_text() == before


@pytest.mark.parametrize("read", [("h",), ("h", "k")])
@pytest.mark.finding("C-22")
def test_torques_that_the_model_measures_are_not_measured_again(
    read: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log with one effort of each joint gave it to both sensors."""
    inner = "<joint name='k' axis='0 1 0'/><geom size='.1' pos='0 0 .3'/>"
    (tmp_path / "arm.xml").write_text(
        "<mujoco><worldbody><body><joint name='h' axis='0 1 0'/><geom size='.1' pos='0 0 .2'/>"
        f"<body pos='0 0 .4'>{inner}</body></body></worldbody>"
        "<actuator><motor joint='h'/><motor joint='k'/></actuator><sensor>"
        + "".join(f"<jointactuatorfrc name='{j}_tau' joint='{j}'/>" for j in read)
        + "</sensor></mujoco>"
    )
    assert run(capsys, "init", str(tmp_path / "arm.xml"))[0] == 0
    layout = load_problem(tmp_path / "arm.yaml").sensors
    torques = [s for s in layout if isinstance(s, JointTorque | MotorTorque)]
    assert sorted(s.joint for s in torques) == ["h", "k"]
    assert {f"{j}_tau" for j in read} <= set(layout.names)


@pytest.mark.parametrize("floating", [False, True])
def test_a_robot_without_sensors_gets_a_file_to_start_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], floating: bool
) -> None:
    robot = tmp_path / "robot.urdf"
    dynsys.synthetic.random_tree(5, seed=1, joint_types=["revolute"]).to_urdf(robot)
    words = ["init", str(robot), "-o", str(tmp_path / "p.yaml")]
    status, told = run_json(capsys, *words, *(["--floating-base"] if floating else []))
    assert status == 0 and told["sensors"] == []
    assert len(told["touched"]) > 1  # every end of the tree
    problem = load_problem(tmp_path / "p.yaml")
    assert problem.floating == floating
    assert ("imu" in problem.sensors.names) == floating
    assert set(told["touched"]) <= set(problem.tree.frames)
    assert np.isfinite(problem.sensors.std).all()
    status, out, _ = run(capsys, *words, "--overwrite")
    open_words = out.partition("not determined everywhere: ")[2]  # the ends may be touched
    assert open_words and ("all torques are determined" in out) == ("torque" not in open_words)


def test_a_biped_stands_on_its_feet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    robot = Path(dynsys.__file__).parent / "model" / "data" / "humanoid.urdf"
    status, told = run_json(
        capsys, "init", str(robot), "--floating-base", "-o", str(tmp_path / "h.yaml")
    )
    assert status == 0
    assert {"l_sole", "r_sole", "l_hand", "r_hand"} <= set(told["touched"])


def test_many_feet_are_points_and_all_are_outputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a quadruped's file needs to be well-posed (docs/first_hour.md)."""
    trunk, legs = link("trunk"), ""
    for leg in ("FL", "FR", "RL", "RR"):
        before = "trunk"
        for part, axis in (("hip", "1 0 0"), ("thigh", "0 1 0"), ("calf", "0 1 0")):
            legs += link(f"{leg}_{part}")
            legs += joint(f"{leg}_{part}_joint", before, f"{leg}_{part}").replace(
                "</joint>", f'<axis xyz="{axis}"/><origin xyz="0.1 0.05 -0.2"/></joint>'
            )
            before = f"{leg}_{part}"
        legs += f'<link name="{leg}_foot"/><joint name="{leg}_f" type="fixed">'
        legs += f'<parent link="{before}"/><child link="{leg}_foot"/>'
        legs += '<origin xyz="0 0 -0.2"/></joint>'
    robot = tmp_path / "dog.urdf"
    robot.write_text(f'<robot name="dog">{trunk}{legs}</robot>')
    status, told = run_json(capsys, "init", str(robot), "--floating-base")
    assert status == 0 and told["touched"] == [f"{x}_foot" for x in ("FL", "FR", "RL", "RR")]
    problem = load_problem(robot.with_suffix(".yaml"))
    assert {f"{name}/point" for name in told["touched"]} <= set(problem.sensors.names)
    assert {f"external_wrench.{name}" for name in told["touched"]} <= set(problem.outputs)
    assert problem.estimation.verdict(search=False).is_well_posed
    # without these lines the verdict offers them, before readings that nobody has
    written = robot.with_suffix(".yaml").read_text().splitlines()
    points = [line.strip() for line in written if "pure_force" in line]
    flat = tmp_path / "flat.yaml"
    flat.write_text("\n".join(line for line in written if "pure_force" not in line))
    repair = load_problem(flat).estimation.verdict(search=False).repairs[0]
    assert "are points" in repair.words and repair.yaml.splitlines() == points


def test_a_hand_with_fingers_is_touched_at_its_tool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each finger, and a site that only marks an axis, was a contact of six components."""
    parts = link("arm") + link("gripper_palm") + joint("wrist", "arm", "gripper_palm")
    for side in ("left", "right"):
        parts += link(f"gripper_{side}_finger")
        parts += joint(f"{side}_slide", "gripper_palm", f"gripper_{side}_finger")
    for frame, z in (("gripper_tcp", 0.1), ("gripper_ee_z", 0.2)):
        parts += f'<link name="{frame}"/><joint name="{frame}_j" type="fixed"><parent'
        parts += f' link="gripper_palm"/><child link="{frame}"/><origin xyz="0 0 {z}"/></joint>'
    robot = tmp_path / "arm.urdf"
    robot.write_text(
        f'<robot name="arm"><link name="base"/>{joint("j", "base", "arm")}{parts}</robot>'
    )
    status, told = run_json(capsys, "init", str(robot))
    assert status == 0 and told["touched"] == ["gripper_tcp"]
    text = robot.with_suffix(".yaml").read_text()
    assert "# lock: {left_slide: 0.0, right_slide: 0.0}" in text
    problem = load_problem(robot.with_suffix(".yaml"))
    assert "std.external_wrench.gripper_tcp" in problem.outputs


def test_a_base_without_torque_sensors_still_has_no_drive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line of the torque sensors, taken out, took that statement with it."""
    robot = tmp_path / "robot.urdf"
    dynsys.synthetic.random_tree(3, seed=1, joint_types=["revolute"]).to_urdf(robot)
    assert run(capsys, "init", str(robot), "--floating-base")[0] == 0
    path = robot.with_suffix(".yaml")
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if "all_joint_torques" not in line))
    (base,) = (s for s in load_problem(path).sensors.sensors if s.kind == "joint_torque")
    assert base.name.endswith("/no_drive") and base.constant(6) is not None


def test_loops_of_the_file_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "loop.urdf"
    body = "".join(map(link, ("base", "a", "b")))
    body += joint("j", "base", "a") + joint("k", "base", "b")
    body += "<loop_joint name='pin' type='spherical'>"
    body += "<link1 link='a' xyz='0.5 0 0'/><link2 link='b' xyz='0.5 0 0'/></loop_joint>"
    path.write_text(f'<robot name="loop">{body}</robot>')
    status, out, err = run(capsys, "init", path)
    assert (status, err) == (0, "") and "note: constraints" not in out
    problem = load_problem(path.with_suffix(".yaml"))
    assert problem.constraints == "file" and "pin" in problem.tree.frames


def test_what_is_no_robot_file_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "init", "example:humanoid")
    assert status == 2 and "robot file" in err
