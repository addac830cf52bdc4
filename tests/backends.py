"""Backends that dynamics has, for tests of all of them; machine code where it is installed."""

from __future__ import annotations

import pytest

from dynsys.kernel.build import best_backend

__all__ = ["BACKENDS", "best_backend"]

_needs_llvm = pytest.mark.skipif(best_backend() != "llvm", reason="needs the extra fast")
BACKENDS = [pytest.param("llvm", marks=_needs_llvm), "numpy", "loops", "reference"]
