"""A compiled kernel as a built-in Python function: no conversion, no checks in Python.

``call`` is machine code with the signature of a CPython built-in (METH_FASTCALL). It reads the
fields of NumPy arrays directly (their layout is part of NumPy's stable binary interface) and
accepts only what it can use as it is: exact ``numpy.ndarray``, one axis, right length and
dtype, C-contiguous, aligned, outputs writeable and apart from everything else. It returns

    True   computed, all outputs finite
    False  computed, some output is infinite or NaN
    None   some argument is of another kind; nothing was computed

and leaves conversion and error messages to the slow path in Python. The GIL is held throughout.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from dynsys.codegen.llvm_text import Lines, VectorType
from dynsys.codegen.signature import Signature

__all__ = ["FastCall", "builtin_function", "emit_call", "runtime_addresses"]

FastCall: TypeAlias = Callable[..., bool | None]

# Offsets in PyArrayObject_fields after a 16-byte object header.
_DATA, _ND, _DIMENSIONS, _DESCR, _FLAGS = 16, 24, 32, 56, 64
_C_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400
_METH_FASTCALL = 0x80
# Places in @runtime; 0 and 1 are sin and cos (sincos.py).
_NDARRAY, _DTYPE, _TRUE, _FALSE, _NONE, _INCREF = range(2, 8)


def emit_call(signature: Signature, dtype: str) -> str:
    """Text of ``ptr @call(self, arguments, count)``; see the module."""
    t = VectorType(dtype, 1)
    n, n_in = len(signature.groups), len(signature.inputs)
    first, second, run = Lines("a"), Lines("b"), Lines("c")
    objects, ok = _check_types(first, n)
    data, fine = _check_arrays(second, t, signature, objects)
    run.do("call void @one(" + ", ".join(f"ptr {p}" for p in data) + ")")
    finite = _all_finite(run, t, signature, data[n_in:])
    result = run.let(f"select i1 {finite}, i64 {_TRUE}, i64 {_FALSE}")
    return f"""
define ptr @call(ptr %self, ptr %args, i64 %count) {{
start:
  %right_count = icmp eq i64 %count, {n}
  br i1 %right_count, label %types, label %leave
types:
{_join(first)}
  br i1 {ok}, label %arrays, label %leave
arrays:
{_join(second)}
  br i1 {fine}, label %run, label %leave
run:
{_join(run)}
  br label %leave
leave:
  %which = phi i64 [ {_NONE}, %start ], [ {_NONE}, %types ], [ {_NONE}, %arrays ], [ {result}, %run ]
  %at = getelementptr ptr, ptr @runtime, i64 %which
  %object = load ptr, ptr %at
  %incref_at = getelementptr ptr, ptr @runtime, i64 {_INCREF}
  %incref = load ptr, ptr %incref_at
  call void %incref(ptr %object)
  ret ptr %object
}}
"""


def _join(lines: Lines) -> str:
    return "\n".join(lines.text)


def _runtime(lines: Lines, place: int) -> str:
    return lines.let(f"load ptr, ptr {lines.let(f'getelementptr ptr, ptr @runtime, i64 {place}')}")


def _field(lines: Lines, kind: str, pointer: str, offset: int) -> str:
    return lines.let(
        f"load {kind}, ptr {lines.let(f'getelementptr i8, ptr {pointer}, i64 {offset}')}"
    )


def _both(lines: Lines, a: str, b: str) -> str:
    return lines.let(f"and i1 {a}, {b}")


def _check_types(lines: Lines, count: int) -> tuple[list[str], str]:
    """Arguments as object addresses, and whether each is exactly a numpy.ndarray."""
    wanted = _runtime(lines, _NDARRAY)
    objects, ok = [], "true"
    for k in range(count):
        objects.append(_field(lines, "ptr", "%args", 8 * k))
        kind = _field(lines, "ptr", objects[-1], 8)
        ok = _both(lines, ok, lines.let(f"icmp eq ptr {kind}, {wanted}"))
    return objects, ok


def _check_arrays(
    lines: Lines, t: VectorType, signature: Signature, objects: list[str]
) -> tuple[list[str], str]:
    """Data addresses, and whether all arrays can be used as they are."""
    wanted = _runtime(lines, _DTYPE)
    data, fine = [], "true"
    for k, ((_, size), array) in enumerate(zip(signature.groups, objects, strict=True)):
        output = k >= len(signature.inputs)
        flags = _C_CONTIGUOUS | _ALIGNED | (_WRITEABLE if output else 0)
        nd = _field(lines, "i32", array, _ND)
        # a 0-dimensional array has no dimensions to read: ask one array of length -1 instead
        is_vector = lines.let(f"icmp eq i32 {nd}, 1")
        dimensions = _field(lines, "ptr", array, _DIMENSIONS)
        minus_one = lines.let(f"select i1 {is_vector}, ptr {dimensions}, ptr @no_dimension")
        length = _field(lines, "i64", minus_one, 0)
        fine = _both(lines, fine, lines.let(f"icmp eq i64 {length}, {size}"))
        descr = _field(lines, "ptr", array, _DESCR)
        fine = _both(lines, fine, lines.let(f"icmp eq ptr {descr}, {wanted}"))
        found = lines.let(f"and i32 {_field(lines, 'i32', array, _FLAGS)}, {flags}")
        fine = _both(lines, fine, lines.let(f"icmp eq i32 {found}, {flags}"))
        data.append(_field(lines, "ptr", array, _DATA))
    return data, _check_apart(lines, t, signature, data, fine)


def _check_apart(
    lines: Lines, t: VectorType, signature: Signature, data: list[str], fine: str
) -> str:
    """Whether no output overlaps any other array: b - a >= |a| and a - b >= |b|, unsigned."""
    integers = [lines.let(f"ptrtoint ptr {p} to i64") for p in data]
    size = [t.size * length for _, length in signature.groups]
    for out in range(len(signature.inputs), len(data)):
        for other in range(out):
            if size[out] and size[other]:
                for a, b in ((out, other), (other, out)):
                    gap = lines.let(f"sub i64 {integers[b]}, {integers[a]}")
                    fine = _both(lines, fine, lines.let(f"icmp uge i64 {gap}, {size[a]}"))
    return fine


def _all_finite(lines: Lines, t: VectorType, signature: Signature, data: list[str]) -> str:
    """Whether every output is finite: the sum of 0 * output is then 0, else NaN."""
    sums = [t.constant(0.0)] * 4
    number = 0
    for (_, size), pointer in zip(signature.outputs, data, strict=True):
        for index in range(size):
            value = lines.load(t, lines.at(t, pointer, index))
            zero = lines.let(f"fmul contract {t} {value}, {t.constant(0.0)}")
            sums[number % 4] = lines.let(f"fadd contract {t} {zero}, {sums[number % 4]}")
            number += 1
    a = lines.let(f"fadd {t} {sums[0]}, {sums[1]}")
    b = lines.let(f"fadd {t} {sums[2]}, {sums[3]}")
    return lines.let(f"fcmp ord {t} {a}, {b}")


def runtime_addresses(dtype: str) -> list[int]:
    """What ``call`` must know of this process, in the order of its places in @runtime."""
    increment = ctypes.cast(ctypes.pythonapi.Py_IncRef, ctypes.c_void_p).value or 0
    objects = (np.ndarray, np.dtype(dtype), True, False, None)
    return [*(id(x) for x in objects), increment]


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def builtin_function(address: int, keep: Any) -> FastCall | None:
    """The function ``call`` at an address as a Python built-in that keeps ``keep`` alive.

    None where the interpreter lays out objects differently (PyPy, free-threaded builds).
    """
    if sys.implementation.name != "cpython" or object.__basicsize__ != 16:
        return None
    definition = _MethodDef(
        b"kernel", address, _METH_FASTCALL, b"Compiled kernel; see dynsys.codegen.fastcall."
    )
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    function: FastCall = create(ctypes.addressof(definition), (keep, definition), None)
    return function
