"""Hypothesis strategies: random robots with every joint type mixed, and states for them.

Structure (sizes, parents, kinds) is drawn choice by choice, so that failures shrink to few
bodies and simple joints; numbers (frames, inertias, positions) come from a drawn seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from dynsys import KinematicTree
from dynsys.model.joints import JOINT_TYPES, AbstractJoint, Helical
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.synthetic import cloud_inertia, random_rotation
from dynsys.model.tree import Body, Coupling
from dynsys.types import Array

__all__ = [
    "ALL_KINDS",
    "State",
    "joints",
    "motions",
    "quarter_turns",
    "seeds",
    "states",
    "trees",
]

ALL_KINDS = tuple(JOINT_TYPES)
ONE_FREEDOM = ("revolute", "prismatic", "helical")
seeds = st.integers(0, 2**32 - 1)


def _aligned_rotation(rng: np.random.Generator) -> Array:
    """Return one of the 24 rotations that map frame axes to frame axes; entries 0 and +-1."""
    group = Rotation.create_group("O").as_matrix()
    return np.asarray(np.rint(group[rng.integers(len(group))]), dtype=np.float64)


def _axis(style: str, rng: np.random.Generator) -> Array:
    if style == "aligned":
        return np.asarray(np.eye(3)[rng.integers(3)] * rng.choice([-1.0, 1.0]))
    axis = rng.normal(size=3)
    if style == "in a plane":
        axis[rng.integers(3)] = 0.0
    return np.asarray(axis)


def _make_joint(kind: str, style: str, rng: np.random.Generator) -> AbstractJoint:
    axis = _axis(style, rng)
    if kind == "helical":
        return Helical(axis, rng.choice([0.0, -0.2, 0.1]))
    if kind in ("revolute", "prismatic", "cylindrical", "planar"):
        return JOINT_TYPES[kind](axis)  # type: ignore[call-arg]
    return JOINT_TYPES[kind]()


def _make_placement(style: str, rng: np.random.Generator) -> Transform:
    if style == "identity":
        return Transform.identity()
    if style == "aligned":
        return Transform(_aligned_rotation(rng), rng.choice([0.0, 0.25, -0.5], 3))
    return Transform(random_rotation(rng), rng.uniform(-0.5, 0.5, 3))


@st.composite
def joints(draw: st.DrawFn, kinds: Sequence[str] = ALL_KINDS) -> AbstractJoint:
    """Draw a joint of any kind about an axis of the frame, in one of its planes, or generic."""
    kind = draw(st.sampled_from(kinds))
    style = draw(st.sampled_from(("aligned", "in a plane", "generic")))
    return _make_joint(kind, style, np.random.default_rng(draw(seeds)))


@st.composite
def trees(
    draw: st.DrawFn,
    max_bodies: int = 8,
    joint_types: Sequence[str] = ALL_KINDS,
    coupled: bool = False,
) -> KinematicTree:
    """Draw a robot with joints of the given kinds anywhere, at least one of them moving.

    Every body has a positive definite inertia, but one on a fixed joint may be massless; H is
    positive definite. ``coupled`` lets joints of one freedom follow others (mimic).
    """
    n = draw(st.integers(1, max_bodies))
    kinds = [draw(st.sampled_from(joint_types)) for _ in range(n)]
    if all(kind == "fixed" for kind in kinds):
        kinds[0] = next(kind for kind in (*joint_types, "revolute") if kind != "fixed")
    parents = [draw(st.integers(-1, i - 1)) for i in range(n)]
    styles = [draw(st.sampled_from(("identity", "aligned", "generic"))) for _ in range(n)]
    axes = [draw(st.sampled_from(("aligned", "in a plane", "generic"))) for _ in range(n)]
    with_armature = draw(st.booleans())
    couplings = _draw_couplings(draw, kinds) if coupled else {}
    rng = np.random.default_rng(draw(seeds))
    bodies = []
    for i, kind in enumerate(kinds):
        joint = _make_joint(kind, axes[i], rng)
        massless = kind == "fixed" and rng.random() < 0.5
        bodies.append(
            Body(
                f"body_{i}",
                parents[i],
                joint,
                _make_placement(styles[i], rng),
                Inertia.zero() if massless else cloud_inertia(rng),
                joint_name=f"joint_{i}",
                armature=rng.uniform(0.0, 0.5, joint.nv) if with_armature else None,
                coupling=couplings.get(i),
            )
        )
    return KinematicTree("drawn", bodies, gravity=rng.uniform(-10.0, 10.0, 3))


def _draw_couplings(draw: st.DrawFn, kinds: Sequence[str]) -> dict[int, Coupling]:
    single = [i for i, kind in enumerate(kinds) if kind in ONE_FREEDOM]
    if len(single) < 2:
        return {}
    leader = draw(st.sampled_from(single))
    followers = draw(st.lists(st.sampled_from(single), unique=True, max_size=3))
    ratio = draw(st.sampled_from((1.0, -1.0, 0.5, 2.5)))
    offset = draw(st.sampled_from((0.0, 0.3, np.pi / 2)))
    return {i: Coupling(leader, ratio, offset) for i in followers if i != leader}


def quarter_turns(robot: KinematicTree, rng: np.random.Generator) -> Array:
    """Draw a q (nq,) where entries of transforms vanish: quarter turns, distances 0, +-0.5."""
    q: Array = rng.integers(-4, 5, robot.nq).astype(np.float64) * (np.pi / 2)
    for where, joint in zip(robot.q_slices(), robot.joints, strict=True):
        if joint.kind in ("spherical", "free"):
            elements = Rotation.create_group("O").as_quat()
            q[where.stop - 4 : where.stop] = elements[rng.integers(len(elements))]
        distances = {
            "prismatic": slice(where.start, where.stop),
            "cylindrical": slice(where.start + 1, where.stop),
            "planar": slice(where.start + 1, where.stop),
            "free": slice(where.start, where.start + 3),
        }.get(joint.kind)
        if distances is not None:
            q[distances] = rng.choice([0.0, 0.5, -0.5], distances.stop - distances.start)
    return q


@st.composite
def motions(draw: st.DrawFn, robot: KinematicTree) -> tuple[Array, Array, Array]:
    """Draw q (neutral, quarter turns or random), qd and qdd (zero or random) for a robot."""
    position = draw(st.sampled_from(("neutral", "quarter turns", "random")))
    moving, accelerating = draw(st.booleans()), draw(st.booleans())
    rng = np.random.default_rng(draw(seeds))
    q = {
        "neutral": lambda: robot.neutral(),
        "quarter turns": lambda: quarter_turns(robot, rng),
        "random": lambda: robot.random_configuration(rng),
    }[position]()
    qd, qdd = rng.normal(size=robot.nv), rng.normal(size=robot.nv)
    return q, qd * moving, qdd * accelerating


class State(NamedTuple):
    """A robot in motion; ``f_ext`` (n_bodies, 6) pushes its bodies, unless it is None."""

    robot: KinematicTree
    q: Array
    qd: Array
    qdd: Array
    f_ext: Array | None


@st.composite
def states(draw: st.DrawFn, max_bodies: int = 8, coupled: bool = True) -> State:
    """Draw a robot of :func:`trees`, a motion of :func:`motions` and external wrenches."""
    robot = draw(trees(max_bodies, coupled=coupled))
    q, qd, qdd = draw(motions(robot))
    f_ext = None
    if draw(st.booleans()):
        rng = np.random.default_rng(draw(seeds))
        f_ext = np.asarray(rng.normal(scale=5.0, size=(robot.n_bodies, 6)))
    return State(robot, q, qd, qdd, f_ext)
