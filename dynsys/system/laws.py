"""The rows of D(q) d + b(q, qd) = 0: laws of motion and known quantities, one function each.

Signs are those of [NORI] eq. (4); joints have any number of freedoms. S_i of a coupled (mimic)
joint holds its ratio, and its qdd and torque are those of its leader. Every block of rows names
its dual unknown: rows in the order of their duals make D symmetric (dynsys.plan.symmetric).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from dynsys.model.constraints import Constraint, JointConstraint
from dynsys.model.spatial import cross_force, cross_motion
from dynsys.model.tree import KinematicTree
from dynsys.system.equations import EquationBlock, Kinematics, Term, Values
from dynsys.system.unknowns import UnknownBlock, UnknownKind, UnknownLayout
from dynsys.types import ScalarArray

__all__ = ["constraint_law", "known", "known_inputs", "laws", "net_wrench_law", "torque_law"]


def laws(unknowns: UnknownLayout) -> Iterator[EquationBlock]:
    """All laws of a robot, body by body: acceleration, (net wrench), balance, torque.

    Then those of its constraints, if it has any.
    """
    for i in range(unknowns.robot.n_bodies):
        yield acceleration_law(unknowns, i)
        if unknowns.net_wrench:
            yield net_wrench_law(unknowns, i)
        yield balance_law(unknowns, i)
        if i in unknowns.driven:
            yield torque_law(unknowns, i)
    for c in range(len(unknowns.constraints)):
        yield constraint_law(unknowns, c)


def acceleration_law(unknowns: UnknownLayout, i: int) -> EquationBlock:
    """Acceleration of body i from its parent's and its joint's.

    - a_i + X_i a_parent + S_i qdd_i + c_i = 0,   c_i = v_i x S_i qd_i      [NORI] (3a), (4a-b)

    The base accelerates by a_0 = -g, so accelerations are proper; it enters the bias.
    """
    robot = unknowns.robot
    parent, S, freedoms = int(robot.parent[i]), robot.motion_subspace[i], unknowns.freedoms[i]
    terms = [Term.identity(unknowns.block("acceleration", i), -1.0)]
    if parent >= 0:
        terms.append(Term.carried(unknowns.block("acceleration", parent), robot, i))
    if S.shape[1]:
        terms.append(Term.constant(unknowns.block("qdd", i), S))

    def bias(kin: Kinematics) -> ScalarArray:
        c = cross_motion(kin.velocity[i], S @ kin.qd[freedoms]) if S.shape[1] else np.zeros(6)
        return c if parent >= 0 else kin.transforms[i].motion(kin.base_acceleration) + c

    f = unknowns.block("joint_wrench", i)
    return EquationBlock.paired("acceleration", robot.body_names[i], f, terms, bias)


def net_wrench_law(unknowns: UnknownLayout, i: int) -> EquationBlock:
    """Newton-Euler: the net wrench on body i is the rate of its momentum.

    I_i a_i - f^B_i + nu_i = 0,   nu_i = v_i x* I_i v_i
    """
    net, (inertial, nu) = unknowns.block("net_wrench", i), _momentum_rate(unknowns, i)
    terms = [inertial, Term.identity(net, -1.0)]
    return EquationBlock.paired("net_wrench", unknowns.robot.body_names[i], net, terms, nu)


def balance_law(unknowns: UnknownLayout, i: int) -> EquationBlock:
    """Balance of the wrenches on body i: joint, environment, children, rate of momentum.

    I_i a_i - f_i - f^x_i + sum over children X_j^T f_j + nu_i = 0          [NORI] (3f), (4c-d)

    with f^B_i in place of I_i a_i + nu_i where the layout has net wrenches; constraints that
    hold the body take part with the wrenches of their forces, - W_c force_c.
    """
    robot, block, (inertial, nu) = unknowns.robot, unknowns.block, _momentum_rate(unknowns, i)
    if unknowns.net_wrench:
        inertial, nu = Term.identity(block("net_wrench", i)), None
    terms = [
        inertial,
        Term.identity(block("joint_wrench", i), -1.0),
        Term.identity(block("external_wrench", i), -1.0),
        *(Term.carried_back(block("joint_wrench", j), robot, j) for j in robot.children[i]),
    ]
    for c, held in enumerate(unknowns.constraints):
        if i in _held_bodies(robot, held):
            terms.append(_varying(block("constraint_wrench", c), 6, _wrenches(held, i)))
    a = block("acceleration", i)
    return EquationBlock.paired("balance", robot.body_names[i], a, terms, nu)


def torque_law(unknowns: UnknownLayout, i: int) -> EquationBlock:
    """Torque of joint i: the part of its wrench along its freedoms, and its rotor's inertia.

    sum over driven j  S_j^T f_j - tau_i + armature_i qdd_i + friction_i(qd_i) = 0   [NORI] (4e)

    The sum runs over joint i and the joints coupled to it; the armature is ours, and friction,
    zero unless it is asked for (dynsys.model.parameters).
    """
    robot, qdd, freedoms = unknowns.robot, unknowns.block("qdd", i), unknowns.freedoms[i]
    armature = np.diag(robot.armature[freedoms])
    terms = [
        Term.constant(unknowns.block("joint_wrench", j), robot.motion_subspace[j].T)
        for j in unknowns.driven[i]
    ]
    terms.append(Term.identity(unknowns.block("torque", i), -1.0))
    if armature.any():
        terms.append(Term.constant(qdd, armature))
    for c, held in enumerate(unknowns.constraints):
        if isinstance(held, JointConstraint) and freedoms.start in held.freedoms(robot):
            force = unknowns.block("constraint_wrench", c)
            terms.append(_varying(force, 1, _torques(held, freedoms.start)))
    friction = None if robot.joint_friction is None else lambda kin: kin.friction[freedoms]
    return EquationBlock.paired("torque", robot.joint_names[i], qdd, terms, friction)


def constraint_law(unknowns: UnknownLayout, c: int) -> EquationBlock:
    """Acceleration of what a constraint holds: none along its rows.

    - sum over bodies W_i^T (a_i - a_i^0) - sum over joints w_j qdd_j - drift = 0

    with a^0 and the drift Jdot qd those of the motion without qdd. W_i and w_j are wrenches and
    torques of unit forces, which the balance and torque laws hold too: D stays symmetric.
    """
    robot, held = unknowns.robot, unknowns.constraints[c]
    force, bodies = unknowns.block("constraint_wrench", c), _held_bodies(robot, held)
    terms = [
        _varying(unknowns.block("acceleration", i), held.size, _wrenches(held, i, back=True))
        for i in bodies
    ]
    if isinstance(held, JointConstraint):
        for joint, freedom in zip((held.joint, held.leader), held.freedoms(robot), strict=True):
            if joint is not None and freedom is not None:
                qdd = unknowns.block("qdd", robot.joint_index(joint))
                terms.append(_varying(qdd, 1, _torques(held, freedom)))

    def bias(kin: Kinematics) -> ScalarArray:
        rows = kin.rows(held)
        total = -rows.drift
        for i in bodies:
            total = total + rows.wrenches[i].T @ kin.drift[i]
        return total

    return EquationBlock.paired("constraint", held.name, force, terms, bias)


def _held_bodies(robot: KinematicTree, held: Constraint) -> list[int]:
    """Moving bodies that a constraint holds."""
    if isinstance(held, JointConstraint):
        return []
    return [end.body for end in held.ends(robot) if end.body >= 0]


def _varying(unknown: UnknownBlock, rows: int, value: Values) -> Term:
    return Term(unknown, np.ones((rows, unknown.size), dtype=bool), value)


def _wrenches(held: Constraint, body: int, *, back: bool = False) -> Values:
    if back:
        return lambda kin: -kin.rows(held).wrenches[body].T
    return lambda kin: -kin.rows(held).wrenches[body]


def _torques(held: Constraint, freedom: int) -> Values:
    return lambda kin: -kin.rows(held).torques[freedom].reshape(1, -1)


def known(unknowns: UnknownLayout, kind: UnknownKind, i: int) -> EquationBlock:
    """Any unknown of the layout as a known quantity: unknown - y = 0    [NORI] (7), (8), (14).

    Only b holds y. The dual of a known qdd is the torque: beside the torque law it leaves
    [[0, -1], [1, 0]], symmetric but for a sign.
    """
    unknown = unknowns.block(kind, i)
    dual = unknowns.block("torque", i) if kind == "qdd" else unknown
    terms = [Term.identity(unknown)]
    return EquationBlock.paired(f"known_{kind}", unknown.name, dual, terms, measured=True)


def known_inputs(unknowns: UnknownLayout, accelerated: Collection[int]) -> list[EquationBlock]:
    """All external wrenches, and of every joint its acceleration or else its torque.

    Body by body f^x_i, then qdd_i for the joints in ``accelerated``, tau_i for the others:
    together with the laws a square system.
    """
    blocks = []
    for i in range(unknowns.robot.n_bodies):
        blocks.append(known(unknowns, "external_wrench", i))
        if i in unknowns.driven:
            blocks.append(known(unknowns, "qdd" if i in accelerated else "torque", i))
    return blocks


def _momentum_rate(unknowns: UnknownLayout, i: int) -> tuple[Term, Values | None]:
    """Rate of momentum of body i: the term I_i a_i and the bias nu_i = v_i x* I_i v_i."""
    inertia = unknowns.robot.bodies[i].inertia.matrix()
    term = Term.constant(unknowns.block("acceleration", i), inertia)
    return term, lambda kin: cross_force(kin.velocity[i], inertia @ kin.velocity[i])
