"""Studio in headless Chromium: sensors added by clicking, verdict, uncertainty, saved layouts.

Needs Debian's packages chromium and chromium-driver, and selenium.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from problems.command import main as cli
from problems.problem_file import load_problem
from tests.problems.chromium import requested

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from tests.processes import dynsys_started, in_background, told_by

PATIENCE = 240.0
"""Seconds that a busy machine may take for anything."""
CHAIN = "robot: synthetic:chain:3\nlayout:\n  sensors:\n    - "
PROBLEM = (
    CHAIN
    + """{kind: joint_torque, name: first, joint: link_1, std: 0.2}
    - {kind: joint_torque, name: second, joint: link_2, std: 0.2}
    - zero_external_wrench_except
"""
)
TOUCHED = (
    CHAIN
    + """{kind: force_torque, name: wrist, at: link_3, std: 0.01}
    - {kind: imu, name: hand, frame: link_3, std: 0.01}
    - all_joint_accelerations: {std: 0.1}
    - {kind: joint_torque, name: first, joint: link_1, std: 0.2}
    - zero_external_wrench_except: [link_3]
"""
)


SOLES = """robot: example:humanoid
base: floating
layout:
  sensors:
    - {kind: imu, name: probe, frame: l_sole, std: 0.1}
    - all_joint_accelerations: {std: 0.1}
    - all_joint_torques: {std: 0.1}
    - zero_external_wrench_except: [l_sole]
"""
ARM = """<robot name="arm"><link name="base"/>
  <link name="box"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
    iyz="0"/></inertial><visual><geometry><mesh filename="box.stl"/></geometry></visual></link>
  <joint name="turn" type="continuous"><parent link="base"/><child link="box"/>
    <axis xyz="0 0 1"/></joint></robot>"""


class Page:
    """The page in a browser."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def find(self, css: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def text(self, css: str) -> str:
        """Text of an element, nothing while it is not there."""
        script = f"return document.querySelector({css!r})?.innerText ?? ''"
        return str(self.driver.execute_script(script))

    def value(self, css: str) -> str:
        """What stands in a field."""
        return str(self.driver.execute_script(f"return document.querySelector({css!r})?.value"))

    def until(self, condition: Any) -> None:
        WebDriverWait(self.driver, PATIENCE, poll_frequency=0.05).until(lambda _: condition())

    def click(self, css: str) -> None:
        self.driver.execute_script(
            f"document.querySelector({css!r}).scrollIntoView({{block: 'center'}})"
        )
        self.find(css).click()

    def spot(self, number: int) -> tuple[int, int]:
        """Place in the window where a body of the picture can be seen."""
        found = self.driver.execute_script(
            """const link = document.getElementById(`link-${arguments[0]}`);
            const box = link.querySelector(".solid").getBoundingClientRect();
            for (let y = box.top + 2; y < box.bottom; y += 4) {
              for (let x = box.left + 2; x < box.right; x += 4) {
                if (link.contains(document.elementFromPoint(x, y))) return [x, y];
              }
            }""",
            number,
        )
        assert found, f"link {number} is hidden"
        return round(found[0]), round(found[1])

    def click_link(self, number: int) -> None:
        """Click on a body of the picture with the mouse."""
        chain = ActionChains(self.driver)
        chain.w3c_actions.pointer_action.move_to_location(*self.spot(number)).click()
        chain.perform()

    def drag(self, css: str, number: int) -> None:
        """Drag a sensor onto a body of the picture with the mouse."""
        chain = ActionChains(self.driver).click_and_hold(self.find(css)).move_by_offset(6, 6)
        chain.w3c_actions.pointer_action.move_to_location(*self.spot(number))
        chain.release().perform()

    def leader(self, sensor: str) -> list[float]:
        """Place in the picture where a sensor sits."""
        found: list[float] = self.driver.execute_script(
            """const line = document.querySelector(arguments[0]).previousElementSibling;
            return [Number(line.getAttribute("x1")), Number(line.getAttribute("y1"))];""",
            f"#layer-sensors [data-sensor='{sensor}']",
        )
        return found

    def fill(self, number: int) -> str:
        """Colour of a link."""
        return str(
            self.driver.execute_script(
                f"return document.querySelector('#link-{number} .solid').style.fill"
            )
        )

    def retype(self, css: str, text: str) -> None:
        """Type another text and Enter; again if an answer made the field anew meanwhile."""

        def typed() -> bool:
            try:
                self.find(css).send_keys(Keys.CONTROL + "a" + Keys.NULL, text, Keys.ENTER)
            except StaleElementReferenceException:
                return False
            return True

        self.until(typed)

    def open(self, name: str) -> None:
        """Open a layout of the folder."""
        self.click("#tab-files")
        self.until(lambda: name in self.text("#open-name"))
        Select(self.find("#open-name")).select_by_visible_text(name)
        self.click("#open button")
        self.click("#tab-sensors")

    def verdict(self) -> str:
        """Words of the verdict over all postures, once they are there."""
        self.until(lambda: self.find("#verdict").get_attribute("data-state") == "done")
        return self.text("#verdict")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("layouts")
    (path / "start.yaml").write_text(PROBLEM)
    (path / "touched.yaml").write_text(TOUCHED)
    (path / "soles.yaml").write_text(SOLES)
    (path / "arm.urdf").write_text(ARM)
    (path / "arm.yaml").write_text(
        "robot: arm.urdf\nlayout: {sensors: [zero_external_wrench_except]}\n"
    )
    return path


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    words = ["--no-browser", "--port", "0", "--json", "--folder", folder]
    hours = 3600.0  # all tests of this file share it
    with dynsys_started(
        "studio",
        folder / "start.yaml",
        *words,
        seconds=hours,
        stderr=None,
        preexec_fn=in_background,
    ) as process:
        yield str(told_by(process)["address"])
        process.send_signal(signal.SIGINT)
    assert process.returncode == 0


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Page]:
    browser.get(address)
    browser.execute_script("sessionStorage.clear()")
    browser.get(address)
    page = Page(browser)
    page.until(lambda: browser.execute_script("return document.body.dataset.ready") == "true")
    yield page
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.slow
def test_a_sensor_added_by_clicking_changes_verdict_and_uncertainty(
    page: Page, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "1 of 3 torques undetermined" in page.text("#headline")
    assert page.find("#link-2").get_attribute("data-open") == "true"
    assert "undetermined" in page.text("tr[data-joint=link_3]")
    assert "under-determined" in page.verdict()

    page.click("[data-kind=joint_torque]")
    page.click_link(2)
    page.until(lambda: "⚠ determined, but torque of link_3" in page.text("#headline"))
    assert "± 0.1 N m" in page.text("tr[data-joint=link_3]")
    assert page.find("#link-2").get_attribute("data-open") == "false"
    assert "link_3/torque" in page.text("#sensors")
    assert "well posed" in page.verdict()
    page.until(lambda: "operations" in page.text("#cost"))

    ticks = ("#headline", "#glance", "#verdict", "#repairs *")

    def green() -> list[bool]:
        return ["good" in page.find(tick).get_attribute("class").split() for tick in ticks]

    # known to 0.1 N m, where gravity takes 0.7 N m: no green tick
    assert not any(green())
    page.click("[data-sensor='link_3/torque']")
    page.until(lambda: page.text("#selection b") == "link_3/torque")
    page.retype("#std", "0.01")
    page.until(lambda: page.text("#headline") == "✓ determined: all 3 torques")
    assert "well posed" in page.verdict()
    page.until(lambda: all(green()))
    assert "nothing to repair" in page.text("#repairs")

    page.click("#tab-files")
    box = page.find("#save-name")
    box.clear()
    box.send_keys("clicked.yaml", Keys.ENTER)
    page.until(lambda: "saved clicked.yaml" in page.text("#saved"))
    assert cli.main(["check", str(folder / "clicked.yaml"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert f"✓ {told['status']} at" in page.text("#verdict")
    assert told["status"] == "well posed"


@pytest.mark.slow
def test_sensors_are_moved_removed_and_given_noise(page: Page) -> None:
    page.until(lambda: page.find("[data-sensor=second]").is_displayed())
    page.find("[data-sensor=second]").click()
    page.until(lambda: page.text("#selection b") == "second")
    page.find("#std").send_keys(Keys.CONTROL + "a" + Keys.NULL, "0.9", Keys.ENTER)
    page.until(lambda: "± 0.9 N m" in page.text("tr[data-joint=link_2]"))
    Select(page.find("#move-to")).select_by_visible_text("link_3")
    page.click("#move")
    page.until(lambda: "± 0.9 N m" in page.text("tr[data-joint=link_3]"))
    assert "undetermined" in page.text("tr[data-joint=link_2]")
    page.drag("[data-sensor=second]", 1)
    page.until(lambda: "± 0.9 N m" in page.text("tr[data-joint=link_2]"))
    page.drag("[data-sensor=second]", 2)
    page.until(lambda: "undetermined" in page.text("tr[data-joint=link_2]"))
    page.driver.execute_script("document.activeElement.blur()")
    page.find("body").send_keys(Keys.DELETE)
    page.until(lambda: "2 of 3 torques undetermined" in page.text("#headline"))
    page.click("#undo")
    page.until(lambda: "1 of 3 torques undetermined" in page.text("#headline"))


@pytest.mark.slow
def test_repair_posture_and_keyboard(page: Page) -> None:
    page.verdict()
    page.click("[data-repair='0']")
    page.until(lambda: "all 3 torques" in page.text("#headline"))
    before = page.find("#link-2 .solid").get_attribute("d")
    page.click("#tab-posture")
    page.find("#slider-0").send_keys(Keys.ARROW_RIGHT * 3)
    page.until(lambda: page.find("#link-2 .solid").get_attribute("d") != before)
    page.click("#tab-sensors")
    page.find("[data-kind=imu]").send_keys(Keys.SPACE)
    page.driver.execute_script("document.getElementById('link-1').focus()")
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    page.until(lambda: "link_2/imu" in page.text("#sensors"))
    page.driver.refresh()  # the session outlives the page
    page.until(lambda: "link_2/imu" in page.text("#sensors"))


@pytest.mark.slow
def test_a_log_is_played_with_arrows(page: Page, folder: Path) -> None:
    log = ["-o", str(folder / "log.npz"), "--duration", "0.2", "--rate", "50", "--json"]
    assert cli.main(["simulate", str(folder / "touched.yaml"), *log]) == 0
    page.open("touched.yaml")
    page.until(lambda: "6 sensors" in page.text("#count"))
    page.click("#tab-files")
    page.until(lambda: "log.npz" in page.text("#log-name"))
    Select(page.find("#log-name")).select_by_visible_text("log.npz")
    page.click("#open-log button")
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".force-arrow"))
    assert page.text("#time") == "0.00 s"
    page.find("#sample").send_keys(Keys.ARROW_RIGHT * 3)
    page.until(lambda: page.text("#time") == "0.06 s")
    page.click("#close-log")
    page.until(lambda: not page.driver.find_elements(By.CSS_SELECTOR, ".force-arrow"))


@pytest.mark.slow
def test_colours_keep_their_meaning_while_sensors_change(page: Page) -> None:
    first, second, ticks = page.fill(0), page.fill(1), page.text("#legend .ticks")
    assert first == second
    page.find("[data-sensor=second]").click()
    page.until(lambda: page.text("#selection b") == "second")
    page.retype("#std", "90")
    page.until(lambda: page.fill(1) != second)
    assert page.fill(0) == first and page.text("#legend .ticks") == ticks
    page.find("[data-sensor=second]").click()
    page.click("#remove-selected")
    page.until(lambda: "2 of 3 torques undetermined" in page.text("#headline"))
    assert page.fill(0) == first and page.text("#legend .ticks") == ticks
    page.click("#undo")
    page.until(lambda: "1 of 3 torques undetermined" in page.text("#headline"))
    page.click("#refit")
    page.until(lambda: page.fill(0) != first)
    assert page.text("#legend .ticks") != ticks


@pytest.mark.slow
def test_contacts_are_drawn_where_they_are_declared(page: Page) -> None:
    page.open("soles.yaml")
    page.until(lambda: "l_sole" in page.text("#wrenches"))
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".spread, .unseen"))
    begins = page.driver.execute_script(
        """return [...document.querySelectorAll(".spread, .unseen")].map(
          (path) => path.getAttribute("d").slice(1).split(/[ L]/).slice(0, 2).map(Number))"""
    )
    x, y = page.leader("probe")  # an inertial unit at the same frame
    assert all(abs(a - x) < 0.2 and abs(b - y) < 0.2 for a, b in begins)


@pytest.mark.slow
def test_a_dragged_sensor_keeps_its_name_and_is_placed_by_numbers(page: Page) -> None:
    page.click("[data-kind=imu]")
    page.click_link(2)
    page.until(lambda: page.text("#selection b") == "link_3/imu")
    page.drag("#layer-sensors [data-sensor='link_3/imu']", 0)
    page.until(lambda: "at link_1" in page.text("#selection"))
    assert page.text("#selection b") == "link_3/imu"
    before = page.leader("link_3/imu")
    page.retype("#pose-xyz", "0.2, 0 0.1")
    page.until(lambda: page.leader("link_3/imu") != before)
    page.until(lambda: page.value("#pose-xyz") == "0.2, 0, 0.1")
    page.retype("#pose-rpy", "0 0 1.57")
    page.until(lambda: page.value("#pose-rpy") == "0, 0, 1.57")
    page.retype("#pose-xyz", "1, 2")
    page.until(lambda: "three numbers" in page.text("#error"))


@pytest.mark.slow
def test_a_narrow_window_shows_all_of_it(page: Page) -> None:
    sizes = {"width": 420, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sizes)
    try:
        page.until(lambda: page.find("#tab-results").is_displayed())
        wide = "return document.documentElement.scrollWidth"
        assert page.driver.execute_script(wide) <= 420
        assert page.find("#stage").size["width"] > 380
        assert page.find("#stage").size["height"] > 300
        assert not page.find("#right").is_displayed()
        page.click("[data-kind=joint_torque]")
        page.driver.execute_script("window.scrollTo(0, 0)")
        page.click_link(2)
        page.until(lambda: "⚠ determined, but" in page.text("#headline"))
        page.click("#tab-results")
        assert page.find("#verdict-card").is_displayed()
        assert not page.find("#pane-sensors").is_displayed()
        assert "well posed" in page.verdict()
        assert page.driver.execute_script(wide) <= 420
        page.click("#compile")  # reached by scrolling, under nothing else
        page.until(lambda: "Machine code" in page.text("#compiled"))
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.until(lambda: page.find("#pane-sensors").is_displayed())  # wide again: as before
    assert page.find("#right").is_displayed()


@pytest.mark.slow
def test_meshes_are_drawn_clicked_and_switched_off(page: Page, folder: Path) -> None:
    trimesh = pytest.importorskip("trimesh")
    trimesh.creation.box((0.4, 0.3, 0.2)).export(folder / "box.stl")
    page.open("arm.yaml")
    solids = page.find("#solids")
    page.until(lambda: solids.get_attribute("data-triangles") == "12")
    page.until(solids.is_displayed)
    opaque = """const canvas = document.getElementById("solids"), found = [];
      const {width, height} = canvas, pen = canvas.getContext("2d");
      const {data} = pen.getImageData(0, 0, width, height);
      for (let i = 3; i < data.length; i += 4) if (data[i] === 255) found.push((i - 3) / 4);
      if (!found.length) return null;
      const box = canvas.getBoundingClientRect(), at = found[Math.floor(found.length / 2)];
      return [found.length / width / height, box.left + (at % width) * box.width / width,
              box.top + Math.floor(at / width) * box.height / height];"""
    page.until(lambda: page.driver.execute_script(opaque))
    share, x, y = page.driver.execute_script(opaque)
    assert 0.03 < share < 0.6
    chain = ActionChains(page.driver)
    chain.w3c_actions.pointer_action.move_to_location(round(x), round(y)).click()
    chain.perform()
    page.until(lambda: page.text("#selection b") == "box")
    assert "meshed" in page.find("#picture").get_attribute("class")
    page.click("#show-meshes")
    page.until(lambda: not solids.is_displayed())
    assert "meshed" not in page.find("#picture").get_attribute("class")


@pytest.mark.slow
def test_compiling_is_priced_and_a_search_stopped_and_saved(page: Page, folder: Path) -> None:
    page.open("touched.yaml")
    page.until(lambda: "6 sensors" in page.text("#count"))
    page.until(lambda: "to machine code takes about" in page.text("#price"))
    page.retype("#search-seconds", "300")  # Enter starts it
    page.until(lambda: "operations, was" in page.text("#search-words"))
    assert "of 300 s" in page.text("#search-words")
    page.click("#search-stop")
    page.until(lambda: "operations" in page.text("#searched"))
    assert page.find("#search").is_displayed()
    page.click("#compile")
    page.until(lambda: "Machine code of the order found" in page.text("#compiled"))
    page.click("#tab-files")
    box = page.find("#save-name")
    box.clear()
    box.send_keys("searched.yaml", Keys.ENTER)
    page.until(lambda: "searched.yaml and searched.plan.json" in page.text("#saved"))
    assert load_problem(folder / "searched.yaml").planned.executes is not None


@pytest.mark.slow
def test_nothing_is_asked_of_other_machines(page: Page, address: str) -> None:
    asked = requested(page.driver)
    ours = [url for url in asked if url.startswith(address)]
    assert ours and set(asked) == set(ours)
