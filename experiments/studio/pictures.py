"""Pictures of studio's page in Chromium without a window, for the documentation.

Needs the packages selenium and pillow, and Chromium with its chromedriver.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from problems.problem_file import load_problem
from problems.report.pdf import find_browser
from problems.studio.background import Lanes, ProcessBackground
from problems.studio.files import Folder
from problems.studio.server import StudioServer
from problems.studio.session import Session
from problems.web import AccessRules

__all__ = ["picture"]

PATIENCE = 120.0
STEP = 10
"""Steps of each colour that are kept: hues stay, and the file is small."""
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
READY = """return document.body.dataset.ready === "true"
  && document.getElementById("verdict").dataset.state === "done"
  && document.getElementById("cost").dataset.state === "done"
  && !document.getElementById("price").textContent.startsWith("…")
  && (arguments[0] === 0 || Number(document.getElementById("solids").dataset.triangles) > 0)"""


def picture(
    path: Path,
    problem: str,
    clicks: Sequence[str] = (),
    size: tuple[int, int] = (1380, 800),
    *,
    meshes: bool = False,
) -> None:
    """Draw the page with a problem, after clicks on what CSS selectors name."""
    from PIL import Image
    from selenium.webdriver.support.ui import WebDriverWait

    with _served(problem) as address, _browser(size) as browser:
        wait = WebDriverWait(browser, PATIENCE)
        browser.get(address)
        for css in ("", *clicks):
            if css:
                browser.execute_script("document.querySelector(arguments[0]).click()", css)
                browser.execute_script("document.getElementById('verdict').dataset.state = ''")
            wait.until(lambda _: browser.execute_script(READY, int(meshes)))
        browser.execute_async_script("setTimeout(arguments[0], 600)")  # drawn finely
        drawn = Image.open(BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    few = np.clip(STEP * np.round(np.asarray(drawn) / STEP), 0, 255).astype(np.uint8)
    Image.fromarray(few).save(path, optimize=True)


@contextmanager
def _served(problem: str) -> Iterator[str]:
    background = Lanes(ProcessBackground(), ProcessBackground())
    with tempfile.TemporaryDirectory() as folder:
        what = load_problem(problem)

        def begin(name: str) -> Session:
            return Session(name, what, Folder(folder), background)

        with StudioServer(AccessRules("127.0.0.1"), 0, begin) as server:
            thread = Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            try:
                yield server.address
            finally:
                server.shutdown()
                thread.join()
                background.close()


@contextmanager
def _browser(size: tuple[int, int]) -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = find_browser() or ""
    for flag in FLAGS:
        options.add_argument(flag)
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    browser = webdriver.Chrome(options=options, service=service)
    width, height = size
    sizes = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    try:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sizes)
        yield browser
    finally:
        browser.quit()
