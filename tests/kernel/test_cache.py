"""The kernel cache: what was put comes back, up to a size; keys tell everything apart."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dynsys import KernelBuildError
from dynsys.kernel.cache import FEW_FILES, LOOK_SHARE, KernelCache, fingerprint
from tests.kernel.cache_entries import KEY, OTHER, entry_file, put_example

pytestmark = pytest.mark.usefixtures("no_cache_variable")


# ---- round trip --------------------------------------------------------------------------


def test_round_trip(cache: KernelCache) -> None:
    assert cache.get(KEY) is None
    arrays: dict[str, NDArray[Any]] = {
        "states": np.random.default_rng(0).normal(size=(3, 4)),
        "single": np.array([1.5, -2.0], dtype=np.float32),
        "scalar": np.array(7),
        "empty": np.zeros((0, 5)),
        "flags": np.array([True, False]),
        "big-endian": np.arange(3, dtype=">i4"),
        "strided": np.arange(12.0).reshape(3, 4)[:, ::2],
    }
    cache.put(KEY, bytes(range(256)), {"name": "é", "list": [1, 2.5, None]}, arrays)
    entry = cache.get(KEY)
    assert entry is not None
    assert entry.key == KEY
    assert entry.payload == bytes(range(256))
    assert entry.metadata == {"name": "é", "list": [1, 2.5, None]}
    assert list(entry.arrays) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(entry.arrays[name], array, strict=name != "big-endian")
        assert entry.arrays[name].dtype.isnative
    assert cache.status().problem is None
    assert (cache.status().hits, cache.status().misses) == (1, 1)
    assert cache.size() == entry_file(cache).stat().st_size


def test_put_replaces_remove_forgets_clear_spares_foreign_files(cache: KernelCache) -> None:
    put_example(cache)
    put_example(cache, payload=b"new")
    put_example(cache, OTHER, payload=b"")
    first, second = cache.get(KEY), cache.get(OTHER)
    assert first is not None and first.payload == b"new"
    assert second is not None and second.payload == b""
    cache.remove(KEY)
    cache.remove(KEY)
    assert cache.get(KEY) is None and cache.get(OTHER) is not None
    assert cache.folder is not None
    (cache.folder / "thesis.txt").write_text("keep me")
    cache.clear()
    assert cache.get(OTHER) is None and cache.size() == 0
    assert [path.name for path in cache.folder.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("key", ["", "short", "../" * 20, "A" * 64, KEY + "\n"])
def test_keys_are_fingerprints(cache: KernelCache, key: str) -> None:
    for call in (cache.get, cache.remove, lambda k: cache.put(k, b"")):
        with pytest.raises(KernelBuildError, match="fingerprint"):
            call(key)


def test_what_cannot_be_stored_is_an_error(cache: KernelCache) -> None:
    with pytest.raises(KernelBuildError, match="JSON"):
        cache.put(KEY, b"", {"x": object()})
    for array in (np.array([object()]), np.array(["a"]), np.zeros(2, dtype=np.longdouble)):
        with pytest.raises(KernelBuildError, match="'states'"):
            cache.put(KEY, b"", {}, {"states": array})
    assert cache.size() == 0


# ---- size --------------------------------------------------------------------------------


def test_least_recently_used_entries_go(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path / "kernels", limit_bytes=4500)
    keys = [fingerprint(k) for k in range(5)]
    for age, key in enumerate(keys[:4]):
        cache.put(key, bytes(1000))
        stamp = time.time() - 100 + age
        os.utime(entry_file(cache, key), (stamp, stamp))
    assert cache.get(keys[0]) is not None  # now the most recently used
    cache.put(keys[4], bytes(1000))
    assert [cache.get(key) is not None for key in keys] == [True, False, True, True, True]
    assert cache.size() <= 4500


@pytest.mark.finding("Z-E3")
def test_a_large_folder_is_not_looked_through_at_every_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store took 62 ms beside 11,662 entries."""
    cache = KernelCache(tmp_path / "kernels", limit_bytes=64 * 10_000)
    forgotten = tmp_path / "kernels" / f".{KEY}.1-ab.tmp"  # what a look removes

    def looks() -> bool:
        looked = not forgotten.exists()
        forgotten.touch()
        os.utime(forgotten, (0, 0))
        return looked

    put_example(cache)
    looks()
    put_example(cache)
    assert looks()
    for k in range(FEW_FILES):
        entry_file(cache, fingerprint(k)).touch()
    chances: list[int] = []

    def drawn(below: int) -> int:
        chances.append(below)
        return 1000

    monkeypatch.setattr(secrets, "randbelow", drawn)
    cache.put(OTHER, bytes(500))
    assert not looks()
    cache.put(OTHER, bytes(1000))
    assert looks() and chances == [10_000, 10_000]


@pytest.mark.filterwarnings("error")
def test_the_limit_of_a_large_folder_holds_nearly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    limit = 64 * 4000
    cache = KernelCache(tmp_path / "kernels", limit_bytes=limit)
    largest = 0
    for k in range(1500):
        cache.put(fingerprint(k), bytes(300))
        if k % 100 == 99:
            largest = max(largest, cache.size())
    assert cache.get(fingerprint(1499)) is not None and cache.get(fingerprint(0)) is None
    assert 0.8 * limit < largest < limit + 15 * limit / LOOK_SHARE  # beyond: one run in 1e6


def test_entry_above_the_limit_is_not_stored(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path / "kernels", limit_bytes=4000)
    put_example(cache)
    cache.put(OTHER, bytes(5000))
    assert cache.get(OTHER) is None
    assert cache.get(KEY) is not None, "others are not thrown out for it"
    assert "above the limit" in (cache.status().problem or "")


def test_only_old_temporaries_are_removed(cache: KernelCache) -> None:
    put_example(cache)
    folder = entry_file(cache).parent
    fresh, old = folder / f".{KEY}.17-ab.tmp", folder / f".{KEY}.18-cd.tmp"
    foreign = folder / "notes.tmp"
    for path in (fresh, old, foreign):
        path.write_bytes(b"")
    for path in (old, foreign):
        os.utime(path, (time.time() - 4000,) * 2)
    put_example(cache, OTHER)
    assert fresh.exists() and foreign.exists() and not old.exists()
    cache.clear()
    assert not fresh.exists() and foreign.exists()


# ---- fingerprints ------------------------------------------------------------------------


def distinct_parts() -> Iterator[object]:
    yield from (None, True, False, 0, 1, -1, 10**30, "1", b"1", "", b"", ())
    yield from ((1, 2), (1, (2,)), ((1,), 2), ("ab", "c"), ("a", "bc"))
    yield from ({}, {"a": 1}, {"a": "1"})
    yield from (np.array([1.0]), np.zeros((2, 3)), np.zeros((3, 2)), np.zeros(6))


def test_fingerprints_tell_everything_apart() -> None:
    prints = [fingerprint(part) for part in distinct_parts()]
    assert len(set(prints)) == len(prints)
    assert prints == [fingerprint(part) for part in distinct_parts()]
    assert fingerprint(1, 2) != fingerprint((1, 2))


def test_fingerprints_ignore_memory_layout() -> None:
    a = np.random.default_rng(0).normal(size=(4, 5))
    assert fingerprint(a) == fingerprint(np.asfortranarray(a)) == fingerprint(a.astype(">f8"))
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


@pytest.mark.parametrize("part", [object(), {1, 2}, np.array([object()]), [1, [object()]]])
def test_fingerprint_refuses_what_it_cannot_know(part: object) -> None:
    with pytest.raises(KernelBuildError, match="fingerprint"):
        fingerprint(part)
