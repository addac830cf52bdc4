"""Problems as functions of JAX: ``jit``, ``vmap`` onto batches, derivatives both ways.

Machine code of a kernel is called by XLA directly, through its foreign function interface (no
Python, no copies): ``handler(call frame)`` is a few instructions in front of it, made by LLVM
like the kernel itself, so that no compiler is needed. One state goes to ``kernel.one``, what
``vmap`` or leading axes make of it to ``kernel.batch``.

Derivatives are linear in their directions: J by a kernel, J times a direction by JAX, which can
transpose that. Inputs that are not differentiated are left out of J. Second derivatives come in
the same way, from the Hessian of each answer.
"""

from __future__ import annotations

import ctypes
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dynsys.errors import StateError
from dynsys.interop.functions import (
    DType,
    PlainFunction,
    imported,
    kept_for_ever,
    lower_triangle,
)
from dynsys.interop.questions import DynamicsProblem, EstimationProblem
from dynsys.kernel.kernel import Kernel, MachineKernel, as_machine_code
from dynsys.kernel.llvm.target import compile_object, host, load_object
from dynsys.kernel.python_entry import RUNTIME_PLACES
from dynsys.types import float_array

__all__ = ["jax_function"]


def jax_function(
    problem: DynamicsProblem | EstimationProblem,
    *,
    answer: str = "",
    wrenches: bool = False,
    parameters: Sequence[str] = (),
    dtype: DType = "float64",
) -> Callable[..., Any]:
    """answer = f(q, qd, given or y, [f_ext], [parameters]) for JAX, on the CPU.

    ``jax.jit``, ``vmap``, ``grad``, ``jvp``, ``jacfwd``, ``jacrev`` and ``hessian`` work; third
    derivatives raise an error. Answers are NaN where the problem has no finite one.

    Parameters
    ----------
    problem : inverse, forward or hybrid dynamics; the answer (..., nv) is torque, qdd, or in
        hybrid dynamics torque of the freedoms whose qdd is given and qdd of the others. Or an
        estimation, whose inputs are q, qd and all readings y.
    answer : the quantity of an estimation that is answered, ``torque`` by default.
    wrenches : True makes external wrenches (..., 6 n_bodies) a further input.
    parameters : names of parameters of the robot whose values (..., n) are the last input.
    dtype : ``float64``, for which JAX must have been told so (``jax_enable_x64``), or
        ``float32``.

    Returns
    -------
    f : takes arrays whose leading axes broadcast against each other. Derivatives by q (nq,)
        are plain ones; quaternions of any length count as what they are normalised, see
        :mod:`dynsys.interop.functions`. Its machine code stays in memory for good.

    Examples
    --------
    >>> import dynsys, jax, numpy as np, problems
    >>> jax.config.update("jax_enable_x64", True)
    >>> robot = dynsys.synthetic.chain(3)
    >>> f = jax_function(problems.InverseDynamics(robot))
    >>> H = jax.jacrev(f, argnums=2)(np.ones(3), np.zeros(3), np.zeros(3))
    >>> bool(np.allclose(H, dynsys.crba(robot, np.ones(3))))
    True
    """
    jax = imported("jax")
    f = PlainFunction(
        problem, answer=answer, wrenches=wrenches, parameters=parameters, dtype=dtype
    )
    value = _Target(jax, f.value)
    jacobians: dict[tuple[str, ...], _Target] = {}
    hessians: list[_Target] = []

    def computed(by: tuple[str, ...], *inputs: Any) -> Any:
        if by not in jacobians:
            jacobians[by] = _Target(jax, f.jacobian(by))
        return jacobians[by](*inputs)

    def second(by: tuple[str, ...], inputs: Any, directions: Any) -> Any:
        """dJ = K t, with K_i the Hessian of answer i: one state for each of them."""
        found, J = derivatives(by, *inputs)
        lower = curvature(inputs)[..., lower_triangle(f.width(tuple(f.inputs)))]
        K = lower[..., f.columns(by), :]
        dJ = jax.numpy.einsum("...ijk,...k->...ij", K, jax.numpy.concatenate(directions, -1))
        return (found, J), (rule(inputs, directions)[1], dJ.reshape(J.shape))

    def curvature(inputs: Any) -> Any:
        """Lower triangles (..., answers, n (n + 1) / 2)."""
        if not hessians:
            hessians.append(_Target(jax, f.hessian))
        shape = (*inputs[0].shape[:-1], f.size)
        rows = [jax.numpy.broadcast_to(x[..., None, :], (*shape, x.shape[-1])) for x in inputs]
        unit = jax.numpy.eye(f.size, dtype=f.dtype)
        return hessians[0](*rows, jax.numpy.broadcast_to(unit, (*shape, f.size)))[0]

    answered = jax.custom_jvp(lambda *inputs: value(*inputs)[0])
    derivatives = jax.custom_jvp(computed, nondiff_argnums=(0,))
    derivatives.defjvp(second)

    def rule(inputs: Any, directions: Any) -> Any:
        zero = jax.custom_derivatives.SymbolicZero
        moved = {
            name: direction
            for name, direction in zip(f.inputs, directions, strict=True)
            if type(direction) is not zero
        }
        found, J = derivatives(tuple(moved), *inputs)
        direction = jax.numpy.concatenate(list(moved.values()), axis=-1)
        J = J.reshape(*found.shape, direction.shape[-1])
        return found, jax.numpy.einsum("...ij,...j->...i", J, direction)

    answered.defjvp(rule, symbolic_zeros=True)
    compiled = jax.jit(lambda *inputs: answered(*_fitted(jax, f, inputs)))

    def function(*inputs: Any) -> Any:
        if f.dtype == "float64" and not jax.config.jax_enable_x64:
            raise StateError(
                "JAX computes in float32 unless it is told otherwise: call"
                ' jax.config.update("jax_enable_x64", True) before anything else, or ask for'
                ' jax_function(..., dtype="float32")'
            )
        return compiled(*[_as_jax_reads_it(x) for x in inputs])

    function.__name__ = f.answer
    function.__doc__ = f.described()
    return function


def _as_jax_reads_it(x: Any) -> Any:
    """NumPy's masks and byte orders, which JAX passes over in silence, as plain numbers."""
    is_plain = not isinstance(x, np.ndarray) or (type(x) is np.ndarray and x.dtype.isnative)
    return x if is_plain else float_array(x)


def _fitted(jax: Any, f: PlainFunction, inputs: Sequence[Any]) -> list[Any]:
    """Inputs of the function's dtype, with the same leading axes; or what is wrong with one."""
    f.check_count(inputs)
    arrays = [jax.numpy.asarray(x) for x in inputs]
    shape = f.common_shape([x.shape for x in arrays], [x.dtype for x in arrays])
    return [
        jax.numpy.broadcast_to(x.astype(f.dtype), (*shape, size))
        for x, size in zip(arrays, f.inputs.values(), strict=True)
    ]


class _Target:
    """A kernel that XLA can call, under a name of its own."""

    def __init__(self, jax: Any, kernel: Kernel) -> None:
        self._jax, self._kernel = jax, kernel
        self._name = f"dynsys_{secrets.token_hex(8)}"
        text = _handler_text(as_machine_code(kernel, "a function of JAX"))
        handler = load_object(compile_object(text, host()), ("handler",))
        kept_for_ever((kernel, handler))
        entry = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(handler.address["handler"])
        jax.ffi.register_ffi_target(self._name, jax.ffi.pycapsule(entry), platform="cpu")

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        jax, kernel = self._jax, self._kernel
        batch = inputs[0].shape[:-1]
        shapes = [
            jax.ShapeDtypeStruct((*batch, size), kernel.dtype)
            for _, size in kernel.signature.outputs
        ]
        call = jax.ffi.ffi_call(self._name, shapes, vmap_method="broadcast_all")
        return tuple(call(*inputs))


# ---- the handler, in LLVM's textual form -----------------------------------------------------

# Offsets of fields (xla/ffi/api/c_api.h, major version 0, 64 bit).
_EXTENSION, _API, _ARGS, _RETS = 8, 16, 72, 112  # of the call frame
_EXTENSION_TYPE, _METADATA = 8, 24  # of the extension that asks for metadata, whose type is 1
_VERSION_SIZE, _MAJOR, _MINOR, _TRAITS = 8, 24, 28, 32  # of metadata
_API_MINOR, _ERROR_CREATE = 36, 48  # of the functions that XLA offers
_DATA, _RANK, _DIMS = 24, 32, 40  # of a buffer
_SHORT = "no memory for the batch"


def _handler_text(kernel: MachineKernel) -> str:
    """Text of ``ptr @handler(frame)``: null, or an error, after the kernel ran on the buffers.

    Asked for metadata it states that it follows version 0 of the interface.
    """
    signature = kernel.signature
    n_inputs, sizes = len(signature.inputs), [size for _, size in signature.groups]
    load = ""
    for k in range(len(sizes)):
        side, place = ("args", k) if k < n_inputs else ("rets", k - n_inputs)
        load += f"""
  %b{k}_at = getelementptr ptr, ptr %{side}, i64 {place}
  %b{k} = load ptr, ptr %b{k}_at
  %d{k}_at = getelementptr i8, ptr %b{k}, i64 {_DATA}
  %d{k} = load ptr, ptr %d{k}_at"""
    one = ", ".join(f"ptr %d{k}" for k in range(len(sizes)))
    rows = "".join(f", ptr %d{k}, i64 {size}" for k, size in enumerate(sizes))
    return f"""
@runtime = global [{RUNTIME_PLACES} x ptr] zeroinitializer
@short = internal constant [{len(_SHORT) + 1} x i8] c"{_SHORT}\\00"

define ptr @handler(ptr %frame) {{
start:
  %extension_at = getelementptr i8, ptr %frame, i64 {_EXTENSION}
  %extension = load ptr, ptr %extension_at
  %api_at = getelementptr i8, ptr %frame, i64 {_API}
  %api = load ptr, ptr %api_at
  %extended = icmp ne ptr %extension, null
  br i1 %extended, label %asked, label %begin
asked:
  %type_at = getelementptr i8, ptr %extension, i64 {_EXTENSION_TYPE}
  %type = load i32, ptr %type_at
  %is_metadata = icmp eq i32 %type, 1
  br i1 %is_metadata, label %describe, label %begin
describe:
  %metadata_at = getelementptr i8, ptr %extension, i64 {_METADATA}
  %metadata = load ptr, ptr %metadata_at
  %size_at = getelementptr i8, ptr %metadata, i64 {_VERSION_SIZE}
  store i64 24, ptr %size_at
  %major_at = getelementptr i8, ptr %metadata, i64 {_MAJOR}
  store i32 0, ptr %major_at
  %own_at = getelementptr i8, ptr %api, i64 {_API_MINOR}
  %own = load i32, ptr %own_at
  %minor_at = getelementptr i8, ptr %metadata, i64 {_MINOR}
  store i32 %own, ptr %minor_at
  %traits_at = getelementptr i8, ptr %metadata, i64 {_TRAITS}
  store i32 0, ptr %traits_at
  ret ptr null
begin:
  %args_at = getelementptr i8, ptr %frame, i64 {_ARGS}
  %args = load ptr, ptr %args_at
  %rets_at = getelementptr i8, ptr %frame, i64 {_RETS}
  %rets = load ptr, ptr %rets_at{load}
  %rank_at = getelementptr i8, ptr %b{n_inputs}, i64 {_RANK}
  %rank = load i64, ptr %rank_at
  %dims_at = getelementptr i8, ptr %b{n_inputs}, i64 {_DIMS}
  %dims = load ptr, ptr %dims_at
  %last = sub i64 %rank, 1
  br label %count
count:
  %k = phi i64 [ 0, %begin ], [ %next, %axis ]
  %n = phi i64 [ 1, %begin ], [ %more, %axis ]
  %counted = icmp sge i64 %k, %last
  br i1 %counted, label %run, label %axis
axis:
  %dim_at = getelementptr i64, ptr %dims, i64 %k
  %dim = load i64, ptr %dim_at
  %more = mul i64 %n, %dim
  %next = add i64 %k, 1
  br label %count
run:
  switch i64 %n, label %many [ i64 0, label %done
                               i64 1, label %single ]
single:
  %one = inttoptr i64 {kernel.address} to ptr
  call void %one({one})
  ret ptr null
many:
  %share = inttoptr i64 {kernel.batch_address} to ptr
  %flag = call i64 %share(i64 0, i64 1, i64 %n{rows})
  %failed = icmp slt i64 %flag, 0
  br i1 %failed, label %fail, label %done
fail:
  %error = alloca [4 x i64]
  store i64 28, ptr %error
  %none_at = getelementptr i64, ptr %error, i64 1
  store ptr null, ptr %none_at
  %message_at = getelementptr i64, ptr %error, i64 2
  store ptr @short, ptr %message_at
  %code_at = getelementptr i64, ptr %error, i64 3
  store i32 8, ptr %code_at
  %create_at = getelementptr i8, ptr %api, i64 {_ERROR_CREATE}
  %create = load ptr, ptr %create_at
  %made = call ptr %create(ptr %error)
  ret ptr %made
done:
  ret ptr null
}}
"""
