"""Layouts and problems survive their files: load, save, load gives the same."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from problems import Prior
from problems.logs import Butterworth, Differentiation, Smoother
from problems.logs.columns import Column, Columns
from problems.problem_file import ProblemFile, load_problem, save_problem
from sensors import Layout, catalogue
from tests.sensors import every_sensor

ROBOT = every_sensor.robot()
SENSORS = every_sensor.sensors(ROBOT)
positive = st.floats(1e-6, 1e6)
texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=30)
names = st.text("abcdefghijklmnopqrstuvwxyz_/0123456789.: é", min_size=1, max_size=20).filter(
    lambda text: text.strip() == text
)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    chosen = draw(st.lists(st.sampled_from(SENSORS), min_size=1, unique_by=id))
    called = draw(st.lists(names, min_size=len(chosen), max_size=len(chosen), unique=True))
    changed = [
        dataclasses.replace(sensor, name=name, covariance=None, std=draw(positive))
        for sensor, name in zip(chosen, called, strict=True)
    ]
    return Layout(ROBOT, changed, (), {"description": draw(texts)})


@pytest.mark.slow
@given(layouts())
@settings(max_examples=40, deadline=None)
def test_layouts(layout: Layout) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "layout.yaml")
        layout.save(path)
        again = Layout.load(path, ROBOT)
        text = path.read_text(encoding="utf-8")
        again.save(path)
        assert path.read_text(encoding="utf-8") == text
    assert again.sensors == layout.sensors
    assert again.about == layout.about
    assert again.fingerprint() == layout.fingerprint()


@pytest.mark.parametrize("name", catalogue.names())
def test_layouts_of_the_catalogue(name: str, tmp_path: Path) -> None:
    try:
        problem = load_problem(f"catalogue:{name}")
        layout = problem.sensors
    except Exception as error:
        if "example-robot-data" in str(error):
            pytest.skip("example-robot-data is not installed")
        raise
    layout.save(tmp_path / "layout.yaml")
    again = Layout.load(tmp_path / "layout.yaml", problem.tree)
    assert again.sensors == layout.sensors
    assert again.fingerprint() == layout.fingerprint()


COLUMNS = (
    Columns(),
    Columns(
        {
            "q": (Column("joints.q", "deg", order=(2, 0, 1)),),
            "q.root": (Column("p"), Column("u[0:4]", rotation="wxyz", sign=(1, 1, -1, 1))),
        },
        {"link_1": "axis 1"},
        100.0,
    ),
)


@st.composite
def problem_files(draw: st.DrawFn) -> ProblemFile:
    prior = st.builds(
        lambda std, mean: Prior({"torque": std, "qdd": {"link_1": std}}, {"torque": mean}),
        positive,
        st.floats(-10, 10),
    )
    methods = [Differentiation(window=0.05), Butterworth(5.0), Smoother(readings=True)]
    return ProblemFile(
        robot="synthetic:chain:3",
        layout={
            "sensors": [
                {"kind": "joint_torque", "name": draw(names), "joint": "link_2", "std": 0.5}
            ]
        },
        outputs=draw(st.sampled_from([("torque",), ("std.torque", "external_wrench.link_3")])),
        prior=draw(st.none() | prior),
        plan=draw(st.sampled_from(["", "arm.plan.json", "plans/arm.json"])),
        differentiation=draw(st.sampled_from(methods)),
        topics=draw(st.dictionaries(names, names, max_size=3)),
        columns=draw(st.sampled_from(COLUMNS)),
    )


def content(problem: ProblemFile) -> dict[str, Any]:
    prior = problem.prior
    return {
        "robot": problem.robot,
        "layout": problem.sensors.fingerprint(),
        "floating": problem.floating,
        "outputs": problem.outputs,
        "prior": None if prior is None else (dict(prior.std), dict(prior.mean)),
        "plan": problem.plan,
        "differentiation": problem.differentiation,
        "topics": dict(problem.topics),
        "columns": problem.columns,
    }


@pytest.mark.slow
@given(problem_files())
@settings(max_examples=40, deadline=None)
def test_problems(problem: ProblemFile) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "problem.yaml")
        save_problem(problem, path)
        again = load_problem(path)
        text = path.read_text(encoding="utf-8")
        save_problem(again, path)
        assert path.read_text(encoding="utf-8") == text
    assert content(again) == content(problem)
