"""The kernel cache: which folder, and what becomes of one that does not work or is not ours."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest

from dynsys.kernel.cache import KernelCache
from dynsys.private_folder import default_folder
from tests.kernel.cache_entries import KEY, OTHER, entry_file, put_example

pytestmark = pytest.mark.usefixtures("no_cache_variable")


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
