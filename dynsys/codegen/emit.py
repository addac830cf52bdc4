"""A program as LLVM text: the functions ``one``, ``batch`` and the Python entry ``call``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from dynsys.codegen.emit_batch import batch_scratch_bytes, emit_batch
from dynsys.codegen.emit_one import emit_one
from dynsys.codegen.fastcall import emit_call
from dynsys.codegen.graph import Program
from dynsys.codegen.llvm_text import VectorType
from dynsys.codegen.schedule import make_schedule
from dynsys.codegen.signature import Signature
from dynsys.codegen.sincos import repair_function
from dynsys.codegen.target import Target
from dynsys.errors import KernelBuildError

__all__ = ["DTYPES", "EMITTER_VERSION", "Module", "emit_module"]

DTYPES = ("float64", "float32")

EMITTER_VERSION = 1
"""Part of every cache key: raise it when the emitted code changes meaning or layout."""

SEGMENT_ONE = 1000
SEGMENT_BATCH = 800


@final
@dataclass(frozen=True)
class Module:
    """LLVM text and the scratch bytes that a call of ``batch`` needs."""

    text: str
    scratch_bytes: int


def emit_module(
    program: Program,
    signature: Signature,
    dtype: str,
    target: Target,
    *,
    segment_one: int = SEGMENT_ONE,
    segment_batch: int = SEGMENT_BATCH,
) -> Module:
    """LLVM text of all functions of a kernel.

    Raises
    ------
    KernelBuildError
        If the sizes of the signature are not those of the program, or the dtype is unknown.
    """
    if dtype not in DTYPES:
        raise KernelBuildError(f"kernels are made for {DTYPES}, not for {dtype!r}")
    wanted = (signature.n_inputs, signature.n_outputs)
    if wanted != (program.n_inputs, len(program.outputs)):
        raise KernelBuildError(
            f"the signature has {wanted[0]} inputs and {wanted[1]} outputs, the program "
            f"{program.n_inputs} and {len(program.outputs)}"
        )
    t = VectorType(dtype, target.width(dtype))
    one = emit_one(program, make_schedule(program, segment_one), signature, dtype, target)
    schedule = make_schedule(program, segment_batch)
    batch = emit_batch(program, schedule, signature, dtype, target)
    text = "".join(
        (
            f'target triple = "{target.triple}"\n',
            repair_function(dtype),
            one,
            batch,
            emit_call(signature, dtype),
        )
    )
    return Module(text, batch_scratch_bytes(signature, schedule, t))
