"""The robots of the comparison: the same one in dynsys and in Pinocchio, with random states."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dynsys.errors import ModelError, ModelWarning
from dynsys.interop import PinocchioMap, from_pinocchio
from dynsys.model import synthetic
from dynsys.model.joints import Free, Prismatic, Revolute
from dynsys.model.tree import KinematicTree
from dynsys.types import Array
from experiments.example_robots import load_quietly, pinocchio_model_of, robot_path
from problems.report.timing import pinocchio_model

__all__ = ["ROBOTS", "PeerRobot", "States", "peer_robot", "robot_file", "to_pinocchio"]

_FILES: dict[str, tuple[str, bool]] = {
    "ur5": ("ur_description/urdf/ur5_robot.urdf", False),
    "panda": ("panda_description/urdf/panda.urdf", False),
    "solo12": ("solo_description/robots/solo12.urdf", True),
    "icub": ("icub_description/robots/icub.urdf", True),
    "talos": ("talos_data/robots/talos_full_v2.urdf", True),
}
"""File below the robots folder of example-robot-data, floating base."""

_SYNTHETIC: dict[str, Callable[[], KinematicTree]] = {
    "humanoid30": synthetic.humanoid30,
    "chain30": lambda: synthetic.chain(30),
    "chain30_generic": lambda: synthetic.chain(30, generic=True),
}

ROBOTS = (
    "ur5",
    "panda",
    "solo12",
    "humanoid30",
    "icub",
    "talos",
    "chain30",
    "chain30_generic",
)


@final
@dataclass(frozen=True, eq=False)
class States:
    """Random states, one per row, in one library's order; ``x`` of ID is qdd, of FD torque."""

    q: Array
    v: Array
    qdd: Array
    torque: Array

    def __len__(self) -> int:
        return len(self.q)

    def __getitem__(self, rows: slice) -> States:
        return States(self.q[rows], self.v[rows], self.qdd[rows], self.torque[rows])


@final
@dataclass(frozen=True, eq=False)
class PeerRobot:
    """One robot as both libraries see it; ``order`` converts between the two."""

    name: str
    robot: KinematicTree
    model: Any
    order: PinocchioMap

    def states(self, count: int, seed: int = 1) -> States:
        """Random states of dynsys: angles anywhere, speeds, accelerations, torques in +-1."""
        rng = np.random.default_rng(seed)
        unlimited = _turning_freely(self.robot)
        q = np.array([unlimited(rng) for _ in range(count)])
        v, qdd, torque = rng.uniform(-1.0, 1.0, (3, count, self.robot.nv))
        return States(q, v, qdd, torque)

    def to_pinocchio(self, states: States) -> States:
        """Return the same states in Pinocchio's order."""
        order = self.order
        return States(
            np.ascontiguousarray(order.q_to_pin(states.q)),
            np.ascontiguousarray(order.v_to_pin(states.v)),
            np.ascontiguousarray(order.v_to_pin(states.qdd)),
            np.ascontiguousarray(order.tau_to_pin(states.torque)),
        )

    def from_pinocchio(self, task: str, result: Array) -> Array:
        """Return a result of Pinocchio, (n, nv) or (n, nv, nv), in dynsys order."""
        order = self.order
        if task == "ID":
            return order.tau_from_pin(result)
        if task == "FD":
            return order.v_from_pin(result)
        half = order.v_from_pin(result)
        return order.v_from_pin(half.transpose(0, 2, 1)).transpose(0, 2, 1)


def _turning_freely(robot: KinematicTree) -> Callable[[np.random.Generator], Array]:
    """Draw q without regard to limits, so that every joint is seen at every angle."""
    places = [
        (body.joint, where)
        for body, where in zip(robot.bodies, robot.q_slices(), strict=True)
        if body.coupling is None
    ]

    def draw(rng: np.random.Generator) -> Array:
        q = np.zeros(robot.nq)
        for joint, where in places:
            bound = np.full(joint.nq, np.pi if isinstance(joint, Revolute) else 1.0)
            q[where] = joint.random(rng, -bound, bound)
        return q

    return draw


def peer_robot(name: str) -> PeerRobot:
    """Return the named robot; real ones are read by each library's own URDF reader.

    Raises
    ------
    ModelError
        if there is no robot of that name.
    """
    if name in _SYNTHETIC:
        robot = _SYNTHETIC[name]()
        model = to_pinocchio(robot)
    elif name in _FILES:
        relative, floating = _FILES[name]
        path = robot_path(relative)
        robot, model = load_quietly(path, floating), pinocchio_model_of(path, floating)
    else:
        raise ModelError(f"no robot {name!r} in the comparison; there are {', '.join(ROBOTS)}")
    return PeerRobot(name, robot, model, PinocchioMap(robot, model))


# ---- dynsys -> Pinocchio ----------------------------------------------------------------


def to_pinocchio(robot: KinematicTree) -> Any:
    """``pinocchio.Model`` with the joints, frames and inertias of ``robot``, in its order."""
    for body, name in zip(robot.bodies, robot.joint_names, strict=True):
        if not isinstance(body.joint, (Free, Revolute, Prismatic)):
            raise ModelError(
                f"joint {name!r}: {body.joint.kind} joints are not in the comparison"
            )
    found = pinocchio_model(robot)
    if found is None:
        raise ModelError(f"robot {robot.name!r}: Pinocchio has no twin of a joint")
    return found[1]


# ---- text for the C++ programs ----------------------------------------------------------


def robot_file(model: Any) -> str:
    """Text of a ``pinocchio.Model`` that ``cpp/robot_file.hpp`` reads, in its order.

    Raises
    ------
    ModelError
        for joints other than free, revolute, prismatic, and for rotor inertias.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        robot = from_pinocchio(model)
    if np.any(robot.armature):
        raise ModelError(f"robot {robot.name!r} has rotor inertias; the C++ programs have none")
    lines = []
    for body in robot.bodies:
        joint, inertia = body.joint, body.inertia
        if not isinstance(joint, (Free, Revolute, Prismatic)):
            raise ModelError(f"joint {body.joint_name!r}: no {joint.kind} joints in C++")
        numbers = np.concatenate(
            [
                np.zeros(3) if isinstance(joint, Free) else joint.axis,
                body.placement.E.T.ravel(),
                body.placement.r,
                [inertia.mass],
                inertia.com,
                inertia.about_com.ravel(),
            ]
        )
        text = " ".join(f"{x:.17g}" for x in numbers)
        lines.append(f"{joint.kind} {body.parent + 1} {text}")
    return "\n".join(lines) + "\n"
