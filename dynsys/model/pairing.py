"""Pairing the joints of a robot with those of another library's model, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.errors import ModelError, StateError
from dynsys.model.checks import nearest_name
from dynsys.model.joints import AbstractJoint, Free, Planar
from dynsys.model.tree import Body, KinematicTree
from dynsys.types import Array, ArrayLike

__all__ = ["Pair", "batch", "pair_up", "velocity_maps", "velocity_order"]


@final
@dataclass(frozen=True, eq=False)
class Pair:
    """One of our joints and its places in both orders; an empty place is a follower's."""

    body: Body
    q: slice
    v: slice
    their_q: slice
    their_v: slice

    @property
    def leads(self) -> bool:
        return self.body.coupling is None

    def position(self, q: Array) -> Array:
        own = q[..., self.q]
        rule = self.body.coupling
        return own if rule is None else rule.ratio * own + rule.offset


def batch(x: ArrayLike, size: int, what: str) -> Array:
    """Return x as float64 (..., size); StateError names ``what``."""
    try:
        array = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise StateError(f"{what} is not numeric: {error}") from None
    if array.ndim == 0 or array.shape[-1] != size:
        raise StateError(f"{what} must have shape (..., {size}), got {array.shape}")
    return array


def velocity_maps(pairs: Sequence[Pair], nv: int, their_nv: int) -> tuple[Array, Array]:
    """T (their_nv, nv) with v_theirs = T v, and V (nv, their_nv) with v = V v_theirs."""
    T, V = np.zeros((their_nv, nv)), np.zeros((nv, their_nv))
    for pair in pairs:
        ours = np.arange(pair.v.start, pair.v.stop)[velocity_order(pair.body.joint)]
        theirs = np.arange(pair.their_v.start, pair.their_v.stop)
        if pair.body.coupling is not None:
            T[theirs, ours[: len(theirs)]] = pair.body.coupling.ratio
        else:
            T[theirs, ours] = 1.0
            V[ours, theirs] = 1.0
    T.setflags(write=False)
    V.setflags(write=False)
    return T, V


def pair_up(
    robot: KinematicTree, what: str, theirs: Sequence[str], root_names: Sequence[str]
) -> list[int]:
    """Number, in their order, of each of our joints; every joint needs a partner."""
    number = {name: i for i, name in enumerate(theirs)}
    found: list[int] = []
    for name in robot.joint_names:
        aliases = [name, *(root_names if name == "root" else ())]
        match = next((number[alias] for alias in aliases if alias in number), None)
        if match is None:
            hint = nearest_name(name, tuple(theirs))
            raise ModelError(
                f"robot {robot.name!r}: joint {name!r} is not in the {what} model{hint}"
            )
        found.append(match)
    left = [name for i, name in enumerate(theirs) if i not in set(found)]
    if left:
        raise ModelError(
            f"robot {robot.name!r} has no joint {left[0]!r} of the {what} model; load both from"
            " the same file with the same base"
        )
    return found


def velocity_order(joint: AbstractJoint) -> list[int]:
    """Our velocity entries in the order of Pinocchio and MuJoCo: theirs = ours[order]."""
    if isinstance(joint, Free):
        return [3, 4, 5, 0, 1, 2]
    if isinstance(joint, Planar):
        return [1, 2, 0]
    return list(range(joint.nv))
