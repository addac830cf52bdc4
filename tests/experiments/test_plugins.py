"""Small versions of what kernels do inside other tools."""

from __future__ import annotations

import numpy as np
import pytest

from dynsys import synthetic
from dynsys.interop import casadi_function
from experiments.plugins.__main__ import main
from experiments.plugins.friction import fit_friction
from experiments.plugins.trajectory import swing, symbolic_torque
from problems import InverseDynamics


def test_our_kernel_and_casadis_expressions_find_the_same_motion() -> None:
    pytest.importorskip("casadi")
    robot = synthetic.chain(2)
    ways = {
        "ours": lambda: casadi_function(InverseDynamics(robot)),
        "theirs": lambda: symbolic_torque(robot),
    }
    end, limits = np.array([0.8, -0.6]), np.array([14.0, 6.0])
    ours, theirs = (
        swing(who, function, np.zeros(2), end, limits, steps=10, duration=0.8)
        for who, function in ways.items()
    )
    assert ours.iterations == theirs.iterations
    assert abs(ours.effort - theirs.effort) <= 1e-9 * ours.effort
    assert np.abs(ours.motion - theirs.motion).max() <= 1e-7
    assert np.allclose(ours.motion[-1], end)


@pytest.mark.parametrize("tool", ["jax", "torch"])
def test_friction_is_found_by_gradients(tool: str) -> None:
    pytest.importorskip(tool)
    fit = fit_friction(synthetic.chain(2), tool, samples=600)
    assert np.abs(fit.found - fit.true).max() < 0.05


def test_a_part_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "there is no part 'nothing'" in capsys.readouterr().err
