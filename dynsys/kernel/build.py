"""From a program to its kernel: from the cache where it is kept, else compiled and stored.

The key of an entry names everything the machine code depends on: what the program was recorded
from (the robot's numbers, what is known, what is asked), signature, dtype, processor, LLVM and
the sources of dynsys itself. A loaded kernel must reproduce the reference states stored beside
it before it is used; otherwise the entry is thrown away and built anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import astuple
from functools import cache as remember
from pathlib import Path

import llvmlite
import numpy as np
from numpy.typing import NDArray

from dynsys.errors import DynsysError
from dynsys.kernel.cache import Entry, KernelCache, fingerprint
from dynsys.kernel.kernel import Kernel
from dynsys.kernel.llvm.computation import AbstractComputation, compile_computation
from dynsys.kernel.llvm.target import Target, host
from dynsys.model.tree import KinematicTree
from dynsys.plan.estimator import estimator_program
from dynsys.plan.fingerprint import fingerprint_robot
from dynsys.plan.methods import EliminationOrder
from dynsys.plan.operations import Operations, program_operations
from dynsys.plan.pivots import pivot_safety
from dynsys.plan.record import dynamics_program, dynamics_signature, sample_states
from dynsys.plan.saddle_program import EstimatorSpec
from dynsys.plan.symmetric import SymmetricStep
from dynsys.program.guards import guarded
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.types import BoolArray

__all__ = [
    "build_kernel",
    "dynamics_kernel",
    "estimation_kernel",
    "guarded_dynamics",
    "kernel_from",
]

CHECK_STATES = 3
PIVOT_MARGIN = 1e10
"""A watched pivot may fall this far below its median before pivoting takes over."""
AGREEMENT = {"float64": 1e-8, "float32": 1e-2}
"""Relative agreement asked of a loaded kernel; ill-conditioned robots stay well below it."""


def dynamics_kernel(
    robot: KinematicTree,
    known: BoolArray,
    given: str,
    outputs: tuple[str, ...],
    *,
    wrenches: bool = False,
    dtype: str = "float64",
    steps: Sequence[SymmetricStep] | None = None,
    program: Callable[[], Program] | None = None,
    cache: KernelCache | None = None,
) -> Kernel:
    """Kernel of :func:`guarded_dynamics`: what it must not answer comes out as NaN.

    ``program`` gives what that function would, where it has been recorded before.
    """

    def recorded() -> Program:
        return guarded_dynamics(
            robot, known, given, outputs, wrenches=wrenches, dtype=dtype, steps=steps
        )

    signature = dynamics_signature(robot, given, outputs, wrenches)
    states = sample_states(robot, CHECK_STATES, 7, signature.n_inputs - robot.nq - robot.nv)
    order = () if steps is None else tuple((step.kind, step.body) for step in steps)
    made_from = ("dynamics", fingerprint_robot(robot).digest, known, given, outputs, wrenches)
    make = program or recorded
    return kernel_from(make, signature, states, (*made_from, order), dtype=dtype, cache=cache)


def guarded_dynamics(
    robot: KinematicTree,
    known: BoolArray,
    given: str,
    outputs: tuple[str, ...],
    *,
    wrenches: bool = False,
    dtype: str = "float64",
    steps: Sequence[SymmetricStep] | None = None,
) -> Program:
    """Dynamics program that answers NaN to bad quaternions and to vanishing pivots.

    Raises
    ------
    SingularSystemError
        if some joint moves no inertia at any state, naming it.
    """
    watch = tuple(
        pivot.joint for pivot in pivot_safety(robot, known) if pivot.safe_by == "sampling"
    )
    program, signature = dynamics_program(
        robot, known, given, outputs, wrenches=wrenches, watch=watch, steps=steps
    )
    n_watched = len(program.outputs) - signature.n_outputs
    states = sample_states(robot, 20, 3, signature.n_inputs - robot.nq - robot.nv)
    reciprocals = np.abs(program.evaluate(states)[:, signature.n_outputs :])
    limits = PIVOT_MARGIN * np.median(reciprocals, axis=0) if n_watched else ()
    return guarded(
        program,
        robot.quaternion_slices,
        dtype,
        [float(x) for x in limits],
        n_finite=signature.n_inputs,
    )


def estimation_kernel(
    spec: EstimatorSpec,
    *,
    dtype: str = "float64",
    order: EliminationOrder | None = None,
    cache: KernelCache | None = None,
) -> Kernel:
    """Kernel of the constrained weighted least squares  min |Y d + b_Y - y|_C,  D d + b_D = 0.

    The laws of motion hold exactly, and so do rows whose variance is zero. Where laws and
    measurements are as many as the unknowns, the noise cancels and the elimination is an LU
    factorisation: no normal equations anywhere. Cost O(n) for sensors that sit on bodies and
    joints. An ``order`` of a plan is executed as it stands.

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
        lambda: estimator_program(spec, dtype, order),
        spec.signature,
        lambda: spec.admissible(3, 7),
        ("estimation", spec.fingerprint, "" if order is None else repr(order.encoded())),
        dtype=dtype,
        cache=cache,
    )


def build_kernel(
    computation: Program | AbstractComputation,
    signature: Signature,
    *,
    dtype: str = "float64",
    target: Target | None = None,
    segment: int | None = None,
) -> Kernel:
    """Compile and load without a cache, at most ``segment`` operations in one function."""
    code = compile_computation(computation, signature, dtype, target or host(), segment)
    kernel = Kernel(code, signature, dtype)
    kernel.operations = _counted(computation)
    return kernel


def kernel_from(
    program: Callable[[], Program | AbstractComputation],
    signature: Signature,
    states: NDArray[np.longdouble] | Callable[[], NDArray[np.longdouble]],
    made_from: tuple[object, ...],
    *,
    dtype: str = "float64",
    cache: KernelCache | None = None,
    agreement: float | None = None,
) -> Kernel:
    """Kernel of a program, which is recorded only if the cache does not hold its machine code.

    ``made_from`` tells it from all other programs: equal parts, equal program.
    ``states`` (n, n_inputs), or what makes them, are admissible inputs; their outputs are
    stored for verification, to the relative ``agreement`` of a loaded kernel with extended
    precision.
    """
    agreement = agreement or AGREEMENT[dtype]
    cache = cache if cache is not None else KernelCache()
    target = host()
    key = fingerprint(
        "kernel",
        *made_from,
        repr(signature),
        dtype,
        target.key,
        llvmlite.__version__,
        _sources(),
    )
    entry = cache.get(key)
    if entry is not None:
        kernel = _verified(entry, signature, dtype, agreement)
        if kernel is not None:
            return kernel
        cache.remove(key)
    made = program()
    code = compile_computation(made, signature, dtype, target)
    inputs = (states() if callable(states) else states).astype(np.float64)
    with np.errstate(all="ignore"):  # NaN where a watched pivot vanishes
        outputs = made.evaluate(inputs.astype(np.longdouble)).astype(np.float64)
    counted = _counted(made)
    metadata = {"operations": None if counted is None else astuple(counted)}
    cache.put(key, code, metadata, {"inputs": inputs, "outputs": outputs})
    kernel = Kernel(code, signature, dtype)
    kernel.operations = counted
    return kernel


def _counted(computation: Program | AbstractComputation) -> Operations | None:
    """Operations of a program; matrices made by loops are not counted."""
    return program_operations(computation) if isinstance(computation, Program) else None


def _verified(
    entry: Entry, signature: Signature, dtype: str, agreement: float
) -> Kernel | None:
    """The loaded kernel if it reproduces its reference states, else None."""
    inputs, expected = entry.arrays.get("inputs"), entry.arrays.get("outputs")
    counted = entry.metadata.get("operations")
    if inputs is None or expected is None or inputs.shape[1:] != (signature.n_inputs,):
        return None
    if expected.shape != (len(inputs), signature.n_outputs):
        return None
    try:
        kernel = Kernel(entry.payload, signature, dtype)
        kernel.operations = None if counted is None else Operations(*counted)
        cuts = np.cumsum([size for _, size in signature.inputs])[:-1]
        got, _ = kernel.batch(*np.split(inputs, cuts, axis=1))
    except DynsysError:
        return None
    scale = np.abs(expected).max(initial=0.0)
    same = np.abs(np.hstack(got) - expected).max(initial=0.0) <= agreement * scale
    return kernel if same else None


@remember
def _sources() -> str:
    """Hash of the library's own sources: other sources, other code."""
    folder = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
