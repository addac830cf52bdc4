"""Batches that a user hands in: one row per state, checked and as float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from dynsys.errors import StateError
from dynsys.model.moving import check_rows
from dynsys.model.tree import KinematicTree
from dynsys.recursive.kinematics import WrenchInput, external_wrenches, wrench_numbers
from dynsys.types import Array, ArrayLike, float_array

__all__ = ["finite_rows", "state_rows", "wrench_rows"]


def state_rows(robot: KinematicTree, given: Sequence[tuple[str, ArrayLike]]) -> list[Array]:
    """Return q (N, nq) and further vectors (N, nv) as float64, not copied where they are.

    Raises
    ------
    StateError
        naming the vector whose shape does not fit.
    """
    states: list[Array] = []
    for name, value in given:
        size = robot.nq if name == "q" else robot.nv
        try:
            array = float_array(value)
        except (TypeError, ValueError) as error:
            raise StateError(f"{name} is not numeric: {error}") from None
        if array.ndim != 2 or array.shape[1] != size:
            raise StateError(
                f"{name} of a batch must have shape (N, {size}), got {array.shape}"
            )
        if states and len(array) != len(states[0]):
            raise StateError(f"{name} has {len(array)} states, but q has {len(states[0])}")
        states.append(array)
    return states


def finite_rows(
    robot: KinematicTree, given: Sequence[tuple[str, ArrayLike]], what: str = "state"
) -> list[Array]:
    """Return what :func:`state_rows` does, for code that no kernel guards.

    Raises
    ------
    StateError
        beside its own, naming the first row that ``robot.check_q`` or ``check_v`` refuses.
    """
    rows = state_rows(robot, given)
    for (name, _), array in zip(given, rows, strict=True):
        if name == "q":
            check_rows(array, robot.check_q, robot.quaternion_slices, what)
        else:
            check_rows(array, partial(robot.check_v, what=name), what=what)
    return rows


def wrench_rows(robot: KinematicTree, f_ext: WrenchInput, n: int) -> Array | None:
    """Return external wrenches (N, n_bodies, 6) in body coordinates, or None for none.

    ``f_ext`` is as in :func:`external_wrenches` for all states, or has a leading axis N.
    """
    if f_ext is None:
        return None
    if isinstance(f_ext, Mapping):
        values = {
            name: wrench_numbers(value, f"f_ext[{name!r}]") for name, value in f_ext.items()
        }
        varying = any(value.ndim == 2 for value in values.values())
        if not varying:
            return _repeated(external_wrenches(robot, values), n)
        total = np.zeros((n, robot.n_bodies, 6))
        for name, value in values.items():
            if value.shape not in ((6,), (n, 6)):
                raise StateError(f"f_ext[{name!r}] must be (6,) or ({n}, 6), got {value.shape}")
            frame = robot.frame(name)
            if frame.body >= 0:
                total[:, frame.body] += value @ frame.transform.matrix()  # X^T f, row by row
    else:
        array = wrench_numbers(f_ext, "f_ext")
        if array.ndim != 3:
            return _repeated(external_wrenches(robot, array), n)
        if array.shape != (n, robot.n_bodies, 6):
            raise StateError(
                f"f_ext must have shape ({n}, {robot.n_bodies}, 6) here, got {array.shape}"
            )
        total = array
    if not np.isfinite(total).all():
        state, body = np.argwhere(~np.isfinite(total))[0, :2]
        raise StateError(
            f"state {state}: f_ext on body {robot.body_names[body]!r} is not finite"
        )
    return total


def _repeated(wrenches: Array | None, n: int) -> Array | None:
    return None if wrenches is None else np.repeat(wrenches[None], n, axis=0)
