"""Lambda^-1 over scalars of any kind, through the sparse factors: what the engine records."""

from __future__ import annotations

from dynsys.model.expanded import expanded_parent
from dynsys.operational.tasks import TaskSpace
from dynsys.operational.y_factor import lambda_inverse, yd_factors
from dynsys.recursive.crba import crba_scalars
from dynsys.recursive.kinematics import transforms
from dynsys.recursive.sparse_factors import ltdl_scalars
from dynsys.types import ScalarArray

__all__ = ["lambda_inv_scalars"]


def lambda_inv_scalars(space: TaskSpace, q: ScalarArray) -> ScalarArray:
    """Lambda^-1 (m, m) of a task space at q (nq,): CRBA, LTDL, Yd and YD, their product.

    Raises
    ------
    ModelError
        if the robot has coupled (mimic) joints.
    """
    parent = expanded_parent(space.robot)
    L, diag = ltdl_scalars(crba_scalars(space.robot, q), parent)
    J = space.jacobian_scalars(transforms(space.robot, q))
    Yd, YD = yd_factors(J, L, diag, space.supports, parent)
    return lambda_inverse(YD, Yd, space.supports)
