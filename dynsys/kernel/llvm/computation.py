"""What kernels are made of: a program of the expression graph, or loops of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from dynsys.kernel.llvm.batch import batch_scratch_bytes, emit_batch
from dynsys.kernel.llvm.module import SEGMENT_BATCH, SEGMENT_ONE, around, check_dtype
from dynsys.kernel.llvm.one import emit_one
from dynsys.kernel.llvm.schedule import make_schedule
from dynsys.kernel.llvm.target import Target
from dynsys.kernel.llvm.text import VectorType, row_addresses, row_parameters
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.types import ScalarArray

__all__ = [
    "AbstractComputation",
    "AbstractTail",
    "TailedProgram",
    "one_by_one",
]


class AbstractComputation(Protocol):
    """Outputs from inputs: evaluated, slowly, or written as LLVM text."""

    def evaluate(self, inputs: ScalarArray) -> ScalarArray:
        """Outputs (..., n_outputs) from inputs (..., n_inputs), in the dtype of ``inputs``."""
        ...

    def module(self, signature: Signature, dtype: str, target: Target) -> str:
        """Text of the functions of a kernel."""
        ...


def one_by_one(signature: Signature, t: VectorType) -> str:
    """Text of ``batch`` that calls ``one`` for every row.

    The first output, of at least ``finite.FEWEST`` numbers, tells whether all is finite.
    """
    n = len(signature.groups)
    out = len(signature.inputs)
    arguments = ", ".join(f"ptr %a{g}" for g in range(n))
    return f"""
define i64 @batch(i64 %n, ptr %scratch{row_parameters(n)}) {{
start:
  br label %head
head:
  %k = phi i64 [ 0, %start ], [ %next, %row ]
  %fine = phi i64 [ 1, %start ], [ %both, %row ]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %row, label %done
row:
{row_addresses(n, t, "%k")}  call void @one({arguments})
  %finite = call i1 @finite(ptr %a{out}, i64 {signature.outputs[0][1]})
  %flag = zext i1 %finite to i64
  %both = and i64 %fine, %flag
  %next = add i64 %k, 1
  br label %head
done:
  ret i64 %fine
}}
"""


# ----------------------------------------------------------------------
# Kernels in two parts: straight-line code for O(n) quantities, then loops over a matrix.
#
# The head is a program like any other, one state at a time or W states side by side; the tail
# turns what it computed into the entries of a matrix, SIMD over the columns even for one state.
# Straight-line code for all n^2 entries would not fit the instruction cache.

ROWS = 16
"""States whose heads are computed together in a batch."""


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

    def text(self, dtype: str, width: int) -> str:
        """Text of ``void @tail(ptr head, ptr work, ptr out)``."""


@final
@dataclass(frozen=True, eq=False)
class TailedProgram:
    """A head and a tail: an :class:`AbstractComputation` of one matrix."""

    head: Program
    tail: AbstractTail

    def evaluate(self, inputs: ScalarArray) -> ScalarArray:
        """Entries (..., n_outputs) of the matrix from inputs (..., n_inputs)."""
        numbers = self.head.evaluate(inputs)
        states = numbers.reshape(-1, numbers.shape[-1])
        entries = np.array([np.ravel(self.tail.evaluate(state)) for state in states])
        return entries.reshape(*numbers.shape[:-1], -1)

    def module(self, signature: Signature, dtype: str, target: Target) -> str:
        """LLVM text of all functions of a kernel; ``signature`` has one output."""
        check_dtype(dtype)
        tail, t = self.tail, VectorType(dtype, target.width(dtype))
        inner = Signature(signature.inputs, (("head", tail.n_head),))
        schedule = make_schedule(self.head, SEGMENT_BATCH)
        whole = make_schedule(self.head, SEGMENT_ONE)
        head_bytes = -(-batch_scratch_bytes(inner, schedule, t) // 64) * 64
        scratch_bytes = head_bytes + t.size * (ROWS * tail.n_head + tail.n_work)
        functions = (
            emit_one(self.head, whole, inner, dtype, target, "head"),
            emit_batch(self.head, schedule, inner, dtype, target, "head_batch"),
            tail.text(dtype, target.tile_width(dtype)),
            _one(tail, signature, t),
            _batch(tail, signature, t, head_bytes),
        )
        return around("".join(functions), signature, t, target, scratch_bytes)


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
    addresses = row_addresses(n, t, "%first")
    inputs = "".join(f", ptr %a{g}, i64 %s{g}" for g in range(out))
    heads = f", ptr %heads, i64 {tail.n_head}"
    return f"""
define i64 @batch(i64 %n, ptr %scratch{row_parameters(n)}) {{
start:
  %heads = getelementptr i8, ptr %scratch, i64 {head_bytes}
  %work = getelementptr {t.element}, ptr %heads, i64 {ROWS * tail.n_head}
  br label %block
block:
  %first = phi i64 [ 0, %start ], [ %next, %row_done ]
  %fine = phi i64 [ 1, %start ], [ %both, %row_done ]
  %some = icmp ult i64 %first, %n
  br i1 %some, label %heads_of_block, label %done
heads_of_block:
  %next = add i64 %first, {ROWS}
  %left = sub i64 %n, %first
  %few = icmp ult i64 %left, {ROWS}
  %rows = select i1 %few, i64 %left, i64 {ROWS}
{addresses}  %ignored = call i64 @head_batch(i64 %rows, ptr %scratch{inputs}{heads})
  br label %row
row:
  %k = phi i64 [ 0, %heads_of_block ], [ %k_next, %row ]
  %sum = phi i64 [ %fine, %heads_of_block ], [ %both, %row ]
  %head_place = mul i64 %k, {tail.n_head}
  %head = getelementptr {t.element}, ptr %heads, i64 %head_place
  %out_place = mul i64 %k, %s{out}
  %out = getelementptr {t.element}, ptr %a{out}, i64 %out_place
  call void @tail(ptr %head, ptr %work, ptr %out)
  %finite = call i1 @finite(ptr %out, i64 {signature.n_outputs})
  %flag = zext i1 %finite to i64
  %both = and i64 %sum, %flag
  %k_next = add i64 %k, 1
  %more = icmp ult i64 %k_next, %rows
  br i1 %more, label %row, label %row_done
row_done:
  br label %block
done:
  ret i64 %fine
}}
"""
