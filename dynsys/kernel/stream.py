"""Copies past the caches: for much data that is written now and read late, if ever.

An ordinary store first loads the line it writes to, and drives another one out of the cache. A
non-temporal one does neither: a copy of megabytes takes two thirds of the time, and what is in
the cache stays there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import llvmlite.binding as llvm
import numpy as np

from dynsys.kernel.llvm.target import compile_object, host
from dynsys.types import Array

__all__ = ["LINE", "stream"]

LINE = 8
"""Numbers in a line of the cache; targets of :func:`stream` begin at one."""

TOGETHER = 4
"""Lines that are loaded before they are stored: half as many take three times as long."""


def text(triple: str) -> str:
    """LLVM text of ``void @stream(target, source, n)``: n times so many lines."""
    loads = "".join(
        f"  %from{j} = getelementptr <8 x double>, ptr %from, i64 {j}\n"
        f"  %line{j} = load <8 x double>, ptr %from{j}, align 8\n"
        for j in range(TOGETHER)
    )
    stores = "".join(
        f"  %to{j} = getelementptr <8 x double>, ptr %to, i64 {j}\n"
        f"  store <8 x double> %line{j}, ptr %to{j}, align 64, !nontemporal !0\n"
        for j in range(TOGETHER)
    )
    return f"""target triple = "{triple}"
define void @stream(ptr %target, ptr %source, i64 %n) {{
start:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %lines, label %done
lines:
  %k = phi i64 [ 0, %start ], [ %next, %lines ]
  %number = mul i64 %k, {TOGETHER * LINE}
  %from = getelementptr double, ptr %source, i64 %number
  %to = getelementptr double, ptr %target, i64 %number
{loads}{stores}\
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %lines, label %done
done:
  fence seq_cst
  ret void
}}
!0 = !{{i32 1}}
"""


def stream(target: Array, source: Array) -> None:
    """Copy float64 numbers to an array of the same shape; ordinarily where rows have gaps.

    Examples
    --------
    >>> x, y = np.arange(100.0), np.empty(100)
    >>> stream(y, x)
    >>> bool((x == y).all())
    True
    """
    to, start = target.__array_interface__["data"][0], source.__array_interface__["data"][0]
    plain = target.flags.c_contiguous and source.flags.c_contiguous and not start % 8
    if to % (8 * LINE) or not plain or source.dtype != np.float64 or target.dtype != np.float64:
        np.copyto(target, source)
        return
    n, rest = divmod(source.size, TOGETHER * LINE)
    _machine_code()(to, start, n)
    if rest:
        np.copyto(target.reshape(-1)[-rest:], source.reshape(-1)[-rest:])


@cache
def _machine_code() -> Callable[[int, int, int], None]:
    """The loop above, compiled for this processor; it stays loaded."""
    target = host()
    code = compile_object(text(target.triple), target)
    jit = llvm.create_lljit_compiler()
    library = llvm.JITLibraryBuilder().add_object_img(code).export_symbol("stream")
    tracker = library.link(jit, "stream")
    kinds = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
    function = ctypes.CFUNCTYPE(None, *kinds)(tracker["stream"])

    def run(to: int, start: int, n: int, _keep: object = (tracker, jit)) -> None:
        function(to, start, n)

    return run
