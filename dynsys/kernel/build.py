"""From a program to its kernel: from the cache where it is kept, else made and stored.

Machine code where llvmlite is installed, else Python and NumPy: :func:`chosen_backend`.

The key of an entry names everything the machine code depends on: what the program was recorded
from (the robot's numbers, what is known, what is asked), signature, dtype, processor, LLVM and
what the sources of dynsys itself say. A loaded kernel must reproduce the reference states
stored beside it before it is used; otherwise the entry is thrown away and built anew.

Code for one state and code for batches are entries of their own, each compiled when it is first
needed; the program is stored beside the first, so that nothing is planned twice. Of several
processes that need the same code at once, one compiles it and the others wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import astuple, replace
from functools import cache as remember
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from dynsys.distribution import required, say_slow
from dynsys.errors import DynsysError, KernelBuildError
from dynsys.jit import collector_paused
from dynsys.kernel.cache import Entry, KernelCache, fingerprint
from dynsys.kernel.kernel import Kernel, MachineKernel
from dynsys.kernel.llvm.computation import (
    AbstractComputation,
    MatrixProgram,
    Part,
    check_dtype,
    compile_computation,
    executed_operations,
)
from dynsys.kernel.llvm.pair_tail import PairTail
from dynsys.kernel.llvm.solve_tail import SolveTail
from dynsys.kernel.llvm.target import Target, has_llvm, host, llvm_version
from dynsys.kernel.numpy_kernel import NumpyKernel
from dynsys.kernel.python_entry import CHUNK
from dynsys.model.expanded import expanded_parent, own_supports
from dynsys.plan.derivatives import ALL_DERIVATIVES, FACTORED
from dynsys.plan.estimator import estimator_program
from dynsys.plan.estimator_spec import EstimatorSpec
from dynsys.plan.fingerprint import (
    constraint_content,
    fingerprint_parts,
    fingerprint_robot,
)
from dynsys.plan.held.impulse import ImpulseSpec, impulse_program
from dynsys.plan.held.multipliers import HeldBy
from dynsys.plan.methods import EliminationOrder
from dynsys.plan.operations import Operations, program_operations
from dynsys.plan.record import DynamicsSpec, guarded_dynamics
from dynsys.program.frames import reframe
from dynsys.program.paired import PAIRED, lane_moments
from dynsys.program.program import Program, with_inputs
from dynsys.program.signature import Signature
from dynsys.sources import meaning

__all__ = [
    "KernelBackend",
    "best_backend",
    "build_kernel",
    "cached_estimation_kernel",
    "chosen_backend",
    "dynamics_computation",
    "dynamics_kernel",
    "estimation_kernel",
    "executing",
    "impulse_kernel",
    "kernel_from",
    "tile_width",
]

KernelBackend: TypeAlias = Literal["auto", "llvm", "numpy"]

CHECK_STATES = 3
NO_LANES = 2**40
"""Width of registers that no matrix fills: all code is straight-line."""
FEWEST_FREEDOMS = 24
"""Below, straight-line code of the derivatives of forward dynamics is faster."""
FEWEST_SUPPORTS = 4
"""Freedoms that support one, itself too, in the mean: below, straight-line code of the
derivatives of inverse dynamics is faster (a hand of short fingers)."""
AGREEMENT = {"float64": 1e-8, "float32": 1e-2}
"""Relative agreement asked of a loaded kernel; ill-conditioned robots stay well below it."""


def chosen_backend(backend: str = "auto") -> KernelBackend:
    """What executes programs: machine code, or NumPy where llvmlite is missing, which is said.

    KernelBuildError if there is no such backend, MissingPackage if it is not installed.
    """
    if backend not in ("auto", "llvm", "numpy"):
        raise KernelBuildError(f"there is no backend {backend!r}: llvm or numpy")
    if backend == "llvm":
        required("llvmlite", "machine code (backend 'llvm'; 'numpy' does the same)")
    if backend == "auto":
        backend = best_backend()
        if backend == "numpy":
            say_slow("plans are executed by NumPy, 10 to 60 times slower than by machine code")
    return "llvm" if backend == "llvm" else "numpy"


def best_backend() -> Literal["llvm", "numpy"]:
    """What ``auto`` stands for."""
    return "llvm" if has_llvm() else "numpy"


def executing(backend: str) -> KernelBackend:
    """What executes plans for a problem with a backend, also where that itself does not."""
    return "llvm" if backend == "llvm" else "numpy" if backend == "numpy" else "auto"


def tile_width(dtype: str) -> int:
    """Numbers of a matrix side by side; without machine code more than any matrix has."""
    return host().tile_width(dtype) if has_llvm() else NO_LANES


def dynamics_kernel(
    spec: DynamicsSpec,
    *,
    dtype: str = "float64",
    program: Callable[[], Program] | None = None,
    cache: KernelCache | None = None,
    rows: bool = False,
    packed: bool = False,
    backend: KernelBackend = "auto",
) -> Kernel:
    """Kernel of :func:`guarded_dynamics`: what it must not answer comes out as NaN.

    ``program`` gives what that function would, where it has been recorded before. ``rows`` asks
    for the code that is best for many states, where there are two kinds, however long it takes
    to compile. ``packed`` makes one output of a copy of the inputs and all outputs but one.
    """
    backend = chosen_backend(backend)
    if backend == "numpy":
        program = program or (lambda: guarded_dynamics(spec, dtype))
    rows = rows and backend == "llvm" and (by_sweeps(spec, dtype) or by_pairs(spec, dtype))
    if rows:
        program = program or (lambda: guarded_dynamics(spec, dtype))
    made: Callable[[], Program | AbstractComputation] = program or (
        lambda: dynamics_computation(spec, dtype)
    )
    order = () if spec.steps is None else tuple((step.kind, step.body) for step in spec.steps)
    robot = fingerprint_robot(spec.robot).digest
    asked = (spec.known, spec.given, spec.outputs, spec.wrenches, spec.parameters)
    made_from = ("dynamics", robot, *asked, order, *_held(spec), *(["rows"] if rows else []))
    states, signature = partial(spec.admissible, CHECK_STATES, 7), spec.signature
    if packed:
        recorded, first = (
            program or (lambda: guarded_dynamics(spec, dtype)),
            signature.outputs[0],
        )
        made, made_from = (lambda: with_inputs(recorded(), first[1])), ("packed", *made_from)
        rest = ("packed", signature.n_inputs + signature.n_outputs - first[1])
        signature = Signature(signature.inputs, (first, rest))
    return kernel_from(
        made, signature, states, made_from, dtype=dtype, cache=cache, backend=backend
    )


def dynamics_computation(
    spec: DynamicsSpec, dtype: str = "float64"
) -> Program | AbstractComputation:
    """What the kernel computes: straight-line code, or derivatives of large robots by loops.

    Derivatives of inverse dynamics do the same for every freedom, then for every pair: SIMD
    over freedoms even for one state, half the time of straight-line code where chains are not
    short. Derivatives of forward dynamics are H^-1 times those of inverse dynamics: a number of
    products that grows with the third power of a robot's size. From some size on they are
    faster as loops over factors of H, SIMD even for one state, and compiled in a third of the
    time; many states are faster in straight-line code, SIMD over the states (measured).
    """
    if by_pairs(spec, dtype):
        head = guarded_dynamics(replace(spec, outputs=(PAIRED,)), dtype)
        return MatrixProgram(head, PairTail.of(spec.robot, spec.wrenches))
    if not by_sweeps(spec, dtype):
        return guarded_dynamics(spec, dtype)
    head = guarded_dynamics(replace(spec, outputs=(FACTORED,)), dtype)
    return MatrixProgram(head, SolveTail(own_supports(expanded_parent(spec.robot))))


def by_pairs(spec: DynamicsSpec, dtype: str = "float64") -> bool:
    """Whether these are derivatives of inverse dynamics that lanes of freedoms give."""
    robot, width = spec.robot, host().width(dtype) if has_llvm() else NO_LANES
    is_inverse = spec.outputs == (ALL_DERIVATIVES,) and bool(spec.known.all())
    is_plain = not (robot.is_coupled or spec.parameters or spec.held is not None)
    if not (is_inverse and is_plain and robot.nv >= width):
        return False
    supports = own_supports(expanded_parent(robot))
    is_deep = sum(map(len, supports)) >= FEWEST_SUPPORTS * robot.nv
    return is_deep and lane_moments(reframe(robot, regroup="all")) is not None


def by_sweeps(spec: DynamicsSpec, dtype: str = "float64") -> bool:
    """Whether these are derivatives that sweeps over factors of H give."""
    robot, width = spec.robot, tile_width(dtype)
    is_forward = spec.outputs == (ALL_DERIVATIVES,) and not spec.known.any()
    is_large = robot.nv >= max(FEWEST_FREEDOMS, 2 * width)
    return is_forward and is_large and not robot.is_coupled and spec.held is None


def _held(spec: DynamicsSpec) -> tuple[object, ...]:
    """What tells constraints from others."""
    if spec.held is None:
        return ()
    return "held", _content(spec.held, [*spec.rows_in_order, spec.steered])


def _content(held: HeldBy, more: list[object]) -> str:
    content = [constraint_content(held.robot, each) for each in held.constraints]
    parts = {"held": content, "freedoms": [held.known, held.undriven], "more": more}
    return fingerprint_parts("", parts).digest


def impulse_kernel(
    spec: ImpulseSpec,
    *,
    cache: KernelCache | None = None,
    backend: KernelBackend = "auto",
) -> Kernel:
    """Kernel of :func:`impulse_program`: velocities after an impact, and its impulses."""
    held, steps = spec.held, spec.steps or spec.held.steps
    content = _content(held, [[step.kind, step.body] for step in steps])
    return kernel_from(
        lambda: impulse_program(spec),
        spec.signature,
        partial(spec.admissible, CHECK_STATES, 7),
        ("impulse", fingerprint_robot(held.robot).digest, content),
        cache=cache,
        backend=backend,
    )


def estimation_kernel(
    spec: EstimatorSpec,
    *,
    dtype: str = "float64",
    order: EliminationOrder | None = None,
    cache: KernelCache | None = None,
    backend: KernelBackend = "auto",
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
        _estimator(spec, order),
        dtype=dtype,
        cache=cache,
        backend=backend,
    )


def cached_estimation_kernel(
    spec: EstimatorSpec,
    order: EliminationOrder | None = None,
    backend: KernelBackend = "auto",
) -> Kernel | None:
    """What :func:`estimation_kernel` returns if it is in the cache, else None."""
    made_from, chosen = _estimator(spec, order), chosen_backend(backend)
    return _Stored(made_from, spec.signature, "float64", None, None, chosen).kernel()


def _estimator(spec: EstimatorSpec, order: EliminationOrder | None) -> tuple[object, ...]:
    """What tells the kernel of an estimator from all others."""
    return "estimation", spec.fingerprint, "" if order is None else repr(order.encoded())


def build_kernel(
    computation: Program | AbstractComputation,
    signature: Signature,
    *,
    dtype: str = "float64",
    target: Target | None = None,
    segment: int | None = None,
) -> Kernel:
    """A kernel without a cache, at most ``segment`` operations in one function of its code.

    Without a ``target`` where llvmlite is missing, NumPy executes it.
    """
    if target is None and isinstance(computation, Program) and chosen_backend() == "numpy":
        return NumpyKernel(computation, signature, dtype)
    code = compile_computation(computation, signature, dtype, target or host(), segment)
    kernel = MachineKernel(code, signature, dtype)
    kernel.operations = executed_operations(computation, dtype, target or host())
    if isinstance(computation, Program):
        kernel.nonzero = computation.outputs != 0
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
    backend: KernelBackend = "auto",
) -> Kernel:
    """Kernel of a program, which is recorded only if the cache does not hold it.

    ``made_from`` tells it from all other programs: equal parts, equal program, as long as the
    file that records it is the same.
    ``states`` (n, n_inputs), or what makes them, are admissible inputs; their outputs are
    stored for verification, to the relative ``agreement`` of a loaded kernel with extended
    precision.
    """
    check_dtype(dtype)
    chosen = chosen_backend(backend)
    stored = _Stored(made_from + _recorder(program), signature, dtype, agreement, cache, chosen)
    found = stored.kernel()
    if found is None:
        with stored.making() as is_there:
            found = stored.kernel() if is_there else None
            if found is None:
                with collector_paused():
                    found = stored.built(program(), states() if callable(states) else states)
    return found


Arrays: TypeAlias = "Mapping[str, NDArray[Any]]"


@final
class _Stored:
    """The entries of one kernel in a cache: what loads it, what makes and keeps it."""

    def __init__(
        self,
        made_from: tuple[object, ...],
        signature: Signature,
        dtype: str,
        agreement: float | None,
        cache: KernelCache | None,
        backend: KernelBackend,
    ) -> None:
        self._signature, self._dtype = signature, dtype
        self._agreement = agreement or AGREEMENT[dtype]
        self._cache = cache if cache is not None else KernelCache()
        self._target = host() if backend == "llvm" else None
        by = "numpy" if self._target is None else (self._target.key, llvm_version())
        kind = repr(signature), dtype, by, _sources()
        self._key = fingerprint("kernel", *made_from, *kind)

    def kernel(self) -> Kernel | None:
        """The kernel if it is stored and reproduces its reference states, else None."""
        entry = self._cache.get(self._key)
        if entry is None:
            return None
        kernel = self._verified(entry)
        if kernel is None:
            self._cache.remove(self._key)
        return kernel

    def making(self) -> AbstractContextManager[bool]:
        """See :meth:`KernelCache.making`."""
        return self._cache.making(self._key)

    def built(
        self, made: Program | AbstractComputation, states: NDArray[np.longdouble]
    ) -> Kernel:
        """Compile what was made, keep it, and load it; batches of a program when asked for.

        NumPy executes programs only: there is no code to keep beside them.
        """
        inputs = states.astype(np.float64)
        with np.errstate(all="ignore"):  # NaN where a watched pivot vanishes
            outputs = made.evaluate(inputs.astype(np.longdouble)).astype(np.float64)
        arrays = {"inputs": inputs, "outputs": outputs}
        parts: tuple[Part, ...] = ("one", "batch")
        if isinstance(made, Program):
            parts, arrays = ("one",), arrays | _packed(made)
        if self._target is not None:
            counted = executed_operations(made, self._dtype, self._target)
            code = self._compiled(made, *parts)
        elif isinstance(made, Program):
            counted, code = program_operations(made), b""
        else:
            raise KernelBuildError(f"NumPy executes programs, no {type(made).__name__}")
        self._cache.put(self._key, code, {"operations": astuple(counted)}, arrays)
        kernel = self._loaded(code, arrays)
        kernel.operations = counted
        return kernel

    def _compiled(self, made: Program | AbstractComputation, *parts: Part) -> bytes:
        signature, dtype, target = self._signature, self._dtype, self._target
        assert target is not None
        return compile_computation(made, signature, dtype, target, parts=parts)

    def _loaded(self, code: bytes, arrays: Arrays) -> Kernel:
        """Kernel whose code for batches, if it has none of its own, is found when needed."""
        if self._target is None:
            return NumpyKernel(_unpacked(arrays, self._signature), self._signature, self._dtype)
        later = partial(self._batch, code, arrays) if "op" in arrays else None
        kernel = MachineKernel(code, self._signature, self._dtype, later)
        if "results" in arrays:
            kernel.nonzero = arrays["results"] != 0
        return kernel

    def _batch(self, code: bytes, arrays: Arrays) -> bytes:
        """Code for batches beside ``code`` for one state: stored and right, or made now."""
        key = fingerprint("batch", self._key)
        found = self._stored_batch(key, code, arrays)
        if found is None:
            with self._cache.making(key) as is_there:
                found = self._stored_batch(key, code, arrays) if is_there else None
                if found is None:
                    found = self._compiled(_unpacked(arrays, self._signature), "batch")
                    self._cache.put(key, found)
        return found

    def _stored_batch(self, key: str, code: bytes, arrays: Arrays) -> bytes | None:
        entry = self._cache.get(key)
        if entry is None:
            return None
        stored = entry.payload
        with suppress(DynsysError):
            kernel = MachineKernel(code, self._signature, self._dtype, lambda: stored)
            if self._agrees(kernel, arrays, rows=True):
                return stored
        self._cache.remove(key)
        return None

    def _verified(self, entry: Entry) -> Kernel | None:
        """The loaded kernel if it reproduces its reference states, else None."""
        counted = entry.metadata.get("operations")
        if counted is None:
            return None
        try:
            kernel = self._loaded(entry.payload, entry.arrays)
            kernel.operations = Operations(*counted)
            is_right = self._agrees(kernel, entry.arrays, rows=False)
            if "op" not in entry.arrays:  # code for batches is part of it
                is_right = is_right and self._agrees(kernel, entry.arrays, rows=True)
        except DynsysError:
            return None
        return kernel if is_right else None

    def _agrees(self, kernel: Kernel, arrays: Arrays, *, rows: bool) -> bool:
        """Whether a kernel reproduces its reference states, as rows or one by one.

        As rows: often enough for full vectors and for what is left over.
        """
        inputs, expected = arrays.get("inputs"), arrays.get("outputs")
        signature = self._signature
        if inputs is None or expected is None or inputs.shape[1:] != (signature.n_inputs,):
            return False
        if expected.shape != (len(inputs), signature.n_outputs):
            return False
        cuts = np.cumsum([size for _, size in signature.inputs])[:-1]
        parts = np.split(inputs, cuts, axis=1)
        if rows:
            which = np.arange(CHUNK + len(inputs)) % len(inputs)
            expected = expected[which]
            got = np.hstack(kernel.batch(*(part[which] for part in parts))[0])
        else:
            each = [kernel.one(*state)[0] for state in zip(*parts, strict=True)]
            got = np.array([np.concatenate(outputs) for outputs in each])
        scale = np.nanmax(np.abs(expected), initial=0.0)
        missed = np.nanmax(np.abs(got - expected), initial=0.0)
        same_gaps = np.array_equal(np.isnan(got), np.isnan(expected))
        return bool(missed <= self._agreement * scale) and same_gaps


def _packed(program: Program) -> dict[str, NDArray[Any]]:
    """A program as arrays that can be stored; constants in two parts, for they are extended."""
    high = program.constants.astype(np.float64)
    low = (program.constants - high).astype(np.float64)
    return {
        "op": program.op,
        "left": program.left,
        "right": program.right,
        "constants": np.stack([high, low]),
        "results": program.outputs,
    }


def _unpacked(arrays: Arrays, signature: Signature) -> Program:
    """The program that was stored."""
    high, low = arrays["constants"].astype(np.longdouble)
    return Program(
        arrays["op"],
        arrays["left"],
        arrays["right"],
        np.asarray(high + low, dtype=np.longdouble),
        arrays["results"],
        signature.n_inputs,
    )


LIBRARY = Path(__file__).parents[1]


def _recorder(program: Callable[..., object]) -> tuple[str, ...]:
    """What the file says that records a program, if it is none of :func:`_sources`."""
    code = getattr(program, "__code__", None)
    if code is None or LIBRARY in Path(code.co_filename).parents:
        return ()
    return (_said_by(code.co_filename),)


@remember
def _said_by(path: str) -> str:
    try:
        return meaning([Path(path)])[0]
    except OSError:  # of a session that somebody types
        return ""


@remember
def _sources() -> str:
    """What the library's own sources say: other sources, other code."""
    paths = sorted(LIBRARY.rglob("*.py"))
    names = [path.relative_to(LIBRARY).as_posix() for path in paths]
    return fingerprint("sources", names, meaning(paths))
