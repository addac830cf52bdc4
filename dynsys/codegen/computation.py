"""What kernels are made of: a program of the expression graph, or loops of its own."""

from __future__ import annotations

from typing import Protocol

from dynsys.codegen.llvm_text import VectorType, row_addresses, row_parameters
from dynsys.codegen.target import Target
from dynsys.program.signature import Signature
from dynsys.types import ScalarArray

__all__ = ["AbstractComputation", "one_by_one"]


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
