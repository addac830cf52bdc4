"""Rows of constraints: J(q), their velocity J qd, their drift Jdot qd and error of position.

    V = v_F - X v_G                        frame F against G, in F's axes at F's origin
    dV/dt = a_F - X a_G + V x v_F          of its components; X = X_F<-G turns with -V x
    d(E V)/dt = E (dV/dt + w_F/R x V)      of components in axes R, E: F -> R

Motions are counted from the nearest body that carries both frames: V does not depend on how it
moves. A row's dual force acts on F, and opposite on G: J^T is made of these wrenches. Scalars
may be of any kind (float64, longdouble, expression-graph nodes). Cost: the way from F to G.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from dynsys.model.body import Frame
from dynsys.model.constraints import (
    Constraint,
    FrameConstraint,
    JointConstraint,
    row_slices,
)
from dynsys.model.spatial import Transform, cross, cross_motion, vector
from dynsys.model.tree import KinematicTree, Mechanism
from dynsys.recursive.kinematics import poses, transforms
from dynsys.types import Array, ScalarArray

__all__ = [
    "CLOSED",
    "ConstraintRows",
    "DenseRows",
    "closed_configurations",
    "closest_configuration",
    "constraint_rows",
    "dense_rows",
    "is_turned_over",
    "turning_error",
]


@final
class ConstraintRows(NamedTuple):
    """Rows of one constraint, m of them.

    Attributes
    ----------
    wrenches : by body, (6, m) on its coordinates: what unit forces of the rows do to it.
    torques : by freedom, (m,): what they do to it.
    drift : (m,) acceleration of the rows where every unknown qdd is zero.
    velocity : (m,) J qd.
    error : (m,) how far they are from being held; zero where nothing says where they belong.
        Rotations by the sine of the angle times its axis (:func:`turning_error`).
    """

    wrenches: Mapping[int, ScalarArray]
    torques: Mapping[int, ScalarArray]
    drift: ScalarArray
    velocity: ScalarArray
    error: ScalarArray


class _Motion(NamedTuple):
    """Of a frame relative to a body that carries it: pose, velocity, acceleration."""

    pose: Transform
    velocity: ScalarArray
    acceleration: ScalarArray


def constraint_rows(
    mechanism: Mechanism,
    constraint: Constraint,
    robot: KinematicTree,
    q: ScalarArray,
    qd: ScalarArray,
    qdd: ScalarArray,
    X_up: Sequence[Transform],
    ends: tuple[Frame, Frame] | None = None,
) -> ConstraintRows:
    """Rows of one constraint; ``qdd`` (nv,) holds known accelerations, else zero.

    ``ends`` are the two frames on bodies of the mechanism, by default those of the robot.
    """
    if isinstance(constraint, JointConstraint):
        return _joint_rows(constraint, robot, q, qd, qdd)
    own, other = ends or constraint.ends(robot)
    top = _common(mechanism, own.body, other.body)
    F, G = (_motion(mechanism, X_up, qd, qdd, end, top) for end in (own, other))
    relative = (
        G.pose.inverse().then(F.pose) if other.body >= 0 or constraint.is_placed else None
    )
    velocity, rate = F.velocity, F.acceleration
    if other.body >= 0 and relative is not None:
        velocity = velocity - relative.motion(G.velocity)
        rate = rate - relative.motion(G.acceleration) + cross_motion(velocity, F.velocity)
    E: ScalarArray | None = None
    if constraint.axes == "other":
        E, turning = (relative or F.pose).E.T, velocity[:3]
    elif constraint.axes == "world":
        world = _motion(mechanism, X_up, qd, qdd, own, -1)
        E, turning = world.pose.E.T, world.velocity[:3]
    if E is not None:
        rate = rate + _both(lambda part: cross(turning, part), velocity)
        rate, velocity = (_both(lambda part: E @ part, x) for x in (rate, velocity))
    placed = constraint.is_placed and relative is not None
    error = _error(relative, constraint, E) if placed and relative is not None else None
    # unit forces along the held directions at F, in F's axes
    forces = np.eye(6)[:, constraint.held]
    if E is not None:
        forces = np.column_stack([_both(lambda part: E.T @ part, f) for f in forces.T])
    wrenches = {own.body: _back(own.transform, forces)} if own.body >= 0 else {}
    if other.body >= 0 and relative is not None:
        wrenches[other.body] = -_back(other.transform, _back(relative, forces))
    held = constraint.held
    missing = np.zeros(6) if error is None else error
    return ConstraintRows(wrenches, {}, rate[held], velocity[held], missing[held])


def _both(turn: Callable[[ScalarArray], ScalarArray], x: ScalarArray) -> ScalarArray:
    """The same of the angular and the linear part."""
    return np.concatenate([turn(x[:3]), turn(x[3:])])


def _back(X: Transform, forces: ScalarArray) -> ScalarArray:
    return np.column_stack([X.force_back(f) for f in forces.T])


def _common(mechanism: Mechanism, a: int, b: int) -> int:
    """Nearest body that carries both, -1 for the base."""
    while a != b:
        a, b = (int(mechanism.parent[a]), b) if a > b else (a, int(mechanism.parent[b]))
    return a


def _motion(
    mechanism: Mechanism,
    X_up: Sequence[Transform],
    qd: ScalarArray,
    qdd: ScalarArray,
    frame: Frame,
    top: int,
) -> _Motion:
    """Motion of a frame relative to body ``top``; what the velocities add to accelerations."""
    path, body = [], frame.body
    while body != top:
        path.append(body)
        body = int(mechanism.parent[body])
    pose, v, a = Transform.identity(), np.zeros(6), np.zeros(6)
    slices = mechanism.v_slices()
    for k in reversed(path):
        S, X, where = mechanism.motion_subspace[k], X_up[k], slices[k]
        pose, joint = pose.then(X), S @ qd[where]
        v = X.motion(v) + joint
        # a_i = X a_parent + S qdd + v_i x S qd   [NORI] (3a)
        a = X.motion(a) + cross_motion(v, joint)
        if where.stop > where.start:
            a = a + S @ qdd[where]
    X = frame.transform
    return _Motion(pose.then(X), X.motion(v), X.motion(a))


def _error(
    relative: Transform, constraint: FrameConstraint, E: ScalarArray | None
) -> ScalarArray:
    """Where F is in G (6,), in F's axes turned by E: sine times axis, then position."""
    R, held = relative.E, constraint.held  # of G coordinates to F coordinates
    position = R @ relative.r
    if E is None:
        return np.concatenate([turning_error(R, held), position])
    if constraint.axes == "other":  # as G sees it: the opposite turn of the opposite
        return np.concatenate([-turning_error(R.T, held), E @ position])
    return np.concatenate([E @ turning_error(R, (0, 1, 2)), E @ position])


def turning_error(R: ScalarArray, held: Sequence[int]) -> ScalarArray:
    """How far axes F are turned from G (3,), in F's axes; R_ij = F_i . G_j.

    Sine of the angle times its axis. Where a hinge leaves one direction free, the sine by which
    that axis of G leans in F, whatever the angle about it: half a turn about a hinge hides no
    tilt.
    """
    free = [k for k in range(3) if k not in held]
    if len(free) == 1:
        leans = [R[k, free[0]] for k in range(3)]
        a, b = (free[0] + 1) % 3, (free[0] + 2) % 3
        turn: list[Any] = [0.0, 0.0, 0.0]
        turn[a], turn[b] = leans[b], -leans[a]
        return vector(*turn)
    return vector(R[1, 2] - R[2, 1], R[2, 0] - R[0, 2], R[0, 1] - R[1, 0]) * 0.5


def is_turned_over(R: Array, held: Sequence[int]) -> bool:
    """Whether a vanishing :func:`turning_error` means half a turn."""
    free = [k for k in range(3) if k not in held]
    if len(free) == 1:
        return bool(R[free[0], free[0]] < 0)
    return not free and bool(np.trace(R) < 1)  # trace = 1 + 2 cos


def _joint_rows(
    constraint: JointConstraint,
    robot: KinematicTree,
    q: ScalarArray,
    qd: ScalarArray,
    qdd: ScalarArray,
) -> ConstraintRows:
    own, leader = constraint.freedoms(robot)
    place = robot.q_slice(constraint.joint).start
    error, velocity, drift = q[place] - constraint.coefficients[0], qd[own], qdd[own]
    torques: dict[int, ScalarArray] = {own: np.ones(1)}
    if leader is not None and constraint.leader is not None:
        x = q[robot.q_slice(constraint.leader).start] - constraint.start
        c = [float(number) for number in constraint.coefficients]
        slopes = [k * number for k, number in enumerate(c)][1:]
        bends = [k * number for k, number in enumerate(slopes)][1:]
        value, slope, bend = _horner(c, x), _horner(slopes, x), _horner(bends, x)
        error, velocity = q[place] - value, velocity - slope * qd[leader]
        drift = drift - slope * qdd[leader] - bend * (qd[leader] * qd[leader])
        torques[leader] = vector(-slope)
    missing = vector(error) if constraint.is_placed else np.zeros(1)
    return ConstraintRows({}, torques, vector(drift), vector(velocity), missing)


def _horner(coefficients: Sequence[float], x: Any) -> Any:
    """Value of a polynomial, the constant coefficient first; zero without any."""
    value: Any = 0.0
    for c in reversed(coefficients):
        value = value * x + c
    return value


# ---- all rows as dense numbers: the twin of what is eliminated ------------------------------


@final
class DenseRows(NamedTuple):
    """J (m, nv) of all constraints, drift Jdot qd (m,), velocity J qd (m,) and error (m,)."""

    J: Array
    drift: Array
    velocity: Array
    error: Array


def dense_rows(
    robot: KinematicTree, constraints: Sequence[Constraint], q: Array, qd: Array
) -> DenseRows:
    """Rows of all constraints at a state, in numbers."""
    X_up, rest = transforms(robot, q), np.zeros(robot.nv)
    m, slices = sum(c.size for c in constraints), robot.v_slices()
    out = DenseRows(np.zeros((m, robot.nv)), np.zeros(m), np.zeros(m), np.zeros(m))
    for constraint, where in zip(constraints, row_slices(constraints), strict=True):
        rows = constraint_rows(robot, constraint, robot, q, qd, rest, X_up)
        for freedom, torque in rows.torques.items():
            out.J[where, freedom] += torque
        for body, wrenches in rows.wrenches.items():
            moved, k = np.asarray(wrenches), body
            while k >= 0:  # towards the base: what the joints feel of it
                out.J[where, slices[k]] += (robot.motion_subspace[k].T @ moved).T
                moved, k = _back(X_up[k], moved), int(robot.parent[k])
        out.drift[where], out.velocity[where] = rows.drift, rows.velocity
        out.error[where] = rows.error
    return out


CLOSED = 1e-10
"""Error of position (m, or sine of an angle) at which a configuration counts as closed."""
ITERATIONS = 100
LARGEST_STEP = 0.5
"""Of one freedom, rad or m, so that the search does not leap from one assembly to another."""


def closest_configuration(
    robot: KinematicTree, constraints: Sequence[Constraint], q: Array
) -> tuple[Array, float]:
    """Configuration near q at which the constraints hold, and the error that is left.

    Gauss-Newton on the errors of position, by least steps; q itself where nothing is placed.
    """
    rest, best, least = np.zeros(robot.nv), q, np.inf
    for _ in range(ITERATIONS):
        rows = dense_rows(robot, constraints, q, rest)
        error = float(np.abs(rows.error).max(initial=0.0))
        if error < least:
            best, least = q, error
        if error < CLOSED * 1e-3 or (least < CLOSED and error > least):
            break
        step = -np.linalg.lstsq(rows.J, rows.error, rcond=1e-9)[0]
        step *= min(1.0, LARGEST_STEP / max(float(np.abs(step).max(initial=0.0)), 1e-300))
        q = robot.integrate(q, step, 1.0)
    return best, max(least, np.pi) if _is_over(robot, constraints, best) else least


def _is_over(robot: KinematicTree, constraints: Sequence[Constraint], q: Array) -> bool:
    """Whether frames that belong together are turned by more than a right angle."""
    where = poses(robot, transforms(robot, q))
    for held in constraints:
        if isinstance(held, FrameConstraint) and held.is_placed:
            F, G = (
                end.transform.E @ (where[end.body].E if end.body >= 0 else np.eye(3))
                for end in held.ends(robot)
            )
            if is_turned_over(F @ G.T, held.held):
                return True
    return False


def closed_configurations(
    robot: KinematicTree,
    constraints: Sequence[Constraint],
    count: int,
    seed: int | np.random.Generator,
) -> list[Array]:
    """Random configurations at which the constraints hold, neutral's neighbour the first.

    Where no such configuration is found, those that there are.
    """
    rng = np.random.default_rng(seed)
    found: list[Array] = []
    tried: list[Array] = []
    for k in range(3 * count):
        start = robot.neutral() if k == 0 else robot.random_configuration(rng)
        q, error = closest_configuration(robot, constraints, start)
        (found if error < CLOSED else tried).append(q)
        if len(found) == count:
            break
    return found or tried[:count]
