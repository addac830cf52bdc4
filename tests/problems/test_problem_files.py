"""Problem files: read, written, refused with the place, and their schema."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from dynsys import DynsysError, rnea
from dynsys import load as load_robot
from dynsys.recursive.constraint_rows import dense_rows
from problems.command.main import main
from problems.logs.columns import Column, Columns
from problems.problem_file import load_problem, problem_schema, save_problem
from tests.problems.command.command_line import run, run_json
from tests.problems.estimation.test_several_wrenches import FOUR_BAR
from tests.problems.logs.log_cases import PROBLEM


def test_problem_files_survive_a_round_trip(problem_file: Path, tmp_path: Path) -> None:
    first = load_problem(problem_file)
    save_problem(first, tmp_path / "again.yaml")
    again = load_problem(tmp_path / "again.yaml")
    assert again.sensors.fingerprint() == first.sensors.fingerprint()
    assert (again.outputs, again.differentiation) == (first.outputs, first.differentiation)


def test_where_columns_are_survives_a_round_trip(problem_file: Path, tmp_path: Path) -> None:
    first = load_problem(problem_file)
    parts = (Column("raw[0:3]", "deg", 2.0, (1.0, -1.0, 1.0), (2, 0, 1)), Column("pose"))
    columns = Columns({"imu": parts}, {"elbow": "j2"}, 250.0)
    save_problem(replace(first, columns=columns), tmp_path / "again.yaml")
    assert load_problem(tmp_path / "again.yaml").columns == columns


ARM = """<robot name="arm"><link name="base"/>
{links}
<joint name="j1" type="continuous"><parent link="base"/><child link="l1"/>
<axis xyz="0 1 0"/><dynamics damping="0.5" friction="2"/></joint>
<joint name="j2" type="continuous"><parent link="l1"/><child link="l2"/></joint></robot>"""
LINK = """<link name="{}"><inertial><origin xyz="0.1 0 0"/><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>"""


def test_friction_and_locked_joints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    links = "".join(LINK.format(f"l{k}") for k in (1, 2))
    (tmp_path / "arm.urdf").write_text(ARM.format(links=links))
    content = {"robot": "arm.urdf", "friction": "file", "lock": {"j2": 0.4}}
    motor = {"kind": "joint_torque", "name": "m", "joint": "j1", "std": 1e-9}
    content |= {"layout": {"sensors": [motor, "zero_external_wrench_except"]}}
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(content))
    problem = load_problem(tmp_path / "p.yaml")
    assert problem.tree.joint_names == ("j1",)
    assert problem.tree.friction_torque(np.array([3.0]))[0] == pytest.approx(3.5, rel=1e-4)
    assert problem.notes == ()
    save_problem(problem, tmp_path / "again.yaml")
    again = load_problem(tmp_path / "again.yaml")
    assert again.sensors.fingerprint() == problem.sensors.fingerprint()
    # what 'dynsys simulate' reads of a drive holds friction
    command = ("simulate", tmp_path / "p.yaml", "-o", tmp_path / "log.npz", "--duration", "1")
    command += ("--truth", "--position-std", "0", "--velocity-std", "0")
    assert run(capsys, *command)[0] == 0
    log = np.load(tmp_path / "log.npz")
    plain = load_robot(tmp_path / "arm.urdf", lock={"j2": 0.4})
    torque = rnea(plain, *(log[name] for name in ("q", "qd", "truth.qdd")))
    qd = log["qd"][:, 0]
    expected = torque[:, 0] + 0.5 * qd + 2 * qd / np.sqrt(qd**2 + 1e-4)
    np.testing.assert_allclose(np.ravel(log["m"]), expected, atol=1e-6)
    status, told = run_json(capsys, "info", tmp_path / "arm.urdf", "--lock", "j2=0.4")
    assert (status, told["nv"]) == (0, 1)
    assert any("friction" in note for note in told["notes"])
    told = run_json(capsys, "info", tmp_path / "arm.urdf", "--friction")[1]
    assert not any("friction" in note for note in told["notes"])


def test_joints_that_mimic_others_follow_where_the_file_says_so(tmp_path: Path) -> None:
    links = "".join(LINK.format(f"l{k}") for k in (1, 2))
    follows = '<child link="l2"/><mimic joint="j1" multiplier="2"/>'
    (tmp_path / "arm.urdf").write_text(
        ARM.format(links=links).replace('<child link="l2"/>', follows)
    )
    content = {"robot": "arm.urdf", "layout": {"sensors": ["all_joint_accelerations"]}}
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(content))
    problem = load_problem(tmp_path / "p.yaml")
    assert problem.tree.nv == 2
    assert any("mimic: couple in a problem file" in note for note in problem.notes)
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(content | {"mimic": "couple"}))
    problem = load_problem(tmp_path / "p.yaml")
    assert problem.tree.nv == 1 and not any("mimic" in note for note in problem.notes)
    save_problem(problem, tmp_path / "again.yaml")
    assert load_problem(tmp_path / "again.yaml").tree.is_coupled


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"robott": "x"}, r"unknown section 'robott'.*did you mean 'robot'"),
        ({"friction": "on"}, r"line \d+: friction must be file or ignore"),
        ({"mimic": "yes please"}, r"line \d+: mimic must be couple or independent"),
        ({"lock": {"body_9": 0.1}}, r"robot: .*no joint 'body_9'; did you mean"),
        ({"lock": {"body_1": "open"}}, r"robot: .*locked at 'open'; give a number"),
        ({"base": "sitting"}, r"line \d+: base must be fixed or floating"),
        ({"outputs": ["torqe"]}, r"outputs: output 'torqe'.*did you mean 'torque'"),
        ({"outputs": ["torque.nowhere"]}, "outputs: .*nowhere"),
        ({"prior": {"std": {"torq": 1.0}}}, r"prior: unknown.*did you mean 'torque'"),
        ({"sensors": []}, r"this is a layout file.*layout: p\.yaml"),
        ({"log": {"differentiate": {"window": "wide"}}}, "window must be a number"),
        ({"log": {"differentiate": {"window": 21}}}, "it is in seconds, above 0 and at most 2"),
        ({"log": {"differentiate": {"order": 1.5}}}, "order must be a whole number"),
        ({"log": {"differentiate": {"order": 1}}}, "must be at least 2"),
        ({"log": {"differentiate": {"method": "smooth"}}}, "did you mean 'smoother'"),
        ({"log": {"differentiate": {"method": "smoother", "jerk": 3}}}, "give the other one"),
        ({"log": {"differentiate": {"cutoff": 3}}}, "unknown key of differentiate by polyn"),
        ({"robot": "nowhere.urdf"}, "line 1: robot: .*nowhere.urdf"),
        ({"layout": "catalogue:naoo"}, "did you mean 'nao'"),
        (
            {"layout": {"sensors": [{"kind": "imuu", "name": "x"}]}},
            r"line \d+: unknown kind .*did you mean 'imu'",
        ),
    ],
)
def test_problem_files_are_refused_with_the_place(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        yaml.safe_dump({"robot": "synthetic:chain:2"} | PROBLEM | change, sort_keys=False)
        if "robot" not in change
        else yaml.safe_dump(PROBLEM | change, sort_keys=False)
    )
    with pytest.raises(DynsysError, match=message) as caught:
        _ = load_problem(path).estimation
    assert "p.yaml" in str(caught.value)


LOOP = {"name": "pin", "frame": "link_2", "components": ["z"], "axes": "world"}


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ("fil", "must be a list, got 'fil'"),
        ("file", "constraints: the file of robot .* has none"),
        ([{"frame": "link_2"}], "line .*a constraint needs 'name'"),
        ([LOOP | {"frame": "link_9"}], "line .*frame: .*no 'link_9'; did you mean"),
        ([LOOP | {"components": ["w"]}], "line .*unknown component 'w'"),
        ([LOOP | {"componets": ["x"]}], "line .*unknown key 'componets'.*did you mean"),
        ([LOOP, LOOP], "line .*two constraints are called 'pin'"),
        ([LOOP | {"other": "link_2"}], "line .*on the same body"),
        ([{"name": "tie", "joint": "link_2", "leader": "link_1"}], "constraints: .*mimic"),
    ],
)
def test_constraints_that_are_refused(
    tmp_path: Path, constraints: object, message: str
) -> None:
    path = tmp_path / "p.yaml"
    content = PROBLEM | {"robot": "synthetic:chain:2", "constraints": constraints}
    content |= {"layout": {"sensors": []}, "outputs": ["torque"]}
    path.write_text(json.dumps(content))  # YAML without aliases
    with pytest.raises(DynsysError, match=message):
        _ = load_problem(path).estimation


def test_constraints_of_a_problem_file(tmp_path: Path) -> None:
    """A loop of the robot's file: simulated closed, solved, its wrench among the outputs."""
    (tmp_path / "four_bar.xml").write_text(FOUR_BAR)
    entry = {"name": "pin", "frame": "coupler", "other": "rocker", "components": ["x", "z"]}
    entry |= {"xyz": [0.6, 0, 0.3], "other_xyz": [-0.1, 0, 0.7], "axes": "world"}
    sensed = ["zero_external_wrench_except", {"all_joint_torques": {"std": 1e-6}}]
    content = {"robot": "four_bar.xml", "constraints": [entry], "layout": {"sensors": sensed}}
    content["outputs"] = ["qdd", "external_wrench.pin"]
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    problem = load_problem(path)
    save_problem(problem, tmp_path / "again.yaml")
    assert load_problem(tmp_path / "again.yaml").sensors.names == problem.sensors.names
    log, out = tmp_path / "log.npz", tmp_path / "out.npz"
    simulate = ["simulate", str(path), "-o", str(log), "--truth", "--duration", "1"]
    assert main([*simulate, "--rate", "100"]) == 0
    assert main(["solve", str(path), str(log), "-o", str(out)]) == 0
    with np.load(log) as made, np.load(out) as solved:
        scale = np.abs(made["truth.qdd"]).max()
        np.testing.assert_allclose(solved["qdd"], made["truth.qdd"], atol=1e-4 * scale)
        truth = made["truth.external_wrench.pin"]
        assert np.abs(truth[:, [3, 5]]).max() > 0.1
        np.testing.assert_allclose(solved["external_wrench.pin"], truth, atol=1e-3)
        held = problem.sensors.loops
        for q in made["q"][::20]:
            error = dense_rows(problem.tree, held, q, np.zeros(3)).error
            assert np.abs(error).max() < 1e-6


def test_the_schema_accepts_what_is_read(problem_file: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = problem_schema()
    jsonschema.validate(yaml.safe_load(problem_file.read_text()), schema)
    tie = {"name": "tie", "joint": "a", "leader": "b", "coefficients": [0, 1]}
    for held in ("file", [LOOP, tie]):
        jsonschema.validate({"robot": "x", "layout": "y", "constraints": held}, schema)
    with pytest.raises(jsonschema.ValidationError):
        held = [LOOP | {"componets": ["x"]}]
        jsonschema.validate({"robot": "x", "layout": "y", "constraints": held}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"robot": "x", "layout": "y", "outputz": []}, schema)
    assert json.dumps(schema)
