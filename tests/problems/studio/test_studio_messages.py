"""Messages to the studio are done or refused; the process in the background survives."""

from __future__ import annotations

import json
import sys
import threading
from multiprocessing import Pipe
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynsys.errors import RefusedError
from problems.studio import background as worker
from problems.studio.background import Job, ProcessBackground
from problems.studio.server import ACTIONS, parse_message
from problems.web import MOST_BYTES
from tests.problems.studio.studio_cases import CHAIN, UNTOUCHED

PATIENCE = 240.0
"""Seconds: machines may be busy."""

BAD_MESSAGES = (
    b"",
    b"[]",
    b"nonsense",
    b"\xff\xfe",
    b"[" * 60_000,
    b"{}",
    b'{"action": "destroy"}',
    b'{"action": ["add"]}',
    b'{"action": "add"}',
    b'{"action": "add", "kind": "imu", "place": "x", "more": 1}',
    b'{"action": "add", "kind": 3, "place": "x"}',
    b'{"action": "add", "kind": "imu", "place": ""}',
    b'{"action": "add", "kind": "imu", "place": "a\\u0000b"}',
    b'{"action": "pose", "values": [NaN]}',
    b'{"action": "pose", "values": [1e999]}',
    b'{"action": "pose", "values": [true]}',
    b'{"action": "pose", "values": [12345678901234567890]}',
    b'{"action": "noise", "name": "a", "std": [1' + b"0" * 400 + b"]}",
    b'{"action": "suggest", "goal": "torque", "budget": 1' + b"0" * 30 + b"}",
    b'{"action": "pose", "values": []}',
    b'{"action": "seek", "sample": -1}',
    b'{"action": "seek", "sample": 1.5}',
    b'{"action": "save", "file": "x", "overwrite": "yes"}',
    b'{"action": "suggest", "goal": "__class__", "budget": 1}',
    b'{"action": "search", "seconds": 0}',
    b'{"action": "search", "seconds": 1e5}',
    b'{"action": "place", "name": "a", "xyz": [0, 0], "rpy": [0, 0, 0]}',
    b'{"action": "place", "name": "a", "xyz": [0, 0, NaN], "rpy": [0, 0, 0]}',
    b'{"action": "hello", "session": 5}',
    b" " * (MOST_BYTES + 1),
)


@pytest.mark.parametrize("body", BAD_MESSAGES, ids=lambda body: repr(body[:40]))
@pytest.mark.finding("item 9")
def test_bad_messages_are_refused(body: bytes) -> None:
    with pytest.raises(RefusedError):
        parse_message(body)


@given(
    st.fixed_dictionaries(
        {"action": st.sampled_from(sorted(ACTIONS))},
        optional={
            key: st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
            for fields in ACTIONS.values()
            for key in fields
        },
    )
)
def test_any_message_is_done_or_refused(message: dict[str, Any]) -> None:
    try:
        _, action, fields = parse_message(json.dumps(message).encode())
    except RefusedError:
        return
    assert set(fields) == set(ACTIONS[action])


def test_an_end_that_comes_after_the_answer_is_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every job is answered once, whatever was said too late between two of them."""
    monkeypatch.setattr(worker.signal, "signal", lambda *_: None)
    monkeypatch.setattr(worker.os, "nice", lambda _: None)
    page, far_end = Pipe()
    thread = threading.Thread(target=worker.serve, args=(far_end,), daemon=True)
    thread.start()
    with page:
        for word in (Job("cost", CHAIN, False, UNTOUCHED), worker.END):
            page.send(word)
        page.send(Job("no_such_task", CHAIN, False, UNTOUCHED))
        answers = [page.recv() for _ in range(2) if page.poll(60)]
    thread.join(60)
    assert not thread.is_alive() and len(answers) == 2
    (is_last, cost), (_, failed) = answers
    assert is_last and cost["method"] == "dense" and "KeyError" in failed["failed"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_background_process_answers_gives_up_and_survives() -> None:
    from queue import Queue
    from time import sleep

    told: Queue[dict[str, Any]] = Queue()
    background = ProcessBackground()
    good = Job("cost", CHAIN, False, UNTOUCHED)
    try:
        background.submit("a", Job("verdict", "synthetic:nothing", False, UNTOUCHED), told.put)
        assert "nothing" in told.get(timeout=PATIENCE)["failed"]
        background.submit("b", Job("no_such_task", CHAIN, False, UNTOUCHED), told.put)
        assert "KeyError" in told.get(timeout=PATIENCE)["failed"]
        background.submit("c", good, told.put)
        assert told.get(timeout=PATIENCE)["method"] == "dense"
        process: Any = background._process
        process.kill()
        background.submit("d", good, told.put)
        assert "ended" in told.get(timeout=PATIENCE)["failed"]
        sensors = ["all_joint_torques", "all_joint_accelerations", *UNTOUCHED["sensors"]]
        search = Job(
            "search", CHAIN, False, {"sensors": sensors}, options=(("seconds", 500.0),)
        )
        background.submit("e", search, told.put)  # not over before it is given up
        while background._running != "e":
            sleep(0.01)
        background.cancel("e")
        background.submit("f", good, told.put)
        assert told.get(timeout=PATIENCE)["method"] == "dense"
        # a search that is stopped ends with the best it has
        heard: Queue[dict[str, Any]] = Queue()
        background.submit("g", search, told.put, heard.put)
        assert heard.get(timeout=PATIENCE)["operations"] > 0
        background.stop("g")
        found = told.get(timeout=PATIENCE)
        assert found["seconds"] < 500 and found["plan"].operations.total == found["operations"]
        background.stop("g")  # too late: nothing happens
        background.submit("h", good, told.put)
        assert told.get(timeout=PATIENCE)["method"] == "dense"
    finally:
        background.close()
    assert told.empty()
