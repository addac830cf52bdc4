"""Runs behind ``experiments.chang_khatib2001``: its humanoid, times over n and m, a box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple, final

import numpy as np
from scipy.linalg import lapack

import dynsys
from dynsys.loops.tree_state import TreeState
from dynsys.model import synthetic
from dynsys.model.joints import Revolute
from dynsys.model.spatial import Inertia, Transform, cross
from dynsys.model.synthetic import cloud_inertia
from dynsys.model.tree import Body, Frame, KinematicTree
from dynsys.operational import OperationalSpace
from dynsys.operational.method import AbstractMethod
from dynsys.types import Array
from experiments.peers.timing import seconds

__all__ = [
    "HANDS",
    "METHODS",
    "BoxMotion",
    "Scaling",
    "box_motion",
    "dense_route",
    "humanoid24",
    "linear_fit",
    "passes",
    "points_times",
    "put_box_down",
    "scaling",
    "two_branches",
]

METHODS = ("y_factor", "rjk", "chang_khatib", "pv_osimr", "auto")
HANDS = ("left_hand", "right_hand")


def passes(quick: bool) -> int:
    """How often everything is timed."""
    return 1 if quick else 9


def humanoid24() -> KinematicTree:
    """Humanoid of figure 2: fixed feet, 24 one-freedom joints, an operational point per hand.

    Legs and trunk carry it as one chain of 10, two arms of 7 each branch off; the points are at
    the tips of the last links.
    """
    rng, bodies = np.random.default_rng(24), []
    axes = np.eye(3)

    def limb(name: str, parent: int, order: str, root: Sequence[float]) -> int:
        for k, letter in enumerate(order):
            offset = np.array(root if k == 0 else (0.0, 0.0, 0.12))
            joint = Revolute(axes["xyz".index(letter)])
            placement = Transform(np.eye(3), offset)
            bodies.append(Body(f"{name}_{k + 1}", parent, joint, placement, cloud_inertia(rng)))
            parent = len(bodies) - 1
        return parent

    chest = limb("trunk", -1, "xyyyxzxyzy", (0.0, 0.0, 0.1))
    tips = {}
    for hand, y in zip(HANDS, (0.2, -0.2), strict=True):
        wrist = limb(hand.removesuffix("_hand") + "_arm", chest, "yxzyzyx", (0.0, y, 0.2))
        tips[hand] = Frame(wrist, Transform(np.eye(3), np.array([0.0, 0.0, 0.1])))
    return KinematicTree("humanoid24", bodies, tips)


def dense_route(method: AbstractMethod, q: Array) -> Array:
    """Lambda^-1 = J H^-1 J^T: CRBA by compiled loops, LAPACK's Cholesky, O(n^3)."""
    state = TreeState(method.robot, q)
    J = method.jacobian(state)
    L, _ = lapack.dpotrf(state.H.T, lower=1, clean=0, overwrite_a=1)  # in place: H is symmetric
    W, _ = lapack.dtrtrs(L, J.T, lower=1)
    return np.asarray(W.T @ W)


class Scaling(NamedTuple):
    """CPU seconds by size for the recursions and for the dense route."""

    sizes: list[int]
    times: dict[str, list[float]]
    dense: list[float]


@cache
def scaling(quick: bool) -> Scaling:
    """CPU time of Lambda^-1 of two branches' tips, n = 24 .. 2000 links, m = 2."""
    sizes = [24, 60, 120] if quick else [24, 50, 100, 200, 400, 700, 1000, 1400, 2000]
    times: dict[str, list[float]] = {"chang_khatib": [], "pv_osimr": [], "rjk": []}
    dense = []
    for n in sizes:
        robot, tips = two_branches(n)
        q = robot.random_configuration(0)
        methods = {name: OperationalSpace(robot, tips, name).method for name in times}
        runs = {name: partial(_lambda_inv, method, q) for name, method in methods.items()}
        runs["dense"] = partial(dense_route, methods["rjk"], q)
        found = seconds(runs, passes(quick))
        dense.append(found.pop("dense"))
        for name, value in found.items():
            times[name].append(value)
    return Scaling(sizes, times, dense)


def _lambda_inv(method: AbstractMethod, q: Array) -> Array:
    return method.lambda_inv(TreeState(method.robot, q))


def two_branches(n: int) -> tuple[KinematicTree, list[int]]:
    """Trunk of n/3 links and two arms of n/3 each, and the tips of the arms."""
    third = n // 3
    links = list(synthetic.chain(n).bodies)
    fork = third - 1
    first = n - third  # where the second arm starts
    link = links[first]
    links[first] = Body(link.name, fork, link.joint, link.placement, link.inertia)
    return KinematicTree(f"two_branches{n}", links), [first - 1, n - 1]


def linear_fit(sizes: Sequence[int], times: Sequence[float]) -> tuple[float, float, float]:
    """Seconds per link, exponent of a power law over the upper half, and R^2 of the line.

    The line's relative errors are least in squares: noise grows with the times.
    """
    x, y = np.array(sizes, dtype=np.float64), np.array(times)
    slope, start = np.polyfit(x, y, 1, w=1 / y)
    rest = y - (slope * x + start)
    half = len(x) // 2
    exponent = np.polyfit(np.log(x[half:]), np.log(y[half:]), 1)[0]
    return float(slope), float(exponent), float(1 - rest.var() / y.var())


@cache
def points_times(quick: bool) -> dict[str, dict[int, float]]:
    """CPU seconds over the number of operational bodies, a balanced tree's leaves."""
    levels, counts = (5, (1, 4, 16)) if quick else (9, (1, 2, 4, 8, 16, 32, 64, 128, 256))
    robot = synthetic.balanced_tree(levels)
    q = robot.random_configuration(0)
    leaves = list(range(robot.n_bodies // 2, robot.n_bodies))
    out: dict[str, dict[int, float]] = {name: {} for name in METHODS}
    for m in counts:
        tips = leaves[:: len(leaves) // m]
        methods = {name: OperationalSpace(robot, tips, name).method for name in METHODS}
        runs = {name: partial(_lambda_inv, method, q) for name, method in methods.items()}
        for name, value in seconds(runs, passes(quick)).items():
            out[name][m] = value
    return out


@cache
def box_motion(quick: bool) -> BoxMotion:
    """The task, short or as long as its figure needs."""
    duration, dt = (0.5, 5e-3) if quick else (2.0, 1e-3)
    return put_box_down(humanoid24(), HANDS, duration, dt)


# ---- two hands put a box on the floor ([CK] figures 5 and 6) --------------------------------
#     torque = J^T F + N^T (posture) + C          F = Lambda (wanted - Jdot qd)
#
# Lambda, Jbar and N come from the recursion of [CK]. The box adds its weight and inertia to the
# last links, half to each hand. Hands follow a cubic spline downwards; a posture torque that
# moves no hand keeps the rest near where it was.


@final
@dataclass(frozen=True, eq=False)
class BoxMotion:
    """Time (T,), height of the box, wanted and reached (T,), hands' error (T,), way of q (T,).

    ``coupling`` is the largest acceleration of a hand by the posture torque, m/s^2.
    """

    time: Array
    wanted: Array
    height: Array
    error: Array
    posture: Array
    coupling: float


BOX = 2.0
"""Mass of the box, kg."""
DROP = 0.25
"""Way down, m."""
KP, KD = 400.0, 40.0


def with_box(robot: KinematicTree, hands: tuple[str, str]) -> KinematicTree:
    """Return the robot with half of a box rigidly at each hand: the augmented object."""
    bodies = list(robot.bodies)
    for hand in hands:
        frame = robot.frame(hand)
        body, half = bodies[frame.body], BOX / 2
        old, at = body.inertia, frame.transform.r
        mass = old.mass + half
        com = (old.mass * old.com + half * at) / mass
        moment = old.about_com + half * 0.01 * np.eye(3)
        for part, where in ((old.mass, old.com), (half, at)):
            d = where - com
            moment = moment + part * (float(d @ d) * np.eye(3) - np.outer(d, d))
        bodies[frame.body] = replace(body, inertia=Inertia(mass, com, moment))
    return KinematicTree(robot.name, bodies, robot.frames)


def put_box_down(
    robot: KinematicTree, hands: tuple[str, str], duration: float, dt: float
) -> BoxMotion:
    """Simulate the task with two hands that have taken the box."""
    robot = with_box(robot, hands)
    space = OperationalSpace(robot, hands, "chang_khatib")
    q = 0.4 * np.sin(1.7 * np.arange(robot.nq)) + 0.3
    qd, rest, records, coupling = np.zeros(robot.nv), q.copy(), [], 0.0
    start = [dynsys.forward_kinematics(robot, q, hand) for hand in hands]
    for step in range(round(duration / dt)):
        down = _spline(step * dt, 0.8 * duration)
        poses = [dynsys.forward_kinematics(robot, q, hand) for hand in hands]
        x = space.at(q)
        v = (x.J @ qd).reshape(2, 6)
        wanted = [
            _hand_acceleration(pose, first, hand, down)
            for pose, first, hand in zip(poses, start, v, strict=True)
        ]
        ahead = space.at(robot.integrate(q, qd, 1e-6)).J
        drift = (ahead - x.J) @ qd / 1e-6  # Jdot qd, by differences along the motion
        posture = x.N.T @ (4.0 * (rest - q) - 4.0 * qd)
        force = x.Lambda @ (np.concatenate(wanted) - drift)
        torque = x.J.T @ force + posture + dynsys.rnea(robot, q, qd, np.zeros(robot.nv))
        moved = np.linalg.solve(dynsys.crba(robot, q), posture)
        coupling = max(coupling, float(np.abs(x.J @ moved).max()))
        qd = qd + dt * dynsys.aba(robot, q, qd, torque)
        q = robot.integrate(q, qd, dt)
        heights = [pose.r[2] - first.r[2] for pose, first in zip(poses, start, strict=True)]
        error = max(abs(height - down[0]) for height in heights)
        records.append((step * dt, down[0], np.mean(heights), error, np.abs(q - rest).max()))
    time, wanted_height, height, errors, way = np.array(records).T
    return BoxMotion(time, wanted_height, height, errors, way, coupling)


def _spline(time: float, duration: float) -> Array:
    """Height, its rate and acceleration (3,) of a cubic spline from 0 to -DROP, at rest."""
    s = min(1.0, time / duration)
    moving = float(s < 1)
    return -DROP * np.array(
        [s * s * (3 - 2 * s), 6 * s * (1 - s) / duration, moving * (6 - 12 * s) / duration**2]
    )


def _hand_acceleration(
    pose: Transform, start: Transform, velocity: Array, down: Array
) -> Array:
    """Wanted spatial acceleration (6,) of a hand, its own frame: track, keep orientation."""
    z = pose.E[:, 2]
    turn = pose.E @ start.E.T  # start -> now
    tilt = 0.5 * np.array(
        [turn[1, 2] - turn[2, 1], turn[2, 0] - turn[0, 2], turn[0, 1] - turn[1, 0]]
    )
    offset = pose.E @ (start.r - pose.r) + z * down[0]
    rate = velocity[3:] - z * down[1]
    linear = z * down[2] + KP * offset - KD * rate
    angular = -KP * tilt - KD * velocity[:3]
    # a spatial acceleration lacks omega x v of the classical one
    return np.concatenate([angular, linear - np.asarray(cross(velocity[:3], velocity[3:]))])
