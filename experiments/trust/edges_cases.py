"""Numerical edges: robots and states where float64 has a hard time, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

import dynsys
from dynsys.model.joints import Revolute
from dynsys.model.spatial import Inertia, Transform, rotation_about
from dynsys.model.tree import Body, KinematicTree
from dynsys.types import Array

__all__ = ["Edge", "Verdict", "edges"]

RATIOS = (1e-6, 1e-3, 1e3, 1e6)
KINDS = ("revolute", "prismatic", "helical", "cylindrical", "planar", "spherical", "free")


@final
@dataclass(frozen=True, eq=False)
class Edge:
    """A robot, and q, qd and qdd at which its dynamics are asked for.

    ``torque`` replaces the torque that belongs to qdd; ``dtype`` is that of the kernel.
    """

    name: str
    robot: KinematicTree
    q: Array
    qd: Array
    qdd: Array
    torque: Array | None = None
    dtype: str = "float64"


def _edge(name: str, robot: KinematicTree, seed: int = 0, speed: float = 1.0) -> Edge:
    rng = np.random.default_rng(seed)
    q = robot.random_configuration(rng)
    return Edge(name, robot, q, speed * rng.normal(size=robot.nv), rng.normal(size=robot.nv))


def _scaled(robot: KinematicTree, factors: Sequence[float]) -> KinematicTree:
    """Return the robot with the inertia of every body times its factor."""
    bodies = []
    for body, f in zip(robot.bodies, factors, strict=True):
        own = body.inertia
        bodies.append(replace(body, inertia=Inertia(f * own.mass, own.com, f * own.about_com)))
    return KinematicTree(robot.name, bodies)


def _mass_ratios() -> Iterator[Edge]:
    chain, tree = dynsys.synthetic.chain(6), dynsys.synthetic.humanoid30()
    for ratio in RATIOS:
        grown = _scaled(chain, [ratio ** (i / 5) for i in range(6)])
        yield _edge(f"masses grow to {ratio:g} along a chain", grown)
        mixed = _scaled(chain, [1.0, ratio] * 3)
        yield _edge(f"masses alternate by {ratio:g}", mixed)
        limbs = _scaled(tree, [1.0] + [ratio] * (tree.n_bodies - 1))
        yield _edge(f"limbs {ratio:g} of the torso", limbs)
    for mass in (0.0, 1e-300, 1e-20, 1e-12, 1e-6):
        for where, place in (("inner", 2), ("last", 5)):
            light = _scaled(chain, [mass if i == place else 1.0 for i in range(6)])
            yield _edge(f"{where} link {mass:g} of its mass", light)
    yield _edge("every mass 1e-300", _scaled(chain, [1e-300] * 6))
    yield _edge("every mass 1e300", _scaled(chain, [1e300] * 6))


def _parallel() -> Iterator[Edge]:
    """Chain of parallel axes, links without inertia about their own axis."""
    point = Inertia(1.0, np.array([1.0, 0, 0]), np.zeros((3, 3)))
    shift = Transform(np.eye(3), np.array([1.0, 0, 0]))
    bodies = [Body(f"link_{i}", i - 1, Revolute(), shift, point) for i in range(5)]
    robot = KinematicTree("parallel", bodies)
    for bend in (0.0, 1e-9, 1e-6, 1e-3):
        zero = np.zeros(5)
        yield Edge(f"parallel axes, bent by {bend:g}", robot, zero + bend, zero + 1, zero + 1)
    on_axis = Inertia(1.0, np.zeros(3), np.zeros((3, 3)))
    bodies = [
        replace(b, inertia=on_axis if i == 4 else b.inertia) for i, b in enumerate(bodies)
    ]
    yield _edge("point mass on its axis", KinematicTree("on_axis", bodies))


def _gimbal() -> Iterator[Edge]:
    """Three crossing axes, the inner bodies massless: singular where first and third align."""
    quarter = Transform(rotation_about(np.array([1.0, 0, 0]), 0.0, 1.0), np.zeros(3))
    back = Transform(rotation_about(np.array([1.0, 0, 0]), 0.0, -1.0), np.zeros(3))
    load = Inertia(2.0, np.zeros(3), np.diag([0.1, 0.2, 0.15]))
    robot = KinematicTree(
        "gimbal",
        [
            Body("outer", -1, Revolute(), Transform.identity(), Inertia.zero()),
            Body("middle", 0, Revolute(), quarter, Inertia.zero()),
            Body("inner", 1, Revolute(), back, load),
        ],
    )
    for angle in (0.0, 1e-12, 1e-9, 1e-7, 1e-5, 1e-3, 0.1, np.pi / 2, np.pi):
        q = np.array([0.3, angle, -0.2])
        yield Edge(f"gimbal at {angle:g}", robot, q, np.ones(3), np.array([1.0, -1.0, 0.5]))


def _states() -> Iterator[Edge]:
    for robot in (dynsys.synthetic.chain(6), dynsys.synthetic.humanoid30()):
        base = _edge("", robot)
        for speed in (0.0, 1e-320, 1e-160, 1e3, 1e8, 1e50, 1e100, 1e160, 1e300):
            qd = speed * base.qd
            yield replace(base, name=f"{robot.name}, velocities {speed:g}", qd=qd)
        for size in (0.0, 1e-320, 1e200, 1e307):
            yield replace(
                base, name=f"{robot.name}, accelerations {size:g}", qdd=size * base.qdd
            )
        for size in (0.0, 1e-320, 1e200, 1e307):
            name = f"{robot.name}, torques {size:g}"
            yield replace(base, name=name, torque=size * np.ones(robot.nv))
    chain = dynsys.synthetic.chain(6)
    base = _edge("", chain)
    for k in (-3, -1, 1, 2, 3, 4, 10**6, 10**9):
        yield replace(base, name=f"q at {k} pi/2", q=np.full(6, k * np.pi / 2))
    for angle in (5e-324, 1e-310, 1e-8, 1e5, 1e15, 1e22, 1e300):
        yield replace(base, name=f"q at {angle:g}", q=np.full(6, angle))
    humanoid = dynsys.synthetic.humanoid30()
    base = _edge("quaternion of norm 1 + 9e-7", humanoid)
    q = base.q.copy()
    q[humanoid.quaternion_slices[0]] *= 1 + 9e-7
    yield replace(base, q=q)
    far = base.q.copy()
    far[:3] = 1e12
    yield replace(base, name="base a million kilometres away", q=far)


def _kinds() -> Iterator[Edge]:
    for kind in KINDS:
        robot = dynsys.synthetic.random_tree(6, 4, [kind])
        yield _edge(f"all joints {kind}", robot)
    for seed in range(3):
        yield _edge(f"all kinds, tree {seed}", dynsys.synthetic.random_tree(12, seed))
    armature = dynsys.synthetic.chain(4).with_armature(np.full(4, 1e6))
    yield _edge("armature 1e6", armature)


def _single() -> Iterator[Edge]:
    for robot in (dynsys.synthetic.chain(6), dynsys.synthetic.humanoid30()):
        base = _edge(f"float32, {robot.name}", robot)
        yield replace(base, dtype="float32")
        yield replace(
            base, name=f"{base.name}, velocities 1e8", qd=1e8 * base.qd, dtype="float32"
        )
        yield replace(
            base, name=f"{base.name}, velocities 1e30", qd=1e30 * base.qd, dtype="float32"
        )
        tiny = 1e-44 * base.qd
        yield replace(base, name=f"{base.name}, velocities 1e-44", qd=tiny, dtype="float32")
    light = _scaled(dynsys.synthetic.chain(6), [1.0] * 5 + [1e-6])
    yield replace(_edge("float32, last link 1e-6 of its mass", light), dtype="float32")


def _large() -> Iterator[Edge]:
    for n in (100, 1000):
        yield _edge(f"chain of {n} bodies", dynsys.synthetic.chain(n), speed=0.1)
    straight = dynsys.synthetic.chain(100)
    zero = np.zeros(100)
    yield Edge("straight chain of 100 bodies", straight, zero, zero, zero + 1.0)


FAMILIES: dict[str, Callable[[], Iterator[Edge]]] = {
    "masses": _mass_ratios,
    "parallel": _parallel,
    "gimbal": _gimbal,
    "states": _states,
    "kinds": _kinds,
    "float32": _single,
    "large": _large,
}


def edges(families: Sequence[str] = tuple(FAMILIES)) -> Iterator[tuple[str, Edge]]:
    """All edges of some families, with the family's name."""
    for family in families:
        for edge in FAMILIES[family]():
            yield family, edge


# ---- what happened at a numerical edge -----------------------------------------------------


@dataclass(frozen=True)
class _Tried:
    """An edge and what was asked there."""

    family: str
    case: str
    task: str


@final
@dataclass(frozen=True)
class Verdict(_Tried):
    """What happened at an edge: errors relative to the largest entry of the answer."""

    covered: bool
    true_error: float | None = None
    bound: float | None = None
    condition: float | None = None
    error: str | None = None
