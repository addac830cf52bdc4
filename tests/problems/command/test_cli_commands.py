"""Every command: its help, doctor, version, exported C, width of the terminal."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from dynsys import KinematicTree, synthetic
from problems.command import doctor
from problems.command import main as cli
from problems.command.arguments import joint_at
from problems.labels import base_words
from tests.problems.command.command_line import run, run_json
from tests.processes import LIMIT
from tests.robots import CHAIN

# ---- doctor, demo, version ----------------------------------------------------------------


def test_doctor_finds_what_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "doctor")
    assert status == 0
    needed, _, optional = out.partition("Everything required is here.")
    assert "numpy" in needed and needed.count("To have it:") == 0 and optional
    status, report = run_json(capsys, "doctor")
    assert (status, report["healthy"]) == (0, True)
    names = {c["name"] for c in report["components"]}
    assert {"numpy", "scipy", "CPU", "pyarrow", "mcap", "mcap-ros2-support", "rosbags"} <= names
    assert {"distributed", "scikit-sparse", "cvxopt", "chromium"} <= names
    assert all(c["remedy"] for c in report["components"] if c["name"] not in ("Python", "CPU"))


def test_doctor_knows_what_every_extra_installs() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    wanted = {
        requirement
        for name, requirements in extras.items()
        if name not in ("docs", "test", "dev", "peers")
        for requirement in requirements
    }
    lines = {
        c.remedy.partition("pip install ")[2].strip("'") for c in doctor.examine().components
    }
    assert wanted - lines == {"pycollada>=0.8", "fast-simplification>=0.1.7"}  # with trimesh
    for c in doctor.examine().components:
        if c.extra is not None:
            assert c.remedy.partition("pip install ")[2].strip("'") in extras[c.extra], c.name


def test_doctor_gives_the_line_to_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sksparse.cholmod", None)
    status, out, _ = run(capsys, "doctor")
    assert status == 0
    assert "SuperLU takes its place" in out
    assert "-m pip install 'scikit-sparse>=0.4.16,<0.6'" in out


def test_doctor_answers_no_when_something_required_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert not doctor.examine().healthy
    status, out, _ = run(capsys, "doctor")
    assert status == 1
    assert "MISSING" in out


def test_doctor_speaks_without_what_draws_its_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("rich", "rich.console", "rich.table", "rich.text"):
        monkeypatch.setitem(sys.modules, module, None)
    status, out, _ = run(capsys, "doctor")
    assert status == 1
    assert re.search(r"^rich +MISSING", out, re.M)


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for flag, word in (("--version", "dynsys "), ("--help", "first steps:")):
        with pytest.raises(SystemExit) as caught:
            cli.main([flag])
        assert caught.value.code == 0
        assert word in capsys.readouterr().out


# ---- every command ------------------------------------------------------------------------

EXAMPLES = {name: import_module(f"problems.command.{name}").EXAMPLES for name in cli.COMMANDS}
COMMANDS = list(EXAMPLES)
CONTRACT = (
    "info",
    "check",
    "plan",
    "solve",
    "compare",
    "export",
    "place",
    "simulate",
    "doctor",
)


def help_of(capsys: pytest.CaptureFixture[str], command: str) -> str:
    with pytest.raises(SystemExit) as caught:
        cli.main([command, "--help"])
    assert caught.value.code == 0
    return capsys.readouterr().out


def test_the_commands_of_the_contract_are_there() -> None:
    assert {*CONTRACT, "demo", "completion"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_json_and_status_within_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = help_of(capsys, command)
    assert "--json" in text
    assert f"examples:\n  dynsys {command}" in text or command == "completion"
    assert cli.STATUS in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_of_the_help_parse(command: str) -> None:
    lines = EXAMPLES[command].replace("\\\n", "")
    found = re.findall(r"dynsys ([^\n|)>]*)", lines)
    assert found
    for line in found:
        words = re.split(r"\s{4,}", line.strip())[0]
        cli.command_parser().parse_args(shlex.split(words))


# ---- export -------------------------------------------------------------------------------


def test_export_writes_c_that_tests_itself(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "c"
    arguments = ("export", "synthetic:chain:2", "--problem", "id", "-o", str(folder))
    status, out, _ = run(capsys, *arguments, "--name", "arm")
    assert status == 0
    assert {path.name for path in folder.iterdir()} >= {"arm.h", "arm.c", "arm_selftest.c"}
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    command = next(line for line in out.splitlines() if line.strip().startswith("cc "))
    done = subprocess.run(
        ["bash", "-c", command.replace("cc", compiler, 1)],
        cwd=folder, capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok torque" in done.stdout


def test_export_as_json_with_outputs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, told = run_json(
        capsys, "export", "synthetic:chain:2", "-o", str(tmp_path / "c"), "--float32",
        "--outputs", "qdd,joint_wrench", "--wrenches",
    )  # fmt: skip
    assert status == 0
    header = next(path for path in told["files"] if path.endswith(".h"))
    text = Path(header).read_text()
    assert "float" in text
    assert "joint_wrench" in text


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--problem", "published:sie"], "leave something unseen"),
        (["--outputs", "torqe"], "torqe"),
        (["--name", "two words"], "two words"),
    ],
)
def test_export_of_what_cannot_be(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, more: list[str], words: str
) -> None:
    status, _, err = run(capsys, "export", "synthetic:chain:3", "-o", str(tmp_path), *more)
    assert status == 2
    assert words in err


# ---- terminals of 80 and 120 columns ------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "catalogue:nao", "--quick", "--samples", "4"),
        ("plan", "synthetic:chain:3"),
        ("compare", "synthetic:chain:3", "--no-time", "--states", "4"),
        ("doctor",),
    ],
    ids=lambda arguments: arguments[0],
)
def test_nothing_is_written_beyond_the_terminal(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    arguments: tuple[str, ...],
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    _, out, _ = run(capsys, *arguments)
    lines = [line for line in out.splitlines() if not line.lstrip().startswith("- {")]
    assert max(map(len, lines)) <= width
    assert len(lines) > 5


# ---- files --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "lost"),
    [
        ("live p.yaml --replay log.csv -o log.csv", "log.csv"),
        ("live p.yaml --replay log.csv -o p.yaml", "p.yaml"),
        ("live p.yaml --free log.csv -o ./log.csv", "log.csv"),
        ("plan p.yaml -o p.yaml", "p.yaml"),
        ("report p.yaml log.csv -o log.csv", "log.csv"),
        ("report p.yaml --log log.csv -o link", "log.csv"),
        ("report p.yaml --pdf p.yaml", "p.yaml"),
        ("calibrate p.yaml log.csv -o log.csv", "log.csv"),
        ("detect p.yaml log.csv --free-seconds 0 1 -o log.csv", "log.csv"),
        ("identify p.yaml log.csv --validate fit.json -o fit.json", "fit.json"),
        ("place p.yaml --picture p.yaml", "p.yaml"),
        ("init p.yaml -o p.yaml --overwrite", "p.yaml"),
    ],
)
@pytest.mark.finding("Y-40")
def test_no_command_writes_over_what_it_reads(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    lost: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("log.csv")
    for name in ("p.yaml", "log.csv", "fit.json"):
        Path(name).write_text("robot: synthetic:chain:2\n")
    status, _, err = run(capsys, *words.split())
    assert status == 2 and "would replace what it is made from" in err
    assert Path(lost).read_text() == "robot: synthetic:chain:2\n"


def test_limits_on_one_side_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = ((-np.inf, 1.5), (-0.5, np.inf), (-np.inf, np.inf))
    chain = synthetic.chain(3).bodies
    bodies = [replace(b, lower=a, upper=c) for b, (a, c) in zip(chain, limits, strict=True)]
    KinematicTree("limited", bodies).to_urdf(tmp_path / "limited.urdf")
    _, out, _ = run(capsys, "info", tmp_path / "limited.urdf")
    rows = [line.split() for line in out.splitlines() if line[:1].isdigit()]
    assert [row[-2] for row in rows] == ["-..1.5", "-0.5..-", "-"]


def test_a_joint_and_its_value() -> None:
    assert joint_at("a=b=0.5") == ("a=b", 0.5)
    for text in ("=0.5", "knee=", "knee=nan", "knee=inf", "knee"):
        with pytest.raises(argparse.ArgumentTypeError, match="JOINT=VALUE"):
            joint_at(text)


def test_a_robot_stands_on_a_free_joint_or_does_not() -> None:
    assert base_words(CHAIN) == "fixed base"
    assert base_words(synthetic.humanoid30()) == "floating base"
