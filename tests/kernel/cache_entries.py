"""Entries of the kernel cache: two keys, where they are, an example."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dynsys.kernel.cache import KernelCache, fingerprint

KEY = fingerprint("robot", "problem")
OTHER = fingerprint("another robot")


def entry_file(cache: KernelCache, key: str = KEY) -> Path:
    assert cache.folder is not None
    return cache.folder / f"{key}.kernel"


def put_example(cache: KernelCache, key: str = KEY, payload: bytes = b"machine code") -> None:
    cache.put(key, payload, {"name": "forward", "n": 3}, {"x": np.arange(6.0).reshape(2, 3)})
