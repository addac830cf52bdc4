"""Built-in Python functions made of machine code, and what that code must know of Python."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

__all__ = ["RUNTIME_PLACES", "FastCall", "builtin_function", "runtime_addresses"]

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
        b"kernel", address, _METH_FASTCALL, b"Compiled kernel; see dynsys.codegen.fastcall."
    )
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    function: FastCall = create(ctypes.addressof(definition), (keep, definition), None)
    return function
