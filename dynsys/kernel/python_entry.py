"""A compiled kernel as built-in Python functions: no conversion, no checks in Python.

``call(inputs..., outputs...)`` computes one state, ``rows(share, inputs..., outputs...)`` a
share of the rows of a batch. Both are machine code with the signature of a CPython built-in
(METH_FASTCALL). They read the fields of NumPy arrays directly (their layout is part of NumPy's
stable binary interface) and accept only what they can use as it is: exact ``numpy.ndarray`` of
the right shape and dtype, aligned, rows contiguous, outputs writeable and apart from everything
else. They return

    True   computed, all outputs finite
    False  computed, some output is infinite or NaN
    None   some argument is of another kind; nothing was computed

and leave conversion and error messages to :mod:`dynsys.kernel.arguments`. ``call`` holds the
GIL, ``rows`` releases it. Interpreters that lay out objects differently reach the same code
through ctypes.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from dynsys.kernel.arguments import all_usable
from dynsys.kernel.llvm.text import (
    Lines,
    VectorType,
    finite_call,
    row_addresses,
    row_arguments,
    row_parameters,
)
from dynsys.program.signature import Signature

__all__ = [
    "CHUNK",
    "RUNTIME_PLACES",
    "FastCall",
    "LoadedCode",
    "builtin",
    "call_function",
    "emit_call",
    "emit_rows",
    "has_builtins",
    "portable_call",
    "portable_rows",
    "python_function",
    "rows_function",
    "runtime_addresses",
    "share",
]

CHUNK = 64
"""Shares of a batch begin at multiples of this many rows, itself one of every vector width."""
MOST_UNROLLED = 64
"""Longer outputs are tested for finiteness by a loop."""

# Offsets in PyArrayObject_fields after a 16-byte object header.
DATA, ND, DIMENSIONS, STRIDES, DESCR, FLAGS = 16, 24, 32, 40, 56, 64
C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
# Offsets in PyArray_Descr; compared by number: a pickled dtype is not the usual object.
_BYTE_ORDER, _TYPE_NUMBER = 26, 28
_NUMBER = {"float64": 12, "float32": 11}
# Places in @runtime; 0 and 1 are sin and cos (sincos.py).
NDARRAY, TRUE, FALSE, NONE, INCREF, SAVE_THREAD, RESTORE_THREAD, MALLOC, FREE = range(2, 11)
RUNTIME_PLACES = 11
"""Length of @runtime: sin and cos, four objects, five functions of Python."""


# ---- one state -------------------------------------------------------------------------------


def emit_call(signature: Signature, dtype: str) -> str:
    """Text of ``ptr @call(self, arguments, count)``; see the module."""
    t = VectorType(dtype, 1)
    types, arrays, run = Lines("a"), Lines("b"), Lines("c")
    objects, right_types = _check_types(types, len(signature.groups))
    data, usable = _check_vectors(arrays, t, signature, objects)
    run.do("call void @one(" + ", ".join(f"ptr {p}" for p in data) + ")")
    finite = _all_finite(run, t, signature, data[len(signature.inputs) :])
    result = run.let(f"select i1 {finite}, i64 {TRUE}, i64 {FALSE}")
    checks = ((types, right_types), (arrays, usable))
    return _entry("call", len(objects), checks, run, result)


def _check_vectors(
    lines: Lines, t: VectorType, signature: Signature, objects: list[str]
) -> tuple[list[str], str]:
    """Data addresses, and whether all arrays can be used as they are."""
    data, ends, fine = [], [], "true"
    for k, ((_, size), array) in enumerate(zip(signature.groups, objects, strict=True)):
        shape, _ = _dimensions(lines, array, 1)
        length = _field(lines, "i64", shape, 0)
        fine = _both(lines, fine, lines.let(f"icmp eq i64 {length}, {size}"))
        output = k >= len(signature.inputs)
        fine = _check_numbers(lines, t, array, C_CONTIGUOUS | ALIGNED, output, fine)
        data.append(_field(lines, "ptr", array, DATA))
        ends.append(lines.at(t, data[-1], size))
    return data, _check_apart(lines, signature, data, ends, fine)


def _all_finite(lines: Lines, t: VectorType, signature: Signature, data: list[str]) -> str:
    """Whether every output is finite: the sum of 0 * output is then 0, else NaN."""
    sums = [t.constant(0.0)] * 4  # four sums that do not wait for each other
    number = 0
    fine = "true"
    for (_, size), pointer in zip(signature.outputs, data, strict=True):
        if size > MOST_UNROLLED:
            finite = lines.let(finite_call(pointer, size))
            fine = _both(lines, fine, finite)
            continue
        for index in range(size):
            value = lines.load(t, lines.at(t, pointer, index))
            zero = lines.let(f"fmul contract {t} {value}, {t.constant(0.0)}")
            sums[number % 4] = lines.let(f"fadd contract {t} {zero}, {sums[number % 4]}")
            number += 1
    a = lines.let(f"fadd {t} {sums[0]}, {sums[1]}")
    b = lines.let(f"fadd {t} {sums[2]}, {sums[3]}")
    return _both(lines, fine, lines.let(f"fcmp ord {t} {a}, {b}"))


# ---- rows of a batch -------------------------------------------------------------------------


def emit_rows(signature: Signature, dtype: str, scratch_bytes: int) -> str:
    """Text of ``ptr @rows(self, arguments, count)`` and of ``@share``, which it calls."""
    t = VectorType(dtype, 1)
    types, arrays, run = Lines("a"), Lines("b"), Lines("c")
    objects, right_types = _check_types(types, 1 + len(signature.groups))
    arguments, usable = _check_rows(arrays, t, signature, objects[1:])
    which = _field(run, "ptr", objects[0], DATA)
    part, parts = (_field(run, "i64", which, offset) for offset in (0, 8))
    state = run.let(f"call ptr {_runtime(run, SAVE_THREAD)}()")
    flag = run.let(f"call i64 @share(i64 {part}, i64 {parts}, i64 %n{arguments})")
    run.do(f"call void {_runtime(run, RESTORE_THREAD)}(ptr {state})")
    finite = run.let(f"icmp ne i64 {flag}, 0")
    short = run.let(f"icmp slt i64 {flag}, 0")
    done = run.let(f"select i1 {finite}, i64 {TRUE}, i64 {FALSE}")
    result = run.let(f"select i1 {short}, i64 {NONE}, i64 {done}")
    checks = ((types, right_types), (arrays, usable))
    entry = _entry("rows", len(objects), checks, run, result)
    return _share_function(signature, t, scratch_bytes) + entry


def _share_function(signature: Signature, t: VectorType, scratch_bytes: int) -> str:
    """Text of ``i64 @share(part, parts, n, in0, stride0, ...)``: part of n rows by ``batch``.

    Returns 1 if all outputs are finite, 0 if not, -1 if memory is short. Scratch memory belongs
    to the call, so that any number of threads can be inside.
    """
    n = len(signature.groups)
    before, after = Lines("w"), Lines("v")
    memory = before.let(f"call ptr {_runtime(before, MALLOC)}(i64 {scratch_bytes + 64})")
    after.do(f"call void {_runtime(after, FREE)}(ptr {memory})")
    return f"""
define i64 @share(i64 %part, i64 %parts, i64 %n{row_parameters(n)}) {{
start:
  %up = add i64 %n, {CHUNK - 1}
  %chunks = udiv i64 %up, {CHUNK}
  %next = add i64 %part, 1
  %begin_scaled = mul i64 %part, %chunks
  %begin = udiv i64 %begin_scaled, %parts
  %end_scaled = mul i64 %next, %chunks
  %end = udiv i64 %end_scaled, %parts
  %first = mul i64 %begin, {CHUNK}
  %behind = mul i64 %end, {CHUNK}
  %last = call i64 @llvm.umin.i64(i64 %behind, i64 %n)
  %rows = sub i64 %last, %first
{before}
  %enough = icmp ne ptr {memory}, null
  br i1 %enough, label %run, label %short
run:
  %address = ptrtoint ptr {memory} to i64
  %address_up = add i64 %address, 63
  %aligned = and i64 %address_up, -64
  %scratch = inttoptr i64 %aligned to ptr
{row_addresses(n, t, "%first")}\
  %fine = call i64 @batch(i64 %rows, ptr %scratch{row_arguments(range(n))})
{after}
  ret i64 %fine
short:
  ret i64 -1
}}
"""


def _check_rows(
    lines: Lines, t: VectorType, signature: Signature, objects: list[str]
) -> tuple[str, str]:
    """Arguments of ``share`` (address and stride each), and whether all arrays are usable."""
    fine, arguments = "true", ""
    starts, ends = [], []
    for k, ((_, size), array) in enumerate(zip(signature.groups, objects, strict=True)):
        shape, is_matrix = _dimensions(lines, array, 2)
        length = _field(lines, "i64", shape, 0)
        if k == 0:
            lines.do(f"%n = add i64 {length}, 0")
            lines.do("%before_last = sub i64 %n, 1")
            fine = _both(lines, fine, lines.let("icmp sgt i64 %n, 0"))
        fine = _both(lines, fine, lines.let(f"icmp eq i64 {length}, %n"))
        width = _field(lines, "i64", shape, 8)
        fine = _both(lines, fine, lines.let(f"icmp eq i64 {width}, {size}"))
        output = k >= len(signature.inputs)
        fine = _check_numbers(lines, t, array, ALIGNED, output, fine)
        step, fine = _stride(lines, t, array, is_matrix, size, fine)
        starts.append(_field(lines, "ptr", array, DATA))
        arguments += f", ptr {starts[-1]}, i64 {step}"
        last = lines.let(f"mul i64 %before_last, {step}")
        count = lines.let(f"add i64 {last}, {size}")
        ends.append(lines.let(f"getelementptr {t.element}, ptr {starts[-1]}, i64 {count}"))
    return arguments, _check_apart(lines, signature, starts, ends, fine)


def _stride(
    lines: Lines, t: VectorType, array: str, is_matrix: str, size: int, fine: str
) -> tuple[str, str]:
    """Numbers from row to row; rows must be contiguous and apart from each other."""
    given = _field(lines, "ptr", array, STRIDES)
    strides = lines.let(f"select i1 {is_matrix}, ptr {given}, ptr @no_dimension")
    row = _field(lines, "i64", strides, 0)
    if size > 1:
        inner = _field(lines, "i64", strides, 8)
        fine = _both(lines, fine, lines.let(f"icmp eq i64 {inner}, {t.size}"))
    rest = lines.let(f"and i64 {row}, {t.size - 1}")
    fine = _both(lines, fine, lines.let(f"icmp eq i64 {rest}, 0"))
    fine = _both(lines, fine, lines.let(f"icmp sge i64 {row}, {t.size * size}"))
    return lines.let(f"sdiv exact i64 {row}, {t.size}"), fine


# ---- pieces of both --------------------------------------------------------------------------


def _entry(
    name: str, count: int, checks: Sequence[tuple[Lines, str]], run: Lines, result: str
) -> str:
    """A built-in that runs if it has ``count`` arguments and all checks hold, else gives None.

    Each check is its lines and the condition they end with; ``result`` is the place in @runtime
    of the object that ``run`` answers.
    """
    blocks = [f"check{k}" for k in range(len(checks))]
    text, refused = "", ["start"]
    for block, (lines, condition), then in zip(
        blocks, checks, [*blocks[1:], "run"], strict=True
    ):
        text += f"{block}:\n{lines}\n  br i1 {condition}, label %{then}, label %leave\n"
        refused.append(block)
    nothing = ", ".join(f"[ {NONE}, %{block} ]" for block in refused)
    return f"""
define ptr @{name}(ptr %self, ptr %args, i64 %count) {{
start:
  %right_count = icmp eq i64 %count, {count}
  br i1 %right_count, label %{blocks[0]}, label %leave
{text}run:
{run}
  br label %leave
leave:
  %which = phi i64 {nothing}, [ {result}, %run ]
  %at = getelementptr ptr, ptr @runtime, i64 %which
  %object = load ptr, ptr %at
  %incref_at = getelementptr ptr, ptr @runtime, i64 {INCREF}
  %incref = load ptr, ptr %incref_at
  call void %incref(ptr %object)
  ret ptr %object
}}
"""


def _runtime(lines: Lines, place: int) -> str:
    """What @runtime holds at a place."""
    address = lines.let(f"getelementptr ptr, ptr @runtime, i64 {place}")
    return lines.let(f"load ptr, ptr {address}")


def _field(lines: Lines, kind: str, pointer: str, offset: int) -> str:
    """Value of type ``kind`` some bytes behind a pointer."""
    address = lines.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")
    return lines.let(f"load {kind}, ptr {address}")


def _both(lines: Lines, a: str, b: str) -> str:
    """Whether both hold."""
    return lines.let(f"and i1 {a}, {b}")


def _check_types(lines: Lines, count: int) -> tuple[list[str], str]:
    """Arguments as object addresses, and whether each is exactly a ``numpy.ndarray``."""
    wanted = _runtime(lines, NDARRAY)
    objects, ok = [], "true"
    for k in range(count):
        objects.append(_field(lines, "ptr", "%args", 8 * k))
        kind = _field(lines, "ptr", objects[-1], 8)
        ok = _both(lines, ok, lines.let(f"icmp eq ptr {kind}, {wanted}"))
    return objects, ok


def _dimensions(lines: Lines, array: str, count: int) -> tuple[str, str]:
    """Address of the shape and whether it has ``count`` numbers; if not, of a shape of -1."""
    ok = lines.let(f"icmp eq i32 {_field(lines, 'i32', array, ND)}, {count}")
    shape = _field(lines, "ptr", array, DIMENSIONS)
    return lines.let(f"select i1 {ok}, ptr {shape}, ptr @no_dimension"), ok


def _check_numbers(
    lines: Lines, t: VectorType, array: str, flags: int, output: bool, fine: str
) -> str:
    """Whether also the numbers are of the kernel's dtype, in native order, with these flags."""
    descr = _field(lines, "ptr", array, DESCR)
    number = _field(lines, "i32", descr, _TYPE_NUMBER)
    fine = _both(lines, fine, lines.let(f"icmp eq i32 {number}, {_NUMBER[t.dtype]}"))
    order = _field(lines, "i8", descr, _BYTE_ORDER)
    fine = _both(lines, fine, lines.let(f"icmp eq i8 {order}, {ord('=')}"))
    flags |= WRITEABLE if output else 0
    found = lines.let(f"and i32 {_field(lines, 'i32', array, FLAGS)}, {flags}")
    return _both(lines, fine, lines.let(f"icmp eq i32 {found}, {flags}"))


def _check_apart(
    lines: Lines, signature: Signature, starts: list[str], ends: list[str], fine: str
) -> str:
    """Whether also no output overlaps any other array."""
    for out in range(len(signature.inputs), len(starts)):
        for other in range(out):
            below = lines.let(f"icmp ule ptr {ends[out]}, {starts[other]}")
            above = lines.let(f"icmp ule ptr {ends[other]}, {starts[out]}")
            fine = _both(lines, fine, lines.let(f"or i1 {below}, {above}"))
    return fine


# ---- what Python and machine code must know of each other ------------------------------------

FastCall: TypeAlias = Callable[..., bool | None]

_METH_KEYWORDS, _METH_FASTCALL = 0x02, 0x80
_FUNCTIONS = (
    "Py_IncRef",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyMem_RawMalloc",
    "PyMem_RawFree",
)


def runtime_addresses() -> list[int]:
    """Objects and functions of this process, in the order of their places in @runtime."""
    objects = (np.ndarray, True, False, None)
    return [*(id(x) for x in objects), *(python_function(name) for name in _FUNCTIONS)]


def python_function(name: str) -> int:
    """Address of a function of the interpreter."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@final
@dataclass(frozen=True, eq=False)
class LoadedCode:
    """Addresses of the functions of a kernel; the code lives as long as this object."""

    address: Mapping[str, int]
    keep: Any  # the JIT library and its tracker


def call_function(loaded: LoadedCode, signature: Signature, dtype: str) -> FastCall:
    """``call`` as a Python function."""
    at = loaded.address
    if has_builtins():
        return builtin(at["call"], loaded)
    return portable_call(signature, dtype, at["one"])


def rows_function(loaded: LoadedCode, signature: Signature, dtype: str) -> FastCall:
    """``rows`` as a Python function."""
    at = loaded.address
    if has_builtins():
        return builtin(at["rows"], loaded)
    return portable_rows(signature, dtype, at["share"])


def has_builtins() -> bool:
    """Whether machine code can be a built-in: PyPy and free-threaded builds have others."""
    return sys.implementation.name == "cpython" and object.__basicsize__ == 16


def builtin(
    address: int, keep: Any, like: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Machine code of a METH_FASTCALL function as a Python built-in that keeps ``keep`` alive.

    Its ``self`` is a tuple that begins with ``keep``. One that is ``like`` another function
    takes named arguments, too, and has its name, signature and docstring.
    """
    flags, name, words = _METH_FASTCALL, "kernel", f"Compiled kernel; see {__name__}."
    if like is not None:
        flags, name = flags | _METH_KEYWORDS, like.__name__
        inputs = inspect.signature(like).parameters.values()
        plain = [x.replace(annotation=inspect.Parameter.empty) for x in inputs]
        # the way in which built-ins state their signatures
        words = f"{name}{inspect.Signature(plain)}\n--\n\n{inspect.getdoc(like) or ''}"
    definition = _MethodDef(name.encode(), address, flags, words.encode())
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    made: Callable[..., Any] = create(ctypes.addressof(definition), (keep, definition), None)
    return made


@lru_cache(maxsize=256)
def share(part: int, parts: int) -> NDArray[np.int64]:
    """First argument of ``rows``: part number ``part`` of ``parts``."""
    return np.array([part, parts], dtype=np.int64)


def portable_call(signature: Signature, dtype: str, one: int) -> FastCall:
    """What ``call`` does, through ctypes: for interpreters that have no such built-ins."""

    def call(*arrays: Any) -> bool | None:
        if not all_usable(arrays, signature, dtype, apart=True):
            return None
        kinds = [ctypes.c_void_p] * len(arrays)
        ctypes.CFUNCTYPE(None, *kinds)(one)(*(array.ctypes.data for array in arrays))
        return all(bool(np.isfinite(x).all()) for x in arrays[len(signature.inputs) :])

    return call


def portable_rows(signature: Signature, dtype: str, share: int) -> FastCall:
    """What ``rows`` does, through ctypes: for interpreters that have no such built-ins."""
    integer = ctypes.c_int64
    kinds = [*[integer] * 4, *[ctypes.c_void_p, integer] * len(signature.groups)]
    function = ctypes.CFUNCTYPE(*kinds)(share)

    def rows(which: NDArray[np.int64], *arrays: Any) -> bool | None:
        if not all_usable(arrays, signature, dtype, rows=True, apart=True):
            return None
        places = [x for a in arrays for x in (a.ctypes.data, a.strides[0] // a.itemsize)]
        flag = function(int(which[0]), int(which[1]), len(arrays[0]), *places)
        return None if flag < 0 else bool(flag)

    return rows
