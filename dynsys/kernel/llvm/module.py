"""A program as LLVM text: the functions ``one``, ``batch``, and their Python entries."""

from __future__ import annotations

from dynsys.errors import KernelBuildError
from dynsys.kernel.llvm.batch import batch_scratch_bytes, emit_batch
from dynsys.kernel.llvm.one import emit_one
from dynsys.kernel.llvm.schedule import make_schedule
from dynsys.kernel.llvm.sincos import repair_function
from dynsys.kernel.llvm.target import Target
from dynsys.kernel.llvm.team import emit_team
from dynsys.kernel.llvm.text import VectorType
from dynsys.kernel.python_entry import emit_call, emit_rows
from dynsys.program.program import Program
from dynsys.program.signature import Signature

__all__ = ["DTYPES", "around", "emit_module"]

DTYPES = ("float64", "float32")

SEGMENT_ONE = 1000
SEGMENT_BATCH = 800
"""Operations per function. Compile time stays linear, and a block of tiles reuses a segment
while its instructions are in the fastest cache."""


def check_dtype(dtype: str) -> None:
    """Refuse dtypes that kernels are not made for."""
    if dtype not in DTYPES:
        raise KernelBuildError(f"kernels are made for {DTYPES}, not for {dtype!r}")


def emit_module(
    program: Program,
    signature: Signature,
    dtype: str,
    target: Target,
    *,
    segment_one: int | None = None,
    segment_batch: int | None = None,
) -> str:
    """LLVM text of all functions of a kernel; segments of so many operations at most.

    Raises
    ------
    KernelBuildError
        If the sizes of the signature are not those of the program, or the dtype is unknown.
    """
    check_dtype(dtype)
    wanted = (signature.n_inputs, signature.n_outputs)
    if wanted != (program.n_inputs, len(program.outputs)):
        raise KernelBuildError(
            f"the signature has {wanted[0]} inputs and {wanted[1]} outputs, the program "
            f"{program.n_inputs} and {len(program.outputs)}"
        )
    if not signature.inputs or not signature.outputs:
        raise KernelBuildError("a kernel needs at least one input and one output group")
    t = VectorType(dtype, target.width(dtype))
    one = emit_one(
        program, make_schedule(program, segment_one or SEGMENT_ONE), signature, dtype, target
    )
    schedule = make_schedule(program, segment_batch or SEGMENT_BATCH)
    batch = emit_batch(program, schedule, signature, dtype, target)
    scratch_bytes = batch_scratch_bytes(signature, schedule, t)
    return around(one + batch, signature, t, target, scratch_bytes)


def around(
    text: str, signature: Signature, t: VectorType, target: Target, scratch_bytes: int
) -> str:
    """Text of a kernel from that of ``one`` and ``batch``, which needs so much scratch."""
    return "".join(
        (
            f'target triple = "{target.triple}"\n',
            repair_function(t.dtype),
            text,
            emit_team(t, signature, target, scratch_bytes),
            emit_call(signature, t.dtype),
            emit_rows(signature, t.dtype),
        )
    )
