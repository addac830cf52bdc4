"""The recursive gold standards: one algorithm, one module, scalars of any kind."""

from dynsys.recursive.aba import aba
from dynsys.recursive.crba import crba
from dynsys.recursive.jacobian import jacobian
from dynsys.recursive.kinematics import forward_kinematics
from dynsys.recursive.rnea import rnea

__all__ = ["aba", "crba", "forward_kinematics", "jacobian", "rnea"]
