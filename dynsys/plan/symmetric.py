"""Elimination of D in symmetric pairs, leaves first: one planned solve for ID, FD and hybrid.

Pair every equation of [NORI] eq. (3) with its dual unknown: acceleration rows with joint
wrenches, balance rows with accelerations, torque rows with qdd. D becomes symmetric, and
eliminating a wrench together with its body's acceleration needs no division: it substitutes
u = sum T x into the quadratic form  1/2 u^T M u + p^T u  whose stationary point the equations
are (Gauss's principle):

    pair   (f_u, u):   M_xx' += T_x^T M_uu T_x',     p_x += T_x^T p_u
    pivot  x:          M_yy' -= M_yx M_xx^-1 M_xy',  p_y -= M_yx M_xx^-1 p_x

The only pivots divided by are joint inertias, Schur complements of the positive definite H:
positive for every physical robot, safe by argument. A joint whose qdd is known has no pivot;
its torque is read off its wrench. All joints known: the elimination is RNEA; none known: it
costs what ABA costs. Coupled (mimic) joints share one pivot, taken when the last of them is
reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dynsys.model.spatial import Transform, congruence
from dynsys.model.tree import Mechanism
from dynsys.recursive.aba import factor_ldl, solve_ldl, without_joint
from dynsys.types import Array, BoolArray, ScalarArray

__all__ = ["SymmetricStep", "solve_symmetric", "symmetric_steps"]


@final
@dataclass(frozen=True)
class SymmetricStep:
    """One step of the plan.

    kind "joint pair": wrench and acceleration of ``body``, leaving what it is carried with and
    qdd; "pivot": qdd of its joint (the only division); "link pair": the carried acceleration,
    leaving the parent's acceleration.
    """

    kind: str
    body: int


def symmetric_steps(mechanism: Mechanism, known: BoolArray) -> tuple[SymmetricStep, ...]:
    """Leaf-to-root order of steps; ``known`` (nv,) marks freedoms whose qdd is given."""
    slices = mechanism.v_slices()
    last = {v.start: k for k, v in reversed(list(enumerate(slices))) if v.stop > v.start}
    steps: list[SymmetricStep] = []
    for body in reversed(range(mechanism.n_bodies)):
        v = slices[body]
        steps.append(SymmetricStep("joint pair", body))
        if v.stop > v.start and last[v.start] == body and not known[v].all():
            steps.append(SymmetricStep("pivot", body))
        steps.append(SymmetricStep("link pair", body))
    return tuple(steps)


Key = tuple[str, int]
"""("body", number) for accelerations, ("qdd", first freedom) for joints."""


class _QuadraticForm:
    """1/2 d^T M d + p^T d by blocks; M is kept as both M[u][v] and M[v][u] = M[u][v]^T."""

    def __init__(self) -> None:
        self.M: dict[Key, dict[Key, ScalarArray]] = {}
        self.p: dict[Key, ScalarArray] = {}

    def add(self, u: Key, v: Key, block: ScalarArray) -> None:
        row = self.M.setdefault(u, {})
        row[v] = row[v] + block if v in row else block
        if u != v:
            column = self.M.setdefault(v, {})
            column[u] = column[u] + block.T if u in column else block.T

    def add_linear(self, u: Key, term: ScalarArray) -> None:
        self.p[u] = self.p[u] + term if u in self.p else term

    def remove(self, u: Key) -> tuple[ScalarArray, ScalarArray, dict[Key, ScalarArray]]:
        """Take out an unknown: its own block, linear term and blocks with its neighbours."""
        row = self.M.pop(u)
        own = row.pop(u)
        for v in row:
            del self.M[v][u]
        return own, self.p.pop(u), row


@dataclass(frozen=True, eq=False)
class _Pivot:
    """Leaves qdd = -M_xx^-1 (p + sum of blocks times neighbours)."""

    freedoms: slice
    factors: ScalarArray
    p: ScalarArray
    blocks: Mapping[Key, ScalarArray]


@dataclass(frozen=True, eq=False)
class _Wrench:
    """Leaves f = M a + p + sum of blocks times neighbours, for joints whose qdd is known."""

    M: ScalarArray
    p: ScalarArray
    blocks: Mapping[Key, ScalarArray]


def solve_symmetric(
    mechanism: Mechanism,
    X_up: Sequence[Transform],
    bias: Sequence[ScalarArray],
    inputs: ScalarArray,
    known: BoolArray,
    steps: Sequence[SymmetricStep] | None = None,
) -> tuple[ScalarArray, ScalarArray, dict[int, ScalarArray]]:
    """Accelerations, torques (nv,) and reciprocal pivots from bias wrenches and given inputs.

    The reciprocals 1/d of each pivot's factors L d L^T come by the first freedom of its joint.

    Parameters
    ----------
    mechanism, X_up : the robot and its transforms parent -> body.
    bias : wrench (6,) of every body in the motion whose unknown qdd are zero, known qdd,
        velocities, gravity and external wrenches included (``net_wrenches``).
    inputs : (nv,) qdd where ``known``, torque elsewhere.
    known : (nv,) freedoms whose qdd is given; the freedoms of one joint go together.
    steps : order of elimination, leaf to root unless given.
    """
    form = _QuadraticForm()
    for k, (moments, p) in enumerate(zip(mechanism.moments, bias, strict=True)):
        form.add(("body", k), ("body", k), moments.matrix())
        form.add_linear(("body", k), p)
    pivots: dict[int, _Pivot] = {}
    wrenches: dict[int, _Wrench] = {}
    for step in steps if steps is not None else symmetric_steps(mechanism, known):
        k, v = step.body, mechanism.v_slices()[step.body]
        if step.kind == "link pair":
            _eliminate_carried(form, k, int(mechanism.parent[k]), X_up[k])
        elif step.kind == "pivot":
            pivots[k] = _eliminate_qdd(form, mechanism, k, inputs)
        elif v.stop > v.start and known[v].all():
            blocks = {y: block for y, block in form.M["body", k].items() if y != ("body", k)}
            wrenches[k] = _Wrench(form.M["body", k]["body", k], form.p["body", k], blocks)
        elif v.stop > v.start:
            _let_joint_move(form, k, ("qdd", v.start), mechanism.motion_subspace[k])
    qdd, torque = _substitute(mechanism, X_up, inputs, known, pivots, wrenches)
    return qdd, torque, {p.freedoms.start: np.diag(p.factors) for p in pivots.values()}


def _let_joint_move(form: _QuadraticForm, k: int, x: Key, S: Array) -> None:
    """Joint pair: u = carried + S qdd; the carried acceleration takes the place of u."""
    u = ("body", k)
    own = form.M[u][u]
    others = [(y, block) for y, block in form.M[u].items() if y != u]
    form.add(x, x, S.T @ (own @ S))
    for y, block in others:
        form.add(x, y, S.T @ block if y != x else S.T @ block + block.T @ S)
    form.add(u, x, own @ S)
    form.add_linear(x, S.T @ form.p[u])


def _eliminate_carried(form: _QuadraticForm, k: int, parent: int, X: Transform) -> None:
    """Link pair: u = X a_parent; the base does not accelerate."""
    M, p, blocks = form.remove(("body", k))
    if parent < 0:
        return
    w = ("body", parent)
    form.add(w, w, congruence(X, M))
    form.add_linear(w, X.force_back(p))
    for y, block in blocks.items():
        form.add(w, y, np.column_stack([X.force_back(column) for column in block.T]))


def _eliminate_qdd(
    form: _QuadraticForm, mechanism: Mechanism, k: int, inputs: ScalarArray
) -> _Pivot:
    """Pivot: qdd of joint k, with armature and torque of its torque row."""
    v = mechanism.v_slices()[k]
    armature = mechanism.armature[v]
    own, p, blocks = form.remove(("qdd", v.start))
    p = p - inputs[v]
    factors = factor_ldl(own + np.diag(armature))
    neighbours = list(blocks)
    for place, y in enumerate(neighbours):
        form.add_linear(y, -(blocks[y].T @ solve_ldl(factors, p)))
        if y == ("body", k) and len(neighbours) == 1:
            M, S = form.M[y][y], mechanism.motion_subspace[k]
            form.M[y][y] = without_joint(
                M, S, blocks[y].T, factors, armature=bool(armature.any())
            )
            continue
        for z in neighbours[place:]:
            scaled = np.column_stack([solve_ldl(factors, c) for c in blocks[z].T])
            form.add(y, z, -(blocks[y].T @ scaled))
    return _Pivot(v, factors, p, blocks)


def _substitute(
    mechanism: Mechanism,
    X_up: Sequence[Transform],
    inputs: ScalarArray,
    known: BoolArray,
    pivots: Mapping[int, _Pivot],
    wrenches: Mapping[int, _Wrench],
) -> tuple[ScalarArray, ScalarArray]:
    """Root to leaf: qdd from pivots, accelerations from pairs, torques from wrenches."""
    qdd, torque = inputs.copy(), inputs.copy()
    torque[known] = mechanism.armature[known] * inputs[known]
    solved: dict[Key, Any] = {("body", -1): np.zeros(6)}
    for k in range(mechanism.n_bodies):
        v, parent, u = mechanism.v_slices()[k], int(mechanism.parent[k]), ("body", k)
        solved[u] = np.zeros(6) if parent < 0 else X_up[k].motion(solved["body", parent])
        if k in pivots:
            pivot = pivots[k]
            load = pivot.p
            for y, block in pivot.blocks.items():
                load = load + block @ solved[y]
            qdd[v] = solved["qdd", v.start] = solve_ldl(pivot.factors, -load)
        if k in wrenches:
            f = wrenches[k].M @ solved[u] + wrenches[k].p
            for y, block in wrenches[k].blocks.items():
                f = f + block @ solved[y]
            torque[v] = torque[v] + mechanism.motion_subspace[k].T @ f
        elif v.stop > v.start:
            solved[u] = solved[u] + mechanism.motion_subspace[k] @ solved["qdd", v.start]
    return qdd, torque
