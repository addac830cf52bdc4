"""What a tree refuses, one case per failure mode, and how it says so."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dynsys import KinematicTree, ModelError, StateError
from dynsys.errors import nearest_name
from dynsys.model.joints import Revolute
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import Body, Coupling, Frame
from tests.model.test_tree import arm
from tests.robots import CHAIN


def inertia(moments: list[float], mass: float = 1.0) -> Inertia:
    return Inertia(mass, np.zeros(3), np.diag(moments))


LEFT_HANDED = Transform(np.diag([1.0, 1.0, -1.0]), np.zeros(3))
SHEARED = Transform(np.eye(3) + 0.1 * np.eye(3, k=1), np.zeros(3))
NOWHERE = Transform(np.eye(3), np.array([np.inf, 0.0, 0.0]))
LOPSIDED = Inertia(1.0, np.zeros(3), np.eye(3) + np.triu(np.ones((3, 3)), 1) * 0.1)
HARDLY_LOPSIDED = Inertia(1.0, np.zeros(3), np.eye(3) + 1e-7 * np.eye(3, k=1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parent": 1}, "parent 1 must be -1 (the base) or a body before it (0..0); a loop"),
        ({"parent": -2}, "parent -2 must be -1"),
        ({"joint": "revolute"}, "joint must be a joint model, got 'revolute'"),
        ({"placement": LEFT_HANDED}, "not a rotation matrix"),
        ({"placement": SHEARED}, "not a rotation matrix"),
        ({"placement": NOWHERE}, "placement has entries that are not finite"),
        ({"placement": Transform(np.eye(2), np.zeros(3))}, "placement must hold E (3, 3)"),
        ({"inertia": Inertia(-1.0, np.zeros(3), np.eye(3))}, "negative mass -1 kg"),
        ({"inertia": Inertia(np.nan, np.zeros(3), np.eye(3))}, "not finite"),
        ({"inertia": Inertia(1.0, np.array([0, np.inf, 0]), np.eye(3))}, "not finite"),
        ({"inertia": Inertia(1.0, np.zeros(2), np.eye(3))}, "centre of mass must be 3 numbers"),
        ({"inertia": Inertia(1.0, np.zeros(3), np.eye(2))}, "rotational inertia 3 x 3"),
        ({"inertia": inertia([1.0, np.nan, 1.0])}, "entries that are not finite"),
        ({"inertia": LOPSIDED}, "not symmetric"),
        ({"inertia": HARDLY_LOPSIDED}, "not symmetric"),
        (
            {"inertia": inertia([1.0, 1.0, -0.5])},
            "not positive definite (principal moment -0.5)",
        ),
        ({"inertia": inertia([1.0, 2.0, 5.0])}, "1, 2, 5 break the triangle inequality"),
        ({"armature": [0.1, 0.2]}, "armature must be 1 numbers"),
        ({"armature": -0.1}, "armature must not be negative"),
        ({"damping": np.nan}, "damping must be 1 numbers"),
        ({"friction": [-1.0]}, "friction must not be negative"),
        ({"effort_limit": [1.0, 1.0]}, "effort_limit must be 1 numbers"),
        ({"velocity_limit": [-1.0]}, "velocity_limit must not be negative"),
        ({"lower": [1.0], "upper": [0.0]}, "above upper"),
        ({"coupling": Coupling(1, 1.0, 0.0)}, "its joint follows joint 1, which is none"),
        ({"coupling": Coupling(7, 1.0, 0.0)}, "its joint follows joint 7, which is none"),
        ({"coupling": Coupling(0, 1.0, 0.0)}, "only joints of one freedom can be coupled"),
    ],
)
def test_bad_body_is_named(changes: dict[str, object], message: str) -> None:
    expected = "robot 'arm', body 'elbow': .*" + re.escape(message)
    with pytest.raises(ModelError, match=expected):
        arm(**changes)


def test_numbers_that_are_none_are_refused_when_the_body_is_made() -> None:
    with pytest.raises(ModelError, match="body 'elbow': armature is not numeric"):
        arm(armature="much")


def test_robot_without_bodies_is_refused() -> None:
    with pytest.raises(ModelError, match="robot 'void' has no moving body"):
        KinematicTree("void", [])


def test_repeated_names_are_refused() -> None:
    with pytest.raises(ModelError, match="body name 'shoulder' is used twice"):
        arm(name="shoulder")
    with pytest.raises(ModelError, match="joint name 'shoulder' is used twice"):
        arm(joint_name="shoulder")


@pytest.mark.parametrize("gravity", [(0.0, -9.81), (0.0, 0.0, np.nan), "down"])
def test_bad_gravity_is_refused(gravity: object) -> None:
    with pytest.raises(ModelError, match="gravity must be 3 finite numbers"):
        KinematicTree("arm", arm().bodies, gravity=gravity)  # type: ignore[arg-type]


def test_frame_on_no_body_is_refused() -> None:
    with pytest.raises(ModelError, match="frame 'tip' sits on body 2; bodies are"):
        KinematicTree("arm", arm().bodies, frames={"tip": Frame(2, Transform.identity())})
    with pytest.raises(ModelError, match="frame 'tip': the rotation of its placement"):
        KinematicTree("arm", arm().bodies, frames={"tip": Frame(1, LEFT_HANDED)})


def test_chain_of_couplings_is_refused() -> None:
    bodies = [
        Body("a", -1, Revolute()),
        Body("b", 0, Revolute(), coupling=Coupling(0, 1.0, 0.0)),
        Body("c", 1, Revolute(), coupling=Coupling(1, 1.0, 0.0)),
    ]
    with pytest.raises(ModelError, match="body 'c': its joint follows 'b', which follows"):
        KinematicTree("gears", bodies)


def test_coupling_that_is_not_finite_is_refused() -> None:
    bodies = [
        Body("a", -1, Revolute()),
        Body("b", 0, Revolute(), coupling=Coupling(0, np.inf, 0.0)),
    ]
    with pytest.raises(ModelError, match="ratio and offset must be finite"):
        KinematicTree("gears", bodies)


@pytest.mark.parametrize("moments", [[1.0, 2.0, 5.0], [1.0, 2.0, -5.0], [1e-3, 1e-3, -1e-8]])
def test_unphysical_inertia_is_accepted_on_request(moments: list[float]) -> None:
    bodies = [Body("a", -1, Revolute(), inertia=inertia(moments))]
    assert KinematicTree("odd", bodies, physical=False).n_bodies == 1
    with pytest.raises(ModelError, match="physical=False accepts it"):
        KinematicTree("odd", bodies)


@pytest.mark.parametrize("wrong", [inertia([1.0, np.nan, 1.0]), LOPSIDED])
def test_what_is_no_inertia_at_all_is_never_accepted(wrong: Inertia) -> None:
    with pytest.raises(ModelError):
        KinematicTree("odd", [Body("a", -1, Revolute(), inertia=wrong)], physical=False)


def test_massless_body_and_rounded_triangle_are_accepted() -> None:
    assert arm(inertia=Inertia.zero()).total_mass == 1.0
    assert arm(inertia=inertia([1.0, 1.0, 2.0005])).n_bodies == 2


def test_one_name_is_proposed_the_nearest() -> None:
    assert nearest_name("elbow", ["elbow_1", "elbows", "knee"]) == "; did you mean 'elbows'?"
    assert nearest_name("elbow", ["knee"]) == ""


@pytest.mark.finding("T-9")
def test_complex_numbers_are_no_state() -> None:
    with pytest.raises(StateError, match="complex"):
        CHAIN.check_q(np.array([1j, 0.0]))
