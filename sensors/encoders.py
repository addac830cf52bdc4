"""Noise of what every estimate starts from: positions and velocities of the joints.

    position_std, velocity_std of a layout:   one number, or one by joint

One number holds for every joint that can have an encoder: all but a free one (the floating
base), which has noise only if it is named, by its joint, with one number for all six freedoms
or six. Joints that are not named have none. Numbers are rad or m, and per second; of joints
with quaternions they are about v in ``robot.integrate``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dynsys.errors import LayoutError, nearest_name
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, float_array

__all__ = ["EncoderNoise", "encoder_deviations", "encoder_record"]

EncoderNoise: TypeAlias = "float | Mapping[str, float | Sequence[float]] | None"


def encoder_deviations(robot: KinematicTree, given: Any, what: str) -> Array:
    """Standard deviations (nv,) of the freedoms; LayoutError says what is wrong with ``what``.

    Examples
    --------
    >>> import dynsys
    >>> robot = dynsys.synthetic.chain(3)
    >>> encoder_deviations(robot, {"link_2": 0.001}, "position_std").tolist()
    [0.0, 0.001, 0.0]
    """
    found = np.zeros(robot.nv)
    own = _own(robot)
    if given is None:
        return found
    if not isinstance(given, Mapping):
        one = _number(given, what, ())
        for place in own.values():
            if place.stop - place.start < 6:
                found[place] = one
        return found
    for name, value in given.items():
        if name not in own:
            hint = nearest_name(str(name), tuple(own))
            raise LayoutError(f"{what}: robot {robot.name!r} has no joint {name!r}{hint}")
        place = own[name]
        found[place] = _number(value, f"{what} of joint {name!r}", (place.stop - place.start,))
    return found


def encoder_record(robot: KinematicTree, deviations: Array) -> dict[str, Any]:
    """Deviations (nv,) as a layout file writes them: by joint, those that are not zero."""
    record: dict[str, Any] = {}
    for name, place in _own(robot).items():
        values = deviations[place].tolist()
        if any(values):
            record[name] = values[0] if len(set(values)) == 1 else values
    return record


def _own(robot: KinematicTree) -> dict[str, slice]:
    """Joints with freedoms of their own, and these."""
    joints = zip(robot.joint_names, robot.bodies, robot.v_slices(), strict=True)
    return {name: v for name, body, v in joints if body.joint.nv and body.coupling is None}


def _number(value: Any, what: str, shape: tuple[int, ...]) -> Array:
    """One deviation, or as many as there are freedoms: finite, not negative."""
    try:
        array = float_array(value)
    except (TypeError, ValueError):
        raise LayoutError(f"{what} must be a number, got {value!r:.80}") from None
    wanted = f"or {shape[0]} of them, " if shape else "or a mapping by joint, "
    if array.shape not in ((), shape) or not (np.isfinite(array) & (array >= 0)).all():
        raise LayoutError(
            f"{what} must be a number that is not negative, {wanted}got {value!r:.80}"
        )
    return array
