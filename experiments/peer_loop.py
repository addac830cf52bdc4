"""A loop in machine code over the states of a one-state kernel: no Python in between."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import final

import llvmlite.binding as llvm

from dynsys.types import Array

__all__ = ["StateLoop"]


@final
class StateLoop:
    """Calls ``void kernel(row of array 0, row of array 1, ...)`` for every state.

    Parameters
    ----------
    kernel : address of the function.
    arrays : inputs and outputs (n, size) in the order of its arguments, C-contiguous float64.
        Outputs of a single row are written again by every state, as in a control loop.
    """

    def __init__(self, kernel: int, arrays: Sequence[Array]) -> None:
        self._keep = tuple(arrays)
        self._kernel, self._n = kernel, len(arrays[0])
        strides = [array.shape[1] if len(array) == self._n else 0 for array in arrays]
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        jit = llvm.create_lljit_compiler()
        builder = llvm.JITLibraryBuilder().add_ir(_loop_text(strides))
        self._code = (builder.export_symbol("state_loop").link(jit, "state_loop"), jit)
        kind = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, *[ctypes.c_int64] * 2, *[ctypes.c_void_p] * len(arrays)
        )
        self._function = kind(self._code[0]["state_loop"])
        self._arguments = [array.ctypes.data for array in arrays]

    def __call__(self, repeats: int) -> None:
        """Go ``repeats`` times over all states."""
        self._function(self._kernel, self._n, repeats, *self._arguments)


def _loop_text(strides: Sequence[int]) -> str:
    """LLVM text: ``repeats`` times, for every state k, the kernel on row k of each array."""
    names = range(len(strides))
    parameters = ", ".join(f"ptr %p{i}" for i in names)
    rows = "\n".join(
        f"  %o{i} = mul i64 %k, {stride}\n  %a{i} = getelementptr double, ptr %p{i}, i64 %o{i}"
        for i, stride in enumerate(strides)
    )
    arguments = ", ".join(f"ptr %a{i}" for i in names)
    return f"""
define void @state_loop(ptr %kernel, i64 %n, i64 %repeats, {parameters}) {{
entry:
  br label %pass
pass:
  %r = phi i64 [ 0, %entry ], [ %r.next, %pass.end ]
  br label %state
state:
  %k = phi i64 [ 0, %pass ], [ %k.next, %state ]
{rows}
  call void %kernel({arguments})
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, %n
  br i1 %k.more, label %state, label %pass.end
pass.end:
  %r.next = add i64 %r, 1
  %r.more = icmp ult i64 %r.next, %repeats
  br i1 %r.more, label %pass, label %done
done:
  ret void
}}
"""
