"""Target: the processor that machine code is made for; object code compiled and loaded.

LLVM (llvmlite) is loaded when the first of that is asked for: what works without machine code
needs neither its package nor the time.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import struct
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, final

from dynsys.distribution import is_installed, required
from dynsys.errors import KernelBuildError
from dynsys.kernel.llvm.text import APART
from dynsys.kernel.python_entry import RUNTIME_PLACES, LoadedCode, runtime_addresses
from dynsys.kernel.threads import processors

__all__ = [
    "FUNCTIONS",
    "Target",
    "aarch64",
    "compile_object",
    "has_llvm",
    "host",
    "llvm_version",
    "load_function",
    "load_object",
    "x86_64",
]


def has_llvm() -> bool:
    """Tell whether machine code can be made and loaded: llvmlite is installed."""
    return is_installed("llvmlite")


def llvm_version() -> str:
    """Version of llvmlite."""
    return str(required("llvmlite", "machine code").__version__)


def _llvm() -> Any:
    return required("llvmlite.binding", "machine code")


@final
@dataclass(frozen=True)
class Target:
    """Triple, CPU and features in LLVM's words, and what the emitter must know of them.

    ``vector_bits`` is the width of the registers that batches use, ``fma`` says whether a fused
    multiply-add is one instruction.
    """

    triple: str
    cpu: str
    features: str
    vector_bits: int
    fma: bool

    def width(self, dtype: str) -> int:
        """States computed side by side in a batch."""
        return self.vector_bits // (32 if dtype == "float32" else 64)

    def tile_width(self, dtype: str) -> int:
        """Numbers side by side in the rows of one matrix: 256 bits at most.

        Rows do not begin where lines of the cache do; a vector as long as a line would lie
        across two of them every time, and hold more zeros of a branched robot's matrix.
        """
        return min(self.vector_bits, 256) // (32 if dtype == "float32" else 64)

    @property
    def key(self) -> str:
        """Text that differs whenever the machine code may differ (for caches)."""
        return f"{self.triple}|{self.cpu}|{self.features}|{self.vector_bits}|{self.fma}"


def host(*, disable: tuple[str, ...] = ()) -> Target:
    """The processor this process runs on, without the features named in ``disable``.

    ``host(disable=("avx",))`` is the same processor used as one that has SSE2 only: switching
    off "avx512f", "avx2" or "avx" switches off all that builds on it.
    """
    llvm = _llvm()
    detected: dict[str, bool] = dict(llvm.get_host_cpu_features())
    off = set(disable)
    if "avx512f" in off:
        off |= {name for name in detected if name.startswith("avx512")}
    if off & {"avx", "avx2"}:
        off |= {name for name in detected if name.startswith(("avx", "fma", "amx", "f16c"))}
        off |= {"xop", "vaes", "vpclmulqdq"}
    features = {name: on and name not in off for name, on in detected.items()}
    triple = llvm.get_process_triple()
    text = ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))
    if triple.startswith(("aarch64", "arm64")):
        return Target(triple, llvm.get_host_cpu_name(), text, 128, True)
    if features.get("avx512f") and features.get("avx512dq"):
        bits = 512
    elif features.get("avx2"):
        bits = 256
    else:
        bits = 128
    fma = bool(features.get("fma"))
    return Target(triple, llvm.get_host_cpu_name(), text, bits, fma)


def x86_64(level: int) -> Target:
    """Generic x86-64 of a psABI level: 1 is SSE2, 3 is AVX2 with FMA, 4 is AVX-512."""
    cpu = {1: "x86-64", 2: "x86-64-v2", 3: "x86-64-v3", 4: "x86-64-v4"}[level]
    bits = {1: 128, 2: 128, 3: 256, 4: 512}[level]
    features = "-prefer-256-bit" if level == 4 else ""
    return Target("x86_64-unknown-linux-gnu", cpu, features, bits, level >= 3)


def aarch64() -> Target:
    """Generic 64-bit ARM with NEON."""
    return Target("aarch64-unknown-linux-gnu", "generic", "+neon", 128, True)


# ---- LLVM text to object code (bytes), object code to callable addresses ---------------------

FUNCTIONS = ("one", "call", "share", "rows")
"""What a kernel exports, for one state and for batches."""


TOGETHER = 6
"""Segments compiled together; those of a longer program are shared among all processors."""
SEVERAL = b"objects\0"
"""Begins code of several objects: how many (8 bytes), the length of each, then they follow."""


def compile_object(text: str, target: Target, *, level: int = 1) -> bytes:
    """Object code of LLVM text for a target; ``level`` is LLVM's code generation level.

    No optimisation passes run on the text: the expression graph has done that work already.
    Functions that need no others (``APART``), if many, become objects of their own, compiled at
    the same time; the code is the same whatever the number of processors.

    Raises
    ------
    KernelBuildError
        If LLVM cannot parse the text or has no code generator for the target.
    """
    llvm = _llvm()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    pieces = _pieces(text)
    workers = min(len(pieces), processors())
    try:
        if workers == 1:
            objects = [_emitted(piece, target, level) for piece in pieces]
        else:
            with ThreadPoolExecutor(workers) as pool:
                objects = list(pool.map(lambda piece: _emitted(piece, target, level), pieces))
    except RuntimeError as error:
        raise KernelBuildError(
            f"LLVM could not compile a kernel for {target.triple} ({target.cpu}): {error}. "
            'The backend "reference" computes the same without machine code.'
        ) from error
    if len(objects) == 1:
        return objects[0]
    sizes = struct.pack(f"<{len(objects) + 1}q", len(objects), *map(len, objects))
    return b"".join((SEVERAL, sizes, *objects))


def _pieces(text: str) -> list[str]:
    """Modules that make up a text: what calls the functions apart, then these, a few each."""
    rest, *apart = text.split(APART)
    if len(apart) <= TOGETHER:
        return [text]
    functions: list[str] = []
    heads: list[str] = []
    for part in apart:
        end = part.index("\n}\n") + 3
        functions.append(part[:end].replace("define internal", "define hidden", 1))
        head = part[: part.index(")") + 1].replace("define internal", "declare hidden", 1)
        heads.append(head + "\n")
        rest += part[end:]
    starts = range(0, len(functions), TOGETHER)
    few = ["".join(functions[start : start + TOGETHER]) for start in starts]
    return ["".join((rest, *heads)), *few]


def _emitted(text: str, target: Target, level: int) -> bytes:
    """Object code of one module, in a context of its own: threads may do this side by side.

    All of llvmlite's functions wait for each other. The one that takes the time is called
    without that where it can be: LLVM asks no more than different contexts.
    """
    llvm = _llvm()
    ffi = llvm.ffi
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=level, reloc="pic", codemodel="default"
    )
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()
    emit = ffi.lib.LLVMPY_TargetMachineEmitToMemory
    emit = getattr(emit, "_cfn", emit)
    with ffi.OutputString() as error:
        buffer = emit(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        start, size = (
            ffi.lib.LLVMPY_GetBufferStart(buffer),
            ffi.lib.LLVMPY_GetBufferSize(buffer),
        )
        return ctypes.string_at(start, size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _objects(code: bytes) -> list[bytes]:
    """The objects that code consists of; KernelBuildError if it was cut."""
    if not code.startswith(SEVERAL):
        return [code]
    try:
        (count,) = struct.unpack_from("<q", code, len(SEVERAL))
        sizes = struct.unpack_from(f"<{count}q", code, len(SEVERAL) + 8)
    except struct.error as error:
        raise KernelBuildError(
            f"object code of a kernel was cut ({error}); build it anew"
        ) from error
    ends = [*accumulate(sizes, initial=len(SEVERAL) + 8 * (count + 1))]
    return [code[a:b] for a, b in pairwise(ends)]


def load_object(code: bytes, functions: Sequence[str] = FUNCTIONS) -> LoadedCode:
    """Load object code made by :func:`compile_object`, which has ``functions``.

    Raises
    ------
    KernelBuildError
        If the bytes are no object code of a kernel for this machine.
    """
    llvm = _llvm()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    try:
        jit = llvm.create_lljit_compiler()
        builder = llvm.JITLibraryBuilder()
        for piece in _objects(code):
            builder.add_object_img(piece)
        for name in (*functions, "runtime"):
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
    return LoadedCode({name: tracker[name] for name in functions}, (tracker, jit))


def load_function(text: str, name: str) -> tuple[int, object]:
    """Address of a function of LLVM text, compiled for this processor; and what keeps it."""
    code, llvm = compile_object(text, host()), _llvm()
    jit = llvm.create_lljit_compiler()
    library = llvm.JITLibraryBuilder().add_object_img(code).export_symbol(name)
    tracker = library.link(jit, name)
    return tracker[name], (tracker, jit)


def _libm_addresses() -> list[int]:
    """Addresses of the C library's sin and cos."""
    name = "ucrtbase" if sys.platform == "win32" else None
    library = ctypes.CDLL(name)
    if not hasattr(library, "sin"):
        library = ctypes.CDLL(ctypes.util.find_library("m"))
    functions = (library.sin, library.cos)
    return [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions]
