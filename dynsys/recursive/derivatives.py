"""Analytical derivatives of inverse dynamics: d torque by q, qd and qdd. O(n d), d the depth.

All in one frame, where nothing has to be carried from joint to joint. With S_j the axis of
freedom j and v, a the motion of the body before it (gravity as acceleration of the base),

    P_j = v x S_j          Q_j = a x S_j + v x P_j          R_j = P_j + v' x S_j

(v' the velocity behind the joint), and with inertia I, wrench f and Coriolis matrix B of all
bodies that freedom i carries, for every freedom j that supports freedom i:

    d torque_i / d q_j  = S_i . (B P_j + I Q_j)     d torque_j / d q_i  = S_j . (B P_i + I Q_i
                                                                                 + S_i x* f)
    d torque_i / d qd_j = S_i . (B S_j + I R_j)     d torque_j / d qd_i = S_j . (B S_i + I R_i)
    d torque_i / d qdd_j = S_i . I S_j

(Carpentier, Mansard, RSS 2018; Singh, Russell, Wensing, RA-L 2022; B is their 2B.) Rows of
i are formed once, then every pair costs 3 + 6 products for each of the first column, 6 for each
of the second. About a fixed origin B has twelve numbers: with K = integral of (dr/dt) r^T dm
and momentum p,

    B = 2 [ tr K - K   0 ;  -[p]x   0 ]

Derivatives by q are along v in ``robot.integrate(q, v, 1)``: S is constant in the coordinates
of the body behind the joint, for every type of joint. Each tree has the frame of its first
moving body: nothing but gravity depends on how that one is turned.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from dynsys.model.spatial import (
    MassMoments,
    Transform,
    cross,
    cross_force,
    cross_motion,
)
from dynsys.model.tree import Mechanism
from dynsys.recursive.kinematics import transforms
from dynsys.recursive.rnea import acceleration_tensor, newton_euler
from dynsys.types import ScalarArray

__all__ = [
    "Carried",
    "Freedom",
    "Moved",
    "TorqueDerivatives",
    "load_of",
    "move_bodies",
    "move_freedoms",
    "moving_axis",
    "paired",
    "torque_derivatives",
]

Entries = dict[tuple[int, int], Any]
"""Numbers of a matrix by row and column; what is not there is zero."""


@final
@dataclass(frozen=True, eq=False)
class TorqueDerivatives:
    """Torque (nv,) and the nonzeros of its derivatives by q, qd and qdd (nv, nv)."""

    torque: ScalarArray
    q: Entries
    qd: Entries
    qdd: Entries


@final
class Carried:
    """What freedoms carry, in the common frame: moments, K, momentum and wrench."""

    def __init__(self) -> None:
        self.mass: Any = 0.0
        self.h: ScalarArray = np.zeros(3)
        self.P: ScalarArray = np.zeros((3, 3))
        self.K2: ScalarArray = np.zeros((3, 3))  # 2 K, 2 p: the factor of B is in them
        self.p2: ScalarArray = np.zeros(3)
        self.f: ScalarArray = np.zeros(6)

    def add(self, other: Carried) -> None:
        """Take what another one carries too."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def inertia_times(self, x: ScalarArray) -> ScalarArray:
        """I x (6,)."""
        w, v = x[:3], x[3:]
        return np.concatenate(
            [self._J @ w + cross(self.h, v), self.mass * v - cross(self.h, w)]
        )

    @property
    def _J(self) -> ScalarArray:
        return _turned_inside_out(self.P)

    def B_times(self, x: ScalarArray) -> ScalarArray:
        """B x (6,)."""
        w = x[:3]
        return np.concatenate([_turned_inside_out(self.K2) @ w, cross(w, self.p2)])

    def B_transposed_times(self, x: ScalarArray) -> ScalarArray:
        """B^T x: its angular part (3,), the other one is zero."""
        return _turned_inside_out(self.K2).T @ x[:3] + cross(self.p2, x[3:])


def _turned_inside_out(K: ScalarArray) -> ScalarArray:
    """(tr K) 1 - K for K (3, 3)."""
    off = -K
    off[0, 0], off[1, 1], off[2, 2] = K[1, 1] + K[2, 2], K[0, 0] + K[2, 2], K[0, 0] + K[1, 1]
    return off


@final
@dataclass(frozen=True, eq=False)
class Freedom:
    """One freedom: its place in qd, S, P, Q (6,) of the module, and dS/dt."""

    place: int
    S: ScalarArray
    P: ScalarArray
    Q: ScalarArray
    dS: ScalarArray

    @cached_property
    def R(self) -> ScalarArray:
        """P + v' x S."""
        return self.P + self.dS


@final
@dataclass(frozen=True, eq=False)
class Moved:
    """A body as it moves, in the common frame: its pose, and motion around its joint."""

    pose: Transform
    v: ScalarArray  # before the joint
    a: ScalarArray
    v_after: ScalarArray
    a_after: ScalarArray
    axes: tuple[tuple[int, ScalarArray], ...]  # of each freedom its place in qd, and S

    def freedoms(self) -> list[Freedom]:
        """Freedoms of its joint."""
        alone = len(self.axes) == 1
        return [
            moving_axis(k, S, self.v, self.a, None if alone else self.v_after)
            for k, S in self.axes
        ]


def moving_axis(
    place: int, S: ScalarArray, v: ScalarArray, a: ScalarArray, v_after: ScalarArray | None
) -> Freedom:
    """A freedom behind a body that moves at v, a; ``v_after`` its joint, if it has others."""
    P = cross_motion(v, S)
    dS = P if v_after is None else cross_motion(v_after, S)
    return Freedom(place, S, P, cross_motion(a, S) + cross_motion(v, P), dS)


@final
@dataclass(frozen=True, eq=False)
class Paired:
    """What a freedom i brings to its pairs; of both directions, see the module.

    As row, with freedoms that support it: ``row`` = I S (6,), ``row_B`` = angular part of B^T S
    (3,). As column: ``by_q`` = B P + I Q + S x* f, ``own_q`` the same without f, for freedoms
    of the same joint, ``by_qd`` = B S + I R.
    """

    row: ScalarArray
    row_B: ScalarArray
    own_q: ScalarArray
    by_q: ScalarArray
    by_qd: ScalarArray


def paired(x: Freedom, load: Carried) -> Paired:
    """What freedom x brings, that carries ``load``."""
    own_q = load.B_times(x.P) + load.inertia_times(x.Q)
    return Paired(
        load.inertia_times(x.S),
        load.B_transposed_times(x.S),
        own_q,
        own_q + cross_force(x.S, load.f),
        load.B_times(x.S) + load.inertia_times(x.R),
    )


def torque_derivatives(
    robot: Mechanism,
    q: ScalarArray,
    qd: ScalarArray,
    qdd: ScalarArray,
    f_ext: ScalarArray | None = None,
) -> TorqueDerivatives:
    """Torque without friction, and its derivatives; scalars of any kind.

    ``f_ext`` (n_bodies, 6) are wrenches in coordinates of the mechanism's bodies, and stay so
    when the robot moves.
    """
    freedoms, carried, above = move_freedoms(robot, q, qd, qdd, f_ext)
    for i in reversed(range(robot.n_bodies)):
        if above[i] >= 0:
            carried[above[i]].add(carried[i])
    torque = robot.armature * qdd
    out = TorqueDerivatives(torque, {}, {}, {})
    for i in range(robot.n_bodies):
        own = freedoms[i]
        if not own:
            continue
        load = carried[i]
        down: list[Freedom] = []
        j = above[i]
        while j >= 0:
            down += freedoms[j]
            j = above[j]
        for x in own:
            torque[x.place] = torque[x.place] + x.S @ load.f
            of = paired(x, load)
            for y in own:
                _add(out.q, y, x, y.S @ of.own_q)
                _add(out.qd, y, x, y.S @ of.by_qd)
                _add(out.qdd, y, x, y.S @ of.row)
            for y in down:
                _add(out.q, x, y, of.row_B @ y.P[:3] + of.row @ y.Q)
                _add(out.qd, x, y, of.row_B @ y.S[:3] + of.row @ y.R)
                _add(out.q, y, x, y.S @ of.by_q)
                _add(out.qd, y, x, y.S @ of.by_qd)
                inertia = of.row @ y.S
                _add(out.qdd, x, y, inertia)
                _add(out.qdd, y, x, inertia)
    for k in range(robot.nv):
        out.qdd[k, k] = out.qdd.get((k, k), 0.0) + robot.armature[k]
    return out


def _add(entries: Entries, row: Freedom, column: Freedom, value: Any) -> None:
    key = row.place, column.place
    entries[key] = entries[key] + value if key in entries else value


def move_freedoms(
    robot: Mechanism,
    q: ScalarArray,
    qd: ScalarArray,
    qdd: ScalarArray,
    f_ext: ScalarArray | None,
) -> tuple[list[list[Freedom]], list[Carried], list[int]]:
    """Freedoms and loads of every body, root to leaf, and who carries it (-1: the base)."""
    moved, above = move_bodies(robot, q, qd, qdd)
    loads = []
    for i, body in enumerate(moved):
        wrench = None if f_ext is None else body.pose.force_back(f_ext[i])
        seen = _seen(robot.moments[i], body.pose)
        loads.append(load_of(seen, body.v_after, body.a_after, wrench))
    return [body.freedoms() for body in moved], loads, above


def move_bodies(
    robot: Mechanism, q: ScalarArray, qd: ScalarArray, qdd: ScalarArray
) -> tuple[list[Moved], list[int]]:
    """Every body as it moves, root to leaf, and who carries it (-1: the base)."""
    X_up = transforms(robot, q)
    found: list[Moved] = []
    above: list[int] = []
    poses: list[Transform] = []
    still = np.zeros(6)
    for i, (X, parent) in enumerate(zip(X_up, robot.parent.tolist(), strict=True)):
        S, where = robot.motion_subspace[i], robot.v_slices()[i]
        is_root = parent < 0 or (above[parent] < 0 and not found[parent].axes)
        pose = X if parent < 0 else poses[parent].then(X)
        if is_root:  # nothing before it moves
            fall = pose.E @ -robot.gravity
            v, a = still, np.concatenate([np.zeros(3), fall])
            above.append(-1)
        else:
            v, a = found[parent].v_after, found[parent].a_after
            above.append(parent)
        poses.append(pose)
        if is_root and where.start < where.stop:
            poses[i] = pose = Transform.identity()
        axes, v_after = [], v
        for k in range(where.start, where.stop):
            s = _motion_back(pose, S[:, k - where.start])
            axes.append((k, s))
            v_after = v_after + s * qd[k]
        a_after = a
        for k, s in axes:
            dS = cross_motion(v if len(axes) == 1 else v_after, s)
            a_after = a_after + s * qdd[k] + dS * qd[k]
        found.append(Moved(pose, v, a, v_after, a_after, tuple(axes)))
    return found, above


def _motion_back(pose: Transform, s: ScalarArray) -> ScalarArray:
    """X^-1 s (6,): a motion vector of a body in the common frame."""
    turned = pose.E.T @ s[:3]
    return np.concatenate([turned, pose.E.T @ s[3:] + cross(pose.r, turned)])


def load_of(
    seen: MassMoments | None, v: ScalarArray, a: ScalarArray, wrench: ScalarArray | None
) -> Carried:
    """What one body adds, moving at v with proper spatial acceleration a, wrench on it."""
    out = Carried()
    if wrench is not None:
        out.f = -wrench
    if seen is None:
        return out
    w, u = v[:3], v[3:]
    twice = v + v
    out.mass, out.h, out.P = seen.mass, seen.first, seen.second
    out.K2 = np.array([cross(twice[:3], column) for column in out.P.T]).T
    out.K2 = out.K2 + np.outer(twice[3:], out.h)
    out.p2 = out.mass * twice[3:] + cross(twice[:3], out.h)
    U = acceleration_tensor(w, a[:3])
    out.f = out.f + newton_euler(seen, a[3:] + cross(w, u), U)
    return out


def _seen(moments: MassMoments, pose: Transform) -> MassMoments | None:
    """Moments in the common frame; None of a body without mass."""
    numbers = [moments.mass, *moments.first, *np.ravel(moments.second)]
    if all(isinstance(x, (float, np.floating)) and x == 0 for x in numbers):
        return None
    return moments.seen_from(pose)
