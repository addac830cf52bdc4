"""Known quantities as equations: unknown = y ([NORI] eq. 7, 8 and 14). Only b holds y."""

from __future__ import annotations

from collections.abc import Collection

from dynsys.system.equations import EquationBlock, Term
from dynsys.system.unknowns import UnknownBlock, UnknownKind, UnknownLayout

__all__ = ["known", "known_external_wrench", "known_inputs", "known_qdd", "known_torque"]


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
