"""From a computation to object code: the LLVM text of all functions of a kernel.

Every kernel has the functions ``one`` (a state) and ``batch`` (rows, with scratch memory), and
Python entries to both (:mod:`dynsys.kernel.python_entry`). Three kinds of computation:

- a :class:`~dynsys.program.program.Program`: straight-line code;
- a :class:`MatrixProgram`: straight-line code for O(n) quantities, then loops over the entries
  of a matrix; straight-line code for all n^2 entries would not fit the instruction cache;
- any other :class:`AbstractComputation`, in code of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, final

import numpy as np

from dynsys.errors import KernelBuildError
from dynsys.kernel.llvm.batch import emit_batch
from dynsys.kernel.llvm.one import emit_one
from dynsys.kernel.llvm.sincos import repair_function
from dynsys.kernel.llvm.target import Target, compile_object
from dynsys.kernel.llvm.text import (
    VectorType,
    finite_call,
    finite_functions,
    row_addresses,
    row_arguments,
    row_parameters,
)
from dynsys.kernel.python_entry import emit_call, emit_rows
from dynsys.kernel.schedule import make_schedule
from dynsys.plan.operations import Operations, program_operations
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.types import ScalarArray

__all__ = [
    "AbstractComputation",
    "AbstractTail",
    "MatrixProgram",
    "Part",
    "check_dtype",
    "compile_computation",
    "each_row",
    "executed_operations",
    "kernel_text",
    "program_text",
]

DTYPES = ("float64", "float32")

Part: TypeAlias = Literal["one", "batch"]
PARTS: tuple[Part, ...] = ("one", "batch")

SEGMENT_ONE = 1000
SEGMENT_BATCH = 800
"""Operations per function. Compile time stays linear, and a block of tiles reuses a segment
while its instructions are in the fastest cache."""

ROWS = 16
"""States of a batch whose heads are computed together, before their tails."""


class AbstractComputation(Protocol):
    """Outputs from inputs: evaluated, slowly, or written as LLVM text."""

    def evaluate(self, inputs: ScalarArray) -> ScalarArray:
        """Outputs (..., n_outputs) from inputs (..., n_inputs), in the dtype of ``inputs``."""
        ...

    def operations(self, dtype: str, target: Target) -> Operations:
        """What that text executes for one state: of a vector, every lane counts."""
        ...

    def module(self, signature: Signature, dtype: str, target: Target) -> str:
        """Text of the functions of a kernel."""
        ...


def compile_computation(
    computation: Program | AbstractComputation,
    signature: Signature,
    dtype: str,
    target: Target,
    segment: int | None = None,
    parts: Sequence[Part] = PARTS,
) -> bytes:
    """Object code of a kernel, at most ``segment`` operations of a program in one function.

    ``parts`` of a program's kernel can be compiled apart from each other.
    """
    check_dtype(dtype)
    if isinstance(computation, Program):
        text = program_text(computation, signature, dtype, target, segment, parts)
    else:
        text = computation.module(signature, dtype, target)
    return compile_object(text, target)


def executed_operations(
    computation: Program | AbstractComputation, dtype: str, target: Target
) -> Operations:
    """What the kernel of a computation executes for one state, exactly.

    Where one state fills vectors (:class:`MatrixProgram`), every lane of every instruction
    counts, also lanes that a mask leaves out and columns that two overlapping blocks both
    compute: the count depends on the vector width of the processor.
    """
    if isinstance(computation, Program):
        return program_operations(computation)
    return computation.operations(dtype, target)


def check_dtype(dtype: str) -> None:
    """Refuse dtypes that kernels are not made for."""
    if dtype not in DTYPES:
        raise KernelBuildError(f"kernels are made for {DTYPES}, not for {dtype!r}")


def program_text(
    program: Program,
    signature: Signature,
    dtype: str,
    target: Target,
    segment: int | None = None,
    parts: Sequence[Part] = PARTS,
) -> str:
    """LLVM text of the functions of a program's kernel.

    Raises
    ------
    KernelBuildError
        If the sizes of the signature are not those of the program.
    """
    signature.require(program.n_inputs, len(program.outputs))
    text, scratch_bytes = _straight_line(
        program, signature, dtype, target, {part: part for part in parts}, segment
    )
    return kernel_text(text, signature, dtype, target, scratch_bytes, parts)


def _straight_line(
    program: Program,
    signature: Signature,
    dtype: str,
    target: Target,
    names: Mapping[Part, str],
    segment: int | None = None,
) -> tuple[str, int]:
    """Text of parts of a program, by the names of their functions; scratch of the batch."""
    text, scratch_bytes = "", 0
    if "one" in names:
        schedule = make_schedule(program, segment or SEGMENT_ONE)
        text = emit_one(schedule, signature, dtype, target, names["one"])
    if "batch" in names:
        schedule = make_schedule(program, segment or SEGMENT_BATCH)
        batch, scratch_bytes = emit_batch(schedule, signature, dtype, target, names["batch"])
        text += batch
    return text, scratch_bytes


def kernel_text(
    text: str,
    signature: Signature,
    dtype: str,
    target: Target,
    scratch_bytes: int,
    parts: Sequence[Part] = PARTS,
) -> str:
    """Text of a kernel from that of ``one`` and ``batch``, which needs so much scratch."""
    entries = (
        (emit_call(signature, dtype) if "one" in parts else ""),
        (emit_rows(signature, dtype, scratch_bytes) if "batch" in parts else ""),
    )
    head = f'target triple = "{target.triple}"\n', repair_function(dtype)
    return "".join((*head, text, finite_functions(dtype), *entries))


def each_row(name: str, parameters: str, work: str, output: str, size: int) -> str:
    """Text of ``i64 @name(n, parameters)``: ``work`` for rows %k = 0 .. n, one after the other.

    ``output`` is the address of the ``size`` numbers (at least ``text.FEWEST``) of a row that
    tell whether all is finite.
    """
    return f"""
define i64 @{name}(i64 %n{parameters}) {{
start:
  br label %head
head:
  %k = phi i64 [ 0, %start ], [ %next, %row ]
  %fine = phi i64 [ 1, %start ], [ %both, %row ]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %row, label %done
row:
{work}
  %finite = {finite_call(output, size)}
  %flag = zext i1 %finite to i64
  %both = and i64 %fine, %flag
  %next = add i64 %k, 1
  br label %head
done:
  ret i64 %fine
}}
"""


# ---- a program, then loops over a matrix -----------------------------------------------------


class AbstractTail(Protocol):
    """Loops from the numbers of a head to the entries of a matrix."""

    @property
    def n_head(self) -> int:
        """Numbers that the head must compute."""

    @property
    def n_work(self) -> int:
        """Numbers of memory that the tail needs."""

    def evaluate(self, head: ScalarArray) -> ScalarArray:
        """Entries of the matrix from the numbers (n_head,) of one state, without vectors."""

    def operations(self, dtype: str, width: int) -> Operations:
        """What its text executes, every lane of every vector."""

    def text(self, dtype: str, width: int) -> str:
        """Text of ``void @tail(ptr head, ptr work, ptr out)``."""


@final
@dataclass(frozen=True, eq=False)
class MatrixProgram:
    """A head and a tail: an :class:`AbstractComputation` of one matrix.

    The head is a program like any other, one state at a time or W states side by side; the tail
    turns what it computed into the entries of a matrix, SIMD over the columns even for one
    state.
    """

    head: Program
    tail: AbstractTail

    def evaluate(self, inputs: ScalarArray) -> ScalarArray:
        """Entries (..., n_outputs) of the matrix from inputs (..., n_inputs)."""
        numbers = self.head.evaluate(inputs)
        states = numbers.reshape(-1, numbers.shape[-1])
        entries = np.array([np.ravel(self.tail.evaluate(state)) for state in states])
        return entries.reshape(*numbers.shape[:-1], -1)

    def operations(self, dtype: str, target: Target) -> Operations:
        """What the head executes for one state, then the tail."""
        of_tail = self.tail.operations(dtype, target.tile_width(dtype))
        return program_operations(self.head) + of_tail

    def module(self, signature: Signature, dtype: str, target: Target) -> str:
        """LLVM text of all functions of a kernel; ``signature`` has one output."""
        tail, t = self.tail, VectorType(dtype, 1)
        inner = Signature(signature.inputs, (("head", tail.n_head),))
        names: dict[Part, str] = {"one": "head", "batch": "head_batch"}
        heads, bytes_of_head = _straight_line(self.head, inner, dtype, target, names)
        head_bytes = -(-bytes_of_head // 64) * 64
        scratch_bytes = head_bytes + t.size * (ROWS * tail.n_head + tail.n_work)
        functions = (
            heads,
            tail.text(dtype, target.tile_width(dtype)),
            _one(tail, signature, t),
            _batch(tail, signature, t, head_bytes),
        )
        return kernel_text("".join(functions), signature, dtype, target, scratch_bytes)


def _one(tail: AbstractTail, signature: Signature, t: VectorType) -> str:
    """Text of ``void @one(in0, ..., out0)``."""
    inputs = "".join(f"ptr %in{g}, " for g in range(len(signature.inputs)))
    return f"""
define void @one({inputs}ptr %out0) {{
  %head = alloca [{tail.n_head} x {t.element}], align 64
  %work = alloca [{max(1, tail.n_work)} x {t.element}], align 64
  call void @head({inputs}ptr %head)
  call void @tail(ptr %head, ptr %work, ptr %out0)
  ret void
}}
"""


def _batch(tail: AbstractTail, signature: Signature, t: VectorType, head_bytes: int) -> str:
    """Text of ``batch``: heads of up to ROWS states side by side, then tails one by one."""
    n, out = len(signature.groups), len(signature.inputs)
    tails = each_row(
        "tails",
        ", ptr %heads, ptr %work, ptr %p, i64 %s",
        f"""\
  %head_place = mul i64 %k, {tail.n_head}
  %head_at = getelementptr {t.element}, ptr %heads, i64 %head_place
  %out_place = mul i64 %k, %s
  %out = getelementptr {t.element}, ptr %p, i64 %out_place
  call void @tail(ptr %head_at, ptr %work, ptr %out)""",
        "%out",
        signature.n_outputs,
    )
    arguments = row_arguments(range(out)) + f", ptr %heads, i64 {tail.n_head}"
    addresses = row_addresses(n, t, "%first")
    return f"""{tails}
define i64 @batch(i64 %n, ptr %scratch{row_parameters(n)}) {{
start:
  %heads = getelementptr i8, ptr %scratch, i64 {head_bytes}
  %work = getelementptr {t.element}, ptr %heads, i64 {ROWS * tail.n_head}
  br label %block
block:
  %first = phi i64 [ 0, %start ], [ %next, %some ]
  %fine = phi i64 [ 1, %start ], [ %both, %some ]
  %more = icmp ult i64 %first, %n
  br i1 %more, label %some, label %done
some:
  %next = add i64 %first, {ROWS}
  %left = sub i64 %n, %first
  %rows = call i64 @llvm.umin.i64(i64 %left, i64 {ROWS})
{addresses}  %ignored = call i64 @head_batch(i64 %rows, ptr %scratch{arguments})
  %finite = call i64 @tails(i64 %rows, ptr %heads, ptr %work, ptr %a{out}, i64 %s{out})
  %both = and i64 %fine, %finite
  br label %block
done:
  ret i64 %fine
}}
"""
