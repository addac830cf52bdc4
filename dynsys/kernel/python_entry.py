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
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from dynsys.kernel.llvm.text import Lines, VectorType, finite_function
from dynsys.program.signature import Signature

__all__ = [
    "RUNTIME_PLACES",
    "FastCall",
    "builtin_function",
    "emit_call",
    "emit_rows",
    "runtime_addresses",
]

# Offsets in PyArrayObject_fields after a 16-byte object header.
DATA, ND, DIMENSIONS, STRIDES, DESCR, FLAGS = 16, 24, 32, 40, 56, 64
C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
# Offsets in PyArray_Descr; compared by number: a pickled dtype is not the usual object.
_BYTE_ORDER, _TYPE_NUMBER = 26, 28
_NUMBER = {"float64": 12, "float32": 11}
# Places in @runtime; 0 and 1 are sin and cos (sincos.py).
NDARRAY, TRUE, FALSE, NONE, INCREF, SAVE_THREAD, RESTORE_THREAD, MALLOC, FREE, YIELD = range(
    2, 12
)


MOST_UNROLLED = 64
"""Longer outputs are tested for finiteness by a loop."""


def emit_call(signature: Signature, dtype: str) -> str:
    """Text of ``ptr @call(self, arguments, count)``; see the module."""
    t = VectorType(dtype, 1)
    n, n_in = len(signature.groups), len(signature.inputs)
    first, second, run = Lines("a"), Lines("b"), Lines("c")
    objects, ok = check_types(first, n, NDARRAY)
    data, fine = _check_arrays(second, t, signature, objects)
    run.do("call void @one(" + ", ".join(f"ptr {p}" for p in data) + ")")
    finite = _all_finite(run, t, signature, data[n_in:])
    result = run.let(f"select i1 {finite}, i64 {TRUE}, i64 {FALSE}")
    return f"""{finite_function(dtype)}
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
{leave(("start", "types", "arrays"), result, "run")}
}}
"""


def _join(lines: Lines) -> str:
    return "\n".join(lines.text)


# ---- pieces shared with rowcall.py and team.py -----------------------------------------------


def leave(refused: Iterable[str], result: str, source: str) -> str:
    """Text of the last block: a new reference to None, or to the object at place ``result``."""
    nothing = ", ".join(f"[ {NONE}, %{block} ]" for block in refused)
    return f"""leave:
  %which = phi i64 {nothing}, [ {result}, %{source} ]
  %at = getelementptr ptr, ptr @runtime, i64 %which
  %object = load ptr, ptr %at
  %incref_at = getelementptr ptr, ptr @runtime, i64 {INCREF}
  %incref = load ptr, ptr %incref_at
  call void %incref(ptr %object)
  ret ptr %object"""


def runtime(lines: Lines, place: int) -> str:
    """What @runtime holds at a place."""
    address = lines.let(f"getelementptr ptr, ptr @runtime, i64 {place}")
    return lines.let(f"load ptr, ptr {address}")


def field(lines: Lines, kind: str, pointer: str, offset: int) -> str:
    """Value of type ``kind`` some bytes behind a pointer."""
    address = lines.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")
    return lines.let(f"load {kind}, ptr {address}")


def both(lines: Lines, a: str, b: str) -> str:
    """Whether both hold."""
    return lines.let(f"and i1 {a}, {b}")


def check_types(lines: Lines, count: int, place: int) -> tuple[list[str], str]:
    """Arguments as object addresses, and whether each has exactly the type at ``place``."""
    wanted = runtime(lines, place)
    objects, ok = [], "true"
    for k in range(count):
        objects.append(field(lines, "ptr", "%args", 8 * k))
        kind = field(lines, "ptr", objects[-1], 8)
        ok = both(lines, ok, lines.let(f"icmp eq ptr {kind}, {wanted}"))
    return objects, ok


def dimensions_of(lines: Lines, array: str, count: int) -> tuple[str, str]:
    """Address of the shape and whether it has ``count`` numbers; if not, of a shape of -1."""
    ok = lines.let(f"icmp eq i32 {field(lines, 'i32', array, ND)}, {count}")
    shape = field(lines, "ptr", array, DIMENSIONS)
    return lines.let(f"select i1 {ok}, ptr {shape}, ptr @no_dimension"), ok


def check_dtype(lines: Lines, t: VectorType, array: str, fine: str) -> str:
    """Whether also the numbers of an array are of the kernel's dtype, in native byte order."""
    descr = field(lines, "ptr", array, DESCR)
    number = field(lines, "i32", descr, _TYPE_NUMBER)
    fine = both(lines, fine, lines.let(f"icmp eq i32 {number}, {_NUMBER[t.dtype]}"))
    order = field(lines, "i8", descr, _BYTE_ORDER)
    return both(lines, fine, lines.let(f"icmp eq i8 {order}, {ord('=')}"))


def check_flags(lines: Lines, array: str, flags: int, fine: str) -> str:
    """Whether also all ``flags`` of an array are set."""
    found = lines.let(f"and i32 {field(lines, 'i32', array, FLAGS)}, {flags}")
    return both(lines, fine, lines.let(f"icmp eq i32 {found}, {flags}"))


# ---- one state -------------------------------------------------------------------------------


def _check_arrays(
    lines: Lines, t: VectorType, signature: Signature, objects: list[str]
) -> tuple[list[str], str]:
    """Data addresses, and whether all arrays can be used as they are."""
    data, fine = [], "true"
    for k, ((_, size), array) in enumerate(zip(signature.groups, objects, strict=True)):
        output = k >= len(signature.inputs)
        shape, _ = dimensions_of(lines, array, 1)
        length = field(lines, "i64", shape, 0)
        fine = both(lines, fine, lines.let(f"icmp eq i64 {length}, {size}"))
        fine = check_dtype(lines, t, array, fine)
        flags = C_CONTIGUOUS | ALIGNED | (WRITEABLE if output else 0)
        fine = check_flags(lines, array, flags, fine)
        data.append(field(lines, "ptr", array, DATA))
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
                    fine = both(lines, fine, lines.let(f"icmp uge i64 {gap}, {size[a]}"))
    return fine


def _all_finite(lines: Lines, t: VectorType, signature: Signature, data: list[str]) -> str:
    """Whether every output is finite: the sum of 0 * output is then 0, else NaN."""
    sums = [t.constant(0.0)] * 4
    number = 0
    fine = "true"
    for (_, size), pointer in zip(signature.outputs, data, strict=True):
        if size > MOST_UNROLLED:
            finite = lines.let(f"call i1 @finite(ptr {pointer}, i64 {size})")
            fine = both(lines, fine, finite)
            continue
        for index in range(size):
            value = lines.load(t, lines.at(t, pointer, index))
            zero = lines.let(f"fmul contract {t} {value}, {t.constant(0.0)}")
            sums[number % 4] = lines.let(f"fadd contract {t} {zero}, {sums[number % 4]}")
            number += 1
    a = lines.let(f"fadd {t} {sums[0]}, {sums[1]}")
    b = lines.let(f"fadd {t} {sums[2]}, {sums[3]}")
    return both(lines, fine, lines.let(f"fcmp ord {t} {a}, {b}"))


# ----------------------------------------------------------------------
# The batch function as a built-in Python function: checks in machine code, GIL released.
#
# ``rows(board, inputs..., outputs...)`` works like ``call`` (fastcall.py) on arrays (N, size)
# with contiguous rows at any positive distance. ``board`` (helpers, 8) is an int64 array with a
# line for each thread that helps (team.py); without lines the caller does all rows.


def emit_rows(signature: Signature, dtype: str) -> str:
    """Text of ``ptr @rows(self, arguments, count)``; see the module."""
    t = VectorType(dtype, 1)
    first, second, run = Lines("a"), Lines("b"), Lines("c")
    objects, ok = check_types(first, 1 + len(signature.groups), NDARRAY)
    arguments, fine = _check_rows(second, t, signature, objects[1:])
    board = field(run, "ptr", objects[0], DATA)
    helpers = field(run, "i64", dimensions_of(run, objects[0], 2)[0], 0)
    state = run.let(f"call ptr {runtime(run, SAVE_THREAD)}()")
    flag = run.let(f"call i64 @team(ptr {board}, i64 {helpers}, i64 %n{arguments})")
    run.do(f"call void {runtime(run, RESTORE_THREAD)}(ptr {state})")
    finite = run.let(f"icmp ne i64 {flag}, 0")
    short = run.let(f"icmp slt i64 {flag}, 0")
    done = run.let(f"select i1 {finite}, i64 {TRUE}, i64 {FALSE}")
    answer = run.let(f"select i1 {short}, i64 {NONE}, i64 {done}")
    parts = ["\n".join(lines.text) for lines in (first, second, run)]
    refused = ("start", "types", "arrays")
    return f"""
define ptr @rows(ptr %self, ptr %args, i64 %count) {{
start:
  %right_count = icmp eq i64 %count, {1 + len(signature.groups)}
  br i1 %right_count, label %types, label %leave
types:
{parts[0]}
  br i1 {ok}, label %arrays, label %leave
arrays:
{parts[1]}
  br i1 {fine}, label %run, label %leave
run:
{parts[2]}
  br label %leave
{leave(refused, answer, "run")}
}}
"""


def _check_rows(
    lines: Lines, t: VectorType, signature: Signature, objects: list[str]
) -> tuple[str, str]:
    """Arguments of ``team`` (address and stride each), and whether all arrays are usable."""
    fine, arguments = "true", ""
    spans: list[tuple[str, str]] = []
    for k, ((_, size), array) in enumerate(zip(signature.groups, objects, strict=True)):
        output = k >= len(signature.inputs)
        shape, ok = dimensions_of(lines, array, 2)
        fine = both(lines, fine, ok)
        length = field(lines, "i64", shape, 0)
        if k == 0:
            lines.do(f"%n = add i64 {length}, 0")
            fine = both(lines, fine, lines.let("icmp sgt i64 %n, 0"))
        fine = both(lines, fine, lines.let(f"icmp eq i64 {length}, %n"))
        width = field(lines, "i64", shape, 8)
        fine = both(lines, fine, lines.let(f"icmp eq i64 {width}, {size}"))
        fine = check_dtype(lines, t, array, fine)
        fine = check_flags(lines, array, ALIGNED | (WRITEABLE if output else 0), fine)
        step, fine = _stride(lines, t, array, ok, size, fine)
        data = field(lines, "ptr", array, DATA)
        arguments += f", ptr {data}, i64 {step}"
        spans.append(_span(lines, t, data, step, size))
    for out in range(len(signature.inputs), len(objects)):
        for other in range(out):
            fine = both(lines, fine, _apart(lines, spans[out], spans[other]))
    return arguments, fine


def _stride(
    lines: Lines, t: VectorType, array: str, is_matrix: str, size: int, fine: str
) -> tuple[str, str]:
    """Numbers from row to row; rows must be contiguous and apart from each other."""
    given = field(lines, "ptr", array, STRIDES)
    strides = lines.let(f"select i1 {is_matrix}, ptr {given}, ptr @no_dimension")
    row = field(lines, "i64", strides, 0)
    if size > 1:
        inner = field(lines, "i64", strides, 8)
        fine = both(lines, fine, lines.let(f"icmp eq i64 {inner}, {t.size}"))
    rest = lines.let(f"and i64 {row}, {t.size - 1}")
    fine = both(lines, fine, lines.let(f"icmp eq i64 {rest}, 0"))
    fine = both(lines, fine, lines.let(f"icmp sge i64 {row}, {t.size * size}"))
    return lines.let(f"sdiv exact i64 {row}, {t.size}"), fine


def _span(lines: Lines, t: VectorType, data: str, step: str, size: int) -> tuple[str, str]:
    """First address and the one behind the last."""
    last = lines.let("sub i64 %n, 1")
    before = lines.let(f"mul i64 {last}, {step}")
    count = lines.let(f"add i64 {before}, {size}")
    end = lines.let(f"getelementptr {t.element}, ptr {data}, i64 {count}")
    return data, end


def _apart(lines: Lines, a: tuple[str, str], b: tuple[str, str]) -> str:
    below = lines.let(f"icmp ule ptr {a[1]}, {b[0]}")
    above = lines.let(f"icmp ule ptr {b[1]}, {a[0]}")
    return lines.let(f"or i1 {below}, {above}")


# ----------------------------------------------------------------------
# Built-in Python functions made of machine code, and what that code must know of Python.

FastCall: TypeAlias = Callable[..., bool | None]

_METH_FASTCALL = 0x80
_FUNCTIONS = (
    "Py_IncRef",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyMem_RawMalloc",
    "PyMem_RawFree",
)
RUNTIME_PLACES = 12
"""Length of @runtime: sin and cos, four objects, the functions above, and yield."""


def runtime_addresses() -> list[int]:
    """Objects and functions of this process, in the order of their places in @runtime."""
    objects = (np.ndarray, True, False, None)
    windows = sys.platform == "win32"
    system = ctypes.CDLL("kernel32" if windows else None)
    functions = [getattr(ctypes.pythonapi, name) for name in _FUNCTIONS]
    functions.append(system.SwitchToThread if windows else system.sched_yield)
    return [
        *(id(x) for x in objects),
        *(ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions),
    ]


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def builtin_function(address: int, keep: Any) -> FastCall | None:
    """Machine code of a METH_FASTCALL function as a Python built-in that keeps ``keep`` alive.

    None where the interpreter lays out objects differently (PyPy, free-threaded builds).
    """
    if sys.implementation.name != "cpython" or object.__basicsize__ != 16:
        return None
    definition = _MethodDef(
        b"kernel", address, _METH_FASTCALL, b"Compiled kernel; see dynsys.kernel.python_entry."
    )
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    function: FastCall = create(ctypes.addressof(definition), (keep, definition), None)
    return function
