"""The command line as a user meets it: tables, JSON, one-line errors, exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from problems.command import demo
from problems.command import main as cli
from problems.robots import read_robot
from tests.problems.command.command_line import run, run_json
from tests.processes import LIMIT

BROKEN = {
    "broken XML": ("<robot name='r'><link name='a'>", "humanoid.urdf"),
    "negative mass": (
        "<robot name='r'><link name='a'/><link name='b'><inertial><mass value='-1'/>"
        "<inertia ixx='1' ixy='0' ixz='0' iyy='1' iyz='0' izz='1'/></inertial></link>"
        "<joint name='j' type='revolute'><parent link='a'/><child link='b'/>"
        "<limit effort='1' velocity='1'/></joint></robot>",
        "negative mass",
    ),
    "unknown joint type": (
        "<robot name='r'><link name='a'/><link name='b'/><joint name='j' type='magic'>"
        "<parent link='a'/><child link='b'/></joint></robot>",
        "magic",
    ),
    "loop": (
        "<robot name='r'><link name='a'/><link name='b'/>"
        "<joint name='j' type='continuous'><parent link='a'/><child link='b'/></joint>"
        "<joint name='k' type='continuous'><parent link='b'/><child link='a'/></joint></robot>",
        "humanoid.urdf",
    ),
}


# ---- info ---------------------------------------------------------------------------------


def test_info_of_the_bundled_humanoid(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "info", "example:humanoid", "--floating-base")
    assert (status, err) == (0, "")
    assert out.startswith("humanoid: 30 bodies, nq 36, nv 35, 64.2 kg")
    for word in ("l_knee", "revolute", "root", "mass [kg]", "range [rad|m]"):
        assert word in out


def test_info_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, told = run_json(capsys, "info", "example:humanoid")
    assert status == 0
    assert (told["n_bodies"], told["nq"], told["nv"]) == (29, 29, 29)
    assert told["frames"]["l_sole"] == "l_foot"
    knee = next(row for row in told["bodies"] if row["joint"] == "l_knee")
    assert knee["type"] == "revolute"
    assert knee["lower"] == [0.0]
    assert knee["effort_limit"] == [250.0]


def test_info_marks_what_is_unlimited_as_null(capsys: pytest.CaptureFixture[str]) -> None:
    _, told = run_json(capsys, "info", "synthetic:chain:2")
    assert told["bodies"][0]["lower"] == [None]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_info_never_writes_beyond_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    _, out, _ = run(capsys, "info", "example:humanoid")
    lines = [
        line for line in out.splitlines() if not line.startswith(("(", "note", "humanoid:"))
    ]
    assert max(map(len, lines)) <= width
    assert ("no room for" in out) == (width < 90)


def test_notes_of_the_reader_are_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    body = (
        "<inertial><mass value='1'/>"
        "<inertia ixx='1' ixy='0' ixz='0' iyy='1' iyz='0' izz='1'/></inertial>"
    )
    path = tmp_path / "mimic.urdf"
    path.write_text(
        f"<robot name='r'><link name='a'/><link name='b'>{body}</link>"
        f"<link name='c'>{body}</link>"
        "<joint name='j' type='continuous'><parent link='a'/><child link='b'/></joint>"
        "<joint name='k' type='continuous'><parent link='b'/><child link='c'/>"
        "<mimic joint='j'/></joint></robot>"
    )
    status, out, _ = run(capsys, "info", str(path))
    assert status == 0
    assert "note: mimic" in out


@pytest.mark.parametrize(
    ("spec", "n_bodies"),
    [
        ("synthetic:chain:10", 10),
        ("synthetic:chain:4:generic=true:seed=1", 4),
        ("synthetic:random_tree:6:3:joint_types=revolute,prismatic", 6),
    ],
)
def test_synthetic_robots_by_name(spec: str, n_bodies: int) -> None:
    assert read_robot(spec).robot.n_bodies == n_bodies


# ---- bad input ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["info", "missing.urdf"], "missing.urdf"),
        (["info", "synthetic:chian:3"], "did you mean 'chain'?"),
        (["info", "synthetic:chain"], "chain takes (n: int"),
        (["info", "synthetic:chain:x"], "whole number"),
        (["info", "synthetic:chain:3:wrong=1"], "wrong"),
        (["info", "synthetic:chain:3", "--floating-base"], "--floating-base"),
        (["info", "example:dog"], "example:humanoid"),
        (["info", ""], "error"),
        (["info", "problem.yaml"], "a robot is needed here: a file (.urdf, .xml, .xacro)"),
        (["check", "arm.urdf"], "this is a robot; a problem file is needed here"),
        (["solve", "synthetic:chain:3", "log.npz", "-o", "out.npz"], "'dynsys init' writes"),
        (
            ["solve", "catalogue:nao", "log.npz", "-o", "o.npz", "--outputs", "std.p_value"],
            "p_value has no standard deviation",
        ),
        (["place", "catalogue:nao", "--goal", "torque.l_kne"], "did you mean 'l_knee'?"),
        (["plan", "catalogue:nao_slippery", "--outputs", "torqe"], "did you mean 'torque'?"),
    ],
)
def test_bad_robot_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("dynsys: error: ")
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("defect", BROKEN)
def test_broken_file_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, defect: str
) -> None:
    text, words = BROKEN[defect]
    path = tmp_path / "humanoid.urdf"
    path.write_text(text)
    status, out, err = run(capsys, "info", str(path))
    assert (status, out) == (2, "")
    assert err.startswith("dynsys: error: ")
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["info"],
        ["fly"],
        ["demo", "--states", "0"],
        ["demo", "--seed", "-1"],
        ["check", "catalogue:panda", "--samples", "0"],
        ["check", "catalogue:panda", "--seed", "-1"],
        ["compare", "synthetic:chain:3", "--states", "0"],
        ["compare", "synthetic:chain:3", "--seed", "-1"],
        ["place", "catalogue:nao", "--states", "0"],
        ["plan", "synthetic:chain:3", "--search-seconds", "nan"],
        ["plan", "synthetic:chain:3", "--search-seconds", "-1"],
        ["plan", "synthetic:chain:3", "--evaluations", "-3"],
        ["plan", "synthetic:chain:3", "--workers", "0"],
        ["plan", "synthetic:chain:3", "--seeds", "0", "--campaign", "results"],
        ["simulate", "catalogue:panda", "-o", "log.npz", "--seed", "-1"],
        ["solve", "catalogue:panda", "log.npz", "-o", "out.npz", "--workers", "0"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_status_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2


def test_interrupt_is_status_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "tour", interrupted)
    assert cli.main(["demo"]) == 130


def ctrl_c(_: object) -> int:
    signal.raise_signal(signal.SIGINT)
    return 0


@pytest.mark.parametrize(
    ("name", "status"), [*((name, 130) for name in cli.ENDED_BY_CTRL_C), ("doctor", 0)]
)
def test_interrupts_that_a_shell_switched_off(
    name: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does for what a script runs in the background."""
    monkeypatch.setattr(f"problems.command.{name}.run", ctrl_c)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert cli.main([name] if name == "doctor" else [name, "catalogue:panda"]) == status
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_says_that_ctrl_c_ends_it_is_ended_by_it() -> None:
    sources = Path(cli.__file__).parent.glob("*.py")
    says = {path.stem for path in sources if "Ctrl-C" in path.read_text()}
    assert says == {"main", *cli.ENDED_BY_CTRL_C}


def test_defects_of_our_own_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def defective(**_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(demo, "tour", defective)
    with pytest.raises(ZeroDivisionError):
        cli.main(["demo"])


@pytest.mark.slow
def test_closed_pipe_is_quiet() -> None:
    command = (
        f"'{sys.executable}' -m problems.command.main info synthetic:chain:1500 | head -n 1"
    )
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        timeout=LIMIT,
    )
    assert done.stdout.startswith("chain")
    assert done.stderr == ""


needs_full_disk = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="this system has no disk that is always full"
)


@needs_full_disk
@pytest.mark.finding("L7")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words", [["info", "--json", "synthetic:chain:3"], ["doctor"], ["completion", "bash"]]
)
def test_a_full_disk_is_one_line_and_status_2(words: list[str], unbuffered: str) -> None:
    """JSON, tables and scripts: it was a traceback and status 1."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "problems.command.main", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            timeout=LIMIT,
        )
    (line,) = done.stderr.splitlines()
    assert line.startswith("dynsys: error: standard output: cannot be written: ")
    assert done.returncode == 2


@needs_full_disk
@pytest.mark.finding("L7")
def test_the_command_line_itself_tells_of_a_full_disk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What waits to be written is given up: the stream can be closed."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert cli.main(["completion", "bash"]) == 2
    assert capsys.readouterr().err.startswith("dynsys: error: standard output: cannot be wri")


def test_warnings_are_one_line_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "problem.yaml"
    path.write_text("robot: synthetic:chain:2\nlayout:\n  sensors: [all_joint_torques]\n")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        status, out, err = run(capsys, "check", path, "--json")
    assert status == 1 and json.loads(out)
    (line,) = err.splitlines()
    assert line.startswith(f"dynsys: warning: {path}, line 3: sensors link_1/torque")
    log = tmp_path / "log.npz"
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        status, _, err = run(capsys, "simulate", path, "-o", log, "--duration", "0.01")
    assert (status, err.splitlines()) == (0, [line])  # once, though the file is read anew
