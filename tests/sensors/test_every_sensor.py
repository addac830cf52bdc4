"""What holds for all sensors: any scalars, honest patterns, unique kinds, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynsys import LinearSystem
from dynsys.program.graph import Graph
from dynsys.system.equations import Kinematics
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import ScalarArray
from sensors import AbstractSensor, Layout, sensor_kinds
from tests import strategies
from tests.sensors import every_sensor

ROBOT = every_sensor.robot()
SENSORS = every_sensor.sensors(ROBOT)
UNKNOWNS = UnknownLayout(ROBOT)
each = pytest.mark.parametrize("sensor", SENSORS, ids=lambda sensor: sensor.name)


def test_no_kind_is_forgotten() -> None:
    assert {type(sensor) for sensor in SENSORS} == set(sensor_kinds().values())


def rows(sensor: AbstractSensor, q: ScalarArray, qd: ScalarArray) -> ScalarArray:
    """Coefficients, term by term, and bias of a sensor at a state."""
    (block,) = sensor.blocks(UNKNOWNS)
    kinematics = Kinematics.at(ROBOT, q, qd)
    parts = [term.entries(kinematics) for term in block.terms]
    return np.concatenate([*parts, block.bias_at(kinematics)])


def state(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return ROBOT.random_configuration(rng), rng.normal(size=ROBOT.nv)


@each
def test_extended_precision_is_kept(sensor: AbstractSensor) -> None:
    q, qd = state(0)
    long = rows(sensor, q.astype(np.longdouble), qd.astype(np.longdouble))
    np.testing.assert_allclose(rows(sensor, q, qd), long.astype(np.float64), atol=1e-12)


@each
def test_expression_graph_gives_the_same_numbers(sensor: AbstractSensor) -> None:
    graph = Graph()
    inputs = graph.inputs(ROBOT.nq + ROBOT.nv)
    recorded = rows(sensor, inputs[: ROBOT.nq], inputs[ROBOT.nq :])
    program = graph.program(recorded)
    for seed in range(3):
        q, qd = state(seed)
        values = program.evaluate(np.concatenate([q, qd]))
        np.testing.assert_allclose(values, rows(sensor, q, qd), rtol=1e-12, atol=1e-12)


@each
def test_pattern_covers_every_value(sensor: AbstractSensor) -> None:
    rng = np.random.default_rng(1)
    positions = [ROBOT.neutral(), *(strategies.quarter_turns(ROBOT, rng) for _ in range(5))]
    positions += [rng.uniform(-3, 3, ROBOT.nq) for _ in range(5)]
    (block,) = sensor.blocks(UNKNOWNS)
    for q in positions:
        kinematics = Kinematics.at(ROBOT, q, np.zeros(ROBOT.nv))
        for term in block.terms:
            value = term.value(kinematics) if callable(term.value) else term.value
            assert not np.any((np.abs(value) > 1e-14) & ~term.pattern)


@each
def test_labels_units_and_noise_have_the_size_of_the_rows(sensor: AbstractSensor) -> None:
    (block,) = sensor.blocks(UNKNOWNS)
    n = sensor.size(ROBOT)
    assert block.size == n == len(sensor.labels(ROBOT)) == len(sensor.units(ROBOT))
    assert block.measured and block.name == sensor.name and block.kind == sensor.kind
    assert sensor.noise(sensor.on(UNKNOWNS)).shape == (n, n)
    constant = sensor.constant(n)
    assert constant is None or constant.shape == (n,)


@each
def test_docstring_states_the_equation(sensor: AbstractSensor) -> None:
    assert "\n    y = " in (type(sensor).__doc__ or "")


def test_round_trip_through_a_file(tmp_path: Path) -> None:
    correlation = ("accelerometer", "com", 0.01 * np.ones((3, 3)))
    layout = Layout(ROBOT, SENSORS, [correlation], {"description": "all of them"})
    layout.save(tmp_path / "all.yaml")
    again = Layout.load(tmp_path / "all.yaml", ROBOT)
    assert again.sensors == layout.sensors
    assert again.about == layout.about
    assert again.fingerprint() == layout.fingerprint()
    np.testing.assert_array_equal(again.covariance().toarray(), layout.covariance().toarray())
    assert [path.name for path in tmp_path.iterdir()] == ["all.yaml"]


def test_layout_extends_a_system() -> None:
    layout = Layout(ROBOT, SENSORS)
    system = LinearSystem(ROBOT)
    whole = system.with_equations(layout.equations(system.unknowns))
    assert whole.shape == (system.shape[0] + layout.size, system.shape[1])
    np.testing.assert_array_equal(
        whole.measured_rows, np.arange(system.shape[0], whole.shape[0])
    )
