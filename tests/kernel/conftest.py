"""A kernel cache of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynsys.kernel.cache import KernelCache


@pytest.fixture
def no_cache_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DYNSYS_CACHE", raising=False)


@pytest.fixture
def cache(no_cache_variable: None, tmp_path: Path) -> KernelCache:
    return KernelCache(tmp_path / "kernels")
