"""``dynsys live`` as it is run, its Foxglove source among it."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynsys.errors import LogError
from dynsys.recursive.kinematics import poses, transforms
from problems.command.live import _samples, _sink
from problems.live import foxglove
from problems.live.decode import SampleDecoder
from problems.live.foxglove import FoxgloveSource
from problems.live.session import LiveSession
from problems.logs.samples import Samples
from problems.problem_file import ProblemFile, load_problem
from tests.problems.command.command_line import run
from tests.problems.live.live_cases import answered, new_session, sample_of
from tests.processes import LIMIT, dynsys_started

Live = tuple[ProblemFile, Samples]
LIVE = [sys.executable, "-m", "problems.command.main", "live"]


live_started = partial(dynsys_started, "live", stdin=subprocess.PIPE)


def test_a_pipe_and_a_learnt_alarm(live_files: tuple[Path, Path], live: Live) -> None:
    data = b"\n".join(json.dumps(sample_of(*live, k)).encode() for k in range(10))
    with live_started(
        live_files[0], "--outputs", "torque", "--json", "--free", live_files[1],
        "--false-alarms-per-hour", 100,
    ) as child:  # fmt: skip
        out, err = child.communicate(data + b"\n{\n", timeout=LIMIT)
    records = [json.loads(line) for line in out.splitlines()]
    assert child.returncode == 0 and b"Traceback" not in err, err
    assert b"false alarms per hour" in err and b"is ready" in err
    assert [r["type"] for r in records] == ["hello", *["estimate"] * 10, "refused", "summary"]
    assert records[-1]["estimated"] == 10 and records[-1]["latency_us"]["median"] > 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no disk is always full here")
@pytest.mark.finding("L7")
def test_records_on_a_full_disk(live_files: tuple[Path, Path]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*LIVE, str(live_files[0]), "--outputs", "torque"],
            input=b"{}\n",
            stdout=full,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            timeout=LIMIT,
        )
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith("dynsys: error: standard output: cannot be written: ")
    assert done.returncode == 2 and b"Traceback" not in done.stderr


@pytest.mark.finding("L7")
def test_records_that_cannot_be_written_are_told_by_the_command_itself() -> None:
    said = "^standard output: cannot be written: No space left"
    with pytest.raises(LogError, match=said), _sink(""):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("logged", [(), ("qd",)])
@pytest.mark.parametrize("method", ["{window: 0.1}", "{method: smoother}"])
@pytest.mark.finding("C-23")
def test_a_replayed_log_stands_in_for_the_robot(
    method: str, logged: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Velocities and accelerations were made of later samples, too: none has them live."""
    problem, log = tmp_path / "problem.yaml", tmp_path / "log.npz"
    problem.write_text(
        "robot: synthetic:chain:2\nlayout: {sensors: [all_joint_torques: {std: 0.1},"
        " all_joint_accelerations: {std: 0.1}, zero_external_wrench_except: []]}\n"
        f"log: {{differentiate: {method}}}\n"
    )
    words = ("--duration", "1", "--rate", "100", "--position-std", "1e-4")
    assert run(capsys, "simulate", str(problem), "-o", str(log), *words)[0] == 0
    whole = dict(np.load(log))
    kept = {"time", "q", "link_1/torque", "link_2/torque", *logged}
    np.savez(log, **{name: whole[name] for name in kept})
    decoder = SampleDecoder(load_problem(problem))
    replayed = _samples(load_problem(problem), str(log))
    for k in range(len(whole["time"])):
        given = {name: whole[name][k].tolist() for name in kept}
        with suppress(LogError) if k < 11 else nullcontext():  # a window of 0.1 s is needed
            decoder.take(given, given["time"])
        if k > 11:
            np.testing.assert_allclose(replayed.qd[k], decoder.qd, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(replayed.y[k], decoder.y, rtol=1e-7, atol=1e-7)


def test_a_reader_that_goes_away_ends_it(live_files: tuple[Path, Path]) -> None:
    with live_started(live_files[0], "--outputs", "torque", "--replay", live_files[1]) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        err = child.stderr.read()
    assert child.returncode == 0 and b"Traceback" not in err, err


def test_an_interrupt_ends_it_in_order(live_files: tuple[Path, Path]) -> None:
    with live_started(live_files[0], "--outputs", "torque", "--udp", 0) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if b"UDP: 127.0.0.1" in line:
                break
        child.send_signal(signal.SIGINT)
        err = child.stderr.read()
    assert child.returncode == 0 and b"0 samples" in err, err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "--allow-network"),
        (["--host", "0.0.0.0", "--udp", "0"], "other machines"),
        (["--outputs", "torq"], "torque"),
        (["--replay", "nowhere.npz"], "no such log"),
        (["--replay", "LOG", "--udp", "0"], "leave out --udp"),
    ],
)
def test_bad_input(
    capsys: pytest.CaptureFixture[str],
    live_files: tuple[Path, Path],
    arguments: list[str],
    words: str,
) -> None:
    given = [str(live_files[1]) if a == "LOG" else a for a in arguments]
    status, _, err = run(capsys, "live", live_files[0], *given)
    assert status == 2 and words in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("module", "option", "extra"),
    [("websockets", "--websocket", "live"), ("foxglove", "--foxglove", "foxglove")],
)
def test_a_package_that_is_missing_is_named(
    capsys: pytest.CaptureFixture[str],
    live_files: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    option: str,
    extra: str,
) -> None:
    for name in list(sys.modules):
        if name == module or name.startswith(f"{module}."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    status, _, err = run(
        capsys, "live", live_files[0], "--outputs", "torque", option, free_port()
    )
    assert status == 2 and f"pip install 'dynsys-robotics[{extra}]'" in err
    assert "preparing" not in err  # before the work, not after it


def free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


# ---- Foxglove -------------------------------------------------------------------------------


def test_foxglove_connects_and_sees_joints_robot_wrenches_and_estimates(live: Live) -> None:
    """By the protocol that Foxglove itself speaks: channels, subscriptions, messages."""
    pytest.importorskip("foxglove")
    pytest.importorskip("websockets")
    from websockets.sync.client import connect
    from websockets.typing import Subprotocol

    problem, samples = live
    body = problem.tree.body_names[-1]
    session = new_session(problem, ("torque", f"external_wrench.{body}", "p_value"))
    source = FoxgloveSource(session, "127.0.0.1", 0)
    try:
        address = f"ws://127.0.0.1:{source.port}"
        with connect(address, subprotocols=[Subprotocol("foxglove.sdk.v1")]) as viewer:
            channels: dict[int, dict[str, Any]] = {}
            while len(channels) < 5:
                told = json.loads(viewer.recv(240))
                if told["op"] == "advertise":
                    channels |= {c["id"]: c for c in told["channels"]}
            schemas = {c["topic"]: c["schemaName"] for c in channels.values()}
            assert schemas == {
                "/joint_states": "foxglove.JointStates",
                "/tf": "foxglove.FrameTransforms",
                "/dynsys/scene": "foxglove.SceneUpdate",
                "/dynsys/log": "foxglove.Log",
                "/dynsys/estimate": "dynsys.Estimate",
            }
            wanted = [{"id": k, "channelId": k} for k in channels]
            viewer.send(json.dumps({"op": "subscribe", "subscriptions": wanted}))
            heard: dict[str, bytes] = {}
            end = monotonic() + 240
            k = 0
            while len(heard) < 5 and monotonic() < end:
                given = sample_of(problem, samples, k % 50) | {"time": 100.0 + 0.01 * k}
                if k // 20 % 2:  # alarms that come and go
                    given["imu"] = [1e3] * 6
                assert answered(session, given)["type"] == "estimate"
                session.estimator.row[-7:-1] = 1.0, 2.0, 3.0, 40.0, 50.0, 60.0  # a contact
                source.show(100.0 + 0.01 * k, session)
                k += 1
                sleep(0.02)
                heard |= _messages(viewer, {i: c["topic"] for i, c in channels.items()})
        assert set(heard) == set(schemas)
        estimate = json.loads(heard["/dynsys/estimate"])
        assert f"external_wrench.{body}.fz" in estimate
        plain = [
            n
            for n, j in zip(problem.tree.joint_names, problem.tree.joints, strict=True)
            if j.nq == 1
        ]
        assert all(name.encode() in heard["/joint_states"] for name in plain) and plain
        assert f"external_wrench.{body}".encode() in heard["/dynsys/scene"]
        assert b"the model (chi-square" in heard["/dynsys/log"]
    finally:
        source.close()


class Messages:
    """Messages of Foxglove as plain values."""

    LinePrimitiveLineType = SimpleNamespace(LineList="pairs")

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **fields: SimpleNamespace(given=given, **fields)


class FoxgloveKeeps:
    """In place of the package: serves nobody, and keeps what each topic was told."""

    def __init__(self) -> None:
        self.told: dict[str, list[Any]] = {}
        self.Context, self.messages = object, Messages()
        kinds = ("JointStates", "FrameTransforms", "SceneUpdate", "Log")
        self.channels = SimpleNamespace(**{f"{kind}Channel": self.Channel for kind in kinds})

    def Channel(self, topic: str, **_: Any) -> Any:
        kept = self.told.setdefault(topic, [])
        return SimpleNamespace(log=lambda message, log_time: kept.append(message))

    def start_server(self, **_: Any) -> Any:
        return SimpleNamespace(port=0, stop=lambda: None)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """What Foxglove is told, by topic."""
    double: Any = FoxgloveKeeps()
    monkeypatch.setitem(sys.modules, "foxglove", double)
    return double.told


def test_foxglove_is_told_of_every_joint_and_link_where_it_is(
    live: Live, told: dict[str, list[Any]]
) -> None:
    problem, samples = live
    session, robot = new_session(problem, ("torque",)), problem.tree
    answered(session, sample_of(problem, samples, 7))
    FoxgloveSource(session, "127.0.0.1", 0).show(0.0, session)
    (joints,), (scene,) = told["/joint_states"], told["/dynsys/scene"]
    # joints of one coordinate: others have no position that is one number
    places = [robot.q_slices()[i].start for i, j in enumerate(robot.joints) if j.nq == 1]
    torque = dict(zip(session.estimator.columns, session.estimator.row, strict=True))
    shown = [(s.name, s.position, s.effort) for s in joints.joints]
    assert 0 < len(places) < robot.n_bodies and [s[1] for s in shown] == [
        session.decoder.q[k] for k in places
    ]
    assert all(effort == torque[f"torque.{name}"] for name, _, effort in shown)
    # a line from each body to the one that carries it, also to the first
    origin = [pose.r for pose in poses(robot, transforms(robot, session.decoder.q))]
    (lines,) = scene.entities[0].lines
    drawn = np.array([[point.x, point.y, point.z] for point in lines.points])
    carried = [(origin[p], origin[i]) for i, p in enumerate(robot.parent) if p >= 0]
    assert 0 in robot.parent
    np.testing.assert_allclose(drawn, np.reshape(carried, (-1, 3)))


def _messages(viewer: Any, topics: dict[int, str]) -> dict[str, bytes]:
    """Payloads of the messages that have come, by topic (message data: opcode 1)."""
    found: dict[str, bytes] = {}
    while True:
        try:
            data = viewer.recv(0.01)
        except TimeoutError:
            return found
        if isinstance(data, bytes) and data[:1] == b"\x01":
            topic = topics.get(int.from_bytes(data[1:5], "little"))
            if topic is not None:
                found[topic] = data[13:]


def test_the_viewer_is_shown_pictures_not_samples(
    live: Live, told: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1.0
    monkeypatch.setattr(foxglove, "perf_counter", lambda: now)
    problem, samples = live
    session: LiveSession = new_session(problem, ("torque",))
    source = FoxgloveSource(session, "127.0.0.1", 0)
    answered(session, sample_of(problem, samples, 0))
    for _ in range(20):
        source.show(0.0, session)
    assert len(told["/tf"]) == len(told["/dynsys/scene"]) == 1
    now += 1.01 / foxglove.RATE
    source.show(0.0, session)
    assert len(told["/tf"]) == len(told["/dynsys/scene"]) == 2
