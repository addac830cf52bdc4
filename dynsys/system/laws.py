"""The physical laws as equations: one function per law, signs of [NORI] eq. (4).

Written for joints of any number of freedoms. S_i of a coupled (mimic) joint holds its ratio,
and its qdd and torque are those of its leader.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from dynsys.model.spatial import cross_force, cross_motion
from dynsys.system.equations import EquationBlock, Kinematics, Term, Values
from dynsys.system.unknowns import UnknownBlock, UnknownKind, UnknownLayout
from dynsys.types import Array, ScalarArray

__all__ = [
    "acceleration_law",
    "balance_law",
    "known",
    "known_external_wrench",
    "known_inputs",
    "known_qdd",
    "known_torque",
    "laws",
    "net_wrench_law",
    "torque_law",
]


def laws(unknowns: UnknownLayout) -> tuple[EquationBlock, ...]:
    """All laws of a robot, body by body: acceleration, (net wrench), balance, torque."""
    blocks: list[EquationBlock] = []
    for i in range(unknowns.robot.n_bodies):
        blocks.append(acceleration_law(unknowns, i))
        if unknowns.net_wrench:
            blocks.append(net_wrench_law(unknowns, i))
        blocks.append(balance_law(unknowns, i))
        if i in unknowns.driven:
            blocks.append(torque_law(unknowns, i))
    return tuple(blocks)


def acceleration_law(unknowns: UnknownLayout, i: int) -> EquationBlock:
    """Acceleration of body i from its parent's and its joint's.

    - a_i + X_i a_parent + S_i qdd_i + c_i = 0,   c_i = v_i x S_i qd_i      [NORI] (3a), (4a-b)

    The base accelerates by a_0 = -g, so accelerations are proper; it enters the bias.
    """
    robot = unknowns.robot
    parent, S, freedoms = int(robot.parent[i]), robot.motion_subspace[i], unknowns.freedoms[i]
    terms = [Term.identity(unknowns.block("acceleration", i), -1.0)]
    if parent >= 0:
        acceleration = unknowns.block("acceleration", parent)
        terms.append(Term(acceleration, robot.transform_pattern[i], lambda kin: kin.X_up[i]))
    if S.shape[1]:
        terms.append(Term.constant(unknowns.block("qdd", i), S))

    def bias(kin: Kinematics) -> ScalarArray:
        c = np.zeros(6)
        if S.shape[1]:
            c = cross_motion(kin.velocity[i], S @ kin.qd[freedoms])
        return c if parent >= 0 else kin.transforms[i].motion(kin.base_acceleration) + c

    return EquationBlock(
        name=f"acceleration({robot.body_names[i]})",
        kind="acceleration",
        body=i,
        size=6,
        terms=tuple(terms),
        bias=bias,
        dual=unknowns.block("joint_wrench", i),
    )


def net_wrench_law(unknowns: UnknownLayout, i: int) -> EquationBlock:
    """Newton-Euler: the net wrench on body i is the rate of its momentum.

    I_i a_i - f^B_i + nu_i = 0,   nu_i = v_i x* I_i v_i
    """
    robot = unknowns.robot
    inertia = robot.bodies[i].inertia.matrix()
    return EquationBlock(
        name=f"net_wrench({robot.body_names[i]})",
        kind="net_wrench",
        body=i,
        size=6,
        terms=(
            Term.constant(unknowns.block("acceleration", i), inertia),
            Term.identity(unknowns.block("net_wrench", i), -1.0),
        ),
        bias=_gyroscopic_wrench(inertia, i),
        dual=unknowns.block("net_wrench", i),
    )


def balance_law(unknowns: UnknownLayout, i: int) -> EquationBlock:
    """Balance of the wrenches on body i: joint, environment, children, rate of momentum.

    I_i a_i - f_i - f^x_i + sum over children X_j^T f_j + nu_i = 0          [NORI] (3f), (4c-d)

    with f^B_i in place of I_i a_i + nu_i where the layout has net wrenches.
    """
    robot = unknowns.robot
    if unknowns.net_wrench:
        momentum_rate = Term.identity(unknowns.block("net_wrench", i))
        bias = None
    else:
        inertia = robot.bodies[i].inertia.matrix()
        momentum_rate = Term.constant(unknowns.block("acceleration", i), inertia)
        bias = _gyroscopic_wrench(inertia, i)
    terms = [
        momentum_rate,
        Term.identity(unknowns.block("joint_wrench", i), -1.0),
        Term.identity(unknowns.block("external_wrench", i), -1.0),
        *(_child_wrench(unknowns, j) for j in robot.children[i]),
    ]
    return EquationBlock(
        name=f"balance({robot.body_names[i]})",
        kind="balance",
        body=i,
        size=6,
        terms=tuple(terms),
        bias=bias,
        dual=unknowns.block("acceleration", i),
    )


def torque_law(unknowns: UnknownLayout, i: int) -> EquationBlock:
    """Torque of joint i: the part of its wrench along its freedoms, and its rotor's inertia.

    sum over driven j  S_j^T f_j - tau_i + armature_i qdd_i = 0             [NORI] (3tau), (4e)

    The sum runs over joint i and the joints coupled to it; the armature is ours.
    """
    robot = unknowns.robot
    torque, qdd = unknowns.block("torque", i), unknowns.block("qdd", i)
    armature = np.diag(robot.armature[unknowns.freedoms[i]])
    terms = [
        Term.constant(unknowns.block("joint_wrench", j), robot.motion_subspace[j].T)
        for j in unknowns.driven[i]
    ]
    terms.append(Term.identity(torque, -1.0))
    if armature.any():
        terms.append(Term.constant(qdd, armature))
    return EquationBlock(
        name=f"torque({robot.joint_names[i]})",
        kind="torque",
        body=i,
        size=torque.size,
        terms=tuple(terms),
        dual=qdd,
    )


def _child_wrench(unknowns: UnknownLayout, j: int) -> Term:
    """X_j^T f_j, the wrench through the joint of child j in its parent's coordinates."""
    pattern = unknowns.robot.transform_pattern[j].T
    return Term(unknowns.block("joint_wrench", j), pattern, lambda kin: kin.X_up[j].T)


def _gyroscopic_wrench(inertia: Array, i: int) -> Values:
    """Return nu_i = v_i x* I_i v_i (6,) as a function of the kinematics."""
    return lambda kin: cross_force(kin.velocity[i], inertia @ kin.velocity[i])


# ----------------------------------------------------------------------
# Known quantities as equations: unknown = y ([NORI] eq. 7, 8 and 14). Only b holds y.


def known_qdd(unknowns: UnknownLayout, joint: int) -> EquationBlock:
    """Acceleration of a joint with freedoms of its own: qdd_i - y = 0 ([NORI] eq. 7, 8a).

    Its dual is the torque: beside the torque law it leaves [[0, -1], [1, 0]], symmetric but for
    a sign.
    """
    return known(unknowns, "qdd", joint, dual=unknowns.block("torque", joint))


def known_torque(unknowns: UnknownLayout, joint: int) -> EquationBlock:
    """Torque of a joint with freedoms of its own: tau_i - y = 0 ([NORI] eq. 14)."""
    return known(unknowns, "torque", joint)


def known_external_wrench(unknowns: UnknownLayout, body: int) -> EquationBlock:
    """Wrench of the environment on a body: f^x_i - y = 0 ([NORI] eq. 7f, 8b)."""
    return known(unknowns, "external_wrench", body)


def known(
    unknowns: UnknownLayout, kind: UnknownKind, body: int, dual: UnknownBlock | None = None
) -> EquationBlock:
    """Any unknown of the layout: unknown - y = 0."""
    unknown = unknowns.block(kind, body)
    return EquationBlock(
        name=f"known_{kind}({unknown.name})",
        kind=f"known_{kind}",
        body=unknown.body,
        size=unknown.size,
        terms=(Term.identity(unknown),),
        measured=True,
        dual=dual or unknown,
    )


def known_inputs(
    unknowns: UnknownLayout, known_acceleration: Collection[int]
) -> tuple[EquationBlock, ...]:
    """All external wrenches, and of every joint its acceleration or else its torque.

    Body by body f^x_i, then qdd_i for the joints in ``known_acceleration``, tau_i for the
    others: together with the laws a square system. Inverse dynamics knows all accelerations,
    forward dynamics none.
    """
    blocks: list[EquationBlock] = []
    for i in range(unknowns.robot.n_bodies):
        blocks.append(known_external_wrench(unknowns, i))
        if i in unknowns.driven:
            state = known_qdd if i in known_acceleration else known_torque
            blocks.append(state(unknowns, i))
    return tuple(blocks)
