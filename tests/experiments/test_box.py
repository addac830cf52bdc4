"""Two arms, one box ([CK] figures 5 and 6): what was promised, and what comes out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import null_space

import dynsys
from experiments.chang_khatib2001 import box

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def motion() -> box.PutDown:
    return box.put_down(quick=True)


@pytest.mark.trust
def test_the_augmented_object_has_the_inertia_of_the_closed_chain() -> None:
    """Dense oracle: H restricted to the motions that both grasps allow."""
    held = box.scene()
    J = np.zeros((12, 30))
    for side, hand in enumerate(("left_hand", "right_hand")):
        rows = slice(6 * side, 6 * side + 6)
        J[rows, :24] = dynsys.jacobian(held.robot, held.q[:24], hand)
        J[rows, 24:] = -held.grasp[side].matrix()
    free = null_space(J)
    H = free.T @ dynsys.crba(held.together, held.q) @ free
    at_box = free[24:]
    exact = np.linalg.inv(at_box @ np.linalg.solve(H, at_box.T))
    for found in (
        held.augmented_inertia(held.q),
        held.inertia_by_relative_motion(held.q),
        held.inertia_by_closures(held.q),
    ):
        np.testing.assert_allclose(found, exact, atol=1e-10)


def test_box_and_grasps_are_as_commanded_at_an_instant() -> None:
    held, rng = box.scene(), np.random.default_rng(0)
    controller = box.Controller(held, box.Task(0.5))
    near = [
        (held.together.integrate(held.q, 0.2 * rng.normal(size=30), 1.0), v)
        for v in rng.normal(size=(4, 30))
    ]
    assert box.instant_errors(controller, near).max() < 1e-9
    assert controller.coupling < 1e-9  # the posture moves no hand


@pytest.mark.trust
def test_the_box_follows_its_spline_and_is_pressed_as_commanded(motion: box.PutDown) -> None:
    air = motion.in_the_air
    assert 0.8 < motion.time[air][-1] / motion.task.lowering < 1.05
    assert np.abs(motion.place[:, 2] - motion.wanted)[air].max() < 5e-4
    error = np.abs(motion.internal - motion.commanded)[air].max()
    finer = box.put_down(quick=True, servo=2 * box.SERVO)
    half = np.abs(finer.internal - finer.commanded)[finer.in_the_air].max()
    assert error < 0.01 * box.SQUEEZE and 1.7 < error / half < 2.3  # the torque is held


@pytest.mark.trust
def test_the_floor_has_the_weight_in_the_end_and_nothing_comes_from_nowhere(
    motion: box.PutDown,
) -> None:
    weight = 9.81 * motion.scene.box.total_mass
    assert motion.floor[-1, 5] == pytest.approx(weight, rel=1e-4)
    assert np.abs(motion.wrenches[:, -1]).max() < 1e-2
    assert motion.imbalance < 1e-9  # momentum of the box, every step, impacts too
    assert abs(motion.record.drift[motion.in_the_air[1:]][-1]) < 1e-4
    assert motion.record.residual.max() < 1e-6
