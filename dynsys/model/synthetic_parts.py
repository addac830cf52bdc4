"""Parts of synthetic robots: inertias, random joints and placements, limbs, given shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.joints import JOINT_TYPES, AbstractJoint, Helical, Revolute
from dynsys.model.quaternion_joints import random_quaternion
from dynsys.model.spatial import Inertia, Transform, quaternion_to_rotation, rotation_about
from dynsys.model.tree import Body, KinematicTree
from dynsys.types import Array

__all__ = [
    "AXES",
    "box_inertia",
    "cloud_inertia",
    "from_parents",
    "limb",
    "random_joint",
    "random_rotation",
    "shifted",
    "twisted",
]

X, Y, Z = "x", "y", "z"
AXES = {X: np.array([1.0, 0, 0]), Y: np.array([0, 1.0, 0]), Z: np.array([0, 0, 1.0])}
_TWISTS = ((0.0, 1.0), (1.0, 0.0), (0.0, -1.0))
"""Cosine and sine of the twists +90, 0, -90 degrees."""


def cloud_inertia(rng: np.random.Generator, scale: float = 1.0) -> Inertia:
    """Inertia of six random point masses: full, physical, 0.5 to 3 kg times ``scale``."""
    mass = scale * rng.uniform(0.5, 3.0)
    com = rng.uniform(-0.05, 0.05, 3)
    points = rng.normal(scale=0.08, size=(6, 3))
    points -= points.mean(axis=0)
    second_moment = points.T @ points * (mass / 6)
    return Inertia(mass, com, np.trace(second_moment) * np.eye(3) - second_moment)


def box_inertia(mass: float, size: Sequence[float], com: Sequence[float]) -> Inertia:
    """Inertia of a solid box with edge lengths ``size`` (3,), centred at ``com`` (3,)."""
    x, y, z = (edge * edge for edge in size)
    return Inertia(mass, np.array(com), mass / 12 * np.diag([y + z, x + z, x + y]))


def random_rotation(rng: np.random.Generator) -> Array:
    """Uniformly distributed coordinate rotation E (3, 3)."""
    return np.asarray(quaternion_to_rotation(random_quaternion(rng)), dtype=np.float64)


def random_joint(kind: str, rng: np.random.Generator) -> AbstractJoint:
    """Joint of the named kind about z (its placement makes that general); random pitch."""
    if kind not in JOINT_TYPES:
        raise ModelError(f"unknown joint type {kind!r}; known: {', '.join(JOINT_TYPES)}")
    return Helical(pitch=rng.uniform(0.05, 0.3)) if kind == "helical" else JOINT_TYPES[kind]()


def twisted(step: int, offset: Sequence[float]) -> Transform:
    """Placement at ``offset`` (3,), turned about x by the twist whose turn it is."""
    cosine, sine = _TWISTS[step % 3]
    return Transform(rotation_about(AXES[X], cosine, sine), np.array(offset))


def shifted(offset: Sequence[float]) -> Transform:
    """Placement at ``offset`` (3,), not turned."""
    return Transform(np.eye(3), np.array(offset))


def limb(
    bodies: list[Body],
    rng: np.random.Generator,
    name: str,
    parent: int,
    axes: Sequence[str],
    root: Sequence[float],
    step: Sequence[float],
) -> int:
    """Append a chain of axis-aligned revolute joints; return the number of its last body."""
    for k, axis in enumerate(axes):
        placement = shifted(root if k == 0 else step)
        joint = Revolute(AXES[axis])
        bodies.append(Body(f"{name}_{k + 1}", parent, joint, placement, cloud_inertia(rng)))
        parent = len(bodies) - 1
    return parent


def from_parents(
    name: str, names: Sequence[str], parents: Sequence[int], seed: int
) -> KinematicTree:
    """Build a robot of the given shape: revolute z joints, aligned frames, siblings apart."""
    rng = np.random.default_rng(seed)
    bodies: list[Body] = []
    children = [0] * len(names)
    for i, (body, parent) in enumerate(zip(names, parents, strict=True)):
        sibling = children[parent] if parent >= 0 else 0
        if parent >= 0:
            children[parent] += 1
        placement = twisted(i, (0.1, -0.2 * sibling, 0.15))
        bodies.append(Body(body, parent, Revolute(), placement, cloud_inertia(rng)))
    return KinematicTree(name, bodies)
