"""Positions and the velocities between them, joint by joint: one state, or a row for each.

    integrate(q, v, dt)          q after moving at constant v for dt
    difference(q0, q1)           the v with integrate(q0, v, 1) = q1
    position_rate(q, v)          dq/dt = T(q) v, T the tangent of integrate
    velocity_from_rate(q, dq)    v, the pseudo-inverse of T times dq/dt

v turns in body axes (:mod:`dynsys.model.joints`), q by quaternions: nq may exceed nv. Coupled
joints have no place of their own in either. The methods of KinematicTree say the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dynsys.errors import StateError
from dynsys.types import Array, ArrayLike, float_array

if TYPE_CHECKING:
    from dynsys.model.tree import KinematicTree

__all__ = ["difference", "integrate", "position_rate", "velocity_from_rate"]

UNIT = 1e-6
"""Distance of a quaternion's norm from one that is accepted."""
Check: TypeAlias = Callable[[ArrayLike], Array]


def integrate(robot: KinematicTree, q: ArrayLike, v: ArrayLike, dt: float) -> Array:
    """q (.., nq) after moving at constant v for time dt."""
    start, velocity = _both(_positions(robot, q, "q"), _velocities(robot, v), ("q", "v"))
    if not np.isfinite(dt):
        raise StateError(f"dt must be a finite number of seconds, got {dt}")
    parts = [
        body.joint.integrate(start[..., place], velocity[..., freedoms], dt)
        for body, place, freedoms in robot._leading.values()
    ]
    return np.concatenate(parts, axis=-1)


def difference(robot: KinematicTree, q0: ArrayLike, q1: ArrayLike) -> Array:
    """v (.., nv) with integrate(q0, v, 1) = q1."""
    start, end = _both(_positions(robot, q0, "q0"), _positions(robot, q1, "q1"), ("q0", "q1"))
    parts = [
        body.joint.difference(start[..., place], end[..., place])
        for body, place, _ in robot._leading.values()
    ]
    return np.concatenate(parts, axis=-1)


def position_rate(robot: KinematicTree, q: ArrayLike, v: ArrayLike) -> Array:
    """dq/dt (.., nq) at velocity v."""
    where, velocity = _both(_positions(robot, q, "q"), _velocities(robot, v), ("q", "v"))
    parts = [
        body.joint.rate(where[..., place], velocity[..., freedoms])
        for body, place, freedoms in robot._leading.values()
    ]
    return np.concatenate(parts, axis=-1)


def velocity_from_rate(robot: KinematicTree, q: ArrayLike, rate: ArrayLike) -> Array:
    """v (.., nv) whose dq/dt is nearest to ``rate`` (.., nq)."""

    def check(x: ArrayLike) -> Array:
        return robot._checked(x, "rate", robot.nq, robot.q_slices())

    rates = _checked(rate, "rate", robot.nq, check)
    where, given = _both(_positions(robot, q, "q"), rates, ("q", "rate"))
    parts = [
        body.joint.velocity(where[..., place], given[..., place])
        for body, place, _ in robot._leading.values()
    ]
    return np.concatenate(parts, axis=-1)


# ---- checks: a wrong state is named by its number -----------------------------------------


def _positions(robot: KinematicTree, q: ArrayLike, what: str) -> Array:
    """One position, or a row for each state."""
    turns = robot.quaternion_slices
    return _checked(q, what, robot.nq, lambda x: robot.check_q(x, what), turns)


def _velocities(robot: KinematicTree, v: ArrayLike) -> Array:
    return _checked(v, "v", robot.nv, lambda x: robot.check_v(x, "v"))


def _checked(
    x: ArrayLike, what: str, size: int, check: Check, unit: tuple[slice, ...] = ()
) -> Array:
    """x as float64, one state or rows that ``check`` takes one by one; ``unit`` have norm 1."""
    try:
        rows = float_array(x)
    except (TypeError, ValueError):
        return check(x)
    if rows.ndim != 2:
        return check(x)
    if rows.shape[1] != size:
        raise StateError(f"{what} of a batch must have shape (N, {size}), got {rows.shape}")
    check_rows(rows, check, unit)
    return rows


def check_rows(
    rows: Array, check: Check, unit: tuple[slice, ...] = (), what: str = "state"
) -> None:
    """StateError names the first of some rows (N, size) that ``check`` refuses.

    It is asked about those only that are not finite, or whose parts ``unit`` have another norm.
    """
    wrong = ~np.isfinite(rows).all(axis=1)
    for where in unit:
        wrong |= ~(np.abs(np.linalg.norm(rows[:, where], axis=1) - 1.0) <= UNIT)
    for k in np.flatnonzero(wrong):
        try:
            check(rows[k])
        except StateError as error:
            raise StateError(f"{what} {k}: {error}") from None


def _both(first: Array, second: Array, names: tuple[str, str]) -> tuple[Array, Array]:
    """Two vectors or as many rows of each; else StateError."""
    if first.ndim != second.ndim:
        batch, one = names if first.ndim == 2 else names[::-1]
        raise StateError(
            f"{batch} is a batch of states, {one} is not: give both a row per state, or ask"
            " for one state"
        )
    if first.ndim == 2 and len(first) != len(second):
        raise StateError(
            f"{names[1]} has {len(second)} states, but {names[0]} has {len(first)}"
        )
    return first, second
