"""Constrained dynamics beside Pinocchio and MuJoCo, small version."""

from __future__ import annotations

import pytest

pytest.importorskip("pinocchio")
pytest.importorskip("mujoco")

from experiments.constrained.__main__ import HEADER, compare


@pytest.mark.parametrize("name", ["four_bar", "slider_crank", "five_bar"])
def test_small_mechanisms_agree(name: str) -> None:
    row = compare(name, 2, timed=False)
    assert row.redundant == 1
    assert max(row.pin_qdd, row.mujoco_qdd, row.mujoco_torque) < 1e-8
    assert len(str(row)) > 60 and HEADER.split()[0] == "robot"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stewart_platform", "solo12", "talos", "baxter"])
def test_robots_agree(name: str) -> None:
    row = compare(name, 2, timed=False)
    worst = max(row.pin_qdd, row.pin_wrench, row.mujoco_qdd, row.mujoco_torque)
    assert worst < 1e-8
