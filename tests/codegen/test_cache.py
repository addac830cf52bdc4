"""The kernel cache: what was put comes back, and nothing else ever does."""

from __future__ import annotations

import errno
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dynsys.codegen.cache import Entry, KernelCache, default_folder, fingerprint
from dynsys.codegen.cache_format import HEADER_SIZE, pack, unpack
from dynsys.errors import KernelBuildError

ROOT = Path(__file__).parents[2]
KEY = fingerprint("robot", "problem")
OTHER = fingerprint("another robot")


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DYNSYS_CACHE", raising=False)


@pytest.fixture
def cache(tmp_path: Path) -> KernelCache:
    return KernelCache(tmp_path / "kernels")


def entry_file(cache: KernelCache, key: str = KEY) -> Path:
    assert cache.folder is not None
    return cache.folder / f"{key}.kernel"


def put_example(cache: KernelCache, key: str = KEY, payload: bytes = b"machine code") -> None:
    cache.put(key, payload, {"name": "forward", "n": 3}, {"x": np.arange(6.0).reshape(2, 3)})


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

WRITER = """
import sys
from dynsys.codegen.cache import KernelCache
cache = KernelCache(sys.argv[1])
print("ready", flush=True)
k = 0
while True:
    k += 1
    cache.put(sys.argv[2], bytes([k % 256]) * 2_000_000, {"k": k})
"""


def test_killed_writers_leave_whole_entries_or_none(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path / "kernels")
    assert cache.folder is not None
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    rng = random.Random(1)
    for _ in range(8):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(cache.folder), KEY],
            env=environment,
            stdout=subprocess.PIPE,
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        time.sleep(rng.uniform(0, 0.03))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
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
    cache = KernelCache(folder, limit_bytes=400_000)
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


def test_processes_writing_and_reading_the_same_keys(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    failures = context.Queue()
    workers = [
        context.Process(target=hammer, args=(str(tmp_path / "kernels"), k, failures))
        for k in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert failures.empty(), failures.get()
    names = [path.name for path in (tmp_path / "kernels").iterdir()]
    assert all(name.endswith(".kernel") for name in names)


# ---- folders that do not work ------------------------------------------------------------


def assert_degraded(cache: KernelCache, reason: str) -> None:
    put_example(cache)
    assert cache.get(KEY) is None
    cache.remove(KEY)
    cache.clear()
    assert cache.size() == 0
    problem = cache.status().problem
    assert problem is not None and reason in problem
    assert problem in str(cache.status())


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert_degraded(KernelCache(tmp_path / "file"), "cannot")
    assert_degraded(KernelCache(tmp_path / "file" / "below"), "cannot")


def test_read_only_folder_still_reads(
    cache: KernelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_example(cache)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(os, "utime", refuse)
    put_example(cache, OTHER)
    assert "Read-only" in (cache.status().problem or "")
    assert cache.get(KEY) is not None
    assert cache.get(OTHER) is None
    assert [path.name for path in entry_file(cache).parent.iterdir()] == [f"{KEY}.kernel"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_folder_without_write_permission(cache: KernelCache) -> None:
    put_example(cache)
    assert cache.folder is not None
    cache.folder.chmod(0o500)
    try:
        put_example(cache, OTHER)
        assert "Permission" in (cache.status().problem or "")
        assert cache.get(KEY) is not None
    finally:
        cache.folder.chmod(0o700)


@pytest.mark.skipif(os.name != "posix", reason="file size limits are POSIX")
def test_full_disk(cache: KernelCache) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        put_example(cache, payload=bytes(100_000))
        assert "cannot write" in (cache.status().problem or "")
        assert list(entry_file(cache).parent.iterdir()) == []
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    put_example(cache)
    assert cache.get(KEY) is not None
    assert cache.status().problem is None, "a write that works clears the problem"


# ---- permissions -------------------------------------------------------------------------

posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX")


@posix
def test_folder_and_entries_are_private(cache: KernelCache) -> None:
    before = os.umask(0)
    try:
        put_example(cache)
    finally:
        os.umask(before)
    assert entry_file(cache).parent.stat().st_mode & 0o777 == 0o700
    assert entry_file(cache).stat().st_mode & 0o777 == 0o600


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_folder_that_others_may_write_is_not_used(cache: KernelCache, mode: int) -> None:
    put_example(cache)
    entry_file(cache).parent.chmod(mode)
    assert cache.get(KEY) is None
    assert "written by other users" in (cache.status().problem or "")
    put_example(cache, OTHER)
    assert not entry_file(cache, OTHER).exists()
    entry_file(cache).parent.chmod(0o700)
    assert cache.get(KEY) is not None


@posix
def test_entry_that_others_may_write_is_not_used(cache: KernelCache) -> None:
    put_example(cache)
    entry_file(cache).chmod(0o622)
    assert cache.get(KEY) is None
    assert "written by other users" in (cache.status().problem or "")
    put_example(cache)
    assert cache.get(KEY) is not None


@posix
def test_what_belongs_to_another_user_is_not_used(
    cache: KernelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_example(cache)
    stranger = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    assert cache.get(KEY) is None
    assert "another user" in (cache.status().problem or "")


@posix
def test_links_and_pipes_are_not_followed(cache: KernelCache, tmp_path: Path) -> None:
    put_example(cache)
    path = entry_file(cache)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.get(KEY) is None
    path.unlink()
    os.mkfifo(path, 0o600)
    assert cache.get(KEY) is None
    put_example(cache)
    assert cache.get(KEY) is not None


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


# ---- where -------------------------------------------------------------------------------


def test_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_folder() == tmp_path / ".cache" / "dynsys"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # invalid by the XDG specification
    assert default_folder() == tmp_path / ".cache" / "dynsys"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_folder() == tmp_path / "xdg" / "dynsys"
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path / "mine"))
    assert default_folder() == KernelCache().folder == tmp_path / "mine"
    assert KernelCache(tmp_path / "given").folder == tmp_path / "given"
    monkeypatch.setenv("DYNSYS_CACHE", "~/mine")
    assert default_folder() == tmp_path / "mine"


@pytest.mark.parametrize("word", ["off", "OFF", "0"])
def test_switched_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, word: str) -> None:
    monkeypatch.setenv("DYNSYS_CACHE", word)
    for cache in (KernelCache(), KernelCache(tmp_path / "given")):
        assert cache.folder is None
        assert_degraded(cache, "DYNSYS_CACHE")
    assert list(tmp_path.iterdir()) == []


def test_no_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", fail)
    assert_degraded(KernelCache(), "home")


# ---- fingerprints ------------------------------------------------------------------------


def distinct_parts() -> Iterator[object]:
    third = np.longdouble(1) / 3
    yield from (None, True, False, 0, 1, -1, 10**30, 0.0, -0.0, 1.0, "1", b"1", "", b"", ())
    yield from ((1, 2), (1, (2,)), ((1,), 2), ("ab", "c"), ("a", "bc"))
    yield from ({}, {"a": 1}, {"a": "1"})
    yield from (np.float64(1.0), np.float32(1.0), np.int64(1), np.int32(1), np.array([1.0]))
    yield from (np.zeros((2, 3)), np.zeros((3, 2)), np.zeros(6), np.zeros(6, np.float32))
    yield from (third, np.nextafter(third, np.longdouble(1)), np.float64(third), -third)
    yield from (np.longdouble("1e4000"), np.longdouble("inf"), np.longdouble("nan"))
    yield from (np.array(["ab", "c"]), np.array(["a", "bc"]))


def test_fingerprints_tell_everything_apart() -> None:
    prints = [fingerprint(part) for part in distinct_parts()]
    assert len(set(prints)) == len(prints)
    assert prints == [fingerprint(part) for part in distinct_parts()]
    assert fingerprint(1, 2) != fingerprint((1, 2))


def test_fingerprints_ignore_memory_layout_and_padding() -> None:
    a = np.random.default_rng(0).normal(size=(4, 5))
    assert fingerprint(a) == fingerprint(np.asfortranarray(a)) == fingerprint(a.astype(">f8"))
    x = np.longdouble(1) / np.arange(1, 5, dtype=np.longdouble)
    y = np.frombuffer(b"\xff" * x.nbytes, dtype=np.longdouble).copy()
    for k in range(4):
        y[k] = x[k]
    assert fingerprint(x) == fingerprint(y)
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


@pytest.mark.parametrize("part", [object(), {1, 2}, np.array([object()]), [1, [object()]]])
def test_fingerprint_refuses_what_it_cannot_know(part: object) -> None:
    with pytest.raises(KernelBuildError, match="fingerprint"):
        fingerprint(part)
