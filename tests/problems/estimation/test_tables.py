"""Estimates in the tools people have: tables of pandas and xarray, pictures, notebooks."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import dynsys
import problems
import sensors
from dynsys import LayoutError, StateError
from dynsys.errors import ReportError
from dynsys.types import Array
from problems import Estimate


@pytest.fixture(scope="module")
def est() -> problems.Estimation:
    robot = dynsys.synthetic.chain(3)
    layout = sensors.Layout(
        robot,
        [
            sensors.Imu("imu", frame=robot.body_names[2], std=0.1),
            *sensors.all_joint_accelerations(robot, std=0.1),
            *sensors.zero_external_wrench_except(robot),
        ],
    )
    return problems.Estimation(robot, layout, backend="dense")


def given(est: problems.Estimation) -> tuple[Array, Array, dict[str, Array]]:
    """Five states and readings of the sensors that have any."""
    rng = np.random.default_rng(0)
    readings = {n: rng.normal(size=(5, est.layout.sizes[n])) for n in est.layout.names[:4]}
    return rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), readings


def alone(est: problems.Estimation, k: int) -> Estimate:
    """The estimate of one of them."""
    q, qd, readings = given(est)
    return est.solve(q[k], qd[k], {name: value[k] for name, value in readings.items()})


@pytest.fixture(scope="module")
def batch(est: problems.Estimation) -> Estimate:
    return est.solve_batch(*given(est))


def test_a_table_has_the_columns_of_dynsys_solve(batch: Estimate) -> None:
    pytest.importorskip("pandas")
    tip = batch.problem.robot.body_names[2]
    table = batch.to_pandas("torque", f"std.joint_wrench.{tip}", "p_value", time=np.arange(5.0))
    assert list(table.columns[:4]) == [
        *(f"torque.{name}" for name in batch.problem.robot.joint_names),
        f"std.joint_wrench.{tip}.tx",
    ]
    assert table.index.name == "time"
    assert np.array_equal(table.iloc[:, :3], batch.torque.array)
    assert np.array_equal(table["p_value"], batch.p_value)
    assert np.array_equal(table.iloc[:, 3:9], batch.std.joint_wrench[tip])
    with pytest.raises(LayoutError, match="did you mean 'torque'"):
        batch.to_pandas("torqe")
    with pytest.raises(StateError, match=r"time must have shape \(5,\), one per sample"):
        batch.to_pandas(time=[1.0])


def test_one_state_is_one_row(est: problems.Estimation, batch: Estimate) -> None:
    pytest.importorskip("pandas")
    names = ("torque", "acceleration", "std.qdd", "residual", "suspects", "p_value")
    one = alone(est, 2)
    assert np.allclose(one.to_pandas(*names), batch.to_pandas(*names).iloc[[2]], equal_nan=True)


def test_xarray_is_labelled(batch: Estimate) -> None:
    pytest.importorskip("xarray")
    body = batch.problem.robot.body_names[1]
    found = batch.to_xarray(
        "torque", "std.torque", f"acceleration.{body}", "p_value", time=np.arange(5.0)
    )
    joint = batch.problem.robot.joint_names[1]
    assert np.array_equal(found["torque"].sel(freedom=joint), batch.torque[joint])
    assert np.array_equal(found["std.torque"].values, batch.std.torque.array)
    there = found[f"acceleration.{body}"].sel(acceleration_component="ax")
    assert np.array_equal(there, batch.acceleration[body][:, 3])
    assert found["p_value"].dims == ("time",)


def test_readings_come_from_a_table_by_its_columns(est: problems.Estimation) -> None:
    pandas = pytest.importorskip("pandas")
    layout, rng = est.layout, np.random.default_rng(1)
    noisy = [k for k, label in enumerate(layout.labels) if not layout.exact[k]]
    y = np.tile(layout.constants, (4, 1))
    y[:, noisy] = rng.normal(size=(4, len(noisy)))
    y[1, noisy[0]] = np.nan
    columns = [layout.labels[k] for k in noisy]
    table = pandas.DataFrame(y[:, noisy], columns=columns)
    shuffled = table[columns[::-1]].assign(comment="free text")
    assert np.array_equal(layout.pack(shuffled), y, equal_nan=True)
    q, qd = rng.normal(size=(2, 4, 3))
    e = est.solve_batch(q, qd, shuffled)
    row = est.solve(q[2], qd[2], table.iloc[2])
    assert np.allclose(row.torque.array, e.torque.array[2])
    assert np.array_equal(
        e.torque.array, est.solve_batch(q, qd, y).torque.array, equal_nan=True
    )
    with pytest.raises(LayoutError, match=r"no column imu\.\w+ beside"):
        layout.pack(table.drop(columns=columns[0]))
    with pytest.raises(LayoutError, match="no column of the table is a reading"):
        layout.pack(pandas.DataFrame({"a": [1.0]}))
    with pytest.raises(LayoutError, match="is not numeric"):
        layout.pack(table.astype(object).assign(**{columns[0]: "fast"}))
    with pytest.raises(LayoutError, match="one name"):
        layout.pack(pandas.DataFrame(np.zeros((1, 2)), columns=["a", "a"]))


def test_a_picture_shows_bands(batch: Estimate, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    axes = batch.plot("torque", time=np.arange(5.0))
    lines = {line.get_label(): line.get_ydata() for line in axes.lines}
    for name in batch.problem.robot.joint_names:
        assert np.array_equal(lines[name], batch.torque[name])
    assert len(axes.collections) == 3
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    widest = batch.problem.robot.joint_names[int(np.argmax(np.abs(batch.torque.array).max(0)))]
    top = (batch.torque[widest] + 2 * batch.std.torque[widest]).max()
    assert band.max() == pytest.approx(top)
    assert len(alone(batch.problem, 0).plot("qdd").get_yticks()) == 3
    with pytest.raises(LayoutError, match="plot draws one of"):
        batch.plot("p_value")


@pytest.mark.parametrize(("tool", "extra"), [("pandas", "tables"), ("xarray", "tables")])
def test_what_is_missing_is_said(
    batch: Estimate, monkeypatch: pytest.MonkeyPatch, tool: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, tool, None)
    with pytest.raises(ReportError, match=rf"{tool} is not installed; run: pip .*\[{extra}\]"):
        getattr(batch, f"to_{tool}")()


def test_notebooks_show_what_matters(est: problems.Estimation, batch: Estimate) -> None:
    robot = dynsys.synthetic.chain(2)
    hostile = dynsys.KinematicTree("<script>alert(1)</script>", robot.bodies)
    assert "<script>" not in hostile._repr_html_()
    assert robot.joint_names[1] in robot._repr_html_()
    verdict = est.verdict(search=False)
    assert verdict.status in verdict._repr_html_()
    open_layout = sensors.Layout(est.robot, list(est.layout)[1:3])
    unseen = problems.Estimation(est.robot, open_layout).verdict(search=False)
    for repair in unseen.repairs:
        assert repair.words.replace("'", "&#x27;") in unseen._repr_html_()
    plan = problems.InverseDynamics(robot).plan()
    assert str(plan.operations) in plan._repr_html_()
    assert "5" in batch._repr_html_()
