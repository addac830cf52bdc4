"""Parameters by name, robots made from them, and the law of friction at a joint."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose

import dynsys
from dynsys import KinematicTree, ModelError
from dynsys.model.body import Body, Coupling, Frame
from dynsys.model.joints import Free, Prismatic, Revolute, Spherical
from dynsys.model.parameters import (
    BODY_PARAMETERS,
    friction_torque,
    inertia_of,
    inertial_values,
)
from dynsys.model.spatial import Inertia, Transform
from dynsys.program.graph import Graph
from dynsys.types import Array
from tests import strategies

ROD = Inertia(2.0, np.array([0.1, -0.2, 0.3]), np.diag([0.05, 0.06, 0.04]))


def robot() -> KinematicTree:
    bodies = [
        Body("base", -1, Free(), inertia=ROD, joint_name="root"),
        Body("a.b", 0, Revolute(), inertia=ROD, joint_name="j.1", damping=0.3, friction=0.7),
        Body(
            "c", 1, Prismatic(), inertia=ROD, joint_name="j2", coupling=Coupling(1, -2.0, 0.1)
        ),
        Body("ball", 1, Spherical(), inertia=ROD, armature=[0.1, 0.2, 0.3]),
    ]
    frames = {"tool": Frame(2, Transform.identity()), "floor": Frame(-1, Transform.identity())}
    return KinematicTree("test", bodies, frames)


def test_names_come_in_the_order_of_bodies_then_joints() -> None:
    names = list(robot().parameters)
    assert names[:10] == [f"base.{kind}" for kind in BODY_PARAMETERS]
    assert names[10] == "a.b.mass"
    of_joint = ("viscous", "coulomb", "armature", "offset")
    assert names[40:] == [
        *(f"j.1.{kind}" for kind in of_joint),
        *(f"j2.{kind}" for kind in of_joint),
        *(f"ball.{kind}[{k}]" for kind in of_joint for k in range(3)),
    ]
    values = robot().parameters
    assert values["j.1.viscous"] == 0.3
    assert values["j.1.coulomb"] == 0.7
    assert values["ball.armature[2]"] == 0.3
    with pytest.raises(TypeError):
        values["base.mass"] = 1.0  # type: ignore[index]


def test_the_ten_are_about_the_origin() -> None:
    m, (x, y, z) = 2.0, ROD.com
    ten = inertial_values(ROD)
    assert_allclose(ten[:4], [m, m * x, m * y, m * z])
    assert_allclose(ten[4], 0.05 + m * (y * y + z * z))
    assert_allclose(ten[5], -m * x * y)
    assert_allclose(ten[8], -m * y * z)
    again = inertia_of(ten)
    assert_allclose(again.com, ROD.com, rtol=1e-15)
    assert_allclose(again.about_com, ROD.about_com, atol=1e-16)
    point = inertia_of(
        inertial_values(Inertia(0.7, np.array([0.13, 0.7, -0.31]), np.zeros((3, 3))))
    )
    assert (point.about_com == point.about_com.T).all()


@given(strategies.trees(coupled=True), strategies.seeds)
def test_values_that_are_set_are_read_back_and_the_rest_stays(
    tree: KinematicTree, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    names = list(tree.parameters)
    chosen = [names[k] for k in rng.choice(len(names), min(len(names), 8), replace=False)]
    values = {n: float(rng.uniform(0.1, 2.0)) for n in chosen if not n.endswith("mass")}
    values |= {f"{n[:-3]}.mass": 1.5 for n in chosen if n[-3:] in (".mx", ".my", ".mz")}
    changed = tree.with_parameters(values, physical=False)
    touched = {tree.parameter(name).body for name in values}
    for i, (old, new) in enumerate(zip(tree.bodies, changed.bodies, strict=True)):
        assert (i in touched) == (old is not new)
    for name, value in {**tree.parameters, **values}.items():
        assert_allclose(changed.parameters[name], value, rtol=1e-12, atol=1e-13)
    again = pickle.loads(pickle.dumps(changed))
    assert again.parameters == changed.parameters
    assert again.smoothing == changed.smoothing


def test_friction_among_the_values_makes_it_part_of_the_equations() -> None:
    plain = robot()
    assert plain.smoothing is None
    assert plain.with_parameters({"a.b.mass": 3.0, "j.1.armature": 0.2}).smoothing is None
    for kind in ("viscous", "coulomb", "coulomb_minus", "offset"):
        assert plain.with_parameters({f"j2.{kind}": 0.5}).smoothing == 0.01
    fine = plain.with_friction(smoothing=0.002).with_parameters({"j2.viscous": 0.5})
    assert fine.smoothing == 0.002
    assert fine.with_friction(False).joint_friction is None
    assert fine.with_gravity((0, 0, 0)).smoothing == 0.002


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.b.mas", "no parameter 'a.b.mas'; did you mean 'a.b.mass'?"),
        ("j1.viscous", "no parameter 'j1.viscous'; did you mean 'j.1.viscous'?"),
        ("ball.viscous", "no parameter 'ball.viscous'; did you mean 'ball.viscous["),
        ("ball.viscous[3]", "no parameter 'ball.viscous[3]'"),
        ("j2.viscous[0]", "did you mean 'j2.viscous'?"),
        ("tool.mass", "'tool' is a part of body 'c' and has no mass of its own; name c.mass"),
        ("floor.mass", "'floor' is a part of the fixed base"),
        ("mass", "no parameter 'mass'"),
    ],
)
def test_wrong_names_are_answered_with_the_nearest(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=re.escape(message)):
        robot().with_parameters({name: 1.0})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param(
            {"c.mass": 0.0},
            r"robot 'test', body 'c': first moment \[[-+.\de, ]+\] kg m of no mass",
            marks=pytest.mark.finding("F9"),
        ),
        ({"c.mass": -1.0}, "body 'c': negative mass"),
        ({"c.mass": np.nan}, "body 'c': mass nan"),
        ({"c.Ixx": 0.0}, "body 'c': rotational inertia is not positive definite"),
        ({"j2.viscous": -1.0}, "body 'c': damping must not be negative"),
        ({"j2.coulomb_minus": -1.0}, "body 'c': friction_minus must not be negative"),
        ({"j2.offset": np.nan}, "body 'c': offset must be 1 numbers"),
    ],
)
def test_what_no_robot_has_is_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        robot().with_parameters(values)


def test_physical_false_accepts_what_a_fit_may_find() -> None:
    values = {"c.Ixx": 0.0, "j2.viscous": -0.1, "j2.coulomb": -0.2, "j2.armature": -0.3}
    odd = robot().with_parameters(values, physical=False)
    assert_allclose(
        [odd.parameters[name] for name in values], list(values.values()), atol=1e-15
    )
    with pytest.raises(ModelError, match="smoothing"):
        robot().with_friction(smoothing=0.0)


# ---- friction ------------------------------------------------------------------------------


def test_friction_at_high_and_at_no_speed() -> None:
    fast = np.array([-50.0, 0.0, 50.0])
    assert_allclose(friction_torque(fast, 0.1, 2.0, 2.0, 0.5, 1e-4), [-6.5, 0.5, 7.5])
    assert_allclose(friction_torque(fast, 0.0, 2.0, 3.0, 0.0, 1e-4), [-3.0, 0.0, 2.0])
    assert_allclose(friction_torque(0.3, 0.0, 5.0, 5.0, 0.0, 0.4), 3.0)


def test_friction_of_a_follower_counts_at_its_leader_by_its_own_speed() -> None:
    values = {"j.1.viscous": 0.3, "j.1.coulomb": 0.7, "j.1.offset": 0.2}
    values |= {"j2.viscous": 0.5, "j2.coulomb": 1.5, "j2.coulomb_minus": 2.5, "j2.offset": 0.4}
    values |= {"ball.viscous[1]": 4.0}
    tree = robot().with_parameters(values)
    qd = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.013, 0.1, 0.2, 0.3])
    v, e = 0.013, 0.01
    s, t = v / np.hypot(v, e), -2 * v / np.hypot(2 * v, e)
    follower = 0.5 * (-2 * v) + 1.5 * (t + t * t) / 2 + 2.5 * (t - t * t) / 2 + 0.4
    expected = np.zeros(10)
    expected[6] = 0.3 * v + 0.7 * s + 0.2 - 2.0 * follower
    expected[8] = 4.0 * 0.2
    assert_allclose(tree.friction_torque(qd), expected, rtol=1e-14)
    batch = tree.joint_friction.torque(np.array([qd, 2 * qd]))  # type: ignore[union-attr]
    assert_allclose(batch[0], expected, rtol=1e-14)
    assert_allclose(batch[1], tree.friction_torque(2 * qd), rtol=1e-14)
    assert not tree.with_friction(False).friction_torque(qd).any()


def test_friction_is_recorded_on_the_expression_graph() -> None:
    tree = dynsys.synthetic.chain(3).with_parameters({"link_2.coulomb": 0.5})
    graph = Graph()
    qd = graph.inputs(3)
    program = graph.program(list(tree.friction_torque(qd)))
    states: Array = np.random.default_rng(0).normal(size=(4, 3))
    assert_allclose(program.evaluate(states), [tree.friction_torque(v) for v in states])
