"""Noise of encoders in a layout: Python, files, copies, messages."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import sensors
from dynsys import LayoutError, synthetic
from sensors import Layout

HUMANOID = synthetic.humanoid30()
KNEE = "left_leg_4"


def layout(**noise: object) -> Layout:
    return Layout(HUMANOID, sensors.all_joint_torques(HUMANOID, std=0.1), **noise)


def test_one_number_leaves_the_floating_base_out() -> None:
    found = layout(position_std=1e-3)
    assert not found.position_std[:6].any() and (found.position_std[6:] == 1e-3).all()
    assert found.has_encoder_noise and not found.velocity_std.any()
    assert not layout().has_encoder_noise and not layout(velocity_std=0).has_encoder_noise
    by_joint = layout(velocity_std={KNEE: 0.1, "root": [1, 2, 3, 4, 5, 6]})
    assert by_joint.velocity_std[:6].tolist() == [1, 2, 3, 4, 5, 6]
    assert by_joint.velocity_std[HUMANOID.v_slice(KNEE)].tolist() == [0.1]
    assert (layout(velocity_std={"root": 0.5}).velocity_std[:6] == 0.5).all()


def test_it_travels(tmp_path: Path) -> None:
    """Files, pickles and layouts of other sensors keep it; fingerprints tell it."""
    made = layout(position_std=1e-3, velocity_std={KNEE: 0.02, "root": [1, 2, 3, 4, 5, 6]})
    made.save(tmp_path / "layout.yaml")
    fewer = made.with_sensors(made.sensors[:3])
    for twin in (
        Layout.load(tmp_path / "layout.yaml", HUMANOID),
        pickle.loads(pickle.dumps(made)),
        fewer,
    ):
        np.testing.assert_array_equal(twin.position_std, made.position_std)
        np.testing.assert_array_equal(twin.velocity_std, made.velocity_std)
    assert len(fewer) == 3
    assert made.fingerprint() != layout().fingerprint()
    assert layout(position_std=0).fingerprint() == layout().fingerprint()


def test_correlations_stay_where_both_sensors_do() -> None:
    second, third = (s.name for s in layout().sensors[1:3])
    made = Layout(
        HUMANOID,
        sensors.all_joint_torques(HUMANOID, std=0.1)[:3],
        [(second, third, [[1e-3]])],
        {"source": "here"},
    )
    assert made.with_sensors(made.sensors[1:]).correlations[0][:2] == (second, third)
    assert made.with_sensors(made.sensors[:2]).correlations == ()
    assert made.with_sensors(made.sensors[:2]).about["source"] == "here"


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ({"position_std": -1.0}, "position_std must be a number that is not negative"),
        ({"position_std": "small"}, "position_std must be a number, got 'small'"),
        ({"velocity_std": [0.1] * 36}, "velocity_std must be .* or a mapping by joint"),
        ({"velocity_std": {"left_leg_9": 1}}, "no joint 'left_leg_9'.* did you mean 'left_leg"),
        ({"velocity_std": {KNEE: [1, 2]}}, "velocity_std of joint 'left_leg_4' must be"),
        ({"position_std": float("nan")}, "position_std must be"),
    ],
)
def test_errors_say_what_is_wrong(noise: dict[str, object], message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        layout(**noise)


def test_errors_of_files_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "layout.yaml"
    path.write_text("sensors: []\nposition_std: {left_leg_1: -2}\n")
    with pytest.raises(LayoutError, match=r"layout.yaml, line 2: position_std of joint"):
        Layout.load(path, HUMANOID)
