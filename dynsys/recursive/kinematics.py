"""Transforms, velocities and poses of all bodies: what every algorithm starts from.

    X_up[i] : parent -> body i         v_i = X_up[i] v_parent + S_i qd_i        ([NORI] eq. 2)

Scalars may be of any kind (float64, longdouble, expression-graph nodes). Cost O(n).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dynsys.errors import StateError
from dynsys.model.spatial import Transform
from dynsys.model.tree import KinematicTree, Mechanism
from dynsys.types import Array, ArrayLike, ScalarArray, float_array

__all__ = [
    "external_wrenches",
    "forward_kinematics",
    "poses",
    "transforms",
    "velocities",
    "wrench_numbers",
]


def transforms(robot: Mechanism, q: ScalarArray) -> list[Transform]:
    """X_up: transform parent -> body of every body at q (nq,)."""
    return [robot.joint_transform(i, q) for i in range(robot.n_bodies)]


def velocities(
    robot: Mechanism, X_up: Sequence[Transform], qd: ScalarArray
) -> list[ScalarArray]:
    """Spatial velocity (6,) of every body, body coordinates ([NORI] eq. 2)."""
    v: list[ScalarArray] = []
    for S, freedoms, parent, X in zip(
        robot.motion_subspace, robot.v_slices(), robot.parent, X_up, strict=True
    ):
        joint = S @ qd[freedoms]
        v.append(joint if parent < 0 else X.motion(v[parent]) + joint)
    return v


def poses(robot: Mechanism, X_up: Sequence[Transform]) -> list[Transform]:
    """Transform base -> body of every body."""
    X_base: list[Transform] = []
    for parent, X in zip(robot.parent, X_up, strict=True):
        X_base.append(X if parent < 0 else X_base[parent].then(X))
    return X_base


def forward_kinematics(robot: KinematicTree, q: ArrayLike, body: str | int) -> Transform:
    """Transform base -> body (or frame, by name) at q (nq,): ``E`` and origin ``r``.

    Examples
    --------
    >>> import dynsys
    >>> robot = dynsys.synthetic.chain(3)
    >>> dynsys.forward_kinematics(robot, robot.neutral(), robot.body_names[-1]).r.shape
    (3,)
    """
    q = robot.check_q(q)
    frame = robot.frame(body)
    pose = Transform.identity()
    for i in robot.support(frame.body):
        pose = pose.then(robot.joint_transform(i, q))
    return pose.then(frame.transform)


WrenchInput = Mapping[str, ArrayLike] | ArrayLike | None


def external_wrenches(robot: KinematicTree, f_ext: WrenchInput) -> Array | None:
    """Wrenches (n_bodies, 6) in body coordinates from what a user may hand in, or None.

    ``f_ext`` is an array (n_bodies, 6) or a mapping from body or frame names to wrenches (6,),
    each in the coordinates of the body or frame that names it; wrenches on one body add up.
    """
    if f_ext is None:
        return None
    wrenches = np.zeros((robot.n_bodies, 6))
    if not isinstance(f_ext, Mapping):
        given = wrench_numbers(f_ext, "f_ext")
        if given.shape != wrenches.shape:
            raise StateError(
                f"f_ext of robot {robot.name!r} must have shape {wrenches.shape} or map body"
                f" names to wrenches, got shape {given.shape}"
            )
        wrenches += given
    else:
        for name, value in f_ext.items():
            frame = robot.frame(name)
            wrench = wrench_numbers(value, f"f_ext[{name!r}]")
            if wrench.shape != (6,):
                raise StateError(f"f_ext[{name!r}] must have shape (6,), got {wrench.shape}")
            if frame.body >= 0:  # what acts on the fixed base moves nothing
                wrenches[frame.body] += frame.transform.force_back(wrench)
    if not np.isfinite(wrenches).all():
        body = int(np.flatnonzero(~np.isfinite(wrenches).all(axis=1))[0])
        raise StateError(f"f_ext on body {robot.body_names[body]!r} is not finite")
    return wrenches


def wrench_numbers(value: ArrayLike, what: str) -> Array:
    """Numbers of a wrench as float64; StateError names ``what`` is not numeric."""
    try:
        return float_array(value)
    except (TypeError, ValueError) as error:
        raise StateError(f"{what} is not numeric: {error}") from None
