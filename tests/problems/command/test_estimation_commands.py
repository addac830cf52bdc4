"""``dynsys check``, ``simulate``, ``solve`` and ``place`` as a user meets them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynsys import synthetic
from problems import NoiseEstimate
from problems.command.calibrate import _show
from problems.estimation.noise import SensorNoise
from problems.problem_file import load_problem
from sensors import Layout
from tests.problems.command.command_line import run, run_json


def test_two_feet_on_load_cells_are_ill_posed(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "check", "catalogue:nao", "--quick", "--samples", 4)
    assert (status, err) == (1, "")
    assert "a pair of opposite forces on 'l_foot' and 'r_foot'" in out
    assert "would repair it" in out
    assert "measure the torque of joint" in out
    status, told = run_json(capsys, "check", "catalogue:nao", "--quick", "--samples", 4)
    assert status == 1
    assert (told["well_posed"], told["unknowns"] - told["rank"]) == (False, 1)
    assert told["repairs"][0]["yaml"]


def test_the_slippery_set_is_well_posed(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "check", "catalogue:nao_slippery", "--quick", "--samples", 4)
    assert status == 0
    assert "every quantity is determined" in out


def test_what_the_robot_s_file_has_beyond_the_model_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    link = '<link name="{}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"'
    link += ' ixy="0" ixz="0" iyz="0"/></inertial></link>'
    (tmp_path / "door.urdf").write_text(
        f'<robot name="door"><link name="wall"/>{link.format("leaf")}'
        '<joint name="hinge" type="continuous"><parent link="wall"/><child link="leaf"/>'
        '<axis xyz="0 0 1"/><dynamics damping="0.5"/></joint></robot>'
    )
    problem = tmp_path / "door.yaml"
    problem.write_text(
        "robot: door.urdf\nlayout:\n  sensors: [all_joint_torques, zero_external_wrench_except]"
    )
    status, out, _ = run(capsys, "check", problem, "--quick", "--samples", 2)
    assert status == 0 and "note: " in out and "damping" in out
    assert "damping" in run_json(capsys, "check", problem, "--quick")[1]["notes"][0]


def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for arguments in (
        ["check", "catalogue:naoo"],
        ["check", tmp_path / "none.yaml"],
        ["solve", "catalogue:nao", tmp_path / "none.npz", "-o", tmp_path / "out.npz"],
        ["simulate", "catalogue:panda", "-o", tmp_path / "out.xyz"],
        ["place", "catalogue:nao", "--goal", "torqe"],
    ):
        status, out, err = run(capsys, *arguments)
        assert (status, out) == (2, "")
        assert err.startswith("dynsys: error: ") and err.count("\n") == 1


def test_a_robot_in_place_of_a_problem_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The whole file came back as part of the message."""
    path = tmp_path / "arm.urdf"
    synthetic.chain(2).to_urdf(path)
    for robot in (path, "example:humanoid"):
        status, _, err = run(capsys, "check", robot)
        assert status == 2 and "this is a robot" in err and "'dynsys init'" in err
    path.with_suffix(".yaml").write_text("x" * 3000)
    status, _, err = run(capsys, "check", path.with_suffix(".yaml"))
    assert status == 2 and len(err) < len(str(path)) + 200


@pytest.mark.slow
def test_simulate_then_solve(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log, out = tmp_path / "log.parquet", tmp_path / "out.npz"
    status, told = run_json(
        capsys,
        "simulate",
        "catalogue:panda",
        "-o",
        log,
        "--duration",
        0.5,
        "--rate",
        100,
        "--truth",
    )
    assert (status, told["samples"]) == (0, 50)
    status, told = run_json(capsys, "solve", "catalogue:panda", log, "-o", out, "--chunk", 20)
    assert (status, told["samples"], told["resumed_samples"]) == (0, 50, 0)
    assert told["by"] == "the general path, one by one"  # fewer than a kernel pays for
    import pyarrow.parquet as parquet

    table = parquet.read_table(log)
    found = np.load(out)
    names = [n for n in table.column_names if n.startswith("truth.torque.")]
    truth = np.stack([table[n].to_numpy() for n in names], axis=1)
    error = (found["torque"] - truth) / found["std.torque"]
    assert 0.7 < float(np.sqrt((error**2).mean())) < 1.3
    status, out_text, _ = run(capsys, "solve", "catalogue:panda", log, "-o", out)
    assert status == 0
    assert "50 samples" in out_text


@pytest.mark.slow
def test_a_log_with_positions_only(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log, out = tmp_path / "log.npz", tmp_path / "out.csv"
    assert (
        run(capsys, "simulate", "catalogue:nao_slippery", "-o", log, "--duration", 0.2)[0] == 0
    )
    arrays = {
        name: array
        for name, array in np.load(log).items()
        if name != "qd" and "acceleration" not in name
    }
    np.savez(log, **{name: array[:40] for name, array in arrays.items()})
    status, told = run_json(capsys, "solve", "catalogue:nao_slippery", log, "-o", out)
    assert status == 0
    assert "Savitzky-Golay" in told["differentiation"]
    assert len(told["differentiated"]) == 2 * 30
    assert len(out.read_text().splitlines()) == 41


def test_place_names_a_repair(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    offers = tmp_path / "offers.yaml"
    offers.write_text(
        "candidates:\n"
        "  - {cost: 5, kind: force_torque, name: ft, at: l_ankle_roll, std: 0.5}\n"
        "  - {cost: 1, kind: joint_torque, name: knee, joint: l_knee, std: 0.5}\n"
        "  - {cost: 1, kind: joint_torque, name: elbow, joint: l_elbow, std: 0.5}\n"
    )
    picture = tmp_path / "curve.svg"
    arguments = ["place", "catalogue:nao", "--candidates", offers, "--states", 2]
    status, told = run_json(capsys, *arguments, "--picture", picture)
    assert status == 0
    assert [item["sensor"]["name"] for item in told["chosen"]] == ["knee"]
    assert told["certified"] == {
        "is_best": True,
        "least_open_goals": 0,
        "least_std": pytest.approx(told["std"]),
        "least_cost": 1.0,
    }
    assert picture.read_text().lstrip().startswith("<?xml")
    status, out, _ = run(capsys, *arguments)
    assert "no set within the budget is better at the 2 random postures" in out
    status, out, _ = run(capsys, *arguments, "--budget", 0.5)
    assert status == 1
    assert "stay undetermined" in out


def test_calibrate_finds_the_noise_that_was_put_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = tmp_path / "log.npz", tmp_path / "layout.yaml"
    run(capsys, "simulate", "catalogue:panda", "-o", log, "--duration", 2, "--rate", 100)
    status, told = run_json(capsys, "calibrate", "catalogue:panda", log, "-o", out)
    assert status == 0 and told["output"] == str(out)
    assert len([one for one in told["noise"] if one["redundancy"]]) >= 5
    for one in told["noise"]:
        if one["known"]:
            assert abs(one["found"] - one["stated"]) < 4 * one["found_std"], one
        else:
            assert one["found"] == one["stated"] and one["found_std"] is None
    robot = load_problem("catalogue:panda").tree
    assert len(Layout.load(out, robot)) == len(load_problem("catalogue:panda").sensors)
    status, text, _ = run(capsys, "calibrate", "catalogue:panda", log, "--offsets")
    assert status == 0 and "chi-square per degree of freedom" in text


def test_calibrate_takes_over_what_the_log_knows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Three torque sensors in each joint check each other; their deviation is stated wrong."""
    for name, std in (("true", 0.1), ("stated", 0.3)):
        torques = "".join(
            f"    - {{kind: joint_torque, name: {joint}{k}, joint: {joint}, std: {std}}}\n"
            for joint in ("link_1", "link_2")
            for k in range(3)
        )
        (tmp_path / f"{name}.yaml").write_text(
            "robot: synthetic:chain:2\nlayout:\n  sensors:\n"
            f"{torques}    - zero_external_wrench_except: []\n"
        )
    log = tmp_path / "log.npz"
    run(capsys, "simulate", tmp_path / "true.yaml", "-o", log, "--duration", 1)
    status, told = run_json(capsys, "calibrate", tmp_path / "stated.yaml", log)
    known = [one for one in told["noise"] if one["known"]]
    assert status == 0 and len(known) == 6
    assert all(abs(one["found"] - 0.1) < 4 * one["found_std"] < 0.05 for one in known)


def test_calibrate_of_what_nothing_checks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, log = tmp_path / "problem.yaml", tmp_path / "log.npz"
    sensors = "[all_joint_torques: {std: 0.1}, zero_external_wrench_except]"
    problem.write_text(f"robot: synthetic:chain:2\nlayout:\n  sensors: {sensors}\n")
    run(capsys, "simulate", problem, "-o", log, "--duration", 0.1)
    status, out, err = run(capsys, "calibrate", problem, log)
    assert (status, err) == (0, "")
    assert "kept, unchecked" in out and "nan" not in out


@pytest.mark.parametrize(("after", "size"), [(1.5, "small"), (0.5, "large"), (1.05, "")])
def test_calibrate_doubts_only_values_that_it_kept(
    after: float, size: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where readings still do not fit their deviations: those that the log does not know."""
    layout = Layout(synthetic.chain(1), [])
    known = SensorNoise("knee", "N m", ("knee.torque",), 0.1, 0.2, 0.01, 0.5, 0.1)
    kept = replace(known, sensor="hip", found=0.1, found_std=float("nan"), redundancy=0.0)
    for sensors, is_said in (((known,), False), ((known, kept), bool(size))):
        _show(NoiseEstimate(sensors, layout, (4.0, after)), None, [], None)
        out = capsys.readouterr().out
        assert ("the values kept" in out) == is_said
        assert not is_said or f"some of the values kept seem too {size};" in out


@pytest.mark.finding("Y-18")
def test_calibrate_does_not_take_faults_for_noise(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Placeholders made a deviation of 377 m/s^2, without a word, or a LinAlgError."""
    spec, log = tmp_path / "arm.yaml", tmp_path / "log.npz"
    spec.write_text(
        "robot: synthetic:chain:2\nlayout:\n  sensors:\n    - zero_external_wrench_except: []\n"
        "    - {kind: imu, name: tip, frame: link_2, std: [0.05, 0.01]}\n"
        "    - all_joint_torques: {std: 0.1}\n    - all_joint_accelerations: {std: 0.1}\n"
    )
    run(capsys, "simulate", spec, "-o", log, "--duration", 0.2)
    good = dict(np.load(log))
    assert run_json(capsys, "calibrate", spec, log)[1]["doubts"] == []
    noisy, gaps = good["tip"].copy(), good["tip"].copy()
    noisy[:, :3] += 5.0 * np.random.default_rng(0).normal(size=(len(noisy), 3))
    gaps[::7, :3] = -999.0
    for tip, said in ((noisy, "its stated deviation in m/s^2 is no noise"), (gaps, "as no ")):
        np.savez(log, **(good | {"tip": tip}))
        (doubt,) = run_json(capsys, "calibrate", spec, log)[1]["doubts"]
        assert said in doubt and doubt in run(capsys, "calibrate", spec, log)[1]
    good["tip"][::7] = 1e30
    np.savez(log, **good)
    status, _, told = run(capsys, "calibrate", spec, log)
    assert status == 2 and "no noise explains them; are there placeholders" in told


def test_check_says_which_noise_makes_the_deviations(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "problem.yaml"
    path.write_text(
        "robot: synthetic:chain:3\n"
        "layout:\n"
        "  sensors:\n"
        "    - all_joint_accelerations: {std: 0.1}\n"
        "    - zero_external_wrench_except: []\n"
        "  position_std: {link_2: 0.05}\n"
    )
    status, out, err = run(capsys, "check", path, "--quick", "--samples", 2)
    assert (status, err) == (0, "")
    assert "% position of link_2" in out and "% sensors" in out
    status, told = run_json(capsys, "check", path, "--quick", "--samples", 2)
    assert told["sensitivity"][1]["joint"] == "link_2"
    assert told["sensitivity"][1]["position"]["link_2"] > 0.1


@pytest.mark.finding("Z-W1")
def test_check_without_what_does_not_hold(capsys: pytest.CaptureFixture[str]) -> None:
    """One foot may be lifted off the ice, not both: the statement of the other is needed."""
    asked = ("check", "catalogue:nao_slippery", "--quick", "--samples", "2")
    status, out, _ = run(capsys, *asked)
    assert status == 0 and "while these 31 statements hold: 'l_sole_slips'" in out
    assert "where 'l_sole_slips'" not in out
    status, told = run_json(capsys, *asked, "--without", "l_sole_slips")
    lost = {one["name"]: one["undetermined"] for one in told["statements"]}
    assert status == 0 and told["without"] == ["l_sole_slips"]
    assert "l_foot" in lost["r_sole_slips"]["external_wrench"]
    assert run(capsys, *asked, "--without", "l_sole_slips,r_sole_slips")[0] == 1
