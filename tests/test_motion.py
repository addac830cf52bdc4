"""Energy, momentum, Coriolis matrix as users call them, against the recursions."""

from __future__ import annotations

import inspect
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given, settings
from numpy.testing import assert_allclose

import dynsys
from dynsys import KinematicTree, ModelError, StateError, motion, recursive, synthetic, verbs
from dynsys.model.joints import JOINT_TYPES, Revolute
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import Body
from dynsys.types import Array
from tests import strategies
from tests.test_verbs import fresh, moving

NAMES = (
    "centre_of_mass centre_of_mass_jacobian centroidal_momentum centroidal_momentum_bias"
    " centroidal_momentum_matrix coriolis_matrix kinetic_energy momentum potential_energy"
).split()
EVERY_JOINT = synthetic.random_tree(len(JOINT_TYPES), 4, joint_types=list(JOINT_TYPES))


def takes_speeds(name: str) -> bool:
    return "qd" in inspect.signature(getattr(dynsys, name)).parameters


def asked(name: str, q: Array, qd: Array) -> tuple[Array, ...]:
    return (q, qd)[: 1 + takes_speeds(name)]


def close(found: Any, expected: Any) -> None:
    assert_allclose(found, expected, rtol=0, atol=1e-10 * (1 + np.abs(expected).max()))


def test_every_verb_is_public() -> None:
    assert set(NAMES) == set(motion.__all__) <= set(dynsys.__all__)
    assert set(NAMES) <= set(recursive.__all__)


@pytest.mark.slow
@settings(max_examples=5)
@given(strategies.states(max_bodies=3))
def test_machine_code_agrees_with_the_recursions(state: strategies.State) -> None:
    robot, q, qd, _, _ = state
    assume(robot.total_mass > 0)
    with patch.object(verbs, "FEW", -1):
        for name in NAMES:
            given_, verb = asked(name, q, qd), getattr(dynsys, name)
            expected = getattr(recursive, name)(robot, *given_)
            for _ in range(2):  # through the checks, then the fast way
                close(verb(robot, *given_), expected)
            assert robot._kept[name, False]._code is not None


@pytest.mark.parametrize("name", NAMES)
def test_batches_and_single_states(name: str) -> None:
    robot = fresh(EVERY_JOINT)
    q, qd, _ = moving(robot, 3)
    verb, twin = getattr(dynsys, name), getattr(recursive, name)
    for few in (100, -1):  # the recursion, then machine code
        with patch.object(verbs, "FEW", few):
            rows = verb(robot, *asked(name, q, qd))
            for k in range(3):
                close(rows[k], twin(robot, *asked(name, q[k], qd[k])))
    close(verb(robot, *asked(name, q[0], qd[0])), rows[0])
    assert np.shape(verb(robot, *asked(name, q[:0], qd[:0])))[0] == 0


@pytest.mark.parametrize("name", NAMES)
def test_errors_are_those_of_the_recursions(name: str) -> None:
    robot = fresh(EVERY_JOINT)
    q, qd, _ = moving(robot, 3)
    verb, twin = getattr(dynsys, name), getattr(recursive, name)
    long, infinite = q[0].copy(), q[0].copy()
    long[robot.quaternion_slices[0]] *= 1.1
    infinite[0] = np.inf
    with patch.object(verbs, "FEW", -1):
        verb(robot, *asked(name, q[0], qd[0]))  # machine code is there: it must notice
        for bad in (long, infinite, q[0, 1:]):
            with pytest.raises(StateError) as expected:
                twin(robot, *asked(name, bad, qd[0]))
            with pytest.raises(StateError) as found:
                verb(robot, *asked(name, bad, qd[0]))
            assert str(found.value) == str(expected.value)
        if takes_speeds(name):
            bad = qd[0].copy()
            bad[-1] = np.nan
            with pytest.raises(StateError, match=r"qd\[.*is nan"):
                verb(robot, q[0], bad)


def test_large_robots_are_left_to_the_recursions() -> None:
    robot = dynsys.synthetic.chain(4)
    q = np.zeros((200, 4))
    with patch.object(motion, "MOST_SQUARE", 3):
        C = dynsys.coriolis_matrix(robot, q, q + 1)
    close(C[7], recursive.coriolis_matrix(robot, q[7], q[7] + 1))
    assert robot._kept["coriolis_matrix", False]._code is None


def test_energies_of_one_state_are_numbers_and_no_mass_is_said() -> None:
    robot = dynsys.synthetic.chain(2)
    for _ in range(3):
        assert isinstance(dynsys.kinetic_energy(robot, np.zeros(2), np.ones(2)), float)
        assert isinstance(dynsys.potential_energy(robot, np.zeros(2)), float)
    light = Body("light", -1, Revolute(), Transform.identity(), Inertia.zero(), armature=[1.0])
    weightless = KinematicTree("weightless", [light])
    for _ in range(3):
        with pytest.raises(ModelError, match="has no mass"):
            dynsys.centre_of_mass(weightless, [0.0])
