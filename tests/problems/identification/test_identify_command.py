"""The command: a log in, a robot out; what can be seen; a designed motion."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynsys
from dynsys import KinematicTree, StateError
from dynsys.model.body import Coupling
from experiments.identification import (
    LOGS,
    REFERENCE,
    changed,
    motion,
    problem_text,
    torque_layout,
)
from problems import Identification
from problems.command.main import main
from problems.identification.excitation import design
from tests.problems.identification.identification_cases import readings

PROBLEM = """\
robot: synthetic:chain:2
layout:
  sensors:
    - all_joint_torques: {std: 0.1}
"""


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "arm.yaml"
    path.write_text(PROBLEM)
    return path


def write_log(path: Path, seed: int = 0) -> Path:
    """A log of another robot than the model: 12 s at 100 Hz, noise of 0.02 N m."""
    robot = dynsys.synthetic.chain(2)
    states = motion(robot, 12.0, 100.0, seed)
    y = readings(torque_layout(robot), changed(robot, 1), states)
    y += 0.02 * np.random.default_rng(seed).normal(size=y.shape)
    q, qd, qdd = states
    np.savez(path, time=np.arange(len(y)) / 100.0, q=q, qd=qd, qdd=qdd, y=y)
    return path


@pytest.mark.parametrize(
    ("times", "said"),
    [(1.0, None), (1e3, "the model expects 0.00"), (-1.0, "the model expects -")],
)
@pytest.mark.finding("Y-19")
def test_readings_that_no_parameters_make_are_named(
    times: float, said: str | None, problem: Path, tmp_path: Path, capsys
) -> None:
    """N mm, or the other sign: 'in 95 % band' was 96 %, for all of it was noise to the fit."""
    log = write_log(tmp_path / "a.npz")
    with np.load(log) as good:
        arrays = dict(good)
    model = dynsys.rnea(dynsys.synthetic.chain(2), arrays["q"], arrays["qd"], arrays["qdd"])
    noise = 0.02 * np.random.default_rng(0).normal(size=model.shape)
    np.savez(log, **(arrays | {"y": times * (model + noise)}))
    words = ["identify", str(problem), str(log), "--hold-out", "0.3"]
    status = 1 if said else 0  # nor does the fit follow its data
    assert main([*words, "--json"]) == status
    told = json.loads(capsys.readouterr().out)["doubts"]
    assert list(told) == ["the log itself", "held out, the last 360 samples"]
    assert main(words) == status
    text, labels = capsys.readouterr().out, ["link_1/torque.torque", "link_2/torque.torque"]
    for doubts in told.values():
        assert [x.split(":")[0] for x in doubts] == (labels if said else [])
        assert all(x in text and str(said) in x for x in doubts)


@pytest.mark.finding("Y-20")
def test_a_reading_that_the_log_lacks_is_null(problem: Path, tmp_path: Path, capsys) -> None:
    """It was NaN, which is no JSON: a ValueError."""
    log = write_log(tmp_path / "a.npz")
    with np.load(log) as good:
        arrays = dict(good)
    arrays["link_1/torque"] = arrays.pop("y")[:, 0]
    np.savez(log, **arrays)
    words = ["identify", str(problem), str(log), "--allow-missing"]
    assert main([*words, "--json"]) == 0
    trial = json.loads(capsys.readouterr().out)["trials"]["the log itself"]
    assert trial["link_2/torque.torque"] == {"model": None, "fit": None, "inside_band": None}
    assert main(words) == 0 and "nan" not in capsys.readouterr().out


def test_a_log_gives_values_with_deviations(problem: Path, tmp_path: Path, capsys) -> None:
    log, other = write_log(tmp_path / "a.npz"), write_log(tmp_path / "b.npz", 1)
    out = tmp_path / "found.json"
    words = ["identify", str(problem), str(log), "--validate", str(other), "-o", str(out)]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    truth = changed(dynsys.synthetic.chain(2), 1).parameters
    for name in ("link_2.mx", "link_2.viscous", "link_1.coulomb", "link_1.offset"):
        found = told["parameters"][name]
        assert abs(found["value"] - truth[name]) <= 4 * found["std"]
        assert found["std"] < 0.2 * found["size"]
    trial = told["trials"][str(other)]
    assert all(t["fit"] == pytest.approx(0.02, rel=0.3) for t in trial.values())
    assert all(t["model"] > 5 * t["fit"] for t in trial.values())
    assert json.loads(out.read_text())["values"]["link_2.mx"] == pytest.approx(
        told["parameters"]["link_2.mx"]["value"]
    )
    robot = tmp_path / "found.urdf"
    assert main([*words[:3], "-o", str(robot)]) == 0
    again = dynsys.load(robot, friction="file").parameters
    assert again["link_2.viscous"] == pytest.approx(
        told["parameters"]["link_2.viscous"]["value"], rel=1e-6
    )
    capsys.readouterr()
    assert main([*words, "--hold-out", "0.5"]) == 0
    text = capsys.readouterr().out
    assert "held out, the last 600 samples" in text
    assert "13 combinations of 28 parameters" in text


DATA = Path(__file__).parents[4] / "shared" / "data"


@pytest.mark.slow
@pytest.mark.parametrize("name", REFERENCE)
def test_bags_of_real_arms(name: str, tmp_path: Path, capsys) -> None:
    bags = sorted((DATA / LOGS[name][1]).glob("*.db3"))
    if not bags:
        pytest.skip("the real logs are not here")
    problem = tmp_path / "problem.yaml"
    problem.write_text(problem_text(name))
    assert main(["identify", str(problem), str(bags[0]), "--hold-out", "0.5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    trial = next(t for k, t in told["trials"].items() if k.startswith("held out"))
    found = np.array([t["fit"] for t in trial.values()])
    assert (found <= np.array(REFERENCE[name]) + 0.005).all()  # theirs are rounded
    inside = np.array([t["inside_band"] for t in trial.values()])
    assert 0.93 <= inside.mean() <= 0.98


def test_without_a_log_it_says_what_can_be_seen(problem: Path, capsys) -> None:
    assert main(["identify", str(problem)]) == 0
    text = capsys.readouterr().out
    assert "13 combinations of 28 parameters can be seen" in text
    assert "link_2.mass is seen only together with link_1.mx, link_1.Izz" in text
    assert main(["identify", str(problem), "--inertia", "link_1", "--friction", "-"]) == 0
    assert "of 10 parameters" in capsys.readouterr().out


def test_bad_words_are_bad_input(problem: Path, tmp_path: Path, capsys) -> None:
    assert main(["identify", str(problem), "--inertia", "link_3"]) == 2
    assert "no body 'link_3'; did you mean" in capsys.readouterr().err
    log = write_log(tmp_path / "a.npz")
    assert main(["identify", str(problem), str(log), "--payload", "link_2"]) == 2
    assert "--without" in capsys.readouterr().err


def test_a_designed_motion_beats_random_ones_within_the_limits(
    problem: Path, tmp_path: Path, capsys
) -> None:
    out = tmp_path / "motion.npz"
    words = ["identify", str(problem), "--design", "8", "-o", str(out), "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["worst"] < min(told["random"])
    with np.load(out) as found:
        q, qd, qdd, time = (found[k] for k in ("q", "qd", "qdd", "time"))
    assert time[-1] == 8.0
    assert np.abs(qd[[0, -1]]).max() < 1e-9 and np.abs(qdd[[0, -1]]).max() < 1e-6
    assert np.abs(np.gradient(q, 0.01, axis=0)[1:-1] - qd[1:-1]).max() < 1e-2
    assert np.abs(np.gradient(qd, 0.01, axis=0)[1:-1] - qdd[1:-1]).max() < 5e-2
    assert np.abs(qd).max() <= 2.0


def test_limits_of_position_and_speed_are_kept() -> None:
    plain = dynsys.synthetic.chain(3)
    limits = {"lower": -0.5, "upper": 1.0, "velocity_limit": 0.7}
    bodies = [replace(body, **limits) for body in plain.bodies]
    robot = KinematicTree("limited", bodies)
    ident = Identification(robot, torque_layout(robot))
    found = design(ident.sought, 6.0, seed=1, evaluations=20)
    assert found.q.min() >= -0.5 and found.q.max() <= 1.0
    assert np.abs(found.qd).max() <= 0.7


@pytest.mark.finding("A-10")
def test_joints_that_follow_stay_within_their_limits() -> None:
    """Only those of the joint that leads were kept: 1.85 rad for 0.3, 3.5 rad/s for 1."""
    bodies = list(dynsys.synthetic.chain(3).bodies)
    bodies[0] = replace(bodies[0], lower=-1.0, upper=1.0, velocity_limit=2.0)
    limits = {"lower": -0.3, "upper": 0.3, "velocity_limit": 1.0}
    bodies[2] = replace(bodies[2], coupling=Coupling(0, -2.0, 0.1), **limits)
    robot = KinematicTree("coupled", bodies)
    ident = Identification(robot, torque_layout(robot))
    found = design(ident.sought, 6.0, seed=1, evaluations=20)
    follower = -2.0 * found.q[:, 0] + 0.1
    assert -0.3 <= follower.min() and follower.max() <= 0.3
    assert 0.2 < np.abs(2.0 * found.qd[:, 0]).max() <= 1.0
    bodies[2] = replace(bodies[2], coupling=Coupling(0, -2.0, 9.0))
    robot = KinematicTree("coupled", bodies)
    ident = Identification(robot, torque_layout(robot))
    with pytest.raises(StateError, match=r"'link_3' follows 'link_1'.*within their limits"):
        design(ident.sought, 6.0)
