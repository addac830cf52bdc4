"""The page of ``dynsys live`` in headless Chromium, a log at its own pace as the robot."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from problems.problem_file import load_problem
from tests.problems.chromium import chromium, requested
from tests.problems.live.live_cases import new_session
from tests.problems.live.test_live_command import live_started

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

PATIENCE = 240.0
"""Seconds: machines may be busy."""
TOKEN = "letters0and1digits"
HOSTILE = "<img src=x onerror=alert(1)>&quot;"
PROBLEM = """robot: arm.urdf
layout:
  sensors:
    - all_joint_torques: {std: 0.2}
    - {kind: imu, name: hand, frame: tip, std: [0.05, 0.01]}
    - all_joint_accelerations: {std: 0.3}
    - {kind: force_torque, name: wrist, at: elbow, std: [0.05, 0.5]}
    - zero_external_wrench_except: [tip]
outputs: [torque, std.torque, external_wrench.tip, std.external_wrench.tip]
"""
LINK = """<link name="{}"><inertial><origin xyz="0 0 0.15"/><mass value="2"/>
  <inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.01"/></inertial></link>"""
JOINT = """<joint name="{}" type="revolute"><parent link="{}"/><child link="{}"/>
  <origin xyz="0 0 {}"/><axis xyz="{}"/><limit lower="-2" upper="2" effort="9" velocity="9"/>
  </joint>"""


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Problem and log of an arm; one link's name is an attack, one sample a contradiction."""
    folder = tmp_path_factory.mktemp("arm")
    attack = HOSTILE.replace("&", "&amp;").replace("<", "&lt;")
    links = ["base", "upper", attack, "tip"]
    joints = [("shoulder", 0.1, "0 1 0"), ("elbow", 0.3, "0 1 0"), ("wrist", 0.3, "1 0 0")]
    parts = ['<link name="base"/>', *map(LINK.format, links[1:])]
    for k, (name, z, axis) in enumerate(joints):
        parts.append(JOINT.format(name, links[k], links[k + 1], z, axis))
    (folder / "arm.urdf").write_text(f'<robot name="arm">{"".join(parts)}</robot>')
    problem = folder / "problem.yaml"
    problem.write_text(PROBLEM)
    # Compiled here, however long that takes: beside other work it alone outlasted all patience.
    loaded = load_problem(problem)
    new_session(loaded, loaded.outputs)
    return problem, folder / "log.npz"


@pytest.fixture(scope="module")
def log(arm: tuple[Path, Path]) -> Path:
    from problems.command import main as cli

    problem, path = arm
    where = ["--duration", "6", "--rate", "200"]
    assert cli.main(["simulate", str(problem), "-o", str(path), *where]) == 0
    assert HOSTILE in load_problem(problem).tree.body_names
    with np.load(path) as read:
        arrays = dict(read)
    assert arrays["time"][400] == pytest.approx(2.0)
    arrays["hand"][400] += 50.0  # one sample of 5 ms, between two pictures of the page
    np.savez(path, **arrays)
    return path


@contextmanager
def live(*arguments: object) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """``dynsys live`` and the address of its page."""
    with live_started(*arguments, "--page", 0) as child:
        assert child.stderr is not None and child.stdout is not None
        Thread(target=child.stdout.read, daemon=True).start()
        for line in child.stderr:
            if found := re.search(rb"page: (\S+)", line):
                break
        rest: list[bytes] = []
        Thread(target=lambda: rest.append(child.stderr.read()), daemon=True).start()  # type: ignore[union-attr]
        try:
            assert found
            yield child, found[1].decode()
        finally:
            for sent in (signal.SIGINT, signal.SIGCONT):  # also where a test left it stopped
                child.send_signal(sent)
            child.wait(PATIENCE)


class Page:
    """The page in a browser."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def text(self, css: str) -> str:
        script = "return document.querySelector(arguments[0])?.innerText ?? ''"
        return str(self.driver.execute_script(script, css))

    def value(self, script: str, *given: object) -> Any:
        return self.driver.execute_script(f"return {script}", *given)

    def until(self, condition: Any) -> None:
        WebDriverWait(self.driver, PATIENCE, poll_frequency=0.05).until(lambda _: condition())

    def find(self, css: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def press(self, name: str, key: str) -> None:
        """Press a key on an element of the picture, which the keyboard reaches by Tab."""
        assert self.value("document.getElementById(arguments[0]).tabIndex", name) == 0
        self.driver.execute_script("document.getElementById(arguments[0]).focus()", name)
        ActionChains(self.driver).send_keys(key).perform()

    def first_plot(self) -> str:
        return str(self.value("document.querySelector('#plots .plot').dataset.column"))

    def state(self) -> str:
        return str(self.value("document.getElementById('state').dataset.state ?? ''"))

    def fact(self, name: str) -> str:
        return self.text(f"[data-fact='{name}'] dd")

    def window(self, width: int, scheme: str = "light") -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


@pytest.mark.slow
def test_a_log_at_its_own_pace(arm: tuple[Path, Path], log: Path, browser: Any) -> None:
    page = Page(browser)
    page.window(1500)
    with live(arm[0], "--replay", log, "--token", TOKEN) as (child, address):
        child.send_signal(signal.SIGSTOP)  # the log begins when the page is there to see it
        browser.get(address)
        page.until(lambda: page.value("document.body.dataset.ready") == "true")
        first = page.value("document.querySelector('#link-1 .solid').getAttribute('d')")
        child.send_signal(signal.SIGCONT)
        page.until(lambda: page.state() == "ended")
        page.until(lambda: page.fact("samples") == "1,200")
        # the robot moved, and its contact force is an arrow
        last = page.value("document.querySelector('#link-1 .solid').getAttribute('d')")
        assert first and last and first != last
        assert page.value("document.querySelectorAll('#layer-arrows .force-arrow').length") == 1
        # counts
        assert page.fact("lost") == page.fact("refused") == "0"
        assert float(page.fact("per second")) == pytest.approx(200, rel=0.02)
        assert "µs" in page.fact("latency") or "ms" in page.fact("latency")
        # the one sample that contradicts is seen: an alarm, a mark, a p-value at the bottom
        assert page.text("#alarms li b") == "2.000 s"
        assert page.value("document.querySelectorAll('#p-value .alarm-start').length") == 1
        depth = page.value(
            """(() => { const y = document.querySelector('#p-value .curve').getAttribute('d')
            .match(/ [-\\d.]+/g).map(Number); return Math.max(...y); })()"""
        )
        assert depth == pytest.approx(
            page.value("document.getElementById('p-value').clientHeight") - 16, abs=0.2
        )
        # torques with their bands; names are text
        bands = page.value(
            """[...document.querySelectorAll('#plots .plot')]
            .map((p) => [p.dataset.column, p.querySelectorAll('.band').length > 0])"""
        )
        assert len(bands) == 3 and all(has for _, has in bands)
        assert re.search(r"[\d.]+ ± [\d.]+ N m", page.text("[data-joint=wrist] .value"))
        page.find("#show-names").click()
        page.until(
            lambda: HOSTILE in page.value("document.getElementById('layer-notes').textContent")
        )
        assert page.value("document.querySelectorAll('img').length") == 0
        # a late page gets all of it; its address holds no token, no other site was asked
        assert "token" not in browser.current_url
        assert {url.split("/")[2] for url in requested(browser) if "://" in url} == {
            address.split("/")[2]
        }
        browser.refresh()
        page.until(lambda: page.text("#alarms li b") == "2.000 s")
        assert not [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]
        keyboard(page)
        narrow(page)
    page.until(lambda: page.state() in ("ended", "lost"))


def keyboard(page: Page) -> None:
    """All by keys: another output, more plots, fewer, another view, a joint of a link."""
    choice = page.find("#plots select")
    Select(choice).select_by_visible_text("external_wrench.tip.fx")
    page.until(
        lambda: (
            page.value("document.querySelector('#plots .plot').dataset.column")
            == "external_wrench.tip.fx"
        )
    )
    for _ in range(3):
        page.find("#add").send_keys(Keys.ENTER)
    assert page.value("document.querySelectorAll('#plots .plot').length") == 6
    assert not page.find("#add").is_enabled()
    page.find("#plots .plot .head button").send_keys(Keys.ENTER)
    assert page.value("document.querySelectorAll('#plots .plot').length") == 5
    before = page.value("document.querySelector('#link-1 .solid').getAttribute('d')")
    page.press("picture", Keys.ARROW_LEFT)
    assert page.value("document.querySelector('#link-1 .solid').getAttribute('d')") != before
    page.press("link-2", Keys.ENTER)
    page.until(
        lambda: (
            page.value("document.querySelector('#plots .plot').dataset.column")
            == "torque.wrist"
        )
    )
    assert "N m" in page.value("document.getElementById('link-2').getAttribute('aria-label')")
    page.find("#theme").send_keys(Keys.ENTER)
    assert page.value("document.documentElement.classList.contains('dark')")


def narrow(page: Page) -> None:
    """420 pixels, dark by the system: nothing is wider, robot and first plot are in sight."""
    page.window(420, "dark")
    page.driver.refresh()
    page.until(lambda: page.value("document.querySelector('#plots .curve') !== null"))
    assert page.value("document.documentElement.classList.contains('dark')")
    assert page.value("document.documentElement.scrollWidth") == 420
    stage, plot = (
        page.value("document.querySelector(arguments[0]).getBoundingClientRect().toJSON()", css)
        for css in ("#stage", "#plots .plot")
    )
    assert stage["width"] == 420 and stage["height"] >= 300
    assert plot["top"] < 900 and plot["right"] <= 420
    page.window(1500)


@pytest.mark.slow
def test_waiting_samples_that_are_refused_and_a_lost_connection(
    arm: tuple[Path, Path], log: Path, browser: Any
) -> None:
    page = Page(browser)
    with live(arm[0]) as (child, address):
        browser.get(address)
        page.until(lambda: page.fact("samples") == "0")  # what it is told at the first pause
        assert page.state() == "waiting"
        assert "waiting for samples" in page.text("#state")
        assert page.value("document.querySelectorAll('.link').length") == 3
        assert child.stdin is not None
        child.stdin.write(b'{"q": [0]}\n')
        child.stdin.flush()
        page.until(lambda: page.state() == "refusing")
        page.until(lambda: page.fact("refused") == "1" and "q" in page.text("#refusal"))
    page.until(lambda: page.state() in ("ended", "lost"))
