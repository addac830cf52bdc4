"""Body Jacobian: J(q) (6, nv) with  v_body = J qd,  body coordinates. O(depth).

Column block of joint j on the way from the base to the body: (transform j -> body) S_j.
"""

from __future__ import annotations

import numpy as np

from dynsys.model.spatial import Transform
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, ArrayLike, ScalarArray

__all__ = ["jacobian", "jacobian_scalars"]


def jacobian(robot: KinematicTree, q: ArrayLike, body: str | int) -> Array:
    """Jacobian (6, nv) of a body or named frame, in its own coordinates, angular part first."""
    return jacobian_scalars(robot, robot.check_q(q), body)


def jacobian_scalars(robot: KinematicTree, q: ScalarArray, body: str | int) -> ScalarArray:
    """J (6, nv) over scalars of any kind; see :func:`jacobian`."""
    frame = robot.frame(body)
    J = np.zeros((6, robot.nv), dtype=q.dtype)
    to_frame: Transform = frame.transform
    for j in reversed(robot.support(frame.body)):
        v = robot.v_slices()[j]
        columns = [to_frame.motion(column) for column in robot.motion_subspace[j].T]
        for k, column in zip(range(v.start, v.stop), columns, strict=True):
            J[:, k] = J[:, k] + column
        to_frame = robot.joint_transform(j, q).then(to_frame)
    return J
