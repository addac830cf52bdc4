"""Copies that tell whether all their numbers are finite; past the caches if they are long.

Numbers are looked at while they are copied: that takes no longer than the copy alone.

An ordinary store first loads the line it writes to, and drives another one out of the cache. A
non-temporal one does neither: where much data is written now and read late, if ever, a copy of
megabytes takes two thirds of the time, and what is in the cache stays there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from dynsys.kernel.llvm.target import has_llvm, host, load_function
from dynsys.types import Array

__all__ = ["LINE", "copy", "stream"]

LINE = 8
"""Numbers in a line of the cache; targets of :func:`stream` begin at one."""

TOGETHER = 4
"""Lines that are loaded before they are stored: half as many take three times as long."""


def text(triple: str) -> str:
    """LLVM text of ``i64 @stream(target, source, n)`` and ``@copy``: 1 if all n are finite."""
    far = _function("stream", f"align {8 * LINE}, !nontemporal !0")
    return f'target triple = "{triple}"\n{far}{_function("copy", "align 8")}!0 = !{{i32 1}}\n'


def _function(name: str, stored: str) -> str:
    """So many lines at a time, then number by number; 0 * x is NaN where x is not finite."""
    loads = "".join(
        f"  %from{j} = getelementptr <8 x double>, ptr %from, i64 {j}\n"
        f"  %line{j} = load <8 x double>, ptr %from{j}, align 8\n"
        for j in range(TOGETHER)
    )
    stores = "".join(
        f"  %to{j} = getelementptr <8 x double>, ptr %to, i64 {j}\n"
        f"  store <8 x double> %line{j}, ptr %to{j}, {stored}\n"
        for j in range(TOGETHER)
    )
    looks = "".join(
        f"  %zero{j} = fmul <8 x double> %line{j}, zeroinitializer\n"
        f"  %next{j} = fadd <8 x double> %sum{j}, %zero{j}\n"
        for j in range(TOGETHER)
    )
    begin = "phi <8 x double> [ zeroinitializer, %start ]"
    sums, ends = (
        "".join(f"  %{x}{j} = {begin}, [ %next{j}, %lines ]\n" for j in range(TOGETHER))
        for x in ("sum", "end")
    )
    totals = "".join(
        f"  %all{j} = fadd <8 x double> %all{j - 1}, %end{j}\n" for j in range(1, TOGETHER)
    )
    return f"""define i64 @{name}(ptr %target, ptr %source, i64 %n) {{
start:
  %blocks = sdiv i64 %n, {TOGETHER * LINE}
  %some = icmp sgt i64 %blocks, 0
  br i1 %some, label %lines, label %after
lines:
  %k = phi i64 [ 0, %start ], [ %next, %lines ]
{sums}\
  %number = mul i64 %k, {TOGETHER * LINE}
  %from = getelementptr double, ptr %source, i64 %number
  %to = getelementptr double, ptr %target, i64 %number
{loads}{stores}{looks}\
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %blocks
  br i1 %more, label %lines, label %after
after:
{ends}\
  %all0 = fadd <8 x double> %end0, zeroinitializer
{totals}\
  %are_nan = fcmp uno <8 x double> %all{TOGETHER - 1}, zeroinitializer
  %bits = bitcast <8 x i1> %are_nan to i8
  %good = icmp eq i8 %bits, 0
  %first = mul i64 %blocks, {TOGETHER * LINE}
  %any = icmp slt i64 %first, %n
  br i1 %any, label %rest, label %done
rest:
  %i = phi i64 [ %first, %after ], [ %i_next, %rest ]
  %fine = phi i1 [ %good, %after ], [ %fine_next, %rest ]
  %one = getelementptr double, ptr %source, i64 %i
  %there = getelementptr double, ptr %target, i64 %i
  %x = load double, ptr %one, align 8
  store double %x, ptr %there, align 8
  %zero = fmul double %x, 0.0
  %ordered = fcmp ord double %zero, 0.0
  %fine_next = and i1 %fine, %ordered
  %i_next = add i64 %i, 1
  %again = icmp slt i64 %i_next, %n
  br i1 %again, label %rest, label %done
done:
  %finite = phi i1 [ %good, %after ], [ %fine_next, %rest ]
  fence seq_cst
  %answer = zext i1 %finite to i64
  ret i64 %answer
}}
"""


def stream(target: Array, source: Array) -> bool:
    """Copy float64 numbers to an array of the same shape; whether all are finite.

    Where rows have gaps, the target begins within a line or there is no LLVM, by an ordinary
    copy.

    Examples
    --------
    >>> x, y = np.arange(100.0), np.empty(100)
    >>> stream(y, x), bool((x == y).all())
    (True, True)
    """
    starts_a_line = not target.__array_interface__["data"][0] % (8 * LINE)
    return _copied(target, source, "stream" if starts_a_line else "copy")


def copy(target: Array, source: Array) -> bool:
    """Copy likewise, by way of the caches."""
    return _copied(target, source, "copy")


def _copied(target: Array, source: Array, by: str) -> bool:
    to, start = target.__array_interface__["data"][0], source.__array_interface__["data"][0]
    plain = target.flags.c_contiguous and source.flags.c_contiguous and not (start | to) % 8
    numbers = source.dtype == target.dtype == np.float64
    if not (plain and numbers and has_llvm()):
        np.copyto(target, source)
        return bool(np.isfinite(source).all())
    return bool(_machine_code()[by](to, start, source.size))


@cache
def _machine_code() -> Mapping[str, Callable[[int, int, int], int]]:
    """The loops above, compiled for this processor; they stay loaded."""
    kinds = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
    function, loops = ctypes.CFUNCTYPE(ctypes.c_int64, *kinds), {}
    for name in ("stream", "copy"):
        address, code = load_function(text(host().triple), name)
        _KEPT.append(code)
        loops[name] = function(address)
    return loops


_KEPT: list[object] = []
"""What holds the loaded code."""
