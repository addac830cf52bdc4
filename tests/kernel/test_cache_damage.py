"""The kernel cache: nothing damaged, half-written or foreign ever comes back."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from itertools import count
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import pytest

from dynsys.kernel.cache import (
    HEADER_SIZE,
    Entry,
    KernelCache,
    _digest,
    _section_lengths,
    fingerprint,
    pack,
    unpack,
)
from experiments.trust.faults_common import forks
from tests.kernel.cache_entries import KEY, OTHER, entry_file, put_example
from tests.processes import LIMIT

pytestmark = pytest.mark.usefixtures("no_cache_variable")


# ---- corruption --------------------------------------------------------------------------


def boundaries() -> list[int]:
    data = pack(Entry(KEY, b"machine code", {"a": 1}, {"x": np.arange(3.0)}))
    inside = [1, 8, 12, 20, 28, 36, 50, HEADER_SIZE - 1, HEADER_SIZE, HEADER_SIZE + 5]
    arrays_end = len(data) - len(b"machine code")
    return [0, *inside, arrays_end - 24, arrays_end - 1, arrays_end, len(data) - 1]


@pytest.mark.parametrize("length", boundaries())
def test_truncated_entry_is_a_miss_and_heals(cache: KernelCache, length: int) -> None:
    cache.put(KEY, b"machine code", {"a": 1}, {"x": np.arange(3.0)})
    path = entry_file(cache)
    path.write_bytes(path.read_bytes()[:length])
    assert cache.get(KEY) is None
    assert not path.exists()
    assert cache.status().rejected == 1 and cache.status().problem is None
    put_example(cache)
    assert cache.get(KEY) is not None


def test_every_flipped_byte_is_noticed() -> None:
    data = pack(Entry(KEY, b"code", {"a": 1}, {"x": np.arange(2.0)}))
    assert unpack(KEY, data) is not None
    for k in range(len(data)):
        broken = bytearray(data)
        broken[k] ^= 1 << (k % 8)
        assert unpack(KEY, bytes(broken)) is None, f"byte {k}"


@pytest.mark.parametrize("dtype", [b"f,(", b"(1,", b"<f4", b"O10", b"<c8", b"|V8"])
@pytest.mark.finding("V-3")
def test_what_numpy_would_make_of_a_type_is_not_asked(dtype: bytes) -> None:
    """Signed, but not by us: numpy parses such texts, and ended with a SyntaxError."""
    data = pack(Entry(KEY, b"code", {"a": 1}, {"x": np.arange(2.0)}))
    first, *_ = lengths = _section_lengths(data)  # type: ignore[misc]
    description = data[HEADER_SIZE : HEADER_SIZE + first].replace(b"<f8", dtype)
    rest = data[HEADER_SIZE + first :]
    sections = description, rest[: lengths[1]], rest[lengths[1] :]
    digest = _digest(KEY, lengths, sections)
    assert unpack(KEY, data[: HEADER_SIZE - 32] + digest + b"".join(sections)) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"\x7fELF" + bytes(500), bytes(HEADER_SIZE), random.Random(0).randbytes(9999)],
    ids=["empty", "object file", "zeros", "noise"],
)
def test_foreign_file_under_our_name_is_removed(cache: KernelCache, content: bytes) -> None:
    put_example(cache)
    entry_file(cache).write_bytes(content)
    assert cache.get(KEY) is None
    assert not entry_file(cache).exists()


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.finding("P-8", "item 8")
def test_a_folder_in_place_of_an_entry_is_no_entry(cache: KernelCache, full: bool) -> None:
    """It raised IsADirectoryError."""
    put_example(cache)
    entry_file(cache).unlink()
    entry_file(cache).mkdir()
    if full:
        (entry_file(cache) / "file").touch()
    assert cache.get(KEY) is None
    assert cache.status().rejected == 1 and "regular file" in str(cache.status().problem)
    put_example(cache)  # replaced if it is empty; else there is no caching
    assert (cache.get(KEY) is None) == full
    cache.remove(KEY)
    cache.clear()


def test_appended_bytes_and_a_flipped_byte_on_disk(cache: KernelCache) -> None:
    put_example(cache)
    data = entry_file(cache).read_bytes()
    for damaged in (data + b"x", data[:-1] + bytes([data[-1] ^ 1])):
        path = entry_file(cache)
        path.write_bytes(damaged)
        path.chmod(0o600)
        assert cache.get(KEY) is None and not path.exists()


def test_entry_of_another_key_is_not_taken(cache: KernelCache) -> None:
    put_example(cache)
    entry_file(cache).rename(entry_file(cache, OTHER))
    assert cache.get(OTHER) is None
    assert not entry_file(cache, OTHER).exists()


def test_absurd_lengths_are_refused_without_reading(cache: KernelCache) -> None:
    put_example(cache)
    path = entry_file(cache)
    data = bytearray(path.read_bytes())
    data[12:20] = (2**62).to_bytes(8, "little")
    path.write_bytes(data)
    assert cache.get(KEY) is None


# ---- many processes ----------------------------------------------------------------------

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def cache_of_child(folder: str, **options: int) -> KernelCache:
    os.environ.pop("DYNSYS_CACHE", None)  # what it was where children are forked
    return KernelCache(folder, **options)


def write_for_ever(folder: str, ready: Event) -> None:
    cache = cache_of_child(folder)
    ready.set()
    for k in count(1):
        cache.put(KEY, bytes([k % 256]) * 2_000_000, {"k": k})


@pytest.mark.slow
@needs_fork
def test_killed_writers_leave_whole_entries_or_none(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path / "kernels")
    assert cache.folder is not None
    context = forks()
    rng = random.Random(1)
    for _ in range(8):
        ready = context.Event()
        writer = context.Process(target=write_for_ever, args=(str(cache.folder), ready))
        writer.start()
        try:
            assert ready.wait(LIMIT)
            time.sleep(rng.uniform(0, 0.03))
        finally:
            writer.kill()
        writer.join(LIMIT)
        entry = cache.get(KEY)
        if entry is not None:
            assert entry.payload == bytes([entry.metadata["k"] % 256]) * 2_000_000
    assert cache.status().rejected == 0, "a killed writer never leaves a broken entry"
    put_example(cache)
    after = cache.get(KEY)
    assert after is not None and after.payload == b"machine code"
    leftovers = [path for path in cache.folder.iterdir() if path.suffix == ".tmp"]
    for path in leftovers:
        os.utime(path, (0, 0))
    put_example(cache)
    assert [path.name for path in cache.folder.iterdir()] == [f"{KEY}.kernel"]


def hammer(folder: str, number: int, failures: multiprocessing.Queue[str]) -> None:
    cache = cache_of_child(folder, limit_bytes=400_000)
    keys = [fingerprint(k) for k in range(3)]
    rng = random.Random(number)
    for step in range(40):
        key = rng.choice(keys)
        if rng.random() < 0.5:
            cache.put(key, bytes([number, step]) * 50_000, {"number": number, "step": step})
        entry = cache.get(key)
        if entry is not None:
            content = bytes([entry.metadata["number"], entry.metadata["step"]]) * 50_000
            if entry.payload != content or entry.key != key:
                failures.put("wrong content")
    if cache.status().problem or cache.status().rejected:
        failures.put(str(cache.status()))


@needs_fork
def test_processes_writing_and_reading_the_same_keys(tmp_path: Path) -> None:
    context = forks()
    failures, folder = context.Queue(), str(tmp_path / "kernels")
    workers = [
        context.Process(target=hammer, args=(folder, k, failures), daemon=True)
        for k in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(LIMIT)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert failures.empty(), failures.get()
    names = [path.name for path in (tmp_path / "kernels").iterdir()]
    assert all(name.endswith(".kernel") for name in names)
