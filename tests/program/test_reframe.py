"""Re-chosen frames and regrouped masses change no torque, acceleration or inertia matrix."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynsys import synthetic
from dynsys.plan.record import (
    DynamicsSpec,
    cheapest_accurate,
    dynamics_program,
    symmetric_dynamics,
)
from dynsys.program.frames import Regrouping, reframe
from dynsys.program.program import Program
from dynsys.recursive.aba import aba
from dynsys.recursive.crba import crba, crba_scalars
from dynsys.recursive.rnea import rnea, rnea_scalars
from experiments.example_robots import load_quietly
from tests.robots import robot_path
from tests.strategies import motions, trees


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data(), regroup=st.sampled_from(["all", "solid", "none"]), coupled=st.booleans())
def test_same_robot(data, regroup, coupled) -> None:
    robot = data.draw(trees(max_bodies=7, coupled=coupled))
    q, qd, qdd = data.draw(motions(robot))
    other = reframe(robot, regroup=regroup)
    torque = rnea(robot, q, qd, qdd)
    scale = 1.0 + np.abs(torque).max()
    np.testing.assert_allclose(rnea_scalars(other, q, qd, qdd), torque, atol=1e-12 * scale)
    H = crba(robot, q)
    np.testing.assert_allclose(crba_scalars(other, q), H, atol=1e-12 * (1 + np.abs(H).max()))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data(), coupled=st.booleans())
def test_symmetric_elimination_answers_any_mix_of_known_joints(data, coupled) -> None:
    """ID, FD and hybrid, with external wrenches and mimic joints, against RNEA."""
    robot = data.draw(trees(max_bodies=7, coupled=coupled))
    q, qd, qdd = data.draw(motions(robot))
    f_ext = np.random.default_rng(0).normal(size=(robot.n_bodies, 6))
    torque = rnea(robot, q, qd, qdd, f_ext)
    known = np.zeros(robot.nv, dtype=bool)
    for v in robot.v_slices():
        known[v] = data.draw(st.booleans())
    inputs = np.where(known, qdd, torque)
    got_qdd, got_torque, _ = symmetric_dynamics(reframe(robot), q, qd, inputs, known, f_ext)
    condition = np.linalg.cond(crba(robot, q))
    np.testing.assert_allclose(
        got_qdd, qdd, atol=1e-13 * condition * (1 + np.abs(torque).max())
    )
    np.testing.assert_allclose(
        got_torque, torque, atol=1e-13 * condition * (1 + np.abs(torque).max())
    )


def test_forward_dynamics_agrees_with_aba_on_a_humanoid() -> None:
    robot = synthetic.humanoid30()
    rng = np.random.default_rng(1)
    q, qd, torque = robot.random_configuration(1), *rng.normal(size=(2, robot.nv))
    unknown = np.zeros(robot.nv, dtype=bool)
    qdd, _, _ = symmetric_dynamics(reframe(robot), q, qd, torque, unknown)
    expected = aba(robot, q, qd, torque)
    np.testing.assert_allclose(qdd, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_frames_are_denavit_hartenberg_on_a_generic_chain() -> None:
    """Every way to the next joint has two components; mass, h_z and J_zz are regrouped."""
    other = reframe(synthetic.chain(8, generic=True, seed=3))
    ways = [s.placement.r for s in other.stages[2:] if s.user_body < 0]
    assert all(np.count_nonzero(r) <= 2 for r in ways)
    for stage, moments in zip(other.stages, other.moments, strict=True):
        if stage.user_body >= 0:
            assert moments.mass == 0.0 and moments.first[2] == 0.0
            assert moments.second[2, 2] == 0.0


@pytest.mark.parametrize(
    ("errors", "chosen"),
    [
        ({"all": 1e-14, "solid": 1e-14, "none": 1e-14}, "all"),
        ({"all": 1e-10, "solid": 1e-14, "none": 1e-16}, "solid"),
        ({"all": 1e-10, "solid": 7e-13, "none": 5e-13}, "solid"),
        ({"all": 1e-10, "solid": 1e-11, "none": 5e-13}, "none"),
        ({"all": np.nan, "solid": np.nan, "none": np.nan}, "none"),
    ],
)
def test_masses_are_regrouped_as_far_as_digits_allow(
    errors: dict[Regrouping, float], chosen: Regrouping
) -> None:
    programs = {which: cast(Program, object()) for which in errors}
    of = {id(program): which for which, program in programs.items()}
    found = cheapest_accurate(
        programs.__getitem__, lambda program: errors[of[id(program)]], 1e-13
    )
    assert of[id(found)] == chosen


@pytest.mark.slow
def test_point_masses_of_icub_stay_and_the_solid_half_is_regrouped() -> None:
    """Its right leg, wrists and head are point masses; with those moved FD loses digits."""
    robot = load_quietly(robot_path("icub_description/robots/icub.urdf"), floating=True)
    moments = reframe(robot, regroup="solid")
    mass = {
        name: moments.moments[place].mass
        for name, place in zip(robot.body_names, moments.place, strict=True)
    }
    assert mass["l_ankle_2"] == 0.0 and mass["l_upper_leg"] == 0.0
    assert mass["r_lower_leg"] > 1.0 and mass["head"] > 1.0
    spec = DynamicsSpec(robot, np.zeros(robot.nv, dtype=bool), "torque", ("qdd",))
    program = dynamics_program(spec)
    assert program.count()["mul"] < 5400  # all in place: 5456
