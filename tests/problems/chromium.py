"""Chromium without a window, behind chromedriver."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from problems.report.pdf import find_browser

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--window-size=1400,900",
)


@contextmanager
def chromium(*more: str) -> Iterator[Any]:
    """A browser that logs its console and network traffic; skips the test if there is none.

    ``more`` are further flags.
    """
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    binary, driver = find_browser(), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no Chromium or no chromedriver: apt-get install chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, *more):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    browser = webdriver.Chrome(options=options, service=service)
    try:
        yield browser
    finally:
        browser.quit()


def requested(browser: Any) -> list[str]:
    """Addresses that the browser has asked for since the last call."""
    messages = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
