"""What studio's web server answers and what it refuses, over real connections."""

from __future__ import annotations

import argparse
import json
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any

import pytest

import problems.web as web
from dynsys.errors import RefusedError
from problems.command import main as cli
from problems.command import studio as studio_command
from problems.problem_file import ProblemFile
from problems.studio.files import Folder
from problems.studio.server import MOST_SESSIONS, PAGE, StudioServer
from problems.studio.session import Session
from problems.web import (
    HEADER,
    MOST_BYTES,
    MOST_CONNECTIONS,
    TOKEN_HEADER,
    AccessRules,
    is_loopback,
)
from tests.problems.studio.studio_cases import CHAIN, UNTOUCHED, Patient
from tests.processes import dynsys_started, in_background, told_by

TOKEN = "letters0and1digits"
PATIENCE = 60.0
"""Seconds: machines may be busy."""


@contextmanager
def serving(folder: Path, token: str = "") -> Iterator[StudioServer]:
    problem = ProblemFile(CHAIN, UNTOUCHED)

    def begin(name: str) -> Session:
        return Session(name, problem, Folder(folder), Patient())

    with StudioServer(AccessRules("127.0.0.1", token), 0, begin) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(PATIENCE)
            assert not thread.is_alive()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudioServer]:
    with serving(tmp_path_factory.mktemp("studio")) as found:
        yield found


Answer = tuple[int, dict[str, str], bytes]


def ask(
    server: StudioServer, method: str, path: str, body: bytes = b"", **headers: str
) -> Answer:
    port = server.server_address[1]
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    given = {"Host": f"127.0.0.1:{port}"}
    given |= {key.replace("_", "-"): value for key, value in headers.items()}
    connection.request(method, path, body, {k: v for k, v in given.items() if v})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), content


def post(server: StudioServer, message: Any, **headers: str) -> tuple[int, dict[str, Any]]:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    ours = {"Content_Type": "application/json", HEADER.replace("-", "_"): "1"} | headers
    status, _, content = ask(server, "POST", "/message", body, **ours)
    return status, json.loads(content)


def test_page_and_session(server: StudioServer) -> None:
    for path, (_, kind) in PAGE.items():
        status, headers, content = ask(server, "GET", path)
        assert status == 200 and content and headers["Content-Type"] == kind
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
    status, view = post(server, {"action": "hello"})
    assert status == 200 and view["scene"]["name"] == "chain3"
    mine = {"session": view["session"]}
    status, view = post(
        server, mine | {"action": "add", "kind": "joint_torque", "place": "link_1"}
    )
    assert status == 200 and view["glance"]["nullity"] == 2
    _, other = post(server, {"action": "hello"})
    assert other["glance"]["nullity"] == 3  # another page, another session
    status, told = post(server, mine | {"action": "remove", "name": "nobody"})
    assert status == 400 and "no sensor 'nobody'" in told["error"]


def test_the_page_asks_nothing_of_the_network(server: StudioServer) -> None:
    for path in PAGE:
        text = ask(server, "GET", path)[2].decode()
        text = text.replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text and "https:" not in text and "//cdn" not in text
        assert "eval(" not in text and "innerHTML" not in text and "Function(" not in text


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/%2e%2e/session.py",
        "/page/index.html",
        "//etc/passwd",
        "/studio.js/..",
        "/index.html?x",
        "/session.py",
    ],
)
def test_no_path_leads_anywhere_else(server: StudioServer, path: str) -> None:
    status, _, content = ask(server, "GET", path)
    assert status == 404 and b"root:" not in content


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil", "[::2]"],
)
def test_other_hosts_are_refused(server: StudioServer, host: str) -> None:
    assert ask(server, "GET", "/", Host=host)[0] == 421
    assert post(server, {"action": "hello"}, Host=host)[0] == 421


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1", "[::1]:5"])
def test_names_of_this_machine_are_not(server: StudioServer, host: str) -> None:
    assert ask(server, "GET", "/", Host=host)[0] == 200


def test_messages_of_other_sites_are_refused(server: StudioServer) -> None:
    port = server.server_address[1]
    hello = {"action": "hello"}
    assert post(server, hello, Origin=f"http://127.0.0.1:{port}")[0] == 200
    assert post(server, hello, Origin="http://evil.example")[0] == 403
    assert post(server, hello, Origin="null")[0] == 403
    assert post(server, hello, Origin=f"http://localhost:{port}")[0] == 403
    assert post(server, hello, Sec_Fetch_Site="cross-site")[0] == 403
    assert post(server, hello, Content_Type="text/plain")[0] == 403
    assert post(server, hello, **{HEADER.replace("-", "_"): ""})[0] == 403
    assert ask(server, "POST", "/", b"{}")[0] == 404
    assert ask(server, "PUT", "/message", b"{}")[0] == 501


def test_large_long_and_broken_messages_are_refused(server: StudioServer) -> None:
    assert post(server, b" " * (MOST_BYTES + 1))[0] == 413
    assert post(server, b"{}", Content_Length="-5")[0] in (400, 411)
    assert post(server, b"{}", Transfer_Encoding="chunked")[0] == 411
    for body in (b"", b"[]", b"\xff", b'{"action": "add"}', b"[" * 60_000):
        status, told = post(server, body)
        assert status == 400 and told["error"]
    status, told = post(server, {"action": "look", "session": "guessed"})
    assert status == 400 and "load it again" in told["error"]
    status, told = post(server, {"action": "look"})
    assert status == 400 and "hello" in told["error"]
    assert post(server, {"action": "hello"})[0] == 200  # it still works


def test_garbage_on_the_line_does_not_stop_the_server(server: StudioServer) -> None:
    for sent in (b"\x00\xff\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"POST /message HTTP/1.1\r\n"):
        address = ("127.0.0.1", server.server_address[1])
        with socket.create_connection(address, timeout=PATIENCE) as line:
            line.sendall(sent)
    assert ask(server, "GET", "/")[0] == 200


# ---- connections that take their time ------------------------------------------------------


def drips(server: StudioServer, count: int) -> list[socket.socket]:
    """Open connections that have begun a request and do not end it."""
    address = ("127.0.0.1", server.server_address[1])
    lines = [socket.create_connection(address, timeout=PATIENCE) for _ in range(count)]
    for line in lines:
        line.sendall(b"POST /message HTTP/1.1\r\nHost: a")
    return lines


@pytest.mark.finding("item 9")
def test_connections_that_drip_lock_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for patience in ("REQUEST_SECONDS", "SECONDS"):
        monkeypatch.setattr(web, patience, 10 * PATIENCE)  # none of them goes by itself
    with serving(tmp_path, TOKEN) as server:
        lines = drips(server, 2 * MOST_CONNECTIONS)
        key = {TOKEN_HEADER.replace("-", "_"): TOKEN}
        assert post(server, {"action": "hello"}, **key)[0] == 200
        assert lines[0].recv(1) == b""  # the oldest had to go
        for line in lines:
            line.close()


def test_a_connection_with_the_token_stays(tmp_path: Path) -> None:
    with serving(tmp_path, TOKEN) as server:
        port = server.server_address[1]
        kept = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        headers = {"Content-Type": "application/json", HEADER: "1", TOKEN_HEADER: TOKEN}
        kept.request("POST", "/message", b'{"action": "hello"}', headers)
        name = json.loads(kept.getresponse().read())["session"]
        lines = drips(server, 2 * MOST_CONNECTIONS)
        message = json.dumps({"action": "look", "session": name}).encode()
        kept.request("POST", "/message", message, headers)
        assert kept.getresponse().status == 200
        for line in (kept, *lines):
            line.close()


@pytest.mark.parametrize("patience", ["REQUEST_SECONDS", "SECONDS"])
def test_a_request_has_a_deadline_however_it_drips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: str
) -> None:
    for name in ("REQUEST_SECONDS", "SECONDS"):
        monkeypatch.setattr(web, name, 0.5 if name == patience else 10 * PATIENCE)
    with serving(tmp_path, TOKEN) as server:
        begin = perf_counter()
        (line,) = drips(server, 1)
        line.settimeout(0.1)
        while perf_counter() - begin < PATIENCE:
            try:
                line.sendall(b"a")
                if line.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert 0.3 < perf_counter() - begin < PATIENCE
        line.close()


def test_a_message_whose_length_is_a_thousand_digits_is_refused(server: StudioServer) -> None:
    assert post(server, b"{}", Content_Length="1" * 5000)[0] == 413


def test_old_sessions_make_room(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        names = [
            post(server, {"action": "hello"})[1]["session"] for _ in range(MOST_SESSIONS + 1)
        ]
        assert post(server, {"action": "look", "session": names[0]})[0] == 400
        assert post(server, {"action": "look", "session": names[-1]})[0] == 200


def test_token(tmp_path: Path) -> None:
    with serving(tmp_path, TOKEN) as server:
        key = TOKEN_HEADER.replace("-", "_")
        assert post(server, {"action": "hello"})[0] == 401
        assert post(server, {"action": "hello"}, **{key: TOKEN[:-1] + "x"})[0] == 401
        assert post(server, {"action": "hello"}, **{key: TOKEN})[0] == 200
        assert server.address.endswith(f"/#token={TOKEN}")


def test_a_token_is_required_beyond_loopback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [is_loopback(h) for h in ("127.0.0.1", "localhost", "::1", "127.9.9.9")] == [
        True
    ] * 4
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.1.2", "example.org", "")))
    for host in ("0.0.0.0", "::", "192.168.1.2", ""):
        with pytest.raises(RefusedError, match="--token"):
            AccessRules(host)
    with pytest.raises(RefusedError, match="at least 16"):
        AccessRules("0.0.0.0", "short")
    with pytest.raises(RefusedError, match="letters and digits"):
        AccessRules("127.0.0.1", "a token with spaces & more")
    where = ["--no-browser", "--folder", str(tmp_path)]
    assert cli.main(["studio", CHAIN, "--host", "0.0.0.0", *where]) == 2
    assert "--token" in capsys.readouterr().err


def arguments(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    studio_command.add_arguments(parser)
    return parser.parse_args(given)


def test_what_is_opened() -> None:
    problem, log = studio_command._problem(arguments())
    assert problem.tree.name == "humanoid" and log is not None and log.is_file()
    assert problem.estimation.robot.nv == 35
    problem, log = studio_command._problem(arguments("catalogue:nao"))
    assert problem.layout == "catalogue:nao" and log is None
    problem, _ = studio_command._problem(arguments("example:humanoid", "--floating-base"))
    assert "root/torque" in problem.sensors.names
    assert len(problem.sensors) == problem.tree.n_bodies + 1  # no contact, no drive, no more


def test_a_robot_that_is_not_there_and_a_bad_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["studio", "no_such.urdf", "--no-browser"]) == 2
    assert "no_such.urdf" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["studio", "--port", "70000"])
    assert "65535" in capsys.readouterr().err


def test_a_port_in_use_and_a_missing_folder_are_told(
    server: StudioServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = ["--port", str(server.server_address[1]), "--folder", str(tmp_path)]
    assert cli.main(["studio", CHAIN, "--no-browser", *taken]) == 2
    assert "--port" in capsys.readouterr().err
    assert cli.main(["studio", CHAIN, "--no-browser", "--folder", str(tmp_path / "no")]) == 2
    assert "no such folder" in capsys.readouterr().err


# ---- the command ---------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_ends_when_interrupted(tmp_path: Path) -> None:
    words = ["studio", "--no-browser", "--port", 0, "--json", "--folder", tmp_path]
    with dynsys_started(*words, preexec_fn=in_background) as child:
        assert told_by(child)["address"].startswith("http://127.0.0.1:")
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0 and b"Traceback" not in err, err
