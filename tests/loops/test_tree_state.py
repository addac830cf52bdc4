"""A robot at one q by compiled loops: elementary turns, transforms, poses, H, integration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import dynsys
from dynsys import KinematicTree, synthetic
from dynsys.loops import flat
from dynsys.loops.tree_state import TreeState, integrate
from dynsys.model.spatial import Transform
from dynsys.model.synthetic import random_rotation
from dynsys.recursive.kinematics import poses, transforms
from tests.strategies import seeds, trees


def test_any_rotation_is_three_elementary_turns() -> None:
    rng = np.random.default_rng(0)
    near = [np.diag(d) for d in ((1.0, 1, 1), (-1, -1, 1), (1, -1, -1), (-1, 1, -1))]
    tilts = [Transform(random_rotation(rng), np.zeros(3)).E for _ in range(20)]
    for angle in (1e-17, 1e-12, 1e-9, 1e-6):
        c, s = np.cos(angle), np.sin(angle)
        tilts += [np.array([[1, 0, 0], [0, c, s], [0, -s, c]]) @ E for E in near]
    for E in [*near, *tilts]:
        psi, ca, sa, ct, st = flat.elementary_turns(E)
        assert ct >= 0 and (st != 0 or ct == 1)
        c, s = np.cos(psi), np.sin(psi)
        first = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
        about_x = np.array([[1, 0, 0], [0, ca, sa], [0, -sa, ca]])
        last = np.array([[ct, st, 0], [-st, ct, 0], [0, 0, 1]])
        np.testing.assert_allclose(first @ about_x @ last, E, rtol=0, atol=1e-15)


@pytest.mark.slow
@given(robot=trees(max_bodies=8), seed=seeds, dt=st.sampled_from([1e-6, 0.01, 2.0]))
@settings(deadline=None, max_examples=40)
def test_compiled_kinematics_are_the_joints_own(
    robot: KinematicTree, seed: int, dt: float
) -> None:
    q, v = robot.random_configuration(seed), np.random.default_rng(seed).normal(size=robot.nv)
    state = TreeState(robot, q)
    X_up = transforms(robot, q)
    for found, exact in zip(state.X, X_up, strict=True):
        assert_allclose(found, exact.matrix(), atol=1e-13)
    for found_pose, pose in zip(state.poses, poses(robot, X_up), strict=True):
        assert_allclose(found_pose.E, pose.E, atol=1e-12)
        assert_allclose(found_pose.r, pose.r, atol=1e-12)
    assert_allclose(integrate(robot, q, v, dt), robot.integrate(q, v, dt), atol=1e-12)


def test_poses_are_a_sequence() -> None:
    robot = synthetic.chain(4)
    found = TreeState(robot, robot.random_configuration(0)).poses
    assert len(found) == 4
    assert [pose.r.tolist() for pose in found[1:3]] == found.r[1:3].tolist()


@pytest.mark.slow
@given(robot=trees(max_bodies=8), seed=seeds)
def test_compiled_inertia_matrix_is_that_of_crba(robot: KinematicTree, seed: int) -> None:
    q = robot.random_configuration(seed)
    assert_allclose(TreeState(robot, q).H, dynsys.recursive.crba(robot, q), atol=1e-11)
