"""A fit beside unconstrained least squares: what departs from its data is named, no other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dynsys
from dynsys import KinematicTree
from dynsys.model.parameters import BODY_PARAMETERS
from experiments.identification import changed, correlated, motion, torque_layout
from problems import Identification
from problems.command.main import main
from problems.identification.fit import Fit

LINK = """\
<link name="{0}"><inertial><origin xyz="0.15 0 0"/><mass value="{1}"/>
<inertia ixx="0.0003" ixy="0" ixz="0" iyy="{2}" iyz="0" izz="{2}"/></inertial></link>
"""
JOINT = """\
<joint name="{0}" type="revolute"><parent link="{1}"/><child link="{2}"/>
<origin xyz="{3} 0 0"/><axis xyz="{4}"/><limit lower="-3" upper="3" velocity="9"/></joint>
"""
ARM = (
    '<robot name="mini"><link name="base"/>'
    + "".join(LINK.format(n, m, m * 0.3**2 / 12) for n, m in (("a", 1), ("b", 0.2), ("c", 0.2)))
    + JOINT.format("j1", "base", "a", 0, "0 1 0")
    + JOINT.format("j2", "a", "b", 0.3, "1 0 0")
    + JOINT.format("j3", "b", "c", 0.05, "0 1 0")
    + "</robot>"
)
PROBLEM = "robot: mini.urdf\nlayout: {sensors: [all_joint_torques: {std: 0.05}]}\n"
NOISE = 0.05


@pytest.fixture
def arm(tmp_path: Path) -> KinematicTree:
    (tmp_path / "mini.urdf").write_text(ARM)
    (tmp_path / "arm.yaml").write_text(PROBLEM)
    return dynsys.load(tmp_path / "mini.urdf")


def carrying(arm: KinematicTree, mass: float) -> KinematicTree:
    """The arm with a small ball at (0.3, 0, 0.05) m of its last link."""
    x, z = 0.3, 0.05
    about = [z * z, 0.0, -x * z, x * x + z * z, 0.0, x * x]
    ten = mass * np.array([1.0, x, 0.0, z, *about])
    names = [f"c.{kind}" for kind in BODY_PARAMETERS]
    return arm.with_parameters(
        {n: arm.parameters[n] + float(v) for n, v in zip(names, ten, strict=True)}
    )


def recorded(arm: KinematicTree, truth: KinematicTree) -> tuple[np.ndarray, ...]:
    """q, qd, qdd and torques of 30 s, noise of 0.05 N m."""
    t = np.arange(3000)[:, None] * 0.01
    v, w = np.array([1.3, 1.7, 2.3]), np.array([2.1, 2.9, 3.7])
    q = 0.6 * np.sin(v * t) + 0.4 * np.sin(w * t + 1)
    qd = 0.6 * v * np.cos(v * t) + 0.4 * w * np.cos(w * t + 1)
    qdd = -0.6 * v**2 * np.sin(v * t) - 0.4 * w**2 * np.sin(w * t + 1)
    y = dynsys.rnea(truth, q, qd, qdd)
    return q, qd, qdd, y + NOISE * np.random.default_rng(0).normal(size=y.shape)


def fitted(arm: KinematicTree, mass: float, **options: bool) -> tuple[Fit, KinematicTree]:
    truth = carrying(arm, mass)
    ident = Identification(arm, torque_layout(arm), friction=False, rotor=False, offset=False)
    return ident.fit(*recorded(arm, truth), **options), truth


def test_a_fit_that_follows_its_data_is_not_contradicted(arm) -> None:
    fit, _ = fitted(arm, 0.0)
    assert fit.least_squares.words == ()
    assert fit.least_squares.fit == pytest.approx(NOISE, rel=0.05)
    assert fit.least_squares.rms == pytest.approx(NOISE, rel=0.05)


@pytest.mark.finding("W1")
@pytest.mark.parametrize("physical", [True, False])
def test_a_combination_that_the_model_holds_off_the_data_is_named(arm, physical) -> None:
    """Its rms was that of the noise, its 95 % band held, its std was a tenth of the error."""
    fit, truth = fitted(arm, 0.2, physical=physical)
    value, std = fit.values["c.Iyy"], fit.std["c.Iyy"]
    assert abs(value - truth.parameters["c.Iyy"]) > 5 * std
    worst = fit.least_squares.apart[0]
    assert worst.shares[0][0] == "c.Iyy" and worst.shares[0][1] > 0.5
    assert worst.deviations > 5
    assert worst.found == value
    assert worst.asked == pytest.approx(truth.parameters["c.Iyy"], abs=3 * std)
    assert "c.Iyy" in fit.least_squares.words[0]
    assert not fit.least_squares.exceeded.any()


@pytest.mark.finding("W1", "L1")
def test_a_reading_that_a_fit_abandons_is_named(arm) -> None:
    """Beside least squares of each tenth of the log from the other nine."""
    fit, truth = fitted(arm, 0.6)
    beside = fit.least_squares
    assert beside.exceeded.all() and (beside.fit > 1.4 * beside.rms).all()
    *states, y = recorded(arm, truth)
    R = fit.sought.rows(*states).theta
    off = np.empty_like(y)
    for part in np.array_split(np.arange(len(y)), 10):
        rest = np.setdiff1d(np.arange(len(y)), part)
        rows = R[rest].reshape(-1, R.shape[-1])
        theta = np.linalg.lstsq(rows, y[rest].ravel(), rcond=1e-9)[0]
        off[part] = y[part] - R[part] @ theta
    assert beside.rms == pytest.approx(np.sqrt((off**2).mean(axis=0)), rel=0.01)
    labels = [words.split(":")[0] for words in beside.words[:3]]
    assert labels == list(fit.sought.layout.labels)


@pytest.mark.finding("L1")
def test_a_reading_that_a_constraint_holds_off_is_named() -> None:
    """A rotor that helps its joint along, which no robot has: its torque is not followed."""
    robot = dynsys.synthetic.chain(3)
    ident = Identification(robot, torque_layout(robot))
    q, qd, qdd = motion(robot, 20.0, 100.0, 0)
    y = dynsys.rnea(robot, q, qd, qdd)
    y += NOISE * np.random.default_rng(0).normal(size=y.shape)
    y[:, 2] -= 0.5 * qdd[:, 2]
    held = ident.fit(q, qd, qdd, y).least_squares
    assert held.exceeded[2] and held.labels[2] in held.words[0]
    assert not ident.fit(q, qd, qdd, y, physical=False).least_squares.exceeded.any()


@pytest.mark.parametrize("case", [4, 10, 15, 18])
def test_noise_that_presses_on_a_constraint_is_no_contradiction(case: int) -> None:
    """No friction and no rotors, which half of all noise makes negative: beyond 2 deviations
    one of thirty combinations is in a fifth of all logs.
    """
    robot = dynsys.synthetic.chain(6)
    ident = Identification(robot, torque_layout(robot))
    states = motion(robot, 10.0, 100.0, case)
    y = dynsys.rnea(robot, *states)
    y = y + NOISE * correlated(np.random.default_rng(case), y.shape, 0.0)
    assert ident.fit(*states, y).least_squares.words == ()


@pytest.mark.parametrize("case", [0, 1, 2, 3, 4])
def test_smooth_noise_that_least_squares_follows_is_no_contradiction(case: int) -> None:
    """On the rows that it was fitted to, least squares leaves up to a sixth less than noise."""
    robot = dynsys.synthetic.random_tree(3, seed=1, joint_types=("revolute",))
    ident = Identification(robot, torque_layout(robot))
    truth = changed(robot, 100 + case)
    states = motion(robot, 10.0, 100.0, case)
    R = ident.sought.rows(*states)
    y = R.theta @ [truth.parameters[name] for name in ident.parameters] + R.known
    y = y + 0.025 * correlated(np.random.default_rng(case), y.shape, 0.9)
    assert ident.fit(*states, y).least_squares.words == ()


@pytest.mark.finding("W1")
def test_the_command_says_it_first_and_ends_with_one(arm, tmp_path: Path, capsys) -> None:
    """It ended with 0 and a table of wrong values."""
    words = ["identify", str(tmp_path / "arm.yaml"), str(tmp_path / "log.npz")]
    for mass, status in ((0.0, 0), (0.2, 1), (0.6, 1), (1.0, 1)):
        q, qd, qdd, y = recorded(arm, carrying(arm, mass))
        np.savez(tmp_path / "log.npz", time=np.arange(len(q)) / 100.0, q=q, qd=qd, qdd=qdd, y=y)
        assert main([*words, "--friction", "-"]) == status
        text = capsys.readouterr().out
        assert text.startswith("the log itself: this fit departs from its data") == status
        assert main([*words, "--friction", "-", "--json"]) == status
        told = json.loads(capsys.readouterr().out)["least_squares"]["the log itself"]
        assert bool(told["words"]) == bool(status)
        assert all(each["deviations"] > 2 and each["shares"] for each in told["apart"])
        flat = " ".join(text.split())
        assert all(said in flat for said in told["words"])
