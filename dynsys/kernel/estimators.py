"""Kernel of an estimator, from the cache where it has been built before."""

from __future__ import annotations

from collections.abc import Sequence

from dynsys.kernel.build import kernel_from
from dynsys.kernel.cache import KernelCache
from dynsys.kernel.kernel import Kernel
from dynsys.model.tree import KinematicTree
from dynsys.plan.saddle_program import Covariance, EstimatorSpec, estimation_program
from dynsys.system.equations import EquationBlock

__all__ = ["estimation_kernel"]


def estimation_kernel(
    robot: KinematicTree,
    equations: Sequence[EquationBlock],
    covariance: Covariance,
    outputs: Sequence[str] = ("torque",),
    *,
    uncertainty: Sequence[str] = (),
    switchable: Sequence[str] = (),
    dtype: str = "float64",
    cache: KernelCache | None = None,
) -> Kernel:
    """Kernel of the constrained weighted least squares  min |Y d + b - y|_R,  D d + b_D = 0.

    The laws of motion hold exactly, and so do rows whose variance is zero. Where laws and
    measurements are as many as the unknowns, the noise has no say and the elimination is an LU
    factorisation: no normal equations anywhere. Cost O(n) for sensors that sit on bodies and
    joints.

    Parameters
    ----------
    equations : measurements ``Y d + b - y = 0`` on the unknowns of the robot; their rows in
        order are those of y. Rows without unknowns are ignored.
    covariance : R (rows, rows) of the noise, dense or sparse; zero rows are exact.
    outputs : any of ``torque``, ``qdd`` (nv,), ``acceleration``, ``joint_wrench``,
        ``external_wrench`` (6 n_bodies,) in body coordinates, ``residual`` (rows,),
        Y d + b - y, and ``multiplier`` (rows,), R^-1 (Y d + b - y): their product is the
        chi-square.
    uncertainty : quantities among these, but ``residual``, whose posterior standard deviations
        become outputs ``std_<name>``.
    switchable : names of equations that may be missing from a sample. If there are any,
        ``weight`` (rows,) is a further input: 1 counts fully, 0 not at all, in between it
        divides the row's standard deviation. The y of a missing row must be finite.

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
    >>> kernel = estimation_kernel(robot, known, np.eye(21))
    >>> (torque,), finite = kernel.one(robot.neutral(), np.zeros(3), np.zeros(21))
    >>> bool(np.allclose(torque, dynsys.rnea(robot, robot.neutral(), np.zeros(3), np.zeros(3))))
    True
    """
    spec = EstimatorSpec(
        robot,
        tuple(equations),
        covariance,
        tuple(outputs),
        tuple(uncertainty),
        tuple(switchable),
    )
    return kernel_from(
        lambda: estimation_program(spec, dtype),
        spec.signature,
        spec.samples(3, 7),
        ("estimation", spec.fingerprint),
        dtype=dtype,
        cache=cache,
    )
