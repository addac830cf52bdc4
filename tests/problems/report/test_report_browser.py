"""Reports: the page in a browser, and printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from problems.report import write_pdf
from problems.report.pdf import find_browser
from tests.problems.chromium import requested


@pytest.mark.slow
def test_page_opens_without_console_error_or_request(browser: Any, report_page: Path) -> None:
    browser.get_log("performance")
    browser.get(report_page.as_uri())
    assert browser.get_log("browser") == []
    loaded = [u for u in requested(browser) if not u.startswith(("data:", "chrome:", "about:"))]
    assert loaded == [report_page.as_uri()]
    assert "arm" in browser.page_source


@pytest.mark.slow
def test_pointing_at_an_entry_names_equation_and_unknown(
    browser: Any, report_page: Path
) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.get(report_page.as_uri())
    box = browser.find_element("id", "matrix-1")
    svg, readout = (box.find_element("css selector", s) for s in ("svg", ".readout"))
    svg.send_keys(Keys.ARROW_RIGHT)
    first = readout.text
    assert "equation 1: law of acceleration" in first and "unknown 1: acceleration of" in first
    svg.send_keys(Keys.ARROW_DOWN)
    assert readout.text != first and "no entry" not in readout.text
    button = browser.find_element("css selector", '.kinds button[data-kind="torque"]')
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    dimmed = browser.find_elements("css selector", "#matrix-1 .entries.one path.on")
    assert [path.get_attribute("data-kind") for path in dimmed] == ["torque"]
    assert browser.get_log("browser") == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_page_fits_narrow_and_wide_light_and_dark(
    browser: Any, report_page: Path, scheme: str, width: int
) -> None:
    emulate = browser.execute_cdp_cmd
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    emulate("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    emulate("Emulation.setDeviceMetricsOverride", size)
    browser.get(report_page.as_uri())
    script = "return [document.documentElement.scrollWidth, innerWidth]"
    content, window = browser.execute_script(script)
    assert content <= window
    style = "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
    ink, paper = (_brightness(c) for c in browser.execute_script(style))
    assert (ink > paper) == (scheme == "dark") and abs(ink - paper) > 150
    emulate("Emulation.clearDeviceMetricsOverride", {})
    emulate("Emulation.setEmulatedMedia", {"features": []})


def _brightness(colour: str) -> float:
    return float(np.mean([float(x) for x in re.findall(r"[\d.]+", colour)[:3]]))


@pytest.mark.slow
def test_pdf_is_printed(report_page: Path, tmp_path: Path) -> None:
    if find_browser() is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    made = write_pdf(report_page, tmp_path / "arm.pdf")
    content = made.read_bytes()
    assert content.startswith(b"%PDF-") and len(content) > 20_000
