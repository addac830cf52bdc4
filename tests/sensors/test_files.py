"""Layout files: what they may say, and the line of everything they may not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dynsys import KinematicTree, LayoutError, synthetic
from sensors import (
    Accelerometer,
    ExternalWrench,
    JointTorque,
    Layout,
    layout_schema,
    sensor_kinds,
)
from sensors.schema import layout_schema_text
from sensors.yaml_input import MAX_BYTES, parse_yaml, write_yaml

ROOT = Path(__file__).parents[2]

GOOD = """\
about: {description: test}
sensors:
  - {kind: imu, name: chest, frame: chest_imu, std: [5e-2, 1E-2]}
  - kind: force_torque
    name: l_ft
    at: l_foot_ft_fixed
  - all_joint_accelerations: {free: true}
  - all_joint_torques: {std: 0.5, exclude: [l_knee]}
  - zero_external_wrench_except: [l_sole, r_sole]
correlations:
  - between: [l_knee/acceleration, r_knee/acceleration]
    covariance: [[0.1]]
"""


def load(text: str, robot: KinematicTree, folder: Path) -> Layout:
    path = folder / "layout.yaml"
    path.write_text(text)
    return Layout.load(path, robot)


def test_good_file(humanoid: KinematicTree, tmp_path: Path) -> None:
    layout = load(GOOD, humanoid, tmp_path)
    n = humanoid.n_bodies
    assert len(layout) == 2 + n + (n - 1) + (n - 2)
    assert layout.about == {"description": "test"}
    assert layout["chest"].std == (0.05, 0.01)
    assert layout.covariance()[layout.slice("l_knee/acceleration").start].nnz == 2


CONTACTS = """\
contacts: [l_sole, {name: l_heel, frame: l_foot, xyz: [-0.05, 0, -0.03], rpy: [0, 0.3, 0.1]}]
sensors:
  - {kind: force_torque, name: l_ft, at: l_foot_ft_fixed, std: 1.0}
  - {kind: external_wrench, name: ice, frame: l_heel, components: [fx], axes: world, value: 0}
  - zero_external_wrench_except: [l_sole, l_heel]
"""


def test_contacts_of_a_file(humanoid: KinematicTree, tmp_path: Path) -> None:
    layout = load(CONTACTS, humanoid, tmp_path)
    assert [c.name for c in layout.robot.contacts] == ["l_sole", "l_heel"]
    assert layout.touched(humanoid) is layout.robot
    carrier = humanoid.body_names[humanoid.body_index("l_sole")]
    assert f"{carrier}/no_contact" in layout.names  # all of its wrench goes through the two
    layout.save(tmp_path / "again.yaml")
    again = Layout.load(tmp_path / "again.yaml", humanoid)
    assert again.fingerprint() == layout.fingerprint()
    assert Layout.load(tmp_path / "again.yaml", layout.robot).robot is layout.robot
    other = humanoid.with_gravity((0, 0, 1))
    assert layout.touched(other) is other


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("l_sol", "did you mean 'l_sole'"),
        ("{frame: l_foot}", "needs 'name'"),
        ("{name: a, frame: l_foot, xyz: [1, 2]}", "xyz must hold 3 numbers"),
        ("{name: a, frame: l_foot, at: 3}", "unknown key of a contact 'at'"),
        ("{name: l_sole, frame: l_foot, xyz: [9, 0, 0]}", "is not where the frame"),
    ],
)
def test_contacts_that_are_refused(
    humanoid: KinematicTree, tmp_path: Path, entry: str, reason: str
) -> None:
    with pytest.raises(LayoutError, match=rf"line \d: .*{reason}"):
        load(f"sensors: []\ncontacts:\n  - {entry}\n", humanoid, tmp_path)


@pytest.mark.slow
def test_json_is_json_and_read_back(humanoid: KinematicTree, tmp_path: Path) -> None:
    layout = load(GOOD, humanoid, tmp_path)
    layout.save(tmp_path / "layout.json")
    assert json.loads((tmp_path / "layout.json").read_text())["about"] == layout.about
    again = Layout.load(tmp_path / "layout.json", humanoid)
    assert again.fingerprint() == layout.fingerprint()


def test_names_that_the_robot_lacks_are_told_from_the_robot(
    humanoid: KinematicTree, tmp_path: Path
) -> None:
    with pytest.raises(LayoutError, match="line 2: frame: robot 'humanoid' has no 'chst'"):
        load(sensor("{kind: imu, name: a, frame: chst}"), humanoid, tmp_path)


def sensor(text: str) -> str:
    return f"sensors:\n  - {text}\n"


BAD = {
    "no section": ("about: {a: b}\n", 1, "'sensors' is missing"),
    "unknown section": ("sensor: []\n", 1, "did you mean 'sensors'"),
    "not a mapping": ("- a\n", 1, "must be a mapping"),
    "sensors no list": ("sensors: {a: b}\n", 1, "must be a list"),
    "kind": (sensor("{kind: accelerometr, name: a}"), 2, "did you mean 'accelerometer'"),
    "no kind": (sensor("{name: a, frame: chest}"), 2, "has no kind"),
    "shorthand": (sensor("all_joint_torqes"), 2, "did you mean 'all_joint_torques'"),
    "shorthand option": (sensor("all_joint_torques: {sdt: 1}"), 2, "did you mean 'std'"),
    "shorthand name": (sensor("zero_external_wrench_except: [l_sol]"), 2, "mean 'l_sole'"),
    "key": (sensor("{kind: imu, name: a, fram: chest}"), 2, "did you mean 'frame'"),
    "missing": (sensor("{kind: imu, name: a}"), 2, "imu needs 'frame'"),
    "frame": (sensor("kind: imu\n    name: a\n    frame: chestt"), 4, "did you mean 'chest'"),
    "joint": (sensor("kind: joint_torque\n    name: a\n    joint: l_kne"), 4, "mean 'l_knee'"),
    "weld": (
        sensor("kind: force_torque\n    name: a\n    at: l_foot_ft_fix"),
        4,
        "did you mean 'l_foot_ft_fixed'",
    ),
    "number": (sensor("{kind: imu, name: a, frame: chest, std: much}"), 2, "std must be a"),
    "length": (sensor("{kind: imu, name: a, frame: chest, xyz: [1, 2]}"), 2, "3 numbers"),
    "choice": (
        sensor("{kind: rigid_contact, name: a, frame: chest, holds: pint}"),
        2,
        "did you mean 'point'",
    ),
    "component": (
        sensor("{kind: external_wrench, name: a, frame: chest, components: [fx, mz]}"),
        2,
        "unknown component 'mz'",
    ),
    "boolean": (sensor("{kind: imu, name: a, frame: chest, angular: 1}"), 2, "true or false"),
    "name is no text": (sensor("{kind: imu, name: 1, frame: chest}"), 2, "quote it"),
    "date": (sensor("{kind: imu, name: 2020-01-01, frame: chest}"), 2, "quote it"),
    "octal": (sensor("{kind: imu, name: a, frame: chest, std: 010}"), 2, "010 is 8 in YAML"),
    "sixties": (sensor("{kind: imu, name: a, frame: chest, std: 1:30}"), 2, "1:30 is 90"),
    "sixties with a point": (
        sensor("{kind: imu, name: a, frame: chest, std: 1:30.5}"),
        2,
        "1:30.5 is 90.5 in YAML 1.1; write a plain decimal number, or '1:30.5' in quotes",
    ),
    "underscore": (sensor("{kind: imu, name: a, frame: chest, std: 1_0}"), 2, "1_0 is 10"),
    "octal frame": (sensor("{kind: imu, name: a, frame: 010}"), 2, "010 is 8 in YAML"),
    "hexadecimal": (sensor("{kind: imu, name: a, frame: 0x10}"), 2, "0x10 is 16 in YAML"),
    "both noises": (
        sensor("{kind: gyroscope, name: a, frame: chest, std: 1, covariance: [[1]]}"),
        2,
        "not both",
    ),
    "noise size": (
        sensor("all_joint_torques\n  - {kind: imu, name: a, frame: chest, std: [1, 2, 3]}"),
        3,
        "std has 3 numbers",
    ),
    "duplicate sensor": (
        "sensors:\n" + 2 * "  - {kind: imu, name: a, frame: chest}\n",
        3,
        "the other one in line 2",
    ),
    "duplicate key": (sensor("{kind: imu, name: a, name: b}"), 2, "given twice"),
    "correlation name": (
        sensor("{kind: imu, name: a, frame: chest}")
        + "correlations:\n  - {between: [a, b], covariance: [[1]]}\n",
        4,
        "no sensor is called 'b'",
    ),
    "correlation key": (
        sensor("{kind: imu, name: a, frame: chest}") + "correlations:\n  - {betwen: [a]}\n",
        4,
        "did you mean 'between'",
    ),
    "correlation parts": (
        sensor("{kind: imu, name: a, frame: chest}") + "correlations:\n  - {between: [a]}\n",
        4,
        "needs 'between' and 'covariance'",
    ),
    "alias": ("about: &a {x: 1}\nsensors: *a\n", 2, "aliases"),
    "tag": ("sensors: !!python/object/apply:os.system [ls]\n", 1, "is read as"),
    "syntax": ("sensors:\n  - {kind: imu\n", 3, "not valid YAML"),
    "deep": ("sensors: " + "[" * 50 + "]" * 50 + "\n", 1, "nested deeper"),
    "list key": ("sensors: []\n? [a]\n: b\n", 2, "must be a word"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.finding("item 10")
def test_bad_file_names_its_line(case: str, humanoid: KinematicTree, tmp_path: Path) -> None:
    text, line, message = BAD[case]
    with pytest.raises(LayoutError, match=message) as caught:
        load(text, humanoid, tmp_path)
    assert f"layout.yaml, line {line}: " in str(caught.value)


def test_tags_run_nothing(humanoid: KinematicTree, tmp_path: Path) -> None:
    text = "sensors:\n  - !!python/name:os.system ''\n"
    with pytest.raises(LayoutError, match="line 2"):
        load(text, humanoid, tmp_path)


def test_unreadable_files(humanoid: KinematicTree, tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match="no such file"):
        Layout.load(tmp_path / "none.yaml", humanoid)
    with pytest.raises(LayoutError, match="empty"):
        load("", humanoid, tmp_path)
    with pytest.raises(LayoutError, match="larger than"):
        load("#" * (MAX_BYTES + 1), humanoid, tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"sensors: \xff\xfe")
    with pytest.raises(LayoutError, match="UTF-8"):
        Layout.load(tmp_path / "latin.yaml", humanoid)


# ---- schema ----------------------------------------------------------------------------------


def test_stored_schema_is_what_the_classes_say() -> None:
    """Rewrite with: python -c "import sensors.schema as s; print(s.layout_schema_text())"."""
    assert (ROOT / "sensors" / "schema.json").read_text() == layout_schema_text()


def test_schema_knows_every_kind_and_the_robot_s_names(humanoid: KinematicTree) -> None:
    schema = json.loads(json.dumps(layout_schema(humanoid)))
    entries = schema["properties"]["sensors"]["items"]["anyOf"]
    by_kind = {
        entry["properties"]["kind"]["const"]: entry
        for entry in entries
        if "kind" in entry.get("properties", {})
    }
    assert set(by_kind) == set(sensor_kinds())
    assert "chest_imu" in by_kind["imu"]["properties"]["frame"]["enum"]
    assert by_kind["joint_torque"]["properties"]["joint"]["enum"][0] == "root"
    assert by_kind["imu"]["required"] == ["kind", "name", "frame"]


def test_schema_accepts_good_and_refuses_bad() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    yaml = pytest.importorskip("yaml")
    validator = jsonschema.Draft202012Validator(layout_schema())
    assert validator.is_valid(parse_yaml(CONTACTS, "").plain())
    for path in (ROOT / "sensors" / "catalogue").glob("*.yaml"):
        validator.validate(yaml.safe_load(path.read_text()))
    for case in ("kind", "key", "missing", "choice", "component", "length", "unknown section"):
        assert not validator.is_valid(yaml.safe_load(BAD[case][0])), case


WRITTEN = {
    "0": 0,
    "-7": -7,
    "+12": 12,
    ".5": 0.5,
    "-1.": -1.0,
    "007.5": 7.5,
    "1.5E+2": 150.0,
    ".inf": np.inf,
    "'010'": "010",
    "08": "08",
}


@pytest.mark.parametrize(("written", "value"), WRITTEN.items())
def test_decimal_numbers_are_what_they_look_like(written: str, value: object) -> None:
    assert parse_yaml(f"a: {written}", "file").plain() == {"a": value}


def test_names_that_look_like_numbers_are_written_in_quotes() -> None:
    content = {"names": ["010", "1:30", "1_000", "0x1F", "1e3", "12"], "value": 1e-7}
    assert parse_yaml(write_yaml(content), "file").plain() == content


@pytest.mark.finding("E-6")
def test_names_that_numpy_picked_are_names(tmp_path: Path) -> None:
    """Elements of an array of texts; saving ended in RepresenterError, plans were refused."""
    robot = synthetic.chain(3)
    layouts = [
        Layout(
            robot,
            [
                JointTorque(components[0], body, std=0.1),
                Accelerometer(body, body, std=0.1),
                ExternalWrench("push", body, components, std=0.1),
            ],
            [(components[0], body, 0.001 * np.ones((1, 3)))],
        )
        for body, components in (
            ("link_2", ("fx", "tz")),
            (np.array(robot.body_names)[1], np.array(["fx", "tz"])),
        )
    ]
    assert layouts[0].fingerprint() == layouts[1].fingerprint()
    layouts[1].save(tmp_path / "layout.yaml")
    again = Layout.load(tmp_path / "layout.yaml", robot)
    assert again.sensors == layouts[0].sensors
