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
costs what ABA costs. Coupled (mimic) joints share one pivot, taken with the last of them.

Constraints  J u + drift = target  add their forces to the unknowns of the form,

    1/2 u^T M u + p^T u - force^T (J u + drift - target)

and the pivots of the joints leave, in the place of zeros, -J H^-1 J^T = -Lambda^-1 between
forces (the recursion of Popov and Vereshchagin). :mod:`.held.multipliers` solves for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from dynsys.model.spatial import Transform
from dynsys.model.tree import Mechanism
from dynsys.plan.quadratic_form import Key, QuadraticForm, Row
from dynsys.recursive.aba import solve_ldl
from dynsys.types import BoolArray, ScalarArray

__all__ = ["HeldRows", "SymmetricStep", "solve_symmetric", "symmetric_steps"]


@final
@dataclass(frozen=True)
class SymmetricStep:
    """One step of the plan.

    kind "joint pair": wrench and acceleration of ``body``, leaving what it is carried with and
    qdd; "pivot": qdd of its joint (the only division); "link pair": the carried acceleration,
    leaving the parent's acceleration. Of constraints, ``body`` being the number of a row:
    "multiplier": its force, by a pivot of Lambda^-1; "redundant": a row that the others imply.
    """

    kind: str
    body: int


@final
class HeldRows(NamedTuple):
    """Rows of one constraint: their unit forces on bodies (6, m) and freedoms (m,).

    ``acceleration`` (m,) is drift - target, in the motion whose unknown qdd are zero.
    """

    wrenches: Mapping[int, ScalarArray]
    torques: Mapping[int, ScalarArray]
    acceleration: ScalarArray

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.acceleration)


SolveForces: TypeAlias = Callable[
    [ScalarArray, ScalarArray, ScalarArray, ScalarArray], ScalarArray
]


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


def solve_symmetric(
    mechanism: Mechanism,
    X_up: Sequence[Transform],
    bias: Sequence[ScalarArray],
    inputs: ScalarArray,
    known: BoolArray,
    steps: Iterable[SymmetricStep],
    constraints: Sequence[HeldRows] = (),
    solve_forces: SolveForces | None = None,
) -> tuple[ScalarArray, ScalarArray, dict[int, ScalarArray]]:
    """Return qdd and torque (nv,), and 1/d of each pivot L d L^T by its joint's first freedom.

    Parameters
    ----------
    mechanism, X_up : the robot and its transforms parent -> body.
    bias : wrench (6,) of every body in the motion whose unknown qdd are zero, known qdd,
        velocities, gravity and external wrenches included (``net_wrenches``).
    inputs : (nv,) qdd where ``known`` (the same for all freedoms of a joint), torque elsewhere.
    steps : those of a plan, executed as they stand.
    constraints, solve_forces : rows that are held, and what finds their forces (m,) when the
        tree is eliminated: from Lambda^-1 (m, m), of which the lower triangle counts, what the
        rows accelerate without forces (m,), and the torques (nv,) and J^T (nv, m) of the joints
        whose qdd is known.
    """
    slices, parent = mechanism.v_slices(), mechanism.parent
    form = QuadraticForm()
    for k, (moments, p) in enumerate(zip(mechanism.moments, bias, strict=True)):
        form.add(("body", k), ("body", k), moments.matrix())
        form.add_linear(("body", k), p)
    for c, rows in enumerate(constraints):
        form.add(("force", c), ("force", c), np.zeros((rows.size, rows.size)))
        form.add_linear(("force", c), -rows.acceleration)
        for k, wrenches in rows.wrenches.items():
            form.add(("body", k), ("force", c), -wrenches)

    # Leaves to root: eliminate; keep what determines the qdd of a joint, or its wrench.
    qdd_rows: dict[int, Row] = {}
    wrench_rows: dict[int, Row] = {}
    for step in steps:
        k, v = step.body, slices[step.body]
        u, x, S = ("body", k), ("qdd", v.start), mechanism.motion_subspace[k]
        if step.kind == "link pair":
            form.link_pair(u, ("body", int(parent[k])), X_up[k])
        elif step.kind == "pivot":
            qdd_rows[k] = form.pivot(x, inputs[v], mechanism.armature[v], u, S)
        elif v.stop > v.start and known[v].all():
            wrench_rows[k] = Row(form.p[u], dict(form.M[u]))
        elif v.stop > v.start:
            form.joint_pair(u, x, S)
            for c, rows in enumerate(constraints):
                if v.start in rows.torques:
                    form.drive(x, ("force", c), rows.torques[v.start].reshape(1, -1))

    # Root to leaves: substitute; accelerations are those beyond the motion of the bias.
    qdd, torque = inputs.copy(), inputs.copy()
    torque[known] = mechanism.armature[known] * inputs[known]
    solved: dict[Key, Any] = {}
    if constraints and solve_forces is not None:
        solved |= _forces(
            mechanism, form, constraints, wrench_rows, torque, known, solve_forces
        )
    for k, v in enumerate(slices):
        u, x, S = ("body", k), ("qdd", v.start), mechanism.motion_subspace[k]
        solved[u] = np.zeros(6) if parent[k] < 0 else X_up[k].motion(solved["body", parent[k]])
        if k in qdd_rows:
            qdd[v] = solved[x] = solve_ldl(qdd_rows[k].factors, -qdd_rows[k].at(solved))
        if k in wrench_rows:
            torque[v] = torque[v] + S.T @ wrench_rows[k].at(solved)
        elif v.stop > v.start:
            solved[u] = solved[u] + S @ solved[x]
    return qdd, torque, {slices[k].start: np.diag(row.factors) for k, row in qdd_rows.items()}


def _forces(
    mechanism: Mechanism,
    form: QuadraticForm,
    constraints: Sequence[HeldRows],
    wrench_rows: Mapping[int, Row],
    torque: ScalarArray,
    known: BoolArray,
    solve: SolveForces,
) -> dict[Key, ScalarArray]:
    """Forces of the constraints, by key, from what the tree leaves; adds theirs to torques."""
    keys: list[Key] = [("force", c) for c in range(len(constraints))]
    ends = np.cumsum([0, *(rows.size for rows in constraints)]).tolist()
    places = [slice(a, b) for a, b in pairwise(ends)]
    Lambda_inv = np.zeros((ends[-1], ends[-1]), dtype=object)
    JT = np.zeros((mechanism.nv, ends[-1]), dtype=object)
    bias = np.array(torque)
    for c, (key, rows) in enumerate(zip(keys, constraints, strict=True)):
        for d, other in enumerate(keys[: c + 1]):
            if other in form.M[key]:
                Lambda_inv[places[c], places[d]] = -form.M[key][other]
        for freedom, force in rows.torques.items():
            JT[freedom, places[c]] = force
    for k, row in wrench_rows.items():
        S, v = mechanism.motion_subspace[k], mechanism.v_slices()[k]
        bias[v] = bias[v] + S.T @ row.p
        for key, place in zip(keys, places, strict=True):
            if key in row.blocks:
                JT[v, place] = JT[v, place] - S.T @ row.blocks[key]
    acceleration = np.concatenate([-form.p[key] for key in keys])
    forces = solve(Lambda_inv, acceleration, bias, JT)
    for rows, place in zip(constraints, places, strict=True):
        for freedom, force in rows.torques.items():
            if known[freedom]:
                torque[freedom] = torque[freedom] - force @ forces[place]
    return {key: forces[place] for key, place in zip(keys, places, strict=True)}
