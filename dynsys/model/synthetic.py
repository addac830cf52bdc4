"""Robots made by formula: fixtures for tests, benchmarks and the papers' examples.

Every robot is deterministic for its arguments and physical: inertias are those of clouds of
point masses or of solid bodies. Joint and body share a name; a floating base's joint is "root".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.joints import (
    JOINT_TYPES,
    AbstractJoint,
    Free,
    Helical,
    Revolute,
    Spherical,
    random_quaternion,
)
from dynsys.model.spatial import Inertia, Transform, quaternion_to_rotation, rotation_about
from dynsys.model.tree import Body, KinematicTree
from dynsys.types import Array

__all__ = [
    "asimo",
    "auto_tree",
    "balanced_tree",
    "centipede",
    "chain",
    "humanoid30",
    "random_tree",
    "side_branches",
    "spanning_grid",
]

X, Y, Z = "x", "y", "z"
AXES = {X: np.array([1.0, 0, 0]), Y: np.array([0, 1.0, 0]), Z: np.array([0, 0, 1.0])}
_TWISTS = ((0.0, 1.0), (1.0, 0.0), (0.0, -1.0))
"""Cosine and sine of the twists +90, 0, -90 degrees."""

# ---- parts: inertias, random joints and placements, limbs, given shapes ------------------


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


# ---- robots --------------------------------------------------------------------------------

_LEG = (Z, X, Y, Y, Y, X)
_ARM = (Y, X, Z, Y, Z, Y, X)


def _whole(robot: str, what: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ModelError(f"{robot}: {what} must be a whole number >= 1, got {value!r}")
    return int(value)


def chain(n: int, generic: bool = False, seed: int = 0) -> KinematicTree:
    """Unbranched chain of n revolute joints on a fixed base.

    By default frames are aligned as Denavit and Hartenberg would: z axes, twists cycling
    through +90, 0 and -90 degrees, offsets along x and z. ``generic`` instead gives every joint
    a random rotation and offset, so that no entry of a transform is constant. Inertias are
    general in both.

    Examples
    --------
    >>> chain(3)
    KinematicTree('chain3', n_bodies=3, nq=3, nv=3)
    """
    n = _whole("chain", "n", n)
    rng = np.random.default_rng(seed)
    bodies = []
    for i in range(n):
        inertia = cloud_inertia(rng)
        if generic:
            placement = Transform(random_rotation(rng), rng.uniform(-0.3, 0.3, 3))
        else:
            placement = twisted(i, (0.1, 0.0, 0.15))
        bodies.append(Body(f"link_{i + 1}", i - 1, Revolute(), placement, inertia))
    return KinematicTree(f"chain{n}" + ("_generic" if generic else ""), bodies)


def humanoid30() -> KinematicTree:
    """Torso on a 6-DoF joint with four 6-DoF limbs ([BIS] section 6, figure 6).

    25 bodies, 30 freedoms; D1 = 219 and D2 = 1039 in the expanded graph. Joint axes are those
    of the frames (the paper assumes general geometry); inertias are general.
    """
    rng = np.random.default_rng(7)
    bodies = [Body("torso", -1, Free(), inertia=cloud_inertia(rng, 6.0), joint_name="root")]
    for side, y in (("left", 1.0), ("right", -1.0)):
        limb(bodies, rng, f"{side}_leg", 0, _LEG, (0, 0.1 * y, -0.3), (0, 0, -0.15))
    for side, y in (("left", 1.0), ("right", -1.0)):
        limb(bodies, rng, f"{side}_arm", 0, _ARM[:6], (0, 0.25 * y, 0.3), (0, 0, -0.12))
    return KinematicTree("humanoid30", bodies)


def asimo() -> KinematicTree:
    """ASIMO Next-Generation by its connectivity graph ([OSI] figure 11).

    The torso is the floating base (6); waist 1; legs 2 x 6 on the waist; arms 2 x 7 on the
    torso; two 1-DoF fingers side by side on each last arm link; head 3. 35 bodies, n = 40
    freedoms, 374 nonzeros in L, depth 14. The paper gives no geometry: frames are aligned, all
    1-DoF joints revolute, inertias general.
    """
    rng = np.random.default_rng(11)
    bodies = [Body("torso", -1, Free(), inertia=cloud_inertia(rng, 6.0), joint_name="root")]
    placement = shifted((0, 0, -0.2))
    bodies.append(Body("waist", 0, Revolute(AXES[Z]), placement, cloud_inertia(rng, 2.0)))
    for side, y in (("left", 1.0), ("right", -1.0)):
        limb(bodies, rng, f"{side}_leg", 1, _LEG, (0, 0.09 * y, -0.1), (0, 0, -0.12))
    for side, y in (("left", 1.0), ("right", -1.0)):
        hand = limb(bodies, rng, f"{side}_arm", 0, _ARM, (0, 0.2 * y, 0.25), (0, 0, -0.09))
        for k, x in enumerate((0.02, -0.02)):
            placement = shifted((x, 0, -0.06))
            finger = cloud_inertia(rng, 0.05)
            bodies.append(
                Body(f"{side}_finger_{k + 1}", hand, Revolute(AXES[Y]), placement, finger)
            )
    limb(bodies, rng, "head", 0, (Z, Y, X), (0, 0, 0.4), (0, 0, 0.05))
    return KinematicTree("asimo", bodies)


def centipede(segments: int) -> KinematicTree:
    """A walking centipede ([DRUM] section 6.3): 5 bodies per segment, nv = 9 segments + 5.

    Each segment carries two upper legs on spherical joints, each of these a lower leg on a
    revolute joint. The first segment floats. The paper does not say how segments are connected;
    here it is a revolute joint about the vertical, the least that lets it turn on a plane.
    """
    segments = _whole("centipede", "segments", segments)
    segment = box_inertia(0.5, (0.1, 0.06, 0.04), (-0.05, 0, 0))
    bodies: list[Body] = []
    for k in range(1, segments + 1):
        joint: AbstractJoint = Free() if k == 1 else Revolute()
        placement = Transform.identity() if k == 1 else shifted((-0.1, 0, 0))
        name, trunk = ("root" if k == 1 else ""), len(bodies)
        previous = -1 if k == 1 else trunk - 5
        bodies.append(Body(f"segment_{k}", previous, joint, placement, segment, name))
        for side, y in (("left", 1.0), ("right", -1.0)):
            hip, knee = shifted((-0.05, 0.03 * y, 0)), shifted((0, 0.08 * y, 0))
            upper = box_inertia(0.05, (0.01, 0.08, 0.01), (0, 0.04 * y, 0))
            lower = box_inertia(0.04, (0.01, 0.01, 0.08), (0, 0, -0.04))
            top = len(bodies)
            bodies.append(Body(f"{side}_upper_leg_{k}", trunk, Spherical(), hip, upper))
            bodies.append(Body(f"{side}_lower_leg_{k}", top, Revolute(AXES[X]), knee, lower))
    return KinematicTree(f"centipede{segments}", bodies)


def balanced_tree(m: int) -> KinematicTree:
    """Balanced binary tree of m levels, n = 2^m - 1 revolute joints ([BIS] table 2, fig. 4b).

    D1 = sum_{i<m} i 2^i,  D2 = sum_{i<m} i (i + 1) 2^(i - 1).
    """
    n = 2 ** _whole("balanced_tree", "m", m) - 1
    names = [f"node_{i + 1}" for i in range(n)]
    return from_parents(f"balanced_tree{m}", names, [(i - 1) // 2 for i in range(n)], seed=m)


def side_branches(m: int) -> KinematicTree:
    """Chain of m joints, each body with a side branch of one, n = 2 m ([BIS] table 2, fig. 4a).

    D1 = m^2,  D2 = (2 m^3 + 3 m^2 + m) / 6.
    """
    m = _whole("side_branches", "m", m)
    names = [f"{part}_{k + 1}" for k in range(m) for part in ("spine", "side")]
    parents = [p for k in range(m) for p in (2 * k - 2 if k else -1, 2 * k)]
    return from_parents(f"side_branches{m}", names, parents, seed=m)


def spanning_grid(m: int) -> KinematicTree:
    """Spanning tree of an m x m grid by shortest paths, n = m^2 ([BIS] table 2, fig. 4c).

    The corner node hangs on the base; D1 = m^3 - m^2,  D2 = (7 m^4 - 6 m^3 - m^2) / 12.
    """
    m = _whole("spanning_grid", "m", m)
    names = [f"node_{row + 1}_{column + 1}" for row in range(m) for column in range(m)]
    parents = [i - m if i >= m else i - 1 for i in range(m * m)]
    return from_parents(f"spanning_grid{m}", names, parents, seed=m)


def auto_tree(n: int, branching: float = 1, skew: float = 0, taper: float = 1) -> KinematicTree:
    """Tree of n tubes on revolute z joints: the models of [NORI]'s experiments.

    Link i (from 1) is a thin tube along x: length taper^(i-1), mass taper^(3(i-1)), centre of
    mass at half length, inertia m l^2 diag(0.0025, 1.015/12, 1.015/12) about it. The next joint
    sits at the link's end, turned by ``skew`` (rad) about x; the parent of link i is
    floor((i - 2 + ceil(branching)) / branching), 0 the base. Gravity is -9.81 along y.
    """
    n = _whole("auto_tree", "n", n)
    if not (branching >= 1 and math.isfinite(branching)):
        raise ModelError(f"auto_tree: branching must be a number >= 1, got {branching!r}")
    if not (taper > 0 and math.isfinite(taper) and math.isfinite(skew)):
        raise ModelError(f"auto_tree: taper must be > 0, skew finite; got {taper!r}, {skew!r}")
    turned = rotation_about(AXES[X], math.cos(skew), math.sin(skew))
    bodies = []
    for i in range(1, n + 1):
        parent = math.floor((i - 2 + math.ceil(branching)) / branching) - 1
        length, mass = float(taper) ** (i - 1), float(taper) ** (3 * (i - 1))
        about_com = mass * length**2 * np.diag([0.0025, 1.015 / 12, 1.015 / 12])
        inertia = Inertia(mass, np.array([0.5 * length, 0.0, 0.0]), about_com)
        placement = Transform.identity()
        if parent >= 0:
            placement = Transform(turned, np.array([float(taper) ** parent, 0.0, 0.0]))
        bodies.append(Body(f"link_{i}", parent, Revolute(), placement, inertia))
    return KinematicTree(f"auto_tree{n}", bodies, gravity=(0.0, -9.81, 0.0))


def random_tree(n: int, seed: int, joint_types: Sequence[str] | None = None) -> KinematicTree:
    """Random tree of n bodies: parents, joint kinds, frames and inertias drawn from ``seed``.

    Parameters
    ----------
    n : number of bodies.
    seed : of the random generator.
    joint_types : kinds (names in ``JOINT_TYPES``) to draw from for every joint. None: every
        kind but fixed, and free only on the base (elsewhere it would cut the tree in two).

    Raises
    ------
    ModelError
        if n < 1, no kinds are given or one is unknown.
    """
    n = _whole("random_tree", "n", n)
    if joint_types is not None and not joint_types:
        raise ModelError("random_tree: joint_types is empty; give at least one kind or None")
    rng = np.random.default_rng(seed)
    bodies = []
    for i in range(n):
        parent = int(rng.integers(-1, i)) if i else -1
        kinds = joint_types or [
            kind for kind in JOINT_TYPES if kind != "fixed" and (kind != "free" or parent < 0)
        ]
        joint = random_joint(kinds[int(rng.integers(len(kinds)))], rng)
        placement = Transform(random_rotation(rng), rng.uniform(-0.3, 0.3, 3))
        bodies.append(Body(f"body_{i + 1}", parent, joint, placement, cloud_inertia(rng)))
    return KinematicTree(f"random_tree{n}_{seed}", bodies)
