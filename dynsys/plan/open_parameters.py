"""Inverse dynamics with a few open parameters, on any tree: what each of them adds.

    d = d0 + Z p            d0: RNEA with p = 0;  p: accelerations of joints, external wrenches

Parameter k moves joint i by s_ki and loads body i with the wrench -e_ki. With the composite
inertia Ic_i of all that joint i carries,

    m_i = X_i m_parent + s_ki                                acceleration that is added
    e_i = e_ki + sum over children j  X_j^T (e_j + Ic_j s_kj)    wrench added from beyond
    f_i = Ic_i m_i + e_i,    tau_i = (Ic_i S_i)^T m_i + S_i^T e_i

One vector per parameter and body that has a row of the system in p to fill ("column"); where p
is known by then, one vector for all parameters together. O(n) for each parameter.

An external wrench of which nothing is known may be asked for where its sensor is: parameters
are then its components as they arrive at an *anchor*, a body on the way to the base. A sensor
there sees them as they are, and they travel back outwards once they are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from dynsys.model.spatial import MassMoments, Transform, mirrored, rotate_matrix
from dynsys.program.frames import Reframed
from dynsys.types import Array, ScalarArray

__all__ = ["Direction", "Response", "Values"]


class Direction(NamedTuple):
    """What one parameter stands for, per unit.

    Parameters
    ----------
    name : in words of the robot.
    qdd : accelerations of freedoms, by their number.
    wrench : external wrenches (6,) by body, in its coordinates.
    source : body that ``wrench`` acts on where it is given at an anchor instead, else -1.
    """

    name: str
    qdd: Mapping[int, float]
    wrench: Mapping[int, Array]
    source: int = -1


class Values(NamedTuple):
    """What known parameters add, by stage: acceleration m, wrench e; None where nothing."""

    m: list[ScalarArray | None]
    e: list[ScalarArray | None]


@final
class Response:
    """Columns of Z at one state, scalars of any kind; made when asked for.

    ``stage`` numbers are those of ``mechanism``; vectors are in its frames, None for zero.
    """

    def __init__(
        self, mechanism: Reframed, X_up: Sequence[Transform], directions: Sequence[Direction]
    ) -> None:
        self.mechanism, self.X_up, self.directions = mechanism, X_up, directions
        n, place = mechanism.n_bodies, mechanism.place
        self._drive: list[dict[int, Array]] = []
        self._load: list[dict[int, ScalarArray]] = []
        for direction in directions:
            motion: dict[int, Array] = {}
            for k in range(n):
                start, stop = mechanism.v_slices()[k].start, mechanism.v_slices()[k].stop
                for freedom, x in direction.qdd.items():
                    if start <= freedom < stop:
                        S = mechanism.motion_subspace[k][:, freedom - start] * x
                        motion[k] = motion[k] + S if k in motion else S
            self._drive.append(motion)
            self._load.append(
                {
                    place[body]: -mechanism.wrench_to_new(body, wrench)
                    for body, wrench in direction.wrench.items()
                }
            )
        self._composite: list[MassMoments] | None = None
        self._motions: list[dict[int, ScalarArray] | None] = [None] * len(directions)
        self._wrenches: list[dict[int, ScalarArray] | None] = [None] * len(directions)
        self._units: dict[int, ScalarArray] = {}
        self._paid: list[set[int]] = [set() for _ in directions]

    # ---- columns -------------------------------------------------------------------------

    def composite(self, stage: int) -> MassMoments:
        """Mass moments of a stage and all that hangs on it."""
        if self._composite is None:
            parts = list(self.mechanism.moments)
            for k in reversed(range(self.mechanism.n_bodies)):
                if (parent := int(self.mechanism.parent[k])) >= 0:
                    parts[parent] = parts[parent].plus(_carried(parts[k], self.X_up[k]))
            self._composite = parts
        return self._composite[stage]

    def unit(self, stage: int) -> ScalarArray:
        """Ic_i S_i (6, nv_i): wrench per unit of the joint's own acceleration."""
        if stage not in self._units:
            S = self.mechanism.motion_subspace[stage]
            self._units[stage] = self.composite(stage).matrix() @ S
        return self._units[stage]

    def motion(self, k: int, stage: int) -> ScalarArray | None:
        """m_i of parameter k."""
        found = self._motions[k]
        if found is None:
            found = self._motions[k] = {}
            for i, X in enumerate(self.X_up):
                above = found.get(int(self.mechanism.parent[i]))
                m = _sum(None if above is None else X.motion(above), self._drive[k].get(i))
                if m is not None:
                    found[i] = m
        return found.get(stage)

    def wrench(self, k: int, stage: int) -> ScalarArray | None:
        """e_i of parameter k; from here to the leaves its column now exists."""
        self._paid[k].add(stage)
        return self._columns(k).get(stage)

    def joint_wrench(self, k: int, stage: int) -> ScalarArray | None:
        """f_i of parameter k."""
        m = self.motion(k, stage)
        inertial = None if m is None else self.composite(stage).matrix() @ m
        return _sum(inertial, self.wrench(k, stage))

    def torque(self, k: int, stage: int) -> ScalarArray | None:
        """S_i^T f_i (nv_i,) of parameter k."""
        m, e = self.motion(k, stage), self.wrench(k, stage)
        inertial = None if m is None else self.unit(stage).T @ m
        return _sum(inertial, None if e is None else self._S(stage).T @ e)

    def _S(self, stage: int) -> Array:
        return self.mechanism.motion_subspace[stage]

    def _columns(self, k: int) -> dict[int, ScalarArray]:
        found = self._wrenches[k]
        if found is None:
            found = self._wrenches[k] = dict(self._load[k])
            for i in reversed(range(self.mechanism.n_bodies)):
                parent = int(self.mechanism.parent[i])
                passed = _sum(found.get(i), self._started(k, i))
                if parent >= 0 and passed is not None:
                    carried = self.X_up[i].force_back(passed)
                    found[parent] = carried + found[parent] if parent in found else carried
            for i in self._outwards(k):
                above = found[int(self.mechanism.parent[i])]
                found[i] = self.X_up[i].inverse().force_back(above)
        return found

    def _started(self, k: int, stage: int) -> ScalarArray | None:
        """Ic_i s_ki: what the joint's own motion passes on."""
        s = self._drive[k].get(stage)
        if s is None:
            return None
        S = self._S(stage)
        if S.shape[1] == 1 and (s == S[:, 0]).all():
            return self.unit(stage)[:, 0]
        return self.composite(stage).matrix() @ s

    def _outwards(self, k: int) -> list[int]:
        """Stages from behind the anchor out to the body that the wrench acts on."""
        source = self.directions[k].source
        if source < 0:
            return []
        (anchor,), way = self._load[k], []
        stage = self.mechanism.place[source]
        while stage != anchor:
            way.append(stage)
            stage = int(self.mechanism.parent[stage])
        return way[::-1]

    # ---- sums over known parameters ------------------------------------------------------

    def values(self, p: Sequence[Any]) -> Values:
        """What parameters p add together; columns that rows made are used where they are."""
        mechanism, n = self.mechanism, self.mechanism.n_bodies
        parents = mechanism.parent.tolist()
        m: list[ScalarArray | None] = []
        for i, X in enumerate(self.X_up):
            above = m[parents[i]] if parents[i] >= 0 else None
            total = None if above is None else X.motion(above)
            for k, drive in enumerate(self._drive):
                if i in drive:
                    total = _sum(total, drive[i] * p[k])
            m.append(total)
        has_column = [self._with_column(k) for k in range(len(p))]
        e: list[ScalarArray | None] = [None] * n
        passed: list[ScalarArray | None] = [None] * n  # without what columns hold
        for i in reversed(range(n)):
            for k, load in enumerate(self._load):
                if i in load and i not in has_column[k]:
                    passed[i] = _sum(passed[i], load[i] * p[k])
            e[i], beyond = passed[i], passed[i]
            for k in range(len(p)):
                x = self._columns(k).get(i) if i in has_column[k] else None
                if x is not None:
                    e[i] = _sum(e[i], x * p[k])
                if parents[i] < 0 or parents[i] in has_column[k]:
                    continue
                x = _sum(x, self._started(k, i))
                if x is not None:
                    beyond = _sum(beyond, x * p[k])
            if parents[i] >= 0 and beyond is not None:
                carried = self.X_up[i].force_back(beyond)
                passed[parents[i]] = _sum(passed[parents[i]], carried)
        self._add_outwards(p, e)
        return Values(m, e)

    def _with_column(self, k: int) -> set[int]:
        """Stages inwards of the leaves whose column of parameter k some row needs anyway."""
        found: set[int] = set()
        for i, parent in enumerate(self.mechanism.parent.tolist()):
            if i in self._paid[k] or parent in found:
                found.add(i)
        return found - set(self._outwards(k))

    def _add_outwards(self, p: Sequence[Any], e: list[ScalarArray | None]) -> None:
        for source in {d.source: None for d in self.directions if d.source >= 0}:
            way, wrench = self._at_anchor(source, p)
            for i in way:
                wrench = self.X_up[i].inverse().force_back(wrench)
                e[i] = _sum(e[i], wrench)

    def _at_anchor(self, source: int, p: Sequence[Any]) -> tuple[list[int], ScalarArray]:
        """Way outwards to the body, and its wrench (6,), turned, where the way begins."""
        way, total = [], np.zeros(6)
        for k, direction in enumerate(self.directions):
            if direction.source == source:
                (load,) = self._load[k].values()
                way, total = self._outwards(k), total + load * p[k]
        return way, total

    def external_wrench(self, body: int, p: Sequence[Any]) -> ScalarArray:
        """External wrench (6,) that known parameters add on a body, in its coordinates."""
        total: ScalarArray = np.zeros(6)
        for k, direction in enumerate(self.directions):
            if direction.source < 0 and body in direction.wrench:
                total = total + direction.wrench[body] * p[k]
        if any(direction.source == body for direction in self.directions):
            way, wrench = self._at_anchor(body, p)
            for i in way:
                wrench = self.X_up[i].inverse().force_back(wrench)
            total = total - self.mechanism.to_new[body].force_back(wrench)
        return total


def _sum(a: ScalarArray | None, b: ScalarArray | None) -> ScalarArray | None:
    return b if a is None else a if b is None else a + b


def _carried(m: MassMoments, X: Transform) -> MassMoments:
    """Moments of a composite body in its parent's frame; see MassMoments.seen_from."""
    first = X.E.T @ m.first
    second = mirrored(rotate_matrix(X.E, m.second))
    mixed = np.outer(X.r, first)
    second = second + mixed + mixed.T + m.mass * np.outer(X.r, X.r)
    return MassMoments(m.mass, first + m.mass * X.r, second)
