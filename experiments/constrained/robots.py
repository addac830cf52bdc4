"""Mechanisms with loops, and real robots that stand, touch or hold something.

Each comes as a tree of bodies and the constraints that close it; the mechanisms are closed at
their neutral position. Gravity pulls along -z throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from dynsys.model.constraints import MOTIONS, Constraint, FrameConstraint
from dynsys.model.joints import Prismatic, Revolute
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import Body, Frame, KinematicTree
from dynsys.recursive.kinematics import forward_kinematics
from dynsys.types import Array
from experiments.example_robots import load_quietly, robot_path

__all__ = [
    "CASES",
    "FILES",
    "MECHANISMS",
    "Case",
    "five_bar",
    "four_bar",
    "slider_crank",
    "stewart_platform",
]

POINT = ("x", "y", "z")
X, Y, Z = np.eye(3)
HELD_BY_HINGE = ("rx", "rz", "x", "y", "z")
"""All but the rotation about y: the five directions that a hinge about y holds."""


@final
@dataclass(frozen=True, eq=False)
class Case:
    """A robot, what holds it, and how far from neutral its configurations are drawn."""

    robot: KinematicTree
    constraints: tuple[Constraint, ...]
    spread: float = 0.3


def _at(*r: float) -> Transform:
    return Transform(np.eye(3), np.array(r, dtype=np.float64))


def _rod(mass: float, tip: Sequence[float]) -> Inertia:
    """A rod from its origin to ``tip``, a little thick."""
    end = np.array(tip, dtype=np.float64)
    about = mass / 12 * (float(end @ end) * np.eye(3) - np.outer(end, end))
    return Inertia(mass, end / 2, about + 1e-3 * mass * np.eye(3))


def four_bar(components: Sequence[str] = POINT) -> Case:
    """Crank, coupler and rocker in the plane x z; the loop closes at the coupler's tip.

    A point closure leaves one row redundant (y), the hinge's five directions three.
    """
    crank, rocker = (0.3, 0.0, 0.4), (-0.1, 0.0, 0.7)
    coupler = (0.6, 0.0, 0.3)  # from the crank's tip to the rocker's: the base spans 1 m
    bodies = [
        Body("crank", -1, Revolute(Y), inertia=_rod(1.0, crank)),
        Body("coupler", 0, Revolute(Y), _at(*crank), _rod(2.0, coupler)),
        Body("rocker", -1, Revolute(Y), _at(1.0, 0.0, 0.0), _rod(1.5, rocker)),
    ]
    frames = {"pin": Frame(1, _at(*coupler)), "hole": Frame(2, _at(*rocker))}
    held = FrameConstraint("loop", "pin", "hole", tuple(components))
    return Case(KinematicTree("four_bar", bodies, frames), (held,))


def slider_crank() -> Case:
    """Crank, rod and a piston that slides along x."""
    crank, rod = (0.1, 0.0, 0.2), (0.5, 0.0, -0.2)
    bodies = [
        Body("crank", -1, Revolute(Y), inertia=_rod(1.0, crank)),
        Body("rod", 0, Revolute(Y), _at(*crank), _rod(0.5, rod)),
        Body("piston", -1, Prismatic(X), _at(0.6, 0.0, 0.0), _rod(0.7, (0.1, 0.0, 0.0))),
    ]
    held = FrameConstraint("pin", "rod", "piston", POINT, placement=_at(*rod))
    return Case(KinematicTree("slider_crank", bodies), (held,))


def five_bar() -> Case:
    """Two arms of two links in a plane that hold each other at the tip: two freedoms left."""
    bodies: list[Body] = []
    for side, x in (("left", -0.2), ("right", 0.2)):
        first = len(bodies)
        upper, lower = (x, 0.0, 0.4), (-2 * x, 0.0, 0.4)
        bodies += [
            Body(f"{side}_upper", -1, Revolute(Y), _at(x, 0.0, 0.0), _rod(1.0, upper)),
            Body(f"{side}_lower", first, Revolute(Y), _at(*upper), _rod(0.6, lower)),
        ]
    tips = [_at(0.4, 0.0, 0.4), _at(-0.4, 0.0, 0.4)]
    held = FrameConstraint(
        "tip", "left_lower", "right_lower", POINT, placement=tips[0], other_placement=tips[1]
    )
    return Case(KinematicTree("five_bar", bodies), (held,))


def _towards(direction: Array) -> Array:
    """Rotation whose third row is a direction: coordinates of a frame with z along it."""
    z = direction / np.linalg.norm(direction)
    x = np.cross(Y, z) / np.linalg.norm(np.cross(Y, z))
    return np.array([x, np.cross(z, x), z])


def stewart_platform() -> Case:
    """Six legs (universal, sliding, ball) under a platform, which the first leg carries.

    The other five end in balls that close loops: 21 freedoms, 15 rows, 6 left.
    """
    angles = np.deg2rad([10, 110, 130, 230, 250, 350])
    over = np.deg2rad([50, 70, 170, 190, 290, 310])
    feet = np.array([0.6 * np.cos(angles), 0.6 * np.sin(angles), 0 * angles]).T
    eyes = np.array([0.35 * np.cos(over), 0.35 * np.sin(over), 0 * over]).T
    height = np.array([0.0, 0.0, 0.8])
    bodies: list[Body] = []
    held: list[Constraint] = []
    small = Inertia(0.2, np.zeros(3), 0.002 * np.eye(3))
    length, platform = np.zeros(6), -1
    for k, (foot, eye) in enumerate(zip(feet, eyes, strict=True)):
        way, E = eye + height - foot, _towards(eye + height - foot)
        length[k] = float(np.linalg.norm(way))
        first = len(bodies)
        bodies += [
            Body(f"yoke_{k}", -1, Revolute(X), Transform(E, foot), small),
            Body(f"tube_{k}", first, Revolute(Y), inertia=_rod(1.0, (0.0, 0.0, 0.4))),
            Body(f"rod_{k}", first + 1, Prismatic(Z), _at(0.0, 0.0, length[k]),
                 _rod(0.5, (0.0, 0.0, -0.4))),
        ]  # fmt: skip
        if k == 0:  # the ball of the first leg as three hinges, then the platform level again
            bodies += [
                Body("ball_x", first + 2, Revolute(X), inertia=small),
                Body("ball_y", first + 3, Revolute(Y), inertia=small),
                Body(
                    "platform",
                    first + 4,
                    Revolute(E @ Z),
                    inertia=Inertia(4.0, E @ -eye, E @ np.diag([0.2, 0.2, 0.4]) @ E.T),
                ),
            ]
            platform, turned, own = len(bodies) - 1, E, eye
            continue
        at = Transform(E @ turned.T, turned @ (eye - own))
        ball = FrameConstraint(f"ball_{k}", f"rod_{k}", platform, POINT, other_placement=at)
        held.append(ball)
    return Case(KinematicTree("stewart_platform", bodies), tuple(held), 0.15)


MECHANISMS: Mapping[str, Callable[[], Case]] = {
    "four_bar": four_bar,
    "slider_crank": slider_crank,
    "five_bar": five_bar,
    "stewart_platform": stewart_platform,
}


FILES: Mapping[str, tuple[str, bool]] = {
    "talos": ("talos_data/robots/talos_full_v2.urdf", True),
    "icub": ("icub_description/robots/icub.urdf", True),
    "g1": ("g1_description/urdf/g1_29dof_rev_1_0.urdf", True),
    "solo12": ("solo_description/robots/solo12.urdf", True),
    "anymal": ("anymal_b_simple_description/robots/anymal.urdf", True),
    "panda": ("panda_description/urdf/panda.urdf", False),
    "baxter": ("baxter_description/urdf/baxter.urdf", False),
}
"""Real robots: path below the robots folder, floating base."""

HELD: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "talos": dict.fromkeys(("leg_left_6_link", "leg_right_6_link"), MOTIONS),
    "icub": dict.fromkeys(("l_foot", "r_foot"), MOTIONS),
    "g1": {
        **dict.fromkeys(("left_ankle_roll_link", "right_ankle_roll_link"), MOTIONS),
        "left_rubber_hand": POINT,
    },
    "solo12": dict.fromkeys(("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"), POINT),
    "anymal": dict.fromkeys(("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"), POINT),
    "panda": {"panda_hand": POINT},
}
"""Frames that the environment holds, and in which directions."""


def _standing(name: str) -> Case:
    """A real robot whose feet, or hand, are held."""
    robot = load_quietly(robot_path(FILES[name][0]), FILES[name][1])
    held = [FrameConstraint(f, f, components=parts) for f, parts in HELD[name].items()]
    return Case(robot, tuple(held), 0.7)


def _baxter() -> Case:
    """Both hands of baxter on one rigid thing: a loop of six directions."""
    robot = load_quietly(robot_path(FILES["baxter"][0]), False)
    hands = "left_hand_link", "right_hand_link"
    left, right = (forward_kinematics(robot, robot.neutral(), hand) for hand in hands)
    held = FrameConstraint("box", *hands, other_placement=right.inverse().then(left))
    return Case(robot, (held,), 0.3)


CASES: Mapping[str, Callable[[], Case]] = {
    **MECHANISMS,
    **{name: partial(_standing, name) for name in HELD},
    "baxter": _baxter,
}
