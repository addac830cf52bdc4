"""Backends for tests of all of them; machine code and compiled loops where installed."""

from __future__ import annotations

import pytest

from dynsys.jit import has_compiled_loops
from dynsys.kernel.build import best_backend

__all__ = ["BACKENDS", "COMPILED", "needs_loops"]

COMPILED = best_backend()
"""What executes plans here: llvm, or numpy without the extra fast."""
_needs_llvm = pytest.mark.skipif(COMPILED != "llvm", reason="needs the extra fast")
needs_loops = pytest.mark.skipif(not has_compiled_loops(), reason="needs the extra fast")

BACKENDS = [pytest.param("llvm", marks=_needs_llvm), "numpy", "loops", "reference"]
"""Of dynamics."""
