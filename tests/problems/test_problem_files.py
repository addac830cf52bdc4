"""Problem files: read, written, refused with the place, and their schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from dynsys.errors import DynsysError
from problems.problem_file import load_problem, problem_schema, save_problem
from tests.problems.logs.log_cases import PROBLEM


def test_problem_files_survive_a_round_trip(problem_file: Path, tmp_path: Path) -> None:
    first = load_problem(problem_file)
    save_problem(first, tmp_path / "again.yaml")
    again = load_problem(tmp_path / "again.yaml")
    assert again.sensors.fingerprint() == first.sensors.fingerprint()
    assert (again.outputs, again.differentiation) == (first.outputs, first.differentiation)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"robott": "x"}, r"unknown section 'robott'.*did you mean 'robot'"),
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


def test_the_schema_accepts_what_is_read(problem_file: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = problem_schema()
    jsonschema.validate(yaml.safe_load(problem_file.read_text()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"robot": "x", "layout": "y", "outputz": []}, schema)
    assert json.dumps(schema)
