"""Kernel of an estimator, from the cache where it has been built before."""

from __future__ import annotations

from dynsys.kernel.build import kernel_from
from dynsys.kernel.cache import KernelCache
from dynsys.kernel.kernel import Kernel
from dynsys.plan.saddle_program import EstimatorSpec, estimation_program

__all__ = ["estimation_kernel"]


def estimation_kernel(
    spec: EstimatorSpec, *, dtype: str = "float64", cache: KernelCache | None = None
) -> Kernel:
    """Kernel of the constrained weighted least squares  min |Y d + b_Y - y|_C,  D d + b_D = 0.

    The laws of motion hold exactly, and so do rows whose variance is zero. Where laws and
    measurements are as many as the unknowns, the noise cancels and the elimination is an LU
    factorisation: no normal equations anywhere. Cost O(n) for sensors that sit on bodies and
    joints.

    Returns
    -------
    kernel with ``kernel.one(q, qd, y[, weight])`` and ``kernel.batch(...)``. Answers are NaN
    where a quaternion is bad or a pivot vanishes: a state, or a set of missing measurements,
    that does not determine the answer, or not without pivoting.

    Raises
    ------
    KernelBuildError
        if the measurements do not determine every unknown, or not by pivots that are safe at
        all states; the reference path then still works.

    Examples
    --------
    >>> import numpy as np, dynsys
    >>> from dynsys.system import LinearSystem, known_inputs
    >>> robot = dynsys.synthetic.chain(3)
    >>> known = known_inputs(LinearSystem(robot).unknowns, {0, 1, 2})
    >>> kernel = estimation_kernel(EstimatorSpec(robot, known, np.eye(21), ("torque",)))
    >>> (torque,), finite = kernel.one(robot.neutral(), np.zeros(3), np.zeros(21))
    >>> bool(np.allclose(torque, dynsys.rnea(robot, robot.neutral(), np.zeros(3), np.zeros(3))))
    True
    """
    return kernel_from(
        lambda: estimation_program(spec, dtype),
        spec.signature,
        spec.samples(3, 7),
        ("estimation", spec.fingerprint),
        dtype=dtype,
        cache=cache,
    )
