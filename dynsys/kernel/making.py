"""Answers made by machine code: memory, arithmetic, check and the object around it in one call.

``maker(kernel, kind, about, otherwise)`` is a function of the inputs of a kernel that has one
output,

    make(inputs...) = kind(answer, about)      where kernel.fast answers True
                    = otherwise(inputs...)     else, and for other or named arguments

``np.empty``, a class and a method that are called from Python take 0.4 microseconds, as long as
small kernels run. Here a built-in (:mod:`dynsys.kernel.python_entry`) has NumPy make the array,
hands it to ``call`` behind the inputs, and fills the two slots of a new object: what ``kind``
holds after ``kind(answer, about)``, without running its ``__init__``. It reads what it needs
from a table of addresses and numbers that its ``self`` begins with, so that one function serves
all kernels. It reads that tuple by offsets that are no part of Python's interface, so only
interpreters of ``TRIED`` versions run it; all others do the same in Python.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from dynsys.kernel.kernel import Kernel, MachineKernel
from dynsys.kernel.llvm.target import host, load_function
from dynsys.kernel.python_entry import builtin, has_builtins, python_function

__all__ = ["maker", "portable_maker"]

T = TypeVar("T")

_PLACES = ("call", "inputs", "size", "kind", "about", "otherwise", "ndarray", "dtype", "true",
           "new", "allocate", "incref", "decref", "vectorcall")  # fmt: skip
"""What the table holds."""
_FUNCTIONS = ("PyType_GenericAlloc", "Py_IncRef", "Py_DecRef", "PyObject_Vectorcall")
_NEW_FROM_DESCR = 94  # PyArray_NewFromDescr in NumPy's table of functions
_ITEM, _DATA, _FIRST_SLOT = 24, 16, 16  # offsets: of a tuple, an array, an object with slots
TRIED = (3, 11), (3, 12), (3, 13)
"""Versions of CPython whose objects are laid out so; items of tuples moved in 3.14."""


def maker(
    kernel: Kernel, kind: type[T], about: object, otherwise: Callable[..., T]
) -> Callable[..., T]:
    """See the module. ``kind`` has two slots, by alphabet: the answer, then ``about``.

    It has the name, signature and docstring of ``otherwise``.
    """
    is_tried = has_builtins() and sys.version_info[:2] in TRIED
    if not (is_tried and isinstance(kernel, MachineKernel)):
        return portable_maker(kernel, kind, about, otherwise)
    slots = tuple(getattr(kind, "__slots__", ()))
    if len(slots) != 2 or list(slots) != sorted(slots) or kind.__basicsize__ != 32:
        raise TypeError(f"{kind.__name__} needs two slots, by alphabet, and no other base")
    ((_, size),) = kernel.signature.outputs
    objects = (kind, about, otherwise, np.ndarray, kernel.dtype, True)
    numbers = kernel.call_address, len(kernel.signature.inputs), size
    functions = _new_array(), *(python_function(name) for name in _FUNCTIONS)
    table = np.array([*numbers, *map(id, objects), *functions], dtype=np.int64)
    address, code = _machine_code()
    return builtin(address, (table, kernel, objects, code), otherwise)


def portable_maker(
    kernel: Kernel, kind: type[T], about: object, otherwise: Callable[..., T]
) -> Callable[..., T]:
    """The same in Python."""
    ((_, size),) = kernel.signature.outputs
    make: Any = kind

    @wraps(otherwise)
    def made(*inputs: Any, **named: Any) -> T:
        answer = np.empty(size, kernel.dtype)
        fine = not named and kernel.fast(*inputs, answer)
        return make(answer, about) if fine else otherwise(*inputs, **named)

    return made


def _new_array() -> int:
    """Address of the function of NumPy that makes arrays."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    numpy: Any = import_module("numpy._core.multiarray")
    first = pointer(numpy._ARRAY_API, None)
    return ctypes.c_void_p.from_address(first + 8 * _NEW_FROM_DESCR).value or 0


@cache
def _machine_code() -> tuple[int, object]:
    """The text below, compiled for this processor."""
    return load_function(text(host().triple), "make")


def text(triple: str) -> str:
    """LLVM text of ``ptr @make(self, arguments, count, names)``."""

    def of_table(*names: str) -> str:
        return "".join(
            f"  %{name}_at = getelementptr i64, ptr %table, i64 {_PLACES.index(name)}\n"
            f"  %{name} = load {'i64' if name == 'inputs' else 'ptr'}, ptr %{name}_at\n"
            for name in names
        )

    return f"""target triple = "{triple}"
define ptr @make(ptr %self, ptr %args, i64 %count, ptr %names) {{
start:
  %keep_at = getelementptr i8, ptr %self, i64 {_ITEM}
  %keep = load ptr, ptr %keep_at
  %array_at = getelementptr i8, ptr %keep, i64 {_ITEM}
  %array = load ptr, ptr %array_at
  %table_at = getelementptr i8, ptr %array, i64 {_DATA}
  %table = load ptr, ptr %table_at
{of_table("incref", "decref", "inputs")}\
  %as_many = icmp eq i64 %count, %inputs
  %unnamed = icmp eq ptr %names, null
  %right = and i1 %as_many, %unnamed
  br i1 %right, label %make, label %other
make:
{of_table("new", "ndarray", "dtype")}\
  %size = getelementptr i64, ptr %table, i64 {_PLACES.index("size")}
  call void %incref(ptr %dtype)
  %answer = call ptr %new(ptr %ndarray, ptr %dtype, i32 1, ptr %size, ptr null, ptr null,
    i32 0, ptr null)
  %short = icmp eq ptr %answer, null
  br i1 %short, label %fail, label %run
run:
  %more = add i64 %count, 1
  %all = alloca ptr, i64 %more
  br label %copy
copy:
  %k = phi i64 [ 0, %run ], [ %next, %copy ]
  %from = getelementptr ptr, ptr %args, i64 %k
  %given = load ptr, ptr %from
  %to = getelementptr ptr, ptr %all, i64 %k
  store ptr %given, ptr %to
  %next = add i64 %k, 1
  %again = icmp ult i64 %next, %count
  br i1 %again, label %copy, label %compute
compute:
  %last = getelementptr ptr, ptr %all, i64 %count
  store ptr %answer, ptr %last
{of_table("call", "true")}\
  %done = call ptr %call(ptr null, ptr %all, i64 %more)
  call void %decref(ptr %done)
  %fine = icmp eq ptr %done, %true
  br i1 %fine, label %wrap, label %drop
wrap:
{of_table("allocate", "kind", "about")}\
  %object = call ptr %allocate(ptr %kind, i64 0)
  %none_left = icmp eq ptr %object, null
  br i1 %none_left, label %lost, label %fill
fill:
  call void %incref(ptr %about)
  %answer_at = getelementptr i8, ptr %object, i64 {_FIRST_SLOT}
  store ptr %answer, ptr %answer_at
  %about_slot = getelementptr i8, ptr %object, i64 {_FIRST_SLOT + 8}
  store ptr %about, ptr %about_slot
  ret ptr %object
drop:
  call void %decref(ptr %answer)
  br label %other
other:
{of_table("vectorcall", "otherwise")}\
  %found = call ptr %vectorcall(ptr %otherwise, ptr %args, i64 %count, ptr %names)
  ret ptr %found
lost:
  call void %decref(ptr %answer)
  br label %fail
fail:
  ret ptr null
}}
"""
