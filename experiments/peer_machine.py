"""What a comparison was measured on."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from dynsys.kernel.llvm.target import host
from experiments.peer_build import Compiler

__all__ = ["cores", "machine"]


def cores() -> set[int]:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def machine(compilers: Sequence[Compiler], core: int) -> dict[str, Any]:
    """Processor, core, and versions of Python, packages and compilers."""
    versions = {}
    for package in ("pin", "casadi", "numpy", "llvmlite"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "processor": _processor(),
        "core": core,
        "python": platform.python_version(),
        "packages": versions,
        "compilers": [compiler.version for compiler in compilers],
    }


def _processor() -> str:
    """Name of the processor, what LLVM takes it for, and how wide a batch's vectors are."""
    target = host()
    return f"{_brand()} ({target.cpu}, vectors of {target.vector_bits} bits)"


def _brand() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
