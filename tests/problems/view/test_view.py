"""``dynsys view``: what is shown, and the page of the real viser in a browser."""

from __future__ import annotations

import re
import signal
import sys
import urllib.request
from collections.abc import Iterator
from io import BytesIO
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import pytest

import dynsys
import sensors
from dynsys.recursive.kinematics import poses, transforms
from experiments.example_robots import robots_folder
from problems.command.demo_log import bundled
from problems.problem_file import ProblemFile, load_problem
from problems.view.page import ViewPage
from problems.view.playback import MOST, Playback, solve_playback, touched_frames
from problems.view.scene import FORCE, RobotScene, hull_of
from tests.problems.chromium import chromium
from tests.problems.command.command_line import run
from tests.processes import dynsys_started, in_background, told_by

LOG = str(bundled("humanoid_log.npz"))
PATIENCE = 240.0
SOON = 60.0
"""Seconds until an interrupted page has ended, on a busy machine."""


@pytest.fixture(scope="module")
def humanoid() -> ProblemFile:
    return load_problem(bundled("humanoid.yaml"))


@pytest.fixture(scope="module")
def playback(humanoid: ProblemFile) -> Playback:
    return solve_playback(humanoid, LOG, touched_frames(humanoid))


# ---- what is shown --------------------------------------------------------------------------


def test_contacts_are_outputs_and_bodies_that_nothing_calls_untouched(
    humanoid: ProblemFile,
) -> None:
    assert touched_frames(humanoid) == ("l_sole", "r_sole", "l_hand", "r_hand")


def test_a_playback_is_what_solve_says(humanoid: ProblemFile, playback: Playback) -> None:
    samples = humanoid.samples(LOG)
    k = 250
    e = humanoid.estimation.solve(samples.q[k], samples.qd[k], samples.y[k])
    assert playback.n_samples == len(playback.time) == len(samples.time) <= MOST
    assert playback.at(float(playback.time[k]) + 1e-4) == k and playback.at(-1.0) == 0
    np.testing.assert_allclose(playback.torque[k], e.torque.array, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(playback.torque_std[k], e.std.torque.array, rtol=1e-6, atol=1e-9)
    hand = playback.frames.index("r_hand")
    np.testing.assert_allclose(
        playback.force[k, hand], e.external_wrench["r_hand"][3:], rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(
        playback.force_std[k, hand], e.std.external_wrench["r_hand"][3:], rtol=1e-6
    )
    assert playback.p_value[k] == pytest.approx(float(e.p_value), rel=1e-6)


def test_long_logs_are_shown_at_some_samples(
    humanoid: ProblemFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("problems.view.playback.MOST", 7)
    few = solve_playback(humanoid, LOG, ())
    assert len(few.time) == 7 and few.n_samples == 400 and few.force.shape == (7, 0, 3)


def test_hulls_face_outwards() -> None:
    points, faces = hull_of([(0, 0, 0, 0.1), (0, 0, 1, 0.05)])
    a, b, c = (points[faces[:, k]] for k in range(3))
    volume = float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum()) / 6
    assert 0.9 * np.pi * 0.0067 < volume < np.pi * 0.01 + 0.01


class Recorded:
    """A server of viser that keeps what it is told."""

    def __init__(self) -> None:
        self.handles: dict[str, Any] = {}
        self.scene = self

    def __getattr__(self, name: str) -> Any:
        def add(path: str = "", *args: Any, **options: Any) -> Any:
            handle = type("Handle", (), {})()
            vars(handle).update(options, args=args, kind=name)
            self.handles[path] = handle
            return handle

        return add

    def atomic(self) -> Any:
        from contextlib import nullcontext

        return nullcontext()


def test_arrows_start_at_their_frame_and_end_in_a_ball_of_two_deviations(
    humanoid: ProblemFile, playback: Playback
) -> None:
    server, k = Recorded(), 250
    scene = RobotScene(server, humanoid, playback.frames)
    scale = scene.arrow_scale(playback.force)
    scene.show(playback.q[k], playback.force[k], playback.force_std[k], scale)
    robot = humanoid.tree
    placed = poses(robot, transforms(robot, playback.q[k]))
    for i, name in enumerate(playback.frames):
        frame = robot.frame(name)
        start, tip = server.handles["/forces"].points[i]
        np.testing.assert_allclose(
            start, placed[frame.body].point(frame.transform.r), atol=1e-5
        )
        turn = placed[frame.body].E.T @ frame.transform.E.T
        np.testing.assert_allclose(tip - start, scale * turn @ playback.force[k, i], atol=1e-5)
        ball = server.handles[f"/spread/{name}"]
        np.testing.assert_allclose(ball.position, tip, atol=1e-5)
        expected = np.maximum(2 * scale * playback.force_std[k, i], 1e-4)
        np.testing.assert_allclose(ball.scale, expected, rtol=1e-9)
    longest = np.linalg.norm(playback.force, axis=-1).max() * scale
    assert longest == pytest.approx(0.4 * scene.size)
    assert sum(path.endswith("/solid") for path in server.handles) == robot.n_bodies
    assert "sensor_chest_imu" in "".join(server.handles)


def test_forces_at_a_turned_frame_point_along_its_axes() -> None:
    if robots_folder() is None:
        pytest.skip("example-robot-data is not installed")
    problem, force = load_problem("catalogue:panda"), np.array([[3.0, -2.0, 7.0]])
    robot, server = problem.tree, Recorded()
    q = robot.random_configuration(0)
    RobotScene(server, problem, ("panda_hand",), meshes=False).show(q, force, force, 0.01)
    hand = dynsys.forward_kinematics(robot, q, "panda_hand")
    start, tip = server.handles["/forces"].points[0]
    assert not np.allclose(robot.frame("panda_hand").transform.E, np.eye(3))
    np.testing.assert_allclose(start, hand.r, atol=1e-5)
    np.testing.assert_allclose(tip - start, 0.01 * hand.E.T @ force[0], atol=1e-5)


def test_the_ground_is_below_the_soles_and_the_robot_in_the_middle(
    humanoid: ProblemFile,
) -> None:
    server, robot = Recorded(), humanoid.tree
    scene = RobotScene(server, humanoid, (), meshes=False)
    q = robot.neutral()
    sole = dynsys.forward_kinematics(robot, q, "l_sole").r
    x, y, z = scene.stand_on_ground(q)
    ground = server.handles["/ground"].position
    assert ground[2] == pytest.approx(sole[2]) and abs(y) < 0.01 * scene.size
    assert 0.3 * scene.size < z - sole[2] < scene.size
    q[:3] += (1.0, 2.0, -3.0)  # elsewhere it is the same picture
    np.testing.assert_allclose(scene.stand_on_ground(q), [x + 1.0, y + 2.0, z - 3.0])
    np.testing.assert_allclose(server.handles["/ground"].position, (0.0, 0.0, ground[2] - 3.0))


def test_what_is_not_determined_has_no_ball(humanoid: ProblemFile, playback: Playback) -> None:
    server = Recorded()
    scene = RobotScene(server, humanoid, playback.frames)
    std = playback.force_std[0].copy()
    std[1] = np.nan
    scene.show(playback.q[0], playback.force[0], std, 0.001)
    shown = [server.handles[f"/spread/{name}"].visible for name in playback.frames]
    assert shown == [True, False, True, True]


def test_meshes_where_the_file_has_them() -> None:
    pytest.importorskip("trimesh")
    if robots_folder() is None:
        pytest.skip("example-robot-data is not installed")
    problem = load_problem("catalogue:panda")
    server = Recorded()
    scene = RobotScene(server, problem, ())
    shapes = [path for path in server.handles if "/shape_" in path]
    assert scene.has_shapes and len(shapes) >= 7 and not scene.notes
    assert not [path for path in server.handles if path.endswith("/solid")]
    plain = RobotScene(Recorded(), problem, (), meshes=False)
    assert not plain.has_shapes


def test_boxes_and_cylinders_of_the_file_are_drawn(tmp_path: Path) -> None:
    """A quadruped of cylinders was shown as slabs that did not reach its toes."""
    pytest.importorskip("trimesh")
    server = Recorded()
    robot = Path(dynsys.__file__).parent / "model" / "data" / "humanoid.urdf"
    (tmp_path / "p.yaml").write_text(f"robot: {robot}\nlayout: catalogue:nao\nbase: floating\n")
    scene = RobotScene(server, load_problem(tmp_path / "p.yaml"), ())
    assert scene.has_shapes and [path for path in server.handles if "/shape_" in path]
    assert not [path for path in server.handles if path.endswith("/solid")]


# ---- the page -------------------------------------------------------------------------------


def forces(picture: bytes) -> int:
    """Pixels of the colour of forces, seen through glass or not."""
    from matplotlib.image import imread

    image = imread(BytesIO(picture), format="png")[..., :3]
    r, g, b = image[..., 0], image[..., 1], image[..., 2]
    assert FORCE[0] > FORCE[1] > FORCE[2]
    return int(((r > g + 0.1) & (g > b + 0.05) & (np.arange(image.shape[1]) < 1000)).sum())


@pytest.fixture(scope="module")
def shown(
    humanoid: ProblemFile, playback: Playback
) -> Iterator[tuple[ViewPage, dict[str, Any]]]:
    """A page, and its controls by their labels."""
    gui, controls = pytest.importorskip("viser").GuiApi, {}

    def kept(add: Any) -> Any:
        def added(self: Any, label: str, *rest: Any, **named: Any) -> Any:
            controls[label] = add(self, label, *rest, **named)
            return controls[label]

        return added

    with pytest.MonkeyPatch.context() as patched:
        for name in ("add_checkbox", "add_dropdown", "add_slider"):
            patched.setattr(gui, name, kept(getattr(gui, name)))
        page = ViewPage(humanoid, playback, port=0)
    yield page, controls
    page.close()


@pytest.fixture(scope="module")
def page(shown: tuple[ViewPage, dict[str, Any]]) -> ViewPage:
    return shown[0]


@pytest.mark.slow
def test_the_page_shows_robot_time_and_forces(page: ViewPage) -> None:
    pytest.importorskip("matplotlib")
    with chromium("--use-angle=swiftshader", "--enable-unsafe-swiftshader") as browser:
        browser.get(page.address)
        end = monotonic() + PATIENCE
        page.show(2.5)  # the push on the right hand
        while forces(shot := browser.get_screenshot_as_png()) < 50 and monotonic() < end:
            sleep(0.5)
        text = browser.find_element("tag name", "body").text
        errors = [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]
    assert forces(shot) >= 50
    for word in ("humanoid", "time [s]", "r_hand", "p-value", "torque of"):
        assert word in text
    assert not errors


@pytest.mark.slow
@pytest.mark.parametrize("width", [420, 1500])
def test_controls_leave_room_for_the_robot(page: ViewPage, width: int) -> None:
    """In wide windows they stand beside the picture; in narrow ones most are folded."""
    with chromium("--use-angle=swiftshader", "--enable-unsafe-swiftshader") as browser:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(page.address)
        end = monotonic() + PATIENCE
        while not (free := browser.execute_script(FREE)) and monotonic() < end:
            sleep(0.5)
        text = browser.find_element("tag name", "body").text
    assert "time [s]" in text and "play" in text
    assert ("torque of" in text) == (width > 500)
    assert free > (0.75 * 420 * 900 if width < 500 else 0.6 * 1500 * 900)


HOSTILE = "a | b <iframe srcdoc='x'> `c` *d*"
URDF = """<robot name="{0}"><link name="base"/><link name="{0}"><inertial><mass value="1"/>
  <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
  <joint name="{0}" type="continuous"><parent link="base"/><child link="{0}"/></joint>
  </robot>"""


@pytest.mark.finding("Y-42")
def test_names_of_the_robot_are_no_markup_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTML within viser's Markdown is run, scripts and all, and "|" ends a cell."""
    viser = pytest.importorskip("viser")
    shown: list[Any] = []
    add = viser.GuiApi.add_markdown

    def kept(gui: Any, text: str) -> Any:
        shown.append(add(gui, text))
        return shown[-1]

    monkeypatch.setattr(viser.GuiApi, "add_markdown", kept)
    (tmp_path / "r.urdf").write_text(URDF.format(escape(HOSTILE)))
    (tmp_path / "p.yaml").write_text("robot: r.urdf\nlayout: l.yaml\n")
    robot = dynsys.load(tmp_path / "r.urdf")
    sensors.Layout(robot, sensors.all_joint_torques(robot, std=1.0)).save(tmp_path / "l.yaml")
    one, force = np.ones((1, 1)), np.ones((1, 1, 3))
    playback = Playback(one[0], one, one, one, (HOSTILE,), force, force, one[0], 1)
    page = ViewPage(load_problem(tmp_path / "p.yaml"), playback, port=0)
    texts = (markdown.content.splitlines()[-1] for markdown in shown)
    title, row = (re.sub(r"\\[!-/:-@[-`{-~]", "", words) for words in texts)
    page.close()
    assert row.count("|") == 4 and title.count("*") == 4
    assert not set("<>`") & {*row, *title}


FREE = """const canvas = document.querySelector("canvas");
if (!document.body.innerText.includes("time [s]") || !canvas) return 0;
const box = canvas.getBoundingClientRect(), step = 10;
let free = 0;
for (let x = box.left + step / 2; x < box.right; x += step) {
  for (let y = box.top + step / 2; y < box.bottom; y += step) {
    const over = document.elementFromPoint(x, y);
    free += over === canvas || over.contains(canvas) || over.tagName === "CANVAS";
  }
}
return free * step * step;"""
"""Pixels of the picture that nothing covers, once the controls are there."""


def test_the_page_is_served_on_loopback_alone_and_plays(
    shown: tuple[ViewPage, dict[str, Any]],
) -> None:
    page, controls = shown
    time, playing = controls["time [s]"], controls["play"]
    assert page.address.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(page.address, timeout=30) as answer:
        assert b"<html" in answer.read().lower()
    playing.value = True
    begin, left = float(time.value), iter(range(12))
    page.play(lambda: next(left, None) is None)
    assert float(time.value) > begin
    playing.value = False


def test_at_half_the_speed_half_of_the_time_passes(
    shown: tuple[ViewPage, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    page, controls = shown
    time, playing, speed = (controls[label] for label in ("time [s]", "play", "speed"))
    clock = count(step=0.1)
    monkeypatch.setattr("problems.view.page.perf_counter", clock.__next__)
    monkeypatch.setattr("problems.view.page.sleep", lambda _: None)
    playing.value = True
    for chosen, passed in (("0.5", 0.05), ("2", 0.2)):
        speed.value, time.value = chosen, 0.0
        page.play(iter([False, True]).__next__)
        assert float(time.value) == pytest.approx(passed)
    playing.value, speed.value = False, "1"


def test_without_a_log_joints_have_sliders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between their limits, half a turn to both sides where there are none; they move it."""
    viser = pytest.importorskip("viser")
    shown: dict[str, Any] = {}
    add = viser.GuiApi.add_slider

    def added(gui: Any, name: str, *numbers: float) -> Any:
        shown[name] = add(gui, name, *numbers)
        return shown[name]

    monkeypatch.setattr(viser.GuiApi, "add_slider", added)
    bodies = "".join(
        f'<link name="{name}"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0"'
        ' iyy="1" iyz="0" izz="1"/></inertial></link>'
        for name in ("a", "b")
    )
    joint = '<joint name="{}" type="{}"><parent link="{}"/><child link="{}"/>{}</joint>'
    limit = '<limit lower="0.5" upper="1.5" effort="1" velocity="1"/>'
    (tmp_path / "r.urdf").write_text(
        f'<robot name="two"><link name="base"/>{bodies}'
        + joint.format("free", "continuous", "base", "a", "")
        + joint.format("held", "revolute", "a", "b", limit)
        + "</robot>"
    )
    problem = ProblemFile(str(tmp_path / "r.urdf"), {"sensors": []})
    page = ViewPage(problem, None, port=0)
    try:
        found = {name: (s.min, s.max, s.value) for name, s in shown.items()}
        assert found["held"] == (0.5, 1.5, 0.5)
        np.testing.assert_allclose(found["free"], (-np.pi, np.pi, 0.0))
        postures: list[Any] = []
        monkeypatch.setattr(page.scene, "show", lambda q: postures.append(q.copy()))
        shown["held"].value = 1.25
        np.testing.assert_allclose(postures[-1], [0.0, 1.25])
        page.play(iter([False, True]).__next__)
    finally:
        page.close()


# ---- the command ----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_tells_its_address_and_ends_when_interrupted() -> None:
    pytest.importorskip("viser")
    words = ["view", bundled("humanoid.yaml"), "--json", "--no-browser", "--port", "0"]
    with dynsys_started(*words, preexec_fn=in_background) as child:
        told = told_by(child)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=SOON)
    assert told["address"].startswith("http://127.0.0.1:") and not told["meshes"]
    assert child.returncode == 0 and b"Traceback" not in err, err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--host", "0.0.0.0"], "--allow-network"), (["nowhere.npz"], "no such log")],
)
def test_bad_input(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    status, _, err = run(capsys, "view", bundled("humanoid.yaml"), *arguments, "--no-browser")
    assert status == 2 and words in err


def test_viser_that_is_missing_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)
    status, _, err = run(capsys, "view", bundled("humanoid.yaml"), "--no-browser")
    assert status == 2 and "pip install 'dynsys-robotics[view]'" in err
