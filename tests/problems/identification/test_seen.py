"""What is seen of the parameters: ranks beside a dense twin, names, expected deviations."""

from __future__ import annotations

import numpy as np
import pytest

import dynsys
import sensors
from dynsys import KinematicTree
from experiments.identification import dense_rank, mixed_layout, motion, torque_layout
from problems import Identification
from problems.identification.seen import generic_states
from sensors import Layout


@pytest.mark.parametrize("seed", range(10))
def test_ranks_beside_a_dense_svd(seed: int) -> None:
    robot = dynsys.synthetic.random_tree(3 + seed % 4, seed=seed)
    layout = mixed_layout(robot, seed)
    ident = Identification(robot, layout, friction=False, rotor=False, offset=False)
    states = generic_states(ident.sought)
    found = ident.verdict()
    assert found.rank == dense_rank(layout, (states.q, states.qd, states.qdd))
    assert found.rank < len(ident.parameters)


def test_combinations_are_what_the_readings_depend_on() -> None:
    robot = dynsys.synthetic.random_tree(4, seed=3, joint_types=("revolute",))
    ident = Identification(robot, torque_layout(robot))
    found = ident.verdict()
    names = list(ident.parameters)
    theta = np.random.default_rng(0).normal(size=len(names))
    # all of the parameters into those that name a combination: the readings stay
    base = np.zeros(len(names))
    for combination in found.combinations:
        value = sum(factor * theta[names.index(name)] for name, factor in combination.terms)
        base[names.index(combination.terms[0][0])] = value
    states = motion(robot, 2.0, 20.0, 1)
    R = ident.regressor_batch(*states)
    assert np.abs(R @ base - R @ theta).max() <= 1e-8 * np.abs(R @ theta).max()


def planar() -> Identification:
    """Two parallel axes: the textbook case."""
    robot = dynsys.synthetic.chain(2)
    return Identification(robot, torque_layout(robot))


def test_names_of_two_parallel_links() -> None:
    found = planar().verdict()
    assert "link_1.Izz + 0.01 link_2.mass + link_1.armature" in found.seen
    assert "link_1.mx + 0.1 link_2.mass" in found.seen
    assert "link_2.mass is seen only together with link_1.mx, link_1.Izz" in found.unseen
    assert any("mass, mz" in words and "link_1" in words for words in found.unseen)
    assert {"link_2.mx", "link_2.Izz", "link_1.viscous"} <= set(found.alone)
    assert found.advice == ("a six-axis sensor at link_1 would show 7 more",)


def test_a_poor_motion_is_said() -> None:
    ident = planar()
    n = 50
    q = np.tile([0.3, -0.2], (n, 1))
    still = np.zeros((n, 2))
    found = ident.verdict(q, still, still)
    assert found.rank == 2  # two torques that never change
    assert found.other_motion == ident.verdict().rank - 2
    assert found.advice[0].startswith(f"another motion would show {found.other_motion} more")


def test_expected_deviations_are_those_of_many_fits() -> None:
    robot = dynsys.synthetic.random_tree(2, seed=1, joint_types=("revolute",))
    ident = Identification(robot, torque_layout(robot, std=0.1))
    states = motion(robot, 4.0, 50.0, 0)
    expected = ident.verdict(*states).std
    R = ident.regressor_batch(*states)
    rng, fits = np.random.default_rng(0), []
    for _ in range(60):
        y = R @ ident.sought.model + 0.1 * rng.normal(size=R.shape[:2])
        fit = ident.fit(*states, y, physical=False, noise="layout", huber=None)
        fits.append(fit.theta)
    told = enumerate(zip(ident.parameters, ident.sought.scale, strict=True))
    seen = [k for k, (name, size) in told if expected[name] < 0.2 * size]
    assert len(seen) >= 5
    spread = np.std(fits, axis=0)[seen]
    ratio = spread / [expected[ident.parameters[k]] for k in seen]
    assert np.abs(np.median(ratio) - 1) < 0.15


def test_a_floating_robot_without_joint_torques_is_seen_by_its_feet() -> None:
    robot: KinematicTree = dynsys.synthetic.humanoid30()
    soles = [robot.body_names[-1], robot.body_names[-2]]
    layout = Layout(
        robot,
        [
            sensors.JointTorque("no drive", robot.joint_names[0], value=0.0),
            *(sensors.ExternalWrench(f"ground {n}", n, std=1.0) for n in soles),
        ],
    )
    ident = Identification(robot, layout, inertia=list(robot.body_names[:3]))
    assert ident.sought.regressor.contacts == tuple(sorted(map(robot.body_index, soles)))
    found = ident.verdict()
    assert f"{robot.body_names[0]}.mass" in {c.terms[0][0] for c in found.combinations}
