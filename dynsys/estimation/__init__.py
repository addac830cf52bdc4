"""Estimators as machine code: exact laws, noisy measurements, one elimination in tree order.

The package knows nothing of sensors: measurements are equations on the robot's unknowns with a
covariance. See :func:`estimation_kernel`.
"""

from dynsys.kernel.estimators import estimation_kernel
from dynsys.plan.saddle import ESTIMATES, OF_ROWS, Question
from dynsys.plan.saddle_program import estimation_program, planned_estimation

__all__ = [
    "ESTIMATES",
    "OF_ROWS",
    "Question",
    "estimation_kernel",
    "estimation_program",
    "planned_estimation",
]
