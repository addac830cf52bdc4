"""LLVM text to object code (bytes), and object code to callable addresses."""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from dataclasses import dataclass
from typing import Any, final

import llvmlite.binding as llvm

from dynsys.codegen.builtin import RUNTIME_PLACES, runtime_addresses
from dynsys.codegen.target import Target
from dynsys.errors import KernelBuildError

__all__ = ["LoadedCode", "compile_object", "load_object"]

_FUNCTIONS = ("one", "team", "serve", "call", "rows", "runtime")


def compile_object(text: str, target: Target, *, level: int = 1) -> bytes:
    """Object code of LLVM text for a target; ``level`` is LLVM's code generation level.

    No optimisation passes run on the text: the expression graph has done that work already.

    Raises
    ------
    KernelBuildError
        If LLVM cannot parse the text or has no code generator for the target.
    """
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        machine = llvm.Target.from_triple(target.triple).create_target_machine(
            cpu=target.cpu,
            features=target.features,
            opt=level,
            reloc="pic",
            codemodel="default",
        )
        module = llvm.parse_assembly(text)
        module.verify()
        return bytes(machine.emit_object(module))
    except RuntimeError as error:
        raise KernelBuildError(
            f"LLVM could not compile a kernel for {target.triple} ({target.cpu}): {error}. "
            'The backend "reference" computes the same without machine code.'
        ) from error


@final
@dataclass(frozen=True, eq=False)
class LoadedCode:
    """Addresses of the functions of a kernel; the code lives as long as this object."""

    one: int
    team: int
    serve: int
    call: int
    rows: int
    keep: Any  # the JIT library and its tracker


def load_object(code: bytes) -> LoadedCode:
    """Load object code made by :func:`compile_object` into this process.

    Raises
    ------
    KernelBuildError
        If the bytes are no object code of a kernel for this machine.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    try:
        jit = llvm.create_lljit_compiler()
        builder = llvm.JITLibraryBuilder().add_object_img(code)
        for name in _FUNCTIONS:
            builder.export_symbol(name)
        tracker = builder.link(jit, "kernel")
    except RuntimeError as error:
        raise KernelBuildError(
            f"object code of a kernel could not be loaded ({error}); build it anew"
        ) from error
    addresses = [*_libm_addresses(), *runtime_addresses()]
    table = (ctypes.c_void_p * RUNTIME_PLACES).from_address(tracker["runtime"])
    for place, address in zip(range(RUNTIME_PLACES), addresses, strict=True):
        table[place] = address
    one, team, serve, call, rows = (tracker[name] for name in _FUNCTIONS[:-1])
    return LoadedCode(one, team, serve, call, rows, (tracker, jit))


def _libm_addresses() -> list[int]:
    """Addresses of the C library's sin and cos."""
    name = "ucrtbase" if sys.platform == "win32" else None
    library = ctypes.CDLL(name)
    if not hasattr(library, "sin"):
        library = ctypes.CDLL(ctypes.util.find_library("m"))
    functions = (library.sin, library.cos)
    return [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions]
