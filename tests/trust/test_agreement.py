"""A fixed sample of the campaigns of experiments/trust/agreement.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynsys
from dynsys.types import Array
from experiments.agreement.cases import QUANTITIES, Case, random_case, real_cases
from experiments.agreement.robots import mjcf_text, sites_of, urdf_text
from experiments.trust.agreement import LIMIT, Record

for needed in ("pinocchio", "mujoco", "idyntree"):
    pytest.importorskip(needed)

SEEDS = (0, 1, 2, 3)
"""One per kind of random robot: fixed and floating base, ball joints, screws."""


def record_of(case: Case) -> Record:
    record = Record()
    record.add(case, seed=0, states=3)
    return record


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_random_robots_agree_with_every_program(seed: int, tmp_path: Path) -> None:
    case = random_case(seed, tmp_path)
    record = record_of(case)
    assert not record.failures
    assert not case.refused
    expected = {0: 4, 1: 4, 2: 3, 3: 1}[seed % 4]
    assert len(record.worst) == expected
    assert set(record.worst["pin"]) == set(QUANTITIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ur5_robot", "solo12"])
def test_real_robots_agree_with_every_program(name: str, tmp_path: Path) -> None:
    case = dict(real_cases())[name](tmp_path, 0)
    record = record_of(case)
    assert not record.failures
    assert set(record.worst) == {"pin", "mujoco", "mjcf read back", "idyntree"}


@pytest.mark.slow
def test_a_wrong_robot_is_noticed(tmp_path: Path) -> None:
    """A gram more on one body, as much as 1e-6 of its mass: the comparison is no formality."""
    case = random_case(0, tmp_path)
    body = case.robot.bodies[-1]
    heavier = dynsys.model.spatial.Inertia(
        body.inertia.mass * (1 + 1e-6), body.inertia.com, body.inertia.about_com
    )
    bodies = [*case.robot.bodies[:-1], replace(body, inertia=heavier)]
    wrong = dynsys.model.tree.KinematicTree(case.robot.name, bodies)
    changed = Case(case.name, wrong, case.sites, case.makers, case.mjcf)
    record = record_of(changed)
    assert {failure["quantity"] for failure in record.failures} >= {"inverse", "force"}
    assert all(failure["difference"] > LIMIT for failure in record.failures)


def test_written_robots_are_read_back(tmp_path: Path) -> None:
    tree = dynsys.synthetic.random_tree(6, 5, ["revolute", "prismatic"])
    urdf, mjcf = tmp_path / "tree.urdf", tmp_path / "tree.xml"
    urdf.write_text(urdf_text(tree))
    mjcf.write_text(mjcf_text(tree, sites_of(tree, np.random.default_rng(0))))
    q, qd = tree.random_configuration(0), np.linspace(-1, 1, tree.nv)
    expected = dynsys.recursive.rnea(tree, q, qd, qd)
    for robot in (dynsys.load(urdf), dynsys.load(mjcf)):
        order = np.concatenate([_columns(robot, name) for name in tree.joint_names])
        given = np.empty((2, tree.nv))
        given[0][order], given[1][order] = q, qd
        found = dynsys.recursive.rnea(robot, given[0], given[1], given[1])[order]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def _columns(robot: dynsys.KinematicTree, joint: str) -> Array:
    place = robot.v_slice(joint)
    return np.arange(place.start, place.stop)
