"""A small version of the simulator's experiment: its numbers are what they should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.peers import simulation

pytest.importorskip("mujoco")


@pytest.mark.slow
def test_simulator_agrees_with_physics_and_mujoco(tmp_path: Path) -> None:
    found = {line.what: line.ours for line in simulation.lines(quick=True)}

    def of(part: str) -> float:
        return next(value for what, value in found.items() if part in what)

    assert of("relative error of momentum") < 1e-12
    assert abs(of("midpoint: order") - 2) < 0.1 and abs(of("semi_implicit: order") - 1) < 0.1
    assert abs(of("forces on its feet")) < 1e-6 and of("did not converge") == 0
    assert abs(of("atan(0.3)")) < 1e-3 and abs(of("atan(0.8)")) < 1e-3
    assert of("arm swings 0.3 s") < 1e-5 and abs(of("arm swings: the same") - 4) < 0.2
    assert of("quadruped flies 0.3 s") < 1e-5 and abs(of("quadruped flies: the same") - 4) < 0.2
    assert abs(of("way / (v^2 / 2 mu g)")) < 1e-4
    assert abs(of("height - MuJoCo's")) < 3e-3  # MuJoCo's contact is soft
    assert of("feet on the ground, ours") == of("feet on the ground, MuJoCo's") == 4
    assert of("dynsys / MuJoCo") < 5  # processor time: a busy machine does not matter
    assert all(path.stat().st_size > 1000 for path in simulation.figures(tmp_path))
