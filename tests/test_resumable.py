"""Work that one process or thread does while the others wait for it."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dynsys.resumable import in_turn, locked


def test_threads_take_turns(tmp_path: Path) -> None:
    inside: list[int] = []

    def work(number: int) -> int:
        with in_turn(tmp_path / "lock"):
            inside.append(number)
            time.sleep(0.02)
            most = len(inside)
            inside.remove(number)
            return most

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == [1] * 8
    assert list(tmp_path.iterdir()) == []


def test_errors_come_out_and_end_the_turn(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="disk"), in_turn(tmp_path / "lock"):
        raise OSError("disk")
    with locked(tmp_path / "lock") as is_ours:
        assert is_ours


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    done = []
    with locked(tmp_path / "lock"):
        with in_turn(tmp_path / "lock", patience=0.1):
            done.append("beside another")
        assert (tmp_path / "lock").exists(), "it is not ours to remove"
    assert done


def test_where_there_are_no_locks_several_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with in_turn(tmp_path / "file" / "lock"), in_turn(tmp_path / "file" / "lock"):
        pass
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with in_turn(tmp_path / "lock"), in_turn(tmp_path / "lock"):
        pass


FORKS = """
import os, signal, sys, time
from pathlib import Path
from dynsys.resumable import locked
path = Path(sys.argv[1])
with locked(path):
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
with locked(path) as is_ours:
    print(is_ours)
os.kill(child, signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_a_forked_child_keeps_no_lock(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKS, str(tmp_path / "lock")]
    assert subprocess.check_output(command, timeout=60, text=True) == "True\n"
