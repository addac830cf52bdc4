"""Every command on every entry of the catalogue, and every format of logs: none breaks."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from experiments.example_robots import robots_folder
from problems.logs.files import FORMATS
from sensors import catalogue
from tests.problems.command.command_line import run, run_json

NEEDS = {".parquet": "pyarrow", ".mcap": "mcap_ros2"}
SMALL = ("nao", "nao_slippery", "panda", "solo12")
ENTRIES = [
    pytest.param(name, marks=[] if name in SMALL else pytest.mark.trust)
    for name in catalogue.names()
]


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.finding("item 10")
def test_every_command_and_log_format(
    entry: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if catalogue.about(entry)["model"] != "humanoid" and robots_folder() is None:
        pytest.skip("example-robot-data is not installed")
    spec = f"catalogue:{entry}"
    status, verdict = run_json(capsys, "check", spec, "--quick", "--samples", 2)
    is_well_posed = status == 0
    assert status in (0, 1) and verdict["status"]
    torques = []
    for ending in FORMATS:
        if importlib.util.find_spec(NEEDS.get(ending, "numpy")) is None:
            continue
        log, out = tmp_path / f"log{ending}", tmp_path / f"out{ending}.npz"
        assert run(capsys, "simulate", spec, "-o", log, "--duration", 0.003)[0] == 0
        assert run(capsys, "solve", spec, log, "-o", out, "--outputs", "torque")[0] == 0
        torques.append(np.load(out)["torque"])
    for torque in torques[1:]:
        np.testing.assert_allclose(torque, torques[0], rtol=1e-9, atol=1e-9)
    page = tmp_path / "report.html"
    assert run(capsys, "report", spec, log, "-o", page, "--no-time")[0] == 0
    assert page.read_text().endswith("</html>\n")
    for command, *more in (("plan", tmp_path / "p.plan"), ("export", tmp_path / "c")):
        status, _, err = run(capsys, command, spec, "-o", *more)
        assert status == (0 if is_well_posed else 2) and "Traceback" not in err
    assert run(capsys, "place", spec, "--states", 1, "--json")[0] in (0, 1)
